"""Names of nodes and classes, whatever they come in."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from nodeproof.errors import InputError

__all__ = [
    "name_numbers",
    "refuse_long",
    "without_point",
]

# In an array of NumPy, every name takes as much as the longest.
_LONGEST = 10_000

_POINT_ZERO = re.compile(r"\.0*$")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)")
# More numbers with fractions than these are measurements.
_MOST_FRACTIONS = 20


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
