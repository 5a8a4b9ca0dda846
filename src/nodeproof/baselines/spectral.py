"""Spectral clustering: the graph alone, no labels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from nodeproof import threads
from nodeproof.baselines.checks import check_classes, check_links
from nodeproof.program import check_memory

__all__ = ["spectral_clustering"]

# Up to here all eigenvectors at once are cheap, and exact where eigenvalues repeat.
_FEW_NODES = 200

# Far below what k-means can tell apart.
_TOLERANCE = 1e-4


def spectral_clustering(
    graph: Any, n_classes: int, *, random_state: int | np.random.Generator | None = None
) -> NDArray[np.int64]:
    """Cluster the nodes by k-means on the leading eigenvectors of D^-1/2 A D^-1/2.

    The rows of the eigenvectors are normalised (Ng, Jordan and Weiss, NeurIPS 2001). Nodes
    without a link join the largest cluster; without any link all nodes are in class 0.

    Parameters
    ----------
    graph : object
        Anything that :func:`nodeproof.adjacency.check_adjacency` reads; weights count.
    n_classes : int
        Number of classes K.
    random_state : int, Generator or None
        Seed of the eigensolver's first vector and of k-means.

    Returns
    -------
    ndarray of shape (n,)
        Classes 0…K−1, in no particular order.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.baselines import spectral_clustering
    >>> two_triangles = np.kron(np.eye(2), np.ones((3, 3)))
    >>> found = spectral_clustering(two_triangles, 2, random_state=0)
    >>> bool(found[0] == found[1] == found[2] != found[3] == found[4] == found[5])
    True
    """
    adjacency = check_links(graph)
    n = adjacency.shape[0]
    K = check_classes(n_classes, n)
    rng = np.random.default_rng(random_state)
    classes = np.zeros(n, dtype=np.int64)
    linked = np.flatnonzero(np.diff(adjacency.indptr))
    if K == 1 or len(linked) == 0:
        return classes
    with threads.using(1):
        # A node without links has no place among the eigenvectors: it would be a cluster's worth
        # of zeros.
        rows = _embed(adjacency[linked][:, linked], min(K, len(linked)), rng)
        with warnings.catch_warnings():
            # Fewer distinct points than clusters: not the user's doing, and no harm.
            warnings.simplefilter("ignore", ConvergenceWarning)
            seed = int(rng.integers(2**31 - 1))
            means = KMeans(min(K, len(linked)), n_init=10, random_state=seed)
            found = means.fit_predict(rows)
    classes[:] = np.bincount(found).argmax()
    classes[linked] = found
    return classes


def _embed(adjacency: sp.csr_array, k: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the k leading eigenvectors, rows normalised, shape (n, k) (fewer if all else fails).

    Every node must have a link.
    """
    n = adjacency.shape[0]
    scale = sp.diags_array(1.0 / np.sqrt(adjacency.sum(axis=1)))
    normalised = scale @ adjacency @ scale
    if n <= _FEW_NODES or k > n // 4:
        check_memory("an embedding in so many dimensions", n, 4)
        _, vectors = eigh(normalised.toarray(), subset_by_index=(n - k, n - 1))
    else:
        try:
            _, vectors = eigsh(normalised, k, which="LA", v0=rng.standard_normal(n), tol=_TOLERANCE)
        except ArpackNoConvergence as stopped:
            vectors = stopped.eigenvectors
            if vectors.shape[1] == 0:
                return np.zeros((n, 1))
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1.0))
