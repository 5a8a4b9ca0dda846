"""Questions about exact recovery: whether it is promised, proven, found, possible.

Every node has a score for each class, ``z_v = e_{y_v} + noise``, and the loss
``f_v(π) = −⟨z_v, π⟩`` over the simplex: the paper's loss of labels, with scores that vary. Its
gradients do not depend on the models, so the noise is scaled to have exactly the gradient
variability ρ (Assumption 5) that is asked for. Weights are those of Theorem 1: γ is fixed, and
``μ = m·n/n_i`` where ``n_i ≤ √n``, ``m·n/√n_i`` elsewhere.

Each ``ask_…`` is a method of the experiments: from one draw of planted data to an `Outcome`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from nodeproof.certificate import Stage, certify
from nodeproof.certificate.program.certify import certify_program
from nodeproof.datasets import Planted
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.metrics import matched_accuracy
from nodeproof.paper import theory
from nodeproof.paper.theory.counterexamples import Prices
from nodeproof.problem import Problem
from nodeproof.solvers import BlockCADO

__all__ = [
    "QUESTIONS",
    "Outcome",
    "Question",
    "ask_program",
    "ask_proof",
    "ask_solver",
    "ask_theorem",
    "ask_theory",
]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a method on one draw of planted data.

    Attributes
    ----------
    labels : ndarray of shape (n,), or None
        Classes 0…K−1; None for a method that labels no node.
    named : bool
        Whether the method was given labels, so that the names of its classes are meaningful.
    n_iter, status, objective
        As the solver reports them, where there is one.
    trace, times : dict of list
        By name, the values of a quantity over the iterations, and the seconds since the start
        (without the time taken to measure).
    answers : dict of float
        By name, the method's answers about the data: 1 for yes, 0 for no, or a number.
    """

    labels: NDArray[np.int64] | None
    named: bool
    n_iter: int | None = None
    status: str | None = None
    objective: float | None = None
    trace: Mapping[str, list[float]] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)
    answers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    """A question: the method that is asked, the name of its answer, and the title of the map."""

    method: str
    answer: str
    title: str


#: the maps of a panel of answers, from the most cautious answer to the boldest
QUESTIONS = (
    Question("theorem", "claimed", "Theorem 1 as printed claims it"),
    Question("theorem", "promised", "Theorem 1 as corrected promises it"),
    Question("program", "certified", "proven in the convex program"),
    Question("proof", "certified", "proven best of all labellings"),
    Question("recovery", "recovered", "found by block CADO"),
    Question("possible", "possible", "possible at all"),
)


Array = NDArray[np.float64]
_RHO, _MU, _GAMMA = 0.5, 3.0, 0.1
_TINY = 1e-300

# Relative gap above which no certificate counts as closed.
_GAP = 1e-6


class Scores(Prices):
    """The loss ``−⟨z_v, π⟩`` over the simplex; solvers start from the best scores."""

    def of(self, prices: Array) -> Self:
        """Return a copy that holds ``−z``, shape (n, K)."""
        bound = super().of(prices)
        bound.y = prices.argmin(axis=1)
        return bound


def ask_theorem(
    data: Planted,
    sources: str,
    seed: int,
    rho: float = _RHO,
    mu: float = _MU,
    gamma: float = _GAMMA,
) -> Outcome:
    """Ask whether Theorem 1 covers the planted classes: part 1, 2 or 3, by the sources."""
    problem = _problem(data, sources, rho, mu, gamma)
    found = theory.measure(problem, data.y_true)
    said = theory.theorem(found)
    part = said.combined or said.nodes or said.graph
    assert part is not None
    answers = {"promised": float(part.promised), "claimed": float(part.claimed)}
    if found.models is not None:
        answers["rho"] = found.models.rho
    return Outcome(None, named=False, answers=answers)


def ask_program(
    data: Planted,
    sources: str,
    seed: int,
    rho: float = _RHO,
    mu: float = _MU,
    gamma: float = _GAMMA,
) -> Outcome:
    """Ask for a closed-form proof that the classes are optimal in the paper's convex program."""
    problem = _problem(data, sources, rho, mu, gamma)
    certificate = certify_program(problem, data.y_true, construction="multiplicative")
    return Outcome(
        None,
        named=False,
        status=certificate.status,
        objective=certificate.objective,
        answers={"certified": float(certificate.certified)},
    )


def ask_proof(
    data: Planted, sources: str, seed: int, rho: float = _RHO, mu: float = _MU
) -> Outcome:
    """Ask for a closed-form proof that the planted classes are the best of all labellings."""
    looks = 0

    def enough(stage: Stage) -> bool:
        nonlocal looks
        looks += 1
        # The next stage, proofs for single nodes, takes longest.
        return looks == 2 and stage.objective - stage.lower_bound > _GAP * abs(stage.objective)

    problem = _problem(data, sources, rho, mu, 0.0)
    # A search that the clock ends would not be reproducible.
    found = certify(problem, data.y_true, time_budget=0.0, callback=enough, random_state=seed)
    return Outcome(
        None,
        named=False,
        status=found.status,
        objective=found.objective,
        answers={"certified": float(found.certified and _planted(data, found.labels))},
    )


def ask_solver(
    data: Planted, sources: str, seed: int, rho: float = _RHO, mu: float = _MU
) -> Outcome:
    """Ask block CADO for the classes, and whether it has found every node's."""
    problem = _problem(data, sources, rho, mu, 0.0)
    result = BlockCADO(temperature=0.0, n_jobs=1, random_state=seed).solve(problem)
    labels = result.W.argmax(axis=1)
    return Outcome(
        labels,
        "L" in sources,
        result.n_iter,
        str(result.status),
        result.value,
        answers={"recovered": float(_planted(data, labels))},
    )


def ask_theory(data: Planted, sources: str, seed: int, rho: float = _RHO) -> Outcome:
    """Ask whether any method could recover them: exponent against log n, genie on this draw.

    Both know the parameters. Scores of two classes are ``√2`` apart, with Gaussian noise of
    deviation τ: they add ``s(1 − s)/τ²`` to the exponent, which is largest at s = 1/2, as it is for
    symmetric links.
    """
    sizes = np.asarray(data.params["sizes"])
    if len(set(sizes.tolist())) > 1:
        raise InputError(f"the limits of recovery need classes of one size; got {sizes}")
    exponent, log_likelihood = 0.0, np.zeros((len(data.y), len(sizes)))
    if "G" in sources:
        # Other classes do not help to tell two apart.
        links = theory.exact_recovery(sizes[:2], data.params["p"], data.params["q"])
        exponent += links.exponent
        log_likelihood += np.log(np.maximum(data.genie_proba("G"), _TINY))
    if "L" in sources:
        scores, deviation = _scores(data, rho)
        exponent += 0.25 / deviation**2
        log_likelihood += scores / deviation**2
    labels = log_likelihood.argmax(axis=1)
    return Outcome(
        labels,
        named=True,
        answers={
            "possible": float(exponent > np.log(len(labels))),
            "faultless": float((labels == data.y_true).all()),
        },
    )


def _planted(data: Planted, labels: NDArray[np.int64]) -> bool:
    return bool(matched_accuracy(data.y_true, labels) == 1.0)


def _scores(data: Planted, rho: float) -> tuple[Array, float]:
    """Return each node's score for each class, and the deviation of their noise."""
    K = data.params["n_clusters"]
    if data.X.shape[1] < K:
        raise InputError(
            f"scores take their noise from the features, one per class: got {data.X.shape[1]} "
            f"features for {K} classes"
        )
    noise = data.X[:, :K]
    widest = max(float(pdist(noise[data.y_true == i]).max(initial=0.0)) for i in range(K))
    labelled = np.flatnonzero(data.y >= 0)
    scores = noise * (rho / widest)
    scores[labelled, data.y[labelled]] += 1.0
    return scores, data.params["sigma"] * rho / widest


def _problem(data: Planted, sources: str, rho: float, mu: float, gamma: float) -> Problem:
    """Return the paper's problem on the sources, with the weights of Theorem 1."""
    K, n, least = data.params["n_clusters"], len(data.y), float(np.min(data.params["sizes"]))
    weight = mu * n / (least if least <= np.sqrt(n) else np.sqrt(least))
    graph = Graph(data.graph, "uniform") if "G" in sources else None
    if "L" not in sources:
        return Problem(graph, [], K, (1.0, 0.0, 0.0))
    term = Scores().of(-_scores(data, rho)[0])
    return Problem(graph, [term], K, (1.0, 0.0, weight), son=gamma * weight / n)
