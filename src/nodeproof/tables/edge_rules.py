"""The rules for edge tables, whoever reads them: Arrow (`edges`) or DuckDB (`duck_edges`).

`open_edges` decides it all: whether the first line is a header, which columns hold the ends and
the weight of a link (`columns`), what is refused, and the notes. A reader offers its table as
a `Table`, and the links in it as `EdgeRows`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from nodeproof.csr import LARGEST_WEIGHT, LEAST_WEIGHT
from nodeproof.errors import InputError
from nodeproof.tables.columns import (
    SOURCES,
    TARGETS,
    Column,
    EdgeColumns,
    find_edge_columns,
    is_index_name,
    is_name,
    note_on_known_names,
    notes_on_skipped,
    position,
    refuse_header_below,
    refuse_one_column,
)
from nodeproof.tables.files import Table, bad_number
from nodeproof.tables.text import is_number, is_whole

__all__ = ["EdgeRows", "OpenedEdges", "edges_have_header", "open_edges", "stands_out"]

#: where a link stands, for messages, and its two ends
PlacedLink = tuple[str, Sequence[str]]


class EdgeRows(Protocol):
    """The links of a table, as far as the rules ask about them."""

    @property
    def n_links(self) -> int:
        """Number of rows below the header."""

    @property
    def integers(self) -> bool:
        """Whether all ids are integers."""

    def find_known_names(self) -> PlacedLink | None:
        """Return a link from one of `SOURCES` to one of `TARGETS`, if there is one."""

    def find_lone_words(self) -> PlacedLink | None:
        """Return the one link whose ends are not whole numbers, if those of all others are."""

    def shares_end(self, ends: Sequence[str]) -> bool:
        """Tell whether one of these two ends occurs in a link that is not between both of them."""

    def find_bad_weight(self) -> tuple[str, str] | None:
        """Return where a link with a bad weight stands, if there is one, and that weight as text.

        Good ones are 0, or from `LEAST_WEIGHT` to `LARGEST_WEIGHT`.
        """


Rows = TypeVar("Rows", bound=EdgeRows)


@dataclass(frozen=True)
class OpenedEdges(Generic[Rows]):
    """An edge table of which everything is decided.

    Attributes
    ----------
    columns : EdgeColumns
        What its columns hold.
    rows : EdgeRows
        Its links.
    notes : list of str
        What the user should know.
    header_like : bool
        Whether the first link may yet be the names of the columns.
    """

    columns: EdgeColumns
    rows: Rows
    notes: list[str]
    header_like: bool


def open_edges(
    table: Table,
    read: Callable[[EdgeColumns], Rows],
    header: bool | None,
    source: Column,
    target: Column,
    weight: Column,
    *,
    suggest_weight: bool = True,
) -> OpenedEdges[Rows]:
    """Decide whether an edge table has a header and what its columns hold; refuse bad ones.

    The first line of text is a header if the user says so, or asks for a column by name; else if
    it looks like one beside the first rows (`edges_have_header`); else if its ends occur in no
    other link and it is unlike all of them (`stands_out`). A header further down is refused.

    Parameters
    ----------
    table : Table
        The table; if it has a header, its columns are named by it from now on.
    read : callable
        Returns the links, given the columns.
    header : bool or None
        Whether the first line of text names the columns; None: decide.
    source, target, weight : str, int or None
        The columns, where the user says.
    suggest_weight : bool
        Whether to ask if a column that is not used is the weight.
    """
    refuse_one_column(table)
    named = _has_names(table, header, source, target, weight)
    if named:
        table.use_header()
    columns = find_edge_columns(table, named, source, target, weight, suggest_weight)
    rows = read(columns)
    notes: list[str] = []
    header_like = False
    if table.head is not None and header is None:
        first = [table.head[0][end] for end in columns.ends]
        header_like = not named and _is_alone(table.head, columns, rows, first)
        if header_like and stands_out(table.head, *columns.ends):
            notes.append(_note_on_header(table, table.head[0]))
            table.use_header()
            columns = find_edge_columns(table, True, source, target, weight, suggest_weight)
            rows, header_like = read(columns), False
        else:
            _refuse_header_below(rows)
            if not named and first[0].lower() in SOURCES and first[1].lower() in TARGETS:
                notes.append(note_on_known_names(table, first))
    if columns.weight is not None:
        _refuse_bad_weight(table, columns.weight, rows)
    notes += columns.notes + notes_on_skipped(table)
    if header_like:
        notes.append(_note_on_first_link(table, first))
    return OpenedEdges(columns, rows, notes, header_like)


def _has_names(
    table: Table, header: bool | None, source: Column, target: Column, weight: Column
) -> bool:
    """Tell whether the columns have names, by what the user says and by the first rows."""
    if table.head is None:
        return True
    if header is not None:
        return header
    if any(map(is_name, (source, target, weight))):
        return True
    return edges_have_header(table.head, position(table, source, 0), position(table, target, 1))


def edges_have_header(head: Sequence[Sequence[str]], source: int, target: int) -> bool:
    """Tell whether the first row of an edge table names its columns, by the first rows alone.

    It does if its ends are two well-known names ("source" and "target", "u" and "v", …) that
    are not ids further down; or if they are not whole numbers while all ids below are; or if
    another of its fields is not a number while all below it are; or if its first field is what
    pandas calls an index, above whole numbers. An end that is a whole number is never a name.

    Parameters
    ----------
    head : sequence of rows
        The fields of the first rows; where files were joined, the header may be there again.
    source, target : int
        Where the ends are, as far as is known.

    Examples
    --------
    >>> edges_have_header([["paper", "cites"], ["12", "7"]], 0, 1)
    True
    >>> edges_have_header([["ann", "bob"], ["bob", "eve"]], 0, 1)
    False
    """
    first, below = head[0], [row for row in head[1:] if row != head[0]]
    names = {cell.lower() for cell in first}
    if below and is_index_name(first[0]) and all(is_whole(row[0]) for row in below):
        return not any(map(is_number, first))
    ids = {row[end] for row in below for end in (source, target)}
    ends = (first[source], first[target])
    if any(is_whole(end) for end in ends):
        return False
    if names & set(SOURCES) and names & set(TARGETS) and not ids & set(ends):
        return True
    if not below:
        return False
    if all(is_whole(node) for node in ids):
        return True
    others = [i for i in range(len(first)) if i not in (source, target)]
    return any(not is_number(first[i]) and all(is_number(row[i]) for row in below) for i in others)


def stands_out(head: Sequence[Sequence[str]], source: int, target: int) -> bool:
    """Tell whether the first row, whose ends occur in no other, is unlike all the others.

    It is if they all have digits in their ids and it has none; or if each of them shares an end
    with some other. Where more links stand alone, it may be one of them.

    Parameters
    ----------
    head : sequence of rows
        The fields of the first rows.
    source, target : int
        Where the ends are.

    Examples
    --------
    >>> stands_out([["paper", "cites"], ["a", "b"], ["b", "c"]], 0, 1)
    True
    >>> stands_out([["ann", "bob"], ["a", "b"], ["c", "d"]], 0, 1)
    False
    """
    first, *rows = ((row[source], row[target]) for row in head)
    below = {row for row in rows if row != first}
    if len(below) < 2 or first[0] == first[1]:
        return False
    if not any(map(_has_digit, first)) and all(_has_digit(end) for row in below for end in row):
        return True
    often = Counter(end for row in below for end in row)
    return not any(often[a] == often[b] == 1 for a, b in below)


def _has_digit(text: str) -> bool:
    return any(letter.isdigit() for letter in text)


def _is_alone(
    head: Sequence[Sequence[str]], columns: EdgeColumns, rows: EdgeRows, first: Sequence[str]
) -> bool:
    """Tell whether the ends of the first link occur in no other, and are names.

    Where a table is in many files, each of them may begin with it.
    """
    if rows.n_links < 2 or rows.integers:
        return False
    below = ([row[end] for end in columns.ends] for row in head)
    # The first rows show that most first lines are links; only the others need a full pass.
    if any(end in first for row in below if row != first for end in row):
        return False
    return not rows.shares_end(first)


def _refuse_header_below(rows: EdgeRows) -> None:
    """Refuse a line of names in the middle of a table that was joined from several.

    Its fields are names if they are well known as such, or if all other ids are whole numbers;
    and if no other link has them.
    """
    if rows.integers:
        return
    found = rows.find_known_names() or rows.find_lone_words()
    if found is not None and not rows.shares_end(found[1]):
        raise refuse_header_below(*found)


def _refuse_bad_weight(table: Table, column: int, rows: EdgeRows) -> None:
    found = rows.find_bad_weight()
    if found is None:
        return
    place, text = found
    if not is_number(text) or not abs(float(text)) < float("inf"):
        raise bad_number(table, place, column, text)
    if float(text) < 0:
        raise InputError(f"{place}: the weight is negative: {text}")
    raise InputError(
        f"{place}: the weight is {text}; give weights from {LEAST_WEIGHT:g} to {LARGEST_WEIGHT:g}"
    )


def _note_on_header(table: Table, fields: Sequence[str]) -> str:
    return (
        f"the first line of {table.first_file.name} ({', '.join(fields[:5])}) is read as the "
        "column names: it has nothing in common with the others; if it is a link, use --no-header"
    )


def _note_on_first_link(table: Table, ends: Sequence[str]) -> str:
    return (
        f"the first line of {table.first_file.name} is read as a link between "
        f"{' and '.join(map(repr, ends))}, which occur in no other link; if it names the "
        "columns, use --header"
    )
