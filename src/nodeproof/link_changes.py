"""The links of an update, of one kind or of several: read, and put into the graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nodeproof.changes import read_links, read_pairs
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.inputs.graph_objects import has_ends, is_table, read_types
from nodeproof.inputs.link_kinds import NEGATIVE
from nodeproof.inputs.node_names import Names
from nodeproof.new_kinds import LinksByKind, links_by_kind, new_nodes_of_kinds, parts_by_kind
from nodeproof.rewiring import Pairs, Rewired, are_linked, rewire, rewire_kinds
from nodeproof.terms import NewNodes

if TYPE_CHECKING:
    from nodeproof.fitted import Fitted

__all__ = ["LinkChanges"]


class LinkChanges:
    """The links of new nodes, and how links of a fit change.

    Parameters
    ----------
    fitted : Fitted
        The model.
    known : Graph or None
        The links so far.
    graph : object or None
        Links of new nodes, as :meth:`nodeproof.NodeClassifier.predict` takes them.
    n_new : int or None
        Number of new nodes, where features say so.
    names : ndarray of shape (n_new,), range or None
        Names of the new nodes.
    """

    def __init__(
        self, fitted: Fitted, known: Graph | None, graph: Any, n_new: int | None, names: Names
    ) -> None:
        self.known, self.n_fitted = known, fitted.n_nodes
        self.unit = 1.0 if known is None else known.unit
        self.kinds = fitted.new_nodes.kinds
        listed = names if is_table(graph) or self.kinds is not None else None
        #: of several kinds, or with a direction
        self.by_kind: LinksByKind = {}
        if self.kinds is None:
            self.links = read_links(fitted, graph, n_new, listed, self.unit)
        else:
            if n_new is None and isinstance(names, np.ndarray):
                n_new = len(names)
            n_new = 0 if n_new is None and graph is None else n_new
            self.by_kind = links_by_kind(
                graph, self.kinds, n_new, self.n_fitted, listed, fitted.node_ids
            )
            self.links = next(iter(self.by_kind.values()))[0]
        self.n_new = int(self.links.to_fitted.shape[0])

    def rewire(self, add: Any, remove: Any, names: Names) -> Rewired:
        """Return the graph after the update.

        Parameters
        ----------
        add, remove : object or None
            As :meth:`nodeproof.NodeClassifier.update` takes them.
        names : ndarray of shape (n + n_new,), or None
            Names of all nodes.
        """
        known, n = self.known, self.n_fitted + self.n_new
        if known is None and not (add is None and remove is None):
            raise InputError("this model was fitted without a graph: it has no links to change")
        if self.kinds is None or known is None:
            added = read_pairs(add, names, n, self.unit, "add")
            removed = read_pairs(remove, names, n, self.unit, "remove")
            return rewire(known, self.links, added, removed, names)
        both = self._pairs(add, names, "add"), self._pairs(remove, names, "remove")
        return rewire_kinds(known, self.by_kind, *_settle_signs(known, *both), names)

    def _pairs(self, given: Any, names: Names, part: str) -> dict[str, Pairs]:
        """Return pairs by kind; those of negative weight are still with the others."""
        assert self.kinds is not None
        units = {kind.name: kind.unit for kind in self.kinds.kinds}
        listed = list(units)
        n = self.n_fitted + self.n_new
        if given is None:
            return {}
        if _without_kinds(given, listed):
            given = {listed[0]: given}
        found = {}
        for name, own in parts_by_kind(given, listed).items():
            called = f"{part}[{name!r}]" if len(listed) > 1 else part
            signed = NEGATIVE + name in units
            found[name] = read_pairs(own, names, n, units[name], called, signed)
        return found

    def new_nodes(self, X: Any, feature_names: Any) -> NewNodes:
        """Return the new nodes with their links in the unit of a mean link.

        Parameters
        ----------
        X : ndarray or csr_array of shape (n_new, m), or None
            Their features, in the unit of the fit.
        """
        if self.kinds is None:
            out, among = (part / self.unit for part in self.links)
            return NewNodes(X, out, among, feature_names)
        found = new_nodes_of_kinds(self.by_kind, self.kinds, self.n_fitted)
        kinds = {
            name: replace(own, X=X, feature_names=feature_names)
            for name, own in found.kinds.items()
        }
        return replace(found, X=X, feature_names=feature_names, kinds=kinds)


def _without_kinds(given: Any, names: list[str]) -> bool:
    """Tell whether pairs are given without kinds, to a fit whose kinds are the two signs."""
    if names != [names[0], NEGATIVE + names[0]]:
        return False
    if is_table(given):
        return (not isinstance(given, Mapping) or has_ends(given)) and read_types(given) is None
    return True


def _settle_signs(
    graph: Graph, add: dict[str, Pairs], remove: dict[str, Pairs]
) -> tuple[dict[str, Pairs], dict[str, Pairs]]:
    """Return the same with links of negative weight in their own kind.

    A link that gets a weight of the other sign is removed from where it was, and a link that is
    removed is looked for among those of both signs.
    """
    kinds = {kind.name: kind for kind in graph.kinds}
    add, remove = dict(add), dict(remove)
    for name, kind in kinds.items():
        other = kinds.get(NEGATIVE + name)
        if other is None:
            continue
        if name in remove:
            pairs = remove.pop(name)
            among = are_linked(other, pairs) & ~are_linked(kind, pairs)
            _join(remove, name, pairs.some(~among))
            _join(remove, other.name, pairs.some(among))
        if name in add:
            pairs = add.pop(name)
            below = pairs.weights < 0
            for here, own, opposite in ((~below, kind, other), (below, other, kind)):
                some = pairs.some(here)
                some = replace(some, weights=np.abs(some.weights))
                _join(add, own.name, some)
                _join(remove, opposite.name, some.some(are_linked(opposite, some)))
    return add, remove


def _join(parts: dict[str, Pairs], name: str, pairs: Pairs) -> None:
    known = parts.get(name)
    parts[name] = pairs if known is None else known.joined(pairs)
