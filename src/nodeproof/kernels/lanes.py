"""Updates of several nodes side by side: each step is a vector operation over all of them.

LLVM does not vectorise a loop over a handful of classes, but one over a fixed number of nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.kernels.gathering import gather
from nodeproof.kernels.primitives import exp_rows, inlined

__all__ = ["LANES", "lanes", "sweep_lanes"]

#: nodes that are updated side by side
LANES = 32

# Where batches have fewer nodes, they are updated one after the other: the first fit to a small
# graph does not wait for loops to be compiled that it hardly needs.
_FEW = 64


def lanes(K: int, batch: int) -> tuple[NDArray[Any] | None, ...]:
    """Return what `sweep_lanes` works with, for one thread: a row per class, a column per node.

    Parameters
    ----------
    batch : int
        How many nodes are updated from the same state. For small batches every entry is None, and
        nodes are updated one after the other.
    """
    if batch < _FEW:
        return (None,) * 9
    n = LANES
    wide = [np.zeros((K, n)) for _ in range(2)]  # scores, sums of links
    slim = [np.zeros((K, n), dtype=np.float32) for _ in range(2)]  # shares, memberships before
    single = [np.zeros(n) for _ in range(3)]  # η, largest score or sum, mass
    return *wide, *slim, slim[0].reshape(-1), *single, np.zeros(n, dtype=np.float32)


@inlined
def sweep_lanes(
    v, count, charged, indptr, indices, weights, eta, W, totals, costs, log_prior, worth, price,
    sharpness, new, at, moved, mass, change, c, near, score, links, shares, old, flat, own, top,
    inside, largest,
):  # fmt: skip
    """Update `count` nodes from v on, at one pair (ℓ, ℓt) for all classes and T > 0.

    Their memberships go to rows `at`… of `new`. What moves, η_v ΔW_vi, is added to ``moved[c]``,
    ⟨AW_v, W_v⟩ to ``mass[c]`` and max_i |ΔW_vi| to ``change[c]``, one node after the other: sums do
    not depend on which nodes are side by side.
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
        else:  # nobody's
            own[r] = 0.0
            for i in range(K):
                links[i, r] = 0.0
                old[i, r] = 0.0
                score[i, r] = 0.0
    for r in range(n_lanes):
        top[r] = -np.inf
        inside[r] = 0.0
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
            inside[r] += links[i, r] * share
            largest[r] = max(largest[r], abs(share - old[i, r]))
    for r in range(count):
        mass[c, 0, 0] += inside[r]
        change[c] += largest[r]
        for i in range(K):
            new[at + r, i] = shares[i, r]
            moved[c, i] += own[r] * (np.float64(shares[i, r]) - old[i, r])
