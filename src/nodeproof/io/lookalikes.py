"""Names of nodes that look alike: one node in two ways of writing, or two nodes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from nodeproof.errors import InputError
from nodeproof.io.duck import first_row, quoted, quoted_file, readable
from nodeproof.io.files import count_of
from nodeproof.io.keys import Keys

__all__ = ["check_lookalikes", "lookalikes_in_file"]

# How names are made plain, one rule after the other, by regular expressions that Arrow and DuckDB
# read in the same way. The first says what the second is: "007", "7" and "7.0".
_RULES = (
    (r"[\x{200B}-\x{200D}\x{2060}\x{FEFF}]", ""),
    (r"[\s\p{Z}]+", " "),
    (r"^ | $", ""),
    (r"^(-?)0*([0-9]+)(?:\.0+)?$", r"\1\2"),
)
# What all names match that a rule changes: most names are plain, and one look shows it.
_ODD = r"[^!-~ ]|  |^ | $|^-?0[0-9]|^-?[0-9]+\.0"


def check_lookalikes(files: Sequence[Keys]) -> list[str]:
    """Refuse a node that one file writes in one way, and another file in another.

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
        # Names that the one file has and the other has not, in a group where both have such.
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
    # Few names are not plain; they are hashed, not the others.
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
        f"{other.where(other.code(theirs))} has {theirs!a}, which differ by "
        f"{_reason(ours, theirs)} alone; write both the same way"
    )


def _note(name: str, count: int, a: str, b: str) -> list[str]:
    # Shown as `ascii` does, since the eye may not see what they differ by.
    return [
        f"{count_of(count, 'pair')} of nodes of {name} whose names differ by {_reason(a, b)} "
        f"alone: {a!a} and {b!a}; if they are one, write them the same way"
    ]


def _plain(names: Any) -> Any:
    """Return names as they look: without what the eye or a spreadsheet passes over."""
    odd = pc.match_substring_regex(names, _ODD)
    plain = pc.utf8_normalize(names.filter(odd), form="NFC")
    for pattern, replacement in _RULES:
        plain = pc.replace_substring_regex(plain, pattern, replacement)
    return pc.replace_with_mask(names, odd, plain)


def _alike(plain: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of names that others look like, and in which group each is."""
    codes = plain.dictionary_encode().indices.to_numpy()
    alike = np.flatnonzero(np.bincount(codes)[codes] > 1)
    return alike, codes[alike].astype(np.int64)


def _reason(a: str, b: str) -> str:
    """Return what two names that look alike differ by."""
    ours, theirs = (pa.array([name], pa.large_string()) for name in (a, b))
    if pc.utf8_normalize(ours, form="NFC").equals(pc.utf8_normalize(theirs, form="NFC")):
        return "Unicode normal form"
    if _plain(ours) != _plain(theirs):
        return "case"
    if a[-1:].isdecimal() and b[-1:].isdecimal() and a.isascii() and b.isascii():
        return "a point and zeros" if "." in a + b else "leading zeros"
    return "white space"
