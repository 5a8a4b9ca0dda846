"""The data of a fit: features, labels and links, checked and brought together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.stats import mannwhitneyu, spearmanr

from nodeproof.auto.neighbours import ChosenNeighbours, choose_neighbours, losses_of_labels
from nodeproof.errors import InputError
from nodeproof.fit_graph import read_graph
from nodeproof.graph import Graph
from nodeproof.inputs import EncodedLabels, check_distinct, check_features
from nodeproof.inputs.knn import is_knn
from nodeproof.runtime.logs import warn_caller

__all__ = ["FitData"]

# Links that are looked at to tell whether their weights are distances, the fewest that tell, and
# how clearly they must: a rank correlation with distances of features, a share of pairs, and the
# probability of a chance finding.
_LOOKED_AT, _FEWEST_LINKS = 2_000, 30
_CORRELATED, _HEAVIER, _BY_CHANCE = 0.5, 0.65, 1e-4


@dataclass(frozen=True)
class FitData:
    """The data of a fit: checked, with the same nodes in the same order.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n, m), or None
        Features, finite or, where the terms allow it, NaN.
    labels : EncodedLabels
        Labels as class numbers.
    graph : Graph or None
        The links.
    node_ids : ndarray of shape (n,), or None
        Names of the nodes; None: their positions.
    feature_names : ndarray of shape (m,), or None
        Names of the features.
    made : ChosenNeighbours or None
        How the graph was made of the features; None if it was given.
    """

    X: Any
    labels: EncodedLabels
    graph: Graph | None
    node_ids: NDArray[Any] | None = None
    feature_names: NDArray[Any] | None = None
    made: ChosenNeighbours | None = None

    @classmethod
    def build(
        cls,
        X: Any,
        labels: EncodedLabels,
        graph: Any,
        null_model: str,
        node_ids: NDArray[Any] | None = None,
        feature_names: NDArray[Any] | None = None,
        missing: bool = False,
    ) -> FitData:
        """Read the links, and check that all parts have the same number of nodes.

        Parameters
        ----------
        graph : object or None
            Anything that :class:`nodeproof.graph.Graph` takes, or ``"knn"``.
        null_model : {"auto", "uniform", "degree"}
            Of the graph.
        missing : bool
            Whether features may be missing, as NaN.
        """
        if X is not None:
            check_features(X, feature_names, missing)
        n = X.shape[0] if X is not None else labels.n_nodes
        made = None
        if is_knn(graph):
            _check_sizes(X, labels, None)
            losses = losses_of_labels(labels, null_model)
            made = choose_neighbours(X, labels.codes, graph, losses)
            graph = made.graph
        network = None if graph is None else read_graph(graph, null_model, n)
        _check_sizes(X, labels, network)
        if made is not None and network is not None:
            network.of_features = True
        else:
            _warn_of_distances(X, labels.codes, network)
        return cls(X, labels, network, node_ids, feature_names, made)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        if self.graph is not None:
            return self.graph.n_nodes
        return int(self.X.shape[0] if self.X is not None else self.labels.n_nodes or 0)


def _check_sizes(X: NDArray[Any] | None, labels: EncodedLabels, graph: Graph | None) -> None:
    """Raise an error if there are no nodes, or if the parts differ in size."""
    K = len(labels.classes)
    if X is None and graph is None and labels.codes is None:
        raise InputError("y has no labels, and there are neither features nor a graph")
    parts = {
        "X": None if X is None else X.shape[0],
        "y": labels.n_nodes,
        "graph": None if graph is None else graph.n_nodes,
    }
    sizes = {name: size for name, size in parts.items() if size is not None}
    n = next(iter(sizes.values()))
    if set(sizes.values()) != {n}:
        listed = ", ".join(f"{name} has {size}" for name, size in sizes.items())
        raise InputError(
            f"X, y and graph must have the same nodes, but {listed}; y needs one entry per node, "
            "-1 where unknown"
        )
    if n < K:
        raise InputError(f"n_classes={K} exceeds the number of nodes, {n}: a class would be empty")
    check_distinct(labels)


def _warn_of_distances(X: Any, codes: NDArray[np.int64] | None, graph: Graph | None) -> None:
    """Warn if heavy links join nodes that are less alike than light ones do."""
    if graph is None or graph.folder is not None or not graph.weighted:
        return
    if np.ptp(graph.weights) == 0:
        return
    reason = ""
    links = sp.triu(graph.adjacency, 1).tocoo()
    if X is not None and links.nnz >= _FEWEST_LINKS:
        some = np.linspace(0, links.nnz - 1, min(links.nnz, _LOOKED_AT)).astype(np.int64)
        away = X[links.row[some]] - X[links.col[some]]
        squares = away.multiply(away).sum(axis=1) if sp.issparse(X) else np.square(away).sum(axis=1)
        if np.ptp(squares) > 0 and spearmanr(squares, links.data[some])[0] > _CORRELATED:
            reason = "the farther apart the features of two nodes are, the heavier is their link"
    if not reason and codes is not None and _are_heavier_apart(links, codes):
        reason = "links between labels of different classes are heavier than those within a class"
    if reason:
        warn_caller(
            f"the weights of the links look like distances: {reason}. Heavy links count as close: "
            "give similarities, such as exp(-distance**2 / scale**2) or nodeproof.knn_graph(X), or "
            "links without weights"
        )


def _are_heavier_apart(links: sp.coo_array, codes: NDArray[np.int64]) -> bool:
    """Tell whether most links join labels of one class, and the heavier ones of two."""
    known = (codes[links.row] >= 0) & (codes[links.col] >= 0)
    same = codes[links.row[known]] == codes[links.col[known]]
    counts = np.bincount(codes[codes >= 0])
    expected = float(np.square(counts / counts.sum()).sum())
    if min(same.sum(), (~same).sum()) < _FEWEST_LINKS or same.mean() <= expected:
        return False
    weights = links.data[known]
    found = mannwhitneyu(weights[~same], weights[same], alternative="greater")
    share = found.statistic / (same.sum() * (~same).sum())
    return bool(share > _HEAVIER and found.pvalue < _BY_CHANCE)
