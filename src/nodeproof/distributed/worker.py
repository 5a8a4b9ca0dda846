"""What a worker does with its part.

Nothing here depends on a cluster: every action is a function of the part, of the memberships that
it has received, and of a few numbers. All sums are taken range by range, or cell by cell within a
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
from nodeproof.affinity import charge_rows
from nodeproof.distributed.layout import Part, Piece
from nodeproof.graph import RowSums, mass_between, product_rows
from nodeproof.problem import Models
from nodeproof.runtime import threads

__all__ = ["Done", "State", "act", "place"]

Array = NDArray[np.float64]
Rows = NDArray[np.float32]


@dataclass
class State:
    """The state of a part.

    Attributes
    ----------
    part : Part
        The part.
    W : ndarray of shape (own + halo, K)
        The memberships of its nodes, then of those it has links to.
    costs : dict of ndarray of shape (own, K)
        Costs of terms that the part cannot evaluate itself, by position.
    models : Models, optional
        The models that costs are computed from.
    charged : pair of int and ndarray
        The current range: its first node, and the costs of its nodes.
    """

    part: Part
    W: Rows
    costs: dict[int, NDArray[Any]] = field(default_factory=dict)
    models: Models | None = None
    charged: tuple[int, Array] = (-1, np.zeros((0, 0)))


class Done(NamedTuple):
    """The result of an action: the new state, what the other parts need, and the answer."""

    state: State
    piece: Piece | None
    answer: Any


def place(part: Part, rows: Rows) -> Done:
    """Return the state of a part with these memberships, and its boundary for the others."""
    W = np.empty((part.n_own + part.n_halo, part.layout.n_classes), dtype=np.float32)
    W[: part.n_own] = rows
    return Done(State(part, W), part.piece(W, 0, part.layout.n_nodes), None)


def act(before: Done, incoming: Sequence[Piece], action: str, *arguments: Any) -> Done:
    """Store what other parts have sent, then perform an action."""
    state = before.state
    with threads.using(1):
        for piece in incoming:
            state.part.install(state.W, piece)
        return _ACTIONS[action](state, *arguments)


def _adopt(state: State, models: Models) -> Done:
    """Set the class models that costs are computed from."""
    state.models, state.charged = models, (-1, state.charged[1])
    return Done(state, None, None)


def _sweep(state: State, first: int, last: int, temperature: float, totals: Array) -> Done:
    """Update the part's nodes among first…last; answer with the sums of each cell."""
    part, layout, W, models = state.part, state.part.layout, state.W, state.models
    K, cell, block = layout.n_classes, layout.cell, part.block
    assert models is not None
    affinity = models.affinity
    ell = np.zeros((1, 1)) if affinity is None else affinity.ell
    ell_t = np.zeros((1, 1)) if affinity is None else affinity.ell_t
    runs = list(layout.held(part.number, first, last))
    nobody = np.zeros(1, dtype=np.int64)  # waits for another thread
    sums: list[tuple[int, Array, Array, Array]] = []
    solved: list[tuple[int, Rows]] = []
    for lo, hi, at in runs:
        cells = (hi - 1) // cell - lo // cell + 1
        moved, mass, change = np.zeros((cells, K)), np.zeros((cells, *ell.shape)), np.zeros(cells)
        charged, costs = _charge_range(state, models, at)
        new = np.empty((hi - lo, K), dtype=np.float32)
        # Ranges are multiples of cells: cells begin at the same rows here and there.
        kernels.sweep_batches(
            0, 1, nobody, at, at + hi - lo, hi - lo, cell, block.indptr, part.indices,
            block.weights, block.eta, W, totals, costs, charged, models.log_prior, ell, ell_t,
            temperature, new, moved, mass, change, ell, totals, False, *kernels.workspace(K),
        )  # fmt: skip
        solved.append((at, new))
        sums.append((lo // cell, moved, mass, change))
    for at, new in solved:
        W[at : at + len(new)] = new
    return Done(state, part.piece(W, first, last), sums)


def _charge_range(state: State, models: Models, at: int) -> tuple[int, Array]:
    """Return the first node of the range that a node is in, and the costs of its nodes.

    They are computed at once, as on one machine: the last bits of a product depend on its
    number of rows.
    """
    first = at - at % threads.ROWS
    if state.charged[0] != first:
        last = min(first + threads.ROWS, state.part.n_own)
        state.charged = first, _costs(state, models, first, last)
    return state.charged


def _costs(state: State, models: Models, lo: int, hi: int) -> Array:
    """Return the costs of nodes lo…hi of the part, added up as on one machine."""
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
    """Return the values of a function for each range, with the range's first node."""
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
    part, W = state.part, state.W

    def mass(lo: int, hi: int) -> Array:
        near = product_rows(part.block.indptr, part.indices, part.block.weights, W, lo, hi)
        return mass_between(W[lo:hi], near, matrix)

    return Done(state, None, _by_range(state, mass))


def _energy(state: State, models: Models, temperature: float) -> Done:
    def charged(lo: int, hi: int) -> Array:
        costs = _costs(state, models, lo, hi)
        rows = state.W[lo:hi]
        return np.array([charge_rows(rows, costs, models.log_prior, temperature)])

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
