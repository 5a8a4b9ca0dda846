"""Loops over the features of nodes."""

import numpy as np
from numba import njit

__all__ = [
    "products",
    "smooth_rows",
    "solve_each",
]


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
    """Write x_i x_j for i ≤ j, row by row of the upper triangle: (m, nodes) to (m(m+1)/2, nodes).

    Nodes are along the rows, so that the loop over them is the long one.
    """
    m, n = x.shape
    at = 0
    for i in range(m):
        for j in range(i, m):
            for v in range(n):
                out[at, v] = x[i, v] * x[j, v]
            at += 1


@njit(cache=True, nogil=True, fastmath={"contract"})
def smooth_rows(lo, hi, indptr, indices, weights, scale, Z, out, total):
    """Write rows lo…hi of ``D(A + I)D Z`` to `out` and add them to `total`; D = diag(scale).

    No `weights` means all are one.
    """
    m = Z.shape[1]
    for v in range(lo, hi):
        own = scale[v]
        row = out[v]
        for j in range(m):
            row[j] = own * Z[v, j]
        for e in range(indptr[v], indptr[v + 1]):
            u = indices[e]
            w = scale[u]
            if len(weights) > 0:
                w *= weights[e]
            for j in range(m):
                row[j] += w * Z[u, j]
        for j in range(m):
            row[j] *= own
            total[v, j] += row[j]
