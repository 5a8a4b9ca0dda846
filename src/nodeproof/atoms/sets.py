"""Atomic sets: their base, sums of atoms, and the sets of sparse vectors and low-rank matrices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from numbers import Integral, Real
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nodeproof.errors import InputError
from nodeproof.runtime.caching import cached_property
from nodeproof.sets import Simplex
from nodeproof.solvers.semidefinite import root

__all__ = [
    "AtomicSet",
    "Calls",
    "Counted",
    "Decomposition",
    "RankOne",
    "SignedBasis",
    "SymmetricPositive",
    "SymmetricSigned",
]

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
        Embeddings ``√λ_a e_a``, one per column: ``L = E Eᵀ``.
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


# Theorem 2 of the paper bounds how often oracles are called.


@dataclass
class Calls:
    """How often oracles were called; several can share one counter.

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
        The object to wrap.
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
        """Return the minimising atom or vertex, and count the call."""
        answer = self.wrapped.lmo(*args, **options)
        self.calls.lmo += 1
        return answer

    def find(self, *args: Any, **options: Any) -> Any:
        """Return good atoms, and count one linear minimisation."""
        answer = self.wrapped.find(*args, **options)
        self.calls.lmo += 1
        return answer

    def project(self, *args: Any, **options: Any) -> Any:
        """Return the projection, and count the call."""
        answer = self.wrapped.project(*args, **options)
        self.calls.projection += 1
        return answer

    def prox(self, *args: Any, **options: Any) -> Any:
        """Return the proximal step, and count the call."""
        answer = self.wrapped.prox(*args, **options)
        self.calls.prox += 1
        return answer

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call the function, and count a proximal step."""
        answer = self.wrapped(*args, **options)
        self.calls.prox += 1
        return answer


# Symmetric, or positive semidefinite, up to this share of the largest entry or eigenvalue.
_TOLERANCE = 1e-9


class _ArrayAtoms(AtomicSet[Any]):
    """Atoms that are arrays of one shape."""

    shape: tuple[int, ...]

    def __init__(self, *sizes: int) -> None:
        for size in sizes:
            if isinstance(size, bool) or not isinstance(size, Integral) or size < 1:
                raise InputError(f"{type(self).__name__} needs positive sizes, got {size!r}")
        self.shape = tuple(int(size) for size in sizes)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(str, self.shape))})"

    def _point(self, array: ArrayLike) -> Array:
        point = np.asarray(array, dtype=np.float64)
        if point.shape != self.shape:
            raise InputError(f"{self!r} takes an array of shape {self.shape}; got {point.shape}")
        if not np.isfinite(point).all():
            at = tuple(np.argwhere(~np.isfinite(point))[0].tolist())
            raise InputError(f"{self!r} takes finite numbers; got {point[at]} at {at}")
        return point


class SignedBasis(_ArrayAtoms):
    """The vectors ``±e_i`` of ℝⁿ: their norm is ℓ1, of sparse vectors.

    Examples
    --------
    >>> from nodeproof.atoms import SignedBasis
    >>> atoms = SignedBasis(3)
    >>> atoms.lmo([0.5, -2.0, 1.0])
    array([0., 1., 0.])
    >>> atoms.norm([0.5, -2.0, 1.0])
    3.5
    >>> atoms.project([0.5, -2.0, 1.0], radius=2.0)
    array([ 0. , -1.5,  0.5])
    """

    def __init__(self, dim: int) -> None:
        super().__init__(dim)

    def lmo(self, gradient: ArrayLike) -> Array:
        """Return the basis vector at the largest entry, against its sign."""
        point = self._point(gradient)
        at = int(np.abs(point).argmax())
        atom = np.zeros(self.shape)
        atom[at] = -1.0 if point[at] > 0 else 1.0
        return atom

    def norm(self, point: ArrayLike) -> float:
        """Return ``Σ |x_i|``."""
        return float(np.abs(self._point(point)).sum())

    def project(self, point: ArrayLike, radius: float = 1.0) -> Array:
        """Shrink all magnitudes by what brings their sum down to the radius."""
        return _shrink(self._point(point), radius)


class RankOne(_ArrayAtoms):
    """The matrices ``u vᵀ`` of unit vectors: their norm is the nuclear one.

    Examples
    --------
    >>> from nodeproof.atoms import RankOne
    >>> RankOne(2, 3).norm([[3.0, 0.0, 0.0], [0.0, 4.0, 0.0]])
    7.0
    """

    def __init__(self, rows: int, cols: int) -> None:
        super().__init__(rows, cols)

    def lmo(self, gradient: ArrayLike) -> Array:
        """Return ``−u vᵀ`` for the first singular vectors."""
        left, _, right = np.linalg.svd(self._point(gradient), full_matrices=False)
        return -np.outer(left[:, 0], right[0])

    def norm(self, point: ArrayLike) -> float:
        """Return the sum of the singular values."""
        return float(np.linalg.svd(self._point(point), compute_uv=False).sum())

    def project(self, point: ArrayLike, radius: float = 1.0) -> Array:
        """Shrink the singular values."""
        left, values, right = np.linalg.svd(self._point(point), full_matrices=False)
        return np.asarray((left * _shrink(values, radius)) @ right)


class SymmetricSigned(_ArrayAtoms):
    """The matrices ``±u uᵀ`` of a unit vector: the nuclear norm of symmetric matrices.

    Gradients, and points to project, count by their symmetric part. The norm is infinite at
    matrices that are not symmetric up to 1e-9 of their largest entry.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.atoms import SymmetricSigned
    >>> SymmetricSigned(2).norm(np.diag([3.0, -4.0]))
    7.0
    """

    def __init__(self, dim: int) -> None:
        super().__init__(dim, dim)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape[0]})"

    def lmo(self, gradient: ArrayLike) -> Array:
        """Return ``∓u uᵀ`` for the eigenvector of the eigenvalue of largest size."""
        values, vectors = self._eigh(gradient)
        at = 0 if -values[0] > values[-1] else -1
        atom = np.outer(vectors[:, at], vectors[:, at])
        return -atom if values[at] > 0 else atom

    def norm(self, point: ArrayLike) -> float:
        """Return the sum of the eigenvalues' sizes."""
        values = self._eigenvalues(point)
        return np.inf if values is None else float(np.abs(values).sum())

    def project(self, point: ArrayLike, radius: float = 1.0) -> Array:
        """Shrink the eigenvalues."""
        values, vectors = self._eigh(point)
        return np.asarray((vectors * _shrink(values, radius)) @ vectors.T)

    def _eigh(self, array: ArrayLike) -> tuple[Array, Array]:
        point = self._point(array)
        values, vectors = np.linalg.eigh(0.5 * (point + point.T))
        return values, vectors

    def _eigenvalues(self, array: ArrayLike) -> Array | None:
        """Return the eigenvalues, or None where the matrix is not symmetric."""
        point = self._point(array)
        if np.abs(point - point.T).max() > _TOLERANCE * np.abs(point).max():
            return None
        return np.asarray(np.linalg.eigvalsh(0.5 * (point + point.T)))


class SymmetricPositive(SymmetricSigned):
    """The matrices ``u uᵀ`` of a unit vector: the trace of positive semidefinite matrices.

    As `SymmetricSigned`, and the norm is infinite also where an eigenvalue is below zero by more
    than 1e-9 of the largest size of one.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.atoms import SymmetricPositive
    >>> atoms = SymmetricPositive(2)
    >>> atoms.norm(np.diag([3.0, 4.0])), atoms.norm(np.diag([3.0, -4.0]))
    (7.0, inf)
    """

    def lmo(self, gradient: ArrayLike) -> Array:
        """Return ``u uᵀ`` for the eigenvector of the lowest eigenvalue."""
        _, vectors = self._eigh(gradient)
        return np.outer(vectors[:, 0], vectors[:, 0])

    def norm(self, point: ArrayLike) -> float:
        """Return the sum of the eigenvalues, those that rounding made negative left out."""
        values = self._eigenvalues(point)
        if values is None or values[0] < -_TOLERANCE * np.abs(values).max():
            return np.inf
        return float(values.clip(min=0.0).sum())

    def project(self, point: ArrayLike, radius: float = 1.0) -> Array:
        """Lift negative eigenvalues to zero, and shrink the others."""
        values, vectors = self._eigh(point)
        return np.asarray((vectors * _shrink(values.clip(min=0.0), radius)) @ vectors.T)


def _shrink(values: Array, radius: float) -> Array:
    """Return the nearest values whose sizes sum to the radius at most."""
    if not (isinstance(radius, Real) and 0 <= float(radius) < np.inf):
        raise InputError(f"the radius must be a finite number ≥ 0, got {radius!r}")
    sizes = np.abs(values)
    if sizes.sum() <= radius:
        return values.copy()
    if radius == 0:
        return np.zeros_like(values)
    return np.sign(values) * radius * Simplex().project(sizes / radius)
