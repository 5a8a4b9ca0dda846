"""What the convex solvers share: the loop, lower bounds, rounding to a labelling, and results."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from nodeproof.atoms import Decomposition
from nodeproof.certificate.labelling.dual import Dual
from nodeproof.convex.program import Program, polytope_bound
from nodeproof.problem import Models
from nodeproof.solvers.base import Callback, Progress, Result, Status, match_labels
from nodeproof.solvers.semidefinite import off_diagonal, positive_part, with_diagonal

__all__ = [
    "ConvexResult",
    "LabellingResult",
    "best_bound",
    "finish",
    "iterate",
    "relative_gap",
    "round_point",
    "tighten",
]

Array = NDArray[np.float64]


class Iterated(Protocol):
    """The state of an iterative solver: its best value and its best lower bound so far."""

    value: float
    bound: float

    def step(self) -> None:
        """Make one iteration."""

    def judge(self) -> None:
        """Update the best value and the best bound."""

    def recorded(self) -> dict[str, float]:
        """Return what the history keeps of every iteration."""

    def progress(self) -> tuple[float, Array]:
        """Return how far the iteration has moved, and what a callback is shown."""


def iterate(
    state: Iterated,
    max_iter: int,
    check_every: int,
    settled: Callable[[], bool],
    callback: Callback | None = None,
    every_step: bool = False,
) -> tuple[Status, int, dict[str, list[float]]]:
    """Iterate until the gap is closed; return how that ended, when, and its history.

    Parameters
    ----------
    state : Iterated
        What to iterate on.
    max_iter, check_every : int
        Most iterations, and how many there are between checks.
    settled : callable
        Whether to stop; asked after each check.
    callback : callable, optional
        Called after each check; a true answer stops the solver.
    every_step : bool
        Whether to call it after every iteration.
    """
    history = defaultdict[str, list[float]](list)
    iteration = 0
    try:
        for iteration in range(1, max_iter + 1):
            state.step()
            for key, number in state.recorded().items():
                history[key].append(number)
            check = iteration % check_every == 0 or iteration == max_iter
            if check:
                state.judge()
                seen = {"iteration": iteration, "value": state.value, "bound": state.bound}
                for key, number in seen.items():
                    history[key].append(float(number))
            if callback and (check or every_step):
                change, shown = state.progress()
                if callback(Progress(iteration, 1, 1, change, shown)):
                    return Status.STOPPED, iteration, dict(history)
            if check and settled():
                return Status.CONVERGED, iteration, dict(history)
    except KeyboardInterrupt:
        return Status.INTERRUPTED, iteration, dict(history)
    return Status.MAX_ITER, iteration, dict(history)


def best_bound(B: Array, nu: Array, gamma: Array, costs: Array, constant: float = 0.0) -> float:
    """Return the better of what the multipliers prove as they are, and tightened."""
    return max(
        polytope_bound(B, c, prices, signs, constant)
        for prices, signs, c in ((nu, gamma, costs), tighten(B, nu, gamma, costs))
    )


def tighten(B: Array, nu: Array, gamma: Array, costs: Array) -> tuple[Array, Array, Array]:
    """Return dual variables whose blocks are semidefinite, up to rounding, at little cost.

    With N the sum of the blocks' negative parts, every block plus N is semidefinite; ν and Γ
    can take it up. Where Γ is positive that costs nothing.
    """
    M = np.stack([with_diagonal(-B - off_diagonal(gamma), c - nu) for c in costs.T])
    N = (positive_part(M) - M).sum(axis=0)
    return nu - np.diag(N), off_diagonal(gamma - N), costs


Labelling = NDArray[np.int64]
_RESTARTS = 4


def round_point(
    program: Program, point: Decomposition, rng: np.random.Generator
) -> tuple[NDArray[np.float32], Models, float]:
    """Return the best labelling found with at most K classes: memberships, models, objective.

    Tried are: the blocks of similarities above one half, largest first; k-means on the leading
    eigenvectors of L; growing classes around the nodes that are similar to most others; and,
    where labels are given, the label that each node's own model favours.
    """
    problem = program.problem
    best: tuple[NDArray[np.float32], Models, float] | None = None
    seen: set[bytes] = set()
    for labelling in _candidates(program, point, rng):
        _, numbers = np.unique(labelling, return_inverse=True)
        if numbers.tobytes() in seen:
            continue
        seen.add(numbers.tobytes())
        W = np.zeros((problem.n_nodes, problem.n_classes), dtype=np.float32)
        W[np.arange(problem.n_nodes), labelling] = 1.0
        if problem.labels is not None and (problem.labels >= 0).any():
            W = np.ascontiguousarray(W[:, match_labels(W, problem.labels)])
        models = problem.fit_models(W)
        value = problem.value(W, models)
        if best is None or value < best[2]:
            best = W, models, value
    assert best is not None
    return best


def _candidates(
    program: Program, point: Decomposition, rng: np.random.Generator
) -> Iterator[Labelling]:
    K, n, L = program.problem.n_classes, program.n_nodes, point.L
    _, blocks = connected_components(csr_array(L > 0.5), directed=False)
    yield _at_most(np.asarray(blocks, dtype=np.int64), L, K)
    yield _grow(L, K)
    for (term, _), part in zip(program.terms, program.models_set.split(point.models), strict=True):
        named = term.labels_from(part)
        if named is not None:
            yield named
    values, vectors = np.linalg.eigh(L)
    most = min(K, n)
    for k in {most, min(most, max(1, int((values > 0.5).sum())))}:
        rows = vectors[:, -k:] * np.sqrt(np.maximum(values[-k:], 0.0))
        with warnings.catch_warnings():
            # Fewer distinct rows than clusters: they are then the classes.
            warnings.simplefilter("ignore", ConvergenceWarning)
            seed = int(rng.integers(2**31 - 1))
            found = KMeans(k, n_init=_RESTARTS, random_state=seed).fit_predict(rows)
        yield found.astype(np.int64)


def _grow(L: Array, n_classes: int) -> Labelling:
    """Take the node that is similar to most others, with all that are, until none is left."""
    n = len(L)
    labelling, left = np.full(n, -1, dtype=np.int64), np.ones(n, dtype=bool)
    count = 0
    while left.any():
        center = int(np.where(left, L[:, left].sum(axis=1), -np.inf).argmax())
        members = left & (L[center] > 0.5)
        members[center] = True
        labelling[members] = count
        left &= ~members
        count += 1
    return _at_most(labelling, L, n_classes)


def _at_most(labelling: Labelling, L: Array, n_classes: int) -> Labelling:
    """Keep the largest classes; put other nodes where they are most similar on average."""
    sizes = np.bincount(labelling)
    order = np.argsort(-sizes, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    labelling = rank[labelling]
    if len(sizes) <= n_classes:
        return np.asarray(labelling)
    kept = labelling < n_classes
    members = np.eye(n_classes)[labelling[kept]]
    similar = (L[:, kept] @ members) / members.sum(axis=0)
    return np.where(kept, labelling, similar.argmax(axis=1))


# Models of classes may be off their sets by rounding.
_FEASIBLE = 1e-9


@dataclass(frozen=True)
class ConvexResult(Result):
    """A solution of the convex program, what it proves, and the labelling it is rounded to.

    `W`, `models` and `value` are those of the labelling.

    Attributes
    ----------
    point : Decomposition
        A feasible point: similarities ``point.L`` and models ``point.models`` of the nodes.
    program_value : float
        The program's objective there.
    lower_bound : float
        A rigorous lower bound of all feasible points, and so of all labellings.
    violation : float
        By how much the point breaks its worst constraint: rounding.
    calls : dict of int
        Calls of the oracles that Theorem 2 counts.
    residuals : dict of float
        How far the optimality conditions are from holding.
    """

    point: Decomposition
    program_value: float
    lower_bound: float
    violation: float
    calls: dict[str, int] = field(default_factory=dict)
    residuals: dict[str, float] = field(default_factory=dict)

    @property
    def gap(self) -> float:
        """How far the point can be from optimal, relative to the size of the objective."""
        return relative_gap(self.program_value, self.lower_bound)


@dataclass(frozen=True)
class LabellingResult(Result):
    """A labelling for fixed models, and a lower bound on every labelling.

    Attributes
    ----------
    shares : ndarray of shape (n, K)
        The relaxation's ``x``.
    lower_bound : float
        Of the objective of every labelling, for these models: rigorous.
    dual : Dual
        The variables that prove it.
    """

    shares: Array
    lower_bound: float
    dual: Dual

    @property
    def gap(self) -> float:
        """How far the labelling can be from the best, relative to the size of the objective."""
        return relative_gap(self.value, self.lower_bound)


def relative_gap(value: float, bound: float) -> float:
    """Return the difference relative to the larger of the value's size and one."""
    return float((value - bound) / max(1.0, abs(value))) if np.isfinite(value) else np.inf


def finish(
    program: Program,
    point: Decomposition,
    lower_bound: float,
    status: Status,
    n_iter: int,
    history: dict[str, list[float]],
    random_state: int | None,
    calls: dict[str, int] | None = None,
    residuals: dict[str, float] | None = None,
) -> ConvexResult:
    """Make the point feasible, judge it, and round it to a labelling, which may be better."""
    point = program.repair(point)
    W, models, value = round_point(program, point, np.random.default_rng(random_state))
    program_value = float(program.value(point.L, point.models))
    labelling = Decomposition(W.astype(np.float64), program.class_models(models))
    rounded_value = float(program.value(labelling.L, labelling.models))
    if rounded_value < program_value and program.violation(labelling) <= _FEASIBLE:
        point, program_value = labelling, rounded_value
    return ConvexResult(
        W=W,
        models=models,
        value=value,
        status=status,
        n_iter=n_iter,
        history=history,
        point=point,
        program_value=program_value,
        lower_bound=float(lower_bound),
        violation=program.violation(point),
        calls=calls or {},
        residuals=residuals or {},
    )
