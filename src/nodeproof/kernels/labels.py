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
    part = np.zeros(counts.shape)
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


@njit(cache=True, nogil=True)
def charge_labels(nodes, labels, lo, prices, out):
    """Write the price of each class for its label, ``prices[label]``, to the rows of `out`.

    Row v of these nodes is ``out[v − lo]``; the others are zero.
    """
    for v in range(out.shape[0]):
        for i in range(out.shape[1]):
            out[v, i] = 0.0
    for k in range(len(nodes)):
        for i in range(out.shape[1]):
            out[nodes[k] - lo, i] = prices[labels[k], i]
