"""Experts that look at links from one of their ends: where they lead to, or come from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.auto.experts.base import Array, Changed, NewNodes, Rows
from nodeproof.auto.experts.penalty import Setting
from nodeproof.auto.experts.regression import LearntRegression, OwnFeatures
from nodeproof.smoothing import Smoothing
from nodeproof.storage.schema import Expected
from nodeproof.terms import NodeData

__all__ = ["InLinks", "LearntDirection", "OutLinks"]


@dataclass(frozen=True)
class LearntDirection(LearntRegression):
    """A regression on the links of one direction.

    Attributes
    ----------
    arriving : bool
        Whether these are the links that lead to a node.
    """

    arriving: bool = False

    @property
    def needs_features(self) -> bool:
        """Whether it was learnt from features: it was not."""
        return False

    def reordered(self, position: NDArray[np.int64]) -> Self:
        """Return the same for reordered nodes."""
        moved = super().reordered(position)
        reduction = moved.fitted.reduction.reordered(position)
        return replace(moved, fitted=replace(moved.fitted, reduction=reduction))

    def judge(self, new: NewNodes) -> Array:
        """Return log-probabilities of new nodes, shape (n_new, K)."""
        rows = new.links if new.leaving is None else new.leaving
        if self.arriving:
            rows = sp.csr_array(rows.shape) if new.arriving is None else new.arriving
        return super().judge(replace(new, X=rows))

    def updated(self, changed: Changed, log_proba: Rows) -> LearntRegression:
        """Return the same after a change: learnt again, for each node is a column."""
        assert changed.nodes.y is not None
        if not (changed.rewired or changed.relabelled):
            return self
        expert = (InLinks if self.arriving else OutLinks)().bind(changed.nodes)
        return expert.learn(changed.nodes.y, self.setting)


class OutLinks(OwnFeatures):
    """A regression on the nodes that a node links to."""

    name: ClassVar[str] = "out-links"
    about: ClassVar[str] = "which nodes a node links to"
    source: ClassVar[str] = "graph"
    arriving: ClassVar[bool] = False

    def why_not(self, nodes: NodeData) -> str | None:
        """Return why it does not apply: links have no direction."""
        directed = nodes.graph is not None and any(kind.directed for kind in nodes.graph.kinds)
        return None if directed else "links have no direction"

    def bind(self, nodes: NodeData) -> Self:
        """Return a copy that holds the links of its direction."""
        assert nodes.graph is not None
        kind = next(kind for kind in nodes.graph.kinds if kind.directed)
        side = kind.sides[1 if self.arriving else 0]
        weights = side.weights if len(side.weights) else np.ones(len(side.indices), np.float32)
        n = kind.n_nodes
        rows = sp.csr_array((weights, side.indices, side.indptr), shape=(n, n))
        return super().bind(replace(nodes, X=rows, smoothing=Smoothing(rows), links=None))

    def _learn(
        self, y: NDArray[np.int64], setting: Setting, first: Array | None = None
    ) -> LearntDirection:
        return _directed(super()._learn(y, setting, first), self.arriving)

    @classmethod
    def kept_layout(cls, settings: Mapping[str, Any]) -> Mapping[str, Expected]:
        """Return which arrays are saved: there is one column per node."""
        found = super().kept_layout(settings)
        return {
            name: replace(expected, shapes=re.sub(r"\bm\b", "n", expected.shapes))
            for name, expected in found.items()
        }

    @classmethod
    def restored(
        cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> LearntDirection:
        """Return what was learnt from its saved parts."""
        return _directed(super().restored(settings, arrays), cls.arriving)


class InLinks(OutLinks):
    """A regression on the nodes that link to a node."""

    name: ClassVar[str] = "in-links"
    about: ClassVar[str] = "which nodes link to a node"
    arriving: ClassVar[bool] = True


def _directed(learnt: LearntRegression, arriving: bool) -> LearntDirection:
    own = learnt.log_proba, learnt.fitted, learnt.shift, learnt.spread, learnt.setting
    return LearntDirection(*own, arriving=arriving)
