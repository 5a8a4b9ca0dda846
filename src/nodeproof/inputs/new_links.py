"""Links of new nodes to fitted ones, from any container, as one checked CSR matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof import kernels
from nodeproof.csr import (
    LARGEST_WEIGHT,
    LEAST_WEIGHT,
    csr_of_entries,
    largest_of_each,
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
from nodeproof.inputs.node_names import Names, as_keys, find_positions
from nodeproof.inputs.tensors import as_array, plain, without_hidden
from nodeproof.runtime.memory import check_free

__all__ = ["check_links", "links_from_pairs"]

_NEW_NAMES = ("new", "source", "src", "from", "u")
_FITTED_NAMES = ("fitted", "target", "dst", "to", "v")
_WEIGHT_NAMES = ("weight", "w")

# Per new node: its entry of indptr, and intermediate probabilities of a few classes.
_NODE_BYTES = 100.0


def check_links(
    graph: Any,
    n_new: int | None,
    n_fitted: int,
    unit: float = 1.0,
    *,
    new: Names = None,
    fitted: Names = None,
) -> sp.csr_array:
    """Return the links as a CSR array without duplicates or zeros.

    Parameters
    ----------
    graph : object
        A sparse matrix or array of shape (n_new, n_fitted), or pairs: an array of shape (E, 2)
        or (E, 3) with the new node, the fitted node and perhaps the weight, or a table with the
        columns ``new`` and ``fitted`` (or ``source`` and ``target``) and perhaps ``weight``. Of
        a pair listed twice, the largest weight counts.
    n_new : int or None
        Number of new nodes, where features say so; else as many as the links name.
    n_fitted : int
        Number of fitted nodes.
    unit : float
        Weight of pairs that come without one: that of a mean link of the fitted graph.
    new, fitted : ndarray of shape (n_new,) and (n_fitted,), optional
        Names of the nodes, for tables that use them.

    Returns
    -------
    scipy.sparse.csr_array of shape (n_new, n_fitted)

    Examples
    --------
    >>> from nodeproof.inputs.new_links import check_links
    >>> check_links([[0, 4], [1, 0], [1, 2]], n_new=2, n_fitted=5).toarray()
    array([[0., 0., 0., 0., 1.],
           [1., 0., 1., 0., 0.]])
    """
    graph = plain(graph)
    if sp.issparse(graph):
        if graph.ndim != 2:
            _refuse_shape(graph.shape, n_new, n_fitted)
        return _check_matrix(csr_of_entries(graph), n_new, n_fitted)
    if is_table(graph):
        ends, weight = _columns(graph)
        first, second = _find(ends[0], new, "new"), _find(ends[1], fitted, "fitted")
        return _from_list(first, second, weight, n_new, n_fitted, unit)
    array = as_array(graph, "the links of new nodes")
    if array.size == 0 and array.ndim < 2:
        array = np.empty((0, 2), dtype=np.int64)
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise InputError(
            f"cannot read links of new nodes from {type(graph).__name__} of shape {array.shape}; "
            f"give a matrix of shape {_wanted(n_new, n_fitted)}, or pairs of shape (E, 2) or (E, 3)"
        )
    if array.shape[1] == n_fitted and n_new in (None, len(array)):
        return _check_matrix(
            sp.csr_array(without_hidden(array).astype(np.float64)), n_new, n_fitted
        )
    if array.shape[1] not in (2, 3):
        _refuse_shape(array.shape, n_new, n_fitted)
    array = without_hidden(array, listed=0)
    weight = array[:, 2] if array.shape[1] == 3 else None
    return _from_list(array[:, 0], array[:, 1], weight, n_new, n_fitted, unit)


def _from_list(
    new: NDArray[Any],
    fitted: NDArray[Any],
    weight: NDArray[Any] | None,
    n_new: int | None,
    n_fitted: int,
    unit: float,
) -> sp.csr_array:
    """Return the CSR array of pairs; warn of those that are listed again."""
    links = links_from_pairs(new, fitted, weight, n_new=n_new, n_fitted=n_fitted, unit=unit)
    repeats = (len(new) if weight is None else np.count_nonzero(weight)) - links.nnz
    if repeats:
        warn_of_repeats(repeats, "the links of new nodes")
    return links


def links_from_pairs(
    new: NDArray[Any],
    fitted: NDArray[Any],
    weight: NDArray[Any] | None,
    *,
    n_new: int | None,
    n_fitted: int,
    unit: float = 1.0,
) -> sp.csr_array:
    """Return the CSR array of pairs (new node, fitted node), each an array of shape (E,).

    Of a pair listed twice, the largest weight counts.
    """
    new, fitted = _positions(new, "new"), _positions(fitted, "fitted")
    weight = np.full(len(new), unit) if weight is None else np.asarray(weight, dtype=np.float64)
    if not len(new) == len(fitted) == len(weight):
        raise InputError(
            "the columns of a table of links differ in length: "
            f"{len(new)}, {len(fitted)}, {len(weight)}"
        )
    if n_new is None:
        n_new = int(new.max()) + 1 if len(new) else 0
        check_free(
            _NODE_BYTES * n_new, f"labels of {n_new:,} new nodes", "number them from 0 without gaps"
        )
    for name, ends, n in (("new", new, n_new), ("fitted", fitted, n_fitted)):
        if len(ends) and not 0 <= ends.min() <= ends.max() < n:
            bad = ends.min() if ends.min() < 0 else ends.max()
            raise InputError(f"a link names the {name} node {bad}, but these run from 0 to {n - 1}")
    _check_weights(weight, new, fitted)
    order, first = largest_of_each(new, fitted, weight)
    kept = order[first & (weight[order] > 0)]
    pairs = (new[kept], fitted[kept])
    return sp.csr_array(sp.coo_array((weight[kept], pairs), shape=(n_new, n_fitted)))


def _check_matrix(matrix: sp.csr_array, n_new: int | None, n_fitted: int) -> sp.csr_array:
    if matrix.shape[1] != n_fitted or n_new not in (None, matrix.shape[0]):
        _refuse_shape(matrix.shape, n_new, n_fitted)
    if matrix.dtype.kind not in "biuf":
        raise InputError(f"weights of links must be real numbers, got {matrix.dtype}")
    matrix = matrix.astype(np.float64)  # a copy: what was given stays as it is
    if matrix.nnz:
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        _check_weights(matrix.data, rows, matrix.indices)
    matrix = without_repeats(matrix, "the links of new nodes")
    matrix.eliminate_zeros()
    return matrix


def _check_weights(weight: NDArray[np.float64], new: NDArray[Any], fitted: NDArray[Any]) -> None:
    bad = kernels.first_bad_weight(weight)
    what = "negative" if bad >= 0 and weight[bad] < 0 else "not finite"
    odd = (weight > LARGEST_WEIGHT) | ((weight < LEAST_WEIGHT) & (weight != 0.0))
    if bad < 0 and odd.any():
        bad, what = int(odd.argmax()), f"not from {LEAST_WEIGHT:g} to {LARGEST_WEIGHT:g}"
    if bad >= 0:
        raise InputError(
            f"the weight of the link of new node {new[bad]} to fitted node {fitted[bad]} is "
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
        "links of new nodes need one row per new node and one column per fitted node: expected "
        f"shape {_wanted(n_new, n_fitted)}, got {shape}; or give pairs of shape (E, 2) or (E, 3)"
    )


def _wanted(n_new: int | None, n_fitted: int) -> str:
    return f"({'n_new' if n_new is None else n_new}, {n_fitted})"
