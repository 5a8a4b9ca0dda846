"""The links of a fit: one graph, several kinds of links, with or without a direction."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from nodeproof.auto.evaluation import Evaluation
from nodeproof.auto.plans import Plan
from nodeproof.csr import warn_directed
from nodeproof.directed import DirectedGraph
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.inputs.graph_objects import Checked, NamedGraph
from nodeproof.inputs.link_kinds import NEGATIVE, Directed, LinkKinds, as_arcs, is_plain
from nodeproof.kinds import together

__all__ = ["arrays_of_kinds", "read_graph", "record_direction", "record_kinds"]

# How the names of experts begin that look at links from one of their ends.
_DIRECTED = ("out-links", "in-links")


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
        sizes = {name: part.n_nodes for name, part in zip(graph.parts, parts, strict=True)}
        if len(set(sizes.values())) > 1:
            listed = ", ".join(f"graph[{name!r}] has {size}" for name, size in sizes.items())
            raise InputError(f"all kinds of links must have the same nodes, but {listed}")
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
        return Graph(Checked(matrix), null_model, n_nodes)
    both = sp.csr_array(matrix.maximum(matrix.T))
    both.sort_indices()
    undirected = Graph(Checked(both), null_model, n_nodes)
    # The order of the nodes must not decide.
    if not isinstance(graph, Directed) and _is_triangular(matrix):
        warn_directed(
            "all links lead from earlier to later nodes, or all back, as where each is listed "
            "once; nodeproof.Directed(links) keeps their direction"
        )
        return undirected
    return DirectedGraph(matrix, undirected)


def _is_triangular(matrix: sp.csr_array) -> bool:
    """Tell whether all links lead from earlier to later nodes, or all back."""
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return bool((rows < matrix.indices).all() or (rows > matrix.indices).all())


def arrays_of_kinds(graph: Graph | None) -> dict[str, Any]:
    """Return the links of each kind, by what the caller knows them by."""
    if graph is None:
        return {}
    return {
        f"graph[{kind.name!r}]": kind.links if isinstance(kind, DirectedGraph) else kind.adjacency
        for kind in graph.kinds
        if isinstance(kind, DirectedGraph) or kind.folder is None
    }


def record_kinds(graph: Graph, choices: dict[str, dict[str, Any]]) -> None:
    """Record the kinds of links, if there are several."""
    if len(graph.kinds) < 2:
        return
    value = {
        kind.name: {
            "links": kind.n_entries // 2,
            "directed": kind.directed,
            "null_model": kind.null_model,
        }
        for kind in graph.kinds
    }
    why = "each kind of links has its own null model and affinity, and experts of its own"
    if any(name.startswith(NEGATIVE) for name in value):
        why += "; links of negative weight are a kind of their own, with absolute weights"
    choices["kinds"] = {"value": value, "why": why}


def record_direction(graph: Graph | None, plan: Plan, choices: dict[str, dict[str, Any]]) -> None:
    """Record whether the direction of links counts, if they have one; warn if it does not."""
    if graph is None or not any(kind.directed for kind in graph.kinds):
        return
    judged = plan.evaluation
    if judged is None:
        why = "nothing was held out to judge it by"
    elif counted := _counted(judged):
        why = f"held-out labels are predicted better with it, by: {', '.join(counted)}"
        choices["direction"] = {"value": True, "why": why}
        return
    else:
        why = "held-out labels are predicted as well without it"
    choices["direction"] = {"value": False, "why": why}
    warn_directed(why)


def _counted(judged: Evaluation) -> list[str]:
    """Return the experts that are used and know the direction of links."""
    found = []
    for member, weight in zip(judged.members, judged.pool.weights, strict=True):
        used = member is judged.block if judged.block_alone else weight > 0
        view = getattr(member.best.setting, "view", "")
        name = member.expert.name
        if used and (view == "directed" or name.startswith(_DIRECTED)):
            found.append(name)
    return found
