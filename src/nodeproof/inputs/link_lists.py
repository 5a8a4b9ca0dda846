"""Lists of links, as pairs of nodes: which arrays and lists are such, and which are matrices.

A list of tuples is a list of links. An array of shape (E, 2), or of shape (E, 3) with weights in
the last column, is one if it cannot be a matrix of links; one of shape (2, E) is an edge_index.
Where both could be meant, it is refused or read with a warning.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.errors import InputError

__all__ = ["as_link_table"]


def as_link_table(graph: Any, n_nodes: int | None) -> Any:
    """Return a list of links as a table of them, a dict of columns; other graphs unchanged.

    Parameters
    ----------
    graph : object
        What was given as the graph.
    n_nodes : int or None
        Number of nodes, where features or labels say so.

    Examples
    --------
    >>> as_link_table([("ann", "bob"), ("bob", "eve")], None)["target"].tolist()
    ['bob', 'eve']
    >>> as_link_table(np.array([[0, 1], [1, 2], [2, 3]]), None)["source"].tolist()
    [0, 1, 2]
    """
    if isinstance(graph, list | tuple | set | frozenset):
        listed = list(graph)
        if listed and all(isinstance(link, tuple) for link in listed):
            return _of_tuples(listed)
        if not listed or not isinstance(graph, list | tuple):
            return graph
        graph = _of_lists(listed)
    if type(graph) is not np.ndarray or graph.ndim != 2 or graph.shape[1] not in (2, 3):
        return graph
    rows, width = graph.shape
    text = graph.dtype.kind in "UO"
    if rows == 2 and not text:
        return graph  # an edge_index, or a matrix of two nodes
    if rows == width and not text:
        if n_nodes not in (None, 3) and _are_positions(graph[:, :2]):
            raise InputError(
                "a 3×3 array may be a matrix of three nodes, or three links with weights, and "
                f"there are {n_nodes} nodes: give links as a list of tuples, "
                "[(0, 1, 2.5), ...], or as a table with the columns source, target and weight"
            )
        return graph
    if not text and not _are_positions(graph[:, :2]):
        raise InputError(
            f"an array of shape {graph.shape} is a list of links, whose ends must be positions of "
            f"nodes (integers from 0), got {_odd(graph[:, :2])}; a matrix of links is square"
        )
    return _table(graph[:, 0], graph[:, 1], graph[:, 2] if width == 3 else None)


def _of_tuples(links: list[tuple[Any, ...]]) -> dict[str, NDArray[Any]]:
    widths = {len(link) for link in links}
    if widths not in ({2}, {3}):
        odd = next(link for link in links if len(link) != len(links[0]) or len(link) not in (2, 3))
        raise InputError(
            "a list of links has pairs (node, node), or triples with a weight, all of them alike; "
            f"got {odd!r}"
        )
    columns = [_column([link[k] for link in links]) for k in range(widths.pop())]
    return _table(columns[0], columns[1], columns[2] if len(columns) == 3 else None)


def _of_lists(rows: list[Any]) -> Any:
    """Return nested lists as an array, text included; anything else as it is."""
    if not all(isinstance(row, list) for row in rows) or len({len(row) for row in rows}) != 1:
        return rows
    if any(isinstance(cell, str) for cell in rows[0]):
        held = np.empty((len(rows), len(rows[0])), dtype=object)
        held[:] = rows
        return held
    return np.asarray(rows)


def _column(values: list[Any]) -> NDArray[Any]:
    """Return an array of numbers or text; of objects if they are mixed or something else."""
    if all(isinstance(value, str) for value in values):
        return np.array(values, dtype=str)
    if all(isinstance(value, int | float | np.number) for value in values):
        return np.array(values)
    held = np.empty(len(values), dtype=object)
    held[:] = values
    return held


def _table(
    source: NDArray[Any], target: NDArray[Any], weight: NDArray[Any] | None
) -> dict[str, NDArray[Any]]:
    ends = {"source": _ends(source), "target": _ends(target)}
    return ends if weight is None else ends | {"weight": weight}


def _ends(ends: NDArray[Any]) -> NDArray[Any]:
    """Return ends as integers where they are whole numbers, as text where they are that."""
    if ends.dtype.kind == "O":
        return _column(ends.tolist())
    whole = ends.dtype.kind == "f" and bool((ends == np.round(ends)).all())
    return ends.astype(np.int64) if whole else ends


def _are_positions(ends: NDArray[Any]) -> bool:
    if ends.dtype.kind not in "iuf":
        return False
    return bool(((ends == np.round(ends)) & (ends >= 0)).all())


def _odd(ends: NDArray[Any]) -> Any:
    if ends.dtype.kind not in "iuf":
        return ends.dtype
    return ends[~((ends == np.round(ends)) & (ends >= 0))][0].item()
