"""What an update changes: new nodes, other links and other labels, read and checked."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.csr import LARGEST_WEIGHT, LEAST_WEIGHT
from nodeproof.errors import InputError
from nodeproof.graph import Graph, null_factors
from nodeproof.inputs.graph_objects import is_table, table_columns
from nodeproof.inputs.label_values import read_values
from nodeproof.inputs.new_links import NewLinks, check_links
from nodeproof.inputs.node_names import Names, as_names, names_of_rows, shown_name
from nodeproof.inputs.tensors import plain

if TYPE_CHECKING:
    from nodeproof.fitted import Fitted

__all__ = ["Pairs", "Rewired", "name_all", "read_labels", "read_links", "read_pairs", "rewire"]


@dataclass(frozen=True)
class Pairs:
    """Pairs of nodes, as positions.

    Attributes
    ----------
    first, second : ndarray of shape (E,)
        The two ends.
    weights : ndarray of shape (E,)
        The weight of the link between them.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    weights: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True)
class Rewired:
    """A graph after an update.

    Attributes
    ----------
    graph : Graph or None
        All links, those of new nodes included.
    touched : ndarray of int
        Nodes that were there before and have other links now, ascending.
    added, removed : int
        Number of links that are new, or of another weight, and of those that are gone.
    """

    graph: Graph | None
    touched: NDArray[np.int64]
    added: int = 0
    removed: int = 0


def read_links(
    fitted: Fitted, graph: Any, n_new: int | None, names: Names, unit: float
) -> NewLinks:
    """Return the links of new nodes; none if none are given.

    Parameters
    ----------
    graph : object or None
        As :meth:`nodeproof.NodeClassifier.predict` takes it.
    n_new : int or None
        Number of new nodes, where features say so.
    names : ndarray of shape (n_new,), range or None
        Names of the new nodes.
    unit : float
        Weight of links that come without one.
    """
    if graph is None:
        n_new = n_new or 0
        return NewLinks(sp.csr_array((n_new, fitted.n_nodes)), sp.csr_array((n_new, n_new)))
    if n_new is None and isinstance(names, np.ndarray):
        n_new = len(names)
    return check_links(graph, n_new, fitted.n_nodes, unit, new=names, fitted=fitted.node_ids)


def name_all(fitted: Fitted, names: Names, n_new: int) -> NDArray[Any] | None:
    """Return the names of all nodes, new ones last; None if nodes have no names.

    New nodes without names among nodes that have some are called by their positions.
    """
    known = fitted.node_ids
    if n_new == 0 or known is None:
        return known
    n = fitted.n_nodes
    given: list[Any] = list(range(n, n + n_new))
    if isinstance(names, np.ndarray):
        given = names.tolist()
    elif all(isinstance(name, str) for name in known.tolist()):
        given = [str(place) for place in given]
    taken = set(known.tolist())
    for name in given:
        if name in taken:
            raise InputError(
                f"the new node {shown_name(name)} has the name of another node: rename it, with "
                "names in the index of X"
            )
        taken.add(name)
    named = as_names([*known.tolist(), *given])
    return np.arange(n + n_new) if isinstance(named, range) else named


def read_labels(
    y: Any, classes: NDArray[Any], given: NDArray[np.int64], names: NDArray[Any] | None, n_new: int
) -> NDArray[np.int64]:
    """Return the labels of all nodes after an update as class numbers, shape (n + n_new,).

    Parameters
    ----------
    y : object
        As :meth:`nodeproof.NodeClassifier.update` takes it.
    classes : ndarray of shape (K,)
        Names of the classes.
    given : ndarray of shape (n,)
        The labels so far, −1 where there is none.
    names : ndarray of shape (n + n_new,), or None
        Names of all nodes.
    n_new : int
        Number of new nodes.
    """
    n = len(given)
    codes = np.concatenate([given, np.full(n_new, -1)])
    if y is None:
        return codes
    places, values = _places_of(y, names, n, n_new)
    known_values, known = read_values(values)
    numbers = {name: code for code, name in enumerate(classes.tolist())}
    found = np.full(len(known), -1)
    listed = known_values.tolist()
    for name in listed:
        if name not in numbers:
            shown = ", ".join(map(repr, classes[:5].tolist())) + (", …" if len(classes) > 5 else "")
            raise InputError(
                f"y names the class {name!r}, which the fit did not have (it had {shown}): an "
                "update keeps the classes; to add one, fit again"
            )
    found[known] = [numbers[name] for name in listed]
    codes[places] = found
    return codes


def _places_of(
    y: Any, names: NDArray[Any] | None, n: int, n_new: int
) -> tuple[NDArray[np.int64], Any]:
    """Return the positions that labels are for, and the labels."""
    if isinstance(y, Mapping):
        keys = list(y)
        values = np.fromiter(y.values(), dtype=object, count=len(keys))
        return _positions(keys, names, n + n_new, "y"), values
    own = names_of_rows(y, "y")
    if isinstance(own, np.ndarray):
        return _positions(own.tolist(), names, n + n_new, "y"), y
    length = len(y) if hasattr(y, "__len__") else -1
    sizes = {n + n_new: np.arange(n + n_new)}
    if n_new:
        sizes[n_new] = np.arange(n, n + n_new)
        if length == n_new == n:
            raise InputError(
                f"y has {n} entries, for {n} fitted and as many new nodes: give one per node, "
                f"{2 * n} in all, or a dict from nodes to labels"
            )
    if length not in sizes:
        wanted = f"one for each of the {n} nodes"
        if n_new:
            wanted = f"one for each of the {n_new} new nodes, or {n + n_new} for all"
        raise InputError(
            f"y has {length} entries; give {wanted}, or a dict or Series from nodes to labels"
        )
    return sizes[length], y


def _positions(keys: list[Any], names: NDArray[Any] | None, n: int, part: str) -> NDArray[np.int64]:
    """Return positions of nodes that are listed by name, or by position if they have no names."""
    if names is not None:
        at = {name: place for place, name in enumerate(names.tolist())}
        unknown = next((key for key in keys if key not in at), None)
        if unknown is not None:
            raise InputError(
                f"{part} names the node {shown_name(unknown)}, but no node is called that; nodes "
                f"are called {', '.join(map(shown_name, names[:3].tolist()))}, …"
            )
        places = np.fromiter((at[key] for key in keys), dtype=np.int64, count=len(keys))
    else:
        for key in keys:
            whole = isinstance(key, int | np.integer) and not isinstance(key, bool)
            if not (whole and 0 <= key < n):
                raise InputError(
                    f"{part} names the node {shown_name(key)}, but nodes have no names: give "
                    f"positions from 0 to {n - 1}"
                )
        places = np.asarray(keys, dtype=np.int64)
    if len(np.unique(places)) < len(places) and part == "y":
        raise InputError("y names a node twice")
    return places


def read_pairs(pairs: Any, names: NDArray[Any] | None, n: int, unit: float, part: str) -> Pairs:
    """Return pairs of nodes that links are added or removed between.

    Parameters
    ----------
    pairs : object or None
        Array of shape (E, 2) or (E, 3), list of pairs or triples, or table with the columns source,
        target and perhaps weight: nodes by name, or by position if they have no names.
    names : ndarray of shape (n,), or None
        Names of all nodes.
    n : int
        Number of nodes.
    unit : float
        Weight of pairs that come without one.
    part : str
        The argument, for messages.
    """
    pairs = [] if pairs is None else plain(pairs)
    weights: Any = None
    if sp.issparse(pairs):
        raise InputError(f"{part} must be pairs of nodes, got a sparse matrix")
    if is_table(pairs):
        first, second, weights = table_columns(pairs)
        ends = [list(np.asarray(column).tolist()) for column in (first, second)]
    else:
        rows = pairs.tolist() if hasattr(pairs, "tolist") else [list(row) for row in pairs]
        widths = {len(row) if isinstance(row, list) else 0 for row in rows}
        if not widths <= {2, 3}:
            raise InputError(f"{part} must be pairs of nodes, perhaps with a weight as a third")
        ends = [[row[k] for row in rows] for k in (0, 1)]
        weights = np.array([row[2] if len(row) == 3 else unit for row in rows], dtype=np.float64)
    if names is None:
        ends = [[int(end) if _is_whole(end) else end for end in column] for column in ends]
    u, v = (_positions(column, names, n, part) for column in ends)
    w = np.full(len(u), unit) if weights is None else np.asarray(weights, dtype=np.float64)
    if len(w) and not ((w >= LEAST_WEIGHT) & (w <= LARGEST_WEIGHT)).all():
        raise InputError(f"a weight in {part} is not a positive number: {w[~(w > 0)][:1]}")
    if (u == v).any():
        raise InputError(
            f"{part} links the node {shown_name(ends[0][int((u == v).argmax())])} to itself"
        )
    return Pairs(u, v, w)


def _is_whole(end: Any) -> bool:
    return isinstance(end, float) and end.is_integer()


def rewire(graph: Graph | None, links: NewLinks, add: Pairs, remove: Pairs) -> Rewired:
    """Return the graph with the links of new nodes, and others added and removed.

    Parameters
    ----------
    graph : Graph or None
        The links so far.
    links : NewLinks
        Those of new nodes.
    add, remove : Pairs
        Among all nodes. A link that is there already gets the weight that is given.
    """
    n_new, n = links.to_fitted.shape
    if graph is None or not (n_new or len(add) or len(remove)):
        return Rewired(graph, np.empty(0, dtype=np.int64))
    A = graph.adjacency
    total = n + n_new
    dtype = A.dtype
    out = sp.csr_array(links.to_fitted).tocoo()
    inner = sp.csr_array(links.among).tocoo()
    new_rows, new_columns = out.coords
    rows = [new_rows + n, new_columns, inner.coords[0] + n, add.first, add.second]
    columns = [new_columns, new_rows + n, inner.coords[1] + n, add.second, add.first]
    weights = [out.data, out.data, inner.data, add.weights, add.weights]
    key, value = _last_of_each(
        np.concatenate(rows).astype(np.int64) * total + np.concatenate(columns),
        np.concatenate(weights),
    )
    indptr = np.concatenate([A.indptr, np.full(n_new, A.indptr[-1], A.indptr.dtype)])
    gone = np.unique(
        np.concatenate([remove.first * total + remove.second, remove.second * total + remove.first])
    )
    data, indices = A.data, A.indices
    at, there = _find(indptr, indices, gone, total)
    if not there.all():
        missing = gone[~there][0]
        raise InputError(
            f"remove names the nodes {missing // total} and {missing % total} (by position), but "
            "there is no link between them"
        )
    if np.isin(gone, key).any():
        raise InputError("a link is both in add and in remove")
    place, known = _find(indptr, indices, key, total)
    changes = known.copy()
    changes[known] = data[place[known]] != value[known].astype(dtype)
    if len(gone) or changes.any():
        data, indices = data.copy(), indices.copy()  # zeros are eliminated in place
        data[at] = 0.0
        data[place[changes]] = value[changes]
    fresh = ~known
    matrix = sp.csr_array((data, indices, indptr), shape=(total, total))
    added = sp.csr_array(
        (value[fresh].astype(dtype), (key[fresh] // total, key[fresh] % total)),
        shape=(total, total),
    )
    matrix = sp.csr_array(matrix + added) if fresh.any() else matrix
    if len(gone):
        matrix.eliminate_zeros()
    ends = np.concatenate([key[fresh | changes], gone]) // total
    touched = np.unique(ends[ends < n])
    n_added = int((fresh | changes).sum()) // 2
    moved = _with_links(graph, matrix.astype(dtype, copy=False))
    return Rewired(moved, touched, n_added, len(gone) // 2)


def _last_of_each(
    keys: NDArray[np.int64], values: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return distinct keys, ascending, each with the last of its values."""
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    last = np.append(keys[1:] != keys[:-1], True) if len(keys) else np.zeros(0, dtype=bool)
    return keys[last], values[last]


def _find(
    indptr: NDArray[Any], indices: NDArray[Any], keys: NDArray[np.int64], n: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return where entries of a matrix with sorted rows are, and whether they are there.

    Parameters
    ----------
    keys : ndarray of shape (E,)
        ``row · n + column``.
    """
    rows, columns = keys // n, keys % n
    lo = indptr[rows].astype(np.int64)
    hi = end = indptr[rows + 1].astype(np.int64)
    last = max(len(indices) - 1, 0)
    while (lo < hi).any():
        middle = (lo + hi) // 2
        below = (lo < hi) & (indices[np.minimum(middle, last)] < columns)
        hi = np.where((lo < hi) & ~below, middle, hi)
        lo = np.where(below, middle + 1, lo)
    there = lo < end
    if len(indices):
        there &= indices[np.minimum(lo, last)] == columns
    return lo, there


def _with_links(graph: Graph, matrix: sp.csr_array) -> Graph:
    """Return the graph with other links, and its null model."""
    moved = copy.copy(graph)
    moved.folder, moved.adjacency = None, matrix
    vars(moved).pop("twins", None)
    moved.n_nodes, moved.n_entries = matrix.shape[0], matrix.nnz
    moved.indptr, moved.indices = matrix.indptr, matrix.indices
    moved.weighted = graph.weighted or bool((matrix.data != 1).any())
    moved.weights = matrix.data if moved.weighted else matrix.data[:0]
    if moved.weighted:
        moved.degrees = np.asarray(matrix.sum(axis=1, dtype=np.float64)).ravel()
    else:
        moved.degrees = np.diff(matrix.indptr).astype(np.float64)
    moved.total = float(moved.degrees.sum())
    moved.unit = moved.total / len(moved.weights) if moved.weighted and matrix.nnz else 1.0
    moved.eta = null_factors(moved.degrees, moved.null_model, moved.total)
    return moved
