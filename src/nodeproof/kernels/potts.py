"""Loops of the Potts bound: a primal-dual method over nodes and links.

A flow vector y_e of shape (K,) belongs to each link e = (u, v), u < v: u receives y_e, v receives
−y_e. `link_of` names the link of every entry of the symmetric CSR, so that row v lists the links
of v; the sign is plus where the other end has the larger number. Where the ends of a link differ,
it costs ``c_e = scale · A_uv``. No `weights` means all are one. A label that costs inf is closed.
"""

import numpy as np

from nodeproof.kernels.primitives import compiled, inlined, least_of

__all__ = [
    "decode_flows",
    "number_links",
    "push_slack",
    "reduce_costs",
    "relaxed_value",
    "step_links",
    "step_nodes",
]


@compiled
def number_links(indptr, indices, link_of):
    """Write the number of the link of each entry, in row-major order of the upper triangle.

    Columns increase within a row, and every entry has its mirror image.
    """
    filled = indptr[:-1].copy()
    number = 0
    for u in range(len(indptr) - 1):
        for at in range(filled[u], indptr[u + 1]):
            v = indices[at]
            link_of[at] = number
            link_of[filled[v]] = number
            filled[v] += 1
            number += 1


@inlined
def _gather(v, indptr, indices, link_of, costs, eta, slope, y, theta):
    """Write ``b'_v``, the costs of v with what it receives, to `theta`, shape (K,)."""
    for i in range(len(theta)):
        theta[i] = costs[v, i] + slope[i] * eta[v]
    for at in range(indptr[v], indptr[v + 1]):
        flow = y[link_of[at]]
        if indices[at] > v:
            for i in range(len(theta)):
                theta[i] += flow[i]
        else:
            for i in range(len(theta)):
                theta[i] -= flow[i]


@inlined
def _to_simplex(x, ordered):
    """Project x, shape (K,), on the simplex; `ordered` is overwritten."""
    K = len(x)
    for i in range(K):
        entry, j = x[i], i
        while j > 0 and ordered[j - 1] < entry:
            ordered[j] = ordered[j - 1]
            j -= 1
        ordered[j] = entry
    total, shift = 0.0, 0.0
    for i in range(K):
        total += ordered[i]
        if ordered[i] * (i + 1) <= total - 1.0 or ordered[i] == -np.inf:
            break
        shift = (total - 1.0) / (i + 1)
    for i in range(K):
        x[i] = max(x[i] - shift, 0.0)


@compiled
def step_nodes(
    lo, hi, indptr, indices, link_of, costs, eta, slope, y, step, share, x, ahead, mean
):  # fmt: skip
    """Move the rows lo…hi of x, shape (n, K), against their costs, and project on the simplex.

    Writes where they would be after the same move again to `ahead`, and moves `mean` towards x by
    a share. Returns the sum of η times `ahead`, shape (K,), and the sum of squared moves over
    their steps.
    """
    K = costs.shape[1]
    theta, ordered, totals = np.empty(K), np.empty(K), np.zeros(K)
    moved = 0.0
    for v in range(lo, hi):
        _gather(v, indptr, indices, link_of, costs, eta, slope, y, theta)
        for i in range(K):
            theta[i] = x[v, i] - step[v] * theta[i]
        _to_simplex(theta, ordered)
        size = 0.0
        for i in range(K):
            move = theta[i] - x[v, i]
            size += move * move
            x[v, i] = theta[i]
            ahead[v, i] = theta[i] + move
            mean[v, i] += share * (theta[i] - mean[v, i])
            totals[i] += eta[v] * ahead[v, i]
        moved += size / step[v]
    return totals, moved


@compiled
def step_links(lo, hi, indptr, indices, weights, link_of, scale, step, share, ahead, y, mean):
    """Move the flows of links whose first end is in lo…hi along ``ahead_u − ahead_v``.

    The step is ``step · c_e``, and flows stay within ±c_e/2, so that their range is at most c_e.
    Moves `mean` towards y by a share. Returns the sum of squared moves over their steps.
    """
    K = ahead.shape[1]
    weighted = len(weights) > 0
    moved = 0.0
    for u in range(lo, hi):
        for at in range(indptr[u], indptr[u + 1]):
            v = indices[at]
            if v < u:
                continue
            c = scale * np.float64(weights[at]) if weighted else scale
            if c <= 0.0:
                continue
            flow, average = y[link_of[at]], mean[link_of[at]]
            size = 0.0
            for i in range(K):
                new = flow[i] + step * c * (ahead[u, i] - ahead[v, i])
                new = min(max(new, -0.5 * c), 0.5 * c)
                size += (new - flow[i]) * (new - flow[i])
                flow[i] = new
                average[i] += share * (new - average[i])
            moved += size / (step * c)
    return moved


@compiled
def reduce_costs(lo, hi, indptr, indices, link_of, costs, eta, slope, y, out):
    """Write what each label costs above the cheapest, shape (n, K); return the sum of the least.

    Nothing is written to an `out` without rows.
    """
    theta = np.empty(costs.shape[1])
    total = 0.0
    for v in range(lo, hi):
        _gather(v, indptr, indices, link_of, costs, eta, slope, y, theta)
        least = least_of(theta)
        total += least
        if len(out) > 0:
            for i in range(len(theta)):
                out[v, i] = theta[i] - least
    return total


@compiled
def relaxed_value(lo, hi, indptr, indices, weights, costs, eta, scale, x):
    """Return what rows lo…hi of x pay for labels and for links to larger numbers, and η·x."""
    K = costs.shape[1]
    totals = np.zeros(K)
    weighted = len(weights) > 0
    paid = 0.0
    for u in range(lo, hi):
        for i in range(K):
            totals[i] += eta[u] * x[u, i]
            if x[u, i] > 0.0:
                paid += x[u, i] * costs[u, i]
        for at in range(indptr[u], indptr[u + 1]):
            v = indices[at]
            if v > u:
                apart = 0.0
                for i in range(K):
                    apart += abs(x[u, i] - x[v, i])
                paid += 0.5 * scale * apart * (np.float64(weights[at]) if weighted else 1.0)
    return paid, totals


@compiled
def decode_flows(indptr, indices, weights, link_of, costs, eta, slope, scale, y, labels):
    """Write a labelling: nodes in order take the cheapest label, given those before them.

    Links to decided nodes count as they are, the others as what is received over them.
    """
    K = costs.shape[1]
    theta = np.empty(K)
    weighted = len(weights) > 0
    for v in range(len(costs)):
        for i in range(K):
            theta[i] = costs[v, i] + slope[i] * eta[v]
        for at in range(indptr[v], indptr[v + 1]):
            t = indices[at]
            if t < v:
                theta[labels[t]] -= scale * (np.float64(weights[at]) if weighted else 1.0)
            else:
                flow = y[link_of[at]]
                for i in range(K):
                    theta[i] += flow[i]
        best = 0
        for i in range(1, K):
            if theta[i] < theta[best]:
                best = i
        labels[v] = best


@compiled
def push_slack(
    forward, order, rank, kept, indptr, indices, weights, link_of, costs, eta, slope, scale, y
):  # fmt: skip
    """Let nodes in order push what labels cost above the cheapest to those of higher rank.

    Backward, in reverse order to those of lower rank. Each of these links takes an equal share,
    and so many more are `kept`. The sum of the least costs never falls (TRW-S).
    """
    n, K = costs.shape
    theta = np.empty(K)
    weighted = len(weights) > 0
    for step in range(n):
        v = order[step] if forward else order[n - 1 - step]
        _gather(v, indptr, indices, link_of, costs, eta, slope, y, theta)
        count = 0
        for at in range(indptr[v], indptr[v + 1]):
            count += (rank[indices[at]] > rank[v]) == forward
        part = 1.0 / max(count + kept, 1)
        least = least_of(theta)
        for at in range(indptr[v], indptr[v + 1]):
            t = indices[at]
            if (rank[t] > rank[v]) != forward:
                continue
            c = scale * (np.float64(weights[at]) if weighted else 1.0)
            sign = 1.0 if t > v else -1.0
            flow = y[link_of[at]]
            top = -np.inf
            for i in range(K):
                flow[i] = sign * flow[i] - part * (theta[i] - least)
                top = max(top, flow[i])
            for i in range(K):
                # What the other end would not pay to differ is its own.
                flow[i] = sign * max(flow[i], top - c)
