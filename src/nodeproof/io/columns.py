"""Which line is a header, and which column holds what."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from nodeproof.errors import InputError
from nodeproof.io.files import TableFile
from nodeproof.io.text import is_number

__all__ = [
    "LABELS",
    "NODES",
    "Column",
    "edges_have_header",
    "features_have_header",
    "find_column",
    "find_ends",
    "find_weight",
    "is_name",
    "labels_have_header",
    "position",
]

Column = str | int | None

_SOURCES = ("source", "src", "from", "u", "node1", "id1", "fromnodeid", "source_id", "head")
_TARGETS = ("target", "dst", "to", "v", "node2", "id2", "tonodeid", "target_id", "tail")
_WEIGHTS = ("weight", "w")
NODES = ("node", "id", "node_id", "nodeid")
LABELS = ("label", "labels", "class", "y", "category")


def is_name(asked: Column) -> bool:
    """Tell whether a column is asked for by its name rather than by its position."""
    return isinstance(asked, str) and not asked.isdecimal()


def position(file: TableFile, asked: Column, default: int) -> int:
    """Return the position asked for, or the default where there is none (yet)."""
    if asked is None or is_name(asked) or not 0 <= int(asked) < len(file.names):
        return default
    return int(asked)


def edges_have_header(head: Sequence[Sequence[str]], source: int, target: int) -> bool:
    """Tell whether the first row of an edges file names its columns.

    It does if its ends are two well-known names ("source" and "target", "u" and "v", …) that
    are no ids further down; or if they are not whole numbers while all ids below are; or if
    another of its fields is no number while all below it are. An end that is a whole number is
    never a name.

    Parameters
    ----------
    head : sequence of rows
        The fields of the first rows.
    source, target : int
        Where the ends are, as far as is known.

    Examples
    --------
    >>> edges_have_header([["paper", "cites"], ["12", "7"]], 0, 1)
    True
    >>> edges_have_header([["ann", "bob"], ["bob", "eve"]], 0, 1)
    False
    """
    first, below = head[0], head[1:]
    names = [cell.lower() for cell in first]
    ids = {row[end] for row in below for end in (source, target)}
    ends = (first[source], first[target])
    if any(_is_whole(end) for end in ends):
        return False
    if set(names) & set(_SOURCES) and set(names) & set(_TARGETS) and not ids & set(ends):
        return True
    if not below:
        return False
    if all(_is_whole(node) for node in ids):
        return True
    others = [i for i in range(len(first)) if i not in (source, target)]
    return any(not is_number(first[i]) and all(is_number(row[i]) for row in below) for i in others)


def features_have_header(first: Sequence[str], node: int, is_known: Callable[[str], bool]) -> bool:
    """Tell whether the first row of a features file names its columns.

    It does if none of its features is a number (and they are not all empty), or if its id is a
    well-known name ("node", "id", or nothing, as pandas writes) that no link knows.

    Parameters
    ----------
    first : sequence of str
        The fields of the first row.
    node : int
        Where the id is, as far as is known.
    is_known : callable
        Tells whether an id occurs in the edges file.

    Examples
    --------
    >>> features_have_header(["paper", "x", "y"], 0, lambda node: False)
    True
    >>> features_have_header(["paper", "1.5", ""], 0, lambda node: False)
    False
    """
    features = [cell for i, cell in enumerate(first) if i != node]
    if first[node].lower() in ("", *NODES) and not is_known(first[node]):
        return True
    return any(features) and not any(is_number(cell) for cell in features)


def labels_have_header(
    head: Sequence[Sequence[str]],
    node: int,
    label: int,
    is_known: Callable[[str], bool],
    unknown: Collection[str],
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
        Tells whether an id occurs in the edges file.
    unknown : collection of str
        What stands for an unknown label.

    Examples
    --------
    >>> labels_have_header([["paper", "topic"], ["p1", "art"]], 0, 1, lambda node: False, ())
    True
    >>> labels_have_header([["p2", "art"], ["p1", "art"]], 0, 1, lambda node: False, ())
    False
    """
    first = head[0]
    if first[node].lower() in NODES and first[label].lower() in LABELS:
        return not is_known(first[node])
    if is_number(first[node]) or is_number(first[label]) or first[label] in unknown:
        return False
    return not is_known(first[node]) and first[label] not in {row[label] for row in head[1:]}


def find_column(
    file: TableFile, asked: Column, known: Sequence[str] = (), taken: Collection[int] = ()
) -> int:
    """Return the position of a column: the one asked for, a well-known one or the first free.

    Parameters
    ----------
    file : TableFile
        Whose columns.
    asked : str, int or None
        A name, or a position from 0 as a number or as digits.
    known : sequence of str
        The names to look for if nothing was asked for.
    taken : collection of int
        Positions that hold something else.
    """
    listed = f"its columns are {_listed(file.names)}"
    if asked is not None:
        found = [i for i, name in enumerate(file.names) if name == asked]
        if not found and not is_name(asked) and 0 <= int(asked) < len(file.names):
            found = [int(asked)]
        if len(found) != 1:
            problem = "more than one" if found else "no"
            raise InputError(f"{file.path} has {problem} column {asked!r}; {listed}")
        if found[0] in taken:
            raise InputError(f"{file.path}: column {asked!r} is asked for twice; {listed}")
        return found[0]
    free = [i for i in range(len(file.names)) if i not in taken]
    chosen = next((i for i in free if file.names[i].lower() in known), free[0])
    if sum(file.names[i] == file.names[chosen] for i in free) > 1:
        raise InputError(
            f"{file.path} has more than one column {file.names[chosen]!r}; {listed}: choose by "
            "their positions"
        )
    return chosen


def find_ends(file: TableFile, source: Column, target: Column) -> tuple[int, int]:
    """Return the positions of the two ends of a link: well-known names, or the first two."""
    names = {name.lower() for name in file.names}
    known = names & set(_SOURCES) and names & set(_TARGETS)
    named = any(not name.startswith("column ") for name in file.names)
    if named and not known and source is None and target is None and len(file.names) > 3:
        raise InputError(
            f"{file.path} has {len(file.names)} columns ({_listed(file.names)}): say "
            "which hold the ends of a link, with --source and --target"
        )
    # What is asked for is settled first, so that a default never takes it.
    if source is None and target is not None:
        end = find_column(file, target)
        return find_column(file, None, _SOURCES if known else (), (end,)), end
    start = find_column(file, source, _SOURCES if known else ())
    return start, find_column(file, target, _TARGETS if known else (), (start,))


def find_weight(
    file: TableFile, asked: Column, ends: Sequence[int], first: Sequence[str] | None
) -> int | None:
    """Return the position of the weight, or None where the links have none.

    Parameters
    ----------
    file : TableFile
        The edges.
    asked : str, int or None
        What the user asks for.
    ends : sequence of two ints
        Positions of the ends.
    first : sequence of str or None
        The first row of a file without a header; its third field is the weight if a number.
    """
    if asked is not None:
        return find_column(file, asked, taken=ends)
    others = [i for i in range(len(file.names)) if i not in ends]
    if first is not None:
        return others[0] if others and is_number(first[others[0]]) else None
    return next((i for i in others if file.names[i].lower() in _WEIGHTS), None)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name[:40]) for name in names[:10]) + (", …" if len(names) > 10 else "")


def _is_whole(cell: str) -> bool:
    return cell.removeprefix("-").isdecimal()
