"""Better dual variables by an ADMM on the lifted relaxation: for some hundred nodes.

    Y_i = [[g², g·x_iᵀ], [g·x_i, L_i]] ⪰ 0,  diag L_i = x_i,  Σ_i x_i = 1,  (L_i)_uv ≥ 0,

g = √(n/K) keeps the corner in proportion. Where all classes cost every node nearly the same, one
block stands for all of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nodeproof.certificate.labelling.dual import Dual
from nodeproof.certificate.labelling.families import closed
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.solvers.semidefinite import SemidefiniteADMM

__all__ = ["LiftedBlocks"]

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

# ρ relative to what a link is worth.
_RHO = 0.25


class LiftedBlocks(SemidefiniteADMM):
    """The ADMM, begun from a labelling and its dual variables.

    Parameters
    ----------
    instance : Instance
        What is to be bounded.
    z : ndarray of shape (n,)
        The labelling to begin from.
    dual : Dual
        Where the multipliers begin.
    alike : bool
        Whether one block stands for all classes, at the costs of each node's cheapest class.
    """

    def __init__(self, instance: Instance, z: Labels, dual: Dual, alike: bool = False) -> None:
        self.instance, self.alike = instance, alike
        self.B = instance.dense()
        n, K = instance.n_nodes, instance.n_classes
        self.costs = instance.costs.T
        if alike:
            self.costs = instance.costs.min(axis=1)[None]
        k = len(self.costs)
        self.g = np.sqrt(n / K)
        self._nodes = np.arange(1, n + 1)
        members = np.eye(K)[:, z]
        Z = np.empty((k, n + 1, n + 1))
        together = np.equal.outer(z, z) / K
        for i in range(k):
            Z[i, 1:, 1:] = together if alike else np.outer(members[i], members[i])
        self._put_shares(Z, np.full((1, n), 1.0 / K) if alike else members)
        size = float(np.abs(self.B).max(initial=0.0)) or float(np.abs(self.costs).max(initial=0.0))
        super().__init__((Z,), _RHO * size * (K if alike else 1) or 1.0)
        # Residuals alone would lead ρ astray: it stays near where it is, or there.
        self._between = (0.5 * self.rho, 4.0 * self.rho) if alike else (self.rho, self.rho)
        for i in range(k):
            self.U[i] = self._matrix(dual, i) / self.rho

    def _matrix(self, dual: Dual, i: int) -> Array:
        """Return N_i in proportion, of dual variables."""
        n = len(self.B)
        N = np.empty((n + 1, n + 1))
        gamma = dual.gamma_of(i)
        N[1:, 1:] = -self.B
        if gamma is not None:
            N[1:, 1:] -= gamma if isinstance(gamma, np.ndarray) else gamma.dense()
        N[self._nodes, self._nodes] = self.costs[i] - dual.nu - 2.0 * dual.r[i]
        N[0, 1:] = N[1:, 0] = dual.r[i] / self.g
        N[0, 0] = dual.sigma[i] / self.g**2
        return N

    def _put_shares(self, Z: Array, x: Array) -> None:
        Z[:, 0, 0] = self.g**2
        Z[:, 0, 1:] = Z[:, 1:, 0] = self.g * x
        Z[:, self._nodes, self._nodes] = x

    @property
    def shares(self) -> Array:
        """The relaxation's x, shape (n, K); where one block stands for all, a spectral view."""
        if not self.alike:
            return np.ascontiguousarray(self.Z[:, 0, 1:].T / self.g)
        L = self.Z[0, 1:, 1:]
        K = self.instance.n_classes
        # Columns of L that are far from each other stand for classes.
        chosen = [int(L.sum(axis=0).argmax())]
        while len(chosen) < K:
            chosen.append(int(L[:, chosen].max(axis=1).argmin()))
        return np.asarray(L[:, chosen])

    def rescale(self, factor: float) -> None:
        """Make ρ so many times larger, within limits."""
        low, high = self._between
        super().rescale(min(max(self.rho * factor, low), high) / self.rho)

    def subtract_costs(self, T: Array) -> None:
        """Subtract the costs of L_i; the corner and x have none."""
        T[:, 1:, 1:] += self.B / self.rho
        T[:, self._nodes, self._nodes] -= self.costs / self.rho

    def project_other(self, T: Array) -> Array:
        """Put the corner, x beside it and on the diagonal, and no entry below zero."""
        K = self.instance.n_classes
        diagonal = T[:, self._nodes, self._nodes]
        x = (2.0 * self.g * T[:, 0, 1:] + diagonal) / (2.0 * self.g**2 + 1.0)
        x = np.full_like(x, 1.0 / K) if self.alike else x + (1.0 - x.sum(axis=0)) / K
        np.maximum(T, 0.0, out=T)
        self._put_shares(T, x)
        return T

    def duals(self, z: Labels) -> list[Dual]:
        """Return dual variables: the multipliers, and what of them leaves P(z) as the bound."""
        K, n = self.instance.n_classes, self.instance.n_nodes
        N = self.rho * self.U
        r, sigma = self.g * N[:, 0, 1:], self.g**2 * N[:, 0, 0]
        nu = (self.costs - 2.0 * r - N[:, self._nodes, self._nodes]).mean(axis=0)
        gamma = np.maximum(-self.B - N[:, 1:, 1:], 0.0)
        gamma = 0.5 * (gamma + gamma.transpose(0, 2, 1))
        gamma[:, self._nodes - 1, self._nodes - 1] = 0.0
        if self.alike:
            one = Dual(nu, np.tile(r, (K, 1)), np.tile(sigma, K), gamma[0])
            return [one]
        return [
            Dual(nu, r, sigma, gamma),
            closed(self.instance, z, r[z, np.arange(n)], gamma),
        ]
