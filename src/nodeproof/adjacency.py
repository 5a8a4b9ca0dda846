"""Turn whatever people hold a graph in into one checked, symmetric CSR matrix."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof import kernels, threads
from nodeproof.errors import InputError

__all__ = ["check_adjacency", "from_edges", "is_pyg_data"]

_SOURCE_NAMES = ("source", "src", "from", "u")
_TARGET_NAMES = ("target", "dst", "to", "v")
_WEIGHT_NAMES = ("weight", "w")


def check_adjacency(graph: Any, n_nodes: int | None = None) -> sp.csr_array:
    """Return the graph as a symmetric CSR array without self loops or duplicates.

    An array that is already in this form is returned without a copy.

    Parameters
    ----------
    graph : object
        A scipy sparse matrix or array, a dense square array, a networkx or igraph graph, a
        PyTorch Geometric ``Data``, an integer ``edge_index`` of shape (2, E), or a table with
        the columns ``source``, ``target`` and perhaps ``weight`` that hold row positions.
    n_nodes : int, optional
        Number of nodes, where features or labels say so already.

    Returns
    -------
    scipy.sparse.csr_array of shape (n, n)

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.adjacency import check_adjacency
    >>> check_adjacency(np.array([[0, 1, 2], [1, 2, 3]]), n_nodes=5).sum(axis=0).tolist()
    [1.0, 2.0, 2.0, 1.0, 0.0]
    """
    matrix = _to_csr(graph, n_nodes)
    rows, columns = matrix.shape
    if rows != columns:
        hint = "; for a list of links give its transpose, shape (2, E)" if columns == 2 else ""
        raise InputError(f"a graph needs a square adjacency matrix, got shape {matrix.shape}{hint}")
    if n_nodes is not None and rows != n_nodes:
        raise InputError(
            f"the graph has {rows} nodes but features or labels have {n_nodes} rows; "
            "they must be listed for the same nodes, in the same order"
        )
    if rows == 0:
        raise InputError("the graph is empty: it has no nodes")
    if matrix.dtype.kind not in "biuf":
        raise InputError(f"weights of links must be real numbers, got {matrix.dtype}")
    if matrix.dtype not in (np.float32, np.float64):
        matrix = matrix.astype(np.float64 if matrix.dtype.itemsize > 2 else np.float32)
    seen = _inspect(matrix)
    if not seen.ordered:
        matrix = matrix.copy()
        matrix.has_canonical_format = False
        matrix.sum_duplicates()
        seen = _inspect(matrix)
    if seen.bad:
        bad = kernels.first_bad_weight(matrix.data)
        row = int(np.searchsorted(matrix.indptr, bad, side="right")) - 1
        column, value = int(matrix.indices[bad]), matrix.data[bad]
        what = "negative" if value < 0 else "not finite"
        raise InputError(f"the weight of the link ({row}, {column}) is {what}: {value}")
    if seen.loops or seen.zeros:
        matrix = matrix.copy()
        matrix.setdiag(0)
        matrix.eliminate_zeros()
        seen = _inspect(matrix)
    symmetric = seen.symmetric
    if symmetric and not seen.all_one:
        symmetric = kernels.is_symmetric(matrix.indptr, matrix.indices, matrix.data)
    if not symmetric:
        _warn_directed()
        matrix = matrix.maximum(matrix.T).tocsr()
        matrix.sort_indices()
    return matrix


class _Seen(NamedTuple):
    """What one pass over a CSR matrix tells."""

    loops: int
    zeros: int
    bad: int
    all_one: bool
    ordered: bool
    symmetric: bool


def _inspect(matrix: sp.csr_array) -> _Seen:
    def part(lo: int, hi: int) -> tuple[int, int, int, int, bool, np.uint64]:
        found: tuple[int, int, int, int, bool, np.uint64] = kernels.inspect_links(
            lo, hi, matrix.indptr, matrix.indices, matrix.data
        )
        return found

    parts = threads.map_rows(part, matrix.shape[0])
    loops, zeros, ones, bad = (sum(int(found[k]) for found in parts) for k in range(4))
    odd = sum(int(found[5]) for found in parts) % 2**64
    ordered = all(found[4] for found in parts)
    return _Seen(loops, zeros, bad, ones == matrix.nnz, ordered, odd == 0)


def _warn_directed() -> None:
    warnings.warn(
        "the graph is directed; it is made symmetric: a link either way counts, weights by their "
        "maximum",
        UserWarning,
        stacklevel=4,
    )


def unless_all_one(data: NDArray[Any]) -> NDArray[Any]:
    """Return the weights for the kernels: none of them where all are one."""
    return data[:0] if len(data) == 0 or data.min() == data.max() == 1.0 else data


def from_edges(
    source: NDArray[Any],
    target: NDArray[Any],
    weight: NDArray[Any] | None,
    n_nodes: int | None,
) -> sp.csr_array:
    """Return the symmetric CSR array of an edge list; an edge listed twice counts once.

    Parameters
    ----------
    source, target : ndarray of shape (E,)
        Row positions, each edge in one direction or in both.
    weight : ndarray of shape (E,) or None
        Weights; of an edge listed more than once, the largest counts.
    n_nodes : int or None
        Number of nodes; ``None``: one more than the largest position.
    """
    lengths = [len(column) for column in (source, target, weight) if column is not None]
    if len(set(lengths)) > 1:
        raise InputError(f"the columns of an edge table differ in length: {lengths}")
    for name, ends in (("source", source), ("target", target)):
        if not np.issubdtype(ends.dtype, np.integer):
            raise InputError(
                f"the {name} column must hold row positions (integers), got {ends.dtype}; for "
                "names use a networkx graph, or `nodeproof fit` on files"
            )
    top = int(max(source.max(), target.max())) if len(source) else -1
    n = top + 1 if n_nodes is None else n_nodes
    low = int(min(source.min(), target.min())) if len(source) else 0
    if low < 0 or top >= n:
        raise InputError(
            f"a link names node {low if low < 0 else top}, but nodes run from 0 to {n - 1}"
        )
    data = np.ones(len(source), np.float32) if weight is None else np.asarray(weight, np.float64)
    bad = kernels.first_bad_weight(data)
    if bad >= 0:
        what = "negative" if data[bad] < 0 else "not finite"
        raise InputError(
            f"the weight of the link ({source[bad]}, {target[bad]}) is {what}: {data[bad]}"
        )
    low_end, high_end = np.minimum(source, target), np.maximum(source, target)
    order = np.lexsort((-data, high_end, low_end))
    low_end, high_end, data = low_end[order], high_end[order], data[order]
    # The largest weight of an edge comes first; what repeats it is dropped.
    fresh = np.ones(len(data), dtype=bool)
    fresh[1:] = (low_end[1:] != low_end[:-1]) | (high_end[1:] != high_end[:-1])
    fresh &= low_end != high_end
    low_end, high_end, data = low_end[fresh], high_end[fresh], data[fresh]
    both_ways = (np.concatenate([low_end, high_end]), np.concatenate([high_end, low_end]))
    matrix = sp.csr_array(sp.coo_array((np.concatenate([data, data]), both_ways), shape=(n, n)))
    matrix.sort_indices()
    return matrix


def is_pyg_data(graph: Any) -> bool:
    """Tell whether this is a PyTorch Geometric ``Data``, without importing it."""
    return hasattr(graph, "edge_index") and hasattr(graph, "num_nodes")


def _to_csr(graph: Any, n_nodes: int | None) -> sp.csr_array:
    if sp.issparse(graph):
        return sp.csr_array(graph)
    if is_pyg_data(graph):
        weight = getattr(graph, "edge_weight", None)
        return _from_edge_index(
            np.asarray(graph.edge_index),
            None if weight is None else np.asarray(weight),
            int(graph.num_nodes),
        )
    if hasattr(graph, "adj") and hasattr(graph, "number_of_nodes"):
        return _from_networkx(graph)
    if hasattr(graph, "get_edgelist") and hasattr(graph, "vcount"):
        return _from_igraph(graph)
    if hasattr(graph, "columns") or hasattr(graph, "column_names") or isinstance(graph, Mapping):
        return _from_table(graph, n_nodes)
    array = np.asarray(graph)
    # A 2×2 array of integers is two links if there are more than two nodes, else a matrix.
    links = array.shape[1:] != (2,) or (array.dtype.kind in "iu" and n_nodes not in (None, 2))
    if array.ndim == 2 and len(array) == 2 and links:
        return _from_edge_index(array, None, n_nodes)
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise InputError(
            f"cannot read a graph from {type(graph).__name__} of shape {array.shape}; give a "
            "scipy sparse matrix, a square array, an edge_index of shape (2, E), a networkx or "
            "igraph graph, or a table with the columns source and target"
        )
    return sp.csr_array(array.astype(np.float32) if array.dtype == np.float16 else array)


def _from_edge_index(
    edge_index: NDArray[Any], weight: NDArray[Any] | None, n_nodes: int | None
) -> sp.csr_array:
    return from_edges(edge_index[0], edge_index[1], weight, n_nodes)


def _from_networkx(graph: Any) -> sp.csr_array:
    if graph.is_directed():
        _warn_directed()
    position = {node: row for row, node in enumerate(graph.nodes)}
    edges = [(position[u], position[v], d.get("weight", 1.0)) for u, v, d in graph.edges(data=True)]
    return _from_triples(edges, len(position))


def _from_igraph(graph: Any) -> sp.csr_array:
    if graph.is_directed():
        _warn_directed()
    weighted = "weight" in graph.es.attributes()
    weights = graph.es["weight"] if weighted else [1.0] * graph.ecount()
    edges = [(u, v, w) for (u, v), w in zip(graph.get_edgelist(), weights, strict=True)]
    return _from_triples(edges, graph.vcount())


def _from_triples(edges: list[tuple[int, int, float]], n_nodes: int) -> sp.csr_array:
    table = np.asarray(edges, dtype=np.float64).reshape(-1, 3)
    ends = table[:, :2].astype(np.int64)
    weight = None if (table[:, 2] == 1.0).all() else table[:, 2]
    return from_edges(ends[:, 0], ends[:, 1], weight, n_nodes)


def _from_table(table: Any, n_nodes: int | None) -> sp.csr_array:
    names = list(table) if isinstance(table, Mapping) else list(_column_names(table))
    source = _find_column(names, _SOURCE_NAMES)
    target = _find_column(names, _TARGET_NAMES)
    if source is None or target is None:
        raise InputError(
            "an edge table needs the columns source and target (and may have weight), got "
            f"{', '.join(map(str, names))}: rename them"
        )
    weight = _find_column(names, _WEIGHT_NAMES)
    return from_edges(
        np.asarray(table[source]),
        np.asarray(table[target]),
        None if weight is None else np.asarray(table[weight], dtype=np.float64),
        n_nodes,
    )


def _column_names(table: Any) -> list[Any]:
    # pyarrow: `columns` are arrays and `column_names` their names; pandas and polars: names.
    return list(getattr(table, "column_names", None) or table.columns)


def _find_column(names: list[Any], known: tuple[str, ...]) -> Any:
    return next((name for name in names if str(name).lower() in known), None)
