"""Loops that update memberships: the sweeps of block CADO, and belief propagation."""

from __future__ import annotations

import numpy as np
from numba import njit

from nodeproof.kernels.gathering import gather
from nodeproof.kernels.primitives import barrier, exp_rows, padded

__all__ = [
    "belief_rows",
    "deliver",
    "message_rows",
    "softmax",
    "sweep_batches",
    "sweep_rows",
    "take_cells",
]


@njit(cache=True, nogil=True, inline="always")
def softmax(score, temperature, shares, out, at):
    """Write softmax(score / T) to row `at` of `out`; T = 0 puts all on the first maximum.

    `shares` is a float32 array for the work, of :func:`padded` length.
    """
    K = score.shape[0]
    top, other = score[0], score[K - 1]
    for i in range(1, K - 1, 2):
        top = max(top, score[i])
        other = max(other, score[i + 1])
    top = max(top, other)
    if temperature == 0.0:
        best = 0
        while score[best] < top:
            best += 1
        for i in range(K):
            out[at, i] = 1.0 if i == best else 0.0
        return
    sharpness = 1.0 / temperature
    for i in range(K):
        shares[i] = (score[i] - top) * sharpness
    for i in range(K, len(shares)):
        shares[i] = 0.0
    exp_rows(shares)
    # Two sums: each addition waits for the one before it.
    even, odd = 0.0, 0.0
    for i in range(1, K, 2):
        even += shares[i - 1]
        odd += shares[i]
    if K % 2 == 1:
        even += shares[K - 1]
    share = np.float32(1.0 / (even + odd))
    for i in range(K):
        out[at, i] = shares[i] * share


@njit(cache=True, nogil=True, inline="always")
def _null_score(v, eta, totals, W, ell_t, score):
    """Subtract Σ_j (ℓt)_ij η_v (Σ_u η_u W_uj − η_v W_vj); `ell_t` is 1×1 or K×K."""
    K = score.shape[0]
    h = eta[v]
    if ell_t.shape[0] == 1:
        for i in range(K):
            score[i] -= ell_t[0, 0] * h * (totals[i] - h * W[v, i])
    else:
        for j in range(K):
            rest = h * (totals[j] - h * W[v, j])
            for i in range(K):
                score[i] -= ell_t[i, j] * rest


@njit(cache=True, nogil=True, inline="always")
def _row_moved(v, W, new, at, eta, moved, c):
    """Add η_v (new_at − W_v) to ``moved[c]``; return the largest |new_at,i − W_vi|."""
    largest = 0.0
    h = eta[v]
    for i in range(W.shape[1]):
        step = np.float64(new[at, i]) - W[v, i]
        moved[c, i] += h * step
        largest = max(largest, abs(step))
    return largest


@njit(cache=True, nogil=True)
def sweep_rows(
    lo, hi, first, cell, indptr, indices, weights, eta, W, totals, costs, charged, log_prior, ell,
    ell_t, temperature, new, moved, mass, change,
):  # fmt: skip
    """Update nodes lo…hi given all others; write node v to ``new[v − first]``.

    `ell` and `ell_t` are 1×1 (one pair for all classes) or K×K; row v costs
    ``costs[v − charged]``. Sums go to the cell of the row, ``c = v // cell − first // cell``: to
    ``moved[c]`` the change of Σ η_v W_vi, to ``mass[c]`` what links W_v with its neighbours,
    ⟨AW_v, W_v⟩ (1×1) or the outer product (K×K), and to ``change[c]`` max_i |ΔW_vi|.
    """
    K = W.shape[1]
    sums = np.empty(16, dtype=np.float32)
    links = np.empty(K)
    score = np.empty(K)
    shares = np.zeros(padded(K), dtype=np.float32)
    scalar = ell.shape[0] == 1
    flat = W.reshape(-1)
    c = lo // cell - first // cell
    next_cell = (lo // cell + 1) * cell
    for v in range(lo, hi):
        if v == next_cell:
            c += 1
            next_cell += cell
        gather(indptr[v], indptr[v + 1], indices, weights, flat, K, sums, links)
        at, cost, h = v - first, v - charged, eta[v]
        if scalar:
            price = ell_t[0, 0] * h
            for i in range(K):
                score[i] = (
                    ell[0, 0] * links[i]
                    - price * (totals[i] - h * W[v, i])
                    + (log_prior[i] - costs[cost, i])
                )
        else:
            for i in range(K):
                score[i] = log_prior[i] - costs[cost, i]
                for j in range(K):
                    score[i] += ell[i, j] * links[j]
            _null_score(v, eta, totals, W, ell_t, score)
        softmax(score, temperature, shares, new, at)
        change[c] += _row_moved(v, W, new, at, eta, moved, c)
        if scalar:
            inside = 0.0
            for i in range(K):
                inside += links[i] * new[at, i]
            mass[c, 0, 0] += inside
        else:
            for i in range(K):
                for j in range(K):
                    mass[c, i, j] += new[at, i] * links[j]


@njit(cache=True, nogil=True)
def take_cells(count, moved, mass, change, totals, links):
    """Add the sums of `count` cells, in their order, to `totals` and `links`, and clear them.

    Returns the sum of their changes.
    """
    # Loops, because numba takes seconds to compile sums and copies of whole arrays.
    changed = 0.0
    for c in range(count):
        for i in range(totals.shape[0]):
            totals[i] += moved[c, i]
            moved[c, i] = 0.0
        for i in range(links.shape[0]):
            for j in range(links.shape[1]):
                links[i, j] += mass[c, i, j]
                mass[c, i, j] = 0.0
        changed += change[c]
        change[c] = 0.0
    return changed


@njit(cache=True, nogil=True)
def sweep_batches(
    thread, n_threads, counter, begin, end, batch, cell, indptr, indices, weights, eta, W, totals,
    costs, charged, log_prior, ell, ell_t, temperature, new, moved, mass, change, links, changed,
):  # fmt: skip
    """Update nodes begin…end in batches: `sweep_rows` for each, then W in place.

    To be run by `n_threads` threads at the same time, each with its number and all with the same
    arrays and `counter` (one integer, zero): every batch is shared out by cells. Adds the
    changes of all rows to ``changed[0]``.
    """
    arrivals = 0
    for first in range(begin, end, batch):
        last = min(first + batch, end)
        low = first // cell
        cells = (last - 1) // cell - low + 1
        lo = max(first, (low + cells * thread // n_threads) * cell)
        hi = min(last, (low + cells * (thread + 1) // n_threads) * cell)
        if lo < hi:
            sweep_rows(
                lo, hi, first, cell, indptr, indices, weights, eta, W, totals, costs, charged,
                log_prior, ell, ell_t, temperature, new, moved, mass, change,
            )  # fmt: skip
        if n_threads > 1:
            arrivals += n_threads
            barrier(counter, arrivals)
        for v in range(lo, hi):
            for i in range(W.shape[1]):
                W[v, i] = new[v - first, i]
        if thread == 0:
            changed[0] += take_cells(cells, moved, mass, change, totals, links)
        if n_threads > 1:
            arrivals += n_threads
            barrier(counter, arrivals)


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
        _null_score(v, eta, totals, W, ell_t, score)
        for i in range(K):
            score[i] += log_prior[i] - costs[v, i]
        at = v - first
        softmax(score, 1.0, shares, new, at)
        change += _row_moved(v, W, new, at, eta, moved, 0)
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


@njit(cache=True, nogil=True)
def deliver(lo, hi, first_link, twins, out, messages):
    """Write what was sent over the links lo…hi to their other ends: ``messages[twins[e]]``."""
    for e in range(lo, hi):
        at = twins[e]
        for i in range(messages.shape[1]):
            messages[at, i] = out[e - first_link, i]
