"""Null model, weights and solver."""

from __future__ import annotations

from numbers import Real
from typing import Any

from nodeproof.choices.base import Choices
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.problem import PAPER_WEIGHTS
from nodeproof.solvers import CADO, CANO, BlockADMM, BlockCADO, ExactSDP
from nodeproof.solvers.base import LARGEST, check_at_least

__all__ = ["CONVEX_SOLVERS", "choose_null_model", "choose_solver", "choose_weights", "is_convex"]

#: the solvers of the convex program, by name
CONVEX_SOLVERS: dict[str, Any] = {"sdp": ExactSDP, "admm": BlockADMM, "cano": CANO}


def choose_null_model(graph: Graph, asked: str, choices: Choices) -> None:
    """Note which null model the graph was given, and why."""
    why = "given"
    if asked == "auto":
        why = (
            f"degrees spread {max(graph.degree_dispersion(), 0.0):.2f} beyond chance "
            "(squared coefficient of variation)"
        )
    choices["null_model"] = {"value": graph.null_model, "why": why}


def is_convex(solver: Any) -> bool:
    """Tell whether a solver, by name or as an object, solves the convex program."""
    named = isinstance(solver, str) and solver in CONVEX_SOLVERS
    return named or isinstance(solver, tuple(CONVEX_SOLVERS.values()))


def choose_weights(
    weights: Any, threshold: Any, solver: Any, graph: Graph | None, choices: Choices
) -> tuple[Any, float, float | None]:
    """Return the weights, the threshold, and the trust in the graph (None: to be chosen)."""
    convex = is_convex(solver)
    fixed = convex or solver == "cado" or isinstance(solver, CADO)
    why, trust = "given", None
    if isinstance(weights, str) and weights == "auto":
        weights = PAPER_WEIGHTS if fixed else "calibrated"
        why = "the paper's" if fixed else "likelihoods, re-estimated from the rows"
    elif isinstance(weights, str) and weights == "calibrated":
        trust = 1.0
    elif isinstance(weights, Real) and not isinstance(weights, bool):
        check_at_least("weights", weights, 0.0, LARGEST)
        weights, trust = "calibrated", float(weights)
        choices["trust"] = {"value": trust, "why": "given"}
    if isinstance(weights, str):
        if weights != "calibrated":
            raise InputError(
                "weights must be 'auto', 'calibrated', a trust in the graph such as 0.5, or three "
                f"numbers (graph, features, labels), got {weights!r}"
            )
        if fixed:
            what = "the convex program" if convex else "CADO as published"
            raise InputError(f"{what} needs fixed weights, for example (1, 2.5, 13)")
        if threshold != "auto":
            raise InputError("calibrated weights estimate the threshold; leave it at 'auto'")
    else:
        weights = _three_weights(weights)
    choices["weights"] = {"value": weights, "why": why}
    if threshold == "auto":
        if not convex or graph is None:
            return weights, 0.5, trust
        # With 1/2, classes that are sparser than that would fall apart into single nodes.
        why = "the density of the graph, which lies between those inside and across classes"
        choices["threshold"] = {"value": graph.density, "why": why}
        return weights, graph.density, trust
    if not isinstance(threshold, Real) or not abs(float(threshold)) <= LARGEST:
        raise InputError(f"threshold must be 'auto' or a finite number, got {threshold!r}")
    return weights, float(threshold), trust


def _three_weights(weights: Any) -> tuple[float, ...]:
    try:
        three = tuple(float(weight) for weight in weights)
    except TypeError:
        three = (weights,)
    if len(three) != 3 or not all(
        isinstance(weight, float) and 0 <= weight <= LARGEST for weight in three
    ):
        raise InputError(
            f"weights must be three numbers ≥ 0 (graph, features, labels), none above {LARGEST:g}, "
            f"got {three}"
        )
    return three


def choose_solver(solver: Any, choices: Choices, **settings: Any) -> Any:
    """Return the solver: a name's, with the classifier's settings, or the object given."""
    common = {key: settings[key] for key in ("max_iter", "tol", "n_jobs", "random_state")}
    if isinstance(solver, str):
        if solver in ("auto", "block"):
            chosen: Any = BlockCADO(
                temperature=settings["temperature"],
                n_init=settings["n_init"],
                **common,
            )
        elif solver == "cado":
            chosen = CADO(**common)
        elif solver in CONVEX_SOLVERS:
            chosen = CONVEX_SOLVERS[solver](random_state=settings["random_state"])
        else:
            names = ", ".join(repr(name) for name in ("auto", "block", "cado", *CONVEX_SOLVERS))
            raise InputError(f"solver must be one of {names} or a solver object, got {solver!r}")
    elif hasattr(solver, "solve"):
        chosen = solver
    else:
        raise InputError(f"solver must be a name or have a method solve, got {solver!r}")
    why = "the default" if solver == "auto" else "given"
    choices["solver"] = {"value": type(chosen).__name__, "why": why}
    return chosen
