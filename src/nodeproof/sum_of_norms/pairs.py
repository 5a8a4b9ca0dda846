"""The sum of norms over pairs of nodes: its value, its gradients, and steps on the differences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist, pdist

from nodeproof.runtime import threads

__all__ = ["SumOfNorms", "differences", "forces", "lengths", "shorten", "shrink", "sum_of_norms"]

Array = NDArray[np.float64]

#: Lengths below this count as zero.
TINY = 1e-300

# Distances held in memory at a time.
_MOST_PAIRS = 2**22

# Distances shorter than this share of the models' size are rounding.
_ROUNDING = 1e-14


def sum_of_norms(points: Array) -> float:
    """Return ``Σ_{u<v} ‖θ_u − θ_v‖`` for points of shape (n, d).

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.sum_of_norms import sum_of_norms
    >>> sum_of_norms(np.array([[0.0, 0.0], [0.0, 0.0], [3.0, 4.0]]))
    10.0
    """
    return float(pdist(points).sum()) if points.size else 0.0


def differences(points: Array) -> Array:
    """Return ``θ_u − θ_v`` for points of shape (n, d), shape (n, n, d)."""
    return np.asarray(points[:, None] - points[None])


def lengths(vectors: Array) -> Array:
    """Return the Euclidean norms along the last axis."""
    return np.asarray(np.linalg.norm(vectors, axis=-1))


def shrink(vectors: Array, threshold: float) -> Array:
    """Return vectors shortened by a threshold: the proximal step of ``threshold·‖·‖``.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.sum_of_norms.pairs import shrink
    >>> shrink(np.array([[3.0, 4.0], [0.3, 0.4]]), 1.0)
    array([[2.4, 3.2],
           [0. , 0. ]])
    """
    longest = np.maximum(lengths(vectors), max(threshold, TINY))[..., None]
    return np.asarray(vectors * np.maximum(0.0, 1.0 - threshold / longest))


def shorten(flows: Array, limit: float, margin: float = 1e-12) -> Array:
    """Return flows of which none is longer than a limit.

    The margin keeps them just below it, so that rounding cannot make one too long. Any flows
    ``g_uv = −g_vu`` within the limit bound the sum of norms from below:
    ``limit·Σ_{u<v} ‖θ_u − θ_v‖ ≥ Σ_v ⟨θ_v, Σ_u g_vu⟩``.
    """
    longest = np.maximum(lengths(flows), max(limit, TINY))[..., None]
    return np.asarray(flows * (limit * (1.0 - margin) / longest))


def forces(w: Array, rho: float, limit: float) -> Array:
    """Return ``Σ_u g_vu``, shape (n, d), for the flows that an ADMM's multipliers give.

    Parameters
    ----------
    w : ndarray of shape (n, n, d)
        Scaled multipliers of the differences.
    rho : float
        Their penalty.
    limit : float
        The weight of the sum of norms.
    """
    return np.asarray(shorten(-0.5 * rho * (w - w.swapaxes(0, 1)), limit).sum(axis=1))


class SumOfNorms:
    """``μ1 Σ_{u<v} ‖θ_u − θ_v‖`` with ``θ_v = Σ_i W_vi θ_i``, as a function of W.

    Rows of W that are equal are counted, not repeated: one-hot rows cost K² distances.

    Parameters
    ----------
    models : sequence of ndarray, each of shape (K, ...)
        The class models of each term; θ_i is all of class i, side by side.
    son : float
        μ1.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.sum_of_norms import SumOfNorms
    >>> norms = SumOfNorms([np.array([[0.0, 0.0], [3.0, 4.0]])], son=1.0)
    >>> norms.value(np.eye(2)[[0, 0, 1]])  # two pairs, 5 apart
    10.0
    """

    def __init__(self, models: Sequence[Array], son: float) -> None:
        self.son = son
        self.shapes = [each.shape for each in models]
        flat = np.hstack([each.reshape(len(each), -1) for each in models])
        # In at most K dimensions, which span the models.
        basis, coordinates = np.linalg.qr(flat.T)
        self.basis, self.points = np.asarray(basis), np.ascontiguousarray(coordinates.T)
        self.distances = cdist(flat, flat)
        self._least = _ROUNDING * float(np.abs(flat).max(initial=0.0))

    def value(self, W: NDArray[Any]) -> float:
        """Return the sum over all pairs of nodes."""
        points, counts, _ = self._different(W)
        total = 0.0
        for rows in _chunks(len(points)):
            total += float(counts[rows] @ cdist(points[rows], points) @ counts)
        return 0.5 * self.son * total

    def gradient_W(self, W: NDArray[Any]) -> Array:
        """Return the derivative with respect to W, shape (n, K); 0 from nodes that coincide."""
        pulls, which = self._pulls(W)
        return np.asarray((pulls @ self.points.T)[which])

    def gradient_models(self, W: NDArray[Any]) -> tuple[Array, ...]:
        """Return the derivative with respect to each term's models, each of shape (K, ...)."""
        pulls, which = self._pulls(W)
        gradient = (W.T.astype(np.float64) @ pulls[which]) @ self.basis.T
        ends = np.cumsum([int(np.prod(shape[1:])) for shape in self.shapes])[:-1]
        parts = np.split(gradient, ends, axis=1)
        return tuple(part.reshape(s) for part, s in zip(parts, self.shapes, strict=True))

    def energy(self, W: NDArray[Any]) -> float:
        """Return ``μ1 Σ_{i<j} (N_i N_j − Σ_v W_vi W_vj) ‖θ_i − θ_j‖``, no less than the value."""

        def part(lo: int, hi: int) -> Array:
            rows = W[lo:hi].astype(np.float64)
            return np.vstack([rows.sum(axis=0), rows.T @ rows])

        sums = threads.sum_rows(part, len(W))
        pairs = np.outer(sums[0], sums[0]) - sums[1:]
        return 0.5 * self.son * float(np.vdot(pairs, self.distances))

    def _different(self, W: NDArray[Any]) -> tuple[Array, Array, NDArray[np.int64]]:
        """Return the different θ_v in the basis, how many nodes have each, and which v has."""
        rows, which, counts = np.unique(W, axis=0, return_inverse=True, return_counts=True)
        points = rows.astype(np.float64) @ self.points
        return points, counts.astype(np.float64), which.reshape(-1)

    def _pulls(self, W: NDArray[Any]) -> tuple[Array, NDArray[np.int64]]:
        """Return ``μ1 Σ_u (θ_v − θ_u)/‖θ_v − θ_u‖`` of the different θ_v, and which v has each."""
        points, counts, which = self._different(W)
        pulls = np.empty_like(points)
        for rows in _chunks(len(points)):
            apart = cdist(points[rows], points)
            near = apart <= self._least
            apart[near] = 1.0
            weights = np.where(near, 0.0, counts / apart)
            pulls[rows] = points[rows] * weights.sum(axis=1, keepdims=True) - weights @ points
        return self.son * pulls, which


def _chunks(n: int) -> Iterator[slice]:
    """Cut n rows so that their distances to all n are within some tens of megabytes."""
    step = max(1, _MOST_PAIRS // max(n, 1))
    for first in range(0, n, step):
        yield slice(first, first + step)
