"""The part of the paper's certificates that links give: ``P⊥(S − λI)P⊥``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import numpy as np
from numpy.typing import NDArray

from nodeproof.caching import cached_property
from nodeproof.certificate.program_ideal import Ideal
from nodeproof.errors import InputError

__all__ = ["Conditions", "Links", "at_least_zero"]

Array = NDArray[np.float64]

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
