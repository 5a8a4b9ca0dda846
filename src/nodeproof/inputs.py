"""Check what a user gives to `fit`, once, and turn it into arrays that the rest can trust."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from nodeproof.adjacency import is_pyg_data
from nodeproof.errors import InputError

__all__ = ["EncodedLabels", "check_features", "encode_labels", "unpack_pyg"]

_UNKNOWN_STRINGS = ("", "-1", "nan", "None")


@dataclass(frozen=True)
class EncodedLabels:
    """Labels as class numbers.

    Attributes
    ----------
    classes : ndarray of shape (K,)
        Names of the classes: the given labels, sorted, and after them the classes without a
        label.
    codes : ndarray of shape (n,), or None
        0…K−1, −1 where there is no label; None if no label was given at all.
    n_named : int
        How many classes have a label.
    """

    classes: NDArray[Any]
    codes: NDArray[np.int64] | None
    n_named: int


def check_features(X: NDArray[Any], names: NDArray[Any] | None = None) -> None:
    """Raise an error that names the first entry that is not finite."""
    finite = np.isfinite(X)
    if finite.all():
        return
    row, column = np.argwhere(~finite)[0]
    name = f"{column} ({names[column]!r})" if names is not None else str(column)
    what = "NaN" if np.isnan(X[row, column]) else "infinity"
    raise InputError(
        f"Input X contains {what} at row {row}, column {name}; fill missing features in or drop "
        "them first"
    )


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
        return EncodedLabels(_extend(np.empty(0, np.int64), n_classes), None, 0)
    labels = _as_labels(y)
    known = ~_is_unknown(labels)
    named, codes_known = np.unique(labels[known], return_inverse=True)
    if n_classes is not None and len(named) > n_classes:
        raise InputError(
            f"the labels name {len(named)} classes ({_listed(named)}), but n_classes={n_classes}"
        )
    if not known.any():
        return EncodedLabels(_extend(np.empty(0, np.int64), n_classes), None, 0)
    codes = np.full(len(labels), -1, dtype=np.int64)
    codes[known] = codes_known
    return EncodedLabels(_extend(named, n_classes), codes, len(named))


def unpack_pyg(graph: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Return features and training labels of a PyTorch Geometric ``Data``, if it is one.

    Its labels count only inside ``train_mask``: the others are what is to be predicted.
    """
    if not is_pyg_data(graph):
        return X, y
    if X is None and getattr(graph, "x", None) is not None:
        X = np.asarray(graph.x)
    if y is None and getattr(graph, "y", None) is not None:
        mask = getattr(graph, "train_mask", None)
        if mask is None:
            raise InputError(
                "this Data has labels but no train_mask, so test labels could leak into the fit; "
                "set data.train_mask, or pass y= with -1 at unknown nodes"
            )
        y = np.where(np.asarray(mask), np.asarray(graph.y).ravel(), -1)
    return X, y


def _as_labels(y: Any) -> NDArray[Any]:
    if sp.issparse(y):
        raise InputError("y must be a dense array of labels, got a sparse matrix")
    labels = column_or_1d(y, warn=True)
    if labels.dtype.kind == "O":
        present = [value for value in labels.tolist() if value is not None and value == value]
        if any(isinstance(value, str) for value in present):
            # Numbers among names are names too; None and NaN stay what they are: unknown.
            return np.array(
                ["" if v is None or v != v else str(v) for v in labels.tolist()], dtype=str
            )
        labels = np.array([-1 if v is None or v != v else v for v in labels.tolist()])
    if labels.dtype.kind == "f":
        if np.isinf(labels).any():
            raise InputError(f"Input y contains infinity at row {np.isinf(labels).argmax()}")
        labels = np.where(np.isnan(labels), -1.0, labels)
    if labels.dtype.kind not in "biufUS":
        raise InputError(f"Unknown label type: y must hold integers or strings, got {labels.dtype}")
    check_classification_targets(labels[~_is_unknown(labels)])
    if labels.dtype.kind in "if" and (labels < -1).any():
        v = int((labels < -1).argmax())
        raise InputError(
            f"the label of node {v} is {labels[v]}; labels must not be below -1, which means "
            "unknown"
        )
    return labels.astype(str) if labels.dtype.kind == "S" else labels


def _is_unknown(labels: NDArray[Any]) -> NDArray[np.bool_]:
    if labels.dtype.kind in "US":
        return np.isin(labels, _UNKNOWN_STRINGS)
    return np.asarray(labels == -1) if labels.dtype.kind != "b" else np.zeros(len(labels), bool)


def _extend(named: NDArray[Any], n_classes: int | None) -> NDArray[Any]:
    """Return the names with fresh ones behind them until there are n_classes."""
    missing = (n_classes or len(named)) - len(named)
    if missing == 0:
        return named
    if named.dtype.kind in "iu":
        fresh = np.setdiff1d(np.arange(len(named) + missing), named)[:missing]
        return np.concatenate([named, fresh.astype(named.dtype)])
    taken = set(named.tolist())
    candidates = (f"unnamed {k}" for k in range(1, len(named) + missing + 1))
    return np.concatenate(
        [named.astype(str), [name for name in candidates if name not in taken][:missing]]
    )


def _listed(names: NDArray[Any], most: int = 5) -> str:
    shown = ", ".join(map(str, names[:most]))
    return shown + (", …" if len(names) > most else "")
