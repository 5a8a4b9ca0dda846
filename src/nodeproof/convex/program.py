"""The paper's convex program, dense and for small graphs: its objective, its sets, its dual.

With ``B = s(A − tN)`` off the diagonal and zero on it,

    minimise   −⟨B, L⟩ + Σ_v f_v(θ_v) + μ1 Σ_{u<v} ‖θ_u − θ_v‖
    over       L = Σ_a λ_a e_a e_aᵀ,  θ_v = Σ_a λ_a e_av² θ_a,  λ_a ≥ 0, ‖e_a‖ = 1, θ_a ∈ Θ,
    so that    L_vv = 1 and L_uv ≥ 0.

The diagonal makes ``Σλ = n``, so the weight μ0 of the atomic norm changes nothing, and it keeps
``L_uv ≤ 1`` and ``θ_v ∈ Θ`` by itself. Values and bounds here are computed from a point or from
dual variables alone, independently of any solver.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nodeproof.atoms import Decomposition
from nodeproof.errors import InputError
from nodeproof.problem import PAPER_WEIGHTS, Models, Problem
from nodeproof.runtime.caching import cached_property
from nodeproof.runtime.memory import check_free
from nodeproof.sets import Product, Similarities
from nodeproof.solvers.base import check_one_kind
from nodeproof.solvers.semidefinite import least_eigenvalue, off_diagonal, with_diagonal
from nodeproof.sum_of_norms import sum_of_norms

__all__ = ["Polytope", "Program", "check_memory", "lift_negative", "polytope_bound"]

Array = NDArray[np.float64]

# Sums of n numbers are off by a small multiple of n·eps; this multiple is generous.
_ROUNDING = 8.0


@dataclass(frozen=True)
class Polytope:
    """Θ as the hull of its vertices, with losses that are linear on it.

    Attributes
    ----------
    vertices : ndarray of shape (k, d)
        The vertices θ¹…θᵏ.
    costs : ndarray of shape (n, k)
        The cost of each node at each vertex.
    """

    vertices: Array
    costs: Array


class Program:
    """The convex program of a problem with fixed weights.

    Parameters
    ----------
    problem : Problem
        With weights (β_g, β_f, β_l); its threshold and its weight of the sum of norms count.

    Attributes
    ----------
    models_set : Product
        Θ, the product of the terms' sets: a model is one vector of d numbers.
    son : float
        μ1.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof import Problem
    >>> from nodeproof.graph import Graph
    >>> from nodeproof.convex.program import Program
    >>> pair = Problem(Graph(np.array([[0, 1], [1, 0]])), [], 1, weights=(1.0, 0.0, 0.0))
    >>> program = Program(pair)
    >>> program.value(np.ones((2, 2)), np.zeros((2, 0)))  # −s·(1 − t)·2
    -2.0
    """

    def __init__(self, problem: Problem) -> None:
        if isinstance(problem.weights, str):
            raise InputError(
                "the convex program needs fixed weights: build the problem with "
                f"weights=(β_g, β_f, β_l), for example the paper's {PAPER_WEIGHTS}"
            )
        check_one_kind(problem.graph, "the convex program")
        self.problem, self.n_nodes, self.son = problem, problem.n_nodes, problem.son
        weighed = zip(problem.terms, problem.term_weights, strict=True)
        self.terms = [(term, beta) for term, beta in weighed if beta]
        self.models_set = Product([term.models_set for term, _ in self.terms])
        self.similarities = Similarities(problem.n_nodes)
        entries = 48.0 * self.n_nodes * self.models_set.dim
        check_free(entries, "one model per node", "reduce the features, or use solver='block'")

    @cached_property
    def B(self) -> Array:
        """The gain of each ordered pair that is together, shape (n, n)."""
        check_memory("the convex program", self.n_nodes, matrices=2)
        graph, beta = self.problem.graph, self.problem.weights[0]
        if graph is None or not beta:
            return np.zeros((self.n_nodes, self.n_nodes))
        B = graph.adjacency.astype(np.float64).toarray()
        B -= np.outer(self.problem.threshold * graph.eta, graph.eta)
        B *= 2.0 * float(beta)
        np.fill_diagonal(B, 0.0)
        return np.asarray(B)

    # The objective. ---------------------------------------------------------------------

    def value(self, L: Array, theta: Array) -> float:
        """Return the objective at similarities (n, n) and models (n, d) of the nodes."""
        total = -float(np.vdot(self.B, L)) + float(self.losses(theta).sum())
        if self.son:
            total += self.son * sum_of_norms(theta)
        return total

    def losses(self, theta: Array, linear: bool | None = None) -> Array:
        """Return ``f_v(θ_v)``, all terms together, shape (n,).

        Parameters
        ----------
        theta : ndarray of shape (n, d)
            One model per node.
        linear : bool, optional
            Only the losses that are linear, or only those that are not.
        """
        total = np.zeros(self.n_nodes)
        for (term, beta), part in zip(self.terms, self.models_set.split(theta), strict=True):
            if linear in (None, term.linear):
                total += beta * term.loss(part, 0, self.n_nodes)
        return total

    def loss_gradient(self, theta: Array, linear: bool | None = None) -> Array:
        """Return ``∇f_v(θ_v)``, shape (n, d); the parameters are those of :meth:`losses`."""
        parts = self.models_set.split(theta)
        gradients = [
            beta * term.loss_gradient(part, 0, self.n_nodes)
            if linear in (None, term.linear)
            else np.zeros_like(part)
            for (term, beta), part in zip(self.terms, parts, strict=True)
        ]
        return self.models_set.join(gradients) if gradients else np.zeros((self.n_nodes, 0))

    def class_models(self, models: Models) -> Array:
        """Return the models of a problem's classes as vectors, shape (K, d)."""
        weighed = zip(models.terms, self.problem.term_weights, strict=True)
        parts = [theta for theta, beta in weighed if beta]
        return self.models_set.join(parts) if parts else np.zeros((self.problem.n_classes, 0))

    # The sets. --------------------------------------------------------------------------

    def project(self, L: Array, theta: Array) -> tuple[Array, Array]:
        """Return the nearest point of 𝓤 = 𝓑 × Θⁿ."""
        return self.similarities.project(L), self.models_set.project(theta)

    def violation(self, point: Decomposition) -> float:
        """Return by how much a point breaks its worst constraint.

        It is a sum of atoms by its form; what is left is 𝓑, and that atoms have models in Θ.
        """
        used = (point.E != 0).any(axis=0)
        in_models = self.models_set.violation(point.theta[used])
        return max(float(self.similarities.violation(point.L)), float(in_models.max(initial=0.0)))

    def repair(self, point: Decomposition) -> Decomposition:
        """Return a feasible point near a sum of atoms: rows of length one, no entry below zero.

        Rows are scaled, which keeps atoms atoms; what is still negative is lifted by further
        atoms with the mean model, in the way that costs less.
        """
        E, theta = point.E, point.theta
        lengths = np.linalg.norm(E, axis=1)
        bare = lengths <= 0
        if bare.any():  # such a node becomes an atom of its own
            mean = theta.mean(axis=0) if len(theta) else self.models_set.center()
            E = np.hstack([E, np.eye(len(E))[:, bare]])
            theta = np.vstack([theta, np.tile(mean, (int(bare.sum()), 1))])
            lengths[bare] = 1.0
        E = E / lengths[:, None]
        mean = (E**2).mean(axis=0) @ theta
        found = []
        for scale, added in lift_negative(E @ E.T):
            values, vectors = np.linalg.eigh(added)
            kept = values > 1e-12 * max(values[-1], 1e-300)
            more = vectors[:, kept] * np.sqrt(values[kept])
            lifted = np.hstack([scale[:, None] * E, more])
            # What rounding has left of unit length, and no more.
            lifted /= np.linalg.norm(lifted, axis=1, keepdims=True)
            found.append(
                Decomposition(lifted, np.vstack([theta, np.tile(mean, (more.shape[1], 1))]))
            )
        return min(found, key=lambda each: self.value(each.L, each.models))

    @cached_property
    def polytope(self) -> Polytope | None:
        """Θ by its vertices, where it has few and every loss is linear; else None."""
        vertices = self.models_set.vertices()
        if vertices is None or not all(term.linear for term, _ in self.terms):
            return None
        costs = np.zeros((self.n_nodes, len(vertices)))
        for j, vertex in enumerate(vertices):
            costs[:, j] = self.losses(np.tile(vertex, (self.n_nodes, 1)))
        return Polytope(vertices, costs)

    def require_polytope(self, solver: str) -> Polytope:
        """Return Θ by its vertices, or raise an error that names the solver to use instead."""
        if self.polytope is None:
            named = ", ".join(type(term).__name__ for term, _ in self.terms)
            raise InputError(
                f"{solver} needs models in a polytope and losses linear on it, as Labels has; "
                f"the terms here are {named}: use CANO (solver='cano')"
            )
        return self.polytope


def lift_negative(L: Array) -> list[tuple[Array, Array]]:
    """Return ways to make the entries of a semidefinite L with unit diagonal non-negative.

    Each is a scale s of the rows and a semidefinite matrix P, so that ``diag(s) L diag(s) + P``
    has a unit diagonal and no negative entry: a share of the matrix of ones, or for each
    negative pair what lifts that pair alone.
    """
    n = len(L)
    below = max(0.0, -float(L.min()))
    share = below / (1.0 + below)
    ones = np.full(n, np.sqrt(1.0 - share)), np.full((n, n), share)
    if below == 0.0:
        return [ones]
    missing = np.maximum(-L, 0.0)
    paid = missing.sum(axis=1)
    scale = 1.0 / np.sqrt(1.0 + paid)
    return [ones, (scale, (missing + np.diag(paid)) * np.outer(scale, scale))]


def polytope_bound(B: Array, costs: Array, nu: Array, gamma: Array, constant: float = 0.0) -> float:
    """Return a lower bound of the program over a polytope: rigorous for any ν and Γ.

    For every feasible L = Σ_j L_j with L_j ⪰ 0,

        −⟨B, L⟩ + Σ_j ⟨c_j, diag L_j⟩
            = Σν + ⟨Γ, L⟩ + Σ_j ⟨diag(c_j − ν) − B − Γ, L_j⟩
            ≥ Σν + Σ_uv min(Γ_uv, 0) + n·min_j λ_min(diag(c_j − ν) − B − Γ),

    because L_vv = 1, 0 ≤ L_uv ≤ 1 and Σ_j tr L_j = n. Rounding is allowed for.

    Parameters
    ----------
    B : ndarray of shape (n, n)
        Symmetric, zero on the diagonal.
    costs : ndarray of shape (n, k)
        Costs at the vertices, gradients of further convex parts included.
    nu : ndarray of shape (n,)
        Prices of the diagonal.
    gamma : ndarray of shape (n, n)
        Symmetric; its diagonal does not count.
    constant : float
        What the linearisation of further convex parts leaves over.
    """
    M = -B - off_diagonal(gamma)
    least = min(least_eigenvalue(with_diagonal(M, c - nu)) for c in costs.T)
    return dual_value(nu, gamma, least, constant)


def dual_value(nu: Array, gamma: Array, least: float, constant: float = 0.0) -> float:
    """Return ``Σν + Σ_uv min(Γ_uv, 0) + n·least + constant``, rounded down."""
    gains = np.minimum(off_diagonal(gamma), 0.0)
    return sum_down(nu, gains, [constant], [len(nu) * least])


def sum_down(*parts: ArrayLike) -> float:
    """Return the sum of all entries of some arrays, rounded down."""
    entries = np.concatenate([np.ravel(part) for part in parts])
    slack = _ROUNDING * entries.size * np.finfo(float).eps * float(np.abs(entries).sum())
    return float(entries.sum()) - slack


def check_memory(what: str, n_nodes: int, matrices: int) -> None:
    """Refuse so many dense n × n matrices where free memory does not hold them."""
    check_free(
        8.0 * matrices * n_nodes**2,
        f"{what} holds {matrices} dense {n_nodes} × {n_nodes} matrices, which",
        "use solver='block', which never forms one",
    )
