"""CANO-ADMM with CoGEnT: the paper's solver of the convex program, for any Θ."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nodeproof.atoms.base import Calls, Counted
from nodeproof.atoms.cogent import Cogent
from nodeproof.atoms.joint import JointAtoms
from nodeproof.convex.cano_models import ModelsStep
from nodeproof.convex.program import Program, check_memory, dual_value, off_diagonal
from nodeproof.convex.results import ConvexResult, best_bound, finish, relative_gap
from nodeproof.errors import InputError
from nodeproof.problem import Problem
from nodeproof.runtime import threads
from nodeproof.solvers.base import Callback, Progress, Status, check_at_least, check_count

__all__ = ["CANO"]

Array = NDArray[np.float64]

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
            Told after every iteration; a true answer ends the solve.
        """
        if start is not None:
            raise InputError("CANO solves a convex program and takes no start")
        if self.z_step == "gradient" and problem.son:
            raise InputError("the sum of norms has no gradient: use z_step='exact' with son > 0")
        with threads.using(1):  # matrices are small, and bits must not depend on BLAS threads
            return self._solve(problem, callback)

    def _solve(self, problem: Problem, callback: Callback | None) -> ConvexResult:
        program = Program(problem)
        pairs = 3 * program.models_set.dim if program.son else 0
        check_memory("CANO", program.n_nodes, 10 + pairs)
        state = _State(program, self)
        status, history = Status.MAX_ITER, defaultdict[str, list[float]](list)
        iteration = 0
        every = _CHECK_EXACT if state.atoms.exact else _CHECK_BOUNDED
        try:
            for iteration in range(1, self.max_iter + 1):
                state.step(self.n_forward)
                for key, number in state.seen().items():
                    history[key].append(number)
                told = Progress(iteration, 1, 1, state.residuals["feasibility"], state.theta)
                if callback and callback(told):
                    status = Status.STOPPED
                    break
                if iteration % every == 0 or iteration == self.max_iter:
                    state.judge()
                    history["checked"].append(iteration)
                    history["value"].append(state.value)
                    history["bound"].append(state.bound)
                    if state.settled(self.tol):
                        status = Status.CONVERGED
                        break
            if not state.atoms.exact or not np.isfinite(state.value):
                state.judge(_LAST_BOUND_STEPS)
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        return finish(
            program,
            state.best,
            state.bound,
            status,
            iteration,
            dict(history),
            self.random_state,
            state.calls.as_dict(),
            state.residuals,
        )


class _State:
    """The two copies, their multipliers, and what they prove."""

    def __init__(self, program: Program, settings: CANO) -> None:
        n = program.n_nodes
        self.program, self.settings, self.calls = program, settings, Calls()
        self.atoms = JointAtoms(n, program.models_set, random_state=settings.random_state or 0)
        self.x = Cogent(Counted(self.atoms, self.calls), radius=float(n))
        self.similarities = Counted(program.similarities, self.calls)
        self.L = np.eye(n)
        self.theta = np.tile(program.models_set.center(), (n, 1))
        self.u_L, self.u_theta = np.zeros((n, n)), np.zeros_like(self.theta)
        self.costs = program.loss_gradient(self.theta, linear=True)
        size = max(np.abs(program.B).max(initial=0.0), np.abs(self.costs).max(initial=0.0))
        self.beta = settings.penalty or _PENALTY * float(size) or 1.0
        self.models = ModelsStep(program, self.theta)
        # Where nothing is curved, the step over the models is part of the projection on 𝓤.
        curved = program.son or not all(term.linear for term, _ in program.terms)
        self.near = Counted(self.models.solve, self.calls) if curved else self.models.solve
        self.best = program.repair(self.x.decomposition())
        self.value, self.bound = np.inf, -np.inf
        self.residuals: dict[str, float] = {}

    def step(self, n_forward: int) -> None:
        """Go through one iteration."""
        program, beta = self.program, self.beta
        n_starts = 3 if len(self.x.models) else None
        target = self.L - self.u_L + program.B / beta, self.theta - self.u_theta - self.costs / beta
        self.x.project(*target, n_forward=n_forward, n_starts=n_starts)
        L, theta = self.x.point()
        before = self.L, self.theta
        ahead = self.settings.relaxation
        relaxed = ahead * L + (1.0 - ahead) * self.L, ahead * theta + (1.0 - ahead) * self.theta
        self._step_z(relaxed[0] + self.u_L, relaxed[1] + self.u_theta)
        self.u_L += relaxed[0] - self.L
        self.u_theta += relaxed[1] - self.theta
        size = _length(self.L, self.theta)
        self.residuals = {
            "feasibility": _length(L - self.L, theta - self.theta) / size,
            "stationarity": _length(self.L - before[0], self.theta - before[1]) / size,
            "atoms": self.x.gap / size**2,
        }

    def _step_z(self, L: Array, theta: Array) -> None:
        if self.settings.z_step == "gradient":
            self._step_z_along_the_gradient(L, theta)
            return
        self.L = self.similarities.project(L)
        self.theta = self.near(theta, self.beta)

    def _step_z_along_the_gradient(self, L: Array, theta: Array) -> None:
        """Move z one step down its gradient, as long as α says or the losses' curvature allows."""
        program = self.program
        alpha = self.beta * min(self.settings.z_step_size or np.inf, 1.0 / self.beta)
        slope = self.theta - theta + program.loss_gradient(self.theta, linear=False) / self.beta
        L = self.L + alpha * (L - self.L)
        here = self._z_objective(self.theta, theta)
        for _ in range(_HALVINGS):
            new = program.models_set.project(self.theta - alpha * slope)
            if self._z_objective(new, theta) <= here:
                self.theta = new
                break
            alpha *= 0.5
        self.L = self.similarities.project(L)

    def _z_objective(self, z: Array, theta: Array) -> float:
        """Return ``h(z)/β + ½‖z − θ‖²`` for the models, without the sum of norms."""
        curved = float(self.program.losses(z, linear=False).sum())
        return curved / self.beta + 0.5 * float(((z - theta) ** 2).sum())

    def seen(self) -> dict[str, float]:
        """Return what goes into the history: the objective at z, and the residuals."""
        return {
            "objective": self.program.value(self.L, self.theta),
            **self.residuals,
            "lmo": float(self.calls.lmo),
        }

    def settled(self, tol: float) -> bool:
        """Tell whether the gap is closed, or else the residuals where the oracle is not exact."""
        still = not self.atoms.exact and max(self.residuals.values()) <= tol
        return still or relative_gap(self.value, self.bound) <= tol

    def judge(self, bound_steps: int = _BOUND_STEPS) -> None:
        """Update the best feasible point and the best bound."""
        point = self.program.repair(self.x.decomposition())
        value = self.program.value(point.L, point.models)
        if value < self.value:
            self.value, self.best = value, point
        self.bound = max(self.bound, *map(float, self._bounds(bound_steps)))

    def _bounds(self, steps: int) -> list[float]:
        """Return lower bounds by the multipliers: for L, and for the models in two ways.

        Convex losses are replaced by their tangents at z, the sum of norms by its flows; what
        then is left of the models beside ``⟨q_v, θ_v⟩`` is least at vertices of Θ.
        """
        program = self.program
        nu, gamma = -self.beta * np.diag(self.u_L), off_diagonal(-self.beta * self.u_L)
        slope = program.loss_gradient(self.theta, linear=False)
        tangent = float(program.losses(self.theta, linear=False).sum())
        tangent -= float(np.vdot(slope, self.theta))
        pull = slope + self.models.forces()
        bounds = []
        for y in (pull, self.beta * self.u_theta) if self.atoms.exact else (pull,):
            rest = pull - y
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


def _length(L: Array, theta: Array) -> float:
    return float(np.sqrt(np.vdot(L, L) + np.vdot(theta, theta)))
