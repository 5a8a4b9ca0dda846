"""The characteristic optimisation: class models that are drawn together by a sum of norms."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.problem import Problem
from nodeproof.sum_of_norms.centroids import Centroids, fit_centroids

__all__ = ["Centroids", "biased_centroids"]

Array = NDArray[np.float64]


def biased_centroids(
    problem: Problem,
    W: NDArray[Any],
    start: tuple[Array, ...] | None = None,
    tol: float = 1e-8,
    max_iter: int = 5000,
) -> Centroids:
    """Minimise the loss of the classes and the sum of norms between them, given W.

        Σ_i Σ_k β_k Σ_v W_vi f_k(z_v; θ_i) + μ1 Σ_{i<j} n_i n_j ‖θ_i − θ_j‖,    n_i = Σ_v W_vi

    over θ_i in the product of the terms' sets: the paper's characteristic optimisation, by ADMM
    on the differences. The dual variables give a rigorous lower bound. A class without nodes
    costs nothing wherever it is: it takes the centroid of the largest class. Without a sum of
    norms each class is fitted by `Term.refit`.

    Parameters
    ----------
    problem : Problem
        With fixed weights; `son` is μ1.
    W : ndarray of shape (n, K)
        Memberships: rows on the simplex.
    start : tuple of ndarray, optional
        Models to begin at.
    tol : float
        Stop when value and bound differ by less than this share of the loss.
    max_iter : int
        Most iterations.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof import Problem
    >>> from nodeproof.convex.characteristic import biased_centroids
    >>> from nodeproof.terms import Labels, NodeData
    >>> labels = Labels().bind(NodeData(n_classes=3, y=np.array([0, 0, 1, 1, 2])))
    >>> W = np.eye(3)[[0, 0, 1, 1, 2]]
    >>> for son in (0.1, 0.3):
    ...     problem = Problem(None, [labels], 3, weights=(1.0, 1.0, 1.0), son=son)
    ...     biased_centroids(problem, W).groups
    array([0, 1, 2])
    array([0, 0, 0])
    """
    betas = problem.term_weights
    return fit_centroids(problem.terms, betas, problem.son, W, start, tol, max_iter)
