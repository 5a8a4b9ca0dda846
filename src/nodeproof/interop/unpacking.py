"""What `fit` makes of objects that hold more than a graph."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.edges import from_edges
from nodeproof.errors import InputError
from nodeproof.graph_readers import (
    NamedGraph,
    is_matrix_table,
    is_networkx,
    is_table,
    table_columns,
)
from nodeproof.node_names import (
    as_names,
    check_order,
    find_positions,
    names_of_graph,
    names_of_rows,
    warn_of_shuffle,
)
from nodeproof.pyg_data import is_pyg_data, read_features, read_labels, refuse_other_kinds

__all__ = ["Given", "link_names", "unpack"]


class Given(NamedTuple):
    """What a fit is made from.

    Attributes
    ----------
    X, y, graph : object
        Features, labels and links; each may be None.
    names : ndarray of shape (n,), or None
        What the nodes are called.
    """

    X: Any
    y: Any
    graph: Any
    names: NDArray[Any] | None


def unpack(X: Any, y: Any, graph: Any) -> Given:
    """Return features, labels, links and names out of what was given to `fit`.

    A PyTorch Geometric ``Data`` brings features and labels, the latter only inside its
    ``train_mask``: the others are what is to be predicted.
    """
    refuse_other_kinds(graph)
    if is_pyg_data(graph):
        X = read_features(graph) if X is None else X
        y = read_labels(graph) if y is None else y
    names = check_order({"X": names_of_rows(X), "y": names_of_rows(y)})
    if is_table(graph) and not is_matrix_table(graph):
        graph = _name_links(graph, names, alone=X is None and y is None)
    named = {"X": names_of_rows(X), "y": names_of_rows(y), "graph": names_of_graph(graph)}
    if is_networkx(graph) and any(
        given is not None and named[part] is None for part, given in (("X", X), ("y", y))
    ):
        warn_of_shuffle(named["graph"], "the graph", "rows of X and y are taken")
    return Given(X, y, graph, check_order(named))


def _name_links(table: Any, names: NDArray[Any] | None, alone: bool) -> Any:
    """Return the graph of a table of links between names; of one between positions, itself."""
    source, target, weight = table_columns(table)
    if source.dtype.kind in "iu" and target.dtype.kind in "iu":
        if names is not None and names.dtype.kind == "i":
            raise InputError(
                "the rows of X or y are called by numbers other than 0, 1, 2, …, so a table of "
                "links between numbers could mean these or positions: use reset_index(drop=True) "
                "for positions, or nodeproof.interop.from_tables for names"
            )
        return table
    texts = _as_text(source), _as_text(target)
    if texts[0] is None or texts[1] is None or (names is None and not alone):
        return table  # refused where it is read
    if names is None:
        names = np.unique(np.concatenate([texts[0], texts[1]]))
    return link_names(texts[0], texts[1], weight, names)


def _as_text(ends: NDArray[Any]) -> NDArray[Any] | None:
    if ends.dtype.kind in "UT" or all(isinstance(end, str) for end in ends.tolist()):
        return ends.astype(str)
    return None


def link_names(
    source: NDArray[Any], target: NDArray[Any], weight: NDArray[Any] | None, names: NDArray[Any]
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
    """
    rows = [find_positions(source, names, "source"), find_positions(target, names, "target")]
    matrix = from_edges(rows[0], rows[1], weight, len(names))
    kept = as_names(names.tolist())
    return NamedGraph(matrix, kept) if isinstance(kept, np.ndarray) else matrix
