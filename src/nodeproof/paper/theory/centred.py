"""Norms of the centred adjacency matrix, blocks of it, and its part that classes do not explain.

Nothing n×n is formed for large graphs: blocks are sparse matrices less a matrix of class means.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh, svds

from nodeproof.solvers.semidefinite import least_eigenvalue

__all__ = ["CentredBlock", "block_norms", "noise", "operator_norm"]

Array = NDArray[np.float64]

#: blocks up to this many rows are made dense; up to this many nodes, κ is from all eigenvalues
DENSE_BLOCK = 300
DENSE_GRAPH = 1200

# Of Lanczos iterations, relative. Eigenvalues of noise lie close together: more takes long.
_TOL = 1e-4


class CentredBlock(LinearOperator):
    """A block of ``Ã = A − means``, rows and columns each with their classes.

    Parameters
    ----------
    links : csr_array of shape (a, b)
        The block of A.
    rows, columns : ndarray of shape (a,) and (b,)
        Classes 0…K−1.
    means : ndarray of shape (K, K)
        What is taken away from each pair of classes; symmetric.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> from nodeproof.paper.theory.centred import CentredBlock
    >>> pair = sp.csr_array(np.array([[0.0, 1.0], [1.0, 0.0]]))
    >>> same = np.zeros(2, dtype=int)
    >>> CentredBlock(pair, same, same, np.array([[0.5]])) @ np.eye(2)
    array([[-0.5,  0.5],
           [ 0.5, -0.5]])
    """

    def __init__(
        self,
        links: sp.csr_array,
        rows: NDArray[np.int64],
        columns: NDArray[np.int64],
        means: Array,
    ) -> None:
        super().__init__(dtype=np.dtype(np.float64), shape=links.shape)
        self.links, self.rows, self.columns, self.means = links, rows, columns, means

    def _matvec(self, x: Array) -> Array:
        flat = np.asarray(x, dtype=np.float64).ravel()
        totals = np.bincount(self.columns, weights=flat, minlength=len(self.means))
        return np.asarray(self.links @ flat - (self.means @ totals)[self.rows])

    def _rmatvec(self, x: Array) -> Array:
        return CentredBlock(self.links.T, self.columns, self.rows, self.means)._matvec(x)

    def toarray(self) -> Array:
        """Return the block, dense."""
        return np.asarray(self.links.toarray() - self.means[np.ix_(self.rows, self.columns)])


def operator_norm(block: CentredBlock) -> float:
    """Return the largest singular value; 0 for an empty block.

    A block whose rows and columns are the same array of classes is taken to be symmetric.
    """
    if 0 in block.shape:
        return 0.0
    if min(block.shape) <= DENSE_BLOCK and max(block.shape) <= 4 * DENSE_BLOCK:
        return float(np.linalg.norm(block.toarray(), 2))
    if min(block.shape) == 1:
        thin = block if block.shape[1] == 1 else block.T
        return float(np.linalg.norm(thin @ np.ones(1)))
    start = np.random.default_rng(0).standard_normal(min(block.shape))
    if block.rows is block.columns:
        largest = eigsh(block, k=1, v0=start, tol=_TOL, return_eigenvectors=False)
        return float(np.abs(largest[0]))
    return float(svds(block, k=1, v0=start, tol=_TOL, return_singular_vectors=False)[0])


def block_norms(A: sp.csr_array, z: NDArray[np.int64], means: Array) -> tuple[Array, Array, Array]:
    """Return the norms of Ã_i, Ã^i and B̃_i of every class, each of shape (K,)."""
    A = sp.csr_array(A, dtype=np.float64)
    norms = np.zeros((3, len(means)))
    for i in range(len(means)):
        own, others = np.flatnonzero(z == i), np.flatnonzero(z != i)
        for k, (rows, columns) in enumerate(((own, own), (others, others), (own, others))):
            links, of_rows = A[rows][:, columns], z[rows]
            of_columns = of_rows if rows is columns else z[columns]
            norms[k, i] = operator_norm(CentredBlock(links, of_rows, of_columns, means))
    return norms[0], norms[1], norms[2]


def noise(A: sp.csr_array, z: NDArray[np.int64], discount: Array) -> tuple[float, bool]:
    """Return the largest eigenvalue of ``P⊥(r∘A)P⊥``, and whether it is proven to be no larger.

    P⊥ takes from a vector its mean over each class. Some eigenvalues are 0, so it is at least that.

    Parameters
    ----------
    A : csr_array of shape (n, n)
    z : ndarray of shape (n,)
        Classes 0…K−1.
    discount : ndarray of shape (K, K)
        r_ij.
    """
    n, sizes = len(z), np.bincount(z)
    scaled = sp.csr_array(A, dtype=np.float64, copy=True)
    rows = np.repeat(np.arange(n), np.diff(scaled.indptr))
    scaled.data *= discount[z[rows], z[scaled.indices]]

    def without_means(x: Array) -> Array:
        return x - (np.bincount(z, weights=x) / sizes)[z]

    if n <= DENSE_GRAPH:
        one_hot = np.eye(len(sizes))[z] / np.sqrt(sizes)
        M = scaled.toarray()
        M -= one_hot @ (one_hot.T @ M)
        M -= (M @ one_hot) @ one_hot.T
        return max(0.0, -least_eigenvalue(-0.5 * (M + M.T))), True
    projected = LinearOperator(
        shape=(n, n),
        dtype=np.dtype(np.float64),
        matvec=lambda x: without_means(scaled @ without_means(np.ravel(x))),
    )
    start = np.random.default_rng(0).standard_normal(n)
    top = eigsh(projected, k=1, which="LA", v0=start, tol=_TOL, return_eigenvectors=False)
    return max(0.0, float(top[0]) * (1.0 + _TOL)), False
