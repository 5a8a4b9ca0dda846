"""Boxes, simplices, and sets of symmetric matrices."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from nodeproof.errors import InputError
from nodeproof.sets.base import Array, ConvexSet

__all__ = ["Box", "Similarities", "Simplex", "SpectralBox"]


class Box(ConvexSet):
    """Arrays with every entry between its ``lo`` and ``hi``, which are arrays of their shape.

    Examples
    --------
    >>> from nodeproof.sets import Box
    >>> box = Box([0.0, -1.0], [1.0, 1.0])
    >>> box.lmo([3.0, -2.0])
    array([0., 1.])
    >>> box.project([0.5, 7.0])
    array([0.5, 1. ])
    """

    def __init__(self, lo: ArrayLike, hi: ArrayLike) -> None:
        self.lo = np.array(lo, dtype=np.float64)
        self.hi = np.array(hi, dtype=np.float64)
        if self.lo.shape != self.hi.shape or self.lo.size == 0 or self.lo.ndim == 0:
            raise InputError(
                f"a box needs arrays of one shape, got {self.lo.shape} and {self.hi.shape}"
            )
        unfit = ~(np.isfinite(self.lo) & np.isfinite(self.hi) & (self.lo <= self.hi))
        if unfit.any():
            at = tuple(np.argwhere(unfit)[0].tolist())
            raise InputError(
                f"a box needs finite lo ≤ hi, got lo={self.lo[at]}, hi={self.hi[at]} at {at}"
            )
        sizes = set(self.lo.shape)
        self.point_ndim = self.lo.ndim
        self.dim = sizes.pop() if len(sizes) == 1 else None

    def __repr__(self) -> str:
        return f"Box(shape={self.lo.shape})"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one point."""
        return self.lo.shape

    def _points(self, array: ArrayLike) -> Array:
        points = np.asarray(array, dtype=np.float64)
        if points.shape[max(points.ndim - self.point_ndim, 0) :] != self.lo.shape:
            wanted = ", ".join(map(str, self.lo.shape))
            raise InputError(
                f"{self!r} takes arrays of shape (..., {wanted}); got shape {points.shape}"
            )
        return points

    def lmo(self, gradient: ArrayLike) -> Array:
        """Return ``lo`` where the gradient is positive, else ``hi``."""
        return np.where(self._points(gradient) > 0, self.lo, self.hi)

    def project(self, point: ArrayLike) -> Array:
        """Clip every entry."""
        return np.clip(self._points(point), self.lo, self.hi)

    def violation(self, point: ArrayLike) -> Array:
        """Return the largest overshoot of an entry, at least zero."""
        points = self._points(point)
        overshoot = np.maximum(self.lo - points, points - self.hi).clip(min=0.0)
        return np.asarray(overshoot.max(axis=tuple(range(-self.point_ndim, 0))))

    def center(self, dim: int) -> Array:
        """Return the middle of the box, in its own shape."""
        return np.asarray(0.5 * self.lo + 0.5 * self.hi)


class Simplex(ConvexSet):
    """The probability simplex ``{π ≥ 0, Σπ = 1}``, in ``dim`` dimensions if that is given.

    With a ``floor`` it is shrunk to ``{π ≥ floor, Σπ = 1}``, away from its border; that takes a
    ``dim`` below 1/floor.

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

    def __init__(self, dim: int | None = None, floor: float = 0.0) -> None:
        self._set_dim(dim)
        if floor != 0.0 and not (floor > 0.0 and dim is not None and floor * dim < 1.0):
            raise InputError(
                f"a simplex needs 0 ≤ floor < 1/dim, and a dim for it; got floor={floor}, dim={dim}"
            )
        self.floor = float(floor)

    def __repr__(self) -> str:
        return f"Simplex({self.dim or ''}{f', floor={self.floor:g}' if self.floor else ''})"

    def lmo(self, gradient: ArrayLike) -> Array:
        """Return the vertex at the smallest entry (the first of equals)."""
        points = self._points(gradient)
        vertices = np.full(points.shape, self.floor)
        top = 1.0 - (points.shape[-1] - 1) * self.floor
        np.put_along_axis(vertices, np.argmin(points, axis=-1, keepdims=True), top, axis=-1)
        return vertices

    def project(self, point: ArrayLike) -> Array:
        """Return the nearest probability vector: clip after the one right shift."""
        points = self._points(point)
        if self.floor:
            room = 1.0 - points.shape[-1] * self.floor
            return self.floor + room * Simplex().project(points / room)
        # A common shift changes nothing, and this one keeps the 1 visible beside large entries.
        points = points - points.max(axis=-1, keepdims=True)
        sorted_down = -np.sort(-points, axis=-1)
        excess = np.cumsum(sorted_down, axis=-1) - 1.0
        counts = np.arange(1, points.shape[-1] + 1)
        support = np.sum(sorted_down * counts > excess, axis=-1, keepdims=True)
        shift = np.take_along_axis(excess, support - 1, axis=-1) / support
        return np.maximum(points - shift, 0.0)

    def violation(self, point: ArrayLike) -> Array:
        """Return ``max(|Σπ − 1|, max(floor − π))``, at least zero."""
        points = self._points(point)
        off_sum = np.abs(points.sum(axis=-1) - 1.0)
        return np.asarray(np.maximum(off_sum, self.floor - points.min(axis=-1)))

    def center(self, dim: int) -> Array:
        """Return the uniform distribution, shape ``(dim,)``."""
        return np.full(dim, 1.0 / dim)

    def vertices(self) -> Array:
        """Return the corners, shape ``(dim, dim)``: row j leans to entry j."""
        return self.lmo(-np.eye(self.shape[0]))


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
