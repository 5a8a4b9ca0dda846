"""What an update changes: new nodes, other links and other labels, read and checked."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.csr import LARGEST_WEIGHT, LEAST_WEIGHT
from nodeproof.errors import InputError
from nodeproof.inputs.graph_objects import is_table, table_columns
from nodeproof.inputs.label_values import read_values
from nodeproof.inputs.new_links import NewLinks, check_links
from nodeproof.inputs.node_names import Names, as_names, names_of_rows, shown_name
from nodeproof.inputs.tensors import plain
from nodeproof.rewiring import Pairs

if TYPE_CHECKING:
    from nodeproof.fitted import Fitted

__all__ = ["name_all", "read_labels", "read_links", "read_pairs"]


def read_links(
    fitted: Fitted, graph: Any, n_new: int | None, names: Names, unit: float
) -> NewLinks:
    """Return the links of new nodes; none if none are given.

    Parameters
    ----------
    graph : object or None
        As :meth:`nodeproof.NodeClassifier.predict` takes it.
    n_new : int or None
        Number of new nodes, where features say so.
    names : ndarray of shape (n_new,), range or None
        Names of the new nodes.
    unit : float
        Weight of links that come without one.
    """
    if graph is None:
        n_new = n_new or 0
        return NewLinks(sp.csr_array((n_new, fitted.n_nodes)), sp.csr_array((n_new, n_new)))
    if n_new is None and isinstance(names, np.ndarray):
        n_new = len(names)
    return check_links(graph, n_new, fitted.n_nodes, unit, new=names, fitted=fitted.node_ids)


def name_all(fitted: Fitted, names: Names, n_new: int) -> NDArray[Any] | None:
    """Return the names of all nodes, new ones last; None if nodes have no names.

    New nodes without names among nodes that have some are called by their positions.
    """
    known = fitted.node_ids
    if n_new == 0 or known is None:
        return known
    n = fitted.n_nodes
    given: list[Any] = list(range(n, n + n_new))
    if isinstance(names, np.ndarray):
        given = names.tolist()
    elif all(isinstance(name, str) for name in known.tolist()):
        given = [str(place) for place in given]
    taken = set(known.tolist())
    for name in given:
        if name in taken:
            raise InputError(
                f"the new node {shown_name(name)} has the name of another node: rename it, with "
                "names in the index of X"
            )
        taken.add(name)
    named = as_names([*known.tolist(), *given])
    return np.arange(n + n_new) if isinstance(named, range) else named


def read_labels(
    y: Any, classes: NDArray[Any], given: NDArray[np.int64], names: NDArray[Any] | None, n_new: int
) -> NDArray[np.int64]:
    """Return the labels of all nodes after an update as class numbers, shape (n + n_new,).

    Parameters
    ----------
    y : object
        As :meth:`nodeproof.NodeClassifier.update` takes it.
    classes : ndarray of shape (K,)
        Names of the classes.
    given : ndarray of shape (n,)
        The labels so far, −1 where there is none.
    names : ndarray of shape (n + n_new,), or None
        Names of all nodes.
    n_new : int
        Number of new nodes.
    """
    n = len(given)
    codes = np.concatenate([given, np.full(n_new, -1)])
    if y is None:
        return codes
    places, values = _places_of(y, names, n, n_new)
    known_values, known = read_values(values)
    numbers = {name: code for code, name in enumerate(classes.tolist())}
    found = np.full(len(known), -1)
    listed = known_values.tolist()
    for name in listed:
        if name not in numbers:
            shown = ", ".join(map(repr, classes[:5].tolist())) + (", …" if len(classes) > 5 else "")
            raise InputError(
                f"y names the class {name!r}, which the fit did not have (it had {shown}): an "
                "update keeps the classes; to add one, fit again"
            )
    found[known] = [numbers[name] for name in listed]
    codes[places] = found
    return codes


def _places_of(
    y: Any, names: NDArray[Any] | None, n: int, n_new: int
) -> tuple[NDArray[np.int64], Any]:
    """Return the positions that labels are for, and the labels."""
    if isinstance(y, Mapping):
        keys = list(y)
        values = np.fromiter(y.values(), dtype=object, count=len(keys))
        return _positions(keys, names, n + n_new, "y"), values
    own = names_of_rows(y, "y")
    if isinstance(own, np.ndarray):
        return _positions(own.tolist(), names, n + n_new, "y"), y
    length = len(y) if hasattr(y, "__len__") else -1
    sizes = {n + n_new: np.arange(n + n_new)}
    if n_new:
        sizes[n_new] = np.arange(n, n + n_new)
        if length == n_new == n:
            raise InputError(
                f"y has {n} entries, for {n} fitted and as many new nodes: give one per node, "
                f"{2 * n} in all, or a dict from nodes to labels"
            )
    if length not in sizes:
        wanted = f"one for each of the {n} nodes"
        if n_new:
            wanted = f"one for each of the {n_new} new nodes, or {n + n_new} for all"
        what = f"{length} entries" if length >= 0 else f"the type {type(y).__name__}"
        raise InputError(f"y has {what}; give {wanted}, or a dict or Series from nodes to labels")
    return sizes[length], y


def _positions(keys: list[Any], names: NDArray[Any] | None, n: int, part: str) -> NDArray[np.int64]:
    """Return positions of nodes that are listed by name, or by position if they have no names."""
    if names is not None:
        at = {name: place for place, name in enumerate(names.tolist())}
        for key in keys:
            if not isinstance(key, Hashable) or key not in at:
                raise InputError(
                    f"{part} names the node {shown_name(key)}, but no node is called that; nodes "
                    f"are called {', '.join(map(shown_name, names[:3].tolist()))}, …"
                )
        places = np.fromiter((at[key] for key in keys), dtype=np.int64, count=len(keys))
    else:
        for key in keys:
            whole = isinstance(key, int | np.integer) and not isinstance(key, bool)
            if not (whole and 0 <= key < n):
                raise InputError(
                    f"{part} names the node {shown_name(key)}, but nodes have no names: give "
                    f"positions from 0 to {n - 1}"
                )
        places = np.asarray(keys, dtype=np.int64)
    if len(np.unique(places)) < len(places) and part == "y":
        raise InputError("y names a node twice")
    return places


def read_pairs(
    pairs: Any, names: Names, n: int, unit: float, part: str, signed: bool = False
) -> Pairs:
    """Return pairs of nodes that links are added or removed between.

    Parameters
    ----------
    pairs : object or None
        Array of shape (E, 2) or (E, 3), list of pairs or triples, or table with the columns source,
        target and perhaps weight: nodes by name, or by position if they have no names.
    names : ndarray of shape (n,), or None
        Names of all nodes.
    n : int
        Number of nodes.
    unit : float
        Weight of pairs that come without one.
    part : str
        The argument, for messages.
    signed : bool
        Whether weights may be negative.
    """
    pairs = [] if pairs is None else plain(pairs)
    weights: Any = None
    if is_table(pairs):
        first, second, weights = table_columns(pairs)
        ends = [list(np.asarray(column).tolist()) for column in (first, second)]
    else:
        rows = _as_rows(pairs, part)
        ends = [[row[k] for row in rows] for k in (0, 1)]
        weights = [row[2] if len(row) == 3 else unit for row in rows]
    called = names if isinstance(names, np.ndarray) else None
    if called is None:
        ends = [[int(end) if _is_whole(end) else end for end in column] for column in ends]
    u, v = (_positions(column, called, n, part) for column in ends)
    w = np.full(len(u), unit) if weights is None else _as_weights(weights, part, signed)
    if (u == v).any():
        raise InputError(
            f"{part} links the node {shown_name(ends[0][int((u == v).argmax())])} to itself"
        )
    return Pairs(u, v, w)


def _as_rows(pairs: Any, part: str) -> list[Any]:
    """Return pairs, or triples, as a list of lists."""
    listed = not sp.issparse(pairs) and not isinstance(pairs, str | Mapping)
    if listed and hasattr(pairs, "tolist"):
        pairs = pairs.tolist()
    if listed and isinstance(pairs, Iterable):
        rows = [list(row) if isinstance(row, list | tuple) else row for row in pairs]
        if all(isinstance(row, list) and len(row) in (2, 3) for row in rows):
            return rows
    raise InputError(
        f"{part} must be pairs of nodes, perhaps with a weight as a third: a list such as "
        f"[(0, 7), (3, 5)], an array of shape (E, 2) or a table; got {type(pairs).__name__}"
    )


def _as_weights(weights: Any, part: str, signed: bool) -> NDArray[np.float64]:
    try:
        found = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"the weights in {part} are not all numbers") from None
    size = np.abs(found) if signed else found
    odd = ~((size >= LEAST_WEIGHT) & (size <= LARGEST_WEIGHT))
    if odd.any():
        raise InputError(
            f"a weight in {part} is {found[odd][0]:g}; give weights from {LEAST_WEIGHT:g} to "
            f"{LARGEST_WEIGHT:g}"
        )
    return found


def _is_whole(end: Any) -> bool:
    return isinstance(end, float) and end.is_integer()
