"""Block CADO: the default solver."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nodeproof.affinity import Affinity
from nodeproof.errors import InputError
from nodeproof.problem import Models, Problem
from nodeproof.runtime import threads
from nodeproof.solvers.base import (
    MOST_STARTS,
    Callback,
    Progress,
    Result,
    Status,
    are_named,
    best_first,
    best_match,
    check_at_least,
    check_count,
)
from nodeproof.solvers.checkpoint import Checkpoint, Saved, Session, fingerprint
from nodeproof.solvers.kind_starts import informative, with_better_names
from nodeproof.solvers.memberships import Engine, LocalWorkspace, Workspace
from nodeproof.solvers.starts import STARTS, Disposable, choose_starts, promising_starts
from nodeproof.solvers.sums import Sums
from nodeproof.solvers.sweep import settled, surpassed, uninformative

__all__ = ["BlockCADO"]

Array = NDArray[np.float64]
Rows = NDArray[np.float32]

# Statuses of solves that can be resumed.
_CUT_OFF = (Status.STOPPED, Status.INTERRUPTED)

# Tolerance of the biased centroids between two sweeps; they never get worse.
_SWEEP_TOL = 1e-4

# Memberships that change by fewer tolerances than this are nearly at rest.
_AT_REST = 10.0


@dataclass(frozen=True)
class BlockCADO:
    """Minimise the free energy by updating nodes in blocks, each given all others.

    Per sweep: (a) every term turns its class models into costs; (b) batch by batch,

        cost_vi = −ℓ·(Σ_u A_uv W_ui − t·η_v·(Σ_u η_u W_ui − η_v W_vi)) + C[v, i] − log π_i
                  + μ1 Σ_j (N_j − W_vj) ‖θ_i − θ_j‖
        W_v     = softmax(−cost_v / T)

    (T = 0: one-hot at the minimum); (c) class models, affinities and proportions are
    re-estimated from W. At the end of each start its classes are matched with the labels; of
    several starts the one of least free energy is kept.

    With a sum of norms (`Problem.son` = μ1; N_j = Σ_v W_vj) class models are biased centroids,
    and there may be more classes than are wanted: some are left without nodes, and the models
    of others coincide. ``result.models.groups[result.W.argmax(axis=1)]`` says which nodes share a
    model, and its different values count them.

    Parameters
    ----------
    temperature : float
        T ≥ 0.
    n_init : int or "auto"
        Number of starts; "auto" takes several only where that is cheap.
    max_iter : int
        Most sweeps of one start.
    tol : float
        Stop when memberships change by less, on average over the nodes, or are predicted to
        where changes shrink fast from sweep to sweep.
    hold : int
        For at most this many sweeps, calibrated weights keep the initial ℓ (log 2, or an
        estimate from links among labelled nodes) and a uniform prior, until the estimate is as
        strong, or half as strong once memberships change little. Estimated from memberships that
        have not settled, ℓ would vanish and W stay uniform.
    affinities : {"scalar", "matrix"}
        One pair (ℓ, t), or one for each pair of classes; calibrated weights only.
    n_jobs : int, optional
        Threads; by default every core, or as many as OMP_NUM_THREADS says. The result does not
        depend on it.
    random_state : int, optional
        Seed of the starts.
    engine : Engine, optional
        Where memberships are worked on, such as :class:`nodeproof.distributed.DaskEngine`; this
        machine by default. The result does not depend on it.
    checkpoint : Checkpoint, optional
        Where the state is saved periodically, and from which an interrupted solve resumes: it
        ends with the same bits.

    Examples
    --------
    >>> from nodeproof import Problem, datasets, solvers, terms
    >>> from nodeproof.graph import Graph
    >>> data = datasets.make_planted(p=0.3, cluster_size=50, random_state=0)
    >>> nodes = terms.NodeData(n_classes=3, X=data.X, y=data.y)
    >>> bound = [terms.Covariance().bind(nodes), terms.Labels().bind(nodes)]
    >>> problem = Problem(Graph(data.graph), bound, n_classes=3)
    >>> result = solvers.BlockCADO(random_state=0).solve(problem)
    >>> str(result.status), float((result.W.argmax(axis=1) == data.y_true).mean())
    ('converged', 1.0)
    """

    temperature: float = 1.0
    n_init: int | Literal["auto"] = "auto"
    max_iter: int = 300
    tol: float = 1e-3
    hold: int = 15
    affinities: Literal["scalar", "matrix"] = "scalar"
    n_jobs: int | None = None
    random_state: int | None = None
    engine: Engine | None = None
    checkpoint: Checkpoint | None = None

    def __post_init__(self) -> None:
        check_count("max_iter", self.max_iter)
        if self.n_init != "auto":
            check_count("n_init", self.n_init, MOST_STARTS)
        if self.affinities not in ("scalar", "matrix"):
            raise InputError(f"affinities must be 'scalar' or 'matrix', got {self.affinities!r}")
        check_at_least("temperature", self.temperature, 0.0)
        check_at_least("tol", self.tol, 0.0)
        if not (self.engine is None or isinstance(self.engine, Engine)):
            raise InputError(
                "engine must be None (this machine) or an engine such as "
                f"nodeproof.distributed.DaskEngine(client), got {self.engine!r}"
            )

    def solve(
        self,
        problem: Problem,
        start: NDArray[Any] | Disposable | str | None = None,
        callback: Callback | None = None,
    ) -> Result:
        """Return the best solution over the starts.

        Parameters
        ----------
        problem : Problem
            What to solve.
        start : ndarray of shape (n, K) or str, optional
            Memberships to start from, or the name of a start ("random", "labels", "features",
            "spectral", "opposed"), instead of several.
        callback : callable, optional
            Called after every sweep; a true answer stops the solver with the current result.
        """
        if isinstance(start, str) and start not in STARTS:
            raise InputError(f"start must be one of {', '.join(STARTS)}, got {start!r}")
        with threads.using(self.n_jobs):
            workspace = self.engine.open(problem) if self.engine else LocalWorkspace(problem)
            try:
                return _Solve(self, problem, workspace, callback).run(start)
            finally:
                workspace.close()
                if self.checkpoint is not None and not self.checkpoint.until_written:
                    self.checkpoint.close()


class _Solve:
    """One solve under way."""

    def __init__(
        self,
        solver: BlockCADO,
        problem: Problem,
        workspace: Workspace,
        callback: Callback | None,
    ) -> None:
        self.solver, self.problem, self.workspace = solver, problem, workspace
        self.callback, self.checkpoint = callback, solver.checkpoint
        self.matrix = problem.calibrated and (solver.affinities == "matrix" or problem.directed)
        #: results of the starts so far
        self.done: list[Result] = []
        self.run_number = 0
        self.starts: list[Any] = []
        self.rng = np.random.default_rng(solver.random_state)
        self.before: Result | None = None  # the previous round of the current run

    def run(self, start: NDArray[Any] | Disposable | str | None) -> Result:
        """Return the best result over the starts."""
        solver, problem = self.solver, self.problem
        self.starts = [start] if start is not None else choose_starts(problem, self.solver.n_init)
        spare = [] if start is not None else [*promising_starts(problem), "random"]
        saved = self._resume(start)
        if saved is None and self.done:
            return self._best()
        while self.run_number < len(self.starts):
            given = self.starts[self.run_number]
            self.run_number += 1
            named = isinstance(given, str)
            if saved is None:
                self.before = None
                W = self.workspace.start(given, self.rng)
            else:
                W = saved.W
            # Such a start is more informative about links than a few labelled nodes.
            telling = named and given in ("spectral", "features", "opposed")
            known = None if telling else problem.labels
            # Memberships by the labels alone are no more informative about links than these.
            look = not (named and given == "labels")
            result = self._alternate(W, known, look, saved)
            saved = None
            best = self._keep(with_better_names(solver, problem, result) if named else result)
            if result.status in _CUT_OFF:
                return replace(best, status=result.status)
            last = self.run_number == len(self.starts)
            if last and uninformative(best.W, best.models, problem.labels):
                # Few labels in a large graph may not reach far: try another start as well.
                self.starts += [name for name in spare if name not in self.starts][:1]
        if self.checkpoint is not None:
            self._save(None)
        return self._best()

    def _best(self) -> Result:
        best, *others = self.done
        return replace(best, alternatives=tuple(others))

    def _keep(self, result: Result) -> Result:
        """Keep the result of a start if it may be needed, and return the best one so far."""
        self.done = informative(self.problem, [*self.done, result])
        if self.solver.temperature == 1.0 and self.problem.calibrated:
            self.done = best_first(self.done, are_named(self.problem))
        else:
            self.done = [min(self.done, key=lambda result: result.value)]
        return self.done[0]

    def _alternate(
        self, W: Rows, known: NDArray[np.int64] | None, look: bool, saved: Saved | None
    ) -> Result:
        """Descend, and again after each re-fit of the terms that wait for it."""
        result = self.before
        done = 0 if saved is None else saved.round_number
        for round_number in range(done, self.problem.rounds + 1):
            self.before = result
            try:
                again = self._descend(W, known, look, round_number, saved)
            except KeyboardInterrupt:
                if result is None:
                    raise
                return replace(result, status=Status.INTERRUPTED)
            saved = None
            if result is not None:
                past = result.history
                history = {key: past.get(key, []) + steps for key, steps in again.history.items()}
                again = replace(again, n_iter=result.n_iter + again.n_iter, history=history)
            result = again
            if result.status in _CUT_OFF:
                break
            W = result.W.copy() if round_number < self.problem.rounds else W
        assert result is not None
        return result

    def _descend(
        self,
        W: Rows,
        known: NDArray[np.int64] | None,
        look: bool,
        round_number: int,
        saved: Saved | None,
    ) -> Result:
        solver, problem, matrix = self.solver, self.problem, self.matrix
        graph = problem.graph
        temperature = float(solver.temperature)  # of an int, loops would be compiled once more
        hard = temperature == 0 and not (problem.son or (graph and graph.kinds))
        rows = self.workspace.place(W, hard)
        at = saved or self._begin(rows, known, look, round_number)
        models, held, history = at.models, at.held, at.history
        status, iteration, totals = Status.MAX_ITER, at.iteration, None
        try:
            for iteration in range(at.iteration + 1, solver.max_iter + 1):
                change, links = rows.sweep(models, temperature, totals)
                history["change"].append(change)
                if models.affinity is not None and models.affinity.ell.shape == (1, 1):
                    history["ell"].append(float(models.affinity.ell[0, 0]))
                if self.callback and self.callback(
                    Progress(iteration, self.run_number, len(self.starts), change, rows.W)
                ):
                    status = Status.STOPPED
                    break
                if not held and settled(history["change"], solver.tol):
                    status = Status.CONVERGED
                    break
                models = replace(models, terms=rows.fit_terms(models.terms, _SWEEP_TOL))
                sums = rows.sums(matrix)
                totals = sums.totals
                if problem.calibrated:
                    affinity = None
                    if graph:
                        if matrix and links.shape[-2:] == (1, 1):
                            links = rows.link_mass(matrix)
                        affinity = problem.fit_affinity(links, sums.pairs)
                    at_rest = change <= _AT_REST * solver.tol
                    if iteration >= solver.hold or surpassed(at.begin, affinity, at_rest):
                        held = False
                    if not held:
                        log_prior = problem.fit_log_prior(sums.sizes)
                        models = Models(affinity, models.terms, log_prior)
                if self.checkpoint is not None and self.checkpoint.due():
                    now = replace(at, models=models, held=held, iteration=iteration)
                    self._save(replace(now, W=rows.fetch()))
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        terms = models.terms
        if problem.labels is not None and (problem.labels >= 0).any():
            order = best_match(rows.agreement(problem.labels))
            if not (order == np.arange(len(order))).all():
                rows.reorder(order)
                terms = tuple(theta[order] for theta in terms)
        models, value, sums_of = self._judge(rows, terms)
        found = rows.fetch(), models, value, status, iteration, dict(history)
        return Result(*found, sums=sums_of)

    def _begin(
        self, rows: Any, known: NDArray[np.int64] | None, look: bool, round_number: int
    ) -> Saved:
        """Return the state before the first sweep."""
        problem, graph, before = self.problem, self.problem.graph, self.before
        terms = rows.fit_terms(None, _SWEEP_TOL)
        models = Models(None, terms, np.zeros(problem.n_classes))
        if before is not None:
            models = replace(before.models, terms=models.terms)
        held = problem.calibrated and self.solver.hold > 0 and before is None
        begin = None
        if graph and held:
            begin = rows.assumed(known, look).times(problem.trust)
        if graph and before is None:
            models = replace(models, affinity=begin or self._fit_affinity(rows))
        empty = np.zeros((0, problem.n_classes), dtype=np.float32)
        return Saved(round_number, 0, models, held, begin, defaultdict(list), empty)

    def _fit_affinity(self, rows: Any) -> Affinity | None:
        if not self.problem.calibrated:
            return self.problem.fixed_affinity()
        return self.problem.fit_affinity(rows.link_mass(self.matrix), rows.sums(self.matrix).pairs)

    def _judge(self, rows: Any, kept: tuple[Array, ...]) -> tuple[Models, float, Sums | None]:
        """Return the best models for the memberships, the free energy, and sums if they tell."""
        problem, temperature = self.problem, float(self.solver.temperature)
        sums, links = rows.sums(self.matrix), None
        calibrated, zeros = problem.calibrated, np.zeros(problem.n_classes)
        log_prior = problem.fit_log_prior(sums.sizes) if calibrated else zeros
        affinity = None if calibrated else problem.fixed_affinity()
        if problem.graph:
            links = rows.link_mass(self.matrix)
            affinity = problem.fit_affinity(links, sums.pairs) if calibrated else affinity
        told = rows.term_sums() if temperature == 1.0 else None
        terms = rows.fit_terms(kept, 1e-8) if told is None else problem.terms_from(told)
        models = Models(affinity, terms, log_prior)
        value = energy = rows.energy(models, temperature)
        if affinity is not None and links is not None:
            value += affinity.energy(links, sums.pairs)
        told_all = told is not None and (problem, models, links, sums, told, energy)
        return models, value, Sums.of_energy(*told_all) if told_all else None

    # Checkpoints. -----------------------------------------------------------------------

    def _resume(self, start: NDArray[Any] | Disposable | str | None) -> Saved | None:
        """Restore what was saved, if anything was; of a finished solve, the best results."""
        if self.checkpoint is None:
            return None
        # These settings do not change the result.
        settings = replace(self.solver, engine=None, n_jobs=None, checkpoint=None)
        self.checkpoint.purpose = f"{settings} of {fingerprint(self.problem, start)}"
        session = self.checkpoint.load()
        if session is None:
            return None
        names = self._start_names()
        shape = (self.problem.n_nodes, self.problem.n_classes)
        rows = [part.W.shape for part in (session.now, *session.done) if part is not None]
        if session.starts[: len(names)] != names or any(found != shape for found in rows):
            raise InputError(
                f"{self.checkpoint.path} was saved by a solve from other starts: remove it, or "
                "give another folder"
            )
        self.starts += session.starts[len(names) :]
        self.run_number = session.run_number - 1
        self.done, self.before = session.done, session.before
        try:
            self.rng.bit_generator.state = session.rng_state
        except (TypeError, ValueError, KeyError, OverflowError):
            raise InputError(
                f"{self.checkpoint.path} has no state of a generator: remove it"
            ) from None
        return session.now

    def _save(self, now: Saved | None) -> None:
        assert self.checkpoint is not None
        names, drawn = self._start_names(), dict(self.rng.bit_generator.state)
        self.checkpoint.save(Session(self.run_number, names, drawn, self.done, self.before, now))

    def _start_names(self) -> list[str | None]:
        return [start if isinstance(start, str) else None for start in self.starts]
