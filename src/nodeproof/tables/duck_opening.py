"""Open the files of a conversion: is there a header, which columns count, and what to say of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from nodeproof.errors import InputError
from nodeproof.tables.columns import (
    NODES,
    Column,
    find_column,
    find_index,
    is_index_name,
    list_names,
)
from nodeproof.tables.duck import first_row, quoted, readable
from nodeproof.tables.duck_edges import LinkFiles, check_weights, survey
from nodeproof.tables.duck_files import FileTable, open_files
from nodeproof.tables.edge_columns import (
    SOURCES,
    TARGETS,
    choose_link_columns,
    note_on_comments,
    note_on_first_link,
    note_on_header,
    note_on_repeats,
    refuse_header_below,
    stands_out,
)
from nodeproof.tables.text import is_whole

__all__ = ["open_links"]

Waiting = Callable[[float], None]


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
        What the user should know, as `nodeproof.tables.edges.read_links` says it.
    """
    table = open_files(connection, edges)
    if len(table.names) < 2:
        raise InputError(f"{table.path} needs at least two columns, found one")
    # Any: columns are found by path and names alone; rows are DuckDB's to read.
    file: Any = table
    columns = choose_link_columns(file, header, source, target, weight)
    places = [(table, end) for end in columns.ends]
    if nodes is not None:
        places.append(_open_nodes(connection, nodes, header))
    with readable(table.path):
        n_links = int(first_row(connection, f"SELECT count(*) FROM {table.sql()}", waiting)[0])
    if n_links == 0:
        raise InputError(f"{table.path} is empty: it has no rows")
    ids = [survey(connection, *place, waiting) for place in places]
    links = LinkFiles(table, ids, columns.weight, n_links)
    first = None if table.head is None else [table.head[0][end] for end in columns.ends]
    alone = columns.guessed and first is not None and _is_alone(connection, links, first, waiting)
    if alone and table.head is not None and stands_out(table.head, *columns.ends):
        links, notes = open_links(connection, edges, nodes, True, source, target, weight, waiting)
        return links, [note_on_header(table.files[0].name, table.head[0]), *notes]
    if table.head is not None and header is None:
        _refuse_header_below(connection, links, waiting)
    check_weights(connection, links, waiting)
    notes = columns.notes
    if table.header:
        with readable(table.path):
            repeats = int(first_row(connection, table.headers_sql(), waiting)[0])
        notes += note_on_repeats(table.path.name, repeats)
    notes += note_on_comments(table.path.name, table.comments)
    if alone and first is not None:
        notes.append(note_on_first_link(table.files[0].name, first))
    return links, notes


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
    file: Any = listed
    named = any(name.lower() in NODES for name in listed.names)
    if len(listed.names) > 1 and find_index(file) is not None and not named:
        raise InputError(
            f"{listed.path} has an index and the columns {list_names(listed.names)}: which column "
            "has the nodes? Name it node"
        )
    return listed, find_column(file, None, NODES)


def _is_alone(
    connection: Any, links: LinkFiles, first: Sequence[str], waiting: Waiting | None
) -> bool:
    """Tell whether the ends of the first link occur in no other, and are names.

    Where there are many files, each of them may begin with it.
    """
    table, ends = links.table, links.ids[:2]
    assert table.head is not None
    if links.n_links < 2 or all(ids.whole for ids in ends):
        return False
    below = ([row[ids.column] for ids in ends] for row in table.head)
    # Most first lines are links, and show it soon; only what is left needs a look at all rows.
    if any(end in first for row in below if row != first for end in row):
        return False
    return not _touches(connection, links, first, waiting)


def _refuse_header_below(connection: Any, links: LinkFiles, waiting: Waiting | None) -> None:
    """Refuse a line of names in the middle of files, as `read_links` does."""
    table = links.table
    if links.integers or table.head is None:
        return
    s, t = (ids.sql(integers=False) for ids in links.ids[:2])
    lists = (", ".join(quoted(name, "'") for name in names) for names in (SOURCES, TARGETS))
    known = " AND ".join(
        f"lower({end}) IN ({names})" for end, names in zip((s, t), lists, strict=True)
    )
    pair = _some_pair(connection, links, known, waiting)
    if pair is None:
        rows = [row for row in table.head if not (table.header and row == table.head[0])]
        ends = {tuple(row[ids.column] for ids in links.ids[:2]) for row in rows}
        # Most names give themselves away at once, and to try them all takes long.
        numbers = sum(all(map(is_whole, pair)) for pair in ends)
        if not numbers or len(ends) > numbers + 1:
            return
        words = [f"NOT regexp_full_match({end}, '-?[0-9]+')" for end in (s, t)]
        pair = _some_pair(connection, links, " AND ".join(words), waiting)
        if pair is None or _others(connection, links, pair, " OR ".join(words), waiting):
            return
    if not _touches(connection, links, pair, waiting):
        raise refuse_header_below(str(table.path), pair)


def _some_pair(
    connection: Any, links: LinkFiles, found: str, waiting: Waiting | None
) -> list[str] | None:
    """Return the ends of some link for which a condition holds, if there is one."""
    s, t = (ids.sql(integers=False) for ids in links.ids[:2])
    query = f"SELECT any_value([{s}, {t}]) FILTER ({found}) FROM {links.table.sql()}"
    with readable(links.table.path):
        pair: list[str] | None = first_row(connection, query, waiting)[0]
    return pair


def _touches(
    connection: Any, links: LinkFiles, names: Sequence[str], waiting: Waiting | None
) -> bool:
    """Tell whether an end of a link occurs in another line that is not the same."""
    s, t = (ids.sql(integers=False) for ids in links.ids[:2])
    listed = ", ".join(quoted(end, "'") for end in names)
    return _others(connection, links, names, f"{s} IN ({listed}) OR {t} IN ({listed})", waiting)


def _others(
    connection: Any, links: LinkFiles, names: Sequence[str], found: str, waiting: Waiting | None
) -> bool:
    """Tell whether a condition holds for a link with other ends than these."""
    s, t = (ids.sql(integers=False) for ids in links.ids[:2])
    a, b = (quoted(end, "'") for end in names)
    query = f"SELECT count(*) FILTER (({found}) AND NOT ({s} = {a} AND {t} = {b}))"
    with readable(links.table.path):
        return bool(first_row(connection, f"{query} FROM {links.table.sql()}", waiting)[0])
