"""Check what a user gives to `fit`, once, and turn it into arrays that the rest can trust."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.room import check_free
from nodeproof.solvers.base import LARGEST, check_at_least, check_count
from nodeproof.solvers.rows import check_engine
from nodeproof.tensors import plain

if TYPE_CHECKING:
    from nodeproof.estimator import NodeClassifier

__all__ = [
    "EncodedLabels",
    "Unit",
    "check_candidates",
    "check_features",
    "check_reach",
    "check_settings",
    "check_sizes",
    "check_validation",
    "encode_labels",
    "encode_names",
    "warn_of_typos",
    "with_short_indices",
]

# So many rows, evenly spaced, tell where the middle of a feature lies.
_SAMPLE = 10_000

# Squares of larger features, divided by a small variance, would not be floats.
_REACH = 1e100

# So many names are compared with the others.
_MOST_TYPOS = 20

_UNKNOWN_STRINGS = ("", "-1", "nan", "None")


@dataclass(frozen=True)
class EncodedLabels:
    """Labels as class numbers.

    Attributes
    ----------
    classes : ndarray of shape (K,)
        Names of the classes: the given labels, sorted, and after them the classes without a
        label; none where neither labels nor n_classes say how many there are.
    codes : ndarray of shape (n,), or None
        0…K−1, −1 where there is no label; None if no label was given at all.
    n_nodes : int or None
        Length of y; None if there was none.
    """

    classes: NDArray[Any]
    codes: NDArray[np.int64] | None
    n_nodes: int | None


@dataclass(frozen=True)
class Unit:
    """A shift and a scale of each feature that keep its squares well within float64.

    Attributes
    ----------
    shift, scale : ndarray of shape (m,)
        Features are taken as ``(X − shift) / scale``.
    """

    shift: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def needed(cls, X: NDArray[Any]) -> Unit | None:
        """Return the unit of extreme features (far from zero, huge or tiny), else None."""
        # Quarters: the distance between the largest floats is beyond them.
        center = np.median(0.25 * X[:: -(-len(X) // _SAMPLE)], axis=0).astype(np.float64)
        top, bottom = 0.25 * X.max(axis=0).astype(np.float64), 0.25 * X.min(axis=0)
        spread = np.maximum(top - center, center - bottom)
        far = 1e-3 * np.abs(center) > spread
        odd = (spread > 0) & ((spread > 1e50) | (spread < 1e-50))
        beyond = far & ((spread > 0) | (np.abs(center) > 1e50))
        if not beyond.any() and not odd.any():
            return None
        return cls(np.where(far, 4.0 * center, 0.0), np.where(odd, spread, 1.0))

    def apply(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Return the features in this unit, shape (n, m)."""
        with np.errstate(over="ignore"):  # of new nodes; `check_reach` names them
            return np.asarray((X.astype(np.float64) - self.shift) / self.scale)


def check_reach(X: Any) -> None:
    """Raise an error that names the first entry whose square is out of the range of floats."""
    entries = X.data if sp.issparse(X) else X
    if entries.dtype == np.float32 or not entries.size:
        return
    if max(entries.max(), -entries.min()) <= _REACH:
        return
    beyond = np.abs(entries) > _REACH
    if sp.issparse(X):
        listed = sp.coo_array(X)
        row, column = listed.row[beyond.argmax()], listed.col[beyond.argmax()]
    else:
        row, column = np.argwhere(beyond)[0]
    raise InputError(
        f"X is {X[row, column]:g} at row {row}, column {column}, too large to be squared; give "
        "features in a larger unit"
    )


def check_features(X: Any, names: NDArray[Any] | None = None) -> None:
    """Raise an error that names the first entry that is not finite."""
    finite = np.isfinite(X.data if sp.issparse(X) else X)
    if finite.all():
        return
    if sp.issparse(X):
        entry = int((~finite).argmax())
        row = int(np.searchsorted(X.indptr, entry, side="right")) - 1
        column = int(X.indices[entry])
    else:
        row, column = np.argwhere(~finite)[0]
    name = f"{column} ({names[column]!r})" if names is not None else str(column)
    what = "NaN" if np.isnan(X[row, column]) else "infinity"
    raise InputError(
        f"Input X contains {what} at row {row}, column {name}; fill missing features in or drop "
        "them first"
    )


def with_short_indices(X: sp.csr_array) -> sp.csr_array:
    """Return the same matrix with indices of 32 bits, as scikit-learn needs them, if they fit."""
    if X.indices.dtype == np.int32 or max(X.nnz, *X.shape) > np.iinfo(np.int32).max:
        return X
    parts = X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return sp.csr_array(parts, shape=X.shape)


def encode_labels(y: Any, n_classes: int | None) -> EncodedLabels:
    """Return labels as class numbers; −1, None, NaN and the empty string mean unknown.

    Parameters
    ----------
    y : array of shape (n,), or None
        Integers, booleans or strings.
    n_classes : int or None
        Number of classes; by default that of the distinct labels.
    """
    if n_classes is not None and (
        isinstance(n_classes, bool) or not isinstance(n_classes, int | np.integer) or n_classes < 1
    ):
        raise InputError(f"n_classes must be a positive integer, got {n_classes!r}")
    if y is None:
        return EncodedLabels(_extend(np.empty(0, np.int64), n_classes), None, None)
    labels, known = _as_labels(y)
    named, codes_known = np.unique(labels[known], return_inverse=True)
    if n_classes is not None and len(named) > n_classes:
        raise InputError(
            f"the labels name {len(named)} classes ({_listed(named)}), but n_classes={n_classes}"
        )
    if not known.any():
        return EncodedLabels(_extend(np.empty(0, np.int64), n_classes), None, len(labels))
    codes = np.full(len(labels), -1, dtype=np.int64)
    codes[known] = codes_known
    return EncodedLabels(_extend(named, n_classes), codes, len(labels))


def encode_names(
    names: NDArray[Any], codes: NDArray[np.int64], n_classes: int | None
) -> EncodedLabels:
    """Return labels that are class numbers already, −1 where unknown.

    Parameters
    ----------
    names : ndarray of shape (labels,)
        Sorted, each of them the label of some node.
    codes : ndarray of shape (n,)
        Which of them each node has.
    n_classes : int or None
        Number of classes, if there are more.
    """
    if n_classes is not None and len(names) > n_classes:
        raise InputError(
            f"the labels name {len(names)} classes ({_listed(names)}), but n_classes={n_classes}"
        )
    known = bool(len(names))
    classes = names if known else np.empty(0, np.int64)
    return EncodedLabels(_extend(classes, n_classes), codes if known else None, len(codes))


def check_validation(
    validation: Any, labels: EncodedLabels
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Return nodes to choose settings by and their class numbers.

    Parameters
    ----------
    validation : pair of arrays, array of shape (n,), or None
        As :meth:`NodeClassifier.fit` takes it.
    """
    if validation is None:
        return None
    assert labels.codes is not None
    n = len(labels.codes)
    if isinstance(validation, list) and len(validation) == 2 and np.ndim(validation[0]) == 1:
        validation = tuple(validation)
    if isinstance(validation, tuple):
        if len(validation) != 2:
            raise InputError(
                "validation must be (nodes, labels) or one label a node, got "
                f"{len(validation)} parts"
            )
        nodes, given = np.asarray(validation[0]), validation[1]
        if nodes.dtype == bool and len(nodes) == n:
            nodes = np.flatnonzero(nodes)
        if nodes.ndim != 1 or nodes.dtype.kind not in "iu":
            raise InputError("the nodes of validation must be positions (integers) or a mask")
        if len(nodes) and not 0 <= nodes.min() <= nodes.max() < n:
            wrong = nodes[(nodes < 0) | (nodes >= n)][0]
            raise InputError(f"validation names node {wrong}, but there are nodes 0 to {n - 1}")
        values, known = _as_labels(given)
        if len(values) != len(nodes):
            raise InputError(f"validation has {len(nodes)} nodes, but {len(values)} labels")
        nodes, values = nodes[known].astype(np.int64), values[known]
    else:
        values, known = _as_labels(validation)
        if len(values) != n:
            raise InputError(
                f"validation must be (nodes, labels) or one label a node, {n} in all; got "
                f"{len(values)}"
            )
        nodes, values = np.flatnonzero(known), values[known]
    if len(nodes) == 0:
        raise InputError("validation holds no label")
    if len(np.unique(nodes)) != len(nodes):
        raise InputError("validation names a node twice")
    if (labels.codes[nodes] >= 0).any():
        v = nodes[labels.codes[nodes] >= 0][0]
        raise InputError(f"node {v} is in validation and has a label in y: it can be in one only")
    position = {name: code for code, name in enumerate(labels.classes.tolist())}
    unknown = [name for name in values.tolist() if name not in position]
    if unknown:
        raise InputError(f"validation has the label {unknown[0]!r}, which y does not have")
    return nodes, np.array([position[name] for name in values.tolist()], dtype=np.int64)


def check_candidates(
    candidates: Any, n_nodes: int, labelled: NDArray[np.int64]
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
        raise InputError("candidates must be positions of nodes (integers) or a mask")
    outside = nodes[(nodes < 0) | (nodes >= n_nodes)]
    if len(outside):
        raise InputError(f"candidates name node {outside[0]}, but there are {n_nodes} nodes")
    nodes = np.unique(nodes).astype(np.int64)
    return np.asarray(nodes[~known[nodes]])


def check_settings(clf: NodeClassifier) -> None:
    """Raise an error that names the first setting of a classifier that cannot be used."""
    check_at_least("son", clf.son, 0.0, LARGEST)
    check_engine(clf.engine)
    check_count("max_iter", clf.max_iter)
    if clf.n_init != "auto":
        check_count("n_init", clf.n_init)
    check_at_least("temperature", clf.temperature, 0.0)
    check_at_least("tol", clf.tol, 0.0)
    if clf.n_jobs == 0:
        raise InputError("n_jobs must not be 0: give a number of threads, or None")


def warn_of_typos(labels: EncodedLabels) -> None:
    """Warn of classes that a single label names, almost as another class is called."""
    if labels.codes is None or labels.classes.dtype.kind != "U" or len(labels.classes) < 3:
        return
    counts = np.bincount(labels.codes[labels.codes >= 0], minlength=len(labels.classes))
    often = labels.classes[counts > 1].tolist()
    for name in labels.classes[counts == 1].tolist()[:_MOST_TYPOS]:
        # Names that differ by their number are meant to.
        others = [other for other in often if _letters(other) != _letters(name)]
        if meant := get_close_matches(name, others, 1, cutoff=0.85):
            warnings.warn(
                f"a single label names the class {name!r}; was {meant[0]!r} meant?",
                UserWarning,
                stacklevel=4,
            )


def _letters(name: str) -> str:
    return re.sub(r"\d+", "", name)


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


def _as_labels(y: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the labels as numbers or text, and which of them are known."""
    y = plain(y)
    if sp.issparse(y):
        raise InputError("y must be a dense array of labels, got a sparse matrix")
    if str(getattr(y, "dtype", "")) in ("boolean", "bool[pyarrow]"):
        y = np.asarray(y, dtype=object)  # else pandas would take 0.0 and 1.0 for names
    if isinstance(y, list | tuple) and any(isinstance(label, str) for label in y):
        y = np.asarray(y, dtype=object)  # else numpy would take -1 and None for names
    try:
        labels = column_or_1d(y, warn=True)
    except ValueError as error:
        raise InputError(str(error)) from error
    if labels.dtype.kind in "OT":
        labels, known = _from_objects(labels.tolist())
    elif labels.dtype.kind == "f":
        if np.isinf(labels).any():
            raise InputError(f"Input y contains infinity at row {np.isinf(labels).argmax()}")
        known = ~np.isnan(labels) & (labels != -1)
        if (labels[known] == np.round(labels[known])).all():
            labels = np.where(known, labels, -1).astype(np.int64)
    elif labels.dtype.kind in "US":
        labels = labels.astype(str)
        known = ~np.isin(labels, _UNKNOWN_STRINGS)
    else:
        known = np.asarray(labels != -1) if labels.dtype.kind == "i" else np.ones(len(labels), bool)
    if labels.dtype.kind not in "biufU":
        raise InputError(f"Unknown label type: y must hold integers or strings, got {labels.dtype}")
    try:
        check_classification_targets(labels[known])
    except ValueError as error:
        raise InputError(str(error)) from error
    if labels.dtype.kind == "i" and (labels < -1).any():
        v = int((labels < -1).argmax())
        raise InputError(
            f"the label of node {v} is {labels[v]}; labels must not be below -1, which means "
            "unknown"
        )
    return labels, known


def _from_objects(labels: list[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return labels out of a mixed list: None, NaN, NA, −1 and "" are unknown, the rest names."""
    known = np.array([not _is_missing(label) for label in labels], dtype=bool)
    if any(isinstance(label, str) for label in labels):
        return np.array([str(v) if k else "" for v, k in zip(labels, known, strict=True)]), known
    unknown = -1
    if known.any() and all(isinstance(label, bool) for label in np.array(labels, object)[known]):
        unknown = False  # else True and False would become 1 and 0
    return np.array([v if k else unknown for v, k in zip(labels, known, strict=True)]), known


def _is_missing(label: Any) -> bool:
    if label is None or isinstance(label, str):
        return not label
    same = label == label
    # pandas' NA is neither equal to itself nor different.
    return not isinstance(same, bool | np.bool_) or not same or bool(label == -1)


def _extend(named: NDArray[Any], n_classes: int | None) -> NDArray[Any]:
    """Return the names with fresh ones behind them until there are n_classes."""
    missing = (n_classes or len(named)) - len(named)
    if missing == 0:
        return named
    check_free(100.0 * missing, f"names of {missing:,} classes", "take a smaller n_classes")
    if named.dtype.kind in "iu":
        fresh = np.setdiff1d(np.arange(len(named) + missing), named)[:missing]
        return np.concatenate(
            [named, fresh.astype(np.promote_types(named.dtype, np.min_scalar_type(fresh.max())))]
        )
    taken = set(named.tolist())
    candidates = (f"unnamed {k}" for k in range(1, len(named) + missing + 1))
    return np.concatenate(
        [named.astype(str), [name for name in candidates if name not in taken][:missing]]
    )


def _listed(names: NDArray[Any], most: int = 5) -> str:
    shown = ", ".join(map(str, names[:most]))
    return shown + (", …" if len(names) > most else "")
