"""Node ids: which node each row of each file is about, and names that look alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from nodeproof.errors import InputError, count_of
from nodeproof.runtime.memory import check_free
from nodeproof.tables.duck import first_row, quoted, quoted_file, readable

__all__ = [
    "Keys",
    "check_lookalikes",
    "empty_id",
    "lookalikes_in_file",
    "one_node_set",
    "refuse_long",
]


# In a NumPy array, every name takes as much as the longest.
_LONGEST = 10_000
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
            raise empty_id(keys.where(empty))
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
        """Return the distinct ids as integers, or None if any is not written as one."""
        if self.by_position:
            return np.asarray(self.distinct)
        try:
            numbers = self.distinct.cast(pa.int64())
        except pa.ArrowInvalid:
            return None
        # "007" and "7" are different ids: an integer must convert back to the same text.
        if not self.distinct.equals(numbers.cast(pa.large_string())):
            return None
        return np.asarray(numbers.to_numpy())

    def texts(self) -> Any:
        """Return the distinct ids as a large_string Arrow array."""
        return pa.array(self.distinct).cast(pa.large_string())


def empty_id(place: str) -> InputError:
    """Return the error for a row without a node id."""
    return InputError(f"{place}: the node id is empty")


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
        Positions in ``ids``, one array per file.

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
            f"{files[0].path}: {len(distinct):,} names of up to {longest:,} characters",
            "shorten the longest",
        )
        ids = np.array(distinct.to_pylist(), dtype=np.str_)
    small = places.astype(np.int32 if len(ids) < 2**31 else np.int64)
    starts = np.cumsum([len(keys.distinct) for keys in files])[:-1]
    parts = np.split(small, starts)
    return ids, [part[keys.codes] for part, keys in zip(parts, files, strict=True)]


def refuse_long(texts: Any, what: str, place: Callable[[int], str]) -> None:
    """Refuse texts that are too long to be names.

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
            f"{place(pc.index(lengths, longest).as_py())}: a {what} of {longest:,} characters is "
            f"too long ({_LONGEST:,} at most); shorten it"
        )


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


# How names are normalised, one rule after the other, by regular expressions that Arrow and DuckDB
# read in the same way; the last one makes "007" and "7.0" the same as "7".
_RULES = (
    (r"[\x{200B}-\x{200D}\x{2060}\x{FEFF}]", ""),
    (r"[\s\p{Z}]+", " "),
    (r"^ | $", ""),
    (r"^(-?)0*([0-9]+)(?:\.0+)?$", r"\1\2"),
)
# Matches all names that a rule changes; most names are plain, and one pass shows it.
_ODD = r"[^!-~ ]|  |^ | $|^-?0[0-9]|^-?[0-9]+\.0"


def check_lookalikes(files: Sequence[Keys]) -> list[str]:
    """Refuse a node that two files write in different ways.

    Parameters
    ----------
    files : sequence of Keys
        The ids of each file.

    Returns
    -------
    list of str
        A note if one file has both, which may then be two nodes.

    Raises
    ------
    InputError
        If each of two files has only one of two names that differ by leading zeros, white space,
        Unicode normal form or case.
    """
    # Names beside positions are refused anyway.
    if any(keys.by_position for keys in files) or all(
        keys.integers() is not None for keys in files
    ):
        return []
    parts = [keys.texts() for keys in files]
    every = pa.concat_arrays(parts)
    names = every.unique()
    plain = _plain(names)
    alike, groups = _alike(pc.utf8_lower(plain))
    if not len(alike):
        return []
    held = np.array([pc.is_in(names.take(alike), part).to_numpy(False) for part in parts])
    for one, other in combinations(range(len(files)), 2):
        # Names that only one of the two files has, in groups where both have such names.
        ours, theirs = held[one] & ~held[other], held[other] & ~held[one]
        both = np.intersect1d(groups[ours], groups[theirs])
        if len(both):
            inside = groups == both[0]
            raise _contradiction(
                files[one],
                names[alike[np.argmax(ours & inside)]].as_py(),
                files[other],
                names[alike[np.argmax(theirs & inside)]].as_py(),
            )
    alike, groups = _alike(plain)
    if not len(alike):
        return []
    pairs = pa.table({"group": groups, "name": names.take(alike)}).group_by("group")
    ends = pairs.aggregate([("name", "min"), ("name", "max")])
    a, b = min(zip(ends["name_min"].to_pylist(), ends["name_max"].to_pylist(), strict=True))
    return _note(files[0].path.name, len(alike) - len(ends), a, b)


def lookalikes_in_file(connection: Any, ids: Path, name: str) -> list[str]:
    """Return the note of `check_lookalikes` on names in a Parquet file.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        What reads it.
    ids : pathlib.Path
        The file; its column ``node`` has each name once.
    name : str
        What the user's file is called.
    """
    plain = "nfc_normalize(node)"
    for pattern, replacement in _RULES:
        plain = f"regexp_replace({plain}, {quoted(pattern, chr(39))}, '{replacement}', 'g')"
    # Few names are not plain; only those are hashed.
    query = f"""
        WITH names AS (SELECT node FROM read_parquet({quoted_file(ids)})),
        odd AS MATERIALIZED (SELECT node, {plain} AS plain FROM names WHERE {plain} <> node),
        alike AS (
            SELECT count(*) AS n, min(node) AS a, max(node) AS b
            FROM (
                SELECT node, plain FROM odd
                UNION ALL
                SELECT node, node FROM names SEMI JOIN odd ON names.node = odd.plain
            )
            GROUP BY plain
            HAVING n > 1
        )
        SELECT sum(n - 1), min([a, b]) FROM alike
    """
    with readable(ids):
        count, pair = first_row(connection, query)
    return _note(name, int(count), *pair) if count else []


def _contradiction(one: Keys, ours: str, other: Keys, theirs: str) -> InputError:
    return InputError(
        f"{one.where(one.code(ours))} has the node {ours!a}, "
        f"{other.where(other.code(theirs))} has {theirs!a}, which differ only by "
        f"{_reason(ours, theirs)}; write both the same way"
    )


def _note(name: str, count: int, a: str, b: str) -> list[str]:
    # In ASCII, because the difference may be invisible.
    return [
        f"{count_of(count, 'pair')} of nodes of {name} whose names differ only by "
        f"{_reason(a, b)}: {a!a} and {b!a}; if they are the same, write them the same way"
    ]


def _plain(names: Any) -> Any:
    """Return names normalised: without differences that people and spreadsheets overlook."""
    odd = pc.match_substring_regex(names, _ODD)
    plain = pc.utf8_normalize(names.filter(odd), form="NFC")
    for pattern, replacement in _RULES:
        plain = pc.replace_substring_regex(plain, pattern, replacement)
    return pc.replace_with_mask(names, odd, plain)


def _alike(plain: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of names that look like others, and the group of each."""
    codes = plain.dictionary_encode().indices.to_numpy()
    alike = np.flatnonzero(np.bincount(codes)[codes] > 1)
    return alike, codes[alike].astype(np.int64)


def _reason(a: str, b: str) -> str:
    """Return how two names that look alike differ."""
    ours, theirs = (pa.array([name], pa.large_string()) for name in (a, b))
    if pc.utf8_normalize(ours, form="NFC").equals(pc.utf8_normalize(theirs, form="NFC")):
        return "Unicode normal form"
    if _plain(ours) != _plain(theirs):
        return "case"
    if a[-1:].isdecimal() and b[-1:].isdecimal() and a.isascii() and b.isascii():
        return "a decimal point and zeros" if "." in a + b else "leading zeros"
    return "white space"
