"""Node ids of any container as Arrow arrays: integers where they can be, else text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "as_integers",
    "as_texts",
]


# "007" and "7" are different names.
_INTEGER = r"^(0|-?[1-9][0-9]{0,18})$"


def as_integers(names: Any) -> Any:
    """Return names as an int64 Arrow array: null where a name is not an integer.

    Parameters
    ----------
    names : array-like of shape (m,)
        Integers, text, or floats, which stand for the integers that they equal.

    Examples
    --------
    >>> as_integers(["12", "012", "ann"]).to_pylist(), as_integers([3.0, 2.5]).to_pylist()
    ([12, None, None], [3, None])
    """
    array = _as_arrow(names)
    kind = array.type
    if kind == pa.uint64():
        array = pc.if_else(pc.less(array, pa.scalar(2**63, kind)), array, None)
    if pa.types.is_integer(kind):
        return array.cast(pa.int64())
    if pa.types.is_floating(kind):
        array = array.cast(pa.float64())
        whole = pc.and_(pc.equal(array, pc.trunc(array)), pc.less(pc.abs(array), 2.0**63))
        return pc.if_else(whole, array, None).cast(pa.int64())
    texts = as_texts(array)
    digits = pc.utf8_ltrim(texts, "-")
    # Nineteen digits need not fit 64 bits; texts of equal length compare as numbers do.
    fits = pc.or_(pc.less(pc.utf8_length(digits), 19), pc.less_equal(digits, str(2**63 - 1)))
    fits = pc.or_(fits, pc.equal(texts, str(-(2**63))))
    whole = pc.and_(pc.match_substring_regex(texts, _INTEGER), fits)
    return pc.if_else(whole, texts, None).cast(pa.int64())


def as_texts(names: Any) -> Any:
    """Return names as a large_string Arrow array.

    Parameters
    ----------
    names : array-like of shape (m,)
        Integers, text, or floats, which stand for the integers that they equal.

    Examples
    --------
    >>> as_texts(np.array([7, 8])).to_pylist()
    ['7', '8']
    """
    array = _as_arrow(names)
    if pa.types.is_floating(array.type):
        numbers = as_integers(array)
        return pc.coalesce(numbers.cast(pa.large_string()), array.cast(pa.large_string()))
    return array.cast(pa.large_string())


def _as_arrow(names: Any) -> Any:
    if isinstance(names, pa.ChunkedArray):
        array = names.combine_chunks()
    elif isinstance(names, pa.Array):
        array = names
    else:
        values = names if isinstance(names, list) else np.asarray(names)
        try:
            array = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # of several types
            array = pa.array([None if name is None else str(name) for name in values])
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        return array.cast(pa.int64())
    return array
