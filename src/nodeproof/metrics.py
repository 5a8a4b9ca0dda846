"""How good labels and probabilities are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.metrics.cluster import contingency_matrix

from nodeproof.errors import InputError

__all__ = ["brier", "expected_calibration_error", "matched_accuracy"]


def matched_accuracy(y_true: ArrayLike, y_found: ArrayLike) -> float:
    """Return the accuracy after the best renaming of the found classes (Hungarian method).

    For results without labels, where names mean nothing.

    Parameters
    ----------
    y_true, y_found : array of shape (n,)
        Classes, by any names.

    Examples
    --------
    >>> from nodeproof.metrics import matched_accuracy
    >>> matched_accuracy([0, 0, 1, 1], ["b", "b", "a", "b"])
    0.75
    """
    shared = contingency_matrix(np.asarray(y_true), np.asarray(y_found))
    rows, columns = linear_sum_assignment(-shared)
    return float(shared[rows, columns].sum() / shared.sum())


def brier(y_true: ArrayLike, proba: ArrayLike) -> float:
    """Return the mean squared distance of the probabilities from the truth, 0 to 2.

    The sum runs over all classes, of two as of many.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes as column numbers of `proba`.
    proba : array of shape (n, K)
        Class probabilities.

    Examples
    --------
    >>> from nodeproof.metrics import brier
    >>> brier([0, 1], [[1.0, 0.0], [0.5, 0.5]])
    0.25
    """
    truth, probabilities = _check_rows(y_true, proba)
    distance = probabilities.copy()
    distance[np.arange(len(truth)), truth] -= 1.0
    return float((distance**2).sum(axis=1).mean())


def expected_calibration_error(y_true: ArrayLike, proba: ArrayLike, n_bins: int = 15) -> float:
    """Return how far confidence and accuracy lie apart, on average over bins of confidence.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes as column numbers of `proba`.
    proba : array of shape (n, K)
        Class probabilities.
    n_bins : int
        Bins of equal width over the confidence 0…1.

    Examples
    --------
    >>> from nodeproof.metrics import expected_calibration_error
    >>> round(expected_calibration_error([0, 1], [[0.9, 0.1], [0.9, 0.1]]), 6)
    0.4
    """
    truth, probabilities = _check_rows(y_true, proba)
    confidence = probabilities.max(axis=1)
    gap = confidence - (probabilities.argmax(axis=1) == truth)
    bins = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    return float(np.abs(np.bincount(bins, weights=gap, minlength=n_bins)).sum() / len(truth))


def _check_rows(y_true: ArrayLike, proba: ArrayLike) -> tuple[NDArray[Any], NDArray[np.float64]]:
    truth, probabilities = np.asarray(y_true), np.asarray(proba, dtype=np.float64)
    if probabilities.ndim != 2 or len(truth) != len(probabilities):
        raise InputError(
            f"proba must have one row a node: got shape {probabilities.shape} for {len(truth)}"
        )
    return truth, probabilities
