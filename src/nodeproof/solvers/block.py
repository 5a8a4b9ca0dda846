"""Block CADO: the default solver."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from nodeproof import threads
from nodeproof.graph import Affinity
from nodeproof.problem import Models, Problem
from nodeproof.solvers.base import Callback, Progress, Result, Status
from nodeproof.solvers.starts import STARTS, choose_starts
from nodeproof.solvers.sweep import Sweeper

__all__ = ["BlockCADO"]

Rows = NDArray[np.float32]


@dataclass(frozen=True)
class BlockCADO:
    """Minimise the free energy by visiting rows in blocks and solving each given the others.

    Per sweep: (a) every term turns its class models into costs; (b) batch by batch,

        cost_vi = −ℓ·(Σ_u A_uv W_ui − t·η_v·(Σ_u η_u W_ui − η_v W_vi)) + C[v, i] − log π_i
        W_v     = softmax(−cost_v / T)

    (T = 0: one-hot at the minimum); (c) class models, affinities and proportions are
    re-estimated from W. Several starts are tried and the one of least free energy is kept;
    its classes are then matched with the labels, because a confusion that is estimated freely
    does not name the classes.

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
            "spectral"), instead of several.
        callback : callable, optional
            Told after every sweep; a true answer ends the solve with what there is.
        """
        rng = np.random.default_rng(self.random_state)
        starts: list[Any] = [start] if start is not None else choose_starts(problem, self.n_init)
        best: Result | None = None
        with threads.using(self.n_jobs):
            sweeper = Sweeper(problem)
            for run, given in enumerate(starts, start=1):
                W = STARTS[given](problem, rng) if isinstance(given, str) else _as_rows(given)
                result = self._descend(sweeper, W, callback, run, len(starts))
                if best is None or result.value < best.value:
                    best = result
                if result.status in (Status.STOPPED, Status.INTERRUPTED):
                    best = replace(best, status=result.status)
                    break
        assert best is not None
        return align_with_labels(best, problem)

    def _descend(
        self, sweeper: Sweeper, W: Rows, callback: Callback | None, run: int, n_runs: int
    ) -> Result:
        problem, graph = sweeper.problem, sweeper.problem.graph
        matrix = self.affinities == "matrix" and problem.calibrated
        models = Models(None, problem.fit_terms(W), np.zeros(problem.n_classes))
        held = problem.calibrated and self.hold > 0
        begin: Affinity | None = None
        if graph:
            begin = Affinity.assumed(graph, problem.labels)
            models = replace(models, affinity=begin if held else problem.fit_models(W).affinity)
        status, history = Status.MAX_ITER, defaultdict[str, list[float]](list)
        iteration = 0
        try:
            for iteration in range(1, self.max_iter + 1):
                sweeper.charge(models)
                change, links = sweeper.sweep(
                    W, models.affinity, models.log_prior, self.temperature
                )
                history["change"].append(change)
                if models.affinity is not None and not matrix:
                    history["ell"].append(float(models.affinity.ell[0, 0]))
                if callback and callback(Progress(iteration, run, n_runs, change, W)):
                    status = Status.STOPPED
                    break
                if change < self.tol and not held:
                    status = Status.CONVERGED
                    break
                models = replace(models, terms=problem.fit_terms(W))
                if not problem.calibrated:
                    continue
                affinity = None
                if graph:
                    if matrix and links.shape == (1, 1):
                        links = graph.link_mass(W, matrix)
                    affinity = Affinity.estimate(graph, links, graph.pair_mass(W, matrix))
                held = held and iteration < self.hold and not _surpassed(begin, affinity)
                if not held:
                    models = Models(affinity, models.terms, problem.fit_log_prior(W))
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        models, value = problem.fit_and_judge(W, self.temperature, matrix)
        return Result(W, models, value, status, iteration, dict(history))


def _surpassed(begin: Affinity | None, estimated: Affinity | None) -> bool:
    """Tell whether the estimated contrast is as strong as the one held, of the same sign."""
    if begin is None or estimated is None:
        return begin is None
    if estimated.ell.shape != (1, 1):
        return False
    held, now = begin.ell[0, 0], estimated.ell[0, 0]
    return bool(held * now >= held * held)


def align_with_labels(result: Result, problem: Problem) -> Result:
    """Rename the classes so that as much labelled mass as possible agrees with its label."""
    y = problem.labels
    if y is None or not (y >= 0).any():
        return result
    known = np.flatnonzero(y >= 0)
    agreement = np.zeros((problem.n_classes, problem.n_classes))
    np.add.at(agreement.T, y[known], result.W[known])
    atoms, names = linear_sum_assignment(-agreement)
    order = np.empty(problem.n_classes, dtype=np.int64)
    order[names] = atoms
    if (order == np.arange(len(order))).all():
        return result
    models = result.models
    affinity = models.affinity
    if affinity is not None and affinity.ell.shape != (1, 1):
        pick = np.ix_(order, order)
        affinity = replace(affinity, ell=affinity.ell[pick], ell_t=affinity.ell_t[pick])
    models = Models(
        affinity, tuple(theta[order] for theta in models.terms), models.log_prior[order]
    )
    return replace(result, W=np.ascontiguousarray(result.W[:, order]), models=models)


def _as_rows(start: NDArray[Any]) -> Rows:
    return np.array(start, dtype=np.float32, order="C")
