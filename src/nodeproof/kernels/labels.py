"""Loops over labelled nodes."""

import numpy as np
from numba import njit

__all__ = ["charge_labels", "count_labels"]


@njit(cache=True, nogil=True)
def count_labels(nodes, labels, W, offset, rows, counts):
    """Add ``Σ_{v: y_v = j} W_vi`` over labelled nodes, in increasing order, to ``counts[i, j]``.

    Row v of W is ``W[v − offset]``. Sums are taken over ranges of so many rows, one after the
    other, as they are where ranges are in different places.
    """
    part = np.zeros_like(counts)
    first = 0
    for k in range(len(nodes)):
        v = nodes[k]
        if v // rows != first:
            counts += part
            part[:] = 0.0
            first = v // rows
        for i in range(W.shape[1]):
            part[i, labels[k]] += np.float64(W[v - offset, i])
    counts += part


@njit(cache=True, nogil=True)
def charge_labels(nodes, labels, lo, prices, out):
    """Write the price of each class for its label, ``prices[label]``, to the rows of `out`.

    Row v of these nodes is ``out[v − lo]``; the others are zero.
    """
    out[:] = 0.0
    for k in range(len(nodes)):
        for i in range(out.shape[1]):
            out[nodes[k] - lo, i] = prices[labels[k], i]
