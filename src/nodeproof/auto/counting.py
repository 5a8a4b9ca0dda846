"""How many classes there are, where nobody says: begin with too many, merge what is one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import gammaln

from nodeproof.auto.merging import Family, Merges, PulledMerges, merge_rows
from nodeproof.auto.settings import Choices, is_convex
from nodeproof.errors import InputError
from nodeproof.problem import Problem
from nodeproof.runtime.logs import warn_caller
from nodeproof.solvers import BlockCADO, Result, Status
from nodeproof.solvers.base import Callback, solve_with
from nodeproof.solvers.starts import STARTS, choose_starts, promising_starts

__all__ = [
    "FEWEST",
    "Counted",
    "Fit",
    "Search",
    "choose_n_classes",
    "count_classes",
    "description_length",
]


#: classes to begin with; they are doubled until half are found to be too many
FEWEST = 4
_MOST = 64

# Fewer where a sweep would take more products than this, but never fewer than _AFFORDED.
_PRODUCTS = 64_000_000
_AFFORDED = 16

# Rows need not settle to tell which classes are one, but to tell which are none.
_SWEEPS = 100
_TOL = 1e-2
_FINE_TOL = 1e-4

# Where to look for something shorter once no merger is worth it: among so many mergers, and
# without each of so many small classes.
_TRIES = 2

# Totals that differ by less, as a share, are the same.
_EQUAL = 1e-7

# Added to rows, so that none is zero without the classes that were left out.
_NEARLY_NONE = np.float32(1e-6)


@dataclass(frozen=True)
class Counted:
    """A number of classes, and the fit that speaks for it.

    Attributes
    ----------
    problem : Problem
        With that many classes.
    result : Result
        Its rows, largest class first; the status tells whether the search came to its end.
    length : float
        How long a description of the data it makes, in nats; φ for fixed weights.
    one_class : float
        The same for a single class.
    surplus : int
        The most classes that were tried.
    by_links : bool
        Whether the classes and both lengths are those of the links alone: features do not differ
        by so much that it is worth saying.
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
class Fit:
    """A solution, and how long a description of the data it makes (φ for fixed weights)."""

    problem: Problem
    result: Result
    length: float


def count_classes(
    family: Family, random_state: int | None = None, callback: Callback | None = None
) -> Counted:
    """Find the number of classes that describes the data in the fewest words.

    Too many classes are fitted; then, two at a time, they are merged down to one. Where along the
    way the description is shortest, the rows are solved again, and mergers and classes left out
    are tried as long as they make it shorter. If more than half of the classes were needed, the
    same is done with twice as many.

    Calibrated, the description is the free energy with what each class's model and size take to
    say. With fixed weights it is φ, under which surplus classes merge or empty out where the
    threshold lies between the densities across and inside classes.

    Parameters
    ----------
    family : Family
        What to solve, whatever the number of classes.
    random_state : int, optional
        Seed of the starts.
    callback : callable, optional
        Told after every sweep; a true answer ends the search with what there is.
    """
    temperature = 1.0 if family.weights == "calibrated" else 0.0
    solver = BlockCADO(
        temperature=temperature, max_iter=_SWEEPS, tol=_TOL, random_state=random_state
    )
    counted = _count(family, solver, callback)
    ended = counted.result.status in (Status.STOPPED, Status.INTERRUPTED)
    if counted.n_classes > 1 or ended or family.graph is None or not family.terms:
        return counted
    # That classes differ in their features may not be worth saying; that they do in their links,
    # may.
    by_links = _count(replace(family, terms=()), solver, callback)
    if by_links.n_classes == 1:
        return counted
    fit = Search(family, solver, callback).fit(by_links.n_classes, by_links.result.W)
    result = replace(fit.result, status=by_links.result.status)
    return replace(by_links, problem=fit.problem, result=result, by_links=True)


def _count(family: Family, solver: BlockCADO, callback: Callback | None) -> Counted:
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
            # Within the tolerance of the rows, lengths are the same.
            more = before - best.length > 1.0 + 1e-3 * (one.length - best.length)
            if surplus >= most or (enough and not more and surplus > FEWEST):
                break
            surplus = min(2 * surplus, most)
        if family.weights == "calibrated" or 2 * best.problem.n_classes <= surplus:
            best = search.think_again(best)  # else all falls apart, and every merger is worse
        status = search.ended or best.result.status
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    result = replace(best.result, status=status)
    return Counted(best.problem, result, best.length, one.length, surplus)


def _most_classes(family: Family) -> int:
    """Return how many classes to try at most."""
    work = family.n_nodes
    if family.graph is not None:
        work += family.graph.n_entries
    if family.terms and family.nodes.X is not None:
        X = family.nodes.X
        work += X.size if sp.issparse(X) else X.size * -(-X.shape[1] // 2)
    affordable = max(_AFFORDED, _PRODUCTS // work)
    return int(max(1, min(_MOST, affordable, family.n_nodes // 2)))


class Search:
    """Fits, mergers and second thoughts; remembers whether the user has ended it.

    Parameters
    ----------
    family : Family
        What to solve, whatever the number of classes.
    solver : BlockCADO
        What to solve it with.
    callback : callable, optional
        Told after every sweep; a true answer ends the search.
    """

    def __init__(self, family: Family, solver: BlockCADO, callback: Callback | None = None) -> None:
        self.family, self.solver, self.callback = family, solver, callback
        self.ended: Status | None = None
        self._spectral: NDArray[np.float32] | None = None
        self.one = self.settle(np.ones((family.n_nodes, 1), dtype=np.float32))

    def fit(self, n_classes: int, start: NDArray[Any] | None = None) -> Fit:
        """Fit so many classes from these rows, or from the solver's own starts."""
        problem = self.family.problem(n_classes)
        if start is None and choose_starts(problem, self.solver.n_init) == ["spectral"]:
            start = self._clusters(problem)
        return self._judge(problem, start, self.solver)

    def follow_links(self, n_classes: int) -> Fit:
        """Fit from clusters of the links alone, taken at their word.

        In sparse graphs with many classes, rows that begin undecided remain so.
        """
        problem = self.family.problem(n_classes)
        if "spectral" not in promising_starts(problem):
            return self.one
        rows = self._clusters(problem)
        return self.settle(np.eye(n_classes, dtype=np.float32)[rows.argmax(axis=1)])

    def _clusters(self, problem: Problem) -> NDArray[np.float32]:
        """Return the spectral start, found once: of a large graph it takes longer than a fit."""
        if self._spectral is None or self._spectral.shape[1] != problem.n_classes:
            rng = np.random.default_rng(self.solver.random_state)
            self._spectral = STARTS["spectral"](problem, rng)
        return self._spectral

    def settle(self, W: NDArray[Any]) -> Fit:
        """Solve from these rows, the largest class first and without those nobody is in."""
        sizes = W.sum(axis=0, dtype=np.float64)
        order = np.argsort(-sizes, kind="stable")[: _count_filled(sizes)]
        solver = replace(self.solver, hold=0)  # the rows say already how links bind
        problem = self.family.problem(len(order))
        return self._judge(problem, W[:, order] + _NEARLY_NONE, solver)

    def _judge(self, problem: Problem, start: NDArray[Any] | None, solver: BlockCADO) -> Fit:
        result = solver.solve(problem, start, self.callback)
        if result.status in (Status.INTERRUPTED, Status.STOPPED):
            self.ended = result.status
        elif _count_filled(result.W.sum(axis=0, dtype=np.float64)) < problem.n_classes:
            return self.settle(result.W)
        return Fit(problem, result, description_length(problem, result))

    def merge(self, fit: Fit) -> Fit:
        """Merge classes down to where the description is shortest, and solve again, in turn."""
        while not self.ended and fit.problem.n_classes > 1:
            groups = self._fewest(fit)
            if groups.max() + 1 == fit.problem.n_classes:
                break
            fit = self.settle(merge_rows(fit.result.W, groups))
        return fit

    def _fewest(self, fit: Fit) -> NDArray[np.int64]:
        """Return the groups along the mergers where the total is least, as few as can be."""
        levels = list(self._merges(fit))
        least = min(total for total, _ in levels)
        slack = _EQUAL * max(1.0, abs(least))
        return [groups for total, groups in levels if total <= least + slack][-1]

    def _merges(self, fit: Fit) -> Merges:
        return (PulledMerges if self.family.son else Merges)(self.family, fit.result.W)

    def think_again(self, fit: Fit) -> Fit:
        """Merge or leave out one class at a time as long as, solved again, it is shorter so.

        Rows are solved closer than before: a small class that is left out moves few of them.
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

    def _shorter(self, fit: Fit) -> Fit | None:
        """Return the best fit with one class less, if it is shorter."""
        W = fit.result.W
        tries = []
        for _, i, j in self._merges(fit).best()[:_TRIES]:
            groups = np.delete(np.arange(W.shape[1]), i).searchsorted(np.arange(W.shape[1]))
            groups[i] = groups[j]
            tries.append(merge_rows(W, groups))
        smallest = np.argsort(W.sum(axis=0), kind="stable")[:_TRIES]
        tries += [np.delete(W, i, axis=1) for i in smallest]
        fits = []
        for rows in tries:
            if self.ended:
                break
            rows = rows + _NEARLY_NONE
            fits.append(self.settle(rows / rows.sum(axis=1, keepdims=True)))
        best = min(fits, key=lambda fit: fit.length, default=fit)
        return best if best.length < fit.length else None


def _count_filled(sizes: NDArray[np.float64]) -> int:
    """Return how many classes someone is in, at least one."""
    return max(1, int((sizes >= 0.5).sum()))


def description_length(problem: Problem, result: Result) -> float:
    """Return how long a description of the data the fit makes, in nats; φ for fixed weights.

    In place of the free energy's own prior of the proportions stands the number of ways to cut
    the nodes into classes of these sizes; models are charged as in
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


# ------------------------------------------------------------------------------
# The number of classes, where nothing says it.


def choose_n_classes(
    family: Family, solver: Any, seed: int | None, callback: Callback | None, choices: Choices
) -> tuple[Problem, Result]:
    """Return the problem with as many classes as the data ask for, and its solution."""
    fixed = family.weights != "calibrated"
    if family.son and not fixed:
        family.problem(1)  # which says what is wrong
    linked = family.graph is not None and family.weights[0] != 0
    if fixed and not linked and not family.son:
        raise InputError(
            "without labels, fixed weights need a graph or a sum of norms to tell how many classes "
            "there are: give n_classes"
        )
    counted = count_classes(family, seed, callback)
    ended = counted.result.status in (Status.STOPPED, Status.INTERRUPTED)
    if fixed and linked and not ended:
        _check_threshold(family, counted)
    choices["n_classes"] = {"value": counted.n_classes, "why": _why_so_many(family, counted)}
    if ended:
        return counted.problem, counted.result
    if isinstance(solver, BlockCADO):
        solver = replace(solver, hold=0)  # the rows say already how links bind
    start = None if is_convex(solver) else counted.result.W
    return counted.problem, solve_with(solver, counted.problem, start, callback)


def _why_so_many(family: Family, counted: Counted) -> str:
    K, tried = counted.n_classes, f"up to {counted.surplus} classes were tried"
    if family.weights != "calibrated":
        return f"others merge or empty out at the threshold {family.threshold:g}; {tried}"
    if K == 1:
        return f"no classes make the description of the data shorter; {tried}"
    saved = counted.one_class - counted.length
    what = "the links" if counted.by_links else "the data"
    why = f"describes {what} in {saved:.0f} nats less than one class would; {tried}"
    if counted.by_links:
        why += "; features of their own would take more to describe than they tell"
    return why


def _check_threshold(family: Family, counted: Counted) -> None:
    """Say so where the threshold does not lie between the densities across and inside classes."""
    graph, t, K = family.graph, family.threshold, counted.n_classes
    assert graph is not None
    advice = (
        "give a threshold between the densities of links across and inside classes (that of the "
        f"whole graph is {graph.density:.3g}), or n_classes"
    )
    if 2 * K > counted.surplus > 1:
        raise InputError(f"at the threshold {t:g} classes fall apart, into {K} and more: {advice}")
    if K == 1 and t < graph.density:
        warn_caller(f"at the threshold {t:g} all is one class: {advice}")
