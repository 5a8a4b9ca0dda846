"""Dual variables in closed form whose bound is P(z), provided their matrices are semidefinite.

With ``H[v, i] = Σ_{u ∈ C_i, u ≠ v} B_uv`` and ``Δ[v, i] = c[v, i] − c[v, z_v]``, for any τ,

    ν_v = c[v, z_v] − H[v, z_v] − τ_v,   r[v, z_v] = τ_v,   σ_i = −Σ_{C_i} τ,
    r[v, i] = H[v, i] + (Γ 1_{C_i})_v  for i ≠ z_v,

and N_i then annihilates ``[1; 1_{C_i}]``. The two families choose τ and Γ.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from nodeproof.certificate.labelling.dual import Dual, Factors
from nodeproof.certificate.labelling.instance import Instance

__all__ = ["FAMILIES", "closed"]

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

# Up to this many classes, potentials between them are computed.
_MOST_POTENTIALS = 100


def _costs_family(instance: Instance, z: Labels) -> Dual:
    """Return the family F, for costs on all nodes: Γ = 0, τ the least that it can be."""
    n, K = instance.n_nodes, instance.n_classes
    if not instance.linked:  # each node for itself
        return Dual(instance.costs.min(axis=1), np.zeros((K, n)), np.zeros(K))
    members, H, delta = _parts(instance, z)
    if K == 1:  # there is but one labelling; any τ so low that the matrix is dominated will do
        tau = np.full(n, -2.0 * float(instance.absolute_times(np.ones((n, 1))).max(initial=0.0)))
    else:
        tau = np.where(members, -np.inf, H - 0.5 * delta).max(axis=1)
    r = np.where(members, tau[:, None], H).T
    return Dual(_nu(instance, z, H, tau), np.ascontiguousarray(r), -(tau @ members))


def _graph_family(instance: Instance, z: Labels) -> Dual:
    """Return the family G, for links and few labels: Γ a product across classes.

    τ is raised by a constant per class, and ``a[v, i] = τ_v − H[v, i]`` is what Γ may take from a
    node's links to another class: ``Γ_uv ∝ a[u, z_v]·a[v, z_u]``. Where the sums of τ over
    classes are equal, ``r[v, i] = τ_v`` for all i; where a class would rather have the name of
    another, its sum is larger (see `_potentials`).
    """
    K = instance.n_classes
    members, H, delta = _parts(instance, z)
    if K == 1:
        return _costs_family(instance, z)
    tau = np.where(members, -np.inf, H - 0.5 * np.minimum(delta, 0.0)).max(axis=1)
    sizes = members.sum(axis=0)
    filled = sizes > 0
    sums = tau @ members
    wanted = _potentials(sums, members.T @ delta, filled)
    raised = np.zeros(K)
    raised[filled] = np.maximum(wanted - sums, 0.0)[filled] / sizes[filled]
    tau = tau + raised[z]
    a = np.maximum(np.where(members, 0.0, tau[:, None] - H), 0.0)
    across = members.T @ a
    # Each side of a pair of classes has its own sum; the mean of both is taken.
    both = across * across.T
    g = np.where(both > 0, 0.5 * (across + across.T) / np.where(both > 0, both, 1.0), 0.0)
    np.fill_diagonal(g, 0.0)
    r = np.where(members, tau[:, None], H + a * g[z] * across.T[z])
    r[:, ~filled] = 0.0
    sigma = -(tau @ members)
    if instance.symmetric:  # but for rounding, classes are equal: one matrix for all of them
        r[:, filled] = tau[:, None]
        sigma[filled] = sigma[filled].max()
    nu = _nu(instance, z, H, tau)
    return Dual(nu, np.ascontiguousarray(r.T), sigma, Factors(z, a, g))


def _potentials(sums: Array, named: Array, filled: NDArray[np.bool_]) -> Array:
    """Return what the sums T_j of τ over classes should be.

    ``named[j, i]`` is what it costs to call class j by the name i. N_i makes
    ``named[j, i] + T_j − T_i`` of ``[1; 1_{C_j}]``, which must not be negative. Potentials that
    do this exist where no renaming is cheaper; of them, those that leave most to spare.
    """
    least = sums.copy()
    if not filled.all():
        least = np.maximum(least, -named[:, ~filled].min(axis=1))
    classes = np.flatnonzero(filled)
    equal = np.full(len(sums), least[filled].max())
    k = len(classes)
    named = named[np.ix_(classes, classes)]
    if (named >= 0).all() or k > _MOST_POTENTIALS:
        return equal
    j, i = np.nonzero(~np.eye(k, dtype=bool))
    rows = np.arange(len(j))
    # Variables: the potentials, the slack, and how far the potentials spread.
    spare = np.zeros((len(j), k + 2))
    spare[rows, j], spare[rows, i], spare[rows, k] = -1.0, 1.0, 1.0
    spread = np.hstack([np.eye(k), np.zeros((k, 1)), -np.ones((k, 1))])
    size = float(np.abs(named).max())
    found = linprog(
        np.r_[np.zeros(k), -1.0, 0.1],
        np.vstack([spare, spread]),
        np.r_[named[j, i] / size, np.zeros(k)],
        bounds=[(0.0, None)] * k + [(None, 1.0), (0.0, None)],
    )
    if found.status != 0:
        return equal
    wanted = np.zeros(len(sums))
    wanted[classes] = size * found.x[:k]
    return np.asarray(wanted + float((least - wanted)[filled].max()))


def closed(instance: Instance, z: Labels, tau: Array, gamma: Array) -> Dual:
    """Return dual variables whose bound is P(z), for a given τ and given prices Γ of the signs.

    Parameters
    ----------
    gamma : ndarray of shape (K, n, n)
        Symmetric, non-negative; entries of Γ_i inside class i do not count.
    """
    members, H, _ = _parts(instance, z)
    gamma = gamma.copy()
    for i, inside in enumerate(members.T):
        gamma[i][np.ix_(inside, inside)] = 0.0
    pushed = np.einsum("iuv,vi->ui", gamma, members.astype(np.float64))
    r = np.where(members, tau[:, None], H + pushed)
    return Dual(_nu(instance, z, H, tau), np.ascontiguousarray(r.T), -(tau @ members), gamma)


def _parts(instance: Instance, z: Labels) -> tuple[NDArray[np.bool_], Array, Array]:
    """Return which node is in which class, H and Δ, each of shape (n, K)."""
    members = np.eye(instance.n_classes, dtype=bool)[z]
    chosen = instance.costs[np.arange(instance.n_nodes), z]
    return members, instance.gains(z), instance.costs - chosen[:, None]


def _nu(instance: Instance, z: Labels, H: Array, tau: Array) -> Array:
    every = np.arange(instance.n_nodes)
    return np.asarray(instance.costs[every, z] - H[every, z] - tau)


FAMILIES = {"F": _costs_family, "G": _graph_family}
