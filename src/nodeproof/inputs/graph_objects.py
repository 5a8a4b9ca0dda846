"""Graphs from objects of other libraries: scipy, networkx, igraph, PyG, AnnData, torch, tables."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.csr import check_symmetric, csr_of_entries, from_arcs, from_edges, warn_directed
from nodeproof.errors import InputError
from nodeproof.inputs.link_lists import as_link_table
from nodeproof.inputs.pyg_data import is_pyg_data, read_links, refuse_other_kinds
from nodeproof.inputs.tensors import as_array, plain, without_hidden
from nodeproof.runtime.logs import warn_caller
from nodeproof.runtime.memory import check_free

__all__ = [
    "Checked",
    "NamedGraph",
    "check_adjacency",
    "column_names",
    "connectivities",
    "has_ends",
    "is_anndata",
    "is_folder",
    "is_igraph",
    "is_matrix_table",
    "is_networkx",
    "is_table",
    "list_columns",
    "read_ends",
    "read_types",
    "read_weights",
    "table_columns",
    "to_csr",
]

_SOURCE_NAMES = ("source", "src", "from", "u")
_TARGET_NAMES = ("target", "dst", "to", "v")
_WEIGHT_NAMES = ("weight", "w")
_TYPE_NAMES = ("type", "edge_type")

# How many column names an error lists.
_LISTED = 8


@dataclass(frozen=True)
class NamedGraph:
    """A graph with the names of its nodes.

    Attributes
    ----------
    matrix : scipy.sparse.csr_array of shape (n, n)
        The links.
    names : ndarray of shape (n,)
        Integers or text, each once.
    """

    matrix: sp.csr_array
    names: NDArray[Any]


class Checked(NamedTuple):
    """Links that :func:`nodeproof.csr.check_links` has returned, the same in both directions."""

    matrix: sp.csr_array


def check_adjacency(graph: Any, n_nodes: int | None = None) -> sp.csr_array:
    """Return the graph as a symmetric CSR array without self loops or duplicates.

    A link that is given more than once counts once, with its largest weight, with a warning. An
    array that is already in this form is returned without a copy.

    Parameters
    ----------
    graph : object
        A scipy sparse matrix or array, a dense square array, a networkx or igraph graph, a
        PyTorch Geometric ``Data``, an AnnData, a torch tensor, an integer ``edge_index`` of
        shape (2, E), a list of links of shape (E, 2) or, with weights, (E, 3) (see
        :mod:`nodeproof.inputs.link_lists`), or a table with the columns ``source``, ``target``
        and perhaps ``weight`` that hold row positions.
    n_nodes : int, optional
        Number of nodes, where features or labels say so already.

    Returns
    -------
    scipy.sparse.csr_array of shape (n, n)

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.inputs.graph_objects import check_adjacency
    >>> check_adjacency(np.array([[0, 1, 2], [1, 2, 3]]), n_nodes=5).sum(axis=0).tolist()
    [1.0, 2.0, 2.0, 1.0, 0.0]
    """
    if isinstance(graph, Checked):
        return graph.matrix
    matrix = to_csr(graph, n_nodes)
    rows, columns = matrix.shape
    if n_nodes is not None and rows == columns != n_nodes:
        raise InputError(
            f"the graph has {rows} nodes but features or labels have {n_nodes} rows; "
            "they must be listed for the same nodes, in the same order"
        )
    return check_symmetric(matrix)


def to_csr(graph: Any, n_nodes: int | None, directed: bool = False) -> sp.csr_array:
    """Return the graph as a CSR array, unchecked.

    Parameters
    ----------
    directed : bool
        Whether graphs of networkx and igraph keep the direction of their links.
    """
    graph = plain(graph.matrix if isinstance(graph, NamedGraph) else graph)
    graph = as_link_table(graph, n_nodes)
    if sp.issparse(graph):
        if graph.ndim != 2:
            raise InputError(f"a graph needs a square matrix, got a vector of shape {graph.shape}")
        return csr_of_entries(graph)
    refuse_other_kinds(graph)
    if is_pyg_data(graph):
        return read_links(graph)
    if is_anndata(graph):
        return to_csr(connectivities(graph), n_nodes)
    if is_networkx(graph):
        return _from_networkx(graph, directed)
    if is_igraph(graph):
        return _from_igraph(graph, directed)
    if is_matrix_table(graph):
        return to_csr(graph.to_numpy(), n_nodes)
    if is_table(graph):
        return from_edges(*table_columns(graph), n_nodes)
    array = as_array(graph, "the graph")
    # A 2×2 array of integers is two links if there are more than two nodes, else a matrix.
    links = array.shape[1:] != (2,) or (array.dtype.kind in "iu" and n_nodes not in (None, 2))
    if array.shape == (2, 2) and array.dtype.kind in "iu":
        _warn_of_square(array, links, n_nodes)
    if array.ndim == 2 and len(array) == 2 and links:
        source, target = without_hidden(array, listed=1)
        return from_edges(source, target, None, n_nodes)
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise InputError(
            f"cannot read a graph from {type(graph).__name__} of shape {array.shape}; give a "
            "scipy sparse matrix, a square array, an edge_index of shape (2, E), a list of pairs, "
            "a networkx or igraph graph, or a table with the columns source and target"
        )
    array = without_hidden(array)
    # scipy takes neither float16 nor a foreign byte order.
    kind = array.dtype.newbyteorder("=")
    kind = np.dtype(np.float32) if kind == np.float16 else kind
    entries = np.count_nonzero(array)
    check_free(16.0 * entries, f"a sparse copy of {entries:,} links", "leave links out")
    return sp.csr_array(array.astype(kind, copy=False))


def _warn_of_square(array: NDArray[Any], links: bool, n_nodes: int | None) -> None:
    """Warn how a 2×2 array of integers is read, where that is ambiguous."""
    if array[0, 1] == array[1, 0]:
        return  # pairs or their transpose, the links are the same
    (a, b), (c, d) = array.tolist()
    if links:
        warn_caller(
            f"a 2×2 array of integers is read as an edge_index, with the links {a}–{c} and "
            f"{b}–{d}; for the links {a}–{b} and {c}–{d} give its transpose"
        )
    elif n_nodes is None and array.max() > 1:
        warn_caller(
            "a 2×2 array of integers is read as a matrix of the links between two nodes; for "
            f"the links {a}–{b} and {c}–{d} give a table, "
            f"{{'source': {[a, c]}, 'target': {[b, d]}}}"
        )


def is_folder(graph: Any) -> bool:
    """Tell whether an object is an open folder of links, without importing what opens them."""
    return hasattr(graph, "indptr") and hasattr(graph, "degrees")


def is_networkx(graph: Any) -> bool:
    """Tell whether this is a networkx graph, without importing it."""
    return hasattr(graph, "adj") and hasattr(graph, "number_of_nodes")


def is_igraph(graph: Any) -> bool:
    """Tell whether this is an igraph graph, without importing it."""
    return hasattr(graph, "get_edgelist") and hasattr(graph, "vcount")


def is_anndata(graph: Any) -> bool:
    """Tell whether this is an AnnData, without importing it."""
    return hasattr(graph, "obsp") and hasattr(graph, "obs_names")


def is_table(graph: Any) -> bool:
    """Tell whether this is a table of columns: pandas, polars, pyarrow or a dict."""
    # On the type: reading the names of a LazyFrame would warn. A DOK matrix is a mapping, too,
    # but not a table.
    return not sp.issparse(graph) and (
        isinstance(graph, Mapping) or hasattr(type(graph), "columns")
    )


def is_matrix_table(graph: Any) -> bool:
    """Tell whether this is a square pandas table with the same names for rows and columns."""
    index: Any = getattr(graph, "index", None)
    return (
        hasattr(index, "equals")
        and len(index) > 0
        and index.equals(getattr(graph, "columns", None))
    )


def connectivities(adata: Any, key: str = "connectivities") -> Any:
    """Return the graph of an AnnData, of shape (n, n)."""
    if key not in adata.obsp:
        there = ", ".join(map(repr, adata.obsp)) or "nothing"
        raise InputError(
            f"adata.obsp has no {key!r}, only {there}; compute neighbours first, or choose another "
            "graph with fit(**nodeproof.interop.from_anndata(adata, graph=...))"
        )
    return adata.obsp[key]


def _from_networkx(graph: Any, directed: bool) -> sp.csr_array:
    directed = _keeps_direction(graph, directed)
    names = list(graph.nodes)
    position = {node: row for row, node in enumerate(names)}
    edges = [(position[u], position[v], d.get("weight", 1.0)) for u, v, d in graph.edges(data=True)]
    return _from_triples(edges, names, directed)


def _keeps_direction(graph: Any, directed: bool) -> bool:
    """Tell whether links keep their direction; warn if they have one and do not."""
    if graph.is_directed() and not directed:
        warn_directed()
    return bool(graph.is_directed()) and directed


def _from_igraph(graph: Any, directed: bool) -> sp.csr_array:
    directed = _keeps_direction(graph, directed)
    weighted = "weight" in graph.es.attributes()
    weights = graph.es["weight"] if weighted else [1.0] * graph.ecount()
    edges = [(u, v, w) for (u, v), w in zip(graph.get_edgelist(), weights, strict=True)]
    named = "name" in graph.vs.attributes()
    return _from_triples(edges, graph.vs["name"] if named else range(graph.vcount()), directed)


def _from_triples(
    edges: list[tuple[int, int, Any]], names: Sequence[Any], directed: bool
) -> sp.csr_array:
    for u, v, weight in edges:
        if what := _fault_of(weight):
            raise InputError(
                f"the weight of the link ({names[u]!r}, {names[v]!r}) is {what}: "
                f"{reprlib.repr(weight)}"
            )
    table = np.asarray(edges, dtype=np.float64).reshape(-1, 3)
    ends = table[:, :2].astype(np.int64)
    weight = None if (table[:, 2] == 1.0).all() else table[:, 2]
    if directed:
        return from_arcs(ends[:, 0], ends[:, 1], weight, len(names))
    return from_edges(ends[:, 0], ends[:, 1], weight, len(names))


def _fault_of(weight: Any) -> str:
    """Return why this cannot be a weight, or an empty string."""
    try:
        float(weight)
    except OverflowError:
        return "too large"
    except (TypeError, ValueError):
        return "not a number"
    return ""


def table_columns(
    table: Any,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64] | None]:
    """Return the sources, the targets and perhaps the weights of a table of edges."""
    names = column_names(table)
    source = _find_column(names, _SOURCE_NAMES)
    target = _find_column(names, _TARGET_NAMES)
    if source is target is None and len(names) == 2:
        source, target = names
    if source is None or target is None:
        if set(names) == set(getattr(table, "index", ())):
            raise InputError(
                "the rows and the columns of this matrix have the same names in a different "
                "order: use graph.loc[graph.columns]"
            )
        raise InputError(
            "an edge table needs the columns source and target (and may have weight), got "
            f"{list_columns(names)}: rename them, or say which they are with "
            "nodeproof.interop.from_tables(nodes, edges, source=..., target=...)"
        )
    weight = _find_column(names, _WEIGHT_NAMES)
    ends = [read_ends(table[column], column) for column in (source, target)]
    return ends[0], ends[1], None if weight is None else read_weights(table[weight], weight)


def has_ends(table: Any) -> bool:
    """Tell whether a table has the columns source and target, by whichever names."""
    names = column_names(table)
    return None not in (_find_column(names, _SOURCE_NAMES), _find_column(names, _TARGET_NAMES))


def read_types(table: Any) -> NDArray[Any] | None:
    """Return the column with the type of each link, shape (E,); None without one."""
    name = _find_column(column_names(table), _TYPE_NAMES)
    return None if name is None else read_ends(table[name], name)


def read_ends(column: Any, name: Any) -> NDArray[Any]:
    """Return a column of nodes, none of which is missing, shape (E,)."""
    ends = np.asanyarray(plain(column))
    if ends.ndim != 1:
        raise InputError(f"an edge table has one column {name}, got {ends.shape[1]} of that name")
    if np.ma.is_masked(ends):
        raise InputError(f"row {np.ma.getmaskarray(ends).argmax()} of the {name} column is empty")
    ends = np.asarray(ends)
    if ends.dtype.kind in "OfT":
        row = next((row for row, end in enumerate(ends.tolist()) if _is_empty(end)), None)
        if row is not None:
            raise InputError(f"row {row} of the {name} column is empty")
    if ends.dtype.kind == "O" and all(_is_whole(end) for end in ends.tolist()):
        return ends.astype(np.int64)
    return ends


def _is_whole(end: Any) -> bool:
    return isinstance(end, int | np.integer) and not isinstance(end, bool)


def _is_empty(end: Any) -> bool:
    same = end == end
    # pandas' NA is neither equal to itself nor different.
    return end is None or not isinstance(same, bool | np.bool_) or not same


def read_weights(column: Any, name: Any) -> NDArray[np.float64]:
    """Return a column of weights; nan where there is none."""
    held = plain(column)
    # Lists of masked arrays have None where something is hidden.
    held = np.array(held.tolist(), object) if np.ma.is_masked(held) else np.asarray(held)
    if held.dtype.kind == "O":
        held = np.array([np.nan if _is_empty(weight) else weight for weight in held.tolist()])
    try:
        if held.dtype.kind != "c":  # half of a complex number would be lost
            return held.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InputError(f"the {name} column must hold numbers, got {_dtype(column)}")


def _dtype(column: Any) -> str:
    return str(getattr(column, "dtype", None) or getattr(column, "type", type(column).__name__))


def column_names(table: Any) -> list[Any]:
    """Return the names of the columns of a table."""
    if isinstance(table, Mapping):
        return list(table)
    if hasattr(table, "collect_schema") and not hasattr(table, "__len__"):
        raise InputError("a LazyFrame has no rows yet: pass what .collect() returns")
    # pyarrow: `columns` are arrays and `column_names` their names; pandas and polars: names.
    return list(getattr(table, "column_names", None) or table.columns)


def list_columns(names: list[Any]) -> str:
    """Return the names of columns, or the first of many, for an error."""
    return ", ".join(map(str, names[:_LISTED])) + (", …" if len(names) > _LISTED else "")


def _find_column(names: list[Any], known: tuple[str, ...]) -> Any:
    return next((name for name in names if str(name).lower() in known), None)
