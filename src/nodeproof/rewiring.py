"""Links of a graph after an update: some put in, some left out, all others as they were."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof import kernels
from nodeproof.csr import unless_all_one
from nodeproof.directed import DirectedGraph
from nodeproof.errors import InputError
from nodeproof.graph import Graph, null_factors
from nodeproof.inputs.new_links import NewLinks
from nodeproof.inputs.node_names import Names, shown_name
from nodeproof.kinds import together
from nodeproof.new_kinds import LinksByKind
from nodeproof.runtime import threads

__all__ = ["Pairs", "Rewired", "Steps", "are_linked", "rewire", "rewire_kinds"]


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

    def some(self, here: NDArray[np.bool_]) -> Pairs:
        """Return some of the pairs."""
        return Pairs(self.first[here], self.second[here], self.weights[here])

    def joined(self, more: Pairs) -> Pairs:
        """Return these pairs and others."""
        return Pairs(
            np.concatenate([self.first, more.first]),
            np.concatenate([self.second, more.second]),
            np.concatenate([self.weights, more.weights]),
        )


class Steps(NamedTuple):
    """Changes of the entries of an adjacency matrix.

    Attributes
    ----------
    rows, columns : ndarray of shape (E,)
        The entries; each link has two.
    weights : ndarray of shape (E,)
        What is added to them.
    """

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    weights: NDArray[np.float64]


_NO_STEPS = Steps(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


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
    steps : Steps
        By how much entries of the adjacency matrix have changed.
    """

    graph: Graph | None
    touched: NDArray[np.int64]
    added: int = 0
    removed: int = 0
    steps: Steps = _NO_STEPS


def rewire(
    graph: Graph | None, links: NewLinks, add: Pairs, remove: Pairs, names: Names = None
) -> Rewired:
    """Return the graph with the links of new nodes, and others added and removed.

    Parameters
    ----------
    graph : Graph or None
        The links so far.
    links : NewLinks
        Those of new nodes.
    add, remove : Pairs
        Among all nodes. A link that is there already gets the weight that is given.
    names : ndarray of shape (n + n_new,), or None
        Names of all nodes, for messages.
    """
    n_new, n = links.to_fitted.shape
    if graph is None or not (n_new or len(add) or len(remove)):
        return Rewired(graph, np.empty(0, dtype=np.int64))
    total = n + n_new
    out = sp.csr_array(links.to_fitted).tocoo()
    inner = sp.csr_array(links.among).tocoo()
    new_rows, new_columns = out.coords
    rows = [new_rows + n, new_columns, inner.coords[0] + n, add.first, add.second]
    columns = [new_columns, new_rows + n, inner.coords[1] + n, add.second, add.first]
    weights = [out.data, out.data, inner.data, add.weights, add.weights]
    key, value = _largest_of_each(
        np.concatenate(rows).astype(np.int64) * total + np.concatenate(columns),
        np.concatenate(weights),
    )
    value = value.astype(graph.weights.dtype).astype(np.float64)
    indptr = np.concatenate([graph.indptr, np.full(n_new, graph.indptr[-1], graph.indptr.dtype)])
    gone = _distinct(
        np.concatenate([remove.first * total + remove.second, remove.second * total + remove.first])
    )
    at, there = _find(indptr, graph.indices, gone, total)
    _check_removed(gone, there, key, total, "no link between them", names)
    # New nodes had no links.
    asked = np.flatnonzero((key < n * total) & (key % total < n))
    place, known = _find(indptr, graph.indices, key[asked], total)
    place, old = place[known], asked[known]
    was = np.zeros(len(key))
    was[old] = _weights_at(graph, place)
    changes = value != was
    # A link of another weight takes the place of the one that was there.
    out = np.sort(np.concatenate([at, place[changes[old]]]))
    moved = _with_links(graph, *_merged(graph, indptr, out, key[changes], value[changes]))
    listed = np.concatenate([key[changes], gone])
    steps = np.concatenate([(value - was)[changes], -_weights_at(graph, at)])
    ends = listed // total
    touched = _distinct(ends[ends < n])
    steps_of = Steps(ends, listed % total, steps)
    return Rewired(moved, touched, int(changes.sum()) // 2, len(gone) // 2, steps_of)


def rewire_kinds(
    graph: Graph,
    links: LinksByKind,
    add: Mapping[str, Pairs],
    remove: Mapping[str, Pairs],
    names: Names = None,
) -> Rewired:
    """Return a graph of several kinds of links, or with a direction, after the same changes.

    Parameters
    ----------
    graph : Graph
        The links so far, with their kinds.
    links : dict
        Those of new nodes, by kind.
    add, remove : dict of Pairs
        By kind; of a kind with a direction, the first node is the source.
    names : ndarray of shape (n + n_new,), or None
        Names of all nodes, for messages.
    """
    none = Pairs(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    kinds: list[Graph | DirectedGraph] = []
    found = []
    for kind in graph.kinds:
        leaving, arriving = links[kind.name]
        pairs = add.get(kind.name, none), remove.get(kind.name, none)
        if isinstance(kind, DirectedGraph):
            assert arriving is not None
            arcs, own = _rewire_arcs(kind, leaving, arriving, *pairs, names)
            kinds.append(arcs)
        else:
            own = rewire(kind, leaving, *pairs, names)
            assert own.graph is not None
            kinds.append(own.graph)
        found.append(own)
    if all(after is kind for after, kind in zip(kinds, graph.kinds, strict=True)):
        return Rewired(graph, np.empty(0, dtype=np.int64))
    touched = _distinct(np.concatenate([own.touched for own in found]))
    added, removed = sum(own.added for own in found), sum(own.removed for own in found)
    return Rewired(together(kinds, graph.null_model), touched, added, removed)


def _rewire_arcs(
    kind: DirectedGraph,
    leaving: NewLinks,
    arriving: NewLinks,
    add: Pairs,
    remove: Pairs,
    names: Names,
) -> tuple[DirectedGraph, Rewired]:
    """Return links with a direction after an update, and what has changed."""
    n_new, n = leaving.to_fitted.shape
    nothing = Rewired(None, np.empty(0, dtype=np.int64))
    if not (n_new or len(add) or len(remove)):
        return kind, nothing
    total, matrix = n + n_new, kind.links
    (out_rows, out_columns), (in_rows, in_columns) = (
        sp.csr_array(way.to_fitted).tocoo().coords for way in (leaving, arriving)
    )
    rows = np.concatenate([out_rows + n, in_columns, add.first]).astype(np.int64)
    columns = np.concatenate([out_columns, in_rows + n, add.second])
    weights = [leaving.to_fitted.data, arriving.to_fitted.data, add.weights]
    key, value = _largest_of_each(rows * total + columns, np.concatenate(weights))
    value = value.astype(matrix.dtype)
    gone = _distinct(remove.first * total + remove.second)
    indptr = np.concatenate([matrix.indptr, np.full(n_new, matrix.indptr[-1])])
    at, there = _find(indptr, matrix.indices, gone, total)
    _check_removed(gone, there, key, total, "no link from the first to the second", names)
    place, known = _find(indptr, matrix.indices, key, total)
    changes = np.ones(len(key), dtype=bool)
    changes[known] = matrix.data[place[known]] != value[known]
    keep = np.ones(matrix.nnz, dtype=bool)
    keep[at] = False
    keep[place[known & changes]] = False
    old = np.repeat(np.arange(n, dtype=np.int64), np.diff(matrix.indptr)) * total + matrix.indices
    every = np.concatenate([old[keep], key[changes]])
    order = np.argsort(every, kind="stable")
    data = np.concatenate([matrix.data[keep], value[changes]])[order]
    counts = np.bincount(every // total, minlength=total)
    start = np.concatenate([[0], np.cumsum(counts)]).astype(matrix.indptr.dtype)
    ends = (every[order] % total).astype(matrix.indices.dtype)
    arcs = sp.csr_array((data, ends, start), shape=(total, total))
    both = sp.csr_array(arcs.maximum(arcs.T))
    both.sort_indices()
    after = DirectedGraph(arcs, Graph(both, kind.null_model, total))
    after.name = after.undirected.name = kind.name
    listed = np.concatenate([key[changes], gone])
    touched = _distinct(np.concatenate([listed // total, listed % total]))
    added = int(changes.sum())
    return after, replace(nothing, touched=touched[touched < n], added=added, removed=len(gone))


def are_linked(kind: Graph | DirectedGraph, pairs: Pairs) -> NDArray[np.bool_]:
    """Tell which pairs of nodes are linked by a kind; new nodes are not."""
    side = kind.sides[0]
    here = np.maximum(pairs.first, pairs.second) < kind.n_nodes
    found = np.zeros(len(pairs), dtype=bool)
    keys = pairs.first[here] * kind.n_nodes + pairs.second[here]
    found[here] = _find(side.indptr, side.indices, keys, kind.n_nodes)[1]
    return found


def _check_removed(
    gone: NDArray[np.int64],
    there: NDArray[np.bool_],
    key: NDArray[np.int64],
    total: int,
    missing: str,
    names: Names,
) -> None:
    """Refuse to remove links that are not there, or are added as well."""
    if not there.all():
        ends = divmod(int(gone[~there][0]), total)
        called = ends if names is None else [names[end] for end in ends]
        first, second = map(shown_name, called)
        raise InputError(f"remove names the nodes {first} and {second}, but there is {missing}")
    if len(gone) and np.isin(gone, key).any():
        raise InputError("a link is both in add and in remove")


def _weights_at(graph: Graph, places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the weights of entries."""
    if not graph.weighted:
        return np.ones(len(places))
    return graph.weights[places].astype(np.float64)


def _merged(
    graph: Graph,
    indptr: NDArray[Any],
    gone: NDArray[np.int64],
    keys: NDArray[np.int64],
    values: NDArray[np.float64],
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the parts of a CSR matrix, some entries left out and others put in.

    Parameters
    ----------
    indptr : ndarray of shape (n + 1,)
        Of the graph and the nodes that are new.
    gone : ndarray of int
        Positions of the entries to leave out, ascending.
    keys, values : ndarray of shape (E,)
        ``row · n + column`` of those to put in, ascending, and their weights.
    """
    total = len(indptr) - 1
    rows, columns = keys // total, (keys % total).astype(graph.indices.dtype)
    more = np.bincount(rows, minlength=total)
    first = np.concatenate([[0], np.cumsum(more)])
    counts = np.diff(indptr) + more
    if len(gone):
        counts -= np.bincount(np.searchsorted(indptr, gone, side="right") - 1, minlength=total)
    merged = np.zeros(total + 1, dtype=indptr.dtype)
    np.cumsum(counts, out=merged[1:])
    indices = np.empty(merged[-1], dtype=graph.indices.dtype)
    weights, weighted = graph.weights, graph.weighted or bool((values != 1).any())
    if weighted and not graph.weighted:
        weights = np.ones(graph.n_entries, dtype=np.float32)
    values = values.astype(weights.dtype)
    out = np.empty(merged[-1] if weighted else 0, dtype=weights.dtype)
    threads.map_rows(
        lambda lo, hi: kernels.merge_rows(
            lo, hi, indptr, graph.indices, weights, gone, columns, values, first, merged, indices,
            out,
        ),
        total,
    )  # fmt: skip
    return merged, indices, out


def _distinct(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return distinct numbers, ascending: several times as fast as np.unique."""
    numbers = np.sort(numbers)
    return numbers[np.append(True, numbers[1:] != numbers[:-1])] if len(numbers) else numbers


def _largest_of_each(
    keys: NDArray[np.int64], values: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return distinct keys, ascending, each with the largest of its values."""
    if len(keys) and values.min() == values.max():  # nothing to compare, and faster sorted
        keys = _distinct(keys)
        return keys, np.full(len(keys), values[0])
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    first = np.append(True, keys[1:] != keys[:-1]) if len(keys) else np.zeros(0, dtype=bool)
    if first.all():
        return keys, values
    return keys[first], np.maximum.reduceat(values, np.flatnonzero(first))


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


def _with_links(
    graph: Graph, indptr: NDArray[Any], indices: NDArray[Any], weights: NDArray[Any]
) -> Graph:
    """Return the graph with other links, and its null model."""
    moved = copy.copy(graph)
    for worked_out in ("adjacency", "twins"):
        vars(moved).pop(worked_out, None)
    moved.folder, moved.n_nodes, moved.n_entries = None, len(indptr) - 1, len(indices)
    moved.indptr, moved.indices, moved.weights = indptr, indices, unless_all_one(weights)
    moved.weighted = len(moved.weights) > 0
    if moved.weighted:
        moved.degrees = np.asarray(moved.adjacency.sum(axis=1, dtype=np.float64)).ravel()
    else:
        moved.degrees = np.diff(indptr).astype(np.float64)
    moved.total = float(moved.degrees.sum())
    moved.unit = moved.total / len(indices) if moved.weighted else 1.0
    moved.eta = null_factors(moved.degrees, moved.null_model, moved.total)
    return moved
