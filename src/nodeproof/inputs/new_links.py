"""Links of new nodes to fitted ones and among each other, from any container, as CSR matrices."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof import kernels
from nodeproof.csr import (
    LARGEST_WEIGHT,
    LEAST_WEIGHT,
    csr_of_entries,
    largest_of_each,
    merge_edges,
    warn_directed,
    warn_of_repeats,
    without_repeats,
)
from nodeproof.errors import InputError
from nodeproof.inputs.graph_objects import (
    column_names,
    is_table,
    list_columns,
    read_ends,
    read_weights,
)
from nodeproof.inputs.link_lists import as_link_table
from nodeproof.inputs.node_names import Names, as_keys, find_positions, shown_name
from nodeproof.inputs.tensors import as_array, plain, without_hidden
from nodeproof.runtime.memory import check_free

__all__ = ["NewLinks", "check_links", "links_from_pairs"]

_NEW_NAMES = ("new", "source", "src", "from", "u")
_FITTED_NAMES = ("fitted", "target", "dst", "to", "v")
_WEIGHT_NAMES = ("weight", "w")

# Per new node: its entry of indptr, and intermediate probabilities of a few classes.
_NODE_BYTES = 100.0


class NewLinks(NamedTuple):
    """Links of new nodes, without duplicates or zeros.

    Attributes
    ----------
    to_fitted : scipy.sparse.csr_array of shape (n_new, n_fitted)
        Links to fitted nodes.
    among : scipy.sparse.csr_array of shape (n_new, n_new)
        Links among new nodes, symmetric, without self loops.
    """

    to_fitted: sp.csr_array
    among: sp.csr_array


def check_links(
    graph: Any,
    n_new: int | None,
    n_fitted: int,
    unit: float = 1.0,
    *,
    new: Names = None,
    fitted: Names = None,
) -> NewLinks:
    """Return the links as CSR arrays without duplicates or zeros.

    Parameters
    ----------
    graph : object
        A sparse matrix or array of shape (n_new, n_fitted), or (n_new, n_fitted + n_new) with
        the links among new nodes in the last columns. Or pairs: an array of shape (E, 2) or
        (E, 3) with the new node, the node that it is linked to and perhaps the weight, or a
        table with the columns ``new`` and ``fitted`` (or ``source`` and ``target``) and perhaps
        ``weight``; a list of pairs of names is read as such a table. New nodes in the second
        place are counted on from the fitted ones: new node v is ``n_fitted + v``. Of a pair
        listed twice, or in both directions, the largest weight counts.
    n_new : int or None
        Number of new nodes, where features say so; else as many as the links name.
    n_fitted : int
        Number of fitted nodes.
    unit : float
        Weight of pairs that come without one: that of a mean link of the fitted graph.
    new, fitted : ndarray of shape (n_new,) and (n_fitted,), optional
        Names of the nodes, for tables that use them: in the second place, of either kind.

    Examples
    --------
    >>> from nodeproof.inputs.new_links import check_links
    >>> links = check_links([[0, 4], [1, 0], [1, 5]], n_new=2, n_fitted=5)
    >>> links.to_fitted.toarray()
    array([[0., 0., 0., 0., 1.],
           [1., 0., 0., 0., 0.]])
    >>> links.among.toarray()
    array([[0., 1.],
           [1., 0.]])
    """
    graph = plain(as_link_table(graph, None) if _has_names(graph) else graph)
    if sp.issparse(graph):
        if graph.ndim != 2:
            _refuse_shape(graph.shape, n_new, n_fitted)
        return _check_matrix(csr_of_entries(graph), n_new, n_fitted)
    if is_table(graph):
        ends, weight = _columns(graph)
        first, second = _find(ends[0], new, "new"), _find_either(ends[1], new, fitted, n_fitted)
        return _from_list(first, second, weight, n_new, n_fitted, unit)
    array = as_array(graph, "the links of new nodes")
    if array.size == 0 and array.ndim < 2:
        array = np.empty((0, 2), dtype=np.int64)
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise InputError(
            f"cannot read links of new nodes from {type(graph).__name__} of shape {array.shape}; "
            f"give a matrix of shape {_wanted(n_new, n_fitted)}, or pairs of shape (E, 2) or (E, 3)"
        )
    # Arrays of two or three columns are pairs, unless that is the number of fitted nodes.
    widths = {n_fitted, max(n_fitted + len(array), 4)}
    if array.shape[1] in widths and n_new in (None, len(array)):
        return _check_matrix(
            sp.csr_array(without_hidden(array).astype(np.float64)), n_new, n_fitted
        )
    if array.shape[1] not in (2, 3):
        _refuse_shape(array.shape, n_new, n_fitted)
    array = without_hidden(array, listed=0)
    weight = array[:, 2] if array.shape[1] == 3 else None
    return _from_list(array[:, 0], array[:, 1], weight, n_new, n_fitted, unit)


def _has_names(graph: Any) -> bool:
    """Tell whether this is a list of links, or an array of them, that calls nodes by name."""
    if isinstance(graph, list | tuple):
        first = graph[0] if graph else None
        return isinstance(first, list | tuple) and any(isinstance(end, str) for end in first[:2])
    return type(graph) is np.ndarray and graph.ndim == 2 and graph.dtype.kind in "UO"


def _from_list(
    new: NDArray[Any],
    other: NDArray[Any],
    weight: NDArray[Any] | None,
    n_new: int | None,
    n_fitted: int,
    unit: float,
) -> NewLinks:
    """Return the links of pairs; warn of those that are listed again."""
    links, repeats = links_from_pairs(new, other, weight, n_new=n_new, n_fitted=n_fitted, unit=unit)
    if repeats:
        warn_of_repeats(repeats, "the links of new nodes")
    return links


def links_from_pairs(
    new: NDArray[Any],
    other: NDArray[Any],
    weight: NDArray[Any] | None,
    *,
    n_new: int | None,
    n_fitted: int,
    unit: float = 1.0,
) -> tuple[NewLinks, int]:
    """Return the links of pairs, and how many of them repeat others.

    Parameters
    ----------
    new : ndarray of shape (E,)
        The new nodes.
    other : ndarray of shape (E,)
        The nodes that they are linked to: fitted ones, or ``n_fitted + v`` for the new node v.
    weight : ndarray of shape (E,), or None
        Of a pair listed twice, or in both directions, the largest weight counts.
    """
    new, other = _positions(new, "new"), _positions(other, "fitted")
    weight = np.full(len(new), unit) if weight is None else np.asarray(weight, dtype=np.float64)
    if not len(new) == len(other) == len(weight):
        raise InputError(
            "the columns of a table of links differ in length: "
            f"{len(new)}, {len(other)}, {len(weight)}"
        )
    if n_new is None:
        n_new = max(int(new.max()), int(other.max()) - n_fitted) + 1 if len(new) else 0
        check_free(
            _NODE_BYTES * n_new, f"labels of {n_new:,} new nodes", "number them from 0 without gaps"
        )
    _check_range(new, n_new, f"the new node {{}}, but these run from 0 to {n_new - 1}")
    _check_range(
        other,
        n_fitted + n_new,
        f"node {{}} in the second place, but there fitted nodes run from 0 to {n_fitted - 1} and "
        f"new ones from {n_fitted} to {n_fitted + n_new - 1}",
    )
    _check_weights(weight, new, other, n_fitted)
    listed = weight > 0
    new, other, weight = new[listed], other[listed], weight[listed]
    joins = other < n_fitted
    order, first = largest_of_each(new[joins], other[joins], weight[joins])
    kept = np.flatnonzero(joins)[order[first]]
    pairs = (new[kept], other[kept])
    to_fitted = sp.csr_array(sp.coo_array((weight[kept], pairs), shape=(n_new, n_fitted)))
    among, repeats = merge_edges(new[~joins], other[~joins] - n_fitted, weight[~joins], n_new)
    return NewLinks(to_fitted, among.astype(np.float64)), repeats + int((~first).sum())


def _check_range(ends: NDArray[np.int64], stop: int, message: str) -> None:
    if len(ends) and not 0 <= ends.min() <= ends.max() < stop:
        bad = ends.min() if ends.min() < 0 else ends.max()
        raise InputError("a link names " + message.format(bad))


def _check_matrix(matrix: sp.csr_array, n_new: int | None, n_fitted: int) -> NewLinks:
    rows, columns = matrix.shape
    if columns not in (n_fitted, n_fitted + rows) or n_new not in (None, rows):
        _refuse_shape(matrix.shape, n_new, n_fitted)
    if matrix.dtype.kind not in "biuf":
        raise InputError(f"weights of links must be real numbers, got {matrix.dtype}")
    matrix = matrix.astype(np.float64)  # a copy: what was given stays as it is
    if matrix.nnz:
        row = np.repeat(np.arange(rows), np.diff(matrix.indptr))
        _check_weights(matrix.data, row, matrix.indices, n_fitted)
    matrix = without_repeats(matrix, "the links of new nodes")
    matrix.eliminate_zeros()
    if columns == n_fitted:
        return NewLinks(matrix, sp.csr_array((rows, rows)))
    among = matrix[:, n_fitted:]
    among.setdiag(0.0)
    among.eliminate_zeros()
    if (among != among.T).nnz:
        warn_directed()
        among = sp.csr_array(among.maximum(among.T))
    return NewLinks(matrix[:, :n_fitted], among)


def _check_weights(
    weight: NDArray[np.float64], new: NDArray[Any], other: NDArray[Any], n_fitted: int
) -> None:
    bad = kernels.first_bad_weight(weight)
    what = "negative" if bad >= 0 and weight[bad] < 0 else "not finite"
    odd = (weight > LARGEST_WEIGHT) | ((weight < LEAST_WEIGHT) & (weight != 0.0))
    if bad < 0 and odd.any():
        bad, what = int(odd.argmax()), f"not from {LEAST_WEIGHT:g} to {LARGEST_WEIGHT:g}"
    if bad >= 0:
        kind, end = (
            ("fitted", other[bad]) if other[bad] < n_fitted else ("new", other[bad] - n_fitted)
        )
        raise InputError(
            f"the weight of the link of new node {new[bad]} to {kind} node {end} is "
            f"{what}: {weight[bad]:g}"
        )


def _positions(ends: NDArray[Any], name: str) -> NDArray[np.int64]:
    ends = np.asarray(ends)
    whole = ends.dtype.kind in "iu" or (ends.dtype.kind == "f" and (ends == np.round(ends)).all())
    if not whole and ends.size:
        raise InputError(f"links must name the {name} nodes by position (integers from 0)")
    return ends.astype(np.int64)


def _find(ends: NDArray[Any], names: Names, part: str) -> NDArray[Any]:
    """Return the positions of nodes that a table lists by name; positions unchanged."""
    if not isinstance(names, np.ndarray):
        return ends
    if ends.dtype.kind not in "iu":
        return find_positions(as_keys(ends), names, part)
    if names.dtype.kind in "if":
        raise InputError(
            f"the {part} nodes have numeric names other than 0, 1, 2, …, so numbers in a table of "
            "links may be names or positions: give positions as an array of shape (E, 2)"
        )
    return ends


def _find_either(ends: NDArray[Any], new: Names, fitted: Names, n_fitted: int) -> NDArray[Any]:
    """Return the positions of nodes of either kind, new ones counted on from the fitted ones."""
    named = isinstance(fitted, np.ndarray)
    numbers = ends.dtype.kind in "iu" or (ends.dtype.kind == "f" and not named)
    if numbers or not isinstance(new, np.ndarray):
        return _find(ends, fitted, "fitted")
    places = [{name: n_fitted + v for v, name in enumerate(new.tolist())}]
    if isinstance(fitted, np.ndarray):
        places.append({name: v for v, name in enumerate(fitted.tolist())})
    found = np.empty(len(ends), dtype=np.int64)
    for row, name in enumerate(as_keys(ends).tolist()):
        known = [place[name] for place in places if name in place]
        if len(known) != 1:
            what = "neither a fitted nor a new node"
            if known:
                what = "both a fitted and a new node; rename the new one"
            raise InputError(
                f"row {row} of the fitted column names {shown_name(name)}, which is {what}"
            )
        found[row] = known[0]
    return found


def _columns(
    table: Any,
) -> tuple[tuple[NDArray[Any], NDArray[Any]], NDArray[Any] | None]:
    """Return the new and the fitted ends, and perhaps the weights, of a table."""
    names = column_names(table)
    new, fitted, weight = (
        next((name for name in names if str(name).lower() in known), None)
        for known in (_NEW_NAMES, _FITTED_NAMES, _WEIGHT_NAMES)
    )
    if new is None or fitted is None:
        raise InputError(
            "a table of links needs the columns new and fitted (and may have weight), got "
            f"{list_columns(names)}: rename them"
        )
    weights = None if weight is None else read_weights(table[weight], weight)
    return (read_ends(table[new], new), read_ends(table[fitted], fitted)), weights


def _refuse_shape(shape: tuple[int, ...], n_new: int | None, n_fitted: int) -> None:
    raise InputError(
        "links of new nodes need one row per new node and one column per fitted node, perhaps "
        f"followed by one column per new node: expected shape {_wanted(n_new, n_fitted)}, got "
        f"{shape}; or give pairs of shape (E, 2) or (E, 3)"
    )


def _wanted(n_new: int | None, n_fitted: int) -> str:
    if n_new is None:
        return f"(n_new, {n_fitted}) or (n_new, {n_fitted} + n_new)"
    return f"({n_new}, {n_fitted}) or ({n_new}, {n_fitted + n_new})"
