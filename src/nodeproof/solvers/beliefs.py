"""Class probabilities by belief propagation, from where a solver ended.

A node's own influence does not return to it by way of its neighbours.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nodeproof import kernels
from nodeproof.affinity import memberships_at
from nodeproof.csr import find_twins
from nodeproof.graph import RowSums
from nodeproof.problem import Models, Problem
from nodeproof.runtime import threads
from nodeproof.solvers.base import Result, Solver, are_named, credibility, matched
from nodeproof.solvers.kind_beliefs import KindMessages
from nodeproof.solvers.sweep import Sweeper

__all__ = ["affordable", "marginals", "reported_probabilities"]

Rows = NDArray[np.float32]
Array = NDArray[np.float64]

# Beliefs begin near their fixed point: fewer batches, each more work, than in the solver.
_BATCHES = 16

# Bounds that keep divisors away from zero, and exponents within what can be multiplied.
_SMALL, _LARGE = 1e-100, 230.0

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
        twins = find_twins(sweeper.indptr, sweeper.indices)
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
    affinity, indptr, eta = models.affinity, sweeper.indptr, sweeper.eta
    assert affinity is not None
    n, K = W.shape
    totals = RowSums.of(W, eta).totals
    gain = np.exp(np.clip(affinity.ell, -_LARGE, _LARGE))
    # Number of factors that can be multiplied before a logarithm must be taken.
    room = 1 if len(sweeper.weights) else max(1, int(400.0 / (np.abs(affinity.ell).max() + 1.0)))
    change = 0.0
    for first, last in sweeper.batches():
        first_link, last_link = int(indptr[first]), int(indptr[last])
        factors = np.empty((last_link - first_link, K))

        def believe(
            lo: int,
            hi: int,
            first_link: int = first_link,
            factors: Array = factors,
            totals: Array = totals,
        ) -> tuple[Rows, Array]:
            scores = np.empty((hi - lo, K))
            kernels.receive_rows(
                lo, hi, first_link, indptr, sweeper.weights, affinity.ell, gain.copy(), room,
                messages, factors, np.empty(K), scores,
            )  # fmt: skip
            own = eta[lo:hi, None]
            rest = own * (totals - own * W[lo:hi])
            scores += models.log_prior - costs[lo:hi]
            scores -= rest * affinity.ell_t if affinity.ell_t.size == 1 else rest @ affinity.ell_t
            new = memberships_at(scores, 1.0).astype(np.float32)
            links = slice(indptr[lo] - first_link, indptr[hi] - first_link)
            sent = np.repeat(new, np.diff(indptr[lo : hi + 1]), axis=0) / factors[links]
            sent /= _SMALL + sent.sum(axis=1, keepdims=True)
            factors[links] = sent
            return new, new.astype(np.float64) - W[lo:hi]

        found = threads.map_rows(believe, last, first)
        new, steps = (np.concatenate([part[k] for part in found]) for k in (0, 1))
        change += float(np.abs(steps).max(axis=1).sum())
        totals = totals + eta[first:last] @ steps
        W[first:last] = new
        messages[twins[first_link:last_link]] = factors
    return change / n
