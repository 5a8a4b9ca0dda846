"""What linear models and trees look at: features, their means over neighbours, the structure."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

from peers.registry import Data, normalised, standardised

Array = NDArray[Any]

#: singular vectors of the adjacency matrix
RANK = 64


def scaled(data: Data) -> Any:
    """Return features: sparse ones with rows of length one, dense ones standardised.

    Without features each node's own number serves as one.
    """
    if data.X is not None and not sp.issparse(data.X):
        return standardised(data.X).astype(np.float32)
    X = data.features
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64))
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return sp.csr_array(sp.diags_array(scale) @ X, dtype=np.float32)


def structure(graph: sp.csr_array, seed: int, rank: int = RANK) -> Array:
    """Return the leading left singular vectors of the adjacency matrix, times singular values.

    Degrees are divided out, or the hubs would fill the first vectors.

    Returns
    -------
    ndarray of shape (n, r)
    """
    return components(normalised(graph, self_loops=False), seed, rank)


def components(X: Any, seed: int, rank: int) -> Array:
    """Return the coordinates of the rows along the leading right singular vectors."""
    rank = min(rank, min(X.shape) - 1)
    if rank < 1:
        return dense(X)
    left, values, _ = randomized_svd(X, rank, n_iter=6, random_state=seed)
    return np.asarray(left * values)


def neighbour_means(graph: sp.csr_array, X: Any) -> Any:
    """Return the mean of the neighbours' rows; zero at nodes without a link."""
    degrees = np.asarray(graph.sum(axis=1), dtype=np.float64)
    scale = np.divide(1.0, degrees, out=np.zeros_like(degrees), where=degrees > 0)
    return sp.csr_array(sp.diags_array(scale) @ graph, dtype=np.float32) @ X


def dense(X: Any) -> Array:
    """Return a dense array."""
    return np.asarray(X.toarray() if sp.issparse(X) else X)
