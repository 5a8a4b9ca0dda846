"""What an atomic set is asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

__all__ = ["AtomicSet"]

Point = TypeVar("Point")


class AtomicSet(ABC, Generic[Point]):
    """The building blocks of a norm.

    The atomic norm of x is the least total weight of atoms that add up to it,

        ‖x‖_A = inf {Σ c_i : x = Σ c_i a_i, c_i ≥ 0, a_i ∈ A},

    and infinite where no atoms add up to x.
    """

    @abstractmethod
    def lmo(self, gradient: Point) -> Point:
        """Return an atom that minimises ``⟨gradient, ·⟩``."""

    @abstractmethod
    def norm(self, point: Point) -> float:
        """Return the atomic norm."""

    @abstractmethod
    def project(self, point: Point, radius: float = 1.0) -> Point:
        """Return the nearest point of ``{‖x‖_A ≤ radius}`` in the Euclidean norm."""

    @abstractmethod
    def __repr__(self) -> str: ...
