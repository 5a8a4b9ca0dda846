"""A certificate of the ideal solution that asks less of a graph than the paper's."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nodeproof.certificate.program_bound import Dual
from nodeproof.certificate.program_flows import TypedFlows, content_flows
from nodeproof.certificate.program_ideal import Flows, Ideal
from nodeproof.certificate.program_links import at_least_zero
from nodeproof.certificate.program_paper import Built, even_rates, own_costs

__all__ = ["multiplicative", "optimised"]

Array = NDArray[np.float64]


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
    >>> from nodeproof.certificate.program_bound import prove
    >>> from nodeproof.certificate.program_ideal import Ideal
    >>> from nodeproof.certificate.program_strong import multiplicative
    >>> from nodeproof.graph import Graph
    >>> pairs = np.kron(np.eye(2), np.array([[0, 1], [1, 0]]))
    >>> ideal = Ideal(Problem(Graph(pairs), [], 2, weights=(1.0, 0.0, 0.0)), [0, 0, 1, 1])
    >>> round(prove(ideal, multiplicative(ideal).dual, 0).bound, 9), ideal.value
    (-4.0, -4.0)
    """
    return _built(ideal, Flows(ideal.between, even_rates(ideal)))


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
