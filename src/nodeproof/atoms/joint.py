"""The paper's joint atoms ``(eeᵀ, {ε_v² θ})``: one cluster with the model that it shares."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Real

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from nodeproof.atoms.sets import AtomicSet
from nodeproof.errors import InputError
from nodeproof.sets import ConvexSet, Product, SpectralBox
from nodeproof.solvers.semidefinite import least_eigenvalue, with_diagonal

__all__ = ["JointAtoms"]

Array = NDArray[np.float64]
Point = tuple[Array, Array]

# Rounds of alternation, and what a round must bring, relative to the size of the gradient.
_ROUNDS = 50
_PROGRESS = 1e-12

# Points of trace one count as sums of atoms up to this distance, and this squared for sure.
_NEAR = 1e-2
_ROUNDING = 1e-12


class JointAtoms(AtomicSet[Point]):
    """``{(eeᵀ, {ε_v² θ}) : ‖e‖ = 1, θ ∈ Θ}`` over n nodes; points are pairs (L, θ).

    The oracle minimises ``eᵀ(G + diag⟨g_v, θ⟩)e``. At a vertex of Θ that is an eigenproblem,
    and because its value is concave in θ, the best vertex is the optimum: exact where Θ has few
    vertices. Other sets are alternated with the eigenvector from several starts, which may miss
    the optimum; `bound` then says how far at most.

    Parameters
    ----------
    n_nodes : int
        Number of nodes.
    models_set : Product
        Θ; its points are vectors of d numbers.
    n_starts : int
        Starts of the alternation, beside those given.
    random_state : int
        Seed of the random starts among them.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.atoms import JointAtoms
    >>> from nodeproof.sets import Product, Simplex
    >>> atoms = JointAtoms(2, Product([Simplex(2)]))
    >>> G, g = np.diag([0.0, 1.0]), np.array([[0.0, -1.0], [0.0, -3.0]])
    >>> L, theta = atoms.lmo((G, g))  # −1 at the first node, 1 − 3 at the second
    >>> L.round(6) + 0.0, theta.round(6) + 0.0
    (array([[0., 0.],
           [0., 1.]]), array([[0., 0.],
           [0., 1.]]))
    """

    def __init__(
        self, n_nodes: int, models_set: Product, n_starts: int = 12, random_state: int = 0
    ) -> None:
        self.n_nodes, self.models_set = n_nodes, models_set
        self.n_starts, self.random_state = n_starts, random_state
        self.vertices = models_set.vertices()
        # Sets with few vertices are gone through, as long as their combinations stay few; the
        # others are alternated.
        self._listed = list[bool]()
        combinations: list[ConvexSet] = []
        for part in models_set.sets:
            few = Product([*combinations, part]).vertices() is not None
            self._listed.append(few)
            combinations += [part] if few else []

    def __repr__(self) -> str:
        return f"JointAtoms({self.n_nodes}, {self.models_set!r})"

    @property
    def exact(self) -> bool:
        """Whether the oracle finds the optimum for sure."""
        return self.vertices is not None

    def lmo(self, gradient: Point) -> Point:
        """Return the atom that minimises ``⟨gradient, ·⟩``, or the best that was found."""
        E, theta, values = self.find(*gradient)
        best = int(values.argmin())
        e = E[:, best]
        return np.outer(e, e), np.outer(e**2, theta[best])

    def find(
        self,
        G: Array,
        g: Array,
        starts: Array | None = None,
        n_starts: int | None = None,
        each: int = 1,
    ) -> tuple[Array, Array, Array]:
        """Return good atoms: embeddings (n, r), models (r, d) and values (r,).

        Parameters
        ----------
        G : ndarray of shape (n, n)
            Its symmetric part counts.
        g : ndarray of shape (n, d)
            One gradient per node.
        starts : ndarray of shape (s, d), optional
            Models to start alternations from.
        n_starts : int, optional
            Further starts, instead of those the set was made with.
        each : int
            How many of the lowest eigenvectors to return for each model.
        """
        G = self._check(G, g)
        each = min(each, self.n_nodes)
        if self.vertices is not None:
            found = [(vertex, *self._lowest(G, g, vertex, each)) for vertex in self.vertices]
        else:
            found = []
            fresh = self.n_starts if n_starts is None else n_starts
            for start in self._starts(G, g, starts, fresh):
                theta = self._alternate(G, g, start)
                if not any(np.allclose(theta, other[0], atol=1e-9) for other in found):
                    found.append((theta, *self._lowest(G, g, theta, each)))
        E = np.hstack([vectors for _, _, vectors in found])
        theta = np.repeat(np.stack([theta for theta, _, _ in found]), each, axis=0)
        return E, theta, np.concatenate([values for _, values, _ in found])

    def bound(self, G: Array, g: Array, n_iter: int = 60) -> float:
        """Return a rigorous lower bound of all atoms' values, rounding allowed for.

        Where Θ has few vertices it is the oracle's own value. For a spectral box it is
        ``λ_min(G + ρ₋ diag(tr Q_v) − Tr_m S)``, where S ⪰ 0 and
        ``S + (ρ₊ − ρ₋) blkdiag(Q_v) ⪰ 0`` are improved for `n_iter` steps. For any other set,
        every node may take a model of its own.
        """
        G = self._check(G, g)
        if self.vertices is not None:
            return min(least_eigenvalue(with_diagonal(G, g @ vertex)) for vertex in self.vertices)
        parts = self.models_set.split(g)
        boxes = [k for k, part in enumerate(self.models_set.sets) if isinstance(part, SpectralBox)]
        box = boxes[0] if boxes else None
        lowest = np.zeros(self.n_nodes)
        listed: list[Array] = [np.zeros((1, self.n_nodes))]
        for k, (part, own) in enumerate(zip(self.models_set.sets, parts, strict=True)):
            if k == box:
                continue
            if self._listed[k]:
                vertices = part.vertices()
                assert vertices is not None
                costs = vertices.reshape(len(vertices), -1) @ own.reshape(self.n_nodes, -1).T
                listed.append(costs)
            else:
                axes = tuple(range(1, own.ndim))
                lowest += (part.lmo(own) * own).sum(axis=axes)
        least = np.inf
        for costs in _sums(listed):
            here = with_diagonal(G, lowest + costs)
            if box is None:
                least = min(least, least_eigenvalue(here))
            else:
                of = self.models_set.sets[box]
                assert isinstance(of, SpectralBox)
                least = min(least, _spectral_bound(here, parts[box], of, n_iter))
        return least

    def norm(self, point: Point) -> float:
        """Return the trace of L where the point is a sum of atoms, else infinity.

        It is not one where a hyperplane separates it from all sums that were tried, or where
        these stay a hundredth of the trace away: CoGEnT comes close only slowly.
        """
        L, theta = point
        self._check(L, theta)
        trace = float(np.trace(L))
        if trace < 0 or not np.allclose(L, L.T):
            return np.inf
        if trace == 0:
            return np.inf if np.any(L) or np.any(theta) else 0.0
        L, theta = L / trace, theta / trace
        near = self.project((L, theta))
        G, g = near[0] - L, near[1] - theta
        apart = float(np.vdot(G, G) + np.vdot(g, g))
        gap = float(np.vdot(G, near[0]) + np.vdot(g, near[1]) - self.find(G, g)[2].min())
        return trace if apart <= max(gap, _ROUNDING) and apart <= _NEAR**2 else np.inf

    def project(self, point: Point, radius: float = 1.0) -> Point:
        """Return the nearest sum of atoms of total weight ``radius`` at most (by CoGEnT)."""
        from nodeproof.atoms.cogent import Cogent

        self._check(*point)
        if not (isinstance(radius, Real) and 0 <= float(radius) < np.inf):
            raise InputError(f"the radius must be a finite number ≥ 0, got {radius!r}")
        cogent = Cogent(self, radius, n_refit=100)
        cogent.project(*point, n_forward=60, tol=1e-8)
        return cogent.point()

    def _check(self, G: Array, g: Array) -> Array:
        """Return the symmetric part of G, the only one that counts."""
        n, d = self.n_nodes, self.models_set.dim
        if np.shape(G) != (n, n) or np.shape(g) != (n, d):
            raise InputError(
                f"{self!r} takes pairs of shapes {(n, n)} and {(n, d)}; got {np.shape(G)} and "
                f"{np.shape(g)}"
            )
        if not (np.isfinite(G).all() and np.isfinite(g).all()):
            raise InputError(f"{self!r} takes finite numbers")
        return np.asarray(0.5 * (G + np.transpose(G)))

    def _lowest(self, G: Array, g: Array, theta: Array, each: int) -> tuple[Array, Array]:
        """Return the lowest eigenvalues and eigenvectors of ``G + diag⟨g_v, θ⟩``."""
        values, vectors = eigh(with_diagonal(G, g @ theta), subset_by_index=[0, each - 1])
        return np.asarray(values), np.asarray(vectors)

    def _alternate(self, G: Array, g: Array, theta: Array) -> Array:
        """Improve a model by turns with the eigenvector, the listed parts kept."""
        size = _PROGRESS * (1.0 + float(np.abs(G).max(initial=0.0)) + float(np.abs(g).max()))
        value = np.inf
        for _ in range(_ROUNDS):
            values, vectors = self._lowest(G, g, theta, 1)
            if values[0] > value - size:
                break
            value = float(values[0])
            theta = self._replace(theta, vectors[:, 0] ** 2 @ g)
        return theta

    def _replace(self, theta: Array, pull: Array) -> Array:
        """Return the model of least ``⟨pull, ·⟩`` whose listed parts are those given."""
        parts = self.models_set.split(theta)
        pulls = self.models_set.split(pull)
        return self.models_set.join(
            [
                part if listed else of.lmo(along)
                for of, part, along, listed in zip(
                    self.models_set.sets, parts, pulls, self._listed, strict=True
                )
            ]
        )

    def _starts(self, G: Array, g: Array, given: Array | None, n_starts: int) -> Iterator[Array]:
        """Yield models to start from; fresh ones at every combination of the listed vertices."""
        yield from [] if given is None else given
        if n_starts == 0:
            return
        rng = np.random.default_rng(self.random_state)
        fixed = Product(
            [of for of, listed in zip(self.models_set.sets, self._listed, strict=True) if listed]
        ).vertices()
        assert fixed is not None
        n, d = self.n_nodes, self.models_set.dim
        spread = np.abs(g).mean(axis=0).max()
        for vertex in fixed:
            middle = self._with(vertex, self.models_set.center())
            lowest = self._lowest(G, g, middle, min(4, n))[1]
            pulls = [*(lowest**2).T @ g, self._flat_identity(), -self._flat_identity()]
            while len(pulls) < n_starts - 1:
                pulls.append(rng.dirichlet(np.full(n, 0.1)) @ g + 0.1 * spread * rng.normal(size=d))
            yield middle
            for pull in pulls[: n_starts - 1]:
                yield self._with(vertex, self.models_set.lmo(pull))

    def _with(self, vertex: Array, theta: Array) -> Array:
        """Return the model with its listed parts at a combination of their vertices."""
        parts, at = self.models_set.split(theta), 0
        for k, of in enumerate(self.models_set.sets):
            if self._listed[k]:
                size = self.models_set.sizes[k]
                parts[k] = vertex[at : at + size].reshape(of.shape)
                at += size
        return self.models_set.join(parts)

    def _flat_identity(self) -> Array:
        """Return a pull that draws matrices to their smallest, and vectors alike."""
        return self.models_set.join([_ones_like(of) for of in self.models_set.sets])


def _ones_like(of: ConvexSet) -> Array:
    return np.eye(of.shape[0]) if isinstance(of, SpectralBox) else np.ones(of.shape)


def _sums(listed: list[Array]) -> Iterator[Array]:
    """Yield the sum of every choice of one row from each array."""
    totals = listed[0]
    for costs in listed[1:]:
        totals = (totals[:, None] + costs[None]).reshape(-1, totals.shape[1])
    yield from totals


def _spectral_bound(G: Array, Q: Array, box: SpectralBox, n_iter: int) -> float:
    """Return a lower bound of ``min eᵀGe + Σ_v ε_v² ⟨Q_v, R⟩`` over unit e and R in the box.

    With ``R = ρ₋I + (ρ₊ − ρ₋)P``, 0 ⪯ P ⪯ I, the matrix ``Y = eeᵀ ⊗ P`` has
    0 ⪯ Y ⪯ eeᵀ ⊗ I, so that any S ⪰ 0 with ``S + (ρ₊ − ρ₋) blkdiag(Q_v) ⪰ 0`` proves
    ``λ_min(G + ρ₋ diag(tr Q_v) − Tr_m S)``. The best S for a density matrix ρ in the place of
    eeᵀ is a matrix's negative part; ρ follows by multiplicative weights.
    """
    n, m = Q.shape[:2]
    Q = 0.5 * (Q + Q.swapaxes(1, 2))
    base = with_diagonal(G, box.lo * np.trace(Q, axis1=1, axis2=2))
    steep = (box.hi - box.lo) * Q
    # To begin with, every node on its own.
    values, vectors = np.linalg.eigh(steep)
    S = np.zeros((n, m, n, m))
    every = np.arange(n)
    S[every, :, every, :] = (vectors * np.maximum(-values, 0.0)[:, None]) @ vectors.swapaxes(1, 2)
    best = _proven(base, steep, S)
    scale = float(np.linalg.eigvalsh(base)[-1] - best)
    if scale < 1e-200:  # rounding of zeros
        return best
    total, rho = np.zeros((n, n)), np.eye(n) / n
    for step in range(1, n_iter + 1):
        values, vectors = np.linalg.eigh(rho)
        values = np.maximum(values, 1e-9 / n)
        root = (vectors * np.sqrt(values)) @ vectors.T
        inverse = (vectors / np.sqrt(values)) @ vectors.T
        T = np.einsum("vw,wij,wu->viuj", root, steep, root, optimize=True).reshape(n * m, n * m)
        spectrum, basis = np.linalg.eigh(T)
        negative = (basis * np.maximum(-spectrum, 0.0)) @ basis.T
        S = np.einsum(
            "vw,wixj,xu->viuj", inverse, negative.reshape(n, m, n, m), inverse, optimize=True
        )
        best = max(best, _proven(base, steep, S))
        gradient = base - np.einsum("viui->vu", S)
        total += gradient
        weights, vectors = np.linalg.eigh(-(4.0 * np.sqrt(step) / scale) * total / step)
        weights = np.exp(weights - weights[-1])
        rho = (vectors * (weights / weights.sum())) @ vectors.T
    return best


def _proven(base: Array, steep: Array, S: Array) -> float:
    """Return the bound that S proves, after it has been lifted to what it must satisfy."""
    n, m = steep.shape[:2]
    S = S.reshape(n * m, n * m)
    S = 0.5 * (S + S.T)
    shifted = S.reshape(n, m, n, m).copy()
    every = np.arange(n)
    shifted[every, :, every, :] += steep
    lift = max(0.0, -least_eigenvalue(S), -least_eigenvalue(shifted.reshape(n * m, n * m)))
    traced = np.einsum("viui->vu", S.reshape(n, m, n, m))
    return least_eigenvalue(base - traced) - m * lift
