"""What dual variables prove about the convex program: a rigorous lower bound.

By convexity, for any ν, any Γ, and any antisymmetric flows no longer than one, with
``q_v = ∇f_v(θ̂_v) + μ1 Σ_u g_vu`` no point of the program has an objective below

    Σν + Σ_uv min(Γ_uv, 0) + n·min_{θ ∈ Θ} λ_min(diag(⟨q_v, θ⟩ − ν) − B − Γ)
       + Σ_v [f_v(θ̂_v) − ⟨∇f_v(θ̂_v), θ̂_v⟩].

λ_min is concave in θ, so that where Θ has few vertices they are all there is to look at; a
spectral box has a bound of its own (`JointAtoms.bound`). Rounding is allowed for throughout.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum, nextafter

import numpy as np
from numpy.typing import NDArray

from nodeproof.atoms import JointAtoms
from nodeproof.certificate.program.ideal import EPS, Flows, Ideal
from nodeproof.certificate.program.links import TypedFlows
from nodeproof.convex.program import check_memory
from nodeproof.convex.results import tighten
from nodeproof.sets import Product, SpectralBox
from nodeproof.solvers.semidefinite import off_diagonal, with_diagonal

__all__ = ["Dual", "Proof", "improve", "prove"]

Array = NDArray[np.float64]

# LAPACK's eigenvalues, sums and products are off by small multiples of n·eps·size; this one is
# generous.
_ROUNDING = 8.0


@dataclass(frozen=True)
class Dual:
    """Dual variables of the program: any are allowed, good ones prove much.

    Attributes
    ----------
    nu : ndarray of shape (n,)
        Prices of ``L_vv = 1``.
    gamma : ndarray of shape (n, n)
        Prices of ``0 ≤ L_uv ≤ 1``, symmetric; its diagonal does not count.
    flows : Flows or TypedFlows
        For the sum of norms.
    """

    nu: Array
    gamma: Array
    flows: Flows | TypedFlows

    @classmethod
    def from_certificate(cls, ideal: Ideal, Z: Array, flows: Flows | TypedFlows) -> Dual:
        """Return the variables that the paper's matrix Z stands for: ``Z = B + Γ + diag ν``."""
        return cls(np.diag(Z).copy(), off_diagonal(Z - ideal.program.B), flows)


@dataclass(frozen=True)
class Proof:
    """What some dual variables prove: the bound, and the least eigenvalue that is in it."""

    bound: float
    least: float


def prove(ideal: Ideal, dual: Dual, steps: int) -> Proof:
    """Return the lower bound that the variables prove.

    Parameters
    ----------
    ideal : Ideal
        Where convex losses are replaced by their tangents, at points θ̂_v.
    dual : Dual
        Any variables; flows that are too long are cut.
    steps : int
        How often to improve the bound over a spectral box.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof import Problem
    >>> from nodeproof.certificate.program.bound import Dual, prove
    >>> from nodeproof.certificate.program.ideal import Flows, Ideal
    >>> from nodeproof.graph import Graph
    >>> pairs = np.kron(np.eye(2), np.array([[0, 1], [1, 0]]))
    >>> ideal = Ideal(Problem(Graph(pairs), [], 2, weights=(1.0, 0.0, 0.0)), [0, 0, 1, 1])
    >>> none = Flows(ideal.between, np.zeros(2))
    >>> round(prove(ideal, Dual(np.zeros(4), np.zeros((4, 4)), none), 0).bound, 9)  # 4·λ_min(−B)
    -12.0
    """
    q = ideal.gradients + ideal.program.son * dual.flows.valid_forces(ideal)
    gamma = off_diagonal(dual.gamma)
    least = _least(ideal, dual.nu, gamma, q, steps) - _cost_rounding(ideal)
    if not np.isfinite(least):
        return Proof(-np.inf, -np.inf)
    products = ideal.gradients * ideal.tangents[ideal.z]
    size = float(np.abs(ideal.losses).sum() + np.abs(products).sum()) * ideal.conditioning
    slack = _ROUNDING * (q.shape[1] + 8) * EPS * size
    # The product with n is rounded; the sum itself is exact.
    least_total = nextafter(len(q) * least, -np.inf) if least else 0.0
    gains = np.minimum(gamma, 0.0)
    parts = (dual.nu, gains[gains < 0], ideal.losses, -products.ravel(), [least_total, -slack])
    total = fsum(np.concatenate(parts))
    return Proof(nextafter(total, -np.inf) if total else 0.0, least)


def improve(ideal: Ideal, dual: Dual) -> Dual | None:
    """Return variables that make all matrices semidefinite; None where Θ has many vertices."""
    vertices = ideal.program.models_set.vertices()
    if vertices is None:
        return None
    q = ideal.gradients + ideal.program.son * dual.flows.valid_forces(ideal)
    nu, gamma, _ = tighten(ideal.program.B, dual.nu, off_diagonal(dual.gamma), q @ vertices.T)
    return Dual(nu, gamma, dual.flows)


def least_over_models(ideal: Ideal, dual: Dual, q: Array, steps: int) -> float:
    """Return a lower bound of ``λ_min(D(θ) − Z)`` over Θ, for costs ``⟨q_v, θ⟩``."""
    return _least(ideal, dual.nu, off_diagonal(dual.gamma), q, steps)


def _least(ideal: Ideal, nu: Array, gamma: Array, q: Array, steps: int) -> float:
    program, n = ideal.program, len(nu)
    M = -program.B - gamma
    vertices = program.models_set.vertices()
    if vertices is None:
        _check_memory(n, program.models_set)
        G = with_diagonal(M, -nu)
        return JointAtoms(n, program.models_set).bound(G, q, steps) if _finite(G, q) else -np.inf
    rows = float((np.abs(program.B) + np.abs(gamma)).sum(axis=1).max())
    costs = np.unique(q @ vertices.T, axis=1).T
    if not _finite(M, costs, nu):
        return -np.inf
    found = []
    for cost in costs:
        size = rows + float(np.abs(cost).max() + np.abs(nu).max())
        lowest = float(np.linalg.eigvalsh(with_diagonal(M, cost - nu))[0])
        margin = _ROUNDING * n * EPS * size + np.finfo(float).tiny if size else 0.0
        found.append(lowest - margin)
    return min(found)


def _cost_rounding(ideal: Ideal) -> float:
    """Return by how much rounding can have moved a node's cost ``⟨q_v, θ⟩``."""
    n, d = ideal.gradients.shape
    if not d:
        return 0.0
    # No coordinate of a model exceeds its largest value over Θ in size.
    of, every = ideal.program.models_set, np.eye(d)
    reach = np.maximum(np.abs(np.diag(of.lmo(every))), np.abs(np.diag(of.lmo(-every))))
    sizes = np.linalg.norm(ideal.gradients, axis=1).max() * ideal.conditioning
    sizes += 2.0 * ideal.program.son * n
    return float(_ROUNDING * (n + d) * EPS * sizes * np.linalg.norm(reach))


def _check_memory(n: int, of: Product) -> None:
    box = max((part.shape[0] for part in of.sets if isinstance(part, SpectralBox)), default=1)
    check_memory("the program certificate", n, 8 * box**2)


def _finite(*arrays: Array) -> bool:
    return all(bool(np.isfinite(array).all()) for array in arrays)
