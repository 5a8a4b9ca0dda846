"""Loops of belief propagation on the links."""

import numpy as np
from numba import njit

from nodeproof.kernels.memberships import null_score, row_moved, softmax
from nodeproof.kernels.primitives import padded

__all__ = ["belief_rows", "message_rows"]

# Keeps divisors away from zero; far below what any probability in float32 can be.
_SMALL = 1e-100


@njit(cache=True, nogil=True)
def _bounded_exp(ell, weight, gain):
    """Write e^(ℓ·weight) to `gain`, kept within 1e±100 so that nothing overflows."""
    for i in range(ell.shape[0]):
        for j in range(ell.shape[1]):
            gain[i, j] = np.exp(min(max(ell[i, j] * weight, -230.0), 230.0))


@njit(cache=True, nogil=True)
def _factor(message, gain, factor):
    """Write Σ_j gain_ij message_j to `factor`; a 1×1 gain is that of equal classes, else 1."""
    K = factor.shape[0]
    if gain.shape[0] == 1:
        for i in range(K):
            factor[i] = max(1.0 + (gain[0, 0] - 1.0) * message[i], _SMALL)
    else:
        for i in range(K):
            total = 0.0
            for j in range(K):
                total += gain[i, j] * message[j]
            factor[i] = max(total, _SMALL)


@njit(cache=True, nogil=True)
def belief_rows(
    lo, hi, first, indptr, weights, eta, W, totals, costs, log_prior, ell, ell_t, messages, new,
    moved,
):  # fmt: skip
    """Update nodes lo…hi by belief propagation on the links; write node v to ``new[v − first]``.

    ``messages[e]`` is what the far end of link e of row v believes without v, shape (nnz, K).
    A link multiplies by ``Σ_j e^ℓ_ij messages[e, j]``; pairs without a link count as in
    `sweep_rows`. Adds to ``moved[i]`` the change of Σ η_v W_vi, returns Σ_v max_i |ΔW_vi|.
    """
    K = W.shape[1]
    factor = np.empty(K)
    product = np.empty(K)
    score = np.empty(K)
    shares = np.zeros(padded(K), dtype=np.float32)
    change = 0.0
    weighted = len(weights) > 0
    gain = np.empty_like(ell)
    _bounded_exp(ell, 1.0, gain)
    # Number of factors that can be multiplied before a logarithm must be taken.
    room = 1 if weighted else max(1, int(400.0 / (np.abs(ell).max() + 1.0)))
    for v in range(lo, hi):
        score[:] = 0.0
        product[:] = 1.0
        pending = 0
        for e in range(indptr[v], indptr[v + 1]):
            if weighted:
                _bounded_exp(ell, weights[e], gain)
            _factor(messages[e], gain, factor)
            for i in range(K):
                product[i] *= factor[i]
            pending += 1
            if pending >= room:
                pending = 0
                for i in range(K):
                    score[i] += np.log(product[i])
                    product[i] = 1.0
        for i in range(K):
            score[i] += np.log(product[i])
        null_score(v, eta, totals, W, ell_t, score)
        for i in range(K):
            score[i] += log_prior[i] - costs[v, i]
        at = v - first
        softmax(score, 1.0, shares, new, at)
        change += row_moved(v, W, new, at, eta, moved, 0)
    return change


@njit(cache=True, nogil=True)
def message_rows(lo, hi, first, first_link, indptr, weights, ell, messages, new, out):
    """Write the belief of each node lo…hi without the far end of link e to ``out[e − first_link]``.

    That is its belief ``new[v − first]`` less the factor which the link brought, normalised.
    """
    K = messages.shape[1]
    factor = np.empty(K)
    weighted = len(weights) > 0
    gain = np.empty_like(ell)
    _bounded_exp(ell, 1.0, gain)
    for v in range(lo, hi):
        row = new[v - first]
        for e in range(indptr[v], indptr[v + 1]):
            if weighted:
                _bounded_exp(ell, weights[e], gain)
            _factor(messages[e], gain, factor)
            total = _SMALL
            for i in range(K):
                factor[i] = row[i] / factor[i]
                total += factor[i]
            for i in range(K):
                out[e - first_link, i] = factor[i] / total
