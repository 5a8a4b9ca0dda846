"""Instances that Theorem 1(1) of the paper, as printed, claims are recovered, and that are not.

K clusters of m nodes share a dense regular graph. There are 2K labels, two per cluster; half of a
cluster leans to one of them, half to the other, so that its biased centroid lies in the middle of
an edge of Θ. Moving each node's model by s to the label it leans to

- gains ``μ n ρ s/√2`` in the losses, as ``ρ = 2√2·lean``,
- costs ``μ γ m s/√2`` in the norms inside clusters,
- costs O(s²) in the links, where L falls from 1 to √(1 − 4s²) between the halves of a cluster, and
  in the norms across clusters, which grow from 1 to √(1 + 4s²).

So it pays for ``ρ > γ m/n``, for a small enough s, whatever the weight of the graph. The theorem
allows ``c·γ m/n`` with a c > 1 where m ≥ √n, and ``m²/n`` where m ≤ √n: more, if γ < m.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nodeproof.atoms import Decomposition
from nodeproof.convex.program import Program
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.problem import Problem
from nodeproof.terms.base import NodeData
from nodeproof.terms.class_loss import LinearLoss
from nodeproof.terms.labels import Labels

__all__ = ["Counterexample", "Prices", "counterexample"]

Array = NDArray[np.float64]

# Mean loss of the two labels that a cluster of the counterexample leans to, with the sign changed.
_MEAN = 5.0

# The default c, where the theorem allows as much.
_USUAL = 1.2


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
        Graph, prices of 2K labels, and a sum of norms.
    labels : ndarray of shape (n,)
        The K clusters, as classes 0, 2, 4, …
    centroids : ndarray of shape (K, 2K)
        Their biased centroids, each inside an edge of Θ.
    prices : ndarray of shape (n, 2K)
        The gradients of the losses.
    c : float
        ρ over ``γ n_i/n``.
    c_printed : float
        The largest c for which Theorem 1(1) as printed claims recovery, with the c of its appendix:
        1/(1 − √(1/K)) where n_i > √n, n_i/γ elsewhere.
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
    c_printed: float
    better: Decomposition
    ideal_value: float
    better_value: float

    @property
    def gain(self) -> float:
        """By how much the better point is better."""
        return self.ideal_value - self.better_value


def counterexample(
    c: float | None = None,
    graph_weight: float = 1.0,
    size: int = 12,
    step: float | None = None,
    n_classes: int = 2,
) -> Counterexample:
    """Return clusters for which Theorem 1(1) as printed does not hold.

    Homogeneous with δ = 0, visible (ρ⁺ ≤ 3/size), with bounded norms, separable with R > 0 and
    with ``ρ = c·γ n_i/n``; γ = 1. With ``size > n_classes`` the clusters are few and large,
    n_i > √n and ``μ = n/√n_i``; else they are many and small, and ``μ = n/n_i``.

    Parameters
    ----------
    c : float, optional
        Above 1 the ideal solution is not optimal, below it is. By default 1.2, or half way from 1
        to what the theorem allows where that is less.
    graph_weight : float
        β_g: it does not help.
    size : int
        Nodes in each cluster, even, at least 8.
    step : float, optional
        How far the better point moves each model; by default about as far as pays most.
    n_classes : int
        Number of clusters, at least 2.

    Examples
    --------
    >>> from nodeproof.paper import theory
    >>> theory.counterexample().gain > 0.1
    True
    >>> theory.counterexample(c=0.95).gain > 0
    False
    >>> many_small = theory.counterexample(c=5, size=8, n_classes=16)
    >>> many_small.gain > 0, many_small.c_printed
    (True, 8.0)
    """
    if size < 8 or size % 2:
        raise InputError(f"the example needs clusters of an even size ≥ 8, got {size}")
    if n_classes < 2:
        raise InputError(f"the example needs at least 2 classes, got n_classes={n_classes}")
    few = size > n_classes
    c_printed = 1.0 / (1.0 - np.sqrt(1.0 / n_classes)) if few else float(size)
    if c is None:
        c = min(_USUAL, 0.5 * (1.0 + c_printed))
    if not (c > 0 and graph_weight >= 0):
        raise InputError(f"the example needs c > 0 and graph_weight ≥ 0, got {c}, {graph_weight}")
    n = n_classes * size
    cluster, side = np.repeat(np.arange(n_classes), size), np.tile([1.0, -1.0], n // 2)
    mu = n / np.sqrt(size) if few else float(n_classes)
    lean = c / (2.0 * np.sqrt(2.0) * n_classes)
    prices = _in_own(cluster, -_MEAN + lean * side, -_MEAN - lean * side)
    problem = Problem(
        Graph(_regular_graph(size, n_classes), "uniform"),
        [Prices().of(prices)],
        2 * n_classes,
        (graph_weight, 0.0, mu),
        son=mu / n,
    )
    program = Program(problem)
    together = (cluster[:, None] == cluster).astype(np.float64)
    if step is None:
        halves = (together > 0) & (side[:, None] != side)
        slope = mu * size * abs(c - 1.0) / np.sqrt(2.0)
        bend = 2.0 * program.B[halves].sum() + mu * (n - size)
        step = min(0.4, float(slope / (2.0 * bend)))
    better = Decomposition(
        np.sqrt(_in_own(cluster, 0.5 - step * side, 0.5 + step * side)), np.eye(2 * n_classes)
    )
    centroids = np.kron(np.eye(n_classes), np.full((1, 2), 0.5)).astype(np.float64)
    return Counterexample(
        problem,
        2 * cluster,
        centroids,
        prices,
        c,
        c_printed,
        better,
        program.value(together, centroids[cluster]),
        program.value(better.L, better.models),
    )


def _in_own(cluster: NDArray[np.int64], first: Array, second: Array) -> Array:
    """Return zeros of shape (n, 2K), but for the two labels of each node's cluster."""
    every = np.arange(len(cluster))
    values = np.zeros((len(cluster), 2 * (int(cluster.max()) + 1)))
    values[every, 2 * cluster], values[every, 2 * cluster + 1] = first, second
    return values


def _regular_graph(size: int, n_classes: int) -> Array:
    """Return clusters in which every node has the same numbers of links, shape (n, n).

    A node misses itself and two others of its own cluster, and has two links to each other one.
    Each two clusters are turned against each other by another angle: if all were turned alike, the
    norm of the centred links would grow like K, and not like √n as in Assumption 3.
    """
    at = np.arange(size)
    ahead = (at[:, None] - at) % size
    inside = np.minimum(ahead, ahead.T) > 1
    A = np.kron(np.eye(n_classes), inside)
    for i in range(n_classes):
        for j in range(i):
            across = (ahead + i * j) % size < 2
            A[i * size : (i + 1) * size, j * size : (j + 1) * size] = across
            A[j * size : (j + 1) * size, i * size : (i + 1) * size] = across.T
    return A
