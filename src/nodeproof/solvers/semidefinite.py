"""Symmetric matrices: bounds of their eigenvalues, positive parts, and an ADMM with the cone."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, eigh

from nodeproof.first_order import ADMM, Point
from nodeproof.runtime import threads

__all__ = [
    "SemidefiniteADMM",
    "least_eigenvalue",
    "off_diagonal",
    "positive_part",
    "root",
    "with_diagonal",
]

Array = NDArray[np.float64]

#: Over-relaxation of the ADMM.
RELAXATION = 1.8

# Eigenvalues from LAPACK are off by a small multiple of n·eps·‖M‖; this multiple is generous.
_ROUNDING = 8.0


class SemidefiniteADMM(ADMM):
    """An ADMM over matrices X in the semidefinite cone and Z in another set.

    The first part of its points is the matrices; there may be others.

    Attributes
    ----------
    X, Z, U : ndarray of shape (k, size, size)
        The two copies, and scaled multipliers: ``ρU_j`` is the dual's matrix of block j.
    """

    def __init__(self, z: Point, rho: float) -> None:
        super().__init__(z, rho, RELAXATION, adaptive=True)
        self._ranks = np.full(len(z[0]), z[0].shape[1])

    @property
    def X(self) -> Array:
        """The copy in the semidefinite cone."""
        return self.x[0]

    @property
    def Z(self) -> Array:
        """The copy in the other set."""
        return self.z[0]

    @property
    def U(self) -> Array:
        """The scaled multipliers."""
        return self.u[0]

    @abstractmethod
    def subtract_costs(self, T: Array) -> None:
        """Subtract ``C/ρ`` from T, in place."""

    @abstractmethod
    def project_other(self, T: Array) -> Array:
        """Return the nearest member of the other set to T, shape (k, size, size)."""

    def x_step(self, target: Point) -> Point:
        """Project on the cone."""
        return (positive_part(target[0], self._ranks),)

    def z_step(self, target: Point) -> Point:
        """Subtract the costs, and project on the other set."""
        T = target[0].copy()
        self.subtract_costs(T)
        return (self.project_other(T),)

    def residuals(self) -> tuple[float, float]:
        """Return how far X is from the Z that it was projected from, and how far Z has moved."""
        Z = self.before[0]
        return float(np.linalg.norm(self.X - Z)), float(np.linalg.norm(self.Z - Z))

    @property
    @abstractmethod
    def shares(self) -> Array:
        """How much each node belongs to each class or vertex, shape (n, k)."""

    def progress(self) -> tuple[float, Array]:
        """Return how far X is from the Z that it was projected from, per entry, and the shares."""
        return self.residuals()[0] / float(np.sqrt(self.X.size)), self.shares

    def recorded(self) -> dict[str, float]:
        """Return what a history keeps of every iteration: nothing."""
        return {}


def positive_part(matrices: Array, ranks: NDArray[np.int64] | None = None) -> Array:
    """Return the positive semidefinite parts of symmetric matrices, shape (k, size, size).

    Parameters
    ----------
    ranks : ndarray of shape (k,), optional
        How many eigenvalues of each were positive the last time; updated in place. Only the
        eigenvectors of the positive or of the negative ones are computed, whichever are fewer.
    """
    out = np.empty_like(matrices)
    size = matrices.shape[1]

    def project(j: int) -> None:
        few = ranks is None or 2 * ranks[j] <= size
        half = root(matrices[j] if few else -matrices[j])
        np.matmul(half, half.T, out=out[j])
        if not few:
            out[j] += matrices[j]
        if ranks is not None:
            ranks[j] = half.shape[1] if few else size - half.shape[1]

    threads.map_each(project, len(matrices))
    return out


def root(matrix: Array) -> Array:
    """Return a root of the positive part of a symmetric matrix, shape (size, rank)."""
    try:
        values, vectors = eigh(
            matrix, subset_by_value=(0.0, np.inf), driver="evr", check_finite=False
        )
    except LinAlgError:  # LAPACK fails on a part of some clusters of eigenvalues
        values, vectors = np.linalg.eigh(matrix)
        values, vectors = values[values > 0], vectors[:, values > 0]
    return np.asarray(vectors * np.sqrt(values))


def least_eigenvalue(M: Array) -> float:
    """Return a lower bound of a symmetric matrix's least eigenvalue, rounding allowed for.

    It is −∞ for a matrix with entries that are not finite.
    """
    largest = float(np.abs(M).max(initial=0.0))
    if not np.isfinite(largest):
        return -np.inf
    n = len(M)  # n·largest is no less than the norm, and does not underflow
    margin = _ROUNDING * n * np.finfo(float).eps * (n * largest) + np.finfo(float).tiny
    return float(np.linalg.eigvalsh(M)[0]) - margin


def with_diagonal(M: Array, diagonal: Array) -> Array:
    """Return a copy of M with this added to its diagonal."""
    M = M.copy()
    np.einsum("vv->v", M)[:] += diagonal
    return M


def off_diagonal(M: Array) -> Array:
    """Return the symmetric part of M with zeros on the diagonal."""
    M = 0.5 * (M + M.T)
    np.fill_diagonal(M, 0.0)
    return M
