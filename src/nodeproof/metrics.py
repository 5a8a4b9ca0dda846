"""Accuracy of labels and calibration of probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from scipy.stats import binomtest, rankdata
from sklearn.metrics.cluster import contingency_matrix

from nodeproof import kernels
from nodeproof.errors import InputError
from nodeproof.runtime import threads

__all__ = [
    "ClassScores",
    "ReliabilityCurve",
    "brier",
    "class_scores",
    "expected_calibration_error",
    "is_skewed",
    "matched_accuracy",
    "most_probable",
    "reliability_curve",
]

# With fewer nodes, a reliability curve is mostly noise.
FEWEST_JUDGED = 20

# A negligible calibration error, and the multiple of chance above which one is significant.
_SMALL, _BEYOND_CHANCE = 0.02, 1.5

_ROUNDING = 1e-5

# Classes are skewed if one has more than this share, or is more than so many times another.
_MOST_SHARE, _MOST_TIMES = 2 / 3, 5.0


def matched_accuracy(y_true: ArrayLike, y_found: ArrayLike) -> float:
    """Return the accuracy after the best renaming of the predicted classes (Hungarian method).

    For fits without labels, in which class names are arbitrary.

    Parameters
    ----------
    y_true, y_found : array of shape (n,)
        Classes, with any names.

    Examples
    --------
    >>> from nodeproof.metrics import matched_accuracy
    >>> matched_accuracy([0, 0, 1, 1], ["b", "b", "a", "b"])
    0.75
    """
    truth, found = np.asarray(y_true), np.asarray(y_found)
    if truth.ndim != 1 or truth.shape != found.shape or len(truth) == 0:
        raise InputError(
            "y_true and y_found must have one entry per node, of the same nodes: got shapes "
            f"{truth.shape} and {found.shape}"
        )
    shared = contingency_matrix(truth, found)
    rows, columns = linear_sum_assignment(-shared)
    return float(shared[rows, columns].sum() / shared.sum())


def brier(y_true: ArrayLike, proba: ArrayLike) -> float:
    """Return the mean squared distance of the probabilities from the truth, 0 to 2.

    The sum runs over all classes, also if there are only two.

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


def most_probable(proba: NDArray[Any]) -> NDArray[np.int64]:
    """Return the most probable class of each node, the first of several, shape (n,).

    Parameters
    ----------
    proba : ndarray of shape (n, K)
        Class probabilities.
    """
    codes = np.empty(len(proba), dtype=np.int64)
    threads.map_rows(lambda lo, hi: kernels.largest_columns(lo, hi, proba, codes), len(proba))
    return codes


def expected_calibration_error(y_true: ArrayLike, proba: ArrayLike, n_bins: int = 15) -> float:
    """Return the mean difference between confidence and accuracy, over bins of confidence.

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
    return reliability_curve(y_true, proba, n_bins).error


@dataclass(frozen=True)
class ReliabilityCurve:
    """Confidence and accuracy per bin of confidence; no bin is empty.

    Attributes
    ----------
    confidence, right : ndarray of shape (bins,)
        Mean confidence, and accuracy.
    low, high : ndarray of shape (bins,)
        95 % interval of the accuracy (Wilson's).
    counts : ndarray of shape (bins,)
        Number of nodes.
    error : float
        Mean absolute difference between confidence and accuracy, over the nodes.
    """

    confidence: NDArray[np.float64]
    right: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    counts: NDArray[np.int64]
    error: float

    def explain(self) -> str:
        """Return the meaning in a sentence."""
        n = int(self.counts.sum())
        start = f"Calibration error {self.error:.3f} over {n:,} {'node' if n == 1 else 'nodes'}"
        if n < FEWEST_JUDGED:
            return f"{start}: too few to judge the probabilities"
        if self.error <= _SMALL:
            return f"{start}: the probabilities are well calibrated"
        spread = np.sqrt(self.confidence * (1 - self.confidence) * self.counts)
        by_chance = float(np.sqrt(2 / np.pi) * spread.sum() / n)
        if self.error <= _BEYOND_CHANCE * by_chance:
            return f"{start}: no more than expected by chance"
        bias = float(self.counts @ (self.confidence - self.right)) / n
        if abs(bias) < 0.5 * self.error:
            return f"{start}: overconfident in places, underconfident in others"
        return f"{start}: the probabilities are {'over' if bias > 0 else 'under'}confident"


def reliability_curve(
    y_true: ArrayLike,
    proba: ArrayLike,
    n_bins: int = 10,
    *,
    noise: float = 0.0,
    strategy: Literal["uniform", "quantile"] = "uniform",
) -> ReliabilityCurve:
    """Return the accuracy of nodes by their confidence.

    If some labels are wrong, predictions agree with them less often than they are right: with
    labels that are right with probability a, and any other with e = (1 − a)/(K − 1), an accuracy r
    shows as the agreement ``e + (a − e) r``, which is corrected for.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes as column numbers of `proba`.
    proba : array of shape (n, K)
        Class probabilities.
    n_bins : int
        Bins of the confidence.
    noise : float
        Share of wrong labels in `y_true`.
    strategy : {"uniform", "quantile"}
        Bins of equal width over the confidence 0…1, or of as many nodes each, as far as nodes
        with the same confidence can be told apart.

    Examples
    --------
    >>> from nodeproof.metrics import reliability_curve
    >>> curve = reliability_curve([0] * 8 + [1] * 2, [[0.8, 0.2]] * 10)
    >>> curve.confidence, curve.right, curve.counts
    (array([0.8]), array([0.8]), array([10]))
    """
    truth, probabilities = _check_rows(y_true, proba)
    n, K = probabilities.shape
    if n == 0 or n_bins < 1:
        raise InputError(f"a reliability curve needs nodes and bins: got {n} and {n_bins}")
    elsewhere = noise / max(K - 1, 1)
    contrast = 1.0 - noise - elsewhere
    if noise < 0 or contrast <= 0:
        raise InputError(f"labels of {K} classes with a share {noise:.2g} wrong tell nothing")
    confidence = probabilities.max(axis=1)
    agrees = probabilities.argmax(axis=1) == truth
    if strategy == "quantile":
        edges = np.quantile(confidence, np.arange(1, n_bins) / n_bins)
        bins = np.searchsorted(edges, confidence, side="right")
    elif strategy == "uniform":
        bins = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    else:
        raise InputError(f"strategy must be 'uniform' or 'quantile', got {strategy!r}")
    counts = np.bincount(bins)
    there = counts > 0
    counts = counts[there]
    mean = np.bincount(bins, weights=confidence)[there] / counts
    agree = np.bincount(bins, weights=agrees)[there]
    right, low, high = (
        np.clip((share - elsewhere) / contrast, 0.0, 1.0)
        for share in (agree / counts, *_interval(agree, counts))
    )
    error = float(counts @ np.abs(mean - right)) / n
    return ReliabilityCurve(mean, right, low, high, counts, error)


def is_skewed(counts: ArrayLike) -> bool:
    """Tell whether classes differ so much in size that accuracy alone says little.

    Parameters
    ----------
    counts : array of shape (K,)
        Nodes of each class.

    Examples
    --------
    >>> from nodeproof.metrics import is_skewed
    >>> is_skewed([30, 20, 50]), is_skewed([70, 30]), is_skewed([60, 40, 10])
    (False, True, True)
    """
    sizes = np.asarray(counts)
    if len(sizes) < 2:
        return False
    most = sizes.max()
    return bool(most > _MOST_SHARE * sizes.sum() or most > _MOST_TIMES * sizes.min())


@dataclass(frozen=True)
class ClassScores:
    """Scores in which every class counts the same, however small it is.

    Attributes
    ----------
    balanced_accuracy : float or None
        Mean over the classes of the share of its nodes that are recognised.
    roc_auc : float or None
        Probability that a node of a class has a higher probability of it than one of another
        class; of more than two classes, the mean over all of them. 0.5 is chance.
    largest_class : float
        Accuracy of always predicting the largest class.
    n_classes : int
        How many classes were scored; with fewer than two, both scores are None.
    """

    balanced_accuracy: float | None
    roc_auc: float | None
    largest_class: float
    n_classes: int


def class_scores(y_true: ArrayLike, proba: ArrayLike, *, fewest: int = 1) -> ClassScores:
    """Return scores in which every class counts the same.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes as column numbers of `proba`.
    proba : array of shape (n, K)
        Class probabilities.
    fewest : int
        Classes with fewer nodes are not scored.

    Examples
    --------
    >>> from nodeproof.metrics import class_scores
    >>> class_scores([0, 0, 0, 1], [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]])
    ClassScores(balanced_accuracy=0.5, roc_auc=1.0, largest_class=0.75, n_classes=2)
    """
    truth, probabilities = _check_rows(y_true, proba)
    counts = np.bincount(truth, minlength=probabilities.shape[1])
    largest = float(counts.max() / counts.sum()) if len(truth) else 0.0
    scored = np.flatnonzero(counts >= max(fewest, 1))
    if len(scored) < 2:
        return ClassScores(None, None, largest, len(scored))
    right = truth[probabilities.argmax(axis=1) == truth]
    recall = np.bincount(right, minlength=len(counts))[scored] / counts[scored]
    # By Mann and Whitney, ties counting half; the same for either of two classes.
    inside, ranks = truth[:, None] == scored, rankdata(probabilities[:, scored], axis=0)
    least = counts[scored] * (counts[scored] + 1) / 2
    ahead = (ranks * inside).sum(axis=0) - least
    areas = ahead / (counts[scored] * (len(truth) - counts[scored]))
    return ClassScores(float(np.mean(recall)), float(np.mean(areas)), largest, len(scored))


def _interval(successes: NDArray[Any], counts: NDArray[Any]) -> NDArray[np.float64]:
    """Return both ends of Wilson's 95 % intervals of shares, shape (2, bins)."""
    ends = [
        binomtest(int(k), int(n)).proportion_ci(method="wilson")
        for k, n in zip(successes, counts, strict=True)
    ]
    return np.array(ends).T


def _check_rows(
    y_true: ArrayLike, proba: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return true classes as integers and probabilities as numbers, of the same nodes."""
    truth, probabilities = np.asarray(y_true), np.asarray(proba, dtype=np.float64)
    if truth.ndim != 1:
        raise InputError(f"y_true must have one entry per node: got shape {truth.shape}")
    if probabilities.ndim != 2 or len(truth) != len(probabilities):
        raise InputError(
            f"proba must have one row per node: got shape {probabilities.shape} for {len(truth)}"
        )
    # Allow for rounding errors.
    allowed = (probabilities >= -_ROUNDING) & (probabilities <= 1.0 + _ROUNDING)
    if not allowed.all():
        row, column = np.argwhere(~allowed)[0]
        raise InputError(
            f"proba must be probabilities, 0 to 1, but is {probabilities[row, column]:g} at row "
            f"{row}, column {column}"
        )
    K = probabilities.shape[1]
    numbers = truth
    if truth.dtype.kind not in "biuf":
        # Nullable numbers of pandas are objects.
        values = [value if isinstance(value, int | float) else np.nan for value in truth.tolist()]
        numbers = np.array(values, dtype=np.float64)
    fits = (numbers >= 0) & (numbers < K) & (numbers == np.floor(numbers))
    if not fits.all():
        row = int(fits.argmin())
        raise InputError(
            f"y_true must be column numbers of proba, 0 to {K - 1}, but entry {row} is "
            f"{truth[row : row + 1].tolist()[0]!r}: give positions in the list of classes, and "
            "omit nodes whose class is unknown"
        )
    return numbers.astype(np.int64), probabilities
