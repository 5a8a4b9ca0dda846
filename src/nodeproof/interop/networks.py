"""networkx, igraph and PyTorch Geometric: results as node attributes, and parts for a fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from nodeproof.errors import InputError
from nodeproof.inputs.attributes import read_attribute
from nodeproof.inputs.graph_objects import is_igraph, is_networkx
from nodeproof.inputs.node_names import (
    Names,
    check_positions,
    find_order,
    names_of_graph,
    numbered,
    warn_of_shuffle,
)
from nodeproof.inputs.node_tables import NodeTable
from nodeproof.inputs.preparation import check_steps
from nodeproof.inputs.pyg_data import (
    count_nodes,
    is_pyg_data,
    read_features,
    read_labels,
    read_links,
    refuse_other_kinds,
)

if TYPE_CHECKING:
    from nodeproof.estimator import NodeClassifier

__all__ = [
    "NodeResults",
    "from_networkx",
    "from_pyg",
    "node_results",
    "to_igraph",
    "to_networkx",
    "to_pyg",
]


class NodeResults(NamedTuple):
    """The results of a fit, one entry per node.

    Attributes
    ----------
    labels : ndarray of shape (n,)
        The class of every node.
    codes : ndarray of shape (n,)
        Its position among the classes.
    proba : ndarray of shape (n, K), float32
        Class probabilities of every node.
    probability : ndarray of shape (n,), float32
        The probability of its class.
    suspect : ndarray of shape (n,), bool
        Whether the node has a given label that is probably wrong.
    """

    labels: NDArray[Any]
    codes: NDArray[np.intp]
    proba: NDArray[np.float32]
    probability: NDArray[np.float32]
    suspect: NDArray[np.bool_]


def node_results(clf: NodeClassifier, n_nodes: int, what: str, names: Names = None) -> NodeResults:
    """Return the results in the order of an object's nodes: matched by name if both have names.

    Parameters
    ----------
    n_nodes : int
        Number of nodes of the object.
    what : str
        What to call it in an error.
    names : ndarray of shape (n,), range or None
        The object's names of its nodes.
    """
    check_is_fitted(clf)
    n = len(clf.labels_)
    if n_nodes != n:
        raise InputError(f"{what} has {n_nodes} nodes, but the classifier was fitted to {n}")
    suspect = np.zeros(n, dtype=bool)
    suspect[clf.suspects_.node] = True
    fitted = getattr(clf, "node_ids_", None)
    names = numbered(names, fitted)
    order: Any = slice(None)
    if isinstance(fitted, np.ndarray) and isinstance(names, np.ndarray):
        order = find_order(fitted, names, "the classifier", what)
    else:
        check_positions({"the classifier": fitted, what: names})
    proba = clf.proba_[order].astype(np.float32)
    return NodeResults(
        clf.labels_[order], proba.argmax(axis=1), proba, proba.max(axis=1), suspect[order]
    )


def from_networkx(
    graph: Any,
    *,
    labels: str | Mapping[Any, Any] | None = None,
    features: Sequence[str] | None = None,
    prepare: Any = True,
) -> dict[str, Any]:
    """Return the arguments of `fit`: ``clf.fit(**from_networkx(graph, labels="club"))``.

    Parameters
    ----------
    graph : networkx.Graph
        Its nodes are in the order of `labels_`.
    labels : str or dict, optional
        The node attribute with labels, missing or None where unknown; or labels by node. None by
        default.
    features : list of str, optional
        Node attributes with features; none by default. Nodes may lack some of them.
    prepare : bool, or list of "one-hot", "impute", "scale"
        What `fit` does to the features, see :class:`nodeproof.NodeClassifier`.

    Returns
    -------
    dict
        ``X``, ``y`` and ``graph``.

    Examples
    --------
    >>> import networkx as nx
    >>> from nodeproof import NodeClassifier
    >>> from nodeproof.interop import from_networkx
    >>> graph = nx.Graph([("ann", "bob"), ("bob", "eve")])
    >>> graph.nodes["ann"].update(age=31, town="Oslo", kind="red")
    >>> graph.nodes["eve"].update(age=45, town="Rome", kind="blue")
    >>> parts = from_networkx(graph, labels="kind", features=["age", "town"])
    >>> NodeClassifier(random_state=0).fit(**parts).n_features_in_
    4
    """
    if not is_networkx(graph):
        raise InputError(f"expected a networkx graph, got {type(graph).__name__}")
    if isinstance(features, str):
        raise InputError(f"features must be a list of node attributes, got {features!r}")
    held = [dict(attributes) for _, attributes in graph.nodes(data=True)]
    known = sorted({str(name) for attributes in held for name in attributes})
    for name in [*(features or ()), *([labels] if isinstance(labels, str) else [])]:
        if name not in known:
            there = ", ".join(map(repr, known)) or "none"
            raise InputError(f"no node has the attribute {name!r}; there are {there}")
    names = names_of_graph(graph)
    named = names if isinstance(names, np.ndarray) else None
    y: Any = labels
    if isinstance(labels, str):
        y = [attributes.get(labels) for attributes in held]
    elif labels is not None and not isinstance(labels, Mapping) and not hasattr(labels, "index"):
        raise InputError("labels must be a node attribute, or a dict or Series of labels by node")
    X = None
    if features:
        columns = [
            read_attribute(name, [attributes.get(name) for attributes in held]) for name in features
        ]
        X = NodeTable(columns, named, check_steps(prepare))
    return {"X": X, "y": y, "graph": graph}


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
        Name, and prefix of names, of the attributes.

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
    results = node_results(clf, graph.number_of_nodes(), "the graph", names)
    if not hasattr(clf, "node_ids_"):
        warn_of_shuffle(names, "the graph", "labels are written")
    columns = (results.labels.tolist(), results.probability.tolist(), results.suspect.tolist())
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
        Name, and prefix of names, of the attributes.
    """
    if not is_igraph(graph):
        raise InputError(f"expected an igraph graph, got {type(graph).__name__}")
    results = node_results(clf, graph.vcount(), "the graph", names_of_graph(graph))
    graph.vs[key] = results.labels.tolist()
    graph.vs[f"{key}_probability"] = results.probability.tolist()
    graph.vs[f"{key}_suspect"] = results.suspect.tolist()
    return graph


def from_pyg(
    data: Any, *, split: int | None = None, validation: bool = False, weight: str | None = "auto"
) -> dict[str, Any]:
    """Return the arguments of `fit`: ``clf.fit(**from_pyg(data))``.

    Labels are used only inside ``train_mask``; a ``Data`` with labels but no mask is refused.

    Parameters
    ----------
    data : torch_geometric.data.Data
        With ``edge_index`` or ``adj_t``, and optionally ``x`` and ``y``.
    split : int, optional
        The column of the masks to use, if they have several.
    validation : bool
        Whether to choose settings on labels inside ``val_mask``. They are not fitted.
    weight : "auto", str or None
        The attribute with the weights of links; "auto": ``edge_weight``, else ``edge_attr`` of
        one column. None: every link has weight one.

    Returns
    -------
    dict
        ``X``, ``y``, ``graph`` and, if requested, ``validation``.
    """
    _check_kind(data)
    parts = {
        "X": read_features(data),
        "y": read_labels(data, "train_mask", split),
        "graph": read_links(data, weight),
    }
    if validation:
        parts["validation"] = read_labels(data, "val_mask", split)
    return parts


def to_pyg(clf: NodeClassifier, data: Any) -> Any:
    """Write the labels of all nodes into a ``Data``, and return it.

    Parameters
    ----------
    clf : NodeClassifier
        Fitted to the nodes of `data`.
    data : torch_geometric.data.Data
        Gets ``y_pred`` of shape (n,), the labels as coded in ``y`` (or positions in `classes_`,
        if these are not integers); ``proba`` of shape (n, K), float32, columns in the
        order of `classes_`; and the mask ``suspect`` of shape (n,). All on the device of its
        links.
    """
    _check_kind(data)
    results = node_results(clf, count_nodes(data), "the Data")
    labels = results.labels
    if labels.dtype.kind not in "biu":
        labels = results.codes
    torch = import_module("torch")
    links = data.edge_index if data.edge_index is not None else data.adj_t
    data.y_pred = torch.from_numpy(labels.astype(np.int64)).to(links.device)
    data.proba = torch.from_numpy(results.proba).to(links.device)
    data.suspect = torch.from_numpy(results.suspect).to(links.device)
    return data


def _check_kind(data: Any) -> None:
    refuse_other_kinds(data)
    if not is_pyg_data(data):
        raise InputError(f"expected a torch_geometric.data.Data, got {type(data).__name__}")
