"""Spectral clustering: the graph alone, no labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from scipy.special import logsumexp, softmax
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from nodeproof.convex.program import check_memory
from nodeproof.paper.baselines.evidence import Evidence, bernoulli
from nodeproof.paper.baselines.inputs import check_classes, check_links
from nodeproof.runtime import threads
from nodeproof.terms import Covariance

__all__ = ["informed_starts", "spectral_clustering"]


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


# ------------------------------------------------------------------------------
# Where the refinements start from: what each kind of evidence says by itself.

Array = NDArray[np.float64]
Classes = NDArray[np.int64]

# Mixtures without labels start from so many random rows; after so many rounds the best goes on.
_TRIES = 4
_SHORT, _LONG = 10, 100

# Mean gain in log-likelihood of a node below which a mixture has settled: what remains is the
# refinement's to find.
_START_TOLERANCE = 1e-3

# How many pairs the rates inside and across all classes are worth beside those of two classes.
_PAIRS = 20.0


def informed_starts(evidence: Evidence, rng: np.random.Generator) -> list[Classes]:
    """Return one partition for each kind of evidence there is, labelled nodes at their label."""
    starts: list[Callable[[Evidence, np.random.Generator], Classes]] = []
    if len(evidence.known):
        starts.append(from_labels)
    if evidence.adjacency is not None and evidence.adjacency.nnz:
        starts.append(from_links)
    if evidence.features is not None:
        starts.append(from_features)
    return [evidence.clamp(start(evidence, rng)) for start in starts]


def from_labels(evidence: Evidence, rng: np.random.Generator) -> Classes:
    """Return the likeliest classes given models of the labelled nodes and links to them alone."""
    K, known = evidence.n_classes, evidence.known
    costs = np.zeros((len(evidence.y), K))
    if evidence.features is not None:
        costs += evidence.labelled_costs
    if evidence.adjacency is not None:
        W = np.zeros_like(costs)
        W[known, evidence.y[known]] = 1.0
        sizes = W.sum(axis=0)
        links = evidence.adjacency @ W
        mass, pairs = W.T @ links, np.outer(sizes, sizes) - np.diag(sizes)
        # Two classes with a few labels each share hardly a pair: classes borrow from each other.
        guess = np.empty((K, K))
        for block in (np.eye(K, dtype=bool), ~np.eye(K, dtype=bool)):
            guess[block] = evidence.rates(mass[block].sum(), pairs[block].sum())
        rates = evidence.rates(mass + _PAIRS * guess, pairs + _PAIRS)
        costs += bernoulli(links, sizes - W, rates)
    return costs.argmin(axis=1)


def from_links(evidence: Evidence, rng: np.random.Generator) -> Classes:
    """Return spectral clusters, named by the labels."""
    found = spectral_clustering(evidence.adjacency, evidence.n_classes, random_state=rng)
    return evidence.align(found)


def from_features(evidence: Evidence, rng: np.random.Generator) -> Classes:
    """Return the likeliest parts of a Gaussian mixture, labelled nodes held at their label."""
    term, K = evidence.features, evidence.n_classes
    assert term is not None
    if len(evidence.known):
        rows = [softmax(-evidence.labelled_costs, axis=1)]
    else:
        rows = [rng.dirichlet(np.ones(K), size=len(evidence.y)) for _ in range(_TRIES)]
    tries = [_fit_mixture(term, W, evidence, _SHORT) for W in rows]
    W, _ = _fit_mixture(term, max(tries, key=lambda each: each[1])[0], evidence, _LONG)
    return W.argmax(axis=1)


def _fit_mixture(
    term: Covariance, W: Array, evidence: Evidence, max_iter: int
) -> tuple[Array, float]:
    """Return the rows after some rounds of EM, and their log-likelihood."""
    n, K = W.shape
    known = evidence.known
    fixed = np.zeros((len(known), K))
    fixed[np.arange(len(known)), evidence.y[known]] = 1.0
    value = -np.inf
    for _ in range(max_iter):
        W[known] = fixed
        prior = np.log((W.sum(axis=0) + 1.0) / (n + K))
        joint = prior - term.cost(term.estimate(W), 0, n)
        evidences = logsumexp(joint, axis=1)
        W = np.exp(joint - evidences[:, None])
        evidences[known] = (joint[known] * fixed).sum(axis=1)
        before, value = value, float(evidences.sum())
        if value - before < _START_TOLERANCE * n:
            break
    return W, value
