"""The pool: experts' log-probabilities, weighted by what held-out labels say of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax, softmax

from nodeproof.terms.logistic import with_noise

__all__ = ["SHARPER", "Judge", "Pool", "estimate_mix", "fit_pool"]

Array = NDArray[np.float64]

# Ridge of the weights towards the best single expert, of the mean log-loss. It is constant
# between these numbers of labels, and inversely proportional to their number outside.
_RIDGE, _FEW_LABELS, _MANY_LABELS = 0.2, 60, 900

# Prior standard deviation of what is added to the scores of a class.
_BIAS_SPREAD = 0.5

# Labels added to each class: a few labels do not tell how frequent classes are.
_MORE_OF_EACH = 2.0

_LEAST_SCALE, _MOST_SCALE = 0.03, 50.0

#: prior standard deviation of the log of the factor by which wrong labels have made scores too flat
SHARPER = 0.5

# Of Newton's method for a temperature: most steps, and the relative change that ends them.
_NEWTON_STEPS, _CLOSE = 60, 1e-4

# Ridge towards the proportions of the labels, and the labels per class below which it grows.
_TOWARDS_LABELS, _ENOUGH_LABELS = 0.1, 20.0

# The least share of their proportion in the labels that is left to a class.
_LEAST_SHARE = 0.2


@dataclass(frozen=True)
class Judge:
    """Held-out labels as a measure of log-probabilities.

    Attributes
    ----------
    codes : ndarray of shape (h,)
        The labels.
    n_classes : int
        Number of classes K.
    weights : ndarray of shape (h,)
        How much each counts, mean one.
    noise : float
        Share of wrong labels.
    missed : float
        Temperatures are taken as if this many more labels had been missed.
    """

    codes: NDArray[np.int64]
    n_classes: int
    weights: Array
    noise: float = 0.0
    missed: float = 0.5

    @classmethod
    def of(cls, codes: NDArray[np.int64], n_classes: int) -> Judge:
        """Return the judge in which all labels count the same."""
        return cls(codes, n_classes, np.ones(len(codes)))

    def only(self, kept: NDArray[Any]) -> Judge:
        """Return the same with some of the labels."""
        return replace(self, codes=self.codes[kept], weights=self.weights[kept])

    @property
    def shares(self) -> Array:
        """Of the classes in the labels, a few more added of each, shape (K,)."""
        counts = np.bincount(self.codes, minlength=self.n_classes) + _MORE_OF_EACH
        return np.asarray(counts / counts.sum())

    def losses(self, scores: Array) -> Array:
        """Return the log-loss of each label, shape (h,)."""
        logs = with_noise(log_softmax(scores, axis=1), self.noise)
        return -np.asarray(logs[np.arange(len(self.codes)), self.codes])

    def loss(self, scores: Array) -> float:
        """Return the mean log-loss."""
        return float(self.weights @ self.losses(scores) / self.weights.sum())

    def best_loss(self, logs: Array, balanced: bool) -> float:
        """Return the mean log-loss of log-probabilities at their best temperature.

        Parameters
        ----------
        logs : ndarray of shape (h, K)
            Of the held-out nodes.
        balanced : bool
            Whether they take all classes for equally frequent.
        """
        offset = np.log(self.shares) if balanced else 0.0
        return self.loss(self.temperature(logs, offset) * logs + offset)

    def targets(self) -> Array:
        """Return the labels one-hot encoded, a few of them as if missed, shape (h, K)."""
        missed = self.missed / (len(self.codes) + self.missed)
        one_hot = np.eye(self.n_classes)[self.codes]
        return np.asarray((1.0 - missed) * one_hot + missed / self.n_classes)

    def temperature(self, scores: Array, offset: Array | float = 0.0) -> float:
        """Return the factor of the scores at which the labels are likeliest.

        If some labels are wrong, scores are taken to be calibrated as if all were right, and the
        factor to be not far from one: wrong labels must not excuse every contradiction.
        """
        targets = self.targets()
        if self.noise:
            return self._noisy_temperature(scores, offset, targets)
        # Convex in the factor: Newton's method, kept between bounds that close in.
        told = float(np.vdot(self.weights[:, None] * targets, scores))
        low, high, scale = _LEAST_SCALE, _MOST_SCALE, 1.0
        # Classes before rows: sums over classes are then sums of long rows.
        columns = np.ascontiguousarray(scores.T, dtype=np.float64)
        squares, offsets = columns**2, np.reshape(offset, (-1, 1))
        for _ in range(_NEWTON_STEPS):
            p = scale * columns + offsets
            p = np.exp(p - p.max(axis=0))
            p /= p.sum(axis=0)
            mean = (p * columns).sum(axis=0)
            slope = float(self.weights @ mean) - told
            if slope > 0:
                high = scale
            else:
                low = scale
            curve = float(self.weights @ ((p * squares).sum(axis=0) - mean**2))
            step = scale - slope / curve if curve > 0 else high
            step = step if low < step < high else np.sqrt(low * high)
            if abs(step - scale) <= _CLOSE * scale:
                return float(step)
            scale = float(step)
        return scale

    def _noisy_temperature(self, scores: Array, offset: Array | float, targets: Array) -> float:
        charged = self.weights[:, None] * targets

        def loss(log_scale: float) -> float:
            logs = log_softmax(np.exp(log_scale) * scores + offset, axis=1)
            fit = -float(np.vdot(charged, with_noise(logs, self.noise)))
            return fit + 0.5 * (log_scale / SHARPER) ** 2

        bounds = (np.log(_LEAST_SCALE), np.log(_MOST_SCALE))
        return float(np.exp(minimize_scalar(loss, bounds=bounds, method="bounded").x))


@dataclass(frozen=True)
class Pool:
    """Weights of experts, and the calibration of what they say together.

    Log-probabilities are ``scale (Σ_k w_k log p_k + bias)`` up to a constant, where ``log p_k`` is
    ``t_k`` times what expert k says, at the class proportions of the labels.

    Attributes
    ----------
    scales : ndarray of shape (E,)
        t_k.
    balanced : ndarray of bool, shape (E,)
        Whether an expert takes all classes for equally frequent.
    weights : ndarray of shape (E,)
        w_k ≥ 0.
    bias : ndarray of shape (K,)
        Added to the scores.
    learnt : ndarray of shape (K,)
        Class proportions of the labels.
    losses : ndarray of shape (E,)
        Held-out log-loss of each expert.
    scale : float
        Final factor.
    proportions : ndarray of shape (K,)
        Class proportions of the nodes that the pool is for.
    noise : float
        Share of wrong labels.
    at_labels : float or None
        The final factor at the class proportions of the labels, for labelled nodes; None if it is
        the same.
    """

    scales: Array
    balanced: NDArray[np.bool_]
    weights: Array
    bias: Array
    learnt: Array
    losses: Array
    scale: float
    proportions: Array
    noise: float = 0.0
    at_labels: float | None = None

    def for_labels(self) -> Pool:
        """Return the pool at the class proportions of the labels."""
        scale = self.scale if self.at_labels is None else self.at_labels
        return replace(self, proportions=self.learnt, scale=scale, at_labels=None)

    def part(self, k: int, logs: NDArray[Any]) -> Array:
        """Return the calibrated log-probabilities of expert k, shape (n, K)."""
        offset = np.log(self.learnt) if self.balanced[k] else 0.0
        return np.asarray(log_softmax(self.scales[k] * logs + offset, axis=1))

    def pooled(self, logs: Sequence[NDArray[Any] | None]) -> Array:
        """Return the scores of all experts together; those of weight 0 may be missing."""
        total: Any = self.bias[None, :]
        for k, own in enumerate(logs):
            if self.weights[k] > 0 and own is not None:
                total = total + self.weights[k] * self.part(k, own)
        return np.asarray(total)

    def log_proba(self, logs: Sequence[NDArray[Any] | None]) -> Array:
        """Return the pooled log-probabilities, shape (n, K)."""
        shift = np.log(self.proportions / self.learnt)
        return np.asarray(log_softmax(self.scale * self.pooled(logs) + shift, axis=1))

    def only(self, kept: NDArray[np.bool_]) -> Pool:
        """Return the pool without some of its experts, shape (E,) of those that are kept.

        Each expert is calibrated on its own, at weight 1. So the weights of those that are left
        are raised until they sum to 1, or to what all together sum to if that is less; if they
        sum to more, they stay.
        """
        weights = np.where(kept, self.weights, 0.0)
        total, left = self.weights.sum(), weights.sum()
        if 0.0 < left < min(total, 1.0):
            weights *= min(total, 1.0) / left
        return replace(self, weights=weights)

    def with_proportions(
        self, held: Sequence[Array], nested: Array, judge: Judge, mean: Array
    ) -> Pool:
        """Return the pool for nodes whose probabilities have this mean, recalibrated.

        Parameters
        ----------
        held : sequence of E ndarray of shape (h, K)
            What each expert says of the held-out nodes.
        nested : ndarray of shape (h, K)
            What pools chosen without them say.
        mean : ndarray of shape (K,)
            Mean probabilities of the nodes in question, by this pool.
        """
        own = self.scale * self.pooled(held)
        proba = softmax(own, axis=1)
        proportions = estimate_mix(proba, judge.codes, mean, self.learnt)
        ratio = proportions / self.learnt
        weights = ratio[judge.codes]
        judge = replace(judge, weights=weights / weights.mean())
        # The pool itself is too sure of labels that it was chosen by; those chosen by fewer labels
        # are less sure than it may be.
        sure, modest = (judge.temperature(scores, np.log(ratio)) for scores in (own, nested))
        scale = self.scale * float(np.sqrt(sure * modest))
        return replace(self, proportions=proportions, scale=scale, at_labels=self.scale)


def fit_pool(held: Sequence[Array], balanced: Sequence[bool], judge: Judge) -> Pool:
    """Return the pool that fits held-out labels best, near the best single expert.

    Parameters
    ----------
    held : sequence of E ndarray of shape (h, K)
        What each expert says of the held-out nodes.
    balanced : sequence of E bool
        Whether it takes all classes for equally frequent.
    """
    learnt, E = judge.shares, len(held)
    offsets = [np.log(learnt) if flag else 0.0 for flag in balanced]
    scales = np.array([judge.temperature(h, o) for h, o in zip(held, offsets, strict=True)])
    parts = np.stack(
        [log_softmax(t * h + o, axis=1) for t, h, o in zip(scales, held, offsets, strict=True)]
    )
    losses = np.array([judge.loss(part) for part in parts])
    best = np.zeros(E)
    best[losses.argmin()] = 1.0
    weights, bias = _fit_weights(parts, best, judge)
    pool = Pool(
        scales, np.array(balanced, dtype=bool), weights, bias, learnt, losses, 1.0, learnt,
    )  # fmt: skip
    return replace(pool, scale=judge.temperature(pool.pooled(held)))


def _fit_weights(parts: Array, best: Array, judge: Judge) -> tuple[Array, Array]:
    """Return weights and biases of least held-out loss, weights near `best`, biases near 0."""
    E, K = len(parts), judge.n_classes
    # Classes before rows: sums over classes are then sums of long rows.
    columns = np.ascontiguousarray(parts.swapaxes(1, 2))

    def objective(x: Array) -> tuple[float, Array]:
        return _penalised_loss(x, columns, best, judge)

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


def _penalised_loss(x: Array, columns: Array, best: Array, judge: Judge) -> tuple[float, Array]:
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


def estimate_mix(proba: Array, codes: NDArray[np.int64], mean: Array, learnt: Array) -> Array:
    """Return the class proportions of nodes by their mean probabilities, shape (K,).

    Probabilities that a fit gives to nodes of each class are known from held-out labels: row k of C
    is their mean over class k. The mix π then has ``Cᵀπ = mean``, solved by least squares on the
    simplex, with a ridge towards the proportions of the labels.

    Parameters
    ----------
    proba : ndarray of shape (h, K)
        Of the held-out nodes.
    codes : ndarray of shape (h,)
        Their labels.
    mean : ndarray of shape (K,)
        Mean probabilities of the nodes in question.
    learnt : ndarray of shape (K,)
        Proportions of the labels.
    """
    K = len(learnt)
    C = np.eye(K)
    for k in np.unique(codes):
        C[k] = proba[codes == k].mean(axis=0)

    ridge = _TOWARDS_LABELS * max(1.0, _ENOUGH_LABELS * K / len(codes)) ** 2

    def objective(mix: Array) -> tuple[float, Array]:
        miss, away = C.T @ mix - mean, mix - learnt
        return float(miss @ miss + ridge * away @ away), 2.0 * (C @ miss + ridge * away)

    found = minimize(
        objective,
        learnt,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * K,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1.0, "jac": lambda p: np.ones(K)},
    ).x
    mix = np.maximum(found, _LEAST_SHARE * learnt)
    return np.asarray(mix / mix.sum())
