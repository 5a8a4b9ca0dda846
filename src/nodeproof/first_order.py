"""First-order methods that several solvers share: one ADMM and one projected gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from math import hypot
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ADMM", "FIRST_ADAPTATION", "Point", "inner", "projected_gradient"]

Array = NDArray[np.float64]
#: A point of an ADMM: one array per part of the constraint.
Point = tuple[Array, ...]

#: The iteration at which ρ first follows the residuals.
FIRST_ADAPTATION = 10
# It does so at ever longer intervals, so that it settles, and by a limited factor each time.
_INTERVALS = 1.5
_MOST_FACTOR = 5.0

_ARMIJO = 1e-4
_BACKTRACK = 0.3
_LEAST_CURVATURE = 1e-12


class ADMM(ABC):
    """The alternating direction method of multipliers for ``f(x) + g(z)`` subject to ``x = z``.

    One step, with scaled multipliers u, over-relaxation α and penalty ρ, is

        x ← argmin f(x) + ρ/2 ‖x − (z − u)‖²
        y ← αx + (1 − α)z + u
        z ← argmin g(z) + ρ/2 ‖z − y‖²
        u ← y − z

    Points are tuples of arrays, because a constraint may have several parts; each part may scale
    ρ by a constant of its own. Where a linear map ties x to z, ``x_step`` or ``z_step`` returns
    the image of the minimiser.

    Parameters
    ----------
    z : tuple of ndarray
        Where to begin.
    rho : float
        ρ > 0.
    relaxation : float
        α, between 1 and 2.
    adaptive : bool
        Whether ρ follows the residuals.

    Attributes
    ----------
    x, z, u, before : tuple of ndarray
        The two copies, the multipliers, and z of the iteration before.
    iteration : int
        Steps made.
    """

    def __init__(
        self, z: Point, rho: float, relaxation: float = 1.0, *, adaptive: bool = False
    ) -> None:
        self.x: Point = tuple(part.copy() for part in z)
        self.z, self.before = z, z
        self.u: Point = tuple(np.zeros_like(part) for part in z)
        self.rho, self.relaxation, self.adaptive = rho, relaxation, adaptive
        self.iteration, self._next = 0, FIRST_ADAPTATION

    @abstractmethod
    def x_step(self, target: Point) -> Point:
        """Return x, the minimiser of ``f(x) + ρ/2 ‖x − target‖²``."""

    @abstractmethod
    def z_step(self, target: Point) -> Point:
        """Return z, the minimiser of ``g(z) + ρ/2 ‖z − target‖²``; the target must not change."""

    def step(self) -> None:
        """Make one iteration."""
        self.iteration += 1
        ahead, self.before = self.relaxation, self.z
        self.x = self.x_step(tuple(z - u for z, u in zip(self.z, self.u, strict=True)))
        target = tuple(
            ahead * x + (1.0 - ahead) * z + u
            for x, z, u in zip(self.x, self.z, self.u, strict=True)
        )
        self.z = self.z_step(target)
        self.u = tuple(y - z for y, z in zip(target, self.z, strict=True))
        if self.adaptive and self.iteration == self._next:
            self._next = int(self.iteration * _INTERVALS) + 1
            self._balance()

    def residuals(self) -> tuple[float, float]:
        """Return how far apart the copies are, and how far z has moved (in units of ρ)."""
        return distance(self.x, self.z), distance(self.z, self.before)

    def _balance(self) -> None:
        """Change ρ where one residual is at least twice the other."""
        primal, dual = self.residuals()
        if primal > 0 and dual > 0:
            factor = float(np.clip(primal / dual, 1.0 / _MOST_FACTOR, _MOST_FACTOR))
            if not 0.5 < factor < 2.0:
                self.rescale(factor)

    def rescale(self, factor: float) -> None:
        """Multiply ρ by a factor; the multipliers ρu stay the same."""
        self.rho *= factor
        self.u = tuple(part / factor for part in self.u)


def distance(left: Point, right: Point) -> float:
    """Return the Euclidean distance of two points."""
    return hypot(*(float(np.linalg.norm(a - b)) for a, b in zip(left, right, strict=True)))


def projected_gradient(
    value_gradient: Callable[[Array], tuple[Array, Array]],
    project: Callable[[Array], Array],
    start: Array,
    curvature: Array,
    least_curvature: float = 0.0,
    tol: float = 1e-12,
    max_iter: int = 500,
    memory: int = 8,
) -> tuple[Array, Array]:
    """Minimise several independent functions over a convex set by spectral projected gradients.

    The step of each function is the inverse of the curvature that it met last (Barzilai and
    Borwein), cut back until its value is below the worst of its latest values.

    Parameters
    ----------
    value_gradient : callable
        Returns the values (K,) and the gradients (K, ...) at points of shape (K, ...).
    project : callable
        Returns the nearest members of the set, (K, ...).
    start : ndarray of shape (K, ...)
        Members of the set to begin at.
    curvature : ndarray of shape (K,)
        A first guess of each function's curvature.
    least_curvature : float
        A lower bound of it, such as the weight of a quadratic part.
    tol : float
        Stop when no point would move farther than this, in the Euclidean norm.
    max_iter : int
        Most steps.
    memory : int
        How many values a new one is compared with, by their maximum; 1 makes every step a
        descent, which is quicker where functions are steep far from their minimum.

    Returns
    -------
    tuple of ndarray
        The minimisers (K, ...), and the curvatures met last (K,).

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.first_order import projected_gradient
    >>> goals = np.array([[3.0, 0.5], [-1.0, 0.25]])
    >>> def value_gradient(x):
    ...     return 0.5 * ((x - goals) ** 2).sum(axis=1), x - goals
    >>> found, _ = projected_gradient(
    ...     value_gradient, lambda x: np.clip(x, 0.0, 1.0), np.zeros((2, 2)), np.full(2, 5.0)
    ... )
    >>> found.round(6)
    array([[1.  , 0.5 ],
           [0.  , 0.25]])
    """
    x, (value, gradient) = start, value_gradient(start)
    latest = [value]
    least = max(least_curvature, _LEAST_CURVATURE)
    for _ in range(max_iter):
        direction = project(x - gradient / _wide(curvature, x)) - x
        if (inner(direction, direction) <= tol * tol).all():
            break
        slope, worst = inner(gradient, direction), np.max(latest[-memory:], axis=0)
        # Decreases smaller than rounding cannot be judged.
        slack = 1e-14 * (1.0 + np.abs(worst))
        share = np.ones(len(x))
        while True:
            moved = x + _wide(share, direction) * direction
            reached, following = value_gradient(moved)
            too_far = reached > worst + _ARMIJO * share * slope + slack
            if not too_far.any():
                break
            share = np.where(too_far, _BACKTRACK * share, share)
        step, change = moved - x, following - gradient
        squared = inner(step, step)
        met = np.divide(inner(step, change), squared, out=curvature.copy(), where=squared > 0)
        curvature = np.clip(met, least, 1.0 / _LEAST_CURVATURE)
        x, value, gradient = moved, reached, following
        latest.append(value)
    return x, curvature


def inner(left: Array, right: Array) -> Array:
    """Return the inner product of each pair of points, shape (K,)."""
    return np.asarray((left * right).reshape(len(left), -1).sum(axis=1))


def _wide(numbers: NDArray[Any], points: Array) -> NDArray[Any]:
    """Return one number per point in a shape that multiplies the points."""
    return numbers.reshape(-1, *[1] * (points.ndim - 1))
