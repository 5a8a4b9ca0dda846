"""What a classifier warns of, because the user would want to know."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from nodeproof.auto.settings import most_certain
from nodeproof.errors import InputError
from nodeproof.runtime.logs import is_called_by, warn_caller
from nodeproof.solvers import Result, Status
from nodeproof.solvers.sweep import says_nothing

if TYPE_CHECKING:
    from nodeproof.fitted import Fitted

__all__ = ["naming_our_search", "warn_of_missing_links", "warn_of_outcome"]


@contextmanager
def naming_our_search(graph: Any) -> Iterator[None]:
    """Where scikit-learn's cross-validation has cut a graph, say in the error what to use."""
    try:
        yield
    except InputError as error:
        if graph is None or not is_called_by("sklearn.model_selection"):
            raise
        raise InputError(
            f"{error}. scikit-learn's cross-validation cuts rows, and so the graph: use "
            "cross_validate or GridSearch of nodeproof.model_selection, which hide labels and keep "
            "the graph whole"
        ) from error


def warn_of_missing_links(fitted: Fitted, n_new: int) -> None:
    """Say what is missing where new nodes come without links."""
    text = ""
    if n_new == fitted.n_nodes:
        text = (
            "predict(X) judges new nodes by their features alone; the fitted nodes, links and "
            "all, are in predict() without X"
        )
    elif any(term is not None and term.needs_links for term in fitted.new_nodes.terms):
        text = (
            "the fit has averaged features over links, and these nodes come without: they are "
            "surer of their class than they should be; give their links to fitted nodes"
        )
    if text:
        warn_caller(text)


def warn_of_outcome(fitted: Fitted, result: Result) -> None:
    """Say so where a fit has not settled, tells nothing, or has few classes or empty ones."""
    if result.status is Status.MAX_ITER:
        warn_caller(
            f"the fit {result.status} after {result.n_iter} sweeps without settling; raise "
            "max_iter or tol",
            ConvergenceWarning,
        )
    if fitted.given is not None and most_certain(fitted.settings.n_classes, fitted.given) < 1:
        m = int((fitted.given >= 0).sum())
        warn_caller(
            f"{'the only label names' if m == 1 else f'all {m:,} labels name'} the class "
            f"{fitted.classes[0]}, so every node gets it; if there are other classes, label nodes "
            "of them too, or say how many classes there are"
        )
        return
    if says_nothing(fitted.proba, result.models, fitted.given):
        warn_caller(
            "what was given does not tell the classes apart: the nodes without a label get "
            "little more than the proportions of the classes; more labels or features may help"
        )
        return
    sizes = np.bincount(fitted.codes, minlength=len(fitted.classes))
    empty = fitted.classes[sizes == 0]
    if len(empty):
        warn_caller(
            f"no node was assigned to {len(empty)} of {len(sizes)} classes: "
            + ", ".join(map(str, empty[:5]))
        )
