"""What a whole class pays for its model: sums over the nodes, taken once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nodeproof import threads
from nodeproof.sets import ConvexSet

if TYPE_CHECKING:
    from nodeproof.terms.base import Term

__all__ = ["ClassLoss", "LinearLoss", "NodewiseLoss"]

Array = NDArray[np.float64]


class ClassLoss(ABC):
    """The losses ``F_i(θ_i) = Σ_v W_vi f(z_v; θ_i)`` of the classes, for W given once.

    Parameters
    ----------
    models_set : ConvexSet
        Where the models live.
    """

    def __init__(self, models_set: ConvexSet) -> None:
        self.models_set = models_set
        self._curvature: Array | None = None

    @abstractmethod
    def value(self, models: Array) -> Array:
        """Return ``F_i(θ_i)`` for each class, shape (K,)."""

    @abstractmethod
    def gradient(self, models: Array) -> Array:
        """Return ``∇F_i(θ_i)`` for each class, shape (K, ...)."""

    def prox(
        self, points: Array, rho: float, start: Array, tol: float = 1e-12, max_iter: int = 500
    ) -> Array:
        """Return the members that minimise ``F_i(θ_i) + ρ/2 ‖θ_i − points_i‖²``, (K, ...).

        By accelerated projected gradients with restarts, the step of each class its own.

        Parameters
        ----------
        points : ndarray of shape (K, ...)
            Where to stay near.
        rho : float
            ρ ≥ 0.
        start : ndarray of shape (K, ...)
            Members to begin at.
        tol : float
            Stop when no class moves farther, in the Euclidean norm.
        """

        def slope(at: Array) -> Array:
            return np.asarray(self.gradient(at) + rho * (at - points))

        def height(at: Array) -> Array:
            return np.asarray(self.value(at) + 0.5 * rho * _dot(at - points, at - points))

        if self._curvature is None:
            self._curvature = np.full(len(points), 1e-3)
        bend = np.maximum(self._curvature + rho, 1e-12)
        theta, lead, share = start, start, np.ones(len(points))
        for _ in range(max_iter):
            # All three points are members: a loss need not be defined elsewhere.
            middle = theta + _wide(share, theta) * (lead - theta)
            gradient, here = slope(middle), height(middle)
            while True:
                led = self.models_set.project(lead - gradient / _wide(share * bend, theta))
                moved = theta + _wide(share, theta) * (led - theta)
                step = moved - middle
                promised = here + _dot(gradient, step) + 0.5 * bend * _dot(step, step)
                # Below rounding no promise can be judged.
                short = height(moved) > promised + 1e-14 * (1.0 + np.abs(here))
                if not short.any():
                    break
                bend = np.where(short, 2.0 * bend, bend)
            way = moved - theta
            far = np.maximum(_dot(step, step), _dot(way, way))
            # Where the momentum leads uphill, forget it.
            uphill = _dot(gradient, way) > 0
            theta, lead = moved, np.where(_wide(uphill, theta), moved, led)
            share = np.where(uphill, 1.0, 2.0 / (1.0 + np.sqrt(1.0 + 4.0 / share**2)))
            if (far <= tol * tol).all():
                break
            bend = np.maximum(0.95 * bend, rho)
        self._curvature = np.maximum(0.5 * (bend - rho), 1e-12)
        return theta


class NodewiseLoss(ClassLoss):
    """The losses of any term, summed over all nodes each time."""

    def __init__(self, term: Term, W: NDArray[Any]) -> None:
        super().__init__(term.models_set)
        self.term, self.W = term, W

    def value(self, models: Array) -> Array:
        """Return the sums of the losses."""

        def part(lo: int, hi: int) -> Array:
            costs = self.term.vertex_costs(models, lo, hi)
            return np.einsum("vi,vi->i", self.W[lo:hi].astype(np.float64), costs)

        return threads.sum_rows(part, self.term.n_nodes)

    def gradient(self, models: Array) -> Array:
        """Return the sums of the gradients."""

        def part(lo: int, hi: int) -> Array:
            weights = self.W[lo:hi].T.astype(np.float64)
            at = (np.broadcast_to(theta, (hi - lo, *theta.shape)) for theta in models)
            return np.stack(
                [
                    np.tensordot(weight, self.term.loss_gradient(theta, lo, hi), axes=1)
                    for weight, theta in zip(weights, at, strict=True)
                ]
            )

        return threads.sum_rows(part, self.term.n_nodes)


class LinearLoss(ClassLoss):
    """Losses ``⟨c_i, θ_i⟩``.

    Parameters
    ----------
    models_set : ConvexSet
        Where the models live.
    slopes : ndarray of shape (K, ...)
        c_i.
    """

    def __init__(self, models_set: ConvexSet, slopes: Array) -> None:
        super().__init__(models_set)
        self.slopes = slopes

    def value(self, models: Array) -> Array:
        """Return ``⟨c_i, θ_i⟩``."""
        return _dot(self.slopes, models)

    def gradient(self, models: Array) -> Array:
        """Return ``c_i``."""
        return self.slopes

    def prox(
        self, points: Array, rho: float, start: Array, tol: float = 1e-12, max_iter: int = 500
    ) -> Array:
        """Return the projections of ``points_i − c_i/ρ``."""
        if rho == 0.0:
            return self.models_set.lmo(self.slopes)
        return self.models_set.project(points - self.slopes / rho)


def _dot(left: Array, right: Array) -> Array:
    """Return the inner product of each pair of models, shape (K,)."""
    return np.asarray((left * right).reshape(len(left), -1).sum(axis=1))


def _wide(numbers: NDArray[Any], models: Array) -> NDArray[Any]:
    """Return one number a class in a shape that multiplies its model."""
    return numbers.reshape(-1, *[1] * (models.ndim - 1))
