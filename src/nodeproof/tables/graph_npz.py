"""Sparse matrices in archives, as `scipy.sparse.save_npz` writes them; checked before use."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.csr import check_csr, csr_of_entries
from nodeproof.errors import InputError, count_of
from nodeproof.inputs.graph_objects import check_adjacency
from nodeproof.runtime.memory import check_free
from nodeproof.storage.npz import Archive, open_npz
from nodeproof.tables.keys import Keys

__all__ = [
    "GraphArchive",
    "check_matrix",
    "check_node_count",
    "check_numbers",
    "csr_of_parts",
    "is_matrix",
    "listed",
    "matrix_of_archive",
    "open_archive",
    "read_feature_archive",
    "read_graph_archive",
    "read_label_archive",
    "whole_number",
]

Arrays = Mapping[str, NDArray[Any]]

# What a node without links takes at least, until it is in a fit.
_NODE_BYTES = 32.0


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
    """Refuse more nodes than free memory can hold, before any of it is taken."""
    remedy = "are all of them meant? Else use a larger machine"
    check_free(_NODE_BYTES * n_nodes, f"{path}: a graph of {n_nodes:,} nodes", remedy)


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


# ------------------------------------------------------------------------------
# NumPy archives (``.npz``): graphs, features and labels whose row i is about node i.

_MOST_CELLS = 50_000_000
_SPARSE_FEATURES = ("x_data", "x_indices", "x_indptr", "x_shape")


@dataclass(frozen=True)
class GraphArchive:
    """What a file holds that is a whole graph rather than a list of links.

    Attributes
    ----------
    keys : Keys
        The nodes: 0…n−1, or names in the order that `one_node_set` gives them.
    graph : scipy.sparse.csr_array of shape (n, n)
        Symmetric, without self loops.
    X : ndarray or scipy.sparse.csr_array of shape (n, m), or None
        Features.
    y : ndarray of shape (n,) or None
        Labels as text, empty where unknown.
    notes : list of str
        What the user should know.
    """

    keys: Keys
    graph: sp.csr_array
    X: NDArray[Any] | sp.csr_array | None
    y: NDArray[np.str_] | None
    notes: list[str]


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open a NumPy archive; whatever goes wrong with it inside the block names the file.

    Pickled objects are never loaded: to ask for one is an error.
    """
    with open_npz(path) as archive:
        yield archive


def check_matrix(path: Path, matrix: Any) -> tuple[sp.csr_array, list[str]]:
    """Return a matrix as a symmetric graph without self loops, and notes on what that took."""
    notes = []
    if matrix.shape[0] == matrix.shape[1] and (loops := int(np.count_nonzero(matrix.diagonal()))):
        notes.append(f"{count_of(loops, 'self loop')} in {path.name} dropped")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            graph = check_adjacency(matrix)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return graph, notes + [f"{path.name}: {warning.message}" for warning in caught]


def check_numbers(path: Path, array: NDArray[Any]) -> None:
    """Raise an error unless these are finite numbers of shape (n, m)."""
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise InputError(
            f"{path}: features must be numbers of shape (n, m), got {array.dtype} of shape "
            f"{array.shape}"
        )
    finite = np.isfinite(array)
    if not finite.all():
        row, column = map(int, np.argwhere(~finite)[0])
        raise InputError(
            f"{path}, row {row}, column {column} (from 0): expected a finite number, "
            f"got {array[row, column]}"
        )


def read_graph_archive(path: Path) -> GraphArchive:
    """Read a graph, and perhaps features and labels, from an archive.

    The archive is what `scipy.sparse.save_npz` writes, or has the arrays ``adj_indptr`` and
    ``adj_indices`` and perhaps ``adj_data``, ``n``, ``x`` (or ``x_data``, ``x_indices``,
    ``x_indptr``, ``x_shape``), ``y`` (−1: unknown) and ``train_mask``, outside which labels
    stay hidden.
    """
    with open_archive(path) as arrays:
        if is_matrix(arrays):
            return _checked_graph(path, matrix_of_archive(path, arrays), None, None)
        if not {"adj_indptr", "adj_indices"} <= set(arrays):
            raise InputError(
                f"{path} holds no graph: expected a file of scipy.sparse.save_npz, or the arrays "
                f"adj_indptr and adj_indices; found {listed(arrays)}"
            )
        matrix = _adjacency(path, arrays)
        n = matrix.shape[0]
        X = _features(path, arrays)
        y = _as_labels(path, arrays["y"]) if "y" in arrays else None
        mask = arrays.get("train_mask")
        for key, rows in (("x", X), ("y", y), ("train_mask", mask)):
            if rows is not None and len(np.atleast_1d(rows)) != n:
                raise InputError(f"{path}: {key} has {len(rows)} rows for {n} nodes")
        archive = _checked_graph(path, matrix, X, y)
    if y is not None:
        _hide_labels(path, mask, y, archive.notes)
    return archive


def read_feature_archive(path: Path) -> NDArray[np.float64]:
    """Read features of shape (n, m): the array ``x`` or ``X``, or the only 2-D array."""
    with open_archive(path) as arrays:
        X = _features(path, arrays)
        return _as_features(path, _only(path, arrays, 2, "x")) if X is None else X


def read_label_archive(path: Path) -> NDArray[np.str_]:
    """Read labels of shape (n,) as text: the array ``y``, or the only 1-D array."""
    with open_archive(path) as arrays:
        return _as_labels(path, arrays["y"] if "y" in arrays else _only(path, arrays, 1, "y"))


def listed(names: Iterable[str]) -> str:
    """Return names of arrays, for messages.

    Examples
    --------
    >>> listed(["x", "y"]), listed([])
    ('x, y', 'nothing')
    """
    shown = list(names)
    return ", ".join(name[:40] for name in shown[:10]) + ", …" * (len(shown) > 10) or "nothing"


def whole_number(path: Path, key: str, found: NDArray[Any]) -> int:
    """Return an array that should be one whole number, not below zero."""
    if found.size != 1 or found.dtype.kind not in "iu" or int(found.item()) < 0:
        raise InputError(f"{path}: {key} must be one whole number, got {found.dtype} {found.shape}")
    return int(found.item())


def _adjacency(path: Path, arrays: Archive) -> sp.csr_array:
    indptr, indices = arrays["adj_indptr"], arrays["adj_indices"]
    n = indptr.size - 1
    if "n" in arrays and (given := whole_number(path, "n", arrays["n"])) != n:
        raise InputError(f"{path}: n is {given}, but adj_indptr has {n} rows")
    data = arrays["adj_data"] if "adj_data" in arrays else np.ones(indices.shape, dtype=np.float32)
    return csr_of_parts(data, indices, indptr, (n, n))


def _checked_graph(
    path: Path, matrix: sp.csr_array, X: NDArray[np.float64] | None, y: NDArray[np.str_] | None
) -> GraphArchive:
    graph, notes = check_matrix(path, matrix)
    return GraphArchive(Keys.of_positions(path, graph.shape[0]), graph, X, y, notes)


def _features(path: Path, arrays: Archive) -> NDArray[np.float64] | None:
    for key in ("x", "X"):
        if key in arrays:
            return _as_features(path, arrays[key])
    if not set(_SPARSE_FEATURES) <= set(arrays):
        return None
    data, indices, indptr, shape = (arrays[key] for key in _SPARSE_FEATURES)
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 0).any():
        raise InputError(f"{path}: x_shape must be two whole numbers")
    rows, columns = map(int, shape)
    if rows * columns > _MOST_CELLS:
        raise InputError(
            f"{path}: features of {rows:,} rows and {columns:,} columns are too many for a dense "
            f"matrix ({_MOST_CELLS:,} cells at most); reduce the columns, e.g. with TruncatedSVD"
        )
    return _as_features(path, csr_of_parts(data, indices, indptr, (rows, columns)).toarray())


def _as_features(path: Path, array: NDArray[Any]) -> NDArray[np.float64]:
    check_numbers(path, array)
    return array.astype(np.float64)


def _as_labels(path: Path, array: NDArray[Any]) -> NDArray[np.str_]:
    kind = array.dtype.kind
    whole = kind == "f" and bool((np.isnan(array) | (array == np.round(array))).all())
    if array.ndim != 1 or not (kind in "iubU" or whole):
        raise InputError(
            f"{path}: labels must be integers or text of shape (n,), got {array.dtype} of shape "
            f"{array.shape}"
        )
    if kind == "U":
        return array.astype(np.str_)
    known = ~np.isnan(array) & (array != -1) if kind == "f" else array != -1
    texts = np.where(known, array, 0).astype(np.int64).astype(np.str_)
    return np.where(known, texts, "")


def _only(path: Path, arrays: Archive, ndim: int, key: str) -> NDArray[Any]:
    found = [name for name, header in arrays.headers().items() if len(header.shape) == ndim]
    if len(found) != 1:
        shapes = [f"{name} {header.shape}" for name, header in arrays.headers().items()]
        raise InputError(
            f"{path}: expected an array {key!r} or exactly one {ndim}-D array, found "
            f"{listed(shapes)}"
        )
    return arrays[found[0]]


def _hide_labels(
    path: Path, mask: NDArray[Any] | None, y: NDArray[np.str_], notes: list[str]
) -> None:
    if mask is None:
        notes.append(f"{path.name} has labels but no train_mask; all its labels are used")
        return
    if mask.ndim != 1 or mask.dtype.kind not in "biu":
        raise InputError(
            f"{path}: train_mask must be true or false for each node, got {mask.dtype} of shape "
            f"{mask.shape}"
        )
    y[~mask.astype(bool)] = ""
