"""Features and labels as arrays, one row per node: checked, and found in ``.npz`` files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.csr import check_csr
from nodeproof.errors import InputError
from nodeproof.storage.npz import Archive, open_npz

__all__ = [
    "as_features",
    "as_labels",
    "as_positions",
    "csr_of_parts",
    "find_features",
    "find_labels",
    "first_of",
    "labels_as_text",
    "list_arrays",
    "read_feature_archive",
    "read_label_archive",
    "stored_csr",
]

# The names that published archives use.
_FEATURES = ("x", "X", "attr_matrix", "node_features", "features")
_SPARSE_FEATURES = ("x", "attr")
_LABELS = ("y", "labels", "node_labels")


def read_feature_archive(path: Path) -> NDArray[np.float64] | sp.csr_array:
    """Read features of shape (n, m): see `find_features`, or the only 2-D array."""
    with open_npz(path) as archive:
        X = find_features(path, archive)
        if X is None:
            X = as_features(path, _only_array(path, archive, 2, "x"))
        return X.astype(np.float64, copy=False)


def read_label_archive(path: Path) -> NDArray[np.str_]:
    """Read labels of shape (n,) as text: see `find_labels`, or the only 1-D array."""
    with open_npz(path) as archive:
        y = find_labels(path, archive)
        if y is None:
            y = as_labels(path, _only_array(path, archive, 1, "y"))
        return labels_as_text(y)


def find_features(path: Path, archive: Archive) -> NDArray[Any] | sp.csr_array | None:
    """Return the features of an archive, shape (n, m), or None where it has none.

    They are an array ``x`` (or of one of the other names in use), or the parts of a CSR matrix:
    ``x_data``, ``x_indices``, ``x_indptr`` and ``x_shape``.
    """
    dense = first_of(archive, _FEATURES)
    if dense is not None:
        # A data set without features may say so by a matrix without columns.
        return as_features(path, dense) if dense.shape[1:] != (0,) else None
    for prefix in _SPARSE_FEATURES:
        if f"{prefix}_indptr" in archive:
            return as_features(path, stored_csr(archive, prefix, (0, 0)))
    return None


def find_labels(path: Path, archive: Archive) -> NDArray[Any] | None:
    """Return the labels of an archive, shape (n,), or None where it has none."""
    labels = first_of(archive, _LABELS)
    return None if labels is None else as_labels(path, labels)


def as_features(path: Path, X: Any) -> Any:
    """Return features in float32 or float64, dense or sparse; all must be finite.

    Parameters
    ----------
    path : pathlib.Path
        The file, for messages.
    X : ndarray or scipy.sparse.csr_array of shape (n, m)
        Features of any kind of number.

    Returns
    -------
    ndarray or scipy.sparse.csr_array of shape (n, m)
    """
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise InputError(
            f"{path}: features must be numbers of shape (n, m), got {X.dtype} of shape {X.shape}"
        )
    if sp.issparse(X):
        check_csr(X)
    finite = np.isfinite(X.data if sp.issparse(X) else X)
    if not finite.all():
        if sp.issparse(X):
            entry = int(np.argmin(finite))
            row = int(np.searchsorted(X.indptr, entry, side="right")) - 1
            column, value = int(X.indices[entry]), X.data[entry]
        else:
            row, column = map(int, np.argwhere(~finite)[0])
            value = X[row, column]
        raise InputError(
            f"{path}, row {row}, column {column} (from 0): expected a finite number, got {value}"
        )
    return X.astype(np.promote_types(X.dtype, np.float32), copy=False)


def as_labels(path: Path, labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels as int64 with −1, or as text with "", where unknown.

    Parameters
    ----------
    path : pathlib.Path
        The file, for messages.
    labels : ndarray of shape (n,) or (n, 1)
        Integers (−1: unknown), whole numbers or NaN (unknown), or text.
    """
    kind = labels.dtype.kind
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    whole = kind == "f" and bool((np.isnan(labels) | (labels == np.round(labels))).all())
    if labels.ndim != 1 or not (kind in "iubUS" or whole):
        raise InputError(
            f"{path}: labels must be integers or text of shape (n,), got {labels.dtype} of shape "
            f"{labels.shape}"
        )
    if kind in "US":
        return labels.astype(np.str_)
    codes = np.where(np.isnan(labels), -1, labels) if kind == "f" else labels
    codes = codes.astype(np.int64)
    if (codes < -1).any():
        v = int((codes < -1).argmax())
        raise InputError(
            f"{path}: the label of node {v} is {codes[v]}; labels must not be below -1, which "
            "means unknown"
        )
    return codes


def labels_as_text(y: NDArray[Any]) -> NDArray[np.str_]:
    """Return labels, as `as_labels` does, as text that is empty where they are unknown.

    Examples
    --------
    >>> labels_as_text(np.array([3, -1])).tolist()
    ['3', '']
    """
    return y if y.dtype.kind == "U" else np.where(y == -1, "", y.astype(np.str_))


def stored_csr(archive: Archive, prefix: str, shape: tuple[int, int]) -> sp.csr_array:
    """Return the CSR matrix whose parts have names that begin with a prefix.

    Parameters
    ----------
    archive : Archive
        Has ``prefix_indices`` and ``prefix_indptr``, and perhaps ``prefix_data`` (default: ones)
        and ``prefix_shape``.
    prefix : str
        Such as "adj".
    shape : tuple of two ints
        Its shape, where none is stored.

    Raises
    ------
    ValueError
        If they do not make one.
    """
    for part in ("indices", "indptr"):
        if f"{prefix}_{part}" not in archive:
            raise ValueError(f"the array {prefix}_{part} is missing")
    indices = archive[f"{prefix}_indices"]
    data = np.ones(indices.shape, dtype=np.float32)
    if f"{prefix}_data" in archive:
        data = archive[f"{prefix}_data"]
    if f"{prefix}_shape" in archive:
        stored = archive[f"{prefix}_shape"]
        if stored.shape != (2,) or stored.dtype.kind not in "iu":
            raise ValueError(f"{prefix}_shape is not two whole numbers")
        shape = int(stored[0]), int(stored[1])
    return csr_of_parts(data, indices, archive[f"{prefix}_indptr"], shape)


def csr_of_parts(
    data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], shape: tuple[int, int]
) -> sp.csr_array:
    """Return the CSR matrix of these arrays, of which anything may be wrong.

    Raises
    ------
    ValueError
        If it is: loops over a matrix that was not checked would read beyond its arrays.
    """
    if data.ndim != 1 or indices.shape != data.shape or data.dtype.kind not in "biuf":
        raise ValueError(
            "invalid CSR structure: data and indices are not numbers of the same length"
        )
    if indptr.shape != (shape[0] + 1,) or (len(indptr) and indptr[-1] != len(data)):
        raise ValueError(f"invalid CSR structure: indptr does not fit {shape[0]:,} rows")
    matrix = sp.csr_array((data, as_positions(indices), as_positions(indptr)), shape=shape)
    check_csr(matrix)
    return matrix


def as_positions(array: NDArray[Any]) -> NDArray[Any]:
    """Return integers as the types that scipy takes for indices."""
    if array.dtype.kind not in "iu" and len(array):
        raise ValueError(f"positions must be whole numbers, got {array.dtype}")
    # An index beyond int64 would come out negative, and be refused as such.
    return array if array.dtype in (np.int32, np.int64) else array.astype(np.int64)


def first_of(archive: Archive, names: Sequence[str]) -> Any:
    """Return the first array of an archive that has one of these names, or None."""
    return next((archive[name] for name in names if name in archive), None)


def list_arrays(names: Iterable[str]) -> str:
    """Return names of arrays, for messages.

    Examples
    --------
    >>> list_arrays(["x", "y"]), list_arrays([])
    ('x, y', 'nothing')
    """
    shown = list(names)
    return ", ".join(name[:40] for name in shown[:10]) + ", …" * (len(shown) > 10) or "nothing"


def _only_array(path: Path, archive: Archive, ndim: int, name: str) -> NDArray[Any]:
    """Return the only array with this number of dimensions."""
    headers = archive.headers()
    found = [key for key, header in headers.items() if len(header.shape) == ndim]
    if len(found) != 1:
        shapes = [f"{key} {header.shape}" for key, header in headers.items()]
        raise InputError(
            f"{path}: expected an array {name!r} or exactly one {ndim}-D array, found "
            f"{list_arrays(shapes)}"
        )
    return archive[found[0]]
