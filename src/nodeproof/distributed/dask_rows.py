"""Rows on the workers of a Dask cluster: what a solver asks for, and what survives a loss."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from nodeproof import kernels
from nodeproof.affinity import Affinity
from nodeproof.distributed.layout import can_cut
from nodeproof.distributed.parts import act, place
from nodeproof.errors import InputError
from nodeproof.graph import RowSums
from nodeproof.problem import Models, Problem
from nodeproof.runtime import threads
from nodeproof.solvers.align import agreement

if TYPE_CHECKING:
    from nodeproof.distributed.dask import DaskEngine

__all__ = ["DaskRows", "WorkerLostError"]

Array = NDArray[np.float64]
T = TypeVar("T")


# Rows are fetched as a safeguard at most so often, in seconds; a loss costs the work since.
_ANCHOR_EVERY = 30.0


# So often a fit is taken up again after a loss, and so long it waits for a worker, in seconds.
_ATTEMPTS = 20


# After an error, so long a lost worker may take to be known as such, in seconds.
_CERTAINTY = 5.0


class WorkerLostError(Exception):
    """A worker that held a part is gone."""


class DaskRows:
    """The rows of one start on the workers; the methods of `LocalRows`, with the same results."""

    def __init__(self, engine: DaskEngine, W: NDArray[np.float32]) -> None:
        self.engine, self.problem = engine, engine.problem
        # The last rows that were fetched, and what was done since.
        self._anchor, self._since = W, []  # type: tuple[NDArray[np.float32], list[Any]]
        self._anchored = time.monotonic()
        self._states: list[Any] = []
        self._news: list[list[Any]] = []
        self._charged: dict[int, Array] = {}

    # What a solver asks for. ------------------------------------------------------------

    @property
    def W(self) -> DaskRows:
        """The rows, for callbacks: ``np.asarray`` fetches them."""
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.fetch(), dtype=dtype)

    def fit_terms(self, kept: tuple[Array, ...] | None, tol: float) -> tuple[Array, ...]:
        """Return the class models; what cannot be spread is fitted here, to the fetched rows."""
        problem = self.problem
        waits = kept is not None and problem.calibrated
        fitted = []
        for k, term in enumerate(problem.terms):
            if kept is not None and waits and term.rounds is not None:
                fitted.append(kept[k])
            elif can_cut(term, problem):
                fitted.append(term.estimate_from(self._add("term_sums", k)))
            else:
                return problem.fit_terms(self.fetch(), kept, tol)
        return tuple(fitted)

    def sums(self, matrix: bool = False) -> RowSums:
        """Return sums over the rows."""
        return RowSums.split(self._add("sums", matrix), self.problem.n_classes)

    def link_mass(self, matrix: bool = False) -> Array:
        """Return the link mass inside classes, or between each two."""
        return self._add("link_mass", matrix)

    def sweep(
        self, models: Models, temperature: float, totals: Array | None = None
    ) -> tuple[float, Array]:
        """Solve every row once, batch by batch."""
        if self.problem.son:
            raise InputError("a sum of norms is not worked on by a cluster: leave engine at None")
        if totals is None:
            totals = self.sums().totals
        return self._change(DaskRows._sweep, models, temperature, totals)

    def agreement(self, labels: NDArray[np.int64]) -> Array:
        """Return how much of each label each class holds, shape (K, K)."""
        for k, term in enumerate(self.problem.terms):
            if term.counts_labels and can_cut(term, self.problem):
                return self._add("term_sums", k)
        return agreement(self.fetch(), labels)

    def reorder(self, order: NDArray[np.int64]) -> None:
        """Let column i be what was column order[i]."""
        self._change(DaskRows._all, "reorder", order)

    def energy(self, models: Models, temperature: float) -> float:
        """Return what rows and terms add to the free energy, without the links."""
        problem = self.problem
        if not all(can_cut(term, problem) for term in problem.terms):
            return problem.row_energy(self.fetch(), models, temperature)
        return float(self._add("energy", models, temperature)[0]) + self.problem.penalty(models)

    def fetch(self) -> NDArray[np.float32]:
        """Return the rows, shape (n, K)."""
        parts = self._surely(lambda: self._all("fetch"))
        W = np.empty((self.problem.n_nodes, self.problem.n_classes), dtype=np.float32)
        layout = self.engine.layout
        for p, rows in enumerate(parts):
            for lo, hi, at in layout.held(p, 0, layout.n_nodes):
                W[lo:hi] = rows[at : at + hi - lo]
        self._anchor, self._since, self._anchored = W, [], time.monotonic()
        return W

    def assumed(self, labels: NDArray[np.int64] | None, look: bool) -> Affinity:
        """Return the affinity to begin with; see :meth:`nodeproof.affinity.Affinity.assumed`."""
        graph = self.problem.graph
        assert graph is not None
        masses = (self.link_mass(), self.sums().pairs) if look else None
        return Affinity.assumed(graph, labels, masses)

    # How the parts do it. ---------------------------------------------------------------

    def _surely(self, work: Callable[[], T]) -> T:
        """Do some work; after a loss, spread the rows anew, do again what is lost, and repeat."""
        ready = bool(self._states)
        for _ in range(_ATTEMPTS):
            try:
                if not ready:
                    self._begin()
                    ready = True
                return work()
            except InputError:
                raise
            except Exception as error:
                # What fails on a healthy cluster fails again: that is for the caller.
                if not self._is_loss(error):
                    raise
                ready, self._states, self._news = False, [], []
                self.engine.close()
        raise InputError(
            f"workers of the Dask cluster were lost {_ATTEMPTS} times; the fit is given up"
        )

    def _is_loss(self, error: Exception) -> bool:
        """Tell whether an error is due to a lost worker."""
        if isinstance(error, _losses()) or self.engine.lost:
            return True
        # The scheduler may hear of a loss later than we do.
        deadline = time.monotonic() + _CERTAINTY
        while isinstance(error, OSError) and time.monotonic() < deadline:
            time.sleep(0.1)
            if self.engine.lost:
                return True
        return False

    def _begin(self) -> None:
        """Bring the parts to where the rows were: the last ones fetched, and what came after."""
        engine = self.engine
        if not engine.parts:
            engine.spread()
        layout = engine.layout
        self._charged = {}
        self._states, self._news = [], [[] for _ in engine.homes]
        told = []
        for p, home in enumerate(engine.homes):
            rows = [self._anchor[lo:hi] for lo, hi in layout.ranges(p)]
            sent = engine.client.scatter(
                np.concatenate([self._anchor[:0], *rows]), workers=[home], hash=False
            )
            done = engine._submit(home, place, engine.parts[p], sent)
            self._states.append(done)
            told.append(engine._submit(home, attrgetter("piece"), done))
        self._tell(dict(enumerate(told)))
        for work, arguments in self._since:
            work(self, *arguments)

    def _tell(self, pieces: dict[int, Any]) -> None:
        for p, piece in pieces.items():
            for q, news in enumerate(self._news):
                if q != p:
                    news.append(piece)

    def _order(self, p: int, action: str, *arguments: Any) -> Any:
        """Let a part do something; return what it will have done."""
        home = self.engine.homes[p]
        done = self.engine._submit(home, act, self._states[p], self._news[p], action, *arguments)
        self._states[p], self._news[p] = done, []
        return done

    def _act(self, parts: Iterable[int], action: str, *arguments: Any) -> list[Any]:
        """Let parts do something; return their answers, in this order."""
        engine = self.engine
        pieces, answers = {}, []
        for p in parts:
            home = engine.homes[p]
            done = self._order(p, action, *arguments)
            answers.append(engine._submit(home, attrgetter("answer"), done))
            if action == "sweep":
                pieces[p] = engine._submit(home, attrgetter("piece"), done)
        found = engine.gather(answers)
        self._tell(pieces)
        return found

    def _all(self, action: str, *arguments: Any) -> list[Any]:
        return self._act(range(len(self._states)), action, *arguments)

    def _add(self, action: str, *arguments: Any) -> Array:
        """Return what all parts found for each range, added up in the order of the ranges."""

        def work() -> Array:
            found = [entry for answer in self._all(action, *arguments) for entry in answer]
            total, *rest = (array for _, array in sorted(found, key=lambda entry: entry[0]))
            total = np.array(total)
            for array in rest:
                total += array
            return total

        return self._surely(work)

    def _charge(self, models: Models) -> None:
        """Send the parts what terms charge that they cannot work out themselves."""
        problem, layout = self.problem, self.engine.layout
        for k, term in enumerate(problem.terms):
            theta = models.terms[k]
            if can_cut(term, problem) or self._charged.get(k) is theta:
                continue
            waiting = problem.calibrated and term.rounds is not None
            others = [j for j in range(len(problem.terms)) if j != k]
            costs = np.concatenate(
                threads.map_rows(partial(_term_costs, problem, models, others), problem.n_nodes)
            )
            if waiting:
                costs = costs.astype(np.float32)
            for p in range(layout.n_parts):
                rows = [costs[lo:hi] for lo, hi in layout.ranges(p)]
                self._order(p, "charge", k, np.concatenate([costs[:0], *rows]))
            self._charged[k] = theta

    def _sweep(self, models: Models, temperature: float, totals: Array) -> tuple[float, Array]:
        self._charge(models)
        layout = self.engine.layout
        for p in range(layout.n_parts):
            self._order(p, "adopt", models)
        totals = np.array(totals)
        shape = (1, 1) if models.affinity is None else models.affinity.ell.shape
        links, change = np.zeros(shape), 0.0
        for first in range(0, layout.n_nodes, layout.batch):
            last = min(first + layout.batch, layout.n_nodes)
            holders = layout.holders(first, last)
            answers = self._act(holders, "sweep", first, last, temperature, totals)
            runs = sorted((run for answer in answers for run in answer), key=lambda run: run[0])
            moved, mass, changes = (np.concatenate([run[k] for run in runs]) for k in (1, 2, 3))
            totals = totals.copy()  # the old ones may still be on their way
            change += kernels.take_cells(len(changes), moved, mass, changes, totals, links)
        return change / layout.n_nodes, links

    def _change(self, work: Callable[..., T], *arguments: Any) -> T:
        """Let the parts change rows, and keep it in mind or fetch them, if that is long ago."""
        found = self._surely(lambda: work(self, *arguments))
        # Methods that are not bound: a cycle would keep the rows on the workers for longer.
        self._since.append((work, arguments))
        if time.monotonic() - self._anchored > _ANCHOR_EVERY:
            self.fetch()
        return found


def _term_costs(problem: Problem, models: Models, others: list[int], lo: int, hi: int) -> Array:
    return problem.costs(models, lo, hi, others)


def _losses() -> tuple[type[Exception], ...]:
    """Return what a lost worker makes itself known by."""
    from distributed import KilledWorker
    from distributed.comm.core import CommClosedError

    return (WorkerLostError, KilledWorker, CommClosedError, CancelledError)
