"""The links between classes, of the graph that was fitted or of another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.inputs.graph_objects import is_matrix_table, is_table, table_columns
from nodeproof.inputs.node_names import align_graph
from nodeproof.interop import from_tables
from nodeproof.solvers.memberships import OneHot

if TYPE_CHECKING:
    from nodeproof.estimator import NodeClassifier

__all__ = ["links_between"]


def links_between(
    clf: NodeClassifier, graph: Any
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the weight of links from class to class, and what chance would give."""
    if graph is None:
        found = clf.fitted_.findings
        if found.blocks is None or found.chance is None:
            raise InputError("block_matrix needs links: this classifier was fitted without a graph")
        return found.blocks, found.chance
    network = Graph(_in_order(clf, graph), "auto", len(clf.labels_))
    rows = OneHot(clf.proba_.argmax(axis=1).astype(np.int32), len(clf.classes_))
    links = rows.link_mass(network, matrix=True)
    return links, network.density * rows.sums(network.eta, matrix=True).pairs


def _in_order(clf: NodeClassifier, graph: Any) -> Any:
    """Return links whose nodes stand as those that were fitted."""
    names = getattr(clf, "node_ids_", None)
    if names is not None and is_table(graph) and not is_matrix_table(graph):
        source, target, _ = table_columns(graph)
        if source.dtype.kind not in "iu" or target.dtype.kind not in "iu":
            return from_tables(graph, {"node": names})["graph"]
        if names.dtype.kind in "if":
            raise InputError(
                "the nodes are called by numbers other than 0, 1, 2, …, so a table of links "
                "between numbers could mean these or positions: for names give "
                "nodeproof.interop.from_tables(links, {'node': clf.node_ids_})['graph']"
            )
    fitted = range(len(clf.labels_)) if names is None else names
    return align_graph(graph, fitted, "the fit")
