"""Better dual variables: by gradient ascent for any number of nodes, by ADMM for some hundred."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse.linalg import lobpcg
from scipy.special import softmax

from nodeproof.certificate.labelling.dual import Dual, Factors, Matrix
from nodeproof.certificate.labelling.families import closed
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.solvers.semidefinite import SemidefiniteADMM

__all__ = ["Ascent", "LiftedBlocks", "margins"]

Array = NDArray[np.float64]
_VECTORS = 8
# Eigenvalues this close, relative to the size of the variables, are weighted together.
_SOFT = 0.01
# Iterations to find the low end at first, and to follow it.
_FIRST_LOOK = 80
_LOOK = 8
# Steps relative to the size of the variables; halved after this many without progress.
_STEP = 0.05
_PATIENCE = 25
_MOMENTS = (0.9, 0.99)


@dataclass
class Ascent:
    """Adam on ν, r, σ and the factors of Γ.

    The bound is concave in the dual variables, and its gradient is made of the eigenvectors at the
    low end of the N_i: with u of length one in proportion (see :class:`Matrix`),

        ∂λ/∂ν_v = −u_v²,  ∂λ/∂r_v = 2d·u_0·u_v − 2u_v²,  ∂λ/∂σ = d²·u_0²,  d = √(K/n),

    a few of them weighted by how low they are. Eigenvalues here are estimates; the bounds are
    proven elsewhere.

    Parameters
    ----------
    instance : Instance
        The labelling problem to bound.
    dual : Dual
        Where to begin; Γ in factors, or none.
    seed : int
        Of the first vectors.
    """

    instance: Instance
    dual: Dual
    seed: int = 0

    def __iter__(self) -> Iterator[tuple[float, Dual]]:
        """Yield an estimate of the bound and the dual variables, indefinitely."""
        instance, dual = self.instance, self.dual
        n, K = instance.n_nodes, instance.n_classes
        rng = np.random.default_rng(self.seed)
        vectors = [rng.standard_normal((n + 1, min(_VECTORS, n + 1))) for _ in range(K)]
        size = float(np.median(np.abs(dual.r).max(axis=0))) or 1.0
        state = _Moments(self._variables(dual))
        # The corner is a sum over the nodes of a class.
        scales = {"nu": size, "r": size, "sigma": size * n / K, "a": size}
        step, best, since, look = _STEP, (-np.inf, dual), 0, _FIRST_LOOK
        while True:
            value, gradients = self._look(dual, vectors, size, look)
            yield value, dual
            since, look = since + 1, _LOOK
            if value > best[0]:
                best, since = (value, dual), 0
            elif since > _PATIENCE:
                dual, step, since, look = best[1], 0.5 * step, 0, _FIRST_LOOK
                state = _Moments(self._variables(dual))
                continue
            moves = state.moves(gradients)
            changed = {
                name: variable + step * scales[name] * moves[name]
                for name, variable in self._variables(dual).items()
            }
            factors = changed.pop("a", None)
            dual = replace(dual, **changed)
            if factors is not None and isinstance(dual.gamma, Factors):
                dual = replace(dual, gamma=replace(dual.gamma, a=np.maximum(factors, 0.0)))

    @staticmethod
    def _variables(dual: Dual) -> dict[str, Array]:
        found = {"nu": dual.nu, "r": dual.r, "sigma": dual.sigma}
        if isinstance(dual.gamma, Factors):
            found["a"] = dual.gamma.a
        return found

    def _look(
        self, dual: Dual, vectors: list[Array], size: float, look: int
    ) -> tuple[float, dict[str, Array]]:
        """Return an estimate of the bound, and its gradient; update the vectors."""
        instance = self.instance
        n, K = instance.n_nodes, instance.n_classes
        matrices = [Matrix(instance, dual, i) for i in range(K)]
        lowest = np.empty(K)
        weights: list[Array] = []
        for i, matrix in enumerate(matrices):
            values, vectors[i] = _low_end(matrix, vectors[i], look)
            lowest[i] = values[0]
            weights.append(softmax(-(values - values[0]) / (_SOFT * size)))
        below = np.minimum(lowest, 0.0)
        value = float(dual.nu.sum() - dual.sigma.sum() + (n / K) * below.sum() + n * below.min())
        # The worst class counts n, every class n/K; classes that are about as bad share it.
        shares = n / K + n * softmax(-(lowest - lowest.min()) / (_SOFT * size))
        shares *= lowest < 0
        gradients = {name: np.zeros_like(x) for name, x in self._variables(dual).items()}
        gradients["nu"] += 1.0
        gradients["sigma"] -= 1.0
        for i, matrix in enumerate(matrices):
            if not shares[i]:
                continue
            U = vectors[i] * np.sqrt(shares[i] * weights[i])
            top, rest = U[0], U[1:]
            squares = (rest**2).sum(axis=1)
            gradients["nu"] -= squares
            gradients["r"][i] += 2.0 * matrix.corner_scale * (rest @ top) - 2.0 * squares
            gradients["sigma"][i] += matrix.corner_scale**2 * float(top @ top)
            if isinstance(dual.gamma, Factors):
                gradients["a"] -= _factor_gradient(dual.gamma, rest)
        return value, gradients


class _Moments:
    """Adam: directions in which each variable moves by about one."""

    def __init__(self, variables: dict[str, Array]) -> None:
        self.first = {name: np.zeros_like(x) for name, x in variables.items()}
        self.second = {name: np.zeros_like(x) for name, x in variables.items()}
        self.count = 0

    def moves(self, gradients: dict[str, Array]) -> dict[str, Array]:
        self.count += 1
        one, two = _MOMENTS
        moves = {}
        for name, gradient in gradients.items():
            self.first[name] += (1 - one) * (gradient - self.first[name])
            self.second[name] += (1 - two) * (gradient**2 - self.second[name])
            mean = self.first[name] / (1 - one**self.count)
            spread = np.sqrt(self.second[name] / (1 - two**self.count))
            moves[name] = mean / (spread + 1e-12 + 1e-3 * spread.mean())
        return moves


def _low_end(matrix: Matrix, start: Array, look: int) -> tuple[Array, Array]:
    """Return estimates of the lowest eigenvalues, in order, and their vectors."""
    if matrix.size <= 5 * _VECTORS:
        values, vectors = np.linalg.eigh(matrix.dense())
        return values[:_VECTORS], vectors[:, :_VECTORS]
    # Costs may spread the diagonal over orders of magnitude.
    diagonal = np.append(matrix.corner, matrix.diagonal)
    spread = diagonal - diagonal.min() + 0.1 * float(np.median(np.abs(diagonal))) + 1e-12

    def precondition(X: Array) -> Array:
        return np.asarray(X.reshape(len(spread), -1) / spread[:, None])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is not meant to converge
        values, vectors = lobpcg(
            matrix.times, start, M=precondition, largest=False, maxiter=look, tol=1e-9
        )
    order = np.argsort(values)
    return np.asarray(values[order]), np.asarray(vectors[:, order])


def _factor_gradient(gamma: Factors, U: Array) -> Array:
    """Return ``∂/∂a Σ_k u_kᵀ Γ u_k``, shape (n, K)."""
    K = len(gamma.g)
    members = np.eye(K)[gamma.labels]
    own = gamma.g[gamma.labels]
    gradient = np.zeros_like(gamma.a)
    for u in U.T:
        sums = members.T @ (gamma.a * u[:, None])
        gradient += 2.0 * u[:, None] * own * sums.T[gamma.labels]
    return gradient


Labels = NDArray[np.int64]

# ρ relative to the largest gain of a pair; where z is all but proven, relative to the median one.
_RHO = 0.25
_RHO_CLOSE = 0.1


class LiftedBlocks(SemidefiniteADMM):
    """An ADMM on the lifted relaxation, begun from a labelling and its dual variables.

        Y_i = [[g², g·x_iᵀ], [g·x_i, L_i]] ⪰ 0,  diag L_i = x_i,  Σ_i x_i = 1,  (L_i)_uv ≥ 0,

    g = √(n/K) keeps the corner in proportion. Where all classes cost every node nearly the same,
    one block stands for all of them.

    Parameters
    ----------
    instance : Instance
        The labelling problem to bound.
    z : ndarray of shape (n,)
        The labelling to begin from.
    dual : Dual
        Where the multipliers begin.
    alike : bool
        Whether one block stands for all classes, at the costs of each node's cheapest class.
    close : bool
        Whether the optimum of the relaxation is likely to be near z: ρ is then small.
    """

    def __init__(
        self, instance: Instance, z: Labels, dual: Dual, alike: bool = False, close: bool = False
    ) -> None:
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
        gains = np.abs(self.B[self.B != 0.0])
        size = float(gains.max(initial=0.0)) or float(np.abs(self.costs).max(initial=0.0))
        rho = _RHO_CLOSE * float(np.median(gains)) if close and len(gains) else _RHO * size
        super().__init__((Z,), rho * (K if alike else 1) or 1.0)
        self._ranks[:] = 0  # few eigenvalues are positive from the start
        # Residuals alone would mislead ρ: it is kept near its first value.
        self._between = (0.5 * self.rho, 4.0 * self.rho) if alike else (self.rho, self.rho)
        for i in range(k):
            self.U[i] = self._matrix(dual, i) / self.rho

    def _matrix(self, dual: Dual, i: int) -> Array:
        """Return the scaled N_i of dual variables."""
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
        """Multiply ρ by a factor, within limits."""
        low, high = self._between
        super().rescale(min(max(self.rho * factor, low), high) / self.rho)

    def subtract_costs(self, T: Array) -> None:
        """Subtract the costs of L_i; the corner and x have none."""
        T[:, 1:, 1:] += self.B / self.rho
        T[:, self._nodes, self._nodes] -= self.costs / self.rho

    def project_other(self, T: Array) -> Array:
        """Set the corner, and x next to it and on the diagonal; no entry stays below zero."""
        K = self.instance.n_classes
        diagonal = T[:, self._nodes, self._nodes]
        x = (2.0 * self.g * T[:, 0, 1:] + diagonal) / (2.0 * self.g**2 + 1.0)
        x = np.full_like(x, 1.0 / K) if self.alike else x + (1.0 - x.sum(axis=0)) / K
        np.maximum(T, 0.0, out=T)
        self._put_shares(T, x)
        return T

    def duals(self, z: Labels) -> list[Dual]:
        """Return dual variables: the multipliers, and those of them whose bound is P(z)."""
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


def margins(instance: Instance, dual: Dual, z: Labels) -> Array:
    """Return about how much more labellings cost that put a node elsewhere, shape (n,).

    Such a labelling has yᵢ = [1; 1_{C_i}] with a given entry at v, so it costs at least
    ``Σν − Σσ + Σ_i min yᵢᵀ N_i yᵢ`` over the yᵢ with that entry. With ``G = (N_i + s)⁻¹`` each
    minimum is that of a matrix of two rows. An estimate: which nodes are worth a proof.
    """
    n, K = instance.n_nodes, instance.n_classes
    outside, inside = np.empty((n, K)), np.empty((n, K))
    for i in range(K):
        matrix = Matrix(instance, dual, i)
        G = _inverse(matrix.dense())
        corner, border, diagonal = G[0, 0], G[0, 1:], G.diagonal()[1:]
        first = 1.0 / matrix.corner_scale
        determinant = np.maximum(corner * diagonal - border**2, 1e-300)
        outside[:, i] = first**2 * diagonal / determinant
        inside[:, i] = outside[:, i] + (corner - 2.0 * first * border) / determinant
    forced = outside.sum(axis=1, keepdims=True) - outside + inside
    every = np.arange(n)
    own = forced[every, z]
    forced[every, z] = np.inf
    return np.asarray(forced.min(axis=1) - own)


def _inverse(N: Array) -> Array:
    """Return the inverse of a symmetric matrix, shifted until it is positive definite."""
    shift = max(1e-9 * float(np.abs(N).max()), 1e-100)
    while True:
        try:
            factor = cho_factor(N + shift * np.eye(len(N)), lower=True)
        except LinAlgError:
            shift *= 4.0
            continue
        return np.asarray(cho_solve(factor, np.eye(len(N))))
