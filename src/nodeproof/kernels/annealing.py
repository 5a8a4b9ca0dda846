"""Loops of simulated annealing: labels are drawn anew, node by node or cluster by cluster."""

import numpy as np

from nodeproof.kernels.primitives import compiled, inlined, least_of

__all__ = ["anneal_clusters", "anneal_nodes"]


@inlined
def _draw(price, temperature, uniform):
    """Return i with probability ∝ ``exp(−price[i] / temperature)``; overwrites the prices."""
    least = least_of(price)
    total = 0.0
    for i in range(len(price)):
        price[i] = np.exp((least - price[i]) / temperature)
        total += price[i]
    left = uniform * total
    for i in range(len(price) - 1):
        if left < price[i]:
            return i
        left -= price[i]
    return len(price) - 1


@compiled
def anneal_nodes(
    indptr, indices, weights, eta, costs, ell, ell_t, temperature, uniform, labels, totals
):  # fmt: skip
    """Draw the label of each node in turn, given all others, at a temperature.

    Prices are those of `settle`. `totals`, the sums of η in each class, are kept up to date;
    ``uniform[v]`` in [0, 1) decides for node v.
    """
    n, K = costs.shape
    price = np.empty(K)
    weighted = len(weights) > 0
    for v in range(n):
        totals[labels[v]] -= eta[v]
        for i in range(K):
            price[i] = costs[v, i] + ell_t * eta[v] * totals[i]
        for at in range(indptr[v], indptr[v + 1]):
            price[labels[indices[at]]] -= ell * (np.float64(weights[at]) if weighted else 1.0)
        labels[v] = _draw(price, temperature, uniform[v])
        totals[labels[v]] += eta[v]


@compiled
def anneal_clusters(
    indptr, indices, weights, eta, costs, ell, ell_t, temperature, bonds, uniform, labels, totals,
    root, mass, paid,
):  # fmt: skip
    """Draw the labels of whole clusters, as Swendsen and Wang do, at a temperature.

    A link inside a class binds its ends with probability ``1 − exp(−ℓA/T)``, as ``bonds[e]`` in
    [0, 1) of link e decides; what hangs together moves together, so links need not be counted
    again. Needs ``ℓ ≥ 0``. `root`, `mass` and `paid` of n rows are overwritten.
    """
    n, K = costs.shape
    _bind(indptr, indices, weights, ell / temperature, bonds, labels, root)
    for v in range(n):
        r = _root_of(root, v)
        root[v] = r
        if r == v:
            mass[v] = 0.0
            paid[v] = 0.0
        mass[r] += eta[v]
        for i in range(K):
            paid[r, i] += costs[v, i]
    price = np.empty(K)
    for v in range(n):
        if root[v] < v:
            labels[v] = labels[root[v]]
            continue
        totals[labels[v]] -= mass[v]
        for i in range(K):
            price[i] = paid[v, i] + ell_t * mass[v] * totals[i]
        labels[v] = _draw(price, temperature, uniform[v])
        totals[labels[v]] += mass[v]


@compiled
def _bind(indptr, indices, weights, strength, bonds, labels, root):
    """Write a forest of the nodes that bonds connect; each root is the least of its tree."""
    weighted = len(weights) > 0
    apart = np.exp(-strength)
    for v in range(len(root)):
        root[v] = v
    link = 0
    for u in range(len(root)):
        for at in range(indptr[u], indptr[u + 1]):
            v = indices[at]
            if v < u:
                continue
            if labels[u] == labels[v]:
                if weighted:
                    apart = np.exp(-strength * np.float64(weights[at]))
                if bonds[link] >= apart:
                    a, b = _root_of(root, u), _root_of(root, v)
                    root[max(a, b)] = min(a, b)
            link += 1


@inlined
def _root_of(root, v):
    """Return the root of v, and make the way to it shorter."""
    while root[v] != v:
        root[v] = root[root[v]]
        v = root[v]
    return v
