"""Sweeps over the memberships in fixed batches, and when to stop them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof import kernels, kinds
from nodeproof.affinity import Affinity
from nodeproof.graph import RowSums
from nodeproof.kinds import Coupling
from nodeproof.problem import Models, Problem
from nodeproof.runtime import threads
from nodeproof.terms.base import Term

__all__ = [
    "Charges",
    "Sweeper",
    "batch_rows",
    "cell_rows",
    "count_batches",
    "settled",
    "surpassed",
    "uninformative",
]


# Memberships this close to the class proportions, on average, are uninformative.
_NOTHING = 0.05
_SAMPLE = 20_000

# Where changes shrink to less than this share twice in a row, the remaining change can be
# predicted once they are within this many tolerances.
_FAST = 0.2
_NEAR = 3.0

# Memberships at rest show classes if the contrast is at least this share of that held.
_CLEAR = 0.5


def settled(changes: list[float], tol: float) -> bool:
    """Tell whether memberships change by at most `tol`, or are predicted to."""
    now = changes[-1]
    if now <= tol:
        return True
    if len(changes) < 3 or now > _NEAR * tol:
        return False
    before, last = changes[-3:-1]
    return last <= _FAST * before and now <= _FAST * last and now * now / (last - now) <= tol


def surpassed(begin: Affinity | None, estimated: Affinity | None, at_rest: bool) -> bool:
    """Tell whether the estimated contrast is as strong as the one held, of the same sign.

    If memberships are nearly `at_rest` under the one held, half of it is enough: further sweeps
    would change neither by much.
    """
    if begin is None or estimated is None:
        return begin is None
    if estimated.ell.shape[-1] > 1 and not at_rest:
        return False
    if begin.ell.shape == estimated.ell.shape and begin.ell.shape[-1] > 1:  # class by class
        held, now = (
            ell - ell.mean(axis=(-2, -1), keepdims=True) for ell in (begin.ell, estimated.ell)
        )
    else:
        held, now = _contrast(begin.ell), _contrast(estimated.ell)
    least = _CLEAR if at_rest else 1.0
    return bool(np.vdot(held, now) >= least * np.vdot(held, held))


def _contrast(ell: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean inside classes, less that between them; of several kinds, of each."""
    K = ell.shape[-1]
    if K == 1:
        return ell[..., 0, 0]
    inside = np.trace(ell, axis1=-2, axis2=-1)
    return np.asarray(inside / K - (ell.sum(axis=(-2, -1)) - inside) / (K * (K - 1)))


def uninformative(W: NDArray[Any], models: Models, labels: NDArray[np.int64] | None) -> bool:
    """Tell whether memberships of unlabelled nodes are no more than the class proportions.

    Of a large graph, an even sample of the nodes is used.
    """
    prior = np.exp(models.log_prior - np.logaddexp.reduce(models.log_prior))
    if len(prior) == 1:
        return False

    step = -(-len(W) // _SAMPLE)
    rows = W[::step]
    if labels is not None:
        rows = rows[labels[::step] < 0]
    if len(rows) == 0:
        return False
    # Class by class: the maximum over a short axis is slow.
    off = np.zeros(len(rows))
    for i, share in enumerate(prior):
        np.maximum(off, np.abs(rows[:, i] - share), out=off)
    return bool(off.mean() < _NOTHING)


Array = NDArray[np.float64]
Rows = NDArray[np.float32]

_NO_LINKS = Affinity(np.zeros((1, 1)), np.zeros((1, 1)))

# Nodes of a batch do not see each other move. Where a batch is as large as a class, all of it
# runs into the class that is smallest at the moment, and the next sweep back: fixed weights
# never settle (K = 10 with 16 batches: .09 instead of .94), calibrated ones end in worse places.
_BATCHES = 64
_BATCHES_PER_CLASS = 4

# Sums over the rows of a batch are taken cell by cell. Cells are small enough for a batch to be
# shared out, unless there are so many rows that large ones are, too.
_CELL = 512
_MANY_ROWS = 2**20

# Costs are computed for this many entries at a time: they stay in the cache.
_CHARGED = 2**17

# Batches of fewer products than this are not worth another thread.
_WORTH_SHARING = 100_000


def count_batches(n_classes: int) -> int:
    """Return the number of batches that the nodes are split into."""
    return max(_BATCHES, _BATCHES_PER_CLASS * n_classes)


def batch_rows(n_nodes: int, n_classes: int) -> int:
    """Return how many nodes are updated from the same state."""
    return -(-n_nodes // count_batches(n_classes))


def cell_rows(n_nodes: int) -> int:
    """Return the number of nodes in a cell, over which sums are taken at once."""
    return threads.ROWS if n_nodes >= _MANY_ROWS else _CELL


class Sweeper:
    """Holds the arrays that sweeps share, and runs them.

    Nodes of a batch are updated from the same state (Jacobi), batches one after the other
    (Gauss–Seidel). Batches and the order of all sums depend on n and K alone, so the result
    does not depend on the number of threads.

    Parameters
    ----------
    problem : Problem
        What to solve.
    n_batches : int, optional
        Number of batches; see :func:`count_batches`.
    """

    def __init__(self, problem: Problem, n_batches: int | None = None) -> None:
        n, K = problem.n_nodes, problem.n_classes
        self.problem = problem
        if problem.graph is not None and problem.graph.kinds and n_batches is None:
            n_batches = max(_BATCHES // 2, _BATCHES_PER_CLASS * K)  # each takes longer to begin
        self.batch = -(-n // n_batches) if n_batches else batch_rows(n, K)
        self.cell = cell_rows(n)
        self.new = np.empty((self.batch, K), dtype=np.float32)
        self.models: Models | None = None
        self._waiting: dict[int, tuple[Array, Rows]] = {}
        #: what kernels work with, by thread: made once, because there are hundreds of calls
        self._work: dict[int, tuple[NDArray[Any] | None, ...]] = {}
        #: ``μ1 ‖θ_i − θ_j‖``, shape (K, K); None without a sum of norms
        self.pull: Array | None = None
        graph = problem.graph
        #: kinds of links that are modelled apart: what they add goes into the costs
        self.kinds = () if graph is None else graph.kinds
        if graph is None or self.kinds or not problem.links_count:
            self.indptr = np.zeros(n + 1, dtype=np.int32)
            self.indices = np.zeros(0, dtype=np.int32)
            self.weights: NDArray[Any] = np.zeros(0, dtype=np.float32)
            self.eta = np.ones(n)
        else:
            self.indptr, self.indices = graph.indptr, graph.indices
            self.weights, self.eta = graph.weights, graph.eta
        # Whole batches, as many as are charged for at once.
        self.stretch = self.batch * max(1, _CHARGED // (self.batch * K))
        work = (len(self.indices) + n) * K * self.batch // n
        self.shared = work >= _WORTH_SHARING

    def batches(self, begin: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
        """Yield the ranges of nodes that are updated from the same state."""
        end = self.problem.n_nodes if end is None else end
        for first in range(begin, end, self.batch):
            yield first, min(first + self.batch, end)

    def workspace(self, thread: int) -> tuple[NDArray[Any] | None, ...]:
        """Return the arrays that `kernels.sweep_batches` works with on one of the threads."""
        if thread not in self._work:
            K = self.problem.n_classes
            self._work[thread] = *kernels.workspace(K), *kernels.lanes(K, self.batch)
        return self._work[thread]

    def charge(self, models: Models) -> None:
        """Set the class models that costs are computed from."""
        self.models = models
        for k, term in enumerate(self.problem.terms):
            if term.rounds is None or not self.problem.calibrated:
                continue
            theta = models.terms[k]
            if k not in self._waiting or self._waiting[k][0] is not theta:
                # They change only once memberships have settled, and are cached until then.

                def part(lo: int, hi: int, term: Term = term, theta: Array = theta) -> Rows:
                    return term.cost(theta, lo, hi).astype(np.float32)

                kept = threads.map_rows(part, self.problem.n_nodes)
                self._waiting[k] = (theta, np.concatenate(kept))
        self.pull = self.problem.pull(models)

    def costs(self, lo: int, hi: int, W: Rows | None = None) -> Array:
        """Return the costs of nodes lo…hi in each class, shape (hi − lo, K).

        Parameters
        ----------
        W : ndarray of shape (n, K), optional
            The memberships before the update, which a sum of norms needs: a node has no
            distance from itself.
        """
        costs = np.empty((hi - lo, self.problem.n_classes))
        self.write_costs(costs, lo, hi, W)
        return costs

    def write_costs(self, out: Array, lo: int, hi: int, W: Rows | None = None) -> None:
        """Write the same into an existing array."""
        assert self.models is not None
        self.problem.charge(out, self.models, lo, hi, skip=self._waiting.keys())
        for _, kept in self._waiting.values():
            out += kept[lo:hi]
        if self.pull is not None and W is not None:
            out -= W[lo:hi].astype(np.float64) @ self.pull

    def sweep(
        self,
        W: Rows,
        affinity: Affinity | None,
        log_prior: Array,
        temperature: float = 1.0,
        totals: Array | None = None,
    ) -> tuple[float, Array]:
        """Update the memberships of every node once, in place.

        With a sum of norms, class i costs ``h_i = μ1 Σ_j N_j ‖θ_i − θ_j‖`` more, N_j the class
        sizes; these too are updated after each batch.

        Parameters
        ----------
        totals : ndarray of shape (K,), optional
            ``Σ_v η_v W_vi``, where it is known.

        Returns
        -------
        change : float
            Mean over nodes of the largest change in their memberships.
        links : ndarray of the affinity's shape
            Link mass inside classes (or between each two), as seen during the sweep.
        """
        n = len(W)
        if affinity is None:
            affinity = _NO_LINKS
        shape, matrix = affinity.ell.shape, affinity.ell.shape[-1] > 1
        coupling = Coupling(self.kinds, affinity, W, self.batch) if self.kinds else None
        if coupling is not None:
            affinity, totals = _NO_LINKS, np.zeros(W.shape[1])
        elif totals is None:
            totals = RowSums.of(W, self.eta).totals
        pass_ = _Pass(self, W, affinity, log_prior, temperature, np.array(totals))
        pass_.coupling = coupling
        if self.pull is not None:
            pass_.sizes = threads.sum_rows(lambda lo, hi: W[lo:hi].sum(axis=0, dtype=np.float64), n)
        charges = Charges(self, W)
        for begin in range(0, n, self.stretch):
            end = min(begin + self.stretch, n)
            charges.advance(begin, end)
            pass_.solve(begin, end, charges)
        links = pass_.links
        if coupling is not None:
            # Memberships of the same moment: a kind that says nothing must not seem to.
            assert self.problem.graph is not None
            links = np.zeros(shape)
            if self.problem.links_count:
                links = kinds.link_mass(self.problem.graph, W, matrix)
        return float(pass_.changed[0]) / n, links


class Charges:
    """Costs of the nodes that are being updated.

    They are computed once, for whole ranges of ``threads.ROWS``: the last bits of a product
    depend on its number of rows, and must not depend on which thread computes it.

    Parameters
    ----------
    sweeper : Sweeper
        With class models set.
    W : ndarray of shape (n, K), or one-hot rows
        The memberships; none is updated before its costs are computed.
    """

    def __init__(self, sweeper: Sweeper, W: Any) -> None:
        n, K = W.shape
        self.sweeper, self.W = sweeper, W
        #: costs of nodes first…last
        self.costs = np.empty((min(n, sweeper.stretch + 2 * threads.ROWS), K))
        self.first = self.last = 0

    def advance(self, begin: int, end: int) -> None:
        """Compute the costs of nodes begin…end, given those of the nodes before them."""
        first = begin - begin % threads.ROWS
        kept = self.last - first
        self.costs[:kept] = self.costs[first - self.first : self.last - self.first]
        self.first = first

        def fill(lo: int, hi: int) -> None:
            self.sweeper.write_costs(self.costs[lo - first : hi - first], lo, hi, self.W)

        begin, n = self.last, len(self.W)
        self.last = min(-(-end // threads.ROWS) * threads.ROWS, n)
        if all(term.light for term in self.sweeper.problem.terms):  # less work than to share it
            for lo in range(begin, self.last, threads.ROWS):
                fill(lo, min(lo + threads.ROWS, self.last))
        else:
            threads.map_rows(fill, self.last, begin)


class _Pass:
    """One sweep under way, and the sums over its batches."""

    def __init__(
        self,
        sweeper: Sweeper,
        W: Rows,
        affinity: Affinity,
        log_prior: Array,
        temperature: float,
        totals: Array,
    ) -> None:
        K = W.shape[1]
        cells = -(-sweeper.batch // sweeper.cell) + 1
        self.sweeper, self.W, self.affinity = sweeper, W, affinity
        self.log_prior, self.temperature, self.totals = log_prior, temperature, totals
        self.sizes: Array | None = None
        self.coupling: Coupling | None = None
        self.old = np.zeros(K)
        self.changed, self.links = np.zeros(1), np.zeros_like(affinity.ell)
        self.moved = np.zeros((cells, K))
        self.mass = np.zeros((cells, *affinity.ell.shape))
        self.changes = np.zeros(cells)

    def solve(self, begin: int, end: int, charges: Charges) -> None:
        """Update the batches of nodes begin…end, given their costs."""
        if self.sizes is None and self.coupling is None:
            self._solve(begin, end, charges, self.log_prior)
            return
        for first, last in self.sweeper.batches(begin, end):
            if self.coupling is not None:
                self.coupling.charge(charges.costs, charges.first, first, last)
            log_prior = self.log_prior if self.sizes is None else self._pulled(first, last)
            self._solve(first, last, charges, log_prior)
            if self.coupling is not None:
                self.coupling.update(first, last)

    def _solve(self, begin: int, end: int, charges: Charges, log_prior: Array) -> None:
        sweeper, affinity = self.sweeper, self.affinity
        counter = np.zeros(1, dtype=np.int64)

        def work(thread: int, n_threads: int) -> None:
            kernels.sweep_batches(
                thread, n_threads, counter, begin, end, sweeper.batch, sweeper.cell,
                sweeper.indptr, sweeper.indices, sweeper.weights, sweeper.eta, self.W, self.totals,
                charges.costs, charges.first, log_prior, affinity.ell, affinity.ell_t,
                self.temperature, sweeper.new, self.moved, self.mass, self.changes, self.links,
                self.changed, True, *sweeper.workspace(thread),
            )  # fmt: skip

        if sweeper.shared:
            threads.together(work)
        else:
            work(0, 1)

    def _pulled(self, first: int, last: int) -> Array:
        """Return the offset of each class for a batch, given the current class sizes."""
        assert self.sizes is not None
        assert self.sweeper.pull is not None
        if first > 0:
            batch = self.sweeper.batch
            new = self.W[first - batch : first].sum(axis=0, dtype=np.float64)
            self.sizes = self.sizes - self.old + new
        self.old = self.W[first:last].sum(axis=0, dtype=np.float64)
        return np.asarray(self.log_prior - self.sweeper.pull @ self.sizes)
