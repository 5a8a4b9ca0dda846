"""How often a fitted classifier is right: at the nodes it was fitted to, or at new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics import accuracy_score

from nodeproof.errors import InputError
from nodeproof.inputs import encode_truth
from nodeproof.inputs.node_names import align_rows, names_of_rows

if TYPE_CHECKING:
    from nodeproof.estimator import NodeClassifier

__all__ = ["accuracy_of"]


def accuracy_of(clf: NodeClassifier, X: Any, y: Any, sample_weight: Any, graph: Any) -> float:
    """Return the share of nodes of known class that are right.

    Parameters
    ----------
    clf : NodeClassifier
        Fitted.
    X, y, sample_weight, graph
        As in :meth:`NodeClassifier.score`.
    """
    if y is None:
        raise InputError(
            "score needs the true labels: score(y=y) for the nodes that were fitted, score(X, y, "
            "graph=links) for new ones"
        )
    if X is not None and graph is None and clf.fitted_on_graph_:
        raise InputError(
            "this model was fitted with a graph, and score(X, y) does not say which nodes are "
            "meant: score(y=y) judges those that were fitted, score(X, y, graph=links) new ones by "
            "their links to these (graph=[] if they have none)"
        )
    fitted = X is None and graph is None
    if fitted:
        names, whole = getattr(clf, "node_ids_", range(len(clf.labels_))), "the fit"
    else:
        names, whole = names_of_rows(X, "X"), "X"
    codes = clf.predict_proba(X, graph=graph).argmax(axis=1)
    truth = encode_truth(align_rows(y, names, "y", whole), clf.classes_, "y")
    if len(truth) != len(codes):
        raise InputError(
            f"y has {len(truth)} entries for {len(codes)} {'fitted' if fitted else 'new'} nodes"
        )
    known = truth >= 0
    if not known.any():
        raise InputError("y holds no label to judge by")
    weight = None if sample_weight is None else np.asarray(sample_weight)[known]
    return float(accuracy_score(truth[known], codes[known], sample_weight=weight))
