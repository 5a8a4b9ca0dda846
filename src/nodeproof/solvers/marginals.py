"""Probabilities without echo: a few sweeps of belief propagation from where a solver ended."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nodeproof import kernels, threads
from nodeproof.problem import Problem
from nodeproof.solvers.base import Result
from nodeproof.solvers.sweep import Sweeper

__all__ = ["cavity_marginals"]


def cavity_marginals(
    problem: Problem,
    result: Result,
    max_iter: int = 50,
    tol: float = 1e-3,
    n_jobs: int | None = None,
) -> NDArray[np.float32]:
    """Return each node's class probabilities, judged without the echo of its own vote.

    Rows that minimise the free energy are too sure of themselves: a node hears from its
    neighbours what it has told them. Here each neighbour is asked without that share (the
    cavity of belief propagation), the models staying as they are. Where this does not settle
    within `max_iter` sweeps, the rows are returned as the solver left them.

    Parameters
    ----------
    problem : Problem
        With calibrated weights: others are not likelihoods.
    result : Result
        Of a solver at temperature 1.

    Returns
    -------
    ndarray of shape (n, K)
    """
    if problem.graph is None or result.models.affinity is None:
        return np.asarray(result.W, dtype=np.float32)
    W = np.array(result.W, dtype=np.float32, order="C")
    with threads.using(n_jobs):
        sweeper = Sweeper(problem)
        sweeper.charge(result.models)
        for _ in range(max_iter):
            change, _ = sweeper.sweep(
                W, result.models.affinity, result.models.log_prior, kernel=kernels.cavity_rows
            )
            if change < tol:
                return W
    return np.asarray(result.W, dtype=np.float32)
