"""Read edges, features and labels from a user's files into one node set."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.errors import InputError, count_of
from nodeproof.inputs.label_values import Unknown
from nodeproof.inputs.preparation import Preparation
from nodeproof.storage.atomic import check_regular
from nodeproof.tables.arrays import read_feature_archive, read_label_archive
from nodeproof.tables.columns import Column, refuse_one_column
from nodeproof.tables.edges import Links, build_graph, read_links
from nodeproof.tables.features import FeatureRows, read_features, some
from nodeproof.tables.files import ParquetFile, TableFile, file_kind
from nodeproof.tables.keys import Keys, check_lookalikes, one_node_set
from nodeproof.tables.labels import LabelRows, drop_label_columns, read_labels
from nodeproof.tables.nodes import NodeColumns, NodeRows, read_nodes
from nodeproof.tables.text import TextFile

__all__ = ["Tables", "WholeGraph", "open_table", "read_tables", "refuse_idle"]

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class WholeGraph:
    """A graph that was read already, rather than a list of links.

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


@dataclass(frozen=True, repr=False)
class Tables:
    """The content of a user's files, for one set of n nodes.

    Attributes
    ----------
    ids : ndarray of shape (n,)
        Node ids, sorted: int64 if every id in every file is an integer, otherwise text.
    graph : scipy.sparse.csr_array of shape (n, n)
        Symmetric, without self loops; row i is the node ``ids[i]``.
    X : ndarray or scipy.sparse.csr_array of shape (n, m), or None
        Features.
    feature_names : list of m str or None
        Their names.
    y : ndarray of shape (n,) or None
        Labels as text, empty where unknown.
    notes : list of str
        What the user should know, one line each.
    preparation : Preparation or None
        How a table of nodes became features.
    targets : ndarray of shape (n,) or None
        Numbers to predict, NaN where unknown.
    """

    ids: NDArray[Any]
    graph: sp.csr_array
    X: NDArray[Any] | sp.csr_array | None = None
    feature_names: list[str] | None = None
    y: NDArray[np.str_] | None = None
    notes: list[str] = field(default_factory=list)
    preparation: Preparation | None = None
    targets: NDArray[np.float64] | None = None

    def __repr__(self) -> str:
        features = "None" if self.X is None else str(self.X.shape[1])
        labels = "None" if self.y is None else str(int((self.y != "").sum()))
        return (
            f"Tables(n={len(self.ids)}, edges={self.graph.nnz // 2}, n_features={features}, "
            f"labels={labels}, notes={len(self.notes)})"
        )


def read_tables(
    edges: PathLike | WholeGraph | Links | None,
    features: PathLike | None = None,
    labels: PathLike | None = None,
    *,
    header: bool | None = None,
    source: Column = None,
    target: Column = None,
    weight: Column = None,
    node: Column = None,
    label: Column = None,
    unknown: Collection[str] | None = None,
    strict: bool = False,
    missing: bool = False,
    nodes: PathLike | None = None,
    columns: NodeColumns | None = None,
    repeated: str = "max",
) -> Tables:
    r"""Read edges, and perhaps features and labels, for the union of their nodes.

    Files are delimited text (``.csv``, ``.tsv``, ``.txt``, ``.edges``, each also with
    ``.gz``), ``.parquet`` or, of features and labels, ``.npz``; see `TextFile` for what text may
    hold. The order of lines does not change the result.

    Parameters
    ----------
    edges : path, WholeGraph, Links or None
        One link per line: two ids and perhaps a weight. A graph that was read already may have
        features and labels too; those of the other files come before them. Of links that were read
        already, what is dropped or merged is left to the caller to tell. None: there are no links,
        and the features file lists the nodes.
    features : path, optional
        One node per line: its id and m numbers. Every node needs a row.
    labels : path, optional
        One node per line: its id and its label. Nodes without one have no label.
    header : bool, optional
        Whether the first line of every text file names its columns. None: find out, see
        `edges_have_header`, `features_have_header` and `labels_have_header`; a column asked for
        by name says so as well.
    source, target, weight : str or int, optional
        Columns of the edges file, by name or by position from 0 (digits are a position unless
        a column has that name). Default: columns with well-known names ("source", "target",
        "weight", …), otherwise the first two; without a header a third column of numbers is
        the weight.
    node : str or int, optional
        Column of the ids in the features and labels files. Default: "node" or "id", otherwise
        the first.
    label : str or int, optional
        Column of the labels. Default: "label" or "class", otherwise the first beside the ids.
    unknown : collection of str, optional
        What stands for an unknown label; an empty one always does. Default:
        `nodeproof.inputs.label_values.UNKNOWN`, in upper or lower case, with a note on those that
        may be classes.
    strict : bool
        Whether a node that no link mentions is an error rather than a note.
    missing : bool
        Whether features may be missing, and become NaN: fields that are empty, and rows.
    nodes : path, optional
        One table of nodes with attributes of any kind, and labels unless there is a file of them;
        instead of features.
    columns : NodeColumns, optional
        What its columns hold, and how they are prepared.
    repeated : {"max", "sum"}
        Which weight a link has that is listed more than once.

    Returns
    -------
    Tables

    Raises
    ------
    InputError
        If anything is wrong; the message names the file and, where there is one, the line.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from nodeproof.tables.reading import read_tables
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     edges, labels = Path(folder, "edges.csv"), Path(folder, "labels.csv")
    ...     _ = edges.write_text("ann,bob\nbob,eve\n")
    ...     _ = labels.write_text("node,label\nann,red\neve,?\njoe,blue\n")
    ...     tables = read_tables(edges, labels=labels)
    >>> tables
    Tables(n=4, edges=2, n_features=None, labels=2, notes=1)
    >>> tables.ids.tolist(), tables.y.tolist()
    (['ann', 'bob', 'eve', 'joe'], ['red', '', '', 'blue'])
    >>> tables.notes
    ['1 node in labels.csv but in no link: isolated']
    """
    refuse_idle(features, labels, node, label, nodes)
    links: Links | WholeGraph
    if edges is None:
        links = _no_links(features or nodes)
    elif isinstance(edges, WholeGraph | Links):
        links = edges
    else:
        links = read_links(open_table(Path(edges)), header, source, target, weight)
    feature_rows: FeatureRows | NodeRows | None
    if nodes is None:
        label_rows = _label_rows(labels, links, header, node, label, Unknown.of(unknown))
        column = None if label_rows is None else label_rows.column
        feature_rows = _feature_rows(features, links, header, node, column, missing)
    else:
        asked = replace(columns or NodeColumns(), other_labels=labels is not None)
        feature_rows = read_nodes(
            open_table(Path(nodes)), links.keys.has, header, node, asked, Unknown.of(unknown)
        )
        label_rows = feature_rows.labels
        if labels is not None:
            label_rows = _label_rows(labels, links, header, None, label, Unknown.of(unknown))
    if edges is None and isinstance(links, WholeGraph) and feature_rows is not None:
        n = len(feature_rows.keys.distinct)
        links = replace(links, keys=feature_rows.keys, graph=sp.csr_array((n, n)))
    rows = [part for part in (feature_rows, label_rows) if part is not None]
    notes = [note for part in (links, *rows) for note in part.notes]

    files = [links.keys, *(part.keys for part in rows)]
    notes += check_lookalikes(files)
    ids, places = one_node_set(files)
    if isinstance(links, WholeGraph):
        graph = links.graph
        _refuse_strangers(files, places, ids)
        alone = int((np.diff(graph.indptr) == 0).sum())
        if alone and strict and edges is not None:
            raise InputError(f"{count_of(alone, 'node')} in {links.keys.path} without a link")
        if alone and edges is not None:
            notes.append(f"{count_of(alone, 'node')} without a link: isolated")
    else:
        graph, graph_notes = build_graph(links, places[0], len(ids), repeated)
        notes += [] if links is edges else graph_notes
        notes += _isolated(files, places, ids, strict)
    tables = Tables(ids, graph, notes=notes)
    codes = None
    if label_rows is not None:
        codes = label_rows.placed(places[-1], len(ids))
        if not (codes >= 0).any():
            notes.append("no node has a known label")
        tables = replace(tables, y=np.array([*label_rows.names, ""], dtype=np.str_)[codes])
    if isinstance(feature_rows, NodeRows):
        made = feature_rows.prepared(places[1], ids, codes)
        notes += made.notes
        if feature_rows.target is not None:
            placed = feature_rows.target.placed(places[1], len(ids))
            tables = replace(tables, targets=placed.numbers)
        if made.X is not None:
            tables = replace(tables, X=made.X, feature_names=made.preparation.features,
                             preparation=made.preparation)  # fmt: skip
    elif feature_rows is not None:
        why = partial(links.why_missing, places[0]) if isinstance(links, Links) else None
        X, names = feature_rows.placed(places[1], ids, why), feature_rows.names
        if label_rows is not None and codes is not None:
            X, names, more = drop_label_columns(feature_rows, places[1], X, label_rows, codes)
            notes += more
        tables = replace(tables, X=X, feature_names=names)
    return tables


def _no_links(features: PathLike | None) -> WholeGraph:
    """Return a graph without nodes, where the features are to list them."""
    if features is None:
        raise InputError("without links, the nodes are those of a features file: give one")
    keys = Keys.of_texts(Path(features), pa.array([], pa.large_string()), str)
    return WholeGraph(keys, sp.csr_array((0, 0)), None, None, [])


def refuse_idle(
    features: PathLike | None,
    labels: PathLike | None,
    node: Column,
    label: Column,
    nodes: PathLike | None = None,
) -> None:
    """Refuse a column of a file that is not given, and two files with features."""
    if nodes is not None and features is not None:
        raise InputError(
            "--nodes and --features are both tables of features: put all columns into one, and "
            "give that"
        )
    if nodes is not None:
        return
    if label is not None and labels is None:
        raise InputError(
            f"the label column {label!r} needs a table: give one (--nodes, --labels), or leave it "
            "out"
        )
    if node is not None and features is labels is None:
        raise InputError(
            f"the id column {node!r} needs a table of nodes: give one (--nodes, --features, "
            "--labels), or leave it out"
        )


def open_table(path: Path) -> TableFile:
    """Open a delimited text or Parquet file of at least two columns."""
    kind = file_kind(path)
    if kind == "npz":
        check_regular(path)
        raise InputError(f"{path} is a NumPy archive, not a table")
    file: TableFile = TextFile(path) if kind == "text" else ParquetFile(path)
    refuse_one_column(file)
    return file


def _feature_rows(
    features: PathLike | None,
    links: Links | WholeGraph,
    header: bool | None,
    node: Column,
    label: str | None,
    missing: bool,
) -> FeatureRows | None:
    embedded = links.X if isinstance(links, WholeGraph) else None
    if features is None:
        return None if embedded is None else FeatureRows.of_array(links.keys, embedded)
    path = Path(features)
    if embedded is not None:
        links.notes.append(f"{path.name} replaces the features in {links.keys.path.name}")
    if file_kind(path) == "npz":
        X = read_feature_archive(path)
        return FeatureRows.of_array(Keys.of_positions(path, X.shape[0]), X)
    return read_features(
        open_table(path), links.keys.has, header, node, label=label, missing=missing
    )


def _label_rows(
    labels: PathLike | None,
    links: Links | WholeGraph,
    header: bool | None,
    node: Column,
    label: Column,
    unknown: Unknown,
) -> LabelRows | None:
    embedded = links.y if isinstance(links, WholeGraph) else None
    if labels is None:
        return None if embedded is None else LabelRows.of_array(links.keys, embedded, unknown)
    path = Path(labels)
    if embedded is not None:
        links.notes.append(f"{path.name} replaces the labels in {links.keys.path.name}")
    if file_kind(path) == "npz":
        y = read_label_archive(path)
        return LabelRows.of_array(Keys.of_positions(path, len(y)), y, unknown)
    return read_labels(open_table(path), links.keys.has, header, node, label, unknown)


def _refuse_strangers(files: list[Keys], nodes: list[NDArray[Any]], ids: NDArray[Any]) -> None:
    """Refuse ids, in any file, that are not nodes of a graph that lists its nodes."""
    graph, *others = files
    stranger = np.ones(len(ids), dtype=bool)
    stranger[nodes[0]] = False
    for keys, rows in zip(others, nodes[1:], strict=True):
        if stranger[rows].any():
            row = int(np.argmax(stranger[rows]))
            where = f" in {graph.path}"
            if graph.by_position:
                where = f"; the nodes of {graph.path} are 0…{len(graph.distinct) - 1}"
            raise InputError(f"{keys.place(row)}: there is no node {keys.id_of(row)}{where}")


def _isolated(
    files: list[Keys], nodes: list[NDArray[Any]], ids: NDArray[Any], strict: bool
) -> list[str]:
    """Return a note on nodes that no link mentions; with ``strict`` they are an error."""
    alone = np.ones(len(ids), dtype=bool)
    alone[nodes[0]] = False
    if not alone.any():
        return []
    last = files[-1], nodes[-1]
    if len({keys.path for keys in files}) == 2 and alone[last[1]].mean() > 0.5:
        linked = ids[~alone]
        raise InputError(
            f"{int(alone[last[1]].sum())} of {len(last[1])} nodes of {last[0].path} are in no link "
            f"of {files[0].path}: {some(ids[alone])}; the links have names like {some(linked)}: "
            "do both files name nodes the same way?"
        )
    pairs = zip(files[1:], nodes[1:], strict=True)
    where = " and ".join(dict.fromkeys(keys.path.name for keys, rows in pairs if alone[rows].any()))
    found = f"{count_of(alone.sum(), 'node')} in {where} but in no link"
    if strict:
        raise InputError(
            f"{found} of {files[0].path}: {some(ids[alone])}; add links, remove these nodes, or "
            "leave out --strict to allow isolated ones"
        )
    return [f"{found}: isolated"]
