"""Attributes of nodes as users have them: columns of numbers or of text, with gaps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.errors import InputError
from nodeproof.inputs.graph_objects import column_names
from nodeproof.inputs.tensors import plain

__all__ = ["Attribute", "attribute_of_texts", "read_attribute", "read_attributes"]

# What programs write where a value is missing, in lower case; words as well among numbers.
_GAPS = ("", "?", "nan", "na", "n/a", "#n/a", "<na>", "nat", "null")
_WORDS = ("-", "none", "unknown", "missing", "n.a.")

# Where more than this share of a column are numbers, other texts are likely to be mistakes.
_MOSTLY = 0.5


@dataclass(frozen=True)
class Attribute:
    """One column of a table of n nodes.

    Attributes
    ----------
    name : str
        Its name.
    numbers : ndarray of shape (n,), or None
        Its numbers, NaN where missing; None for text.
    codes : ndarray of shape (n,), or None
        Which of the `texts` each node has, −1 where missing; None for numbers.
    texts : tuple of str
        The different texts.
    useless : str
        Why it cannot be a feature, if that is so.
    """

    name: str
    numbers: NDArray[np.float64] | None = None
    codes: NDArray[np.int64] | None = None
    texts: tuple[str, ...] = ()
    useless: str = ""

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which nodes have no value, shape (n,)."""
        if self.numbers is not None:
            return np.isnan(self.numbers)
        return np.zeros(0, dtype=bool) if self.codes is None else self.codes < 0

    @property
    def raw(self) -> NDArray[np.float64]:
        """The numbers, or the codes of the texts, shape (n,); NaN where missing."""
        if self.numbers is not None:
            return self.numbers
        assert self.codes is not None
        return np.where(self.codes < 0, np.nan, self.codes)

    def placed(self, nodes: NDArray[Any], n_nodes: int) -> Attribute:
        """Return the attribute of all nodes; it is missing where none of the rows is about them.

        Parameters
        ----------
        nodes : ndarray of shape (rows,)
            The node of each row.
        n_nodes : int
            Number of nodes.
        """
        if self.numbers is not None:
            numbers = np.full(n_nodes, np.nan)
            numbers[nodes] = self.numbers
            return replace(self, numbers=numbers)
        if self.codes is None:
            return self
        codes = np.full(n_nodes, -1)
        codes[nodes] = self.codes
        return replace(self, codes=codes)


def attribute_of_texts(name: str, cells: Any, where: str = "") -> Attribute:
    """Return a column of text as an attribute: of numbers if all of its cells are numbers.

    Parameters
    ----------
    name : str
        Its name.
    cells : pyarrow large_string array of shape (n,)
        What is empty, or says so (NA, nan, null, ?), is missing.
    where : str
        The file, for errors.

    Examples
    --------
    >>> import pyarrow as pa
    >>> attribute_of_texts("age", pa.array(["31", "", "45"], pa.large_string())).numbers.tolist()
    [31.0, nan, 45.0]
    >>> attribute_of_texts("town", pa.array(["Oslo", "?"], pa.large_string())).codes.tolist()
    [0, -1]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    encoded = pc.utf8_trim_whitespace(pc.fill_null(cells, "")).dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    texts = encoded.dictionary
    lower = pc.utf8_lower(texts)
    gaps = pc.is_in(lower, pa.array(_GAPS, lower.type)).to_numpy(zero_copy_only=False)
    words = gaps | pc.is_in(lower, pa.array(_WORDS, lower.type)).to_numpy(zero_copy_only=False)
    values = np.array([_number(text) for text in texts.to_pylist()], dtype=np.float64)
    values[words] = np.nan
    others = ~words & np.isnan(values)
    if (~words).any() and not others.any():
        return Attribute(name, numbers=values[codes])
    counts = np.bincount(codes, minlength=len(texts))
    odd = np.flatnonzero(others)
    if len(odd) and counts[others].sum() < (1 - _MOSTLY) * counts[~words].sum():
        shown = ", ".join(repr(texts[int(k)].as_py()[:40]) for k in odd[:3])
        raise InputError(
            f"{where}the column {name!r} holds numbers, but also {shown}: correct "
            f"{'it' if len(odd) == 1 else 'them'}, leave {'it' if len(odd) == 1 else 'them'} empty "
            f"where a value is missing, or leave the column out (--drop {name})"
        )
    kept = ~gaps
    place = np.where(kept, np.cumsum(kept) - 1, -1)
    listed = tuple(text for text, keep in zip(texts.to_pylist(), kept, strict=True) if keep)
    return Attribute(name, codes=place[codes], texts=listed)


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return np.nan
    # Python reads 1_000 and digits of all scripts, and tables hardly mean them.
    return value if text.isascii() and "_" not in text else np.nan


def read_attributes(table: Any, names: list[Any]) -> list[Attribute]:
    """Return columns of a table (pandas, polars, pyarrow or a dict) as attributes."""
    listed = column_names(table)
    lacking = [name for name in names if name not in listed]
    if lacking:
        shown = ", ".join(repr(name) for name in listed[:8])
        raise InputError(f"the table has no column {lacking[0]!r}, only {shown}")
    return [read_attribute(str(name), table[name]) for name in names]


def read_attribute(name: str, column: Any) -> Attribute:
    """Return a column of a table, or a list of values, as an attribute.

    Parameters
    ----------
    name : str
        Its name.
    column : array of shape (n,)
        Numbers, text or both, in any container; None, NaN and NA are missing.
    """
    held = plain(column)
    if isinstance(held, Mapping):
        raise InputError(f"the column {name!r} is a dict; give one value per node")
    hidden = np.ma.getmaskarray(held) if np.ma.is_masked(held) else None
    values = np.asarray(held)
    if values.ndim != 1:
        raise InputError(f"the column {name!r} must have one value per node, got {values.shape}")
    if values.dtype.kind in "biuf":
        numbers = values.astype(np.float64)
        if hidden is not None:
            numbers[hidden] = np.nan
        return Attribute(name, numbers=numbers)
    if values.dtype.kind in "mM":
        return Attribute(name, useless="dates: give what matters of them, such as the year")
    listed = [None if _is_gap(value) else value for value in values.tolist()]
    if hidden is not None:
        listed = [None if gap else value for value, gap in zip(listed, hidden, strict=True)]
    known = [value for value in listed if value is not None]
    if known and all(isinstance(value, int | float | np.number | np.bool_) for value in known):
        return Attribute(name, numbers=np.array(listed, dtype=np.float64))
    if any(isinstance(value, list | tuple | dict | set | np.ndarray) for value in known):
        return Attribute(name, useless="lists: give one column per number")
    import pyarrow as pa

    texts = [None if value is None else str(value) for value in listed]
    return attribute_of_texts(name, pa.array(texts, pa.large_string()))


def _is_gap(value: Any) -> bool:
    if value is None or isinstance(value, str):
        return value is None
    same = value == value
    # pandas' NA is neither equal to itself nor different.
    return (isinstance(same, bool | np.bool_) and not same) or same is value
