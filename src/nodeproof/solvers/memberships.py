"""Rows in the memory of this machine.

What a solver does with all rows at once is a method here, so that another engine can do the
same with rows that live elsewhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.affinity import Affinity
from nodeproof.errors import InputError
from nodeproof.graph import RowSums
from nodeproof.problem import Models, Problem
from nodeproof.runtime import threads
from nodeproof.solvers.align import agreement
from nodeproof.solvers.assignments import OneHot, sweep_labels
from nodeproof.solvers.sweep import Sweeper
from nodeproof.terms.summable import is_summable

__all__ = ["HardRows", "LocalEngine", "LocalRows", "check_engine", "open_engine"]

Array = NDArray[np.float64]


def open_engine(engine: Any, problem: Problem) -> Any:
    """Return the engine that works on the rows of a problem.

    Parameters
    ----------
    engine : None, "dask" or distributed.Client
        This machine, the Dask cluster that is connected to, or this one.
    """
    check_engine(engine)
    if engine is None:
        return LocalEngine(problem)
    from nodeproof.distributed.dask import DaskEngine

    return DaskEngine(problem, None if isinstance(engine, str) else engine)


def check_engine(engine: Any) -> None:
    """Raise an error unless this is an engine."""
    named = isinstance(engine, str) and engine == "dask"
    if not (engine is None or named or hasattr(engine, "scheduler_info")):
        raise InputError(
            f"engine must be None (this machine), 'dask' or a distributed.Client, got {engine!r}"
        )


class LocalEngine:
    """Keeps what all starts of a problem share.

    Parameters
    ----------
    problem : Problem
        What to solve.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.sweeper = Sweeper(problem)

    def place(self, W: NDArray[Any], hard: bool = False) -> LocalRows:
        """Return these rows, to be worked on in place.

        Parameters
        ----------
        hard : bool
            Whether they are one-hot from now on: one integer a node is kept.
        """
        return HardRows(self, OneHot.of(W)) if hard else LocalRows(self, W)

    def close(self) -> None:
        """Let go of what the engine holds."""


class LocalRows:
    """The rows of one start, and what is done with all of them.

    Parameters
    ----------
    engine : LocalEngine
        Whose problem they are of.
    W : ndarray of shape (n, K), float32
        The rows.
    """

    def __init__(self, engine: LocalEngine, W: Any) -> None:
        self.problem, self.sweeper, self.W = engine.problem, engine.sweeper, W

    def fit_terms(self, kept: tuple[Array, ...] | None, tol: float) -> tuple[Array, ...]:
        """Return the class models; see :meth:`nodeproof.Problem.fit_terms`."""
        return self.problem.fit_terms(self.W, kept, tol)

    def sums(self, matrix: bool = False) -> RowSums:
        """Return sums over the rows."""
        return RowSums.of(self.W, self.sweeper.eta, matrix)

    def link_mass(self, matrix: bool = False) -> Array:
        """Return the link mass inside classes, or between each two."""
        assert self.problem.graph is not None
        return self.problem.graph.link_mass(self.W, matrix)

    def sweep(
        self, models: Models, temperature: float, totals: Array | None = None
    ) -> tuple[float, Array]:
        """Solve every row once; see :meth:`nodeproof.solvers.sweep.Sweeper.sweep`."""
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
        """Return what rows and terms add to the free energy, without the links."""
        return self.problem.row_energy(self.W, models, temperature)

    def fetch(self) -> NDArray[Any]:
        """Return the rows, shape (n, K)."""
        return self.W

    def assumed(self, labels: NDArray[np.int64] | None, look: bool) -> Affinity:
        """Return the affinity to begin with; see :meth:`nodeproof.affinity.Affinity.assumed`."""
        graph = self.problem.graph
        assert graph is not None
        masses = (self.link_mass(), self.sums().pairs) if look else None
        return Affinity.assumed(graph, labels, masses)


class HardRows(LocalRows):
    """The rows of one start at temperature 0."""

    W: OneHot

    def fit_terms(self, kept: tuple[Array, ...] | None, tol: float) -> tuple[Array, ...]:
        """Return the class models; terms that need more than sums are given an array."""
        problem = self.problem
        by_ranges = problem.calibrated and all(map(is_summable, problem.terms))
        W: Any = self.W if by_ranges else np.asarray(self.W)
        return problem.fit_terms(W, kept, tol)

    def sums(self, matrix: bool = False) -> RowSums:
        """Return sums over the rows."""
        return self.W.sums(self.sweeper.eta, matrix)

    def link_mass(self, matrix: bool = False) -> Array:
        """Return the link mass inside classes, or between each two."""
        return self.W.link_mass(self.problem.graph, matrix)

    def sweep(
        self, models: Models, temperature: float, totals: Array | None = None
    ) -> tuple[float, Array]:
        """Solve every row once."""
        self.sweeper.charge(models)
        totals = self.sums().totals if totals is None else totals
        return sweep_labels(self.sweeper, self.W, models.affinity, models.log_prior, totals)

    def reorder(self, order: NDArray[np.int64]) -> None:
        """Let class i be what was class order[i]."""
        self.W.reorder(order)

    def fetch(self) -> NDArray[Any]:
        """Return the rows as an array, shape (n, K)."""
        return np.asarray(self.W)
