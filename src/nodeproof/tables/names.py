"""Names of nodes and classes, whatever they come in."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nodeproof.errors import InputError

__all__ = ["as_integers", "as_texts", "name_numbers", "refuse_long", "without_point"]

# In an array of NumPy, every name takes as much as the longest.
_LONGEST = 10_000

_POINT_ZERO = re.compile(r"\.0*$")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)")
# More numbers with fractions than these are measurements.
_MOST_FRACTIONS = 20
# "007" and "7" are different names.
_INTEGER = r"^(0|-?[1-9][0-9]{0,18})$"


def as_integers(names: Any) -> Any:
    """Return names as an int64 Arrow array: null where a name is no integer.

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
    # Nineteen digits need not fit 64 bits; as many digits are compared as numbers are.
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


def name_numbers(path: Path, counts: dict[str, int]) -> tuple[dict[str, str], list[str]]:
    """Return what each label names, and notes: where all are numbers, 1.0 is the class 1.

    Measurements are refused: they name no classes.

    Parameters
    ----------
    path : pathlib.Path
        The file, for messages.
    counts : dict of str to int
        Labels, and how often each occurs.

    Examples
    --------
    >>> name_numbers(Path("l.csv"), {"1.0": 3, "2": 4})[0]
    {'1.0': '1', '2': '2'}
    """
    same = {label: label for label in counts}
    if not all(map(_NUMBER.fullmatch, counts)):
        return same, []
    if all(float(label).is_integer() for label in counts):
        return {label: without_point(label) for label in counts}, []
    total = sum(counts.values())
    shown = ", ".join(list(counts)[:5]) + (", …" if len(counts) > 5 else "")
    if len(counts) > _MOST_FRACTIONS or len(counts) > max(2, total // 2):
        raise InputError(
            f"{path}: {len(counts):,} different numbers in {total:,} labels ({shown}) are "
            "measurements, not classes; cut them into ranges first, or name the column of the "
            "classes by --label"
        )
    return same, [
        f"the labels of {path.name} are numbers with fractions, read as the names of "
        f"{len(counts)} classes: {shown}"
    ]


def without_point(label: str) -> str:
    """Return a whole number without the point and zeros behind it; other text as it is."""
    return _POINT_ZERO.sub("", label) if _NUMBER.fullmatch(label) else label


def refuse_long(texts: Any, what: str, place: Callable[[int], str]) -> None:
    """Refuse texts that are no names, by their length.

    Parameters
    ----------
    texts : pyarrow large_string array
        Names.
    what : str
        What they are names of, for the message.
    place : callable
        Returns where a text stands, by its position.
    """
    lengths = pc.utf8_length(texts)
    longest = pc.max(lengths).as_py() or 0
    if longest > _LONGEST:
        raise InputError(
            f"{place(pc.index(lengths, longest).as_py())}: a {what} of {longest:,} letters is too "
            f"long ({_LONGEST:,} at most); shorten it"
        )


def _as_arrow(names: Any) -> Any:
    if isinstance(names, pa.ChunkedArray):
        array = names.combine_chunks()
    elif isinstance(names, pa.Array):
        array = names
    else:
        values = names if isinstance(names, list) else np.asarray(names)
        try:
            array = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # several types in one
            array = pa.array([None if name is None else str(name) for name in values])
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        return array.cast(pa.int64())
    return array
