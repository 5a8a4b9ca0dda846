"""Numeric targets of any container, NaN where they are unknown."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.errors import InputError
from nodeproof.inputs.label_values import as_column, find_several
from nodeproof.inputs.tensors import plain

__all__ = ["read_targets"]

Array = NDArray[np.float64]


def read_targets(y: Any) -> Array:
    """Return numeric targets, NaN where there is none.

    Parameters
    ----------
    y : array of shape (n,)
        Numbers, in any container. Unknown are None, NaN, NA and what a mask hides; −1 is a number.

    Examples
    --------
    >>> read_targets([1, None, -1.0])
    array([ 1., nan, -1.])
    """
    y = plain(y)
    if several := find_several(y):
        raise InputError(
            f"y must hold one number per node, but {several}: fit one NodeRegressor per column"
        )
    column, shown = as_column(y)
    if column.dtype.kind in "USMmc":
        raise InputError(
            f"targets must be numbers, got {column.dtype}: NodeClassifier is for classes"
        )
    if column.dtype.kind == "O":
        column = np.array([_as_number(value, node) for node, value in enumerate(column)])
    targets = np.where(shown, column, np.nan).astype(np.float64)
    infinite = np.isinf(targets)
    if infinite.any():
        raise InputError(f"the target of node {int(infinite.argmax())} is not finite")
    return targets


def _as_number(value: Any, node: int) -> float:
    """Return a number, NaN for what is missing."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return np.nan
    try:
        if not isinstance(value, str | bytes):
            return float(value)
    except (TypeError, ValueError):
        pass
    raise InputError(
        f"targets must be numbers, but that of node {node} is {reprlib.repr(value)}: give None or "
        "NaN where it is unknown; NodeClassifier is for classes"
    )
