"""The two lemmas of the paper's appendix, which check their premises, and a counterexample.

The counterexample is an instance that Theorem 1(1) of the paper, as printed, claims is recovered,
and that is not. Two clusters share a dense regular graph. There are four labels; half of each
cluster leans to one label, half to another, so that its biased centroid lies inside an edge of Θ.
Moving each node's model by s to the label it leans to costs O(s²) in the similarities but gains
O(s) in the loss, and the sum of norms pays for that only up to ``ρ = γ n_i/n``. No graph, whatever
its weight, allows a factor c > 1 above that limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nodeproof.atoms import Decomposition
from nodeproof.convex.program import Program
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.problem import Problem
from nodeproof.sets import ConvexSet
from nodeproof.terms.base import NodeData
from nodeproof.terms.class_loss import LinearLoss
from nodeproof.terms.labels import Labels

__all__ = [
    "AtomsLemma",
    "BlocksLemma",
    "Counterexample",
    "Prices",
    "counterexample",
    "lemma_atoms",
    "lemma_blocks",
]

Array = NDArray[np.float64]
_TOL = 1e-9
_ROWS = 1024

# Mean loss of the two labels that a cluster of the counterexample leans to, with the sign changed.
_MEAN = 5.0


@dataclass(frozen=True)
class AtomsLemma:
    """The conclusion of Lemma 1 for some atoms.

    Attributes
    ----------
    theta : ndarray of shape (n, ...)
        The models of the nodes, ``θ_v = Σ_a λ_a ε_av² θ_a``.
    violation : float
        How far the worst of them is outside Θ: rounding only.
    largest : float
        The largest ``L_uv``, u ≠ v: at most 1.
    total : float
        ``Σ_a λ_a``: n.
    slack : float
        ``1 − largest``.
    """

    theta: Array
    violation: float
    largest: float
    total: float

    @property
    def slack(self) -> float:
        """The distance of the largest similarity from 1."""
        return 1.0 - self.largest


def lemma_atoms(
    lambdas: ArrayLike, E: ArrayLike, thetas: ArrayLike, models_set: ConvexSet
) -> AtomsLemma:
    """Apply Lemma 1: atoms with ``Σ_a λ_a ε_av² = 1`` need no further constraint.

    Then ``θ_v ∈ Θ``, ``L_uv ≤ 1`` and ``Σλ = n``.

    Parameters
    ----------
    lambdas : array of shape (r,)
        Weights, not negative.
    E : array of shape (n, r)
        The embeddings ``e_a``, one per column, each of length one.
    thetas : array of shape (r, ...)
        One model per atom, in Θ.
    models_set : ConvexSet
        Θ.

    Raises
    ------
    InputError
        If a premise fails; the message says which, and by how much.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.sets import Simplex
    >>> from nodeproof.paper.theory import lemma_atoms
    >>> E = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]) / np.sqrt([2.0, 1.0])
    >>> found = lemma_atoms([2.0, 1.0], E, np.eye(2), Simplex(2))
    >>> round(found.total, 9), round(found.largest, 9), found.theta.round(9)
    (3.0, 1.0, array([[1., 0.],
           [1., 0.],
           [0., 1.]]))
    """
    weights = np.asarray(lambdas, dtype=np.float64)
    embeddings = np.asarray(E, dtype=np.float64)
    models = np.asarray(thetas, dtype=np.float64)
    _check_atoms(weights, embeddings, models, models_set)
    shares = weights * embeddings**2
    theta = (shares @ models.reshape(len(models), -1)).reshape(-1, *models.shape[1:])
    return AtomsLemma(
        theta,
        float(np.max(models_set.violation(theta), initial=0.0)),
        _largest_similarity(embeddings * np.sqrt(weights)),
        float(weights.sum()),
    )


def _check_atoms(weights: Array, E: Array, models: Array, models_set: ConvexSet) -> None:
    if E.ndim != 2 or weights.shape != E.shape[1:] or len(models) != len(weights):
        raise InputError(
            "Lemma 1 takes r weights, embeddings of shape (n, r) and r models; got shapes "
            f"{weights.shape}, {E.shape} and {models.shape}"
        )
    if not (weights >= 0).all():
        a = int(np.argmin(weights))
        raise InputError(f"Lemma 1 needs weights ≥ 0; that of atom {a} is {weights[a]}")
    lengths = np.linalg.norm(E, axis=0)
    if not (np.abs(lengths - 1.0) <= _TOL).all():
        a = int(np.argmax(np.abs(lengths - 1.0)))
        raise InputError(f"Lemma 1 needs embeddings of length 1; that of atom {a} is {lengths[a]}")
    outside = models_set.violation(models)
    if not (outside <= _TOL).all():
        a = int(np.argmax(outside))
        raise InputError(f"Lemma 1 needs models in Θ; that of atom {a} is off by {outside[a]:.3g}")
    sums = E**2 @ weights
    if not (np.abs(sums - 1.0) <= _TOL).all():
        v = int(np.argmax(np.abs(sums - 1.0)))
        raise InputError(f"Lemma 1 needs Σ_a λ_a ε_av² = 1; at node {v} it is {sums[v]}")


def _largest_similarity(rows: Array) -> float:
    """Return the largest ``⟨row_u, row_v⟩``, u ≠ v, some rows at a time."""
    largest = -np.inf
    for lo in range(0, len(rows), _ROWS):
        block = rows[lo : lo + _ROWS] @ rows.T
        at = np.arange(len(block))
        block[at, lo + at] = -np.inf
        largest = max(largest, float(block.max(initial=-np.inf)))
    return largest


@dataclass(frozen=True)
class BlocksLemma:
    """The conclusion of Lemma 2 for a symmetric matrix ``[[A, B], [Bᵀ, C]]``.

    Attributes
    ----------
    alpha, beta : float
        The least eigenvalues of A and C.
    sigma : float
        The largest singular value of B.
    """

    alpha: float
    beta: float
    sigma: float

    @property
    def slack(self) -> float:
        """``√(αβ) − σ``; the smaller of α and β where that is negative."""
        if min(self.alpha, self.beta) < 0:
            return min(self.alpha, self.beta)
        return float(np.sqrt(self.alpha * self.beta) - self.sigma)

    @property
    def implies_psd(self) -> bool:
        """Whether the lemma proves the matrix positive semidefinite; if not, it may still be."""
        return self.slack >= 0

    @property
    def least(self) -> float:
        """A lower bound of the least eigenvalue, that of ``[[α, −σ], [−σ, β]]``."""
        middle, half = 0.5 * (self.alpha + self.beta), 0.5 * (self.alpha - self.beta)
        return float(middle - np.hypot(half, self.sigma))


def lemma_blocks(D: ArrayLike, split: int) -> BlocksLemma:
    """Apply Lemma 2: D is positive semidefinite if ``σ(B)² ≤ αβ``.

    Parameters
    ----------
    D : array of shape (n, n)
        Symmetric.
    split : int
        Size of the first block, 1…n − 1.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.paper.theory import lemma_blocks
    >>> found = lemma_blocks(np.array([[4.0, 0.0, 1.0], [0.0, 5.0, 0.0], [1.0, 0.0, 1.0]]), 2)
    >>> found.implies_psd, round(found.slack, 9)
    (True, 1.0)
    """
    matrix = np.asarray(D, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"Lemma 2 takes a square matrix, got shape {matrix.shape}")
    if not 0 < split < len(matrix):
        raise InputError(f"split must lie in 1…{len(matrix) - 1}, got {split}")
    if not np.allclose(matrix, matrix.T, rtol=1e-12, atol=1e-12):
        raise InputError("Lemma 2 takes a symmetric matrix")
    return BlocksLemma(
        float(np.linalg.eigvalsh(matrix[:split, :split])[0]),
        float(np.linalg.eigvalsh(matrix[split:, split:])[0]),
        float(np.linalg.norm(matrix[:split, split:], 2)),
    )


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
    >>> from nodeproof.paper import theory
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
