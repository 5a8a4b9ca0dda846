"""Class probabilities by belief propagation, from where a solver ended.

A node's own influence does not return to it by way of its neighbours.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nodeproof import kernels
from nodeproof.affinity import Affinity
from nodeproof.graph import RowSums
from nodeproof.problem import Problem
from nodeproof.runtime import threads
from nodeproof.solvers.base import Result, Solver, are_named, credibility, matched
from nodeproof.solvers.kind_beliefs import KindMessages
from nodeproof.solvers.sweep import Sweeper

__all__ = ["affordable", "marginals", "reported_probabilities"]

Rows = NDArray[np.float32]
Array = NDArray[np.float64]

# Beliefs begin near their fixed point: fewer batches, each more work, than in the solver.
_BATCHES = 16

# Beliefs that change by less than this share of the tolerance are at rest.
_STILL = 0.3

# Bounds exponents to what can be multiplied.
_LARGE = 230.0

# One message per link and direction: more numbers than this would dwarf the graph.
_MOST_MESSAGES = 10_000_000


def affordable(problem: Problem) -> bool:
    """Tell whether there is a graph, and few enough messages on it."""
    graph = problem.graph
    if graph is None:
        return False
    entries = sum(kind.n_entries for kind in graph.kinds) or graph.n_entries
    return entries * problem.n_classes <= _MOST_MESSAGES


def _propagated_probabilities(problem: Problem, result: Result, solver: Solver) -> Rows | None:
    """Return probabilities by belief propagation; None where it does not apply or converge.

    It applies where the graph counts, all parts are likelihoods and the temperature is 1.
    """
    warm = getattr(solver, "temperature", None) == 1.0
    if not (problem.calibrated and problem.trust > 0 and warm and affordable(problem)):
        return None
    tol, n_jobs = getattr(solver, "tol", 1e-3), getattr(solver, "n_jobs", None)
    return marginals(problem, result, tol=tol, n_jobs=n_jobs)


def reported_probabilities(
    problem: Problem, result: Result, solver: Solver
) -> tuple[Rows | None, float]:
    """Return class probabilities, and the weight of the start that was kept.

    Those of other starts that are almost as good are averaged in, by how credible they are. They
    are None where belief propagation does not apply or converge, and there are no such starts.

    Returns
    -------
    rows : ndarray of shape (n, K), or None
    weight : float
        1 where all starts agree.
    """
    rows = _propagated_probabilities(problem, result, solver)
    if not result.alternatives:
        return rows, 1.0
    best = result.W if rows is None else rows
    total, pooled = 1.0, best.astype(np.float64)
    for alternative in result.alternatives:
        other = _propagated_probabilities(problem, alternative, solver)
        other = alternative.W if other is None else other
        if not are_named(problem):
            other = matched(other, best)
        weight = credibility(alternative, result)
        pooled += weight * other
        total += weight
    return (pooled / total).astype(np.float32), 1.0 / total


def marginals(
    problem: Problem,
    result: Result,
    max_iter: int = 50,
    tol: float = 1e-3,
    n_jobs: int | None = None,
) -> Rows | None:
    """Return each node's class probabilities by belief propagation, with fixed models.

    Memberships that minimise the free energy are overconfident: a node's own influence comes
    back from its neighbours and is counted twice. Here each neighbour sends its belief *without*
    that node (exact on trees); pairs without a link count as in the free energy.

    Parameters
    ----------
    problem : Problem
        With a graph and calibrated weights: others are not likelihoods.
    result : Result
        Of a solver at temperature 1.

    Returns
    -------
    ndarray of shape (n, K), or None where it has not converged within `max_iter` rounds
    """
    W = np.array(result.W, dtype=np.float32, order="C")
    with threads.using(n_jobs):
        sweeper = Sweeper(problem, _BATCHES)
        sweeper.charge(result.models)
        costs = np.concatenate(threads.map_rows(sweeper.costs, problem.n_nodes))
        if sweeper.kinds:
            messages_of = KindMessages(sweeper.kinds, result.models, W, costs)
            batches = list(sweeper.batches())
            settled = any(messages_of.round(batches) <= tol for _ in range(max_iter))
            return W if settled else None
        models = result.models
        assert models.affinity is not None
        offsets = models.log_prior - costs
        beliefs = _Beliefs(sweeper, W, offsets, models.affinity, _STILL * tol)
        settled = any(beliefs.round() <= tol for _ in range(max_iter))
        return W if settled else None


class _Beliefs:
    """Beliefs of all nodes and the messages along their links.

    Parameters
    ----------
    W : ndarray of shape (n, K)
        Beliefs, updated in place.
    offsets : ndarray of shape (n, K)
        Scores of nodes without their links.
    still : float
        Beliefs that change by no more do not make neighbours look again.
    """

    def __init__(
        self, sweeper: Sweeper, W: Rows, offsets: Array, affinity: Affinity, still: float
    ) -> None:
        graph, (n, K) = sweeper.problem.graph, W.shape
        assert graph is not None
        self.sweeper, self.W, self.offsets, self.affinity = sweeper, W, offsets, affinity
        self.messages, self.twins = W[sweeper.indices], graph.twins
        self.totals = RowSums.of(W, sweeper.eta).totals
        self.gain = np.exp(np.clip(affinity.ell.T, -_LARGE, _LARGE), order="C")
        # Number of factors that can be multiplied before a logarithm must be taken.
        weighted = len(sweeper.weights) > 0
        self.room = 1 if weighted else max(1, int(400.0 / (np.abs(affinity.ell).max() + 1.0)))
        firsts = sweeper.indptr[[*range(0, n, sweeper.batch), n]]
        self.factors = np.empty((int(np.diff(firsts).max()), K))
        cells = -(-sweeper.batch // sweeper.cell) + 1
        self.moved, self.change = np.zeros((cells, K)), np.zeros(cells)
        self.still, self.stamp = still, 0
        self.heard, self.seen = np.full(n, -1, dtype=np.int32), np.full(n, -1, dtype=np.int32)

    def round(self) -> float:
        """Update nodes batch by batch, and send their messages; return the mean change.

        Nodes whose neighbours have not changed since their last update are left as they are.
        """
        sweeper, affinity, (n, K) = self.sweeper, self.affinity, self.W.shape
        counter, changed = np.zeros(1, dtype=np.int64), np.zeros(1)

        def work(thread: int, n_threads: int) -> None:
            kernels.believe_batches(
                thread, n_threads, counter, 0, n, sweeper.batch, sweeper.cell, sweeper.indptr,
                sweeper.indices, sweeper.weights, self.twins, sweeper.eta, self.W, self.totals,
                self.offsets, affinity.ell, affinity.ell_t, self.gain.copy(), self.room,
                self.messages, self.factors, sweeper.new, self.moved, self.change, changed,
                self.stamp, self.heard, self.seen, self.still, *kernels.workspace(K),
            )  # fmt: skip

        if sweeper.shared:
            threads.together(work)
        else:
            work(0, 1)
        self.stamp += -(-n // sweeper.batch)
        return float(changed[0]) / n
