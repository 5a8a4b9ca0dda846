"""An ADMM between the semidefinite cone and another set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, eigh

from nodeproof.convex.program import Decomposition
from nodeproof.runtime import threads

__all__ = ["FIRST_ADAPTATION", "RELAXATION", "Splitting", "positive_part", "root", "sum_of_atoms"]

Array = NDArray[np.float64]

RELAXATION = 1.8
# ρ follows the residuals, at ever longer intervals, so that it settles.
FIRST_ADAPTATION = 10
_INTERVALS = 1.5
_MOST_FACTOR = 5.0


class Splitting(ABC):
    """An ADMM over matrices X in the semidefinite cone and Z in another set.

    Attributes
    ----------
    X, Z, U : ndarray of shape (k, size, size)
        The two copies, and scaled multipliers: ``ρU_j`` is the dual's matrix of block j.
    """

    def __init__(self, Z: Array, rho: float) -> None:
        self.X, self.Z, self.U, self.rho = Z.copy(), Z, np.zeros_like(Z), rho
        self.iteration, self._next = 0, FIRST_ADAPTATION
        self._ranks = np.full(len(Z), Z.shape[1])

    @abstractmethod
    def less_costs(self, T: Array) -> None:
        """Subtract ``C/ρ`` from T, in place."""

    @abstractmethod
    def other_set(self, T: Array) -> Array:
        """Return the nearest member of the other set to T, shape (k, size, size)."""

    def rescale(self, factor: float) -> None:
        """Make ρ so many times larger, and leave the multipliers what they are."""
        self.rho *= factor
        self.U /= factor

    def step(self) -> float:
        """Go through one iteration; return how far the two copies are apart, per entry."""
        self.iteration += 1
        before = self.Z
        self.X = positive_part(before - self.U, self._ranks)
        primal = float(np.linalg.norm(self.X - before))
        moved = RELAXATION * self.X + (1.0 - RELAXATION) * before + self.U
        T = moved.copy()
        self.less_costs(T)
        self.Z = self.other_set(T)
        self.U = moved - self.Z
        dual = float(np.linalg.norm(self.Z - before))  # in units of ρ
        if self.iteration == self._next:
            self._next = int(self.iteration * _INTERVALS) + 1
            if primal > 0 and dual > 0:
                factor = float(np.clip(primal / dual, 1.0 / _MOST_FACTOR, _MOST_FACTOR))
                if not 0.5 < factor < 2.0:
                    self.rescale(factor)
        return primal / float(np.sqrt(self.X.size))


def positive_part(matrices: Array, ranks: NDArray[np.int64] | None = None) -> Array:
    """Return the positive semidefinite parts of symmetric matrices, shape (k, size, size).

    Parameters
    ----------
    ranks : ndarray of shape (k,), optional
        How many eigenvalues of each were positive the last time; brought up to date. The fewer
        eigenvectors are then computed, of the positive ones or of the others.
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
    except LinAlgError:  # LAPACK gives up on a part of some clusters of eigenvalues
        values, vectors = np.linalg.eigh(matrix)
        values, vectors = values[values > 0], vectors[:, values > 0]
    return np.asarray(vectors * np.sqrt(values))


def sum_of_atoms(blocks: Iterable[Array], vertices: Array) -> Decomposition:
    """Return the positive parts of blocks, one a vertex of Θ, as the sum of atoms they are."""
    roots = [root(block) for block in blocks]
    ranks = [half.shape[1] for half in roots]
    return Decomposition(np.hstack(roots), np.repeat(vertices, ranks, axis=0))
