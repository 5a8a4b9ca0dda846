"""Block ADMM: the convex program over a polytope, one semidefinite block a vertex."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.errors import InputError
from nodeproof.problem import Problem
from nodeproof.program import (
    Decomposition,
    Polytope,
    Program,
    check_memory,
    lift_negative,
    off_diagonal,
    polytope_bound,
    with_diagonal,
)
from nodeproof.solvers.base import Callback, Progress, Status, check_at_least, check_count
from nodeproof.solvers.convex import ConvexResult, finish, relative_gap
from nodeproof.son import Pairs, sum_of_norms

__all__ = ["BlockADMM"]

Array = NDArray[np.float64]

_RELAXATION = 1.6
# ρ follows the residuals, at ever longer intervals, so that it settles.
_FIRST_ADAPTATION = 10
_INTERVALS = 1.5
_MOST_FACTOR = 5.0


@dataclass(frozen=True)
class BlockADMM:
    """Solve the convex program over a polytope Θ = conv{θ¹…θᵏ}, without a modelling library.

    Every atom splits over the vertices, so with ``L = Σ_j L_j, θ_v = Σ_j (L_j)_vv θʲ`` the
    program is one over k positive semidefinite blocks,

        minimise  Σ_j ⟨diag c_j − B, L_j⟩ + μ1 Σ_{u<v} ‖θ_u − θ_v‖
        so that   L_j ⪰ 0,  Σ_j (L_j)_vv = 1,  Σ_j (L_j)_uv ≥ 0.

    One step projects each block on the semidefinite cone, the other one solves the rest in
    closed form. Its multipliers have the form of the dual, so that every iterate gives a lower
    bound; the iteration stops when a feasible point is proven to be as close as `tol`.

    Parameters
    ----------
    tol : float
        Relative gap between the objective and its lower bound.
    max_iter : int
        Most iterations.
    check_every : int
        After so many iterations feasible points and bounds are computed.
    random_state : int, optional
        Seed of the rounding to a labelling.

    Examples
    --------
    >>> from nodeproof import Problem, datasets, solvers
    >>> from nodeproof.graph import Graph
    >>> data = datasets.make_planted(p=0.9, q=0.1, cluster_size=15, random_state=0)
    >>> problem = Problem(Graph(data.graph), [], n_classes=3, weights=(1.0, 0.0, 0.0))
    >>> result = solvers.BlockADMM(random_state=0).solve(problem)
    >>> str(result.status), result.gap <= 1e-4
    ('converged', True)
    """

    tol: float = 1e-4
    max_iter: int = 10_000
    check_every: int = 20
    random_state: int | None = None

    def __post_init__(self) -> None:
        check_count("max_iter", self.max_iter)
        check_count("check_every", self.check_every)
        check_at_least("tol", self.tol, 0.0)

    def solve(
        self,
        problem: Problem,
        start: NDArray[Any] | None = None,
        callback: Callback | None = None,
    ) -> ConvexResult:
        """Return a solution, its lower bound, and the labelling it is rounded to.

        Parameters
        ----------
        problem : Problem
            With fixed weights, and terms whose losses are linear on a polytope.
        start : None
            The program is convex: it does not matter where one begins.
        callback : callable, optional
            Told whenever the bound is computed; a true answer ends the solve.
        """
        if start is not None:
            raise InputError("BlockADMM solves a convex program and takes no start")
        program = Program(problem)
        polytope = program.require_polytope("BlockADMM")
        check_memory("BlockADMM", program.n_nodes, 7 * len(polytope.vertices) + 4)
        state = Blocks(program.B, polytope, program.son)
        status, history = Status.MAX_ITER, defaultdict[str, list[float]](list)
        iteration = 0
        try:
            for iteration in range(1, self.max_iter + 1):
                change = state.step()
                if iteration % self.check_every and iteration < self.max_iter:
                    continue
                state.judge()
                seen = {"iteration": iteration, "value": state.value, "bound": state.bound}
                for key, number in seen.items():
                    history[key].append(float(number))
                if callback and callback(Progress(iteration, 1, 1, change, state.shares)):
                    status = Status.STOPPED
                    break
                if relative_gap(state.value, state.bound) <= self.tol:
                    status = Status.CONVERGED
                    break
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        return finish(
            program,
            state.atoms(),
            state.bound,
            status,
            iteration,
            dict(history),
            self.random_state,
        )


class Splitting(ABC):
    """An ADMM over matrices X in the semidefinite cone and Z in another set.

    Attributes
    ----------
    X, Z, U : ndarray of shape (k, size, size)
        The two copies, and scaled multipliers: ``ρU_j`` is the dual's matrix of block j.
    """

    def __init__(self, Z: Array, rho: float) -> None:
        self.X, self.Z, self.U, self.rho = Z.copy(), Z, np.zeros_like(Z), rho
        self.iteration, self._next = 0, _FIRST_ADAPTATION

    @abstractmethod
    def less_costs(self, T: Array) -> None:
        """Subtract ``C/ρ`` from T, in place."""

    @abstractmethod
    def other_set(self, T: Array) -> Array:
        """Return the nearest member of the other set to T, shape (k, size, size)."""

    def rescale(self, factor: float) -> None:
        """Make ρ so many times larger, and leave the multipliers what they are."""
        self.rho *= factor
        self.U /= factor

    def step(self) -> float:
        """Go through one iteration; return how far the two copies are apart, per entry."""
        self.iteration += 1
        before = self.Z
        self.X = positive_part(before - self.U)
        primal = float(np.linalg.norm(self.X - before))
        moved = _RELAXATION * self.X + (1.0 - _RELAXATION) * before + self.U
        T = moved.copy()
        self.less_costs(T)
        self.Z = self.other_set(T)
        self.U = moved - self.Z
        dual = float(np.linalg.norm(self.Z - before))  # in units of ρ
        if self.iteration == self._next:
            self._next = int(self.iteration * _INTERVALS) + 1
            if primal > 0 and dual > 0:
                factor = float(np.clip(primal / dual, 1.0 / _MOST_FACTOR, _MOST_FACTOR))
                if not 0.5 < factor < 2.0:
                    self.rescale(factor)
        return primal / float(np.sqrt(self.X.size))


class Blocks(Splitting):
    """The program's own splitting: the blocks share the diagonal and the signs of L."""

    def __init__(self, B: Array, polytope: Polytope, son: float) -> None:
        self.B, self.costs, self.vertices = B, polytope.costs, polytope.vertices
        self.n, self.k = polytope.costs.shape
        self.son = son if self.k > 1 else 0.0
        Z = np.tile(np.eye(self.n) / self.k, (self.k, 1, 1))
        rho = max(np.abs(B).max(initial=0.0), np.abs(self.costs).max(initial=0.0))
        super().__init__(Z, float(rho) or 1.0)
        self.best, self.value, self.bound = Z.copy(), np.inf, -np.inf
        self._restart, self._averaged, self._sums = _FIRST_ADAPTATION, 0, list[Array]()
        if self.son:
            self.pairs = Pairs(self.n, self.vertices.shape[1])
            # An orthonormal basis of the directions in which shares can move: they sum to one.
            self._basis = np.linalg.svd(np.ones((1, self.k)))[2][1:].T
            self._stiff = self._basis.T @ self.vertices @ self.vertices.T @ self._basis

    @property
    def shares(self) -> Array:
        """How much each node belongs to each vertex, shape (n, k)."""
        return np.ascontiguousarray(self._diagonals(self.Z).T)

    @staticmethod
    def _diagonals(blocks: Array) -> Array:
        """Return a view of the blocks' diagonals, shape (k, n)."""
        return np.einsum("jvv->jv", blocks)

    def less_costs(self, T: Array) -> None:
        """Subtract ``(diag c_j − B)/ρ``."""
        T += self.B / self.rho
        self._diagonals(T)[:] -= self.costs.T / self.rho

    def other_set(self, T: Array) -> Array:
        """Lift negative sums to zero, and make those of the diagonals one."""
        # Sums above one need no care: a semidefinite L with a unit diagonal has none.
        shares = self._nearest_shares(self._diagonals(T).T)
        T += np.maximum(-T.sum(axis=0), 0.0) / self.k
        self._diagonals(T)[:] = shares.T
        return T

    def _nearest_shares(self, T: Array) -> Array:
        """Return rows of sum one that are near T (n, k), and whose models are near each other."""
        nearest = T + (1.0 - T.sum(axis=1, keepdims=True)) / self.k
        if not self.son:
            return nearest
        # Minimise ½‖D − T‖² + ½r Σ_{u<v} ‖(D_u − D_v)V − y_uv‖², rows of sum one, with r = 1/n:
        # the mean row stays, and the rest meets one small system.
        theta = self.shares @ self.vertices
        asked = self.pairs.pull(theta, self.son * self.n / self.rho, _RELAXATION) / self.n
        mean = nearest.mean(axis=0)
        right = (nearest - mean + asked @ self.vertices.T) @ self._basis
        moved = np.linalg.solve(np.eye(self.k - 1) + self._stiff, right.T).T
        D = mean + moved @ self._basis.T
        self.pairs.settle(D @ self.vertices)
        return D

    def rescale(self, factor: float) -> None:
        """Make ρ so many times larger."""
        super().rescale(factor)
        if self.son:
            self.pairs.w /= factor

    def step(self) -> float:
        """Go through one iteration, and take it into the averages."""
        change = super().step()
        # Averages over the last third at least and half at most: iterates circle the optimum.
        if self.iteration == self._restart:
            self._restart *= 2
            self._averaged, self._sums = 0, []
        here = [self.X, *self._dual()]
        if self._sums:
            for total, part in zip(self._sums, here, strict=True):
                total += part
        else:
            self._sums = [part.copy() for part in here]
        self._averaged += 1
        return change

    def judge(self) -> None:
        """Update the best feasible value and the best bound, by the iterate and the average."""
        averages = [part / self._averaged for part in self._sums]
        for X, dual in ((self.X, self._dual()), (averages[0], averages[1:])):
            value = self._feasible_value(X)
            if value < self.value:
                self.value, self.best = value, X.copy()
            for nu, gamma, costs in (dual, tighten(self.B, *dual)):
                self.bound = max(self.bound, polytope_bound(self.B, costs, nu, gamma))

    def atoms(self) -> Decomposition:
        """Return the best blocks as a sum of atoms."""
        roots = [_root(block) for block in self.best]
        at = np.repeat(np.arange(self.k), [root.shape[1] for root in roots])
        return Decomposition(np.hstack(roots), self.vertices[at])

    def _feasible_value(self, X: Array) -> float:
        """Return the objective of the feasible point near the blocks."""
        lengths = self._diagonals(X).T
        total = lengths.sum(axis=1)
        if not (total > 0).all():
            return np.inf
        L = X.sum(axis=0) / np.sqrt(np.outer(total, total))
        shares = lengths / total[:, None]
        best = np.inf
        for scale, added in lift_negative(L):
            D = shares * scale[:, None] ** 2 + np.outer(np.diag(added), shares.mean(axis=0))
            value = -float(scale @ (self.B * L) @ scale) - float(np.vdot(self.B, added))
            value += float(np.vdot(self.costs, D))
            if self.son:
                value += self.son * sum_of_norms(D @ self.vertices)
            best = min(best, value)
        return best

    def _dual(self) -> tuple[Array, Array, Array]:
        """Return ν, Γ and the costs, forces of the pairs included."""
        costs = self.costs
        if self.son:
            forces = self.pairs.forces(self.rho / self.n, self.son)
            costs = costs + forces @ self.vertices.T
        nu = (costs - self.rho * self._diagonals(self.U).T).mean(axis=1)
        # Off the diagonal all multipliers agree: ρU_j = −B − Γ.
        return nu, -self.B - self.rho * self.U[0], costs


def tighten(B: Array, nu: Array, gamma: Array, costs: Array) -> tuple[Array, Array, Array]:
    """Return dual variables whose blocks are semidefinite, up to rounding, at little cost.

    With N the sum of the blocks' negative parts, every block plus N is semidefinite; ν and Γ
    can take it up. Where Γ is positive that costs nothing.
    """
    M = np.stack([with_diagonal(-B - off_diagonal(gamma), c - nu) for c in costs.T])
    N = (positive_part(M) - M).sum(axis=0)
    return nu - np.diag(N), off_diagonal(gamma - N), costs


def positive_part(matrices: Array) -> Array:
    """Return the positive semidefinite parts of symmetric matrices, shape (k, size, size)."""
    out = np.empty_like(matrices)
    for matrix, part in zip(matrices, out, strict=True):
        root = _root(matrix)
        np.matmul(root, root.T, out=part)
    return out


def _root(matrix: Array) -> Array:
    """Return a root of the positive part of a symmetric matrix, shape (size, rank)."""
    values, vectors = np.linalg.eigh(matrix)
    kept = values > 0
    return np.asarray(vectors[:, kept] * np.sqrt(values[kept]))
