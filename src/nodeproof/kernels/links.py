"""Loops over the links of a graph."""

import numpy as np

from nodeproof.kernels.primitives import AHEAD, compiled, prefetch

__all__ = [
    "first_bad_weight",
    "inspect_links",
    "is_symmetric",
    "reorder_links",
    "sum_neighbours",
]


@compiled
def first_bad_weight(data):
    """Return the position of the first weight that is negative or not finite, or −1."""
    for e in range(len(data)):
        if not (data[e] >= 0.0 and data[e] < np.inf):
            return e
    return -1


@compiled
def inspect_links(lo, hi, indptr, indices, data, marks):
    """Check rows lo…hi of a CSR matrix in one pass.

    Returns how many entries lie on the diagonal; how many weights are zero, one, and negative
    or not finite; whether columns increase along the rows; and a sum of 64 bits in which an entry
    and its twin cancel.

    `marks` holds 64 random bits per node. Over all rows the sum is Σ_{u<v} d(u, v) m(u) m(v)
    modulo 2⁶⁴, where d is 1 or −1 for an entry without a twin and 0 elsewhere. It is zero if the
    positions are symmetric. If they are not, take two nodes with d(u, v) = ±1: whatever the
    marks of all others are, the sum is ±(m(u) + a) (m(v) + b) + c, and at most 33 · 2⁶⁴ of the
    2¹²⁸ pairs of marks make that zero. So marks that whoever made the matrix could not
    know miss an asymmetric one with a probability below 2⁻⁵⁸.
    """
    loops, zeros, ones, bad, ordered = 0, 0, 0, 0, True
    odd = np.uint64(0)
    end = len(indices) - 1
    for v in range(lo, hi):
        previous = -1
        lower, upper = np.uint64(0), np.uint64(0)
        for e in range(indptr[v], indptr[v + 1]):
            prefetch(marks, indices[min(e + AHEAD, end)])
            u = np.int64(indices[e])
            ordered &= u > previous
            previous = u
            w = data[e]
            ones += w == 1.0
            if w != 1.0:
                zeros += w == 0.0
                bad += not (w >= 0.0 and w < np.inf)
            if u < v:
                lower += marks[u]
            elif u > v:
                upper += marks[u]
            else:
                loops += 1
        odd += (lower - upper) * marks[v]
    return loops, zeros, ones, bad, ordered, odd


@compiled
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
            prefetch(pointer, indices[min(e + 2 * AHEAD, end)])
            prefetch(indices, pointer[indices[min(e + AHEAD, end)]])
            u = indices[e]
            if u > v:
                twin = pointer[u]
                if twin >= indptr[u + 1] or indices[twin] != v:
                    return False
                if len(weights) > 0 and abs(weights[twin] - weights[e]) > 1e-6 * weights[e]:
                    return False
                pointer[u] = twin + 1
    return True


# Rows are read in random order; their links are asked for this many rows ahead.
_ROWS_AHEAD = 4


@compiled
def reorder_links(order, position, indptr, indices, weights, places, new_indices, new_weights):
    """Write the links of a symmetric matrix with node ``order[k]`` at position k, rows sorted.

    Each entry is written as its far end sees it, so that rows are filled in the order of their
    columns. `position` is the inverse of `order`; `places` are the beginnings of the new rows, and
    are overwritten. No `weights` means all are one.
    """
    n = len(order)
    for v in range(n):
        prefetch(indices, indptr[order[min(v + _ROWS_AHEAD, n - 1)]])
        row = order[v]
        for e in range(indptr[row], indptr[row + 1]):
            u = position[indices[e]]
            at = places[u]
            new_indices[at] = v
            if len(weights) > 0:
                new_weights[at] = weights[e]
            places[u] = at + 1


@compiled
def sum_neighbours(lo, hi, indptr, indices, values, out):
    """Write the sums of the values of neighbours, modulo 2⁶⁴, for nodes lo…hi."""
    for v in range(lo, hi):
        total = np.uint64(0)
        for e in range(indptr[v], indptr[v + 1]):
            total += values[indices[e]]
        out[v] = total
