"""Several kinds of links in one object, links with a direction, and links with a sign.

Kinds come as a dict of graphs, as a table with a column ``type``, as a networkx multigraph whose
edges have an attribute ``type`` or text for keys, or as a PyTorch Geometric ``HeteroData`` with
one kind of nodes. Links of negative weight are a kind of their own, with their absolute weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.csr import check_links, from_arcs, from_edges
from nodeproof.errors import InputError
from nodeproof.inputs.graph_objects import (
    NamedGraph,
    column_names,
    has_ends,
    is_anndata,
    is_folder,
    is_igraph,
    is_matrix_table,
    is_networkx,
    is_table,
    read_types,
    table_columns,
    to_csr,
)
from nodeproof.inputs.knn import is_knn
from nodeproof.inputs.link_lists import as_link_table
from nodeproof.inputs.node_names import Names, as_names
from nodeproof.inputs.pyg_data import count_nodes, is_pyg_data, read_links
from nodeproof.inputs.tensors import plain

__all__ = [
    "NEGATIVE",
    "Directed",
    "LinkKinds",
    "as_arcs",
    "check_kind_name",
    "is_link_list",
    "is_plain",
    "split_kinds",
]

#: what the kind of the links of negative weight is called, before the name of their kind
NEGATIVE = "negative "

# The kind of links that come without a name.
_LINKS = "links"

# The most kinds: each has its own null model, affinity and experts.
_MOST_KINDS = 32


@dataclass(frozen=True)
class Directed:
    """Links with a direction: each from its source to its target.

    Matrices that are not symmetric and directed graphs of networkx and igraph need no such word. In
    tables, lists of pairs and an ``edge_index``, links count in both directions without it.

    Parameters
    ----------
    links : object
        Links as `NodeClassifier.fit` takes them.

    Examples
    --------
    >>> import nodeproof
    >>> nodeproof.Directed([("ann", "bob"), ("bob", "eve")])
    Directed(links=[('ann', 'bob'), ('bob', 'eve')])
    """

    links: Any


@dataclass(frozen=True)
class LinkKinds:
    """Several kinds of links about the same nodes in the same order.

    Attributes
    ----------
    parts : dict
        By name, a matrix, or anything else that is read as one kind of links.
    """

    parts: dict[str, Any]


def is_plain(graph: Any) -> bool:
    """Tell whether an object holds one kind of links in any case, and is left to others."""
    return (
        graph is None
        or isinstance(graph, str | PathLike)
        or is_knn(graph)
        or is_folder(graph)
        or is_anndata(graph)
        or is_pyg_data(graph)
    )


def is_link_list(graph: Any) -> bool:
    """Tell whether an object is a table of links."""
    return is_table(graph) and not is_matrix_table(graph)


def split_kinds(graph: Any, n_nodes: int | None) -> dict[str, Any]:
    """Return the kinds of links in an object by name; a single one that has no name as {"": …}.

    Parameters
    ----------
    graph : object
        As it was given to `fit`.
    n_nodes : int or None
        Number of nodes, where features or labels say so.
    """
    found: dict[str, Any] = {}
    named = _named_kinds(graph)
    for name, links in ({"": graph} if named is None else named).items():
        directed = isinstance(links, Directed)
        given = as_link_table(links.links if directed else links, n_nodes)
        signs = None if is_plain(given) else _signs(given, n_nodes)
        for prefix, part in ({"": given} if signs is None else signs).items():
            called = prefix + (name or _LINKS) if signs is not None else name
            if called in found:
                raise InputError(f"two kinds of links are called {called!r}: rename one")
            found[called] = Directed(part) if directed else part
    if len(found) > _MOST_KINDS:
        raise InputError(
            f"there are {len(found)} kinds of links; at most {_MOST_KINDS} can be told apart: put "
            "rare ones together"
        )
    return found


def check_kind_name(name: Any) -> str:
    """Return the name of a kind of links, or raise an error."""
    if not isinstance(name, str) or not name.strip() or name != name.strip() or len(name) > 100:
        raise InputError(
            "kinds of links are named by short text without spaces around it, such as "
            f"{{'cites': A}}; got {name!r}"
        )
    if name in ("features", "labels", "graph", "all links"):
        raise InputError(f"a kind of links cannot be called {name!r}: rename it")
    return name


def as_arcs(graph: Any, n_nodes: int | None) -> tuple[sp.csr_array, bool]:
    """Return checked links as a CSR array, and whether they are the same in both directions."""
    given = graph.links if isinstance(graph, Directed) else graph
    given = plain(given.matrix if isinstance(given, NamedGraph) else given)
    given = as_link_table(given, n_nodes)
    directed = isinstance(graph, Directed)
    if directed and is_link_list(given):
        matrix = from_arcs(*table_columns(given), n_nodes)
    elif directed and isinstance(given, np.ndarray) and given.ndim == 2 and len(given) == 2:
        matrix = from_arcs(given[0], given[1], None, n_nodes)
    else:
        matrix = to_csr(given, n_nodes, directed=True)
    rows, columns = matrix.shape
    if n_nodes is not None and rows == columns != n_nodes:
        raise InputError(
            f"the graph has {rows} nodes but features or labels have {n_nodes} rows; "
            "they must be listed for the same nodes, in the same order"
        )
    return check_links(matrix)


def _named_kinds(graph: Any) -> dict[str, Any] | None:
    """Return kinds that have names; None where there is one kind without."""
    if isinstance(graph, Mapping) and not sp.issparse(graph) and _holds_graphs(graph):
        return {check_kind_name(name): links for name, links in graph.items()}
    directed = isinstance(graph, Directed)
    links = graph.links if directed else graph
    if hasattr(links, "node_types") and hasattr(links, "edge_types"):
        found: dict[str, Any] | None = _of_hetero(links)
    elif is_networkx(links) and links.is_multigraph():
        found = _of_multigraph(links)
    elif is_link_list(links):
        found = _of_table(links)
    else:
        return None
    if found is None or not directed:
        return found
    return {name: Directed(part) for name, part in found.items()}


def _holds_graphs(graph: Mapping[Any, Any]) -> bool:
    """Tell whether the values of a dict are graphs rather than columns of a table."""
    return bool(graph) and not has_ends(graph) and all(map(_is_links, graph.values()))


def _is_links(value: Any) -> bool:
    if isinstance(value, Directed | NamedGraph | str | PathLike) or is_folder(value):
        return True
    if sp.issparse(value) or is_networkx(value) or is_igraph(value) or is_pyg_data(value):
        return True
    if is_table(value):
        return True
    if isinstance(value, list | tuple | set | frozenset):
        first = next(iter(value), None)
        return isinstance(first, tuple | list)
    return getattr(value, "ndim", None) == 2


def _of_table(table: Any) -> dict[str, Any] | None:
    """Return the parts of a table that has a column with the type of each link."""
    types = read_types(table)
    if types is None:
        return None
    source, target, weight = table_columns(table)
    found = {}
    for name in dict.fromkeys(types.tolist()):
        here = types == name
        part = {"source": source[here], "target": target[here]}
        found[check_kind_name(str(name))] = (
            part if weight is None else part | {"weight": weight[here]}
        )
    return found


def _of_multigraph(graph: Any) -> dict[str, Any] | None:
    """Return the links of a networkx multigraph by their attribute ``type``, else by text keys."""
    edges = list(graph.edges(keys=True, data=True))
    typed = [data.get("type") for *_, data in edges]
    if edges and all(kind is not None for kind in typed):
        kinds = [str(kind) for kind in typed]
    elif any(kind is not None for kind in typed):
        raise InputError("some edges of the multigraph have an attribute type, and some have none")
    elif edges and all(isinstance(key, str) for _, _, key, _ in edges):
        kinds = [key for _, _, key, _ in edges]
    else:
        return None
    names = as_names(graph.nodes)
    place = {node: row for row, node in enumerate(graph.nodes)}
    found = {}
    for name in dict.fromkeys(kinds):
        some = [edge for edge, kind in zip(edges, kinds, strict=True) if kind == name]
        ends = [np.array([place[edge[k]] for edge in some], dtype=np.int64) for k in (0, 1)]
        weight = np.array([float(data.get("weight", 1.0)) for *_, data in some])
        build: Callable[..., sp.csr_array] = from_arcs if graph.is_directed() else from_edges
        weights = None if (weight == 1.0).all() else weight
        matrix = build(ends[0], ends[1], weights, len(place))
        found[check_kind_name(name)] = _named(matrix, names)
    return found


def _of_hetero(data: Any) -> dict[str, Any]:
    """Return the links of a ``HeteroData`` with one kind of nodes by their relation."""
    if len(data.node_types) != 1:
        raise InputError(
            f"this HeteroData has {len(data.node_types)} kinds of nodes; give links between nodes "
            "of one kind, as a dict of matrices, or all as one with data.to_homogeneous()"
        )
    if not data.edge_types:
        raise InputError("this HeteroData has no links")
    n = count_nodes(data[data.node_types[0]])
    found = {}
    for source, relation, target in data.edge_types:
        store = data[source, relation, target]
        parts = {name: getattr(store, name, None) for name in ("edge_weight", "edge_attr")}
        links = SimpleNamespace(edge_index=store.edge_index, num_nodes=n, **parts)
        found[check_kind_name(relation)] = read_links(links)
    return found


def _signs(graph: Any, n_nodes: int | None) -> dict[str, Any] | None:
    """Return links of positive and of negative weight apart; None if either are missing."""
    if is_link_list(graph):
        if not any(str(name).lower() in ("weight", "w") for name in column_names(graph)):
            return None
        source, target, weight = table_columns(graph)
        if weight is None or not _mixed(weight):
            return None
        return {
            prefix: {"source": source[here], "target": target[here], "weight": abs(weight[here])}
            for prefix, here in (("", weight > 0), (NEGATIVE, weight < 0))
        }
    if is_networkx(graph) or is_igraph(graph):
        return _signs_of_network(graph)
    names: Names = graph.names if isinstance(graph, NamedGraph) else None
    held = plain(graph.matrix if isinstance(graph, NamedGraph) else graph)
    square = getattr(held, "ndim", 0) == 2 and held.shape[0] == held.shape[1]
    if is_matrix_table(graph):
        names, held, square = as_names(graph.index), graph.to_numpy(), True
    if not square or (not sp.issparse(held) and np.asarray(held).dtype.kind not in "if"):
        return None
    values = held.data if sp.issparse(held) and hasattr(held, "data") else held
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "if" or not _mixed(values):
        return None
    matrix = sp.csr_array(held)
    found = {}
    for prefix, sign in (("", 1.0), (NEGATIVE, -1.0)):
        part = (sign * matrix).maximum(0.0)
        part = sp.csr_array(part)
        part.eliminate_zeros()
        found[prefix] = _named(part, names)
    return found


def _signs_of_network(graph: Any) -> dict[str, Any] | None:
    """Return the links of a networkx or igraph graph by their sign, as matrices."""
    if is_networkx(graph):
        n_nodes, place = len(graph), {node: row for row, node in enumerate(graph.nodes)}
        listed = [(place[u], place[v], d.get("weight", 1.0)) for u, v, d in graph.edges(data=True)]
        names = as_names(graph.nodes)
    else:
        if "weight" not in graph.es.attributes():
            return None
        pairs = zip(graph.get_edgelist(), graph.es["weight"], strict=True)
        listed = [(u, v, weight) for (u, v), weight in pairs]
        named = "name" in graph.vs.attributes()
        n_nodes = graph.vcount()
        names = as_names(graph.vs["name"] if named else range(n_nodes))
    try:
        weight = np.array([float(w) for *_, w in listed])
    except (TypeError, ValueError, OverflowError):
        return None  # refused where it is read
    if not _mixed(weight):
        return None
    ends = np.array([link[:2] for link in listed], dtype=np.int64)
    found = {}
    build: Callable[..., sp.csr_array] = from_arcs if graph.is_directed() else from_edges
    for prefix, here in (("", weight > 0), (NEGATIVE, weight < 0)):
        matrix = build(ends[here, 0], ends[here, 1], abs(weight[here]), n_nodes)
        found[prefix] = _named(matrix, names)
    return found


def _named(matrix: sp.csr_array, names: Names) -> NamedGraph | sp.csr_array:
    """Return links with the names of their nodes, if these are more than positions."""
    return NamedGraph(matrix, names) if isinstance(names, np.ndarray) else matrix


def _mixed(weights: NDArray[Any]) -> bool:
    """Tell whether there are weights of both signs, and none that is no number."""
    return bool((weights < 0).any() and (weights > 0).any() and np.isfinite(weights).all())
