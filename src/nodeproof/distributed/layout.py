"""Nodes distributed over several workers: who holds which, and what they need of each other.

Nodes are split into ranges of ``threads.ROWS``, which are assigned to the parts in turn. A part
updates its nodes in steps, each with few links to other parts, and asks for the memberships at
their far ends right before a step: it holds those of its own nodes, and copies for one step.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray

from nodeproof.graph import Graph
from nodeproof.problem import Problem
from nodeproof.runtime import threads
from nodeproof.solvers.sweep import batch_rows, cell_rows
from nodeproof.terms.base import Term
from nodeproof.terms.summable import SummableTerm, cut_rows, is_summable

__all__ = ["Block", "Layout", "Part", "Step", "can_cut", "cut_block", "cut_links"]

Array = NDArray[np.float64]
Rows = NDArray[np.float32]
Ids = NDArray[np.int64]

# A step has at most this share of a part's nodes as links to other parts, so that copies of their
# memberships take little room, but no fewer than this many: each step costs a message.
_COPIES = 8
_FEWEST = 1024


@dataclass(frozen=True)
class Layout:
    """Which part holds which nodes.

    Attributes
    ----------
    n_nodes, n_classes, n_parts : int
        Sizes.
    batch : int
        Number of nodes that are updated from the same state.
    cell : int
        Number of nodes whose sums are taken at once.
    """

    n_nodes: int
    n_classes: int
    n_parts: int
    batch: int
    cell: int

    @classmethod
    def of(cls, problem: Problem, n_parts: int) -> Layout:
        """Return the layout of a problem in so many parts."""
        n, K = problem.n_nodes, problem.n_classes
        return cls(n, K, n_parts, batch_rows(n, K), cell_rows(n))

    def ranges(self, part: int) -> list[tuple[int, int]]:
        """Return the nodes of a part, as ranges."""
        step = threads.ROWS
        return [
            (lo, min(lo + step, self.n_nodes))
            for lo in range(part * step, self.n_nodes, self.n_parts * step)
        ]

    def size(self, part: int) -> int:
        """Return how many nodes a part has."""
        return sum(hi - lo for lo, hi in self.ranges(part))

    def owner(self, ids: NDArray[Any]) -> NDArray[Any]:
        """Return the part that holds each of these nodes."""
        return np.asarray(ids // threads.ROWS % self.n_parts)

    def local(self, ids: NDArray[Any]) -> NDArray[Any]:
        """Return the position of each of these nodes in its part."""
        turn = ids // threads.ROWS // self.n_parts
        return np.asarray(turn * threads.ROWS + ids % threads.ROWS)

    def held(self, part: int, first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """Yield the runs of nodes first…last that a part holds: (lo, hi, local position of lo)."""
        step = threads.ROWS
        for number in range(first // step, (last - 1) // step + 1):
            if number % self.n_parts == part:
                lo, hi = max(first, number * step), min(last, (number + 1) * step)
                yield lo, hi, number // self.n_parts * step + lo - number * step

    def holders(self, first: int, last: int) -> list[int]:
        """Return the parts that hold any of the nodes first…last."""
        step = threads.ROWS
        numbers = range(first // step, (last - 1) // step + 1)
        return sorted({number % self.n_parts for number in numbers})


@dataclass(frozen=True)
class Block:
    """The data of a part: its rows of the graph, and its share of the terms.

    Attributes
    ----------
    indptr, indices, weights : ndarray
        Its rows in CSR form; columns are the nodes of the whole graph.
    eta : ndarray of shape (rows,)
        Factors of the null model.
    terms : dict of Term
        Its nodes' share of the terms that can be split, by position.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    weights: NDArray[Any]
    eta: Array
    terms: dict[int, SummableTerm]


def cut_block(problem: Problem, layout: Layout, part: int, links: bool = True) -> Block:
    """Return the block of a part, with its links or without any."""
    ranges, graph = layout.ranges(part), problem.graph
    terms = {k: term.cut(ranges) for k, term in enumerate(problem.terms) if can_cut(term, problem)}
    if graph is None or not links:
        n = layout.size(part)
        none = np.zeros(0, dtype=np.int32)
        return Block(np.zeros(n + 1, np.int64), none, none.astype(np.float32), np.ones(n), terms)
    return Block(*cut_links(graph, ranges), cut_rows(graph.eta, ranges), terms)


def cut_links(graph: Graph | Any, ranges: Sequence[tuple[int, int]]) -> tuple[Any, Any, Any]:
    """Return rows of a graph, or of a graph folder, in CSR form."""
    links = [(int(graph.indptr[lo]), int(graph.indptr[hi])) for lo, hi in ranges]
    sizes = [np.diff(graph.indptr[lo : hi + 1]) for lo, hi in ranges]
    indptr = np.zeros(1 + sum(map(len, sizes)), dtype=np.int64)
    np.cumsum(np.concatenate([np.zeros(0, np.int64), *sizes]), out=indptr[1:])
    weights = graph.weights if len(graph.weights) == 0 else _joined(graph.weights, links)
    return indptr, _joined(graph.indices, links), weights


def _joined(array: NDArray[Any], ranges: Sequence[tuple[int, int]]) -> NDArray[Any]:
    return np.concatenate([array[:0], *(array[lo:hi] for lo, hi in ranges)])


def can_cut(term: Term, problem: Problem) -> TypeGuard[SummableTerm]:
    """Tell whether the parts can evaluate a term; others are evaluated where all nodes are."""
    likelihoods = problem.calibrated and not problem.son
    return likelihoods and is_summable(term) and term.rounds is None


class Step(NamedTuple):
    """Nodes that a part updates at once.

    Attributes
    ----------
    number : int
        Counted from 0.
    lo, hi : int
        The nodes, all of one range and one batch.
    at : int
        The position of the first one in the part.
    """

    number: int
    lo: int
    hi: int
    at: int


class Part:
    """A block ready for work, in steps.

    Columns of its rows are positions in an array of its own nodes, followed by copies of the
    other parts' nodes that the step has links to.

    Parameters
    ----------
    layout : Layout
        Which part holds which nodes.
    number : int
        Which part this is.
    block : Block
        Its data; kept without the columns, which are renumbered here.

    Attributes
    ----------
    steps : list of Step
        In the order of the nodes.
    counts : ndarray of shape (steps, parts)
        Of how many nodes of each part a step needs the memberships.
    n_own, n_copies : int
        Number of its nodes, and the most copies that a step needs.
    asks : list of ndarray
        For each part, the positions there of the nodes asked for, step by step; empty once the
        others know.
    """

    def __init__(self, layout: Layout, number: int, block: Block) -> None:
        self.layout, self.number = layout, number
        self.n_own = len(block.eta)
        self.steps = list(self._cut_steps(block))
        self._firsts = [step.lo for step in self.steps]
        self.indices = np.empty(len(block.indices), dtype=np.int32)
        self.counts = np.zeros((len(self.steps), layout.n_parts), dtype=np.int64)
        asked: list[list[NDArray[Any]]] = [[] for _ in range(layout.n_parts)]
        for step in self.steps:
            for q, ids in enumerate(self._renumber(block, step)):
                asked[q].append(ids)
                self.counts[step.number, q] = len(ids)
        none = np.zeros(0, dtype=np.int32)
        self.asks = [np.concatenate([none, *ids]) for ids in asked]
        self.n_copies = int(self.counts.sum(axis=1).max(initial=0))
        self.block = replace(block, indices=np.zeros(0, block.indices.dtype))
        #: what other parts ask for: positions of nodes, and where each of their steps begins
        self.wanted: dict[int, tuple[NDArray[np.int32], Ids]] = {}

    def _cut_steps(self, block: Block) -> Iterator[Step]:
        """Yield the steps: as many nodes as have few enough links to other parts."""
        layout, number = self.layout, 0
        most = max(_FEWEST, self.n_own // _COPIES)
        for first in range(0, layout.n_nodes, layout.batch):
            last = min(first + layout.batch, layout.n_nodes)
            for lo, hi, at in layout.held(self.number, first, last):
                ends = block.indptr[at : at + hi - lo + 1]
                away = layout.owner(block.indices[ends[0] : ends[-1]]) != self.number
                crossing = np.append(0, np.cumsum(away))[ends - ends[0]]
                begin = 0
                while begin < hi - lo:
                    within = crossing.searchsorted(crossing[begin] + most, side="right") - 1
                    end = max(begin + 1, min(int(within), hi - lo))
                    yield Step(number, lo + begin, lo + end, at + begin)
                    begin, number = end, number + 1

    def _renumber(self, block: Block, step: Step) -> list[NDArray[np.int32]]:
        """Set the columns of a step; return the positions that it needs of each part."""
        layout = self.layout
        entries = slice(block.indptr[step.at], block.indptr[step.at + step.hi - step.lo])
        ids = block.indices[entries]
        own = layout.owner(ids) == self.number
        columns = self.indices[entries]
        columns[own] = layout.local(ids[own])
        needed, places = np.unique(ids[~own], return_inverse=True)
        owners = layout.owner(needed)
        order = np.argsort(owners, kind="stable")
        rank = np.empty(len(needed), dtype=np.int64)
        rank[order] = np.arange(len(needed))
        columns[~own] = self.n_own + rank[places]
        cuts = owners[order].searchsorted(np.arange(1, layout.n_parts))
        return np.split(layout.local(needed[order]).astype(np.int32), cuts)

    def steps_of(self, first: int, last: int) -> list[Step]:
        """Return the steps with nodes of the batch first…last."""
        return self.steps[bisect_left(self._firsts, first) : bisect_left(self._firsts, last)]

    def asked(self, other: int) -> NDArray[np.int32]:
        """Return the positions of the nodes that all steps need of another part."""
        return self.asks[other]

    def asked_by_step(self, other: int) -> Ids:
        """Return how many nodes of another part each step needs."""
        return self.counts[:, other]

    def want(self, asker: int, positions: NDArray[np.int32], counts: Ids) -> None:
        """Note what another part asks for in each of its steps."""
        self.wanted[asker] = positions, np.append(0, np.cumsum(counts))

    def answer(self, W: Rows, asker: int, step: int) -> Rows:
        """Return the memberships that a step of another part needs."""
        positions, begins = self.wanted[asker]
        return W[positions[begins[step] : begins[step + 1]]]

    @property
    def rows_received(self) -> int:
        """How many memberships of other parts all steps of a sweep need."""
        return int(self.counts.sum())
