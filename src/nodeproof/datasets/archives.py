"""Data sets in NumPy archives (``.npz``), in the layouts that people publish.

A field is looked for under each of the names that are in use. Whatever else is in the file is
left alone, so that names which were saved as pickled objects do no harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.datasets.dataset import MASKS, Dataset, assemble
from nodeproof.datasets.parts import as_features, as_labels, as_mask, graph_of_edges
from nodeproof.errors import InputError
from nodeproof.storage.atomic import atomic_path
from nodeproof.storage.npz import Archive, write_npz
from nodeproof.tables.graph_npz import (
    check_matrix,
    csr_of_parts,
    is_matrix,
    listed,
    matrix_of_archive,
    open_archive,
    whole_number,
)

__all__ = ["read_archive", "write_archive"]

_EDGES = ("edge_index", "edges")
_FEATURES = ("x", "X", "attr_matrix", "node_features", "features")
_SPARSE_FEATURES = ("x", "attr")
_LABELS = ("y", "labels", "node_labels")
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
    with open_archive(path) as archive:
        if is_matrix(archive):
            graph, notes = check_matrix(path, matrix_of_archive(path, archive))
            return assemble(path, graph, notes=notes)
        X, y = _features(path, archive), _labels(path, archive)
        graph, notes = _graph(path, archive, X, y)
        masks = _masks(path, archive, graph.shape[0], split, notes)
        names = archive["names"] if "names" in archive.files else None
        if "labels_data" in archive.files:
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
    found = _first(archive, _SIZES)
    size = None if found is None else whole_number(path, "n", found)
    if {"adj_indptr", "adj_indices"} <= set(archive.files):
        n = archive["adj_indptr"].size - 1
        if size is not None and size != n:
            raise InputError(f"{path}: n is {size}, but adj_indptr has {n} rows")
        return check_matrix(path, _csr(archive, "adj", (n, n)))
    edges = _first(archive, _EDGES)
    if edges is None:
        hint = ""
        if {"feature", "label", "node_types"} <= set(archive.files):
            hint = "; it goes with reddit_graph.npz: give the folder that holds both"
        raise InputError(
            f"{path} holds no graph: expected a file of scipy.sparse.save_npz, or the arrays "
            f"adj_indptr and adj_indices, or edge_index, or edges; found "
            f"{listed(archive.files)}{hint}"
        )
    if edges.ndim != 2 or 2 not in edges.shape or edges.dtype.kind not in "iu":
        raise InputError(
            f"{path}: links must be node numbers of shape (2, E) or (E, 2), got {edges.dtype} of "
            f"shape {edges.shape}"
        )
    by_rows = edges.shape[1] != 2 or (edges.shape[0] == 2 and "edge_index" in archive.files)
    source, target = edges if by_rows else edges.T
    if size is None:
        size = next((part.shape[0] for part in (y, X) if part is not None), None)
    if size is None:
        size = int(edges.max()) + 1 if edges.size else 0
    return graph_of_edges(path, source, target, size)


def _features(path: Path, archive: Archive) -> NDArray[Any] | sp.csr_array | None:
    dense = _first(archive, _FEATURES)
    if dense is not None:
        # A set without features may say so by a matrix without columns.
        return as_features(path, dense) if dense.shape[1:] != (0,) else None
    for prefix in _SPARSE_FEATURES:
        if f"{prefix}_indptr" in archive.files:
            return as_features(path, _csr(archive, prefix, (0, 0)))
    return None


def _labels(path: Path, archive: Archive) -> NDArray[Any] | None:
    labels = _first(archive, _LABELS)
    return None if labels is None else as_labels(path, labels)


def _masks(
    path: Path, archive: Archive, n: int, split: int, notes: list[str]
) -> dict[str, NDArray[np.bool_]]:
    masks = {}
    several = 1
    for part, keys in _MASK_FIELDS.items():
        for key in keys:
            if key in archive.files:
                masks[part], found = as_mask(path, key, archive[key], n, split)
                several = max(several, found)
    if several > 1:
        notes.append(f"{path.name} has {several} splits; number {split} is used (from 0)")
    return masks


def _csr(archive: Archive, prefix: str, shape: tuple[int, int]) -> sp.csr_array:
    """Return a matrix by its parts; the shape that is stored counts, if one is."""
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


def _first(archive: Archive, keys: Sequence[str]) -> Any:
    return next((archive[key] for key in keys if key in archive.files), None)
