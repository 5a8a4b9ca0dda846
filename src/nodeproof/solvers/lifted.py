"""The lifted relaxation of a labelling problem with fixed models, and its lower bound.

For classes i with costs ``c_i`` and ``B`` as in :mod:`nodeproof.program`, a labelling with the
indicators x_i and ``L_i = x_i x_iᵀ`` costs ``Σ_i ⟨diag c_i − B, L_i⟩``. The relaxation keeps

    Y_i = [[1, x_iᵀ], [x_i, L_i]] ⪰ 0,  diag L_i = x_i,  Σ_i x_i = 1,  (L_i)_uv ≥ 0.

It is far tighter than the program, whose models are free. It bounds labellings, not the
program: there, two classes may share a vertex of Θ, and the 1 in the corner is not theirs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nodeproof.errors import InputError
from nodeproof.problem import Models, Problem
from nodeproof.program import least_eigenvalue, sum_down
from nodeproof.solvers.base import Result
from nodeproof.solvers.convex import relative_gap
from nodeproof.solvers.splitting import Splitting

__all__ = ["Dual", "Labelling", "LabellingResult", "Lifted", "labelling_costs", "lifted_bound"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Dual:
    """Dual variables of the lifted relaxation; any of them prove a bound.

    Attributes
    ----------
    nu : ndarray of shape (n,)
        Prices of ``Σ_i x_vi = 1``.
    r : ndarray of shape (K, n)
        Prices of ``diag L_i = x_i``.
    sigma : ndarray of shape (K,)
        Prices of the corners.
    gamma : ndarray of shape (K, n, n)
        Prices of the signs; symmetric, only what is positive counts.
    """

    nu: Array
    r: Array
    sigma: Array
    gamma: Array


@dataclass(frozen=True)
class LabellingResult(Result):
    """A labelling for fixed models, and what no labelling can undercut.

    Attributes
    ----------
    shares : ndarray of shape (n, K)
        The relaxation's ``x``.
    lower_bound : float
        Of the objective of every labelling, for these models: rigorous.
    dual : Dual
        The variables that prove it.
    """

    shares: Array
    lower_bound: float
    dual: Dual

    @property
    def gap(self) -> float:
        """How far the labelling can be from the best, relative to the size of the objective."""
        return relative_gap(self.value, self.lower_bound)


def labelling_costs(problem: Problem, models: Models) -> tuple[Array, Array]:
    """Return B (n, n) and the costs (n, K) of a labelling problem with these models."""
    n = problem.n_nodes
    B = np.zeros((n, n))
    if problem.graph is not None and models.affinity is not None:
        if models.affinity.ell.shape != (1, 1):
            raise InputError(
                "the lifted relaxation needs one affinity for all classes; these are K × K, where "
                "links between classes count too"
            )
        half, half_t = 0.5 * models.affinity.ell[0, 0], 0.5 * models.affinity.ell_t[0, 0]
        eta = problem.graph.eta
        B += half * problem.graph.adjacency.toarray() - half_t * np.outer(eta, eta)
        np.fill_diagonal(B, 0.0)
    return B, problem.costs(models, 0, n) - models.log_prior


def lifted_bound(B: Array, costs: Array, dual: Dual) -> float:
    """Return what the objective of no labelling undercuts: rigorous for any dual variables.

    With ``M_i = diag(c_i − ν − 2r_i) − B − Γ_i``, ``N_i = [[σ_i, r_iᵀ], [r_i, M_i]]`` and
    ``ε_i = λ_min(N_i)``, it is ``Σν − Σσ + n·min_i ε_i + Σ_i ε_i``: the trace of Y_i is one and
    the size of class i, and sizes sum to n.
    """
    n, K = costs.shape
    least = np.empty(K)
    N = np.empty((n + 1, n + 1))
    every = np.arange(1, n + 1)
    for i in range(K):
        gamma = np.maximum(0.5 * (dual.gamma[i] + dual.gamma[i].T), 0.0)
        N[0, 0], N[0, 1:], N[1:, 0] = dual.sigma[i], dual.r[i], dual.r[i]
        N[1:, 1:] = -B - gamma
        N[every, every] = costs[:, i] - dual.nu - 2.0 * dual.r[i]
        least[i] = least_eigenvalue(N)
    return sum_down(dual.nu, -dual.sigma, least, [n * least.min()])


class Lifted(Splitting):
    """The splitting of the lifted relaxation: the corner, x and the signs against the cone."""

    def __init__(self, B: Array, costs: Array) -> None:
        self.B, self.costs = B, costs
        n, K = costs.shape
        Z = np.tile(np.eye(n + 1) / K, (K, 1, 1))
        Z[:, 0, 0] = 1.0
        Z[:, 0, 1:] = Z[:, 1:, 0] = 1.0 / K
        size = max(np.abs(B).max(initial=0.0), np.abs(costs - costs.min(1, keepdims=True)).max())
        super().__init__(Z, float(size) or 1.0)

    @property
    def shares(self) -> Array:
        """The relaxation's x, shape (n, K)."""
        return np.ascontiguousarray(self.Z[:, 0, 1:].T)

    def less_costs(self, T: Array) -> None:
        """Subtract the costs of L_i; the corner and x have none."""
        T[:, 1:, 1:] += self.B / self.rho
        np.einsum("ivv->iv", T)[:, 1:] -= self.costs.T / self.rho

    def other_set(self, T: Array) -> Array:
        """Put 1 into the corner, x beside it and on the diagonal, and no entry below zero."""
        diagonal = np.einsum("ivv->iv", T)[:, 1:].copy()
        x = (2.0 * T[:, 0, 1:] + diagonal) / 3.0
        x += (1.0 - x.sum(axis=0)) / len(x)
        np.maximum(T, 0.0, out=T)
        T[:, 0, 0] = 1.0
        T[:, 0, 1:] = T[:, 1:, 0] = x
        np.einsum("ivv->iv", T)[:, 1:] = x
        return T

    def dual(self) -> Dual:
        """Return the multipliers as dual variables: ``ρU_i`` is exactly N_i."""
        N = self.rho * self.U
        r = N[:, 0, 1:].copy()
        diagonal = np.einsum("ivv->iv", N)[:, 1:]
        nu = (self.costs.T - 2.0 * r - diagonal).mean(axis=0)
        gamma = -self.B - N[:, 1:, 1:]
        np.einsum("ivv->iv", gamma)[:] = 0.0
        return Dual(nu, r, N[:, 0, 0].copy(), gamma)


class Labelling(Lifted):
    """The lifted splitting with the best labelling and the best bound so far."""

    def __init__(self, B: Array, costs: Array) -> None:
        super().__init__(B, costs)
        self.labelling = costs.argmin(axis=1)
        self.value, self.bound, self.proof = np.inf, -np.inf, self.dual()
        self.judge()

    def judge(self) -> None:
        """Round x, descend from there node by node, and update the best value and bound."""
        labelling = _settle(self.B, self.costs, self.shares.argmax(axis=1))
        together = labelling[:, None] == labelling[None, :]
        value = float(-self.B[together].sum())
        value += float(np.take_along_axis(self.costs, labelling[:, None], axis=1).sum())
        if value < self.value:
            self.value, self.labelling = value, labelling
        dual = self.dual()
        bound = lifted_bound(self.B, self.costs, dual)
        if bound > self.bound:
            self.bound, self.proof = bound, dual


def _settle(B: Array, costs: Array, labelling: NDArray[np.int64]) -> NDArray[np.int64]:
    """Move single nodes to a better class for as long as one gains."""
    labelling = labelling.copy()
    gains = B @ np.eye(costs.shape[1])[labelling]
    for _ in range(20 * len(B)):
        prices = costs - 2.0 * gains
        now = np.take_along_axis(prices, labelling[:, None], axis=1)[:, 0]
        better = now - prices.min(axis=1)
        v = int(better.argmax())
        if better[v] <= 1e-12 * (1.0 + abs(now[v])):
            break
        best = int(prices[v].argmin())
        gains[:, labelling[v]] -= B[:, v]
        gains[:, best] += B[:, v]
        labelling[v] = best
    return labelling
