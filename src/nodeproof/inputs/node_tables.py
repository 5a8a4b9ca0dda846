"""One table of nodes in Python: features of any kind, labels in a column, names of the nodes.

`fit(table, y="column", graph=links)` and `NodeClassifier(prepare=True)` come here first; what they
return goes on as arrays with names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodeproof.errors import InputError
from nodeproof.inputs.attributes import Attribute, read_attributes
from nodeproof.inputs.features import check_features, read_features
from nodeproof.inputs.graph_objects import (
    column_names,
    is_matrix_table,
    is_table,
    list_columns,
    table_columns,
)
from nodeproof.inputs.node_names import (
    NamedRows,
    as_keys,
    as_names,
    check_unique,
    names_of_graph,
    names_of_rows,
)
from nodeproof.inputs.preparation import STEPS, Preparation, check_steps, prepare
from nodeproof.inputs.unpacking import link_names
from nodeproof.runtime.logs import logger, warn_caller

__all__ = [
    "IDS",
    "NodeTable",
    "TableInputs",
    "holds_names",
    "prepare_new",
    "read_new_features",
    "read_node_table",
]

#: names of a column that names the nodes, in lower case
IDS = ("node", "id", "node_id", "nodeid")


@dataclass(frozen=True)
class NodeTable:
    """Attributes of n nodes that `fit` prepares, as `nodeproof.interop` returns them.

    Attributes
    ----------
    attributes : sequence of Attribute
        The columns.
    names : ndarray of shape (n,), or None
        Names of the nodes; None: their positions.
    steps : sequence of str
        How they are prepared.
    node : str
        The column that the names are from, if any.
    """

    attributes: Sequence[Attribute]
    names: NDArray[Any] | None = None
    steps: Sequence[str] = STEPS
    node: str = ""

    def __repr__(self) -> str:
        columns = list_columns([attribute.name for attribute in self.attributes])
        return f"<NodeTable of {', '.join(map(str, self.steps))}: {columns}>"


class TableInputs(NamedTuple):
    """Features, labels and links of a fit, once tables are arrays.

    Attributes
    ----------
    X, y, graph : object
        As `nodeproof.inputs.unpacking.unpack` takes them.
    preparation : Preparation or None
        How a table became features.
    """

    X: Any
    y: Any
    graph: Any
    preparation: Preparation | None


def read_node_table(X: Any, y: Any, graph: Any, asked: Any = "auto") -> TableInputs:
    """Return features that were prepared, if the user asks for that, and labels of a column.

    Parameters
    ----------
    X : table, NodeTable or array
        The nodes.
    y : str or object
        The column of the table with the labels, or the labels.
    graph : object
        The links. If they are a table, its ends are names in the column of the table that is
        called node or id, or else in the one that has them all.
    asked : "auto", bool, or sequence of str
        What to prepare; "auto": all of a table with its labels, nothing of others.
    """
    if isinstance(X, NodeTable):
        return _prepared(X, y, graph)
    if isinstance(y, str):
        return _prepared(*_split(X, y, graph, STEPS if asked == "auto" else check_steps(asked)))
    steps = () if isinstance(asked, str) and asked == "auto" else check_steps(asked)
    if not steps or not is_table(X):
        return TableInputs(X, y, graph, None)
    names = names_of_rows(X, "X")
    named = names if isinstance(names, np.ndarray) else None
    table = NodeTable(read_attributes(X, column_names(X)), named, steps)
    if named is None and isinstance(names, range) and hasattr(y, "index"):
        y = getattr(y, "array", y) if isinstance(names_of_rows(y, "y"), range) else y
    return _prepared(table, y, graph)


def read_new_features(
    X: Any,
    graph: Any,
    preparation: Preparation | None,
    feature_names: NDArray[Any] | None,
    check: Callable[..., Any],
    missing: bool = False,
) -> tuple[Any, Any]:
    """Return the features of new nodes as a fit takes them, and names of these nodes.

    Parameters
    ----------
    X : array, sparse matrix or table of shape (n_new, m), or None
        As users give them.
    graph : object
        Their links: in tables, they may name nodes.
    preparation : Preparation or None
        That of the fit.
    feature_names : ndarray of shape (m,), or None
        Those of the fit.
    check : callable
        As of :func:`nodeproof.inputs.features.read_features`.
    missing : bool
        Whether features may be missing, as NaN.
    """
    if X is not None and preparation is not None:
        return prepare_new(X, preparation)
    names = names_of_rows(X, "X") if is_table(graph) else None
    if X is not None:
        X = read_features(X, check)
        check_features(X, feature_names, missing)
    return X, names


def prepare_new(X: Any, preparation: Preparation) -> tuple[NDArray[np.float64], Any]:
    """Return the features of new nodes as the fit made them, shape (n_new, m), and their names.

    Parameters
    ----------
    X : table or NodeTable
        With the columns of the fit.
    preparation : Preparation
        That of the fit.
    """
    if isinstance(X, NodeTable):
        return preparation.apply(X.attributes), X.names
    if not is_table(X):
        listed = list_columns(preparation.names)
        raise InputError(
            f"this model was fitted to a table with the columns {listed}: give new nodes as a "
            f"table with the same columns, got {type(X).__name__}"
        )
    attributes = read_attributes(X, _as_they_are(X, preparation.names))
    names = names_of_rows(X, "X")
    if not isinstance(names, np.ndarray) and preparation.node in map(str, column_names(X)):
        names = as_names(as_keys(np.asarray(X[preparation.node])))
    made = preparation.apply(attributes)
    if "impute" not in preparation.steps and np.isnan(made).any():
        row, column = np.argwhere(np.isnan(made))[0]
        raise InputError(f"X has no {preparation.features[column]!r} at row {row}: fill it in")
    return made, names


def _as_they_are(table: Any, wanted: Sequence[str]) -> list[Any]:
    """Return names of columns as the table has them, which may be numbers."""
    found = {str(name): name for name in column_names(table)}
    return [found.get(name, name) for name in wanted]


def _prepared(table: NodeTable, y: Any, graph: Any) -> TableInputs:
    """Return the features of a table, with the names of its nodes."""
    X, preparation, line = prepare(table.attributes, table.steps, "X")
    logger.info(line)
    if len(preparation.columns) < len(table.attributes):
        warn_caller(line)
    if X is None:
        return TableInputs(None, _named(y, table.names), graph, None)
    preparation = Preparation(preparation.columns, preparation.steps, table.node)
    rows = X if table.names is None else NamedRows(X, table.names)
    return TableInputs(rows, _named(y, table.names), graph, preparation)


def _named(y: Any, names: NDArray[Any] | None) -> Any:
    """Return labels with the names of the table's nodes, unless they have names of their own."""
    plain_list = isinstance(y, list) or type(y) is np.ndarray
    if names is None or not plain_list or len(y) != len(names):
        return y
    held = np.empty(len(y), dtype=object)
    held[:] = list(y)
    return NamedRows(held, names)


def _split(
    table: Any, label: str, graph: Any, steps: Sequence[str]
) -> tuple[NodeTable, list[Any], Any]:
    """Return features, labels and links of a table with a column of labels."""
    if not is_table(table):
        raise InputError(
            f"y={label!r} names a column, so X must be a table that has it, got "
            f"{type(table).__name__}; for labels of your own give one per node"
        )
    columns = column_names(table)
    if label not in columns:
        raise InputError(f"X has no column {label!r} with the labels, only {list_columns(columns)}")
    others = [name for name in columns if name != label]
    names = names_of_rows(table, "X")
    node = None
    if not isinstance(names, np.ndarray):
        node = _find_ids(table, others, graph)
        names = None if node is None else _names_in(table, node)
    attributes = read_attributes(table, [name for name in others if name != node])
    if names is not None and is_table(graph) and not is_matrix_table(graph):
        source, target, weight = table_columns(graph)
        graph = link_names(as_keys(source), as_keys(target), weight, names)
    known = np.asarray(names) if isinstance(names, np.ndarray) else None
    made = NodeTable(attributes, known, steps, "" if node is None else str(node))
    return made, _listed(table[label]), graph


def _listed(column: Any) -> list[Any]:
    """Return the values of a column of labels as a list, None where there is none."""
    values = column.to_pylist() if hasattr(column, "to_pylist") else np.asarray(column).tolist()
    return [None if value != value else value for value in values]


def _names_in(table: Any, node: Any) -> NDArray[Any]:
    """Return the names in a column; they must differ."""
    names = as_keys(np.asarray(table[node]))
    check_unique(names, f"the column {node!r} of X")
    return names


def _find_ids(table: Any, columns: Sequence[Any], graph: Any) -> Any:
    """Return the column that names the nodes, or None if links name them by position."""
    named = [name for name in columns if str(name).lower() in IDS]
    ends = _ends_of(graph)
    if named:
        return named[0]
    if ends is None:
        return None
    holding = [name for name in columns if holds_names(table[name], ends)]
    if len(holding) > 1:
        raise InputError(
            f"{list_columns(holding)} may all name the nodes: set one of them as the index of X, "
            "or use nodeproof.interop.from_tables(nodes, edges, node=...)"
        )
    if not holding and ends and all(isinstance(end, str) for end in ends):
        raise InputError(
            f"links name nodes like {min(ends)!r}, and no column of X has all of them: add one, or "
            "the missing nodes"
        )
    return holding[0] if holding else None


def _ends_of(graph: Any) -> set[Any] | None:
    """Return the nodes that links name, or None if they are positions."""
    if is_table(graph) and not is_matrix_table(graph):
        source, target, _ = table_columns(graph)
        if source.dtype.kind in "iu" and target.dtype.kind in "iu":
            return None
        return {*as_keys(source).tolist(), *as_keys(target).tolist()}
    names = None if graph is None else names_of_graph(graph)
    return set(names.tolist()) if isinstance(names, np.ndarray) else None


def holds_names(column: Any, ends: set[Any]) -> bool:
    """Tell whether a column has all of these names, each once."""
    values = np.asarray(column).tolist()
    try:
        distinct = set(values)
    except TypeError:  # lists
        return False
    return len(distinct) == len(values) and ends <= distinct
