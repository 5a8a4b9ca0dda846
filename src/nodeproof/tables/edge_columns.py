"""Which columns of an edges file hold what; for files read into memory and by DuckDB."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote

from nodeproof.errors import InputError, count_of
from nodeproof.tables.columns import (
    Column,
    find_column,
    find_index,
    is_index_name,
    is_name,
    list_names,
    note_on_index,
    position,
)
from nodeproof.tables.files import TableFile, unnamed
from nodeproof.tables.text import is_number, is_whole

__all__ = [
    "KINDS",
    "SOURCES",
    "TARGETS",
    "LinkColumns",
    "choose_link_columns",
    "edges_have_header",
    "note_on_comments",
    "note_on_first_link",
    "note_on_header",
    "note_on_kinds",
    "note_on_known_names",
    "note_on_repeats",
    "refuse_header_below",
    "stands_out",
]

#: what the columns with the ends of links are called, in lower case
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
#: what a column or attribute is called that says of which kind a link is, in lower case
KINDS = (
    *("type", "kind", "relation", "rel", "relationship", "predicate", "edge_type", "edgetype"),
    *("link_type", "etype", "interaction", "layer", "label"),
)
# A column of at most this many values may hold kinds; of more values, each must come often.
_FEW_KINDS = 5


@dataclass(frozen=True)
class LinkColumns:
    """What the columns of an edges file are for.

    Attributes
    ----------
    ends : tuple of two ints
        Positions of the ends of a link.
    weight : int or None
        Position of the weight.
    notes : list of str
        What the user should know.
    guessed : bool
        Whether that the first line of text is a link is a guess.
    """

    ends: tuple[int, int]
    weight: int | None
    notes: list[str]
    guessed: bool


def choose_link_columns(
    file: TableFile,
    header: bool | None,
    source: Column,
    target: Column,
    weight: Column,
    *,
    suggest_weight: bool = True,
) -> LinkColumns:
    """Find out whether there is a header, and what the columns are for.

    Parameters
    ----------
    file : TableFile
        The file; where it has a header, its columns are named by it from now on.
    header : bool or None
        Whether the first line of text names the columns; None: find out.
    source, target, weight : str, int or None
        The columns, where the user says.
    suggest_weight : bool
        Whether to ask if a column that is not used is the weight.
    """
    named = _settle_header(file, header, source, target, weight)
    index = find_index(file) if named else None
    if index is not None and file.kind_of(index) != "whole":
        index = None
    ends = _find_ends(file, source, target, index)
    first = None if named or file.head is None else file.head[0]
    weight_column = _find_weight(file, weight, ends, index, first)
    used = [*ends] if weight_column is None else [*ends, weight_column]
    notes = []
    if first is not None and header is None and _are_names(first[ends[0]], first[ends[1]]):
        notes.append(note_on_known_names(file.path.name, [first[end] for end in ends]))
    if index is not None and index not in used:
        notes.append(note_on_index(file, index))
    spare = [i for i in range(len(file.names)) if i not in used and i != index]
    only = len(used) == 2 and len(spare) == 1 and named
    notes += _notes_on_spare(file, spare, suggest_weight and only)
    if weight_column is not None and weight is None and first is not None:
        notes.append(f"the third column of {file.path.name} is read as the weight of the links")
    return LinkColumns(ends, weight_column, notes, first is not None and header is None)


def edges_have_header(head: Sequence[Sequence[str]], source: int, target: int) -> bool:
    """Tell whether the first row of an edges file names its columns.

    It does if its ends are two well-known names ("source" and "target", "u" and "v", …) that
    are no ids further down; or if they are not whole numbers while all ids below are; or if
    another of its fields is no number while all below it are; or if its first field is what
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
    names = [cell.lower() for cell in first]
    if below and is_index_name(first[0]) and all(is_whole(row[0]) for row in below):
        return not any(map(is_number, first))
    ids = {row[end] for row in below for end in (source, target)}
    ends = (first[source], first[target])
    if any(is_whole(end) for end in ends):
        return False
    if set(names) & set(SOURCES) and set(names) & set(TARGETS) and not ids & set(ends):
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


def note_on_first_link(name: str, ends: Sequence[str]) -> str:
    """Return the note that the first line of a file, read as a link, may be a header."""
    return (
        f"the first line of {name} is read as a link between {' and '.join(map(repr, ends))}, "
        "which occur in no other; if it names the columns, use --header"
    )


def note_on_known_names(name: str, fields: Sequence[str]) -> str:
    """Return the note that names of columns are read as data, since nodes have them, too."""
    return (
        f"the first line of {name} ({', '.join(fields)}) is read as data, since there are nodes of "
        "such names; if it names the columns, use --header"
    )


def _are_names(source: str, target: str) -> bool:
    """Tell whether the ends of a first link are what columns are mostly called."""
    return source.lower() in SOURCES and target.lower() in TARGETS


def note_on_header(name: str, fields: Sequence[str]) -> str:
    """Return the note that the first line of a file is taken for a header."""
    return (
        f"the first line of {name} ({', '.join(fields[:5])}) is read as the names of the columns: "
        "it has nothing in common with the others; if it is a link, use --no-header"
    )


def note_on_repeats(name: str, repeats: int) -> list[str]:
    """Return a note on lines that are the header once more, if there are any."""
    if not repeats:
        return []
    some = "repeats the names of the columns, and is" if repeats == 1 else (
        "repeat the names of the columns, and are"
    )  # fmt: skip
    return [f"{count_of(repeats, 'line')} of {name} {some} skipped"]


def note_on_comments(name: str, comments: int) -> list[str]:
    """Return a note on lines that begin with #, if there are any."""
    if not comments:
        return []
    some = count_of(comments, "line")
    return [f"{some} of {name} skipped as a comment; put an id that begins with # in quotes"]


def note_on_kinds(name: str, kinds: str) -> str:
    """Return the note that kinds of links are not told apart."""
    return (
        f"the links of {name} are of kinds, by {kinds!r}, which are not told apart: all count "
        "alike; for one kind alone, keep its lines only"
    )


def refuse_header_below(place: str, ends: Sequence[str]) -> InputError:
    """Return the error for a line that names columns, but is not the first."""
    return InputError(
        f"{place}: {' and '.join(map(repr, ends))} look like names of columns in the middle of the "
        "file: take the line out; if they are nodes, say whether the first line is a header, with "
        "--header or --no-header"
    )


def _settle_header(
    file: TableFile, header: bool | None, source: Column, target: Column, weight: Column
) -> bool:
    """Name the columns where there is a header; return whether they have names."""
    if file.head is None:
        return True
    if header is None:
        header = any(map(is_name, (source, target, weight))) or edges_have_header(
            file.head, position(file, source, 0), position(file, target, 1)
        )
    if header:
        file.use_header()
    return header


def _find_ends(
    file: TableFile, source: Column, target: Column, index: int | None
) -> tuple[int, int]:
    """Return the positions of the two ends of a link: well-known names, or the first two."""
    names = {name.lower() for name in file.names}
    known = names & set(SOURCES) and names & set(TARGETS)
    named = any(not name.startswith("column ") for name in file.names)
    free = len(file.names) - (index is not None)
    if source is target is None and (free < 2 or (named and not known and free > 3)):
        raise InputError(
            f"{file.path} has {len(file.names)} columns ({list_names(file.names)}): say "
            "which hold the ends of a link, with --source and --target"
        )
    # What is asked for is settled first, so that a default never takes it.
    skipped = () if index is None else (index,)
    if source is None and target is not None:
        end = find_column(file, target)
        return find_column(file, None, SOURCES if known else (), (end, *skipped)), end
    start = find_column(file, source, SOURCES if known else (), skipped if source is None else ())
    taken = (start, *skipped) if target is None else (start,)
    return start, find_column(file, target, TARGETS if known else (), taken)


def _find_weight(
    file: TableFile,
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
        return find_column(file, asked, taken=ends)
    others = [i for i in range(len(file.names)) if i not in ends and i != index]
    if first is not None:
        return others[0] if others and is_number(first[others[0]]) else None
    return next((i for i in others if file.names[i].lower() in _WEIGHTS), None)


def _notes_on_spare(file: TableFile, spare: Sequence[int], suggest_weight: bool) -> list[str]:
    """Return a note on the columns that are not used, if there are any."""
    kinds = next((i for i in spare if _holds_kinds(file, i, len(spare) == 1)), None)
    notes = [] if kinds is None else [note_on_kinds(file.path.name, file.names[kinds])]
    spare = [i for i in spare if i != kinds]
    if not spare:
        return notes
    names = [file.names[i] for i in spare]
    shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
    hint = ""
    if suggest_weight and file.kind_of(spare[0]) != "text":
        hint = f"; if it is the weight, use --weight {quote(names[0])}"
    return [*notes, f"not used of {file.path.name}: {shown}{hint}"]


def _holds_kinds(file: TableFile, column: int, alone: bool) -> bool:
    """Tell whether a column says of which kind a link is: by its name, or by its few words."""
    if file.kind_of(column) != "text":
        return False
    name = file.names[column]
    if name != unnamed(column) or file.head is None or not alone:
        return name.lower() in KINDS
    cells = [row[column] for row in file.head]
    words = all(any(letter.isalpha() for letter in cell) for cell in cells)
    return words and len(set(cells)) <= max(_FEW_KINDS, len(cells) // 2)


def _has_digit(text: str) -> bool:
    return any(letter.isdigit() for letter in text)
