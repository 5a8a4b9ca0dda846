"""Experts that see the links of one kind alone."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nodeproof.auto.experts.base import Array, Candidate, Changed, Expert, Learnt, NewNodes
from nodeproof.auto.experts.directions import InLinks, LearntDirection, OutLinks
from nodeproof.auto.experts.propagation import Propagation
from nodeproof.auto.experts.regression import Features, Links
from nodeproof.auto.held_out import HeldOut
from nodeproof.graph import Graph
from nodeproof.kinds import together
from nodeproof.smoothing import Smoothing
from nodeproof.storage.schema import Check, Expected
from nodeproof.terms import NodeData

__all__ = ["OfKind", "expert_of_kind", "experts_of_kinds", "find_of_kind"]

# What is asked about each kind, beside what is asked about all links together.
_ASKED: tuple[type[Expert], ...] = (Propagation, Links, Features)
_ASKED_OF_DIRECTED: tuple[type[Expert], ...] = (OutLinks, InLinks)


def _links_of(graph: Graph | None, name: str, directed: bool) -> Graph | None:
    """Return the links of one kind, with their direction if that is asked for; None without any."""
    kinds = () if graph is None else graph.kinds
    found = next((kind for kind in kinds if kind.name == name), None)
    if found is None:
        return None
    return together([found]) if directed else found.undirected


class LearntOfKind(Learnt):
    """What an expert has learnt from the links of one kind.

    Parameters
    ----------
    own : Learnt
        What it has learnt.
    kind : str
        The name of the kind.
    source : str
        What the expert draws on, "graph" or "features".
    """

    def __init__(self, own: Learnt, kind: str, source: str) -> None:
        self.own, self.kind, self.source = own, kind, source
        self.log_proba = own.log_proba

    @property
    def needs_features(self) -> bool:
        """Whether `judge` looks at the features of new nodes."""
        return self.own.needs_features

    def attribute(self, scores: Array, lo: int, hi: int) -> dict[str, Array]:
        """Return the scores as those of the kind, or of the features."""
        return {self.kind if self.source == "graph" else self.source: scores}

    def reordered(self, position: NDArray[np.int64]) -> Self:
        """Return the same for reordered nodes."""
        return type(self)(self.own.reordered(position), self.kind, self.source)

    def with_logs(self, log_proba: NDArray[np.float32]) -> Self:
        """Return the same with other `log_proba`."""
        return type(self)(self.own.with_logs(log_proba), self.kind, self.source)

    def judge(self, new: NewNodes) -> Array | None:
        """Return log-probabilities of new nodes by their links of this kind, (n_new, K)."""
        return self.own.judge(new.kinds[self.kind]) if self.kind in new.kinds else None

    def updated(self, changed: Changed, log_proba: NDArray[np.float32]) -> Learnt:
        """Return what is known after a change, by the links of the kind alone."""
        directed = isinstance(self.own, LearntDirection)
        graph = _links_of(changed.nodes.graph, self.kind, directed)
        before = _links_of(changed.before, self.kind, directed)
        new = changed.new.kinds.get(self.kind, changed.new)
        nodes = replace(changed.nodes, graph=graph, smoothing=None, links=None)
        own = self.own.updated(replace(changed, nodes=nodes, before=before, new=new), log_proba)
        return type(self)(own, self.kind, self.source)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the settings and arrays that `judge` needs, to save them."""
        return self.own.to_parts()


class OfKind(Expert):
    """An expert that sees the links of one kind alone; see :func:`expert_of_kind`."""

    of: ClassVar[type[Expert]]
    kind: ClassVar[str]
    own: Expert

    def __init__(self, own: Expert | None = None) -> None:
        self.own = self.of() if own is None else own

    def _seen(self, nodes: NodeData) -> NodeData | None:
        """Return the nodes with the links of the kind alone; None if there is no such kind."""
        # Links are left as they are for those that look at their direction.
        graph = _links_of(nodes.graph, self.kind, self.of in _ASKED_OF_DIRECTED)
        if graph is None:
            return None
        smoothing = None
        if self.of is Features and nodes.X is not None:
            smoothing = Smoothing(nodes.X, graph)
            if nodes.smoothing is not None:  # the same map to fewer columns
                smoothing.reduction = nodes.smoothing.reduction
                smoothing.base = nodes.smoothing.base
        return replace(nodes, graph=graph, smoothing=smoothing, links=None)

    def why_not(self, nodes: NodeData) -> str | None:
        """Return why the expert does not apply to the data; None if it does."""
        seen = self._seen(nodes)
        return f"there is no kind {self.kind!r}" if seen is None else self.own.why_not(seen)

    def for_large_graphs(self) -> Expert | None:
        """Return an expert that takes few products with the whole graph; None if there is none."""
        own = self.own.for_large_graphs()
        return None if own is None else type(self)(own)

    def bind(self, nodes: NodeData) -> Self:
        """Return a copy that holds the data."""
        bound = super().bind(nodes)
        seen = self._seen(nodes)
        assert seen is not None
        bound.own = self.own.bind(seen)
        return bound

    def settings(self) -> Sequence[Any]:
        """Return candidate settings, the likeliest first."""
        return self.own.settings()

    def describe(self, setting: Any) -> str:
        """Return a setting in words."""
        return self.own.describe(setting)

    def candidates(self, held: HeldOut, than: Array | None = None) -> list[Candidate]:
        """Return what was tried on held-out labels, without what was clearly worse."""
        return self.own.candidates(held, than)

    def held_out(self, held: HeldOut, setting: Any, than: Array | None = None) -> Array | None:
        """Return log-probabilities of held-out nodes, each without its label seen, (h, K)."""
        return self.own.held_out(held, setting, than)

    def learn(self, y: NDArray[np.int64], setting: Any) -> LearntOfKind:
        """Return what is learnt from the labels seen."""
        return LearntOfKind(self.own.learn(y, setting), self.kind, self.source)

    @classmethod
    def arguments(cls) -> Mapping[str, Check]:
        """Return the arguments that make up an expert: none."""
        return {}

    @classmethod
    def kept_layout(cls, settings: Mapping[str, Any]) -> Mapping[str, Expected]:
        """Return which arrays are saved along with these settings."""
        return cls.of.kept_layout(settings)

    @classmethod
    def restored(
        cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> LearntOfKind | None:
        """Return what was learnt from its saved parts."""
        own = cls.of.restored(settings, arrays)
        return None if own is None else LearntOfKind(own, cls.kind, cls.source)


@functools.cache
def expert_of_kind(of: type[Expert], kind: str) -> type[OfKind]:
    """Return the class of an expert that sees one kind of links: "propagation (cites)"."""
    shared = ("source", "balanced", "concurrent", "kept_settings", "kept_since")
    own = {name: getattr(of, name) for name in shared}
    own |= {"of": of, "kind": kind, "__module__": __name__}
    own |= {"name": f"{of.name} ({kind})", "about": f"{of.about}, by the links of {kind} alone"}
    return type(f"{of.__name__}OfKind", (OfKind,), own)


def find_of_kind(name: str) -> type[OfKind] | None:
    """Return the class of the expert of this name, if it names an expert and a kind of links."""
    base, opens, kind = name.removesuffix(")").partition(" (")
    of = {known.name: known for known in (*_ASKED, *_ASKED_OF_DIRECTED)}.get(base)
    if of is None or not opens or not name.endswith(")"):
        return None
    return expert_of_kind(of, kind)


def experts_of_kinds(asked: Sequence[Expert], graph: Graph | None) -> list[Expert]:
    """Return the experts that were asked for, with those of single kinds.

    These come after all that take little time: they are not needed where the block model of all
    kinds leaves nothing to add. Where links have a direction, the expert "links" brings along those
    of the links that leave a node, and of those that lead to it.
    """
    kinds = () if graph is None else graph.kinds
    if not kinds:
        return list(asked)
    found: list[Expert] = []
    for expert in asked:
        if len(kinds) > 1 and type(expert) in _ASKED:
            found += [expert_of_kind(type(expert), kind.name)(expert) for kind in kinds]
        if type(expert) is Links:
            for kind in (kind for kind in kinds if kind.directed):
                for of in _ASKED_OF_DIRECTED:
                    found.append(expert_of_kind(of, kind.name)() if len(kinds) > 1 else of())
    first = [expert for expert in asked if not expert.costly]
    return [*first, *found, *(expert for expert in asked if expert.costly)]
