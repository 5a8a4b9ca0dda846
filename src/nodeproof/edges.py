"""A list of edges as a symmetric CSR matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof import kernels
from nodeproof.callers import warn_caller
from nodeproof.errors import InputError
from nodeproof.memory import check_free

__all__ = ["LARGEST_WEIGHT", "LEAST_WEIGHT", "check_csr", "from_edges", "warn_directed"]

#: weights that a graph may have: those of some thousand links still add up in float32
LEAST_WEIGHT, LARGEST_WEIGHT = 1e-30, 1e30

# Where a node's row begins, its degree and its share of the null model.
_NODE_BYTES = 24.0


def from_edges(
    source: NDArray[Any],
    target: NDArray[Any],
    weight: NDArray[Any] | None,
    n_nodes: int | None,
) -> sp.csr_array:
    """Return the symmetric CSR array of an edge list; an edge listed twice counts once.

    Parameters
    ----------
    source, target : ndarray of shape (E,)
        Row positions, each edge in one direction or in both.
    weight : ndarray of shape (E,) or None
        Weights; of an edge listed more than once, the largest counts.
    n_nodes : int or None
        Number of nodes; ``None``: one more than the largest position.
    """
    lengths = [len(column) for column in (source, target, weight) if column is not None]
    if len(set(lengths)) > 1:
        raise InputError(f"the columns of an edge table differ in length: {lengths}")
    for name, ends in (("source", source), ("target", target)):
        if not np.issubdtype(ends.dtype, np.integer):
            raise InputError(
                f"the {name} column must hold row positions (integers), got {ends.dtype}; for "
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
    low_end, high_end = np.minimum(source, target), np.maximum(source, target)
    order = np.lexsort((-data, high_end, low_end))
    low_end, high_end, data = low_end[order], high_end[order], data[order]
    # The largest weight of an edge comes first; what repeats it is dropped.
    fresh = np.ones(len(data), dtype=bool)
    fresh[1:] = (low_end[1:] != low_end[:-1]) | (high_end[1:] != high_end[:-1])
    fresh &= low_end != high_end
    low_end, high_end, data = low_end[fresh], high_end[fresh], data[fresh]
    both_ways = (np.concatenate([low_end, high_end]), np.concatenate([high_end, low_end]))
    matrix = sp.csr_array(sp.coo_array((np.concatenate([data, data]), both_ways), shape=(n, n)))
    matrix.sort_indices()
    return matrix


def check_csr(matrix: Any) -> None:
    """Refuse a matrix of a file whose parts do not fit together: loops would read beyond them.

    Raises
    ------
    ValueError
        If they do not.
    """
    # scipy does not look at the rows of a matrix that says it has no entries.
    indptr = matrix.indptr
    if indptr[0] != 0 or (np.diff(indptr) < 0).any() or indptr[-1] > len(matrix.indices):
        raise ValueError("its indptr does not lead through its rows")
    matrix.check_format(full_check=True)


def warn_directed() -> None:
    """Say that links go one way only, and what is made of it."""
    warn_caller(
        "the graph is directed; it is made symmetric: a link either way counts, weights by their "
        "maximum"
    )
