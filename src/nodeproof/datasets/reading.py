"""Read a graph from whatever file or folder it is in."""

from __future__ import annotations

import os
from pathlib import Path

from nodeproof.datasets.archives import read_archive
from nodeproof.datasets.dataset import Dataset, assemble
from nodeproof.datasets.formats import FORMATS, NETWORKS, recognise
from nodeproof.datasets.matrix_market import read_matrix_market
from nodeproof.datasets.networks import read_network
from nodeproof.datasets.parts import unless_positions
from nodeproof.datasets.planetoid import read_planetoid
from nodeproof.datasets.published import read_ogb, read_reddit
from nodeproof.errors import InputError
from nodeproof.io.archives import check_matrix
from nodeproof.io.columns import Column
from nodeproof.io.tables import read_tables

__all__ = ["read_graph"]


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
    r"""Read a graph, and what else the file or folder says of its nodes.

    Formats are:

    - "table": a list of links with ids of any kind (``.csv``, ``.tsv``, ``.txt``, ``.edges``,
      ``.parquet``);
    - "npz": what `scipy.sparse.save_npz` writes, or an archive with the arrays of a CSR matrix
      (``adj_indptr``, ``adj_indices``) or a list of links (``edge_index``, ``edges``), and perhaps
      features, labels and masks under one of the names in use;
    - "mtx": MatrixMarket;
    - "graphml", "gml", "edgelist": read by networkx; a node attribute named label, class or y, or
      the one that `label` names, becomes the label;
    - "planetoid": the eight files ``ind.<name>.*``; the path is their folder, or
      ``folder/ind.<name>`` where several sets lie in it;
    - "ogb": a node data set as the Open Graph Benchmark publishes it, folder or ``.zip``;
    - "reddit": Reddit as DGL publishes it, folder or ``.zip``.

    Nothing is unpickled, except the Planetoid files: those by a reader that only knows numbers,
    arrays, sparse matrices and lists, and refuses the rest.

    Parameters
    ----------
    path : str or path
        The file or folder.
    format : str, optional
        One of the formats above. Default: find out.
    split : int or str, optional
        Which split to take where there are several: a number from 0 ("npz"; the first by
        default) or a name ("ogb").
    header, source, target, weight
        How to read a table, see `nodeproof.io.read_tables`.
    label : str, optional
        The node attribute with the labels, of a format that networkx reads.

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
        raise InputError(f"{place} is no table: leave out {', '.join(given)}")
    if label is not None and kind not in NETWORKS:
        raise InputError(f"{place} has no node attributes: leave out label")
    if kind == "table":
        return _read_table(place, header, source, target, weight)
    if kind == "npz":
        if isinstance(split, str):
            raise InputError(f"splits of {place} have numbers, from 0; got {split!r}")
        return read_archive(place, split or 0)
    if kind == "mtx":
        return _read_mtx(place)
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
