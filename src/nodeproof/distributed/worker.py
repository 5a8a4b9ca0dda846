"""What a worker does with its part.

Nothing here depends on a cluster: every action is a function of the part, of the memberships that
other parts answer with, and of a few numbers. All sums are taken range by range, or cell by cell
within a batch, as on one machine, and added up in the same order; so the result has the same bits,
however many parts there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodeproof import kernels
from nodeproof.affinity import charge_rows
from nodeproof.csr import product_rows
from nodeproof.distributed.exchange import Peers, hold
from nodeproof.distributed.layout import Block, Layout, Part, Step, cut_links
from nodeproof.graph import RowSums, mass_between, null_factors
from nodeproof.problem import Models
from nodeproof.runtime import threads
from nodeproof.storage.graph_folder import GraphFolder
from nodeproof.storage.row_files import FileRows, write_rows
from nodeproof.terms.summable import cut_rows

__all__ = ["Done", "State", "act", "connect", "make_part", "place", "read_links"]

Array = NDArray[np.float64]
Rows = NDArray[np.float32]

# One for the process: memberships change rarely and for a moment.
_lock = Lock()


@dataclass(eq=False)
class State:
    """The state of a part.

    Attributes
    ----------
    part : Part
        The part.
    key : str
        Under which the parts list their memberships.
    peers : Peers
        The workers with the other parts.
    W : ndarray of shape (own + copies, K)
        The memberships of its nodes, then those that the current step needs of others.
    pending : pair of int and list
        The turn of the last update, and the new memberships of runs of nodes, with the position
        of the first. They count from the next turn on: others may still ask for the old ones.
    costs : dict of ndarray of shape (own, K)
        Costs of terms that the part cannot evaluate itself, by position.
    models : Models, optional
        The models that costs are computed from.
    charged : pair of int and ndarray
        The current range: its first node, and the costs of its nodes.
    rows_received : int
        Number of memberships that other parts have answered with.
    """

    part: Part
    key: str
    peers: Peers
    W: Rows
    pending: tuple[int, Sequence[tuple[int, Rows]]] = (-1, ())
    costs: dict[int, NDArray[Any]] = field(default_factory=dict)
    models: Models | None = None
    charged: tuple[int, Array] = (-1, np.zeros((0, 0)))
    rows_received: int = 0

    def settle(self, turn: int | None = None) -> None:
        """Store the memberships that were updated before a turn, or at all."""
        with _lock:
            when, solved = self.pending
            if turn is None or when < turn:
                for at, new in solved:
                    self.W[at : at + len(new)] = new
                self.pending = when, ()

    def postpone(self, turn: int, solved: Sequence[tuple[int, Rows]]) -> None:
        """Keep updated memberships until the turn is over; all earlier ones are stored."""
        with _lock:  # another thread may be about to store those of an earlier turn
            self.pending = turn, solved

    def answer(self, turn: int, asker: int, step: int) -> Rows:
        """Return the memberships that a step of another part needs in a turn."""
        self.settle(turn)
        return self.part.answer(self.W, asker, step)

    def receive(self, turn: int, step: Step) -> None:
        """Ask the other parts for the memberships that a step needs."""
        part = self.part
        needed = np.flatnonzero(part.counts[step.number]).tolist()
        found = self.peers.ask(
            self.key, "answer", dict.fromkeys(needed, (turn, part.number, step.number))
        )
        at = part.n_own
        for q in needed:
            self.W[at : at + len(found[q])] = found[q]
            at += len(found[q])
        self.rows_received += at - part.n_own


class Done(NamedTuple):
    """The result of an action: the new state, and the answer."""

    state: State
    answer: Any


def read_links(
    block: Block, layout: Layout, number: int, path: str, null: tuple[str, float]
) -> Block:
    """Return the block of a part with its links, which are read from a graph folder.

    Parameters
    ----------
    block : Block
        Without links.
    path : str
        The folder.
    null : pair of str and float
        The null model of the graph, and the sum of all degrees.
    """
    ranges, folder = layout.ranges(number), GraphFolder.open(path)
    eta = null_factors(cut_rows(folder.degrees, ranges), *null)
    return Block(*cut_links(folder, ranges), eta, block.terms)


def make_part(layout: Layout, number: int, block: Block, key: str) -> Part:
    """Return a part, listed for the others to ask; features are read where they are in a file."""
    for term in block.terms.values():
        if isinstance(getattr(term, "X", None), FileRows):
            term.X = term.X.read()
    part = Part(layout, number, block)
    hold(key, number, part)
    return part


def connect(part: Part, key: str, peers: Peers) -> None:
    """Learn what the other parts will ask for."""
    calls = {q: (part.number,) for q in range(part.layout.n_parts) if q != part.number}
    positions, counts = peers.ask(key, "asked", calls), peers.ask(key, "asked_by_step", calls)
    for q in calls:
        part.want(q, positions[q], counts[q])


def place(part: Part, rows: Any, key: str, peers: Peers) -> Done:
    """Return the state of a part with these memberships: an array, one-hot ones, or in a file."""
    part.asks = []  # the others know by now
    W = np.empty((part.n_own + part.n_copies, part.layout.n_classes), dtype=np.float32)
    W[: part.n_own] = rows.read() if isinstance(rows, FileRows) else rows
    state = State(part, key, peers, W)
    hold(key, part.number, state)
    return Done(state, None)


def act(before: Done, action: str, *arguments: Any) -> Done:
    """Perform an action."""
    state = before.state
    with threads.using(1):
        return Done(state, _ACTIONS[action](state, *arguments))


def _adopt(state: State, models: Models) -> None:
    """Set the class models that costs are computed from."""
    state.settle()
    state.models, state.charged = models, (-1, state.charged[1])


def _sweep(
    state: State, turn: int, first: int, last: int, temperature: float, totals: Array
) -> list[tuple[int, Array, Array, Array]]:
    """Update the part's nodes among first…last; answer with the sums of each cell."""
    state.settle(turn)
    layout, number = state.part.layout, state.part.number
    sums: list[tuple[int, Array, Array, Array]] = []
    solved: list[tuple[int, Rows]] = []
    for lo, hi, at in layout.held(number, first, last):
        new, found = _sweep_run(state, turn, (lo, hi, at), temperature, totals)
        solved.append((at, new))
        sums.append((lo // layout.cell, *found))
    state.postpone(turn, solved)
    return sums


def _sweep_run(
    state: State, turn: int, run: tuple[int, int, int], temperature: float, totals: Array
) -> tuple[Rows, tuple[Array, Array, Array]]:
    """Return the new memberships of a run of nodes, and the sums of its cells."""
    part, models = state.part, state.models
    K, cell, block = part.layout.n_classes, part.layout.cell, part.block
    assert models is not None
    log_prior, affinity = models.log_prior, models.affinity
    ell = np.zeros((1, 1)) if affinity is None else affinity.ell
    ell_t = np.zeros((1, 1)) if affinity is None else affinity.ell_t
    lo, hi, at = run
    cells = (hi - 1) // cell - lo // cell + 1
    moved, mass, change = np.zeros((cells, K)), np.zeros((cells, *ell.shape)), np.zeros(cells)
    charged, costs = _charge_range(state, models, at)
    new = np.empty((hi - lo, K), dtype=np.float32)
    nobody = np.zeros(1, dtype=np.int64)  # waits for another thread

    def solve(begin: int, end: int) -> None:
        # Ranges are multiples of cells: cells begin at the same rows here and there.
        off, size = begin // cell - at // cell, end - begin
        kernels.sweep_batches(
            0, 1, nobody, begin, end, size, cell, block.indptr, part.indices, block.weights,
            block.eta, state.W, totals, costs, charged, log_prior, ell, ell_t, temperature,
            new[begin - at :], moved[off:], mass[off:], change[off:], ell, totals, False,
            *kernels.workspace(K), *kernels.lanes(K, part.layout.batch),
        )  # fmt: skip

    for step in part.steps_of(lo, hi):
        state.receive(turn, step)
        threads.share(solve, step.at, step.at + step.hi - step.lo, cell)
    return new, (moved, mass, change)


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
    state.settle()
    layout, number = state.part.layout, state.part.number
    ranges = [(lo, at, at + hi - lo) for lo, hi, at in layout.held(number, 0, layout.n_nodes)]
    found = threads.map_each(lambda k: function(*ranges[k][1:]), len(ranges)) if ranges else []
    return [(lo, part) for (lo, _, _), part in zip(ranges, found, strict=True)]


def _sums(state: State, matrix: bool) -> list[tuple[int, Array]]:
    eta, W = state.part.block.eta, state.W
    return _by_range(state, lambda lo, hi: RowSums.part(W, eta, matrix, lo, hi))


def _term_sums(state: State, k: int) -> list[tuple[int, Array]]:
    term, W = state.part.block.terms[k], state.W
    return _by_range(state, lambda lo, hi: term.sums(W[lo:hi], lo, hi))


def _link_mass(state: State, turn: int, matrix: bool) -> list[tuple[int, Array]]:
    """Answer with the link mass of each range, as on one machine."""
    state.settle(turn)
    part, W, links = state.part, state.W, state.part.block
    found: list[tuple[int, Array]] = []
    near: list[Array] = []  # of the steps of a range
    for step, after in zip_longest(part.steps, part.steps[1:]):
        state.receive(turn, step)
        end = step.at + step.hi - step.lo
        near.append(product_rows(links.indptr, part.indices, links.weights, W, step.at, end))
        first = step.lo - step.lo % threads.ROWS
        if after is None or after.lo - after.lo % threads.ROWS != first:
            rows = np.concatenate(near)
            found.append((first, mass_between(W[end - len(rows) : end], rows, matrix)))
            near = []
    return found


def _energy(state: State, models: Models, temperature: float) -> list[tuple[int, Array]]:
    def charged(lo: int, hi: int) -> Array:
        costs = _costs(state, models, lo, hi)
        rows = state.W[lo:hi]
        return np.array([charge_rows(rows, costs, models.log_prior, temperature)])

    return _by_range(state, charged)


def _charge(state: State, k: int, costs: NDArray[Any]) -> None:
    state.costs[k] = costs


def _reorder(state: State, order: NDArray[np.int64]) -> None:
    state.settle()
    state.W = np.ascontiguousarray(state.W[:, order])


def _fetch(state: State) -> Rows:
    state.settle()
    return state.W[: state.part.n_own].copy()


def _write(state: State, path: str) -> None:
    """Write the memberships to their places in a file."""
    state.settle()
    layout, part = state.part.layout, state.part
    shape = layout.n_nodes, layout.n_classes
    write_rows(path, shape, layout.ranges(part.number), state.W[: part.n_own])


_ACTIONS: dict[str, Callable[..., Any]] = {
    "adopt": _adopt,
    "sweep": _sweep,
    "sums": _sums,
    "term_sums": _term_sums,
    "link_mass": _link_mass,
    "energy": _energy,
    "charge": _charge,
    "reorder": _reorder,
    "fetch": _fetch,
    "write": _write,
}
