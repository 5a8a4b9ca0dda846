"""Node map: nodes near the corner of their class, or between the classes they may belong to."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nodeproof.errors import InputError

__all__ = ["map_nodes"]

Array = NDArray[np.float64]
_GOLDEN_ANGLE = np.pi * (3.0 - np.sqrt(5.0))
# A node with this probability lies at its corner.
_SURE = 0.95
# Piles of nodes: the largest spacing, and the radius of the largest pile.
_SPACING, _RADIUS, _SHARE_OF_SIDE = 0.03, 0.3, 0.4
# Nodes in the same square of this side form a pile.
_CELL = 0.01
# The order of classes uses at most this many nodes, and 2-opt up to this many classes.
_ROWS, _TURNED = 20_000, 200


def map_nodes(proba: ArrayLike, nodes: ArrayLike | None = None) -> tuple[Array, Array]:
    """Return positions of the classes, on a circle, and of the nodes, by their probabilities.

    A node lies at the mean of the corners, weighted by its probabilities: one that may be of two
    classes lies half-way between them. Classes that are confused most are neighbours. Nodes at the
    same place, above all the certain ones at their corner, are spread like the seeds of a
    sunflower, the most certain in the middle; the others keep clear of that pile.

    Parameters
    ----------
    proba : array of shape (n, K)
        Class probabilities.
    nodes : array of shape (m,), optional
        Nodes to place; by default all.

    Returns
    -------
    anchors : ndarray of shape (K, 2)
        The corners, at distance one from the origin; a single class lies at the origin.
    positions : ndarray of shape (m, 2)
        The nodes, in the order of `nodes`.

    Examples
    --------
    >>> from nodeproof.report.layout import map_nodes
    >>> anchors, positions = map_nodes([[1.0, 0.0], [0.5, 0.5], [0.25, 0.75]])
    >>> anchors
    array([[-1.,  0.],
           [ 1.,  0.]])
    >>> positions.round(3)
    array([[-1. ,  0. ],
           [ 0. ,  0. ],
           [ 0.5,  0. ]])
    """
    P = np.asarray(proba)
    if P.ndim != 2 or P.shape[1] == 0:
        raise InputError(f"proba must have shape (n_nodes, n_classes), got {P.shape}")
    anchors = _anchors(_circle_order(P))
    rows = np.asarray(P if nodes is None else P[np.asarray(nodes)], dtype=np.float64)
    return anchors, _positions(rows, anchors)


def _circle_order(P: NDArray[Any]) -> NDArray[np.int64]:
    """Return the order of classes around the circle, with confused classes side by side."""
    n, K = P.shape
    if K <= 3 or n == 0:
        return np.arange(K)
    rows = P[np.linspace(0, n - 1, min(n, _ROWS)).astype(int)].astype(np.float64)
    confused = rows.T @ rows
    np.fill_diagonal(confused, 0.0)
    # Rounding errors must not decide.
    confused = np.round(confused / max(confused.max(), 1e-300), 9)
    order = _chain(confused)
    if K <= _TURNED:
        order = _improve_order(order, confused)
    order = np.roll(order, -int(np.flatnonzero(order == 0)[0]))
    return order if order[1] < order[-1] else np.roll(order[::-1], 1)


def _chain(confused: Array) -> NDArray[np.int64]:
    """Return a greedy chain: after each class, the remaining one it is confused with most."""
    order = [0]
    left = np.ones(len(confused), dtype=bool)
    left[0] = False
    while left.any():
        order.append(int(np.argmax(np.where(left, confused[order[-1]], -1.0))))
        left[order[-1]] = False
    return np.array(order)


def _improve_order(order: NDArray[np.int64], confused: Array) -> NDArray[np.int64]:
    """Reverse segments while that puts more confused classes side by side (2-opt)."""
    K = len(order)
    for _ in range(4 * K):
        C = confused[np.ix_(order, order)]
        after = np.roll(np.arange(K), -1)
        beside = C[np.arange(K), after]
        # Reversing i+1…j replaces the sides (i, i+1) and (j, j+1) by (i, j) and (i+1, j+1).
        gain = C + C[np.ix_(after, after)] - beside[:, None] - beside[None, :]
        gain[np.tril_indices(K)] = 0.0
        i, j = np.unravel_index(int(np.argmax(gain)), gain.shape)
        if gain[i, j] <= 1e-8:
            break
        order[i + 1 : j + 1] = order[i + 1 : j + 1][::-1]
    return order


def _anchors(order: NDArray[np.int64]) -> Array:
    """Return the corners: clockwise from the top; two classes from left to right."""
    K = len(order)
    if K == 1:
        return np.zeros((1, 2))
    angle = (np.pi if K == 2 else np.pi / 2) - 2 * np.pi * np.arange(K) / K
    anchors = np.empty((K, 2))
    anchors[order] = np.column_stack([np.cos(angle), np.sin(angle)])
    return anchors.round(12) + 0.0


def _positions(P: Array, anchors: Array) -> Array:
    n, K = P.shape
    if n == 0:
        return np.zeros((0, 2))
    best = P.argmax(axis=1)
    top = P[np.arange(n), best]
    second = np.partition(P, K - 2, axis=1)[:, K - 2] if K > 1 else np.zeros(n)
    home, centre = anchors[best], P @ anchors
    sure = top >= _SURE
    # Piles: one per corner, and one per small square elsewhere.
    cells = np.round(centre / (_SPACING if K == 2 else _CELL)).astype(np.int64)
    key = np.where(sure, best, K + (cells[:, 0] + 1000) * 2001 + cells[:, 1] + 1000)
    rank, size = _ranks(key, -top)
    largest = 0.9 if K == 1 else min(_RADIUS, _SHARE_OF_SIDE * 2 * np.sin(np.pi / K))
    spacing = min(_SPACING, largest / np.sqrt(size.max()))
    radius = spacing * np.sqrt(np.bincount(best[sure], minlength=K))
    # Less certain nodes start at the rim of the pile; ties are not moved.
    away = centre - home
    length = np.linalg.norm(away, axis=1)
    push = radius[best] * (top - second) / np.maximum(length, 1e-12)
    places = np.where(sure[:, None], home, centre + push[:, None] * away)
    turn = rank * _GOLDEN_ANGLE
    step = spacing * np.sqrt(rank)
    offsets = step[:, None] * np.column_stack([np.cos(turn), np.sin(turn)])
    if K == 2:
        # Between two corners there is only a line: piles stand upright on it, like a histogram.
        tallest = rank[~sure].max(initial=1)
        upright = min(_SPACING, 2 * largest / tallest) * np.ceil(rank / 2) * (-1.0) ** rank
        offsets[~sure] = np.column_stack([np.zeros(n), upright])[~sure]
    return np.asarray(places + offsets)


def _ranks(key: NDArray[np.int64], by: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rank of each element among those with its key, and the size of each group."""
    _, group, size = np.unique(key, return_inverse=True, return_counts=True)
    order = np.lexsort((by, group))
    start = np.cumsum(size) - size
    rank = np.empty(len(key), dtype=np.int64)
    rank[order] = np.arange(len(key)) - start[group[order]]
    return rank, size
