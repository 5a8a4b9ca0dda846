"""Loops over the rows that decision trees are asked about."""

import numpy as np

from nodeproof.kernels.primitives import compiled

__all__ = ["tree_scores"]


@compiled
def tree_scores(lo, hi, rows, roots, feature, threshold, children, missing_left, value, scores):
    """Add what the trees say of rows lo…hi to `scores`, shape (n, k).

    Tree t belongs to column ``t mod k`` and starts at node ``roots[t]``. Children are counted from
    the root of their tree; a leaf has the feature −1. A row goes left where its entry is at most
    the threshold; where it is nan, as `missing_left` says.
    """
    k = scores.shape[1]
    for v in range(lo, hi):
        for t in range(len(roots)):
            root = roots[t]
            at = root
            while feature[at] >= 0:
                entry = rows[v, feature[at]]
                left = missing_left[at] if np.isnan(entry) else entry <= threshold[at]
                at = root + (children[at, 0] if left else children[at, 1])
            scores[v, t % k] += value[at]
