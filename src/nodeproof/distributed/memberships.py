"""Memberships on the workers of a Dask cluster, and how they survive the loss of a worker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from nodeproof import kernels
from nodeproof.affinity import Affinity
from nodeproof.distributed.exchange import Peers, WorkerLostError
from nodeproof.distributed.layout import can_cut
from nodeproof.distributed.worker import act, place
from nodeproof.errors import InputError
from nodeproof.graph import RowSums
from nodeproof.problem import Models, Problem
from nodeproof.runtime import threads
from nodeproof.solvers.base import agreement
from nodeproof.solvers.memberships import OneHot
from nodeproof.storage.row_files import FileRows, MembershipFiles
from nodeproof.terms.summable import cut_rows

if TYPE_CHECKING:
    from nodeproof.distributed.engine import DaskWorkspace

__all__ = ["DaskMemberships"]

Array = NDArray[np.float64]
T = TypeVar("T")


# Seconds between two backups of the memberships; a loss costs the work since the last one.
_BACKUP_EVERY = 30.0

# Losses of workers that a fit survives.
_ATTEMPTS = 20

# Seconds after an error within which a lost worker is noticed.
_CERTAINTY = 5.0


class DaskMemberships:
    """The memberships of one start on the workers; as `LocalMemberships`, with the same results.

    Parameters
    ----------
    workspace : DaskWorkspace
        Their problem.
    W : ndarray of shape (n, K), or OneHot
        Memberships to start from.
    """

    def __init__(self, workspace: DaskWorkspace, W: NDArray[np.float32] | OneHot) -> None:
        self.workspace, self.problem = workspace, workspace.problem
        # The memberships fetched last, and what was done since.
        self._backup, self._since = W, []  # type: tuple[Any, list[Any]]
        self._backed_up = time.monotonic()
        self._states: list[Any] = []
        self._turn = 0
        self._charged: dict[int, Array] = {}

    # What a solver needs. ------------------------------------------------------------

    @property
    def W(self) -> DaskMemberships:
        """The memberships, for callbacks: ``np.asarray`` fetches them."""
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.fetch(), dtype=dtype)

    def fit_terms(self, kept: tuple[Array, ...] | None, tol: float) -> tuple[Array, ...]:
        """Return the class models; terms that cannot be distributed are fitted on this machine."""
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

    def term_sums(self) -> None:
        """Return nothing: updates start from memberships on this machine."""

    def sums(self, matrix: bool = False) -> RowSums:
        """Return sums over the memberships."""
        return RowSums.split(self._add("sums", matrix), self.problem.n_classes)

    def link_mass(self, matrix: bool = False) -> Array:
        """Return the link mass inside classes, or between each pair of them."""
        return self._add("link_mass", matrix)

    def sweep(
        self, models: Models, temperature: float, totals: Array | None = None
    ) -> tuple[float, Array]:
        """Update the memberships of every node once, batch by batch."""
        if self.problem.son:
            raise InputError("a cluster does not support a sum of norms: leave engine at None")
        if totals is None:
            totals = self.sums().totals
        return self._change(DaskMemberships._sweep, models, temperature, totals)

    def agreement(self, labels: NDArray[np.int64]) -> Array:
        """Return how much of each label each class holds, shape (K, K)."""
        for k, term in enumerate(self.problem.terms):
            if term.counts_labels and can_cut(term, self.problem):
                return self._add("term_sums", k)
        return agreement(self.fetch(), labels)

    def reorder(self, order: NDArray[np.int64]) -> None:
        """Reorder the columns: column i becomes what column order[i] was."""
        self._change(DaskMemberships._all, "reorder", order)

    def energy(self, models: Models, temperature: float) -> float:
        """Return the free energy without the links."""
        problem = self.problem
        if not all(can_cut(term, problem) for term in problem.terms):
            return problem.row_energy(self.fetch(), models, temperature)
        return float(self._add("energy", models, temperature)[0]) + self.problem.penalty(models)

    def fetch(self) -> NDArray[np.float32]:
        """Return the memberships, shape (n, K): mapped from a file that the workers have written.

        Without a folder for such files they are sent here.
        """
        W = self._gather() if self.workspace.files is None else self._save(self.workspace.files)
        self._backup, self._since, self._backed_up = W, [], time.monotonic()
        return W

    def _save(self, files: MembershipFiles) -> NDArray[np.float32]:
        W = files.create()
        self._surely(lambda: self._all("write", str(W.filename)))
        files.keep(W)
        return W

    def _gather(self) -> NDArray[np.float32]:
        parts = self._surely(lambda: self._all("fetch"))
        W = np.empty((self.problem.n_nodes, self.problem.n_classes), dtype=np.float32)
        layout = self.workspace.layout
        for p, rows in enumerate(parts):
            for lo, hi, at in layout.held(p, 0, layout.n_nodes):
                W[lo:hi] = rows[at : at + hi - lo]
        return W

    def assumed(self, labels: NDArray[np.int64] | None, look: bool) -> Affinity:
        """Return the affinity to begin with; see :meth:`nodeproof.affinity.Affinity.assumed`."""
        graph = self.problem.graph
        assert graph is not None
        masses = (self.link_mass(), self.sums().pairs) if look else None
        return Affinity.assumed(graph, labels, masses)

    # How the parts do it. ---------------------------------------------------------------

    def _surely(self, work: Callable[[], T]) -> T:
        """Do some work; after a loss, restore the memberships on other workers, and retry."""
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
                # An error on a healthy cluster would only occur again: the caller must know.
                if not self._is_loss(error):
                    raise
                ready, self._states = False, []
                self.workspace.release()
        raise InputError(
            f"workers of the Dask cluster were lost {_ATTEMPTS} times; the fit was abandoned"
        )

    def _is_loss(self, error: Exception) -> bool:
        """Tell whether an error is due to a lost worker."""
        # The scheduler may notice a loss later than we or the other workers do.
        deadline = time.monotonic() + _CERTAINTY
        surely = isinstance(error, _losses())
        while not self.workspace.lost:
            if not (surely or isinstance(error, OSError)) or time.monotonic() > deadline:
                return surely
            time.sleep(0.1)
        return True

    def _begin(self) -> None:
        """Bring the parts to the current state: the last backup, and what was done since."""
        workspace = self.workspace
        if not workspace.parts:
            workspace.spread()
        self._charged = {}
        key, peers = uuid4().hex, Peers(workspace.homes)
        self._states = []
        for p, home in enumerate(workspace.homes):
            rows = _cut(self._backup, workspace.layout.ranges(p))
            sent = workspace.client.scatter(rows, workers=[home], hash=False)
            self._states.append(workspace.submit(home, place, workspace.parts[p], sent, key, peers))
        workspace.wait(self._states)  # the first to act will ask the others
        for work, arguments in self._since:
            work(self, *arguments)

    def _next_turn(self) -> int:
        self._turn += 1
        return self._turn

    def _order(self, p: int, action: str, *arguments: Any) -> Any:
        """Submit an action of a part; return its future."""
        home = self.workspace.homes[p]
        self._states[p] = self.workspace.submit(home, act, self._states[p], action, *arguments)
        return self._states[p]

    def _act(self, parts: Iterable[int], action: str, *arguments: Any) -> list[Any]:
        """Let parts perform an action; return their answers, in this order."""
        answers = []
        for p in parts:
            done = self._order(p, action, *arguments)
            home = self.workspace.homes[p]
            answers.append(self.workspace.submit(home, attrgetter("answer"), done))
        return self.workspace.gather(answers)

    def _all(self, action: str, *arguments: Any) -> list[Any]:
        return self._act(range(len(self._states)), action, *arguments)

    def _add(self, action: str, *arguments: Any) -> Array:
        """Return the sum of what all parts found for each range, in the order of the ranges."""

        def work() -> Array:
            # After a loss, what was done since the backup has been repeated, in later turns.
            turn = (self._next_turn(),) if action == "link_mass" else ()
            found = [entry for answer in self._all(action, *turn, *arguments) for entry in answer]
            total, *rest = (array for _, array in sorted(found, key=lambda entry: entry[0]))
            total = np.array(total)
            for array in rest:
                total += array
            return total

        return self._surely(work)

    def _charge(self, models: Models) -> None:
        """Send the parts the costs of terms that they cannot compute themselves."""
        problem, layout = self.problem, self.workspace.layout
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
        layout = self.workspace.layout
        for p in range(layout.n_parts):
            self._order(p, "adopt", models)
        totals = np.array(totals)
        shape = (1, 1) if models.affinity is None else models.affinity.ell.shape
        links, change = np.zeros(shape), 0.0
        for first in range(0, layout.n_nodes, layout.batch):
            last = min(first + layout.batch, layout.n_nodes)
            holders = layout.holders(first, last)
            answers = self._act(
                holders, "sweep", self._next_turn(), first, last, temperature, totals
            )
            runs = sorted((run for answer in answers for run in answer), key=lambda run: run[0])
            moved, mass, changes = (np.concatenate([run[k] for run in runs]) for k in (1, 2, 3))
            totals = totals.copy()  # the old ones may still be in transit
            change += kernels.take_cells(len(changes), moved, mass, changes, totals, links)
        return change / layout.n_nodes, links

    def _change(self, work: Callable[..., T], *arguments: Any) -> T:
        """Let the parts change memberships; record it, or fetch them if the backup is old."""
        found = self._surely(lambda: work(self, *arguments))
        # Unbound methods: a reference cycle would keep the memberships on the workers for longer.
        self._since.append((work, arguments))
        if time.monotonic() - self._backed_up > _BACKUP_EVERY:
            self.fetch()
        return found


def _cut(W: NDArray[Any] | OneHot, ranges: list[tuple[int, int]]) -> Any:
    """Return memberships of some nodes; those in a file are read by whoever gets them."""
    if isinstance(W, OneHot):
        return OneHot(cut_rows(W.labels, ranges), W.shape[1])
    return FileRows.of(W, ranges) or cut_rows(W, ranges)


def _term_costs(problem: Problem, models: Models, others: list[int], lo: int, hi: int) -> Array:
    return problem.costs(models, lo, hi, others)


def _losses() -> tuple[type[Exception], ...]:
    """Return the errors that a lost worker causes."""
    from distributed import KilledWorker
    from distributed.comm.core import CommClosedError

    return (WorkerLostError, KilledWorker, CommClosedError, CancelledError)
