"""Labels spread over links: personalised PageRank from the labels of each class."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.auto.experts.base import (
    Array,
    Candidate,
    Changed,
    Expert,
    Learnt,
    NewNodes,
    Rows,
    no_logs,
)
from nodeproof.auto.held_out import HeldOut
from nodeproof.auto.sampling import MANY_ENTRIES
from nodeproof.graph import Graph
from nodeproof.storage.schema import Check, Expected, number
from nodeproof.terms import NodeData

__all__ = ["Propagation"]

_RESTARTS = (0.1, 0.03, 0.3)
_STEPS = 40

# The same for large graphs, where labels reach most nodes within a few steps.
_FEW_RESTARTS, _FEW_STEPS = (0.3, 0.1), 8

# A share of the mass that all nodes have of every class: nodes that no label reaches tell nothing.
_EVERYWHERE = 0.01


@dataclass(frozen=True)
class LearntPropagation(Learnt):
    """Mass of each class at every node; a new node gets what its neighbours pass on."""

    log_proba: NDArray[np.float32]
    mass: Rows
    inverse_degrees: Rows
    restart: float

    def reordered(self, position: NDArray[np.int64]) -> Self:
        """Return the same for reordered nodes."""
        return replace(
            self,
            log_proba=self.log_proba[position],
            mass=self.mass[position],
            inverse_degrees=self.inverse_degrees[position],
        )

    def judge(self, new: NewNodes) -> Array:
        """Return log-probabilities of new nodes, shape (n_new, K)."""
        weight, before = new.links.data, self.inverse_degrees[new.links.indices]
        # The new link is one more over which a neighbour passes on its mass.
        after = np.where(before > 0, weight * before / (1.0 + weight * before), 1.0)
        shares = sp.csr_array((after, new.links.indices, new.links.indptr), new.links.shape)
        received = (1.0 - self.restart) * (shares @ self.mass)
        found = received
        if new.among.nnz:
            inverse = 1.0 / np.where(new.degrees > 0, new.degrees, 1.0)
            step = (1.0 - self.restart) * new.among @ sp.diags_array(inverse)
            for _ in range(_STEPS):
                found = received + step @ found
        return _logs(found, len(self.mass))

    def updated(self, changed: Changed, log_proba: Rows) -> LearntPropagation:
        """Return the same after a change: walks are repeated with the same restarts."""
        nodes = changed.nodes
        assert nodes.graph is not None
        assert nodes.y is not None
        expert = Propagation()
        if nodes.graph.n_entries > MANY_ENTRIES:
            expert = expert.for_large_graphs()
        return expert.bind(nodes).learn(nodes.y, self.restart)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the settings and arrays that `judge` needs, to save them."""
        arrays = {"mass": self.mass, "inverse_degrees": self.inverse_degrees}
        return {"restart": self.restart}, arrays


class Propagation(Expert):
    """Personalised PageRank: random walks that restart at the labels of a class.

    The mass of each class is divided by its number of labels.
    """

    name: ClassVar[str] = "propagation"
    restarts: tuple[float, ...] = _RESTARTS
    steps: int = _STEPS
    about: ClassVar[str] = "labels, passed on along links"
    balanced: ClassVar[bool] = True
    kept_settings: ClassVar[Mapping[str, Check]] = {
        "restart": lambda value: number(value) and 0 < value <= 1
    }
    kept_arrays: ClassVar[Mapping[str, Expected]] = {
        "mass": Expected("f", "n K", required=True),
        "inverse_degrees": Expected("f", "n", required=True),
    }

    def why_not(self, nodes: NodeData) -> str | None:
        """Return why it does not apply: there are no links."""
        return None if nodes.graph is not None and nodes.graph.n_entries else "there are no links"

    def for_large_graphs(self) -> Propagation:
        """Return an expert with fewer steps."""
        found = copy.copy(self)
        found.restarts, found.steps = _FEW_RESTARTS, _FEW_STEPS
        return found

    def settings(self) -> tuple[float, ...]:
        """Return the probabilities of a restart."""
        return self.restarts

    def describe(self, setting: float) -> str:
        """Return a setting in words."""
        return f"about {1.0 / setting:.0f} links far"

    def candidates(self, held: HeldOut, than: Array | None = None) -> list[Candidate]:
        """Return all restarts from one pass: folds are columns, and what they see are sums."""
        K, F = self.nodes.n_classes, len(held.y)
        labels = np.max(held.y, axis=0)
        fold = np.full(len(labels), F)  # of labels that are never held out
        if held.own:
            fold[held.nodes] = held.folds
        nodes = np.flatnonzero(labels >= 0)
        column = fold[nodes] * K + labels[nodes]
        used, at = np.unique(column, return_inverse=True)
        sources = np.zeros((len(labels), len(used)), dtype=np.float32)
        sources[nodes, at] = 1.0
        counts = np.zeros((F + 1, K))
        np.add.at(counts, (fold[nodes], labels[nodes]), 1.0)
        found = []
        for restart, spread in zip(self.restarts, self._walk(sources, self.restarts), strict=True):
            mass = np.zeros((len(held.nodes), F + 1, K))
            mass.reshape(len(held.nodes), -1)[:, used] = spread[held.nodes]
            own = mass[np.arange(len(held.nodes)), held.folds] if held.own else 0.0
            seen = counts.sum(axis=0) - (counts[held.folds] if held.own else 0.0)
            mass = (mass.sum(axis=1) - own) / np.maximum(seen, 1.0)
            found.append(Candidate.judged(restart, _logs(mass, len(labels)), held, self))
        return found

    def learn(self, y: NDArray[np.int64], setting: Any) -> LearntPropagation:
        """Return where the walks of each class go."""
        K = self.nodes.n_classes
        labelled = np.flatnonzero(y >= 0)
        counts = np.bincount(y[labelled], minlength=K)
        sources = np.zeros((len(y), K), dtype=np.float32)
        sources[labelled, y[labelled]] = 1.0 / counts[y[labelled]]
        mass = self._walk(sources, (setting,))[0]
        logs = _logs(mass, len(y)).astype(np.float32)
        return LearntPropagation(logs, mass, self._inverse_degrees(), setting)

    @classmethod
    def restored(
        cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> LearntPropagation:
        """Return what was learnt from its saved parts, without `log_proba`."""
        mass, inverse = arrays["mass"], arrays["inverse_degrees"]
        if mass.min(initial=0.0) < 0 or inverse.min(initial=0.0) < 0:
            raise ValueError("the propagated mass of a class, or a degree, is negative")
        return LearntPropagation(no_logs(mass.shape[1]), mass, inverse, settings["restart"])

    def _inverse_degrees(self) -> Rows:
        graph: Graph = self.nodes.graph  # type: ignore[assignment]
        degrees = graph.degrees / graph.unit
        inverse = np.divide(1.0, degrees, out=np.zeros_like(degrees), where=degrees > 0)
        return inverse.astype(np.float32)

    def _walk(self, sources: Rows, restarts: tuple[float, ...]) -> list[Rows]:
        """Return ``r Σ_k (1 − r)^k (A D⁻¹)^k S`` for each restart r."""
        graph: Graph = self.nodes.graph  # type: ignore[assignment]
        inverse = (self._inverse_degrees() / np.float32(graph.unit))[:, None]
        spread = [np.float32(restart) * sources for restart in restarts]
        walk = sources
        for step in range(1, self.steps + 1):
            walk = graph.times(inverse * walk)
            for total, restart in zip(spread, restarts, strict=True):
                total += np.float32(restart * (1.0 - restart) ** step) * walk
        return spread


def _logs(mass: NDArray[Any], n_nodes: int) -> Array:
    """Return log-probabilities from the mass of each class, which is one over all nodes."""
    mass = mass + _EVERYWHERE / n_nodes
    return np.asarray(np.log(mass / mass.sum(axis=1, keepdims=True)), dtype=np.float64)
