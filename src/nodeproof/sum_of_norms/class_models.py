"""Class models drawn together by a sum of norms: the objective, a lower bound, and its minimum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from nodeproof.first_order import ADMM, Point
from nodeproof.sum_of_norms.pairs import differences, lengths, shorten, shrink
from nodeproof.terms.base import Term
from nodeproof.terms.class_loss import ClassLoss

__all__ = ["CoupledLosses", "Minimum", "minimise"]

Array = NDArray[np.float64]

# Over-relaxation of the ADMM, and the number of iterations between checks of the gap.
_RELAXATION = 1.6
_CHECK_EVERY = 10

# ρ changes up to this iteration; from then on convergence is guaranteed.
_LAST_ADAPTATION = 1000

# ρ stays within these multiples of (the forces on the models) / (the distances between them).
_LEAST, _USUAL, _MOST = 0.01, 0.1, 10.0

# The step in θ need not be exact: it starts where the last one ended.
_STEPS = 5

# Share of the loss that is rounding.
_ROUNDING = 1e-13

# Models closer than this share of their size are merged where that costs nothing.
_NEAR = 1e-6


class CoupledLosses:
    """The objective per node: class losses coupled by norms, π_i = n_i/n and γ = n μ1.

        Σ_i π_i F_i(θ_i) + γ Σ_{i<j} π_i π_j ‖θ_i − θ_j‖,    F_i = Σ_k β_k Σ_v (W_vi/n_i) f_k

    Models of all terms are packed in rows of length d.

    Parameters
    ----------
    terms : sequence of Term
        The bound terms.
    betas : sequence of float
        Their weights β_k.
    W : ndarray of shape (n, K)
        Memberships; every class has some.
    sizes : ndarray of shape (K,)
        ``n_i = Σ_v W_vi``.
    son : float
        μ1, the weight of the sum of norms.
    """

    def __init__(
        self,
        terms: Sequence[Term],
        betas: Sequence[float],
        W: NDArray[Any],
        sizes: Array,
        son: float,
    ) -> None:
        weights = W / sizes
        self.betas = betas
        self.losses: list[ClassLoss] = [term.class_loss(weights) for term in terms]
        self.sets = [term.models_set for term in terms]
        self.n = float(sizes.sum())
        self.pi = sizes / self.n
        self.pairs = np.outer(self.pi, self.pi)
        self.gamma = son * self.n
        self.shapes: list[tuple[int, ...]] = []

    def pack(self, models: Sequence[Array]) -> Array:
        """Return the models side by side, shape (K, d)."""
        self.shapes = [each.shape[1:] for each in models]
        return np.hstack([each.reshape(len(each), -1) for each in models])

    def unpack(self, theta: Array) -> list[Array]:
        """Return the models of each term."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])[:-1]
        parts = np.split(theta, ends, axis=1)
        return [p.reshape(len(p), *s) for p, s in zip(parts, self.shapes, strict=True)]

    # The objective and a bound on it. -----------------------------------------------------

    def loss(self, theta: Array) -> Array:
        """Return F_i, shape (K,)."""
        total = np.zeros(len(theta))
        for beta, loss, models in zip(self.betas, self.losses, self.unpack(theta), strict=True):
            if beta:
                total += beta * loss.value(models)
        return total

    def gradient(self, theta: Array) -> Array:
        """Return ∇F_i, shape (K, d)."""
        parts = [
            (beta * loss.gradient(models) if beta else np.zeros_like(models)).reshape(
                len(theta), -1
            )
            for beta, loss, models in zip(self.betas, self.losses, self.unpack(theta), strict=True)
        ]
        return np.hstack(parts)

    def value(self, theta: Array) -> float:
        """Return the objective, for all nodes."""
        norms = 0.5 * self.gamma * float(np.vdot(self.pairs, lengths(differences(theta))))
        return self.n * (float(self.pi @ self.loss(theta)) + norms)

    def bound(self, theta: Array, duals: Array) -> float:
        """Return a lower bound of the objective, for all nodes.

        ``γ‖θ_i − θ_j‖ ≥ ⟨y_ij, θ_i − θ_j⟩`` for ‖y_ij‖ ≤ γ separates the classes, and each
        convex loss is no less than its tangent at θ, which the linear oracle minimises.

        Parameters
        ----------
        duals : ndarray of shape (K, K, d)
            y_ij = −y_ji.
        """
        gradient = self.gradient(theta)
        force = gradient + np.einsum("j,ijd->id", self.pi, duals)
        lowest = np.hstack(
            [
                each.lmo(part).reshape(len(theta), -1)
                for each, part in zip(self.sets, self.unpack(force), strict=True)
            ]
        )
        tangents = self.loss(theta) - (gradient * theta).sum(axis=1) + (force * lowest).sum(axis=1)
        return self.n * float(self.pi @ tangents)

    def allowance(self, theta: Array, tol: float) -> float:
        """Return what a relative tolerance amounts to: that share of the loss."""
        return tol * self.n * float(self.pi @ np.abs(self.loss(theta)))

    # Steps of the ADMM. -----------------------------------------------------------------

    def prox(self, points: Array, rho: float, start: Array, tol: float, steps: int) -> Array:
        """Return the members that about minimise ``F_i(θ_i) + ρ/2 ‖θ_i − points_i‖²``, (K, d)."""
        found = [
            loss.prox(point, rho / beta, begin, tol, steps) if beta else each.project(point)
            for beta, loss, each, point, begin in zip(
                self.betas, self.losses, self.sets, self.unpack(points), self.unpack(start),
                strict=True,
            )
        ]  # fmt: skip
        return self.pack(found)

    def merge(self, theta: Array, together: NDArray[np.bool_]) -> Array:
        """Return the means over classes that are together, or next to each other."""
        near = lengths(differences(theta)) <= _NEAR * np.abs(theta).max()
        _, which = connected_components(together | near, directed=False)
        members = np.eye(which.max() + 1)[which] * self.pi[:, None]
        means = (members / members.sum(axis=0)).T @ theta
        return np.asarray(means[which])

    def guess_duals(self, theta: Array) -> Array:
        """Return y_ij: γ times the direction, and what keeps equal models together, (K, K, d)."""
        apart = differences(theta)
        norms = lengths(apart)
        same = norms <= _NEAR * np.abs(theta).max()
        y = np.where(
            same[:, :, None], 0.0, self.gamma * apart / np.where(same, 1.0, norms)[:, :, None]
        )
        left = self.gradient(theta) + np.einsum("j,ijd->id", self.pi, y)
        inside = -differences(left) / (same @ self.pi)[:, None, None]
        return shorten(np.where(same[:, :, None], inside, y), self.gamma, margin=0.0)

    def spread(self, vectors: Array) -> float:
        """Return the root mean square length of one vector per class, weighted by class size."""
        return float(np.sqrt(self.pi @ (vectors * vectors).sum(axis=1)))


@dataclass(frozen=True)
class Minimum:
    """What `minimise` found: models of shape (K, d), value, bound, and how it ended."""

    theta: Array
    value: float
    bound: float
    n_iter: int
    converged: bool


def minimise(
    losses: CoupledLosses, start: Array, alone: Array, merged: Array, tol: float, max_iter: int
) -> Minimum:
    """Minimise the coupled losses until the value is within the tolerance of the bound.

    Where one model for all is best, that is known at once.

    Parameters
    ----------
    losses : CoupledLosses
        The objective.
    start, alone, merged : ndarray of shape (K, d)
        Where to begin; the models without a sum of norms, which set the scale; and the best
        model for all classes together.
    """
    best, value = start, losses.value(start)
    bound, reached = losses.bound(merged, losses.guess_duals(merged)), losses.value(merged)
    if reached <= value + losses.allowance(merged, _ROUNDING):
        best, value = merged, reached
        if value - bound <= losses.allowance(merged, tol):
            return Minimum(best, value, bound, 0, True)
    duals = losses.guess_duals(start)
    bound = max(bound, losses.bound(start, duals))
    admm = _ModelsADMM(losses, start, duals, _Penalty(losses, start, alone))
    while admm.iteration < max_iter:
        admm.step()
        if admm.iteration % _CHECK_EVERY and admm.iteration > 1:
            continue
        theta, together = admm.z[0], admm.together
        for candidate in (theta, losses.merge(theta, together)):
            reached = losses.value(candidate)
            if reached <= value:
                best, value = candidate, reached
        bound = max(bound, losses.bound(theta, admm.duals))
        allowed = losses.allowance(best, tol)
        if value - bound <= allowed:
            candidate = losses.merge(best, together)
            reached = losses.value(candidate)
            if reached - bound <= allowed:
                best, value = candidate, reached
            return Minimum(best, value, bound, admm.iteration, True)
        if 1 < admm.iteration <= _LAST_ADAPTATION:
            admm.adapt()
    return Minimum(best, value, bound, admm.iteration, False)


class _ModelsADMM(ADMM):
    """Copies ``x_i = θ_i`` and differences ``x_i − x_j = p_ij``, with penalties ρπ_i and ρπ_iπ_j.

    So a small class is as well conditioned as a large one. The step in x is a mean, in p a
    shrinkage, in θ one of each term. The duals of p never leave their balls, so that they give a
    bound at any time.
    """

    def __init__(
        self, losses: CoupledLosses, start: Array, duals: Array, penalty: _Penalty
    ) -> None:
        self.losses, self.penalty = losses, penalty
        super().__init__((start, differences(start)), penalty.first, _RELAXATION)
        self.u = (np.einsum("j,ijd->id", losses.pi, duals) / -self.rho, duals / self.rho)
        self._tol = 1e-3 * float(np.abs(start).max())

    @property
    def duals(self) -> Array:
        """The multipliers y_ij of the differences, shape (K, K, d)."""
        return self.rho * self.u[1]

    @property
    def together(self) -> NDArray[np.bool_]:
        """Which pairs of classes have no difference, shape (K, K)."""
        return np.asarray(lengths(self.z[1]) == 0.0)

    def x_step(self, target: Point) -> Point:
        """Return the copies that are closest to the models and to the differences."""
        pi, (models, apart) = self.losses.pi, target
        x = 0.5 * (models + np.einsum("j,ijd->id", pi, apart) + pi @ models)
        return x, differences(x)

    def z_step(self, target: Point) -> Point:
        """Return the models, by a few steps of each term, and shrunk differences."""
        steps = _STEPS + self.iteration // 100
        theta = self.losses.prox(target[0], self.rho, self.z[0], self._tol, steps)
        return theta, shrink(target[1], self.losses.gamma / self.rho)

    def step(self) -> None:
        """Make one iteration; the next step in θ is as exact as this one calls for."""
        x = self.x[0]
        super().step()
        losses, (theta, apart) = self.losses, self.z
        off = 0.5 * float(np.vdot(losses.pairs, ((self.x[1] - apart) ** 2).sum(axis=2)))
        primal = float(np.sqrt(losses.spread(theta - self.x[0]) ** 2 + off))
        self._residuals = primal, losses.spread(self.x[0] - x)
        least = 1e-14 * float(np.abs(theta).max())
        self._tol = min(self._tol, max(0.1 * min(self._residuals), least))

    def residuals(self) -> tuple[float, float]:
        """Return how far apart the copies are, and how far x has moved, classes by their size."""
        return self._residuals

    def adapt(self) -> None:
        """Change ρ where the curvature or the residuals call for it."""
        self.rescale(self.penalty.factor(self.rho, self.z[0], *self.residuals()))


class _Penalty:
    """Chooses ρ: the curvature met on the way, or what balances the residuals."""

    def __init__(self, losses: CoupledLosses, start: Array, alone: Array) -> None:
        self.losses = losses
        middle = np.broadcast_to(losses.pi @ alone, alone.shape)
        self.last, self.last_gradient = middle, losses.gradient(middle)
        curvature = self._curvature(alone, losses.gradient(alone))
        self.last, self.last_gradient = start, losses.gradient(start)
        spread = losses.spread(alone - middle) or float(np.abs(alone).max())
        usual = (losses.spread(self.last_gradient) + losses.gamma) / spread
        self.least, self.most = _LEAST * usual, _MOST * usual
        self.first = float(np.clip(curvature or _USUAL * usual, self.least, self.most))

    def factor(self, rho: float, theta: Array, primal: float, dual: float) -> float:
        """Return what to multiply ρ by, given the models and the residuals."""
        gradient = self.losses.gradient(theta)
        curvature = self._curvature(theta, gradient)
        self.last, self.last_gradient = theta, gradient
        ratio = curvature / rho if curvature else np.sqrt(primal / dual) if primal and dual else 1.0
        if 1 / 3 < ratio < 3:
            return 1.0
        wanted = rho * np.clip(ratio, 0.1, 10.0)
        return float(np.clip(wanted, self.least, self.most) / rho)

    def _curvature(self, theta: Array, gradient: Array) -> float:
        """Return the curvature of the losses since the last call, 0 where it is not resolved."""
        step, change = theta - self.last, gradient - self.last_gradient
        met = float(self.losses.pi @ (change * step).sum(axis=1))
        length = self.losses.spread(step)
        return met / length**2 if met > 1e-9 * length * self.losses.spread(change) else 0.0
