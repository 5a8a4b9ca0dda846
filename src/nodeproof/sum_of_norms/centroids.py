"""Biased centroids: the class models of least loss, drawn together by a sum of norms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.runtime import threads
from nodeproof.sum_of_norms.class_models import CoupledLosses, Minimum, minimise
from nodeproof.terms.base import Term

__all__ = ["Centroids", "fit_centroids", "group_equal"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Centroids:
    """The biased centroids of some classes.

    Attributes
    ----------
    models : tuple of ndarray, each of shape (K, ...)
        One model per class, in the order of the terms.
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


def fit_centroids(
    terms: Sequence[Term],
    betas: Sequence[float],
    son: float,
    W: NDArray[Any],
    start: Sequence[Array] | None = None,
    tol: float = 1e-8,
    max_iter: int = 5000,
) -> Centroids:
    """Minimise the weighted losses of the classes plus the sum of norms between them.

    See :func:`nodeproof.convex.characteristic.biased_centroids`, which does it for a problem.

    Parameters
    ----------
    terms : sequence of Term
        The bound terms.
    betas : sequence of float
        Their weights.
    son : float
        μ1, the weight of the sum of norms.
    W : ndarray of shape (n, K)
        Memberships.
    start : sequence of ndarray, optional
        Models to begin at.
    tol, max_iter : float and int
        Largest gap between value and bound, as a share of the loss, and most iterations.
    """
    sizes = threads.sum_rows(lambda lo, hi: W[lo:hi].sum(axis=0, dtype=np.float64), len(W))
    filled = np.flatnonzero(sizes > 0)
    if son == 0.0 or not terms or not len(filled):
        return _independent(terms, betas, W, sizes)
    losses = CoupledLosses(terms, betas, W[:, filled], sizes[filled], son)
    alone = losses.pack([term.refit(W)[filled] for term in terms])
    begin = alone if start is None else losses.pack([models[filled] for models in start])
    if len(filled) > 1:
        even = np.repeat(W.mean(axis=1, keepdims=True), len(sizes), axis=1)
        merged = losses.pack([term.refit(even)[:1] for term in terms])
        merged = np.repeat(merged, len(filled), axis=0)
        found = minimise(losses, begin, alone, merged, tol, max_iter)
    else:
        found = Minimum(alone, losses.value(alone), losses.value(alone), 0, True)
    # A class without nodes takes the centroid of the largest class.
    which = np.full(len(sizes), int(np.argmax(sizes[filled])))
    which[filled] = np.arange(len(filled))
    models = tuple(each[which] for each in losses.unpack(found.theta))
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
    >>> from nodeproof.sum_of_norms.centroids import group_equal
    >>> group_equal([np.array([[1.0, 0.0], [0.5, 0.5], [1.0, 0.0]])])
    array([0, 1, 0])
    """
    flat = np.hstack([each.reshape(len(each), -1) for each in models])
    _, first, which = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[which.reshape(-1)], dtype=np.int64)


def _independent(
    terms: Sequence[Term], betas: Sequence[float], W: NDArray[Any], sizes: Array
) -> Centroids:
    """Return the centroids without a sum of norms."""
    models = tuple(term.refit(W) for term in terms)
    value = 0.0
    for term, beta, theta in zip(terms, betas, models, strict=True):
        if beta:
            value += beta * float(term.class_loss(W).value(theta)[sizes > 0].sum())
    groups = group_equal(models) if models else np.arange(len(sizes))
    return Centroids(models, value, value, groups, 0, True)
