"""Rows spread over several holders: who holds what, and what each does with its own.

Nothing here knows of a cluster: parts are plain objects, and everything done with one is a
function of the part, the rows it is told of, and a few numbers.

Rows are cut into ranges of ``threads.ROWS``, dealt out in turn. All sums are taken range by
range, or cell by cell within a batch, as on one machine, and added up in the same order; so the
result has the same bits, however many parts there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodeproof import kernels, threads
from nodeproof.graph import Graph, RowSums
from nodeproof.problem import Models, Problem
from nodeproof.solvers.sweep import batch_rows, cell_rows
from nodeproof.terms.base import Term

__all__ = ["Block", "Done", "Layout", "Part", "Piece", "State", "cut_block", "halo_of"]

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
    terms: dict[int, Term]


def cut_block(graph: Graph | None, problem: Problem, layout: Layout, part: int) -> Block:
    """Return the block of a part."""
    ranges = layout.ranges(part)
    terms = {k: term.cut(ranges) for k, term in enumerate(problem.terms) if can_cut(problem, term)}
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


def can_cut(problem: Problem, term: Term) -> bool:
    """Tell whether the parts can do a term's work: the others are done where all rows are."""
    return problem.calibrated and not problem.son and term.summable and term.rounds is None


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


@dataclass
class State:
    """A part at work.

    Attributes
    ----------
    part : Part
        The part.
    W : ndarray of shape (own + halo, K)
        Its rows, then those it has links to.
    costs : dict of ndarray of shape (own, K)
        What terms charge that the part cannot work out itself, by position.
    models : Models, optional
        What rows are charged by.
    charged : pair of int and ndarray
        A range that is being solved: its first row, and what its rows cost.
    """

    part: Part
    W: Rows
    costs: dict[int, NDArray[Any]] = field(default_factory=dict)
    models: Models | None = None
    charged: tuple[int, Array] = (-1, np.zeros((0, 0)))


class Done(NamedTuple):
    """What a part has done: its state from now on, what the others must know, the answer."""

    state: State
    piece: Piece | None
    answer: Any


def place(part: Part, rows: Rows) -> Done:
    """Return a part at work on these rows, and its boundary for the others."""
    W = np.empty((part.n_own + part.n_halo, part.layout.n_classes), dtype=np.float32)
    W[: part.n_own] = rows
    return Done(State(part, W), part.piece(W, 0, part.layout.n_nodes), None)


def act(before: Done, news: Sequence[Piece], action: str, *arguments: Any) -> Done:
    """Take in what others have told, then do something with the rows of a part."""
    state = before.state
    with threads.using(1):
        for piece in news:
            state.part.install(state.W, piece)
        return _ACTIONS[action](state, *arguments)


def _adopt(state: State, models: Models) -> Done:
    """Take the class models that rows are charged by from now on."""
    state.models, state.charged = models, (-1, state.charged[1])
    return Done(state, None, None)


def _sweep(state: State, first: int, last: int, temperature: float, totals: Array) -> Done:
    """Solve the part's rows among first…last; answer with the sums of each cell."""
    part, layout, W, models = state.part, state.part.layout, state.W, state.models
    K, cell, block = layout.n_classes, layout.cell, part.block
    assert models is not None
    affinity = models.affinity
    ell = np.zeros((1, 1)) if affinity is None else affinity.ell
    ell_t = np.zeros((1, 1)) if affinity is None else affinity.ell_t
    runs = list(layout.held(part.number, first, last))
    sums: list[tuple[int, Array, Array, Array]] = []
    solved: list[tuple[int, Rows]] = []
    for lo, hi, at in runs:
        cells = (hi - 1) // cell - lo // cell + 1
        moved, mass, change = np.zeros((cells, K)), np.zeros((cells, *ell.shape)), np.zeros(cells)
        charged, costs = _charge_range(state, models, at)
        new = np.empty((hi - lo, K), dtype=np.float32)
        # Ranges are multiples of cells: cells begin at the same rows here and there.
        kernels.sweep_rows(
            at, at + hi - lo, at, cell, block.indptr, part.indices, block.weights, block.eta, W,
            totals, costs, charged, models.log_prior, ell, ell_t, temperature, new, moved, mass,
            change,
        )  # fmt: skip
        solved.append((at, new))
        sums.append((lo // cell, moved, mass, change))
    for at, new in solved:
        W[at : at + len(new)] = new
    return Done(state, part.piece(W, first, last), sums)


def _charge_range(state: State, models: Models, at: int) -> tuple[int, Array]:
    """Return the first row of the range that a row is in, and what its rows cost.

    All of it is charged at once, as on one machine: a product has other last bits for another
    number of rows.
    """
    first = at - at % threads.ROWS
    if state.charged[0] != first:
        last = min(first + threads.ROWS, state.part.n_own)
        state.charged = first, _costs(state, models, first, last)
    return state.charged


def _costs(state: State, models: Models, lo: int, hi: int) -> Array:
    """Return what rows lo…hi of the part are charged, added up as a sweep here does."""
    part = state.part
    total: Array | None = None
    waiting = []
    for k, theta in enumerate(models.terms):
        if k in part.block.terms:
            costs = part.block.terms[k].cost(theta, lo, hi)
        elif state.costs[k].dtype == np.float32:
            waiting.append(state.costs[k])
            continue
        else:
            costs = state.costs[k][lo:hi]
        total = costs if total is None else total + costs
    if total is None:
        total = np.zeros((hi - lo, part.layout.n_classes))
    for kept in waiting:
        total = total + kept[lo:hi]
    return total


def _by_range(state: State, function: Any) -> list[tuple[int, Array]]:
    """Return what a function of local rows gives for each range, with the range's first row."""
    layout, number = state.part.layout, state.part.number
    ranges = [(lo, at, at + hi - lo) for lo, hi, at in layout.held(number, 0, layout.n_nodes)]
    found = threads.map_each(lambda k: function(*ranges[k][1:]), len(ranges)) if ranges else []
    return [(lo, part) for (lo, _, _), part in zip(ranges, found, strict=True)]


def _sums(state: State, matrix: bool) -> Done:
    eta, W = state.part.block.eta, state.W
    return Done(state, None, _by_range(state, lambda lo, hi: RowSums.part(W, eta, matrix, lo, hi)))


def _term_sums(state: State, k: int) -> Done:
    term, W = state.part.block.terms[k], state.W
    return Done(state, None, _by_range(state, lambda lo, hi: term.sums(W[lo:hi], lo, hi)))


def _link_mass(state: State, matrix: bool) -> Done:
    part, W, K = state.part, state.W, state.part.layout.n_classes

    def mass(lo: int, hi: int) -> Array:
        total = np.zeros((K, K) if matrix else (1, 1))
        block = part.block
        kernels.link_mass(lo, hi, block.indptr, part.indices, block.weights, W, total)
        return total

    return Done(state, None, _by_range(state, mass))


def _energy(state: State, models: Models, temperature: float) -> Done:
    def charged(lo: int, hi: int) -> Array:
        costs = _costs(state, models, lo, hi)
        rows = state.W[lo:hi]
        return np.array([kernels.charge_rows(rows, costs, models.log_prior, temperature)])

    return Done(state, None, _by_range(state, charged))


def _charge(state: State, k: int, costs: NDArray[Any]) -> Done:
    state.costs[k] = costs
    return Done(state, None, None)


def _reorder(state: State, order: NDArray[np.int64]) -> Done:
    state.W = np.ascontiguousarray(state.W[:, order])
    return Done(state, None, None)


def _fetch(state: State) -> Done:
    return Done(state, None, state.W[: state.part.n_own].copy())


_ACTIONS: dict[str, Callable[..., Done]] = {
    "adopt": _adopt,
    "sweep": _sweep,
    "sums": _sums,
    "term_sums": _term_sums,
    "link_mass": _link_mass,
    "energy": _energy,
    "charge": _charge,
    "reorder": _reorder,
    "fetch": _fetch,
}
