"""Edge tables on disk: their links as DuckDB reads them, by the rules of `edge_rules`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nodeproof.csr import LARGEST_WEIGHT, LEAST_WEIGHT
from nodeproof.errors import InputError, count_of
from nodeproof.runtime.caching import cached_property
from nodeproof.tables.columns import (
    NODES,
    SOURCES,
    TARGETS,
    Column,
    EdgeColumns,
    find_column,
    find_index,
    is_index_name,
    list_names,
)
from nodeproof.tables.duck import first_row, quoted, readable
from nodeproof.tables.duck_files import FLOATS, INTEGERS, FileTable, open_files
from nodeproof.tables.edge_rules import PlacedLink, open_edges
from nodeproof.tables.files import not_numbers
from nodeproof.tables.keys import empty_id
from nodeproof.tables.text import is_whole

__all__ = ["Ids", "LinkFiles", "open_links"]

Waiting = Callable[[float], None]

_NUMBERS = (*INTEGERS, *FLOATS, "BOOLEAN", "DECIMAL")
_NESTED = ("STRUCT", "MAP", "UNION", "VARIANT")
# Rows that are checked first.
_HEAD = 1000


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
        weight = "" if self.weight is None else f", {_weight_sql(self.table, self.weight)} AS w"
        return f"SELECT {source} AS s, {target} AS t{weight} FROM {self.table.sql()}"

    def ids_sql(self) -> str:
        """Return a query for all ids, each once, sorted."""
        listed = (
            f"SELECT {ids.sql(self.integers)} AS node FROM {ids.table.sql()}" for ids in self.ids
        )
        return f"SELECT node FROM ({' UNION '.join(listed)}) ORDER BY node"

    def signature(self) -> dict[str, Any]:
        """Return what must be unchanged for a conversion to resume."""
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


def open_links(
    connection: Any,
    edges: str | os.PathLike[str],
    nodes: str | os.PathLike[str] | None,
    header: bool | None,
    source: Column,
    target: Column,
    weight: Column,
    waiting: Waiting | None = None,
) -> tuple[LinkFiles, list[str]]:
    """Find files and columns, and refuse what cannot be used before anything is written.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        What reads them.
    edges, nodes : path
        Files, folders or patterns.
    header : bool or None
        Whether the first line of every text file names its columns; None: find out.
    source, target, weight : str, int or None
        The columns, where the user says.
    waiting : callable, optional
        See `in_background`.

    Returns
    -------
    links : LinkFiles
    notes : list of str
        What the user should know, as `nodeproof.tables.edge_rules.open_edges` has it.
    """
    table = open_files(connection, edges)
    listed = None if nodes is None else _open_nodes(connection, nodes, header)
    opened = open_edges(
        table,
        lambda columns: _DuckRows.read(connection, table, columns, waiting),
        header,
        source,
        target,
        weight,
    )
    ids = opened.rows.ids
    if listed is not None:
        ids = [*ids, _survey(connection, *listed, waiting)]
    return LinkFiles(table, ids, opened.columns.weight, opened.rows.n_links), opened.notes


@dataclass(frozen=True)
class _DuckRows:
    """The links of a table that DuckDB reads, as `EdgeRows`."""

    connection: Any
    table: FileTable
    ids: list[Ids]
    weight: int | None
    n_links: int
    waiting: Waiting | None

    @classmethod
    def read(
        cls, connection: Any, table: FileTable, columns: EdgeColumns, waiting: Waiting | None
    ) -> _DuckRows:
        with readable(table.path):
            n_links = int(first_row(connection, f"SELECT count(*) FROM {table.sql()}", waiting)[0])
            if table.header:
                table.repeats = int(first_row(connection, table.headers_sql(), waiting)[0])
        if n_links == 0:
            raise InputError(f"{table.path} is empty: it has no rows")
        ids = [_survey(connection, table, end, waiting) for end in columns.ends]
        return cls(connection, table, ids, columns.weight, n_links, waiting)

    @property
    def integers(self) -> bool:
        return all(ids.whole for ids in self.ids)

    @cached_property
    def _ends(self) -> list[str]:
        """The ends of a link as text, in SQL."""
        return [ids.sql(integers=False) for ids in self.ids]

    def find_known_names(self) -> PlacedLink | None:
        known = (
            f"lower({end}) IN ({', '.join(quoted(name, chr(39)) for name in names)})"
            for end, names in zip(self._ends, (SOURCES, TARGETS), strict=True)
        )
        return self._find(" AND ".join(known))

    def find_lone_words(self) -> PlacedLink | None:
        head = self.table.head or []
        rows = [row for row in head if not (self.table.header and row == head[0])]
        ends = {tuple(row[ids.column] for ids in self.ids) for row in rows}
        # The first rows already rule out most tables, and to try all rows takes long.
        numbers = sum(all(map(is_whole, pair)) for pair in ends)
        if not numbers or len(ends) > numbers + 1:
            return None
        words = [f"NOT regexp_full_match({end}, '-?[0-9]+')" for end in self._ends]
        found = self._find(" AND ".join(words))
        return None if found is None or self._others(found[1], " OR ".join(words)) else found

    def shares_end(self, ends: Sequence[str]) -> bool:
        listed = ", ".join(quoted(end, "'") for end in ends)
        return self._others(ends, " OR ".join(f"{end} IN ({listed})" for end in self._ends))

    def find_bad_weight(self) -> tuple[str, str] | None:
        if self.weight is None:
            return None
        kind = self.table.types[self.weight].partition("(")[0]
        if kind not in _NUMBERS and not self.table.is_text:
            raise not_numbers(self.table, self.weight, kind)
        raw, weight = self.table.column(self.weight), _weight_sql(self.table, self.weight)
        # Not in a WHERE: DuckDB would trust the statistics of a file there, which leave out nan.
        good = f"{weight} = 0 OR {weight} BETWEEN {LEAST_WEIGHT!r} AND {LARGEST_WEIGHT!r}"
        row = f"[{', '.join(self._ends)}, CAST({raw} AS VARCHAR)]"
        query = f"SELECT any_value({row}) FILTER ({weight} IS NULL OR NOT ({good}))"
        found = self._ask(f"{query}, count(*) FROM {self.table.sql()}")
        if found is None:
            return None
        source, target, text = found
        return f"{self.table.path}, link ({source}, {target})", text or ""

    def _find(self, condition: str) -> PlacedLink | None:
        """Return some link for which a condition holds, if there is one."""
        pair = f"[{', '.join(self._ends)}]"
        query = f"SELECT any_value({pair}) FILTER ({condition}) FROM {self.table.sql()}"
        found = self._ask(query)
        return None if found is None else (str(self.table.path), found)

    def _others(self, ends: Sequence[str], condition: str) -> bool:
        """Tell whether a condition holds for a link that is not between these ends."""
        pairs = zip(self._ends, ends, strict=True)
        same = " AND ".join(f"{end} = {quoted(name, chr(39))}" for end, name in pairs)
        query = f"SELECT count(*) FILTER (({condition}) AND NOT ({same})) FROM {self.table.sql()}"
        return bool(self._ask(query))

    def _ask(self, query: str) -> Any:
        """Return the first cell of a result."""
        with readable(self.table.path):
            return first_row(self.connection, query, self.waiting)[0]


def _open_nodes(
    connection: Any, nodes: str | os.PathLike[str], header: bool | None
) -> tuple[FileTable, int]:
    """Return the table of further nodes, and the position of their ids."""
    listed = open_files(connection, nodes)
    if listed.head is not None:
        if header is None:
            first = listed.head[0]
            header = any(cell.lower() in NODES for cell in first) or is_index_name(first[0])
        if header:
            listed.use_header()
    named = any(name.lower() in NODES for name in listed.names)
    if len(listed.names) > 1 and find_index(listed) is not None and not named:
        raise InputError(
            f"{listed.path} has an index and the columns {list_names(listed.names)}: which column "
            "has the nodes? Name it 'node'"
        )
    return listed, find_column(listed, None, NODES)


def _survey(connection: Any, table: FileTable, column: int, waiting: Waiting | None) -> Ids:
    """Find out what one column of ids holds."""
    ids = Ids(table, column)
    if ids.kind in _NESTED or table.types[column].endswith("]"):
        raise InputError(
            f"{table.path}, column {ids.name!r} holds {table.types[column]}; an id must be a "
            "number or text"
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
        # "007" and "7" are different ids: an integer must convert back to the same text.
        whole = f"coalesce(bool_and(coalesce(CAST({number} AS VARCHAR) = {text}, false)), true)"
        head = f"(SELECT * FROM {table.sql()} LIMIT {_HEAD})"
        with readable(table.path):
            # The first rows already rule out most tables, and to try all rows takes long.
            if not first_row(connection, f"SELECT {whole} FROM {head} AS head")[0]:
                number, whole = "CAST(NULL AS BIGINT)", "false"
    # For integers in Parquet files, statistics answer this without reading rows.
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
    return empty_id(f"{file}, {count_of(rows, 'row')} of column {ids.name!r}")


def _weight_sql(table: FileTable, column: int) -> str:
    """Return the weight as SQL: null where it is not a number."""
    return f"TRY_CAST({table.column(column)} AS DOUBLE)"
