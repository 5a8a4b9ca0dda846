"""Loops that update memberships: the sweeps of block CADO, and belief propagation."""

from __future__ import annotations

import math

import numpy as np

from nodeproof.kernels.gathering import gather
from nodeproof.kernels.lanes import LANES, sweep_lanes
from nodeproof.kernels.primitives import barrier, compiled, exp_rows, inlined

__all__ = [
    "believe_batches",
    "receive_rows",
    "softmax",
    "sweep_batches",
    "take_cells",
]


@inlined
def softmax(score, temperature, shares, out, at):
    """Write softmax(score / T) to row `at` of `out`; T = 0 puts all on the first maximum.

    `shares` is a float32 array for the work; its length is K or more, a multiple of eight.
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
    even, odd = np.float64(0.0), np.float64(0.0)
    for i in range(1, K, 2):
        even += shares[i - 1]
        odd += shares[i]
    if K % 2 == 1:
        even += shares[K - 1]
    share = np.float32(1.0 / (even + odd))
    for i in range(K):
        out[at, i] = shares[i] * share


@inlined
def _row_moved(v, W, new, at, eta, moved, c):
    """Add η_v (new_at − W_v) to ``moved[c]``; return the largest |new_at,i − W_vi|."""
    largest = 0.0
    h = eta[v]
    for i in range(W.shape[1]):
        step = np.float64(new[at, i]) - W[v, i]
        moved[c, i] += h * step
        largest = max(largest, abs(step))
    return largest


@inlined
def _take_cells(count, moved, mass, change, totals, links):
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


@compiled
def take_cells(count, moved, mass, change, totals, links):
    """Do what `sweep_batches` does with the sums of cells, for those who have such sums."""
    return _take_cells(count, moved, mass, change, totals, links)


@compiled
def sweep_batches(
    thread, n_threads, counter, begin, end, batch, cell, indptr, indices, weights, eta, W, totals,
    costs, charged, log_prior, ell, ell_t, temperature, new, moved, mass, change, links, changed,
    in_place, near, score, shares, score_lanes, link_lanes, share_lanes, old_lanes, flat_lanes,
    eta_lanes, top_lanes, inside_lanes, largest_lanes,
):  # fmt: skip
    """Update nodes begin…end in batches, each batch given all others.

    To be run by `n_threads` threads at the same time, each with its number and all with the same
    arrays and `counter` (one integer, zero): every batch is shared out by cells.

    `ell` and `ell_t` are 1×1 (one pair for all classes) or K×K, symmetric; row v costs
    ``costs[v − charged]``. A batch goes to the rows of `new`. Sums go to the cell of the row, c
    from the first of the batch: to ``moved[c]`` the change of Σ η_v W_vi, to ``mass[c]`` what links
    W_v with its neighbours, ⟨AW_v, W_v⟩ (1×1) or the outer product (K×K), and to ``change[c]``
    max_i |ΔW_vi|. Where rows are updated `in_place`, they go on to W, and the sums of the cells, in
    their order, to `totals`, `links` and ``changed[0]``. What follows are arrays of
    :func:`workspace` and of :func:`lanes`, of the thread; without the latter, nodes are updated one
    after the other.
    """
    K = W.shape[1]
    scalar = ell.shape[0] == 1
    side_by_side = scalar and temperature > 0.0
    arrivals = 0
    for first in range(begin, end, batch):
        last = min(first + batch, end)
        low = first // cell
        cells = (last - 1) // cell - low + 1
        lo = max(first, (low + cells * thread // n_threads) * cell)
        hi = min(last, (low + cells * (thread + 1) // n_threads) * cell)
        start = lo
        while start < hi:
            c = start // cell - low
            until = min((start // cell + 1) * cell, hi)
            if top_lanes is not None:  # else this is not compiled
                while side_by_side and start < until:
                    count = min(LANES, until - start)
                    sweep_lanes(
                        start, count, charged, indptr, indices, weights, eta, W, totals, costs,
                        log_prior, ell[0, 0], ell_t[0, 0], 1.0 / temperature, new, start - first,
                        moved, mass, change, c, near, score_lanes, link_lanes, share_lanes,
                        old_lanes, flat_lanes, eta_lanes, top_lanes, inside_lanes, largest_lanes,
                    )  # fmt: skip
                    start += count
            for v in range(start, until):
                gather(indptr[v], indptr[v + 1], indices, weights, W, near)
                at, cost, h = v - first, v - charged, eta[v]
                if scalar:
                    price = ell_t[0, 0] * h
                    for i in range(K):
                        score[i] = (
                            ell[0, 0] * near[i]
                            - price * (totals[i] - h * W[v, i])
                            + (log_prior[i] - costs[cost, i])
                        )
                else:
                    for i in range(K):
                        score[i] = log_prior[i] - costs[cost, i]
                    for j in range(K):
                        linked, rest = near[j], h * (totals[j] - h * W[v, j])
                        for i in range(K):
                            score[i] += ell[j, i] * linked - ell_t[j, i] * rest
                softmax(score, temperature, shares, new, at)
                change[c] += _row_moved(v, W, new, at, eta, moved, c)
                if scalar:
                    inside = 0.0
                    for i in range(K):
                        inside += near[i] * new[at, i]
                    mass[c, 0, 0] += inside
                else:
                    for i in range(K):
                        own = np.float64(new[at, i])
                        for j in range(K):
                            mass[c, i, j] += own * near[j]
            start = until
        if not in_place:
            continue
        if n_threads > 1:
            arrivals += n_threads
            barrier(counter, arrivals)
        for v in range(lo, hi):
            for i in range(K):
                W[v, i] = new[v - first, i]
        if thread == 0:
            changed[0] += _take_cells(cells, moved, mass, change, totals, links)
        if n_threads > 1:
            arrivals += n_threads
            barrier(counter, arrivals)


# Keeps divisors away from zero, far below what any probability in float32 can be; and exponents
# within what can be multiplied.
_SMALL, _LARGE = 1e-100, 230.0


@inlined
def _receive(v, first_link, indptr, weights, ell, gain, room, messages, factors, product, score):
    """Write what the links of a node say of it to `score`, for both of the kernels below."""
    K = messages.shape[1]
    weighted = len(weights) > 0
    scalar = ell.shape[0] == 1
    for i in range(K):
        score[i] = 0.0
        product[i] = 1.0
    pending = 0
    for e in range(indptr[v], indptr[v + 1]):
        at = e - first_link
        if weighted:
            w = np.float64(weights[e])
            for i in range(ell.shape[0]):
                for j in range(ell.shape[1]):
                    gain[j, i] = math.exp(min(max(ell[i, j] * w, -_LARGE), _LARGE))
        if scalar:
            for i in range(K):
                factors[at, i] = 1.0 + (gain[0, 0] - 1.0) * messages[e, i]
        else:
            for i in range(K):
                factors[at, i] = gain[0, i] * messages[e, 0]
            for j in range(1, K):
                belief = np.float64(messages[e, j])
                for i in range(K):
                    factors[at, i] += gain[j, i] * belief
        for i in range(K):
            factors[at, i] = max(factors[at, i], _SMALL)
            product[i] *= factors[at, i]
        pending += 1
        if pending >= room:
            pending = 0
            for i in range(K):
                score[i] += math.log(product[i])
                product[i] = 1.0
    if pending > 0:
        for i in range(K):
            score[i] += math.log(product[i])


@compiled
def receive_rows(
    lo, hi, first_link, indptr, weights, ell, gain, room, messages, factors, product, scores
):  # fmt: skip
    """Write what links say of nodes lo…hi, as logarithms, to `scores` (hi − lo rows).

    ``messages[e]`` is what the far end of link e of row v believes without v, shape (nnz, K). Link
    e multiplies the belief of v by ``Σ_j e^ℓ_ij messages[e, j]``, which goes to
    ``factors[e − first_link]``; if ℓ is 1×1, by e^ℓ for equal classes and 1 for others. `gain`
    holds e^ℓ, transposed, and is overwritten if there are weights; `room` factors are multiplied
    before a logarithm is taken. `product` is for the work: K numbers.
    """
    for v in range(lo, hi):
        _receive(
            v, first_link, indptr, weights, ell, gain, room, messages, factors, product,
            scores[v - lo],
        )  # fmt: skip


@compiled
def believe_batches(
    thread, n_threads, counter, begin, end, batch, cell, indptr, indices, weights, twins, eta, W,
    totals, offsets, ell, ell_t, gain, room, messages, factors, new, moved, change, changed,
    stamp, heard, seen, still, product, score, shares,
):  # fmt: skip
    """Update the beliefs of nodes begin…end and their messages in batches, each given all others.

    Threads, batches, cells and their sums are as in :func:`sweep_batches`, links and messages as
    in :func:`receive_rows`. ``twins[e]`` is where link e is as its far end sees it; row v of
    `offsets` are the scores of node v without its links. `factors` has a row for each link of a
    batch. `gain` is the thread's own; so are the last three, of :func:`workspace`.

    Nodes are left as they are while all their neighbours are: batches are numbered from `stamp`
    on; ``heard[v]`` is the last in which the belief of a neighbour of v has changed by more than
    `still`, and ``seen[v]`` the last in which v was updated.
    """
    K = W.shape[1]
    scalar = ell.shape[0] == 1
    arrivals = 0
    for first in range(begin, end, batch):
        last = min(first + batch, end)
        first_link = indptr[first]
        now = stamp + first // batch
        low = first // cell
        cells = (last - 1) // cell - low + 1
        lo = max(first, (low + cells * thread // n_threads) * cell)
        hi = min(last, (low + cells * (thread + 1) // n_threads) * cell)
        for v in range(lo, hi):
            if heard[v] < seen[v]:
                continue
            seen[v] = now
            _receive(
                v, first_link, indptr, weights, ell, gain, room, messages, factors, product, score
            )
            at, h = v - first, eta[v]
            for i in range(K):
                score[i] += offsets[v, i]
            if scalar:
                price = ell_t[0, 0] * h
                for i in range(K):
                    score[i] -= price * (totals[i] - h * W[v, i])
            else:
                for j in range(K):
                    rest = h * (totals[j] - h * W[v, j])
                    for i in range(K):
                        score[i] -= ell_t[j, i] * rest
            softmax(score, 1.0, shares, new, at)
            for e in range(indptr[v] - first_link, indptr[v + 1] - first_link):
                mass = _SMALL
                for i in range(K):
                    factors[e, i] = new[at, i] / factors[e, i]
                    mass += factors[e, i]
                mass = 1.0 / mass
                for i in range(K):
                    factors[e, i] *= mass
            c = v // cell - low
            change[c] += _row_moved(v, W, new, at, eta, moved, c)
        if n_threads > 1:
            arrivals += n_threads
            barrier(counter, arrivals)
        for v in range(lo, hi):
            if seen[v] < now:
                continue
            step = np.float32(0.0)
            for i in range(K):
                step = max(step, abs(new[v - first, i] - W[v, i]))
                W[v, i] = new[v - first, i]
            for e in range(indptr[v], indptr[v + 1]):
                to = twins[e]
                for i in range(K):
                    messages[to, i] = factors[e - first_link, i]
                if step > still:
                    heard[indices[e]] = now  # several threads may write, all the same
        if thread == 0:
            for c in range(cells):
                for i in range(K):
                    totals[i] += moved[c, i]
                    moved[c, i] = 0.0
                changed[0] += change[c]
                change[c] = 0.0
        if n_threads > 1:
            arrivals += n_threads
            barrier(counter, arrivals)
