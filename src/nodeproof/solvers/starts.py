"""Where CADO and block CADO start from."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh, svds
from scipy.special import softmax
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from nodeproof.directed import DirectedGraph
from nodeproof.errors import InputError
from nodeproof.graph import Graph, NullCorrected, Side
from nodeproof.problem import Problem
from nodeproof.runtime import threads
from nodeproof.smoothing import leading_directions
from nodeproof.solvers.base import match_labels

__all__ = [
    "STARTS",
    "Disposable",
    "as_memberships",
    "choose_starts",
    "few_starts",
    "named_start",
    "points_of",
    "promising_starts",
]

Rows = NDArray[np.float32]
Array = NDArray[np.float64]

# Below this many products per sweep, a fit takes milliseconds and several starts are free.
_CHEAP = 20_000_000


# Eigenvectors that separate classes converge within a few restarts of the Lanczos method, or
# some dozens near the limit; beyond it they never do. More than ten must cost mere seconds.
_RESTARTS = 10
_PRODUCTS = 4_000_000_000


# From this many nodes on, eigenvectors are found by products with many vectors at once.
_MANY_NODES = 200_000
_POWERS = 16
_OVERSAMPLED = 6

# Points that k-means uses.
_SAMPLE = 20_000

# Of more features, the leading directions are clustered.
_MANY_COLUMNS = 64


def random(problem: Problem, rng: np.random.Generator) -> Rows:
    """Return Dirichlet(1) memberships; labelled nodes at their label."""
    n, K = problem.n_nodes, problem.n_classes
    W = np.empty((n, K), dtype=np.float32)
    for lo in range(0, n, threads.ROWS):
        hi = min(lo + threads.ROWS, n)
        W[lo:hi] = rng.dirichlet(np.ones(K), size=hi - lo)
    return _place_labels(W, problem)


def labels(problem: Problem, rng: np.random.Generator) -> Rows:
    """Return uniform memberships; labelled nodes at their label."""
    K = problem.n_classes
    return _place_labels(np.full((problem.n_nodes, K), 1.0 / K, dtype=np.float32), problem)


def features(problem: Problem, rng: np.random.Generator) -> Rows:
    """Return memberships by class models fitted to the labelled nodes alone, or k-means without."""
    K = problem.n_classes
    if problem.labels is None or not (problem.labels >= 0).any():
        points = StandardScaler(with_mean=False).fit_transform(points_of(problem))
        if points.shape[1] > _MANY_COLUMNS:
            # Clusters are as far apart in their leading directions, and found many times as fast.
            points = points @ leading_directions(points, max(_MANY_COLUMNS, K))
        return _soften(_cluster(points, K, rng), K)
    known = np.zeros((problem.n_nodes, K), dtype=np.float32)
    models = problem.fit_models(_place_labels(known, problem))
    W = known  # fitted to by now

    def part(lo: int, hi: int) -> None:
        W[lo:hi] = softmax(-problem.costs(models, lo, hi), axis=1)

    threads.map_rows(part, problem.n_nodes)
    return _place_labels(W, problem)


def spectral(problem: Problem, rng: np.random.Generator) -> Rows:
    """Return memberships by k-means on the leading eigenvectors of ``A − ddᵀ/Σd``."""
    return _by_eigenvectors(problem, rng, "LA")


def opposed(problem: Problem, rng: np.random.Generator) -> Rows:
    """Return memberships by k-means on the last eigenvectors: classes that avoid links inside."""
    return _by_eigenvectors(problem, rng, "SA")


def _by_eigenvectors(problem: Problem, rng: np.random.Generator, which: str) -> Rows:
    assert problem.graph is not None
    n, K = problem.n_nodes, problem.n_classes
    if problem.graph.kinds and which == "LA" and n < _MANY_NODES:
        vectors = _vectors_of_kinds(problem.graph.kinds, K, rng)
        if vectors.shape[1] or problem.graph.directed:
            return _from_vectors(vectors, problem, rng)
        # Classes that stand out in no kind may do so in all links together.
    degrees, total = problem.graph.degrees, problem.graph.total
    # In the precision of the links: otherwise every product would convert all of them.
    modularity = NullCorrected(problem.graph, degrees / np.sqrt(total), t=1.0, dtype=np.float32)
    k = min(max(K - 1, 1), n - 2)
    if n >= _MANY_NODES:
        sign = 1.0 if which == "LA" else -1.0
        return _from_vectors(_leading_vectors(modularity, sign, k, rng), problem, rng)
    cheap = _PRODUCTS // (problem.graph.n_entries * (k + 1))
    try:
        _, vectors = eigsh(
            modularity,
            k=k,
            which=which,
            v0=rng.standard_normal(n).astype(np.float32),
            maxiter=max(_RESTARTS, cheap),
            tol=1e-3,
        )
    except ArpackNoConvergence as stopped:
        vectors = stopped.eigenvectors
    return _from_vectors(vectors, problem, rng)


def _vectors_of_kinds(
    kinds: tuple[Graph | DirectedGraph, ...], n_classes: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return singular vectors of all kinds side by side, those that chance would bring left out.

    Links that seek their own class and links that avoid it count alike. Of a kind with a direction
    these are left and right vectors: where links lead to, and where they come from.
    """
    found = []
    for kind in kinds:
        n, ones = kind.n_nodes, np.ones((kind.n_nodes, 1), dtype=np.float32)
        degrees = [side.near(ones, 0, n)[:, 0] for side in kind.sides]
        total = max(float(degrees[0].sum()), 1e-300)
        links = LinearOperator(
            (n, n),
            matvec=partial(_times, kind.sides[0], degrees[0], degrees[-1] / total),
            rmatvec=partial(_times, kind.sides[-1], degrees[-1], degrees[0] / total),
            dtype=np.float64,
        )
        try:
            left, values, right = svds(
                links,
                k=min(max(n_classes - 1, 1), n - 2),
                v0=rng.standard_normal(n),
                maxiter=10 * _RESTARTS,
                tol=1e-3,
            )
        except ArpackNoConvergence:
            continue
        by_chance = 2.0 * np.sqrt(kind.unit * total / n)
        clear = np.maximum(values / by_chance - 1.0, 0.0)
        parts = (left, right.T) if kind.directed else (left,)
        found += [part * np.sqrt(n) * clear for part in parts]
    vectors = np.concatenate(found, axis=1) if found else np.zeros((0, 0))
    return vectors[:, np.abs(vectors).max(axis=0, initial=0.0) > 0]


def _times(side: Side, own: Array, far: Array, x: NDArray[Any]) -> Array:
    """Return the product with the links of a side, less what chance would bring."""
    rows = np.ascontiguousarray(x.reshape(len(own), 1), np.float32)
    return np.asarray(side.near(rows, 0, len(own))[:, 0] - own * float(far @ x.ravel()))


def _leading_vectors(
    modularity: NullCorrected, sign: float, k: int, rng: np.random.Generator
) -> NDArray[np.float32]:
    """Return about the k leading eigenvectors of ±B, by powers of B on a random subspace.

    A product with many vectors takes little longer than one with a single vector, so this costs
    no more than some sweeps, where the Lanczos method would take as long as whole fits. B is
    shifted by the radius of the spectrum of a random graph, so that its other end is kept small.
    """
    n = modularity.shape[0]
    shift = np.float32(2.0 * np.sqrt(modularity.graph.total / n))
    Q = rng.standard_normal((n, k + _OVERSAMPLED), dtype=np.float32)
    for power in range(_POWERS):
        Q = np.float32(sign) * (modularity @ Q) + shift * Q
        if power % 2:
            Q = _orthonormal(Q)
    Q = _orthonormal(Q)
    _, mixing = np.linalg.eigh(Q.T @ (np.float32(sign) * (modularity @ Q)))
    return np.asarray(Q @ mixing[:, ::-1][:, :k], dtype=np.float32)


def _orthonormal(Q: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return an orthonormal basis of the columns, by two rounds of Cholesky's method."""

    def products(lo: int, hi: int) -> NDArray[np.float64]:
        return np.asarray(Q[lo:hi].T.astype(np.float64) @ Q[lo:hi])

    for _ in range(2):
        gram = threads.sum_rows(products, len(Q))
        gram += 1e-7 * np.trace(gram) / len(gram) * np.eye(len(gram))
        Q = Q @ np.linalg.inv(np.linalg.cholesky(gram)).T.astype(np.float32)
    return Q


def _from_vectors(vectors: NDArray[Any], problem: Problem, rng: np.random.Generator) -> Rows:
    K = problem.n_classes
    if vectors.shape[1] == 0:
        return random(problem, rng)
    W = _soften(_cluster(vectors, K, rng), K)
    if problem.labels is not None:
        W = W[:, match_labels(W, problem.labels)]
    return _place_labels(np.ascontiguousarray(W), problem)


STARTS: dict[str, Callable[[Problem, np.random.Generator], Rows]] = {
    "random": random,
    "labels": labels,
    "features": features,
    "spectral": spectral,
    "opposed": opposed,
}


def named_start(name: str, problem: Problem, rng: np.random.Generator) -> Rows:
    """Return the memberships of a start, shape (n, K), or raise an error if it lacks its data."""
    needed = {"labels": "labels", "features": "features", "spectral": "links", "opposed": "links"}
    if name not in STARTS:
        raise InputError(f"there is no start {name!r}; starts: {', '.join(STARTS)}")
    if name != "random" and ("spectral" if name == "opposed" else name) not in promising_starts(
        problem
    ):
        raise InputError(f"the start {name!r} needs {needed[name]}, which the problem lacks")
    return STARTS[name](problem, rng)


def choose_starts(problem: Problem, n_init: int | str) -> list[str]:
    """Return the names of the starts to try: the most promising first.

    "auto" takes one where a sweep is dear, and up to four where it is cheap.
    """
    promising = promising_starts(problem)
    if problem.calibrated and any(term.discriminative for term in problem.terms):
        return ["labels"]  # what a classifier learns from the labels leaves nothing to chance
    if n_init == "auto":
        links = problem.graph.n_entries if problem.graph else 0
        n_init = 4 if (problem.n_nodes + links) * problem.n_classes <= _CHEAP else 1
    alone = problem.labels is None or "features" not in promising
    if problem.calibrated and alone and "spectral" in promising:
        # Links alone, or with few labels, may not show whether classes seek links or avoid them.
        promising.append("opposed")
    return (promising + ["random"] * int(n_init))[: int(n_init)]


def few_starts(problem: Problem) -> int:
    """Return the number of starts of each of many fits: one, or two of several kinds of links.

    Kinds that say nothing lead memberships astray that start from a few labels. Where a sweep is
    cheap, the eigenvectors of those that stand out are a start, too.
    """
    several = problem.graph is not None and len(problem.graph.kinds) > 1
    return min(2, len(choose_starts(problem, "auto"))) if several else 1


def promising_starts(problem: Problem) -> list[str]:
    """Return the names of the starts that have data to use, best first."""
    K, n = problem.n_classes, problem.n_nodes
    has_links = problem.graph is not None and problem.graph.total > 0 and n > max(K, 3)
    has_labels = problem.labels is not None and (problem.labels >= 0).any()
    promising = []
    if has_labels:
        promising.append("labels")
    if has_links:
        promising.append("spectral")
    has_features = any(term.source == "features" for term in problem.terms)
    if has_features and n >= K and (has_labels or points_of(problem) is not None):
        promising.append("features")
    return promising


def points_of(problem: Problem) -> Any:
    """Return the features to cluster where there are no labels, shape (n, d); None without any."""
    features = (term.points() for term in problem.terms if term.source == "features")
    return next((points for points in features if points is not None), None)


def _place_labels(W: Rows, problem: Problem) -> Rows:
    if problem.labels is not None:
        known = np.flatnonzero(problem.labels >= 0)
        W[known] = 0.0
        W[known, problem.labels[known]] = 1.0
    return W


def _cluster(
    points: NDArray[np.float64], n_clusters: int, rng: np.random.Generator
) -> NDArray[np.int32]:
    seed = int(rng.integers(2**31 - 1))
    with warnings.catch_warnings():
        # Fewer distinct points than clusters: harmless, and not for the user to fix.
        warnings.simplefilter("ignore", ConvergenceWarning)
        # Of very many points, an even sample shows where the clusters are.
        step = -(-points.shape[0] // _SAMPLE)
        means = KMeans(n_clusters, n_init=4, random_state=seed).fit(points[::step])
        found: NDArray[np.int32] = means.predict(points)
    return found


def _soften(clusters: NDArray[np.int32], n_classes: int) -> Rows:
    """Return memberships that favour their cluster but can still be moved."""
    W = np.full((len(clusters), n_classes), 0.2 / n_classes, dtype=np.float32)
    W[np.arange(len(clusters)), clusters] += 0.8
    return W


@dataclass(frozen=True)
class Disposable:
    """Memberships to start from that nobody else needs: a solver works on them in place.

    Attributes
    ----------
    W : ndarray of shape (n, K), float32
        The memberships.
    """

    W: Rows


def as_memberships(start: Any, n_nodes: int, n_classes: int) -> Rows:
    """Return a given start as memberships of shape (n, K), or raise an error.

    It is copied, unless it is `Disposable`.
    """
    if isinstance(start, Disposable):
        rows = start.W
    else:
        rows = np.array(start, dtype=np.float32, order="C")
    shape = (n_nodes, n_classes)

    def normalise(lo: int, hi: int) -> bool:
        part = rows[lo:hi]
        totals = part.sum(axis=1, keepdims=True)
        if not ((part >= 0).all() and (totals > 0).all()):
            return False
        part /= totals
        return True

    if rows.shape != shape or not all(threads.map_rows(normalise, n_nodes)):
        raise InputError(
            f"a start must have non-negative rows that are not all zero, shape {shape}; got shape "
            f"{rows.shape}"
        )
    return rows
