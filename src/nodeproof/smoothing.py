"""Features for a linear classifier: scaled, reduced, averaged over hops.

Each step is computed once and cached.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.preprocessing import normalize

from nodeproof import kernels
from nodeproof.graph import Graph
from nodeproof.runtime import threads
from nodeproof.runtime.caching import cached_property
from nodeproof.runtime.memory import check_free

__all__ = ["Reduction", "Smoothing", "dense_rows", "leading_directions"]

Rows = NDArray[np.float32]

# Up to this many columns, the Gram matrix is cheaper than random probes.
_FEW_COLUMNS = 1024

# Probes beyond the rank; and the least square of a singular value, as a share of the largest.
_MORE_PROBES, _NO_VALUE = 10, 1e-13

# With more links, links as features are reduced to fewer columns.
_MANY_LINKS = 2_000_000

# Rows are clipped to this many standard deviations from the mean.
_FAR_OFF = 1e15


class Reduction:
    """A linear map of features to fewer columns that keeps most of their information.

    Sparse features are taken to be counts: each row is scaled to length one. Dense ones are
    standardised, column by column. More than `rank` columns are projected onto the leading right
    singular vectors.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, m)
        Features of the nodes to learn from.
    rank : int
        Maximum number of columns.

    Attributes
    ----------
    shift, scale : ndarray of shape (m,), or None
        Of dense features.
    directions : ndarray of shape (m, r), or None
        Vectors that rows are projected onto; None if all columns are kept.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.smoothing import Reduction
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> Reduction(X).apply(X).astype(float).round(3).tolist()
    [[-0.707, -0.707], [0.707, 0.707]]
    """

    def __init__(self, X: Any, rank: int = 256) -> None:
        self.counts = sp.issparse(X)
        self.shift: NDArray[np.float64] | None = None
        self.scale: NDArray[np.float64] | None = None
        self.directions: Rows | None = None
        if not self.counts:
            check_free(16.0 * X.size, "standardised features", "use fewer of them")
            spread = X.std(axis=0, dtype=np.float64)
            self.shift = X.mean(axis=0, dtype=np.float64)
            varying = spread > 1e-9 * np.abs(self.shift)
            # Constant columns are dropped; rows have length one on average.
            self.scale = np.where(varying, 1.0, 0.0) / np.where(varying, spread, 1.0)
            self.scale /= np.sqrt(max(varying.sum(), 1))
        rows = self._scaled(X)
        if rows.shape[1] > rank:
            self.directions = leading_directions(rows, rank)

    @classmethod
    def of_parts(cls, parts: dict[str, NDArray[Any]]) -> Reduction:
        """Return the reduction with these :attr:`parts`."""
        reduction = cls.__new__(cls)
        reduction.counts = "shift" not in parts
        reduction.shift, reduction.scale = parts.get("shift"), parts.get("scale")
        reduction.directions = parts.get("directions")
        return reduction

    def reordered(self, position: NDArray[np.int64]) -> Reduction:
        """Return the same for reordered columns; `position` is where each was before."""
        directions = self.directions
        if directions is None:
            directions = np.eye(len(position), dtype=np.float32)
        return Reduction.of_parts(self.parts | {"directions": directions[position]})

    @property
    def parts(self) -> dict[str, NDArray[Any]]:
        """The arrays that make it up, by name."""
        named = {"shift": self.shift, "scale": self.scale, "directions": self.directions}
        return {name: array for name, array in named.items() if array is not None}

    def apply(self, X: Any) -> Rows:
        """Return the reduced features, shape (n, r), dense."""
        rows = self._scaled(X)
        if self.directions is not None:
            rows = rows @ self.directions
        return np.ascontiguousarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float32)

    def finish(self, Z: Rows) -> Rows:
        """Return averaged rows of counts scaled to length one, others as they are."""
        return np.asarray(Z / self.lengths(Z)[:, None], dtype=np.float32) if self.counts else Z

    def lengths(self, Z: Rows) -> Rows:
        """Return what `finish` divides each row by, shape (n,)."""
        if not self.counts:
            return np.ones(len(Z), dtype=np.float32)
        lengths = np.sqrt(np.einsum("vj,vj->v", Z, Z))
        return np.asarray(np.where(lengths > 0, lengths, 1.0), dtype=np.float32)

    def _scaled(self, X: Any) -> Any:
        if self.counts:
            # Scaled first: squares of large or small entries may overflow float32.
            return sp.csr_array(normalize(sp.csr_array(X)), dtype=np.float32)
        X = dense_rows(X)
        scaled = (X - self.shift) * self.scale
        # New nodes may exceed the range of float32.
        return np.clip(scaled, -_FAR_OFF, _FAR_OFF, out=scaled).astype(np.float32)


def dense_rows(X: Any) -> NDArray[Any]:
    """Return features as a dense array, if there is enough memory."""
    if not sp.issparse(X):
        return np.asarray(X)
    n, m = X.shape
    check_free(16.0 * n * m, f"{n:,} rows of {m:,} dense features", "classify fewer nodes at once")
    return np.asarray(X.toarray())


def leading_directions(rows: Any, rank: int) -> Rows:
    """Return the leading right singular vectors, shape (m, at most rank)."""
    n, m = rows.shape
    rank = min(rank, n, m)
    if m <= _FEW_COLUMNS:
        _, vectors = np.linalg.eigh(_products(rows))
        return np.ascontiguousarray(vectors[:, ::-1][:, :rank], dtype=np.float32)
    # Random probes and one power iteration (Halko, Martinsson and Tropp 2011).
    width = min(rank + _MORE_PROBES, n, m)
    probes = np.random.default_rng(0).standard_normal((m, width), dtype=np.float32)
    columns = sp.csr_array(rows.T) if sp.issparse(rows) else np.ascontiguousarray(rows.T)
    found = _times(rows, _times(columns, _times(rows, probes)))
    # An orthonormal basis of what is found, by its Gram matrix, and the rows seen from there.
    lengths, axes = _principal(found, width)
    inside = _times(columns, found) @ (axes / lengths).astype(np.float32)
    # Right singular vectors of ``basisᵀ rows``, likewise.
    lengths, axes = _principal(inside, rank)
    return np.ascontiguousarray(inside @ (axes / lengths).astype(np.float32))


def _principal(M: Rows, most: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the largest singular values, as long as they are not zero, and the right vectors."""
    values, vectors = np.linalg.eigh(threads.sum_rows(lambda lo, hi: _gram(M[lo:hi]), len(M)))
    values, vectors = values[::-1][:most], vectors[:, ::-1][:, :most]
    kept = values > _NO_VALUE * values[0]
    return np.sqrt(values[kept]), vectors[:, kept]


def _gram(rows: Rows) -> NDArray[np.float64]:
    rows64 = rows.astype(np.float64)
    return np.asarray(rows64.T @ rows64)


def _times(rows: Any, M: NDArray[Any]) -> NDArray[Any]:
    """Return ``rows @ M``, ranges of rows on several threads."""
    return np.concatenate(threads.map_rows(lambda lo, hi: rows[lo:hi] @ M, rows.shape[0]))


def _products(rows: Any) -> NDArray[np.float64]:
    """Return ``rowsᵀ rows``, shape (m, m).

    Sparse rows are made dense, some at a time, unless almost all of their entries are zero.
    """
    n, m = rows.shape
    if sp.issparse(rows) and rows.nnz < 0.02 * n * m:
        return np.asarray((rows.T @ rows).toarray(), dtype=np.float64)
    total = np.zeros((m, m))
    for lo in range(0, n, threads.ROWS):
        some = rows[lo : lo + threads.ROWS]
        some = some.toarray() if sp.issparse(some) else some
        total += some.T @ some
    return total


class Smoothing:
    """Features of nodes, reduced and averaged over the hops of a graph.

    With ``Â = D^{-1/2}(A + I)D^{-1/2}`` and B the reduced features,

        Z = α B + (1 − α)/h Σ_{k=1…h} Â^k B;

    rows of counts are then scaled to length one, as B's were.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, m)
        Features.
    graph : Graph, optional
        Without one, features are not averaged.
    rank : int
        Maximum number of columns.
    alpha : float
        Share of a node's own features.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.graph import Graph
    >>> from nodeproof.smoothing import Smoothing
    >>> pair = Graph(np.array([[0, 1], [1, 0]]))
    >>> X = np.array([[1.0], [-1.0]])
    >>> Smoothing(X, pair, alpha=0.5).over(1).ravel().tolist()
    [0.5, -0.5]
    """

    def __init__(
        self, X: Any, graph: Graph | None = None, rank: int = 256, alpha: float = 0.1
    ) -> None:
        self.X, self.graph, self.rank, self.alpha = X, graph, rank, alpha
        self._over: dict[int, Rows] = {}
        self._lengths: dict[int, Rows] = {}
        self._lagged: dict[int, Rows] = {}
        self._last: tuple[int, Rows, Rows] | None = None
        #: the same for other orders of the nodes, and where each was there
        self._before: tuple[Smoothing, NDArray[np.int64]] | None = None

    @classmethod
    def of_links(cls, graph: Graph) -> Smoothing:
        """Return the smoothing of links used as features: a node's are its row of A + I.

        They are reduced to fewer columns in large graphs.
        """
        own = sp.eye_array(graph.n_nodes, format="csr", dtype=np.float32) * np.float32(graph.unit)
        rank = 256 if graph.n_entries <= _MANY_LINKS else 128
        return cls(sp.csr_array(graph.adjacency + own), graph, rank)

    def reordered(self, position: NDArray[np.int64], X: Any, graph: Graph | None) -> Smoothing:
        """Return the same for reordered nodes, with all cached results: moved when asked for.

        Parameters
        ----------
        position : ndarray of shape (n,)
            Where each node was before.
        X : ndarray or csr_array of shape (n, m), or None for links used as features
            The features, in the new order.
        graph : Graph, optional
            The graph, in the new order.
        """
        if X is None:
            assert graph is not None
            moved = Smoothing.of_links(graph)
        else:
            moved = Smoothing(X, graph, self.rank, self.alpha)
        if "reduction" in vars(self):
            moved.reduction = self.reduction
            if X is None:
                moved.reduction = self.reduction.reordered(position)
        for name in ("base", "normaliser"):
            if name in vars(self):
                setattr(moved, name, getattr(self, name)[position])
        moved._before = self, position
        return moved

    def _recall(self, name: str, hops: int) -> bool:
        """Take a cached result of another order of the nodes over; tell whether there is one."""
        own = getattr(self, name)
        if hops not in own and self._before is not None:
            before, position = self._before
            if hops in getattr(before, name):
                own[hops] = getattr(before, name)[hops][position]
        return hops in own

    @cached_property
    def reduction(self) -> Reduction:
        """The map to fewer columns."""
        return Reduction(self.X, self.rank)

    @cached_property
    def base(self) -> Rows:
        """The reduced features, shape (n, r)."""
        return self.reduction.apply(self.X)

    def over(self, hops: int) -> Rows:
        """Return the features averaged over this many hops, shape (n, r)."""
        if self.graph is None:
            hops = 0
        if not (self._recall("_lengths", hops) and self._recall("_over", hops)):
            Z = self.base
            if hops:
                share = np.float32((1.0 - self.alpha) / hops)
                Z = np.float32(self.alpha) * self.base + share * self._sum(hops)
            self._lengths[hops] = self.reduction.lengths(Z)
            self._over[hops] = self.reduction.finish(Z)
        return self._over[hops]

    def unscaled(self, hops: int) -> Rows:
        """Return the same before rows of counts are scaled to length one, shape (n, r)."""
        if self.graph is None:
            hops = 0
        return np.asarray(self.over(hops) * self._lengths[hops][:, None])

    def own_part(self, hops: int, lo: int, hi: int) -> Rows:
        """Return the contribution of nodes lo…hi to their own rows of `over`, shape (hi − lo, r).

        Paths that leave a node and return to it are not included.
        """
        if self.graph is None or hops == 0:
            return self.over(0)[lo:hi]
        self.over(hops)
        stay = self.normaliser[lo:hi].astype(np.float64) ** 2
        stays = np.sum([stay**k for k in range(1, hops + 1)], axis=0)
        share = (self.alpha + (1.0 - self.alpha) / hops * stays) / self._lengths[hops][lo:hi]
        return np.asarray(share[:, None] * self.base[lo:hi], dtype=np.float32)

    def lagged(self, hops: int) -> Rows:
        """Return ``Σ_{k=0…h−1} Â^k B``, shape (n, r): what a node passes on over this many hops."""
        if not self._recall("_lagged", hops):
            self._sum(hops)
        return self._lagged[hops]

    def resume(self, hops: int, lagged: Rows) -> None:
        """Take what nodes pass on over this many hops as given: one product gives the rest.

        Parameters
        ----------
        lagged : ndarray of shape (n, r)
            As :meth:`lagged` returns it.
        """
        assert self.graph is not None
        scale = self.normaliser[:, None]
        scaled = np.ascontiguousarray(scale * lagged, dtype=np.float32)
        near = self.graph.times(scaled) / np.float32(self.graph.unit)
        share = np.float32((1.0 - self.alpha) / hops)
        own = np.float32(self.alpha) * self.base
        Z = np.asarray(own + share * (scale * (near + scaled)), dtype=np.float32)
        self._lagged[hops] = lagged
        self._lengths[hops], self._over[hops] = self.reduction.lengths(Z), self.reduction.finish(Z)

    def _sum(self, hops: int) -> Rows:
        """Return ``Σ_{k=1…h} Â^k B``, continuing from the last sum if it has fewer hops."""
        assert self.graph is not None
        # Rows divided by √(d + 1) are simply averaged over neighbours.
        scale = self.normaliser[:, None]
        begin = 0, scale * self.base, np.zeros_like(self.base)
        done, Y, total = self._last or begin
        if done > hops:
            done, Y, total = begin
        total, share, width = total.copy(), self.normaliser**2, total.shape[1]
        indptr, indices, weights = self.graph.indptr, self.graph.indices, self.weights
        for _ in range(hops - done):
            before, Y = Y, np.empty_like(Y)

            def part(lo: int, hi: int, before: Rows = before, after: Rows = Y) -> None:
                kernels.average_rows(
                    lo, hi, indptr, indices, weights, share, before, after, total, np.empty(width)
                )

            threads.map_rows(part, len(Y))
        self._last = (hops, Y, total)
        whole = total / scale
        self._lagged[hops] = (total - Y) / scale + self.base
        return whole

    @cached_property
    def weights(self) -> Rows:
        """Weights of the links relative to their mean; empty if all are one."""
        assert self.graph is not None
        return np.asarray(self.graph.weights / self.graph.unit, dtype=np.float32)

    @cached_property
    def normaliser(self) -> Rows:
        """``1/√(d + 1)``, shape (n,), with degrees relative to the mean weight of a link."""
        assert self.graph is not None
        return np.asarray(1.0 / np.sqrt(self.graph.degrees / self.graph.unit + 1.0), np.float32)
