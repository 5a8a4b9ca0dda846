"""What was found, as attributes of the nodes of networkx and igraph graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nodeproof.errors import InputError
from nodeproof.graph_readers import is_igraph, is_networkx
from nodeproof.interop.outcome import outcome_of
from nodeproof.node_names import names_of_graph, warn_of_shuffle

if TYPE_CHECKING:
    from nodeproof.estimator import NodeClassifier

__all__ = ["to_igraph", "to_networkx"]


def to_networkx(clf: NodeClassifier, graph: Any, *, key: str = "nodeproof") -> Any:
    """Write the labels of all nodes into a networkx graph, and return it.

    Parameters
    ----------
    clf : NodeClassifier
        Fitted to nodes in the order of ``list(graph.nodes)``.
    graph : networkx.Graph
        Its nodes get the attributes ``key`` (the label), ``key_probability`` and ``key_suspect``,
        as plain Python values.
    key : str
        What they are called.

    Examples
    --------
    >>> import networkx as nx
    >>> from nodeproof import NodeClassifier
    >>> from nodeproof.interop import to_networkx
    >>> clubs = nx.karate_club_graph()
    >>> known = {0: "Mr. Hi", 33: "Officer"}
    >>> clf = NodeClassifier(random_state=0)
    >>> clf = clf.fit(y=[known.get(v) for v in clubs], graph=clubs)
    >>> to_networkx(clf, clubs).nodes[1]["nodeproof"]
    'Mr. Hi'
    """
    if not is_networkx(graph):
        raise InputError(f"expected a networkx graph, got {type(graph).__name__}")
    names = names_of_graph(graph)
    found = outcome_of(clf, graph.number_of_nodes(), "the graph", names)
    if not hasattr(clf, "node_ids_"):
        warn_of_shuffle(names, "the graph", "labels are written")
    columns = (found.labels.tolist(), found.probability.tolist(), found.suspect.tolist())
    for node, label, probability, suspect in zip(graph.nodes, *columns, strict=True):
        graph.nodes[node][key] = label
        graph.nodes[node][f"{key}_probability"] = probability
        graph.nodes[node][f"{key}_suspect"] = suspect
    return graph


def to_igraph(clf: NodeClassifier, graph: Any, *, key: str = "nodeproof") -> Any:
    """Write the labels of all nodes into an igraph graph, and return it.

    Parameters
    ----------
    clf : NodeClassifier
        Fitted to nodes in the order of ``graph.vs``.
    graph : igraph.Graph
        Its vertices get the attributes ``key`` (the label), ``key_probability`` and
        ``key_suspect``.
    key : str
        What they are called.
    """
    if not is_igraph(graph):
        raise InputError(f"expected an igraph graph, got {type(graph).__name__}")
    found = outcome_of(clf, graph.vcount(), "the graph", names_of_graph(graph))
    graph.vs[key] = found.labels.tolist()
    graph.vs[f"{key}_probability"] = found.probability.tolist()
    graph.vs[f"{key}_suspect"] = found.suspect.tolist()
    return graph
