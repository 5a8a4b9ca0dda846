"""Open the files of a conversion: is there a header, which columns count, and what to say of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from nodeproof.errors import InputError
from nodeproof.io.columns import (
    NODES,
    Column,
    edges_have_header,
    find_column,
    find_ends,
    find_weight,
    is_name,
    position,
)
from nodeproof.io.duck import first_row, quoted, readable
from nodeproof.io.file_tables import FileTable, open_files
from nodeproof.io.link_files import FLOATS, INTEGERS, LinkFiles, check_weights, survey
from nodeproof.io.links import note_on_first_line, note_on_third_column, notes_on_unused
from nodeproof.io.text import is_number

__all__ = ["open_links"]

Waiting = Callable[[float], None]
Head = Sequence[Sequence[str]]


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
        What the user should know, as `nodeproof.io.links.read_links` says it.
    """
    # Any, because columns are found by path and names alone; rows are DuckDB's to read.
    table: Any = open_files(connection, edges)
    if len(table.names) < 2:
        raise InputError(f"{table.path} needs at least two columns, found one")
    head = table.head
    if head is not None and _has_header(table, header, source, target, weight):
        table = table.with_header()
    ends = find_ends(table, source, target)
    weight_column = find_weight(table, weight, ends, table.head[0] if table.head else None)
    columns = [(table, end) for end in ends]
    if nodes is not None:
        columns.append(_open_nodes(connection, nodes, header))
    with readable(table.path):
        n_links = int(first_row(connection, f"SELECT count(*) FROM {table.sql()}", waiting)[0])
    if n_links == 0:
        raise InputError(f"{table.path} is empty: it has no rows")
    ids = [survey(connection, *column, waiting) for column in columns]
    links = LinkFiles(table, ids, weight_column, n_links)
    check_weights(connection, links, waiting)
    notes = _notes_on_columns(links, ends, head)
    if table.head is not None and weight_column is not None and weight is None:
        notes.append(note_on_third_column(table.path.name))
    if table.head is not None and header is None and _is_alone(connection, links, waiting):
        first = [table.head[0][end] for end in ends]
        notes.append(note_on_first_line(table.files[0].name, first))
    return links, notes


def _has_header(
    table: Any, header: bool | None, source: Column, target: Column, weight: Column
) -> bool:
    if header is not None:
        return header
    return any(map(is_name, (source, target, weight))) or edges_have_header(
        table.head, position(table, source, 0), position(table, target, 1)
    )


def _open_nodes(
    connection: Any, nodes: str | os.PathLike[str], header: bool | None
) -> tuple[FileTable, int]:
    """Return the table of further nodes, and the position of their ids."""
    listed: Any = open_files(connection, nodes)
    if listed.head is not None:
        if header is None:
            header = any(cell.lower() in NODES for cell in listed.head[0])
        if header:
            listed = listed.with_header()
    return listed, find_column(listed, None, NODES)


def _notes_on_columns(links: LinkFiles, ends: Sequence[int], head: Head | None) -> list[str]:
    """Return a note on the columns that are not used; the only one may be the weight."""
    table = links.table
    used = [*ends] if links.weight is None else [*ends, links.weight]
    spare = [i for i in range(len(table.names)) if i not in used]
    suggest = False
    if len(used) == 2 and len(spare) == 1 and table.head is None:
        if head is None:
            suggest = table.types[spare[0]] in (*INTEGERS, *FLOATS)
        else:
            suggest = len(head) > 1 and all(is_number(row[spare[0]]) for row in head[1:])
    return notes_on_unused(table.path.name, table.names, used, suggest)


def _is_alone(connection: Any, links: LinkFiles, waiting: Waiting | None) -> bool:
    """Tell whether the ends of the first link occur in no other, and are names.

    Where there are many files, each of them may begin with it.
    """
    table, ends = links.table, links.ids[:2]
    assert table.head is not None
    if links.n_links < 2 or all(ids.whole for ids in ends):
        return False
    first, *below = ([row[ids.column] for ids in ends] for row in table.head)
    # Most first lines are links, and show it soon; only what is left needs a look at all rows.
    if any(end in first for row in below for end in row):
        return False
    s, t = (ids.sql(integers=False) for ids in ends)
    a, b = (quoted(end, "'") for end in first)
    touching = f"{s} IN ({a}, {b}) OR {t} IN ({a}, {b})"
    query = (
        f"SELECT count(*) FILTER ({touching}), count(*) FILTER ({s} = {a} AND {t} = {b}) "
        f"FROM {table.sql()}"
    )
    with readable(table.path):
        near, same = first_row(connection, query, waiting)
    return bool(near == same and same in (1, len(table.files)))
