"""Mean field: all memberships from the same state, a part of the way at a time."""

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from nodeproof.solvers import Progress, Result, Status
from nodeproof.solvers.base import check_at_least, check_count
from nodeproof.solvers.starts import STARTS, as_memberships, choose_starts


@dataclass(frozen=True)
class MeanField:
    """Minimise the free energy by damped updates of all nodes at once."""

    damping: float = 0.5  # the share of the old memberships that is kept
    max_iter: int = 200
    tol: float = 1e-3
    random_state: int = 0

    temperature = 1.0  # of the free energy: belief propagation then refines the probabilities

    def __post_init__(self):
        """Refuse settings that cannot work."""
        check_at_least("damping", self.damping, 0.0, most=0.99)
        check_count("max_iter", self.max_iter)
        check_at_least("tol", self.tol, 0.0)

    def solve(self, problem, start=None, callback=None):
        """Return memberships, models and their free energy."""
        W, changes, status = self.begin(problem, start), [], Status.MAX_ITER
        try:
            while len(changes) < self.max_iter and status is Status.MAX_ITER:
                new = self.damping * W + (1 - self.damping) * self.update(problem, W)
                change = float(np.abs(new - W).max(axis=1).mean())
                W = new
                changes.append(change)
                if change < self.tol:
                    status = Status.CONVERGED
                if callback and callback(Progress(len(changes), 1, 1, change, W)):
                    status = Status.STOPPED
        except KeyboardInterrupt:  # Ctrl-C keeps what there is
            status = Status.INTERRUPTED
        models = problem.fit_models(W)
        value = problem.free_energy(W, models)
        return Result(W, models, value, status, max(len(changes), 1), {"change": changes})

    def begin(self, problem, start):
        """Return the start, or the most promising one of the package; shape (n, K)."""
        if start is not None:
            return as_memberships(start, problem.n_nodes, problem.n_classes).astype(float)
        (name,) = choose_starts(problem, 1)
        rng = np.random.default_rng(self.random_state)
        return STARTS[name](problem, rng).astype(float)

    def update(self, problem, W):
        """Return the best memberships of each node, all others as they are; shape (n, K)."""
        models = problem.fit_models(W)
        scores = models.log_prior - problem.costs(models, 0, problem.n_nodes)
        if problem.graph is not None:
            links = problem.graph.operator(models.affinity.t)
            scores = scores + models.affinity.ell[0, 0] * (links @ W)
        return softmax(scores, axis=1)
