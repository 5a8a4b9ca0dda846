"""Data sets in NumPy archives (``.npz``), in the layouts that people publish.

A field is looked for under each of the names that are in use. Whatever else is in the file is
left alone, so that names which were saved as pickled objects do no harm.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.csr import csr_of_entries
from nodeproof.datasets.dataset import (
    MASKS,
    Dataset,
    as_mask,
    assemble,
    check_matrix,
    check_node_count,
    graph_of_edges,
)
from nodeproof.errors import InputError
from nodeproof.storage.atomic import atomic_path
from nodeproof.storage.npz import Archive, open_npz, write_npz
from nodeproof.tables.arrays import (
    as_positions,
    csr_of_parts,
    find_features,
    find_labels,
    first_of,
    list_arrays,
    stored_csr,
)

__all__ = ["matrix_of_archive", "read_archive", "write_archive"]

_EDGES = ("edge_index", "edges")
_SIZES = ("n", "num_nodes")
_MASK_FIELDS = {
    "train": ("train_mask", "train_masks"),
    "validation": ("val_mask", "val_masks", "valid_mask", "valid_masks", "validation_mask"),
    "test": ("test_mask", "test_masks"),
}
_WRITTEN = dict(zip(MASKS, ("train_mask", "val_mask", "test_mask"), strict=True))


def read_archive(path: Path, split: int = 0) -> Dataset:
    """Read a graph, and perhaps features, labels and a split, from an archive.

    It may be what `scipy.sparse.save_npz` writes. Otherwise the links are the arrays
    ``adj_indptr``, ``adj_indices`` and perhaps ``adj_data`` of a CSR matrix, or node numbers in
    ``edge_index`` of shape (2, E) or ``edges`` of shape (E, 2).

    Parameters
    ----------
    path : pathlib.Path
        The archive.
    split : int
        Which split to take where the masks hold several.
    """
    with open_npz(path) as archive:
        if _is_matrix(archive):
            graph, notes = check_matrix(path, matrix_of_archive(path, archive))
            return assemble(path, graph, notes=notes)
        X, y = find_features(path, archive), find_labels(path, archive)
        graph, notes = _graph(path, archive, X, y)
        masks = _masks(path, archive, graph.shape[0], split, notes)
        names = archive.get("names")
        if "labels_data" in archive:
            notes.append(f"the labels in {path.name} are not read: a node may have several")
        return assemble(path, graph, X, y, names, masks, notes)


def write_archive(data: Dataset, path: Path) -> None:
    """Write a data set as an archive that `read_archive` and other programs can read.

    The fields are ``n``, ``adj_indptr``, ``adj_indices``, with weights also ``adj_data``;
    ``x``, or ``x_data``, ``x_indices``, ``x_indptr`` and ``x_shape``; ``y``; ``names``;
    ``train_mask``, ``val_mask`` and ``test_mask``. The file appears only when it is complete.
    """
    fields: dict[str, Any] = {
        "n": np.int64(data.graph.shape[0]),
        "adj_indptr": data.graph.indptr,
        "adj_indices": data.graph.indices,
    }
    if (data.graph.data != 1).any():
        fields["adj_data"] = data.graph.data
    X: Any = data.X
    if sp.issparse(X):
        fields |= {"x_data": X.data, "x_indices": X.indices, "x_indptr": X.indptr}
        fields["x_shape"] = np.array(X.shape, dtype=np.int64)
    else:
        fields["x"] = X
    fields |= {"y": data.y, "names": data.names}
    fields |= {_WRITTEN[part]: mask for part, mask in data.masks.items()}
    given = {key: field for key, field in fields.items() if field is not None}
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        write_npz(file, given, packed=True)


def _graph(
    path: Path, archive: Archive, X: NDArray[Any] | sp.csr_array | None, y: NDArray[Any] | None
) -> tuple[sp.csr_array, list[str]]:
    found = first_of(archive, _SIZES)
    size = None if found is None else _whole_number(path, "n", found)
    if {"adj_indptr", "adj_indices"} <= set(archive):
        n = archive["adj_indptr"].size - 1
        if size is not None and size != n:
            raise InputError(f"{path}: n is {size}, but adj_indptr has {n} rows")
        return check_matrix(path, stored_csr(archive, "adj", (n, n)))
    edges = first_of(archive, _EDGES)
    if edges is None:
        hint = ""
        if {"feature", "label", "node_types"} <= set(archive):
            hint = "; it goes with reddit_graph.npz: give the folder that holds both"
        raise InputError(
            f"{path} holds no graph: expected a file of scipy.sparse.save_npz, or the arrays "
            f"adj_indptr and adj_indices, or edge_index, or edges; found "
            f"{list_arrays(archive)}{hint}"
        )
    if edges.ndim != 2 or 2 not in edges.shape or edges.dtype.kind not in "iu":
        raise InputError(
            f"{path}: links must be node numbers of shape (2, E) or (E, 2), got {edges.dtype} of "
            f"shape {edges.shape}"
        )
    by_rows = edges.shape[1] != 2 or (edges.shape[0] == 2 and "edge_index" in archive)
    source, target = edges if by_rows else edges.T
    if size is None:
        size = next((part.shape[0] for part in (y, X) if part is not None), None)
    if size is None:
        size = int(edges.max()) + 1 if edges.size else 0
    return graph_of_edges(path, source, target, size)


def _masks(
    path: Path, archive: Archive, n: int, split: int, notes: list[str]
) -> dict[str, NDArray[np.bool_]]:
    masks = {}
    several = 1
    for part, keys in _MASK_FIELDS.items():
        for key in keys:
            if key in archive:
                masks[part], found = as_mask(path, key, archive[key], n, split)
                several = max(several, found)
    if several > 1:
        notes.append(f"{path.name} has {several} splits; number {split} is used (from 0)")
    return masks


def _is_matrix(arrays: Archive) -> bool:
    """Tell whether these are the arrays of `scipy.sparse.save_npz`."""
    return {"format", "shape", "data"} <= set(arrays)


def matrix_of_archive(path: Path, arrays: Archive) -> sp.csr_array:
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
        row, column = (as_positions(_vector(arrays, key)) for key in ("row", "col"))
        return csr_of_entries(
            sp.coo_array((_vector(arrays, "data"), (row, column)), shape=(rows, columns))
        )
    raise ValueError(f"a matrix of the format {kind[:20]!r} is not read; save it as csr")


def _whole_number(path: Path, key: str, found: NDArray[Any]) -> int:
    """Return an array that should be one whole number, not below zero."""
    if found.size != 1 or found.dtype.kind not in "iu" or int(found.item()) < 0:
        raise InputError(f"{path}: {key} must be one whole number, got {found.dtype} {found.shape}")
    return int(found.item())


def _vector(arrays: Archive, key: str) -> NDArray[Any]:
    if key not in arrays:
        raise ValueError(f"the array {key} is missing")
    if arrays[key].ndim != 1:
        raise ValueError(f"the array {key} has the shape {arrays[key].shape}")
    return arrays[key]


def _shape(found: NDArray[Any]) -> tuple[int, int]:
    if found.shape != (2,) or found.dtype.kind not in "iu" or (found < 0).any():
        raise ValueError("its shape is not that of a matrix")
    return int(found[0]), int(found[1])
