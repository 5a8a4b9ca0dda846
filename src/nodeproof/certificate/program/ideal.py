"""Biased centroids together with the flows between classes that prove them."""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum, nextafter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist, pdist

from nodeproof.convex.characteristic import biased_centroids
from nodeproof.convex.program import Program
from nodeproof.errors import InputError
from nodeproof.problem import Models, Problem
from nodeproof.runtime.caching import cached_property
from nodeproof.sets import SpectralBox
from nodeproof.sum_of_norms.class_models import CoupledLosses, minimise

__all__ = ["EPS", "HAIR", "Flows", "Ideal", "Proven", "prove_centroids"]

Array = NDArray[np.float64]

# How near value and bound are to come, as a share of the loss, and for how long.
_TOLERANCE, _STEPS = 1e-13, 20_000


@dataclass(frozen=True)
class Proven:
    """Biased centroids, and what proves that they are.

    Attributes
    ----------
    theta : ndarray of shape (k, d)
        The centroids.
    tangents : ndarray of shape (k, d)
        Where losses are replaced by their tangents: at the centroids or next to them.
    between : ndarray of shape (k, k, d)
        Flows ``g_ij = −g_ji`` between the classes, no longer than one.
    """

    theta: Array
    tangents: Array
    between: Array


class _RecordingLosses(CoupledLosses):
    """Coupled losses that record the multipliers of the best bound."""

    best = -np.inf
    at: Array
    duals: Array

    def bound(self, theta: Array, duals: Array) -> float:
        """Return the bound, and keep in mind what it was proven by."""
        proven = super().bound(theta, duals)
        if proven > self.best:
            self.best, self.at, self.duals = proven, theta, duals
        return proven


def prove_centroids(program: Program, W: NDArray[Any]) -> Proven:
    """Return the biased centroids of classes that all have nodes, and flows between them.

    A value that is exact to many digits has centroids, and so directions between them, to half
    as many. The multipliers that prove the value are better than those.

    Parameters
    ----------
    program : Program
        The convex program.
    W : ndarray of shape (n, K)
        One-hot rows; classes without nodes are left out of what is returned.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof import Problem
    >>> from nodeproof.certificate.program.ideal import prove_centroids
    >>> from nodeproof.convex.program import Program
    >>> from nodeproof.terms import Labels, NodeData
    >>> labels = Labels().bind(NodeData(n_classes=2, y=np.array([0, 0, 1])))
    >>> program = Program(Problem(None, [labels], 2, weights=(0.0, 0.0, 1.0), son=0.1))
    >>> found = prove_centroids(program, np.eye(2)[[0, 0, 1]])
    >>> found.theta
    array([[1., 0.],
           [0., 1.]])
    >>> found.between[0, 1].round(6)
    array([ 0.707107, -0.707107])
    """
    filled = W.any(axis=0)
    models = biased_centroids(program.problem, W).models
    theta = program.class_models(Models(None, models, np.zeros(W.shape[1])))[filled]
    k, d = theta.shape
    if not program.son or not d or k == 1:
        return Proven(theta, theta, np.zeros((k, k, d)))
    W = W[:, filled]
    terms = [term for term, _ in program.terms]
    betas = [beta for _, beta in program.terms]
    losses = _RecordingLosses(terms, betas, W, W.sum(axis=0), program.son)
    start = losses.pack(program.models_set.split(theta))
    alone = losses.pack([term.refit(W) for term in terms])
    even = np.repeat(W.mean(axis=1, keepdims=True), k, axis=1)
    merged = np.repeat(losses.pack([term.refit(even)[:1] for term in terms]), k, axis=0)
    found = minimise(losses, start, alone, merged, _TOLERANCE, _STEPS)
    return Proven(found.theta, losses.at, losses.duals / losses.gamma)


# ------------------------------------------------------------------------------
# The ideal solution of a labelling in the convex program: one atom a class, and its flows.

EPS = float(np.finfo(float).eps)

# Flows keep a hair below their limit, so that rounding cannot make one too long.
HAIR = 1.0 - 1e-12


class Ideal:
    """One atom a class: ``λ_i = n_i``, ``e_i = 1_{C_i}/√n_i``, θ_i the biased centroids.

    Parameters
    ----------
    problem : Problem
        With fixed weights.
    labels : array-like of shape (n,)
        The class 0…K−1 of every node.

    Attributes
    ----------
    z : ndarray of shape (n,)
        The classes, numbered 0…k−1 without those that no node is in.
    sizes : ndarray of shape (k,)
        n_i.
    theta : ndarray of shape (k, d)
        The biased centroids.
    tangents : ndarray of shape (k, d)
        Where losses are replaced by their tangents: at the centroids, or as near as can be told.
    between : ndarray of shape (k, k, d)
        Flows g_ij between the classes. They point from the other centroid to the own one;
        where centroids coincide, they keep them together.
    gradients, losses : ndarray of shape (n, d) and (n,)
        ``∇f_v`` and ``f_v`` there, all terms with their weights.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof import Problem
    >>> from nodeproof.certificate.program.ideal import Ideal
    >>> from nodeproof.graph import Graph
    >>> pairs = np.kron(np.eye(2), np.array([[0, 1], [1, 0]]))
    >>> ideal = Ideal(Problem(Graph(pairs), [], 2, weights=(1.0, 0.0, 0.0)), [0, 0, 1, 1])
    >>> ideal.value, ideal.scale
    (-4.0, 4.0)
    """

    def __init__(self, problem: Problem, labels: ArrayLike) -> None:
        self.problem, self.program = problem, Program(problem)
        labels = _check_labels(problem, labels)
        filled, self.z = np.unique(labels, return_inverse=True)
        W = np.eye(problem.n_classes)[labels]
        found = prove_centroids(self.program, W)
        self.theta, self.tangents, self.between = found.theta, found.tangents, found.between
        self.members = W[:, filled]
        self.sizes = self.members.sum(axis=0)
        self.losses = self.program.losses(self.tangents[self.z])
        self.gradients = self.program.loss_gradient(self.tangents[self.z])

    @cached_property
    def together(self) -> NDArray[np.bool_]:
        """Whether two nodes share a class, shape (n, n)."""
        return np.asarray(self.z[:, None] == self.z)

    @cached_property
    def held(self) -> Array:
        """``H[v, i] = Σ_{u ∈ C_i} B_uv``, shape (n, k)."""
        return np.asarray(self.program.B @ self.members)

    @cached_property
    def means(self) -> Array:
        """The mean gradient of each class, shape (k, d)."""
        return np.asarray((self.members / self.sizes).T @ self.gradients)

    @cached_property
    def spreads(self) -> Array:
        """How far apart two gradients of a class are at most, shape (k,): μρ of the paper."""
        farthest = [pdist(self.gradients[self.z == i]).max(initial=0.0) for i in self._every]
        return np.array(farthest) if self.theta.size else np.zeros(len(self.sizes))

    @property
    def _every(self) -> range:
        return range(len(self.sizes))

    @cached_property
    def _parts(self) -> tuple[Array, Array, Array]:
        """What the objective is the sum of: pairs that are together, losses, norms."""
        apart = cdist(self.theta, self.theta) if self.theta.size else np.zeros((1, 1))
        norms = 0.5 * self.program.son * np.outer(self.sizes, self.sizes) * apart
        losses = self.program.losses(self.theta[self.z])
        return -self.program.B[self.together], losses, norms.ravel()

    @cached_property
    def value(self) -> float:
        """The program's objective there, rounded up."""
        total = fsum(np.concatenate(self._parts))
        _, losses, norms = self._parts
        slack = float(np.abs(losses).sum()) * self.conditioning + float(norms.sum())
        slack *= 8.0 * (self.theta.shape[1] + 8) * EPS
        return total if slack == 0.0 else nextafter(total + slack, np.inf)

    @cached_property
    def scale(self) -> float:
        """The sum of the absolute values of what the objective is made of."""
        return fsum(np.abs(np.concatenate(self._parts)))

    @cached_property
    def conditioning(self) -> float:
        """By what the rounding of losses is multiplied: matrices have to be inverted."""
        boxes = [part for part in self.program.models_set.sets if isinstance(part, SpectralBox)]
        return float(max((box.hi / box.lo for box in boxes), default=1.0))

    @cached_property
    def normals(self) -> Array:
        """``μ n_i`` of the paper, shape (k, d): what a class pays as its model moves, a node."""
        pulls = np.einsum("j,ijd->id", self.sizes, self.between)
        return np.asarray(self.means + self.program.son * pulls)


@dataclass(frozen=True)
class Flows:
    """Flows g_vu that stand for the subgradients of the sum of norms.

    Between classes they are those given; inside class i, ``g_vu = c_i (∇f_u − ∇f_v)``.

    Attributes
    ----------
    between : ndarray of shape (k, k, d)
        g_vu for v in class i, u in class j ≠ i.
    rates : ndarray of shape (k,)
        c_i.
    summed : bool
        Take ``g_vu = c_i Σ_{w ∈ C_i} (∇f_w − ∇f_v)`` instead, as the paper has it.
    """

    between: Array
    rates: Array
    summed: bool = False

    def valid_forces(self, ideal: Ideal) -> Array:
        """Return ``Σ_u g_vu``, (n, d), of the antisymmetric parts, cut to the length one."""
        between = 0.5 * (self.between - self.between.swapaxes(0, 1))
        lengths = np.linalg.norm(between, axis=2, keepdims=True)
        between = between * (HAIR / np.maximum(lengths, 1.0))
        # Half the difference of two sums over a class is n_i/2 times that of its terms.
        rates = self.rates * (0.5 * ideal.sizes if self.summed else 1.0)
        limits = HAIR / np.maximum(ideal.spreads, 1e-300)
        return _forces(ideal, between, np.minimum(rates, limits))

    def forces(self, ideal: Ideal) -> Array:
        """Return ``Σ_u g_vu`` of the flows as they are, shape (n, d)."""
        rates = self.rates * (ideal.sizes if self.summed else 1.0)
        return _forces(ideal, self.between, rates)

    def longest(self, ideal: Ideal) -> float:
        """Return the length of the longest flow as they are."""
        inner = self.rates * ideal.spreads
        if self.summed:
            inner = self.rates[ideal.z] * np.linalg.norm(self._sums(ideal), axis=1)
        outer = np.linalg.norm(self.between, axis=2)
        return float(max(inner.max(initial=0.0), outer.max(initial=0.0)))

    def asymmetry(self, ideal: Ideal) -> float:
        """Return the largest ``‖g_vu + g_uv‖``."""
        worst = np.linalg.norm(self.between + self.between.swapaxes(0, 1), axis=2).max(initial=0.0)
        if self.summed:
            sums = self._sums(ideal)
            for i, rate in enumerate(self.rates):
                own = sums[ideal.z == i]
                worst = max(worst, rate * cdist(own, -own).max(initial=0.0))
        return float(worst)

    @staticmethod
    def _sums(ideal: Ideal) -> Array:
        """Return ``Σ_{u ∈ C_i} (∇f_u − ∇f_v)``, shape (n, d)."""
        return np.asarray(ideal.sizes[ideal.z, None] * (ideal.means[ideal.z] - ideal.gradients))


def _forces(ideal: Ideal, between: Array, rates: Array) -> Array:
    outer = np.einsum("j,ijd->id", ideal.sizes, between)
    return np.asarray(outer[ideal.z] + rates[ideal.z, None] * Flows._sums(ideal))


def _check_labels(problem: Problem, labels: ArrayLike) -> NDArray[np.int64]:
    z = np.asarray(labels)
    if z.shape != (problem.n_nodes,) or not np.issubdtype(z.dtype, np.integer):
        raise InputError(
            f"labels must be {problem.n_nodes} whole numbers, one a node; got shape {z.shape} "
            f"of {z.dtype}"
        )
    wrong = np.flatnonzero((z < 0) | (z >= problem.n_classes))
    if len(wrong):
        raise InputError(
            f"the label of node {wrong[0]} is {z[wrong[0]]}; expected "
            f"0…{problem.n_classes - 1}: a certificate is of a class for every node"
        )
    return z.astype(np.int64)
