"""Read graphs from files and folders of any format, recognised by content or else by name."""

from __future__ import annotations

import gzip
import os
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nodeproof.datasets.archives import read_archive
from nodeproof.datasets.dataset import (
    Dataset,
    assemble,
    check_matrix,
    sorted_names,
    unless_positions,
)
from nodeproof.datasets.networks import read_matrix_market, read_network
from nodeproof.datasets.published import (
    find_ogb,
    find_planetoid,
    find_reddit,
    open_folder,
    read_ogb,
    read_planetoid,
    read_reddit,
)
from nodeproof.errors import InputError
from nodeproof.storage.atomic import check_regular
from nodeproof.storage.npz import reading
from nodeproof.tables.arrays import labels_as_text
from nodeproof.tables.columns import Column
from nodeproof.tables.files import file_kind
from nodeproof.tables.keys import Keys
from nodeproof.tables.reading import Tables, WholeGraph, read_tables

__all__ = ["FORMATS", "NETWORKS", "read_graph", "read_with_tables", "recognise"]


#: every format, with a description
FORMATS = {
    "table": "an edge table (.csv, .tsv, .txt, .edges, also with .gz; .parquet)",
    "npz": "a NumPy archive (.npz)",
    "mtx": "MatrixMarket (.mtx, .mtx.gz)",
    "graphml": "GraphML (.graphml)",
    "gml": "GML (.gml)",
    "edgelist": "a networkx edge list (.edgelist)",
    "h5ad": "AnnData (.h5ad)",
    "planetoid": "Planetoid files (ind.<name>.*)",
    "ogb": "a folder or .zip of OGB (raw/edge.csv.gz, …)",
    "reddit": "a folder or .zip with reddit_data.npz and reddit_graph.npz",
}

#: those whose nodes have attributes, read by networkx
NETWORKS = ("graphml", "gml", "edgelist")
_SUFFIXES = {
    ".h5ad": "h5ad", ".npz": "npz", ".mtx": "mtx", ".graphml": "graphml", ".gml": "gml",
    ".edgelist": "edgelist",
}  # fmt: skip


def recognise(path: Path) -> str:
    """Return the format of a file or folder, a key of `FORMATS`.

    Raises
    ------
    InputError
        If it does not exist, or is of no known format.
    """
    if find_planetoid(path):
        return "planetoid"
    found = _folder_format(path) if path.is_dir() else _by_content(path) or _by_name(path)
    if found is None:
        what = "is a folder that holds no known data" if path.is_dir() else "is of no known format"
        raise InputError(f"{path} {what}; understood are {'; '.join(FORMATS.values())}")
    return found


def _folder_format(path: Path) -> str | None:
    folder = open_folder(path)
    if find_ogb(folder) is not None:
        return "ogb"
    return "reddit" if find_reddit(folder) is not None else None


def _by_content(path: Path) -> str | None:
    check_regular(path)
    with reading(path):
        with path.open("rb") as file:
            head = file.read(512)
        if head.startswith(b"\x1f\x8b"):
            with gzip.open(path) as file:
                head = file.read(512)
    if head.startswith(b"%%MatrixMarket"):
        return "mtx"
    if head.lstrip().startswith(b"<") and b"<graphml" in head:
        return "graphml"
    if head.startswith(b"PK") and zipfile.is_zipfile(path):
        with reading(path), zipfile.ZipFile(path) as archive:
            if any(name.endswith(".npy") for name in archive.namelist()):
                return "npz"
        return _folder_format(path)
    return None


def _by_name(path: Path) -> str | None:
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    try:
        file_kind(path)
    except InputError:
        return None
    return "table"


def read_graph(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002
    split: int | str | None = None,
    header: bool | None = None,
    source: Column = None,
    target: Column = None,
    weight: Column = None,
    label: str | None = None,
) -> Dataset:
    r"""Read a graph, and all other data of its nodes in the file or folder.

    Formats are:

    - "table": a list of links with ids of any kind (``.csv``, ``.tsv``, ``.txt``, ``.edges``,
      ``.parquet``);
    - "npz": what `scipy.sparse.save_npz` writes, or an archive with the arrays of a CSR matrix
      (``adj_indptr``, ``adj_indices``) or a list of links (``edge_index``, ``edges``), and perhaps
      features, labels and masks under one of the names in use;
    - "mtx": MatrixMarket;
    - "graphml", "gml", "edgelist": read by networkx; a node attribute named label, class or y, or
      the one that `label` names, becomes the label;
    - "h5ad": AnnData; the graph is ``obsp["connectivities"]``, features are ``obsm["X_pca"]`` if it
      is there, and `label` names the column of ``obs`` with the labels;
    - "planetoid": the eight files ``ind.<name>.*``; the path is their folder, or
      ``folder/ind.<name>`` if it holds several data sets;
    - "ogb": a node data set as the Open Graph Benchmark publishes it, folder or ``.zip``;
    - "reddit": Reddit as DGL publishes it, folder or ``.zip``.

    Nothing is unpickled, except the Planetoid files: those by a reader that only knows numbers,
    arrays, sparse matrices and lists, and refuses the rest.

    Parameters
    ----------
    path : str or path
        The file or folder.
    format : str, optional
        One of the formats above; by default recognised.
    split : int or str, optional
        Which split to take if there are several: a number from 0 ("npz"; the first by
        default) or a name ("ogb").
    header, source, target, weight
        How to read a table, see `nodeproof.tables.reading.read_tables`.
    label : str, optional
        The node attribute with the labels, for formats that networkx reads.

    Returns
    -------
    Dataset

    Raises
    ------
    InputError
        If anything is wrong; the message names the file.
    MissingExtraError
        If networkx is needed and not installed.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from nodeproof.datasets import read_graph
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "links.csv")
    ...     _ = path.write_text("ann,bob\nbob,eve\n")
    ...     data = read_graph(path)
    >>> data
    Dataset(n=3, edges=2, n_features=None, n_classes=None, masks=[])
    >>> data.names.tolist()
    ['ann', 'bob', 'eve']
    """
    place = Path(path)
    kind = recognise(place) if format is None else format
    if kind not in FORMATS:
        raise InputError(f"format must be one of {', '.join(FORMATS)}; got {format!r}")
    columns = {"source": source, "target": target, "weight": weight, "header": header}
    given = [name for name, value in columns.items() if value is not None]
    if kind != "table" and given:
        raise InputError(f"{place} is not a table: leave out {', '.join(given)}")
    if label is not None and kind not in (*NETWORKS, "h5ad"):
        raise InputError(f"{place} has no node attributes: leave out label")
    if kind == "table":
        return _read_table(place, header, source, target, weight)
    if kind == "npz":
        if isinstance(split, str):
            raise InputError(f"splits of {place} have numbers, from 0; got {split!r}")
        return read_archive(place, split or 0)
    if kind == "mtx":
        return _read_mtx(place)
    if kind == "h5ad":
        from nodeproof.datasets.cells import read_h5ad

        return read_h5ad(place, label)
    if kind == "planetoid":
        return read_planetoid(place)
    if kind == "ogb":
        return read_ogb(place, None if split is None else str(split))
    if kind == "reddit":
        return read_reddit(place)
    return read_network(place, kind, label)


def _read_table(
    path: Path, header: bool | None, source: Column, target: Column, weight: Column
) -> Dataset:
    tables = read_tables(path, header=header, source=source, target=target, weight=weight)
    return assemble(path, tables.graph, names=unless_positions(tables.ids), notes=tables.notes)


def _read_mtx(path: Path) -> Dataset:
    graph, notes = check_matrix(path, read_matrix_market(path))
    return assemble(path, graph, notes=notes)


def read_with_tables(
    edges: Path,
    features: Path | None = None,
    labels: Path | None = None,
    *,
    source: Column = None,
    target: Column = None,
    weight: Column = None,
    label: Column = None,
    unknown: Collection[str] | None = None,
    **options: Any,
) -> Tables:
    """Read what `read_tables` reads, from anything that `read_graph` takes.

    Features and labels of the graph's own file are used unless another file is given for them; of
    its labels only those inside the train mask, if there is one.

    Parameters
    ----------
    edges : pathlib.Path
        The graph: an edge table, or any other file or folder that `read_graph` takes.
    label : str or int, optional
        The column of the labels file; without one, the node attribute of a graph that networkx
        reads.
    features, labels, source, target, weight, unknown, **options
        See `nodeproof.tables.reading.read_tables`.
    """
    kind = recognise(edges)
    if kind != "table" and options.get("repeated", "max") != "max":
        raise InputError(f"{edges} is not a list of links: leave out --repeated")
    if kind == "table":
        return read_tables(
            edges, features, labels, source=source, target=target, weight=weight,
            label=label, unknown=unknown, **options,
        )  # fmt: skip
    if not source is target is weight is None:
        raise InputError(f"{edges} has no columns: leave out source, target and weight")
    attribute = None
    if labels is options.get("nodes") is None and kind in (*NETWORKS, "h5ad") and label is not None:
        attribute, label = str(label), None
    data = read_graph(edges, format=kind, label=attribute)
    graph = _whole_graph(edges, data, labels is options.get("nodes") is None)
    return read_tables(graph, features, labels, label=label, unknown=unknown, **options)


def _whole_graph(path: Path, data: Dataset, use_labels: bool) -> WholeGraph:
    notes = list(data.notes)
    graph, X, y = data.graph, data.X, data.y
    if y is not None and "train" in data.masks:
        y = data.training_labels()
    elif y is not None and use_labels:
        notes.append(f"{path.name} has labels but no train mask; all of them are used")
    y = None if y is None else labels_as_text(y)
    keys = Keys.of_positions(path, graph.shape[0])
    if data.names is not None:
        names, order = sorted_names(path, data.names.tolist())
        graph = graph[order][:, order]
        X, y = (None if rows is None else rows[order] for rows in (X, y))
        if names is not None:
            texts = pa.array(names.astype(np.str_).tolist(), pa.large_string())
            keys = Keys.of_texts(path, texts, keys.place)
    return WholeGraph(keys, graph, X, y, notes)
