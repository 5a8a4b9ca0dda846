"""A split: the nodes whose labels are given, and those whose labels are hidden."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import metrics as sklearn_metrics
from sklearn.utils.validation import column_or_1d

from nodeproof import metrics
from nodeproof.errors import InputError

__all__ = ["SCORES", "Score", "Split", "as_scores", "keep_labels", "positions"]


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Which labels are given, which serve to choose settings, and which are asked for.

    Attributes
    ----------
    train, validation, test : ndarray of int
        Positions of nodes; no node is in two of them, and some may be in none.

    Examples
    --------
    >>> from nodeproof.model_selection import Split
    >>> split = Split(train=[0, 3], validation=[], test=[1])
    >>> split
    Split(train=2, validation=0, test=1)
    >>> split.hide([5, 5, 7, 7])
    array([ 5, -1, -1,  7])
    """

    train: NDArray[np.intp]
    validation: NDArray[np.intp]
    test: NDArray[np.intp]

    def __post_init__(self) -> None:
        names = [field.name for field in fields(self)]
        for name in names:
            object.__setattr__(self, name, _as_positions(name, getattr(self, name)))
        for one, other in combinations(names, 2):
            shared = np.intersect1d(getattr(self, one), getattr(self, other))
            if len(shared):
                raise InputError(f"node {shared[0]} is both in {one} and in {other}")

    def __repr__(self) -> str:
        sizes = (f"{field.name}={len(getattr(self, field.name))}" for field in fields(self))
        return f"Split({', '.join(sizes)})"

    def hide(self, y: Any) -> NDArray[Any]:
        """Return a copy of the labels in which only those of the training nodes remain.

        Parameters
        ----------
        y : array of shape (n,)
            Labels.

        Returns
        -------
        ndarray of shape (n,)
            Hidden ones are −1, an empty string or, among objects, None.
        """
        if isinstance(y, list | tuple) and any(isinstance(label, str) for label in y):
            y = np.asarray(y, dtype=object)  # else numpy would take -1 and None for names
        labels = column_or_1d(y, warn=True)
        last = max(part.max(initial=-1) for part in (self.train, self.validation, self.test))
        if last >= len(labels):
            raise InputError(f"the split speaks of node {last}, but y has {len(labels)} entries")
        kept = self.train
        if np.ma.isMaskedArray(y):  # a mask hides labels, too
            kept = kept[~np.ma.getmaskarray(y).reshape(-1)[kept]]
        return keep_labels(labels, kept)


def keep_labels(labels: NDArray[Any], nodes: NDArray[np.intp]) -> NDArray[Any]:
    """Return a copy of the labels, shape (n,), that is unknown at all but the given nodes."""
    kind = labels.dtype.kind
    if kind == "u" and labels[nodes].max(initial=0) >= 2**63:
        raise InputError(
            f"y has the label {labels[nodes].max()}; numbers that name classes must be below 2**63 "
            "where labels are hidden: give them as text"
        )
    if kind == "O":
        kept = np.full(len(labels), None, dtype=object)
    elif kind in "US":
        kept = np.zeros_like(labels)  # empty strings
    else:
        # Booleans and unsigned integers have no -1.
        kept = np.full(len(labels), -1, dtype=np.int64 if kind in "bu" else labels.dtype)
    kept[nodes] = labels[nodes]
    return kept


def _as_positions(name: str, nodes: Any) -> NDArray[np.intp]:
    positions = np.asarray(nodes)
    if positions.size == 0:
        return np.empty(0, dtype=np.intp)
    if positions.ndim != 1 or positions.dtype.kind not in "iu":
        raise InputError(
            f"{name} must be a list of node positions, got {positions.dtype} of shape "
            f"{positions.shape}; Masks takes boolean masks"
        )
    if positions.min() < 0:
        raise InputError(f"{name} holds {positions.min()}: positions of nodes start at 0")
    return positions.astype(np.intp)


# ------------------------------------------------------------------------------
# What predictions are judged by: names for the usual scores, and functions of one's own.

Array = NDArray[Any]


@dataclass(frozen=True)
class Score:
    """A function with its name, and which way is better.

    The function takes the true and the predicted classes of k nodes by name, shape (k,), their
    probabilities, shape (k, K), and the names of the columns, shape (K,).
    """

    name: str
    function: Callable[[Array, Array, Array, Array], Any]
    lower_is_better: bool = False

    def __call__(self, y_true: Array, labels: Array, proba: Array, classes: Array) -> float:
        """Return the score as a number."""
        value = self.function(y_true, labels, proba, classes)
        try:
            return float(value)
        except (TypeError, ValueError):
            raise InputError(
                f"the score {self.name} must be a number, got {type(value).__name__}"
            ) from None


def accuracy(y_true: Array, labels: Array, proba: Array, classes: Array) -> Any:
    """Return the share of nodes that are right."""
    return sklearn_metrics.accuracy_score(y_true, labels)


def balanced_accuracy(y_true: Array, labels: Array, proba: Array, classes: Array) -> Any:
    """Return the accuracy within each true class, averaged over these classes."""
    # balanced_accuracy_score is the same, but warns of classes that were only predicted.
    return sklearn_metrics.recall_score(y_true, labels, labels=np.unique(y_true), average="macro")


def macro_f1(y_true: Array, labels: Array, proba: Array, classes: Array) -> Any:
    """Return the F1 score averaged over the true and the predicted classes."""
    return sklearn_metrics.f1_score(y_true, labels, average="macro", zero_division=0)


def log_loss(y_true: Array, labels: Array, proba: Array, classes: Array) -> Any:
    """Return minus the mean log-probability of the true class; zeros are clipped."""
    codes = positions(y_true, classes)
    return sklearn_metrics.log_loss(codes, proba, labels=np.arange(len(classes)))


def brier(y_true: Array, labels: Array, proba: Array, classes: Array) -> Any:
    """Return the mean squared distance of the probabilities from the truth."""
    return metrics.brier(positions(y_true, classes), proba)


def expected_calibration_error(y_true: Array, labels: Array, proba: Array, classes: Array) -> Any:
    """Return how far confidence and accuracy lie apart."""
    return metrics.expected_calibration_error(positions(y_true, classes), proba)


#: the scores that can be asked for by name
SCORES = {
    score.name: score
    for score in (
        Score("accuracy", accuracy),
        Score("balanced_accuracy", balanced_accuracy),
        Score("macro_f1", macro_f1),
        Score("log_loss", log_loss, lower_is_better=True),
        Score("brier", brier, lower_is_better=True),
        Score("expected_calibration_error", expected_calibration_error, lower_is_better=True),
    )
}


def as_scores(scoring: Any) -> list[Score]:
    """Return the scores behind a name, a function, or a list of them."""
    scores = [
        _as_score(asked) for asked in (scoring if isinstance(scoring, list | tuple) else [scoring])
    ]
    names = [score.name for score in scores]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two scores are named {name!r}: give each a name of its own")
    if not scores:
        raise InputError("scoring is empty: name at least one score")
    return scores


def _as_score(asked: Any) -> Score:
    if isinstance(asked, str) and asked in SCORES:
        return SCORES[asked]
    if callable(asked):
        return Score(getattr(asked, "__name__", type(asked).__name__), asked)
    raise InputError(
        f"scoring must be one of {', '.join(SCORES)}, a function, or a list of these, got {asked!r}"
    )


def positions(names: Array, classes: Array) -> NDArray[np.intp]:
    """Return where each name stands among the classes."""
    places = {name: i for i, name in enumerate(classes.tolist())}
    distinct, inverse = np.unique(names, return_inverse=True)
    for name in distinct.tolist():
        if name not in places:
            raise InputError(f"{name!r} is not one of the classes: {', '.join(map(str, places))}")
    return np.array([places[name] for name in distinct.tolist()], dtype=np.intp)[inverse]
