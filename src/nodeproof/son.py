"""The sum of norms ``Σ_{u<v} ‖θ_u − θ_v‖``: its value, and the pairs it is split into."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

__all__ = ["Pairs", "sum_of_norms"]

Array = NDArray[np.float64]


def sum_of_norms(points: Array) -> float:
    """Return ``Σ_{u<v} ‖θ_u − θ_v‖`` for points of shape (n, d).

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.son import sum_of_norms
    >>> sum_of_norms(np.array([[0.0, 0.0], [0.0, 0.0], [3.0, 4.0]]))
    10.0
    """
    return float(pdist(points).sum()) if points.size else 0.0


class Pairs:
    """Copies ``p_uv`` of the differences ``θ_u − θ_v``, with multipliers, for an ADMM.

    The differences are pulled to zero by a group soft threshold; what is left to the caller is
    the step over θ, where the complete graph's Laplacian ``nI − J`` has a closed-form inverse.

    Attributes
    ----------
    w : ndarray of shape (n, n, d)
        Scaled multipliers, antisymmetric in the nodes.
    """

    def __init__(self, n_nodes: int, dim: int) -> None:
        self.w = np.zeros((n_nodes, n_nodes, dim))

    def pull(self, theta: Array, threshold: float, relaxation: float) -> Array:
        """Shrink the differences; return what they ask of each node, ``Σ_u y_vu``, (n, d)."""
        apart = theta[:, None] - theta[None]
        p = apart - self.w
        norms = np.linalg.norm(p, axis=2, keepdims=True)
        p *= np.maximum(0.0, 1.0 - threshold / np.maximum(norms, threshold))
        self.w += relaxation * p + (1.0 - relaxation) * apart
        return np.asarray(self.w.sum(axis=1))

    def settle(self, theta: Array) -> None:
        """Bring the multipliers up to date with the step over θ that follows a pull."""
        self.w -= theta[:, None] - theta[None]

    def forces(self, rho: float, most: float) -> Array:
        """Return ``Σ_u g_vu``, (n, d), for flows g by the multipliers, none longer than `most`.

        Any such flows bound the sum of norms from below:
        ``most·Σ_{u<v} ‖θ_u − θ_v‖ ≥ Σ_v ⟨θ_v, Σ_u g_vu⟩``.
        """
        g = -0.5 * rho * (self.w - self.w.swapaxes(0, 1))
        norms = np.linalg.norm(g, axis=2, keepdims=True)
        # A hair below, so that rounding cannot make one too long.
        g *= most * (1.0 - 1e-12) / np.maximum(norms, most)
        return np.asarray(g.sum(axis=1))
