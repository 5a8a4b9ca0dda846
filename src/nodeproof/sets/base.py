"""Convex sets: what a solver needs to know about one, and products of several."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nodeproof.errors import InputError

__all__ = ["Array", "ConvexSet", "Product"]

Array = NDArray[np.float64]


class ConvexSet(ABC):
    """A compact convex set, as conditional-gradient and projection methods need it."""

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

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one point; the set must know its dimensions."""
        if self.dim is None:
            raise InputError(f"{self!r} has no dimensions of its own: give it a dim")
        return (self.dim,) * self.point_ndim

    def vertices(self) -> Array | None:
        """Return all vertices of a polytope with few of them, shape (k, ...); else None."""
        return None

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


class Product(ConvexSet):
    """The product of sets that know their shapes; a point is one vector, part after part.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.sets import Product, Simplex, SpectralBox
    >>> both = Product([Simplex(2), SpectralBox(1.0, 3.0, dim=2)])
    >>> both.lmo([0.0, -1.0, *np.diag([1.0, -1.0]).ravel()])
    array([0., 1., 1., 0., 0., 3.])
    >>> [part.shape for part in both.split(np.zeros((5, 6)))]
    [(5, 2), (5, 2, 2)]
    """

    point_ndim = 1
    dim: int

    # Products with more vertices than this are not listed.
    _FEW = 256

    def __init__(self, sets: Sequence[ConvexSet]) -> None:
        self.sets = tuple(sets)
        self.sizes = [int(np.prod(part.shape)) for part in self.sets]
        self.dim = sum(self.sizes)

    def __repr__(self) -> str:
        return f"Product({list(self.sets)!r})"

    def _points(self, array: ArrayLike) -> Array:
        points = np.asarray(array, dtype=np.float64)
        if points.ndim < 1 or points.shape[-1] != self.dim:
            raise InputError(
                f"{self!r} takes arrays of shape (..., {self.dim}); got shape {points.shape}"
            )
        return points

    def split(self, point: ArrayLike) -> list[Array]:
        """Return the parts of each point, in the shapes of their sets."""
        points = self._points(point)
        cuts = np.cumsum(self.sizes)[:-1]
        return [
            part.reshape(*points.shape[:-1], *of.shape)
            for part, of in zip(np.split(points, cuts, axis=-1), self.sets, strict=False)
        ]

    def join(self, parts: Sequence[Array]) -> Array:
        """Return the points whose parts these are; all have the same leading axes."""
        flat = [
            part.reshape(*part.shape[: part.ndim - of.point_ndim], size)
            for part, of, size in zip(parts, self.sets, self.sizes, strict=True)
        ]
        return np.concatenate(flat, axis=-1)

    def lmo(self, gradient: ArrayLike) -> Array:
        """Return the vertices of the parts."""
        points = self._points(gradient)
        if not self.sets:
            return points.copy()
        return self.join([of.lmo(g) for of, g in zip(self.sets, self.split(points), strict=True)])

    def project(self, point: ArrayLike) -> Array:
        """Project each part."""
        points = self._points(point)
        if not self.sets:
            return points.copy()
        return self.join(
            [of.project(part) for of, part in zip(self.sets, self.split(points), strict=True)]
        )

    def violation(self, point: ArrayLike) -> Array:
        """Return the largest violation of a part."""
        points = self._points(point)
        worst = np.zeros(points.shape[:-1])
        for of, part in zip(self.sets, self.split(points), strict=True):
            worst = np.maximum(worst, of.violation(part))
        return worst

    def center(self, dim: int | None = None) -> Array:
        """Return the centers of the parts, shape ``(dim,)``."""
        parts = [of.center(of.shape[0]).ravel() for of in self.sets]
        return np.concatenate([np.zeros(0), *parts])

    def vertices(self) -> Array | None:
        """Return every combination of the parts' vertices, if these are few."""
        combined = np.zeros((1, 0))
        for of in self.sets:
            own = of.vertices()
            if own is None or len(combined) * len(own) > self._FEW:
                return None
            flat = own.reshape(len(own), -1)
            combined = np.hstack(
                [np.repeat(combined, len(flat), axis=0), np.tile(flat, (len(combined), 1))]
            )
        return combined
