"""Updates of several nodes side by side: each step is a vector operation over all of them.

LLVM does not vectorise a loop over a handful of classes, but one over a fixed number of nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.kernels.gathering import gather
from nodeproof.kernels.primitives import exp_rows, inlined

__all__ = ["FEW", "LANES", "collect_lanes", "lanes", "sweep_lanes"]

#: nodes that are updated side by side
LANES = 32

#: fewer are updated one after the other
FEW = 8


def lanes(K: int, rows: int) -> tuple[NDArray[Any], ...]:
    """Return what `sweep_lanes` works with, for one thread: a row per class, a column per node.

    Parameters
    ----------
    rows : int
        How many nodes are updated at most; of a few, none are side by side.
    """
    n = LANES if rows >= FEW else 0
    wide = [np.zeros((K, n)) for _ in range(3)]  # scores, sums of links, moved
    slim = [np.zeros((K, n), dtype=np.float32) for _ in range(2)]  # shares, memberships before
    single = [np.zeros(n) for _ in range(4)]  # η, largest score or sum, mass, change
    return *wide, *slim, slim[0].reshape(-1), *single, np.zeros(n, dtype=np.float32)


@inlined
def sweep_lanes(
    v, count, charged, indptr, indices, weights, eta, W, totals, costs, log_prior, worth, price,
    sharpness, new, at, near, score, links, moved, shares, old, flat, own, top, mass, change,
    largest,
):  # fmt: skip
    """Update `count` nodes from v on, at one pair (ℓ, ℓt) for all classes and T > 0.

    Their memberships go to rows `at`… of `new`; what moves, η_v ΔW_vi, is added to `moved`,
    ⟨AW_v, W_v⟩ to `mass` and max_i |ΔW_vi| to `change`, node by node. Lanes without a node add
    nothing.
    """
    K, n_lanes = W.shape[1], len(top)
    for r in range(n_lanes):
        if r < count:
            gather(indptr[v + r], indptr[v + r + 1], indices, weights, W, near)
            own[r] = eta[v + r]
            for i in range(K):
                links[i, r] = near[i]
                old[i, r] = W[v + r, i]
                score[i, r] = log_prior[i] - costs[v + r - charged, i]
        else:
            own[r] = 0.0
            for i in range(K):
                links[i, r] = 0.0
                old[i, r] = 0.0
                score[i, r] = 0.0
    for r in range(n_lanes):
        top[r] = -np.inf
        largest[r] = 0.0
    for i in range(K):
        total = totals[i]
        for r in range(n_lanes):
            pairs = price * own[r] * (total - own[r] * old[i, r])
            score[i, r] += worth * links[i, r] - pairs
            top[r] = max(top[r], score[i, r])
    for i in range(K):
        for r in range(n_lanes):
            shares[i, r] = (score[i, r] - top[r]) * sharpness
    exp_rows(flat)
    for r in range(n_lanes):
        top[r] = 0.0
    for i in range(K):
        for r in range(n_lanes):
            top[r] += shares[i, r]
    for r in range(n_lanes):
        top[r] = 1.0 / top[r]
    for i in range(K):
        for r in range(n_lanes):
            share = shares[i, r] * np.float32(top[r])
            shares[i, r] = share
            step = share - old[i, r]
            moved[i, r] += own[r] * step
            mass[r] += links[i, r] * share
            largest[r] = max(largest[r], abs(step))
    for r in range(count):
        change[r] += largest[r]
        for i in range(K):
            new[at + r, i] = shares[i, r]


@inlined
def collect_lanes(c, moved, mass, change, all_moved, all_mass, all_change):
    """Add the sums of the lanes to those of cell c, and clear them."""
    n_lanes = len(mass)
    for r in range(n_lanes):
        for i in range(moved.shape[0]):
            all_moved[c, i] += moved[i, r]
            moved[i, r] = 0.0
        all_mass[c, 0, 0] += mass[r]
        all_change[c] += change[r]
        mass[r] = 0.0
        change[r] = 0.0
