"""Loops over some of the nodes and their links: what an update of a fitted model takes."""

import numpy as np

from nodeproof.kernels.gathering import gather
from nodeproof.kernels.memberships import softmax
from nodeproof.kernels.primitives import compiled

__all__ = ["gather_nodes", "merge_rows", "solve_nodes"]


@compiled
def solve_nodes(
    nodes, indptr, indices, weights, eta, W, totals, costs, log_prior, ell, ell_t, in_place, new,
    changes, near, score, shares,
):  # fmt: skip
    """Update the memberships of some nodes one after the other, each given all others.

    Node ``nodes[k]`` costs ``costs[k]``, and its memberships go to ``new[k]``; where they are
    updated `in_place`, also to W, with `totals`, Σ η_v W_v. ``changes[k]`` is max_i |ΔW_vi|. The
    rest is as in `sweep_batches`, at temperature 1.
    """
    K = W.shape[1]
    scalar = ell.shape[0] == 1
    for k in range(len(nodes)):
        v = nodes[k]
        gather(indptr[v], indptr[v + 1], indices, weights, W, near)
        h = eta[v]
        if scalar:
            price = ell_t[0, 0] * h
            for i in range(K):
                score[i] = (
                    ell[0, 0] * near[i]
                    - price * (totals[i] - h * W[v, i])
                    + (log_prior[i] - costs[k, i])
                )
        else:
            for i in range(K):
                score[i] = log_prior[i] - costs[k, i]
            for j in range(K):
                linked, rest = near[j], h * (totals[j] - h * W[v, j])
                for i in range(K):
                    score[i] += ell[j, i] * linked - ell_t[j, i] * rest
        softmax(score, 1.0, shares, new, k)
        largest = 0.0
        for i in range(K):
            step = np.float64(new[k, i]) - W[v, i]
            largest = max(largest, abs(step))
            if in_place:
                totals[i] += h * step
                W[v, i] = new[k, i]
        changes[k] = largest


@compiled
def gather_nodes(nodes, indptr, indices, weights, M, out, links):
    """Write the rows of ``A @ M`` for some nodes to `out`; M is float32 and contiguous.

    `links` is for the work: as many numbers as M has columns.
    """
    for k in range(len(nodes)):
        v = nodes[k]
        gather(indptr[v], indptr[v + 1], indices, weights, M, links)
        for i in range(M.shape[1]):
            out[k, i] = links[i]


@compiled
def merge_rows(
    lo, hi, indptr, indices, weights, gone, columns, values, first, out_indptr, out_indices,
    out_weights,
):  # fmt: skip
    """Write rows lo…hi of a CSR matrix, some entries left out and others put in.

    `gone` are the positions of entries to leave out, ascending. What is put into row v lies at
    ``first[v]…first[v + 1]`` of `columns` and `values`. All columns ascend. Without weights, no
    values are written.
    """
    weighted = len(out_weights) > 0
    g = np.searchsorted(gone, indptr[lo])
    for v in range(lo, hi):
        e, end = indptr[v], indptr[v + 1]
        a, last = first[v], first[v + 1]
        at = out_indptr[v]
        if a == last and (g == len(gone) or gone[g] >= end):
            for k in range(end - e):
                out_indices[at + k] = indices[e + k]
            if weighted:
                for k in range(end - e):
                    out_weights[at + k] = weights[e + k]
            continue
        while e < end or a < last:
            if g < len(gone) and e < end and gone[g] == e:
                g += 1
                e += 1
            elif e < end and (a == last or indices[e] < columns[a]):
                out_indices[at] = indices[e]
                if weighted:
                    out_weights[at] = weights[e]
                at += 1
                e += 1
            else:
                out_indices[at] = columns[a]
                if weighted:
                    out_weights[at] = values[a]
                at += 1
                a += 1
