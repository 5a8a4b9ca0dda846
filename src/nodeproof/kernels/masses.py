"""Sums over memberships and the links between them, for the objective."""

import numpy as np
from numba import njit

from nodeproof.kernels.gathering import gather

__all__ = ["charge_rows", "link_mass", "link_mass_exactly", "row_sums"]


@njit(cache=True, nogil=True)
def _gather_exactly(v, indptr, indices, weights, W, links):
    """Write Σ_u A_vu W_u, shape (K,), to `links` for W of any type, all in float64."""
    links[:] = 0.0
    for e in range(indptr[v], indptr[v + 1]):
        u = indices[e]
        w = np.float64(weights[e]) if len(weights) > 0 else 1.0
        for i in range(W.shape[1]):
            links[i] += w * W[u, i]


@njit(cache=True, nogil=True)
def row_sums(lo, hi, eta, W, totals, sizes, squares):
    """Add Σ η_v W_v, Σ W_v and Σ η_v² W_v W_vᵀ (K×K, or its trace, 1×1) over rows lo…hi."""
    K = W.shape[1]
    scalar = squares.shape[0] == 1
    for v in range(lo, hi):
        h = eta[v]
        inside = 0.0
        for i in range(K):
            w = np.float64(W[v, i])
            totals[i] += h * w
            sizes[i] += w
            inside += w * w
        if scalar:
            squares[0, 0] += h * h * inside
        else:
            for i in range(K):
                for j in range(K):
                    squares[i, j] += h * h * W[v, i] * np.float64(W[v, j])


@njit(cache=True, nogil=True, inline="always")
def _log(x):
    """Return log x of a positive number that is not subnormal, to ten digits."""
    bits = np.float64(x).view(np.int64)
    k = (bits >> 52) - 1023
    m = np.int64((bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000).view(np.float64)
    if m > 1.4142135623730951:
        m *= 0.5
        k += 1
    s = (m - 1.0) / (m + 1.0)
    q = s * s
    series = 1.0 + q * (
        1 / 3 + q * (1 / 5 + q * (1 / 7 + q * (1 / 9 + q * (1 / 11 + q * (1 / 13)))))
    )
    return k * 0.6931471805599453 + 2.0 * s * series


@njit(cache=True, nogil=True)
def charge_rows(W, costs, log_prior, temperature):
    """Return Σ W (C − log π) + T Σ W log W; both arrays hold the same rows."""
    total = 0.0
    for v in range(W.shape[0]):
        for i in range(W.shape[1]):
            w = np.float64(W[v, i])
            if w > 0.0:
                charged = costs[v, i] - log_prior[i]
                if temperature != 0.0:
                    charged += temperature * _log(w)
                total += w * charged
    return total


@njit(cache=True, nogil=True, inline="always")
def _add_mass(v, W, links, mass):
    """Add W_v ⊗ links to `mass` (K×K), or its trace (1×1)."""
    if mass.shape[0] == 1:
        inside = 0.0
        for i in range(W.shape[1]):
            inside += W[v, i] * links[i]
        mass[0, 0] += inside
    else:
        for i in range(W.shape[1]):
            for j in range(W.shape[1]):
                mass[i, j] += W[v, i] * links[j]


@njit(cache=True, nogil=True)
def link_mass(lo, hi, indptr, indices, weights, W, mass):
    """Add Σ_v W_vi (AW)_vj over rows lo…hi to `mass` (K×K), or its trace (1×1); W float32."""
    K = W.shape[1]
    sums = np.empty(16, dtype=np.float32)
    links = np.empty(K)
    flat = W.reshape(-1)
    for v in range(lo, hi):
        gather(indptr[v], indptr[v + 1], indices, weights, flat, K, sums, links)
        _add_mass(v, W, links, mass)


@njit(cache=True, nogil=True)
def link_mass_exactly(lo, hi, indptr, indices, weights, W, mass):
    """Add the same for W of any type, all in float64."""
    links = np.empty(W.shape[1])
    for v in range(lo, hi):
        _gather_exactly(v, indptr, indices, weights, W, links)
        _add_mass(v, W, links, mass)
