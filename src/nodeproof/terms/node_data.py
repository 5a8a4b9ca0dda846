"""The data of nodes that terms are bound to, and columns of it, with missing values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.runtime.memory import check_free
from nodeproof.smoothing import Smoothing
from nodeproof.storage.schema import Check, either, list_of, or_none, text

__all__ = [
    "COLUMN",
    "COLUMNS",
    "Column",
    "Columns",
    "NodeData",
    "check_some_known",
    "check_whole",
    "find_columns",
    "read_columns",
]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class NodeData:
    """What is known of the nodes beside their links.

    Attributes
    ----------
    n_classes : int
        Number of classes K.
    X : ndarray or csr_array of shape (n, m), or None
        Features, finite; or NaN where missing, if every term that uses them takes them as given.
    y : ndarray of shape (n,), or None
        Labels 0…K−1, −1 where there is none.
    graph : Graph, or None
        The links, for terms that average over them.
    smoothing, links : Smoothing, or None
        Features, or links taken for features, that were averaged already.
    feature_names : ndarray of shape (m,), or None
        Names of the features.
    """

    n_classes: int
    X: NDArray[Any] | csr_array | None = None
    y: NDArray[np.int64] | None = None
    graph: Graph | None = None
    smoothing: Smoothing | None = None
    links: Smoothing | None = None
    feature_names: NDArray[Any] | None = None

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        if self.X is not None:
            return int(self.X.shape[0])
        if self.y is not None:
            return len(self.y)
        return 0 if self.graph is None else self.graph.n_nodes


#: a column of the features: its name or its position; negative ones count from the end
Column = str | int

#: several of them; None: all
Columns = Sequence[Column] | None


def _position(value: Any) -> bool:
    return type(value) is int and abs(value) < 2**31


#: what saved files may say of them
COLUMN: Check = either(text, _position)
COLUMNS: Check = or_none(list_of(COLUMN))


def find_columns(term: str, nodes: NodeData, asked: Columns, but: Sequence[int] = ()) -> list[int]:
    """Return the positions of columns of the features.

    Parameters
    ----------
    term : str
        Who asks, for messages.
    nodes : NodeData
        With features, and perhaps their names.
    asked : sequence of str and int, or None
        Names or positions; None for all columns.
    but : sequence of int
        Positions that are taken: they are not among all, and an error if asked for.

    Raises
    ------
    InputError
        If there is no such column, if one is asked for twice, or if none is left.
    """
    assert nodes.X is not None
    m = nodes.X.shape[1]
    if isinstance(asked, str | int):
        raise InputError(f"{term} needs a list of columns, got {asked!r}: write [{asked!r}]")
    if asked is None:
        found = [column for column in range(m) if column not in but]
    else:
        found = [_find_column(term, nodes, column) for column in asked]
    for k, column in enumerate(found):
        if column in found[:k] or column in but:
            raise InputError(f"{term} was given {_shown(nodes, column)} twice")
    if not found:
        raise InputError(f"{term} has no column: X has {m}, and {list(but)} are taken already")
    return found


def read_columns(nodes: NodeData, columns: Sequence[int]) -> Array:
    """Return some columns of the features, shape (n, len(columns)), NaN where missing."""
    X: Any = nodes.X
    if not isinstance(X, np.ndarray):
        check_free(
            8.0 * X.shape[0] * len(columns),
            f"{len(columns)} columns of sparse features, made dense,",
            "name fewer columns, or take Multinomial",
        )
        return np.asarray(X[:, list(columns)].toarray(), dtype=np.float64)
    return np.ascontiguousarray(X[:, list(columns)], dtype=np.float64)


def check_whole(
    term: str, nodes: NodeData, columns: Sequence[int], values: Array, least: int = 0
) -> None:
    """Raise an error that names a column with a value that is neither whole nor missing."""
    unfit = ~np.isnan(values) & ((values < least) | (values != np.floor(values)))
    if unfit.any():
        row, k = np.argwhere(unfit)[0]
        raise InputError(
            f"{term} needs whole numbers from 0 on, NaN where they are missing; "
            f"{_shown(nodes, columns[k])} has {values[row, k]:g}"
        )


def check_some_known(term: str, known: float) -> None:
    """Raise an error if no node at all has a value."""
    if not known:
        raise InputError(f"{term} has nothing to learn from: its values are missing at every node")


def _find_column(term: str, nodes: NodeData, asked: Any) -> int:
    assert nodes.X is not None
    m, names = nodes.X.shape[1], nodes.feature_names
    if isinstance(asked, int | np.integer) and not isinstance(asked, bool):
        if -m <= asked < m:
            return int(asked) % m
        raise InputError(f"{term} asks for column {asked}, but X has {m}: 0…{m - 1}")
    if not isinstance(asked, str):
        raise InputError(f"{term} takes names and positions of columns, got {asked!r}")
    if names is None:
        raise InputError(
            f"{term} asks for the column {asked!r}, but the columns of X have no names: give its "
            "position, or X as a table with names"
        )
    places = np.flatnonzero(np.asarray(names, dtype=object) == asked)
    if len(places) == 1:
        return int(places[0])
    if len(places):
        raise InputError(f"{term} asks for the column {asked!r}, but {len(places)} have this name")
    listed = ", ".join(map(repr, names[:5].tolist())) + (", …" if m > 5 else "")
    raise InputError(f"{term} asks for the column {asked!r}, but those of X are {listed}")


def _shown(nodes: NodeData, column: int) -> str:
    names = nodes.feature_names
    return f"column {column}" if names is None else f"column {names[column]!r}"
