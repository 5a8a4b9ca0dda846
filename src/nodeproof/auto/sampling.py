"""Which nodes experts are judged on: all, or in large graphs neighbourhoods of some labelled ones.

There, no product with the whole graph is needed: the cost depends on the sample alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.auto.held_out import HeldOut, hold_out
from nodeproof.directed import DirectedGraph
from nodeproof.graph import Graph
from nodeproof.kinds import together
from nodeproof.runtime.caching import cached_property
from nodeproof.terms import NodeData
from nodeproof.terms.logistic import assign_folds

__all__ = ["MANY_ENTRIES", "Sample", "sample_to_judge"]

#: graphs with more entries of the adjacency matrix (twice the links) are sampled
MANY_ENTRIES = 1_500_000

# In how many folds labels are held out: fewer where fits take long and labels are many.
_FOLDS, _FEW_FOLDS = 5, 3
_SEVERAL_ENTRIES, _ENOUGH_LABELS = 150_000, 600

# Labels to judge by, and further ones to learn from.
_JUDGED, _LEARNT = 1000, 4000

# Neighbours that are followed: of judged nodes, of their neighbours, of further labelled nodes.
_FIRST, _SECOND, _OF_LEARNT = 30, 8, 8

# Nodes whose neighbours are followed: at most.
_FOLLOWED = 10_000


@dataclass(frozen=True)
class Sample:
    """Nodes to judge experts on.

    Attributes
    ----------
    all_nodes : NodeData
        All nodes.
    judged : HeldOut
        Held-out labels among all nodes.
    """

    all_nodes: NodeData
    judged: HeldOut

    @property
    def nodes(self) -> NodeData:
        """All nodes; of a large graph those that were sampled, with sampled links."""
        return self._part[0]

    @property
    def held(self) -> HeldOut:
        """The held-out labels among `nodes`."""
        return self._part[1]

    @cached_property
    def _part(self) -> tuple[NodeData, HeldOut]:
        if not self.judged.sampled:
            return self.all_nodes, self.judged
        part, kept = _neighbourhoods(self.all_nodes, self.judged)
        assert part.y is not None
        # Every label that was reached is seen; only the judged ones are held out.
        return part, self.judged.within(kept, part.y)


def sample_to_judge(
    nodes: NodeData, validation: tuple[NDArray[np.int64], NDArray[np.int64]] | None
) -> Sample | None:
    """Return the nodes to judge experts on; None if there are too few labels to hold any out.

    Parameters
    ----------
    nodes : NodeData
        With labels.
    validation : pair of ndarray, optional
        Nodes and their labels, to judge by instead of labels that are fitted.
    """
    assert nodes.y is not None
    if nodes.graph is not None and nodes.graph.n_entries > MANY_ENTRIES:
        held = _judge_some(nodes.y, validation)
        return None if held is None else Sample(nodes, held)
    large = nodes.graph is not None and nodes.graph.n_entries > _SEVERAL_ENTRIES
    enough = (nodes.y >= 0).sum() > _ENOUGH_LABELS
    held = hold_out(nodes.y, validation, _FEW_FOLDS if large and enough else _FOLDS)
    return None if held is None else Sample(nodes, held)


def _judge_some(
    y: NDArray[np.int64], validation: tuple[NDArray[np.int64], NDArray[np.int64]] | None
) -> HeldOut | None:
    """Return some labels to judge by; None if there are too few."""
    if validation is not None:
        candidates, codes = validation
        judged = np.sort(_stratified(codes, _JUDGED))
        held = hold_out(y, (candidates[judged], codes[judged]))
        return held and replace(held, y=[], places=held.nodes)
    # At most half of the labels: the others must name the classes where these are hidden.
    labelled = np.flatnonzero(y >= 0)
    most = min(_JUDGED, -(-len(labelled) // 2))
    return hold_out(y, only=labelled[_stratified(y[labelled], most)])


def _neighbourhoods(nodes: NodeData, held: HeldOut) -> tuple[NodeData, NDArray[np.int64]]:
    """Return neighbourhoods of labelled nodes, and where their nodes are among all nodes.

    Links of a judged node lead to its neighbours and theirs, of both a random sample if there are
    many. Other labelled nodes come with some of their neighbours, to learn from.
    """
    graph, y, judged = nodes.graph, nodes.y, held.nodes
    assert graph is not None
    assert y is not None
    rng = np.random.default_rng(0)
    others = np.setdiff1d(np.flatnonzero(y >= 0), judged)
    others = others[_stratified(y[others], _LEARNT)]
    first = _follow(graph, judged, _FIRST, rng)
    reached = np.setdiff1d(first[1], judged)
    if len(reached) > _FOLLOWED:
        reached = np.sort(rng.choice(reached, _FOLLOWED, replace=False))
    links = [
        first,
        _follow(graph, reached, _SECOND, rng),
        _follow(graph, np.setdiff1d(others, reached), _OF_LEARNT, rng),
    ]
    sources, targets, weights = (np.concatenate(part) for part in zip(*links, strict=True))
    kept = np.unique(np.concatenate([judged, others, sources, targets]))
    return _part(nodes, kept, sources, targets, weights), kept


def _stratified(codes: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return positions of at most about this many labels, every class with its share."""
    if len(codes) <= most:
        return np.arange(len(codes))
    return np.flatnonzero(assign_folds(codes, -(-len(codes) // most)) == 0)


def _follow(
    graph: Graph, nodes: NDArray[np.int64], most: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
    """Return links of nodes, at most so many of each: their ends, and their weights."""
    starts = np.asarray(graph.indptr[nodes], dtype=np.int64)
    degrees = np.asarray(graph.indptr[nodes + 1], dtype=np.int64) - starts
    counts = np.minimum(degrees, most)
    sources = np.repeat(nodes, counts)
    within = np.arange(len(sources)) - np.repeat(np.cumsum(counts) - counts, counts)
    # Evenly spaced from a random place on: no neighbour twice.
    shift = np.repeat(rng.random(len(nodes)), counts)
    step = np.repeat(degrees / np.maximum(counts, 1), counts)
    at = np.repeat(starts, counts) + ((within + shift) * step).astype(np.int64)
    weights = graph.weights[at] if graph.weighted else np.ones(len(at), dtype=np.float32)
    return sources, np.asarray(graph.indices[at], dtype=np.int64), np.asarray(weights)


def _part(
    nodes: NodeData,
    kept: NDArray[np.int64],
    sources: NDArray[np.int64],
    targets: NDArray[np.int64],
    weights: NDArray[Any],
) -> NodeData:
    """Return the kept nodes with these links, in both directions."""
    u, v = np.searchsorted(kept, sources), np.searchsorted(kept, targets)
    # From each end a link is found at most once.
    one_way = sp.csr_array((weights, (u, v)), shape=(len(kept),) * 2)
    adjacency = one_way.maximum(one_way.T)
    assert nodes.graph is not None
    assert nodes.y is not None
    return NodeData(
        nodes.n_classes,
        None if nodes.X is None else nodes.X[kept],
        nodes.y[kept],
        _part_of_graph(nodes.graph, kept, sp.csr_array(adjacency)),
        feature_names=nodes.feature_names,
    )


def _part_of_graph(graph: Graph, kept: NDArray[np.int64], adjacency: sp.csr_array) -> Graph:
    """Return the graph of sampled links, with its kinds if links of several were found."""
    pattern = adjacency.sign()

    def part(links: sp.csr_array) -> sp.csr_array:
        found = sp.csr_array(links[kept][:, kept].multiply(pattern))
        found.sort_indices()
        return found

    found: list[Graph | DirectedGraph] = []
    for kind in graph.kinds if len(graph.kinds) > 1 else ():
        own: Graph | DirectedGraph
        own = Graph(part(kind.undirected.adjacency), kind.null_model, len(kept))
        if own.n_entries:
            own.name = kind.name
            if isinstance(kind, DirectedGraph):
                found.append(DirectedGraph(part(kind.links), own))
            else:
                found.append(own)
            found[-1].name = kind.name
    if len(found) > 1:
        return together(found, graph.null_model)
    whole = Graph(adjacency, graph.null_model, len(kept))
    whole.of_features = graph.of_features
    return whole
