"""The two lemmas of the paper's appendix, which check their premises."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nodeproof.errors import InputError
from nodeproof.sets import ConvexSet

__all__ = ["AtomsLemma", "BlocksLemma", "lemma_atoms", "lemma_blocks"]

Array = NDArray[np.float64]
_TOL = 1e-9
_ROWS = 1024


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
