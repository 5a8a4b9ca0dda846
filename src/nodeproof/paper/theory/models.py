"""Assumptions 4 and 5 on the models of some classes, in numbers.

With the flows ``g_vu = τ_i (μ/μ1)(∇f_u − ∇f_v)/n_i`` inside class i, none longer than 1 for
``τ_i = min(1, γ n_i/(n ρ_i))``, the diagonal of the paper's certificate is

    d_v(θ) − d_v(θ̂_i) = μ⟨n_i + (1 − τ_i)(∇f_v − ∇F_i), θ − θ̂_i⟩,    v ∈ C_i.

At τ_i = 1 it is ``μ⟨n_i, θ − θ̂_i⟩ ≥ 0``. For τ_i < 1 it is non-negative only if n_i is large
enough in every direction that Θ allows: at a vertex it may be, inside a face it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from nodeproof.convex.characteristic import biased_centroids
from nodeproof.convex.program import Program
from nodeproof.problem import Problem
from nodeproof.sets import ConvexSet

__all__ = ["ModelAssumptions", "maximise", "measure_models", "separation", "spread"]

Array = NDArray[np.float64]
_GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)
_STEPS = 60


def maximise(function: Callable[[Array], Array], shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Maximise several concave functions on [0, 1] at once, by golden sections.

    The ends are included. The values returned are attained, so none is too large.

    Parameters
    ----------
    function : callable
        From one point per function, shape ``shape``, to their values there.

    Returns
    -------
    points, values : ndarray of the given shape

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.paper.theory.models import maximise
    >>> points, values = maximise(lambda s: -((s - np.array([0.25, 2.0])) ** 2), (2,))
    >>> points.round(6), 1 + values.round(6)
    (array([0.25, 1.  ]), array([1., 0.]))
    """
    lo, hi = np.zeros(shape), np.ones(shape)
    best, top = lo, function(lo)

    def keep(points: Array) -> Array:
        nonlocal best, top
        values = function(points)
        better = values > top
        best, top = np.where(better, points, best), np.where(better, values, top)
        return values

    keep(hi)
    left, right = hi - _GOLDEN * (hi - lo), lo + _GOLDEN * (hi - lo)
    at_left, at_right = keep(left), keep(right)
    for _ in range(_STEPS):
        falls = at_left >= at_right
        lo, hi = np.where(falls, lo, left), np.where(falls, right, hi)
        fresh = np.where(falls, hi - _GOLDEN * (hi - lo), lo + _GOLDEN * (hi - lo))
        at_fresh = keep(fresh)
        left, right = np.where(falls, fresh, right), np.where(falls, left, fresh)
        at_left, at_right = (
            np.where(falls, at_fresh, at_right),
            np.where(falls, at_left, at_fresh),
        )
    return best, top


# Up to this many different gradients per class all pairs are compared.
_EXACT_PAIRS = 2000

# Centroids whose gap is below this share of their gradients count as optimal.
_STATIONARY = 1e-4

# Of inner products, relative to the sizes of what is multiplied.
_ROUNDING = 1e-12

# A model this close to a vertex counts as the vertex.
_SAME = 1e-12


@dataclass(frozen=True)
class ModelAssumptions:
    """Assumptions 4 and 5, measured.

    Attributes
    ----------
    sizes : ndarray of shape (K,)
        n_i.
    mu, son : float
        μ and μ1. μ is the sum of the terms' weights, and f the weighted mean of their losses.
    gamma : float
        γ = nμ1/μ.
    centroids, normals : ndarray of shape (K, d)
        The biased centroids θ̂_i and the vectors 𝐧_i there.
    gaps : ndarray of shape (K,)
        ``−min_θ ⟨n_i, θ − θ̂_i⟩``: how far the centroids are from optimal, in units of f.
    stationary : float
        1e-4 less the worst gap relative to the gradients: at least 0 where they are good enough.
    distinct : bool
        Whether no two centroids are equal.
    R : float
        For no θ in Θ are two of ``⟨n_i, θ − θ̂_i⟩`` below R, and R is the largest such number, 0
        where it is within rounding of that; infinite for one class.
    rho_classes : ndarray of shape (K,)
        The largest distance of two gradients ``∇f_v(θ̂_i)`` in each class, or a bound of it.
    rho_lower : float
        A distance that occurs; ρ itself where no bound had to do.
    flows : ndarray of shape (K,)
        τ_i.
    slopes : ndarray of shape (K, k), or None
        ``min_v ⟨n_i + (1 − τ_i)(∇f_v − ∇F_i), θᵏ − θ̂_i⟩`` for each vertex of Θ; None where it has
        too many.
    """

    sizes: NDArray[np.int64]
    mu: float
    son: float
    gamma: float
    centroids: Array
    normals: Array
    gaps: Array
    stationary: float
    distinct: bool
    R: float
    rho_classes: Array
    rho_lower: float
    flows: Array
    slopes: Array | None

    @property
    def rho(self) -> float:
        """Assumption 5's ρ, or an upper bound of it."""
        return float(self.rho_classes.max())

    @property
    def spread(self) -> float:
        """``min_i γ n_i/n − ρ_i``."""
        return float((self.gamma * self.sizes / self.sizes.sum() - self.rho_classes).min())

    @property
    def gradients(self) -> float:
        """At least 0 where no ``d_v(θ) − d_v(θ̂_i)`` is negative beyond the gaps.

        That is where gradients differ by no more than γn_i/n, or where the slopes allow for it.
        """
        if self.slopes is None or self.spread >= 0:
            return self.spread
        return float((self.slopes + self.gaps[:, None]).min())

    @property
    def lifted(self) -> float:
        """R as the certificate can use it: at the vertices of Θ where there are few of them."""
        if len(self.sizes) == 1:
            return 0.0
        if self.slopes is None:
            return max(0.0, self.R) if self.spread >= 0 else 0.0
        second = np.sort(self.slopes + self.gaps[:, None], axis=0)[1]
        return max(0.0, float(second.min()))

    @property
    def slack(self) -> float:
        """``μ Σ n_i gap_i``: what the gaps can cost in the objective."""
        return float(self.mu * (self.sizes * self.gaps).sum())


def measure_models(problem: Problem, z: NDArray[np.int64]) -> ModelAssumptions | None:
    """Measure Assumptions 4 and 5; None where no term has a weight. z holds 0…K−1, all."""
    program = Program(problem)
    if not program.terms:
        return None
    n, K = len(z), int(z.max()) + 1
    sizes = np.bincount(z, minlength=K)
    one_hot = np.eye(K)[z]
    found = biased_centroids(problem, one_hot, tol=1e-10, max_iter=20_000)
    used = [theta for theta, beta in zip(found.models, problem.term_weights, strict=True) if beta]
    theta = program.models_set.join(used)
    mu = float(sum(beta for _, beta in program.terms))
    gamma = n * problem.son / mu

    gradients = program.loss_gradient(theta[z]) / mu
    means = (one_hot.T @ gradients) / sizes[:, None]
    apart = theta[:, None] - theta
    lengths = np.linalg.norm(apart, axis=2)
    distinct = bool((lengths + np.eye(K) > _SAME).all())
    unit = apart / np.where(lengths > _SAME, lengths, np.inf)[:, :, None]
    normals = means + gamma * np.einsum("j,ijd->id", sizes / n, unit)

    away = program.models_set.lmo(normals) - theta
    gaps = np.abs(np.minimum(0.0, (normals * away).sum(axis=1)))
    sizes_of = np.sqrt((one_hot.T @ (gradients**2).sum(axis=1)) / sizes) + gamma
    scales = sizes_of * np.linalg.norm(away, axis=1)
    relative = np.divide(gaps, scales, out=np.zeros(K), where=scales > 0)

    # Exactly, ⟨n_i, θ − θ̂_i⟩ ≥ 0 on all of Θ, and so is R.
    R = separation(normals, theta, program.models_set)
    noticeable = float(gaps.max()) + _ROUNDING * float(scales.max())
    bounds = [spread(gradients[z == i]) for i in range(K)]
    rho = np.array([upper for _, upper in bounds])
    allowed = gamma * sizes / n
    flows = np.where(rho > allowed, allowed / np.where(rho > 0, rho, 1.0), 1.0)
    return ModelAssumptions(
        sizes=sizes,
        mu=mu,
        son=problem.son,
        gamma=gamma,
        centroids=theta,
        normals=normals,
        gaps=gaps,
        stationary=_STATIONARY - float(relative.max()),
        distinct=distinct,
        R=R if noticeable < R else 0.0,
        rho_classes=rho,
        rho_lower=max(lower for lower, _ in bounds),
        flows=flows,
        slopes=_slopes(gradients - means[z], normals, theta, flows, z, program.models_set),
    )


def spread(points: Array) -> tuple[float, float]:
    """Return a lower and an upper bound of the largest distance of two points, shape (n, d).

    Both are exact up to 2000 different points. For more, the upper bound is twice the radius
    around the mean, and the lower one the distance between two ends found by walking to the
    farthest point.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.paper.theory.models import spread
    >>> spread(np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
    (5.0, 5.0)
    """
    points = np.unique(points, axis=0)
    if len(points) <= _EXACT_PAIRS:
        exact = float(pdist(points).max(initial=0.0))
        return exact, exact
    radii = np.linalg.norm(points - points.mean(axis=0), axis=1)
    here, lower = int(radii.argmax()), 0.0
    for _ in range(3):
        far = np.linalg.norm(points - points[here], axis=1)
        here, lower = int(far.argmax()), max(lower, float(far.max()))
    return lower, 2.0 * float(radii.max())


def separation(normals: Array, theta: Array, models_set: ConvexSet) -> float:
    """Return the largest R for which Assumption 4 holds.

    That is the least second smallest of ``⟨n_i, θ − θ̂_i⟩`` over Θ, so for each two classes

        min_θ max(⟨n_i, θ − θ̂_i⟩, ⟨n_j, θ − θ̂_j⟩)
            = max_{0≤w≤1} min_θ ⟨w n_i + (1 − w) n_j, θ⟩ − w⟨n_i, θ̂_i⟩ − (1 − w)⟨n_j, θ̂_j⟩:

    Θ is compact and all is linear in θ and in w. The inner minimum is the set's own oracle, for
    any convex set; any w gives a lower bound, so the result is never too large.

    Parameters
    ----------
    normals, theta : ndarray of shape (K, d)
    models_set : ConvexSet
        With points of shape (d,).

    Returns
    -------
    float
        Infinite for one class.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.sets import Simplex
    >>> from nodeproof.paper.theory.models import separation
    >>> round(separation(-np.eye(2), np.eye(2), Simplex(2)), 6)  # at θ = (1/2, 1/2)
    0.5
    """
    first, second = np.triu_indices(len(theta), 1)
    if len(first) == 0:
        return np.inf
    offsets = (normals * theta).sum(axis=1)

    def least(w: Array) -> Array:
        mixed = w[:, None] * normals[first] + (1.0 - w)[:, None] * normals[second]
        rises = (mixed * models_set.lmo(mixed)).sum(axis=1)
        return np.asarray(rises - w * offsets[first] - (1.0 - w) * offsets[second])

    return float(maximise(least, first.shape)[1].min())


def _slopes(
    deviations: Array,
    normals: Array,
    theta: Array,
    flows: Array,
    z: NDArray[np.int64],
    models_set: ConvexSet,
) -> Array | None:
    vertices = models_set.vertices()
    if vertices is None:
        return None
    slopes = np.empty((len(theta), len(vertices)))
    for i, model in enumerate(theta):
        away = vertices - model
        away[np.linalg.norm(away, axis=1) <= _SAME] = 0.0
        worst = (np.unique(deviations[z == i], axis=0) @ away.T).min(axis=0)
        slopes[i] = away @ normals[i] + (1.0 - flows[i]) * worst
    return slopes
