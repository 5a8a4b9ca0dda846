"""Dual variables in closed form whose bound is P(z), if only their matrices are semidefinite.

With ``H[v, i] = Σ_{u ∈ C_i, u ≠ v} B_uv`` and ``Δ[v, i] = c[v, i] − c[v, z_v]``, for any τ,

    ν_v = c[v, z_v] − H[v, z_v] − τ_v,   r[v, z_v] = τ_v,   σ_i = −Σ_{C_i} τ,
    r[v, i] = H[v, i] + (Γ 1_{C_i})_v  for i ≠ z_v,

and N_i then annihilates ``[1; 1_{C_i}]``. The two families choose τ and Γ.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nodeproof.certificate.dual import Dual, Factors
from nodeproof.certificate.instance import Instance

__all__ = ["FAMILIES", "costs_family", "graph_family"]

Array = NDArray[np.float64]
Labels = NDArray[np.int64]


def costs_family(instance: Instance, z: Labels) -> Dual:
    """Return the family F, for costs on all nodes: Γ = 0, τ the least that it can be."""
    n, K = instance.n_nodes, instance.n_classes
    members, H, delta = _parts(instance, z)
    if K == 1:
        tau = np.zeros(n)
    else:
        tau = np.where(members, -np.inf, H - 0.5 * delta).max(axis=1)
    r = np.where(members, tau[:, None], H).T
    return Dual(_nu(instance, z, H, tau), np.ascontiguousarray(r), -(tau @ members))


def graph_family(instance: Instance, z: Labels) -> Dual:
    """Return the family G, for links and few labels: Γ a product across classes.

    τ is raised by a constant a class until its sums over classes are equal, so that
    ``a[v, i] = τ_v − H[v, i]`` has the same sum from either side of two classes, and
    ``Γ_uv = a[u, z_v]·a[v, z_u]/S`` the row sums a. Then ``r[v, i] = τ_v`` for all i.
    """
    n, K = instance.n_nodes, instance.n_classes
    members, H, delta = _parts(instance, z)
    if K == 1:
        return costs_family(instance, z)
    rival = np.where(members, -np.inf, H - 0.5 * np.minimum(delta, 0.0))
    tau = rival.max(axis=1)
    sizes = members.sum(axis=0)
    filled = sizes > 0
    sums = tau @ members
    raised = np.zeros(K)
    raised[filled] = (sums[filled].max() - sums[filled]) / sizes[filled]
    tau = tau + raised[z]
    a = np.maximum(np.where(members, 0.0, tau[:, None] - H), 0.0)
    across = members.T @ a
    across = np.maximum(across, across.T)
    g = np.where(across > 0, 1.0 / np.where(across > 0, across, 1.0), 0.0)
    np.fill_diagonal(g, 0.0)
    r = np.tile(tau, (K, 1))
    r[~filled] = 0.0
    return Dual(_nu(instance, z, H, tau), r, -(tau @ members), Factors(z, a, g))


def _parts(instance: Instance, z: Labels) -> tuple[NDArray[np.bool_], Array, Array]:
    """Return which node is in which class, H and Δ, each of shape (n, K)."""
    members = np.eye(instance.n_classes, dtype=bool)[z]
    chosen = instance.costs[np.arange(instance.n_nodes), z]
    return members, instance.gains(z), instance.costs - chosen[:, None]


def _nu(instance: Instance, z: Labels, H: Array, tau: Array) -> Array:
    every = np.arange(instance.n_nodes)
    return np.asarray(instance.costs[every, z] - H[every, z] - tau)


FAMILIES = {"F": costs_family, "G": graph_family}
