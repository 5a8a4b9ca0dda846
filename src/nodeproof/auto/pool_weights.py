"""The weights of experts in a pool: those that predict held-out labels best, near a first guess."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

if TYPE_CHECKING:
    from nodeproof.auto.pooling import Judge

__all__ = ["chances_of_best", "fit_weights", "penalised_loss"]

Array = NDArray[np.float64]

# Ridge of the weights towards the chances of being the best expert, of the mean log-loss. It is
# constant between these numbers of labels, and inversely proportional to their number outside.
_RIDGE, _FEW_LABELS, _MANY_LABELS = 0.2, 60, 900

# How often held-out labels are weighed anew to see which expert is the best, and by how much of the
# loss experts may differ that are equally good.
_RESAMPLED, _EQUALLY_GOOD = 200, 1e-9

# Number of labels that weighs as much as the prior that experts of the same data are equally
# good.
_EVEN_LABELS = 150.0

# Prior standard deviation of what is added to the scores of a class.
_BIAS_SPREAD = 0.5


def chances_of_best(parts: Array, judge: Judge, alike: bool = False) -> Array:
    """Return how likely each expert is the best of all, summing to one, shape (E,).

    The best on a few held-out labels is often so by luck. So these are weighed anew again and
    again, by the Bayesian bootstrap, and counted is how often each expert is the best. Experts that
    know the same err in different ways, each of which is as good a guess beforehand: the fewer
    labels, the larger the part of the chances that is then shared evenly.

    Parameters
    ----------
    parts : ndarray of shape (E, h, K)
        Calibrated log-probabilities of the held-out nodes.
    alike : bool
        Whether all experts know the same, and differ in what they make of it.
    """
    E, h, _ = parts.shape
    if E == 1:
        return np.ones(1)
    weights = np.random.default_rng(0).exponential(size=(_RESAMPLED, h)) * judge.weights
    losses = weights @ np.stack([judge.losses(part) for part in parts], axis=1)
    least = losses.min(axis=1, keepdims=True)
    best = losses <= least + _EQUALLY_GOOD * np.abs(least)
    chances = (best / best.sum(axis=1, keepdims=True)).mean(axis=0)
    even = _EVEN_LABELS / (_EVEN_LABELS + h) if alike else 0.0
    return np.asarray((1.0 - even) * chances + even / E)


def fit_weights(parts: Array, best: Array, judge: Judge) -> tuple[Array, Array]:
    """Return weights and biases of least held-out loss, weights near `best`, biases near 0.

    Parameters
    ----------
    best : ndarray of shape (E,)
        How likely each expert is the best.
    """
    E, K = len(parts), judge.n_classes
    # Classes before rows: sums over classes are then sums of long rows.
    columns = np.ascontiguousarray(parts.swapaxes(1, 2))

    def objective(x: Array) -> tuple[float, Array]:
        return penalised_loss(x, columns, best, judge)

    found = minimize(
        objective,
        np.concatenate([best, np.zeros(K)]),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * E + [(None, None)] * K,
        options={"maxiter": 200},
    ).x
    weights = np.where(found[:E] < 0.02 * found[:E].max(), 0.0, found[:E])
    return weights, found[E:] - found[E:].mean()


def penalised_loss(x: Array, columns: Array, best: Array, judge: Judge) -> tuple[float, Array]:
    """Return the held-out loss plus its penalties, and the gradient, shape (E + K,).

    Parameters
    ----------
    x : ndarray of shape (E + K,)
        Weights of the experts, then biases of the classes.
    columns : ndarray of shape (E, K, h)
        Calibrated log-probabilities of the held-out nodes.
    best : ndarray of shape (E,)
        The weights that others are near to.
    """
    E, K, h = columns.shape
    nodes, mass = np.arange(h), judge.weights / judge.weights.sum()
    ridge = _RIDGE * max(_FEW_LABELS / h, min(1.0, _MANY_LABELS / h))
    w, b = x[:E], x[E:]
    flat = columns.reshape(E, -1)
    scores = (w @ flat).reshape(K, h) + b[:, None]
    scores -= scores.max(axis=0)
    # One exponential for the logarithms and for the gradient: this is asked for hundreds of times.
    residual = np.exp(scores)
    totals = residual.sum(axis=0)
    told = scores[judge.codes, nodes] - np.log(totals)
    residual *= mass / totals
    residual[judge.codes, nodes] -= mass
    value = -float(mass @ told)
    value += ridge * float(((w - best) ** 2).sum())
    value += 0.5 * float((b**2).sum()) / (_BIAS_SPREAD**2 * h)
    slope = np.concatenate(
        [
            flat @ residual.ravel() + 2.0 * ridge * (w - best),
            residual.sum(axis=1) + b / (_BIAS_SPREAD**2 * h),
        ]
    )
    return value, slope
