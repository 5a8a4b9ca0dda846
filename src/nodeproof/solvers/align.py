"""Which class is which: name what a solver has found by the given labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from nodeproof.problem import Models
from nodeproof.solvers.base import Result
from nodeproof.terms.labels import label_mass

__all__ = ["agreement", "align_with_labels", "best_match", "match_labels"]


def match_labels(W: NDArray[Any], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the column of W that stands for each class: most labelled mass agrees (Hungarian).

    Parameters
    ----------
    W : ndarray of shape (n, K)
        Rows on the simplex.
    labels : ndarray of shape (n,)
        Given labels 0…K−1, −1 where there is none.

    Returns
    -------
    ndarray of shape (K,)
    """
    return best_match(agreement(W, labels))


def agreement(W: NDArray[Any], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return how much of each label each column of W holds, shape (K, K)."""
    known = np.flatnonzero(labels >= 0)
    return label_mass(np.asarray(W), known, labels[known], W.shape[1])


def best_match(agreement: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the column that stands for each class, given how much of each label it holds."""
    columns, names = linear_sum_assignment(-agreement)
    order = np.empty(len(agreement), dtype=np.int64)
    order[names] = columns
    return order


def align_with_labels(result: Result, labels: NDArray[np.int64] | None) -> Result:
    """Rename the classes so that as much labelled mass as possible agrees with its label."""
    if labels is None or not (labels >= 0).any():
        return result
    order = match_labels(result.W, labels)
    if (order == np.arange(len(order))).all():
        return result
    affinity = result.models.affinity
    if affinity is not None and affinity.ell.shape != (1, 1):
        pick = np.ix_(order, order)
        affinity = replace(affinity, ell=affinity.ell[pick], ell_t=affinity.ell_t[pick])
    models = Models(
        affinity,
        tuple(theta[order] for theta in result.models.terms),
        result.models.log_prior[order],
    )
    return replace(result, W=np.ascontiguousarray(result.W[:, order]), models=models)
