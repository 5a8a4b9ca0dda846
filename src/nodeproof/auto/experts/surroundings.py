"""What boosted trees are told of nodes without any label: features, surroundings, positions."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from nodeproof.graph import Graph
from nodeproof.smoothing import Reduction, Smoothing
from nodeproof.terms import NodeData

__all__ = ["FEW_LINKS", "HOPS", "Surroundings", "divided", "own_columns"]

Array = NDArray[np.float64]
Rows = NDArray[np.float32]

# So many columns are averaged over neighbours; of more, their leading directions.
_AVERAGED = 16

# Hops of the features that regressions learn from.
HOPS = (0, 2, 8)

# Eigenvectors that say where in the graph a node is. Beyond so many links they take too long.
_EIGENVECTORS, FEW_LINKS = 32, 2_000_000
_LEAST_EIGENVALUE, _APART = 0.02, 1e-3


def divided(sums: NDArray[Any], by: NDArray[Any]) -> Rows:
    """Return rows divided by their entries of `by`; nan where that is 0: nothing is known."""
    by = by.reshape(-1, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(by > 0, sums / by, np.nan), dtype=np.float32)


def own_columns(
    X: Any, reduction: Reduction, base: Rows, leading: Rows | None
) -> tuple[Rows, Rows]:
    """Return the own features that trees see, and few of them to be averaged.

    Trees cut single columns: as they are given they are better than in mixtures. Rows of counts
    were scaled to length one, so their sums are added: how much there is of a node.
    """
    few = base if leading is None else base @ leading
    own = base if reduction.directions is None else few
    if not reduction.counts:
        return own, few
    sums = np.log1p(np.asarray(abs(sp.csr_array(X)).sum(axis=1), dtype=np.float64))
    added = sums.reshape(-1, 1).astype(np.float32)
    return np.hstack([own, added]), np.hstack([few, added])


class Surroundings:
    """What is known of nodes without labels; computed once, shared by all folds and settings.

    Parameters
    ----------
    nodes : NodeData
        Features, links, or both.

    Attributes
    ----------
    n_nodes, n_classes : int
        Number of nodes and of classes.
    graph : Graph, or None
        The links.
    alpha : float
        Share of a node's own features in averaged ones.
    regressors : list of ndarray of shape (n, r)
        The features that regressions learn from, averaged over more and more `HOPS`; [] without
        features. Rows are not scaled to length one: scores then stay linear in the features, and
        tell degrees.
    passed_on : list of ndarray of shape (n, r)
        What nodes pass on over these hops, the first of them left out.
    tables : list of ndarray of shape (n, any)
        All columns that do not depend on labels.
    arrays : dict of ndarray
        What new nodes need of it.
    """

    def __init__(self, nodes: NodeData) -> None:
        self.n_nodes, self.n_classes = nodes.n_nodes, nodes.n_classes
        self.graph = nodes.graph
        self.alpha = 0.0
        self.regressors: list[Rows] = []
        self.passed_on: list[Rows] = []
        self.tables: list[Rows] = []
        self.arrays: dict[str, NDArray[Any]] = {}
        if nodes.X is not None and nodes.X.shape[1] > 0:
            self._add_features(nodes.X, nodes.smoothing or Smoothing(nodes.X, nodes.graph))
        if self.graph is not None:
            self._add_links(self.graph)

    def _add_features(self, X: Any, smoothing: Smoothing) -> None:
        base, reduction = smoothing.base, smoothing.reduction
        self.arrays |= reduction.parts
        if base.shape[1] > _AVERAGED:
            leading = np.eye(base.shape[1], _AVERAGED)  # already in the order of their size
            if reduction.directions is None:
                products = base.T.astype(np.float64) @ base
                leading = np.linalg.eigh(products)[1][:, ::-1][:, :_AVERAGED]
            self.arrays["leading"] = leading.astype(np.float32)
        own, few = own_columns(X, reduction, base, self.arrays.get("leading"))
        self.tables.append(own)
        self.alpha, self.regressors = smoothing.alpha, [base]
        if self.graph is not None:
            self.regressors += [smoothing.unscaled(hops) for hops in HOPS[1:]]
            self.passed_on = [smoothing.lagged(hops) for hops in HOPS[1:]]
            once = self.mean(few)
            self.arrays |= {"few": few, "once": np.nan_to_num(once)}
            self.tables += [once, self.mean(np.nan_to_num(once))]

    def _add_links(self, graph: Graph) -> None:
        degrees = np.asarray(graph.degrees / graph.unit, dtype=np.float32)
        logs = np.log1p(degrees)[:, None]
        tau = max(float(degrees.mean()), 1.0)
        values, vectors = _positions(graph, degrees, tau)
        self.tables += [logs, self.mean(logs), vectors]
        self.arrays |= {
            "degrees": degrees,
            "tau": np.array(tau),
            "eigenvalues": values,
            "eigenvectors": vectors,
        }

    def mean(self, M: NDArray[Any]) -> Rows:
        """Return means over the neighbours of each node; nan if it has none."""
        assert self.graph is not None
        return divided(self.graph.times(np.asarray(M, dtype=np.float32)), self.graph.degrees)


def _positions(graph: Graph, degrees: Rows, tau: float) -> tuple[Array, Rows]:
    """Return leading eigenvalues, descending, and eigenvectors of ``(D + τ)^-1 A``, (e,), (n, e).

    With τ the mean degree, small components do not lead.
    """
    n = graph.n_nodes
    count = min(_EIGENVECTORS, n // 4)
    if count == 0 or graph.n_entries == 0 or graph.n_entries > 2 * FEW_LINKS:
        return np.zeros(0), np.zeros((n, 0), dtype=np.float32)
    scale = 1.0 / np.sqrt(degrees.astype(np.float64) + tau)
    A = sp.csr_array(graph.adjacency, dtype=np.float64) / graph.unit
    # Moved a little apart: where eigenvalues coincide, or all but a few are zero, ARPACK starts
    # again from vectors that nobody has seeded.
    rng = np.random.default_rng(0)
    apart = _APART * rng.random(n)
    operator = LinearOperator(
        (n, n), lambda x: scale * (A @ (scale * x.ravel())) + apart * x.ravel(), dtype=np.float64
    )
    try:
        values, vectors = eigsh(operator, k=count, which="LA", v0=rng.normal(size=n), tol=1e-3)
    except ArpackNoConvergence as found:
        values, vectors = found.eigenvalues, found.eigenvectors
    # New nodes are placed by dividing by the eigenvalue.
    kept = np.flatnonzero(values > _LEAST_EIGENVALUE)[::-1]
    vectors = scale[:, None] * vectors[:, kept]
    vectors /= np.maximum(np.abs(vectors).max(axis=0), 1e-300)
    return values[kept], np.asarray(vectors, dtype=np.float32)
