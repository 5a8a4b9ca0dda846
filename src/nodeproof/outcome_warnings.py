"""Warnings about the outcome of a fit or a prediction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from nodeproof.auto.settings import most_certain
from nodeproof.errors import InputError, count_of
from nodeproof.runtime.logs import is_called_by, warn_caller
from nodeproof.solvers import Result, Status
from nodeproof.solvers.sweep import uninformative

if TYPE_CHECKING:
    from nodeproof.fitted import Fitted

__all__ = ["explaining_split_graphs", "warn_of_missing_links", "warn_of_outcome"]


@contextmanager
def explaining_split_graphs(graph: Any) -> Iterator[None]:
    """If scikit-learn's cross-validation has cut the graph, add what to use to the error."""
    try:
        yield
    except InputError as error:
        if graph is None or not is_called_by("sklearn.model_selection"):
            raise
        raise InputError(
            f"{error}. scikit-learn's cross-validation splits rows, and with them the graph: use "
            "cross_validate or GridSearch of nodeproof.model_selection, which hide labels and keep "
            "the graph whole"
        ) from error


def warn_of_missing_links(fitted: Fitted, n_new: int) -> None:
    """Warn if new nodes have no links but should."""
    text = ""
    if n_new == fitted.n_nodes:
        text = (
            "predict(X) classifies new nodes by their features alone; for the fitted nodes, call "
            "predict() without X"
        )
    elif any(term is not None and term.needs_links for term in fitted.new_nodes.terms):
        text = (
            "the fit averaged features over links, but these nodes have none: their probabilities "
            "are overconfident; give their links to fitted nodes"
        )
    if text:
        warn_caller(text)


def warn_of_outcome(fitted: Fitted, result: Result) -> None:
    """Warn if a fit has not converged, is uninformative, or has one class or empty ones."""
    if result.status is Status.MAX_ITER:
        warn_caller(
            f"the fit {result.status} after {count_of(result.n_iter, 'sweep')} without converging; "
            "increase max_iter or tol",
            ConvergenceWarning,
        )
    if (
        fitted.given is not None
        and most_certain(fitted.settings.n_classes, fitted.given, len(fitted.classes)) < 1
    ):
        m = int((fitted.given >= 0).sum())
        warn_caller(
            f"{'the only label names' if m == 1 else f'all {m:,} labels name'} the class "
            f"{fitted.classes[0]}, so every node gets it; if there are other classes, label nodes "
            "of them, too, or give the number of classes; positive_only=True tells this class from "
            "all others"
        )
        return
    if uninformative(fitted.proba, result.models, fitted.given):
        warn_caller(
            "the data do not tell the classes apart: the probabilities of unlabelled nodes are "
            "little more than the class proportions; more labels or features may help"
        )
        return
    sizes = np.bincount(fitted.codes, minlength=len(fitted.classes))
    empty = fitted.classes[sizes == 0]
    if len(empty):
        warn_caller(
            f"no node was assigned to {len(empty)} of {len(sizes)} classes: "
            + ", ".join(map(str, empty[:5]))
        )
