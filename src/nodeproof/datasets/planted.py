"""Planted data: Section 5 of the paper, and the genie that bounds every method on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.utils import check_random_state

from nodeproof.errors import InputError

__all__ = ["Planted", "make_planted"]

# A probability of exactly 0 or 1 would make a log-likelihood infinite.
_TINY = 1e-12


@dataclass(frozen=True, repr=False)
class Planted:
    """A graph with planted classes, features and a few labels.

    Attributes
    ----------
    graph : scipy.sparse.csr_array of shape (n, n)
        Symmetric 0/1 adjacency without self loops.
    X : ndarray of shape (n, n_features)
        Features.
    y : ndarray of shape (n,)
        Given labels, −1 where there is none; some may be wrong.
    y_true : ndarray of shape (n,)
        The planted classes.
    params : dict
        The parameters of the data: ``p``, ``q``, ``sizes``, ``covariances`` of
        shape (n_clusters, n_features, n_features), …
    """

    graph: sp.csr_array
    X: NDArray[np.float64]
    y: NDArray[np.int64]
    y_true: NDArray[np.int64]
    params: dict[str, Any]

    def __repr__(self) -> str:
        n, m = self.X.shape
        return (
            f"Planted(n={n}, edges={self.graph.nnz // 2}, n_features={m}, "
            f"n_clusters={len(self.params['sizes'])}, labels={int((self.y >= 0).sum())})"
        )

    def genie_proba(self, sources: str = "GF") -> NDArray[np.float64]:
        """Return each node's class probabilities given everything but its own class.

        The genie knows the true parameters and the true classes of all *other* nodes, so no
        method can be better on average. Given labels add nothing to what it knows.

        Parameters
        ----------
        sources : str
            Sources that it may use: letters of "G" (graph), "F" (features) and "L".

        Returns
        -------
        ndarray of shape (n, n_clusters)
        """
        unknown = set(sources) - set("GFL")
        if unknown or not set(sources) & set("GF"):
            raise InputError(f"sources must hold G or F (and may hold L), got {sources!r}")
        sizes = np.asarray(self.params["sizes"], dtype=np.float64)
        log_posterior = np.tile(np.log(sizes / sizes.sum()), (len(self.y_true), 1))
        if "G" in sources:
            log_posterior += self._graph_log_likelihood(sizes)
        if "F" in sources:
            log_posterior += self._feature_log_likelihood()
        return np.asarray(np.exp(log_softmax(log_posterior, axis=1)))

    def genie_accuracy(self, sources: str = "GF") -> float:
        """Return the genie's accuracy on the unlabelled nodes (on all, if all have labels).

        Examples
        --------
        >>> from nodeproof.datasets import make_planted
        >>> data = make_planted(p=0.05, q=0.05, omega=0.3, random_state=0)
        >>> round(data.genie_accuracy("G"), 1), round(data.genie_accuracy("GF"), 1)
        (0.3, 0.8)
        """
        asked = self.y < 0
        if not asked.any():
            asked = np.ones_like(asked)
        proba = self.genie_proba(sources)
        return float(np.mean(proba[asked].argmax(axis=1) == self.y_true[asked]))

    def _graph_log_likelihood(self, sizes: NDArray[np.float64]) -> NDArray[np.float64]:
        p, q = np.clip([self.params["p"], self.params["q"]], _TINY, 1 - _TINY)
        one_hot = np.zeros((len(self.y_true), len(sizes)), dtype=np.float32)
        one_hot[np.arange(len(self.y_true)), self.y_true] = 1.0
        links = (self.graph @ one_hot).astype(np.float64)
        others = sizes - one_hot
        return np.asarray(
            links * (np.log(p) - np.log(q)) + (others - links) * (np.log1p(-p) - np.log1p(-q))
        )

    def _feature_log_likelihood(self) -> NDArray[np.float64]:
        columns = []
        for covariance in self.params["covariances"]:
            factor = np.linalg.cholesky(covariance)
            white = np.linalg.solve(factor, self.X.T)
            columns.append(-0.5 * (white**2).sum(axis=0) - np.log(np.diag(factor)).sum())
        return np.stack(columns, axis=1)


def make_planted(
    n_clusters: int = 3,
    cluster_size: int | Sequence[int] = 300,
    p: float = 0.1,
    q: float = 0.05,
    n_features: int = 6,
    n_noise: int = 4,
    omega: float = 0.04,
    sigma: float = 1.0,
    label_ratio: float = 0.2,
    label_accuracy: float = 1.0,
    random_state: int | np.random.RandomState | np.random.Generator | None = None,
) -> Planted:
    """Draw a stochastic block model with Gaussian features and a few labels.

    The defaults are the paper's (Section 5). The paper leaves σ open; here it is 1. Time and
    memory are proportional to the number of edges.

    Parameters
    ----------
    n_clusters : int
        Number of classes K.
    cluster_size : int or sequence of K ints
        Nodes in every class, or in each.
    p, q : float
        Probability of an edge inside a class, and across two classes.
    n_features, n_noise : int
        Dimension m of the features, and how many eigenvalues of each class's covariance are
        ω² (the others are σ²). Each class has an eigenbasis of its own, drawn uniformly.
    omega, sigma : float
        Standard deviations in the noise and in the signal subspace.
    label_ratio : float
        Share of each class that has a label.
    label_accuracy : float
        Probability that a label is right; a wrong one is uniform over the other classes.
    random_state : int, RandomState, Generator or None
        Seed.

    Returns
    -------
    Planted
        Nodes come in random order.

    Examples
    --------
    >>> from nodeproof.datasets import make_planted
    >>> make_planted(cluster_size=[50, 30, 20], n_clusters=3, label_ratio=0.1, random_state=0)
    Planted(n=100, edges=319, n_features=6, n_clusters=3, labels=10)
    """
    sizes = _check_sizes(n_clusters, cluster_size)
    _check_probabilities(p=p, q=q, label_ratio=label_ratio, label_accuracy=label_accuracy)
    if n_features < 1:
        raise InputError(f"n_features must be at least 1, got {n_features}")
    if not 0 <= n_noise <= n_features:
        raise InputError(f"n_noise must lie in 0…n_features={n_features}, got {n_noise}")
    if not (omega > 0 and sigma > 0 and np.isfinite([omega, sigma]).all()):
        raise InputError(f"omega and sigma must be positive, got {omega} and {sigma}")
    if label_accuracy < 1 and n_clusters == 1:
        raise InputError("a label can only be wrong if there are at least two classes")

    rng = _generator(random_state)
    n = int(sizes.sum())
    place = rng.permutation(n)  # node v of the sorted order goes to row place[v]
    sorted_classes = np.repeat(np.arange(n_clusters), sizes)
    y_true = np.empty(n, dtype=np.int64)
    y_true[place] = sorted_classes

    graph = _draw_graph(sizes, p, q, place, rng)
    eigenvalues = np.where(np.arange(n_features) < n_noise, omega**2, sigma**2)
    bases = [_random_basis(n_features, rng) for _ in range(n_clusters)]
    X = np.empty((n, n_features))
    y = np.full(n, -1, dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    for i, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        rows = place[start : start + size]
        X[rows] = rng.standard_normal((size, n_features)) * np.sqrt(eigenvalues) @ bases[i].T
        chosen = rng.choice(rows, size=round(label_ratio * size), replace=False)
        y[chosen] = i
        wrong = chosen[rng.random(len(chosen)) >= label_accuracy]
        if len(wrong):
            y[wrong] = (i + rng.integers(1, n_clusters, size=len(wrong))) % n_clusters
    params = {
        "n_clusters": n_clusters,
        "sizes": sizes,
        "p": p,
        "q": q,
        "n_features": n_features,
        "n_noise": n_noise,
        "omega": omega,
        "sigma": sigma,
        "label_ratio": label_ratio,
        "label_accuracy": label_accuracy,
        "covariances": np.stack([(basis * eigenvalues) @ basis.T for basis in bases]),
    }
    return Planted(graph, X, y, y_true, params)


def _check_sizes(n_clusters: int, cluster_size: int | Sequence[int]) -> NDArray[np.int64]:
    if n_clusters < 1:
        raise InputError(f"n_clusters must be at least 1, got {n_clusters}")
    sizes = np.asarray(cluster_size)
    if sizes.ndim == 0:
        sizes = np.full(n_clusters, sizes)
    if sizes.shape != (n_clusters,):
        raise InputError(
            f"cluster_size lists {len(sizes)} sizes for n_clusters={n_clusters}; give one number "
            f"or {n_clusters} of them"
        )
    if not np.issubdtype(sizes.dtype, np.integer):
        raise InputError(f"cluster_size must be an integer or a list of them, got {cluster_size}")
    if (sizes < 1).any():
        raise InputError(f"every class needs at least one node, got cluster_size={cluster_size}")
    return sizes.astype(np.int64)


def _check_probabilities(**values: float) -> None:
    for name, value in values.items():
        if not 0 <= value <= 1:
            raise InputError(f"{name} must lie in 0…1, got {value}")


def _generator(
    random_state: int | np.random.RandomState | np.random.Generator | None,
) -> np.random.Generator:
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None or isinstance(random_state, int | np.integer):
        return np.random.default_rng(random_state)
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))


def _random_basis(dim: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return a uniformly distributed orthogonal matrix: QR with the signs of R made positive."""
    basis, upper = np.linalg.qr(rng.standard_normal((dim, dim)))
    return np.asarray(basis * np.where(np.diag(upper) < 0, -1.0, 1.0))


def _draw_graph(
    sizes: NDArray[np.int64],
    p: float,
    q: float,
    place: NDArray[np.int64],
    rng: np.random.Generator,
) -> sp.csr_array:
    """Draw the block model class by class: its triangle, then the block to all later classes."""
    n = int(sizes.sum())
    index = np.int32 if n < 2**31 else np.int64
    place = place.astype(index)
    ends: list[tuple[NDArray[Any], NDArray[Any]]] = []
    start = 0
    for size in map(int, sizes):
        u, v = _triangle_pairs(_bernoulli_positions(size * (size - 1) // 2, p, rng))
        ends.append((place[start + u], place[start + v]))
        width = n - start - size
        cells = _bernoulli_positions(size * width, q, rng)
        if width:
            ends.append((place[start + cells // width], place[start + size + cells % width]))
        start += size
    heads = np.concatenate([u for u, _ in ends] + [v for _, v in ends])
    tails = np.concatenate([v for _, v in ends] + [u for u, _ in ends])
    del ends
    data = np.ones(len(heads), dtype=np.float32)
    graph = sp.csr_array(sp.coo_array((data, (heads, tails)), shape=(n, n)))
    graph.sort_indices()
    return graph


def _bernoulli_positions(
    cells: int, probability: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return the sorted successes of ``cells`` coin flips, by drawing the gaps between them."""
    if probability <= 0 or cells == 0:
        return np.empty(0, dtype=np.int64)
    if probability >= 1:
        return np.arange(cells, dtype=np.int64)
    found: list[NDArray[np.int64]] = []
    last = -1
    while last < cells:
        expected = (cells - 1 - last) * probability
        draws = int(expected + 4 * np.sqrt(expected) + 16)
        # Gaps are capped before they are summed, so that the sum cannot overflow.
        gaps = np.minimum(rng.geometric(probability, size=draws), cells + 1)
        positions = last + np.cumsum(gaps)
        found.append(positions)
        last = int(positions[-1])
    positions = np.concatenate(found)
    return positions[: np.searchsorted(positions, cells)]


def _triangle_pairs(
    positions: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Turn positions 0, 1, 2, … into the pairs (1, 0), (2, 0), (2, 1), (3, 0) and so on."""
    row = ((1.0 + np.sqrt(1.0 + 8.0 * positions)) / 2.0).astype(np.int64)
    # The square root rounds: step back or forth where it missed.
    row -= row * (row - 1) // 2 > positions
    row += row * (row + 1) // 2 <= positions
    return row, positions - row * (row - 1) // 2
