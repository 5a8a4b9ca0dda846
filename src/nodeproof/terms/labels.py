"""Labels that may be wrong: in each class, a distribution over the labels it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from nodeproof import kernels
from nodeproof.errors import InputError
from nodeproof.runtime import threads
from nodeproof.sets import Box, Simplex
from nodeproof.storage.schema import Check, flag, number
from nodeproof.terms.base import Array, NodeData
from nodeproof.terms.class_loss import ClassLoss, LinearLoss, ScoreLoss, fit_scores
from nodeproof.terms.registry import register
from nodeproof.terms.summable import SummableTerm, cut_rows

__all__ = ["Labels", "label_mass"]


@register
class Labels(SummableTerm):
    """Given labels; the model of class i is ``π_i``, how often each label is given there.

    The paper's loss is ``f(y = j; π) = −π_j`` at labelled nodes and 0 elsewhere, over the
    simplex. Its logistic alternative is ``f(y = j; ω) = log Σ_k exp(ω_k) − ω_j``, the −log of a
    softmax; the scores ω of a class lie between ±½ log(a (K − 1)/(1 − a)), so that its surest
    distribution gives one label the `accuracy` a, and all others equal shares.

    Calibrated, a label costs ``−log π_i[y]``, where π_i counts the labels that class i holds by
    now, on top of a belief that labels are mostly right. Without that belief, labels that nothing
    else confirms would lose all their say.

    Parameters
    ----------
    accuracy : float
        How often labels are believed to be right before anything is seen, below 1.
    strength : float
        How many labels per class that belief is worth.
    logistic : bool
        Which of the two losses fixed weights (β_g, β_f, β_l) use; calibrated ones use neither.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.terms import Labels, NodeData
    >>> term = Labels().bind(NodeData(n_classes=2, y=np.array([0, 0, 1, -1])))
    >>> term.estimate(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]))
    array([[0.94 , 0.06 ],
           [0.075, 0.925]])
    """

    source: ClassVar[str] = "labels"
    models_shape: ClassVar[str] = "K K"
    counts_labels: ClassVar[bool] = True
    light: ClassVar[bool] = True

    def __init__(
        self, accuracy: float = 0.9, strength: float = 3.0, logistic: bool = False
    ) -> None:
        self.accuracy, self.strength, self.logistic = accuracy, strength, logistic

    def __repr__(self) -> str:
        logistic = ", logistic=True" if self.logistic else ""
        return f"Labels(accuracy={self.accuracy:g}, strength={self.strength:g}{logistic})"

    def bind(self, nodes: NodeData) -> Self:
        """Return a copy that holds the labels."""
        if not (0 < self.accuracy < 1 and 0 < self.strength < np.inf):
            raise InputError(
                "Labels needs an accuracy between 0 and 1 and a positive strength, got "
                f"{self.accuracy} and {self.strength}"
            )
        bound = self.copy_for(nodes)
        assert nodes.y is not None
        K, y = nodes.n_classes, nodes.y
        out_of_range = np.flatnonzero((y < -1) | (y >= K))
        if len(out_of_range):
            v = out_of_range[0]
            raise InputError(f"the label of node {v} is {y[v]}; expected −1 (unknown) or 0…{K - 1}")
        bound.n_nodes, bound.y = len(y), y
        bound.labelled = np.flatnonzero(y >= 0)
        bound.linear = not self.logistic
        odds = self.accuracy * max(K - 1, 1) / (1.0 - self.accuracy)
        farthest = np.full(K, 0.5 * max(np.log(odds), 0.0))
        bound.models_set = Box(-farthest, farthest) if self.logistic else Simplex(K)
        return bound

    @classmethod
    def settings(cls) -> Mapping[str, Check]:
        """Return what makes it up, with what a saved file may say of it."""
        return {"accuracy": number, "strength": number, "logistic": flag}

    models_set: Simplex | Box
    y: NDArray[np.int64]
    labelled: NDArray[np.int64]

    @property
    def labels(self) -> NDArray[np.int64]:
        """The labels, shape (n,), −1 where unknown."""
        return self.y

    def labels_from(self, models: Array) -> NDArray[np.int64]:
        """Return the likeliest label of each node."""
        return models.argmax(axis=1).astype(np.int64)

    def loss(self, theta: Array, lo: int, hi: int) -> Array:
        """Return −π[y_v], or log Σ_k exp(ω_k) − ω[y_v], at labelled nodes, else 0."""
        rows, labels = self._labelled_rows(lo, hi)
        losses = np.zeros(hi - lo)
        models = np.broadcast_to(theta, (hi - lo, self.n_classes))[rows]
        losses[rows] = -models[np.arange(len(rows)), labels]
        if self.logistic:
            losses[rows] += logsumexp(models, axis=1)
        return losses

    def loss_gradient(self, theta: Array, lo: int, hi: int) -> Array:
        """Return −e_{y_v}, plus softmax(ω) if logistic, at labelled nodes, else 0."""
        rows, labels = self._labelled_rows(lo, hi)
        gradient = np.zeros((hi - lo, self.n_classes))
        gradient[rows, labels] = -1.0
        if self.logistic:
            models = np.broadcast_to(theta, (hi - lo, self.n_classes))
            gradient[rows] += softmax(models[rows], axis=1)
        return gradient

    def refit(self, W: NDArray[Any]) -> Array:
        """Put each class on the label it holds most of; uniform where it holds none.

        The logistic loss is least at the frequencies of the labels, as far as scores go.
        """
        counts = self._counts(W)
        if isinstance(self.models_set, Box):
            return fit_scores(counts, self.models_set)
        return np.where(
            counts.sum(axis=1, keepdims=True) > 0,
            self.models_set.lmo(-counts),
            self.models_set.center(self.n_classes),
        )

    def class_loss(self, W: NDArray[Any]) -> ClassLoss:
        """Return ``−Σ_j c_ij π_ij``, c_ij how much of label j the class holds, or the logistic."""
        counts = self._counts(W)
        if self.logistic:
            return ScoreLoss(self.models_set, counts)
        return LinearLoss(self.models_set, -counts)

    def sums(self, W: NDArray[Any], lo: int, hi: int) -> Array:
        """Return ``Σ_{v: y_v = j} W_vi``, shape (classes, K labels)."""
        nodes = self._labelled(lo, hi)
        return label_mass(W, nodes, self.y[nodes], self.n_classes, lo)

    def estimate(self, W: NDArray[Any]) -> Array:
        """Return the frequencies of the labels in each class, believed ones included."""
        return self.estimate_from(self._counts(W))

    def estimate_from(self, sums: Array) -> Array:
        """Return the frequencies of the labels in each class, believed ones included."""
        counts = sums + self._believed()
        return np.asarray(counts / counts.sum(axis=1, keepdims=True))

    def charged(self, sums: Array, models: Array) -> float:
        """Return ``−Σ_ij c_ij log π_ij``, c_ij how much of label j class i holds."""
        return -float((sums * np.log(models)).sum())

    def cut(self, ranges: Sequence[tuple[int, int]] | NDArray[np.int64]) -> Self:
        """Return a copy that holds the labels of these nodes only."""
        y = cut_rows(self.y, ranges)
        return self.bind(NodeData(self.n_classes, y=y))

    def cost(self, models: Array, lo: int, hi: int) -> Array:
        """Return −log π_i[y_v] at labelled nodes, else 0."""
        costs = np.empty((hi - lo, self.n_classes))
        self.cost_into(costs, models, lo, hi)
        return costs

    def cost_into(self, out: Array, models: Array, lo: int, hi: int) -> None:
        """Write the same to `out`."""
        nodes = self._labelled(lo, hi)
        out[:] = 0.0
        out[nodes - lo] = -np.log(models).T[self.y[nodes]]

    def penalty(self, models: Array) -> float:
        """Return the −log of the Dirichlet prior that stands for the belief."""
        return -float((self._believed() * np.log(models)).sum())

    def _believed(self) -> Array:
        """Return the labels that each class is taken to have had already, shape (K, K)."""
        K = self.n_classes
        wrong = (1.0 - self.accuracy) / max(K - 1, 1)
        believed = np.full((K, K), wrong)
        np.fill_diagonal(believed, self.accuracy)
        return np.asarray(self.strength * believed)

    def _labelled_rows(self, lo: int, hi: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        nodes = self._labelled(lo, hi)
        return nodes - lo, self.y[nodes]

    def _labelled(self, lo: int, hi: int) -> NDArray[np.int64]:
        first, last = np.searchsorted(self.labelled, (lo, hi))
        return self.labelled[first:last]

    def _counts(self, W: NDArray[Any]) -> Array:
        """Return ``Σ_{v: y_v = j} W_vi``, shape (classes, K labels)."""
        if not isinstance(W, np.ndarray):  # memberships that are made when they are asked for
            return threads.sum_rows(lambda lo, hi: self.sums(W[lo:hi], lo, hi), self.n_nodes)
        return label_mass(W, self.labelled, self.y[self.labelled], self.n_classes)


def label_mass(
    W: NDArray[Any],
    nodes: NDArray[np.int64],
    labels: NDArray[np.int64],
    n_labels: int,
    offset: int = 0,
) -> Array:
    """Return how much of each label each column holds, shape (K, n_labels).

    Parameters
    ----------
    W : ndarray of shape (any, K)
        Memberships; those of node v are ``W[v − offset]``.
    nodes, labels : ndarray of shape (labelled,)
        Labelled nodes in increasing order, and their labels.
    """
    counts = np.zeros((W.shape[1], n_labels))
    kernels.count_labels(nodes, labels, W, offset, threads.ROWS, counts, np.zeros(counts.shape))
    return counts
