"""Baselines that use the graph alone, the graph and labels, or features and labels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse.linalg import ArpackNoConvergence, cg, eigsh
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from nodeproof.convex.clustering import cluster_graph
from nodeproof.convex.program import check_memory
from nodeproof.paper.baselines.evidence import (
    check_classes,
    check_links,
    check_points,
    check_some_given,
    class_costs,
)
from nodeproof.runtime import threads
from nodeproof.solvers.base import check_count

__all__ = [
    "gaussian_classifier",
    "label_propagation",
    "sdp_clustering",
    "spectral_clustering",
]


# Up to here all eigenvectors at once are cheap, and exact where eigenvalues repeat.
_FEW_NODES = 200

# Far below what k-means can tell apart.
_TOLERANCE = 1e-4

# Relative residual at which the conjugate gradients stop: classes differ by more.
_RESIDUAL = 1e-6


def spectral_clustering(
    graph: Any, n_classes: int, *, random_state: int | np.random.Generator | None = None
) -> NDArray[np.int64]:
    """Cluster the nodes by k-means on the leading eigenvectors of D^-1/2 A D^-1/2.

    The rows of the eigenvectors are normalised (Ng, Jordan and Weiss, NeurIPS 2001). Nodes
    without a link join the largest cluster; without any link all nodes are in class 0.

    Parameters
    ----------
    graph : object
        Anything that :func:`nodeproof.inputs.graph_objects.check_adjacency` reads; weights count.
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
    >>> from nodeproof.paper.baselines import spectral_clustering
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


def sdp_clustering(
    graph: Any,
    n_classes: int,
    *,
    tol: float = 0.01,
    random_state: int | np.random.Generator | None = None,
) -> NDArray[np.int64]:
    """Cluster the nodes by the semidefinite relaxation of the most likely communities.

    ``maximise ⟨A − tJ, L⟩`` over ``L ⪰ 0`` with ones on the diagonal and entries in [0, 1], as in
    Hajek, Wu and Xu (IEEE Trans. Inf. Theory, 2016). There the sum of L is given; here its
    multiplier t is the density of the graph, which lies between those inside and across classes.
    The classes are those of `spectral_clustering` on L. Time grows like n³: 900 nodes take 20
    seconds.

    Parameters
    ----------
    graph : object
        Anything that :func:`nodeproof.inputs.graph_objects.check_adjacency` reads.
    n_classes : int
        Number of classes K.
    tol : float
        Relative gap at which the relaxation counts as solved.
    random_state : int, Generator or None
        Seed of the rounding.

    Returns
    -------
    ndarray of shape (n,)
        Classes 0…K−1, in no particular order.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.paper.baselines import sdp_clustering
    >>> two_triangles = np.kron(np.eye(2), np.ones((3, 3)))
    >>> found = sdp_clustering(two_triangles, 2, random_state=0)
    >>> bool(found[0] == found[1] == found[2] != found[3] == found[4] == found[5])
    True
    """
    adjacency = check_links(graph)
    n = adjacency.shape[0]
    K = check_classes(n_classes, n)
    if K == 1 or adjacency.nnz == 0:
        return np.zeros(n, dtype=np.int64)
    density = float(adjacency.sum()) / (n * (n - 1))
    L = cluster_graph(adjacency, threshold=density, tol=tol).L
    return spectral_clustering(L, K, random_state=random_state)


def label_propagation(
    graph: Any, y: Any, n_classes: int, *, max_iter: int = 200
) -> NDArray[np.int64]:
    """Give each node the class that its neighbours have on average, labels clamped.

    The harmonic function of Zhu, Ghahramani and Lafferty (ICML 2003), with class mass
    normalisation: each class's total over all nodes is brought to its share of the labels. On
    planted graphs this was about level with or above the local and global consistency of Zhou
    et al., whatever its α. The fixed point is found by conjugate gradients.

    Parameters
    ----------
    graph : object
        Anything that :func:`nodeproof.inputs.graph_objects.check_adjacency` reads; weights count.
    y : array of shape (n,)
        Labels 0…K−1, −1 where unknown; at least one must be known.
    n_classes : int
        Number of classes K.
    max_iter : int
        Maximum number of conjugate-gradient steps per class.

    Returns
    -------
    ndarray of shape (n,)
        Classes; labelled nodes keep their label. Nodes that no label reaches get the most
        frequent one.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.paper.baselines import label_propagation
    >>> path = np.diag(np.ones(5), 1) + np.diag(np.ones(5), -1)
    >>> label_propagation(path, [0, -1, -1, -1, -1, 1], 2)
    array([0, 0, 0, 1, 1, 1])
    """
    adjacency = check_links(graph)
    n = adjacency.shape[0]
    K = check_classes(n_classes, n)
    labels = check_some_given(y, n, K)
    check_count("max_iter", max_iter)
    known = labels >= 0
    shares = np.bincount(labels[known], minlength=K) / known.sum()
    classes = np.where(known, labels, shares.argmax())
    degrees = adjacency.sum(axis=1)
    asked = np.flatnonzero(~known & (degrees > 0))
    if len(asked) == 0:
        return classes
    rows = adjacency[asked]
    laplacian = sp.diags_array(degrees[asked]) - rows[:, asked]
    scale = sp.diags_array(1.0 / degrees[asked])
    pull = rows @ (labels[:, None] == np.arange(K)).astype(np.float64)
    with threads.using(1):
        # In a part of the graph without labels the Laplacian is singular, but there nothing
        # pulls, and the solution stays at zero.
        columns = [
            cg(laplacian, b, rtol=_RESIDUAL, maxiter=max_iter, M=scale)[0] if b.any() else b
            for b in pull.T
        ]
    harmonic = np.stack(columns, axis=1)
    # Labelled nodes count, or a single node without a label would always be a tie.
    masses = harmonic.sum(axis=0) + np.bincount(labels[known], minlength=K)
    harmonic *= np.divide(shares, masses, out=np.zeros(K), where=masses > 0)
    reached = harmonic.max(axis=1) > 0
    classes[asked[reached]] = harmonic[reached].argmax(axis=1)
    return classes


def gaussian_classifier(X: Any, y: Any, n_classes: int) -> NDArray[np.int64]:
    """Classify the nodes by centred Gaussians, one per class, fitted to the labelled nodes.

    Quadratic discriminant analysis without means: one covariance per class, shrunk to the
    pooled second moment of all nodes, and the shares of the labels as prior. The shrinkage is
    chosen by the leave-one-out log-loss of the labelled nodes.

    Parameters
    ----------
    X : array of shape (n, m)
        Features.
    y : array of shape (n,)
        Labels 0…K−1, −1 where unknown; at least one must be known.
    n_classes : int
        Number of classes K; one without a label is never predicted.

    Returns
    -------
    ndarray of shape (n,)
        Predicted classes of all nodes, including the labelled ones.

    Examples
    --------
    >>> from nodeproof.paper.baselines import gaussian_classifier
    >>> from nodeproof.datasets import make_planted
    >>> data = make_planted(random_state=0)
    >>> found = gaussian_classifier(data.X, data.y, 3)
    >>> bool((found == data.y_true).mean() > 0.98)
    True
    """
    points = check_points(X)
    K = check_classes(n_classes, len(points))
    labels = check_some_given(y, len(points), K)
    with threads.using(1):
        return class_costs(points, labels, K).argmin(axis=1)
