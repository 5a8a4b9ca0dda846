"""Memberships after a small change: solved near it, all others as they were.

The nodes that a change touches are solved again, one after the other, each given all others; then
the neighbours of those that have moved. Class models follow from sums over the memberships, which
change by differences. What a sweep over all nodes would still change is measured on a sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof import kernels
from nodeproof.graph import Graph, RowSums
from nodeproof.problem import Models, Problem
from nodeproof.runtime import threads
from nodeproof.solvers.sums import Sums, entropy, followed, summable_terms
from nodeproof.terms import NodeData

__all__ = ["Change", "Nearby", "bounded_mean", "costs_at", "neighbours_of", "solve_nearby"]

Array = NDArray[np.float64]
Rows = NDArray[np.float32]
Nodes = NDArray[np.int64]

# Where memberships move by more, in tolerances of the solver, neighbours are solved again.
_MOVED = 10.0

# Nodes that cannot move by more than this, in tolerances, are not solved.
_STILL = 0.1

# If more solutions of single nodes are needed than this share of the nodes, all are swept over.
_MOST = 0.5

# Nodes that show, evenly spaced, what a sweep over all would change; standard errors added.
_SAMPLE, _ERRORS = 2_000, 2.0

_ROUNDS = 3


@dataclass(frozen=True)
class Change:
    """What has changed between two problems.

    Attributes
    ----------
    n_before : int
        Number of nodes before; new ones come last.
    touched : ndarray of int
        Nodes that were there before and have other links, ascending.
    nodes : ndarray of int
        Nodes with another label, and new ones, ascending.
    rows, columns : ndarray of int, shape (E,)
        Entries of the adjacency matrix that have changed; each link has two.
    weights : ndarray of shape (E,)
        By how much.
    """

    n_before: int
    touched: Nodes
    nodes: Nodes
    rows: Nodes
    columns: Nodes
    weights: Array


@dataclass(frozen=True)
class Nearby:
    """Memberships after a change.

    Attributes
    ----------
    W : ndarray of shape (n, K), float32
        Memberships of all nodes.
    nodes : ndarray of int
        Those that were solved again, ascending.
    problem : Problem
        The problem after the change; priors of its terms are by what memberships come to.
    models, value, sums
        The best models for the memberships, the free energy there, and what these come to.
    n_iter : int
        Passes over nodes.
    left_out : float
        By how much a sweep would move the memberships of the nodes that were left out, on average;
        standard errors of the sample added.
    n_asked : int
        How many of these were asked.
    """

    W: Rows
    nodes: Nodes
    problem: Problem
    models: Models
    value: float
    sums: Sums
    n_iter: int
    left_out: float
    n_asked: int


def solve_nearby(
    before: Problem,
    nodes_before: NodeData,
    nodes: NodeData,
    change: Change,
    W: Rows,
    models: Models,
    sums: Sums,
    tol: float,
) -> Nearby | None:
    """Return memberships after a change; None if it reaches too far to be solved near it alone.

    Parameters
    ----------
    before : Problem
        The problem before the change.
    nodes_before, nodes : NodeData
        Features, labels and links before and after it.
    W : ndarray of shape (n, K), float32
        Memberships to start from: those before the change, and of the new nodes.
    models : Models
        Of the classes, before the change.
    sums : Sums
        Of the memberships before the change.
    tol : float
        Largest mean change of memberships in a further sweep.
    """
    if summable_terms(before) is None:
        return None
    # Priors by sums: those of all features would take a pass over these.
    before = followed(before, nodes_before, sums)
    return _Solve(before, nodes, change, W, sums, tol).run(models)


class _Solve:
    """One solve under way."""

    def __init__(
        self, before: Problem, nodes: NodeData, change: Change, W: Rows, sums: Sums, tol: float
    ) -> None:
        n, K = W.shape
        self.before, self.nodes, self.change, self.sums = before, nodes, change, sums
        self.after = after = followed(before, nodes, sums)
        self.W, self.tol = np.array(W, dtype=np.float32, order="C"), tol
        #: memberships before the change; new nodes had none
        self.old = self.W.copy()
        self.old[change.n_before :] = 0.0
        self.links = _links_of(after.graph, n)
        self.eta = np.ones(n) if after.graph is None else after.graph.eta
        self.reached = np.zeros(n, dtype=bool)
        self.work = kernels.workspace(K)
        #: link mass of the memberships as they are
        self.mass = self._first_mass()
        self.solved = self.n_iter = 0

    def run(self, models: Models) -> Nearby | None:
        """Solve, judge, and look at the others; again as long as models move those solved."""
        dirty = self._begin(models)
        for _ in range(_ROUNDS):
            if not self._settle(dirty, models):
                return None
            nodes = np.flatnonzero(self.reached)
            sums = self._moved_sums(nodes)
            self.after = followed(self.before, self.nodes, sums)
            models, value = sums.judge(self.after)
            inside, outside, n_asked = self._residuals(models, sums.rows.totals)
            if outside > self.tol:
                return None
            if inside <= self.tol:
                return Nearby(
                    self.W, nodes, self.after, models, value, sums, self.n_iter, outside, n_asked
                )
            dirty = nodes
        return None

    def _begin(self, models: Models) -> Nodes:
        """Return the nodes whose own links and labels may move them by as much as counts.

        By links that have changed, the odds of two classes move by no more than e to the power of
        their affinities times their weights. That leaves most nodes whose class is clear.
        """
        change, affinity, touched = self.change, models.affinity, self.change.touched
        marks = np.zeros(len(self.W), dtype=bool)
        marks[change.nodes] = True
        if affinity is not None and len(touched):
            weight = np.bincount(change.rows, np.abs(change.weights), minlength=len(marks))
            spread = float(np.ptp(affinity.ell)) if affinity.ell.size > 1 else 0.0
            pull = max(spread, float(np.abs(affinity.ell).max())) * weight[touched]
            was = self._rescaled * self._eta_before(touched)
            far = float(np.abs(affinity.ell_t).max() * np.abs(self.sums.rows.totals).max())
            pull += far * np.abs(self.eta[touched] - was)
            unsure = 1.0 - self.W[touched].max(axis=1).astype(np.float64)
            marks[touched[unsure * np.exp(np.minimum(pull, 50.0)) > _STILL * self.tol]] = True
        return np.flatnonzero(marks)

    def _settle(self, dirty: Nodes, models: Models) -> bool:
        """Solve nodes, and the neighbours of those that move, until none does; or give up."""
        totals = self._totals()
        while len(dirty):
            self.n_iter += 1
            self.solved += len(dirty)
            if self.solved > _MOST * len(self.W):
                return False
            changes = self._solve(dirty, models, totals, True)
            self.reached[dirty] = True
            moved = dirty[changes > _MOVED * self.tol]
            dirty = neighbours_of(self.after.graph, moved)
        return True

    def _solve(self, nodes: Nodes, models: Models, totals: Array, in_place: bool) -> Array:
        affinity = models.affinity
        none = np.zeros((1, 1))
        ell, ell_t = (none, none) if affinity is None else (affinity.ell, affinity.ell_t)
        changes = np.empty(len(nodes))
        new = np.empty((len(nodes), self.W.shape[1]), dtype=np.float32)
        kernels.solve_nodes(
            nodes, *self.links, self.eta, self.W, totals, self.mass,
            costs_at(self.after, models, nodes), models.log_prior, ell, ell_t, in_place, new,
            changes, *self.work,
        )  # fmt: skip
        return changes

    # Sums, by what has changed. ---------------------------------------------------------

    def _eta_before(self, nodes: Nodes) -> Array:
        """Return the factors of the null model before the change; of new nodes 0."""
        found = np.zeros(len(nodes))
        graph = self.before.graph
        known = nodes[nodes < self.change.n_before]
        found[: len(known)] = 1.0 if graph is None else graph.eta[known]
        return found

    @property
    def _rescaled(self) -> float:
        """By how much factors of the null model change at nodes whose degree does not."""
        before, after = self.before.graph, self.after.graph
        if before is None or after is None or after.null_model != "degree":
            return 1.0
        return float(np.sqrt(before.total / after.total)) if after.total > 0 else 1.0

    def _totals(self) -> Array:
        """Return ``Σ η_v W_vi`` of the memberships as they are."""
        return self._moved_rows().totals

    def _moved_rows(self) -> RowSums:
        """Return the sums that do not involve links."""
        marks = self.reached.copy()
        for nodes in (self.change.touched, self.change.nodes):
            marks[nodes] = True
        nodes = np.flatnonzero(marks)
        rows, scale = self.sums.rows, self._rescaled
        matrix = rows.squares.shape != (1, 1)
        K = self.W.shape[1]
        sides = [
            (self.W[nodes], self.eta[nodes], 1.0),
            (self.old[nodes], scale * self._eta_before(nodes), -1.0),
        ]
        moved = np.concatenate([scale * rows.totals, rows.sizes, scale**2 * rows.squares.ravel()])
        for W, eta, sign in sides:
            moved += sign * RowSums.part(W, eta, matrix, 0, len(nodes))
        return RowSums.split(moved, K)

    def _moved_sums(self, nodes: Nodes) -> Sums:
        change, sums = self.change, self.sums
        moved = (self.W[nodes] != self.old[nodes]).any(axis=1)
        marks = np.zeros(len(self.W), dtype=bool)
        marks[nodes[moved]] = True
        marks[change.nodes] = True
        nodes_moved = np.flatnonzero(marks)
        new, old = self.W[nodes_moved], self.old[nodes_moved]
        # What is known of the others is the same: sums are linear in their steps.
        same = np.ones(len(self.W), dtype=bool)
        same[change.nodes] = False
        still = same[nodes_moved]
        step = new[still].astype(np.float64) - old[still]
        others, gone = nodes_moved[still], change.nodes[change.nodes < change.n_before]
        terms = []
        for term, was, own in zip(
            summable_terms(self.after) or (),
            summable_terms(self.before) or (),
            sums.terms,
            strict=True,
        ):
            moved_by = term.cut(others).sums(step, 0, len(step))
            if len(change.nodes):
                after = term.cut(change.nodes).sums(self.W[change.nodes], 0, len(change.nodes))
                moved_by = moved_by + after - was.cut(gone).sums(self.old[gone], 0, len(gone))
            terms.append(own + moved_by)
        return Sums(
            self.mass.copy(),
            self._moved_rows(),
            tuple(terms),
            sums.entropy + entropy(new) - entropy(old),
        )

    def _first_mass(self) -> Array:
        """Return the link mass before any node is solved.

        With W′ = W + D and A′ = A + E, ``DᵀA′W′ + (A′W)ᵀD + WᵀEW`` is added; D are the rows of the
        new nodes.
        """
        links, change = self.sums.links, self.change
        if self.after.graph is None:
            return links.copy()
        nodes = change.nodes[change.nodes >= change.n_before]
        step = self.W[nodes].astype(np.float64)
        near, was = self._near(nodes, self.W), self._near(nodes, self.old)
        first = self.old[change.rows].astype(np.float64)
        second = self.old[change.columns] * change.weights[:, None]
        if links.shape == (1, 1):
            return np.asarray(links + np.vdot(step, near + was) + np.vdot(first, second))
        return np.asarray(links + step.T @ near + was.T @ step + first.T @ second)

    def _near(self, nodes: Nodes, M: Rows) -> Array:
        """Return sums over the neighbours of nodes."""
        out = np.empty((len(nodes), M.shape[1]))
        kernels.gather_nodes(nodes, *self.links, M, out, self.work[0])
        return out

    # What was left out. -----------------------------------------------------------------

    def _residuals(self, models: Models, totals: Array) -> tuple[float, float, int]:
        """Return how much a sweep would change: nodes that were solved, and all others."""
        n = len(self.W)
        asked = np.unique(np.linspace(0, n - 1, min(n, _SAMPLE)).astype(np.int64))
        changes = self._solve(asked, models, totals, False)
        solved = self.reached[asked]
        others = ~solved
        return bounded_mean(changes[solved]), bounded_mean(changes[others]), int(others.sum())


def bounded_mean(changes: Array) -> float:
    """Return the mean of a sample, some standard errors added."""
    if not len(changes):
        return 0.0
    return float(changes.mean() + _ERRORS * changes.std() / np.sqrt(len(changes)))


def costs_at(problem: Problem, models: Models, nodes: Nodes) -> Array:
    """Return what some nodes cost in each class by terms that sums tell all of."""
    total = np.zeros((len(nodes), problem.n_classes))
    for term, theta in zip(summable_terms(problem) or (), models.terms, strict=True):
        part = partial(term.cut(nodes).cost, theta)
        total += np.concatenate(
            [np.zeros((0, problem.n_classes)), *threads.map_rows(part, len(nodes))]
        )
    return total


def neighbours_of(graph: Graph | None, nodes: Nodes) -> Nodes:
    """Return the nodes that are linked to any of these, ascending."""
    if graph is None or not len(nodes):
        return nodes[:0]
    counts = graph.indptr[nodes + 1] - graph.indptr[nodes]
    before = np.cumsum(counts) - counts
    entries = np.arange(counts.sum()) + np.repeat(graph.indptr[nodes] - before, counts)
    marks = np.zeros(graph.n_nodes, dtype=bool)
    marks[graph.indices[entries]] = True
    return np.flatnonzero(marks)


def _links_of(graph: Graph | None, n: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    if graph is None:
        return np.zeros(n + 1, np.int32), np.zeros(0, np.int32), np.zeros(0, np.float32)
    return graph.indptr, graph.indices, graph.weights
