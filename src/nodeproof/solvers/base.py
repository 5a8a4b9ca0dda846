"""What every solver takes and returns; classes matched with labels, and results compared."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from numbers import Integral, Real
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.problem import Models, Problem
from nodeproof.solvers.sums import Sums
from nodeproof.terms.labels import label_mass

__all__ = [
    "LARGEST",
    "MOST_STARTS",
    "Callback",
    "Progress",
    "Result",
    "Solver",
    "Status",
    "agreement",
    "align_with_labels",
    "are_named",
    "best_first",
    "best_match",
    "check_at_least",
    "check_count",
    "check_one_kind",
    "check_solver",
    "credibility",
    "match_labels",
    "matched",
    "solve_with",
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
    sums : Sums or None
        What the memberships come to, where models and value depend on nothing else.
    """

    W: NDArray[Any]
    models: Models
    value: float
    status: Status
    n_iter: int
    history: dict[str, list[float]]
    alternatives: tuple[Result, ...] = field(default=(), kw_only=True)
    sums: Sums | None = field(default=None, kw_only=True)


class Solver(Protocol):
    """What `NodeClassifier(solver=...)` takes: any object with this method.

    A solver that minimises the free energy may say at which temperature, by an attribute
    ``temperature``: at 1, and with calibrated weights, its memberships are refined by belief
    propagation before they are reported (up to its ``tol``, on ``n_jobs`` threads, if it has
    these); otherwise they are reported as they are.
    """

    def solve(
        self,
        problem: Problem,
        start: NDArray[Any] | None = None,
        callback: Callback | None = None,
    ) -> Result:
        """Return memberships, the models re-fitted to them, and their objective.

        Parameters
        ----------
        problem : Problem
            What to solve; it computes costs, models and objectives.
        start : ndarray of shape (n, K), optional
            Memberships to begin with, where the number of classes had to be found first.
        callback : callable, optional
            To be called with a `Progress` after every iteration; a true answer stops the solver.
        """


def check_solver(solver: Any) -> Any:
    """Return an object that was given as a solver; raise an error that says what it lacks."""
    if isinstance(solver, type):
        name = solver.__name__
        raise InputError(f"solver must be an object, got the class {name}: write {name}()")
    if not callable(getattr(solver, "solve", None)):
        raise InputError(f"solver must be a name or have a method solve, got {solver!r}")
    try:
        inspect.signature(solver.solve).bind(None, None, None)
    except TypeError:
        name = type(solver).__name__
        raise InputError(f"{name}.solve must take (problem, start=None, callback=None)") from None
    return solver


def solve_with(solver: Solver, problem: Problem, start: Any, callback: Callback | None) -> Result:
    """Return what a solver found; raise an error that names the solver if it cannot be that."""
    result: Any = solver.solve(problem, start, callback)
    name, expected = f"{type(solver).__name__}.solve", (problem.n_nodes, problem.n_classes)
    if not isinstance(result, Result):
        raise InputError(
            f"{name} must return a nodeproof.solvers.Result, got {type(result).__name__}"
        )
    if not isinstance(result.models, Models):
        raise InputError(f"{name} returned no models: take problem.fit_models(W)")
    if np.shape(result.W) != expected:
        raise InputError(
            f"{name} must return memberships W of shape {expected}, got {np.shape(result.W)}"
        )
    # The package's own keep to this by their contract tests; it is a pass over all nodes.
    if not type(solver).__module__.startswith("nodeproof.") and not _are_shares(result.W):
        raise InputError(f"{name} must return memberships W that are ≥ 0 and sum to 1 per node")
    return result


def _are_shares(W: NDArray[Any]) -> bool:
    return bool((W >= 0).all() and np.allclose(W.sum(axis=1), 1.0, rtol=0, atol=1e-4))


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


def match_labels(W: NDArray[Any], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the column of W that stands for each class: most labelled mass agrees (Hungarian).

    Parameters
    ----------
    W : ndarray of shape (n, K)
        Memberships.
    labels : ndarray of shape (n,)
        Given labels 0…K−1, −1 for none.

    Returns
    -------
    ndarray of shape (K,)
    """
    return best_match(agreement(W, labels))


def check_one_kind(graph: Graph | None, who: str) -> None:
    """Refuse several kinds of links, or links with a direction, for what takes one kind."""
    if graph is not None and graph.kinds:
        raise InputError(
            f"{who} takes one kind of links without a direction: use block CADO on this machine "
            "(solver='block'), or give the sum of the matrices"
        )


def agreement(W: NDArray[Any], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return how much of each label each column of W holds, shape (K, K)."""
    known = np.flatnonzero(labels >= 0)
    return label_mass(np.asarray(W), known, labels[known], W.shape[1])


def best_match(agreement: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the column that stands for each class, given how much of each label it holds."""
    columns, names = linear_sum_assignment(-agreement)
    order = np.empty(len(agreement), dtype=np.int64)
    order[names] = columns
    return order


def align_with_labels(result: Result, labels: NDArray[np.int64] | None) -> Result:
    """Rename the classes so that as much labelled mass as possible agrees with its label."""
    if labels is None or not (labels >= 0).any():
        return result
    order = match_labels(result.W, labels)
    if (order == np.arange(len(order))).all():
        return result
    affinity = result.models.affinity
    if affinity is not None and affinity.ell.shape != (1, 1):
        pick = np.ix_(order, order)
        affinity = replace(affinity, ell=affinity.ell[pick], ell_t=affinity.ell_t[pick])
    models = Models(
        affinity,
        tuple(theta[order] for theta in result.models.terms),
        result.models.log_prior[order],
    )
    W = np.ascontiguousarray(result.W[:, order])
    return replace(result, W=W, models=models, sums=None)


Rows = NDArray[np.float32]

# A free energy that is higher by this much per node makes a start e times less credible. Where
# classes can just be detected, starts that end elsewhere lie some hundredths of a nat per node
# apart, whichever is right (p = .07, q = .05, 5 % labels: .005 to .04, accuracies .34 to .51);
# where classes are clear, all starts end in the same place or are .1 to 1.5 behind.
_NATS_PER_NODE = 0.02

# Less credible starts than this are dropped.
_LEAST_WEIGHT = 1e-2
_MOST_ALTERNATIVES = 8

# Memberships that differ by less, on average over the nodes, are the same.
_SAME = 0.01


def are_named(problem: Problem) -> bool:
    """Tell whether labels name the classes; else each start numbers them in its own way."""
    return problem.labels is not None and bool((problem.labels >= 0).any())


def best_first(results: list[Result], named: bool) -> list[Result]:
    """Return the best result, and after it others that are almost as good and differ from it.

    Parameters
    ----------
    results : list of Result
        Of the same problem with calibrated weights, at temperature 1.
    named : bool
        See `are_named`.
    """
    ordered = sorted(results, key=lambda result: result.value)
    kept: list[Result] = []
    for result in ordered:
        if kept and credibility(result, kept[0]) < _LEAST_WEIGHT:
            break
        if all(_difference(other.W, result.W, named) > _SAME for other in kept):
            kept.append(result)
    return kept[: 1 + _MOST_ALTERNATIVES]


def credibility(result: Result, best: Result) -> float:
    """Return how credible a result is relative to the best one: 1 where it is as good."""
    return float(np.exp(-(result.value - best.value) / (_NATS_PER_NODE * len(result.W))))


def _difference(one: Rows, other: Rows, named: bool) -> float:
    """Return the mean over nodes of the largest difference, names of classes matched or given."""
    other = other if named else matched(other, one)
    return float(np.abs(one - other).max(axis=1).mean())


def matched(rows: Rows, best: Rows) -> Rows:
    """Return memberships (n, K) with the classes renamed to match others best."""
    agreement = np.asarray(rows.T @ best, dtype=np.float64)
    return np.asarray(rows[:, best_match(agreement)])
