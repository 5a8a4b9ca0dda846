"""Which columns of an edge table hold the ends and the weight of a link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote

from nodeproof.errors import InputError
from nodeproof.tables.columns import Column, find_column, find_index, list_names, note_on_index
from nodeproof.tables.files import Table, unnamed
from nodeproof.tables.text import is_number

__all__ = ["KINDS", "SOURCES", "TARGETS", "EdgeColumns", "find_edge_columns", "note_on_kinds"]

#: well-known names of the columns with the ends of links, in lower case
SOURCES = (
    *("source", "src", "from", "u", "node1", "id1", "fromnodeid", "source_id", "head", "caller"),
    *("citing", "follower", "sender", "parent", "node_1", "id_1", "from_id", "from_node"),
    *("source_node", "sourceid", "start_id"),
)
TARGETS = (
    *("target", "dst", "to", "v", "node2", "id2", "tonodeid", "target_id", "tail", "callee"),
    *("cited", "followee", "receiver", "child", "node_2", "id_2", "to_id", "to_node"),
    *("target_node", "targetid", "end_id"),
)
_WEIGHTS = ("weight", "w")
#: well-known names of a column or attribute with the kind of a link, in lower case
KINDS = (
    *("type", "kind", "relation", "rel", "relationship", "predicate", "edge_type", "edgetype"),
    *("link_type", "etype", "interaction", "layer", "label"),
)
# A column of at most this many values may hold kinds; more values must be repeated often.
_FEW_KINDS = 5


@dataclass(frozen=True)
class EdgeColumns:
    """What the columns of an edge table hold.

    Attributes
    ----------
    ends : tuple of two ints
        Positions of the ends of a link.
    weight : int or None
        Position of the weight.
    notes : list of str
        What the user should know.
    """

    ends: tuple[int, int]
    weight: int | None
    notes: list[str]


def find_edge_columns(
    table: Table,
    named: bool,
    source: Column,
    target: Column,
    weight: Column,
    suggest_weight: bool = True,
) -> EdgeColumns:
    """Find out what the columns of an edge table hold.

    Parameters
    ----------
    table : Table
        The table.
    named : bool
        Whether its columns have names.
    source, target, weight : str, int or None
        The columns, where the user says.
    suggest_weight : bool
        Whether to ask if a column that is not used is the weight.
    """
    index = find_index(table) if named else None
    if index is not None and table.kind_of(index) != "whole":
        index = None
    ends = _find_ends(table, source, target, index)
    first = None if named or table.head is None else table.head[0]
    weight_column = _find_weight(table, weight, ends, index, first)
    used = [*ends] if weight_column is None else [*ends, weight_column]
    notes = []
    if index is not None and index not in used:
        notes.append(note_on_index(table, index))
    spare = [i for i in range(len(table.names)) if i not in used and i != index]
    only = len(used) == 2 and len(spare) == 1 and named
    notes += _notes_on_spare(table, spare, suggest_weight and only)
    if weight_column is not None and weight is None and first is not None:
        notes.append(f"the third column of {table.path.name} is read as the weight of the links")
    return EdgeColumns(ends, weight_column, notes)


def note_on_kinds(name: str, kinds: str) -> str:
    """Return the note that kinds of links are not distinguished."""
    return (
        f"the links of {name} have kinds, in {kinds!r}, that are not distinguished: all count "
        "the same; to use one kind, keep only its lines"
    )


def _find_ends(table: Table, source: Column, target: Column, index: int | None) -> tuple[int, int]:
    """Return the positions of the two ends of a link: well-known names, or the first two."""
    names = {name.lower() for name in table.names}
    known = names & set(SOURCES) and names & set(TARGETS)
    named = any(not name.startswith("column ") for name in table.names)
    free = len(table.names) - (index is not None)
    if source is target is None and (free < 2 or (named and not known and free > 3)):
        raise InputError(
            f"{table.path} has {len(table.names)} columns ({list_names(table.names)}): say "
            "which hold the ends of a link, with --source and --target"
        )
    # What the user gives is settled first, so that a default never takes it.
    skipped = () if index is None else (index,)
    if source is None and target is not None:
        end = find_column(table, target)
        return find_column(table, None, SOURCES if known else (), (end, *skipped)), end
    start = find_column(table, source, SOURCES if known else (), skipped if source is None else ())
    taken = (start, *skipped) if target is None else (start,)
    return start, find_column(table, target, TARGETS if known else (), taken)


def _find_weight(
    table: Table,
    asked: Column,
    ends: Sequence[int],
    index: int | None,
    first: Sequence[str] | None,
) -> int | None:
    """Return the position of the weight, or None where the links have none.

    Of a file without a header, `first` is the first row; its third field is the weight if it is a
    number.
    """
    if asked is not None:
        return find_column(table, asked, taken=ends)
    others = [i for i in range(len(table.names)) if i not in ends and i != index]
    if first is not None:
        return others[0] if others and is_number(first[others[0]]) else None
    return next((i for i in others if table.names[i].lower() in _WEIGHTS), None)


def _notes_on_spare(table: Table, spare: Sequence[int], suggest_weight: bool) -> list[str]:
    """Return a note on the columns that are not used, if there are any."""
    kinds = next((i for i in spare if _holds_kinds(table, i, len(spare) == 1)), None)
    notes = [] if kinds is None else [note_on_kinds(table.path.name, table.names[kinds])]
    spare = [i for i in spare if i != kinds]
    if not spare:
        return notes
    names = [table.names[i] for i in spare]
    shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
    hint = ""
    if suggest_weight and table.kind_of(spare[0]) != "text":
        hint = f"; if it is the weight, use --weight {quote(names[0])}"
    return [*notes, f"unused columns of {table.path.name}: {shown}{hint}"]


def _holds_kinds(table: Table, column: int, alone: bool) -> bool:
    """Tell whether a column holds the kind of a link: by its name, or by its few words."""
    if table.kind_of(column) != "text":
        return False
    name = table.names[column]
    if name != unnamed(column) or table.head is None or not alone:
        return name.lower() in KINDS
    cells = [row[column] for row in table.head]
    words = all(any(letter.isalpha() for letter in cell) for cell in cells)
    return words and len(set(cells)) <= max(_FEW_KINDS, len(cells) // 2)
