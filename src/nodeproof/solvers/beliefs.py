"""Class probabilities by belief propagation, from where a solver ended.

A node's own influence does not return to it by way of its neighbours.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nodeproof import kernels
from nodeproof.graph import RowSums
from nodeproof.problem import Models, Problem
from nodeproof.runtime import threads
from nodeproof.solvers.base import Result, Solver, are_named, credibility, matched
from nodeproof.solvers.sweep import Sweeper

__all__ = ["affordable", "marginals", "reported_probabilities"]

Rows = NDArray[np.float32]

# Beliefs begin near their fixed point: fewer batches, each more work, than in the solver.
_BATCHES = 16

# One message per link and direction: more numbers than this would dwarf the graph.
_MOST_MESSAGES = 10_000_000


def affordable(problem: Problem) -> bool:
    """Tell whether there is a graph, and few enough messages on it."""
    graph = problem.graph
    return graph is not None and graph.n_entries * problem.n_classes <= _MOST_MESSAGES


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
        twins = kernels.reverse_links(sweeper.indptr, sweeper.indices)
        messages = W[sweeper.indices]
        for _ in range(max_iter):
            if _round(sweeper, W, costs, result.models, messages, twins) <= tol:
                return W
    return None


def _round(
    sweeper: Sweeper,
    W: Rows,
    costs: NDArray[np.float64],
    models: Models,
    messages: Rows,
    twins: NDArray[np.int64],
) -> float:
    """Update every node once, batch by batch, and send its messages; return the mean change."""
    affinity, indptr, weights = models.affinity, sweeper.indptr, sweeper.weights
    assert affinity is not None
    n, K = W.shape
    totals = RowSums.of(W, sweeper.eta).totals
    change = 0.0
    for first, last in sweeper.batches():
        first_link, last_link = indptr[first], indptr[last]
        out = np.empty((last_link - first_link, K), dtype=np.float32)

        def believe(
            lo: int, hi: int, first: int = first, totals: NDArray[np.float64] = totals
        ) -> tuple[float, NDArray[np.float64]]:
            moved = np.zeros((1, K))
            changed = kernels.belief_rows(
                lo, hi, first, indptr, weights, sweeper.eta, W, totals, costs,
                models.log_prior, affinity.ell, affinity.ell_t, messages, sweeper.new, moved,
            )  # fmt: skip
            return changed, moved[0]

        def send(
            lo: int, hi: int, first: int = first, first_link: int = first_link, out: Rows = out
        ) -> None:
            kernels.message_rows(
                lo, hi, first, first_link, indptr, weights, affinity.ell, messages, sweeper.new, out
            )

        for changed, moved in threads.map_rows(believe, last, first):
            change += changed
            totals = totals + moved
        threads.map_rows(send, last, first)
        W[first:last] = sweeper.new[: last - first]

        def deliver(lo: int, hi: int, first_link: int = first_link, out: Rows = out) -> None:
            kernels.deliver(lo, hi, first_link, twins, out, messages)

        threads.map_rows(deliver, last_link, first_link)
    return change / n
