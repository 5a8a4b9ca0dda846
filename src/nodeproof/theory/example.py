"""An instance that Theorem 1(1) of the paper, as printed, says is recovered, and that is not.

Two clusters share a dense regular graph. There are four labels; half of each cluster leans to one
label, half to another, so that its biased centroid lies inside an edge of Θ. Moving each node's
model by s to the label it leans to costs the similarities O(s²) but gains O(s) in the loss, and
the sum of norms pays for that only up to ``ρ = γ n_i/n``. A factor c > 1 above that limit no graph
can give, whatever its weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.problem import Problem
from nodeproof.program import Decomposition, Program
from nodeproof.terms.base import NodeData
from nodeproof.terms.class_loss import LinearLoss
from nodeproof.terms.labels import Labels

__all__ = ["Counterexample", "Prices", "counterexample"]

Array = NDArray[np.float64]

_MEAN = 5.0


class Prices(Labels):
    """The loss ``⟨prices_v, π⟩`` over the simplex: that of labels, with any gradient."""

    source: ClassVar[str] = "labels"
    prices: Array

    def of(self, prices: Array) -> Self:
        """Return a copy that holds the prices, shape (n, K)."""
        bound = self.bind(NodeData(prices.shape[1], y=np.zeros(len(prices), dtype=np.int64)))
        bound.prices = prices
        return bound

    def loss(self, theta: Array, lo: int, hi: int) -> Array:
        """Return ``⟨prices_v, θ_v⟩``."""
        return np.asarray((theta * self.prices[lo:hi]).sum(axis=1))

    def loss_gradient(self, theta: Array, lo: int, hi: int) -> Array:
        """Return the prices."""
        return self.prices[lo:hi]

    def refit(self, W: NDArray[Any]) -> Array:
        """Put each class on its cheapest label."""
        return self.models_set.lmo(W.T @ self.prices)

    def class_loss(self, W: NDArray[Any]) -> LinearLoss:
        """Return ``Σ_v W_vi ⟨prices_v, θ_i⟩``."""
        return LinearLoss(self.models_set, W.T @ self.prices)


@dataclass(frozen=True)
class Counterexample:
    """The instance, and the numbers that show it.

    Attributes
    ----------
    problem : Problem
        Graph, prices of four labels, and a sum of norms.
    labels : ndarray of shape (n,)
        The two clusters, as classes 0 and 2.
    centroids : ndarray of shape (2, 4)
        Their biased centroids, each inside an edge of Θ.
    prices : ndarray of shape (n, 4)
        The gradients of the losses.
    c : float
        ρ over ``γ n_i/n``.
    better : Decomposition
        A feasible point that costs less than the ideal solution where c > 1.
    ideal_value, better_value : float
        The objective at the ideal solution and at the better point.
    """

    problem: Problem
    labels: NDArray[np.int64]
    centroids: Array
    prices: Array
    c: float
    better: Decomposition
    ideal_value: float
    better_value: float

    @property
    def gain(self) -> float:
        """By how much the better point is better."""
        return self.ideal_value - self.better_value


def counterexample(
    c: float = 1.2, graph_weight: float = 1.0, size: int = 12, step: float | None = None
) -> Counterexample:
    """Return two clusters for which Theorem 1(1) as printed does not hold.

    Homogeneous with δ = 0, visible (ρ⁺ ≤ 3/size), separable with R > 0, in the regime n_i ≥ √n,
    with ``ρ = c·γ n_i/n``; γ = 1 and ``μ = n/√n_i``.

    Parameters
    ----------
    c : float
        Above 1 the ideal solution is not optimal, below it is. The theorem's factor is
        1/(1 − √(1/2)) = 3.4 here, by its appendix.
    graph_weight : float
        β_g: it does not help.
    size : int
        Nodes in each cluster, even, at least 8.
    step : float, optional
        How far the better point moves each model; by default 0.05 over the graph's weight.

    Examples
    --------
    >>> from nodeproof import theory
    >>> theory.counterexample().gain > 0.1
    True
    >>> theory.counterexample(c=0.95).gain > 0
    False
    """
    if size < 8 or size % 2:
        raise InputError(f"the example needs clusters of an even size ≥ 8, got {size}")
    if not (c > 0 and graph_weight >= 0):
        raise InputError(f"the example needs c > 0 and graph_weight ≥ 0, got {c}, {graph_weight}")
    n = 2 * size
    cluster, side = np.repeat([0, 1], size), np.tile([1.0, -1.0], size)
    lean, mu = c / (4.0 * np.sqrt(2.0)), n / np.sqrt(size)
    every = np.arange(n)
    prices = np.zeros((n, 4))
    prices[every, 2 * cluster] = -_MEAN + lean * side
    prices[every, 2 * cluster + 1] = -_MEAN - lean * side
    problem = Problem(
        Graph(_regular_graph(size), "uniform"),
        [Prices().of(prices)],
        4,
        (graph_weight, 0.0, mu),
        son=mu / n,
    )
    if step is None:
        step = 0.05 / max(graph_weight, 1.0)
    shares = np.zeros((n, 4))
    shares[every, 2 * cluster] = 0.5 - step * side
    shares[every, 2 * cluster + 1] = 0.5 + step * side
    better = Decomposition(np.sqrt(shares), np.eye(4))
    centroids = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])
    program = Program(problem)
    together = (cluster[:, None] == cluster).astype(np.float64)
    return Counterexample(
        problem,
        2 * cluster,
        centroids,
        prices,
        c,
        better,
        program.value(together, centroids[cluster]),
        program.value(better.L, better.models),
    )


def _regular_graph(size: int) -> Array:
    """Return two clusters in which every node has the same numbers of links."""
    at = np.arange(size)
    ahead = (at[:, None] - at) % size
    inside, across = np.minimum(ahead, ahead.T) > 1, ahead < 2
    return np.block([[inside, across], [across.T, inside]]).astype(np.float64)
