"""Atomic sets, points that are sums of atoms, and counters of oracle calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from nodeproof.runtime.caching import cached_property
from nodeproof.solvers.semidefinite import root

__all__ = ["AtomicSet", "Calls", "Counted", "Decomposition"]

Array = NDArray[np.float64]
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


@dataclass(frozen=True)
class Decomposition:
    """A point of the program as the sum of atoms that it is.

    Attributes
    ----------
    E : ndarray of shape (n, r)
        Embeddings ``√λ_a e_a``, one a column: ``L = E Eᵀ``.
    theta : ndarray of shape (r, d)
        The model of each atom: ``θ_v = Σ_a E_va² θ_a``.
    """

    E: Array
    theta: Array

    @cached_property
    def L(self) -> Array:
        """The similarities, shape (n, n)."""
        return np.asarray(self.E @ self.E.T)

    @cached_property
    def models(self) -> Array:
        """The models of the nodes, shape (n, d)."""
        return np.asarray(self.E**2 @ self.theta)

    @classmethod
    def of_blocks(cls, blocks: Iterable[Array], vertices: Array) -> Self:
        """Return the positive parts of matrices (n, n), one per vertex of Θ, as sums of atoms."""
        roots = [root(block) for block in blocks]
        ranks = [half.shape[1] for half in roots]
        return cls(np.hstack(roots), np.repeat(vertices, ranks, axis=0))


# Counting how often oracles are asked, which is what Theorem 2 of the paper bounds.


@dataclass
class Calls:
    """How often oracles were asked; several of them can share one.

    Attributes
    ----------
    lmo : int
        Linear minimisation oracles.
    prox : int
        Proximal steps.
    projection : int
        Euclidean projections.
    """

    lmo: int = 0
    prox: int = 0
    projection: int = 0

    def as_dict(self) -> dict[str, int]:
        """Return the counts by name."""
        return asdict(self)


class Counted:
    """Whatever has oracles, with its calls counted; all else of it is passed through.

    ``lmo`` (or ``find``, which returns several good atoms), ``prox`` and ``project`` count as what
    they are, and a call of the object itself, as of a function, as a proximal step. A call
    counts once, however many points it is for.

    Parameters
    ----------
    wrapped : AtomicSet, ConvexSet or callable
        What is asked.
    calls : Calls, optional
        Where to count; a new one by default.

    Examples
    --------
    >>> from nodeproof.atoms import Calls, Counted, SignedBasis
    >>> from nodeproof.sets import Simplex
    >>> calls = Calls()
    >>> atoms, simplex = Counted(SignedBasis(2), calls), Counted(Simplex(2), calls)
    >>> _ = atoms.lmo([1.0, 0.0]), simplex.lmo([1.0, 0.0]), simplex.project([1.0, 0.5])
    >>> calls.as_dict()
    {'lmo': 2, 'prox': 0, 'projection': 1}
    """

    def __init__(self, wrapped: Any, calls: Calls | None = None) -> None:
        self.wrapped = wrapped
        self.calls = Calls() if calls is None else calls

    def __repr__(self) -> str:
        return f"Counted({self.wrapped!r})"

    def __getattr__(self, name: str) -> Any:
        if name == "wrapped":  # not there yet, while a copy is being made
            raise AttributeError(name)
        return getattr(self.wrapped, name)

    def lmo(self, *args: Any, **options: Any) -> Any:
        """Ask for the atom or vertex that minimises, and count it."""
        answer = self.wrapped.lmo(*args, **options)
        self.calls.lmo += 1
        return answer

    def find(self, *args: Any, **options: Any) -> Any:
        """Ask for good atoms, and count one linear minimisation."""
        answer = self.wrapped.find(*args, **options)
        self.calls.lmo += 1
        return answer

    def project(self, *args: Any, **options: Any) -> Any:
        """Ask for the projection, and count it."""
        answer = self.wrapped.project(*args, **options)
        self.calls.projection += 1
        return answer

    def prox(self, *args: Any, **options: Any) -> Any:
        """Ask for the proximal step, and count it."""
        answer = self.wrapped.prox(*args, **options)
        self.calls.prox += 1
        return answer

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call the function, and count a proximal step."""
        answer = self.wrapped(*args, **options)
        self.calls.prox += 1
        return answer
