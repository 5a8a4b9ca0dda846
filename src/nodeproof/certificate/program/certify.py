"""The program certificate: whether a labelling is optimal in the paper's convex program.

Models are free here, and every point of the program competes, labelling or not. The ideal solution
of a labelling has one atom per class, at the biased centroids; dual variables prove how far it can
be from optimal. They come from the paper's recovery theorem or from a construction that needs less;
in any case, :func:`nodeproof.certificate.program.bound.prove` alone decides.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nodeproof.certificate.program.bound import Dual, Proof, improve, least_over_models, prove
from nodeproof.certificate.program.ideal import Ideal
from nodeproof.certificate.program.links import Conditions
from nodeproof.certificate.program.paper import (
    Built,
    combined,
    graph_only,
    multiplicative,
    node_only,
    optimised,
    own_costs,
)
from nodeproof.certificate.status import status_of
from nodeproof.convex.program import check_memory
from nodeproof.convex.results import relative_gap
from nodeproof.errors import InputError
from nodeproof.problem import Problem
from nodeproof.runtime import threads
from nodeproof.solvers.base import check_at_least

__all__ = ["CONSTRUCTIONS", "ProgramCertificate", "certify_program", "check_conditions"]

Array = NDArray[np.float64]

# Rounding, as a share of the size of what is compared.
_ROUNDING = 1e-9


def check_conditions(ideal: Ideal, built: Built, steps: int) -> Conditions:
    """Return the paper's optimality conditions for Z and g: name → (holds, margin).

    Margins below zero say by how much a condition fails; equalities have none above. Flows
    count as the construction has them, allowed or not.

    Parameters
    ----------
    ideal : Ideal
        The ideal solution.
    built : Built
        A construction: ``Z = B + Γ + diag ν``.
    steps : int
        How often to improve the eigenvalue over a spectral box.
    """
    dual, flows = built.dual, built.dual.flows
    across = ~ideal.together
    inside = ideal.together & ~np.eye(len(ideal.z), dtype=bool)
    B, gamma = ideal.program.B, dual.gamma
    size = max(float(np.abs(B).max(initial=0.0)), float(np.abs(gamma).max(initial=0.0)), 1e-300)
    q = ideal.gradients + ideal.program.son * built.forces
    spread = float((np.abs(B) + np.abs(gamma)).sum(axis=1).max() + np.abs(dual.nu).max())
    length = max(flows.longest(ideal), 1.0)
    found = {
        "Z ≤ B inside": _near(-gamma[inside].max(initial=-np.inf), size),
        "Z ≥ B across": _near(gamma[across].min(initial=np.inf), size),
        "‖g‖ ≤ 1": _near(1.0 - flows.longest(ideal), 1.0),
        "g_vu = −g_uv": _near(-flows.asymmetry(ideal), length),
        "g points apart": _near(-_misled(ideal, flows.between), 1.0),
        "eᵢᵀ(D(θ̂ᵢ) − Z)eᵢ = 0": _near(-_off_value(ideal, built), max(spread, 1.0)),
        "D(θ) − Z ⪰ 0": _near(least_over_models(ideal, dual, q, steps), max(spread, 1.0)),
    }
    if not ideal.program.son:
        for name in ("‖g‖ ≤ 1", "g_vu = −g_uv", "g points apart"):
            del found[name]
    return found | built.asked


def _misled(ideal: Ideal, between: Array) -> float:
    """Return how far ``⟨g_ij, θ̂_i − θ̂_j⟩`` falls short of the norm, relative to the longest."""
    apart = ideal.theta[:, None] - ideal.theta[None]
    lengths = np.linalg.norm(apart, axis=2)
    short = lengths - np.einsum("ijd,ijd->ij", between, apart)
    return float(short.max(initial=0.0) / max(float(lengths.max(initial=0.0)), 1e-300))


def _off_value(ideal: Ideal, built: Built) -> float:
    """Return the largest ``|e_iᵀ(D(θ̂_i) − Z)e_i|``."""
    weights = ideal.members / np.sqrt(ideal.sizes)
    Z = ideal.program.B + built.dual.gamma
    diagonal = own_costs(ideal, built.forces) - built.dual.nu
    values = (weights**2).T @ diagonal - np.einsum("vi,vu,ui->i", weights, Z, weights)
    return float(np.abs(values).max())


def _near(margin: float, size: float) -> tuple[bool, float]:
    return bool(margin >= -_ROUNDING * size), float(margin)


#: the constructions by name, from cheap to expensive; then the paper's as published
CONSTRUCTIONS: dict[str, Callable[[Ideal], Built]] = {
    "node-only": node_only,
    "multiplicative": multiplicative,
    "optimised": optimised,
    "graph-only": graph_only,
    "combined": combined,
    "published node-only": partial(node_only, published=True),
    "published graph-only": partial(graph_only, published=True),
    "published combined": partial(combined, published=True),
}

# Tolerance, as a share of the size of what the objective sums up.
_TOLERANCE = 1e-9

# Steps to improve the bound over a spectral box: to compare constructions, and at the end.
_FEW_STEPS, _STEPS = 3, 60


@dataclass(frozen=True)
class ProgramCertificate:
    """What is proven about a labelling's ideal solution in the convex program.

    Attributes
    ----------
    status : str
        ``certified``, ``gap ≤ x % (y nats)`` or ``no proof``.
    objective : float
        The program's objective at the ideal solution, rounded up.
    lower_bound : float
        A rigorous lower bound of the program, rounded down.
    gap : float
        Their difference, relative to the larger of the objective's size and one.
    tolerance : float
        The difference up to which the status is ``certified``.
    scale : float
        The sum of the absolute values of the terms of the objective.
    construction : str
        Where the dual variables come from.
    conditions : dict
        The conditions of that construction: name → (whether it holds, by how much).
    dual : Dual
        The dual variables.
    seconds : float
        How long it took.
    """

    status: str
    objective: float
    lower_bound: float
    gap: float
    tolerance: float
    scale: float
    construction: str
    conditions: Conditions
    dual: Dual
    seconds: float

    @property
    def certified(self) -> bool:
        """Whether the ideal solution is proven to be optimal, up to the tolerance."""
        return self.status == "certified"

    def explain(self) -> str:
        """Return one sentence that says what it means."""
        by = f"by the {self.construction} construction"
        if self.certified:
            return (
                "Proven: no point of the convex program is better than this labelling by more "
                f"than {self.tolerance:.1e} ({by})."
            )
        failing = [name for name, (holds, _) in self.conditions.items() if not holds]
        why = f"; what fails: {', '.join(failing)}" if failing else ""
        if self.status.startswith("gap"):
            share = self.status.removeprefix("gap ≤ ").partition(" (")[0]
            return (
                f"Not proven to be optimal, but the best point of the convex program is at most "
                f"{share} better than this labelling ({by}{why})."
            )
        return f"Nothing useful is proven of this labelling in the convex program ({by}{why})."


def certify_program(
    problem: Problem,
    labels: ArrayLike,
    construction: str = "best",
    tolerance: float | None = None,
) -> ProgramCertificate:
    """Return what is proven about a labelling in the paper's convex program.

    Parameters
    ----------
    problem : Problem
        With fixed weights; its threshold and its sum of norms count.
    labels : array-like of shape (n,)
        The class 0…K−1 of every node.
    construction : str
        One of `CONSTRUCTIONS`, or "best": those that apply, from cheap to expensive, until one
        proves the labelling optimal; else the best bound, tightened where Θ has few vertices.
    tolerance : float, optional
        Largest accepted difference of objective and bound; by default 1e-9 of the scale.

    Examples
    --------
    >>> from nodeproof import Problem, datasets
    >>> from nodeproof.certificate.program.certify import certify_program
    >>> from nodeproof.graph import Graph
    >>> data = datasets.make_planted(p=0.9, q=0.1, cluster_size=50, random_state=0)
    >>> problem = Problem(Graph(data.graph), [], n_classes=3, weights=(1.0, 0.0, 0.0))
    >>> certify_program(problem, data.y_true).status
    'certified'
    >>> wrong = data.y_true.copy()
    >>> wrong[0] = 1
    >>> certificate = certify_program(problem, wrong)
    >>> certificate.certified, certificate.lower_bound < certificate.objective
    (False, True)
    """
    if construction != "best" and construction not in CONSTRUCTIONS:
        named = ", ".join(repr(name) for name in CONSTRUCTIONS)
        raise InputError(f"construction must be 'best' or one of {named}; got {construction!r}")
    if tolerance is not None:
        check_at_least("tolerance", tolerance, 0.0)
    began = time.perf_counter()
    with threads.using(1):  # matrices are small, and bits must not depend on BLAS threads
        check_memory("the program certificate", problem.n_nodes, 12)
        ideal = Ideal(problem, labels)
        enough = _TOLERANCE * ideal.scale if tolerance is None else float(tolerance)
        names = _applying(ideal) if construction == "best" else [construction]
        tried = _Tried(ideal, enough)
        tried.all_of(names, tightened=construction == "best")
        conditions = check_conditions(ideal, tried.built, _FEW_STEPS)
    gap = relative_gap(ideal.value, tried.proof.bound)
    return ProgramCertificate(
        status_of(ideal.value, tried.proof.bound, enough) if not tried.proven else "certified",
        ideal.value,
        tried.proof.bound,
        gap,
        enough,
        ideal.scale,
        tried.name,
        conditions,
        tried.dual,
        time.perf_counter() - began,
    )


class _Tried:
    """The best of the constructions that were tried."""

    def __init__(self, ideal: Ideal, enough: float) -> None:
        self.ideal, self.enough = ideal, enough
        self.proof, self.name = Proof(-float("inf"), -float("inf")), ""
        self.built: Built
        self.dual: Dual

    @property
    def proven(self) -> bool:
        """Whether the bound reaches the objective."""
        return self.ideal.value - self.proof.bound <= self.enough

    def all_of(self, names: list[str], tightened: bool) -> None:
        """Try constructions until one proves the labelling optimal, then improve the best."""
        for name in names:
            built = CONSTRUCTIONS[name](self.ideal)
            proof = prove(self.ideal, built.dual, _FEW_STEPS if len(names) > 1 else _STEPS)
            if not self.name or proof.bound > self.proof.bound:
                self.name, self.built, self.dual, self.proof = name, built, built.dual, proof
            if self.proven:
                return
        for name, dual in self._more(len(names) > 1, tightened):
            proof = prove(self.ideal, dual, _STEPS)
            if proof.bound > self.proof.bound:
                self.name, self.dual, self.proof = name, dual, proof

    def _more(self, compared: bool, tightened: bool) -> Iterator[tuple[str, Dual]]:
        """Yield the best variables, for more steps over a spectral box; and tightened ones."""
        better = improve(self.ideal, self.dual) if tightened else None
        if better is not None:
            yield f"{self.name} (tightened)", better
        elif compared:
            yield self.name, self.dual


def _applying(ideal: Ideal) -> list[str]:
    """Return the names of the constructions that apply, from cheap to expensive."""
    problem = ideal.problem
    graph = problem.graph if float(problem.weights[0]) else None
    flowing = ["optimised"] if ideal.program.son else []
    if graph is None:
        return ["node-only", *flowing]
    if graph.weighted or graph.null_model != "uniform":
        return ["multiplicative", *flowing]
    return ["multiplicative", *flowing, "combined" if ideal.program.terms else "graph-only"]
