"""Convex clustering of a graph alone: equations (1) to (3) of the paper.

With 𝓑 the symmetric matrices with ones on the diagonal and entries in [0, 1], and
``Ā = 2A − J`` off and on the diagonal,

    (1)  minimise  ‖L − A‖₁ + μ0 ‖L‖_*  over 𝓑,
    (2)  the same with the atomic norm of {e eᵀ : ‖e‖ = 1}, so that L ⪰ 0,
    (3)  minimise  −⟨Ā, L⟩ + μ0 Σλ  over L = Σ λ_i e_i e_iᵀ in 𝓑.

What is true of them:

- On [0, 1] and for links of weight 0 or 1, ``|l − a| = a − l(2a − 1)``. So (2) is (3) plus the
  constant ΣA, twice the number of links. For other weights the two differ: the absolute loss
  wants l to be the weight, the linear one rewards a link by its weight less the threshold.
- On 𝓑, ``‖L‖_* ≥ tr L = n``, with equality just where L ⪰ 0. So in (2) and (3) μ0 adds the
  constant μ0·n and nothing else. In (1) it is the weight of a penalty on negative eigenvalues,
  ``μ0 ‖L‖_* = μ0·n + 2μ0 Σ max(−λ_i, 0)``: at μ0 = 0 the solution is A + I, and (1) agrees with
  (2) only from some μ0 on.
- A `Problem` of the graph alone with weights (1, 0, 0) leaves the diagonal out: with threshold t
  its objective is that of (3) less ``2t·n + μ0·n``.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from nodeproof.convex.admm import BlockADMM
from nodeproof.convex.program import check_memory, lift_negative
from nodeproof.convex.results import ConvexResult, iterate, relative_gap
from nodeproof.errors import InputError
from nodeproof.first_order import ADMM, Point
from nodeproof.graph import Graph
from nodeproof.inputs.graph_objects import check_adjacency
from nodeproof.problem import Problem
from nodeproof.runtime import threads
from nodeproof.sets import Similarities
from nodeproof.solvers.base import Status, check_at_least, check_count

__all__ = ["Clustering", "cluster_graph"]

Array = NDArray[np.float64]

_CHECK_EVERY = 10
_RELAXATION = 1.6


@dataclass(frozen=True)
class Clustering:
    """Similarities of all pairs of nodes, and how good they are proven to be.

    Attributes
    ----------
    L : ndarray of shape (n, n)
        The similarities: a member of 𝓑.
    value : float
        The objective there, as the paper writes it, constants included.
    lower_bound : float
        What no other L can undercut: rigorous.
    constant : float
        ``μ0·n``, the part of both that no L changes.
    gap : float
        How far L can be from optimal, relative to the objective without what is constant.
    status : Status
        How the solver ended.
    n_iter : int
        Its iterations.
    history : dict of list
        Iteration, value and bound whenever these were computed.
    """

    L: Array
    value: float
    lower_bound: float
    constant: float
    gap: float
    status: Status
    n_iter: int
    history: dict[str, list[float]]

    @property
    def converged(self) -> bool:
        """Whether the value is proven to be as close to the optimum as was asked."""
        return self.status is Status.CONVERGED

    @property
    def labels(self) -> NDArray[np.int64]:
        """Clusters 0, 1, …: nodes that similarities above one half connect, shape (n,)."""
        _, labels = connected_components(csr_array(self.L > 0.5), directed=False)
        return np.asarray(labels, dtype=np.int64)


def cluster_graph(
    graph: Any,
    mu0: float | None = None,
    loss: str = "linear",
    positive: bool | None = None,
    threshold: float = 0.5,
    tol: float = 1e-4,
    max_iter: int = 10_000,
) -> Clustering:
    """Cluster the nodes of a graph by convex optimisation, without a number of clusters.

    Parameters
    ----------
    graph : object
        Anything that :func:`nodeproof.inputs.graph_objects.check_adjacency` reads.
    mu0 : float, optional
        μ0; by default the number of nodes. It matters only where L may be indefinite.
    loss : {"linear", "absolute"}
        "linear" is ``−⟨2(A − tJ), L⟩``, "absolute" is ``‖L − A‖₁``.
    positive : bool, optional
        Whether L ⪰ 0; by default as the paper writes it: equation (3) for the linear loss, and
        (1) for the absolute one. Equation (2) is the absolute loss with ``positive=True``.
    threshold : float
        t of the linear loss, a density: nodes that share fewer links are kept apart. One half is
        the paper's, and the only one that the absolute loss knows.
    tol : float
        Gap between the objective and its lower bound, relative to the objective without its
        constant ``μ0·n``.
    max_iter : int
        Most iterations.

    Returns
    -------
    Clustering

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.convex.clustering import cluster_graph
    >>> two_pairs = np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]])
    >>> found = cluster_graph(two_pairs)
    >>> found.labels.tolist(), found.converged
    ([0, 0, 1, 1], True)
    """
    adjacency = check_adjacency(graph)
    n = adjacency.shape[0]
    check_memory("convex clustering", n, 14)
    if loss not in ("linear", "absolute"):
        raise InputError(f"loss must be 'linear' or 'absolute', got {loss!r}")
    if not (isinstance(threshold, Real) and np.isfinite(float(threshold))):
        raise InputError(f"threshold must be a finite number, got {threshold!r}")
    if loss == "absolute" and threshold != 0.5:
        raise InputError(f"the absolute loss has no threshold: leave it at 0.5, got {threshold}")
    mu0 = float(n) if mu0 is None else mu0
    check_at_least("mu0", mu0, 0.0)
    check_at_least("tol", tol, 0.0)
    check_count("max_iter", max_iter)
    if positive is None:
        positive = loss == "linear"
    if positive and loss == "linear":
        return _by_blocks(adjacency, mu0, threshold, tol, max_iter)
    entries = _Entries(adjacency.toarray().astype(np.float64), loss == "absolute", threshold)
    with threads.using(1):  # matrices are small, and bits must not depend on BLAS threads
        return _split(entries, mu0, positive, tol, max_iter)


def _by_blocks(
    adjacency: Any, mu0: float, threshold: float, tol: float, max_iter: int
) -> Clustering:
    graph = Graph(adjacency, "uniform")
    # A `Graph` says nothing of nodes without a link; −1 in Ā says that they are apart.
    graph.eta = np.ones(graph.n_nodes)
    problem = Problem(graph, [], 1, weights=(1.0, 0.0, 0.0), threshold=threshold)
    result = BlockADMM(tol=tol, max_iter=max_iter, random_state=0).solve(problem)
    assert isinstance(result, ConvexResult)
    constant, diagonal = mu0 * graph.n_nodes, 2.0 * threshold * graph.n_nodes
    history = dict(result.history)
    for key in ("value", "bound"):
        history[key] = [seen + diagonal + constant for seen in history.get(key, [])]
    return Clustering(
        L=Similarities().project(result.point.L),
        value=float(result.program_value + diagonal + constant),
        lower_bound=float(result.lower_bound + diagonal + constant),
        constant=constant,
        gap=result.gap,
        status=result.status,
        n_iter=result.n_iter,
        history=history,
    )


class _Entries:
    """A loss that is a sum over the entries of L, with L in 𝓑."""

    def __init__(self, A: Array, absolute: bool, threshold: float) -> None:
        self.A, self.absolute, self.n = A, absolute, len(A)
        self.reward = 2.0 * (A - threshold)

    def value(self, L: Array) -> float:
        if self.absolute:
            return float(np.abs(L - self.A).sum())
        return -float(np.vdot(self.reward, L))

    def prox(self, X: Array, rho: float) -> Array:
        """Return the member of 𝓑 that minimises the loss plus ``ρ/2 ‖· − X‖²``."""
        if self.absolute:
            apart = X - self.A
            moved = self.A + np.sign(apart) * np.maximum(np.abs(apart) - 1.0 / rho, 0.0)
        else:
            moved = X + self.reward / rho
        return Similarities().project(moved)

    def least(self, Y: Array) -> float:
        """Return the minimum over 𝓑 of the loss plus ``⟨Y, ·⟩``."""
        ends = [np.zeros_like(Y), np.ones_like(Y)]
        if self.absolute:  # it bends at A
            ends.append(np.clip(self.A, 0.0, 1.0))
            costs = [np.abs(end - self.A) + Y * end for end in ends]
        else:
            costs = [(Y - self.reward) * end for end in ends]
        lowest = np.minimum.reduce(costs)
        np.fill_diagonal(lowest, np.diag(costs[1]))
        slack = 8.0 * self.n * np.finfo(float).eps * float(np.abs(lowest).sum())
        return float(lowest.sum()) - slack


class _EigenvalueADMM(ADMM):
    """Minimise the loss plus ``2μ0 Σ max(−λ_i, 0)``, or with no negative λ_i.

    One step is the prox of the eigenvalues, the other one that of the entries. What the first
    one cuts off is a subgradient Y of the penalty, so that every iterate gives a lower bound:
    the penalty is ``⟨Y, L⟩`` at least, and the loss plus that is minimised entry by entry.
    """

    def __init__(self, entries: _Entries, mu0: float, positive: bool) -> None:
        n = entries.n
        super().__init__((Similarities().center(n),), 1.0, _RELAXATION, adaptive=True)
        self.entries, self.positive, self.constant = entries, positive, mu0 * n
        self.penalty = np.inf if positive else 2.0 * mu0
        self.best, self.value, self.bound = np.eye(n), np.inf, -np.inf
        self._spectrum: tuple[Array, Array] = np.zeros(n), np.eye(n)
        self._cut = np.zeros((n, n))

    def x_step(self, target: Point) -> Point:
        """Lift the negative eigenvalues, by as much as the penalty allows."""
        values, vectors = np.linalg.eigh(target[0])
        cut = np.clip(values, -self.penalty / self.rho, 0.0)
        # A little less, so that rounding cannot make it too much.
        self._cut = (1.0 - 1e-12) * self.rho * (vectors * cut)
        self._spectrum = values, vectors
        return ((vectors * (values - cut)) @ vectors.T,)

    def z_step(self, target: Point) -> Point:
        """Return the proximal step of the entries."""
        return (self.entries.prox(target[0], self.rho),)

    def judge(self) -> None:
        """Update the best similarities, their value, and the best bound."""
        values, vectors = self._spectrum
        Y = self._cut @ vectors.T
        self.bound = max(self.bound, self.entries.least(0.5 * (Y + Y.T)) + self.constant)
        near = _semidefinite((vectors * np.maximum(values, 0.0)) @ vectors.T)
        for L in near if self.positive else [self.z[0], *near]:
            value = self.entries.value(L) + self.constant
            if not self.positive:
                value += self.penalty * float(np.maximum(-np.linalg.eigvalsh(L), 0.0).sum())
            if value < self.value:
                self.best, self.value = L, value

    def recorded(self) -> dict[str, float]:
        """Return what the history keeps of every iteration: nothing."""
        return {}

    def progress(self) -> tuple[float, Array]:
        """Return how far apart the copies are, and the similarities."""
        return self.residuals()[0], self.z[0]

    @property
    def gap(self) -> float:
        """How far the value can be from the optimum."""
        return relative_gap(self.value - self.constant, self.bound - self.constant)


def _split(entries: _Entries, mu0: float, positive: bool, tol: float, max_iter: int) -> Clustering:
    state = _EigenvalueADMM(entries, mu0, positive)
    status, iteration, history = iterate(state, max_iter, _CHECK_EVERY, lambda: state.gap <= tol)
    if not np.isfinite(state.value):  # interrupted before anything was judged
        state.value = entries.value(state.best) + state.constant
    return Clustering(
        L=state.best,
        value=float(state.value),
        lower_bound=float(state.bound),
        constant=state.constant,
        gap=state.gap,
        status=status,
        n_iter=iteration,
        history=history,
    )


def _semidefinite(X: Array) -> list[Array]:
    """Return members of 𝓑 near a semidefinite matrix that are semidefinite as well."""
    lengths = np.sqrt(np.diag(X))
    if not (lengths > 0).all():
        return [np.eye(len(X))]
    L = X / np.outer(lengths, lengths)
    return [
        Similarities().project(np.outer(scale, scale) * L + added)
        for scale, added in lift_negative(L)
    ]
