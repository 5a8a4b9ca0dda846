"""The penalty of a regression, chosen on held-out labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodeproof.auto.held_out import HeldOut
from nodeproof.auto.pooling import Judge
from nodeproof.terms.logistic import (
    balance,
    fit_logistic,
    from_basis,
    held_out_scores,
    principal_axes,
)

__all__ = ["Best", "PenaltySearch", "Setting"]

Array = NDArray[np.float64]

# Half decades, strongest first; features have length one.
_PENALTIES = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
_FIRST_PENALTY = 0.3

# How much worse than another expert is far worse, as a share of the log-loss of guessing.
_FAR_WORSE = 0.15


class Setting(NamedTuple):
    """How far features are averaged, the penalty, the scale of the scores, and the refits."""

    hops: int
    l2: float
    sharpness: float
    rounds: int = 0
    spread: bool = False


class Best(NamedTuple):
    """The best penalty by some of the held-out labels.

    Attributes
    ----------
    setting : Setting
        With the penalty, and the sharpness that suits these labels.
    loss : float
        Mean log-loss on them, plus the negative log prior of the penalty.
    scores : ndarray of shape (h, K)
        Of all held-out nodes, not scaled.
    theta : ndarray of shape (F, K, d + 1)
        One regression per fold.
    """

    setting: Setting
    loss: float
    scores: Array
    theta: Array


class PenaltySearch:
    """Regressions on one smoothing, for a grid of penalties.

    Parameters
    ----------
    hops : int
        How far the features were averaged.
    Z : ndarray of shape (n, d)
        The averaged features.
    prior : pair of float
        The penalty is believed to be log-normal around the first, with the second as standard
        deviation in decades: a few dozen labels say little about it.
    """

    def __init__(
        self,
        hops: int,
        Z: NDArray[Any],
        n_classes: int,
        held: HeldOut,
        prior: tuple[float, float],
    ) -> None:
        self.hops, self.held, self.prior = hops, held, prior
        self.fits: dict[int, tuple[Array, Array]] = {}
        self.judge = Judge.of(held.codes, n_classes)
        y = np.max(held.y, axis=0)
        labelled = np.flatnonzero(y >= 0)
        self.Z, self.Z_held = Z[labelled], Z[held.nodes]
        # No solution leaves the span of the rows: all penalties are fitted there.
        self.axes: NDArray[Any] | None = None
        if len(labelled) < Z.shape[1]:
            self.axes, self.Z = principal_axes(self.Z)
            self.Z_held = self.Z_held @ self.axes
        self.targets = np.eye(n_classes)[y[labelled]]
        # By the labels that each fold sees, as a fit to them does.
        self.seen = np.zeros((len(labelled), len(held.y)))
        for fold, own in enumerate(held.y):
            seen = own[labelled] >= 0
            self.seen[seen, fold] = balance(own[labelled[seen]])
        self.last: Array | None = None
        self.by_all: dict[int, tuple[float, float]] = {}
        self.at = _PENALTIES.index(_FIRST_PENALTY)

    def descend(self, before: PenaltySearch | None = None) -> None:
        """Fit penalties until the loss rises, from where another search has ended."""
        start = self.at if before is None else before.at
        self.at = _descend_steps(self.fit, start, len(_PENALTIES))

    def fit(self, at: int) -> float:
        """Fit the regressions of a penalty, and return its loss by all held-out labels."""
        theta = fit_logistic(
            self.Z, self.targets, _PENALTIES[at], self.seen, start=self.last, tol=1e-3
        )
        self.last = theta
        self.fits[at] = held_out_scores(self.Z_held, theta, self.held.folds), theta
        self.by_all[at] = self._loss(at, np.arange(len(self.held.codes)))
        return self.by_all[at][0]

    def best(self, by: NDArray[np.int64] | None = None) -> Best:
        """Return the best of the fitted penalties by some of the held-out labels, or by all."""
        losses = self.by_all if by is None else {at: self._loss(at, by) for at in self.fits}
        at = min(losses, key=lambda at: losses[at][0])
        loss, sharpness = losses[at]
        scores, theta = self.fits[at]
        if self.axes is not None:
            theta = from_basis(theta, self.axes)
        return Best(Setting(self.hops, _PENALTIES[at], sharpness), loss, scores, theta)

    def is_hopeless(self, than: Array) -> bool:
        """Tell whether the best penalty is far worse than another expert: no hops would help.

        Parameters
        ----------
        than : ndarray of shape (h,)
            Losses of the other.
        """
        best = self.best()
        offset = np.log(self.judge.shares)
        worse = self.judge.losses(best.setting.sharpness * best.scores + offset) - than
        error = worse.std() / np.sqrt(len(worse))
        return bool(worse.mean() > max(3.0 * error, _FAR_WORSE * np.log(self.judge.n_classes)))

    def _loss(self, at: int, by: NDArray[np.int64]) -> tuple[float, float]:
        """Return the loss of a penalty by some held-out labels, and the sharpness that suits."""
        judge, scores = self.judge.only(by), self.fits[at][0][by]
        offset = np.log(judge.shares)
        sharpness = judge.temperature(scores, offset)
        likely, decades = self.prior
        away = np.log10(_PENALTIES[at] / likely) / decades
        loss = judge.loss(sharpness * scores + offset)
        return loss + 0.5 * float(away**2) / len(by), sharpness


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
