"""SlimG (Yoo et al., KDD 2023): one penalised linear block per view of a node.

The views: singular vectors of the graph; the features; their means over two hops, without and with
the node itself. Each is reduced by principal components, centred and scaled as a whole; the norm of
each view's block of weights is penalised, so that views without worth drop out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from threadpoolctl import threadpool_limits

from peers.choosing import fit_best
from peers.registry import Data, Split, normalised, peer
from peers.views import components, dense, neighbour_means, scaled, structure

Array = NDArray[Any]

#: components of every view
RANK = 64

#: strengths of the penalty, from strong to weak, per training label
STRENGTHS = (0.03, 0.01, 0.003, 0.001, 0.0003)

#: steps of the solver at each strength
STEPS = 200


@peer("SlimG", quick=True)
def slimg(data: Data, split: Split, seed: int) -> Array:
    """Fit all views; the strength of the penalty is chosen."""
    views = [_group(view) for view in _views(data, seed)]
    ends = np.cumsum([view.shape[1] for view in views])[:-1]
    X = np.hstack(views)

    def fit(part: Split) -> list[Array]:
        with threadpool_limits(1):  # several threads make such small matrices slower
            found = _path(X[part.train], part.y[part.train], data.n_classes, ends)
        return [softmax(X @ weights + offsets, axis=1) for weights, offsets in found]

    return fit_best(fit, data, split, seed)[0]


def _views(data: Data, seed: int) -> list[Array]:
    views = [structure(data.links, seed, RANK)]
    if data.X is not None:
        X = scaled(data)
        others = neighbour_means(data.links, neighbour_means(data.links, dense(X)))
        adjacency = normalised(data.links)
        near = adjacency @ (adjacency @ dense(X))
        views += [components(each, seed, RANK) for each in (X, others, near)]
    return views


def _group(view: Array) -> Array:
    """Return a view whose columns have mean zero and whose rows have mean square length one."""
    view = view - view.mean(axis=0)
    size = np.sqrt((view**2).sum() / len(view))
    return np.asarray(view / size if size > 0 else view, dtype=np.float64)


def _path(
    X: Array, y: NDArray[np.int64], n_classes: int, ends: NDArray[np.int64]
) -> list[tuple[Array, Array]]:
    """Return weights and offsets for every strength, by accelerated proximal gradient steps.

    Minimises the mean log-loss plus strength·√(size of a view) times the norm of each of its
    blocks, as the group lasso does; the offsets are free.

    Parameters
    ----------
    X : ndarray of shape (m, d)
        Rows of the training nodes.
    y : ndarray of shape (m,)
        Their labels.
    n_classes : int
        Number of classes K.
    ends : ndarray of shape (v − 1,)
        Where the views after the first begin.
    """
    m = len(X)
    Z = np.hstack([X, np.ones((m, 1))])
    truth = np.eye(n_classes)[y]
    # The Hessian of the log-loss is at most half of the rows' second moments.
    step = 2.0 * m / float(np.linalg.norm(Z, 2) ** 2)
    current = np.zeros((Z.shape[1], n_classes))
    # A class without a label must not get the share of a third that zeros would give it.
    current[-1] = np.log(np.maximum(truth.mean(axis=0), 1e-9))
    found = []
    for strength in STRENGTHS:
        ahead, speed = current, 1.0
        for _ in range(STEPS):
            slope = Z.T @ (softmax(Z @ ahead, axis=1) - truth) / m
            after = _shrink(ahead - step * slope, step * strength, ends)
            faster = (1 + np.sqrt(1 + 4 * speed**2)) / 2
            ahead = after + (speed - 1) / faster * (after - current)
            current, speed = after, faster
        found.append((current[:-1].copy(), current[-1].copy()))
    return found


def _shrink(weights: Array, threshold: float, ends: NDArray[np.int64]) -> Array:
    """Return the weights with each view's block shortened by the threshold, offsets as they are."""
    blocks = np.split(weights[:-1], ends)
    lengths = [max(float(np.linalg.norm(block)), 1e-300) for block in blocks]
    kept = [
        block * max(0.0, 1 - threshold / length)
        for block, length in zip(blocks, lengths, strict=True)
    ]
    return np.vstack([*kept, weights[-1:]])
