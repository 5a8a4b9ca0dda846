"""Whether settings can be used, and whether what is given fits together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from nodeproof.distributed import as_engine
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.inputs.labels import EncodedLabels
from nodeproof.runtime.threads import check_jobs
from nodeproof.solvers.base import LARGEST, MOST_STARTS, check_at_least, check_count

if TYPE_CHECKING:
    from nodeproof.estimator import NodeClassifier

__all__ = ["check_candidates", "check_settings", "check_sizes"]

# So many classes may well have a node each.
_FEW_CLASSES = 50


def check_settings(clf: NodeClassifier) -> None:
    """Raise an error that names the first setting of a classifier that cannot be used."""
    check_at_least("son", clf.son, 0.0, LARGEST)
    as_engine(clf.engine)
    check_count("max_iter", clf.max_iter)
    if clf.n_init != "auto":
        check_count("n_init", clf.n_init, MOST_STARTS)
    check_at_least("temperature", clf.temperature, 0.0)
    check_at_least("tol", clf.tol, 0.0)
    check_jobs(clf.n_jobs)
    _check_seed(clf.random_state)


def _check_seed(random_state: Any) -> None:
    whole = isinstance(random_state, int | np.integer)
    try:
        # Whole numbers may be larger than scikit-learn has them.
        fits = random_state >= 0 if whole else bool(check_random_state(random_state))
    except ValueError:
        fits = False
    if not fits:
        raise InputError(
            f"random_state must be an integer ≥ 0, a RandomState or None, got {random_state!r}"
        )


def check_sizes(X: NDArray[Any] | None, labels: EncodedLabels, graph: Graph | None) -> None:
    """Raise an error where nodes are missing, or the parts do not fit together."""
    K = len(labels.classes)
    if X is None and graph is None and labels.codes is None:
        raise InputError("y holds no label, and there are neither features nor a graph")
    parts = {
        "X": None if X is None else X.shape[0],
        "y": labels.n_nodes,
        "graph": None if graph is None else graph.n_nodes,
    }
    sizes = {name: size for name, size in parts.items() if size is not None}
    n = next(iter(sizes.values()))
    if set(sizes.values()) != {n}:
        listed = ", ".join(f"{name} has {size}" for name, size in sizes.items())
        raise InputError(
            f"X, y and graph must speak of the same nodes, but {listed}; y needs one entry a node, "
            "-1 where unknown"
        )
    if n < K:
        raise InputError(f"n_classes={K} is more than the {n} nodes: a class would be empty")
    if labels.codes is not None:
        _check_distinct(labels.classes, labels.codes)


def _check_distinct(classes: NDArray[Any], codes: NDArray[np.int64]) -> None:
    """Refuse labels that are hardly classes: features, or what tells single nodes apart.

    A label for each of many classes is enough where most nodes have none, but fractions name none.
    """
    given, named = int((codes >= 0).sum()), int(codes.max()) + 1
    if named <= _FEW_CLASSES or 10 * named <= 9 * given:
        return
    if 2 * given > len(codes) or _are_fractions(classes[:named]):
        raise InputError(
            f"there are {named:,} different labels on {given:,} nodes: are they features, or what "
            "tells single nodes apart? Labels must name classes"
        )


def _are_fractions(names: NDArray[Any]) -> bool:
    try:
        numbers = names.astype(np.float64)
    except ValueError:
        return False
    return bool((numbers != np.round(numbers)).mean() > 0.5)


def check_candidates(
    candidates: Any, n_nodes: int, labelled: NDArray[np.int64], what: str = "candidates"
) -> NDArray[np.int64]:
    """Return the nodes that may be asked for: distinct, and without a label."""
    known = np.zeros(n_nodes, dtype=bool)
    known[labelled] = True
    if candidates is None:
        return np.flatnonzero(~known)
    nodes = np.asarray(candidates)
    if nodes.dtype == bool and nodes.shape == (n_nodes,):
        nodes = np.flatnonzero(nodes)
    if nodes.ndim != 1 or (len(nodes) and nodes.dtype.kind not in "iu"):
        raise InputError(f"{what} must be positions of nodes (integers) or a mask")
    outside = nodes[(nodes < 0) | (nodes >= n_nodes)]
    if len(outside):
        raise InputError(f"{what} name node {outside[0]}, but there are {n_nodes} nodes")
    nodes = np.unique(nodes).astype(np.int64)
    return np.asarray(nodes[~known[nodes]])
