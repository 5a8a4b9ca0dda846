"""The accuracy at unlabelled nodes, estimated on held-out labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from nodeproof import kernels
from nodeproof.auto.pooling import Judge
from nodeproof.runtime import threads

__all__ = ["estimate_accuracy", "row_means"]

Array = NDArray[np.float64]

# Held-out labels judge fits that have seen fewer labels: the final one may be better by so much.
_FEWER_LABELS = 0.02

# Standard deviation of what else may differ between labelled nodes and others.
_DRIFT = 0.02


def estimate_accuracy(
    judged: Array,
    codes: NDArray[np.int64],
    noise: float,
    mix: Array | None,
    proba: NDArray[Any],
    which: NDArray[np.bool_] | None = None,
) -> tuple[float, float, float] | None:
    """Return an estimate of the accuracy at unlabelled nodes, and its 95 % interval.

    It is their mean confidence, corrected by the difference between confidence and accuracy on
    held-out labels. Labels count by how frequent their class is among unlabelled nodes.

    Parameters
    ----------
    judged : ndarray of shape (h, K)
        Log-probabilities of held-out nodes, by fits that have not seen their labels.
    codes : ndarray of shape (h,)
        Their labels.
    noise : float
        Share of wrong labels.
    mix : ndarray of shape (K,), or None
        Class proportions of the unlabelled nodes, if probabilities of held-out nodes are at those
        of the labels; None if these were not moved.
    proba : ndarray of shape (n, K)
        Probabilities of nodes.
    which : ndarray of bool, shape (n,), optional
        Which of them are unlabelled; by default all. None is returned if there are none.
    """
    means = row_means(proba, which)
    if means is None:
        return None
    mean, confidence = means
    K = proba.shape[1]
    learnt = Judge.of(codes, K).shares
    moved = mix is not None
    mix = mean if mix is None else mix
    ratio = mix / learnt
    scores = judged + (np.log(ratio) if moved else 0.0)
    held = softmax(scores, axis=1)
    right = (held.argmax(axis=1) == codes).astype(np.float64)
    if noise:  # from agreement with noisy labels to accuracy
        elsewhere = noise / (K - 1)
        right = (right - elsewhere) / (1.0 - noise - elsewhere)
    excess = right - held.max(axis=1)
    weights = ratio[codes] / ratio[codes].sum()
    n = 1.0 / float(weights @ weights)
    shift = float(weights @ excess)
    # One more success and one more failure than observed: few labels must not look certain.
    spread = float(weights @ (excess - shift) ** 2)
    variance = (spread * n + 0.5) / (n + 2.0) / n
    # The mix is known no better than the labels tell, and may not have moved at all.
    by_class = np.array(
        [excess[codes == k].mean() if (codes == k).any() else shift for k in range(K)]
    )
    unsure = (mix - learnt) ** 2 + mix * (1.0 - mix) / len(codes)
    variance += float(unsure @ (by_class - shift) ** 2) + _DRIFT**2
    # Confidence was calibrated on the same labels already.
    corrected, estimate = confidence + shift, confidence + 0.5 * shift
    error = 1.96 * np.sqrt(variance)
    low = min(estimate, corrected) - error
    high = max(estimate, corrected) + error + _FEWER_LABELS
    low, estimate, high = np.clip([low, estimate, high], 0.0, 1.0).tolist()
    return estimate, low, high


def row_means(
    proba: NDArray[Any], which: NDArray[np.bool_] | None = None
) -> tuple[Array, float] | None:
    """Return the mean probabilities of rows, shape (K,), and the mean of the largest; None of none.

    Rows are not copied: there may be 10⁸ of them.
    """
    proba = np.asarray(proba)
    counted = np.zeros(0, dtype=bool) if which is None else which

    def part(lo: int, hi: int) -> Array:
        sums = np.zeros(proba.shape[1] + 2)
        kernels.sum_counted(lo, hi, proba, counted, sums)
        return sums

    sums = threads.sum_rows(part, len(proba)) if len(proba) else np.zeros(1)
    if not sums[-1]:
        return None
    return sums[:-2] / sums[-1], float(sums[-2] / sums[-1])
