"""Squared distances to class means, summed over classes."""

from __future__ import annotations

import numpy as np

from nodeproof.sets import Box
from nodeproof.terms.base import Array
from nodeproof.terms.class_loss import ClassLoss

__all__ = ["DistanceLoss"]


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
