"""Certificates of the paper's recovery theorem, corrected and as published.

The paper shows that the ideal solution is optimal by a matrix Z and flows g_vu, in three ways:
by the nodes alone, by the graph alone, and by both. Here B stands for its Ā, with any threshold t
and scale s (its own are t = 1/2, s = 2), and f for all terms together, with weights. The
published formulas are kept beside the corrected ones: their conditions show where they fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nodeproof.certificate.program.bound import Dual, least_over_models
from nodeproof.certificate.program.ideal import Flows, Ideal
from nodeproof.certificate.program.links import (
    Conditions,
    Links,
    TypedFlows,
    at_least_zero,
    content_flows,
)

__all__ = [
    "Built",
    "combined",
    "graph_only",
    "multiplicative",
    "node_only",
    "optimised",
    "own_costs",
]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Built:
    """Dual variables, conditions of their construction besides optimality, and q.

    Attributes
    ----------
    dual : Dual
        The variables.
    asked : dict
        Conditions of this construction: name → (whether it holds, by how much).
    forces : ndarray of shape (n, d)
        ``Σ_u g_vu`` as the construction has it, which is not always allowed.
    """

    dual: Dual
    asked: Conditions
    forces: Array


def node_only(ideal: Ideal, published: bool = False) -> Built:
    """Build ``Z = D̄`` and flows that equalise the gradients of each class.

    As published, flows between classes have their indices swapped, and what is left of
    ``(D − Z)_vv`` lacks the factor μ.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof import Problem
    >>> from nodeproof.certificate.program.ideal import Ideal
    >>> from nodeproof.certificate.program.paper import node_only
    >>> from nodeproof.terms import Labels, NodeData
    >>> labels = Labels().bind(NodeData(n_classes=2, y=np.array([0, 0, 1, 1])))
    >>> problem = Problem(None, [labels], 2, weights=(0.0, 0.0, 1.0), son=0.1)
    >>> node_only(Ideal(problem, [0, 0, 1, 1])).asked  # γ = 0.4, and all gradients are equal
    {'ρ ≤ γ nᵢ/n': (True, 0.2)}
    """
    sign = -1.0 if published else 1.0
    n, son = len(ideal.z), ideal.program.son
    rates = 1.0 / (son * ideal.sizes) if son else np.zeros(len(ideal.sizes))
    flows = Flows(sign * ideal.between, rates)
    mu = _weight_of_terms(ideal)
    rho = ideal.spreads / mu
    if published:  # its β is not defined; the only one there is weighs the terms
        limit, name = mu * ideal.sizes / n, "ρ ≤ β nᵢ/n"
    else:
        limit, name = son * ideal.sizes / mu, "ρ ≤ γ nᵢ/n"
    asked = {name: at_least_zero(float((limit - rho).min()))}
    if published:
        asked["(D − Z)_vv = ⟨n, θ − θ̂⟩"] = _is_zero(_lacking(ideal, mu), ideal)
    forces = flows.forces(ideal) if published else flows.valid_forces(ideal)
    dual = Dual.from_certificate(ideal, np.diag(own_costs(ideal, forces)), flows)
    return Built(dual, asked, forces)


def graph_only(ideal: Ideal, published: bool = False) -> Built:
    """Build ``Z = P⊥(S − λI)P⊥``, which needs links to be dense inside and rare across.

    As published, t is 1/2 and s is 2, the a_ii and a_ij are chosen for the largest deviation δ,
    and λ by the centred adjacency.

    Examples
    --------
    >>> from nodeproof import Problem, datasets
    >>> from nodeproof.certificate.program.bound import prove
    >>> from nodeproof.certificate.program.ideal import Ideal
    >>> from nodeproof.certificate.program.paper import graph_only
    >>> from nodeproof.graph import Graph
    >>> data = datasets.make_planted(p=0.95, q=0.05, cluster_size=30, random_state=0)
    >>> problem = Problem(Graph(data.graph), [], n_classes=3, weights=(1.0, 0.0, 0.0))
    >>> ideal = Ideal(problem, data.y_true)
    >>> built = graph_only(ideal)
    >>> bool(ideal.value - prove(ideal, built.dual, 0).bound < 1e-6), built.asked["room for aᵢᵢ"][0]
    (True, True)
    """
    links = Links.of(ideal)
    a, pull, asked = links.printed() if published else links.corrected()
    flows = Flows(ideal.between, np.zeros(len(ideal.sizes)))
    dual = Dual.from_certificate(ideal, links.certificate(a, pull), flows)
    return Built(dual, asked, flows.valid_forces(ideal))


def combined(ideal: Ideal, published: bool = False) -> Built:
    """Build ``Z = P⊥(S − λI)P⊥ + D̄``, with flows inside classes as long as they may be.

    As published, flows inside a class are sums over it and those between classes are swapped.

    Examples
    --------
    >>> from nodeproof import Problem, datasets
    >>> from nodeproof.certificate.program.bound import prove
    >>> from nodeproof.certificate.program.ideal import Ideal
    >>> from nodeproof.certificate.program.paper import combined
    >>> from nodeproof.graph import Graph
    >>> data = datasets.make_planted(p=0.95, q=0.05, cluster_size=30, random_state=0)
    >>> problem = Problem(Graph(data.graph), [], n_classes=3, weights=(1.0, 0.0, 0.0))
    >>> ideal = Ideal(problem, data.y_true)
    >>> built = combined(ideal)
    >>> bool(ideal.value - prove(ideal, built.dual, 0).bound < 1e-6), built.asked["room for aᵢᵢ"][0]
    (True, True)
    """
    links = Links.of(ideal)
    if published:
        largest = max(float(ideal.spreads.max()), 1e-300)
        flows = Flows(-ideal.between, np.full(len(ideal.sizes), 1.0 / largest), summed=True)
        forces = flows.forces(ideal)
        a, pull, asked = links.printed()
        asked["⟨μn, θ − θ̂⟩ ≥ μF"] = at_least_zero(-_separation(ideal))
    else:
        flows = Flows(ideal.between, _even_rates(ideal))
        forces = flows.valid_forces(ideal)
        a, pull, asked = links.corrected(_slack_for(ideal, links, flows, forces))
    Z = links.certificate(a, pull) + np.diag(own_costs(ideal, forces))
    return Built(Dual.from_certificate(ideal, Z, flows), asked, forces)


def _slack_for(
    ideal: Ideal, links: Links, flows: Flows, forces: Array
) -> Callable[[Array, float], float]:
    """Return a judge of a and λ: the least eigenvalue over Θ."""
    q = ideal.gradients + ideal.program.son * forces
    own = np.diag(own_costs(ideal, forces))

    def judge(a: Array, pull: float) -> float:
        dual = Dual.from_certificate(ideal, links.certificate(a, pull) + own, flows)
        return least_over_models(ideal, dual, q, steps=0)

    return judge


def _even_rates(ideal: Ideal) -> Array:
    """Return rates that equalise the gradients of each class within the limits, shape (k,)."""
    son = ideal.program.son
    if not son:
        return np.zeros(len(ideal.sizes))
    return np.minimum(1.0 / (son * ideal.sizes), 1.0 / np.maximum(ideal.spreads, 1e-300))


def own_costs(ideal: Ideal, forces: Array) -> Array:
    """Return ``d_v(θ̂_{z_v})``, shape (n,)."""
    q = ideal.gradients + ideal.program.son * forces
    return np.asarray((q * ideal.theta[ideal.z]).sum(axis=1))


def _weight_of_terms(ideal: Ideal) -> float:
    """Return μ: the largest weight of a term, one without terms."""
    return max((beta for _, beta in ideal.program.terms), default=1.0)


def _lacking(ideal: Ideal, mu: float) -> float:
    """Return the most that ``⟨μn_i, θ − θ̂_i⟩`` and ``⟨n_i, θ − θ̂_i⟩`` differ by over Θ."""
    farthest = ideal.program.models_set.lmo(-ideal.normals)
    moved = (ideal.normals * (farthest - ideal.theta)).sum(axis=1)
    return float(np.abs((1.0 - 1.0 / mu) * moved).max(initial=0.0))


def _separation(ideal: Ideal) -> float:
    """Return a lower bound of μR of the separability assumption, zero where there is none.

    ``min_θ max(l_i, l_j) ≥ min_θ w·l_i + (1 − w)·l_j`` for ``l_i = ⟨μn_i, θ − θ̂_i⟩``.
    """
    k, least = len(ideal.sizes), np.inf
    at_home = (ideal.normals * ideal.theta).sum(axis=1)
    for i in range(k):
        for j in range(i):
            w = np.linspace(0.0, 1.0, 21)[:, None]
            mixed = w * ideal.normals[i] + (1.0 - w) * ideal.normals[j]
            lowest = (ideal.program.models_set.lmo(mixed) * mixed).sum(axis=1)
            both = lowest - (w * at_home[i] + (1.0 - w) * at_home[j])[:, 0]
            least = min(least, float(both.max()))
    return max(0.0, least) if np.isfinite(least) else 0.0


def _is_zero(off: float, ideal: Ideal) -> tuple[bool, float]:
    return off <= 1e-9 * max(1.0, ideal.scale), -off


# A certificate of the ideal solution that needs less of a graph than the paper's.


def multiplicative(ideal: Ideal) -> Built:
    """Build ``Z = B`` inside classes, and across them what leaves every indicator in the kernel.

    With ``H[v, i] = Σ_{u ∈ C_i} B_uv``, ``a[v, i] = −H[v, i]`` and ``S_ij = Σ_{C_i} a[·, j]``,

        ν_v = ⟨q_v, θ̂_{z_v}⟩ − H[v, z_v],
        Γ_uv = 0 inside classes,   Γ_uv = κ(B_uv + a[u, z_v]·a[v, z_u]/S_{z_u z_v}) − B_uv across,

    so that ``Z 1_{C_i}`` vanishes outside C_i and the bound equals the ideal value where all
    matrices are semidefinite. A negative Γ inside would take a Laplacian off them, so zero is
    best there. κ ≤ 1 is the smallest with Γ ≥ 0, common to all blocks: the matrix is then
    a mean of that at κ = 1 and its own diagonal blocks, so that it can only gain. Slacks a below
    zero rule a proof out and are clipped; what is left is a bound.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof import Problem
    >>> from nodeproof.certificate.program.bound import prove
    >>> from nodeproof.certificate.program.ideal import Ideal
    >>> from nodeproof.certificate.program.paper import multiplicative
    >>> from nodeproof.graph import Graph
    >>> pairs = np.kron(np.eye(2), np.array([[0, 1], [1, 0]]))
    >>> ideal = Ideal(Problem(Graph(pairs), [], 2, weights=(1.0, 0.0, 0.0)), [0, 0, 1, 1])
    >>> round(prove(ideal, multiplicative(ideal).dual, 0).bound, 9), ideal.value
    (-4.0, -4.0)
    """
    return _built(ideal, Flows(ideal.between, _even_rates(ideal)))


def optimised(ideal: Ideal) -> Built:
    """Build the same with flows inside classes that leave the nodes as content as can be."""
    flows = content_flows(ideal)
    return multiplicative(ideal) if flows is None else _built(ideal, flows)


def _built(ideal: Ideal, flows: Flows | TypedFlows) -> Built:
    z, H = ideal.z, ideal.held
    forces = flows.valid_forces(ideal)
    slack = np.where(np.eye(len(ideal.sizes), dtype=bool)[z], np.inf, -H)
    nu = own_costs(ideal, forces) - H[np.arange(len(z)), z]
    asked = {"H ≤ 0 across": at_least_zero(float(slack.min()))}
    return Built(Dual(nu, _across(ideal, np.maximum(-H, 0.0)), flows), asked, forces)


def _across(ideal: Ideal, a: Array) -> Array:
    """Return Γ for slacks a of shape (n, k)."""
    z, B = ideal.z, ideal.program.B
    S = ideal.members.T @ a
    S = 0.5 * (S + S.T)
    inverse = np.divide(1.0, S, out=np.zeros_like(S), where=S > 0.0)
    Z = B + a[:, z] * a[:, z].T * inverse[z][:, z]
    Z[ideal.together] = 0.0
    needed = np.divide(B, Z, out=np.zeros_like(Z), where=Z > 0.0)
    kappa = float(np.clip(needed.max(), 0.0, 1.0))
    return np.asarray(np.where(ideal.together, 0.0, np.maximum(kappa * Z - B, 0.0)))
