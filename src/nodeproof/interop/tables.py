"""Tables of pandas, polars and pyarrow: links between names in, results out."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from nodeproof.errors import InputError, MissingExtraError
from nodeproof.inputs.graph_objects import column_names, is_table, table_columns
from nodeproof.inputs.node_names import writable
from nodeproof.inputs.unpacking import link_names
from nodeproof.interop.networks import node_results

if TYPE_CHECKING:
    from nodeproof.estimator import NodeClassifier

__all__ = ["from_tables", "to_table"]


def from_tables(
    edges: Any,
    nodes: Any,
    *,
    node: str = "node",
    labels: str | None = None,
    features: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return the arguments of `fit` from a table of links and a table of named nodes.

    Parameters
    ----------
    edges : table
        With the columns source, target and optionally weight; ends are names in `nodes`.
    nodes : table
        One row per node, in the order of `labels_`.
    node : str
        The column of `nodes` with the names: text or integers, without repeats.
    labels : str, optional
        The column of `nodes` with labels, empty where unknown; none by default.
    features : list of str, optional
        The columns of `nodes` with features; none by default.

    Returns
    -------
    dict
        ``X``, ``y`` and ``graph``: ``clf.fit(**from_tables(edges, nodes, labels="kind"))``.

    Examples
    --------
    >>> from nodeproof.interop import from_tables
    >>> parts = from_tables(
    ...     {"source": ["ann", "bob"], "target": ["bob", "eve"]},
    ...     {"node": ["eve", "bob", "ann"], "kind": ["red", None, "blue"]},
    ...     labels="kind",
    ... )
    >>> parts["y"], parts["graph"].names.tolist(), parts["graph"].matrix.nnz
    (['red', None, 'blue'], ['eve', 'bob', 'ann'], 4)
    """
    for what, table in (("edges", edges), ("nodes", nodes)):
        if not is_table(table):
            raise InputError(
                f"{what} must be a table with named columns, got {type(table).__name__}"
            )
    source, target, weight = table_columns(edges)
    names = _as_keys(np.asarray(_column(nodes, node)), node)
    listed, counts = np.unique(names, return_counts=True)
    if (counts > 1).any():
        raise InputError(f"the {node} column names {listed[counts.argmax()].item()!r} twice")
    source, target = _as_keys(source, "source"), _as_keys(target, "target")
    return {
        "X": None if features is None else _with_index(_read_features(nodes, features), names),
        "y": None if labels is None else _with_index(_column(nodes, labels), names),
        "graph": link_names(source, target, weight, names),
    }


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
    if isinstance(columns, str):
        raise InputError(f"features must be a list of columns, got {columns!r}")
    arrays = [_column(nodes, name) for name in columns]
    if hasattr(nodes, "select"):
        return nodes.select(list(columns))
    if hasattr(nodes, "iloc"):
        return nodes[list(columns)]
    return np.column_stack(arrays)


def _column(table: Any, name: str) -> Any:
    names = column_names(table)
    if name not in names:
        raise InputError(f"nodes has no column {name!r}, only {', '.join(map(repr, names))}")
    return table[name]


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
