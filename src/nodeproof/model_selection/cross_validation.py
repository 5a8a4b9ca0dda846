"""Cross-validation that hides labels and keeps the graph whole, in one or several processes."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
from joblib.parallel import get_active_backend
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed

from nodeproof.errors import InputError
from nodeproof.inputs import encode_labels
from nodeproof.inputs.unpacking import unpack
from nodeproof.model_selection.scores import Score, as_scores, positions
from nodeproof.model_selection.splitters import LabelKFold, Split, keep_labels
from nodeproof.runtime import threads
from nodeproof.runtime.logs import warn_caller
from nodeproof.runtime.threads import serve

__all__ = ["Fit", "Nodes", "Outcome", "as_splits", "cross_validate", "run"]


@dataclass(frozen=True)
class Nodes:
    """All nodes with their data.

    Attributes
    ----------
    X, graph : object
        Features and links, as given.
    labels : ndarray of shape (n,)
        Integers or strings; −1 or an empty string where unknown.
    classes : ndarray of shape (K,)
        The distinct labels.
    """

    X: Any
    graph: Any
    labels: NDArray[Any]
    classes: NDArray[Any]

    @classmethod
    def of(cls, X: Any, y: Any, graph: Any) -> Self:
        """Read the labels, in whatever form they are given, with the names of the classes."""
        given = unpack(X, y, graph)
        encoded = encode_labels(given.y, None)
        if encoded.codes is None or len(encoded.classes) < 2:
            raise InputError(
                f"y names {len(encoded.classes)} classes: to hide labels and judge predictions, "
                "at least two are needed"
            )
        known = np.flatnonzero(encoded.codes >= 0)
        labels = keep_labels(encoded.classes[encoded.codes], known)
        # A folder stays a path, which other processes open for themselves.
        graph = graph if isinstance(graph, str | os.PathLike) else given.graph
        return cls(given.X, graph, labels, encoded.classes.astype(labels.dtype))

    def check(self, fit: Fit) -> None:
        """Raise an error if a fit has too few nodes or labels to be made or scored."""
        if not np.isin(fit.split.hide(self.labels), self.classes).any():
            raise InputError(f"{fit.name} has no training node with a label: predictions need some")
        if len(fit.scored) == 0:
            raise InputError(f"{fit.name} leaves no labelled node to score")
        without = fit.scored[~np.isin(self.labels[fit.scored], self.classes)]
        if len(without):
            raise InputError(f"{fit.name} is to be scored at node {without[0]}, which has no label")
        if fit.use_validation and len(fit.split.validation) == 0:
            raise InputError(
                f"{fit.name} has no validation nodes for use_validation=True; PerClass, "
                "RandomShare and Masks can have some"
            )


@dataclass(frozen=True)
class Fit:
    """A fit to make.

    Attributes
    ----------
    clf : estimator
        The classifier, not fitted yet.
    split : Split
        The labels that it gets.
    scored : ndarray of int
        Nodes to score it at.
    name : str
        Name in error messages.
    use_validation : bool
        Whether it also gets the validation nodes, to choose settings on.
    """

    clf: Any
    split: Split
    scored: NDArray[np.intp]
    name: str
    use_validation: bool = False


@dataclass(frozen=True)
class Outcome:
    """The outcome of a fit.

    Attributes
    ----------
    scores : list of float
        In the order of the scores.
    seconds : float
        Duration of the fit.
    clf : estimator or None
        The fitted classifier.
    proba : ndarray of shape (n, K) or None
        Probabilities of all nodes.
    classes : ndarray of shape (K,)
        Names of its columns.
    warned : list of (str, type)
        Texts and categories of the warnings.
    """

    scores: list[float]
    seconds: float
    clf: Any
    proba: Any
    classes: NDArray[Any]
    warned: list[tuple[str, type[Warning]]]


def as_splits(cv: Any, y: Any, random_state: Any) -> list[Split]:
    """Return the splits of a splitter, a number of folds or a list of splits."""
    if isinstance(cv, Integral):
        cv = LabelKFold(int(cv), random_state)
    if type(cv).__module__.startswith("sklearn."):
        raise InputError(
            f"{type(cv).__name__} of scikit-learn splits rows, and so the graph; use PerClass, "
            "RandomShare, LabelKFold or Masks"
        )
    if isinstance(cv, list | tuple):
        splits = list(cv)
    elif hasattr(cv, "get_n_splits"):
        splits = list(cv.split(y))
    else:
        raise InputError(f"cv must be a number of folds, a splitter or a list of Split, got {cv!r}")
    for split in splits:
        if not isinstance(split, Split):
            raise InputError(f"cv must give objects of type Split, got {type(split).__name__}")
    if not splits:
        raise InputError("cv gives no split")
    return splits


def run(
    fits: Sequence[Fit],
    nodes: Nodes,
    scores: list[Score],
    *,
    n_jobs: int | None,
    keep_clf: bool = False,
    keep_proba: bool = False,
) -> Generator[tuple[int, Outcome]]:
    """Yield the number and the outcome of each fit as it is finished, in any order.

    A warning that many fits share is given once. The outcomes do not depend on `n_jobs`.
    """
    if n_jobs == 0:
        raise InputError("n_jobs must not be 0: give a number of processes, or None for one")
    if get_active_backend()[0].nesting_level:
        n_jobs = 1  # this is a worker already: its siblings have the other cores
    # Copies on write: compiled loops take arrays that may be written to.
    parallel = Parallel(n_jobs, backend="loky", return_as="generator_unordered", mmap_mode="c")
    calls = (
        delayed(_answer)(number, fit, nodes, scores, keep_clf, keep_proba, os.getpid())
        for number, fit in enumerate(fits)
    )
    warned = set()
    with closing(parallel(calls)) as answers:
        for number, outcome in answers:
            for text, category in outcome.warned:
                if (text, category) not in warned:
                    warned.add((text, category))
                    warn_caller(text, category)
            yield number, outcome


def _answer(
    number: int,
    fit: Fit,
    nodes: Nodes,
    scores: list[Score],
    keep_clf: bool,
    keep_proba: bool,
    parent: int,
) -> tuple[int, Outcome]:
    if os.getpid() != parent:
        serve(parent)
    try:
        return number, _fit_and_score(fit, nodes, scores, keep_clf, keep_proba)
    except Exception as error:
        error.add_note(f"(in the fit of {fit.name})")
        raise


def _fit_and_score(
    fit: Fit, nodes: Nodes, scores: list[Score], keep_clf: bool, keep_proba: bool
) -> Outcome:
    settings = {}
    if fit.use_validation:
        settings["validation"] = (fit.split.validation, nodes.labels[fit.split.validation])
    # BLAS on one thread everywhere: several would split sums differently.
    with warnings.catch_warnings(record=True) as caught, threads.using(1):
        began = time.perf_counter()
        clf = fit.clf.fit(nodes.X, fit.split.hide(nodes.labels), graph=nodes.graph, **settings)
        seconds = time.perf_counter() - began
        classes, labels, proba = _predictions(clf, nodes)
        at = fit.scored
        values = [score(nodes.labels[at], labels[at], proba[at], classes) for score in scores]
    return Outcome(
        scores=values,
        seconds=seconds,
        clf=clf if keep_clf else None,
        proba=proba if keep_proba else None,
        classes=classes,
        warned=[(str(warning.message), warning.category) for warning in caught],
    )


def _predictions(clf: Any, nodes: Nodes) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return classes, labels and probabilities: known classes first, then the classifier's own."""
    name = type(clf).__name__
    for attribute in ("labels_", "proba_", "classes_"):
        if not hasattr(clf, attribute):
            raise InputError(f"{name} has no {attribute} after fit, so it cannot be scored")
    own, given = np.asarray(clf.classes_), np.asarray(clf.proba_)
    n = len(nodes.labels)
    if given.shape != (n, len(own)) or len(clf.labels_) != n:
        raise InputError(
            f"{name} must predict all {n} nodes and {len(own)} classes, but its labels_ "
            f"have length {len(clf.labels_)} and its proba_ shape {given.shape}"
        )
    known = set(nodes.classes.tolist())
    fresh = [one for one in own.tolist() if one not in known]
    if len(fresh) == len(own):
        raise InputError(f"classes_ of {name} are {own.tolist()[:5]}, none of which is a label")
    classes = np.concatenate([nodes.classes, np.array(fresh)]) if fresh else nodes.classes
    proba = np.zeros((n, len(classes)), np.result_type(given.dtype, np.float32))
    proba[:, positions(own, classes)] = given
    return classes, classes[positions(np.asarray(clf.labels_), classes)], proba


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
    """Score a classifier at nodes whose labels were hidden from it.

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
        Processes, which share the cores; −1 for one per core. By default the fits run one after
        another in this process. The scores do not depend on it.
    return_estimators, return_proba : bool
        Whether to return the fitted classifiers, and their probabilities.

    Returns
    -------
    dict
        "test_<score>" and "fit_seconds", each of shape (n_splits,). Losses keep their sign:
        lower is better. On request, "estimators", a list; and "proba" of shape
        (n_splits, n, K) with the names of its columns in "classes" and the list of "splits".
        A class without a training label has probability 0.

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
