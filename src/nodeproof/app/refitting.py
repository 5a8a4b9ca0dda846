"""Fitting again after labels have changed, and what has changed by it."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from nodeproof.errors import InputError
from nodeproof.fitted import Fitted
from nodeproof.fitting import FitData, fit_nodes
from nodeproof.inputs import EncodedLabels
from nodeproof.runtime import threads
from nodeproof.solvers.base import Callback
from nodeproof.update import update_fitted

__all__ = ["can_refit", "compare", "refit"]

# Transitions between classes and nodes that are listed.
_MOST_MOVES, _MOST_NODES = 12, 2_000


def can_refit(fitted: Fitted) -> bool:
    """Tell whether a model has the data that it was fitted to."""
    return fitted.data is not None


def refit(fitted: Fitted, labels: dict[Any, Any], callback: Callback) -> tuple[Fitted, list[str]]:
    """Return the model after a change of labels, and what it warns of.

    By an update, which goes on from where the model is; by a new fit where that cannot be.

    Parameters
    ----------
    labels : dict
        From names of nodes, or positions if they have none, to names of classes; None removes.
    callback : callable
        Called with the progress of a new fit.
    """
    with warnings.catch_warnings(record=True) as caught, threads.using(fitted.settings.n_jobs):
        warnings.simplefilter("always", UserWarning)
        try:
            found = update_fitted(fitted, y=labels)
        except InputError:
            found = _fit_all(fitted, labels, callback)
    return found, list(dict.fromkeys(str(warning.message) for warning in caught))


def _fit_all(fitted: Fitted, labels: dict[Any, Any], callback: Callback) -> Fitted:
    """Return a new fit to the same data with other labels."""
    data = fitted.data
    if data is None or fitted.given is None:
        raise InputError("this model was saved without its data: fit it again with the new labels")
    codes = fitted.given.copy()
    rows = {name: row for row, name in enumerate(fitted.names.tolist())}
    numbers = {name: code for code, name in enumerate(fitted.classes.tolist())}
    for name, label in labels.items():
        codes[rows[name]] = -1 if label is None else numbers[label]
    X = data.nodes.X
    if X is not None and fitted.unit is not None:
        X = X * fitted.unit.scale + fitted.unit.shift
    encoded = EncodedLabels(fitted.classes, codes, len(codes))
    again = FitData(X, encoded, data.nodes.graph, fitted.node_ids, fitted.feature_names)
    found = fit_nodes(again, replace(fitted.settings, verbose=callback))
    return replace(
        found,
        settings=fitted.settings,
        preparation=fitted.preparation,
        command=fitted.command,
        notes=fitted.notes,
    )


def compare(before: Fitted, after: Fitted) -> dict[str, Any]:
    """Return what has changed between two models of the same nodes.

    Returns
    -------
    dict
        ``count``: nodes of another class; ``nodes``: their positions, those that are now most
        certain first; ``moves``: from class, to class and how many, the most frequent first.
    """
    old, new = before.codes, after.codes
    nodes = np.flatnonzero(old != new)
    order = np.argsort(-after.proba[nodes].max(axis=1), kind="stable")
    K = len(after.classes)
    moves, counts = np.unique(old[nodes] * K + new[nodes], return_counts=True)
    most = np.argsort(-counts, kind="stable")[:_MOST_MOVES]
    return {
        "count": len(nodes),
        "nodes": nodes[order][:_MOST_NODES].tolist(),
        "moves": [[int(moves[k]) // K, int(moves[k]) % K, int(counts[k])] for k in most],
    }
