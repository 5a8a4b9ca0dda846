"""Convex sets that class models live in, each with its linear minimisation oracle.

All methods are batched: leading axes of an array count its points, and what comes back has
the same leading axes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nodeproof.errors import InputError

__all__ = ["ConvexSet", "Simplex", "SpectralBox"]

Array = NDArray[np.float64]


class ConvexSet(ABC):
    """A compact convex set: what a conditional-gradient solver needs to know of it."""

    #: number of axes of one point
    point_ndim: int
    #: size of each of these axes, or None where any will do
    dim: int | None

    @abstractmethod
    def lmo(self, gradient: ArrayLike) -> Array:
        """Return a vertex that minimises ``⟨gradient, ·⟩``."""

    @abstractmethod
    def project(self, point: ArrayLike) -> Array:
        """Return the nearest member in the Euclidean norm."""

    @abstractmethod
    def violation(self, point: ArrayLike) -> Array:
        """Return by how much each point breaks its worst constraint, shape ``(...)``."""

    @abstractmethod
    def center(self, dim: int) -> Array:
        """Return the member in the middle."""

    def contains(self, point: ArrayLike, tol: float = 1e-9) -> NDArray[np.bool_]:
        """Tell whether each point is a member up to ``tol``, shape ``(...)``."""
        return np.asarray(self.violation(point) <= tol)

    def _points(self, array: ArrayLike) -> Array:
        points = np.asarray(array, dtype=np.float64)
        sizes = set(points.shape[points.ndim - self.point_ndim :])
        unfit = points.ndim < self.point_ndim or len(sizes) != 1 or 0 in sizes
        if unfit or self.dim not in (None, *sizes):
            wanted = ", ".join([str(self.dim or "dim")] * self.point_ndim)
            raise InputError(
                f"{self!r} takes arrays of shape (..., {wanted}); got shape {points.shape}"
            )
        return points

    def _set_dim(self, dim: int | None) -> None:
        if dim is not None and dim < 1:
            raise InputError(f"{type(self).__name__} needs at least one dimension, got {dim}")
        self.dim = dim


class Simplex(ConvexSet):
    """The probability simplex ``{π ≥ 0, Σπ = 1}``, in ``dim`` dimensions if that is given.

    Examples
    --------
    >>> from nodeproof.sets import Simplex
    >>> Simplex().lmo([[0.2, -1.0, 0.5], [0.0, 1.0, 2.0]])
    array([[0., 1., 0.],
           [1., 0., 0.]])
    >>> Simplex(2).project([1.0, 0.5])
    array([0.75, 0.25])
    """

    point_ndim = 1

    def __init__(self, dim: int | None = None) -> None:
        self._set_dim(dim)

    def __repr__(self) -> str:
        return f"Simplex({self.dim or ''})"

    def lmo(self, gradient: ArrayLike) -> Array:
        """Return the unit vector at the smallest entry (the first of equals)."""
        points = self._points(gradient)
        return np.asarray(np.eye(points.shape[-1])[np.argmin(points, axis=-1)])

    def project(self, point: ArrayLike) -> Array:
        """Return the nearest probability vector: clip after the one right shift."""
        points = self._points(point)
        # A common shift changes nothing, and this one keeps the 1 visible beside large entries.
        points = points - points.max(axis=-1, keepdims=True)
        sorted_down = -np.sort(-points, axis=-1)
        excess = np.cumsum(sorted_down, axis=-1) - 1.0
        counts = np.arange(1, points.shape[-1] + 1)
        support = np.sum(sorted_down * counts > excess, axis=-1, keepdims=True)
        shift = np.take_along_axis(excess, support - 1, axis=-1) / support
        return np.maximum(points - shift, 0.0)

    def violation(self, point: ArrayLike) -> Array:
        """Return ``max(|Σπ − 1|, max(−π))``, at least zero."""
        points = self._points(point)
        off_sum = np.abs(points.sum(axis=-1) - 1.0)
        return np.asarray(np.maximum(off_sum, -points.min(axis=-1)))

    def center(self, dim: int) -> Array:
        """Return the uniform distribution, shape ``(dim,)``."""
        return np.full(dim, 1.0 / dim)


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


def _symmetric_part(matrices: Array) -> Array:
    return np.asarray(0.5 * (matrices + np.swapaxes(matrices, -1, -2)))


def _compose(values: Array, vectors: Array) -> Array:
    return np.asarray((vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2))
