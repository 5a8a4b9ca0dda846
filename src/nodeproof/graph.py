"""The graph term: `A − tN` as an operator, and the affinities that weigh it.

``N_uv = η_u η_v`` is the null model: ``η = 1`` ("uniform", the planted partition) or
``η = d/√Σd`` ("degree", for graphs with hubs). Nothing here is ever n×n and dense.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from nodeproof import kernels, threads
from nodeproof.adjacency import check_adjacency, unless_all_one
from nodeproof.errors import InputError

__all__ = ["Affinity", "Graph", "NullCorrected"]

Array = NDArray[np.float64]

# Degrees spread by chance (Poisson) and, in a planted partition, by unequal class sizes. A
# squared coefficient of variation this far beyond chance means hubs.
_HUB_DISPERSION = 0.25

# How many links a guess about the contrast of densities is worth.
_GUESS_LINKS = 20.0

# Keeps estimated densities off 0 and 1, where log-odds are infinite.
_TINY = 1e-12


class NullCorrected(LinearOperator):
    """The operator ``A − t·N`` with a zero diagonal: sparse plus rank one plus diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.graph import Graph
    >>> path = Graph(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    >>> path.operator(t=0.5) @ np.eye(3)
    array([[ 0. ,  0.5, -0.5],
           [ 0.5,  0. ,  0.5],
           [-0.5,  0.5,  0. ]])
    """

    def __init__(
        self, adjacency: sp.csr_array, eta: Array, t: float, dtype: Any = np.float64
    ) -> None:
        super().__init__(dtype=np.dtype(dtype), shape=adjacency.shape)
        self.adjacency, self.eta, self.t = adjacency, eta.astype(dtype), t

    def _matmat(self, M: Array) -> Array:
        eta = self.eta[:, None]
        return np.asarray(self.adjacency @ M - self.t * eta * (self.eta @ M - eta * M))

    def _matvec(self, x: Array) -> Array:
        return self._matmat(x.reshape(-1, 1))[:, 0]

    def _adjoint(self) -> NullCorrected:
        return self


class Graph:
    """An undirected graph with its null model.

    Parameters
    ----------
    graph : object
        Anything that :func:`nodeproof.adjacency.check_adjacency` reads.
    null_model : {"auto", "uniform", "degree"}
        "auto" takes "degree" where the degrees spread far more than chance allows.
    n_nodes : int, optional
        Number of nodes, where it is known already.

    Attributes
    ----------
    adjacency : scipy.sparse.csr_array of shape (n, n)
        Symmetric, without self loops.
    eta : ndarray of shape (n,)
        The factors of the null model; 0 for nodes without a link.
    weights : ndarray of shape (nnz,), or (0,) where all weights are one
        For the kernels.
    """

    def __init__(self, graph: Any, null_model: str = "auto", n_nodes: int | None = None) -> None:
        self.adjacency = check_adjacency(graph, n_nodes)
        self.n_nodes: int = self.adjacency.shape[0]
        self.weights = unless_all_one(self.adjacency.data)
        self.weighted = len(self.weights) > 0
        self.degrees: Array = np.asarray(self.adjacency.sum(axis=1, dtype=np.float64)).ravel()
        self.total = float(self.degrees.sum())
        # One link of mean weight counts as one observation, whatever the unit of the weights.
        self.unit = self.total / len(self.weights) if self.weighted else 1.0
        if null_model == "auto":
            null_model = "degree" if self.degree_dispersion() > _HUB_DISPERSION else "uniform"
        if null_model not in ("uniform", "degree"):
            raise InputError(
                f"null_model must be 'auto', 'uniform' or 'degree', got {null_model!r}"
            )
        self.null_model = null_model
        if null_model == "degree" and self.total > 0:
            self.eta = self.degrees / np.sqrt(self.total)
        else:
            # Of a node without any link nothing is known, not even that it avoids others.
            self.eta = (self.degrees > 0).astype(np.float64)

    def degree_dispersion(self) -> float:
        """Return the squared coefficient of variation of the degrees beyond Poisson noise.

        Nodes without a link do not count.
        """
        degrees = self.degrees[self.degrees > 0]
        if len(degrees) == 0:
            return 0.0
        # A sum of links varies by chance as the sum of their squared weights.
        squares = self.total
        if self.weighted:
            squares = float(np.einsum("e,e->", self.weights, self.weights, dtype=np.float64))
        noise = squares / len(degrees)
        return float((degrees.var() - noise) / degrees.mean() ** 2)

    def operator(self, t: float) -> NullCorrected:
        """Return ``A − tN`` (zero diagonal) as a linear operator."""
        return NullCorrected(self.adjacency, self.eta, t)

    def phi(self, W: Array, s: float, t: float) -> float:
        """Return the paper's graph term ``−s Σ_{u≠v} (A − tN)_uv (√W√Wᵀ)_uv``."""
        root = np.sqrt(W)
        return -s * float(np.vdot(root, self.operator(t) @ root))

    def phi_gradient(self, W: Array, s: float, t: float) -> Array:
        """Return its derivative with respect to W, shape (n, K): infinite where W is 0."""
        root = np.sqrt(W)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(-s * (self.operator(t) @ root) / root)

    def link_mass(self, W: NDArray[Any], matrix: bool = False) -> Array:
        """Return ``Σ_{u≠v} A_uv W_ui W_vj``: its trace, shape (1, 1), or all of it, (K, K)."""
        A, W = self.adjacency, np.ascontiguousarray(W)

        def part(lo: int, hi: int) -> Array:
            mass = np.zeros((W.shape[1],) * 2 if matrix else (1, 1))
            kernels.link_mass(lo, hi, A.indptr, A.indices, self.weights, W, mass)
            return mass

        return threads.sum_rows(part, self.n_nodes)

    def pair_mass(self, W: NDArray[Any], matrix: bool = False) -> Array:
        """Return ``Σ_{u≠v} η_u η_v W_ui W_vj``: its trace, shape (1, 1), or all, (K, K)."""
        totals = self.null_totals(W)

        def part(lo: int, hi: int) -> Array:
            rows = self.eta[lo:hi, None] * W[lo:hi]
            return rows.T @ rows if matrix else np.full((1, 1), np.vdot(rows, rows))

        pairs = np.outer(totals, totals) if matrix else np.full((1, 1), totals @ totals)
        return np.asarray(pairs - threads.sum_rows(part, self.n_nodes))

    def null_totals(self, W: NDArray[Any]) -> Array:
        """Return ``Σ_v η_v W_vi``, shape (K,)."""
        return threads.sum_rows(lambda lo, hi: self.eta[lo:hi] @ W[lo:hi], self.n_nodes)

    @property
    def all_pairs(self) -> float:
        """``Σ_{u≠v} N_uv``."""
        return float(self.eta.sum()) ** 2 - float(self.eta @ self.eta)

    @property
    def density(self) -> float:
        """Links per pair of the null model."""
        return self.total / self.all_pairs if self.all_pairs > 0 else 0.0


@dataclass(frozen=True)
class Affinity:
    """How strongly links (and missing links) bind: ``ℓ`` and ``ℓt``, one pair or K×K.

    A link between classes i and j is worth ``ℓ_ij`` to a node, a pair of weight N costs
    ``(ℓt)_ij · N``. With one pair, it holds for i = j and the others are zero. The product ℓt
    is kept as one number, because t alone is 0/0 where links say nothing.

    Attributes
    ----------
    ell, ell_t : ndarray of shape (1, 1) or (K, K)
        Both symmetric.
    constant : float
        What the −log-likelihood has beside the sum over pairs, so that estimates can be
        compared; 0 for fixed weights.
    """

    ell: Array
    ell_t: Array
    constant: float = 0.0

    @classmethod
    def fixed(cls, s: float, t: float) -> Affinity:
        """Return the pair of the paper's objective with scale s and threshold t: ℓ = 2s."""
        return cls(np.array([[2.0 * s]]), np.array([[2.0 * s * t]]))

    @classmethod
    def assumed(
        cls,
        graph: Graph,
        labels: NDArray[np.int64] | None = None,
        start: NDArray[Any] | None = None,
    ) -> Affinity:
        """Return the pair to begin with, from the labelled nodes and a guess.

        The guess is that links are twice as dense inside classes, at the graph's mean density;
        or half as dense, where the start says so beyond chance. It weighs as much as
        ``_GUESS_LINKS`` links each way; links among labelled nodes are counted on top.

        Parameters
        ----------
        labels : ndarray of shape (n,), optional
            Given labels, −1 where there is none.
        start : ndarray of shape (n, K), optional
            Rows that a solver starts from.
        """
        links, pairs = np.zeros(2), np.zeros(2)
        if labels is not None and (labels >= 0).any():
            links, pairs = _labelled_mass(graph, labels)
        guess = graph.density * np.array([np.sqrt(2.0), np.sqrt(0.5)])
        if start is not None and _avoids_itself(graph, start):
            guess = guess[::-1]
        weight = _GUESS_LINKS * graph.unit / graph.density if graph.density > 0 else 1.0
        rates = _bounded((links + weight * guess) / (pairs + weight), graph)
        worth, price = _worth_and_price(rates, graph)
        return cls(np.array([[worth[0] - worth[1]]]), np.array([[price[0] - price[1]]]))

    @classmethod
    def estimate(cls, graph: Graph, links: Array, pairs: Array) -> Affinity:
        """Return the likeliest affinities, given what links and pairs the classes share.

        Parameters
        ----------
        graph : Graph
            Says which likelihood holds: Bernoulli for 0/1 links under the uniform null model,
            Poisson otherwise.
        links, pairs : ndarray of shape (1, 1) or (K, K)
            As :meth:`Graph.link_mass` and :meth:`Graph.pair_mass` give them: one affinity for
            all classes, or one for each two.
        """
        if links.shape == (1, 1):
            inside = np.array([links[0, 0], graph.total - links[0, 0]])
            within = np.array([pairs[0, 0], graph.all_pairs - pairs[0, 0]])
            worth, price = _worth_and_price(_rates(inside, within, graph), graph)
            constant = 0.5 * (price[1] * graph.all_pairs - worth[1] * graph.total)
            return cls(
                np.array([[worth[0] - worth[1]]]),
                np.array([[price[0] - price[1]]]),
                constant + _rate_penalty(worth, price, graph),
            )
        links = 0.5 * (links + links.T)
        worth, price = _worth_and_price(_rates(links, pairs, graph), graph)
        # A common offset of all worths changes nothing but the size of the numbers.
        offset = float(worth.mean())
        constant = _rate_penalty(worth, price, graph) - 0.5 * offset * graph.total
        return cls(worth - offset, price, constant)

    def times(self, factor: float) -> Affinity:
        """Return all of it multiplied."""
        if factor == 1.0:
            return self
        return Affinity(factor * self.ell, factor * self.ell_t, factor * self.constant)

    @property
    def t(self) -> float:
        """The threshold (one pair only); nan where ℓ is 0."""
        ell = float(self.ell[0, 0])
        return float(self.ell_t[0, 0]) / ell if ell else float("nan")

    def energy(self, links: Array, pairs: Array) -> float:
        """Return ``−½ Σ_ij (ℓ_ij M_ij − (ℓt)_ij P_ij)`` plus the constant.

        Parameters
        ----------
        links, pairs : ndarray of the shape of ℓ
            As :meth:`Graph.link_mass` and :meth:`Graph.pair_mass` give them.
        """
        bound = np.vdot(self.ell, links) - np.vdot(self.ell_t, pairs)
        return float(self.constant - 0.5 * bound)


def _avoids_itself(graph: Graph, W: NDArray[Any]) -> bool:
    """Tell whether classes hold fewer links than chance would give them, by four sigmas."""
    links = 0.5 * graph.link_mass(W, False)[0, 0] / graph.unit
    by_chance = 0.5 * graph.density * graph.pair_mass(W, False)[0, 0] / graph.unit
    return bool(links < by_chance - 4.0 * np.sqrt(by_chance))


def _is_bernoulli(graph: Graph) -> bool:
    return graph.null_model == "uniform" and not graph.weighted


def _rates(links: Array, pairs: Array, graph: Graph) -> Array:
    """Return links per pair, drawn lightly (by one pair's worth) to the graph's density."""
    one = _one_pair(graph)
    rates = (np.maximum(links, 0.0) + one * graph.density) / (np.maximum(pairs, 0.0) + one)
    return _bounded(rates, graph)


def _one_pair(graph: Graph) -> float:
    """Return what one pair is worth: under the degree null model, pairs are in weights."""
    return graph.unit if graph.null_model == "degree" else 1.0


def _bounded(rates: Array, graph: Graph) -> Array:
    least = _TINY * (graph.density or 1.0)
    return np.asarray(np.clip(rates, least, 1 - _TINY if _is_bernoulli(graph) else np.inf))


def _labelled_mass(graph: Graph, labels: NDArray[np.int64]) -> tuple[Array, Array]:
    """Return links and pairs among labelled nodes: (of equal labels, of different ones)."""
    known = np.flatnonzero(labels >= 0)
    y, eta = labels[known], graph.eta[known]
    among = graph.adjacency[known][:, known].tocoo()
    equal = float(among.data[y[among.row] == y[among.col]].sum())
    pairs_equal = float((np.bincount(y, weights=eta) ** 2).sum() - eta @ eta)
    pairs_all = float(eta.sum() ** 2 - eta @ eta)
    return (
        np.array([equal, float(among.data.sum()) - equal]),
        np.array([pairs_equal, pairs_all - pairs_equal]),
    )


def _worth_and_price(rates: Array, graph: Graph) -> tuple[Array, Array]:
    """Return what a link adds to the log-likelihood, and what a pair takes from it."""
    if _is_bernoulli(graph):
        return np.log(rates) - np.log1p(-rates), -np.log1p(-rates)
    return np.log(rates) / graph.unit, rates / graph.unit


def _rate_penalty(worth: Array, price: Array, graph: Graph) -> float:
    """Return the −log-prior that draws the rates to the graph's density (see `_rates`)."""
    return 0.5 * _one_pair(graph) * float((price - graph.density * worth).sum())
