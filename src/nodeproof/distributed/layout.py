"""Rows spread over several holders: who holds what, and what travels between them.

Rows are cut into ranges of ``threads.ROWS``, dealt out in turn.
"""

from __future__ import annotations

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
from nodeproof.terms.summable import SummableTerm, is_summable

__all__ = [
    "Block",
    "Layout",
    "Part",
    "Piece",
    "boundary_of",
    "can_cut",
    "cut_block",
    "cut_links",
    "halo_of",
]

Array = NDArray[np.float64]
Rows = NDArray[np.float32]
Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """Which part holds which rows.

    Attributes
    ----------
    n_nodes, n_classes, n_parts : int
        Sizes.
    """

    n_nodes: int
    n_classes: int
    n_parts: int

    @property
    def batch(self) -> int:
        """Rows that are solved from the same state."""
        return batch_rows(self.n_nodes, self.n_classes)

    @property
    def cell(self) -> int:
        """Rows whose sums are taken in one go."""
        return cell_rows(self.n_nodes)

    def ranges(self, part: int) -> list[tuple[int, int]]:
        """Return the rows of a part, as ranges."""
        step = threads.ROWS
        return [
            (lo, min(lo + step, self.n_nodes))
            for lo in range(part * step, self.n_nodes, self.n_parts * step)
        ]

    def size(self, part: int) -> int:
        """Return how many rows a part has."""
        return sum(hi - lo for lo, hi in self.ranges(part))

    def owner(self, ids: Ids) -> Ids:
        """Return the part that holds each of these nodes."""
        return np.asarray(ids // threads.ROWS % self.n_parts)

    def local(self, ids: Ids) -> Ids:
        """Return where its part holds each of these nodes."""
        turn = ids // threads.ROWS // self.n_parts
        return np.asarray(turn * threads.ROWS + ids % threads.ROWS)

    def held(self, part: int, first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """Yield the runs of rows first…last that a part holds: (lo, hi, local position of lo)."""
        step = threads.ROWS
        for number in range(first // step, (last - 1) // step + 1):
            if number % self.n_parts == part:
                lo, hi = max(first, number * step), min(last, (number + 1) * step)
                yield lo, hi, number // self.n_parts * step + lo - number * step

    def holders(self, first: int, last: int) -> list[int]:
        """Return the parts that hold any of the rows first…last."""
        step = threads.ROWS
        numbers = range(first // step, (last - 1) // step + 1)
        return sorted({number % self.n_parts for number in numbers})


@dataclass(frozen=True)
class Block:
    """What a part is made of: its rows of the graph, and of what is known of the nodes.

    Attributes
    ----------
    indptr, indices, weights : ndarray
        Its rows in CSR form; columns are the nodes of the whole graph.
    eta : ndarray of shape (rows,)
        Factors of the null model.
    terms : dict of Term
        Its nodes' share of the terms that can be cut, by position.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    weights: NDArray[Any]
    eta: Array
    terms: dict[int, SummableTerm]


def cut_block(graph: Graph | None, problem: Problem, layout: Layout, part: int) -> Block:
    """Return the block of a part."""
    ranges = layout.ranges(part)
    terms = {k: term.cut(ranges) for k, term in enumerate(problem.terms) if can_cut(term, problem)}
    if graph is None:
        n = layout.size(part)
        none = np.zeros(0, dtype=np.int32)
        return Block(np.zeros(n + 1, np.int64), none, none.astype(np.float32), np.ones(n), terms)
    return Block(*cut_links(graph, ranges), _joined(graph.eta, ranges), terms)


def cut_links(graph: Any, ranges: Sequence[tuple[int, int]]) -> tuple[Any, Any, Any]:
    """Return rows of a graph, or of a graph's folder, in CSR form."""
    links = [(int(graph.indptr[lo]), int(graph.indptr[hi])) for lo, hi in ranges]
    sizes = [np.diff(graph.indptr[lo : hi + 1]) for lo, hi in ranges]
    indptr = np.zeros(1 + sum(map(len, sizes)), dtype=np.int64)
    np.cumsum(np.concatenate([np.zeros(0, np.int64), *sizes]), out=indptr[1:])
    weights = graph.weights if len(graph.weights) == 0 else _joined(graph.weights, links)
    return indptr, _joined(graph.indices, links), weights


def can_cut(term: Term, problem: Problem) -> TypeGuard[SummableTerm]:
    """Tell whether the parts can do a term's work: the others are done where all rows are."""
    likelihoods = problem.calibrated and not problem.son
    return likelihoods and is_summable(term) and term.rounds is None


def _joined(array: NDArray[Any], ranges: Sequence[tuple[int, int]]) -> NDArray[Any]:
    return np.concatenate([array[:0], *(array[lo:hi] for lo, hi in ranges)])


def halo_of(block: Block, layout: Layout, part: int) -> Ids:
    """Return the nodes of other parts that this one has links to, in increasing order."""
    linked = np.zeros(layout.n_nodes, dtype=bool)
    linked[block.indices] = True
    for lo, hi in layout.ranges(part):
        linked[lo:hi] = False
    return np.flatnonzero(linked)


def boundary_of(halos: Sequence[Ids], layout: Layout, part: int) -> Ids:
    """Return the nodes of this part that any other one has links to, in increasing order."""
    asked = [halo[layout.owner(halo) == part] for halo in halos]
    return np.unique(np.concatenate(asked)) if asked else np.zeros(0, np.int64)


class Piece(NamedTuple):
    """New rows of a part's boundary, for the others.

    Attributes
    ----------
    part : int
        Whose they are.
    first, last : int
        The batch: they are those of the boundary among its rows.
    rows : ndarray
        In the order of the nodes.
    """

    part: int
    first: int
    last: int
    rows: Rows


class Part:
    """A block made ready: columns are places in an array of its own rows and its halo.

    Parameters
    ----------
    layout : Layout
        Who holds what.
    number : int
        Which part this is.
    block : Block
        Its rows; kept without the columns, which have other numbers here.
    halo : ndarray
        What :func:`halo_of` gives.
    boundaries : sequence of ndarray
        What :func:`boundary_of` gives, for all parts.
    """

    def __init__(
        self, layout: Layout, number: int, block: Block, halo: Ids, boundaries: Sequence[Ids]
    ) -> None:
        self.layout, self.number = layout, number
        self.n_own, self.n_halo = len(block.eta), len(halo)
        places = np.full(layout.n_nodes, -1, dtype=np.int32)
        at = 0
        for lo, hi in layout.ranges(number):
            places[lo:hi] = np.arange(at, at + hi - lo)
            at += hi - lo
        places[halo] = np.arange(at, at + len(halo))
        self.indices = places[block.indices]
        self.block = replace(block, indices=np.zeros(0, block.indices.dtype))
        self.boundary = boundaries[number]
        # For each other part: its boundary, and where of it this part keeps what.
        self.told: dict[int, tuple[Ids, NDArray[np.int32]]] = {
            q: (ids, places[ids]) for q, ids in enumerate(boundaries) if q != number
        }

    def piece(self, W: Rows, first: int, last: int) -> Piece:
        """Return the rows among first…last that others have links to."""
        lo, hi = np.searchsorted(self.boundary, (first, last))
        return Piece(self.number, first, last, W[self.layout.local(self.boundary[lo:hi])])

    def install(self, W: Rows, piece: Piece) -> None:
        """Take the rows of another part that this one has links to."""
        ids, places = self.told[piece.part]
        lo, hi = np.searchsorted(ids, (piece.first, piece.last))
        wanted = places[lo:hi] >= 0
        W[places[lo:hi][wanted]] = piece.rows[wanted]
