"""Cross-validation that hides labels and keeps the graph whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from nodeproof.model_selection.fits import Fit, Nodes, Outcome, as_splits, run
from nodeproof.model_selection.scores import as_scores

__all__ = ["cross_validate"]


def cross_validate(
    clf: Any,
    X: Any,
    y: Any,
    *,
    graph: Any = None,
    cv: Any = 5,
    scoring: str | Callable[..., Any] | list[Any] = "accuracy",
    use_validation: bool = False,
    n_jobs: int | None = None,
    return_estimators: bool = False,
    return_proba: bool = False,
) -> dict[str, Any]:
    """Score a classifier at nodes whose labels it has not seen.

    For every split a clone is fitted to the whole graph and all features, with the labels of the
    training nodes alone, and scored at the test nodes.

    Parameters
    ----------
    clf : estimator
        A NodeClassifier, or anything with ``fit(X, y, *, graph)`` that then has ``labels_``,
        ``proba_`` and ``classes_``.
    X : array of shape (n, m), or None
        Features.
    y : array of shape (n,)
        Labels; −1 (or None, NaN, an empty string) where unknown.
    graph : object, optional
        The links, in any form that `clf` takes.
    cv : int, splitter or list of Split
        A number stands for the folds of `LabelKFold`, the same in every call.
    scoring : str, callable or list of them
        "accuracy", "balanced_accuracy", "macro_f1", "log_loss", "brier",
        "expected_calibration_error", or functions of (y_true, labels, proba, classes): true and
        predicted classes of the k test nodes, their probabilities of shape (k, K) and the names
        of the columns.
    use_validation : bool
        Whether ``fit`` is also given ``validation=(nodes, labels)``, to choose settings on.
        Otherwise the labels of validation nodes are hidden and not used.
    n_jobs : int, optional
        Processes, which share the cores; −1 for as many as there are cores. By default the fits
        follow each other in this process. The scores do not depend on it.
    return_estimators, return_proba : bool
        Whether to return the fitted classifiers, and their probabilities.

    Returns
    -------
    dict
        "test_<score>" and "fit_seconds", each of shape (n_splits,). Losses are as they are:
        lower is better. If asked for, "estimators", a list; and "proba" of shape
        (n_splits, n, K) with the names of its columns in "classes" and the list of "splits".
        A class that was not in the training has probability 0.

    Examples
    --------
    >>> from nodeproof import NodeClassifier
    >>> from nodeproof.datasets import make_planted
    >>> from nodeproof.model_selection import PerClass, cross_validate
    >>> data = make_planted(cluster_size=50, p=0.4, random_state=0)
    >>> cv = PerClass(n_train=2, n_splits=3, random_state=0)
    >>> clf = NodeClassifier(random_state=0)
    >>> scores = cross_validate(clf, data.X, data.y_true, graph=data.graph, cv=cv)
    >>> bool(scores["test_accuracy"].min() > 0.95)
    True
    """
    nodes = Nodes.of(X, y, graph)
    scores = as_scores(scoring)
    splits = as_splits(cv, nodes.labels, random_state=0)
    fits = [
        Fit(clone(clf), split, split.test, f"split {number}", use_validation)
        for number, split in enumerate(splits)
    ]
    for fit in fits:
        nodes.check(fit)
    outcomes = dict(
        run(
            fits,
            nodes,
            scores,
            n_jobs=n_jobs,
            keep_clf=return_estimators,
            keep_proba=return_proba,
        )
    )
    ordered = [outcomes[number] for number in range(len(fits))]
    values = np.array([outcome.scores for outcome in ordered])
    answer: dict[str, Any] = {f"test_{score.name}": values[:, k] for k, score in enumerate(scores)}
    answer["fit_seconds"] = np.array([outcome.seconds for outcome in ordered])
    if return_estimators:
        answer["estimators"] = [outcome.clf for outcome in ordered]
    if return_proba:
        answer["proba"], answer["classes"] = _stacked(ordered)
        answer["splits"] = splits
    return answer


def _stacked(outcomes: list[Outcome]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the probabilities of all splits, shape (n_splits, n, K), and the names of K."""
    names = list(dict.fromkeys(name for one in outcomes for name in one.classes.tolist()))
    places = {name: i for i, name in enumerate(names)}
    n = len(outcomes[0].proba)
    proba = np.zeros((len(outcomes), n, len(names)))
    for rows, outcome in zip(proba, outcomes, strict=True):
        rows[:, [places[name] for name in outcome.classes.tolist()]] = outcome.proba
    return proba, np.array(names)
