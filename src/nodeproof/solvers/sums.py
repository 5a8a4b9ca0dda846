"""Sums over the memberships that determine class models and objective.

They are kept with a fitted model: an update adds what has changed, instead of summing over all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.graph import RowSums
from nodeproof.problem import Models, Problem
from nodeproof.terms import NodeData
from nodeproof.terms.summable import SummableTerm, tells_all

__all__ = ["Sums", "entropy", "followed", "kept_for_updates", "summable_terms"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Sums:
    """What memberships come to, of a problem with calibrated weights, at temperature 1.

    Attributes
    ----------
    links : ndarray of shape (1, 1) or (K, K)
        Link mass inside classes, or between each two; zeros without a graph.
    rows : RowSums
        Sums that do not involve links.
    terms : tuple of ndarray
        `SummableTerm.sums` over all nodes, term by term.
    entropy : float
        ``Σ W log W``.
    """

    links: Array
    rows: RowSums
    terms: tuple[Array, ...]
    entropy: float

    def judge(self, problem: Problem) -> tuple[Models, float]:
        """Return the best models for the memberships, and the free energy there."""
        rows, terms = self.rows, summable_terms(problem)
        assert terms is not None
        log_prior = problem.fit_log_prior(rows.sizes)
        affinity = None
        if problem.graph is not None:
            affinity = problem.fit_affinity(self.links, rows.pairs)
        found = tuple(term.estimate_from(own) for term, own in zip(terms, self.terms, strict=True))
        models = Models(affinity, found, log_prior)
        value = _charged(problem, self.terms, models) + self.entropy
        value -= float(rows.sizes @ log_prior)
        value += problem.penalty(models)
        if affinity is not None:
            value += affinity.energy(self.links, rows.pairs)
        return models, value

    @classmethod
    def of_energy(
        cls,
        problem: Problem,
        models: Models,
        links: Array | None,
        rows: RowSums,
        terms: tuple[Array, ...],
        energy: float,
    ) -> Sums:
        """Return the sums, given the free energy without the links, which tells the entropy."""
        rest = _charged(problem, terms, models) + problem.penalty(models)
        entropy = energy - rest + float(rows.sizes @ models.log_prior)
        return cls(np.zeros((1, 1)) if links is None else links, rows, terms, entropy)

    def to_arrays(self) -> dict[str, Array]:
        """Return the sums as arrays by name, to save them."""
        arrays = {name: getattr(self.rows, name) for name in ("totals", "sizes", "squares")}
        arrays |= {"links": self.links, "entropy": np.array([self.entropy])}
        return arrays | {f"term_{k}": own for k, own in enumerate(self.terms)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], n_terms: int) -> Sums:
        """Return sums that were saved; a KeyError where one is missing."""
        rows = RowSums(arrays["totals"], arrays["sizes"], arrays["squares"])
        terms = tuple(arrays[f"term_{k}"] for k in range(n_terms))
        return cls(arrays["links"], rows, terms, float(arrays["entropy"][0]))


def _charged(problem: Problem, sums: tuple[Array, ...], models: Models) -> float:
    """Return what memberships cost by the terms."""
    costs = [
        term.charged(own, theta)
        for term, own, theta in zip(summable_terms(problem) or (), sums, models.terms, strict=True)
    ]
    return float(sum(cost for cost in costs if cost is not None))


def summable_terms(problem: Problem) -> list[SummableTerm] | None:
    """Return the terms, if sums over the nodes tell all of a problem; None if they do not."""
    graph = problem.graph
    if not problem.calibrated or problem.son or (graph is not None and graph.kinds):
        return None
    found = [term for term in problem.terms if tells_all(term)]
    return found if len(found) == len(problem.terms) else None


def followed(problem: Problem, nodes: NodeData, sums: Sums) -> Problem:
    """Return a problem of `summable_terms` for other nodes, given what memberships come to."""
    terms = [
        term.following(nodes, own)
        for term, own in zip(summable_terms(problem) or (), sums.terms, strict=True)
    ]
    return Problem(
        None if problem.graph is None else nodes.graph,
        terms,
        problem.n_classes,
        problem.weights,
        problem.threshold,
        problem.trust,
    )


def entropy(W: NDArray[Any]) -> float:
    """Return ``Σ W log W``; 0 log 0 is 0."""
    rows = W.astype(np.float64)
    return float((rows * np.log(np.maximum(rows, 1e-300))).sum())


def kept_for_updates(
    result: Any, found: NDArray[Any], factor: float
) -> tuple[Sums | None, NDArray[np.float32] | None]:
    """Return what local updates start from: sums; memberships, if they are not the probabilities.

    Parameters
    ----------
    result : Result
        Of the solver.
    found : ndarray of shape (n, K)
        The probabilities.
    factor : float
        1 unless these were damped, or kept from being certain.
    """
    if result.sums is None or result.alternatives or factor != 1.0:
        return None, None
    return result.sums, None if found is result.W else np.asarray(result.W, dtype=np.float32)
