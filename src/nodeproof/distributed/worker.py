"""What is done with the rows that one holder has.

Nothing here knows of a cluster: everything done with a part is a function of the part, the
rows it is told of, and a few numbers. All sums are taken range by range, or cell by cell within a
batch, as on one machine, and added up in the same order; so the result has the same bits, however
many parts there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodeproof import kernels
from nodeproof.distributed.layout import Part, Piece
from nodeproof.graph import RowSums
from nodeproof.problem import Models
from nodeproof.runtime import threads

__all__ = ["Done", "State", "act", "place"]

Array = NDArray[np.float64]
Rows = NDArray[np.float32]


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
