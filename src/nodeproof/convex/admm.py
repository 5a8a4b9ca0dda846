"""Block ADMM: the convex program over a polytope, one semidefinite block per vertex."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.atoms import Decomposition
from nodeproof.certificate.labelling.dual import Dual
from nodeproof.certificate.labelling.families import FAMILIES
from nodeproof.certificate.labelling.improve import LiftedBlocks
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.convex.program import Polytope, Program, check_memory, lift_negative, sum_down
from nodeproof.convex.results import (
    ConvexResult,
    LabellingResult,
    best_bound,
    finish,
    iterate,
    relative_gap,
)
from nodeproof.errors import InputError
from nodeproof.first_order import FIRST_ADAPTATION, Point
from nodeproof.problem import Problem
from nodeproof.runtime import threads
from nodeproof.solvers.base import Callback, Status, check_at_least, check_count
from nodeproof.solvers.block import BlockCADO
from nodeproof.solvers.semidefinite import SemidefiniteADMM
from nodeproof.sum_of_norms.pairs import differences, forces, shrink, sum_of_norms

__all__ = ["BlockADMM"]

Array = NDArray[np.float64]

# First ρ, in units of the largest cost: whole classes move from vertex to vertex at a pace of 1/ρ.
_RHO = 0.35


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
    lifted : bool
        Keep the class models fixed, at those fitted to the start, and solve the lifted
        relaxation of the labelling problem instead; calibrated weights are allowed too.
    check_every : int
        Number of iterations between computations of feasible points and bounds.
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
    lifted: bool = False
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
    ) -> ConvexResult | LabellingResult:
        """Return a solution, its lower bound, and the labelling it is rounded to.

        Parameters
        ----------
        problem : Problem
            With fixed weights, and terms whose losses are linear on a polytope; with any, if
            lifted.
        start : ndarray of shape (n, K), optional
            Memberships to begin from, by default those of block CADO: they change how long it
            takes, not what is found. If lifted, the memberships that the models are fitted to.
        callback : callable, optional
            Called whenever the bound is computed; a true answer stops the solver.
        """
        with threads.using(1):  # matrices are small, and bits must not depend on BLAS threads
            if self.lifted:
                return self._solve_lifted(problem, start, callback)
            return self._solve_program(problem, start, callback)

    def _solve_program(
        self, problem: Problem, start: NDArray[Any] | None, callback: Callback | None
    ) -> ConvexResult:
        program = Program(problem)
        polytope = program.require_polytope("BlockADMM")
        pairs = 6 * polytope.vertices.shape[1] if program.son else 0
        check_memory("BlockADMM", program.n_nodes, 7 * len(polytope.vertices) + 4 + pairs)
        state = Blocks(program.B, polytope, program.son)
        if start is None:
            seed = 0 if self.random_state is None else self.random_state
            with np.errstate(over="ignore", invalid="ignore"):  # memberships are float32
                start = BlockCADO(temperature=0.0, random_state=seed).solve(problem).W
        state.begin(*_as_labelling(program, polytope, start))
        status, iteration, history = self._iterate(state, callback)
        return finish(
            program, state.atoms(), state.bound, status, iteration, history, self.random_state
        )

    def _solve_lifted(
        self, problem: Problem, start: NDArray[Any] | None, callback: Callback | None
    ) -> LabellingResult:
        if start is None:
            raise InputError(
                "BlockADMM(lifted=True) needs a start: memberships to fit the models to"
            )
        if problem.son:
            raise InputError("the lifted relaxation has fixed models: leave son at 0")
        check_memory("BlockADMM", problem.n_nodes, 6 * problem.n_classes + 3)
        _check_start(problem, start)
        models = problem.fit_models(start)
        state = Labelling(Instance.of(problem, models), np.asarray(start).argmax(axis=1))
        status, iteration, history = self._iterate(state, callback)
        W = np.eye(problem.n_classes, dtype=np.float32)[state.labelling]
        # The labelling problem counts costs from each node's cheapest class.
        cheapest = (problem.costs(models, 0, problem.n_nodes) - models.log_prior).min(axis=1)
        value, bound = state.value + float(cheapest.sum()), sum_down(cheapest, [state.bound])
        return LabellingResult(
            W, models, value, status, iteration, history,
            shares=state.shares, lower_bound=bound, dual=state.proof,
        )  # fmt: skip

    def _iterate(
        self, state: Blocks | Labelling, callback: Callback | None
    ) -> tuple[Status, int, dict[str, list[float]]]:
        def settled() -> bool:
            return relative_gap(state.value, state.bound) <= self.tol

        return iterate(state, self.max_iter, self.check_every, settled, callback)


def _check_start(problem: Problem, start: NDArray[Any]) -> None:
    shape = (problem.n_nodes, problem.n_classes)
    if np.shape(start) != shape:
        raise InputError(f"a start must have the shape {shape}, got {np.shape(start)}")


def _as_labelling(
    program: Program, polytope: Polytope, start: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the class of each node, and for each class the vertex that costs it least."""
    _check_start(program.problem, start)
    labelling = np.asarray(start).argmax(axis=1)
    members = np.eye(program.problem.n_classes)[labelling]
    return labelling, (members.T @ polytope.costs).argmin(axis=1)


class Blocks(SemidefiniteADMM):
    """The program's own splitting: the blocks share the diagonal and the signs of L.

    With a sum of norms the points have a second part, the differences of the nodes' models, whose
    penalty is ρ/n.
    """

    def __init__(self, B: Array, polytope: Polytope, son: float) -> None:
        self.B, self.costs, self.vertices = B, polytope.costs, polytope.vertices
        self.n, self.k = polytope.costs.shape
        self.son = son if self.k > 1 else 0.0
        Z = np.tile(np.eye(self.n) / self.k, (self.k, 1, 1))
        rho = max(np.abs(B).max(initial=0.0), np.abs(self.costs).max(initial=0.0))
        super().__init__(self._point(Z), _RHO * float(rho) or 1.0)
        self.best, self.value, self.bound = Z.copy(), np.inf, -np.inf
        self._restart, self._averaged, self._sums = FIRST_ADAPTATION, 0, list[Array]()
        if self.son:
            # An orthonormal basis of the directions in which shares can move: they sum to one.
            self._basis = np.linalg.svd(np.ones((1, self.k)))[2][1:].T
            self._stiff = self._basis.T @ self.vertices @ self.vertices.T @ self._basis

    def _point(self, Z: Array) -> Point:
        """Return blocks, and with a sum of norms the differences of their nodes' models."""
        return (Z, differences(_shares(Z) @ self.vertices)) if self.son else (Z,)

    def begin(self, labelling: NDArray[np.int64], at: NDArray[np.int64]) -> None:
        """Begin from a labelling whose class i is at the vertex ``at[i]``."""
        together = (labelling[:, None] == labelling).astype(np.float64)
        Z = np.zeros_like(self.Z)
        for j in range(self.k):
            of = at[labelling] == j
            Z[j][np.ix_(of, of)] = together[np.ix_(of, of)]
        self.z, self.x = self._point(Z), self._point(Z.copy())
        self.value, self.best = self._feasible_value(Z), Z.copy()

    @property
    def shares(self) -> Array:
        """How much each node belongs to each vertex, shape (n, k)."""
        return _shares(self.Z)

    def x_step(self, target: Point) -> Point:
        """Project the blocks on the cone, and shrink the differences."""
        blocks = super().x_step(target)
        return (*blocks, *(shrink(part, self.son * self.n / self.rho) for part in target[1:]))

    def subtract_costs(self, T: Array) -> None:
        """Subtract ``(diag c_j − B)/ρ``."""
        T += self.B / self.rho
        _diagonals(T)[:] -= self.costs.T / self.rho

    def z_step(self, target: Point) -> Point:
        """Solve for the blocks, with what the differences ask of each node."""
        self._asked = target[1].sum(axis=1) / self.n if self.son else None
        return self._point(super().z_step(target)[0])

    def project_other(self, T: Array) -> Array:
        """Lift negative sums to zero, and make those of the diagonals one."""
        # Sums above one need no care: a semidefinite L with a unit diagonal has none.
        shares = self._nearest_shares(_diagonals(T).T)
        T += np.maximum(-T.sum(axis=0), 0.0) / self.k
        _diagonals(T)[:] = shares.T
        return T

    def _nearest_shares(self, T: Array) -> Array:
        """Return shares (n, k), rows of sum one, near T and with models near each other."""
        nearest = T + (1.0 - T.sum(axis=1, keepdims=True)) / self.k
        if self._asked is None:
            return nearest
        # Minimise ½‖D − T‖² + ½r Σ_{u<v} ‖(D_u − D_v)V − y_uv‖², rows of sum one, with r = 1/n:
        # the mean row stays, and the rest is one small linear system.
        mean = nearest.mean(axis=0)
        right = (nearest - mean + self._asked @ self.vertices.T) @ self._basis
        moved = np.linalg.solve(np.eye(self.k - 1) + self._stiff, right.T).T
        return np.asarray(mean + moved @ self._basis.T)

    def step(self) -> None:
        """Make one iteration, and add it to the averages."""
        super().step()
        # Averages since the iterations last doubled: iterates circle the optimum.
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

    def judge(self) -> None:
        """Update the best feasible value and the best bound, by the iterate and the average."""
        averages = [part / self._averaged for part in self._sums]
        for X, dual in ((self.X, self._dual()), (averages[0], averages[1:])):
            value = self._feasible_value(X)
            if value < self.value:
                self.value, self.best = value, X.copy()
            self.bound = max(self.bound, best_bound(self.B, *dual))

    def atoms(self) -> Decomposition:
        """Return the best blocks as a sum of atoms."""
        return Decomposition.of_blocks(self.best, self.vertices)

    def _feasible_value(self, X: Array) -> float:
        """Return the objective of the feasible point near the blocks."""
        lengths = _diagonals(X).T
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
            costs = costs + forces(self.u[1], self.rho / self.n, self.son) @ self.vertices.T
        nu = (costs - self.rho * _diagonals(self.U).T).mean(axis=1)
        # Off the diagonal all multipliers agree: ρU_j = −B − Γ.
        return nu, -self.B - self.rho * self.U[0], costs


def _diagonals(blocks: Array) -> Array:
    """Return a view of the blocks' diagonals, shape (k, n)."""
    return np.einsum("jvv->jv", blocks)


def _shares(blocks: Array) -> Array:
    """Return how much each node belongs to each vertex, shape (n, k)."""
    return np.ascontiguousarray(_diagonals(blocks).T)


class Labelling(LiftedBlocks):
    """The lifted relaxation's splitting with the best labelling and the best bound so far.

    With fixed models it is far tighter than the program, whose models are free. It bounds
    labellings, not the program: there, two classes may share a vertex of Θ, and the 1 in the
    corner is not theirs.
    """

    def __init__(self, instance: Instance, labels: NDArray[np.int64]) -> None:
        self.labelling = instance.settle(labels)
        self.value, self.bound = instance.value(self.labelling), -np.inf
        self.proof = Dual(
            instance.costs.min(axis=1),
            np.zeros(instance.costs.T.shape),
            np.zeros(instance.n_classes),
        )
        for family in FAMILIES.values():
            self._consider(instance, family(instance, self.labelling))
        super().__init__(instance, self.labelling, self.proof)

    def _consider(self, instance: Instance, dual: Dual) -> None:
        bound = dual.bound(instance)
        if bound > self.bound:
            self.bound, self.proof = bound, dual

    def judge(self) -> None:
        """Round x, descend from there node by node, and update the best value and bound."""
        labelling = self.instance.settle(self.shares.argmax(axis=1))
        value = self.instance.value(labelling)
        if value < self.value:
            self.value, self.labelling = value, labelling
        for dual in self.duals(self.labelling):
            self._consider(self.instance, dual)
