"""Held-out labels: fits are judged by labels that they have not seen.

`hold_out` splits the labels into folds, `choose_classifier` selects the hops and the penalty of a
classifier on smoothed features by cross-validation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from nodeproof.smoothing import Smoothing
from nodeproof.terms.logistic import (
    assign_folds,
    balance,
    estimate_proportions,
    fit_logistic,
    fit_noise,
    fit_scale,
    held_out_scores,
    shares,
    with_noise,
)

__all__ = ["Classifier", "CrossFitted", "HeldOut", "choose_classifier", "hold_out"]

Array = NDArray[np.float64]
_FOLDS = 5

# Class weights are clipped to this factor, up or down.
_MOST_WEIGHT = 5.0

# Probabilities of held-out labels are clipped from below.
_LEAST = 1e-6


class CrossFitted(NamedTuple):
    """Labelled nodes with cross-fitted probabilities: by fits that did not see their labels.

    Attributes
    ----------
    nodes, codes : ndarray of shape (h,)
        The nodes, and their labels as class numbers.
    proba : ndarray of shape (h, K)
        Their class probabilities.
    noise : float
        Estimated share of wrong labels.
    """

    nodes: NDArray[np.int64]
    codes: NDArray[np.int64]
    proba: NDArray[np.float32]
    noise: float

    def at(self, nodes: NDArray[np.int64]) -> CrossFitted:
        """Return the same with the nodes renumbered, in ascending order."""
        order = np.argsort(nodes)
        return CrossFitted(nodes[order], self.codes[order], self.proba[order], self.noise)


@dataclass(frozen=True)
class HeldOut:
    """Labels that are held out of fits, to judge them by.

    Attributes
    ----------
    nodes : ndarray of shape (h,)
        Where they are, ascending.
    codes : ndarray of shape (h,)
        What they are, 0…K−1.
    folds : ndarray of shape (h,)
        The fit that each is held out of: 0…F−1.
    y : list of F ndarray of shape (n,)
        The labels that each fit sees.
    weights : ndarray of shape (h,)
        Importance weights: classes of unequal size may have equally many labels, and what
        matters is the loss over all nodes.
    noise : float
        Estimated share of wrong labels.
    shift : ndarray of shape (K,), or 0
        Added to a classifier's scores, to correct them for the proportions of all nodes.
    own : bool
        Whether the final fit sees these labels; it does not see those of `validation`.
    """

    nodes: NDArray[np.int64]
    codes: NDArray[np.int64]
    folds: NDArray[np.int64]
    y: list[NDArray[np.int64]]
    weights: Array
    noise: float = 0.0
    shift: Array | float = 0.0
    own: bool = True

    def reweighted(self, proportions: Array, learnt: Array) -> HeldOut:
        """Return the same with importance weights for the given class proportions.

        Parameters
        ----------
        proportions : ndarray of shape (K,)
            Of the classes among all nodes.
        learnt : ndarray of shape (K,)
            Of the classes among the labels that classifiers are fitted to.
        """
        ratio = proportions / shares(self.targets(len(proportions)))
        weights = np.clip(ratio, 1.0 / _MOST_WEIGHT, _MOST_WEIGHT)[self.codes]
        shift = np.log(proportions / learnt)
        return replace(self, weights=weights / weights.mean(), shift=shift)

    def collect(self, memberships: Sequence[NDArray[Any]]) -> Array:
        """Return the log-memberships of the held-out nodes, each by the fit that did not see it.

        Parameters
        ----------
        memberships : sequence of ndarray of shape (n, K)
            One per fit; if there are fewer, nodes held out of the other fits get nan.
        """
        log_proba = np.full((len(self.nodes), memberships[0].shape[1]), np.nan)
        for fold, W in enumerate(memberships):
            here = self.folds == fold
            log_proba[here] = np.log(np.maximum(W[self.nodes[here]], _LEAST))
        return log_proba

    def log_loss(self, log_proba: Array) -> float:
        """Return the mean log-loss after the best scaling."""
        return self.mean(self.best_losses(log_proba))

    def best_losses(self, log_proba: Array) -> Array:
        """Return the log-loss at each node after the best scaling, shape (h,)."""
        return self.losses(self.scale(log_proba) * log_proba)

    def scale(self, scores: Array, spread: float = np.inf) -> float:
        """Return the best factor of the scores."""
        targets = self._softened(scores.shape[1])
        there = np.isfinite(scores[:, 0])
        return fit_scale(scores[there], targets[there], self.weights[there], spread, self.noise)

    def is_better(self, losses: Array, than: Array, errors: float = 1.0) -> bool:
        """Tell whether the losses are lower, by this many standard errors of the difference.

        Nodes whose loss is missing (nan) are ignored.
        """
        gain = than - losses
        there = np.isfinite(gain)
        gain, weights = gain[there], self.weights[there] / self.weights[there].sum()
        error = np.sqrt(weights @ gain**2 / max(len(gain), 1))
        return bool(weights @ gain > errors * error)

    def mean(self, values: Array) -> float:
        """Return the weighted mean of one value per node."""
        return float(self.weights @ values / self.weights.sum())

    def losses(self, scores: Array) -> Array:
        """Return the log-loss of the label at each node, shape (h,)."""
        rows = np.arange(len(self.codes))
        return -with_noise(log_softmax(scores, axis=1), self.noise)[rows, self.codes]

    def _softened(self, n_classes: int) -> Array:
        # As if four more labels had been missed: a few labels must not make probabilities extreme,
        # and settings chosen by these labels fit them better than others.
        missed = 4.0 / (len(self.codes) + 4.0)
        return np.asarray((1.0 - missed) * self.targets(n_classes) + missed / n_classes)

    def targets(self, n_classes: int) -> Array:
        """Return the labels one-hot encoded, shape (h, K)."""
        return np.eye(n_classes)[self.codes]


def hold_out(
    y: NDArray[np.int64],
    validation: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
    n_folds: int = _FOLDS,
) -> HeldOut | None:
    """Return the labels to judge by, or None if there are too few to hold any out.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Labels 0…K−1, −1 where there is none.
    validation : pair of ndarray, optional
        Nodes and their labels, to judge by instead of folds.
    """
    if validation is not None:
        nodes, codes = validation
        order = np.argsort(nodes)
        folds = np.zeros(len(nodes), dtype=np.int64)
        return HeldOut(nodes[order], codes[order], folds, [y], np.ones(len(nodes)), own=False)
    nodes = np.flatnonzero(y >= 0)
    codes = y[nodes]
    counts = np.bincount(codes)
    if (counts[counts > 0] < 2).all() or (counts > 0).sum() < 2:
        return None
    folds = assign_folds(codes, min(n_folds, len(nodes)))
    # The only label of a class cannot be held out.
    alone = counts[codes] < 2
    seen = []
    for fold in range(int(folds.max()) + 1):
        hidden = y.copy()
        hidden[nodes[(folds == fold) & ~alone]] = -1
        seen.append(hidden)
    kept = ~alone
    return HeldOut(nodes[kept], codes[kept], folds[kept], seen, np.ones(int(kept.sum())))


# Half decades, strongest first; features have length one.
_PENALTIES = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
_FIRST_PENALTY = 0.3

# Prior of the penalty: log-normal around 0.2, with this standard deviation in decades. A few dozen
# labels say little about it.
_LIKELY_PENALTY, _DECADES = 0.2, 0.5

# The first suits most graphs. Another is chosen only if it is better by a standard error: with a
# few dozen labels, the best of several is often so by chance.
_HOPS = (16, 4, 0)
_SAMPLE = 4096


@dataclass(frozen=True)
class Classifier:
    """The settings chosen for a classifier, and the fits that led to them.

    Attributes
    ----------
    hops, l2, sharpness
        Settings of :class:`nodeproof.terms.Softmax`.
    first : ndarray of shape (F, K, d + 1)
        Coefficients of each fit.
    """

    hops: int
    l2: float
    sharpness: float
    first: Array


def choose_classifier(
    smoothing: Smoothing, n_classes: int, held: HeldOut, than: Array | None = None
) -> tuple[Classifier, HeldOut] | None:
    """Return the best classifier, and the held-out labels, reweighted by class.

    Parameters
    ----------
    than : ndarray of shape (h,), optional
        Losses to beat: None is returned if the first candidate has no chance to.
    """
    best: tuple[Array, int, int, Array, Array] | None = None
    at = _PENALTIES.index(_FIRST_PENALTY)
    for hops in sorted(_HOPS):
        smoothing.over(hops)  # each on the way to the next
    for hops in _HOPS if smoothing.graph is not None else (0,):
        search = _PenaltySearch(smoothing.over(hops), n_classes, held)
        if best is None:
            if than is None:
                held = search.reweight(at)
            elif search.has_no_chance(at, than):
                return None
        at = _descend_steps(search.loss, at, len(_PENALTIES))
        losses = held.losses(search.scaled(at))
        errors = 1.0 if hops else 0.5  # without the graph, misleading links do no harm
        if best is None or held.is_better(losses, best[0], errors):
            best = (losses, hops, at, *search.fits[at])
    assert best is not None
    _, hops, at, scores, theta = best
    return Classifier(hops, _PENALTIES[at], held.scale(scores), theta), held


class _PenaltySearch:
    """Classifiers on one smoothing, for a grid of penalties."""

    def __init__(self, all_nodes: NDArray[Any], n_classes: int, held: HeldOut) -> None:
        Z, self.all_nodes = all_nodes, all_nodes
        self.held, self.n_classes = held, n_classes
        self.fits: dict[int, tuple[Array, Array]] = {}
        self.y = np.max(held.y, axis=0)
        self.labelled = np.flatnonzero(self.y >= 0)
        self.Z, self.Z_held = Z[self.labelled], Z[held.nodes]
        self.targets = np.eye(n_classes)[self.y[self.labelled]]
        seen = np.stack([y[self.labelled] >= 0 for y in held.y], axis=1)
        self.seen = seen * balance(self.y[self.labelled])[:, None]
        self.last: Array | None = None

    def reweight(self, at: int) -> HeldOut:
        """Return the held-out labels with class weights and an estimate of their noise."""
        self.loss(at)
        scores, theta = self.fits[at]
        noise = fit_noise(scores, self.held.targets(self.n_classes))
        self.held = replace(self.held, noise=noise)
        mean = self.held.scale(scores) * theta.mean(axis=0)
        sample = self.all_nodes[:: -(-len(self.all_nodes) // _SAMPLE)]
        given = shares(self.targets)
        named = self.targets.any(axis=0)
        equal = shares(named[None] * len(self.targets) / named.sum())
        proportions = estimate_proportions(sample @ mean[:, :-1].T + mean[:, -1], equal, given)
        self.held = self.held.reweighted(proportions, equal)
        return self.held

    def has_no_chance(self, at: int, than: Array) -> bool:
        """Tell whether a penalty is worse by three standard errors."""
        self.loss(at)
        return self.held.is_better(than, self.held.losses(self.scaled(at)), errors=3.0)

    def scaled(self, at: int) -> Array:
        """Return the scores of held-out nodes, for the proportions of all nodes, (h, K)."""
        scores, _ = self.fits[at]
        return self.held.scale(scores) * scores + self.held.shift

    def loss(self, at: int) -> float:
        """Return the log-loss of a penalty on the held-out labels, plus its negative log prior."""
        theta = fit_logistic(
            self.Z, self.targets, _PENALTIES[at], self.seen, start=self.last, tol=1e-3
        )
        self.last = theta
        scores = held_out_scores(self.Z_held, theta, self.held.folds)
        self.fits[at] = scores, theta
        away = np.log10(_PENALTIES[at] / _LIKELY_PENALTY) / _DECADES
        loss = self.held.mean(self.held.losses(self.scaled(at)))
        return loss + 0.5 * float(away**2) / len(self.held.codes)


def _descend_steps(loss_at: Callable[[int], float], start: int, stop: int) -> int:
    """Return where the loss is lowest, descending from `start` in either direction."""
    losses = {start: loss_at(start)}
    at = start
    for step in (1, -1):
        while 0 <= at + step < stop and at + step not in losses:
            losses[at + step] = loss_at(at + step)
            if losses[at + step] >= losses[at]:
                break
            at += step
        if at != start:
            break
    return at
