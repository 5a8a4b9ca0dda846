"""Links of new nodes, kind by kind, and with their direction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.errors import InputError
from nodeproof.fitted_kinds import FittedKind, FittedKinds
from nodeproof.inputs.graph_objects import has_ends, read_types
from nodeproof.inputs.link_kinds import NEGATIVE, is_link_list
from nodeproof.inputs.new_links import NewLinks, check_links
from nodeproof.inputs.node_names import Names
from nodeproof.terms import NewNodes

__all__ = ["LinksByKind", "links_by_kind", "new_nodes_of_kinds", "parts_by_kind", "read_new_kinds"]

#: of each kind, the links of new nodes; of a kind with a direction, those that leave them and those
#: that arrive
LinksByKind = dict[str, tuple[NewLinks, NewLinks | None]]

# What the two directions of the links of a new node are called.
_WAYS = {"out", "in"}

# How the columns of a table of links may be called.
_ENDS = {"new", "fitted", "source", "target", "src", "dst", "from", "to", "u", "v"}


def read_new_kinds(
    graph: Any,
    kinds: FittedKinds,
    n_new: int | None,
    n_fitted: int,
    new: Names = None,
    fitted: Names = None,
) -> NewNodes:
    """Return new nodes, without features, with the links of each kind.

    Parameters
    ----------
    graph : object or None
        For several kinds a dict with the links of each, as
        :func:`nodeproof.inputs.new_links.check_links` takes them, or a table of links with a
        column type. Links with a direction lead from new nodes to fitted ones; a dict
        ``{"out": ..., "in": ...}`` has those from fitted nodes to new ones, too.
    kinds : FittedKinds
        The kinds of the fit.
    n_new, n_fitted, new, fitted
        As for `check_links`.
    """
    found = links_by_kind(graph, kinds, n_new, n_fitted, new, fitted)
    return new_nodes_of_kinds(found, kinds, n_fitted)


def links_by_kind(
    graph: Any,
    kinds: FittedKinds,
    n_new: int | None,
    n_fitted: int,
    new: Names = None,
    fitted: Names = None,
) -> LinksByKind:
    """Return the links of new nodes, weights as they were given, of all new nodes in each kind.

    Parameters
    ----------
    graph, kinds, n_new, n_fitted, new, fitted
        As for `read_new_kinds`.
    """
    parts = parts_by_kind(graph, [kind.name for kind in kinds.kinds])
    found: LinksByKind = {}
    for kind in kinds.kinds:
        ways = _ways(parts.get(kind.name, []), kind)
        read = [
            check_links(way, n_new, n_fitted, kind.unit, new=new, fitted=fitted) for way in ways
        ]
        if kind.directed and any(links.among.nnz for links in read):
            raise InputError(
                "links with a direction are taken between new and fitted nodes only: leave out "
                "those among new nodes"
            )
        found[kind.name] = read[0], read[1] if kind.directed else None
    if n_new is None:
        each = [links for pair in found.values() for links in pair if links is not None]
        n_new = max(links.to_fitted.shape[0] for links in each)
    return {
        name: (_tall(leaving, n_new), arriving and _tall(arriving, n_new))
        for name, (leaving, arriving) in found.items()
    }


def new_nodes_of_kinds(found: LinksByKind, kinds: FittedKinds, n_fitted: int) -> NewNodes:
    """Return new nodes, without features, with their links in the units of their kinds."""
    seen = {
        name: _of_kind(leaving, arriving, unit)
        for (name, (leaving, arriving)), unit in zip(
            found.items(), (kind.unit for kind in kinds.kinds), strict=True
        )
    }
    if len(seen) == 1:
        only = next(iter(seen.values()))
        return NewNodes(None, only.links, only.among, None, only.leaving, only.arriving, seen)
    n_new = next(iter(seen.values())).among.shape[0]
    links, among = sp.csr_array((n_new, n_fitted)), sp.csr_array((n_new, n_new))
    for own in seen.values():
        links, among = links + own.links, among + own.among
    return NewNodes(None, sp.csr_array(links), sp.csr_array(among), kinds=seen)


def parts_by_kind(graph: Any, names: list[str]) -> Mapping[str, Any]:
    """Return links, or pairs of nodes, by the names of their kinds.

    Parameters
    ----------
    graph : object or None
        A dict by kind, or a table with a column type; of a single kind, anything. To a fit with
        links of both signs, links without names of kinds may be given, too.
    names : list of str
        The kinds of the fit.
    """
    if graph is None:
        return {}
    if len(names) == 1:
        return {names[0]: graph}
    listed = ", ".join(map(repr, names))
    if is_link_list(graph) and (not isinstance(graph, Mapping) or has_ends(graph)):
        types = read_types(graph)
        if types is None:
            raise InputError(
                f"this model was fitted to several kinds of links, {listed}: give the table of "
                "links a column type, or a dict with the links of each kind"
            )
        graph = {str(name): _rows(graph, types == name) for name in dict.fromkeys(types.tolist())}
    elif isinstance(graph, list | tuple) and len(graph) == 0:
        return {}
    elif not isinstance(graph, Mapping):
        signed = _by_sign(graph, names)
        if signed is None:
            raise InputError(
                f"this model was fitted to several kinds of links, {listed}: give a dict with the "
                "links of each kind"
            )
        graph = signed
    unknown = next((name for name in graph if name not in names), None)
    if unknown is not None:
        raise InputError(
            f"this model was fitted to the kinds of links {listed}; there is no {unknown!r} among "
            "them"
        )
    return graph


def _by_sign(graph: Any, names: list[str]) -> dict[str, Any] | None:
    """Return a matrix of links as those of both signs, for a fit to such a matrix."""
    if names != [names[0], NEGATIVE + names[0]]:
        return None
    if not sp.issparse(graph) and not (isinstance(graph, np.ndarray) and graph.ndim == 2):
        return None
    matrix = sp.csr_array(graph)
    return {name: (sign * matrix).maximum(0.0) for name, sign in zip(names, (1, -1), strict=True)}


def _rows(table: Any, here: NDArray[np.bool_]) -> dict[Any, Any]:
    names = (
        list(table)
        if isinstance(table, Mapping)
        else list(getattr(table, "column_names", None) or table.columns)
    )
    return {name: np.asarray(table[name])[here] for name in names}


def _ways(links: Any, kind: FittedKind) -> list[Any]:
    """Return the links that leave new nodes and, of links with a direction, those that arrive."""
    if not kind.directed:
        return [links]
    if isinstance(links, Mapping) and not _ENDS & {str(name).lower() for name in links}:
        if not set(links) <= _WAYS:
            raise InputError(
                "links of new nodes with a direction are given as {'out': ..., 'in': ...}, got "
                f"{sorted(map(str, links))}"
            )
        return [links.get("out", []), links.get("in", [])]
    return [links, []]


def _of_kind(leaving: NewLinks, arriving: NewLinks | None, unit: float) -> NewNodes:
    out, among = (part / unit for part in leaving)
    if arriving is None:
        return NewNodes(None, out, among)
    into = arriving.to_fitted / unit
    return NewNodes(None, sp.csr_array(out.maximum(into)), among, None, out, into)


def _tall(links: NewLinks, n_new: int) -> NewLinks:
    """Return the links of all new nodes: the last ones may have none of a kind."""
    out, among = (sp.csr_array(part) for part in links)
    out.resize((n_new, out.shape[1]))
    among.resize((n_new, n_new))
    return NewLinks(out, among)
