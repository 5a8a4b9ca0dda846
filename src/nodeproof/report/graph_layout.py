"""Layout of a graph of any size: linked nodes are close, classes where their probabilities are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof import kernels
from nodeproof.report.layout import map_nodes

__all__ = ["place_nodes"]

# Rounds of averaging over neighbours before the forces act; rounds of forces; their strength.
_AVERAGES, _ROUNDS, _PULLS, _PUSHES, _GRAVITY = 12, 80, 5, 3, 0.002

# Pulls in all: fewer rounds for graphs that would need more.
_MOST_PULLS = 30_000_000

# Half the width of the start, in distances at which linked nodes rest.
_WIDTH = 10.0

# Share of nodes, and how far the others reach beyond the circle that holds these.
_WITHIN, _BEYOND = 0.99, 0.25


def place_nodes(adjacency: Any, proba: NDArray[Any], seed: int = 0) -> NDArray[np.float32]:
    """Return a layout of a graph within the unit circle, wider than high; shape (n, 2).

    It starts from the corners of the classes, averaged over neighbours, and moves nodes by
    attraction of links and repulsion of random pairs. The same seed gives the same layout.

    Parameters
    ----------
    adjacency : sparse matrix of shape (n, n)
        Symmetric.
    proba : array of shape (n, K)
        Class probabilities.
    seed : int
        Decides between layouts that are equally good.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import block_diag
    >>> triangles = block_diag([1 - np.eye(3)] * 2, format="csr")
    >>> x = place_nodes(triangles, np.repeat(np.eye(2), 3, axis=0))
    >>> bool(np.linalg.norm(x[:3].mean(axis=0) - x[3:].mean(axis=0)) > 0.5)
    True
    """
    n = adjacency.shape[0]
    if n < 2:
        return np.zeros((n, 2), dtype=np.float32)
    rng = np.random.default_rng(seed)
    start = rng.standard_normal((n, 2))
    if proba.shape[1] > 1:
        start = (
            0.3 * start + np.asarray(proba, dtype=np.float64) @ map_nodes(proba, np.arange(0))[0]
        )
    degrees = np.diff(adjacency.indptr)
    ones = type(adjacency)(
        (np.ones(len(adjacency.indices)), adjacency.indices, adjacency.indptr), adjacency.shape
    )
    shares = 0.5 / np.maximum(degrees, 1)[:, None]
    for _ in range(_AVERAGES):
        start = np.where(degrees[:, None] > 0, 0.5 * start + shares * (ones @ start), start)
    start -= start.mean(axis=0)
    start *= _WIDTH / np.maximum(np.abs(start).max(axis=0), 1e-9)
    positions = np.ascontiguousarray(start + 0.1 * rng.standard_normal((n, 2)))
    pulls = int(np.minimum(degrees, _PULLS).sum()) + n
    rounds = int(np.clip(_MOST_PULLS // pulls, 20, _ROUNDS))
    kernels.spread_nodes(
        adjacency.indptr, adjacency.indices, positions, rounds, _PULLS, _PUSHES, _GRAVITY, seed + 1
    )
    return _fit(positions)


def _fit(positions: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return positions turned into landscape and scaled; outliers are drawn closer."""
    centred = positions - np.median(positions, axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    # The larger axis first; the sign of an eigenvector is arbitrary.
    axes = axes[:, ::-1]
    axes *= np.where(axes[np.abs(axes).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)
    turned = centred @ axes
    radius = np.linalg.norm(turned, axis=1)
    reach = float(np.quantile(radius, _WITHIN)) or 1.0
    outside = radius > reach
    excess = radius[outside] / reach - 1.0
    turned[outside] *= ((1.0 + _BEYOND * excess / (1.0 + excess)) * reach / radius[outside])[
        :, None
    ]
    return np.asarray(turned / (reach * (1.0 + _BEYOND)), dtype=np.float32)
