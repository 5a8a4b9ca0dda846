"""Labels that may be wrong: in each class, a distribution over the labels it is given."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nodeproof.errors import InputError
from nodeproof.sets import Simplex
from nodeproof.terms.base import Array, NodeData, Term

__all__ = ["Labels"]


class Labels(Term):
    """Given labels; the model of class i is ``π_i``, how often each label is given there.

    The paper's loss is ``f(y = j; π) = −π_j`` at labelled nodes and 0 elsewhere, over the
    simplex. Calibrated, a label costs ``−log π_i[y]``, where π_i counts the labels that class
    i holds by now, and ``smoothing`` more of each.

    Parameters
    ----------
    smoothing : float
        Labels of each kind that every class is taken to have had already. Less trusts few
        labels more; measured over clean and wrong labels, 0.3 lost nothing against 1 and
        suspected fewer labels that were right.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.terms import Labels, NodeData
    >>> term = Labels().bind(NodeData(n_classes=2, y=np.array([0, 0, 1, -1])))
    >>> term.estimate(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]))
    array([[0.88461538, 0.11538462],
           [0.1875    , 0.8125    ]])
    """

    source: ClassVar[str] = "labels"

    def __init__(self, smoothing: float = 0.3) -> None:
        self.smoothing = smoothing

    def __repr__(self) -> str:
        return f"Labels(smoothing={self.smoothing:g})"

    def bind(self, nodes: NodeData) -> Self:
        """Return a copy that holds the labels."""
        if not self.smoothing > 0:
            raise InputError(f"Labels needs smoothing > 0, got {self.smoothing}")
        if nodes.y is None:
            raise InputError("Labels needs labels: y is missing")
        K, y = nodes.n_classes, nodes.y
        out_of_range = np.flatnonzero((y < -1) | (y >= K))
        if len(out_of_range):
            v = out_of_range[0]
            raise InputError(f"the label of node {v} is {y[v]}; expected −1 (unknown) or 0…{K - 1}")
        bound = self._bound(len(y), K)
        bound.y = y
        bound.labelled = np.flatnonzero(y >= 0)
        bound.models_set = Simplex(K)
        return bound

    y: NDArray[np.int64]
    labelled: NDArray[np.int64]

    def loss(self, theta: Array, lo: int, hi: int) -> Array:
        """Return −π[y_v] at labelled nodes, else 0."""
        rows, labels = self._labelled_rows(lo, hi)
        losses = np.zeros(hi - lo)
        losses[rows] = -np.broadcast_to(theta, (hi - lo, self.n_classes))[rows, labels]
        return losses

    def loss_gradient(self, theta: Array, lo: int, hi: int) -> Array:
        """Return −e_{y_v} at labelled nodes, else 0."""
        rows, labels = self._labelled_rows(lo, hi)
        gradient = np.zeros((hi - lo, self.n_classes))
        gradient[rows, labels] = -1.0
        return gradient

    def start_models(self) -> Array:
        """Return uniform distributions."""
        return np.tile(self.models_set.center(self.n_classes), (self.n_classes, 1))

    def refit(self, W: NDArray[Any]) -> Array:
        """Put each class on the label it holds most of; uniform where it holds none."""
        counts = self._counts(W)
        return np.where(
            counts.sum(axis=1, keepdims=True) > 0,
            self.models_set.lmo(-counts),
            self.models_set.center(self.n_classes),
        )

    def estimate(self, W: NDArray[Any]) -> Array:
        """Return the smoothed frequencies of the labels in each class."""
        counts = self._counts(W) + self.smoothing
        return np.asarray(counts / counts.sum(axis=1, keepdims=True))

    def cost(self, models: Array, lo: int, hi: int) -> Array:
        """Return −log π_i[y_v] at labelled nodes, else 0."""
        rows, labels = self._labelled_rows(lo, hi)
        costs = np.zeros((hi - lo, self.n_classes))
        costs[rows] = -np.log(models).T[labels]
        return costs

    def penalty(self, models: Array) -> float:
        """Return the −log of the Dirichlet prior that stands for the smoothing."""
        return -self.smoothing * float(np.log(models).sum())

    def _labelled_rows(self, lo: int, hi: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        first, last = np.searchsorted(self.labelled, (lo, hi))
        nodes = self.labelled[first:last]
        return nodes - lo, self.y[nodes]

    def _counts(self, W: NDArray[Any]) -> Array:
        """Return ``Σ_{v: y_v = j} W_vi``, shape (K classes, K labels)."""
        counts = np.zeros((self.n_classes, self.n_classes))
        np.add.at(counts.T, self.y[self.labelled], W[self.labelled])
        return counts
