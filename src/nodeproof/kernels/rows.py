"""Loops that solve rows of W: the sweeps of block CADO, and belief propagation."""

import numpy as np
from numba import njit

from nodeproof.kernels.links import AHEAD, prefetch

__all__ = [
    "belief_rows",
    "link_mass",
    "message_rows",
    "settle",
    "sweep_batches",
    "sweep_rows",
]

# Keeps divisors away from zero; far below what any probability in float32 can be.
_SMALL = 1e-100


@njit(cache=True, nogil=True, inline="always")
def _ask_ahead(e, indices, flat, K):
    """Prefetch the row of W (given `flat`), both its ends, that a link ahead of e will need."""
    row = np.uintp(indices[min(e + AHEAD, len(indices) - 1)]) * K
    prefetch(flat, row)
    prefetch(flat, row + K - np.uintp(1))


@njit(cache=True, nogil=True)
def _gather(v, indptr, indices, weights, W, links):
    """Write Σ_u A_vu W_u, shape (K,), to `links`; no `weights` means all are one."""
    K = np.uintp(links.shape[0])
    flat = W.reshape(-1)
    links[:] = 0.0
    if len(weights) == 0:
        for e in range(indptr[v], indptr[v + 1]):
            _ask_ahead(e, indices, flat, K)
            u = np.uintp(indices[e])
            for i in range(K):
                links[i] += W[u, i]
    else:
        for e in range(indptr[v], indptr[v + 1]):
            _ask_ahead(e, indices, flat, K)
            u = np.uintp(indices[e])
            w = np.float64(weights[e])
            for i in range(K):
                links[i] += w * W[u, i]


@njit(cache=True, nogil=True)
def _softmax(score, temperature, out):
    """Write softmax(score / T) to `out`; T = 0 puts all on the first maximum."""
    K = score.shape[0]
    best = 0
    for i in range(1, K):
        if score[i] > score[best]:
            best = i
    if temperature == 0.0:
        out[:] = 0.0
        out[best] = 1.0
        return
    total = 0.0
    top = score[best]
    for i in range(K):
        score[i] = np.exp((score[i] - top) / temperature)
        total += score[i]
    for i in range(K):
        out[i] = score[i] / total


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _moved(v, W, row, eta, moved):
    """Add η_v (row − W_v) to `moved`; return the largest |row_i − W_vi|."""
    largest = 0.0
    for i in range(W.shape[1]):
        step = np.float64(row[i]) - W[v, i]
        moved[i] += eta[v] * step
        largest = max(largest, abs(step))
    return largest


@njit(cache=True, nogil=True)
def sweep_rows(
    lo, hi, first, indptr, indices, weights, eta, W, totals, costs, log_prior, ell, ell_t,
    temperature, new, moved, mass,
):  # fmt: skip
    """Solve rows lo…hi given all others; write row v to ``new[v − first]``.

    `ell` and `ell_t` are 1×1 (one pair for all classes) or K×K. Adds to ``moved[i]`` the
    change of Σ η_v W_vi, and to `mass` what links W_v with its neighbours: ⟨AW_v, W_v⟩ (1×1)
    or the outer product (K×K). Returns Σ_v max_i |ΔW_vi|.
    """
    K = W.shape[1]
    links = np.empty(K)
    score = np.empty(K)
    change = 0.0
    scalar = ell.shape[0] == 1
    for v in range(lo, hi):
        _gather(v, indptr, indices, weights, W, links)
        if scalar:
            for i in range(K):
                score[i] = ell[0, 0] * links[i]
        else:
            for i in range(K):
                score[i] = 0.0
                for j in range(K):
                    score[i] += ell[i, j] * links[j]
        _null_score(v, eta, totals, W, ell_t, score)
        for i in range(K):
            score[i] += log_prior[i] - costs[v, i]
        row = new[v - first]
        _softmax(score, temperature, row)
        change += _moved(v, W, row, eta, moved)
        if scalar:
            inside = 0.0
            for i in range(K):
                inside += links[i] * row[i]
            mass[0, 0] += inside
        else:
            for i in range(K):
                for j in range(K):
                    mass[i, j] += row[i] * links[j]
    return change


@njit(cache=True, nogil=True)
def sweep_batches(
    batch, indptr, indices, weights, eta, W, totals, costs, log_prior, ell, ell_t, temperature,
    new, mass,
):  # fmt: skip
    """Solve all rows in batches of this many: `sweep_rows` for each, W and `totals` in place."""
    n, K = W.shape
    moved = np.empty(K)
    change = 0.0
    for first in range(0, n, batch):
        last = min(first + batch, n)
        moved[:] = 0.0
        change += sweep_rows(
            first, last, first, indptr, indices, weights, eta, W, totals, costs, log_prior, ell,
            ell_t, temperature, new, moved, mass,
        )  # fmt: skip
        W[first:last] = new[: last - first]
        totals += moved
    return change


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
    """Solve rows lo…hi by belief propagation on the links; write row v to ``new[v − first]``.

    ``messages[e]`` is what the far end of link e of row v believes without v, shape (nnz, K).
    A link multiplies by ``Σ_j e^ℓ_ij messages[e, j]``; pairs without a link count as in
    `sweep_rows`. Adds to ``moved[i]`` the change of Σ η_v W_vi, returns Σ_v max_i |ΔW_vi|.
    """
    K = W.shape[1]
    factor = np.empty(K)
    product = np.empty(K)
    score = np.empty(K)
    change = 0.0
    weighted = len(weights) > 0
    gain = np.empty_like(ell)
    _bounded_exp(ell, 1.0, gain)
    # So many factors can be multiplied before a logarithm must be taken.
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
        row = new[v - first]
        _softmax(score, 1.0, row)
        change += _moved(v, W, row, eta, moved)
    return change


@njit(cache=True, nogil=True)
def message_rows(lo, hi, first, first_link, indptr, weights, ell, messages, new, out):
    """Write what each row lo…hi believes without the far end of link e to ``out[e − first_link]``.

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
def link_mass(lo, hi, indptr, indices, weights, W, mass):
    """Add Σ_v W_vi (AW)_vj over rows lo…hi to `mass` (K×K), or its trace (1×1)."""
    K = W.shape[1]
    links = np.empty(K)
    for v in range(lo, hi):
        _gather(v, indptr, indices, weights, W, links)
        if mass.shape[0] == 1:
            for i in range(K):
                mass[0, 0] += W[v, i] * links[i]
        else:
            for i in range(K):
                for j in range(K):
                    mass[i, j] += W[v, i] * links[j]


@njit(cache=True, nogil=True)
def settle(indptr, indices, weights, eta, costs, ell, ell_t, labels, max_sweeps, gain):
    """Move single nodes to better classes, one after the other, while a sweep moves any.

    A class costs ``c_vi − ℓ Σ_u A_uv [z_u = i] + ℓt η_v Σ_{u≠v} η_u [z_u = i]``; a move must gain
    more than `gain`, relative to the size of these numbers. Changes `labels`; returns how many
    moves were made.
    """
    n, K = costs.shape
    totals = np.zeros(K)
    for v in range(n):
        totals[labels[v]] += eta[v]
    price = np.empty(K)
    moves = 0
    weighted = len(weights) > 0
    for _ in range(max_sweeps):
        moved = 0
        for v in range(n):
            now = labels[v]
            size = 0.0
            for i in range(K):
                others = totals[i] - (eta[v] if i == now else 0.0)
                price[i] = costs[v, i] + ell_t * eta[v] * others
                size = max(size, abs(price[i]))
            for e in range(indptr[v], indptr[v + 1]):
                a = np.float64(weights[e]) if weighted else 1.0
                price[labels[indices[e]]] -= ell * a
            best = now
            for i in range(K):
                size = max(size, abs(price[i]))
                if price[i] < price[best]:
                    best = i
            if price[now] - price[best] > gain * size:
                totals[now] -= eta[v]
                totals[best] += eta[v]
                labels[v] = best
                moved += 1
        moves += moved
        if moved == 0:
            break
    return moves
