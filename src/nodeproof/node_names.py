"""What nodes are called by what is given for them, and whether all list them in one order."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.callers import warn_caller
from nodeproof.errors import InputError
from nodeproof.graph_readers import (
    NamedGraph,
    is_anndata,
    is_igraph,
    is_matrix_table,
    is_networkx,
)

if TYPE_CHECKING:
    from nodeproof.estimator import NodeClassifier

__all__ = [
    "Names",
    "as_names",
    "check_order",
    "find_positions",
    "keep_names",
    "names_of_graph",
    "names_of_rows",
    "warn_of_shuffle",
]


#: an array that a file can hold; or positions; or None, where there is neither
Names = NDArray[Any] | range | None


def as_names(held: Iterable[Any]) -> Names:
    """Return names as an array that a file can hold, or None where they are no names.

    Names are text or integers, each once; integers that count from 0 are positions.

    Examples
    --------
    >>> from nodeproof.node_names import as_names
    >>> as_names(["b", "a"]).tolist(), as_names([5, 3]).tolist()
    (['b', 'a'], [5, 3])
    >>> as_names([0, 1, 2]), as_names(["a", "a"]), as_names([(0, 1), (0, 2)])
    (range(0, 3), None, None)
    """
    listed = list(held)
    if listed and all(isinstance(name, str) for name in listed):
        names = np.array(listed, dtype=str)
        return names if len(set(listed)) == len(listed) else None
    if not all(isinstance(name, int | np.integer) and type(name) is not bool for name in listed):
        return None
    if any(not -(2**63) <= name < 2**63 for name in listed) or len(set(listed)) < len(listed):
        return None
    names = np.array(listed, dtype=np.int64)
    return range(len(names)) if np.array_equal(names, np.arange(len(names))) else names


def names_of_graph(graph: Any) -> Names:
    """Return the names of the nodes of a graph, if it has any."""
    if isinstance(graph, NamedGraph):
        return graph.names
    if is_networkx(graph):
        return as_names(graph.nodes)
    if is_igraph(graph):
        return as_names(graph.vs["name"]) if "name" in graph.vs.attributes() else None
    if is_anndata(graph):
        return as_names(graph.obs_names)
    return as_names(graph.index) if is_matrix_table(graph) else None


def names_of_rows(rows: Any) -> Names:
    """Return the index of a pandas table or column, if it is one."""
    index: Any = getattr(rows, "index", None)
    # Lists have a method of that name.
    if not hasattr(index, "equals") or getattr(index, "nlevels", 1) > 1:
        return None
    if (getattr(index, "start", None), getattr(index, "step", None)) == (0, 1):
        return range(len(index))  # there may be very many
    return as_names(index.tolist())


def check_order(named: dict[str, Names]) -> NDArray[Any] | None:
    """Return the names of the nodes; raise an error where two list the same ones differently.

    Parameters
    ----------
    named : dict
        What nodes are called by each of what was given, shape (n,), or None. The last that has
        names counts; positions are none.
    """
    known = [(part, names) for part, names in named.items() if names is not None]
    for (first, one), (second, other) in combinations(known, 2):
        if _is_reordered(one, other):
            row = next(row for row in range(len(one)) if one[row] != other[row])
            raise InputError(
                f"{first} and {second} list the same nodes in another order: row {row} is "
                f"{_shown(one[row])} in {first} and {_shown(other[row])} in {second}; bring "
                "them into one order, or give both without names"
            )
    return next((names for _, names in reversed(known) if not isinstance(names, range)), None)


def _is_reordered(one: NDArray[Any] | range, other: NDArray[Any] | range) -> bool:
    if len(one) != len(other) or (isinstance(one, range) and isinstance(other, range)):
        return False
    first, second = np.asarray(one), np.asarray(other)
    if first.dtype.kind != second.dtype.kind or np.array_equal(first, second):
        return False
    return np.array_equal(np.sort(first), np.sort(second))


def warn_of_shuffle(names: Names, what: str, rows: str) -> None:
    """Say so where nodes are numbered, in another order, and there is nothing to check it by.

    Parameters
    ----------
    names : ndarray, range or None
        What the nodes are called.
    what : str
        By what.
    rows : str
        What is taken in that order.
    """
    if isinstance(names, np.ndarray) and _is_reordered(range(len(names)), names):
        warn_caller(
            f"{what} lists the nodes 0 to {len(names) - 1} in another order, "
            f"{', '.join(map(str, names[:3]))}, …, and {rows} in that order, not by "
            "number; if that is not meant, sort its nodes first"
        )


def _shown(name: Any) -> str:
    return repr(name.item() if isinstance(name, np.generic) else name)


def find_positions(ends: NDArray[Any], names: NDArray[Any], column: str) -> NDArray[np.int64]:
    """Return where the names stand that a column of links has, shape (E,)."""
    if len(ends) == 0:
        return np.empty(0, dtype=np.int64)
    position = {name: row for row, name in enumerate(names.tolist())}
    found = np.array([position.get(end, -1) for end in ends.tolist()], dtype=np.int64)
    if (found < 0).any():
        row = int((found < 0).argmax())
        raise InputError(
            f"row {row} of the {column} column names {ends[row].item()!r}, which is none of the "
            f"{len(names)} nodes"
        )
    return found


def keep_names(clf: NodeClassifier, names: NDArray[Any] | None) -> None:
    """Set the names of the nodes that were fitted, or forget those of an earlier fit."""
    if names is not None:
        clf.node_ids_ = names
    elif hasattr(clf, "node_ids_"):
        del clf.node_ids_
