"""Names of nodes, by which features, labels and graphs are brought into the same order.

The rule, wherever rows are combined: two parts that both name the nodes are matched by name. Equal
names mean the same node, and a number never equals a text. Labels may name some of the nodes,
everything else has to name all of them; a name that cannot be matched is refused. A part without
names is taken by position, and a default index (0, 1, 2, …) counts as no names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.errors import InputError
from nodeproof.inputs.graph_objects import (
    NamedGraph,
    is_anndata,
    is_igraph,
    is_matrix_table,
    is_networkx,
    to_csr,
)
from nodeproof.runtime.logs import warn_caller

__all__ = [
    "NamedRows",
    "Names",
    "align_graph",
    "align_rows",
    "are_usable",
    "as_keys",
    "as_names",
    "check_positions",
    "check_unique",
    "find_order",
    "find_positions",
    "in_order",
    "match_names",
    "names_of_graph",
    "names_of_rows",
    "numbered",
    "shown_name",
    "warn_of_shuffle",
    "writable",
]

#: text, whole numbers, floats or other objects; or positions; or None, where there is neither
Names = NDArray[Any] | range | None


@dataclass(frozen=True)
class NamedRows:
    """Rows with the names of their nodes.

    Attributes
    ----------
    values : ndarray of shape (n,) or (n, m)
        Labels or features.
    names : ndarray of shape (n,)
        Names, each once.
    """

    values: NDArray[Any]
    names: NDArray[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the values."""
        return self.values.shape


def as_names(held: Iterable[Any]) -> NDArray[Any] | range:
    """Return names as an array: of text, int64 or float64 where all are that, else of objects.

    Integers that count from 0 are positions.

    Examples
    --------
    >>> from nodeproof.inputs.node_names import as_names
    >>> as_names(["b", "a"]).tolist(), as_names([5, 3]).tolist(), as_names([(0, 1), "a"]).tolist()
    (['b', 'a'], [5, 3], [(0, 1), 'a'])
    >>> as_names([0, 1, 2])
    range(0, 3)
    """
    listed = held.tolist() if hasattr(held, "tolist") else list(held)
    if listed and all(isinstance(name, str) for name in listed):
        return np.array(listed, dtype=str)
    if all(isinstance(name, int | np.integer) and type(name) is not bool for name in listed):
        if all(-(2**63) <= name < 2**63 for name in listed):
            names = np.array(listed, dtype=np.int64)
            return range(len(names)) if _counts_up(names) else names
    elif all(isinstance(name, float | np.floating) for name in listed):
        return np.array(listed, dtype=np.float64)
    return np.fromiter(listed, dtype=object, count=len(listed))


def _counts_up(names: NDArray[Any]) -> bool:
    return np.array_equal(names, np.arange(len(names)))


def names_of_graph(graph: Any, known: Names = None) -> Names:
    """Return the names of the nodes of a graph, if it has any; two nodes may share one.

    Parameters
    ----------
    known : ndarray, range or None
        What others call the nodes. Beside numbers, nodes 0, 1, 2, … are names, else positions;
        so is a default index, always.
    """
    if is_matrix_table(graph):
        return as_names(graph.index)
    if isinstance(graph, NamedGraph):
        return graph.names
    if is_networkx(graph):
        return numbered(as_names(graph.nodes), known)
    if is_igraph(graph):
        called = graph.vs["name"] if "name" in graph.vs.attributes() else None
        return None if called is None else numbered(as_names(called), known)
    return as_names(graph.obs_names) if is_anndata(graph) else None


def names_of_rows(rows: Any, part: str) -> Names:
    """Return the index of a pandas table or column, else None; names must be unique.

    Parameters
    ----------
    part : str
        What the rows are called in an error.
    """
    if isinstance(rows, NamedRows):
        return rows.names
    index: Any = getattr(rows, "index", None)
    if not hasattr(index, "equals"):  # lists have a method of that name
        return None
    if (getattr(index, "start", None), getattr(index, "step", None)) == (0, 1):
        return range(len(index))  # there may be very many
    names = as_names(index)
    if isinstance(names, np.ndarray):
        _check_names(names, part)
    return names


def check_unique(names: NDArray[Any], part: str) -> None:
    """Refuse names that are missing or that two nodes share; `part` is what has them."""
    _check_names(names, part)


def _check_names(names: NDArray[Any], part: str) -> None:
    """Refuse names that are missing or that two nodes share."""
    if names.dtype.kind in "fO":
        empty = [row for row, name in enumerate(names.tolist()) if _is_missing(name)]
        if empty:
            raise InputError(
                f"{part} has no name for row {empty[0]}: fill its index, or drop it with "
                "reset_index(drop=True)"
            )
    again = _repeated_name(names)
    if again is not None:
        raise InputError(
            f"{part} gives {shown_name(names[again])} as the name of more than one node (again at "
            f"row {again}): names must differ; if the rows are in the same order as "
            "everything else, drop the index with reset_index(drop=True)"
        )


def _is_missing(name: Any) -> bool:
    same = name == name
    return name is None or not isinstance(same, bool | np.bool_) or not same


def are_usable(names: NDArray[Any] | None) -> bool:
    """Tell whether names are unique, complete, and more than positions."""
    if names is None or _counts_up(names):
        return False
    missing = names.dtype.kind in "fO" and any(map(_is_missing, names.tolist()))
    return not missing and _repeated_name(names) is None


def _repeated_name(names: NDArray[Any]) -> int | None:
    """Return the first row that has the name of an earlier one, or None."""
    listed = names.tolist()
    if len(set(listed)) == len(listed):
        return None
    first: dict[Any, int] = {}
    return next(row for row, name in enumerate(listed) if first.setdefault(name, row) != row)


def match_names(
    names: NDArray[Any], among: NDArray[Any], part: str, whole: str
) -> NDArray[np.int64]:
    """Return the position of each name among those of all nodes, shape (m,).

    Parameters
    ----------
    names : ndarray of shape (m,)
        Some of the nodes, or all of them.
    among : ndarray of shape (n,)
        All nodes.
    part, whole : str
        What has these names, for the error that refuses the first without a match.
    """
    if names.dtype == among.dtype and np.array_equal(names, among):
        return np.arange(len(names))
    _check_names(names, part)
    _check_names(among, whole)
    place = {name: row for row, name in enumerate(among.tolist())}
    found = np.array([place.get(name, -1) for name in names.tolist()], dtype=np.int64)
    if (found < 0).any():
        first = names[int((found < 0).argmax())]
        raise InputError(
            f"{part} names the node {shown_name(first)}, which {whole} does not have"
            f"{_hint(names, among, part, whole)}"
        )
    return found


def find_order(
    names: NDArray[Any], among: NDArray[Any], part: str, whole: str
) -> NDArray[np.int64]:
    """Return the rows of a part in the order of all nodes, shape (n,); it must name all of them.

    Parameters
    ----------
    names, among, part, whole
        As in :func:`match_names`.
    """
    places = match_names(names, among, part, whole)
    if len(names) < len(among):
        match_names(among, names, whole, part)  # refuses the first that is missing
    return np.argsort(places)


def _hint(names: NDArray[Any], among: NDArray[Any], part: str, whole: str) -> str:
    kinds = _kind(names), _kind(among)
    if kinds[0] != kinds[1]:
        return (
            f": names are {kinds[0]} in {part} and {kinds[1]} in {whole}; convert them to one "
            "type, for example with index.map(str)"
        )
    return "; remove it, or give both without names if their rows are in the same order"


def _kind(names: NDArray[Any]) -> str:
    if names.dtype.kind in "iuf":
        return "numbers"
    if names.dtype.kind == "U":
        return "text"
    kinds = {type(name).__name__ for name in names.tolist()}
    return kinds.pop() if len(kinds) == 1 else "of several types"


def numbered(graph: Names, names: Names) -> Names:
    """Return the numbers of a graph's nodes as names, if others name them by such numbers."""
    if not isinstance(graph, range) or not isinstance(names, np.ndarray):
        return graph
    if names.dtype.kind in "if" and np.isin(names, np.arange(len(graph))).any():
        return np.arange(len(graph))
    return graph


def align_rows(rows: Any, names: Names, part: str, whole: str) -> Any:
    """Return labels in the order of the nodes, with None for those that have no entry.

    Parameters
    ----------
    rows : Series, table of one column, or array
        By position, unless it has an index of names.
    names : ndarray of shape (n,), range or None
        What the nodes are called.
    part, whole : str
        What has these names, for errors.
    """
    own = names_of_rows(rows, part)
    if not isinstance(own, np.ndarray) or not isinstance(names, np.ndarray):
        check_positions({whole: names, part: own})
        return rows
    places = match_names(own, names, part, whole)
    if isinstance(rows, NamedRows):
        held = np.full(len(names), None, dtype=object)
        held[places] = rows.values
        return held
    if len(places) == len(names):
        return rows if _counts_up(places) else rows.iloc[np.argsort(places)]
    column = rows.iloc[:, 0] if rows.ndim == 2 and rows.shape[1] == 1 else rows
    if column.ndim != 1:
        return rows  # refused where it is read
    held = np.full(len(names), None, dtype=object)
    # Entries keep their type, which decides how unknown labels are told apart from classes.
    held[places] = np.fromiter(column.array, dtype=object, count=len(column))
    return held


def align_graph(graph: Any, names: Names, whole: str) -> Any:
    """Return a graph with its nodes in the order of the names, shape (n,), if it has names."""
    own = names_of_graph(graph, names)
    if not isinstance(own, np.ndarray) or not isinstance(names, np.ndarray):
        check_positions({whole: names, "graph": own})
        return graph
    return in_order(graph, find_order(own, names, "graph", whole), names)


def in_order(graph: Any, order: NDArray[np.int64], names: NDArray[Any]) -> Any:
    """Return a graph with its nodes in this order, shape (n,), and with these names."""
    if _counts_up(order):
        return graph
    return NamedGraph(to_csr(graph, len(order))[order][:, order], names)


def check_positions(named: dict[str, Names]) -> None:
    """Refuse parts of which one numbers the nodes in a different order than positions do.

    A default index counts as none, but rows next to numbers in another order are hardly meant
    to be taken by position.
    """
    parts = [(part, names) for part, names in named.items() if names is not None]
    for first, one in parts:
        for second, other in parts:
            if isinstance(one, range) and _is_shuffled(other, len(one)):
                assert isinstance(other, np.ndarray)
                row = int((other != np.arange(len(other))).argmax())
                raise InputError(
                    f"{first} and {second} list the same nodes in different orders: row {row} is "
                    f"{row} in {first} and {shown_name(other[row])} in {second}; use one "
                    "order for both, or give both without names"
                )


def _is_shuffled(names: Names, n_nodes: int) -> bool:
    """Tell whether names are the positions in a different order."""
    if not isinstance(names, np.ndarray) or names.dtype.kind not in "if" or len(names) != n_nodes:
        return False
    return not _counts_up(names) and _counts_up(np.sort(names))


def warn_of_shuffle(names: Names, what: str, rows: str) -> None:
    """Warn where nodes are numbered in a different order, and nothing can confirm it.

    Parameters
    ----------
    names : ndarray, range or None
        What the nodes are called.
    what : str
        By what.
    rows : str
        What is taken in that order.
    """
    if isinstance(names, np.ndarray) and _is_shuffled(names, len(names)):
        warn_caller(
            f"{what} lists the nodes 0 to {len(names) - 1} in another order, "
            f"{', '.join(map(str, names[:3]))}, …, and {rows} in that order, not by "
            "number; if that is not what you mean, sort its nodes first"
        )


def shown_name(name: Any) -> str:
    """Return a name as messages quote it."""
    return repr(name.item() if isinstance(name, np.generic) else name)


def find_positions(ends: NDArray[Any], names: NDArray[Any], column: str) -> NDArray[np.int64]:
    """Return the positions of the names in a column of links, shape (E,)."""
    if len(ends) == 0:
        return np.empty(0, dtype=np.int64)
    position = {name: row for row, name in enumerate(names.tolist())}
    found = np.array([position.get(end, -1) for end in ends.tolist()], dtype=np.int64)
    if (found < 0).any():
        row = int((found < 0).argmax())
        raise InputError(
            f"row {row} of the {column} column names {shown_name(ends[row])}, which is not one of "
            f"the {len(names)} nodes"
        )
    return found


def as_keys(ends: NDArray[Any]) -> NDArray[Any]:
    """Return a column of names: text as such, dates as an index has them."""
    if ends.dtype.kind == "M":
        ends = np.array(import_module("pandas").DatetimeIndex(ends).tolist(), dtype=object)
    text = ends.dtype.kind in "UT" or all(isinstance(end, str) for end in ends.tolist())
    return ends.astype(str) if text else ends


def writable(names: NDArray[Any]) -> NDArray[Any]:
    """Return names as files and tables can hold them: numbers or text; anything else as text."""
    return np.array(list(map(str, names.tolist()))) if names.dtype.kind == "O" else names
