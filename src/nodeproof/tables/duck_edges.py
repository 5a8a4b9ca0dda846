"""Links in files too large for memory: their columns, what their ids are, and what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nodeproof.errors import InputError, count_of
from nodeproof.tables.duck import first_row, readable
from nodeproof.tables.duck_files import FLOATS, INTEGERS, FileTable

__all__ = ["LARGEST_WEIGHT", "Ids", "LinkFiles", "check_weights", "survey"]

_NUMBERS = (*INTEGERS, *FLOATS, "BOOLEAN", "DECIMAL")
_NESTED = ("STRUCT", "MAP", "UNION", "VARIANT")
# Rows that are looked at first.
_HEAD = 1000
LARGEST_WEIGHT = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Ids:
    """What is known of one column of ids.

    Attributes
    ----------
    table : FileTable
        Whose column.
    column : int
        Its position.
    whole : bool
        Whether all of them are integers of 64 bits.
    low, high : int
        The smallest and the largest, where all are integers (0 and −1 where there are none).
    """

    table: FileTable
    column: int
    whole: bool = False
    low: int = 0
    high: int = -1

    @property
    def name(self) -> str:
        """The name of the column."""
        return self.table.names[self.column]

    @property
    def kind(self) -> str:
        """DuckDB's type of the column, without its parameters."""
        return self.table.types[self.column].partition("(")[0]

    def sql(self, integers: bool) -> str:
        """Return the ids as SQL, as integers or as text."""
        raw = self.table.column(self.column)
        if integers:
            return f"CAST({raw} AS BIGINT)"
        # pandas turns integers into floats where some are missing: 3.0 stands for the node 3.
        if self.kind in FLOATS and self.whole:
            raw = f"CAST({raw} AS BIGINT)"
        return f"CAST({raw} AS VARCHAR)"


@dataclass(frozen=True)
class LinkFiles:
    """Links, and perhaps further nodes, in files.

    Attributes
    ----------
    table : FileTable
        The links.
    ids : list of Ids
        The columns with ids: the two ends of links, and perhaps a list of nodes.
    weight : int or None
        Position of the weight.
    n_links : int
        Number of rows.
    """

    table: FileTable
    ids: list[Ids]
    weight: int | None
    n_links: int

    @property
    def integers(self) -> bool:
        """Whether all ids are integers: one name makes all of them names."""
        return all(ids.whole for ids in self.ids)

    def links_sql(self) -> str:
        """Return a query for the links: columns s and t, and w where they have weights."""
        source, target = (ids.sql(self.integers) for ids in self.ids[:2])
        weight = "" if self.weight is None else f", {self.weight_sql()} AS w"
        return f"SELECT {source} AS s, {target} AS t{weight} FROM {self.table.sql()}"

    def ids_sql(self) -> str:
        """Return a query for all ids, each once, sorted."""
        listed = (
            f"SELECT {ids.sql(self.integers)} AS node FROM {ids.table.sql()}" for ids in self.ids
        )
        return f"SELECT node FROM ({' UNION '.join(listed)}) ORDER BY node"

    def weight_sql(self) -> str:
        """Return the weight as SQL: null where it is no number."""
        assert self.weight is not None
        return f"TRY_CAST({self.table.column(self.weight)} AS DOUBLE)"

    def signature(self) -> dict[str, Any]:
        """Return what must be the same for a conversion to go on after a kill."""
        files = sorted({file.resolve() for ids in self.ids for file in ids.table.files})
        stats = [(str(file), file.stat()) for file in files]
        signature = {
            "files": [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats],
            "columns": [
                [str(ids.table.path), ids.column, ids.table.header, ids.table.options]
                for ids in self.ids
            ],
            "weight": self.weight,
        }
        return dict(json.loads(json.dumps(signature)))


def survey(
    connection: Any, table: FileTable, column: int, waiting: Callable[[float], None] | None
) -> Ids:
    """Find out what one column of ids holds."""
    ids = Ids(table, column)
    if ids.kind in _NESTED or table.types[column].endswith("]"):
        raise InputError(
            f"{table.path}, column {ids.name!r} holds {table.types[column]}; an id is a number or "
            "a text"
        )
    raw = table.column(column)
    missing, number, whole = f"{raw} IS NULL", raw, "true"
    if ids.kind in FLOATS:
        missing += f" OR isnan({raw})"
        number = f"TRY_CAST({raw} AS BIGINT)"
        whole = f"coalesce(bool_and({number} IS NOT NULL AND {raw} = trunc({raw})), true)"
    elif ids.kind not in INTEGERS:
        text = f"CAST({raw} AS VARCHAR)"
        missing += f" OR {text} = ''"
        number = f"TRY_CAST({text} AS BIGINT)"
        # "007" and "7" are different ids: only what comes back the same is an integer.
        whole = f"coalesce(bool_and(coalesce(CAST({number} AS VARCHAR) = {text}, false)), true)"
        head = f"(SELECT * FROM {table.sql()} LIMIT {_HEAD})"
        with readable(table.path):
            # Most names give themselves away at once, and to try them all takes long.
            if not first_row(connection, f"SELECT {whole} FROM {head} AS head")[0]:
                number, whole = "CAST(NULL AS BIGINT)", "false"
    # Of integers in Parquet files, statistics answer this without a look at the rows.
    absent = f"count(*) FILTER ({missing})" if number != raw else f"count(*) - count({raw})"
    with readable(table.path):
        n_missing, all_whole, low, high = first_row(
            connection,
            f"SELECT {absent}, {whole}, min({number}), max({number}) FROM {table.sql()}",
            waiting,
        )
    if n_missing:
        raise _missing_ids(connection, ids, missing)
    if low is None:
        return replace(ids, whole=bool(all_whole))
    fits = low >= -(2**63) and high < 2**63
    return replace(ids, whole=True, low=low, high=high) if all_whole and fits else ids


def _missing_ids(connection: Any, ids: Ids, missing: str) -> InputError:
    for file in ids.table.files:
        query = f"SELECT count(*) FILTER ({missing}) FROM {ids.table.sql([file])}"
        with readable(file):
            rows = int(first_row(connection, query)[0])
        if rows:
            break
    return InputError(f"{file}: {count_of(rows, 'row')} without an id in column {ids.name!r}")


def check_weights(
    connection: Any, links: LinkFiles, waiting: Callable[[float], None] | None
) -> None:
    """Refuse weights that are no numbers, negative, or too large for float32."""
    if links.weight is None:
        return
    table, raw = links.table, links.table.column(links.weight)
    kind = table.types[links.weight].partition("(")[0]
    if kind not in _NUMBERS and not table.is_text:
        name = table.names[links.weight]
        raise InputError(f"{table.path}, column {name!r}: expected numbers, got {kind}")
    source, target = (ids.sql(links.integers) for ids in links.ids[:2])
    weight = links.weight_sql()
    # Not in a WHERE: DuckDB would trust the statistics of a file there, which leave out nan.
    bad = f"{weight} IS NULL OR NOT {weight} BETWEEN 0 AND {LARGEST_WEIGHT!r}"
    row = f"[CAST({source} AS VARCHAR), CAST({target} AS VARCHAR), CAST({raw} AS VARCHAR)]"
    with readable(table.path):
        query = f"SELECT count(*), any_value({row}) FILTER ({bad}) FROM {table.sql()}"
        _, found = first_row(connection, query, waiting)
    if found is not None:
        start, end, text = found
        what = "missing" if text is None else f"not a finite number: {text}"
        if text is not None and text.startswith("-"):
            what = f"negative: {text}"
        raise InputError(f"{table.path}: the weight of the link ({start}, {end}) is {what}")
