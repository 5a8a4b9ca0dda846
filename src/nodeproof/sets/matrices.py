"""Sets of symmetric matrices."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from nodeproof.errors import InputError
from nodeproof.sets.base import Array, ConvexSet

__all__ = ["Similarities", "SpectralBox"]


class SpectralBox(ConvexSet):
    """Symmetric matrices with all eigenvalues in ``[lo, hi]`` (``dim × dim`` if that is given).

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.sets import SpectralBox
    >>> box = SpectralBox(0.5, 2.0)
    >>> box.project(np.diag([5.0, 1.0]))
    array([[2., 0.],
           [0., 1.]])
    >>> bool(box.contains(np.eye(2)))
    True
    """

    point_ndim = 2

    def __init__(self, lo: float, hi: float, dim: int | None = None) -> None:
        if not (np.isfinite(lo) and np.isfinite(hi) and lo <= hi):
            raise InputError(f"a spectral box needs finite lo ≤ hi, got lo={lo}, hi={hi}")
        self.lo, self.hi = float(lo), float(hi)
        self._set_dim(dim)

    def __repr__(self) -> str:
        return f"SpectralBox({self.lo:g}, {self.hi:g}{f', dim={self.dim}' if self.dim else ''})"

    def lmo(self, gradient: ArrayLike) -> Array:
        """Return ``U diag(lo where λ > 0, else hi) Uᵀ`` for ``gradient = U diag(λ) Uᵀ``."""
        values, vectors = np.linalg.eigh(_symmetric_part(self._points(gradient)))
        return _compose(np.where(values > 0, self.lo, self.hi), vectors)

    def project(self, point: ArrayLike) -> Array:
        """Clip the eigenvalues of the symmetric part."""
        values, vectors = np.linalg.eigh(_symmetric_part(self._points(point)))
        return _compose(np.clip(values, self.lo, self.hi), vectors)

    def violation(self, point: ArrayLike) -> Array:
        """Return the largest asymmetry or eigenvalue overshoot, at least zero."""
        points = self._points(point)
        finite = np.asarray(np.isfinite(points).all(axis=(-1, -2)))
        points = np.where(finite[..., None, None], points, 0.0)
        asymmetry = np.abs(points - np.swapaxes(points, -1, -2)).max(axis=(-1, -2))
        values = np.linalg.eigvalsh(_symmetric_part(points))
        overshoot = np.maximum(self.lo - values[..., 0], values[..., -1] - self.hi)
        return np.where(finite, np.maximum(asymmetry, overshoot).clip(min=0.0), np.inf)

    def center(self, dim: int) -> Array:
        """Return the identity at the middle of the interval, shape ``(dim, dim)``."""
        return np.asarray(0.5 * (self.lo + self.hi) * np.eye(dim))


class Similarities(ConvexSet):
    """The paper's 𝓑: symmetric matrices with ones on the diagonal and entries in ``[0, 1]``.

    Examples
    --------
    >>> from nodeproof.sets import Similarities
    >>> Similarities().project([[5.0, 0.5], [0.75, -1.0]])
    array([[1.   , 0.625],
           [0.625, 1.   ]])
    """

    point_ndim = 2

    def __init__(self, dim: int | None = None) -> None:
        self._set_dim(dim)

    def __repr__(self) -> str:
        return f"Similarities({self.dim or ''})"

    def lmo(self, gradient: ArrayLike) -> Array:
        """Return 0 where the gradient's symmetric part is positive, else 1; the diagonal is 1."""
        points = self._points(gradient)
        vertices = np.where(points + np.swapaxes(points, -1, -2) > 0, 0.0, 1.0)
        return self._with_ones(vertices)

    def project(self, point: ArrayLike) -> Array:
        """Clip the symmetric part, and put ones on the diagonal."""
        return self._with_ones(np.clip(_symmetric_part(self._points(point)), 0.0, 1.0))

    def violation(self, point: ArrayLike) -> Array:
        """Return the largest asymmetry, overshoot, or distance of the diagonal from one."""
        points = self._points(point)
        asymmetry = np.abs(points - np.swapaxes(points, -1, -2))
        overshoot = np.maximum(-points, points - 1.0)
        diagonal = np.abs(np.diagonal(points, axis1=-2, axis2=-1) - 1.0)
        worst = np.maximum(asymmetry, overshoot).max(axis=(-1, -2))
        return np.asarray(np.maximum(worst, diagonal.max(axis=-1)).clip(min=0.0))

    def center(self, dim: int) -> Array:
        """Return one half everywhere, one on the diagonal, shape ``(dim, dim)``."""
        return self._with_ones(np.full((dim, dim), 0.5))

    @staticmethod
    def _with_ones(matrices: Array) -> Array:
        every = np.arange(matrices.shape[-1])
        matrices[..., every, every] = 1.0
        return matrices


def _symmetric_part(matrices: Array) -> Array:
    return np.asarray(0.5 * (matrices + np.swapaxes(matrices, -1, -2)))


def _compose(values: Array, vectors: Array) -> Array:
    return np.asarray((vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2))
