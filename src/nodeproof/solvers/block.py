"""Block CADO: the default solver."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nodeproof import threads
from nodeproof.errors import InputError
from nodeproof.graph import Affinity
from nodeproof.problem import Models, Problem
from nodeproof.solvers.align import match_labels
from nodeproof.solvers.base import (
    Callback,
    Progress,
    Result,
    Status,
    check_at_least,
    check_count,
)
from nodeproof.solvers.starts import STARTS, choose_starts, promising_starts
from nodeproof.solvers.sweep import Sweeper

__all__ = ["BlockCADO", "says_nothing"]

Rows = NDArray[np.float32]

# Rows this close to the class proportions, on average, have learnt nothing.
_NOTHING = 0.05
_SAMPLE = 50_000

# Between two sweeps, biased centroids are found to so much; they never get worse.
_SWEEP_TOL = 1e-4


@dataclass(frozen=True)
class BlockCADO:
    """Minimise the free energy by visiting rows in blocks and solving each given the others.

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
        Stop when the rows change by less, on average over the nodes.
    hold : int
        For at most so many sweeps, calibrated weights keep the ℓ they began with (log 2, or
        what links among labelled nodes say) and a uniform prior, unless the estimate is as
        strong before. Estimated from rows that have not settled, ℓ would vanish and W stay
        uniform.
    affinities : {"scalar", "matrix"}
        One pair (ℓ, t), or one for each two classes; calibrated weights only.
    n_jobs : int, optional
        Threads; by default every core, or as many as OMP_NUM_THREADS says. The result does not
        depend on it.
    random_state : int, optional
        Seed of the starts.

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

    def __post_init__(self) -> None:
        check_count("max_iter", self.max_iter)
        if self.n_init != "auto":
            check_count("n_init", self.n_init)
        if self.affinities not in ("scalar", "matrix"):
            raise InputError(f"affinities must be 'scalar' or 'matrix', got {self.affinities!r}")
        check_at_least("temperature", self.temperature, 0.0)
        check_at_least("tol", self.tol, 0.0)

    def solve(
        self,
        problem: Problem,
        start: NDArray[Any] | str | None = None,
        callback: Callback | None = None,
    ) -> Result:
        """Return the best solution over the starts.

        Parameters
        ----------
        problem : Problem
            What to solve.
        start : ndarray of shape (n, K) or str, optional
            Rows to start from, or the name of a start ("random", "labels", "features",
            "spectral", "opposed"), instead of several.
        callback : callable, optional
            Told after every sweep; a true answer ends the solve with what there is.
        """
        if isinstance(start, str) and start not in STARTS:
            raise InputError(f"start must be one of {', '.join(STARTS)}, got {start!r}")
        rng = np.random.default_rng(self.random_state)
        starts: list[Any] = [start] if start is not None else choose_starts(problem, self.n_init)
        spare = [] if start is not None else [*promising_starts(problem), "random"]
        best: Result | None = None
        run = 0
        with threads.using(self.n_jobs):
            sweeper = Sweeper(problem)
            while run < len(starts):
                given, run = starts[run], run + 1
                named = isinstance(given, str)
                W = STARTS[given](problem, rng) if named else _as_rows(given, problem)
                # Such a start says more about links than those among a few labelled nodes.
                telling = named and given in ("spectral", "features", "opposed")
                known = None if telling else problem.labels
                result = self._alternate(sweeper, W, known, callback, run, len(starts))
                if best is None or result.value < best.value:
                    best = result
                if result.status in (Status.STOPPED, Status.INTERRUPTED):
                    best = replace(best, status=result.status)
                    break
                if run == len(starts) and says_nothing(best.W, best.models, problem.labels):
                    # Few labels in a large graph may not reach far: begin elsewhere as well.
                    starts += [name for name in spare if name not in starts][:1]
        assert best is not None
        return best

    def _alternate(
        self,
        sweeper: Sweeper,
        W: Rows,
        known: NDArray[np.int64] | None,
        callback: Callback | None,
        run: int,
        n_runs: int,
    ) -> Result:
        """Descend, and again each time the terms that wait for it have been fitted again."""
        result = self._descend(sweeper, W, known, callback, run, n_runs)
        for _ in range(sweeper.problem.rounds):
            if result.status in (Status.STOPPED, Status.INTERRUPTED):
                break
            try:
                again = self._descend(
                    sweeper, result.W.copy(), known, callback, run, n_runs, result
                )
            except KeyboardInterrupt:
                return replace(result, status=Status.INTERRUPTED)
            history = {
                key: past + again.history.get(key, []) for key, past in result.history.items()
            }
            result = replace(again, n_iter=result.n_iter + again.n_iter, history=history)
        return result

    def _descend(
        self,
        sweeper: Sweeper,
        W: Rows,
        known: NDArray[np.int64] | None,
        callback: Callback | None,
        run: int,
        n_runs: int,
        before: Result | None = None,
    ) -> Result:
        problem, graph = sweeper.problem, sweeper.problem.graph
        matrix = self.affinities == "matrix" and problem.calibrated
        terms = problem.fit_terms(W, tol=_SWEEP_TOL)
        models = Models(None, terms, np.zeros(problem.n_classes))
        if before is not None:
            models = replace(before.models, terms=models.terms)
        held = problem.calibrated and self.hold > 0 and before is None
        begin = None
        if graph and held:
            begin = Affinity.assumed(graph, known, W).times(problem.trust)
        if graph and before is None:
            affinity = begin or problem.affinity(W, matrix)
            models = replace(models, affinity=affinity)
        status, history = Status.MAX_ITER, defaultdict[str, list[float]](list)
        iteration = 0
        try:
            for iteration in range(1, self.max_iter + 1):
                sweeper.charge(models, W)
                change, links = sweeper.sweep(
                    W, models.affinity, models.log_prior, self.temperature
                )
                history["change"].append(change)
                if models.affinity is not None and not matrix:
                    history["ell"].append(float(models.affinity.ell[0, 0]))
                if callback and callback(Progress(iteration, run, n_runs, change, W)):
                    status = Status.STOPPED
                    break
                if change <= self.tol and not held:
                    status = Status.CONVERGED
                    break
                models = replace(models, terms=problem.fit_terms(W, models.terms, _SWEEP_TOL))
                if not problem.calibrated:
                    continue
                affinity = None
                if graph:
                    if matrix and links.shape == (1, 1):
                        links = graph.link_mass(W, matrix)
                    affinity = problem.fit_affinity(links, graph.pair_mass(W, matrix))
                held = held and iteration < self.hold and not _surpassed(begin, affinity)
                if not held:
                    models = Models(affinity, models.terms, problem.fit_log_prior(W))
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        terms = models.terms
        if problem.labels is not None and (problem.labels >= 0).any():
            order = match_labels(W, problem.labels)
            if not (order == np.arange(len(order))).all():
                W = np.ascontiguousarray(W[:, order])
                terms = tuple(theta[order] for theta in terms)
        models, value = problem.fit_and_judge(W, self.temperature, matrix, terms)
        return Result(W, models, value, status, iteration, dict(history))


def _surpassed(begin: Affinity | None, estimated: Affinity | None) -> bool:
    """Tell whether the estimated contrast is as strong as the one held, of the same sign."""
    if begin is None or estimated is None:
        return begin is None
    if estimated.ell.shape != (1, 1):
        return False
    held, now = begin.ell[0, 0], estimated.ell[0, 0]
    return bool(held * now >= held * held)


def says_nothing(W: NDArray[Any], models: Models, labels: NDArray[np.int64] | None) -> bool:
    """Tell whether the rows without a label are no more than the class proportions.

    Of a large graph, an even sample of the rows is looked at.
    """
    prior = np.exp(models.log_prior - np.logaddexp.reduce(models.log_prior))
    if len(prior) == 1:
        return False

    step = -(-len(W) // _SAMPLE)
    rows = W[::step]
    if labels is not None:
        rows = rows[labels[::step] < 0]
    return bool(len(rows)) and bool(np.abs(rows - prior).max(axis=1).mean() < _NOTHING)


def _as_rows(start: Any, problem: Problem) -> Rows:
    rows = np.array(start, dtype=np.float32, order="C")
    shape = (problem.n_nodes, problem.n_classes)
    if rows.shape != shape or not (rows >= 0).all() or not (rows.sum(axis=1) > 0).all():
        raise InputError(
            f"a start must have non-negative rows that are not zero, shape {shape}; got shape "
            f"{rows.shape}"
        )
    return rows / rows.sum(axis=1, keepdims=True)
