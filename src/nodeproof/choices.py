"""What is chosen for the user where the user said "auto", each choice with its reason."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_selection import f_classif

from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.problem import PAPER_WEIGHTS, Problem
from nodeproof.solvers import CADO, BlockCADO, Result, Status
from nodeproof.solvers.marginals import affordable, marginals
from nodeproof.terms import Covariance, Labels, NodeData, Term

__all__ = [
    "Choices",
    "choose_null_model",
    "choose_probabilities",
    "choose_solver",
    "choose_terms",
    "choose_weights",
]

#: by what was chosen: its value and why
Choices = dict[str, dict[str, Any]]

# A mean so many standard errors from zero, or a class difference this unlikely by chance.
_SIGMAS = 4.0
_P_VALUE = 1e-3

# Means and spreads are taken over no more than so many nodes, evenly spaced.
_MANY = 50_000

# Where these do not decide, so many nodes are fitted with and without means.
_SAMPLE = 1000


def choose_terms(
    terms: Any,
    X: NDArray[Any] | None,
    y: NDArray[np.int64] | None,
    n_classes: int,
    choices: Choices,
) -> list[Term]:
    """Return the bound terms; "auto" takes one for each kind of data there is."""
    nodes = NodeData(n_classes, X, y)
    if isinstance(terms, list | tuple):
        chosen = list(terms)
        for term in chosen:
            if not isinstance(term, Term):
                raise InputError(f"terms must be 'auto' or a list of terms, got {term!r} in it")
        if X is not None and all(term.source != "features" for term in chosen):
            raise InputError(f"X is given, but none of the terms uses features: {chosen}")
        why = "given"
    elif isinstance(terms, str) and terms == "auto":
        chosen, reasons = [], []
        if X is not None:
            intercept, reason = _means_matter(X, y, n_classes)
            chosen.append(Covariance(intercept=intercept))
            reasons.append(reason)
        if y is not None:
            chosen.append(Labels())
            reasons.append(f"{int((y >= 0).sum())} labels")
        why = "; ".join(reasons) or "neither features nor labels"
    else:
        raise InputError(f"terms must be 'auto' or a list of terms, got {terms!r}")
    choices["terms"] = {"value": [repr(term) for term in chosen], "why": why}
    return [term.bind(nodes) for term in chosen]


def _means_matter(X: NDArray[Any], y: NDArray[np.int64] | None, n_classes: int) -> tuple[bool, str]:
    """Tell whether classes may differ in their mean features, not only in covariance."""
    rows = X[:: -(-len(X) // _MANY)]
    mean, spread = rows.mean(axis=0, dtype=np.float64), rows.std(axis=0, dtype=np.float64)
    varying = spread > 0
    if not varying.any():
        return False, "features are constant"
    off_zero = np.abs(mean[varying]) / spread[varying]
    if (off_zero * np.sqrt(len(rows)) > _SIGMAS).any():
        return True, "features are not centred: a mean and a covariance a class"
    whole = np.abs(X.mean(axis=0, dtype=np.float64)[varying]) / spread[varying]
    if (whole < 1e-6).all() and len(X) > 1:
        # Chance does not make means this small: someone has subtracted them.
        return True, "features were standardised: a mean and a covariance a class"
    if y is not None:
        known = y >= 0
        if known.sum() > len(np.unique(y[known])) > 1:
            with np.errstate(divide="ignore", invalid="ignore"):
                _, p_values = f_classif(X[known][:, varying], y[known])
            if np.nanmin(p_values, initial=1.0) * varying.sum() < _P_VALUE:
                return True, "class means of the labelled nodes differ: a mean a class"
    if n_classes > 1 and _means_pay(X, y, n_classes):
        return True, "features fall into groups with means of their own: a mean a class"
    return False, "features are centred: a covariance a class, as in the paper"


def _means_pay(X: NDArray[Any], y: NDArray[np.int64] | None, n_classes: int) -> bool:
    """Tell whether class means lower the free energy of a sample by more than they cost (BIC)."""
    step = -(-len(X) // _SAMPLE)
    sample = NodeData(n_classes, X[::step], None if y is None else y[::step])
    labels = [Labels().bind(sample)] if sample.y is not None else []
    solver = BlockCADO(n_init=2, max_iter=30, tol=1e-2, random_state=0)
    values = []
    for intercept in (False, True):
        term = Covariance(intercept=intercept).bind(sample)
        values.append(solver.solve(Problem(None, [term, *labels], n_classes)).value)
    n, m = sample.X.shape  # type: ignore[union-attr]
    return values[0] - values[1] > 0.5 * n_classes * m * np.log(n)


def choose_null_model(graph: Graph, asked: str, choices: Choices) -> None:
    """Note which null model the graph was given, and why."""
    why = "given"
    if asked == "auto":
        why = (
            f"degrees spread {max(graph.degree_dispersion(), 0.0):.2f} beyond chance "
            "(squared coefficient of variation)"
        )
    choices["null_model"] = {"value": graph.null_model, "why": why}


def choose_weights(
    weights: Any, threshold: Any, solver: Any, choices: Choices
) -> tuple[Any, float]:
    """Return the weights and the threshold."""
    published = solver == "cado" or isinstance(solver, CADO)
    why = "given"
    if isinstance(weights, str) and weights == "auto":
        weights = PAPER_WEIGHTS if published else "calibrated"
        why = "the paper's" if published else "likelihoods, re-estimated from the rows"
    if isinstance(weights, str):
        if weights != "calibrated":
            raise InputError(
                "weights must be 'auto', 'calibrated' or three numbers (graph, features, labels), "
                f"got {weights!r}"
            )
        if published:
            raise InputError("CADO as published needs fixed weights, for example (1, 2.5, 13)")
        if threshold != "auto":
            raise InputError("calibrated weights estimate the threshold; leave it at 'auto'")
    else:
        try:
            weights = tuple(float(weight) for weight in weights)
        except TypeError:
            weights = (weights,)
        if len(weights) != 3 or not all(
            isinstance(weight, float) and 0 <= weight < np.inf for weight in weights
        ):
            raise InputError(
                f"weights must be three numbers ≥ 0 (graph, features, labels), got {weights}"
            )
    choices["weights"] = {"value": weights, "why": why}
    if threshold == "auto":
        return weights, 0.5
    if isinstance(threshold, str) or not np.isfinite(threshold):
        raise InputError(f"threshold must be 'auto' or a number, got {threshold!r}")
    return weights, float(threshold)


def choose_solver(solver: Any, choices: Choices, **settings: Any) -> Any:
    """Return the solver: a name's, with the classifier's settings, or the object given."""
    common = {key: settings[key] for key in ("max_iter", "tol", "n_jobs", "random_state")}
    if isinstance(solver, str):
        if solver in ("auto", "block"):
            chosen: Any = BlockCADO(
                temperature=settings["temperature"], n_init=settings["n_init"], **common
            )
        elif solver == "cado":
            chosen = CADO(**common)
        else:
            raise InputError(
                f"solver must be 'auto', 'block', 'cado' or a solver object, got {solver!r}"
            )
    elif hasattr(solver, "solve"):
        chosen = solver
    else:
        raise InputError(f"solver must be a name or have a method solve, got {solver!r}")
    why = "the default" if solver == "auto" else "given"
    choices["solver"] = {"value": type(chosen).__name__, "why": why}
    return chosen


def choose_probabilities(
    problem: Problem, result: Result, solver: Any, choices: Choices
) -> NDArray[Any]:
    """Return the rows to report: by belief propagation where it applies and settles."""
    rows: NDArray[Any] | None = None
    if not problem.calibrated or getattr(solver, "temperature", None) != 1.0:
        why = "weights are not likelihoods, or the temperature is not 1"
    elif result.status is Status.INTERRUPTED:
        why = "the fit was interrupted"
    elif problem.graph is None:
        why = "without links they are exact given the class models"
    elif not affordable(problem):
        why = "belief propagation would need more memory than the graph"
    else:
        rows = marginals(problem, result, tol=solver.tol, n_jobs=solver.n_jobs)
        why = (
            "belief propagation did not settle" if rows is None else "nodes do not hear their echo"
        )
    value = "the solver's rows" if rows is None else "belief propagation"
    choices["probabilities"] = {"value": value, "why": why}
    return result.W if rows is None else rows
