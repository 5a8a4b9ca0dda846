"""What a conditional-gradient solver needs to know of a set."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nodeproof.errors import InputError

__all__ = ["Array", "ConvexSet"]

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
