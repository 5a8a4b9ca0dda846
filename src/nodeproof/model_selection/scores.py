"""Scores of predictions: the usual ones by name, and functions of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import metrics as sklearn_metrics

from nodeproof import metrics
from nodeproof.errors import InputError

__all__ = ["SCORES", "Score", "as_scores", "positions"]


Array = NDArray[Any]


@dataclass(frozen=True)
class Score:
    """A scoring function with its name and direction.

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
    """Return the share of correct nodes."""
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
    """Return the mean distance between confidence and accuracy."""
    return metrics.expected_calibration_error(positions(y_true, classes), proba)


#: scores by name
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
    """Return the position of each name among the classes."""
    places = {name: i for i, name in enumerate(classes.tolist())}
    distinct, inverse = np.unique(names, return_inverse=True)
    for name in distinct.tolist():
        if name not in places:
            raise InputError(f"{name!r} is not one of the classes: {', '.join(map(str, places))}")
    return np.array([places[name] for name in distinct.tolist()], dtype=np.intp)[inverse]
