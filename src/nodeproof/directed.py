"""Links with a direction, and their null model."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.csr import unless_all_one
from nodeproof.graph import Graph, Side, mass_between, null_factors
from nodeproof.runtime import threads

__all__ = ["DirectedGraph"]

Array = NDArray[np.float64]


class DirectedGraph:
    """Links with a direction, and their null model ``N_uv = η_u η'_v`` of a link u → v.

    Parameters
    ----------
    links : csr_array of shape (n, n)
        Row u has the links that leave u; sorted rows, no self loops, weights > 0.
    undirected : Graph
        The same links without their direction.

    Attributes
    ----------
    total, all_pairs, density, unit
        As those of a `Graph`, each link counted at both of its ends.
    """

    name: str = ""
    kinds: tuple[Graph | DirectedGraph, ...] = ()
    directed = True

    def __init__(self, links: sp.csr_array, undirected: Graph) -> None:
        self.links, self.undirected = links, undirected
        self.n_nodes, self.null_model = links.shape[0], undirected.null_model
        self.n_entries = 2 * links.nnz
        weights = unless_all_one(links.data)
        self.weighted = len(weights) > 0
        leaving, arriving = (np.asarray(links.sum(axis=k, dtype=np.float64)) for k in (1, 0))
        whole = float(leaving.sum())
        self.unit = whole / links.nnz if self.weighted else 1.0
        if self.null_model == "degree":
            eta, far = (null_factors(degrees, "degree", whole) for degrees in (leaving, arriving))
        else:
            eta = far = undirected.eta
        back = sp.csr_array(links.T)
        back.sort_indices()
        self.sides = (
            Side(links.indptr, links.indices, weights, eta, far),
            Side(
                back.indptr, back.indices, back.data if self.weighted else weights, far, eta, True
            ),
        )
        self.total = 2.0 * whole
        self.all_pairs = 2.0 * float(eta.sum() * far.sum() - eta @ far)
        self.density = self.total / self.all_pairs if self.all_pairs > 0 else 0.0

    def reordered(self, order: NDArray[np.int64]) -> DirectedGraph:
        """Return the same graph with node ``order[k]`` at position k."""
        rows = sp.csr_array(self.links[order][:, order])
        rows.sort_indices()
        moved = DirectedGraph(rows, self.undirected.reordered(order))
        moved.name = self.name
        return moved

    def link_mass(self, W: NDArray[Any], matrix: bool = True) -> Array:
        """Return ``2 Σ A_uv W_ui W_vj`` over links u → v, shape (K, K); or its trace."""
        W, leaving = np.ascontiguousarray(W), self.sides[0]

        def part(lo: int, hi: int) -> Array:
            return mass_between(W[lo:hi], leaving.near(W, lo, hi), matrix)

        return 2.0 * threads.sum_rows(part, self.n_nodes)

    def pair_mass(self, W: NDArray[Any], matrix: bool = True) -> Array:
        """Return ``2 Σ_{u≠v} η_u η'_v W_ui W_vj``, shape (K, K); or its trace."""
        side, K = self.sides[0], W.shape[1]

        def part(lo: int, hi: int) -> Array:
            rows = np.asarray(W[lo:hi], dtype=np.float64)
            eta, far = side.eta[lo:hi, None], side.far[lo:hi, None]
            own = (eta * rows).T @ (far * rows)
            return np.vstack([(eta * rows).sum(axis=0), (far * rows).sum(axis=0), own])

        sums = threads.sum_rows(part, self.n_nodes)
        pairs = 2.0 * (np.outer(sums[0], sums[1]) - sums[2 : K + 2])
        return pairs if matrix else np.full((1, 1), np.trace(pairs))
