"""The links of a fit: one graph, several kinds of links, with or without a direction."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp

from nodeproof.directed import DirectedGraph
from nodeproof.graph import Graph
from nodeproof.inputs.graph_objects import NamedGraph
from nodeproof.inputs.link_kinds import NEGATIVE, Directed, LinkKinds, as_arcs, is_plain
from nodeproof.kinds import together

__all__ = ["describe_kinds", "read_graph"]


def read_graph(graph: Any, null_model: str, n_nodes: int | None) -> Graph:
    """Return the links as they were given; those with a direction keep it.

    Parameters
    ----------
    graph : object
        Anything that :class:`nodeproof.graph.Graph` takes, or the kinds of links that
        :func:`nodeproof.inputs.unpacking.unpack` has found.
    null_model : {"auto", "uniform", "degree"}
        Of each kind of links.
    n_nodes : int or None
        Number of nodes, if known already.
    """
    if isinstance(graph, LinkKinds):
        parts = [_read_kind(links, null_model, n_nodes) for links in graph.parts.values()]
        for name, part in zip(graph.parts, parts, strict=True):
            part.name = part.undirected.name = name if len(parts) > 1 else ""
        if len(parts) == 1 and not parts[0].directed:
            return parts[0].undirected
        return together(parts, null_model)
    found = _read_kind(graph, null_model, n_nodes)
    return together([found]) if isinstance(found, DirectedGraph) else found


def _read_kind(graph: Any, null_model: str, n_nodes: int | None) -> Graph | DirectedGraph:
    if is_plain(graph) and not isinstance(graph, NamedGraph):
        return Graph(graph, null_model, n_nodes)
    matrix, symmetric = as_arcs(graph, n_nodes)
    if symmetric:
        return Graph(matrix, null_model, n_nodes)
    both = sp.csr_array(matrix.maximum(matrix.T))
    both.sort_indices()
    return DirectedGraph(matrix, Graph(both, null_model, n_nodes))


def describe_kinds(graph: Graph) -> dict[str, Any]:
    """Return what is recorded in `choices_` of the kinds of links."""
    value = {
        kind.name: {
            "links": kind.n_entries // 2,
            "directed": kind.directed,
            "null_model": kind.null_model,
        }
        for kind in graph.kinds
    }
    why = "each kind of links has its own null model and affinity, and its own experts"
    if any(name.startswith(NEGATIVE) for name in value):
        why += "; links of negative weight are a kind of their own, with absolute weights"
    return {"value": value, "why": why}
