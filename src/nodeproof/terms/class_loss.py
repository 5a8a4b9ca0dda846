"""What a whole class pays for its model: sums over the nodes, taken once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from nodeproof.first_order import inner, projected_gradient
from nodeproof.runtime import threads
from nodeproof.sets import Box, ConvexSet, SpectralBox

if TYPE_CHECKING:
    from nodeproof.terms.base import Term

__all__ = [
    "ClassLoss",
    "DistanceLoss",
    "LinearLoss",
    "MomentLoss",
    "NodewiseLoss",
    "ScoreLoss",
    "fit_scores",
]

Array = NDArray[np.float64]

_LEAST_CURVATURE = 1e-12

# Sums of scores are sought this far from zero, and taken for equal if they are this close.
_WIDEST, _SETTLED = 1e3, 1e-13


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

    def value_gradient(self, models: Array) -> tuple[Array, Array]:
        """Return both, for losses that share the work between them."""
        return self.value(models), self.gradient(models)

    def prox(
        self, points: Array, rho: float, start: Array, tol: float = 1e-12, max_iter: int = 500
    ) -> Array:
        """Return the members that minimise ``F_i(θ_i) + ρ/2 ‖θ_i − points_i‖²``, (K, ...).

        By :func:`nodeproof.first_order.projected_gradient`.

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

        def value_gradient(at: Array) -> tuple[Array, Array]:
            value, gradient = self.value_gradient(at)
            off = at - points
            return value + 0.5 * rho * inner(off, off), gradient + rho * off

        guess = np.full(len(points), 1e-3) if self._curvature is None else self._curvature
        theta, curvature = projected_gradient(
            value_gradient, self.models_set.project, start, guess + rho, rho, tol, max_iter
        )
        # What the losses alone have; the next call begins with it.
        self._curvature = np.maximum(curvature - rho, _LEAST_CURVATURE)
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
        return inner(self.slopes, models)

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


class ScoreLoss(ClassLoss):
    """Losses ``Σ_j c_ij (log Σ_k exp(ω_ik) − ω_ij)``: cross-entropies of scores.

    Parameters
    ----------
    models_set : Box
        Where the scores live.
    counts : ndarray of shape (K, labels)
        c_ij ≥ 0.
    """

    def __init__(self, models_set: ConvexSet, counts: Array) -> None:
        super().__init__(models_set)
        self.counts = counts

    def value(self, models: Array) -> Array:
        """Return the losses of the classes."""
        total = self.counts.sum(axis=1)
        return np.asarray(total * logsumexp(models, axis=1) - inner(self.counts, models))

    def gradient(self, models: Array) -> Array:
        """Return ``Σ_k c_ik softmax(ω_i) − c_i``."""
        total = self.counts.sum(axis=1, keepdims=True)
        return np.asarray(total * softmax(models, axis=1) - self.counts)


def fit_scores(counts: Array, box: Box) -> Array:
    """Return the scores of least cross-entropy in a box that is the same in all directions.

    With ``s = log Σ_k exp(ω_k)``, the scores are ``clip(log(c_j/Σc) + s)``: s is found by
    bisection. If no score is at its bound, any s does, and the middle one is taken; zeros where
    nothing is counted.

    Parameters
    ----------
    counts : ndarray of shape (K, labels)
        Not negative.
    box : Box
        From −b to b in every entry.
    """
    total = counts.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        log = np.log(np.divide(counts, total, out=np.ones_like(counts), where=total > 0))

    def bisect(slack: float) -> Array:
        low, high = np.full_like(total, -_WIDEST), np.full_like(total, _WIDEST)
        for _ in range(100):
            middle = 0.5 * (low + high)
            over = logsumexp(box.project(log + middle), axis=1, keepdims=True) - middle > slack
            low, high = np.where(over, middle, low), np.where(over, high, middle)
        return high

    settled = 0.5 * (bisect(_SETTLED) + bisect(-_SETTLED))
    return np.where(total > 0, box.project(log + settled), 0.0)


class DistanceLoss(ClassLoss):
    """Losses ``½ Σ_v W_vi Σ_j (x_vj − μ_ij)²/d_ij / m`` of models (μ_i, d_i).

    Parameters
    ----------
    models_set : Box
        Where the models live, d given.
    center : ndarray of shape (m,)
        What the sums are taken about.
    sizes, shifts, squares : ndarray of shape (K,), (K, m) and (K, m)
        Weighted sums of 1, x − center and (x − center)².
    """

    models_set: Box

    def __init__(
        self, models_set: Box, center: Array, sizes: Array, shifts: Array, squares: Array
    ) -> None:
        super().__init__(models_set)
        self.center, self.sizes, self.shifts, self.squares = center, sizes, shifts, squares

    def value(self, models: Array) -> Array:
        """Return the weighted sums of the losses."""
        return np.asarray(0.5 * (self._spread(models) / models[:, 1]).mean(axis=1))

    def gradient(self, models: Array) -> Array:
        """Return the weighted sums of the gradients."""
        off = self.sizes[:, None] * (models[:, 0] - self.center) - self.shifts
        means, variances = off / models[:, 1], -0.5 * self._spread(models) / models[:, 1] ** 2
        return np.stack([means, variances], axis=1) / models.shape[-1]

    def prox(
        self, points: Array, rho: float, start: Array, tol: float = 1e-12, max_iter: int = 500
    ) -> Array:
        """Return the clipped mixtures of the class mean and the point."""
        bend = self.sizes[:, None] / self.models_set.lo[1] / points.shape[-1] + rho
        pull = self.shifts / self.models_set.lo[1] / points.shape[-1]
        means = self.center + (pull + rho * (points[:, 0] - self.center)) / bend
        return self.models_set.project(np.stack([means, points[:, 1]], axis=1))

    def _spread(self, models: Array) -> Array:
        """Return ``Σ_v W_vi (x_vj − μ_ij)²``, shape (K, m)."""
        off = models[:, 0] - self.center
        return np.asarray(self.squares - off * (2.0 * self.shifts - self.sizes[:, None] * off))


class MomentLoss(ClassLoss):
    """Losses ``(tr C_i R_i⁻¹ + N_i tr R_i)/m``.

    Parameters
    ----------
    models_set : SpectralBox
        Where the models R_i live.
    moments : ndarray of shape (K, m, m)
        C_i.
    sizes : ndarray of shape (K,)
        N_i.
    """

    def __init__(self, models_set: SpectralBox, moments: Array, sizes: Array) -> None:
        super().__init__(models_set)
        self.moments, self.sizes = moments, sizes

    def value(self, models: Array) -> Array:
        """Return ``(tr C_i R_i⁻¹ + N_i tr R_i)/m``."""
        return self.value_gradient(models)[0]

    def gradient(self, models: Array) -> Array:
        """Return ``(N_i I − R_i⁻¹ C_i R_i⁻¹)/m``."""
        return self.value_gradient(models)[1]

    def value_gradient(self, models: Array) -> tuple[Array, Array]:
        """Return both from one inverse."""
        m = models.shape[-1]
        inverses = np.linalg.inv(models)
        half = inverses @ self.moments
        traces = np.trace(half, axis1=1, axis2=2)
        traces += self.sizes * np.trace(models, axis1=1, axis2=2)
        eye = self.sizes[:, None, None] * np.eye(m)
        return np.asarray(traces / m), np.asarray((eye - half @ inverses) / m)
