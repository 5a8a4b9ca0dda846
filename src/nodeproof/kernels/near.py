"""Loops over some of the nodes and their links: what an update of a fitted model takes."""

import math

import numpy as np

from nodeproof.kernels.gathering import gather
from nodeproof.kernels.memberships import softmax
from nodeproof.kernels.primitives import compiled, inlined

__all__ = [
    "believe_nodes",
    "gather_nodes",
    "merge_rows",
    "recall_messages",
    "solve_nodes",
]

# Bounds exponents to what can be multiplied.
_LARGE = 230.0


@compiled
def solve_nodes(
    nodes, indptr, indices, weights, eta, W, totals, mass, costs, log_prior, ell, ell_t, in_place,
    new, changes, near, score, shares,
):  # fmt: skip
    """Update the memberships of some nodes one after the other, each given all others.

    Node ``nodes[k]`` costs ``costs[k]``, and its memberships go to ``new[k]``; where they are
    updated `in_place`, also to W, with `totals`, Σ η_v W_v, and with the link mass, of shape (1, 1)
    or (K, K), to which its change is added. ``changes[k]`` is max_i |ΔW_vi|. The rest is as in
    `sweep_batches`, at temperature 1.
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
            if not in_place:
                continue
            totals[i] += h * step
            if mass.shape[0] == 1:
                mass[0, 0] += 2.0 * step * near[i]
            else:
                for j in range(K):
                    mass[i, j] += step * near[j]
                    mass[j, i] += step * near[j]
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
        # Most rows stay as they are, or get links to new nodes, which come last.
        after = a == last or e == end or indices[end - 1] < columns[a]
        if after and (g == len(gone) or gone[g] >= end):
            for k in range(end - e):
                out_indices[at + k] = indices[e + k]
            if weighted:
                for k in range(end - e):
                    out_weights[at + k] = weights[e + k]
            at += end - e
            e = end
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


# Rounds in which the two messages of a link are found, and the change that ends them.
_ROUNDS, _SAME = 50, 1e-5


@inlined
def _message(belief, other, gain, out):
    """Write what is left of a belief without what the other end has said; return the change."""
    total = 1e-100
    for i in range(len(belief)):
        total += belief[i] / (1.0 + (gain - 1.0) * other[i])
    change = 0.0
    for i in range(len(belief)):
        share = belief[i] / (1.0 + (gain - 1.0) * other[i]) / total
        change = max(change, abs(share - out[i]))
        out[i] = share
    return change


@compiled
def recall_messages(nodes, first, indptr, indices, weights, ell, B, known, messages, x, y):
    """Write the messages that come in at some nodes, by the beliefs of both ends of each link.

    Where belief propagation has settled, the joint belief of two ends has their beliefs for
    margins, and is the product of two messages and e^ℓ for equal classes: messages follow by
    scaling rows and columns in turn. Links of node ``nodes[k]`` lie at ``first[k]…`` of `messages`.
    Nodes from `known` on are new, and have sent and received nothing yet: their beliefs are what
    they say, and what they hear. `x` and `y` are for the work, K numbers each.
    """
    K = B.shape[1]
    for k in range(len(nodes)):
        v = nodes[k]
        for e in range(indptr[v], indptr[v + 1]):
            u, at = indices[e], first[k] + e - indptr[v]
            weight = np.float64(weights[e]) if len(weights) > 0 else 1.0
            gain = math.exp(min(max(ell * weight, -_LARGE), _LARGE))
            for i in range(K):
                x[i], y[i] = B[u, i], B[v, i]
            if u < known and v < known:
                for _ in range(_ROUNDS):
                    change = _message(B[u], y, gain, x)
                    change = max(change, _message(B[v], x, gain, y))
                    if change <= _SAME:
                        break
            for i in range(K):
                messages[at, i] = x[i]


@compiled
def believe_nodes(
    nodes, first, place, indptr, indices, weights, eta, B, totals, offsets, ell, ell_t, room,
    in_place, messages, factors, new, changes, product, score, shares,
):  # fmt: skip
    """Update the beliefs of some nodes one after the other, and their messages to each other.

    ``place[v]`` is where node v is among `nodes`, or −1; the rest is as in `solve_nodes`,
    `recall_messages` and `believe_batches`. `factors` has a row for each link of a node.
    """
    K = B.shape[1]
    for k in range(len(nodes)):
        v = nodes[k]
        h = eta[v]
        for i in range(K):
            score[i] = offsets[k, i] - ell_t * h * (totals[i] - h * B[v, i])
            product[i] = 1.0
        pending = 0
        for e in range(indptr[v], indptr[v + 1]):
            weight = np.float64(weights[e]) if len(weights) > 0 else 1.0
            gain = math.exp(min(max(ell * weight, -_LARGE), _LARGE))
            j, at = e - indptr[v], first[k] + e - indptr[v]
            for i in range(K):
                factors[j, i] = max(1.0 + (gain - 1.0) * messages[at, i], 1e-100)
                product[i] *= factors[j, i]
            pending += 1
            if pending >= room:
                pending = 0
                for i in range(K):
                    score[i] += math.log(product[i])
                    product[i] = 1.0
        for i in range(K):
            score[i] += math.log(product[i])
        softmax(score, 1.0, shares, new, k)
        largest = 0.0
        for i in range(K):
            largest = max(largest, abs(np.float64(new[k, i]) - B[v, i]))
        changes[k] = largest
        if not in_place:
            continue
        for i in range(K):
            totals[i] += h * (np.float64(new[k, i]) - B[v, i])
            B[v, i] = new[k, i]
        for e in range(indptr[v], indptr[v + 1]):
            u = indices[e]
            if place[u] < 0:
                continue
            # Where the link is as its far end sees it: columns ascend.
            low, high = indptr[u], indptr[u + 1]
            while low < high:
                middle = (low + high) // 2
                if indices[middle] < v:
                    low = middle + 1
                else:
                    high = middle
            to, j = first[place[u]] + low - indptr[u], e - indptr[v]
            mass = 1e-100
            for i in range(K):
                mass += new[k, i] / factors[j, i]
            for i in range(K):
                messages[to, i] = new[k, i] / factors[j, i] / mass
