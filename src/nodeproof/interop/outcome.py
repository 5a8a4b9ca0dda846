"""What was found, one entry a node, for those who write it down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from nodeproof.errors import InputError
from nodeproof.node_names import Names, check_positions, find_order, numbered

if TYPE_CHECKING:
    from nodeproof.estimator import NodeClassifier

__all__ = ["Outcome", "outcome_of"]


class Outcome(NamedTuple):
    """What was found.

    Attributes
    ----------
    labels : ndarray of shape (n,)
        The class of every node.
    codes : ndarray of shape (n,)
        Its position among the classes.
    proba : ndarray of shape (n, K), float32
        Class probabilities of every node.
    probability : ndarray of shape (n,), float32
        That of the class it has.
    suspect : ndarray of shape (n,), bool
        Whether the node has a given label that is probably wrong.
    """

    labels: NDArray[Any]
    codes: NDArray[np.intp]
    proba: NDArray[np.float32]
    probability: NDArray[np.float32]
    suspect: NDArray[np.bool_]


def outcome_of(clf: NodeClassifier, n_nodes: int, what: str, names: Names = None) -> Outcome:
    """Return what was found, in the order of the nodes of an object: by name if both have names.

    Parameters
    ----------
    n_nodes : int
        How many nodes the object has.
    what : str
        What it is called in an error.
    names : ndarray of shape (n,), range or None
        What it calls its nodes.
    """
    check_is_fitted(clf)
    n = len(clf.labels_)
    if n_nodes != n:
        raise InputError(f"{what} has {n_nodes} nodes, but the classifier was fitted to {n}")
    suspect = np.zeros(n, dtype=bool)
    suspect[clf.suspects_.node] = True
    fitted = getattr(clf, "node_ids_", None)
    names = numbered(names, fitted)
    order: Any = slice(None)
    if isinstance(fitted, np.ndarray) and isinstance(names, np.ndarray):
        order = find_order(fitted, names, "the classifier", what)
    else:
        check_positions({"the classifier": fitted, what: names})
    proba = clf.proba_[order].astype(np.float32)
    return Outcome(
        clf.labels_[order], proba.argmax(axis=1), proba, proba.max(axis=1), suspect[order]
    )
