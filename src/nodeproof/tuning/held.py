"""Labels that are kept from fits, to judge them by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from nodeproof.regression import assign_folds, fit_scale, shares, with_noise

__all__ = ["Blind", "HeldBack", "hold_back"]

Array = NDArray[np.float64]

_FOLDS = 5

# A class counts at most so many times more, or less, than its labels alone would make it.
_MOST_WEIGHT = 5.0

# Below this a probability of a label that was held back counts as this.
_LEAST = 1e-6


class Blind(NamedTuple):
    """Labelled nodes, and what a fit thinks of them that does not know their labels.

    Attributes
    ----------
    nodes, codes : ndarray of shape (h,)
        The nodes, and their labels as class numbers.
    proba : ndarray of shape (h, K)
        Their class probabilities.
    noise : float
        Share of the labels that is wrong, as far as one can tell.
    """

    nodes: NDArray[np.int64]
    codes: NDArray[np.int64]
    proba: NDArray[np.float32]
    noise: float

    def at(self, nodes: NDArray[np.int64]) -> Blind:
        """Return the same about nodes at other positions, in ascending order."""
        order = np.argsort(nodes)
        return Blind(nodes[order], self.codes[order], self.proba[order], self.noise)


@dataclass(frozen=True)
class HeldBack:
    """Labels that are kept from fits, to judge them by.

    Attributes
    ----------
    nodes : ndarray of shape (h,)
        Where they are, ascending.
    codes : ndarray of shape (h,)
        What they are, 0…K−1.
    folds : ndarray of shape (h,)
        In which fit each is held back: 0…F−1.
    y : list of F ndarray of shape (n,)
        The labels that each fit may see.
    weights : ndarray of shape (h,)
        How much each counts: labels may be given evenly to classes of unequal size, and what
        matters is how all nodes fare.
    noise : float
        Share of them that is wrong.
    shift : ndarray of shape (K,), or 0
        What the scores of a classifier lack for the proportions of all nodes.
    own : bool
        Whether they are labels that the final fit sees; those of `validation` are not.
    """

    nodes: NDArray[np.int64]
    codes: NDArray[np.int64]
    folds: NDArray[np.int64]
    y: list[NDArray[np.int64]]
    weights: Array
    noise: float = 0.0
    shift: Array | float = 0.0
    own: bool = True

    def weighed(self, proportions: Array, learnt: Array) -> HeldBack:
        """Return the same with weights by what share of all nodes each class has.

        Parameters
        ----------
        proportions : ndarray of shape (K,)
            Of the classes among all nodes.
        learnt : ndarray of shape (K,)
            Of the classes among what classifiers are fitted to.
        """
        ratio = proportions / shares(self.targets(len(proportions)))
        weights = np.clip(ratio, 1.0 / _MOST_WEIGHT, _MOST_WEIGHT)[self.codes]
        shift = np.log(proportions / learnt)
        return replace(self, weights=weights / weights.mean(), shift=shift)

    def collect(self, rows: Sequence[NDArray[Any]]) -> Array:
        """Return logarithms of the rows of the nodes held back, each by the fit blind to it.

        Parameters
        ----------
        rows : sequence of ndarray of shape (n, K)
            One a fit; if there are fewer, nodes held back by the others get nan.
        """
        found = np.full((len(self.nodes), rows[0].shape[1]), np.nan)
        for fold, blind in enumerate(rows):
            here = self.folds == fold
            found[here] = np.log(np.maximum(blind[self.nodes[here]], _LEAST))
        return found

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
        """Tell whether the losses are lower, by so many standard errors of the difference.

        Nodes at which a loss is missing (nan) do not count.
        """
        gain = than - losses
        there = np.isfinite(gain)
        gain, weights = gain[there], self.weights[there] / self.weights[there].sum()
        error = np.sqrt(weights @ gain**2 / max(len(gain), 1))
        return bool(weights @ gain > errors * error)

    def mean(self, values: Array) -> float:
        """Return the weighted mean of one value a node."""
        return float(self.weights @ values / self.weights.sum())

    def losses(self, scores: Array) -> Array:
        """Return the log-loss of the label at each node, shape (h,)."""
        rows = np.arange(len(self.codes))
        return -with_noise(log_softmax(scores, axis=1), self.noise)[rows, self.codes]

    def _softened(self, n_classes: int) -> Array:
        # As if four more labels had been missed: few must not make probabilities extreme, and
        # settings chosen by these labels suit them better than others.
        missed = 4.0 / (len(self.codes) + 4.0)
        return np.asarray((1.0 - missed) * self.targets(n_classes) + missed / n_classes)

    def targets(self, n_classes: int) -> Array:
        """Return the labels as rows, shape (h, K)."""
        return np.eye(n_classes)[self.codes]


def hold_back(
    y: NDArray[np.int64],
    validation: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
    n_folds: int = _FOLDS,
) -> HeldBack | None:
    """Return what to judge by, or None where there are too few labels to hold any back.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Labels 0…K−1, −1 where there is none.
    validation : pair of ndarray, optional
        Nodes and their labels, to be judged by instead of folds.
    """
    if validation is not None:
        nodes, codes = validation
        order = np.argsort(nodes)
        folds = np.zeros(len(nodes), dtype=np.int64)
        return HeldBack(nodes[order], codes[order], folds, [y], np.ones(len(nodes)), own=False)
    nodes = np.flatnonzero(y >= 0)
    codes = y[nodes]
    counts = np.bincount(codes)
    if (counts[counts > 0] < 2).all() or (counts > 0).sum() < 2:
        return None
    folds = assign_folds(codes, min(n_folds, len(nodes)))
    # The only label of a class cannot be held back.
    alone = counts[codes] < 2
    seen = []
    for fold in range(int(folds.max()) + 1):
        hidden = y.copy()
        hidden[nodes[(folds == fold) & ~alone]] = -1
        seen.append(hidden)
    kept = ~alone
    return HeldBack(nodes[kept], codes[kept], folds[kept], seen, np.ones(int(kept.sum())))
