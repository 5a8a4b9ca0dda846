"""Flows inside the classes, chosen so that every node is content with its class's model.

A node is content where ``⟨q_v, θ − θ̂_v⟩ ≥ 0`` for all θ ∈ Θ. Nodes that share their class and
their gradient are alike, so that few flows are to be found where labels are all there is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from nodeproof.certificate.program.ideal import HAIR, Ideal
from nodeproof.errors import InputError
from nodeproof.runtime.caching import cached_property
from nodeproof.sum_of_norms.centroids import group_equal

__all__ = ["Conditions", "Links", "TypedFlows", "at_least_zero", "content_flows"]

Array = NDArray[np.float64]

# Steps at most, and how little a step changes at the end.
_STEPS, _STILL = 500, 1e-11

# So many numbers at most: flows between all types of nodes.
_MOST_NUMBERS = 4_000_000


@dataclass(frozen=True)
class TypedFlows:
    """Flows between types of nodes.

    Attributes
    ----------
    between : ndarray of shape (k, k, d)
        Flows between the classes, for those whose centroids differ.
    types : ndarray of shape (n,)
        The type of each node, 0…T−1.
    among : ndarray of shape (T, T, d)
        g_vu for v of one type and u of another.
    """

    between: Array
    types: NDArray[np.int64]
    among: Array

    def forces(self, ideal: Ideal) -> Array:
        """Return ``Σ_u g_vu``, shape (n, d)."""
        sizes = np.bincount(self.types, minlength=len(self.among)).astype(np.float64)
        return np.asarray(np.einsum("j,ijd->id", sizes, self.among)[self.types])

    def valid_forces(self, ideal: Ideal) -> Array:
        """Return ``Σ_u g_vu``, (n, d), of the antisymmetric parts, cut to the length one."""
        return TypedFlows(self.between, self.types, _cut(self.among)).forces(ideal)

    def longest(self, ideal: Ideal) -> float:
        """Return the length of the longest flow."""
        return float(np.linalg.norm(self.among, axis=2).max(initial=0.0))

    def asymmetry(self, ideal: Ideal) -> float:
        """Return the largest ``‖g_vu + g_uv‖``."""
        both = self.among + self.among.swapaxes(0, 1)
        return float(np.linalg.norm(both, axis=2).max(initial=0.0))


def content_flows(ideal: Ideal) -> TypedFlows | None:
    """Return flows that leave nodes as content as they can be; None where they are too many.

    Over flows no longer than one between nodes whose centroids coincide, this minimises
    ``Σ_v max_θ ⟨q_v, θ̂_v − θ⟩ − ‖θ − θ̂_v‖²/2η``, which is zero where all are content and has the
    gradient ``θ̂_v − P_Θ(θ̂_v − ηq_v)``, by accelerated projected gradients.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof import Problem
    >>> from nodeproof.certificate.program.links import content_flows
    >>> from nodeproof.certificate.program.ideal import Ideal
    >>> from nodeproof.terms import Labels, NodeData
    >>> labels = Labels().bind(NodeData(n_classes=2, y=np.array([0, 0, -1, 1])))
    >>> problem = Problem(None, [labels], 2, weights=(0.0, 0.0, 1.0), son=0.1)
    >>> ideal = Ideal(problem, [0, 0, 0, 1])
    >>> flows = content_flows(ideal)
    >>> pulls = ideal.gradients + 0.1 * flows.valid_forces(ideal)
    >>> bool(pulls[2, 0] <= pulls[2, 1] + 1e-9)  # the node without a label prefers its class
    True
    """
    d = ideal.gradients.shape[1]
    keys = np.column_stack([ideal.z, ideal.gradients])
    _, first, types = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    types = types.reshape(-1)
    if not ideal.program.son or not d or len(first) ** 2 * d > _MOST_NUMBERS:
        return None
    z, m, theta = ideal.z[first], ideal.gradients[first], ideal.theta[ideal.z[first]]
    sizes, of = np.bincount(types).astype(np.float64), ideal.program.models_set
    group = group_equal([ideal.theta])[z]
    free = (group[:, None] == group)[:, :, None]
    weight = ideal.program.son * ((group[:, None] == group) @ sizes)[:, None, None]
    g = y = np.asarray(ideal.between[z][:, z])
    outer = np.where(free, 0.0, g)
    q = m + ideal.program.son * np.einsum("j,ijd->id", sizes, y)
    reach = float(np.linalg.norm(of.lmo(q) - theta, axis=1).max())
    eta = max(reach, 1e-12) / max(float(np.linalg.norm(q, axis=1).max()), 1e-12)
    ahead = 1.0
    for _ in range(_STEPS):
        q = m + ideal.program.son * np.einsum("j,ijd->id", sizes, y)
        x = theta - of.project(theta - eta * q)
        if float(np.abs(x).max()) <= 1e-14 * reach:
            g = y
            break
        moved = np.where(free, _cut(y - (x[:, None] - x[None]) / (eta * weight)), outer)
        further = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * ahead * ahead))
        y = moved + (ahead - 1.0) / further * (moved - g)
        still = float(np.abs(moved - g).max()) <= _STILL
        g, ahead = moved, further
        if still:
            break
    return TypedFlows(ideal.between, types, _cut(g))


def _cut(g: Array) -> Array:
    """Return the antisymmetric part of flows, cut to the length one."""
    g = 0.5 * (g - g.swapaxes(0, 1))
    lengths = np.linalg.norm(g, axis=2, keepdims=True)
    return np.asarray(g * np.where(lengths > HAIR, HAIR / np.maximum(lengths, HAIR), 1.0))


# ------------------------------------------------------------------------------
# The part of the paper's certificates that links give: ``P⊥(S − λI)P⊥``.


#: name → (whether it holds, by how much)
Conditions = dict[str, tuple[bool, float]]

# Rounds to find the smallest λ, which the a_ii depend on.
_ROUNDS = 60

# Shares of the interval that is left for λ, tried for both sources together.
_SHARES = (0.0, 0.25, 0.5, 1.0)


def at_least_zero(margin: float) -> tuple[bool, float]:
    """Return whether a margin is none below zero, and the margin."""
    return bool(margin >= 0.0), float(margin)


class Links:
    """Links that are where they should not be, and those that are missing where they should.

    Attributes
    ----------
    wrong : ndarray of shape (n, n)
        One for a missing link inside a class (a node's link to itself is one), and for a link
        across; else zero.
    centre : ndarray of shape (n, n)
        What ``P⊥`` takes off `wrong`.
    """

    def __init__(self, ideal: Ideal, s: float, t: float, A: Array) -> None:
        self.ideal, self.s, self.t, self.A = ideal, s, t, A
        z, together, weights = ideal.z, ideal.together, ideal.members / ideal.sizes
        self.wrong = np.where(together, 1.0 - A, A)
        shares = self.wrong @ weights
        self.rho = np.asarray(weights.T @ shares)
        self.delta = float(np.abs(shares - self.rho[z]).max())
        across = shares[:, z]
        self.centre = across + across.T - self.rho[z][:, z]

    @classmethod
    def of(cls, ideal: Ideal) -> Self:
        """Return those of the problem's graph, or raise an error where they have weights."""
        problem = ideal.problem
        graph, beta = problem.graph, float(problem.weights[0])
        if graph is None or not beta:
            raise InputError("this construction is of links: give a graph and a weight β_g > 0")
        if graph.weighted or graph.null_model != "uniform":
            raise InputError(
                "the paper's constructions are for links without weights and null_model="
                "'uniform': use construction='multiplicative'"
            )
        A = graph.adjacency.toarray().astype(np.float64)
        return cls(ideal, 2.0 * beta, problem.threshold, A)

    def projected(self, a: Array) -> Array:
        """Return ``P⊥SP⊥``."""
        signs = np.where(self.ideal.together, -1.0, 1.0)
        z = self.ideal.z
        return np.asarray(signs * a[z][:, z] * (self.wrong - self.centre))

    def certificate(self, a: Array, pull: float) -> Array:
        """Return ``P⊥(S − λI)P⊥``."""
        sizes = self.ideal.sizes[self.ideal.z]
        P = np.eye(len(sizes)) - self.ideal.together / sizes
        return self.projected(a) - pull * P

    def corrected(
        self, judge: Callable[[Array, float], float] | None = None
    ) -> tuple[Array, float, Conditions]:
        """Return a, λ and whether there is room for them, by the entries as they are."""
        limits = self.by_entries
        pull = self._least_pull(limits)
        if judge is not None:
            most = self._most_pull(limits)
            pulls = [pull + share * max(0.0, most - pull) for share in _SHARES]
            pull = max(pulls, key=lambda at: judge(self._lower(limits, self.s, self.t, at), at))
        a = self._lower(limits, self.s, self.t, pull)
        return a, pull, self._room(limits, self.s, self.t, pull)

    def printed(self) -> tuple[Array, float, Conditions]:
        """Return a, λ and conditions by the published formulas: s = 2, t = 1/2, δ, and Ã."""
        z, weights = self.ideal.z, self.ideal.members / self.ideal.sizes
        limits = 1.0 - self.rho - 2.0 * self.delta, self.rho + 2.0 * self.delta
        centred = self.A - (weights.T @ self.A @ weights)[z][:, z]
        norm = float(np.linalg.eigvalsh(centred)[-1])
        pull = norm * float(self._lower(limits, 2.0, 0.5, 0.0).max())
        a = self._lower(limits, 2.0, 0.5, pull)
        asked = {"ρᵢⱼ < ½ − δ": at_least_zero(float((0.5 - self.delta - self.rho).min()))}
        asked |= self._room(limits, 2.0, 0.5, pull)
        reached = float(np.linalg.eigvalsh(self.projected(a))[-1])
        asked["a λ_max(Ã) ≤ λ_max(P⊥SP⊥)"] = at_least_zero(reached - float(a.max()) * norm)
        return a, pull, asked

    @cached_property
    def by_entries(self) -> tuple[Array, Array]:
        """The least ``1 − centre`` where S is not zero, the largest `centre` where it is."""
        k = len(self.ideal.sizes)
        lower, upper = np.ones((k, k)), np.zeros((k, k))
        every = ~np.eye(len(self.ideal.z), dtype=bool)
        for i in range(k):
            for j in range(k):
                block = np.ix_(self.ideal.z == i, self.ideal.z == j)
                centre, wrong = self.centre[block][every[block]], self.wrong[block][every[block]]
                lower[i, j] = 1.0 - centre[wrong == 1].max(initial=0.0)
                upper[i, j] = centre[wrong == 0].max(initial=0.0)
        return lower, upper

    def _lower(self, limits: tuple[Array, Array], s: float, t: float, pull: float) -> Array:
        """Return the smallest a that Step 3 allows; without room, what the means would ask."""
        need = np.full(self.rho.shape, s * (1.0 - t))
        np.fill_diagonal(need, s * t + pull / self.ideal.sizes)
        fits = limits[0] > 0.0
        return np.asarray(need / np.where(fits, limits[0], np.maximum(1.0 - self.rho, 0.1)))

    def _room(self, limits: tuple[Array, Array], s: float, t: float, pull: float) -> Conditions:
        """Return by how much the upper limits of Step 3 exceed the lower ones."""
        least, most = limits
        inner, outer = np.eye(len(least), dtype=bool), ~np.eye(len(least), dtype=bool)
        drawn = pull / self.ideal.sizes
        own = (s * (1.0 - t) - drawn) * least[inner] - (s * t + drawn) * most[inner]
        other = s * t * least[outer] - s * (1.0 - t) * most[outer]
        return {
            "room for aᵢᵢ": at_least_zero(float(own.min())),
            "room for aᵢⱼ": at_least_zero(float(other.min(initial=np.inf))),
        }

    def _most_pull(self, limits: tuple[Array, Array]) -> float:
        """Return the largest λ that leaves room for every a_ii."""
        lower, upper = np.diag(limits[0]), np.diag(limits[1])
        room = self.s * ((1.0 - self.t) * lower - self.t * upper)
        fits = (room > 0.0) & (lower + upper > 0.0)
        most = np.divide(
            self.ideal.sizes * room, lower + upper, out=np.zeros_like(room), where=fits
        )
        return float(most.min())

    def _least_pull(self, limits: tuple[Array, Array]) -> float:
        """Return the smallest λ with ``P⊥(S − λI)P⊥ ⪯ 0``, or one that leaves no room."""
        pull, most = 0.0, self._most_pull(limits)
        for _ in range(_ROUNDS):
            projected = self.projected(self._lower(limits, self.s, self.t, pull))
            reached = max(0.0, float(np.linalg.eigvalsh(projected)[-1]))
            if reached <= pull * (1.0 + 1e-10):
                break
            pull = reached
            if pull > most:
                break
        # A little more, so that the λ in a counts as well.
        return pull * (1.0 + 1e-9)
