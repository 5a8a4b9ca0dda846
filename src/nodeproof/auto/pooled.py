"""The pool's verdict as a term of the problem: what every node costs in each class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nodeproof.auto.experts.base import Learnt
from nodeproof.auto.pooling import Pool
from nodeproof.sets import Simplex
from nodeproof.storage.schema import Check
from nodeproof.terms import NewNodeCosts, NewNodes, NodeData, Term, register
from nodeproof.terms.class_loss import LinearLoss

__all__ = ["Pooled", "PooledCosts"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Verdict:
    """What the experts say of all nodes, and the pool that weighs it.

    Attributes
    ----------
    pool : Pool
        Weights and calibration.
    names, sources : tuple of str
        What the experts are called, and what they draw on.
    learnt : tuple of Learnt or None
        What they have learnt; None for those without a weight.
    costs : ndarray of shape (n, K)
        −log p(class), labelled nodes by pools that have not seen their labels.
    """

    pool: Pool
    names: tuple[str, ...]
    sources: tuple[str, ...]
    learnt: tuple[Learnt | None, ...]
    costs: NDArray[np.float32]

    def reordered(self, position: NDArray[np.int64]) -> Verdict:
        """Return the same for reordered nodes; `position` is where each was before."""
        learnt = tuple(None if own is None else own.reordered(position) for own in self.learnt)
        return replace(self, learnt=learnt, costs=self.costs[position])


@register
class Pooled(Term):
    """Class probabilities by a pool of experts, which held-out labels have weighed.

    A fit with ``terms="auto"`` makes it; it cannot be given by hand, because it is about the nodes
    of one fit. Calibrated, a node costs ``−log p(class)``; the paper's loss is ``−⟨p_v, θ⟩`` over
    the simplex.
    """

    source: ClassVar[str] = "features"
    takes_sparse: ClassVar[bool] = True
    discriminative: ClassVar[bool] = True
    light: ClassVar[bool] = True
    models_shape: ClassVar[str] = "K K"
    kept_as: ClassVar[str] = "pool"

    def __init__(self, verdict: Verdict | None = None) -> None:
        self.verdict = verdict

    def __repr__(self) -> str:
        return "Pooled()"

    @classmethod
    def settings(cls) -> Mapping[str, Check]:
        """Return what makes it up: nothing that a file could say."""
        return {}

    @property
    def needs_features(self) -> bool:
        """Whether any expert draws on features."""
        return self.verdict is not None and "features" in {
            source
            for source, own in zip(self.verdict.sources, self.verdict.learnt, strict=True)
            if own is not None
        }

    def bind(self, nodes: NodeData) -> Self:
        """Return a copy for the nodes of the fit."""
        bound = self.copy_for(nodes)
        bound.models_set = Simplex(nodes.n_classes)
        return bound

    def reordered(self, nodes: NodeData, position: NDArray[np.int64]) -> Self:
        """Return the same for reordered nodes."""
        bound = self.bind(nodes)
        assert self.verdict is not None
        bound.verdict = self.verdict.reordered(position)
        return bound

    @property
    def costs(self) -> NDArray[np.float32]:
        """−log p(class), shape (n, K)."""
        assert self.verdict is not None
        return self.verdict.costs

    def loss(self, theta: Array, lo: int, hi: int) -> Array:
        """Return ``−⟨p_v, θ⟩``."""
        return -np.asarray((np.exp(-self.costs[lo:hi]) * theta).sum(axis=1), dtype=np.float64)

    def loss_gradient(self, theta: Array, lo: int, hi: int) -> Array:
        """Return ``−p_v``."""
        return -np.exp(-self.costs[lo:hi]).astype(np.float64)

    def refit(self, W: NDArray[Any]) -> Array:
        """Put each class on the one that the pool sees most of in it."""
        return self.models_set.lmo(self.class_loss(W).slopes)

    def class_loss(self, W: NDArray[Any]) -> LinearLoss:
        """Return ``−⟨Σ_v W_vi p_v, θ_i⟩``."""
        return LinearLoss(self.models_set, -(W.T.astype(np.float64) @ np.exp(-self.costs)))

    def estimate(self, W: NDArray[Any]) -> Array:
        """Return nothing that depends on the memberships: the identity."""
        return np.eye(self.n_classes)

    def cost(self, models: Array, lo: int, hi: int) -> Array:
        """Return ``−log p(class)``."""
        return np.asarray(self.costs[lo:hi], dtype=np.float64)

    def attribute(self, models: Array, scores: Array, lo: int, hi: int) -> dict[str, Array]:
        """Return what the experts of each source add to the scores."""
        verdict = self.verdict
        assert verdict is not None
        found: dict[str, Array] = {}
        for k, own in enumerate(verdict.learnt):
            if own is None:
                continue
            weight = verdict.pool.scale * verdict.pool.weights[k]
            part = weight * verdict.pool.part(k, own.log_proba[lo:hi])
            for source, share in (
                own.attribute(part, lo, hi) or {verdict.sources[k]: part}
            ).items():
                found[source] = found.get(source, 0.0) + share
        return found

    def for_new_nodes(self, models: Array, calibrated: bool) -> PooledCosts:
        """Return what new nodes are judged by."""
        assert self.verdict is not None
        return PooledCosts(self.verdict.pool, self.verdict.names, self.verdict.learnt)


@dataclass(frozen=True)
class PooledCosts(NewNodeCosts):
    """What new nodes cost by the pool.

    Experts that cannot judge new nodes are left out, and the others count for more, as
    `Pool.only` says. If there are none, nodes cost what the proportions of the classes say.
    """

    pool: Pool
    names: tuple[str, ...]
    learnt: tuple[Learnt | None, ...]

    def costs(self, new: NewNodes) -> Array:
        """Return what new nodes cost in each class, shape (n_new, K)."""
        logs = [None if own is None else own.judge(new) for own in self.learnt]
        judges = np.array([own is not None for own in logs])
        if not judges.any():
            return -np.log(np.tile(self.pool.proportions, (new.links.shape[0], 1)))
        return -self.pool.only(judges).log_proba(logs)
