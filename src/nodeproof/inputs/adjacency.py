"""Turn whatever people hold a graph in into one checked, symmetric CSR matrix."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof import kernels
from nodeproof.csr import LARGEST_WEIGHT, LEAST_WEIGHT, from_edges, warn_directed, without_repeats
from nodeproof.errors import InputError
from nodeproof.inputs.graph_objects import to_csr
from nodeproof.runtime import threads

__all__ = ["check_adjacency", "from_edges", "unless_all_one"]


def check_adjacency(graph: Any, n_nodes: int | None = None) -> sp.csr_array:
    """Return the graph as a symmetric CSR array without self loops or duplicates.

    A link that is given more than once counts once, with its largest weight, with a warning. An
    array that is already in this form is returned without a copy.

    Parameters
    ----------
    graph : object
        A scipy sparse matrix or array, a dense square array, a networkx or igraph graph, a
        PyTorch Geometric ``Data``, an AnnData, a torch tensor, an integer ``edge_index`` of
        shape (2, E), or a table with the columns ``source``, ``target`` and perhaps ``weight``
        that hold row positions.
    n_nodes : int, optional
        Number of nodes, where features or labels say so already.

    Returns
    -------
    scipy.sparse.csr_array of shape (n, n)

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.inputs.adjacency import check_adjacency
    >>> check_adjacency(np.array([[0, 1, 2], [1, 2, 3]]), n_nodes=5).sum(axis=0).tolist()
    [1.0, 2.0, 2.0, 1.0, 0.0]
    """
    matrix = to_csr(graph, n_nodes)
    rows, columns = matrix.shape
    if rows != columns:
        hint = "; for a list of links give its transpose, shape (2, E)" if columns == 2 else ""
        raise InputError(f"a graph needs a square adjacency matrix, got shape {matrix.shape}{hint}")
    if n_nodes is not None and rows != n_nodes:
        raise InputError(
            f"the graph has {rows} nodes but features or labels have {n_nodes} rows; "
            "they must be listed for the same nodes, in the same order"
        )
    if rows == 0:
        raise InputError("the graph is empty: it has no nodes")
    if matrix.dtype.kind not in "biuf":
        raise InputError(f"weights of links must be real numbers, got {matrix.dtype}")
    if matrix.dtype not in (np.float32, np.float64):
        matrix = matrix.astype(np.float64 if matrix.dtype.itemsize > 2 else np.float32)
    seen = _inspect(matrix)
    if seen.bad:
        bad = kernels.first_bad_weight(matrix.data)
        row = int(np.searchsorted(matrix.indptr, bad, side="right")) - 1
        column, value = int(matrix.indices[bad]), matrix.data[bad]
        what = "negative" if value < 0 else "not finite"
        raise InputError(f"the weight of the link ({row}, {column}) is {what}: {value}")
    if not seen.ordered:
        matrix = without_repeats(matrix, "the graph's matrix")
        seen = _inspect(matrix)
    if seen.loops or seen.zeros:
        matrix = matrix.copy()
        matrix.setdiag(0)
        matrix.eliminate_zeros()
        seen = _inspect(matrix)
    if not seen.all_one and matrix.nnz:
        _check_range(matrix)
    symmetric = seen.symmetric
    if symmetric and not seen.all_one:
        symmetric = kernels.is_symmetric(matrix.indptr, matrix.indices, matrix.data)
    if not symmetric:
        warn_directed()
        matrix = matrix.maximum(matrix.T).tocsr()
        matrix.sort_indices()
    return matrix


def _check_range(matrix: sp.csr_array) -> None:
    """Refuse weights that sums of rows in float32 could not hold."""
    outside = matrix.data.min() < LEAST_WEIGHT or matrix.data.max() > LARGEST_WEIGHT
    if outside:
        odd = (matrix.data < LEAST_WEIGHT) | (matrix.data > LARGEST_WEIGHT)
        listed = sp.coo_array(matrix)
        row, column = listed.row[odd.argmax()], listed.col[odd.argmax()]
        raise InputError(
            f"the weight of the link ({row}, {column}) is {matrix.data[odd][0]:g}; give weights "
            f"from {LEAST_WEIGHT:g} to {LARGEST_WEIGHT:g}"
        )


class _Seen(NamedTuple):
    """What one pass over a CSR matrix tells."""

    loops: int
    zeros: int
    bad: int
    all_one: bool
    ordered: bool
    symmetric: bool


def _inspect(matrix: sp.csr_array) -> _Seen:
    # Seeded by the system, anew for every matrix: nobody can make one that cancels by design.
    # Nothing but the answer whether it is symmetric depends on them.
    marks = np.random.default_rng().integers(2**64, size=matrix.shape[0], dtype=np.uint64)

    def part(lo: int, hi: int) -> tuple[int, int, int, int, bool, np.uint64]:
        with np.errstate(over="ignore"):  # sums modulo 2⁶⁴; reported only where nothing is compiled
            found: tuple[int, int, int, int, bool, np.uint64] = kernels.inspect_links(
                lo, hi, matrix.indptr, matrix.indices, matrix.data, marks
            )
        return found

    parts = threads.map_rows(part, matrix.shape[0])
    loops, zeros, ones, bad = (sum(int(found[k]) for found in parts) for k in range(4))
    odd = sum(int(found[5]) for found in parts) % 2**64
    ordered = all(found[4] for found in parts)
    return _Seen(loops, zeros, bad, ones == matrix.nnz, ordered, odd == 0)


def unless_all_one(data: NDArray[Any]) -> NDArray[Any]:
    """Return the weights for the kernels: none of them where all are one."""
    return data[:0] if len(data) == 0 or data.min() == data.max() == 1.0 else data
