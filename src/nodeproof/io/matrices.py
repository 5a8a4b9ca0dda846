"""Sparse matrices in archives, as `scipy.sparse.save_npz` writes them; checked before use."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.edges import check_csr, csr_of_entries
from nodeproof.errors import InputError
from nodeproof.memory import available_memory, size_text

__all__ = ["check_node_count", "csr_of_parts", "is_matrix", "matrix_of_archive"]

Arrays = Mapping[str, NDArray[Any]]

# What a node takes at least, without any link, until it is in a fit.
_BYTES_A_NODE = 32


def is_matrix(arrays: Arrays) -> bool:
    """Tell whether these are the arrays of `scipy.sparse.save_npz`."""
    return {"format", "shape", "data"} <= set(arrays)


def matrix_of_archive(path: Path, arrays: Arrays) -> sp.csr_array:
    """Return the matrix that `scipy.sparse.save_npz` wrote.

    Raises
    ------
    ValueError
        If its arrays do not make one.
    """
    word = arrays["format"]
    name = word.item() if word.shape == () else ""
    kind = name.decode("ascii", "replace") if isinstance(name, bytes) else str(name)
    rows, columns = _shape(arrays["shape"])
    check_node_count(path, max(rows, columns))
    if kind in ("csr", "csc"):
        data, indices, indptr = (_vector(arrays, key) for key in ("data", "indices", "indptr"))
        if kind == "csr":
            return csr_of_parts(data, indices, indptr, (rows, columns))
        return sp.csr_array(csr_of_parts(data, indices, indptr, (columns, rows)).T)
    if kind == "coo":
        row, column = (_integers(_vector(arrays, key)) for key in ("row", "col"))
        return csr_of_entries(
            sp.coo_array((_vector(arrays, "data"), (row, column)), shape=(rows, columns))
        )
    raise ValueError(f"a matrix of the format {kind[:20]!r} is not read; save it as csr")


def csr_of_parts(
    data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], shape: tuple[int, int]
) -> sp.csr_array:
    """Return the matrix of these arrays; they may be wrong in any way.

    Raises
    ------
    ValueError
        If they are: loops over a matrix that was not checked would read beyond its arrays.
    """
    if data.ndim != 1 or indices.shape != data.shape or data.dtype.kind not in "biuf":
        raise ValueError("its data and indices are not numbers of the same length")
    if indptr.shape != (shape[0] + 1,) or (len(indptr) and indptr[-1] != len(data)):
        raise ValueError(f"its indptr does not lead through {shape[0]:,} rows")
    matrix = sp.csr_array((data, _integers(indices), _integers(indptr)), shape=shape)
    check_csr(matrix)
    return matrix


def check_node_count(path: Path, n_nodes: int) -> None:
    """Refuse more nodes than the memory can hold, before any of it is taken."""
    free = available_memory()
    if n_nodes * _BYTES_A_NODE > free:
        raise InputError(
            f"{path}: a graph of {n_nodes:,} nodes takes at least "
            f"{size_text(n_nodes * _BYTES_A_NODE)} of memory, and {size_text(free)} are free"
        )


def _vector(arrays: Arrays, key: str) -> NDArray[Any]:
    if key not in arrays:
        raise ValueError(f"the array {key} is missing")
    if arrays[key].ndim != 1:
        raise ValueError(f"the array {key} has the shape {arrays[key].shape}")
    return arrays[key]


def _integers(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind not in "iu" and len(array):
        raise ValueError(f"positions must be whole numbers, got {array.dtype}")
    # An index beyond int64 would come out negative, and be refused as such.
    return array if array.dtype in (np.int32, np.int64) else array.astype(np.int64)


def _shape(found: NDArray[Any]) -> tuple[int, int]:
    if found.shape != (2,) or found.dtype.kind not in "iu" or (found < 0).any():
        raise ValueError("its shape is not that of a matrix")
    return int(found[0]), int(found[1])
