"""What to label next: the nodes whose labels would tell most about all the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof import threads

__all__ = ["most_telling", "most_uncertain"]

Array = NDArray[np.float64]

# So many are chosen one after the other; any beyond them follow by what they tell then.
_ONE_BY_ONE = 1000


def most_uncertain(
    proba: Array, k: int, candidates: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Array]:
    """Return the k candidates whose two likeliest classes are closest, and how close they are.

    That is ``1 − (p₁ − p₂)``; ties go to the lower position.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.querying import most_uncertain
    >>> proba = np.array([[0.9, 0.1, 0.0], [0.5, 0.5, 0.0], [0.4, 0.3, 0.3]])
    >>> most_uncertain(proba, 2, np.arange(3))[0].tolist()
    [1, 2]
    """
    rows = proba[candidates]
    closeness = np.zeros(len(rows))
    if rows.shape[1] > 1:
        second, first = np.partition(rows, -2, axis=1)[:, -2:].T
        closeness = 1.0 - (first - second)
    order = np.argsort(-closeness, kind="stable")[:k]
    return candidates[order], closeness[order]


def most_telling(
    proba: Array,
    rows: NDArray[Any],
    labelled: NDArray[np.int64],
    k: int,
    candidates: NDArray[np.int64],
    ridge: float = 1.0,
) -> tuple[NDArray[np.int64], Array]:
    """Return the k candidates whose labels would lower the uncertainty of all nodes most.

    A linear model on the rows has the variance ``z_uᵀ C z_u`` at node u, ``C = (ρI + Z_LᵀZ_L)⁻¹``.
    One after the other, the candidate is taken that lowers most the sum of the variances, each
    node weighed by how uncertain its class is, ``g = 1 − Σ p²``. What has been taken counts as
    labelled, so the next one is elsewhere. A label counts the less, the surer its class was.

    Two products of the rows with a vector are all that a choice takes; nothing is n×n.

    Parameters
    ----------
    proba : ndarray of shape (n, K)
        Class probabilities.
    rows : ndarray of shape (n, d)
        What tells which nodes are alike: features, averaged over links. Rows longer than most
        count as if they were not: an outlier tells about itself alone.
    labelled : ndarray of shape (l,)
        Nodes whose label is known.
    k : int
        How many to take.
    candidates : ndarray of shape (c,)
        Nodes to choose from, without a label.
    ridge : float
        ρ, for rows of length one in the mean.

    Returns
    -------
    nodes : ndarray of shape (min(k, c),)
        Best first.
    gains : ndarray of shape (min(k, c),)
        By how much the weighted sum of variances falls with each, as a share of what it was.

    Examples
    --------
    Six nodes of one kind, four of another, all as uncertain as can be:

    >>> import numpy as np
    >>> from nodeproof.querying import most_telling
    >>> rows = np.repeat(np.eye(2), [6, 4], axis=0)
    >>> nothing, all_nodes = np.arange(0), np.arange(10)
    >>> most_telling(np.full((10, 2), 0.5), rows, nothing, 2, all_nodes)[0].tolist()
    [0, 6]
    """
    doubt = 1.0 - np.einsum("vi,vi->v", proba, proba)
    if doubt.max(initial=0.0) <= 0.0:
        doubt = np.ones(len(doubt))  # hard assignments: all nodes count alike
    # Where labels tell equally much, above all nothing, the less certain node comes first.
    candidates = candidates[np.argsort(-doubt[candidates], kind="stable")]
    k = min(k, len(candidates))
    scale = _scale_of(rows)
    known = rows[labelled] * scale[labelled, None]
    precision = ridge * np.eye(rows.shape[1]) + known.T @ known
    C = np.asarray(np.linalg.inv(precision), dtype=np.float64)
    weights = doubt.copy()
    weights[labelled] = 0.0
    S = _weighted_products(rows, scale, weights)
    total = float(np.vdot(S, C))

    near = _Part(rows, scale, candidates)
    news = doubt[candidates] / doubt.mean()
    variance, lowered = near.quadratic(C), near.quadratic(C @ (S @ C))
    chosen: list[int] = []
    gains: list[float] = []
    for _ in range(min(k, _ONE_BY_ONE)):
        gain = news * lowered / (1.0 + news * variance)
        gain[chosen] = -1.0
        best = int(np.argmax(gain))
        chosen.append(best)
        gains.append(gain[best])
        if news[best] == 0.0:
            continue
        # C becomes C − uuᵀ/s; with it change zᵀCz and zᵀCSCz of every candidate.
        u = C @ near.row(best)
        s = 1.0 / news[best] + variance[best]
        along, toward = near.times(np.stack([u, C @ (S @ u)], axis=1)).T
        lowered += along / s * (along / s * (u @ S @ u) - 2.0 * toward)
        variance -= along**2 / s
        C -= np.outer(u, u) / s
    gain = news * lowered / (1.0 + news * variance)
    gain[chosen] = -1.0
    rest = np.argsort(-gain, kind="stable")[: k - len(chosen)]
    nodes = candidates[np.concatenate([np.array(chosen, dtype=np.int64), rest])]
    return nodes, np.concatenate([gains, gain[rest]]) / (total or 1.0)


def _scale_of(rows: NDArray[Any]) -> Array:
    """Return what to multiply each row by: lengths then are one in the mean, and at most one."""

    def part(lo: int, hi: int) -> Array:
        return np.einsum("vj,vj->v", rows[lo:hi], rows[lo:hi], dtype=np.float64)

    squares = np.concatenate(threads.map_rows(part, len(rows)))
    return np.asarray(1.0 / np.sqrt(np.maximum(squares, squares.mean() or 1.0)))


def _weighted_products(rows: NDArray[Any], scale: Array, weights: Array) -> Array:
    """Return ``Σ_v w_v z_v z_vᵀ``, shape (d, d)."""

    def part(lo: int, hi: int) -> Array:
        Z = rows[lo:hi] * scale[lo:hi, None]
        return np.asarray((Z * weights[lo:hi, None]).T @ Z)

    return threads.sum_rows(part, len(rows))


class _Part:
    """Scaled rows of some of the nodes; never all of them in float64 at once."""

    def __init__(self, rows: NDArray[Any], scale: Array, nodes: NDArray[np.int64]) -> None:
        self.rows, self.scale, self.nodes = rows, scale, nodes

    def row(self, v: int) -> Array:
        """Return one row, shape (d,)."""
        node = self.nodes[v]
        return np.asarray(self.rows[node] * self.scale[node])

    def times(self, M: Array) -> Array:
        """Return ``Z M``."""
        return self._map(lambda Z: Z @ M)

    def quadratic(self, M: Array) -> Array:
        """Return ``z_vᵀ M z_v`` for each node."""
        return self._map(lambda Z: np.einsum("vj,vj->v", Z @ M, Z))

    def _map(self, function: Callable[[Array], Array]) -> Array:
        def part(lo: int, hi: int) -> Array:
            nodes = self.nodes[lo:hi]
            return function(self.rows[nodes] * self.scale[nodes, None])

        if len(self.nodes) == 0:
            return function(np.empty((0, self.rows.shape[1])))
        return np.concatenate(threads.map_rows(part, len(self.nodes)))
