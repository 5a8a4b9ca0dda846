"""What the block model has learnt: a solved problem, as far as new nodes and updates need it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from nodeproof.affinity import FittedGraph
from nodeproof.auto.experts.base import Array, Changed, Learnt, NewNodes, Rows
from nodeproof.errors import InputError
from nodeproof.fitted_kinds import FittedKinds
from nodeproof.problem import Models
from nodeproof.runtime import threads
from nodeproof.storage.schema import Check, number, one_of
from nodeproof.terms import NewNodeCosts, NodeData, Term
from nodeproof.terms.base import BoundCosts
from nodeproof.terms.registry import describe_term

__all__ = ["GRAPH_PARTS", "LearntBlocks", "Setting"]

#: of a `FittedGraph`, beside arrays
GRAPH_PARTS: dict[str, Check] = {
    "null_model": one_of("uniform", "degree"),
    "total": number,
    "unit": number,
}


class Setting(NamedTuple):
    """The term of the features, if any, and whether contrasts of links differ between classes.

    `view` is that of the links (:meth:`nodeproof.graph.Graph.view`): with their direction, kind
    by kind, or all of them together.
    """

    term: Term | None
    affinities: Literal["scalar", "matrix"] = "scalar"
    view: str = "kinds"


@dataclass(frozen=True)
class LearntBlocks(Learnt):
    """A solved problem, as far as new nodes need it.

    Attributes
    ----------
    models : Models
        Of the classes.
    graph : FittedGraph, FittedKinds or None
        Summary of the links.
    terms : tuple of NewNodeCosts or None
        What new nodes cost by each term.
    shares : dict of float
        Of several kinds of links and the features in what the model says; {} for one kind.
    """

    log_proba: NDArray[np.float32]
    models: Models
    graph: FittedGraph | FittedKinds | None
    terms: tuple[NewNodeCosts | None, ...]
    shares: Mapping[str, float] = field(default_factory=dict)

    def reordered(self, position: NDArray[np.int64]) -> Self:
        """Return the same for reordered nodes."""
        return replace(self, log_proba=self.log_proba[position])

    @property
    def needs_features(self) -> bool:
        """Whether a term describes features."""
        return any(costs is not None for costs in self.terms)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the settings and arrays that `judge` needs, to save them."""
        settings: dict[str, Any] = {"graph": None, "contrasts": None, "terms": []}
        arrays: dict[str, NDArray[Any]] = {"log_prior": self.models.log_prior}
        if self.graph is not None and self.models.affinity is not None:
            ell = self.models.affinity.ell
            settings["contrasts"] = "scalar" if ell.shape[-1] == 1 else "matrix"
            if isinstance(self.graph, FittedKinds):
                settings["graph"], pairs = self.graph.to_parts()
            else:
                settings["graph"] = {name: getattr(self.graph, name) for name in GRAPH_PARTS}
                pairs = self.graph.pairs
            arrays |= {"pairs": pairs, "log_proba": self.log_proba}
            arrays |= {"ell": ell, "ell_t": self.models.affinity.ell_t}
        for costs, models in zip(self.terms, self.models.terms, strict=True):
            if costs is None:
                continue
            if not isinstance(costs, BoundCosts):
                raise InputError(f"a block model cannot be saved with {costs!r}")
            arrays[f"term_{len(settings['terms'])}"] = models
            settings["terms"].append(describe_term(costs.term))
        return settings, arrays

    def attribute(self, scores: Array, lo: int, hi: int) -> dict[str, Array]:
        """Return scores as those of features if there are no links, or as those of the kinds."""
        if self.graph is None:
            return {"features": scores}
        return {kind: share * scores for kind, share in self.shares.items()}

    def updated(self, changed: Changed, log_proba: Rows) -> LearntBlocks:
        """Return the solution after a change, which goes on from this one."""
        from nodeproof.auto.experts.block import BlockModel  # which needs this module

        nodes = changed.nodes
        assert nodes.y is not None
        described = [costs.term for costs in self.terms if isinstance(costs, BoundCosts)]
        term = described[0] if described else None
        affinity = self.models.affinity
        matrix = affinity is not None and affinity.ell.shape[-1] != 1
        kinds = self.graph.kinds if isinstance(self.graph, FittedKinds) else ()
        view = "directed" if any(kind.directed for kind in kinds) else "kinds"
        if isinstance(self.graph, FittedGraph) and nodes.graph and len(nodes.graph.kinds) > 1:
            view = "together"
        setting = Setting(term, "matrix" if matrix else "scalar", view)
        expert = BlockModel([term]).bind(nodes)
        expert.starts = {expert.describe(setting): np.exp(log_proba)}
        return expert.learn(nodes.y, setting)

    def node_costs(self, nodes: NodeData) -> Array:
        """Return what nodes cost in each class beside their links and labels, shape (n, K)."""
        total = np.tile(-self.models.log_prior, (nodes.n_nodes, 1))
        for costs, theta in zip(self.terms, self.models.terms, strict=True):
            if isinstance(costs, BoundCosts):
                term = costs.term.bind(nodes)
                total += np.concatenate(threads.map_rows(partial(term.cost, theta), nodes.n_nodes))
        return total

    def judge(self, new: NewNodes) -> Array:
        """Return log-probabilities of new nodes, shape (n_new, K)."""
        scores = np.tile(self.models.log_prior, (new.links.shape[0], 1))
        for term in self.terms:
            if term is not None:
                scores -= term.costs(new)
        graph, affinity = self.graph, self.models.affinity
        if graph is not None and affinity is not None:
            W = np.exp(self.log_proba)
            if isinstance(graph, FittedKinds):
                scores = graph.settle(scores, new.kinds, W, affinity)
            else:
                scores = graph.settle(scores, *new.links_of(graph.unit), W, affinity)
        return np.asarray(log_softmax(scores, axis=1))
