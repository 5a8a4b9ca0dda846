"""What every solver takes and returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nodeproof.problem import Models, Problem

__all__ = ["Callback", "Progress", "Result", "Solver", "Status"]


class Status(StrEnum):
    """How a solver ended."""

    CONVERGED = "converged"
    MAX_ITER = "reached max_iter"
    STOPPED = "stopped by the callback"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Progress:
    """What a callback is told after every iteration.

    Attributes
    ----------
    iteration : int
        Iterations done in this run, from 1.
    run, n_runs : int
        Which start this is, from 1, and how many there are.
    change : float
        Mean over nodes of the largest change in their row of W.
    W : ndarray of shape (n, K)
        The current rows: the solver's own array, not to be written to.
    """

    iteration: int
    run: int
    n_runs: int
    change: float
    W: NDArray[Any]


#: called after every iteration; a true answer stops the solver
Callback = Callable[[Progress], bool | None]


@dataclass(frozen=True)
class Result:
    """What a solver found.

    Attributes
    ----------
    W : ndarray of shape (n, K)
        Rows on the simplex: how much each node belongs to each class.
    models : Models
        The class models, re-fitted to W.
    value : float
        The objective at (W, models), as `Problem` computes it.
    status : Status
        How the solver ended.
    n_iter : int
        Iterations of the run that was kept.
    history : dict of list
        One entry an iteration, for the run that was kept.
    """

    W: NDArray[Any]
    models: Models
    value: float
    status: Status
    n_iter: int
    history: dict[str, list[float]]


class Solver(Protocol):
    """Anything that solves a problem."""

    def solve(
        self,
        problem: Problem,
        start: NDArray[np.float64] | None = None,
        callback: Callback | None = None,
    ) -> Result:
        """Return the best solution found."""
        ...
