"""The inner loops, compiled; no policy.

Every kernel releases the GIL and works on a range of rows, so that callers may run fixed
ranges on several threads: what a range gives does not depend on who runs it.
"""

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = [
    "belief_rows",
    "count_loops_and_zeros",
    "first_bad_weight",
    "is_symmetric",
    "link_mass",
    "message_rows",
    "products",
    "reverse_links",
    "solve_each",
    "sweep_batches",
    "sweep_rows",
]

# Rows of W are read in random order, and waiting for them is most of a sweep. They are asked
# for so many links ahead: 2.5 times faster on a graph of 10⁷ links than without.
_AHEAD = 16

# Keeps divisors away from zero; far below what any probability in float32 can be.
_SMALL = 1e-100


@njit(cache=True, nogil=True)
def first_bad_weight(data):
    """Return the position of the first weight that is negative or not finite, or −1."""
    for e in range(len(data)):
        if not (data[e] >= 0.0 and data[e] < np.inf):
            return e
    return -1


@njit(cache=True, nogil=True)
def count_loops_and_zeros(indptr, indices, data):
    """Return how many entries lie on the diagonal, and how many stored weights are zero."""
    loops = 0
    zeros = 0
    for v in range(len(indptr) - 1):
        for e in range(indptr[v], indptr[v + 1]):
            if indices[e] == v:
                loops += 1
            if data[e] == 0.0:
                zeros += 1
    return loops, zeros


@intrinsic
def _prefetch(typingctx, array, position):
    """Ask the processor to bring ``array[position]`` (one axis) near; reads nothing."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        offset = context.cast(builder, arguments[1], signature.args[1], types.intp)
        byte_pointer, int32 = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte_pointer, int32, int32, int32])
        call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        address = builder.bitcast(builder.gep(data, [offset]), byte_pointer)
        read, keep, from_data = int32(0), int32(3), int32(1)
        builder.call(call, [address, read, keep, from_data])
        return context.get_dummy_value()

    return types.void(array, position), generate


@njit(cache=True, nogil=True)
def is_symmetric(indptr, indices, weights):
    """Tell whether a CSR matrix with sorted rows equals its transpose, in one pass.

    Rows are visited in order, so the lower entries of a row are asked for in the order in
    which they are stored: one pointer a row suffices. No `weights` means all are one; weights
    that differ by rounding are equal.
    """
    n = len(indptr) - 1
    end = len(indices) - 1
    pointer = indptr[:n].copy()
    for v in range(n):
        # All lower entries of row v have been asked for by now, unless one has no partner.
        if pointer[v] < indptr[v + 1] and indices[pointer[v]] < v:
            return False
        for e in range(indptr[v], indptr[v + 1]):
            _prefetch(pointer, indices[min(e + 2 * _AHEAD, end)])
            _prefetch(indices, pointer[indices[min(e + _AHEAD, end)]])
            u = indices[e]
            if u > v:
                twin = pointer[u]
                if twin >= indptr[u + 1] or indices[twin] != v:
                    return False
                if len(weights) > 0 and abs(weights[twin] - weights[e]) > 1e-6 * weights[e]:
                    return False
                pointer[u] = twin + 1
    return True


@njit(cache=True, nogil=True, inline="always")
def _ask_ahead(e, indices, flat, K):
    """Prefetch the row of W (given `flat`), both its ends, that a link ahead of e will need."""
    row = np.uintp(indices[min(e + _AHEAD, len(indices) - 1)]) * K
    _prefetch(flat, row)
    _prefetch(flat, row + K - np.uintp(1))


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
def reverse_links(indptr, indices):
    """Return, for each link of a symmetric CSR matrix with sorted rows, where its twin lies."""
    n = len(indptr) - 1
    pointer = indptr[:n].copy()
    twin = np.empty(len(indices), dtype=indptr.dtype)
    for v in range(n):
        for e in range(indptr[v], indptr[v + 1]):
            u = indices[e]
            twin[e] = pointer[u]
            pointer[u] += 1
    return twin


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
def solve_each(matrices, x, out):
    """Write ``R_v⁻¹ x_v`` for positive definite R_v: shapes (n, m, m), (n, m) and (n, m).

    numpy's solve calls LAPACK for every node, five times slower at m = 6.
    """
    n, m = x.shape
    factor = np.empty((m, m))
    for v in range(n):
        solved = out[v]
        for i in range(m):
            for j in range(i + 1):
                rest = matrices[v, i, j]
                for k in range(j):
                    rest -= factor[i, k] * factor[j, k]
                factor[i, j] = np.sqrt(rest) if i == j else rest / factor[j, j]
            rest = x[v, i]
            for k in range(i):
                rest -= factor[i, k] * solved[k]
            solved[i] = rest / factor[i, i]
        for i in range(m - 1, -1, -1):
            rest = solved[i]
            for k in range(i + 1, m):
                rest -= factor[k, i] * solved[k]
            solved[i] = rest / factor[i, i]


@njit(cache=True, nogil=True)
def products(x, out):
    """Write x_i x_j for i ≤ j, row by row of the upper triangle, to `out` (rows, m(m+1)/2)."""
    m = x.shape[1]
    for v in range(x.shape[0]):
        at = 0
        for i in range(m):
            left = x[v, i]
            for j in range(i, m):
                out[v, at] = left * x[v, j]
                at += 1
