"""How peers choose among settings: on the validation nodes or, without any, by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import log_loss

from peers.registry import Data, Split, better

#: folds of the training labels, and the share of them that is held out where one fit has to do
FOLDS = 5

Array = NDArray[Any]

#: from labels to the probabilities of every setting, each of shape (n, K)
Candidates = Callable[[Split], Sequence[Array]]


def fit_best(
    fit: Candidates, data: Data, split: Split, seed: int, *, by_loss: bool = False
) -> tuple[Array, int]:
    """Return the probabilities of the best setting, fitted to all training labels, and its place.

    Settings are compared by accuracy, equal ones by log-loss.

    Parameters
    ----------
    fit : callable
        From labels to the probabilities of every setting.
    data, split, seed
        As peers get them; without validation nodes, each fold of the training labels serves once.
    by_loss : bool
        Whether to compare by log-loss alone.
    """
    parts = [] if len(split.validation) else folds(split, seed)
    found = fit(split)
    if len(found) == 1:
        return found[0], 0
    judged = [(fit(part), part) for part in parts]
    if len(split.validation):
        judged = [(found, split)]
    best, reached = 0, (-np.inf, np.inf)
    for place in range(len(found)) if judged else ():
        seen = np.concatenate([probas[place][part.validation] for probas, part in judged])
        truth = np.concatenate([part.validation_labels for _, part in judged])
        accuracy = float((seen.argmax(axis=1) == truth).mean())
        loss = float(log_loss(truth, seen, labels=range(data.n_classes)))
        score = (0.0 if by_loss else accuracy, loss)
        if better(score, reached):
            best, reached = place, score
    return found[best], best


def folds(split: Split, seed: int, n_folds: int = FOLDS) -> list[Split]:
    """Return splits in which every training label is held out once, classes evenly spread.

    The label of a class that has only one is never held out: nothing would be known of the class.
    """
    rng = np.random.default_rng([seed, 2])
    place = np.full(len(split.y), -1)
    start = 0
    for k in np.unique(split.y[split.train]):
        nodes = rng.permutation(np.flatnonzero(split.y == k))
        if len(nodes) > 1:
            # Going on where the last class ended keeps folds of small classes equally large.
            place[nodes] = (start + np.arange(len(nodes))) % min(n_folds, len(split.train))
            start += len(nodes)
    return [hold_out(split, np.flatnonzero(place == k)) for k in np.unique(place[place >= 0])]


def with_validation(split: Split, seed: int) -> Split:
    """Return the split, with a fifth of its training labels held out if it has no validation."""
    if len(split.validation):
        return split
    parts = folds(split, seed)
    return parts[0] if parts else split


def hold_out(split: Split, nodes: NDArray[np.int64]) -> Split:
    """Return the split with the labels of these training nodes as validation labels."""
    y = split.y.copy()
    y[nodes] = -1
    return Split(y, nodes, split.y[nodes])
