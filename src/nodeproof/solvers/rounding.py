"""From similarities to a labelling: several roundings, the best by the objective."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from nodeproof.problem import Models
from nodeproof.program import Decomposition, Program
from nodeproof.solvers.align import match_labels
from nodeproof.terms.labels import Labels

__all__ = ["round_point"]

Array = NDArray[np.float64]
Labelling = NDArray[np.int64]

_RESTARTS = 4


def round_point(
    program: Program, point: Decomposition, rng: np.random.Generator
) -> tuple[NDArray[np.float32], Models, float]:
    """Return the best labelling found with at most K classes: its rows, models and objective.

    Tried are: the blocks of similarities above one half, largest first; k-means on the leading
    eigenvectors of L; growing classes around the nodes that are similar to most others; and,
    where labels are given, the label that each node's own model leans to.
    """
    problem = program.problem
    best: tuple[NDArray[np.float32], Models, float] | None = None
    seen: set[bytes] = set()
    for labelling in _candidates(program, point, rng):
        _, numbers = np.unique(labelling, return_inverse=True)
        if numbers.tobytes() in seen:
            continue
        seen.add(numbers.tobytes())
        W = np.zeros((problem.n_nodes, problem.n_classes), dtype=np.float32)
        W[np.arange(problem.n_nodes), labelling] = 1.0
        if problem.labels is not None and (problem.labels >= 0).any():
            W = np.ascontiguousarray(W[:, match_labels(W, problem.labels)])
        models = problem.fit_models(W)
        value = problem.value(W, models)
        if best is None or value < best[2]:
            best = W, models, value
    assert best is not None
    return best


def _candidates(
    program: Program, point: Decomposition, rng: np.random.Generator
) -> Iterator[Labelling]:
    K, n, L = program.problem.n_classes, program.n_nodes, point.L
    _, blocks = connected_components(csr_array(L > 0.5), directed=False)
    yield _at_most(np.asarray(blocks, dtype=np.int64), L, K)
    yield _grow(L, K)
    for (term, _), part in zip(program.terms, program.models_set.split(point.models), strict=True):
        if isinstance(term, Labels):
            yield part.argmax(axis=1).astype(np.int64)
    values, vectors = np.linalg.eigh(L)
    most = min(K, n)
    for k in {most, min(most, max(1, int((values > 0.5).sum())))}:
        rows = vectors[:, -k:] * np.sqrt(np.maximum(values[-k:], 0.0))
        with warnings.catch_warnings():
            # Fewer distinct rows than clusters: they are then the classes.
            warnings.simplefilter("ignore", ConvergenceWarning)
            seed = int(rng.integers(2**31 - 1))
            found = KMeans(k, n_init=_RESTARTS, random_state=seed).fit_predict(rows)
        yield found.astype(np.int64)


def _grow(L: Array, n_classes: int) -> Labelling:
    """Take the node that is similar to most others, with all that are, until none is left."""
    n = len(L)
    labelling, left = np.full(n, -1, dtype=np.int64), np.ones(n, dtype=bool)
    count = 0
    while left.any():
        center = int(np.where(left, L[:, left].sum(axis=1), -np.inf).argmax())
        members = left & (L[center] > 0.5)
        members[center] = True
        labelling[members] = count
        left &= ~members
        count += 1
    return _at_most(labelling, L, n_classes)


def _at_most(labelling: Labelling, L: Array, n_classes: int) -> Labelling:
    """Keep the largest classes; put other nodes where they are most similar on average."""
    sizes = np.bincount(labelling)
    order = np.argsort(-sizes, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    labelling = rank[labelling]
    if len(sizes) <= n_classes:
        return np.asarray(labelling)
    kept = labelling < n_classes
    members = np.eye(n_classes)[labelling[kept]]
    similar = (L[:, kept] @ members) / members.sum(axis=0)
    return np.where(kept, labelling, similar.argmax(axis=1))
