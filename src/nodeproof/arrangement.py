"""Canonical order of the nodes: it depends on the data alone, not on the order of rows.

Nodes are solved in batches and random starts are drawn node by node. With weak links, the order of
the nodes would decide which optimum a fit ends in. Up to about 10⁵ nodes, the data are therefore
put into a canonical order before a fit, and the results are put back.

The order is that of hashes. A node's hash mixes its label and its features with the hashes of its
neighbours, round after round (colour refinement), until no two nodes that differ share a hash.
Nodes that still do are mostly interchangeable, and their order makes no difference.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from nodeproof import kernels
from nodeproof.directed import DirectedGraph
from nodeproof.graph import Graph, Side
from nodeproof.problem import Problem
from nodeproof.runtime import threads
from nodeproof.runtime.caching import cached_property
from nodeproof.solvers import Progress
from nodeproof.solvers.base import Callback
from nodeproof.terms import NodeData

__all__ = ["Arrangement", "canonical_order"]

Hashes = NDArray[np.uint64]

# Larger graphs are left as they are: they are often stored with neighbours close to each other, and
# an order that scatters them would slow down every sweep.
_MOST_NODES = 100_000
_MOST_ENTRIES = 20_000_000

# The most rounds of refinement, and entries of the adjacency matrix read in total.
_MOST_ROUNDS = 64
_MOST_WORK = 200_000_000

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Arrangement:
    """A canonical order of the nodes, and its inverse.

    Attributes
    ----------
    order : ndarray of shape (n,)
        Which of the given nodes is at each position.
    position : ndarray of shape (n,)
        At which position each of the given nodes is.
    """

    order: NDArray[np.int64]
    position: NDArray[np.int64]

    @classmethod
    def of(cls, nodes: NodeData) -> Arrangement | None:
        """Return the canonical arrangement; None for large graphs, which are left as they are."""
        graph, n = nodes.graph, _count(nodes)
        if n > _MOST_NODES or (graph is not None and graph.n_entries > _MOST_ENTRIES):
            return None
        order = canonical_order(nodes)
        position = np.empty(n, dtype=np.int64)
        position[order] = np.arange(n)
        return cls(order, position)

    def arrange(self, nodes: NodeData) -> NodeData:
        """Return the nodes in this order."""
        return NodeData(
            nodes.n_classes,
            None if nodes.X is None else nodes.X[self.order],
            None if nodes.y is None else nodes.y[self.order],
            None if nodes.graph is None else nodes.graph.reordered(self.order),
            feature_names=nodes.feature_names,
        )

    def restore_nodes(self, nodes: NodeData, arranged: NodeData) -> NodeData:
        """Return the given nodes, with what was computed for the arranged ones."""
        smoothing, links = arranged.smoothing, arranged.links
        return replace(
            nodes,
            smoothing=smoothing and smoothing.reordered(self.position, nodes.X, nodes.graph),
            links=links and links.reordered(self.position, None, nodes.graph),
        )

    def restore_problem(self, problem: Problem, nodes: NodeData) -> Problem:
        """Return the same problem for the given nodes; models stay as they are."""
        terms = [term.reordered(nodes, self.position) for term in problem.terms]
        graph = None
        if problem.graph is not None and nodes.graph is not None:
            graph = nodes.graph.view(problem.graph.viewed)
        return Problem(
            graph,
            terms,
            problem.n_classes,
            problem.weights,
            problem.threshold,
            problem.trust,
            problem.son,
        )

    def shown(self, callback: Callback | None) -> Callback | None:
        """Return a callback that gets the memberships in the given order of nodes."""
        if callback is None:
            return None

        def in_given_order(progress: Progress) -> bool | None:
            return callback(replace(progress, W=np.asarray(progress.W)[self.position]))

        return in_given_order


def canonical_order(nodes: NodeData) -> NDArray[np.int64]:
    """Return the nodes in an order that depends on the data alone, shape (n,).

    Parameters
    ----------
    nodes : NodeData
        Features, labels and links. Numbers count to about two digits, and exactly only to break
        ties, so that neither rounding errors nor units change the order.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.arrangement import canonical_order
    >>> from nodeproof.terms import NodeData
    >>> X = np.array([[0.1], [0.2], [0.3]])
    >>> back = [2, 1, 0]
    >>> ahead = X[canonical_order(NodeData(2, X))]
    >>> bool((ahead == X[back][canonical_order(NodeData(2, X[back]))]).all())
    True
    """
    hashes = np.full(_count(nodes), _GOLDEN)
    if nodes.y is not None:
        hashes = _mixed(hashes + nodes.y.astype(np.uint64))
    scores = None
    if nodes.X is not None:
        own, scores = _summaries(nodes.X)
        hashes = _mixed(hashes + own)
    if nodes.graph is not None and nodes.graph.n_entries:
        hashes = _Refinement(nodes.graph).run(hashes)
    order = np.argsort(hashes)  # several times as fast as a stable one
    if not (np.diff(hashes[order]) == 0).any():
        return order
    if scores is None:
        return np.argsort(hashes, kind="stable")
    return np.lexsort((scores, hashes))  # ties of rounded features by the exact ones


class _Refinement:
    """Rounds in which every node takes in the hashes of its neighbours."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.rounds = min(_MOST_ROUNDS, 1 + _MOST_WORK // graph.n_entries)

    @cached_property
    def links(self) -> sp.csr_array:
        """The links, with integers for their weights, kinds and directions."""
        graph = self.graph
        links = _marked_links(graph, graph.sides[0])
        if graph.kinds:  # a number of its own for each kind and direction
            marks = np.random.default_rng(0).integers(2**63, size=(len(graph.kinds), 2))
            links = sp.csr_array(links.shape, dtype=np.uint64)
            for kind, own in zip(graph.kinds, marks.astype(np.uint64), strict=True):
                for side, mark in zip(kind.sides, own, strict=False):
                    links = links + _marked_links(kind, side) * mark
        return links

    def _sum(self, values: Hashes) -> Hashes:
        """Return the sums of the values of neighbours, by the numbers of their links."""
        graph = self.graph
        if graph.weighted or graph.kinds:
            return np.asarray(self.links @ values)
        sums = np.empty_like(values)

        def part(lo: int, hi: int) -> None:
            kernels.sum_neighbours(lo, hi, graph.indptr, graph.indices, values, sums)

        threads.map_rows(part, len(values))
        return sums

    def run(self, hashes: Hashes) -> Hashes:
        """Return hashes that distinguish all nodes that differ, as far as rounds allow."""
        hashes, distinct = self._refine(hashes, _count_distinct(hashes))
        if distinct < len(hashes):
            hashes = _mixed(hashes + self._number_twins(hashes))
            hashes, distinct = self._refine(hashes, _count_distinct(hashes))
        while self.rounds and distinct < len(hashes):
            hashes = _mixed(hashes + self._tie_breakers(hashes))
            hashes, distinct = self._refine(hashes, _count_distinct(hashes))
        return hashes

    def _refine(self, hashes: Hashes, distinct: int) -> tuple[Hashes, int]:
        """Refine until no round tells more nodes apart; return the hashes and their number."""
        while self.rounds and distinct < len(hashes):
            self.rounds -= 1
            finer = _mixed(hashes + _GOLDEN * self._sum(_mixed(hashes + _GOLDEN)))
            found = _count_distinct(finer)
            if found <= distinct:
                break
            hashes, distinct = finer, found
        return hashes, distinct

    def _number_twins(self, hashes: Hashes) -> Hashes:
        """Return the number of each node among its twins: those with the same neighbours.

        Twins are always interchangeable, so all of them are numbered at once, linked to each other
        or not.
        """
        names = _mixed(np.arange(1, len(hashes) + 1, dtype=np.uint64))
        others = self._sum(names)
        numbers = _number_equals(_mixed(hashes + _mixed(others)))
        if not self.graph.weighted:  # linked to each other by a link like all others
            numbers += _number_equals(_mixed(hashes + _mixed(others + names)))
        return _mixed(numbers.astype(np.uint64))

    def _tie_breakers(self, hashes: Hashes) -> Hashes:
        """Return numbers that break ties consistently within groups of linked nodes.

        Nodes with a shared hash that are linked among themselves form groups. Groups with the same
        hashes are interchangeable as a whole and are numbered; in each group one node is marked,
        and the next rounds distinguish the rest.
        """
        _, kind, count = np.unique(hashes, return_inverse=True, return_counts=True)
        tied = np.flatnonzero(count[kind] > 1)
        _, group = connected_components(self.links[tied][:, tied], directed=False)
        colours = hashes[tied]
        signature = np.zeros(group.max() + 1, dtype=np.uint64)
        np.add.at(signature, group, _mixed(colours))
        numbers = _number_equals(signature)[group].astype(np.uint64)
        # The smallest hash that a group has twice, at the first such node.
        twice = np.lexsort((tied, colours, group))
        again = (np.diff(group[twice]) == 0) & (np.diff(colours[twice]) == 0)
        pairs = twice[:-1][again]
        _, first = np.unique(group[pairs], return_index=True)
        numbers[pairs[first]] += _GOLDEN
        breakers = np.zeros(len(hashes), dtype=np.uint64)
        breakers[tied] = _mixed(numbers)
        return breakers


def _marked_links(graph: Graph | DirectedGraph, side: Side) -> sp.csr_array:
    """Return links with their rounded weights as integers."""
    weights = (
        _rounded(side.weights / graph.unit)
        if graph.weighted
        else np.ones(len(side.indices), np.uint64)
    )
    return sp.csr_array((weights, side.indices, side.indptr), shape=(graph.n_nodes,) * 2)


def _count_distinct(values: Hashes) -> int:
    ordered = np.sort(values)  # several times as fast as np.unique
    return int(np.count_nonzero(ordered[1:] != ordered[:-1])) + min(1, len(values))


def _number_equals(values: Hashes) -> NDArray[np.int64]:
    """Return how many earlier entries are equal to each, shape (n,)."""
    order = np.argsort(values, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(values[order]) != 0])
    numbers = np.empty(len(values), dtype=np.int64)
    numbers[order] = np.arange(len(values)) - np.repeat(starts, np.diff(np.r_[starts, len(values)]))
    return numbers


def _summaries(X: Any) -> tuple[Hashes, NDArray[np.float64]]:
    """Return a hash of each row of features, rounded, and a random sum of it, not rounded.

    The unit of a feature does not matter: each counts as a share of its largest value.
    """
    rng = np.random.default_rng(0)
    multipliers = rng.integers(2**64, size=X.shape[1], dtype=np.uint64) | np.uint64(1)
    directions = rng.standard_normal(X.shape[1])
    largest = abs(X).max(axis=0)
    largest = (largest.toarray() if sp.issparse(X) else largest).ravel().astype(np.float64)
    if not sp.issparse(X) and np.isnan(largest).any():
        # A missing value is one like others, that no feature has.
        largest = np.fmax(np.fmax.reduce(np.abs(X), axis=0), 0.0).astype(np.float64)
        X = np.where(np.isnan(X), -2.0 * np.where(largest > 0, largest, 1.0), X)
    unit = np.where(largest > 0, largest, 1.0)
    if sp.issparse(X):
        shares = X.data / unit[X.indices]
        rounded = sp.csr_array((_rounded(shares), X.indices, X.indptr), shape=X.shape)
        exact = sp.csr_array((shares, X.indices, X.indptr), shape=X.shape)
        return rounded @ multipliers, exact @ directions

    def part(lo: int, hi: int) -> tuple[Hashes, NDArray[np.float64]]:
        shares = X[lo:hi] / unit
        # Row by row: in a matrix product, rounding depends on the neighbouring rows.
        return _rounded(shares) @ multipliers, (shares * directions).sum(axis=1)

    parts = threads.map_rows(part, len(X))
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))  # type: ignore[return-value]


def _rounded(values: NDArray[Any]) -> Hashes:
    """Return numbers to seven binary digits as integers; 0 for 0."""
    with np.errstate(under="ignore"):
        single = values.astype(np.float32) + np.float32(0.0)  # -0 is 0
    return (single.view(np.uint32) + np.uint32(1 << 16) >> np.uint32(17)).astype(np.uint64)


def _mixed(hashes: Hashes) -> Hashes:
    """Return the hashes with all their bits mixed (the finaliser of splitmix64)."""
    hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hashes ^ (hashes >> np.uint64(31))


def _count(nodes: NodeData) -> int:
    if nodes.graph is not None:
        return nodes.graph.n_nodes
    return len(nodes.y) if nodes.y is not None else int(nodes.X.shape[0])  # type: ignore[union-attr]
