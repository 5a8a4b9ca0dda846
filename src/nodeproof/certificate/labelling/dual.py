"""Dual variables of the lifted relaxation, and the matrices that they define.

For any ν, r, σ and symmetric Γ ≥ 0 with a zero diagonal, with

    M_i = diag(c_i − ν − 2r_i) − B − Γ,    N_i = [[σ_i, r_iᵀ], [r_i, M_i]],

every labelling with classes C_i has

    P(z) = Σν − Σσ + Σ_i yᵢᵀ N_i yᵢ + Σ_i ⟨Γ, 1_{C_i} 1_{C_i}ᵀ⟩,    yᵢ = [1; 1_{C_i}],

so what the N_i have at least bounds the objective from below.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.certificate.labelling.instance import Instance, dot_exact, relative_error
from nodeproof.runtime.caching import cached_property

__all__ = ["Dual", "Factors", "Matrix"]

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

# Up to this many classes, sums are exact.
_FEW_CLASSES = 8


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

    def valid(self) -> bool:
        """Whether Γ is symmetric and non-negative."""
        n, K = self.a.shape
        return bool(
            self.labels.shape == (n,)
            and self.g.shape == (K, K)
            and (self.a >= 0).all()
            and (self.g >= 0).all()
            and np.isfinite(self.a).all()
            and np.isfinite(self.g).all()
            and (self.g == self.g.T).all()
            and (np.diag(self.g) == 0).all()
            and ((self.labels >= 0) & (self.labels < K)).all()
        )

    @cached_property
    def _own(self) -> Array:
        """``a[u, j]·g[z_u, j]``, shape (n, K)."""
        return np.asarray(self.a * self.g[self.labels])

    @cached_property
    def _members(self) -> sp.csr_array:
        """Which node is in which class, shape (K, n)."""
        n, K = self.a.shape
        return sp.csr_array((np.ones(n), (self.labels, np.arange(n))), shape=(K, n))

    @property
    def exact(self) -> bool:
        """Whether sums over classes can be rounded once only: K² of them are not too many."""
        return len(self.g) <= _FEW_CLASSES

    def times(self, X: Array, exactly: bool = False) -> Array:
        """Return Γ X, for X of shape (n, m); `exactly` as in `Instance.times`, if they are few."""
        out = np.empty_like(X)
        for k in range(X.shape[1]):
            # sums[j, i] = Σ_{v ∈ C_j} a[v, i] x_v
            scaled = self.a * X[:, k : k + 1]
            if exactly and self.exact:
                classes = [scaled[self.labels == j] for j in range(len(self.g))]
                sums = np.array([dot_exact(np.ones(len(part)), part) for part in classes])
            else:
                sums = self._members @ scaled
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

    def valid(self, instance: Instance) -> bool:
        """Whether shapes fit, numbers are finite, and Γ is symmetric, ≥ 0, zero on the diagonal."""
        n, K = instance.n_nodes, instance.n_classes
        if self.nu.shape != (n,) or self.r.shape != (K, n) or self.sigma.shape != (K,):
            return False
        if not all(np.isfinite(part).all() for part in (self.nu, self.r, self.sigma)):
            return False
        if self.gamma is None:
            return True
        if isinstance(self.gamma, Factors):
            return self.gamma.a.shape == (n, K) and self.gamma.valid()
        gamma = self.gamma
        return bool(
            gamma.shape in ((n, n), (K, n, n))
            and np.isfinite(gamma).all()
            and (gamma >= 0).all()
            and (gamma == np.swapaxes(gamma, -1, -2)).all()
            and not np.diagonal(gamma, axis1=-2, axis2=-1).any()
        )

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
        #: absolute values of what the diagonal sums up
        self.diagonal_size = np.abs(instance.costs[:, i]) + np.abs(dual.nu) + 2 * np.abs(dual.r[i])

    @property
    def is_diagonal(self) -> bool:
        """Whether it is diagonal."""
        return not (self.instance.linked or self.gamma is not None or self.border.any())

    def times(self, X: Array) -> Array:
        """Return its product with X, shape (n + 1, m)."""
        return self.around(X, self.between(X[1:]))

    def between(self, rest: Array, exactly: bool = False) -> Array:
        """Return ``(B + Γ)`` times what belongs to the nodes: the same for all classes."""
        out = self.instance.times(rest, exactly)
        if isinstance(self.gamma, Factors):
            out += self.gamma.times(rest, exactly)
        elif self.gamma is not None:
            out += self.gamma @ rest
        return out

    def around(self, X: Array, between: Array, exactly: bool = False) -> Array:
        """Return its product with X, given that of `between`."""
        top, rest = X[:1], X[1:]
        out = np.empty_like(X)
        crossed = dot_exact(self.border, rest) if exactly else self.border @ rest
        out[0] = self.corner * top[0] + crossed
        out[1:] = self.border[:, None] * top + self.diagonal[:, None] * rest - between
        return out

    def image_size(self, V: Array) -> Array:
        """Return bounds of the absolute entries of its product with V."""
        image = self.around(V, self.between(V[1:], exactly=True), exactly=True)
        return np.abs(image) + 2.0 * relative_error(self.roundings) * self.absolute_times(np.abs(V))

    def absolute_times(self, X: Array) -> Array:
        """Return the sums of absolute values behind `times`, for X ≥ 0."""
        top, rest = X[:1], X[1:]
        out = np.empty_like(X)
        border = np.abs(self.border)
        out[0] = abs(self.corner) * top[0] + border @ rest
        out[1:] = border[:, None] * top + self.diagonal_size[:, None] * rest
        out[1:] += self.instance.absolute_times(rest)
        if isinstance(self.gamma, Factors):
            out[1:] += self.gamma.times(rest)
        elif self.gamma is not None:
            out[1:] += self.gamma @ rest
        return out

    def dense(self, off_diagonal: Array | None = None) -> Array:
        """Return it, shape (n + 1, n + 1).

        Parameters
        ----------
        off_diagonal : ndarray of shape (n, n), optional
            ``−B − Γ``, where it is there already.
        """
        N = np.empty((self.size, self.size))
        N[0, 0], N[0, 1:], N[1:, 0] = self.corner, self.border, self.border
        N[1:, 1:] = self.off_diagonal() if off_diagonal is None else off_diagonal
        np.einsum("vv->v", N)[1:] += self.diagonal
        return N

    def off_diagonal(self) -> Array:
        """Return ``−B − Γ``, shape (n, n): the same for all classes."""
        out = -self.instance.dense()
        if isinstance(self.gamma, Factors):
            out -= self.gamma.dense()
        elif self.gamma is not None:
            out -= self.gamma
        return out

    @property
    def roundings(self) -> int:
        """How many roundings an entry of an exactly computed product has at most."""
        summed = 0
        if isinstance(self.gamma, np.ndarray):
            summed = self.instance.n_nodes
        elif self.gamma is not None and not self.gamma.exact:
            summed = int(np.bincount(self.gamma.labels).max())
        return self.instance.roundings + self.instance.n_classes + summed + 16

    def indicator(self, members: NDArray[np.bool_]) -> Array:
        """Return ``D⁻¹ [1; 1_C]``, of length one, shape (n + 1,)."""
        y = np.concatenate([[1.0 / self.corner_scale], members.astype(np.float64)])
        return np.asarray(y / np.linalg.norm(y))
