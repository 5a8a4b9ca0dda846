"""Labels and features for the nodes of a graph that lies in a folder on disk."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.errors import InputError, count_of
from nodeproof.inputs.label_values import Unknown
from nodeproof.storage.atomic import check_regular
from nodeproof.storage.graph_folder import GraphFolder
from nodeproof.storage.npz import Header, read_npy_header, reading
from nodeproof.tables.columns import Column
from nodeproof.tables.features import Known, read_features, some
from nodeproof.tables.keys import Keys
from nodeproof.tables.labels import LabelRows, drop_label_columns, read_labels
from nodeproof.tables.reading import open_table

__all__ = ["FolderFeatures", "FolderLabels", "read_folder_features", "read_folder_labels"]


@dataclass(frozen=True)
class FolderLabels:
    """Labels of n nodes.

    Attributes
    ----------
    names : ndarray of shape (labels,)
        Sorted, each of them the label of some node.
    codes : ndarray of shape (n,)
        Which of them each node has, −1 where there is none.
    notes : list of str
        What the user should know.
    rows : LabelRows
        As the table lists them.
    """

    names: NDArray[np.str_]
    codes: NDArray[np.int64]
    notes: list[str]
    rows: LabelRows


@dataclass(frozen=True)
class FolderFeatures:
    """Features of n nodes.

    Attributes
    ----------
    X : ndarray of shape (n, m)
        In the order of the nodes; perhaps memory-mapped.
    names : list of m str, or None
        Their names.
    notes : list of str
        What the user should know.
    """

    X: NDArray[Any]
    names: list[str] | None
    notes: list[str]


def read_folder_labels(
    folder: GraphFolder,
    path: Path,
    *,
    header: bool | None = None,
    node: Column = None,
    label: Column = None,
    unknown: Collection[str] | None = None,
) -> FolderLabels:
    """Read the labels in a table.

    Parameters
    ----------
    folder : GraphFolder
        Whose nodes they are of.
    path : pathlib.Path
        The table.
    header, node, label, unknown
        As in `nodeproof.tables.reading.read_tables`.
    """
    rows = read_labels(
        open_table(path), _known_to(folder), header, node, label, Unknown.of(unknown)
    )
    codes = rows.placed(_nodes(folder, rows.keys), folder.n_nodes)
    used = np.unique(codes[codes >= 0])
    names, order = np.unique(np.array(rows.names, dtype=np.str_)[used], return_inverse=True)
    rank = np.full(len(rows.names) + 1, -1)
    rank[used] = order
    return FolderLabels(names, rank[codes], rows.notes, rows)


def read_folder_features(
    folder: GraphFolder,
    path: Path,
    *,
    header: bool | None = None,
    node: Column = None,
    labels: FolderLabels | None = None,
    missing: bool = False,
) -> FolderFeatures:
    """Read features in the order of the graph's nodes, without columns that are the labels.

    An ``.npy`` file has them in this order already, and is memory-mapped.
    """
    if path.suffix == ".npy":
        shape = _npy_header(path).shape
        if len(shape) != 2 or shape[0] != folder.n_nodes:
            raise InputError(
                f"{path} has shape {shape}; the graph in {folder.path} has {folder.n_nodes} nodes"
            )
        return FolderFeatures(np.load(path, mmap_mode="r", allow_pickle=False), None, [])
    label = None if labels is None else labels.rows.column
    rows = read_features(
        open_table(path), _known_to(folder), header, node, label=label, missing=missing
    )
    nodes = _nodes(folder, rows.keys)
    bare = np.ones(folder.n_nodes, dtype=bool)
    bare[nodes] = False
    if bare.any() and not missing:
        without = np.flatnonzero(bare)
        ids = without if folder.ids is None else folder.ids[without]
        raise InputError(
            f"{count_of(len(without), 'node')} without a row in {path}: {some(ids)}; features "
            "cannot be guessed: add the rows"
        )
    X, names, notes = np.full((folder.n_nodes, rows.X.shape[1]), np.nan), rows.names, rows.notes
    X[nodes] = rows.X
    if labels is not None:
        codes = labels.rows.placed(_nodes(folder, labels.rows.keys), folder.n_nodes)
        X, names, more = drop_label_columns(rows, nodes, X, labels.rows, codes)
        notes = notes + more
    return FolderFeatures(X, names, notes)


def _npy_header(path: Path) -> Header:
    """Return the header of a file with one array of numbers, none of which has been read."""
    check_regular(path)
    with reading(path), path.open("rb") as file:
        try:
            header = read_npy_header(file)
        except ValueError as error:
            raise InputError(f"{path} cannot be read: it {error}") from None
        if header.dtype.kind not in "biuf":
            raise InputError(f"{path} holds {header.dtype}; features are numbers")
        size, expected = path.stat().st_size, header.offset + header.nbytes
        if size < expected:
            raise InputError(f"{path} has {size:,} bytes; its shape takes {expected:,}")
    return header


def _nodes(folder: GraphFolder, keys: Keys) -> NDArray[np.int64]:
    """Return the position of the node of each row."""
    positions = folder.positions(keys.texts())
    if (positions < 0).any():
        row = int(np.argmax(positions[keys.codes] < 0))
        where = f"; its nodes are 0…{folder.n_nodes - 1}" if folder.ids is None else ""
        raise InputError(
            f"{keys.place(row)}: there is no node {keys.id_of(row)} in {folder.path}{where}"
        )
    return np.asarray(positions[keys.codes])


def _known_to(folder: GraphFolder) -> Known:
    return lambda nodes: bool((folder.positions(list(nodes)) >= 0).all())
