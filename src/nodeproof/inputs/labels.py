"""Labels of any kind as class numbers."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from nodeproof.errors import InputError
from nodeproof.memory import check_free
from nodeproof.tensors import plain

__all__ = ["EncodedLabels", "check_validation", "encode_labels", "encode_names", "warn_of_typos"]

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
