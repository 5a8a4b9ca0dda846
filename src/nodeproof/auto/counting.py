"""The number of classes, if it is not given: start with too many and merge.

`count_classes` searches for the number with the shortest description of the data;
`choose_n_classes` does so for a fit, and records the choice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import gammaln

from nodeproof.auto.merging import CoupledMerges, Family, Merges, merge_memberships
from nodeproof.auto.settings import Choices, is_convex
from nodeproof.errors import InputError
from nodeproof.problem import Problem
from nodeproof.runtime.logs import warn_caller
from nodeproof.solvers import BlockCADO, Result, Status
from nodeproof.solvers.base import Callback, solve_with
from nodeproof.solvers.starts import STARTS, choose_starts, promising_starts

__all__ = [
    "FEWEST",
    "Candidate",
    "ClassCount",
    "Search",
    "choose_n_classes",
    "count_classes",
    "description_length",
]


#: classes to start with; doubled until no more than half of them are needed
FEWEST = 4
_MOST = 64

# Fewer if a sweep would take more multiplications than this, but never fewer than _AFFORDED.
_PRODUCTS = 64_000_000
_AFFORDED = 16

# Memberships need not converge to tell which classes to merge, but to tell which are empty.
_SWEEPS = 100
_TOL = 1e-2
_FINE_TOL = 1e-4

# Once no merger is worth it by its estimate, this many mergers, and removals of this many small
# classes, are tried.
_TRIES = 2

# Totals with a smaller relative difference are equal.
_EQUAL = 1e-7

# Added to memberships, so that no row is zero after classes were left out.
_NEARLY_NONE = np.float32(1e-6)


@dataclass(frozen=True)
class ClassCount:
    """A number of classes, and the fit that supports it.

    Attributes
    ----------
    problem : Problem
        With that many classes.
    result : Result
        Its solution, largest class first; the status tells whether the search was completed.
    length : float
        Description length of the data, in nats; φ for fixed weights.
    one_class : float
        The same for a single class.
    surplus : int
        The largest number of classes tried.
    by_links : bool
        Whether the classes and both lengths are those of the links alone, because differences in
        the features are not worth their description.
    """

    problem: Problem
    result: Result
    length: float
    one_class: float
    surplus: int
    by_links: bool = False

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return self.problem.n_classes


@dataclass(frozen=True)
class Candidate:
    """A solution, and the description length of the data with it (φ for fixed weights)."""

    problem: Problem
    result: Result
    length: float


def count_classes(
    family: Family, random_state: int | None = None, callback: Callback | None = None
) -> ClassCount:
    """Find the number of classes with the shortest description of the data.

    Too many classes are fitted, then merged pair by pair down to one. The fit is solved again from
    where the description was shortest on the way, and further mergers and removals of classes are
    tried as long as they make it shorter. If more than half of the classes were needed, the same
    is done with twice as many.

    With calibrated weights, the description length is the free energy plus that of the classes'
    models and sizes. With fixed weights it is φ, under which surplus classes merge or become empty
    if the threshold lies between the densities across and inside classes.

    Parameters
    ----------
    family : Family
        The problem, for any number of classes.
    random_state : int, optional
        Seed of the starts.
    callback : callable, optional
        Called after every sweep; a true value ends the search with the best so far.
    """
    temperature = 1.0 if family.weights == "calibrated" else 0.0
    solver = BlockCADO(
        temperature=temperature, max_iter=_SWEEPS, tol=_TOL, random_state=random_state
    )
    counted = _count(family, solver, callback)
    ended = counted.result.status in (Status.STOPPED, Status.INTERRUPTED)
    if counted.n_classes > 1 or ended or family.graph is None or not family.terms:
        return counted
    # Classes that do not pay by their features may pay by their links.
    by_links = _count(replace(family, terms=()), solver, callback)
    if by_links.n_classes == 1:
        return counted
    fit = Search(family, solver, callback).fit(by_links.n_classes, by_links.result.W)
    result = replace(fit.result, status=by_links.result.status)
    return replace(by_links, problem=fit.problem, result=result, by_links=True)


def _count(family: Family, solver: BlockCADO, callback: Callback | None) -> ClassCount:
    search = Search(family, solver, callback)
    best = one = search.one
    most = _most_classes(family)
    surplus = min(FEWEST, most)
    status = best.result.status
    try:
        while surplus > 1 and not search.ended:
            before = best.length
            for begin in (search.fit, search.follow_links):
                best = min(best, search.merge(begin(surplus)), key=lambda fit: fit.length)
            enough = 2 * best.problem.n_classes <= surplus
            # Smaller differences are within the tolerance of the fits.
            more = before - best.length > 1.0 + 1e-3 * (one.length - best.length)
            if surplus >= most or (enough and not more and surplus > FEWEST):
                break
            surplus = min(2 * surplus, most)
        if family.weights == "calibrated" or 2 * best.problem.n_classes <= surplus:
            best = search.refine(best)  # else all falls apart, and every merger is worse
        status = search.ended or best.result.status
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    result = replace(best.result, status=status)
    return ClassCount(best.problem, result, best.length, one.length, surplus)


def _most_classes(family: Family) -> int:
    """Return the largest number of classes to try."""
    work = family.n_nodes
    if family.graph is not None:
        work += family.graph.n_entries
    if family.terms and family.nodes.X is not None:
        X = family.nodes.X
        work += X.size if sp.issparse(X) else X.size * -(-X.shape[1] // 2)
    affordable = max(_AFFORDED, _PRODUCTS // work)
    return int(max(1, min(_MOST, affordable, family.n_nodes // 2)))


class Search:
    """The steps of the search: fit, merge, refine; keeps track of whether the user stopped it.

    Parameters
    ----------
    family : Family
        The problem, for any number of classes.
    solver : BlockCADO
        The solver.
    callback : callable, optional
        Called after every sweep; a true value ends the search.
    """

    def __init__(self, family: Family, solver: BlockCADO, callback: Callback | None = None) -> None:
        self.family, self.solver, self.callback = family, solver, callback
        self.ended: Status | None = None
        self._spectral: NDArray[np.float32] | None = None
        self.one = self.settle(np.ones((family.n_nodes, 1), dtype=np.float32))

    def fit(self, n_classes: int, start: NDArray[Any] | None = None) -> Candidate:
        """Fit this many classes from these memberships, or from the solver's own starts."""
        problem = self.family.problem(n_classes)
        if start is None and choose_starts(problem, self.solver.n_init) == ["spectral"]:
            start = self._clusters(problem)
        return self._judge(problem, start, self.solver)

    def follow_links(self, n_classes: int) -> Candidate:
        """Fit from hard clusters of the links alone.

        In sparse graphs with many classes, memberships that start undecided remain so.
        """
        problem = self.family.problem(n_classes)
        if "spectral" not in promising_starts(problem):
            return self.one
        clusters = self._clusters(problem).argmax(axis=1)
        return self.settle(np.eye(n_classes, dtype=np.float32)[clusters])

    def _clusters(self, problem: Problem) -> NDArray[np.float32]:
        """Return the spectral start, computed once: on a large graph it costs more than a fit."""
        if self._spectral is None or self._spectral.shape[1] != problem.n_classes:
            rng = np.random.default_rng(self.solver.random_state)
            self._spectral = STARTS["spectral"](problem, rng)
        return self._spectral

    def settle(self, W: NDArray[Any]) -> Candidate:
        """Solve from these memberships, the largest class first and without empty classes."""
        sizes = W.sum(axis=0, dtype=np.float64)
        order = np.argsort(-sizes, kind="stable")[: _count_filled(sizes)]
        solver = replace(self.solver, hold=0)  # the start already says how classes are linked
        problem = self.family.problem(len(order))
        return self._judge(problem, W[:, order] + _NEARLY_NONE, solver)

    def _judge(self, problem: Problem, start: NDArray[Any] | None, solver: BlockCADO) -> Candidate:
        result = solver.solve(problem, start, self.callback)
        if result.status in (Status.INTERRUPTED, Status.STOPPED):
            self.ended = result.status
        elif _count_filled(result.W.sum(axis=0, dtype=np.float64)) < problem.n_classes:
            return self.settle(result.W)
        return Candidate(problem, result, description_length(problem, result))

    def merge(self, fit: Candidate) -> Candidate:
        """Merge to the shortest description and solve again, until nothing is merged."""
        while not self.ended and fit.problem.n_classes > 1:
            groups = self._fewest(fit)
            if groups.max() + 1 == fit.problem.n_classes:
                break
            fit = self.settle(merge_memberships(fit.result.W, groups))
        return fit

    def _fewest(self, fit: Candidate) -> NDArray[np.int64]:
        """Return the groups with the lowest total along the mergers; the fewest, if equal."""
        levels = list(self._merges(fit))
        least = min(total for total, _ in levels)
        slack = _EQUAL * max(1.0, abs(least))
        return [groups for total, groups in levels if total <= least + slack][-1]

    def _merges(self, fit: Candidate) -> Merges:
        return (CoupledMerges if self.family.son else Merges)(self.family, fit.result.W)

    def refine(self, fit: Candidate) -> Candidate:
        """Merge or remove one class at a time as long as the new fit is shorter.

        The tolerance is finer than before: removing a small class moves few nodes.
        """
        self.solver = replace(self.solver, tol=_FINE_TOL)
        if not self.ended and fit.problem.n_classes > 1:
            fit = self.settle(fit.result.W)
        while not self.ended and fit.problem.n_classes > 1:
            shorter = self._shorter(fit)
            if shorter is None:
                break
            fit = self.merge(shorter)
        return fit

    def _shorter(self, fit: Candidate) -> Candidate | None:
        """Return the best fit with one class fewer, if it is shorter."""
        W = fit.result.W
        tries = []
        for _, i, j in self._merges(fit).best()[:_TRIES]:
            groups = np.delete(np.arange(W.shape[1]), i).searchsorted(np.arange(W.shape[1]))
            groups[i] = groups[j]
            tries.append(merge_memberships(W, groups))
        smallest = np.argsort(W.sum(axis=0), kind="stable")[:_TRIES]
        tries += [np.delete(W, i, axis=1) for i in smallest]
        fits = []
        for tried in tries:
            if self.ended:
                break
            start = tried + _NEARLY_NONE
            fits.append(self.settle(start / start.sum(axis=1, keepdims=True)))
        best = min(fits, key=lambda fit: fit.length, default=fit)
        return best if best.length < fit.length else None


def _count_filled(sizes: NDArray[np.float64]) -> int:
    """Return the number of classes that are not empty, at least one."""
    return max(1, int((sizes >= 0.5).sum()))


def description_length(problem: Problem, result: Result) -> float:
    """Return the description length of the data with this fit, in nats; φ for fixed weights.

    The free energy's prior of the proportions is replaced by the number of ways to divide the
    nodes into classes of these sizes; models are charged as in
    :meth:`nodeproof.terms.Term.description_lengths`.
    """
    if not problem.calibrated:
        return result.value
    n, K = result.W.shape
    models = result.models
    sizes = result.W.sum(axis=0, dtype=np.float64)
    length = result.value + float((sizes + 1.0) @ models.log_prior)
    length += float(gammaln(n) - gammaln(K) - gammaln(n - K + 1.0) + gammaln(n + 1.0))
    length -= float(gammaln(sizes + 1.0).sum())
    for term, theta in zip(problem.terms, models.terms, strict=True):
        length += float(term.description_lengths(theta, sizes).sum()) - term.penalty(theta)
    return length


def choose_n_classes(
    family: Family, solver: Any, seed: int | None, callback: Callback | None, choices: Choices
) -> tuple[Problem, Result]:
    """Return the problem with the number of classes that fits the data, and its solution."""
    fixed = family.weights != "calibrated"
    if family.son and not fixed:
        family.problem(1)  # raises the error that explains it
    linked = family.graph is not None and family.weights[0] != 0
    if fixed and not linked and not family.son:
        raise InputError(
            "without labels and with fixed weights, the number of classes can only be found with a "
            "graph or a sum of norms: give n_classes"
        )
    counted = count_classes(family, seed, callback)
    ended = counted.result.status in (Status.STOPPED, Status.INTERRUPTED)
    if fixed and linked and not ended:
        _check_threshold(family, counted)
    choices["n_classes"] = {"value": counted.n_classes, "why": _why_so_many(family, counted)}
    if ended:
        return counted.problem, counted.result
    if isinstance(solver, BlockCADO):
        solver = replace(solver, hold=0)  # the start already says how classes are linked
    start = None if is_convex(solver) else counted.result.W
    return counted.problem, solve_with(solver, counted.problem, start, callback)


def _why_so_many(family: Family, counted: ClassCount) -> str:
    K, tried = counted.n_classes, f"up to {counted.surplus} classes were tried"
    if family.weights != "calibrated":
        return f"others merge or become empty at the threshold {family.threshold:g}; {tried}"
    if K == 1:
        return f"more classes do not make the description of the data shorter; {tried}"
    saved = counted.one_class - counted.length
    what = "the links" if counted.by_links else "the data"
    why = f"description of {what} is {saved:,.0f} nats shorter than with one class; {tried}"
    if counted.by_links:
        why += "; feature models per class would cost more than they save"
    return why


def _check_threshold(family: Family, counted: ClassCount) -> None:
    """Refuse or warn if the threshold is not between the densities across and inside classes."""
    graph, t, K = family.graph, family.threshold, counted.n_classes
    assert graph is not None
    advice = (
        "give a threshold between the densities of links across and inside classes (that of the "
        f"whole graph is {graph.density:.3g}), or n_classes"
    )
    if 2 * K > counted.surplus > 1:
        raise InputError(f"at the threshold {t:g} classes fall apart, into {K} or more: {advice}")
    if K == 1 and t < graph.density:
        warn_caller(f"at the threshold {t:g} all nodes form one class: {advice}")
