"""Graphs as symmetric CSR matrices: built from edge lists, checked, and multiplied.

Links that are listed more than once count once, with their largest weight, wherever they come
from. So it does not matter whether a list has each link in one direction or in both.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof import kernels
from nodeproof.errors import InputError
from nodeproof.runtime import threads
from nodeproof.runtime.logs import warn_caller
from nodeproof.runtime.memory import check_free

__all__ = [
    "LARGEST_WEIGHT",
    "LEAST_WEIGHT",
    "check_csr",
    "check_links",
    "check_symmetric",
    "csr_of_entries",
    "find_twins",
    "from_arcs",
    "from_edges",
    "largest_of_each",
    "merge_edges",
    "product_rows",
    "unless_all_one",
    "warn_directed",
    "warn_of_repeats",
    "without_repeats",
]

#: range of the weights of a graph: sums over thousands of links still fit float32
LEAST_WEIGHT, LARGEST_WEIGHT = 1e-30, 1e30

# Per node: its entry of indptr, its degree and its share of the null model.
_NODE_BYTES = 24.0


def from_edges(
    source: NDArray[Any],
    target: NDArray[Any],
    weight: NDArray[Any] | None,
    n_nodes: int | None,
    repeated: str = "max",
) -> sp.csr_array:
    """Return the symmetric CSR array of an edge list; warn of repeated edges unless they add up.

    Parameters
    ----------
    source, target, weight, n_nodes, repeated
        As in :func:`merge_edges`.
    """
    matrix, repeats = merge_edges(source, target, weight, n_nodes, repeated)
    if repeats and repeated == "max":
        warn_of_repeats(repeats, "the list of links")
    return matrix


def merge_edges(
    source: NDArray[Any],
    target: NDArray[Any],
    weight: NDArray[Any] | None,
    n_nodes: int | None,
    repeated: str = "max",
) -> tuple[sp.csr_array, int]:
    """Return the symmetric CSR array of an edge list, and its number of repeated edges.

    Parameters
    ----------
    source, target : ndarray of shape (E,)
        Row positions, each edge in one direction or in both.
    weight : ndarray of shape (E,) or None
        Weights.
    n_nodes : int or None
        Number of nodes; ``None``: one more than the largest position.
    repeated : {"max", "sum"}
        What counts of the weights of an edge that is listed more than once, in whichever
        direction: the largest, or their sum.
    """
    lengths = [len(column) for column in (source, target, weight) if column is not None]
    if len(set(lengths)) > 1:
        raise InputError(f"the columns of an edge table differ in length: {lengths}")
    for name, ends in (("source", source), ("target", target)):
        if not np.issubdtype(ends.dtype, np.integer):
            raise InputError(
                f"the {name} column must contain row positions (integers), got {ends.dtype}; for "
                "names use nodeproof.interop.from_tables, a networkx graph, or `nodeproof fit` on "
                "files"
            )
    top = int(max(source.max(), target.max())) if len(source) else -1
    n = top + 1 if n_nodes is None else n_nodes
    check_free(_NODE_BYTES * n, f"a graph of {n:,} nodes", "number them from 0")
    low = int(min(source.min(), target.min())) if len(source) else 0
    if low < 0 or top >= n:
        raise InputError(
            f"a link names node {low if low < 0 else top}, but nodes run from 0 to {n - 1}"
        )
    if weight is not None and np.asarray(weight).dtype.kind not in "biuf":
        raise InputError(f"weights of links must be real numbers, got {np.asarray(weight).dtype}")
    data = np.ones(len(source), np.float32) if weight is None else np.asarray(weight, np.float64)
    bad = kernels.first_bad_weight(data)
    if bad >= 0:
        what = "negative" if data[bad] < 0 else "not finite"
        raise InputError(
            f"the weight of the link ({source[bad]}, {target[bad]}) is {what}: {data[bad]}"
        )
    proper = source != target
    source, target, data = source[proper], target[proper], data[proper]
    low_end, high_end = np.minimum(source, target), np.maximum(source, target)
    order, first = largest_of_each(low_end, high_end, data)
    repeats = 0 if first.all() else _count_repeats(np.cumsum(first), (source < target)[order])
    kept = order[first]
    if repeated == "sum" and len(kept) < len(order):
        # In the order of the weights, so that the order of the list does not decide a bit.
        data = np.add.reduceat(data[order].astype(np.float64), np.flatnonzero(first))
    else:
        data = data[kept]
    low_end, high_end = low_end[kept], high_end[kept]
    both_ways = (np.concatenate([low_end, high_end]), np.concatenate([high_end, low_end]))
    matrix = sp.csr_array(sp.coo_array((np.concatenate([data, data]), both_ways), shape=(n, n)))
    matrix.sort_indices()
    return matrix, repeats


def from_arcs(
    source: NDArray[Any],
    target: NDArray[Any],
    weight: NDArray[Any] | None,
    n_nodes: int | None,
) -> sp.csr_array:
    """Return the CSR array of a list of links with a direction, row: source, column: target.

    Parameters
    ----------
    source, target, weight, n_nodes
        As in :func:`merge_edges`, which checks them; of links that are listed again, the largest
        weight counts.
    """
    n = merge_edges(source, target, weight, n_nodes)[0].shape[0]
    data = np.ones(len(source), np.float32) if weight is None else np.asarray(weight, np.float64)
    order, first = largest_of_each(source, target, data)
    if not first.all():
        warn_of_repeats(int((~first).sum()), "the list of links")
    kept = order[first]
    ends = (source[kept], target[kept])
    return sp.csr_array(sp.coo_array((data[kept], ends), shape=(n, n)))


def _count_repeats(link: NDArray[Any], forward: NDArray[np.bool_]) -> int:
    """Return how many of the sorted links repeat another of the same direction."""
    listed = (link[forward], link[~forward])
    return sum(int(np.count_nonzero(way[1:] == way[:-1])) for way in listed)


def largest_of_each(
    row: NDArray[Any], column: NDArray[Any], weight: NDArray[Any]
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Sort entries by row and column, those in the same place by decreasing weight.

    Parameters
    ----------
    row, column, weight : ndarray of shape (E,)
        Entries of a matrix.

    Returns
    -------
    order : ndarray of shape (E,)
        The entries, sorted.
    first : ndarray of shape (E,)
        Which of them are the first in their place, and so the largest.
    """
    order = np.lexsort((-weight, column, row))
    first = np.ones(len(order), dtype=bool)
    row, column = row[order], column[order]
    first[1:] = (row[1:] != row[:-1]) | (column[1:] != column[:-1])
    return order, first


def csr_of_entries(matrix: Any) -> sp.csr_array:
    """Return a matrix as a CSR array that keeps entries in the same place separate.

    scipy would add up those of a COO matrix.
    """
    csr = sp.csr_array(matrix)
    if not sp.issparse(matrix) or matrix.format != "coo" or csr.nnz == matrix.nnz:
        return csr
    order = np.lexsort((matrix.col, matrix.row))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(matrix.row, minlength=csr.shape[0]))])
    return sp.csr_array((matrix.data[order], matrix.col[order], indptr), shape=csr.shape)


def without_repeats(matrix: sp.csr_array, what: str) -> sp.csr_array:
    """Return a matrix with sorted rows and only the largest entry of each place.

    Parameters
    ----------
    matrix : csr_array of shape (n, m)
        In any order; it is not changed.
    what : str
        What to call it in the warning about repeated entries.
    """
    matrix = matrix.copy()
    matrix.has_sorted_indices = False
    matrix.sort_indices()
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    if not ((row[1:] == row[:-1]) & (matrix.indices[1:] == matrix.indices[:-1])).any():
        return matrix
    order, first = largest_of_each(row, matrix.indices, matrix.data)
    warn_of_repeats(int((~first).sum()), what, "; for their sum, call sum_duplicates() first")
    kept = order[first]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row[kept], minlength=matrix.shape[0]))])
    indptr = indptr.astype(matrix.indptr.dtype)
    return sp.csr_array((matrix.data[kept], matrix.indices[kept], indptr), shape=matrix.shape)


def warn_of_repeats(count: int, what: str, instead: str = "") -> None:
    """Warn about links that are listed more than once."""
    entries = "1 entry repeats another" if count == 1 else f"{count:,} entries repeat others"
    warn_caller(f"{entries} in {what}: each link counts once, with its largest weight{instead}")


def check_csr(matrix: Any) -> None:
    """Refuse an invalid CSR structure from a file: loops would read beyond its arrays.

    Raises
    ------
    ValueError
        If it is invalid.
    """
    # scipy does not look at the rows of a matrix that says it has no entries.
    indptr = matrix.indptr
    if indptr[0] != 0 or (np.diff(indptr) < 0).any() or indptr[-1] > len(matrix.indices):
        raise ValueError("invalid CSR structure: indptr does not fit the rows")
    matrix.check_format(full_check=True)


def warn_directed(why: str = "") -> None:
    """Warn that a graph is directed, and say why its direction does not count."""
    warn_caller(
        "the graph is directed; it is made symmetric: a link in either direction counts, with the "
        f"larger weight{why and f' ({why})'}"
    )


def check_links(matrix: sp.csr_array) -> tuple[sp.csr_array, bool]:
    """Return an adjacency matrix without self loops or duplicates, and whether it is symmetric.

    A link that is listed more than once counts once, with its largest weight, with a warning. A
    matrix that is already in this form is returned without a copy.

    Parameters
    ----------
    matrix : csr_array of shape (n, n)
        Links; it is not changed.

    Returns
    -------
    matrix : csr_array of shape (n, n)
        Sorted rows, weights in float32 or float64.
    symmetric : bool
        Whether links are the same in both directions.
    """
    rows, columns = matrix.shape
    if rows != columns:
        hint = "; for a list of links give its transpose, shape (2, E)" if columns == 2 else ""
        raise InputError(f"a graph needs a square adjacency matrix, got shape {matrix.shape}{hint}")
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
    return matrix, bool(symmetric)


def check_symmetric(matrix: sp.csr_array) -> sp.csr_array:
    """Return an adjacency matrix made symmetric, with a warning if it was not.

    Parameters
    ----------
    matrix : csr_array of shape (n, n)
        Links, as :func:`check_links` takes them.
    """
    matrix, symmetric = check_links(matrix)
    if not symmetric:
        warn_directed()
        matrix = matrix.maximum(matrix.T).tocsr()
        matrix.sort_indices()
    return matrix


def _check_range(matrix: sp.csr_array) -> None:
    """Refuse weights whose sums would not fit float32."""
    outside = matrix.data.min() < LEAST_WEIGHT or matrix.data.max() > LARGEST_WEIGHT
    if outside:
        odd = (matrix.data < LEAST_WEIGHT) | (matrix.data > LARGEST_WEIGHT)
        listed = sp.coo_array(matrix)
        row, column = listed.row[odd.argmax()], listed.col[odd.argmax()]
        raise InputError(
            f"the weight of the link ({row}, {column}) is {matrix.data[odd][0]:g}; give weights "
            f"from {LEAST_WEIGHT:g} to {LARGEST_WEIGHT:g}"
        )


class _Findings(NamedTuple):
    """Findings of one pass over a CSR matrix."""

    loops: int
    zeros: int
    bad: int
    all_one: bool
    ordered: bool
    symmetric: bool


def _inspect(matrix: sp.csr_array) -> _Findings:
    # Seeded by the system for every matrix, so that no matrix can be designed to cancel. Only the
    # test of symmetry depends on them.
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
    return _Findings(loops, zeros, bad, ones == matrix.nnz, ordered, odd == 0)


def find_twins(indptr: NDArray[Any], indices: NDArray[Any]) -> NDArray[Any]:
    """Return, for each link of a symmetric CSR matrix with sorted rows, where its twin is."""
    positions = np.arange(len(indices), dtype=indptr.dtype)
    n = len(indptr) - 1
    return np.asarray(sp.csr_array((positions, indices, indptr), (n, n)).tocsc().data)


def unless_all_one(data: NDArray[Any]) -> NDArray[Any]:
    """Return the weights for the kernels: an empty array, of one type, where all are one."""
    none = len(data) == 0 or data.min() == data.max() == 1.0
    return np.empty(0, dtype=np.float32) if none else data


def product_rows(
    indptr: NDArray[Any],
    indices: NDArray[Any],
    weights: NDArray[Any],
    M: NDArray[Any],
    lo: int,
    hi: int,
) -> NDArray[np.float64]:
    """Return rows lo…hi of the product of links in CSR form and contiguous M, in float64."""
    if M.dtype == np.float32:
        out = np.empty((hi - lo, M.shape[1]))
        kernels.product_rows(lo, hi, indptr, indices, weights, M, out, np.empty(M.shape[1]))
        return out
    part = slice(indptr[lo], indptr[hi])
    data = weights[part] if len(weights) > 0 else np.ones(part.stop - part.start)
    pointers = indptr[lo : hi + 1] - indptr[lo]
    return np.asarray(sp.csr_array((data, indices[part], pointers), (hi - lo, len(M))) @ M)
