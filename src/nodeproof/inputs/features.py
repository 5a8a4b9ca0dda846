"""Checks of features: finite, numeric, and in a unit whose squares do not overflow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from nodeproof.errors import InputError
from nodeproof.inputs.tensors import plain

__all__ = ["Unit", "as_sparse_as", "check_features", "check_reach", "read_features", "stacked"]


# Evenly spaced rows that the median of a feature is taken from.
_SAMPLE = 10_000

# Squares of larger features, divided by a small variance, would not be floats.
_REACH = 1e100


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
        # Quarters, because the distance between the largest floats is not a float.
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


def read_features(X: Any, check: Callable[..., Any] = check_array) -> Any:
    """Return features as an array or CSR array of floats, all finite; or raise an error.

    Parameters
    ----------
    X : array, sparse matrix or table of shape (n, m)
        As users have it.
    check : callable
        `check_array` of scikit-learn, or what does the same and keeps the names of the columns.
    """
    X = plain(X)
    _refuse_texts(X)
    if np.ma.is_masked(X):
        X = X.astype(np.float64).filled(np.nan)  # refused where it is looked at
    _check_columns(X)
    types = [np.float64, np.float32]
    try:
        checked = check(X, accept_sparse="csr", dtype=types, ensure_all_finite=False, order="C")
    except ValueError as error:
        raise InputError(str(error)) from error
    return _with_short_indices(sp.csr_array(checked)) if sp.issparse(checked) else checked


def as_sparse_as(other: Any, X: Any) -> Any:
    """Return features as a CSR array or as a dense one, whichever others are."""
    if sp.issparse(other):
        return sp.csr_array(X)
    return X.toarray() if sp.issparse(X) else X


def stacked(X: Any, more: Any) -> Any:
    """Return features with those of more nodes below, sparse where they were sparse."""
    rows = [X, as_sparse_as(X, more)]
    return sp.csr_array(sp.vstack(rows)) if sp.issparse(X) else np.vstack(rows)


def _refuse_texts(X: Any) -> None:
    """Say what turns texts into features, where they are given instead of them."""
    listed = isinstance(X, list | tuple) or (isinstance(X, np.ndarray) and X.dtype.kind in "UOT")
    if not listed and not (hasattr(X, "iloc") and getattr(X, "ndim", 0) == 1):
        return
    first = X[0] if listed and len(X) else None
    if hasattr(X, "iloc") and len(X):
        first = X.iloc[0]
    while isinstance(first, list | tuple | np.ndarray) and len(first) == 1:
        first = first[0]
    if isinstance(first, str):
        raise InputError(
            f"X holds texts, such as {first[:40]!r}: turn them into features first, for example "
            "TfidfVectorizer().fit_transform(texts) of sklearn.feature_extraction.text"
        )


def check_reach(X: Any) -> None:
    """Raise an error that names the first entry whose square is out of the range of floats."""
    entries = X.data if sp.issparse(X) else X
    if entries.dtype == np.float32 or not entries.size:
        return
    flat = entries.ravel()
    # Of these, NaN is neither: missing values have no reach.
    if not max(np.fmax.reduce(flat), -np.fmin.reduce(flat)) > _REACH:
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


def check_features(X: Any, names: NDArray[Any] | None = None, missing: bool = False) -> None:
    """Raise an error that names the first entry that is not finite.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, m)
        Features.
    names : ndarray of shape (m,), optional
        Their names.
    missing : bool
        Whether NaN is allowed.
    """
    entries = X.data if sp.issparse(X) else X
    finite = ~np.isinf(entries) if missing else np.isfinite(entries)
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


def _with_short_indices(X: sp.csr_array) -> sp.csr_array:
    """Return the same matrix with indices of 32 bits, as scikit-learn needs them, if they fit."""
    if X.indices.dtype == np.int32 or max(X.nnz, *X.shape) > np.iinfo(np.int32).max:
        return X
    parts = X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return sp.csr_array(parts, shape=X.shape)


# How many column names an error lists.
_LISTED = 5
# Rows that tell texts from categories, and the mean length from which on they are texts.
_LOOKED_AT, _LONG = 20, 40


def _check_columns(X: Any) -> None:
    """Refuse a pandas, polars or pyarrow table with columns that are not numeric.

    Other containers are checked where they are converted.
    """
    if hasattr(X, "collect_schema") and not hasattr(X, "__len__"):
        raise InputError("a LazyFrame has no rows yet: give X.collect()")
    others = list(_other_columns(X))
    bad = [f"{name!r} ({kind})" for name, kind in others]
    long = next((name for name, _ in others if _holds_sentences(X[name])), None)
    if long is not None:
        raise InputError(
            f"the column {long!r} of X holds texts: turn them into features first, for example "
            f"TfidfVectorizer().fit_transform(X[{long!r}]) of sklearn.feature_extraction.text, or "
            "leave it out"
        )
    if bad:
        listed = ", ".join(bad[:_LISTED]) + (", …" if len(bad) > _LISTED else "")
        raise InputError(
            f"{len(bad)} of the columns of X are not numbers: {listed}; encode or drop them first, "
            "or have it done: NodeClassifier(prepare=True), or fit(table, y='column of the labels')"
        )


def _other_columns(X: Any) -> Iterator[tuple[Any, str]]:
    """Yield name and type of the columns that are not numbers."""
    if hasattr(X, "dtypes") and hasattr(X, "iloc"):
        # By position: two columns may have the same name.
        for k, (name, dtype) in enumerate(zip(X.columns, X.dtypes, strict=True)):
            objects = dtype.kind == "O"
            if dtype.kind not in "biufcO" or (objects and not _holds_numbers(X.iloc[:, k])):
                yield name, str(dtype)
    elif hasattr(X, "schema") and hasattr(X, "columns"):
        fields = X.schema if hasattr(X, "column_names") else X.schema.items()
        for field in fields:
            name, dtype = field if isinstance(field, tuple) else (field.name, field.type)
            if not _is_numeric(dtype):
                yield name, str(dtype)


def _holds_sentences(column: Any) -> bool:
    """Tell whether a column of a table begins with long texts."""
    first = [str(cell) for cell in column[:_LOOKED_AT] if isinstance(cell, str)]
    return bool(first) and sum(map(len, first)) >= _LONG * len(first)


def _holds_numbers(column: Any) -> bool:
    """Tell whether a column of Python objects can be read as numbers."""
    if column.dtype != object:
        return False  # categories, texts and the like
    try:
        np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return True


def _is_numeric(dtype: Any) -> bool:
    if hasattr(dtype, "is_numeric"):  # polars
        return bool(dtype.is_numeric()) or str(dtype) in ("Boolean", "Null")
    return str(dtype).startswith(
        ("int", "uint", "float", "double", "halffloat", "bool", "null", "decimal")
    )
