"""Which node each row of each file is about, over all files at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from nodeproof.errors import InputError
from nodeproof.io.names import refuse_long
from nodeproof.memory import check_free

__all__ = ["Keys", "one_node_set"]

# Nineteen digits need not fit 64 bits.
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")


@dataclass(frozen=True)
class Keys:
    """The node ids of one file.

    Attributes
    ----------
    path : pathlib.Path
        The file.
    distinct : pyarrow large_string array, or int64 ndarray
        Every id once; integers where the file lists nodes by position (``.npz``).
    codes : ndarray of shape (rows,)
        Position in ``distinct`` of the id of each row.
    place : callable
        Returns where a row stands in the file, for messages.
    """

    path: Path
    distinct: Any
    codes: NDArray[Any]
    place: Callable[[int], str]

    @classmethod
    def of_texts(cls, path: Path, ids: Any, place: Callable[[int], str]) -> Keys:
        """Make keys from a large_string Arrow array of ids; an empty id is an error."""
        encoded = ids.dictionary_encode()
        keys = cls(path, encoded.dictionary, encoded.indices.to_numpy(), place)
        empty = keys.code("")
        if empty >= 0:
            raise InputError(f"{keys.where(empty)}: the node id is empty")
        refuse_long(keys.distinct, "node id", keys.where)
        return keys

    @classmethod
    def of_positions(cls, path: Path, n_rows: int) -> Keys:
        """Make the keys of a file whose row i is about node i."""
        every = np.arange(n_rows)
        return cls(path, every, every, lambda row: f"{path}, row {row}")

    @property
    def by_position(self) -> bool:
        """Whether the file has no ids of its own."""
        return isinstance(self.distinct, np.ndarray)

    def code(self, node: str) -> int:
        """Return the position of an id in ``distinct``, or −1 where it is not."""
        if self.by_position:
            return int(node) if node.isdecimal() and int(node) < len(self.distinct) else -1
        return int(pc.index(self.distinct, pa.scalar(node, pa.large_string())).as_py())

    def has(self, nodes: Sequence[str]) -> bool:
        """Tell whether all of these are ids."""
        if self.by_position:
            return all(self.code(node) >= 0 for node in nodes)
        return bool(pc.all(pc.is_in(pa.array(nodes, pa.large_string()), self.distinct)).as_py())

    def where(self, code: int) -> str:
        """Return where the id at a position of ``distinct`` first occurs, for messages."""
        return self.place(int(np.argmax(self.codes == code)))

    def id_of(self, row: int) -> str:
        """Return the id of a row, for messages."""
        found = self.distinct[int(self.codes[row])]
        return str(found) if self.by_position else str(found.as_py())

    def short_place(self, row: int) -> str:
        """Return where a row stands, without the file's name."""
        return self.place(row).removeprefix(f"{self.path}, ")

    def integers(self) -> NDArray[np.int64] | None:
        """Return the distinct ids as integers, or None where one is not written as one."""
        if self.by_position:
            return np.asarray(self.distinct)
        try:
            numbers = self.distinct.cast(pa.int64())
        except pa.ArrowInvalid:
            return None
        # "007" and "7" are different ids: only what comes back the same is an integer.
        if not self.distinct.equals(numbers.cast(pa.large_string())):
            return None
        return np.asarray(numbers.to_numpy())

    def texts(self) -> Any:
        """Return the distinct ids as a large_string Arrow array."""
        return pa.array(self.distinct).cast(pa.large_string())


def one_node_set(files: Sequence[Keys]) -> tuple[NDArray[Any], list[NDArray[Any]]]:
    """Return every id of any file, sorted, and for each file the node of each row.

    Parameters
    ----------
    files : sequence of Keys
        At least one.

    Returns
    -------
    ids : ndarray of shape (n,)
        int64 where every id is an integer, otherwise text.
    nodes : list of ndarrays of shape (rows,)
        Positions in ``ids``, one array a file.

    Examples
    --------
    >>> links = pa.array(["10", "9"], pa.large_string())
    >>> ids, nodes = one_node_set([Keys.of_texts(Path("links.csv"), links, str)])
    >>> ids.tolist(), nodes[0].tolist()
    ([9, 10], [1, 0])
    """
    integers = [keys.integers() for keys in files]
    whole = [numbers for numbers in integers if numbers is not None]
    if len(whole) == len(files):
        ids, places = np.unique(np.concatenate(whole), return_inverse=True)
    else:
        _refuse_names_with_positions(files)
        every = pa.concat_arrays([keys.texts() for keys in files])
        distinct = every.unique()
        distinct = distinct.take(pc.sort_indices(distinct))
        places = pc.index_in(every, value_set=distinct).to_numpy()
        longest = pc.max(pc.utf8_length(distinct)).as_py() or 0
        check_free(
            4.0 * longest * len(distinct),
            f"{files[0].path}: {len(distinct):,} names of up to {longest:,} letters",
            "shorten the longest",
        )
        ids = np.array(distinct.to_pylist(), dtype=np.str_)
    small = places.astype(np.int32 if len(ids) < 2**31 else np.int64)
    starts = np.cumsum([len(keys.distinct) for keys in files])[:-1]
    parts = np.split(small, starts)
    return ids, [part[keys.codes] for part, keys in zip(parts, files, strict=True)]


def _refuse_names_with_positions(files: Sequence[Keys]) -> None:
    positional = next((keys for keys in files if keys.by_position), None)
    if positional is None:
        return
    named = next(keys for keys in files if keys.integers() is None)
    ids = named.distinct.to_pylist()
    code = next(code for code, node in enumerate(ids) if not _INTEGER.fullmatch(node))
    raise InputError(
        f"{named.where(code)}: the id {ids[code]!r} is not a row number, but {positional.path} "
        f"has no ids: its rows are the nodes 0…{len(positional.distinct) - 1}"
    )
