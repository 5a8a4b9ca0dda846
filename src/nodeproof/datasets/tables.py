"""A graph of any format, together with tables of features and labels."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nodeproof.datasets.dataset import Dataset
from nodeproof.datasets.formats import NETWORKS, recognise
from nodeproof.datasets.parts import sorted_names
from nodeproof.datasets.reading import read_graph
from nodeproof.errors import InputError
from nodeproof.io.archives import GraphArchive
from nodeproof.io.columns import Column
from nodeproof.io.keys import Keys
from nodeproof.io.tables import Tables, read_tables

__all__ = ["read_with_tables"]


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

    Features and labels that come with the graph are used unless a file is given for them. Of
    its labels, only those inside the train mask are, if there is one.

    Parameters
    ----------
    edges : pathlib.Path
        The graph: an edge table, or any other file or folder that `read_graph` takes.
    label : str or int, optional
        The column of the labels file; without one, the node attribute of a graph that networkx
        reads.
    features, labels, source, target, weight, unknown, **options
        See `nodeproof.io.read_tables`.
    """
    kind = recognise(edges)
    if kind == "table":
        return read_tables(
            edges, features, labels, source=source, target=target, weight=weight,
            label=label, unknown=unknown, **options,
        )  # fmt: skip
    if not source is target is weight is None:
        raise InputError(f"{edges} has no columns: leave out source, target and weight")
    attribute = None
    if labels is None and kind in NETWORKS and label is not None:
        attribute, label = str(label), None
    data = read_graph(edges, format=kind, label=attribute)
    graph = _graph_archive(edges, data, labels is None)
    return read_tables(graph, features, labels, label=label, unknown=unknown, **options)


def _graph_archive(path: Path, data: Dataset, use_labels: bool) -> GraphArchive:
    notes = list(data.notes)
    graph, X, y = data.graph, data.X, data.y
    if y is not None and "train" in data.masks:
        y = data.training_labels()
    elif y is not None and use_labels:
        notes.append(f"{path.name} has labels but no train mask; all of them are used")
    if y is not None and y.dtype.kind != "U":
        y = np.where(y == -1, "", y.astype(np.str_))
    keys = Keys.of_positions(path, graph.shape[0])
    if data.names is not None:
        names, order = sorted_names(path, data.names.tolist())
        graph = graph[order][:, order]
        X, y = (None if rows is None else rows[order] for rows in (X, y))
        if names is not None:
            texts = pa.array(names.astype(np.str_).tolist(), pa.large_string())
            keys = Keys.of_texts(path, texts, keys.place)
    return GraphArchive(keys, graph, X, y, notes)
