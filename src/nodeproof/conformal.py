"""Conformal limits of scores, by held-out nodes whose labels or targets are known.

The limit is such that the scores of held-out nodes stay within it as often as asked, one more node
counted as missed. Of classes, the score is the negative probability: a class belongs to the set of
a node if its probability reaches the limit. Of numbers, it is how far a prediction is off.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from nodeproof.auto.block_alone import WORTH_TELLING
from nodeproof.auto.evaluation import ENOUGH_TO_TELL

__all__ = ["LEAST_PROBA", "estimate_noise", "largest_score", "least_probabilities"]

Array = NDArray[np.float64]

# Shares of wrong labels, and factors of log-probabilities, that are compared.
_NOISES = np.linspace(0.0, 0.6, 61)
_SCALES = np.geomspace(0.3, 20.0, 18)

# Below this share, wrong labels are few: that takes more evidence.
_FEW = 0.1

# Log-likelihood by which the assumed share of wrong labels is less likely than the likeliest one:
# a standard error. To assume too many would make sets too small.
_CAUTION = 0.5

#: probabilities are clipped from below before logarithms
LEAST_PROBA = 1e-30


def least_probabilities(
    proba: NDArray[Any],
    codes: NDArray[np.int64],
    coverage: float,
    *,
    ratio: Array | None = None,
    noise: float = 0.0,
    class_conditional: bool = False,
) -> Array:
    """Return the least probability at which each class belongs to a set, shape (K,).

    Parameters
    ----------
    proba : ndarray of shape (h, K)
        Class probabilities of held-out nodes.
    codes : ndarray of shape (h,)
        Their labels as class numbers.
    coverage : float
        How often sets must hold the true class.
    ratio : ndarray of shape (K,), optional
        How frequent classes are among the nodes to predict, relative to the held-out labels. Limits
        are then low enough for these and for the same proportions, whichever is lower.
    noise : float
        Share of labels that name another class at random.
    class_conditional : bool
        Whether the coverage must hold in every class, not only on average.

    Returns
    -------
    ndarray of shape (K,)
        0 if there are too few labels: the class then is in every set.

    Examples
    --------
    >>> import numpy as np
    >>> p = np.linspace(0.05, 0.95, 19)
    >>> proba = np.column_stack([p, 1 - p])
    >>> least_probabilities(proba, np.zeros(19, int), 0.9).round(2)
    array([0.1, 0.1])
    """
    K = proba.shape[1]
    scores = -proba
    if class_conditional:
        return np.array([_limit_of_class(scores, codes, k, coverage, noise) for k in range(K)])
    own = scores[np.arange(len(codes)), codes]
    elsewhere = noise * K / (K - 1) if noise else 0.0
    values = np.unique(scores if elsewhere else own)
    by_chance = _shares_up_to(scores.ravel(), values) if elsewhere else 0.0
    limits = np.ones(K)
    for weights in (np.ones(K),) if ratio is None else (np.ones(K), ratio):
        below = _sums_up_to(own, weights[codes], values)
        for k in range(K):
            # The node in question counts as missed, by the weight that it has if this is its class.
            labels = below / (weights[codes].sum() + weights[k])
            reached = (labels - elsewhere * by_chance) / (1.0 - elsewhere)
            limits[k] = min(limits[k], _least(_limit(values, reached, coverage)))
    return limits


def largest_score(scores: Array, coverage: float) -> float:
    """Return the limit that scores stay within as often as asked; infinite if they are too few.

    Parameters
    ----------
    scores : ndarray of shape (h,)
        Of held-out nodes: larger ones are worse.
    coverage : float
        How often the score of another node must stay within the limit.

    Examples
    --------
    >>> import numpy as np
    >>> largest_score(np.arange(1.0, 20.0), 0.9), largest_score(np.arange(1.0, 9.0), 0.9)
    (18.0, inf)
    """
    values = np.unique(scores)
    below = _sums_up_to(scores, np.ones(len(scores)), values)
    return _limit(values, below / (len(scores) + 1.0), coverage)


def _least(limit: float) -> float:
    """Return the least probability that a limit of scores stands for; 0 if it is infinite."""
    return -limit if np.isfinite(limit) else 0.0


def _limit_of_class(
    scores: NDArray[Any], codes: NDArray[np.int64], k: int, coverage: float, noise: float
) -> float:
    """Return the limit at which nodes of class k are covered."""
    h, K = scores.shape
    labelled = scores[codes == k, k]
    if not noise:
        return _least(largest_score(labelled, coverage))
    # Labels k are right but for those by chance, which are spread evenly over the classes.
    by_chance = noise / (K - 1)
    right = len(labelled) / h - by_chance
    if right * h < coverage / (1.0 - coverage):
        return 0.0
    values = np.unique(scores[:, k])
    below = _sums_up_to(labelled, np.ones(len(labelled)), values) / (len(labelled) + 1.0)
    reached = len(labelled) / h * below - by_chance * _shares_up_to(scores[:, k], values)
    return _least(_limit(values, reached / right, coverage))


def _limit(values: NDArray[Any], reached: Array, coverage: float) -> float:
    """Return the least score at which the coverage is reached from there on; infinite if never.

    Parameters
    ----------
    values : ndarray of shape (v,)
        Scores, ascending.
    reached : ndarray of shape (v,)
        Coverage if the limit is there: estimates need not be monotone if some labels are wrong.
    """
    enough = np.minimum.accumulate(reached[::-1])[::-1] >= coverage - 1e-12
    return float(values[enough.argmax()]) if enough.any() else np.inf


def _sums_up_to(scores: NDArray[Any], weights: Array, values: NDArray[Any]) -> Array:
    """Return the sum of the weights of all scores up to each value."""
    order = np.argsort(scores, kind="stable")
    sums = np.concatenate([[0.0], np.cumsum(weights[order])])
    return np.asarray(sums[np.searchsorted(scores[order], values, side="right")])


def _shares_up_to(scores: NDArray[Any], values: NDArray[Any]) -> Array:
    """Return the share of the scores up to each value."""
    return np.searchsorted(np.sort(scores), values, side="right") / len(scores)


def estimate_noise(proba: NDArray[Any], codes: NDArray[np.int64]) -> float:
    """Return a share of labels that surely name another class at random, as far as can be told.

    It is a standard error below the likeliest share, and 0 unless that is far likelier than none:
    labels that a fit does not foresee may be right. Probabilities may be too flat or too steep.

    Parameters
    ----------
    proba : ndarray of shape (h, K)
        Class probabilities of held-out nodes.
    codes : ndarray of shape (h,)
        Their labels as class numbers.
    """
    h, K = proba.shape
    if h < ENOUGH_TO_TELL or K < 2:
        return 0.0
    logs, rows = np.log(np.maximum(proba.astype(np.float64), LEAST_PROBA)), np.arange(h)
    noises = _NOISES[_NOISES < (K - 1) / K]
    likely = np.full(len(noises), -np.inf)
    for scale in _SCALES:
        own = np.exp(log_softmax(scale * logs, axis=1)[rows, codes])
        elsewhere = noises / (K - 1)
        found = [
            float(np.log(np.maximum((1.0 - noise - other) * own + other, LEAST_PROBA)).sum())
            for noise, other in zip(noises, elsewhere, strict=True)
        ]
        likely = np.maximum(likely, found)
    most, few = WORTH_TELLING
    ahead = likely - likely[0] - np.log(np.where(noises < _FEW, few, most))
    if ahead[1:].max() <= 0.0:
        return 0.0
    return float(noises[(likely >= likely.max() - _CAUTION).argmax()])
