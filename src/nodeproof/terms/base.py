"""What a term is: one kind of knowledge about nodes, and one model of it a class."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self, TypeGuard

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from nodeproof.graph import Graph
from nodeproof.runtime import threads
from nodeproof.sets import ConvexSet
from nodeproof.smoothing import Smoothing
from nodeproof.terms.class_loss import ClassLoss, NodewiseLoss

__all__ = ["NodeData", "SummableTerm", "Term", "cut_rows", "is_summable"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class NodeData:
    """What is known of the nodes beside their links.

    Attributes
    ----------
    n_classes : int
        Number of classes K.
    X : ndarray or csr_array of shape (n, m), or None
        Features, finite.
    y : ndarray of shape (n,), or None
        Labels 0…K−1, −1 where there is none.
    graph : Graph, or None
        The links, for terms that average over them.
    smoothing, links : Smoothing, or None
        Features, or links taken for features, that were averaged already.
    """

    n_classes: int
    X: NDArray[Any] | csr_array | None = None
    y: NDArray[np.int64] | None = None
    graph: Graph | None = None
    smoothing: Smoothing | None = None
    links: Smoothing | None = None


class Term(ABC):
    """One kind of knowledge about nodes, with a model θ_i of it in each class.

    A term can be weighed in two ways. As in the paper, by a loss ``f(z_v; θ)``, convex in θ,
    that a node pays at its own mixture ``θ_v = Σ_i W_vi θ_i``; or *calibrated*, by the
    −log-likelihood of the node in each class.

    To add a term, write `bind`, `loss`, `loss_gradient` and `refit` for the first, `estimate`,
    `cost` and `penalty` for the second; where sums over the nodes are all it takes, make it a
    `SummableTerm`. Models are one array of shape (K, ...).
    """

    #: what the term draws on; also picks its weight out of (β_g, β_f, β_l)
    source: ClassVar[str]

    #: whether costs are −log p(class | data), proportions of the classes included, instead of
    #: −log p(data | class)
    discriminative: ClassVar[bool] = False

    #: whether the paper's loss is linear in θ
    linear: ClassVar[bool] = False

    #: whether costs are no work to speak of: not worth a second thread
    light: ClassVar[bool] = False

    #: how often the models are re-fitted once the rows have settled; None: after every sweep
    rounds: int | None = None

    #: where the models of the loss live; set by `bind`
    models_set: ConvexSet
    n_nodes: int
    n_classes: int

    @abstractmethod
    def bind(self, nodes: NodeData) -> Self:
        """Return a copy of this term that holds the data it needs."""

    def reordered(self, nodes: NodeData, position: NDArray[np.int64]) -> Self:
        """Return this bound term for the same nodes in another order; class models stay valid.

        Parameters
        ----------
        nodes : NodeData
            In the new order.
        position : ndarray of shape (n,)
            Where each node has been so far.
        """
        return self.bind(nodes)

    def _bound(self, n_nodes: int, n_classes: int) -> Self:
        bound = copy.copy(self)
        for kind in type(self).__mro__:  # what was worked out for other nodes
            for name, member in vars(kind).items():
                if isinstance(member, cached_property):
                    vars(bound).pop(name, None)
        bound.n_nodes, bound.n_classes = n_nodes, n_classes
        return bound

    # The paper's loss. ------------------------------------------------------------------

    @abstractmethod
    def loss(self, theta: Array, lo: int, hi: int) -> Array:
        """Return ``f(z_v; θ_v)`` for the nodes lo…hi, shape (hi − lo,).

        Parameters
        ----------
        theta : ndarray of shape (hi − lo, ...) or (1, ...)
            One model a node, or one for all of them.
        """

    @abstractmethod
    def loss_gradient(self, theta: Array, lo: int, hi: int) -> Array:
        """Return ``∇_θ f(z_v; θ_v)`` for the nodes lo…hi, shape (hi − lo, ...)."""

    @abstractmethod
    def refit(self, W: NDArray[Any]) -> Array:
        """Return the members of the set that minimise ``Σ_v W_vi f(z_v; θ_i)``."""

    def class_loss(self, W: NDArray[Any]) -> ClassLoss:
        """Return ``Σ_v W_vi f(z_v; θ_i)`` as a function of the models.

        Terms whose sums over the nodes can be taken beforehand do so.

        Parameters
        ----------
        W : ndarray of shape (n, any)
            Weights of the nodes in each class, not negative.
        """
        return NodewiseLoss(self, W)

    def value(self, W: NDArray[Any], models: Array) -> float:
        """Return ``Σ_v f(z_v; Σ_i W_vi θ_i)``."""

        def part(lo: int, hi: int) -> float:
            return float(self.loss(_mix(W[lo:hi], models), lo, hi).sum())

        return float(np.sum(threads.map_rows(part, self.n_nodes)))

    def gradient_W(self, W: NDArray[Any], models: Array) -> Array:
        """Return the derivative of the value with respect to W, shape (n, K)."""

        def part(lo: int, hi: int) -> Array:
            gradient = self.loss_gradient(_mix(W[lo:hi], models), lo, hi)
            return gradient.reshape(hi - lo, -1) @ models.reshape(self.n_classes, -1).T

        return np.concatenate(threads.map_rows(part, self.n_nodes))

    def gradient_models(self, W: NDArray[Any], models: Array) -> Array:
        """Return the derivative of the value with respect to the models, (K, ...)."""

        def part(lo: int, hi: int) -> Array:
            gradient = self.loss_gradient(_mix(W[lo:hi], models), lo, hi)
            return np.asarray(W[lo:hi].T @ gradient.reshape(hi - lo, -1), dtype=np.float64)

        return threads.sum_rows(part, self.n_nodes).reshape(models.shape)

    def vertex_costs(self, models: Array, lo: int, hi: int) -> Array:
        """Return ``f(z_v; θ_i)`` for the nodes lo…hi and each class, shape (hi − lo, K)."""
        return np.stack([self.loss(model[None], lo, hi) for model in models], axis=1)

    # The likelihood. --------------------------------------------------------------------

    @abstractmethod
    def estimate(self, W: NDArray[Any]) -> Array:
        """Return the class models that are most probable given W, shape (K, ...)."""

    @abstractmethod
    def cost(self, models: Array, lo: int, hi: int) -> Array:
        """Return the −log-likelihood of the nodes lo…hi in each class, (hi − lo, K)."""

    def cost_into(self, out: Array, models: Array, lo: int, hi: int) -> None:
        """Write `cost` to an array that is there already."""
        out[:] = self.cost(models, lo, hi)

    def attribute(self, models: Array, scores: Array, lo: int, hi: int) -> dict[str, Array]:
        """Return the scores of the nodes lo…hi by the source they come from."""
        return {self.source: scores}

    def penalty(self, models: Array) -> float:
        """Return the −log-prior under which `estimate` is most probable (0: flat)."""
        return 0.0


class SummableTerm(Term):
    """A term whose class models need no more than sums over the nodes.

    Its nodes can be spread over machines: each sums over its own. Write `sums`, `estimate_from`
    and `cut` instead of `estimate`.
    """

    def estimate(self, W: NDArray[Any]) -> Array:
        """Return the class models that are most probable given W, shape (K, ...)."""
        return self.estimate_from(
            threads.sum_rows(lambda lo, hi: self.sums(W[lo:hi], lo, hi), self.n_nodes)
        )

    @property
    def summable(self) -> bool:
        """Whether sums suffice with these settings."""
        return True

    @abstractmethod
    def sums(self, W: NDArray[Any], lo: int, hi: int) -> Array:
        """Return the sums over the nodes lo…hi, whose rows these are, that estimates need."""

    @abstractmethod
    def estimate_from(self, sums: Array) -> Array:
        """Return the class models that are most probable given the sums over all nodes."""

    @abstractmethod
    def cut(self, ranges: Sequence[tuple[int, int]]) -> Self:
        """Return a copy that holds the nodes of these ranges only, numbered anew.

        What was worked out for all nodes stays.
        """


def is_summable(term: Term) -> TypeGuard[SummableTerm]:
    """Tell whether a term's class models need no more than sums over the nodes."""
    return isinstance(term, SummableTerm) and term.summable


def cut_rows(array: Any, ranges: Sequence[tuple[int, int]]) -> Any:
    """Return the rows of these ranges, one after the other."""
    parts = [array[lo:hi] for lo, hi in ranges]
    if isinstance(array, np.ndarray):
        return np.concatenate(parts) if parts else array[:0]
    return csr_array(vstack(parts)) if parts else array[:0]


def _mix(W: NDArray[Any], models: Array) -> Array:
    """Return ``Σ_i W_vi θ_i`` for each row, shape (rows, ...)."""
    mixed = W.astype(np.float64, copy=False) @ models.reshape(len(models), -1)
    return np.asarray(mixed.reshape(len(W), *models.shape[1:]))
