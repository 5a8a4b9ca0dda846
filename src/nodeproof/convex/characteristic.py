"""The characteristic optimisation: class models that are pulled together by a sum of norms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.convex.class_models import Found, Pulled, minimise
from nodeproof.runtime import threads
from nodeproof.terms.base import Term

if TYPE_CHECKING:
    from nodeproof.problem import Problem

__all__ = ["Centroids", "biased_centroids", "group_equal"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Centroids:
    """The biased centroids of some classes.

    Attributes
    ----------
    models : tuple of ndarray, each of shape (K, ...)
        One model a class, in the order of the problem's terms.
    value : float
        The objective there.
    lower_bound : float
        No members of the sets have a smaller value (up to rounding).
    groups : ndarray of shape (K,)
        Classes whose centroids coincide share a number, 0, 1, … by first appearance.
    n_iter : int
        Iterations made.
    converged : bool
        Whether the value is within the tolerance of the bound.
    """

    models: tuple[Array, ...]
    value: float
    lower_bound: float
    groups: NDArray[np.int64]
    n_iter: int
    converged: bool


def biased_centroids(
    problem: Problem,
    W: NDArray[Any],
    start: tuple[Array, ...] | None = None,
    tol: float = 1e-8,
    max_iter: int = 5000,
) -> Centroids:
    """Minimise the loss of the classes and the sum of norms between them, W given.

        Σ_i Σ_k β_k Σ_v W_vi f_k(z_v; θ_i) + μ1 Σ_{i<j} n_i n_j ‖θ_i − θ_j‖,    n_i = Σ_v W_vi

    over θ_i in the product of the terms' sets: the paper's characteristic optimisation, by ADMM
    on the differences. Each look at the duals gives a rigorous bound from below. A class without
    nodes costs nothing wherever it is: it takes the centroid of the largest class. Without a sum
    of norms each class is `Term.refit`.

    Parameters
    ----------
    problem : Problem
        With fixed weights; `son` is μ1.
    W : ndarray of shape (n, K)
        Rows on the simplex.
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
    sizes = threads.sum_rows(lambda lo, hi: W[lo:hi].sum(axis=0, dtype=np.float64), len(W))
    filled = np.flatnonzero(sizes > 0)
    if problem.son == 0.0 or not problem.terms or not len(filled):
        return _apart(problem.terms, betas, W, sizes)
    pulled = Pulled(problem.terms, betas, W[:, filled], sizes[filled], problem.son)
    alone = pulled.pack([term.refit(W)[filled] for term in problem.terms])
    begin = alone if start is None else pulled.pack([models[filled] for models in start])
    if len(filled) > 1:
        even = np.repeat(W.mean(axis=1, keepdims=True), len(sizes), axis=1)
        merged = pulled.pack([term.refit(even)[:1] for term in problem.terms])
        merged = np.repeat(merged, len(filled), axis=0)
        found = minimise(pulled, begin, alone, merged, tol, max_iter)
    else:
        found = Found(alone, pulled.value(alone), pulled.value(alone), 0, True)
    which = np.full(len(sizes), int(np.argmax(sizes[filled])))
    which[filled] = np.arange(len(filled))
    models = tuple(each[which] for each in pulled.unpack(found.theta))
    return Centroids(
        models, found.value, found.bound, group_equal(models), found.n_iter, found.converged
    )


def group_equal(models: Sequence[Array]) -> NDArray[np.int64]:
    """Return a number for each class, shared by those of equal models, by first appearance.

    Parameters
    ----------
    models : sequence of ndarray, each of shape (K, ...)
        The models of each term.

    Returns
    -------
    ndarray of shape (K,)

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.convex.characteristic import group_equal
    >>> group_equal([np.array([[1.0, 0.0], [0.5, 0.5], [1.0, 0.0]])])
    array([0, 1, 0])
    """
    flat = np.hstack([each.reshape(len(each), -1) for each in models])
    _, first, which = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[which.reshape(-1)], dtype=np.int64)


def _apart(
    terms: Sequence[Term], betas: Sequence[float], W: NDArray[Any], sizes: Array
) -> Centroids:
    """Return the centroids where nothing pulls them together."""
    models = tuple(term.refit(W) for term in terms)
    value = 0.0
    for term, beta, theta in zip(terms, betas, models, strict=True):
        if beta:
            value += beta * float(term.class_loss(W).value(theta)[sizes > 0].sum())
    groups = group_equal(models) if models else np.arange(len(sizes))
    return Centroids(models, value, value, groups, 0, True)
