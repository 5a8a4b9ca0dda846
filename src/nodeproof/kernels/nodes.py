"""Loops over the features and the labels of nodes."""

import numpy as np

from nodeproof.kernels.primitives import AHEAD, compiled, prefetch

__all__ = [
    "count_labels",
    "label_links",
    "largest_columns",
    "pair_products",
    "settle",
    "settle_several",
    "solve_each",
    "squared_lengths",
    "sum_counted",
    "sum_memberships",
    "sweep_labels",
]

# Nodes that are solved for at a time: as many as a vector register has doubles.
_LANES = 4


@compiled
def solve_each(matrices, x, out):
    """Write ``R_v⁻¹ x_v`` for positive definite R_v: shapes (n, m, m), (n, m) and (n, m).

    numpy's solve calls LAPACK for every node, ten times slower at m = 6.
    """
    n, m = x.shape
    # Several nodes at a time, side by side: the innermost loops then are vector operations.
    rest, solved = np.empty((m, m, _LANES)), np.empty((m, _LANES))
    for v in range(0, n, _LANES):
        count = min(_LANES, n - v)
        for at in range(_LANES):
            node = v + min(at, count - 1)
            for i in range(m):
                solved[i, at] = x[node, i]
                for j in range(i + 1):
                    rest[i, j, at] = matrices[node, i, j]
        # `rest` becomes the Cholesky factor, with the inverse of its diagonal.
        for j in range(m):
            for at in range(_LANES):
                rest[j, j, at] = 1.0 / np.sqrt(rest[j, j, at])
                solved[j, at] *= rest[j, j, at]
            for i in range(j + 1, m):
                for at in range(_LANES):
                    rest[i, j, at] *= rest[j, j, at]
                    solved[i, at] -= rest[i, j, at] * solved[j, at]
            for i in range(j + 1, m):
                for k in range(j + 1, i + 1):
                    for at in range(_LANES):
                        rest[i, k, at] -= rest[i, j, at] * rest[k, j, at]
        for i in range(m - 1, -1, -1):
            for at in range(_LANES):
                solved[i, at] *= rest[i, i, at]
            for k in range(i):
                for at in range(_LANES):
                    solved[k, at] -= rest[i, k, at] * solved[i, at]
        for at in range(count):
            for i in range(m):
                out[v + at, i] = solved[i, at]


@compiled
def pair_products(x, out):
    """Write ``x_i x_j`` for i ≤ j to `out`, shapes (m, rows) and (m(m + 1)/2, rows)."""
    at = 0
    for i in range(x.shape[0]):
        for j in range(i, x.shape[0]):
            for v in range(x.shape[1]):
                out[at, v] = x[i, v] * x[j, v]
            at += 1


@compiled
def squared_lengths(x, factors, shifts, part, total, out):
    """Write ``‖F_k x_v − s_k‖²`` to ``out[v, k]`` for lower triangular F_k.

    Shapes: (m, rows), (K, m, m), (K, m) and (rows, K). `part` and `total` are for the work: so many
    numbers as there are rows. Nodes are side by side: the innermost loops are vector operations.
    """
    m, rows = x.shape
    for k in range(factors.shape[0]):
        for v in range(rows):
            total[v] = 0.0
        for i in range(m):
            for v in range(rows):
                part[v] = -shifts[k, i]
            # Four at a time: fewer loads and stores of the sums.
            fours = (i + 1) // 4 * 4
            for j in range(0, fours, 4):
                a, b = factors[k, i, j], factors[k, i, j + 1]
                c, d = factors[k, i, j + 2], factors[k, i, j + 3]
                for v in range(rows):
                    part[v] += (a * x[j, v] + b * x[j + 1, v]) + (c * x[j + 2, v] + d * x[j + 3, v])
            for j in range(fours, i + 1):
                for v in range(rows):
                    part[v] += factors[k, i, j] * x[j, v]
            for v in range(rows):
                total[v] += part[v] * part[v]
        for v in range(rows):
            out[v, k] = total[v]


@compiled
def largest_columns(lo, hi, W, out):
    """Write the first column that is largest to `out`, for rows lo…hi."""
    for v in range(lo, hi):
        best, top = 0, W[v, 0]
        for i in range(1, W.shape[1]):  # without branches, half of which would be mispredicted
            share = W[v, i]
            larger = share > top
            best, top = i if larger else best, share if larger else top
        out[v] = best


@compiled
def sum_counted(lo, hi, W, counted, sums):
    """Add rows lo…hi that are counted, their largest entries, and their number to `sums` (K + 2).

    If `counted` is empty, all are.
    """
    K = W.shape[1]
    for v in range(lo, hi):
        if len(counted) > 0 and not counted[v]:
            continue
        largest = np.float64(W[v, 0])
        for i in range(K):
            share = np.float64(W[v, i])
            sums[i] += share
            largest = max(largest, share)
        sums[K] += largest
        sums[K + 1] += 1.0


@compiled
def sum_memberships(lo, hi, W, eta, sums):
    """Add ``η_v W_vi``, then ``W_vi``, then ``Σ_i (η_v W_vi)²`` over rows lo…hi to `sums`."""
    K = W.shape[1]
    for v in range(lo, hi):
        square = 0.0
        for i in range(K):
            share = np.float64(W[v, i])
            weighted = eta[v] * share
            sums[i] += weighted
            sums[K + i] += share
            square += weighted * weighted
        sums[2 * K] += square


@compiled
def count_labels(nodes, labels, W, offset, rows, counts, part):
    """Add ``Σ_{v: y_v = j} W_vi`` over labelled nodes, in increasing order, to ``counts[i, j]``.

    Row v of W is ``W[v − offset]``. Sums are taken over ranges of so many rows, one after the
    other, as they are where ranges are in different places; `part` has the shape of `counts`, and
    is zero.
    """
    first = 0
    for k in range(len(nodes) + 1):
        if k == len(nodes) or nodes[k] // rows != first:
            for i in range(counts.shape[0]):
                for j in range(counts.shape[1]):
                    counts[i, j] += part[i, j]
                    part[i, j] = 0.0
            if k == len(nodes):
                break
            first = nodes[k] // rows
        for i in range(W.shape[1]):
            part[i, labels[k]] += np.float64(W[nodes[k] - offset, i])


@compiled
def sweep_labels(
    lo, hi, first, cell, indptr, indices, weights, eta, labels, totals, costs, charged, log_prior,
    ell, ell_t, new, moved, mass, change,
):  # fmt: skip
    """Do what `sweep_rows` does at temperature 0, for labels instead of memberships.

    A label of −1 stands for a uniform row; new ones are never −1.
    """
    K = totals.shape[0]
    links = np.empty(K)
    score = np.empty(K)
    scalar = ell.shape[0] == 1
    end = len(indices) - 1
    c = lo // cell - first // cell
    next_cell = (lo // cell + 1) * cell
    for v in range(lo, hi):
        if v == next_cell:
            c += 1
            next_cell += cell
        links[:] = 0.0
        unknown = 0.0
        for e in range(indptr[v], indptr[v + 1]):
            prefetch(labels, indices[min(e + AHEAD, end)])
            w = np.float64(weights[e]) if len(weights) > 0 else 1.0
            label = labels[indices[e]]
            if label >= 0:
                links[label] += w
            else:
                unknown += w
        h, now = eta[v], labels[v]
        for i in range(K):
            links[i] += unknown / K
            own = 1.0 / K if now < 0 else np.float64(i == now)
            score[i] = log_prior[i] - costs[v - charged, i]
            if scalar:
                price = ell_t[0, 0] * h
                score[i] = ell[0, 0] * links[i] - price * (totals[i] - h * own) + score[i]
        if not scalar:
            for i in range(K):
                for j in range(K):
                    score[i] += ell[i, j] * links[j]
            for j in range(K):
                own = 1.0 / K if now < 0 else np.float64(j == now)
                rest = h * (totals[j] - h * own)
                for i in range(K):
                    score[i] -= ell_t[i, j] * rest
        best = 0
        for i in range(K):
            if score[i] > score[best]:
                best = i
        new[v - first] = best
        if now != best:
            moved[c, best] += h
            if now >= 0:
                moved[c, now] -= h
                change[c] += 1.0
            else:
                for i in range(K):
                    moved[c, i] -= h / K
                change[c] += 1.0 - 1.0 / K
        if scalar:
            mass[c, 0, 0] += links[best]
        else:
            for j in range(K):
                mass[c, best, j] += links[j]


@compiled
def label_links(lo, hi, indptr, indices, weights, labels, mass):
    """Add the weight of links between labels to `mass` (K×K), or of equal ones (1×1).

    All labels are known.
    """
    K = mass.shape[0]
    for v in range(lo, hi):
        for e in range(indptr[v], indptr[v + 1]):
            w = np.float64(weights[e]) if len(weights) > 0 else 1.0
            a, b = labels[v], labels[indices[e]]
            if K == 1:
                mass[0, 0] += w if a == b else 0.0
            else:
                mass[a, b] += w


@compiled
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


@compiled
def settle_several(indptr, indices, weights, eta, costs, ell, ell_t, labels, max_sweeps, gain):
    """Do what `settle` does for several null models: `eta` has one column for each."""
    n, K = costs.shape
    R = eta.shape[1]
    totals = np.zeros((R, K))
    for v in range(n):
        for r in range(R):
            totals[r, labels[v]] += eta[v, r]
    price = np.empty(K)
    moves = 0
    weighted = len(weights) > 0
    for _ in range(max_sweeps):
        moved = 0
        for v in range(n):
            now = labels[v]
            size = 0.0
            for i in range(K):
                price[i] = costs[v, i]
                for r in range(R):
                    others = totals[r, i] - (eta[v, r] if i == now else 0.0)
                    price[i] += ell_t * eta[v, r] * others
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
                for r in range(R):
                    totals[r, now] -= eta[v, r]
                    totals[r, best] += eta[v, r]
                labels[v] = best
                moved += 1
        moves += moved
        if moved == 0:
            break
    return moves
