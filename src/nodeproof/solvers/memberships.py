"""Memberships in the memory of this machine.

What a solver does with all memberships at once is a method here, so that another engine can do
the same with memberships that live elsewhere.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from nodeproof.affinity import Affinity
from nodeproof.graph import RowSums
from nodeproof.problem import Models, Problem
from nodeproof.runtime import threads
from nodeproof.solvers.align import agreement
from nodeproof.solvers.assignments import OneHot, sweep_labels
from nodeproof.solvers.sweep import Sweeper
from nodeproof.terms.summable import is_summable

__all__ = ["Engine", "HardMemberships", "LocalMemberships", "LocalWorkspace", "Workspace"]

Array = NDArray[np.float64]


class Workspace(Protocol):
    """A problem under way: what all its starts share."""

    def place(self, W: NDArray[Any], hard: bool = False) -> Any:
        """Return memberships to work on, with the methods of `LocalMemberships`.

        Parameters
        ----------
        W : ndarray of shape (n, K)
            Memberships to start from.
        hard : bool
            Whether they are one-hot from now on.
        """

    def close(self) -> None:
        """Release what the workspace holds."""


@runtime_checkable
class Engine(Protocol):
    """Somewhere to work on memberships, such as :class:`nodeproof.distributed.DaskEngine`."""

    def open(self, problem: Problem) -> Workspace:
        """Return a workspace for a problem."""


class LocalWorkspace:
    """A problem in the memory of this machine.

    Parameters
    ----------
    problem : Problem
        What to solve.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.sweeper = Sweeper(problem)

    def place(self, W: NDArray[Any], hard: bool = False) -> LocalMemberships:
        """Return memberships to work on in place; of hard ones, one integer per node is kept."""
        return HardMemberships(self, OneHot.of(W)) if hard else LocalMemberships(self, W)

    def close(self) -> None:
        """Release what the workspace holds: nothing."""


class LocalMemberships:
    """The memberships of one start, and what is done with all of them.

    Parameters
    ----------
    workspace : LocalWorkspace
        Their problem.
    W : ndarray of shape (n, K), float32
        The memberships.
    """

    def __init__(self, workspace: LocalWorkspace, W: Any) -> None:
        self.problem, self.sweeper, self.W = workspace.problem, workspace.sweeper, W

    def fit_terms(self, kept: tuple[Array, ...] | None, tol: float) -> tuple[Array, ...]:
        """Return the class models; see :meth:`nodeproof.Problem.fit_terms`."""
        return self.problem.fit_terms(self.W, kept, tol)

    def sums(self, matrix: bool = False) -> RowSums:
        """Return sums over the memberships."""
        return RowSums.of(self.W, self.sweeper.eta, matrix)

    def link_mass(self, matrix: bool = False) -> Array:
        """Return the link mass inside classes, or between each two."""
        assert self.problem.graph is not None
        return self.problem.graph.link_mass(self.W, matrix)

    def sweep(
        self, models: Models, temperature: float, totals: Array | None = None
    ) -> tuple[float, Array]:
        """Update every node once; see :meth:`nodeproof.solvers.sweep.Sweeper.sweep`."""
        self.sweeper.charge(models)
        return self.sweeper.sweep(self.W, models.affinity, models.log_prior, temperature, totals)

    def agreement(self, labels: NDArray[np.int64]) -> Array:
        """Return how much of each label each class holds, shape (K, K)."""
        return agreement(self.W, labels)

    def reorder(self, order: NDArray[np.int64]) -> None:
        """Let column i be what was column order[i]."""

        def part(lo: int, hi: int) -> None:
            self.W[lo:hi] = self.W[lo:hi][:, order]

        threads.map_rows(part, len(self.W))

    def energy(self, models: Models, temperature: float) -> float:
        """Return the free energy without the links."""
        return self.problem.row_energy(self.W, models, temperature)

    def fetch(self) -> NDArray[Any]:
        """Return the memberships, shape (n, K)."""
        return self.W

    def assumed(self, labels: NDArray[np.int64] | None, look: bool) -> Affinity:
        """Return the affinity to begin with; see :meth:`nodeproof.affinity.Affinity.assumed`."""
        graph = self.problem.graph
        assert graph is not None
        masses = (self.link_mass(), self.sums().pairs) if look else None
        return Affinity.assumed(graph, labels, masses)


class HardMemberships(LocalMemberships):
    """The memberships of one start at temperature 0: one label per node."""

    W: OneHot

    def fit_terms(self, kept: tuple[Array, ...] | None, tol: float) -> tuple[Array, ...]:
        """Return the class models; terms that need more than sums are given an array."""
        problem = self.problem
        by_ranges = problem.calibrated and all(map(is_summable, problem.terms))
        W: Any = self.W if by_ranges else np.asarray(self.W)
        return problem.fit_terms(W, kept, tol)

    def sums(self, matrix: bool = False) -> RowSums:
        """Return sums over the memberships."""
        return self.W.sums(self.sweeper.eta, matrix)

    def link_mass(self, matrix: bool = False) -> Array:
        """Return the link mass inside classes, or between each two."""
        return self.W.link_mass(self.problem.graph, matrix)

    def sweep(
        self, models: Models, temperature: float, totals: Array | None = None
    ) -> tuple[float, Array]:
        """Update every node once."""
        self.sweeper.charge(models)
        totals = self.sums().totals if totals is None else totals
        return sweep_labels(self.sweeper, self.W, models.affinity, models.log_prior, totals)

    def reorder(self, order: NDArray[np.int64]) -> None:
        """Let class i be what was class order[i]."""
        self.W.reorder(order)

    def fetch(self) -> NDArray[Any]:
        """Return the memberships as an array, shape (n, K)."""
        return np.asarray(self.W)
