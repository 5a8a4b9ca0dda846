"""The step of CANO over the nodes' models: losses, Θ and the sum of norms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nodeproof.convex.program import Program
from nodeproof.first_order import ADMM, Point, inner, projected_gradient
from nodeproof.sets import ConvexSet
from nodeproof.sum_of_norms.pairs import differences, forces, shrink
from nodeproof.terms.base import Term

__all__ = ["ModelsStep", "nearest_models"]

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
