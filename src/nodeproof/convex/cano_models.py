"""The step of CANO over the nodes' models: losses, Θ and the sum of norms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nodeproof.convex.program import Program
from nodeproof.sets import ConvexSet
from nodeproof.sum_of_norms import Pairs
from nodeproof.terms.base import Term

__all__ = ["ModelsStep", "nearest_models"]

Array = NDArray[np.float64]

_STEPS = 200
_ARMIJO = 1e-4
_INNER = 40
_PRECISION = 1e-9


class ModelsStep:
    """Minimise ``h(θ) + β/2 ‖θ − V‖²`` over Θⁿ, where h is all that is not linear.

    h is the convex losses that are not linear, and the sum of norms. The latter takes an ADMM
    of its own, which goes on from where the last call left off.
    """

    def __init__(self, program: Program, start: Array) -> None:
        self.program, self.theta = program, start
        self.pairs = Pairs(*start.shape) if program.son else None
        self._copy, self._pull = start, np.zeros_like(start)
        self._stiffness = 0.0

    def solve(self, V: Array, beta: float) -> Array:
        """Return the minimiser, shape (n, d)."""
        program = self.program
        if self.pairs is None:
            self.theta = nearest_models(program, V, beta, self.theta)
            return self.theta
        n, rho = len(V), beta
        size = _PRECISION * max(1.0, float(np.linalg.norm(V)))
        stiff = rho / n
        if self._stiffness != stiff and self._stiffness:
            self.pairs.w *= self._stiffness / stiff
        self._stiffness = stiff
        theta = self.theta
        for _ in range(_INNER):
            middle = (beta * V + rho * (theta - self._pull)) / (beta + rho)
            self._copy = nearest_models(program, middle, beta + rho, self._copy)
            asked = self.pairs.pull(theta, program.son / stiff, 1.0) / n
            wanted = self._copy + self._pull
            mean = wanted.mean(axis=0)
            before = theta
            theta = mean + 0.5 * (wanted - mean + asked)
            self.pairs.settle(theta)
            self._pull = wanted - theta
            apart = np.linalg.norm(self._copy - theta) + np.linalg.norm(theta - before)
            if apart <= size:
                break
        self.theta = theta
        return self._copy

    def forces(self) -> Array:
        """Return how the sum of norms pulls each node: flows that bound it from below."""
        if self.pairs is None:
            return np.zeros_like(self.theta)
        return self.pairs.forces(self._stiffness, self.program.son)


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
    """Minimise ``w f_v(θ_v) + β/2 ‖θ_v − V_v‖²`` for every node by spectral projected gradients."""
    n = len(V)
    axes = tuple(range(1, V.ndim))
    wide = (slice(None), *[None] * (V.ndim - 1))

    def value(theta: Array) -> Array:
        return np.asarray(
            weight * term.loss(theta, 0, n) + 0.5 * beta * ((theta - V) ** 2).sum(axis=axes)
        )

    def slope(theta: Array) -> Array:
        return np.asarray(weight * term.loss_gradient(theta, 0, n) + beta * (theta - V))

    theta = of.project(start)
    here, gradient = value(theta), slope(theta)
    step = np.full(n, 1.0 / beta)
    precision = (_PRECISION * max(1.0, float(np.abs(V).max()))) ** 2
    for _ in range(_STEPS):
        new = of.project(theta - step[wide] * gradient)
        moved = ((new - theta) ** 2).sum(axis=axes)
        there = value(new)
        worse = there > here - _ARMIJO / step * moved + 1e-15 * np.abs(here)
        active = moved > precision * np.minimum(1.0, step * beta) ** 2
        worse &= active
        if not active.any():
            break
        if worse.any():  # these nodes stay and try a shorter step
            new[worse], there[worse] = theta[worse], here[worse]
        following = slope(new)
        along = ((new - theta) * (following - gradient)).sum(axis=axes)
        ahead = np.divide(moved, along, where=along > 0, out=np.full(n, 1.0 / beta))
        step = np.where(worse, 0.25 * step, np.where(active, np.minimum(ahead, 1.0 / beta), step))
        theta, here, gradient = new, there, following
    return theta
