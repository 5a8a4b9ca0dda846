"""Better dual variables by gradient ascent: any number of nodes.

The bound is concave in the dual variables, and its gradient is made of the eigenvectors at the
low end of the N_i: with u of length one in proportion (see :class:`Matrix`),

    ∂λ/∂ν_v = −u_v²,  ∂λ/∂r_v = 2d·u_0·u_v − 2u_v²,  ∂λ/∂σ = d²·u_0²,  d = √(K/n),

a few of them weighed by how low they are. Eigenvalues here are estimates: what comes of it is
judged elsewhere.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import lobpcg
from scipy.special import softmax

from nodeproof.certificate.labelling.dual import Dual, Factors, Matrix
from nodeproof.certificate.labelling.instance import Instance

__all__ = ["Ascent"]

Array = NDArray[np.float64]
_VECTORS = 8
# Eigenvalues this close, relative to the size of the variables, count together.
_SOFT = 0.01
# Iterations to find the low end at first, and to follow it.
_FIRST_LOOK = 80
_LOOK = 8
# Steps relative to the size of the variables; halved after so many that brought nothing.
_STEP = 0.05
_PATIENCE = 25
_MOMENTS = (0.9, 0.99)


@dataclass
class Ascent:
    """Adam on ν, r, σ and the factors of Γ.

    Parameters
    ----------
    instance : Instance
        What is to be bounded.
    dual : Dual
        Where to begin; Γ in factors, or none.
    seed : int
        Of the first vectors.
    """

    instance: Instance
    dual: Dual
    seed: int = 0

    def __iter__(self) -> Iterator[tuple[float, Dual]]:
        """Yield an estimate of the bound and the dual variables, for as long as is asked."""
        instance, dual = self.instance, self.dual
        n, K = instance.n_nodes, instance.n_classes
        rng = np.random.default_rng(self.seed)
        vectors = [rng.standard_normal((n + 1, min(_VECTORS, n + 1))) for _ in range(K)]
        size = float(np.median(np.abs(dual.r).max(axis=0))) or 1.0
        state = _Moments(self._variables(dual))
        # The corner is a sum over a class.
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
        """Return an estimate of the bound, and its gradient; bring the vectors up to date."""
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
        # The worst class counts n, each n/K; classes about as bad share it.
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
        warnings.simplefilter("ignore")  # they say that it has not converged, as is meant
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
