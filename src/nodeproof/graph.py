"""The graph term: `A − tN` as an operator, and the affinities that weigh it.

``N_uv = η_u η_v`` is the null model: ``η = 1`` ("uniform", the planted partition) or
``η = d/√Σd`` ("degree", for graphs with hubs). Nothing here is ever n×n and dense.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from nodeproof import kernels, threads
from nodeproof.adjacency import check_adjacency, unless_all_one
from nodeproof.errors import InputError

if TYPE_CHECKING:
    from nodeproof.io.graph_folder import GraphFolder

__all__ = ["Affinity", "Graph", "NullCorrected", "RowSums"]

Array = NDArray[np.float64]

# Degrees spread by chance (Poisson) and, in a planted partition, by unequal class sizes. A
# squared coefficient of variation this far beyond chance means hubs.
_HUB_DISPERSION = 0.25

# How many links a guess about the contrast of densities is worth.
_GUESS_LINKS = 20.0

# Links of so many labelled nodes, evenly spaced, say how densely classes are linked.
_MOST_ASKED = 20_000

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

    def __init__(self, graph: Graph, eta: Array, t: float, dtype: Any = np.float64) -> None:
        super().__init__(dtype=np.dtype(dtype), shape=(graph.n_nodes, graph.n_nodes))
        self.graph, self.eta, self.t = graph, eta.astype(dtype), t

    def _matmat(self, M: Array) -> Array:
        eta = self.eta[:, None]
        return np.asarray(self.graph.times(M) - self.t * eta * (self.eta @ M - eta * M))

    def _matvec(self, x: Array) -> Array:
        return self._matmat(x.reshape(-1, 1))[:, 0]

    def _adjoint(self) -> NullCorrected:
        return self


@dataclass(frozen=True)
class RowSums:
    """What is needed of W beside its links, from one pass.

    Attributes
    ----------
    totals : ndarray of shape (K,)
        ``Σ_v η_v W_vi``.
    sizes : ndarray of shape (K,)
        ``Σ_v W_vi``.
    squares : ndarray of shape (1, 1) or (K, K)
        ``Σ_v η_v² W_vi W_vj``: its trace, or all of it.
    """

    totals: Array
    sizes: Array
    squares: Array

    @classmethod
    def of(cls, W: NDArray[Any], eta: Array, matrix: bool = False) -> RowSums:
        """Return the sums over all rows."""
        return cls.split(
            threads.sum_rows(lambda lo, hi: cls.part(W, eta, matrix, lo, hi), len(W)), W.shape[1]
        )

    @staticmethod
    def part(W: NDArray[Any], eta: Array, matrix: bool, lo: int, hi: int) -> Array:
        """Return the sums over rows lo…hi as one array."""
        K = W.shape[1]
        sums = np.zeros(2 * K + (K * K if matrix else 1))
        side = K if matrix else 1
        squares = sums[2 * K :].reshape(side, side)
        kernels.row_sums(lo, hi, eta, W, sums[:K], sums[K : 2 * K], squares)
        return sums

    @classmethod
    def split(cls, sums: Array, n_classes: int) -> RowSums:
        """Return the sums out of one array."""
        K, squares = n_classes, sums[2 * n_classes :]
        side = round(len(squares) ** 0.5)
        return cls(sums[:K], sums[K : 2 * K], squares.reshape(side, side))

    @property
    def pairs(self) -> Array:
        """``Σ_{u≠v} η_u η_v W_ui W_vj``: its trace, shape (1, 1), or all of it, (K, K)."""
        if self.squares.shape == (1, 1):
            return np.asarray(self.totals @ self.totals - self.squares)
        return np.asarray(np.outer(self.totals, self.totals) - self.squares)


class Graph:
    """An undirected graph with its null model.

    Parameters
    ----------
    graph : object
        Anything that :func:`nodeproof.adjacency.check_adjacency` reads, or a
        folder that `nodeproof convert` wrote: its path, or a
        :class:`nodeproof.io.graph_folder.GraphFolder`.
    null_model : {"auto", "uniform", "degree"}
        "auto" takes "degree" where the degrees spread far more than chance allows.
    n_nodes : int, optional
        Number of nodes, where it is known already.

    Attributes
    ----------
    n_nodes, n_entries : int
        Nodes, and stored links: each counts in both directions.
    indptr, indices : ndarray of shape (n + 1,) and (n_entries,)
        The links in CSR form, rows sorted, symmetric, without self loops; of a folder on disk
        they are memory-mapped.
    weights : ndarray of shape (n_entries,), or (0,) where all weights are one
        For the kernels.
    degrees : ndarray of shape (n,)
        Sums of weights.
    eta : ndarray of shape (n,)
        The factors of the null model; 0 for nodes without a link.
    """

    def __init__(self, graph: Any, null_model: str = "auto", n_nodes: int | None = None) -> None:
        if isinstance(graph, str | PathLike):
            from nodeproof.io.graph_folder import GraphFolder

            graph = GraphFolder.open(graph)
        #: the folder on disk that the links are in, if they are
        self.folder: GraphFolder | None = None
        if hasattr(graph, "indptr") and hasattr(graph, "degrees"):
            self._read_folder(graph, n_nodes)
        else:
            matrix = check_adjacency(graph, n_nodes)
            self.adjacency = matrix
            self.n_nodes = matrix.shape[0]
            self.indptr, self.indices = matrix.indptr, matrix.indices
            self.weights = unless_all_one(matrix.data)
            self.degrees = _degrees(matrix, len(self.weights) > 0)
        self.n_entries = len(self.indices)
        self.weighted = len(self.weights) > 0
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

    def _read_folder(self, folder: GraphFolder, n_nodes: int | None) -> None:
        if n_nodes is not None and n_nodes != folder.n_nodes:
            raise InputError(
                f"the graph in {folder.path} has {folder.n_nodes} nodes but features or labels "
                f"have {n_nodes} rows; they must be listed for the same nodes, in the same order"
            )
        self.folder = folder
        self.n_nodes = folder.n_nodes
        self.indptr, self.indices = folder.indptr, folder.indices
        self.weights, self.degrees = folder.weights, folder.degrees

    @cached_property
    def adjacency(self) -> sp.csr_array:
        """The links as a scipy matrix; of a folder on disk, its weights are made in memory."""
        data = self.weights if self.weighted else np.ones(self.n_entries, dtype=np.float32)
        return sp.csr_array((data, self.indices, self.indptr), shape=(self.n_nodes,) * 2)

    def times(self, M: NDArray[Any]) -> NDArray[Any]:
        """Return ``A @ M``, shape (n, any), in the precision of M: float32 or float64."""
        if M.dtype != np.float32:
            return np.asarray(self.adjacency @ M)
        M = np.ascontiguousarray(M)
        out = np.empty_like(M)

        def part(lo: int, hi: int) -> None:
            out[lo:hi] = self.times_rows(M, lo, hi)

        threads.map_rows(part, self.n_nodes)
        return out

    def times_rows(self, M: NDArray[Any], lo: int, hi: int) -> Array:
        """Return rows lo…hi of ``A @ M`` for contiguous M in float32."""
        out = np.empty((hi - lo, M.shape[1]))
        kernels.product_rows(lo, hi, self.indptr, self.indices, self.weights, M, out)
        return out

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
        return NullCorrected(self, self.eta, t)

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
        W = np.ascontiguousarray(W)
        add = kernels.link_mass if W.dtype == np.float32 else kernels.link_mass_exactly

        def part(lo: int, hi: int) -> Array:
            mass = np.zeros((W.shape[1],) * 2 if matrix else (1, 1))
            add(lo, hi, self.indptr, self.indices, self.weights, W, mass)
            return mass

        return threads.sum_rows(part, self.n_nodes)

    def pair_mass(self, W: NDArray[Any], matrix: bool = False) -> Array:
        """Return ``Σ_{u≠v} η_u η_v W_ui W_vj``: its trace, shape (1, 1), or all, (K, K)."""
        return RowSums.of(W, self.eta, matrix).pairs

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
        masses: tuple[Array, Array] | None = None,
    ) -> Affinity:
        """Return the pair to begin with, from the labelled nodes and a guess.

        The guess is that links are twice as dense inside classes, at the graph's mean density;
        or half as dense, where the start says so beyond chance. It weighs as much as
        ``_GUESS_LINKS`` links each way; links among labelled nodes are counted on top.

        Parameters
        ----------
        labels : ndarray of shape (n,), optional
            Given labels, −1 where there is none.
        masses : pair of ndarray of shape (1, 1), optional
            Link mass and pair mass of the rows that a solver starts from.
        """
        links, pairs = np.zeros(2), np.zeros(2)
        if labels is not None and (labels >= 0).any():
            links, pairs = _labelled_mass(graph, labels)
        guess = graph.density * np.array([np.sqrt(2.0), np.sqrt(0.5)])
        if masses is not None and _avoids_itself(graph, *masses):
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


def _avoids_itself(graph: Graph, links: Array, pairs: Array) -> bool:
    """Tell whether classes hold fewer links than chance would give them, by four sigmas."""
    held = 0.5 * links[0, 0] / graph.unit
    by_chance = 0.5 * graph.density * pairs[0, 0] / graph.unit
    return bool(held < by_chance - 4.0 * np.sqrt(by_chance))


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
    """Return links and pairs of labelled nodes: (of equal labels, of different ones).

    From all labelled nodes, or an even sample of them, to all others.
    """
    known = np.flatnonzero(labels >= 0)
    asked = known[:: -(-len(known) // _MOST_ASKED)]
    y, eta = labels[asked], graph.eta[asked]
    equal, linked = kernels.labelled_links(
        asked, graph.indptr, graph.indices, graph.weights, labels
    )
    totals = np.bincount(labels[known], weights=graph.eta[known])
    pairs_equal = float(eta @ (totals[y] - eta))
    pairs_all = float(eta @ (totals.sum() - eta))
    return (
        np.array([equal, linked - equal]),
        np.array([pairs_equal, pairs_all - pairs_equal]),
    )


def _degrees(matrix: sp.csr_array, weighted: bool) -> Array:
    if not weighted:
        return np.diff(matrix.indptr).astype(np.float64)
    return np.asarray(matrix.sum(axis=1, dtype=np.float64)).ravel()


def _worth_and_price(rates: Array, graph: Graph) -> tuple[Array, Array]:
    """Return what a link adds to the log-likelihood, and what a pair takes from it."""
    if _is_bernoulli(graph):
        return np.log(rates) - np.log1p(-rates), -np.log1p(-rates)
    return np.log(rates) / graph.unit, rates / graph.unit


def _rate_penalty(worth: Array, price: Array, graph: Graph) -> float:
    """Return the −log-prior that draws the rates to the graph's density (see `_rates`)."""
    return 0.5 * _one_pair(graph) * float((price - graph.density * worth).sum())
