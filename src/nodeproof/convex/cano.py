"""CANO-ADMM with CoGEnT: the paper's solver of the convex program, for any Θ."""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nodeproof.atoms.cogent import Cogent
from nodeproof.atoms.joint import JointAtoms
from nodeproof.atoms.sets import Calls, Counted
from nodeproof.convex.program import Program, check_memory, dual_value
from nodeproof.convex.results import ConvexResult, best_bound, finish, iterate, relative_gap
from nodeproof.errors import InputError
from nodeproof.first_order import ADMM, Point, inner, projected_gradient
from nodeproof.problem import Problem
from nodeproof.runtime import threads
from nodeproof.sets import ConvexSet
from nodeproof.solvers.base import Callback, Status, check_at_least, check_count
from nodeproof.solvers.semidefinite import off_diagonal
from nodeproof.sum_of_norms.pairs import differences, forces, shrink
from nodeproof.terms.base import Term

__all__ = ["CANO", "ModelsStep", "nearest_models"]

Array = NDArray[np.float64]

# Steps of the projected gradient for the losses, and of the ADMM for the sum of norms.
_STEPS = 200
_INNER = 40
_PRECISION = 1e-9


class ModelsStep:
    """Minimise ``h(θ) + β/2 ‖θ − V‖²`` over Θⁿ, where h is all that is not linear.

    h is the convex losses that are not linear, and the sum of norms. The latter takes an ADMM
    of its own, which goes on from where the last call left off.
    """

    def __init__(self, program: Program, start: Array) -> None:
        self.program, self.theta = program, start
        self.admm = _NormsADMM(program, start) if program.son else None

    def solve(self, V: Array, beta: float) -> Array:
        """Return the minimiser, shape (n, d)."""
        if self.admm is None:
            self.theta = nearest_models(self.program, V, beta, self.theta)
        else:
            self.theta = self.admm.solve(V, beta)
        return self.theta

    def forces(self) -> Array:
        """Return the forces of the sum of norms on each node: flows that bound it from below."""
        if self.admm is None:
            return np.zeros_like(self.theta)
        return forces(self.admm.u[1], self.admm.rho / len(self.theta), self.program.son)


class _NormsADMM(ADMM):
    """Copies of the models with losses and Θ, and of their differences with norms.

    ρ is β, and that of the differences ρ/n.
    """

    def __init__(self, program: Program, start: Array) -> None:
        super().__init__((start, differences(start)), 1.0)
        self.program, self.target = program, start

    def solve(self, V: Array, beta: float) -> Array:
        """Return the models that minimise the sum of norms and the losses near V."""
        self.target = V
        self.rescale(beta / self.rho)
        precision = _PRECISION * max(1.0, float(np.linalg.norm(V)))
        for _ in range(_INNER):
            self.step()
            apart = np.linalg.norm(self.x[0] - self.z[0])
            if apart + np.linalg.norm(self.z[0] - self.before[0]) <= precision:
                break
        return self.x[0]

    def x_step(self, target: Point) -> Point:
        """Solve for the models without the norms, and shrink the differences."""
        beta = self.rho
        middle = (beta * self.target + self.rho * target[0]) / (beta + self.rho)
        models = nearest_models(self.program, middle, beta + self.rho, self.x[0])
        return models, shrink(target[1], self.program.son / (self.rho / len(models)))

    def z_step(self, target: Point) -> Point:
        """Return the models closest to both: the complete graph's Laplacian has an inverse."""
        wanted, mean = target[0], target[0].mean(axis=0)
        asked = target[1].sum(axis=1) / len(wanted)
        theta = mean + 0.5 * (wanted - mean + asked)
        return theta, differences(theta)


def nearest_models(program: Program, V: Array, beta: float, start: Array) -> Array:
    """Minimise ``Σ_v f_v(θ_v) + β/2 ‖θ − V‖²`` over Θⁿ for the losses that are not linear."""
    if not program.terms:
        return V
    parts = zip(
        program.terms,
        program.models_set.sets,
        program.models_set.split(V),
        program.models_set.split(start),
        strict=True,
    )
    return program.models_set.join(
        [
            of.project(part) if term.linear else _descend(term, weight, of, part, beta, begin)
            for (term, weight), of, part, begin in parts
        ]
    )


def _descend(
    term: Term, weight: float, of: ConvexSet, V: Array, beta: float, start: Array
) -> Array:
    """Minimise ``w f_v(θ_v) + β/2 ‖θ_v − V_v‖²`` for every node."""
    n = len(V)

    def value_gradient(theta: Array) -> tuple[Array, Array]:
        off = theta - V
        value = weight * term.loss(theta, 0, n) + 0.5 * beta * inner(off, off)
        return value, weight * term.loss_gradient(theta, 0, n) + beta * off

    precision = _PRECISION * max(1.0, float(np.abs(V).max()))
    begin, guess = of.project(start), np.full(n, beta)
    # A covariance is steep at the border of its box: no step may go up.
    theta, _ = projected_gradient(
        value_gradient, of.project, begin, guess, beta, precision, _STEPS, memory=1
    )
    return theta


# β in units of the largest linear cost: smaller ones are slow at first, larger ones at the end.
_PENALTY = 1.5

# Iterations between checks, where the bound is cheap and where it is not.
_CHECK_EXACT = 10
_CHECK_BOUNDED = 50
# Steps to improve that bound, on the way and at the end.
_BOUND_STEPS, _LAST_BOUND_STEPS = 60, 400

_HALVINGS = 40


@dataclass(frozen=True)
class CANO:
    """Solve the convex program by the paper's CANO-ADMM, with CoGEnT inside.

    One copy x of ``U = (L, {θ_v})`` is a sum of atoms of total weight n, the other one z lies
    in 𝓤 = 𝓑 × Θⁿ, and multipliers draw them together:

        x ← argmin ⟨g, x⟩ + β/2 ‖x − z + u‖²   over the atomic ball     (CoGEnT)
        z ← argmin h(z) + β/2 ‖x − z + u‖²     over 𝓤                   (projection, prox)
        u ← u + x − z

    Linear parts of the objective (the graph, labels) are in g; convex losses and the sum of
    norms in h. It takes any Θ whose sets have an oracle and a projection: the simplex, the
    spectral box, products. Where Θ has few vertices, `BlockADMM` is faster.

    Parameters
    ----------
    tol : float
        Relative gap between the objective and its lower bound; where the oracle is not exact,
        and the bound therefore not tight, residuals this small will do.
    max_iter : int
        Most iterations T of the ADMM.
    penalty : float, optional
        β; by default half as much again as the largest of the linear costs.
    n_forward : int
        Forward steps of CoGEnT in each iteration.
    relaxation : float
        Over-relaxation of x, between 1 (the paper's ADMM) and 2.
    z_step : {"exact", "gradient"}
        How z is found: to the end, or by one projected gradient step, as the paper has it.
    z_step_size : float, optional
        α of that step, at most 1/β; 1/β by default, which is exact where h is zero.
    random_state : int, optional
        Seed of the oracle's starts and of the rounding to a labelling.

    Examples
    --------
    >>> from nodeproof import Problem, datasets, solvers, terms
    >>> from nodeproof.graph import Graph
    >>> data = datasets.make_planted(p=0.9, q=0.1, cluster_size=10, random_state=0)
    >>> labels = terms.Labels().bind(terms.NodeData(n_classes=3, y=data.y))
    >>> problem = Problem(Graph(data.graph), [labels], n_classes=3, weights=(1.0, 0.0, 2.0))
    >>> result = solvers.CANO(tol=1e-3, random_state=0).solve(problem)
    >>> str(result.status), float((result.W.argmax(axis=1) == data.y_true).mean())
    ('converged', 1.0)
    """

    tol: float = 1e-3
    max_iter: int = 1000
    penalty: float | None = None
    n_forward: int = 1
    relaxation: float = 1.6
    z_step: Literal["exact", "gradient"] = "exact"
    z_step_size: float | None = None
    random_state: int | None = None

    def __post_init__(self) -> None:
        check_count("max_iter", self.max_iter)
        check_count("n_forward", self.n_forward)
        check_at_least("tol", self.tol, 0.0)
        if not 1.0 <= self.relaxation < 2.0:
            raise InputError(f"relaxation must be at least 1 and below 2, got {self.relaxation!r}")
        for name in ("penalty", "z_step_size"):
            if getattr(self, name) is not None:
                check_at_least(name, getattr(self, name), 1e-12)
        if self.z_step not in ("exact", "gradient"):
            raise InputError(f"z_step must be 'exact' or 'gradient', got {self.z_step!r}")

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
            With fixed weights.
        start : None
            The program is convex: it does not matter where one begins.
        callback : callable, optional
            Called after every iteration; a true answer stops the solver.
        """
        if start is not None:
            raise InputError("CANO solves a convex program and takes no start")
        if self.z_step == "gradient" and problem.son:
            raise InputError("the sum of norms has no gradient: use z_step='exact' with son > 0")
        with threads.using(1):  # matrices are small, and bits must not depend on BLAS threads
            return self._solve(problem, callback)

    def _solve(self, problem: Problem, callback: Callback | None) -> ConvexResult:
        program = Program(problem)
        pairs = 6 * program.models_set.dim if program.son else 0
        check_memory("CANO", program.n_nodes, 10 + pairs)
        state = State(program, self)
        every = _CHECK_EXACT if state.atoms.exact else _CHECK_BOUNDED
        status, iteration, history = iterate(
            state, self.max_iter, every, state.settled, callback, every_step=True
        )
        unproven = not state.atoms.exact or not np.isfinite(state.value)
        if unproven and status is not Status.INTERRUPTED:
            try:
                state.judge(_LAST_BOUND_STEPS)
            except KeyboardInterrupt:
                status = Status.INTERRUPTED
        return finish(
            program,
            state.best,
            state.bound,
            status,
            iteration,
            history,
            self.random_state,
            state.calls.as_dict(),
            state.optimality,
        )


class State(ADMM):
    """The two copies of ``(L, θ)``, their multipliers, and what they prove; ρ is the paper's β."""

    def __init__(self, program: Program, settings: CANO) -> None:
        n = program.n_nodes
        self.program, self.settings, self.calls = program, settings, Calls()
        self.atoms = JointAtoms(n, program.models_set, random_state=settings.random_state or 0)
        self.ball = Cogent(Counted(self.atoms, self.calls), radius=float(n))
        self.similarities = Counted(program.similarities, self.calls)
        theta = np.tile(program.models_set.center(), (n, 1))
        self.costs = program.loss_gradient(theta, linear=True)
        size = max(np.abs(program.B).max(initial=0.0), np.abs(self.costs).max(initial=0.0))
        beta = settings.penalty or _PENALTY * float(size) or 1.0
        super().__init__((np.eye(n), theta), beta, settings.relaxation)
        self.models = ModelsStep(program, theta)
        # Where nothing is curved, the step over the models is part of the projection on 𝓤.
        curved = program.son or not all(term.linear for term, _ in program.terms)
        self.nearest = Counted(self.models.solve, self.calls) if curved else self.models.solve
        self.best = program.repair(self.ball.decomposition())
        self.value, self.bound = np.inf, -np.inf
        self.optimality: dict[str, float] = {}

    def x_step(self, target: Point) -> Point:
        """Project on the atomic ball, by CoGEnT from where it was."""
        L, theta = target
        n_starts = 3 if len(self.ball.models) else None
        self.ball.project(
            L + self.program.B / self.rho,
            theta - self.costs / self.rho,
            n_forward=self.settings.n_forward,
            n_starts=n_starts,
        )
        return self.ball.point()

    def z_step(self, target: Point) -> Point:
        """Project on 𝓤, with a proximal step of the losses and the sum of norms."""
        if self.settings.z_step == "gradient":
            return self._gradient_step(target)
        return self.similarities.project(target[0]), self.nearest(target[1], self.rho)

    def _gradient_step(self, target: Point) -> Point:
        """Move z one step down its gradient, as long as α says or the losses' curvature allows."""
        program, (L, theta) = self.program, self.z
        alpha = self.rho * min(self.settings.z_step_size or np.inf, 1.0 / self.rho)
        slope = theta - target[1] + program.loss_gradient(theta, linear=False) / self.rho
        L = L + alpha * (target[0] - L)
        here = self._z_objective(theta, target[1])
        for _ in range(_HALVINGS):
            new = program.models_set.project(theta - alpha * slope)
            if self._z_objective(new, target[1]) <= here:
                theta = new
                break
            alpha *= 0.5
        return self.similarities.project(L), theta

    def _z_objective(self, z: Array, theta: Array) -> float:
        """Return ``h(z)/β + ½‖z − θ‖²`` for the models, without the sum of norms."""
        curved = float(self.program.losses(z, linear=False).sum())
        return curved / self.rho + 0.5 * float(((z - theta) ** 2).sum())

    def step(self) -> None:
        """Make one iteration, and say how far the optimality conditions are from holding."""
        super().step()
        apart, moved = self.residuals()
        size = hypot(*(float(np.linalg.norm(part)) for part in self.z))
        self.optimality = {
            "feasibility": apart / size,
            "stationarity": moved / size,
            "atoms": self.ball.gap / size**2,
        }

    def recorded(self) -> dict[str, float]:
        """Return what the history keeps: the objective at z, and the optimality conditions."""
        return {
            "objective": self.program.value(*self.z),
            **self.optimality,
            "lmo": float(self.calls.lmo),
        }

    def progress(self) -> tuple[float, Array]:
        """Return how far apart the copies are, and the nodes' models."""
        return self.optimality["feasibility"], self.z[1]

    def settled(self) -> bool:
        """Tell whether the gap is closed, or the conditions hold where the oracle is inexact."""
        tol = self.settings.tol
        still = not self.atoms.exact and max(self.optimality.values()) <= tol
        return still or relative_gap(self.value, self.bound) <= tol

    def judge(self, bound_steps: int = _BOUND_STEPS) -> None:
        """Update the best feasible point and the best bound."""
        point = self.program.repair(self.ball.decomposition())
        value = self.program.value(point.L, point.models)
        if value < self.value:
            self.value, self.best = value, point
        self.bound = max(self.bound, *map(float, self.bounds(bound_steps)))

    def bounds(self, steps: int) -> list[float]:
        """Return lower bounds by the multipliers: for L, and for the models in two ways.

        Convex losses are replaced by their tangents at z, the sum of norms by its flows; what
        then is left of the models beside ``⟨q_v, θ_v⟩`` is least at vertices of Θ.
        """
        program, theta = self.program, self.z[1]
        u_L, u_theta = (self.rho * part for part in self.u)
        nu, gamma = -np.diag(u_L), off_diagonal(-u_L)
        slope = program.loss_gradient(theta, linear=False)
        tangent = float(program.losses(theta, linear=False).sum())
        tangent -= float(np.vdot(slope, theta))
        force = slope + self.models.forces()
        bounds = []
        for y in (force, u_theta) if self.atoms.exact else (force,):
            rest = force - y
            constant = tangent + float(np.vdot(rest, program.models_set.lmo(rest)))
            q = self.costs + y
            if self.atoms.vertices is not None:
                costs = q @ self.atoms.vertices.T
                bounds.append(best_bound(program.B, nu, gamma, costs, constant))
            else:
                G = -program.B - gamma - np.diag(nu)
                least = self.atoms.bound(G, q, steps)
                bounds.append(dual_value(nu, gamma, least, constant))
        return bounds
