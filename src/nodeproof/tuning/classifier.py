"""A classifier on smoothed features: hops and penalty by labels held back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.regression import (
    balance,
    blind_scores,
    estimate_proportions,
    fit_logistic,
    fit_noise,
    shares,
)
from nodeproof.smoothing import Smoothing
from nodeproof.tuning.held import HeldBack

__all__ = ["Classifier", "choose_classifier"]

Array = NDArray[np.float64]

# Half decades, strongest first; features have length one.
_PENALTIES = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
_FIRST_PENALTY = 0.3

# Believed to be 0.2, give or take so many decades: some dozens of labels say little about it.
_LIKELY_PENALTY, _DECADES = 0.2, 0.5

# The first suits most graphs. Another is taken only where it does better by a standard error:
# with some dozens of labels, the best of several is often so by chance.
_HOPS = (16, 4, 0)

_SAMPLE = 4096


@dataclass(frozen=True)
class Classifier:
    """What was chosen for a classifier, and the fits that led to it.

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
    smoothing: Smoothing, n_classes: int, held: HeldBack, than: Array | None = None
) -> tuple[Classifier, HeldBack] | None:
    """Return the best classifier, and the labels held back, weighed by class.

    Parameters
    ----------
    than : ndarray of shape (h,), optional
        Losses to compete with: where the first try has no chance, None is returned.
    """
    best: tuple[Array, int, int, Array, Array] | None = None
    at = _PENALTIES.index(_FIRST_PENALTY)
    for hops in sorted(_HOPS):
        smoothing.over(hops)  # each on the way to the next
    for hops in _HOPS if smoothing.graph is not None else (0,):
        judged = _Judged(smoothing.over(hops), n_classes, held)
        if best is None:
            if than is None:
                held = judged.weigh(at)
            elif judged.has_no_chance(at, than):
                return None
        at = _descend_steps(judged.loss, at, len(_PENALTIES))
        losses = held.losses(judged.scaled(at))
        errors = 1.0 if hops else 0.5  # without the graph, nothing that it says can mislead
        if best is None or held.is_better(losses, best[0], errors):
            best = (losses, hops, at, *judged.fits[at])
    assert best is not None
    _, hops, at, scores, theta = best
    return Classifier(hops, _PENALTIES[at], held.scale(scores), theta), held


class _Judged:
    """Classifiers on one smoothing, penalty by penalty."""

    def __init__(self, all_nodes: NDArray[Any], n_classes: int, held: HeldBack) -> None:
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

    def weigh(self, at: int) -> HeldBack:
        """Return the labels held back, weighed by class, and how many of them are wrong."""
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
        self.held = self.held.weighed(proportions, equal)
        return self.held

    def has_no_chance(self, at: int, than: Array) -> bool:
        """Tell whether a penalty does worse by three standard errors."""
        self.loss(at)
        return self.held.is_better(than, self.held.losses(self.scaled(at)), errors=3.0)

    def scaled(self, at: int) -> Array:
        """Return the scores of the nodes held back as if of all nodes' classes, shape (h, K)."""
        scores, _ = self.fits[at]
        return self.held.scale(scores) * scores + self.held.shift

    def loss(self, at: int) -> float:
        """Return the log-loss of a penalty on the labels held back, and how unlikely it is."""
        theta = fit_logistic(
            self.Z, self.targets, _PENALTIES[at], self.seen, start=self.last, tol=1e-3
        )
        self.last = theta
        scores = blind_scores(self.Z_held, theta, self.held.folds)
        self.fits[at] = scores, theta
        away = np.log10(_PENALTIES[at] / _LIKELY_PENALTY) / _DECADES
        loss = self.held.mean(self.held.losses(self.scaled(at)))
        return loss + 0.5 * float(away**2) / len(self.held.codes)


def _descend_steps(loss_at: Callable[[int], float], start: int, stop: int) -> int:
    """Return where the loss is lowest, going down from `start` either way."""
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
