"""A graph from features alone: every node is linked to its nearest neighbours.

Links are weighted by a Gaussian kernel whose width is that of each node's own surroundings
(self-tuning), so that dense and sparse regions are linked alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

from nodeproof.errors import InputError
from nodeproof.inputs.features import (
    as_sparse_as,
    check_features,
    check_reach,
    read_features,
    stacked,
)
from nodeproof.runtime import threads
from nodeproof.runtime.memory import check_free

__all__ = [
    "METRICS",
    "USUAL_K",
    "KnnGraph",
    "Nearest",
    "Neighbours",
    "check_k",
    "is_knn",
    "knn_graph",
    "link_nearest",
    "nearest",
]

Array = NDArray[np.float64]

METRICS = ("euclidean", "cosine")

#: neighbours of a node unless something else is asked for
USUAL_K = 10

# The width of a node's kernel is its distance to this neighbour, or to the last of fewer.
_WIDTH_AT = 7

# Nodes far from all others are linked to the nearest nevertheless.
_LEAST_WEIGHT = 1e-3

# Further neighbours that are looked at, so that ties are broken by the data and not by a search.
_SPARE = 8

# Above so many nodes a search looks only where neighbours are likely, if pynndescent is there.
_MANY_NODES = 50_000

# Pairs of rows that are compared at a time.
_PAIRS = 200_000


@dataclass(frozen=True)
class KnnGraph:
    """What ``graph="knn"`` stands for: a graph that a fit is to make of its features.

    Attributes
    ----------
    k : int or None
        Neighbours of each node; None: chosen by held-out labels.
    metric : {"euclidean", "cosine"} or None
        Distance; None: chosen, too.
    scaled : bool or None
        Whether features are divided by their standard deviations first; None: chosen, too.
    """

    k: int | None = None
    metric: str | None = None
    scaled: bool | None = None


def is_knn(graph: Any) -> bool:
    """Tell whether the graph is to be made of the features."""
    return isinstance(graph, KnnGraph) or (isinstance(graph, str) and graph == "knn")


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Fitted nodes that others can be linked to.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n, m)
        Features of the fitted nodes, as given.
    k : int
        Neighbours of each node.
    metric : {"euclidean", "cosine"}
        Distance.
    scale : ndarray of shape (m,), or None
        Features are divided by it first.
    widths : ndarray of shape (n,)
        Width of each node's kernel.
    """

    X: Any
    k: int
    metric: str
    scale: Array | None
    widths: Array

    def links_of(self, X: Any) -> sp.csr_array:
        """Return links of new nodes to their nearest fitted ones, shape (n_new, n).

        Parameters
        ----------
        X : ndarray or csr_array of shape (n_new, m)
            Their features.
        """
        return self.joined_by(X)[0]

    def joined_by(self, X: Any) -> tuple[sp.csr_array, Neighbours]:
        """Return the same links, and the neighbours with the new nodes among them, last."""
        if not X.shape[0]:
            return sp.csr_array((0, self.X.shape[0])), self
        X = as_sparse_as(self.X, X)
        points, new = (_points(rows, self.metric, self.scale) for rows in (self.X, X))
        k = min(self.k, points.shape[0])
        squares, found = _search(points, k, new)
        widths = _widths(squares)
        weights = _weights(squares, widths, self.widths[found])
        start = np.arange(0, found.size + 1, k)
        shape = X.shape[0], points.shape[0]
        links = sp.csr_array((weights.ravel(), found.ravel(), start), shape)
        links.sort_indices()
        widths = np.concatenate([self.widths, widths])
        return links, replace(self, X=stacked(self.X, X), widths=widths)


def knn_graph(
    X: Any, k: int = USUAL_K, metric: str = "euclidean", *, scaled: bool = False
) -> sp.csr_array:
    """Return the graph that links every node to its nearest neighbours by features.

    Weights are ``exp(−d² / (s_i s_j))``, where s is a node's distance to its 7th neighbour (the
    last of fewer), but at least .001. Nodes are linked if either is among the neighbours of the
    other. The order of rows makes no difference.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, m)
        Features.
    k : int
        Neighbours of each node; at most n − 1.
    metric : {"euclidean", "cosine"}
        Distance. Sparse features, such as counts of words, are best compared by "cosine".
    scaled : bool
        Whether features are divided by their standard deviations first: do so if they have
        different units.

    Returns
    -------
    scipy.sparse.csr_array of shape (n, n)
        Symmetric weights between 0 and 1, no self loops.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof import knn_graph
    >>> knn_graph(np.array([[0.0], [1.0], [1.5]]), k=1).toarray().round(2)
    array([[0.  , 0.14, 0.  ],
           [0.14, 0.  , 0.37],
           [0.  , 0.37, 0.  ]])
    """
    X = read_features(X)
    check_features(X)
    check_reach(X)
    if metric not in METRICS:
        raise InputError(f"metric must be one of {', '.join(METRICS)}; got {metric!r}")
    return link_nearest(X, nearest(X, k, metric, scaled), k)[0]


@dataclass(frozen=True)
class Nearest:
    """The nearest neighbours of every node, closest first.

    Attributes
    ----------
    squares : ndarray of shape (n, k)
        Squared distances.
    nodes : ndarray of shape (n, k)
        The neighbours.
    metric, scale
        As in `Neighbours`.
    """

    squares: Array
    nodes: NDArray[np.int64]
    metric: str
    scale: Array | None


def nearest(
    X: Any, k: int, metric: str, scaled: bool, y: NDArray[np.int64] | None = None
) -> Nearest:
    """Return the k nearest neighbours of every node.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, m)
        Features, checked.
    y : ndarray of shape (n,), optional
        Labels, which tell apart nodes with the same features: which of them is linked to others
        then does not depend on the order of rows.
    """
    n = X.shape[0]
    check_k(k, n)
    check_free(40.0 * n * (k + _SPARE), f"{k} neighbours of {n:,} nodes", "use a smaller k")
    order = _canonical_order(X, y)
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    scale = _deviations(X) if scaled else None
    points = _points(X, metric, scale)[order]
    squares, found = _search(points, k)
    return Nearest(squares[place], order[found[place]], metric, scale)


def check_k(k: Any, n_nodes: int) -> None:
    """Raise an error unless this can be the number of neighbours."""
    whole = isinstance(k, int | np.integer) and not isinstance(k, bool)
    if not whole or k < 1:
        raise InputError(f"k must be a whole number of neighbours, at least 1; got {k!r}")
    if k >= n_nodes:
        raise InputError(f"k={k} neighbours need more than {k} nodes; there are {n_nodes}")


def link_nearest(X: Any, found: Nearest, k: int) -> tuple[sp.csr_array, Neighbours]:
    """Return the weighted graph of the first k neighbours, and what links new nodes to it."""
    n = X.shape[0]
    squares, nodes = found.squares[:, :k], found.nodes[:, :k]
    widths = _widths(squares)
    weights = _weights(squares, widths, widths[nodes])
    start = np.arange(0, n * k + 1, k)
    links = sp.csr_array((weights.ravel(), nodes.ravel(), start), (n, n))
    links = links.maximum(links.T).tocsr()
    links.sort_indices()
    return links, Neighbours(X, k, found.metric, found.scale, widths)


def _widths(squares: Array) -> Array:
    """Return the width of each node's kernel, zero where neighbours are the same, shape (n,)."""
    return np.asarray(np.sqrt(squares[:, min(_WIDTH_AT, squares.shape[1]) - 1]))


def _weights(squares: Array, own: Array, theirs: Array) -> Array:
    """Return weights of links, shape (n, k).

    Parameters
    ----------
    squares : ndarray of shape (n, k)
        Squared distances.
    own : ndarray of shape (n,)
        Widths of the nodes.
    theirs : ndarray of shape (n, k)
        Widths of their neighbours.
    """
    both = own[:, None] * theirs
    # A width is zero only where a node has copies; to others it is as far as these say.
    both = np.where(both > 0, both, np.maximum(own[:, None], theirs) ** 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(squares > 0, squares / both, 0.0)
    return np.asarray(np.maximum(np.exp(-ratio), _LEAST_WEIGHT))


def _points(X: Any, metric: str, scale: Array | None) -> Any:
    """Return features as points whose Euclidean distances are meant."""
    if scale is not None:
        X = X @ sp.diags_array(1.0 / scale) if sp.issparse(X) else X / scale
    if metric == "cosine":
        X = normalize(X)
    return sp.csr_array(X) if sp.issparse(X) else np.asarray(X, dtype=np.float64)


def _deviations(X: Any) -> Array:
    """Return standard deviations of the features, one where a feature is constant; shape (m,)."""
    # Sums in a sorted order do not depend on that of the rows.
    if sp.issparse(X):
        mean = X.mean(axis=0)
        variance = np.asarray(X.multiply(X).mean(axis=0) - mean**2)
    else:
        variance = np.sort(X, axis=0).astype(np.float64).var(axis=0)
    deviations = np.sqrt(np.maximum(variance, 0.0))
    return np.where(deviations > 0, deviations, 1.0)


def _canonical_order(X: Any, y: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Return the nodes in an order that depends on their features and labels alone, shape (n,)."""
    rng = np.random.default_rng(0)
    odd = rng.integers(2**62, size=X.shape[1], dtype=np.int64).astype(np.uint64) * 2 + 1
    with np.errstate(over="ignore"):
        if sp.issparse(X):
            entries = (X.data.astype(np.float64) + 0.0).view(np.uint64) * odd[X.indices]
            sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(entries, dtype=np.uint64)])
            keys = sums[X.indptr[1:]] - sums[X.indptr[:-1]]
        else:
            keys = np.empty(X.shape[0], dtype=np.uint64)
            for lo in range(0, len(keys), 10_000):
                rows = np.ascontiguousarray(X[lo : lo + 10_000], dtype=np.float64) + 0.0
                keys[lo : lo + len(rows)] = rows.view(np.uint64) @ odd
    return np.lexsort((keys if y is None else y, keys))


def _search(points: Any, k: int, new: Any = None) -> tuple[Array, NDArray[np.int64]]:
    """Return squared distances and positions of the nearest points, each of shape (n, k).

    Parameters
    ----------
    points : ndarray or csr_array of shape (n, m)
        Where to look.
    new : ndarray or csr_array of shape (n_new, m), optional
        Points to look from; by default from each of the others, without itself.
    """
    n = points.shape[0]
    own = new is None
    asked = points if own else new
    count = min(n, k + own + _SPARE)
    if own and n > _MANY_NODES and find_spec("pynndescent") is not None:
        found = _approximate(points, count)
    else:
        search = NearestNeighbors(n_neighbors=count, n_jobs=threads.available())
        found = search.fit(points).kneighbors(asked, return_distance=False).astype(np.int64)
    squares = _squares(asked, points, found)
    if own:
        squares[found == np.arange(n)[:, None]] = np.inf  # last in the order below
    # To nine digits of the farthest: what differs by rounding alone is a tie.
    farthest = np.where(np.isfinite(squares), squares, 0.0).max(axis=1, keepdims=True)
    rounded = np.round(squares * (1e9 / np.where(farthest > 0, farthest, 1.0)))
    order = np.lexsort((found, rounded), axis=1)[:, :k]
    return np.take_along_axis(squares, order, 1), np.take_along_axis(found, order, 1)


def _squares(asked: Any, points: Any, found: NDArray[np.int64]) -> Array:
    """Return squared distances by differences, which are zero between equal points."""
    rows, k = found.shape
    squares = np.empty((rows, k))
    step = max(1, _PAIRS // (k * (1 if sp.issparse(points) else 1 + points.shape[1] // 64)))
    for lo in range(0, rows, step):
        near = found[lo : lo + step]
        if sp.issparse(points):
            away = asked[np.repeat(np.arange(lo, lo + len(near)), k)] - points[near.ravel()]
            squares[lo : lo + step] = away.multiply(away).sum(axis=1).reshape(near.shape)
        else:
            away = asked[lo : lo + step, None, :] - points[near]
            squares[lo : lo + step] = np.einsum("ijk,ijk->ij", away, away)
    return squares


def _approximate(points: Any, count: int) -> NDArray[np.int64]:
    from pynndescent import NNDescent

    index = NNDescent(points, n_neighbors=count, random_state=0, n_jobs=threads.available())
    found = index.neighbor_graph[0].astype(np.int64)
    lost = (found < 0).any(axis=1)  # the search has found fewer
    if lost.any():
        search = NearestNeighbors(n_neighbors=count, n_jobs=threads.available())
        found[lost] = search.fit(points).kneighbors(points[lost], return_distance=False)
    return np.asarray(found)
