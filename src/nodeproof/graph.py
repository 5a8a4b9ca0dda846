"""The graph term: `A − tN` as an operator, and its sums over memberships W.

``N_uv = η_u η_v`` is the null model: ``η = 1`` ("uniform", the planted partition) or
``η = d/√Σd`` ("degree", for graphs with hubs). No dense n×n matrix is ever formed.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from nodeproof import kernels
from nodeproof.csr import find_twins, product_rows, unless_all_one
from nodeproof.errors import InputError
from nodeproof.inputs.graph_objects import check_adjacency, is_folder
from nodeproof.runtime import threads
from nodeproof.runtime.caching import cached_property

if TYPE_CHECKING:
    from nodeproof.directed import DirectedGraph
    from nodeproof.storage.graph_folder import GraphFolder

__all__ = ["Graph", "NullCorrected", "RowSums", "Side", "null_factors"]

Array = NDArray[np.float64]

# Degrees vary by chance (Poisson) and, in a planted partition, by unequal class sizes. A squared
# coefficient of variation this far above chance means hubs.
_HUB_DISPERSION = 0.25


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
    """Sums over the rows of W that do not involve links, from one pass.

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
        if not matrix and isinstance(W, np.ndarray) and W.dtype == np.float32:
            sums = np.zeros(2 * W.shape[1] + 1)
            kernels.sum_memberships(lo, hi, W, eta, sums)
            return sums
        rows = np.array(W[lo:hi], dtype=np.float64, order="C")
        weighted = eta[lo:hi, None] * rows
        ones = np.ones(hi - lo)
        squares = weighted.T @ weighted if matrix else np.vdot(weighted, weighted)
        return np.concatenate([ones @ weighted, ones @ rows, np.ravel(squares)])

    @classmethod
    def split(cls, sums: Array, n_classes: int) -> RowSums:
        """Return the sums from one array."""
        K, squares = n_classes, sums[2 * n_classes :]
        side = round(len(squares) ** 0.5)
        return cls(sums[:K], sums[K : 2 * K], squares.reshape(side, side))

    @property
    def pairs(self) -> Array:
        """``Σ_{u≠v} η_u η_v W_ui W_vj``: its trace, shape (1, 1), or all of it, (K, K)."""
        if self.squares.shape == (1, 1):
            return np.asarray(self.totals @ self.totals - self.squares)
        return np.asarray(np.outer(self.totals, self.totals) - self.squares)


@dataclass(frozen=True)
class Side:
    """Links as they are seen from one of their ends.

    Attributes
    ----------
    indptr, indices, weights : ndarray
        In CSR form: the row is the node, the column the other end. No weights: all are one.
    eta, far : ndarray of shape (n,)
        Factors of the null model, of the node and of the other end.
    turned : bool
        Whether links are seen from their target.
    """

    indptr: NDArray[Any]
    indices: NDArray[Any]
    weights: NDArray[Any]
    eta: Array
    far: Array
    turned: bool = False

    def near(self, W: NDArray[Any], lo: int, hi: int) -> Array:
        """Return sums of W over the other ends of links of nodes lo…hi, shape (hi − lo, K)."""
        return product_rows(self.indptr, self.indices, self.weights, W, lo, hi)


class Graph:
    """An undirected graph with its null model.

    Parameters
    ----------
    graph : object
        Anything that :func:`nodeproof.inputs.graph_objects.check_adjacency` reads, or a
        folder written by `nodeproof convert`: its path, or a
        :class:`nodeproof.storage.graph_folder.GraphFolder`.
    null_model : {"auto", "uniform", "degree"}
        "auto" chooses "degree" if the degrees vary much more than by chance.
    n_nodes : int, optional
        Number of nodes, if known already.

    Attributes
    ----------
    n_nodes, n_entries : int
        Number of nodes, and of stored entries: each link has two, one per direction.
    indptr, indices : ndarray of shape (n + 1,) and (n_entries,)
        The links in CSR form, rows sorted, symmetric, without self loops; memory-mapped if they
        are in a folder on disk.
    weights : ndarray of shape (n_entries,), or (0,) if all weights are one
        For the kernels.
    degrees : ndarray of shape (n,)
        Sums of weights.
    eta : ndarray of shape (n,)
        The factors of the null model; 0 for nodes without a link.
    name : str
        What it is called among several kinds of links.
    kinds : tuple of Graph and DirectedGraph
        The kinds of links that are modelled apart, of which this is the sum
        (:mod:`nodeproof.kinds`); none if there is one, without a direction.
    viewed, sorts : str, tuple of str
        Which :meth:`view` it is, and the names of all kinds in every view.
    of_features : bool
        Whether links were made of the features of the nodes, to those most like them.
    """

    name: str = ""
    kinds: tuple[Graph | DirectedGraph, ...] = ()
    viewed: str = "directed"
    sorts: tuple[str, ...] = ()
    of_features: bool = False

    def __init__(self, graph: Any, null_model: str = "auto", n_nodes: int | None = None) -> None:
        if isinstance(graph, str | PathLike):
            from nodeproof.storage.graph_folder import GraphFolder

            graph = GraphFolder.open(graph)
        #: the folder on disk with the links, if any
        self.folder: GraphFolder | None = None
        if is_folder(graph):
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
        self.eta = null_factors(self.degrees, self.null_model, self.total)

    def reordered(self, order: NDArray[np.int64]) -> Graph:
        """Return the same graph, in memory, with node ``order[k]`` at position k."""
        position = np.empty(self.n_nodes, dtype=self.indices.dtype)
        position[order] = np.arange(self.n_nodes, dtype=position.dtype)
        moved = copy.copy(self)
        for held in ("twins", "adjacency"):
            vars(moved).pop(held, None)
        moved.folder = None
        moved.indptr = np.zeros(self.n_nodes + 1, dtype=self.indptr.dtype)
        np.cumsum(np.diff(self.indptr)[order], out=moved.indptr[1:])
        moved.indices = np.empty(self.n_entries, dtype=self.indices.dtype)
        moved.weights = np.empty(len(self.weights), dtype=self.weights.dtype)
        kernels.reorder_links(
            order, position, self.indptr, self.indices, self.weights, moved.indptr[:-1].copy(),
            moved.indices, moved.weights,
        )  # fmt: skip
        moved.degrees = self.degrees[order]
        if self.weighted:  # summed along the new rows
            moved.degrees = _degrees(moved.adjacency, True)
        moved.total = float(moved.degrees.sum())
        moved.unit = moved.total / len(moved.weights) if self.weighted else 1.0
        moved.eta = null_factors(moved.degrees, moved.null_model, moved.total)
        moved.kinds = tuple(kind.reordered(order) for kind in self.kinds)
        return moved

    def view(self, name: str) -> Graph:
        """Return the graph with its kinds "directed" (as they are), as "kinds", or "together".

        "kinds" leaves out directions; a single kind is then all links together.
        """
        if name == self.viewed or not self.kinds:
            return self
        seen = copy.copy(self)
        seen.viewed = name
        several = name == "kinds" and len(self.kinds) > 1
        seen.kinds = tuple(kind.undirected for kind in self.kinds) if several else ()
        return seen

    @property
    def undirected(self) -> Graph:
        """The same: it has no direction."""
        return self

    @property
    def directed(self) -> bool:
        """Whether links of any kind are modelled with their direction."""
        return any(kind.directed for kind in self.kinds)

    @property
    def sides(self) -> tuple[Side, ...]:
        """The links as a node sees them."""
        return (Side(self.indptr, self.indices, self.weights, self.eta, self.eta),)

    def _read_folder(self, folder: GraphFolder, n_nodes: int | None) -> None:
        if n_nodes is not None and n_nodes != folder.n_nodes:
            raise InputError(
                f"the graph in {folder.path} has {folder.n_nodes} nodes but features or labels "
                f"have {n_nodes} rows; they must have the same nodes in the same order"
            )
        folder.check_links()
        self.folder = folder
        self.n_nodes = folder.n_nodes
        self.indptr, self.indices = folder.indptr, folder.indices
        self.weights, self.degrees = folder.weights, folder.degrees

    @cached_property
    def adjacency(self) -> sp.csr_array:
        """The links as a scipy matrix; weights of one are made in memory."""
        data = self.weights if self.weighted else np.ones(self.n_entries, dtype=np.float32)
        return sp.csr_array((data, self.indices, self.indptr), shape=(self.n_nodes,) * 2)

    @cached_property
    def twins(self) -> NDArray[Any]:
        """Where each entry is as its far end sees it, shape (n_entries,)."""
        return find_twins(self.indptr, self.indices)

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
        """Return rows lo…hi of ``A @ M`` for contiguous M, in float64."""
        return product_rows(self.indptr, self.indices, self.weights, M, lo, hi)

    def degree_dispersion(self) -> float:
        """Return the squared coefficient of variation of the degrees above Poisson noise.

        Nodes without links do not count.
        """
        degrees = self.degrees[self.degrees > 0]
        if len(degrees) == 0:
            return 0.0
        # By chance, the variance of a sum of links is the sum of their squared weights.
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

        def part(lo: int, hi: int) -> Array:
            return mass_between(W[lo:hi], self.times_rows(W, lo, hi), matrix)

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


def null_factors(degrees: NDArray[Any], null_model: str, total: float) -> Array:
    """Return the factors η of a null model for nodes of these degrees, shape (n,).

    Parameters
    ----------
    degrees : ndarray of shape (n,)
        Of these nodes.
    null_model : {"uniform", "degree"}
        The null model.
    total : float
        Sum of the degrees of all nodes.
    """
    if null_model == "degree" and total > 0:
        return np.asarray(degrees / np.sqrt(total))
    # Nothing is known about a node without links, not even that it avoids others.
    return np.asarray(degrees > 0, dtype=np.float64)


def mass_between(rows: NDArray[Any], near: Array, matrix: bool) -> Array:
    """Return ``Σ_v W_vi (AW)_vj`` over rows of W and AW: its trace, (1, 1), or all."""
    rows = np.asarray(rows, dtype=np.float64)
    return np.asarray(rows.T @ near) if matrix else np.full((1, 1), np.vdot(rows, near))


def _degrees(matrix: sp.csr_array, weighted: bool) -> Array:
    if not weighted:
        return np.diff(matrix.indptr).astype(np.float64)
    return np.asarray(matrix.sum(axis=1, dtype=np.float64)).ravel()
