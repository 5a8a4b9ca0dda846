"""One sweep over all rows in fixed batches, each row solved given the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof import kernels, threads
from nodeproof.graph import Affinity
from nodeproof.problem import Models, Problem
from nodeproof.terms.base import Term

__all__ = ["Sweeper", "count_batches"]

Array = NDArray[np.float64]
Rows = NDArray[np.float32]

# Rows of a batch do not see each other move. Where a batch is as large as a class, all of it
# runs into the class that is smallest at the moment, and the next sweep back: fixed weights
# never settle (K = 10 with 16 batches: .09 instead of .94), calibrated ones end in worse places.
_BATCHES = 64
_BATCHES_A_CLASS = 4


def count_batches(n_classes: int) -> int:
    """Return into how many batches the rows are cut."""
    return max(_BATCHES, _BATCHES_A_CLASS * n_classes)


class Sweeper:
    """Holds the arrays that sweeps share, and runs them.

    Rows of a batch are solved from the same state (Jacobi), batches one after the other
    (Gauss–Seidel). Batches and the order of all sums depend on n and K alone, so the result
    does not depend on the number of threads.
    """

    def __init__(self, problem: Problem, n_batches: int | None = None) -> None:
        n, K = problem.n_nodes, problem.n_classes
        self.problem = problem
        self.batch = -(-n // (n_batches or count_batches(K)))
        self.costs = np.empty((n, K), dtype=np.float32)
        self.new = np.empty((self.batch, K), dtype=np.float32)
        self._waiting: dict[int, tuple[Array, Rows]] = {}
        #: ``μ1 ‖θ_i − θ_j‖``, shape (K, K); None without a sum of norms
        self.pull: Array | None = None
        graph = problem.graph
        if graph is None:
            self.indptr = np.zeros(n + 1, dtype=np.int32)
            self.indices = np.zeros(0, dtype=np.int32)
            self.weights: NDArray[Any] = np.zeros(0, dtype=np.float32)
            self.eta = np.ones(n)
        else:
            self.indptr, self.indices = graph.adjacency.indptr, graph.adjacency.indices
            self.weights, self.eta = graph.weights, graph.eta

    def batches(self) -> Iterator[tuple[int, int]]:
        """Yield the ranges of rows that are solved from the same state."""
        n = self.problem.n_nodes
        for first in range(0, n, self.batch):
            yield first, min(first + self.batch, n)

    def charge(self, models: Models, W: NDArray[np.float32] | None = None) -> None:
        """Bring the costs up to date with the class models, each row less its minimum.

        Parameters
        ----------
        W : ndarray of shape (n, K), optional
            The rows before the sweep, which a sum of norms needs: no node is far from itself.
        """
        waiting = self._charge_waiting(models)
        self.pull = self.problem.pull(models)

        def part(lo: int, hi: int) -> None:
            costs = self.problem.costs(models, lo, hi, skip=waiting.keys())
            for _, kept in waiting.values():
                costs += kept[lo:hi]
            if self.pull is not None and W is not None:
                costs -= W[lo:hi].astype(np.float64) @ self.pull
            # float32 then keeps what matters: the differences near the best class.
            self.costs[lo:hi] = costs - costs.min(axis=1, keepdims=True)

        threads.map_rows(part, self.problem.n_nodes)

    def _charge_waiting(self, models: Models) -> dict[int, tuple[Array, Rows]]:
        """Return the costs of terms that wait for the rows to settle, computed when they change."""
        for k, term in enumerate(self.problem.terms):
            if term.rounds is None or not self.problem.calibrated:
                continue
            theta = models.terms[k]
            if k not in self._waiting or self._waiting[k][0] is not theta:

                def part(lo: int, hi: int, term: Term = term, theta: Array = theta) -> Rows:
                    return term.cost(theta, lo, hi).astype(np.float32)

                costs = threads.map_rows(part, self.problem.n_nodes)
                self._waiting[k] = (theta, np.concatenate(costs))
        return self._waiting

    def sweep(
        self,
        W: NDArray[np.float32],
        affinity: Affinity | None,
        log_prior: Array,
        temperature: float = 1.0,
    ) -> tuple[float, Array]:
        """Solve every row once, in place.

        With a sum of norms, class i costs ``h_i = μ1 Σ_j N_j ‖θ_i − θ_j‖`` more, N_j the class
        sizes; these too are brought up to date after each batch.

        Returns
        -------
        change : float
            Mean over nodes of the largest change in their row.
        links : ndarray of the affinity's shape
            Link mass inside classes (or between each two), as seen during the sweep.
        """
        n = self.problem.n_nodes
        if affinity is None:
            affinity = Affinity(np.zeros((1, 1)), np.zeros((1, 1)))
        totals = threads.sum_rows(lambda lo, hi: self.eta[lo:hi] @ W[lo:hi], n)
        links = np.zeros_like(affinity.ell)
        change = 0.0
        if self.batch <= threads.ROWS and self.pull is None:  # nothing to share out
            change = kernels.sweep_batches(
                self.batch, self.indptr, self.indices, self.weights, self.eta, W, totals,
                self.costs, log_prior, affinity.ell, affinity.ell_t, temperature, self.new, links,
            )  # fmt: skip
            return change / n, links
        sizes = np.zeros(W.shape[1])
        if self.pull is not None:
            sizes = threads.sum_rows(lambda lo, hi: W[lo:hi].sum(axis=0, dtype=np.float64), n)
        for first, last in self.batches():
            offset = log_prior if self.pull is None else log_prior - self.pull @ sizes

            def part(
                lo: int, hi: int, first: int = first, totals: Array = totals, offset: Array = offset
            ) -> tuple[float, Array, Array]:
                moved, mass = np.zeros(W.shape[1]), np.zeros_like(affinity.ell)
                changed = kernels.sweep_rows(
                    lo, hi, first, self.indptr, self.indices, self.weights, self.eta, W, totals,
                    self.costs, offset, affinity.ell, affinity.ell_t, temperature, self.new,
                    moved, mass,
                )  # fmt: skip
                return changed, moved, mass

            parts = threads.map_rows(part, last, first)
            if self.pull is not None:
                sizes = sizes - W[first:last].sum(axis=0, dtype=np.float64)
                sizes += self.new[: last - first].sum(axis=0, dtype=np.float64)
            W[first:last] = self.new[: last - first]
            for changed, moved, mass in parts:
                change += changed
                totals = totals + moved
                links += mass
        return change / n, links
