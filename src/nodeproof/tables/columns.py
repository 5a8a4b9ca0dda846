"""Headers and columns: which column holds what, by rules that tables of all kinds share."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Sequence
from dataclasses import dataclass
from shlex import quote

from nodeproof.errors import InputError, count_of
from nodeproof.tables.files import Table, unnamed
from nodeproof.tables.text import is_number

__all__ = [
    "KINDS",
    "LABELS",
    "NODES",
    "NOT_APART",
    "SOURCES",
    "TARGETS",
    "Column",
    "EdgeColumns",
    "features_have_header",
    "find_column",
    "find_edge_columns",
    "find_index",
    "is_index_name",
    "is_name",
    "labels_have_header",
    "list_names",
    "note_on_index",
    "note_on_kinds",
    "note_on_known_names",
    "notes_on_skipped",
    "position",
    "refuse_header_below",
    "refuse_one_column",
]

Column = str | int | None

# What pandas and R call the column with the numbers or names of rows, in text and in Parquet.
_FIRST_INDEX = re.compile(r"(Unnamed: [0-9]+)?")
_LAST_INDEX = re.compile(r"__index_level_[0-9]+__")
NODES = ("node", "id", "node_id", "nodeid")
LABELS = ("label", "labels", "class", "y", "category")


def is_name(asked: Column) -> bool:
    """Tell whether a column is given by name rather than by position."""
    return isinstance(asked, str) and not asked.isdecimal()


def position(table: Table, asked: Column, default: int) -> int:
    """Return the position that the user gives, or the default."""
    if asked is None or is_name(asked) or not 0 <= int(asked) < len(table.names):
        return default
    return int(asked)


def features_have_header(first: Sequence[str], node: int, is_known: Callable[[str], bool]) -> bool:
    """Tell whether the first row of a features file names its columns.

    It does if none of its features is a number (and they are not all empty), or if its id is a
    well-known name ("node", "id", or that of an index of pandas) that no link knows.

    Parameters
    ----------
    first : sequence of str
        The fields of the first row.
    node : int
        Where the id is, as far as is known.
    is_known : callable
        Tells whether an id occurs in the edges table.

    Examples
    --------
    >>> features_have_header(["paper", "x", "y"], 0, lambda node: False)
    True
    >>> features_have_header(["paper", "1.5", ""], 0, lambda node: False)
    False
    """
    features = [cell for i, cell in enumerate(first) if i != node]
    named = first[node].lower() in NODES or is_index_name(first[node])
    if named and not is_known(first[node]):
        return True
    return any(features) and not any(is_number(cell) for cell in features)


def labels_have_header(
    head: Sequence[Sequence[str]],
    node: int,
    label: int,
    is_known: Callable[[str], bool],
    unknown: Container[str],
) -> bool:
    """Tell whether the first row of a labels file names its columns.

    It does if its id occurs in no link, its label occurs in no other row and neither is a
    number nor an unknown label; two well-known names ("node" and "label", …) are enough.

    Parameters
    ----------
    head : sequence of rows
        The fields of the first rows.
    node, label : int
        Where the id and the label are, as far as is known.
    is_known : callable
        Tells whether an id occurs in the edges table.
    unknown : container of str
        What stands for an unknown label.

    Examples
    --------
    >>> labels_have_header([["paper", "topic"], ["p1", "art"]], 0, 1, lambda node: False, ())
    True
    >>> labels_have_header([["p2", "art"], ["p1", "art"]], 0, 1, lambda node: False, ())
    False
    """
    first = head[0]
    named = first[node].lower() in NODES or is_index_name(first[node])
    if named and first[label].lower() in LABELS:
        return not is_known(first[node])
    if is_number(first[node]) or is_number(first[label]) or first[label] in unknown:
        return False
    # Where files were joined, the header may be repeated.
    others = {row[label] for row in head[1:] if row != first}
    return not is_known(first[node]) and first[label] not in others


def is_index_name(name: str) -> bool:
    """Tell whether a first column of this name is the index of pandas, or the row names of R.

    Examples
    --------
    >>> is_index_name(""), is_index_name("Unnamed: 0"), is_index_name("node")
    (True, True, False)
    """
    return bool(_FIRST_INDEX.fullmatch(name))


def find_index(table: Table) -> int | None:
    """Return the position of a column that numbers or names the rows, by its name, or None."""
    if is_index_name(table.names[0]):
        return 0
    return next((i for i, name in enumerate(table.names) if _LAST_INDEX.fullmatch(name)), None)


def note_on_index(table: Table, index: int) -> str:
    """Return the note that a column only numbers the rows."""
    which = "first column" if index == 0 else f"column {table.names[index]!r}"
    return f"the {which} of {table.path.name} numbers its rows, as pandas and R do: not used"


def find_column(
    table: Table, asked: Column, known: Sequence[str] = (), taken: Collection[int] = ()
) -> int:
    """Return the position of a column: the given one, a well-known one, or the first free.

    Parameters
    ----------
    table : Table
        Whose columns.
    asked : str, int or None
        A name, or a position from 0 as a number or as digits.
    known : sequence of str
        The names to look for if none is given.
    taken : collection of int
        Positions that hold something else.
    """
    listed = f"its columns are {list_names(table.names)}"
    if asked is not None:
        found = [i for i, name in enumerate(table.names) if name == asked]
        if not found and not is_name(asked) and 0 <= int(asked) < len(table.names):
            found = [int(asked)]
        if len(found) != 1:
            problem = "more than one" if found else "no"
            raise InputError(f"{table.path} has {problem} column {asked!r}; {listed}")
        if found[0] in taken:
            raise InputError(f"{table.path}: column {asked!r} is given twice; {listed}")
        return found[0]
    free = [i for i in range(len(table.names)) if i not in taken]
    if not free:
        raise InputError(f"{table.path} has too few columns; {listed}")
    chosen = next((i for i in free if table.names[i].lower() in known), free[0])
    if sum(table.names[i] == table.names[chosen] for i in free) > 1:
        raise InputError(
            f"{table.path} has more than one column {table.names[chosen]!r}; {listed}: choose "
            "by position"
        )
    return chosen


def list_names(names: Sequence[str]) -> str:
    """Return column names, or the first of many, for messages."""
    return ", ".join(repr(name[:40]) for name in names[:10]) + (", …" if len(names) > 10 else "")


def refuse_one_column(table: Table) -> None:
    """Refuse a table of one column, which is most likely separated by something else."""
    if len(table.names) < 2:
        raise InputError(
            f"{table.path} needs at least two columns, found one; columns may be separated by tab, "
            "comma, semicolon or space"
        )


def refuse_header_below(place: str, ends: Sequence[str]) -> InputError:
    """Return the error for a line that names columns, but is not the first."""
    return InputError(
        f"{place}: {' and '.join(map(repr, ends))} look like column names in the middle of the "
        "file: remove the line; if they are nodes, say whether the first line is a header, with "
        "--header or --no-header"
    )


def note_on_known_names(table: Table, fields: Sequence[str]) -> str:
    """Return the note that column names are read as data, because nodes have these names, too."""
    return (
        f"the first line of {table.first_file.name} ({', '.join(fields)}) is read as data, since "
        "there are nodes with these names; if it names the columns, use --header"
    )


def notes_on_skipped(table: Table) -> list[str]:
    """Return notes on the lines that were skipped: further headers, and comments."""
    name, notes = table.path.name, []
    if table.repeats:
        lines = "repeats the column names and is"
        if table.repeats > 1:
            lines = "repeat the column names and are"
        notes.append(f"{count_of(table.repeats, 'line')} of {name} {lines} skipped")
    if table.comments:
        notes.append(
            f"{count_of(table.comments, 'comment line')} of {name} skipped; put an id that begins "
            "with # in quotes"
        )
    return notes


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


#: what notes say of kinds of links
NOT_APART = "that are not distinguished"


def note_on_kinds(
    name: str, kinds: str, remedy: str = "--edge-type of `nodeproof fit` tells them apart"
) -> str:
    """Return the note that kinds of links are not distinguished, and what would do so."""
    return (
        f"the links of {name} have kinds, in {kinds!r}, {NOT_APART}: all count the same; {remedy}"
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
        hint = f"; if it is the weight, use --weight-column {quote(names[0])}"
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
