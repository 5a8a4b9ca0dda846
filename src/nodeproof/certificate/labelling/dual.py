"""Dual variables of the lifted relaxation, and the matrices that they define.

For any ν, r, σ and symmetric Γ ≥ 0 with a zero diagonal, with

    M_i = diag(c_i − ν − 2r_i) − B − Γ,    N_i = [[σ_i, r_iᵀ], [r_i, M_i]],

every labelling with classes C_i has

    P(z) = Σν − Σσ + Σ_i yᵢᵀ N_i yᵢ + Σ_i ⟨Γ, 1_{C_i} 1_{C_i}ᵀ⟩,    yᵢ = [1; 1_{C_i}],

so what the N_i have at least bounds the objective from below.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.certificate.audit import Refused, Spectral
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.runtime.caching import cached_property

__all__ = ["Dual", "Factors", "Matrix"]

Array = NDArray[np.float64]
Labels = NDArray[np.int64]


def _in_double(holder: object, *names: str) -> None:
    """Convert arrays of a frozen dataclass to float64, the type that rounding is bounded for."""
    for name in names:
        object.__setattr__(holder, name, np.asarray(getattr(holder, name), dtype=np.float64))


@dataclass(frozen=True)
class Factors:
    """``Γ_uv = a[u, z_v]·a[v, z_u]·g[z_u, z_v]``: zero inside the classes of z.

    Attributes
    ----------
    labels : ndarray of shape (n,)
        z.
    a : ndarray of shape (n, K)
        Non-negative.
    g : ndarray of shape (K, K)
        Symmetric, non-negative, zero on the diagonal.
    """

    labels: Labels
    a: Array
    g: Array

    def __post_init__(self) -> None:
        _in_double(self, "a", "g")

    @cached_property
    def _own(self) -> Array:
        """``a[u, j]·g[z_u, j]``, shape (n, K)."""
        return np.asarray(self.a * self.g[self.labels])

    @cached_property
    def _members(self) -> sp.csr_array:
        """Which node is in which class, shape (K, n)."""
        n, K = self.a.shape
        return sp.csr_array((np.ones(n), (self.labels, np.arange(n))), shape=(K, n))

    def times(self, X: Array) -> Array:
        """Return Γ X, for X of shape (n, m)."""
        out = np.empty_like(X)
        for k in range(X.shape[1]):
            # sums[j, i] = Σ_{v ∈ C_j} a[v, i] x_v
            sums = self._members @ (self.a * X[:, k : k + 1])
            out[:, k] = np.einsum("uj,uj->u", self._own, sums.T[self.labels])
        return out

    def dense(self) -> Array:
        """Return Γ, shape (n, n)."""
        z = self.labels
        other = self.a[:, z]
        return np.asarray(other * other.T * self.g[z][:, z])


@dataclass(frozen=True)
class Dual:
    """Dual variables; any valid ones prove a bound.

    Attributes
    ----------
    nu : ndarray of shape (n,)
        Prices of ``Σ_i x_vi = 1``.
    r : ndarray of shape (K, n)
        Prices of ``diag L_i = x_i``.
    sigma : ndarray of shape (K,)
        Prices of the corners.
    gamma : Factors, ndarray of shape (n, n) or (K, n, n), or None
        Prices of the signs: symmetric, non-negative, zero on the diagonal. One for all
        classes, or one for each.
    """

    nu: Array
    r: Array
    sigma: Array
    gamma: Factors | Array | None = None

    def __post_init__(self) -> None:
        _in_double(self, "nu", "r", "sigma")
        if isinstance(self.gamma, np.ndarray):
            _in_double(self, "gamma")

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return them as the arrays that the auditor reads."""
        arrays: dict[str, NDArray[Any]] = {"nu": self.nu, "r": self.r, "sigma": self.sigma}
        if isinstance(self.gamma, Factors):
            arrays |= {"groups": self.gamma.labels, "a": self.gamma.a, "g": self.gamma.g}
        elif self.gamma is not None:
            arrays["gamma"] = self.gamma
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Dual:
        """Return the dual variables of named arrays."""
        gamma: Factors | Array | None = arrays.get("gamma")
        if "groups" in arrays:
            gamma = Factors(arrays["groups"], arrays["a"], arrays["g"])
        return cls(arrays["nu"], arrays["r"], arrays["sigma"], gamma)

    def bound(self, instance: Instance) -> float:
        """Return the lower bound that they prove; −inf for invalid ones."""
        try:
            return Spectral(instance.audited, self.to_arrays()).bound
        except Refused:
            return -math.inf

    def restricted(self, instance: Instance, z: Labels, fixed: NDArray[np.bool_]) -> Dual:
        """Return dual variables for the problem of the other nodes, no worse than these.

        With y known at fixed nodes, yᵀ N_i y is a quadratic form of the other entries; its
        matrix is N_i without the rows of fixed nodes, those of class i being added to the first.

        Parameters
        ----------
        instance : Instance
            The labelling problem.
        z : ndarray of shape (n,)
            The labels of fixed nodes.
        fixed : ndarray of bool, shape (n,)
            Which nodes these are.
        """
        K, loose = instance.n_classes, ~fixed
        members = np.eye(K)[z] * fixed[:, None]
        linked = instance.times(members)
        r, sigma = np.empty((K, int(loose.sum()))), np.empty(K)
        for i in range(K):
            own, gamma = members[:, i], self.gamma_of(i)
            across = linked[:, i].copy()
            if isinstance(gamma, Factors):
                across += gamma.times(own[:, None])[:, 0]
            elif gamma is not None:
                across += gamma @ own
            diagonal = instance.costs[:, i] - self.nu - 2.0 * self.r[i]
            sigma[i] = self.sigma[i] + own @ (2.0 * self.r[i] + diagonal - across)
            r[i] = (self.r[i] - across)[loose]
        least = (instance.costs - 2.0 * linked)[loose].min(axis=1)
        gamma = self.gamma
        if isinstance(gamma, Factors):
            gamma = Factors(gamma.labels[loose], gamma.a[loose], gamma.g)
        elif gamma is not None:
            gamma = gamma[..., loose, :][..., loose]
        return Dual(self.nu[loose] - least, r, sigma, gamma)

    def raised(self, nodes: NDArray[np.int64], kappa: float) -> Dual:
        """Return dual variables for costs of some nodes raised by κ in the class they have."""
        nu = self.nu.copy()
        nu[nodes] += kappa
        return replace(self, nu=nu)

    def gamma_of(self, i: int) -> Factors | Array | None:
        """Return Γ of class i."""
        if isinstance(self.gamma, np.ndarray) and self.gamma.ndim == 3:
            return np.asarray(self.gamma[i])
        return self.gamma


class Matrix:
    """``D N_i D`` with ``D = diag(√(K/n), 1, …, 1)``: N_i with a scaled corner.

    The corner of N_i is a sum over a class, so it is n/K times as large as the rest; in
    proportion, one number says how far the matrix is from semidefinite. The matching
    ``D⁻¹ yᵢ yᵢᵀ D⁻¹`` has trace ``n/K + |C_i|``.
    """

    def __init__(self, instance: Instance, dual: Dual, i: int) -> None:
        self.instance, self.gamma = instance, dual.gamma_of(i)
        n, K = instance.n_nodes, instance.n_classes
        self.size = n + 1
        self.corner_scale = np.sqrt(K / n)
        self.corner = float(dual.sigma[i]) * self.corner_scale**2
        self.border = dual.r[i] * self.corner_scale
        self.diagonal = instance.costs[:, i] - dual.nu - 2.0 * dual.r[i]

    def times(self, X: Array) -> Array:
        """Return its product with X, shape (n + 1, m)."""
        top, rest = X[:1], X[1:]
        out = np.empty_like(X)
        out[0] = self.corner * top[0] + self.border @ rest
        out[1:] = self.border[:, None] * top + self.diagonal[:, None] * rest
        out[1:] -= self.instance.times(rest)
        if isinstance(self.gamma, Factors):
            out[1:] -= self.gamma.times(rest)
        elif self.gamma is not None:
            out[1:] -= self.gamma @ rest
        return out

    def dense(self) -> Array:
        """Return it, shape (n + 1, n + 1)."""
        N = np.empty((self.size, self.size))
        N[0, 0], N[0, 1:], N[1:, 0] = self.corner, self.border, self.border
        N[1:, 1:] = -self.instance.dense()
        if isinstance(self.gamma, Factors):
            N[1:, 1:] -= self.gamma.dense()
        elif self.gamma is not None:
            N[1:, 1:] -= self.gamma
        np.einsum("vv->v", N)[1:] += self.diagonal
        return N
