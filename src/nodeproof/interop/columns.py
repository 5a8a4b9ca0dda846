"""Whether the columns of a table of features are numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nodeproof.errors import InputError

__all__ = ["check_columns"]

# Of so many columns the names are listed in an error.
_LISTED = 5


def check_columns(X: Any) -> None:
    """Raise an error that names the columns of a pandas, polars or pyarrow table without numbers.

    Anything else is left to those who read it.
    """
    if hasattr(X, "collect_schema") and not hasattr(X, "__len__"):
        raise InputError("a LazyFrame has no rows yet: give X.collect()")
    bad = [f"{name!r} ({kind})" for name, kind in _other_columns(X)]
    if bad:
        listed = ", ".join(bad[:_LISTED]) + (", …" if len(bad) > _LISTED else "")
        raise InputError(
            f"{len(bad)} of the columns of X are not numbers: {listed}; encode or drop them first"
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
