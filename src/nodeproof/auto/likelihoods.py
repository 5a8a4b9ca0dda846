"""Choice of a likelihood for the features."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.feature_selection import f_classif

from nodeproof.auto.sampling import MANY_ENTRIES
from nodeproof.graph import Graph
from nodeproof.problem import Problem
from nodeproof.solvers import BlockCADO
from nodeproof.terms import Covariance, Gaussian, Labels, Multinomial, NodeData, Term
from nodeproof.terms.covariance import MOST_FEATURES

__all__ = [
    "choose_likelihood",
    "describes_links",
    "every_class_has_labels",
    "has_no_triangles",
    "kinds_overlap",
]

# Means matter if one is this many standard errors from zero, or differs between classes with a
# p-value below this.
_SIGMAS = 4.0
_P_VALUE = 1e-3

# Means and standard deviations are taken over at most this many nodes, evenly spaced.
_MANY = 50_000

_CENTRED = "features are centred: one covariance per class, as in the paper"

# With this many labels per class, a difference of means would show.
_PLENTY = 50

# Paths over two links that are looked at, and the fewest that tell anything.
_PATHS, _FEWEST_PATHS = 4000, 100

# In a block model, ends of such paths are linked at most so many times as often as it says.
_CLOSED_MORE = 1.1

# Kinds of links overlap if so many of the links of one are links of the other, too, and so many
# times as many as densities say.
_SHARED, _SHARED_MORE = 0.1, 1.5

# Otherwise a sample of this many nodes is fitted with and without means.
_SAMPLE = 1000

# Products with a covariance that a node of a large graph may take per link.
_HEAVY = 16.0


def choose_likelihood(nodes: NodeData) -> tuple[Term, str]:
    """Return the likelihood that suits the features best, and the reason."""
    X = nodes.X
    assert X is not None
    if sp.issparse(X):
        if np.asarray(X.data).min(initial=0.0) >= 0:
            return Multinomial(trust=0.1), "sparse features: counts of dependent words"
        return Gaussian(), "sparse features: means and variances per class"
    if X.shape[1] > MOST_FEATURES:
        return Gaussian(), "many features: means and variances per class"
    if _is_heavy(nodes):
        return Gaussian(), "many features in a large graph: means and variances per class"
    intercept, reason = _means_matter(X, nodes.y, nodes.n_classes)
    return Covariance(intercept=intercept), reason


def _is_heavy(nodes: NodeData) -> bool:
    """Tell whether covariances would take far longer than the links, in a large graph."""
    graph, X = nodes.graph, nodes.X
    if X is None or graph is None or graph.n_entries <= MANY_ENTRIES:
        return False
    return X.shape[1] ** 2 > _HEAVY * graph.n_entries / graph.n_nodes


def every_class_has_labels(nodes: NodeData) -> bool:
    """Tell whether every class has a label."""
    return nodes.y is not None and len(np.unique(nodes.y[nodes.y >= 0])) == nodes.n_classes


def _means_matter(X: NDArray[Any], y: NDArray[np.int64] | None, n_classes: int) -> tuple[bool, str]:
    """Tell whether classes may differ in their mean features, not only in covariance."""
    rows = X[:: -(-len(X) // _MANY)]
    mean, spread = rows.mean(axis=0, dtype=np.float64), rows.std(axis=0, dtype=np.float64)
    varying = spread > 1e-9 * np.abs(mean)  # the rest is rounding
    if not varying.any():
        return False, "features are constant"
    off_zero = np.abs(mean[varying]) / spread[varying]
    if (off_zero * np.sqrt(len(rows)) > _SIGMAS).any():
        return True, "features are not centred: a mean and a covariance per class"
    whole = np.abs(X.mean(axis=0, dtype=np.float64)[varying]) / spread[varying]
    if (whole < 1e-6).all() and len(X) > 1:
        # Means this small are no accident: they were subtracted.
        return True, "features were standardised: a mean and a covariance per class"
    if y is not None:
        known = y >= 0
        if known.sum() > len(np.unique(y[known])) > 1:
            with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Features .* are constant")
                _, p_values = f_classif(X[known][:, varying].astype(np.float64), y[known])
            if np.nanmin(p_values, initial=1.0) * varying.sum() < _P_VALUE:
                return True, "class means of the labelled nodes differ: a mean per class"
            if known.sum() >= _PLENTY * n_classes:
                return False, _CENTRED
    if n_classes > 1 and _means_pay(X, y, n_classes):
        return True, "features form groups with different means: a mean per class"
    return False, _CENTRED


def _means_pay(X: NDArray[Any], y: NDArray[np.int64] | None, n_classes: int) -> bool:
    """Tell whether class means lower the free energy of a sample by more than they cost (BIC)."""
    step = -(-len(X) // _SAMPLE)
    sample = NodeData(n_classes, X[::step], None if y is None else y[::step])
    labels = [Labels().bind(sample)] if sample.y is not None else []
    solver = BlockCADO(n_init=2, max_iter=30, tol=1e-2, random_state=0)
    values = []
    for intercept in (False, True):
        term = Covariance(intercept=intercept).bind(sample)
        values.append(solver.solve(Problem(None, [term, *labels], n_classes)).value)
    n, m = sample.X.shape  # type: ignore[union-attr]
    return values[0] - values[1] > 0.5 * n_classes * m * np.log(n)


def describes_links(graph: Graph, codes: NDArray[np.int64], n_classes: int) -> bool:
    """Tell whether links are as a block model has them: neighbours of a node no more often linked.

    In a block model, two neighbours of a node are linked as often as their classes say. In most
    real graphs they are linked many times as often, and the model's likelihood says far too much.

    Parameters
    ----------
    codes : ndarray of shape (n,)
        The class of each node.
    """
    W = np.eye(n_classes, dtype=np.float32)[codes]
    links, pairs = graph.link_mass(W, matrix=True), graph.pair_mass(W, matrix=True)
    rates = links / np.maximum(pairs, 1e-300)
    squares = np.bincount(codes, weights=graph.eta**2, minlength=n_classes)
    firsts = np.bincount(codes, weights=graph.eta, minlength=n_classes)
    # Two neighbours of a node of class j are of classes i and k so often, and linked so often.
    ends = rates * firsts
    closed = np.einsum("ji,jk,ik->j", rates * squares, rates * squares, rates)
    expected_at = closed / np.maximum(ends.sum(axis=1) ** 2, 1e-300)
    several = np.diff(graph.indptr) > 1
    sizes = np.bincount(codes[several], minlength=n_classes)
    expected = float(sizes @ expected_at) / max(sizes.sum(), 1)
    seen, n_paths = _closed_paths(graph)
    if n_paths < _FEWEST_PATHS:
        return False
    error = 2.0 * np.sqrt(max(seen * (1.0 - seen), 1.0 / n_paths) / n_paths)
    return bool(seen <= _CLOSED_MORE * expected + error)


def kinds_overlap(graph: Graph, codes: NDArray[np.int64] | None, n_classes: int) -> bool:
    """Tell whether nodes are linked in two ways more often than densities of both kinds say.

    A block model of several kinds takes their links for independent, given the classes: what two
    kinds have in common would count twice.

    Parameters
    ----------
    codes : ndarray of shape (n,), or None
        The class of each node. If they are not known, links may be shared as often as by classes
        that decide everything.
    """
    kinds = sorted((kind.undirected for kind in graph.kinds), key=lambda kind: kind.n_entries)
    more = _SHARED_MORE * (n_classes if codes is None else 1.0)
    codes = np.zeros(graph.n_nodes, dtype=np.int64) if codes is None else codes
    for b, larger in enumerate(kinds):
        for fewer in kinds[:b]:
            links = fewer.adjacency.astype(bool)
            shared = int(links.multiply(larger.adjacency.astype(bool)).nnz)
            if shared <= _SHARED * fewer.n_entries:
                continue
            by_chance = _chances_of_links(larger, links, codes, more)
            error = 3.0 * np.sqrt(2.0 * by_chance)
            if shared - by_chance > max(_SHARED * fewer.n_entries, error):
                return True
    return False


def _chances_of_links(
    graph: Graph, pairs: sp.csr_array, codes: NDArray[np.int64], more: float
) -> float:
    """Return how many of these pairs should be linked, if so many times as often as densities say.

    The chance of a pair is at most one.
    """
    W = np.eye(int(codes.max()) + 1, dtype=np.float32)[codes]
    rates = graph.link_mass(W, matrix=True) / np.maximum(graph.pair_mass(W, matrix=True), 1e-300)
    found = pairs.tocoo()
    u, v = found.row, found.col
    chances = rates[codes[u], codes[v]] * graph.eta[u] * graph.eta[v] / graph.unit
    return float(np.minimum(more * chances, 1.0).sum())


def has_no_triangles(graph: Graph) -> bool:
    """Tell whether neighbours of a node are hardly ever linked: as in a large block model."""
    seen, n_paths = _closed_paths(graph)
    return n_paths >= _FEWEST_PATHS and seen <= 2.0 / np.sqrt(n_paths)


def _closed_paths(graph: Graph) -> tuple[float, int]:
    """Return how often two neighbours of a node are linked, in a sample, and its size."""
    degrees = np.diff(graph.indptr).astype(np.float64)
    several = np.flatnonzero(degrees > 1)
    if len(several) == 0:
        return 0.0, 0
    rng = np.random.default_rng(0)
    middle = rng.choice(several, size=_PATHS)
    first = (rng.random(_PATHS) * degrees[middle]).astype(np.int64)
    second = (rng.random(_PATHS) * (degrees[middle] - 1)).astype(np.int64)
    second += second >= first
    start = graph.indptr[middle].astype(np.int64)
    u, v = graph.indices[start + first], graph.indices[start + second]
    linked = 0
    for a, b in zip(u.tolist(), v.tolist(), strict=True):
        row = graph.indices[graph.indptr[a] : graph.indptr[a + 1]]
        at = int(np.searchsorted(row, b))
        linked += at < len(row) and row[at] == b
    return linked / _PATHS, int(min((degrees * (degrees - 1.0)).sum(), _PATHS))
