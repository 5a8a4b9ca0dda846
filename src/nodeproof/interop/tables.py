"""Tables of pandas, polars and pyarrow: links between names in, results out."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from nodeproof.errors import InputError, MissingExtraError
from nodeproof.inputs.attributes import read_attributes
from nodeproof.inputs.graph_objects import (
    column_names,
    is_table,
    list_columns,
    read_ends,
    read_weights,
    table_columns,
)
from nodeproof.inputs.node_names import NamedRows, names_of_rows, writable
from nodeproof.inputs.node_tables import IDS, NodeTable, holds_names
from nodeproof.inputs.preparation import check_steps
from nodeproof.inputs.unpacking import link_names
from nodeproof.interop.networks import node_results

if TYPE_CHECKING:
    from nodeproof.estimator import NodeClassifier

__all__ = ["from_tables", "to_table"]


def from_tables(
    nodes: Any,
    edges: Any,
    *,
    node: str | None = None,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    label: str | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    prepare: Any = True,
    repeated: str = "max",
) -> dict[str, Any]:
    """Return the arguments of `fit` from a table of nodes and a table of links between them.

    Parameters
    ----------
    nodes : table
        One row per node, in the order of `labels_`.
    edges : table
        One row per link; its ends are names in `nodes`.
    node : str, optional
        The column of `nodes` with the names: text or integers, without repeats. By default the one
        called node or id, else the index of a pandas table, else the one that has all ends of
        links.
    source, target, weight : str, optional
        The columns of `edges`; by default those called source, target and weight or the like.
    label : str, optional
        The column of `nodes` with labels, empty where unknown; none by default.
    features : list of str, optional
        The columns of `nodes` with features; by default all others.
    drop : list of str
        Columns that are not features.
    prepare : bool, or list of "one-hot", "impute", "scale"
        What `fit` does to the features, see :class:`nodeproof.NodeClassifier`; False: nothing,
        they are numbers.
    repeated : {"max", "sum"}
        Which weight a link has that is listed more than once.

    Returns
    -------
    dict
        ``X``, ``y`` and ``graph``: ``clf.fit(**from_tables(nodes, edges, label="kind"))``.

    Examples
    --------
    >>> from nodeproof.interop import from_tables
    >>> parts = from_tables(
    ...     {"node": ["eve", "bob", "ann"], "kind": ["red", None, "blue"]},
    ...     {"payer": ["ann", "bob"], "payee": ["bob", "eve"]},
    ...     source="payer",
    ...     target="payee",
    ...     label="kind",
    ... )
    >>> parts["y"].values.tolist(), parts["graph"].names.tolist(), parts["graph"].matrix.nnz
    (['red', None, 'blue'], ['eve', 'bob', 'ann'], 4)
    """
    for what, table in (("nodes", nodes), ("edges", edges)):
        if not is_table(table):
            raise InputError(
                f"{what} must be a table with named columns, got {type(table).__name__}"
            )
    if repeated not in ("max", "sum"):
        raise InputError(f"repeated must be 'max' or 'sum', got {repeated!r}")
    columns = column_names(nodes)
    if source is target is None and _are_edges(nodes) and not _are_edges(edges):
        raise InputError("the first table is that of the nodes, the second that of the links")
    ends = _read_edges(edges, source, target, weight)
    named = _find_node(nodes, columns, node, {*ends[0].tolist(), *ends[1].tolist()})
    names = _names_of(nodes, named)
    graph = link_names(*ends, names, repeated)
    if isinstance(features, str):
        raise InputError(f"features must be a list of columns, got {features!r}")
    taken = {named, label, *drop}
    for name in (label, *drop, *(features or ())):
        _check_column(nodes, name)
    used = [name for name in (features or columns) if name not in taken or features]
    used = [] if features is not None and not features else used
    steps = check_steps(prepare)
    X: Any = None
    if used and steps:
        X = NodeTable(read_attributes(nodes, used), names, steps, str(named or ""))
    elif used:
        X = _with_index(_read_features(nodes, used), names)
    return {"X": X, "y": None if label is None else _labels(nodes[label], names), "graph": graph}


def _are_edges(table: Any) -> bool:
    """Tell whether a table has the columns of links."""
    try:
        table_columns(table)
    except InputError:
        return False
    return True


def _find_node(nodes: Any, columns: list[Any], asked: str | None, ends: set[Any]) -> Any:
    """Return the column with the names of the nodes; None for the index."""
    if asked is not None:
        _check_column(nodes, asked)
        return asked
    called = [name for name in columns if str(name).lower() in IDS]
    if called:
        return called[0]
    if isinstance(names_of_rows(nodes, "nodes"), np.ndarray):
        return None
    holding = [name for name in columns if holds_names(nodes[name], ends)]
    if len(holding) == 1:
        return holding[0]
    raise InputError(
        f"which column of nodes names them? Say so with node=...; there are {list_columns(columns)}"
    )


def _names_of(nodes: Any, named: Any) -> NDArray[Any]:
    if named is None:
        return np.asarray(names_of_rows(nodes, "nodes"))
    names = _as_keys(np.asarray(nodes[named]), named)
    listed, counts = np.unique(names, return_counts=True)
    if (counts > 1).any():
        raise InputError(f"the {named} column names {listed[counts.argmax()].item()!r} twice")
    return names


def _read_edges(
    edges: Any, source: str | None, target: str | None, weight: str | None
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64] | None]:
    """Return ends and weights of links, in the columns that the user names."""
    asked = {"source": source, "target": target, "weight": weight}
    found = column_names(edges)
    for name in asked.values():
        if name is not None and name not in found:
            raise InputError(f"edges has no column {name!r}, only {list_columns(found)}")
    if source is not None and target is not None:
        ends = [read_ends(edges[source], source), read_ends(edges[target], target)]
        held = None if weight is None else read_weights(edges[weight], weight)
        if weight is None and "weight" in found:
            held = read_weights(edges["weight"], "weight")
    elif source is target is None:
        first, second, held = table_columns(edges)
        ends = [first, second]
        held = held if weight is None else read_weights(edges[weight], weight)
    else:
        raise InputError("name both ends of a link: source=... and target=...")
    return _as_keys(ends[0], source or "source"), _as_keys(ends[1], target or "target"), held


def _labels(column: Any, names: NDArray[Any]) -> NamedRows:
    """Return labels with the names of their nodes; None where there is none."""
    values = column.to_pylist() if hasattr(column, "to_pylist") else np.asarray(column).tolist()
    held = np.empty(len(values), dtype=object)
    held[:] = [None if value != value else value for value in values]
    return NamedRows(held, names)


def _as_keys(names: NDArray[Any], column: str) -> NDArray[Any]:
    """Return names as integers if all are, else as text."""
    listed = names.tolist()
    if names.dtype.kind in "iu" or all(type(name) is int for name in listed):
        return names.astype(np.int64)
    bad = next((row for row, name in enumerate(listed) if not isinstance(name, str)), None)
    if bad is not None:
        raise InputError(
            f"row {bad} of the {column} column is {listed[bad]!r}: names must be text, or all of "
            "them integers"
        )
    return np.array(listed, dtype=str)


def _read_features(nodes: Any, columns: Sequence[str]) -> Any:
    """Return columns of numbers, in the kind of table that they are from."""
    if hasattr(nodes, "select"):
        return nodes.select(list(columns))
    if hasattr(nodes, "iloc"):
        return nodes[list(columns)]
    return np.column_stack([nodes[name] for name in columns])


def _check_column(nodes: Any, name: Any) -> None:
    names = column_names(nodes)
    if name is not None and name not in names:
        raise InputError(f"nodes has no column {name!r}, only {', '.join(map(repr, names))}")


def _with_index(rows: Any, names: NDArray[Any]) -> Any:
    """Return pandas rows with the names as index; others as they are."""
    return rows.set_axis(names) if hasattr(rows, "set_axis") else rows


def to_table(clf: NodeClassifier, kind: Literal["pandas", "polars", "arrow"] = "pandas") -> Any:
    """Return the results as a table with one row per node.

    Parameters
    ----------
    clf : NodeClassifier
        Fitted.
    kind : {"pandas", "polars", "arrow"}
        The library of the table.

    Returns
    -------
    pandas.DataFrame, polars.DataFrame or pyarrow.Table
        With the columns ``node`` (its name, or its position), ``label``, ``probability``,
        ``given_label`` (empty where there was none) and ``suspect``.
    """
    if kind not in ("pandas", "polars", "arrow"):
        raise InputError(f"kind must be 'pandas', 'polars' or 'arrow', got {kind!r}")
    import pyarrow as pa

    check_is_fitted(clf)
    results = node_results(clf, len(clf.labels_), "the table")
    n = len(results.labels)
    given = clf.fitted_.given
    given = np.full(n, -1) if given is None else given
    table = pa.table(
        {
            "node": pa.array(writable(clf.fitted_.names)),
            "label": pa.array(results.labels),
            "probability": pa.array(results.probability),
            "given_label": pa.array(clf.classes_[given], mask=given < 0),
            "suspect": pa.array(results.suspect),
        }
    )
    if kind == "arrow":
        return table
    try:
        library = import_module(kind)
    except ImportError:
        raise MissingExtraError(kind, "io") from None
    if kind == "polars":
        return library.from_arrow(table)
    frame = table.to_pandas()
    if clf.classes_.dtype.kind in "iu":
        # With missing values, pandas would convert to floats.
        frame["given_label"] = frame["given_label"].astype("Int64")
    return frame
