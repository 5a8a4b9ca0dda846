"""Class models pulled together by norms: the objective, a bound below it, and its minimum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from nodeproof.terms.base import Term
from nodeproof.terms.class_loss import ClassLoss

__all__ = ["Found", "Pulled", "minimise"]

Array = NDArray[np.float64]

# Over-relaxation of the ADMM, and how often the gap is looked at.
_RELAX = 1.6
_EVERY = 10

# Iterations after which ρ stays as it is: from then on convergence is certain.
_ADAPT = 1000

# ρ keeps within these multiples of what pulls models apart, over how far apart they are.
_LEAST, _USUAL, _MOST = 0.01, 0.1, 10.0

# The step in θ need not be exact: it begins where the last one ended.
_STEPS = 5

# Share of the loss that is rounding.
_ROUNDING = 1e-13

# Models nearer than this share of their size are taken for one where that costs nothing.
_NEAR = 1e-6


class Pulled:
    """The problem of one node on average: shares π_i = n_i/n, and γ = n μ1.

        Σ_i π_i F_i(θ_i) + γ Σ_{i<j} π_i π_j ‖θ_i − θ_j‖,    F_i = Σ_k β_k Σ_v (W_vi/n_i) f_k

    Models of all terms are packed in rows of length d.
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

    def slope(self, theta: Array) -> Array:
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
        norms = 0.5 * self.gamma * float(np.vdot(self.pairs, _norms(_differences(theta))))
        return self.n * (float(self.pi @ self.loss(theta)) + norms)

    def bound(self, theta: Array, duals: Array) -> float:
        """Return a bound below the objective, for all nodes.

        ``γ‖θ_i − θ_j‖ ≥ ⟨y_ij, θ_i − θ_j⟩`` for ‖y_ij‖ ≤ γ takes the classes apart, and each
        convex loss is no less than its tangent at θ, which the linear oracle minimises.

        Parameters
        ----------
        duals : ndarray of shape (K, K, d)
            y_ij = −y_ji.
        """
        slope = self.slope(theta)
        pull = slope + np.einsum("j,ijd->id", self.pi, duals)
        lowest = np.hstack(
            [
                each.lmo(part).reshape(len(theta), -1)
                for each, part in zip(self.sets, self.unpack(pull), strict=True)
            ]
        )
        tangents = self.loss(theta) - (slope * theta).sum(axis=1) + (pull * lowest).sum(axis=1)
        return self.n * float(self.pi @ tangents)

    def enough(self, theta: Array, tol: float) -> float:
        """Return what a tolerance amounts to: that share of the loss."""
        return tol * self.n * float(self.pi @ np.abs(self.loss(theta)))

    # Steps of the ADMM. -----------------------------------------------------------------

    def near(self, points: Array, rho: float, start: Array, tol: float, steps: int) -> Array:
        """Return the members that minimise ``F_i(θ_i) + ρ/2 ‖θ_i − points_i‖²``, or nearly so."""
        found = [
            loss.prox(point, rho / beta, begin, tol, steps) if beta else each.project(point)
            for beta, loss, each, point, begin in zip(
                self.betas, self.losses, self.sets, self.unpack(points), self.unpack(start),
                strict=True,
            )
        ]  # fmt: skip
        return self.pack(found)

    def snap(self, theta: Array, together: NDArray[np.bool_]) -> Array:
        """Return the means over classes that are together, or next to each other."""
        near = _norms(_differences(theta)) <= _NEAR * np.abs(theta).max()
        _, which = connected_components(together | near, directed=False)
        members = np.eye(which.max() + 1)[which] * self.pi[:, None]
        means = (members / members.sum(axis=0)).T @ theta
        return np.asarray(means[which])

    def guess_duals(self, theta: Array) -> Array:
        """Return y_ij: γ times the direction, and what keeps equal models together, (K, K, d)."""
        apart = _differences(theta)
        lengths = _norms(apart)
        same = lengths <= _NEAR * np.abs(theta).max()
        y = np.where(
            same[:, :, None], 0.0, self.gamma * apart / np.where(same, 1.0, lengths)[:, :, None]
        )
        left = self.slope(theta) + np.einsum("j,ijd->id", self.pi, y)
        inside = -_differences(left) / (same @ self.pi)[:, None, None]
        y = np.where(same[:, :, None], inside, y)
        return y * (self.gamma / np.maximum(_norms(y), max(self.gamma, 1e-300)))[:, :, None]

    def spread(self, rows: Array) -> float:
        """Return the root mean square length of some rows, classes by their size."""
        return float(np.sqrt(self.pi @ _squares(rows)))


@dataclass(frozen=True)
class Found:
    """What `minimise` found: models of shape (K, d), value, bound, and how it ended."""

    theta: Array
    value: float
    bound: float
    n_iter: int
    converged: bool


def minimise(
    pulled: Pulled, start: Array, alone: Array, merged: Array, tol: float, max_iter: int
) -> Found:
    """Minimise the pulled losses until the value is within the tolerance of the bound.

    Where one model for all is best, that is known at once.

    ADMM on copies ``x_i = θ_i`` and differences ``p_ij = x_i − x_j``, with the penalties ρ π_i and
    ρ π_i π_j, so that a small class is as well conditioned as a large one. The step in x is a
    mean, in p a shrinkage, in θ one of each term. The duals of p never leave their balls, so
    that each look at them gives a bound.

    Parameters
    ----------
    pulled : Pulled
        The objective.
    start, alone, merged : ndarray of shape (K, d)
        Where to begin; the models that nothing pulls, which tell the scale; and the best model
        for all classes together.
    """
    best, value = start, pulled.value(start)
    one, reached = pulled.bound(merged, pulled.guess_duals(merged)), pulled.value(merged)
    if reached <= value + pulled.enough(merged, _ROUNDING):
        best, value = merged, reached
        if value - one <= pulled.enough(merged, tol):
            return Found(best, value, one, 0, True)
    pi, gamma = pulled.pi, pulled.gamma
    rhos = _Penalty(pulled, start, alone)
    rho = rhos.first
    y = pulled.guess_duals(start)
    # Scaled duals: u of θ = x, v of x_i − x_j = p.
    u, v = np.einsum("j,ijd->id", pi, y) / rho, y / rho
    theta = x = start
    p = _differences(theta)
    bound = max(one, pulled.bound(theta, y))
    inner = 1e-3 * float(np.abs(theta).max())
    n_iter = 0
    for n_iter in range(1, max_iter + 1):
        asked = theta + u
        mean = 0.5 * (asked + np.einsum("j,ijd->id", pi, p - v) + pi @ asked)
        moved, x = mean - x, mean
        relaxed = _RELAX * x + (1.0 - _RELAX) * theta
        theta = pulled.near(relaxed - u, rho, theta, inner, _STEPS + n_iter // 100)
        u = u + theta - relaxed
        apart = _differences(x)
        q = _RELAX * apart + (1.0 - _RELAX) * p + v
        p = q * np.maximum(0.0, 1.0 - gamma / rho / np.maximum(_norms(q), 1e-300))[:, :, None]
        v = q - p

        off = 0.5 * float(np.vdot(pulled.pairs, _squares(apart - p)))
        primal, dual = float(np.sqrt(pulled.spread(theta - x) ** 2 + off)), pulled.spread(moved)
        inner = min(inner, max(0.1 * min(primal, dual), 1e-14 * float(np.abs(theta).max())))
        if n_iter % _EVERY and n_iter > 1:
            continue
        together = _norms(p) == 0.0
        for candidate in (theta, pulled.snap(theta, together)):
            reached = pulled.value(candidate)
            if reached <= value:
                best, value = candidate, reached
        bound = max(bound, pulled.bound(theta, rho * v))
        enough = pulled.enough(best, tol)
        if value - bound <= enough:
            snapped = pulled.snap(best, together)
            reached = pulled.value(snapped)
            if reached - bound <= enough:
                best, value = snapped, reached
            return Found(best, value, bound, n_iter, True)
        if 1 < n_iter <= _ADAPT:
            factor = rhos.rescale(rho, theta, primal, dual)
            rho, u, v = rho * factor, u / factor, v / factor
    return Found(best, value, bound, n_iter, False)


class _Penalty:
    """Chooses ρ: the curvature that is met on the way, or what makes both residuals alike."""

    def __init__(self, pulled: Pulled, start: Array, alone: Array) -> None:
        self.pulled = pulled
        middle = np.broadcast_to(pulled.pi @ alone, alone.shape)
        self.last, self.last_slope = middle, pulled.slope(middle)
        bend = self._bend(alone, pulled.slope(alone))
        self.last, self.last_slope = start, pulled.slope(start)
        spread = pulled.spread(alone - middle) or float(np.abs(alone).max())
        usual = (pulled.spread(self.last_slope) + pulled.gamma) / spread
        self.least, self.most = _LEAST * usual, _MOST * usual
        self.first = float(np.clip(bend or _USUAL * usual, self.least, self.most))

    def rescale(self, rho: float, theta: Array, primal: float, dual: float) -> float:
        """Return by what to multiply ρ, given where the models are and the residuals."""
        slope = self.pulled.slope(theta)
        bend = self._bend(theta, slope)
        self.last, self.last_slope = theta, slope
        ratio = bend / rho if bend else np.sqrt(primal / dual) if primal and dual else 1.0
        if 1 / 3 < ratio < 3:
            return 1.0
        wanted = rho * np.clip(ratio, 0.1, 10.0)
        return float(np.clip(wanted, self.least, self.most) / rho)

    def _bend(self, theta: Array, slope: Array) -> float:
        """Return the curvature of the losses since the last look, 0 where it cannot be told."""
        way, turn = theta - self.last, slope - self.last_slope
        met = float(self.pulled.pi @ (turn * way).sum(axis=1))
        length = self.pulled.spread(way)
        return met / length**2 if met > 1e-9 * length * self.pulled.spread(turn) else 0.0


def _differences(rows: Array) -> Array:
    return np.asarray(rows[:, None, :] - rows[None, :, :])


def _squares(rows: Array) -> Array:
    return np.asarray(np.einsum("...d,...d->...", rows, rows))


def _norms(rows: Array) -> Array:
    return np.asarray(np.sqrt(_squares(rows)))
