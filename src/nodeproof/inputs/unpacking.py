"""Features, labels, graph and names out of what was given to `fit`, in one order."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.csr import from_arcs, from_edges
from nodeproof.errors import InputError
from nodeproof.inputs.graph_objects import (
    NamedGraph,
    is_folder,
    is_matrix_table,
    is_networkx,
    is_table,
    table_columns,
    to_csr,
)
from nodeproof.inputs.knn import is_knn
from nodeproof.inputs.link_kinds import (
    Directed,
    LinkKinds,
    is_link_list,
    is_plain,
    split_kinds,
)
from nodeproof.inputs.link_lists import as_link_table
from nodeproof.inputs.node_names import (
    NamedRows,
    Names,
    align_rows,
    are_usable,
    as_keys,
    as_names,
    check_positions,
    find_order,
    find_positions,
    in_order,
    match_names,
    names_of_graph,
    names_of_rows,
    numbered,
    shown_name,
    warn_of_shuffle,
)
from nodeproof.inputs.pyg_data import is_pyg_data, read_features, read_labels, refuse_other_kinds

__all__ = ["FitInputs", "link_names", "unpack"]


class FitInputs(NamedTuple):
    """Features, labels, graph and names of a fit.

    Attributes
    ----------
    X, y, graph : object
        Features, labels and links; each may be None.
    names : ndarray of shape (n,), or None
        Names of the nodes.
    """

    X: Any
    y: Any
    graph: Any
    names: NDArray[Any] | None


def unpack(X: Any, y: Any, graph: Any) -> FitInputs:
    """Return features, labels, links and names out of what was given to `fit`, in one order.

    It is that of `X` where it names its rows, else that of the graph, else that of `y`; the rule
    is in :mod:`nodeproof.inputs.node_names`.

    A PyTorch Geometric ``Data`` brings features and labels, the latter only inside its
    ``train_mask``: the others are what is to be predicted.
    """
    kinds = {"": graph} if is_plain(graph) else split_kinds(graph, _n_rows(X, y))
    if len(kinds) > 1 or isinstance(next(iter(kinds.values())), Directed):
        return _unpack_kinds(*_of_hetero(X, y, graph), kinds)
    graph = next(iter(kinds.values()))
    refuse_other_kinds(graph)
    graph = as_link_table(graph, _n_rows(X, y))
    y = _by_name(y)
    if is_pyg_data(graph):
        X = read_features(graph) if X is None else X
        y = read_labels(graph) if y is None else y
    rows, labels = names_of_rows(X, "X"), names_of_rows(y, "y")
    if is_table(graph) and not is_matrix_table(graph):
        same = isinstance(y, NamedRows)  # numbers of a dict and of links mean the same
        graph = _name_links(graph, rows, labels, X is None, y is None, same)
    if isinstance(graph, str | PathLike) and not is_knn(graph):
        graph = _open(graph)
    known = rows if isinstance(rows, np.ndarray) else labels
    links = None if is_knn(graph) else _names_of_links(graph, known)
    check_positions({"X": rows, "y": labels, "graph": links})
    if is_networkx(graph) and any(
        part is not None and called is None for part, called in ((X, rows), (y, labels))
    ):
        warn_of_shuffle(links, "the graph", "rows of X and y are taken")
    names: NDArray[Any] | None = None
    whole = "y"
    if isinstance(rows, np.ndarray):
        names, whole = rows, "X"
        if isinstance(links, np.ndarray):
            graph = _align_links(
                graph, links, rows, y is not None and not isinstance(labels, np.ndarray)
            )
    elif isinstance(links, np.ndarray):
        names, whole = links, "graph"
        if X is not None and isinstance(labels, np.ndarray) and len(labels) == len(links):
            _refuse_doubt("X", "y", labels, "graph", links)
    elif isinstance(labels, np.ndarray) and isinstance(y, NamedRows):
        names = np.arange(_count_nodes(X, graph, labels))
    elif isinstance(labels, np.ndarray):
        names = labels
        _check_rows(X, len(labels))
    y = align_rows(y, names, "y", whole)
    X = X.values if isinstance(X, NamedRows) else X
    return FitInputs(X, y, graph, names if are_usable(names) else None)


def _of_hetero(X: Any, y: Any, graph: Any) -> tuple[Any, Any]:
    """Return features and labels, those of the only kind of nodes of a ``HeteroData`` included."""
    if not (hasattr(graph, "node_types") and hasattr(graph, "edge_types")):
        return X, y
    nodes = graph[graph.node_types[0]]
    X = read_features(nodes) if X is None else X
    return X, read_labels(nodes) if y is None else y


def _unpack_kinds(X: Any, y: Any, kinds: dict[str, Any]) -> FitInputs:
    """Return features, labels and names beside all kinds of links, in one order."""
    plainly = {
        name: links.links if isinstance(links, Directed) else links for name, links in kinds.items()
    }
    if all(is_link_list(links) for links in plainly.values()):
        return _unpack_tables(X, y, kinds, plainly)
    first, found = next(iter(kinds)), {}
    for name, links in plainly.items():
        found[name] = unpack(X, y, links)
    whole = found[first]
    parts = {}
    for name, part in found.items():
        links = part.graph
        if isinstance(part.names, np.ndarray) and isinstance(whole.names, np.ndarray):
            order = find_order(part.names, whole.names, f"graph[{name!r}]", f"graph[{first!r}]")
            links = in_order(links, order, whole.names)
        elif (part.names is None) != (whole.names is None):
            raise InputError(
                f"graph[{name!r}] and graph[{first!r}] must both name their nodes, or neither"
            )
        parts[name] = Directed(links) if isinstance(kinds[name], Directed) else links
    return FitInputs(whole.X, whole.y, LinkKinds(parts), whole.names)


def _unpack_tables(X: Any, y: Any, kinds: dict[str, Any], tables: dict[str, Any]) -> FitInputs:
    """Return the same for tables of links, each of which may name some of the nodes."""
    columns = {name: table_columns(table) for name, table in tables.items()}
    ends = [np.concatenate([part[k] for part in columns.values()]) for k in (0, 1)]
    with warnings.catch_warnings():
        # The same two nodes may be linked in several ways.
        warnings.filterwarnings("ignore", r".* in the list of links: each link counts once")
        whole = unpack(X, y, {"source": ends[0], "target": ends[1]})
    names, graph = whole.names, whole.graph
    n = _n_rows(whole.X, whole.y)
    if n is None:
        matrix = graph.matrix if isinstance(graph, NamedGraph) else graph
        n = matrix.shape[0] if sp.issparse(matrix) else int(max(end.max() for end in ends)) + 1
    parts = {}
    for name, (source, target, weight) in columns.items():
        if source.dtype.kind not in "iu" and names is not None:
            source, target = (
                find_positions(as_keys(end), names, column)
                for end, column in ((source, "source"), (target, "target"))
            )
        build = from_arcs if isinstance(kinds[name], Directed) else from_edges
        matrix = build(source, target, weight, n)
        parts[name] = Directed(matrix) if isinstance(kinds[name], Directed) else matrix
    return FitInputs(whole.X, whole.y, LinkKinds(parts), names)


def _by_name(y: Any) -> Any:
    """Return the labels of a dict as rows with names; other labels unchanged."""
    if not isinstance(y, Mapping) or sp.issparse(y):
        return y
    if not y:
        raise InputError("y is an empty dict: it has no labels; leave it out")
    whole = all(isinstance(name, int | np.integer) for name in y)
    listed = sorted(y) if whole else list(y)  # by position, if they are positions
    names = as_names(listed)
    held = np.empty(len(listed), dtype=object)
    held[:] = [y[name] for name in listed]
    return NamedRows(held, np.asarray(names))


def _n_rows(X: Any, y: Any) -> int | None:
    """Return the number of nodes, where features or a list of labels say so."""
    for part in (X, None if isinstance(y, Mapping) else y):
        shape = np.shape(part) if isinstance(part, list | tuple) else getattr(part, "shape", ())
        if shape:
            return int(shape[0])
    return None


def _count_nodes(X: Any, graph: Any, labels: NDArray[Any]) -> int:
    """Return the number of nodes that have no names, for labels by position."""
    if labels.dtype.kind not in "iu":
        raise InputError(
            f"y names the node {shown_name(labels[0])}, but neither X nor the graph names its "
            "nodes: give them names, or y one entry per node"
        )
    n = _n_rows(X, None)
    if n is None and is_table(graph) and not is_matrix_table(graph):
        source, target, _ = table_columns(graph)
        return int(max(source.max(), target.max(), labels.max())) + 1
    return int(to_csr(graph, None).shape[0]) if n is None else n


def _open(path: str | PathLike[str]) -> Any:
    from nodeproof.storage.graph_folder import GraphFolder

    return GraphFolder.open(path)


def _names_of_links(graph: Any, known: Names) -> Names:
    """Return the names of a graph's nodes; those in a folder only where there are others."""
    if not is_folder(graph):
        return names_of_graph(graph, known)
    if not isinstance(known, np.ndarray):
        return None
    ids: Names = graph.ids
    return numbered(range(graph.n_nodes), known) if ids is None else ids


def _align_links(graph: Any, links: NDArray[Any], rows: NDArray[Any], by_position: bool) -> Any:
    """Return the graph with its nodes in the order of X.

    Parameters
    ----------
    links, rows : ndarray of shape (n,)
        What the graph and X call the nodes.
    by_position : bool
        Whether there are labels without names.
    """
    order = find_order(links, rows, "graph", "X")
    if by_position:
        _refuse_doubt("y", "X", rows, "graph", links)
    if is_folder(graph) and (np.diff(order) < 0).any():
        raise InputError(
            f"the graph in {graph.path} lists the nodes in a different order than X: give "
            "X.loc[nodeproof.storage.graph_folder.GraphFolder.open(path).ids]"
        )
    return in_order(graph, order, rows)


def _refuse_doubt(
    part: str, first: str, one: NDArray[Any], second: str, other: NDArray[Any]
) -> None:
    """Refuse a part without names between two that list the nodes in different orders."""
    moved = match_names(one, other, first, second) != np.arange(len(one))
    if moved.any():
        row = int(moved.argmax())
        raise InputError(
            f"{part} has no names, and {first} and {second} list the same nodes in different "
            f"orders: row {row} is {shown_name(one[row])} in {first} and {shown_name(other[row])} "
            f"in {second}; give {part} the index of {first}"
        )


def _check_rows(X: Any, n_labels: int) -> None:
    """Refuse labels that name only some nodes, where the rows of X have no names."""
    shape = np.shape(X) if isinstance(X, list | tuple) else getattr(X, "shape", ())
    n = shape[0] if shape else n_labels
    if n != n_labels:
        raise InputError(
            f"y names {n_labels} nodes, but X has {n} rows without names to match them with: give "
            "X as a table with such an index, or y with one entry per node, -1 where unknown, for "
            "example y.reindex(range(len(X))) where the names are positions"
        )


def _name_links(table: Any, rows: Names, labels: Names, no_X: bool, no_y: bool, same: bool) -> Any:
    """Return the graph of a table of links between names; a table of positions unchanged."""
    source, target, weight = table_columns(table)
    names = next((part for part in (rows, labels) if isinstance(part, np.ndarray)), None)
    if source.dtype.kind in "iu" and target.dtype.kind in "iu":
        if names is not None and names.dtype.kind in "if" and not (same and names is labels):
            raise InputError(
                "the rows of X or y have numeric names other than 0, 1, 2, …, so numbers in a "
                "table of links may be names or positions: use reset_index(drop=True) for "
                "positions, or nodeproof.interop.from_tables for names"
            )
        return table
    source, target = as_keys(source), as_keys(target)
    if names is None:
        if not (no_X and no_y and source.dtype.kind == target.dtype.kind == "U"):
            return table  # refused where it is read
        names = np.unique(np.concatenate([source, target]))
    elif names is labels and no_X:
        names = _all_nodes(labels, source, target)
    return link_names(source, target, weight, names)


def _all_nodes(labels: NDArray[Any], source: NDArray[Any], target: NDArray[Any]) -> NDArray[Any]:
    """Return the names of all nodes: those that y lists, or, if these are some, of the links."""
    linked = dict.fromkeys([*source.tolist(), *target.tolist()])
    listed = set(labels.tolist())
    more = [name for name in linked if name not in listed]
    if not more:
        return labels
    other = next((name for name in labels.tolist() if name not in linked), None)
    if other is not None:
        raise InputError(
            f"y names the node {other!r}, which is in no link, and lacks nodes that are in links, "
            f"such as {more[0]!r}: correct or remove that name; if it is a node without links, "
            "give y an entry for every node, empty where unknown"
        )
    ordered = sorted(linked) if all(isinstance(name, str) for name in linked) else list(linked)
    names = as_names(ordered)
    return np.asarray(names)


def link_names(
    source: NDArray[Any],
    target: NDArray[Any],
    weight: NDArray[Any] | None,
    names: NDArray[Any],
    repeated: str = "max",
) -> NamedGraph | sp.csr_array:
    """Return the graph of links between names.

    Parameters
    ----------
    source, target : ndarray of shape (E,)
        Names.
    weight : ndarray of shape (E,) or None
        Weights.
    names : ndarray of shape (n,)
        All nodes, in their order.
    repeated : {"max", "sum"}
        Which weight a link has that is listed more than once.
    """
    rows = [find_positions(source, names, "source"), find_positions(target, names, "target")]
    matrix = from_edges(rows[0], rows[1], weight, len(names), repeated)
    kept = as_names(names.tolist())
    return NamedGraph(matrix, kept) if isinstance(kept, np.ndarray) else matrix
