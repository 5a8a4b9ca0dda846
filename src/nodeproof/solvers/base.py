"""What every solver takes and returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from numbers import Integral, Real
from typing import Any

from numpy.typing import NDArray

from nodeproof.errors import InputError
from nodeproof.problem import Models

__all__ = [
    "LARGEST",
    "MOST_STARTS",
    "Callback",
    "Progress",
    "Result",
    "Status",
    "check_at_least",
    "check_count",
]

#: largest weight that users may give: costs would not be finite beyond it
LARGEST = 1e30

#: largest number of starts
MOST_STARTS = 1_000_000


class Status(StrEnum):
    """How a solver ended."""

    CONVERGED = "converged"
    MAX_ITER = "reached max_iter"
    STOPPED = "stopped early"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Progress:
    """What a callback is given after every iteration.

    Attributes
    ----------
    iteration : int
        Iterations done in this run, from 1.
    run, n_runs : int
        Which start this is, from 1, and how many there are.
    change : float
        Mean over nodes of the largest change in their memberships.
    W : ndarray of shape (n, K)
        The current memberships: the solver's own array, read-only. The convex solvers show
        how much nodes belong to each vertex of Θ, or CANO the nodes' models. Memberships on a
        cluster are fetched by ``np.asarray(progress.W)``.
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
        Memberships: how much each node belongs to each class; rows sum to one.
    models : Models
        The class models, re-fitted to W.
    value : float
        The objective at (W, models), as `Problem` computes it.
    status : Status
        How the solver ended.
    n_iter : int
        Iterations of the run that was kept.
    history : dict of list
        One entry per iteration, for the run that was kept.
    alternatives : tuple of Result
        Results of other starts that differ from this one and are almost as good.
    """

    W: NDArray[Any]
    models: Models
    value: float
    status: Status
    n_iter: int
    history: dict[str, list[float]]
    alternatives: tuple[Result, ...] = field(default=(), kw_only=True)


def check_count(name: str, value: Any, most: int | None = None) -> None:
    """Raise an error unless the value is a positive integer, not above the most."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise InputError(f"{name} must be a positive integer, got {value!r}")
    if most is not None and int(value) > most:
        raise InputError(f"{name} must be at most {most:,}, got {value!r}")


def check_at_least(name: str, value: Any, least: float, most: float = float("inf")) -> None:
    """Raise an error unless the value is a finite number, not below the least or above the most."""
    if not (isinstance(value, Real) and least <= float(value) < float("inf")):
        raise InputError(f"{name} must be a finite number ≥ {least:g}, got {value!r}")
    if float(value) > most:
        raise InputError(f"{name} must be at most {most:g}, got {value!r}")
