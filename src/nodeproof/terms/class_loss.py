"""What a whole class pays for its model: sums over the nodes, taken once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.runtime import threads
from nodeproof.sets import ConvexSet

if TYPE_CHECKING:
    from nodeproof.terms.base import Term

__all__ = ["ClassLoss", "LinearLoss", "NodewiseLoss"]

Array = NDArray[np.float64]

# Of how many latest values a step may not exceed the worst.
_MEMORY = 8

_LEAST_BEND = 1e-12


class ClassLoss(ABC):
    """The losses ``F_i(θ_i) = Σ_v W_vi f(z_v; θ_i)`` of the classes, for W given once.

    Parameters
    ----------
    models_set : ConvexSet
        Where the models live.
    """

    def __init__(self, models_set: ConvexSet) -> None:
        self.models_set = models_set
        self._bend: Array | None = None

    @abstractmethod
    def value(self, models: Array) -> Array:
        """Return ``F_i(θ_i)`` for each class, shape (K,)."""

    @abstractmethod
    def gradient(self, models: Array) -> Array:
        """Return ``∇F_i(θ_i)`` for each class, shape (K, ...)."""

    def value_gradient(self, models: Array) -> tuple[Array, Array]:
        """Return both, for losses that share the work between them."""
        return self.value(models), self.gradient(models)

    def prox(
        self, points: Array, rho: float, start: Array, tol: float = 1e-12, max_iter: int = 500
    ) -> Array:
        """Return the members that minimise ``F_i(θ_i) + ρ/2 ‖θ_i − points_i‖²``, (K, ...).

        By spectral projected gradients: the step of each class by the curvature that it met
        last, cut where it does not lower the worst of its latest values.

        Parameters
        ----------
        points : ndarray of shape (K, ...)
            Where to stay near.
        rho : float
            ρ ≥ 0.
        start : ndarray of shape (K, ...)
            Members to begin at.
        tol : float
            Stop when no class would move farther, in the Euclidean norm.
        max_iter : int
            Most steps.
        """

        def look(at: Array) -> tuple[Array, Array]:
            value, gradient = self.value_gradient(at)
            off = at - points
            return value + 0.5 * rho * _dot(off, off), gradient + rho * off

        theta, (value, gradient) = start, look(start)
        bend = np.full(len(points), rho + 1e-3) if self._bend is None else self._bend + rho
        latest = [value]
        for _ in range(max_iter):
            way = self.models_set.project(theta - gradient / _wide(bend, theta)) - theta
            if (_dot(way, way) <= tol * tol).all():
                break
            drop, worst = _dot(gradient, way), np.max(latest[-_MEMORY:], axis=0)
            # Below rounding no drop can be judged.
            slack = 1e-14 * (1.0 + np.abs(worst))
            share = np.ones(len(points))
            while True:
                moved = theta + _wide(share, way) * way
                reached, slope = look(moved)
                short = reached > worst + 1e-4 * share * drop + slack
                if not short.any():
                    break
                share = np.where(short, 0.3 * share, share)
            step, turn = moved - theta, slope - gradient
            length = _dot(step, step)
            met = np.divide(_dot(step, turn), length, out=bend.copy(), where=length > 0)
            bend = np.clip(met, max(rho, _LEAST_BEND), 1.0 / _LEAST_BEND)
            theta, value, gradient = moved, reached, slope
            latest.append(value)
        self._bend = np.maximum(bend - rho, _LEAST_BEND)
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
    """Return one number per class in a shape that multiplies its model."""
    return numbers.reshape(-1, *[1] * (models.ndim - 1))
