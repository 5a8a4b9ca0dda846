"""Choice of null model, weights, solver and reported probabilities.

Each function adds what it chose, and why, to the record of automatic choices (``clf.choices_``).
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from nodeproof.auto.evaluation import Evaluation
from nodeproof.auto.likelihoods import describes_links
from nodeproof.convex.admm import BlockADMM
from nodeproof.convex.cano import CANO
from nodeproof.convex.sdp import ExactSDP
from nodeproof.errors import InputError, count_of
from nodeproof.graph import Graph
from nodeproof.problem import PAPER_WEIGHTS, Problem
from nodeproof.solvers import CADO, BlockCADO, Result, Status
from nodeproof.solvers.base import LARGEST, check_at_least, check_solver
from nodeproof.solvers.beliefs import affordable, reported_probabilities

__all__ = [
    "CADO_SOLVERS",
    "CONVEX_SOLVERS",
    "Choices",
    "choose_null_model",
    "choose_probabilities",
    "choose_solver",
    "choose_weights",
    "is_convex",
    "most_certain",
]


# Factor of log-probabilities where links are not as the model says and no label judges it. Of real
# graphs whose labels were hidden, those wanted 0.1 to 0.3.
_UNJUDGED_SCALE = 0.2


#: record of automatic choices: what was chosen -> its value and the reason
Choices = dict[str, dict[str, Any]]


#: the two readings of CADO as published, by name: what the gradient is taken in
CADO_SOLVERS: dict[str, Any] = {"cado": "e", "cado-W": "W"}

#: the solvers of the convex program, by name
CONVEX_SOLVERS: dict[str, Any] = {"sdp": ExactSDP, "admm": BlockADMM, "cano": CANO}


def choose_null_model(graph: Graph, asked: str, choices: Choices) -> None:
    """Record which null model the graph has, and why."""
    why = "given"
    if asked == "auto":
        why = (
            f"squared coefficient of variation of the degrees: "
            f"{max(graph.degree_dispersion(), 0.0):.2f} above chance"
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
    fixed = convex or isinstance(solver, CADO) or solver in tuple(CADO_SOLVERS)
    why, trust = "given", None
    if isinstance(weights, str) and weights == "auto":
        weights = PAPER_WEIGHTS if fixed else "calibrated"
        why = "the paper's" if fixed else "likelihoods, re-estimated from the memberships"
    elif isinstance(weights, str) and weights == "calibrated":
        trust = 1.0
    elif isinstance(weights, Real) and not isinstance(weights, bool):
        check_at_least("weights", weights, 0.0, LARGEST)
        weights, trust = "calibrated", float(weights)
        choices["trust"] = {"value": trust, "why": "given"}
    if isinstance(weights, str):
        if weights != "calibrated":
            raise InputError(
                "weights must be 'auto', 'calibrated', the trust in the graph, such as 0.5, or "
                f"three numbers (graph, features, labels), got {weights!r}"
            )
        if fixed:
            what = "the convex program" if convex else "CADO as published"
            raise InputError(f"{what} needs fixed weights, for example (1, 2.5, 13)")
        if threshold != "auto":
            raise InputError(
                "with calibrated weights the threshold is estimated; leave it at 'auto'"
            )
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
            f"weights must be three numbers from 0 to {LARGEST:g} (graph, features, labels), "
            f"got {three}"
        )
    return three


def choose_solver(solver: Any, choices: Choices, **settings: Any) -> Any:
    """Return the solver: by name, with the classifier's settings, or the object given."""
    common = {key: settings[key] for key in ("max_iter", "tol", "n_jobs", "random_state")}
    if isinstance(solver, str):
        if solver in ("auto", "block"):
            chosen: Any = BlockCADO(
                temperature=settings["temperature"],
                n_init=settings["n_init"],
                **common,
            )
        elif solver in CADO_SOLVERS:
            # Its iterations are no sweeps, and it stops by the objective: its own defaults.
            own = {key: settings[key] for key in ("n_jobs", "random_state")}
            chosen = CADO(gradient=CADO_SOLVERS[solver], **own)
        elif solver in CONVEX_SOLVERS:
            chosen = CONVEX_SOLVERS[solver](random_state=settings["random_state"])
        else:
            known = ("auto", "block", *CADO_SOLVERS, *CONVEX_SOLVERS)
            names = ", ".join(map(repr, known))
            raise InputError(f"solver must be one of {names} or a solver object, got {solver!r}")
    else:
        chosen = check_solver(solver)
    why = "the default" if solver == "auto" else "given"
    choices["solver"] = {"value": type(chosen).__name__, "why": why}
    return chosen


def most_certain(n_classes: int | None, given: NDArray[np.int64] | None, n_fitted: int) -> float:
    """Return an upper limit of class probabilities, given the labels.

    If all m labels name one class, nothing is known about other classes, not even whether there
    are any. By Laplace's rule of succession one more node is of this class with probability
    (m + 1)/(m + 2). With labels of several classes, or if the user gives the number of classes,
    the limit is 1.

    Parameters
    ----------
    n_classes : int or None
        Number of classes, if the user gives it.
    given : ndarray of shape (n,), or None
        Class numbers of labels, −1 where there is none.
    n_fitted : int
        Number of classes of the model: an update may leave labels of one of them alone.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.auto.settings import most_certain
    >>> most_certain(None, np.array([0, 0, 0, -1]), 1), most_certain(None, np.array([0, 1, -1]), 2)
    (0.8, 1.0)
    """
    if n_classes is not None or given is None or n_fitted != 1 or given.max(initial=-1) != 0:
        return 1.0
    m = int((given >= 0).sum())
    return (m + 1) / (m + 2)


def choose_probabilities(
    problem: Problem,
    result: Result,
    solver: Any,
    judged: Evaluation | None,
    most: float,
    choices: Choices,
    doubted: bool = False,
) -> tuple[NDArray[Any], float]:
    """Return the probabilities to report: calibrated on held-out labels, or by belief propagation.

    Without held-out labels, nothing says how far the likelihood of links may be trusted but the
    links themselves: where neighbours of a node are linked far more often than the model says,
    log-probabilities are damped.

    Parameters
    ----------
    most : float
        Upper limit of class probabilities.
    doubted : bool
        Whether to look at the links, if no held-out labels were there to judge by.

    Returns
    -------
    ndarray of shape (n, K)
        The probabilities.
    float
        The factor of their logarithms, at most 1.
    """
    scale = 1.0
    beliefs: NDArray[Any] | None = None
    value = "the solver's memberships"
    if not problem.calibrated or getattr(solver, "temperature", None) != 1.0:
        why = "weights are not likelihoods, or the temperature is not 1"
    elif result.status is Status.INTERRUPTED:
        why = "the fit was interrupted"
    elif problem.terms and problem.terms[0].discriminative:
        value = "the pool's" if judged is not None else value
        why = "calibrated on held-out labels"
    else:
        beliefs, share = reported_probabilities(problem, result, solver)
        if problem.graph is None or problem.trust == 0:
            why = "without links they are exact given the class models"
        elif not affordable(problem):
            why = "belief propagation would need more memory than the graph"
        elif beliefs is None:
            why = "belief propagation did not converge"
        else:
            value, why = "belief propagation", "a node's own influence is not counted twice"
        if share < 1.0:
            rivals = count_of(len(result.alternatives), "other start")
            why += f"; averaged with {rivals} that ended elsewhere, almost as good"
    reported = np.asarray(result.W if beliefs is None else beliefs)
    calibrated = problem.calibrated and getattr(solver, "temperature", None) == 1.0
    if doubted and judged is None and calibrated and problem.graph is not None:
        codes = reported.argmax(axis=1)
        if problem.graph.n_entries and not describes_links(problem.graph, codes, problem.n_classes):
            scale = _UNJUDGED_SCALE
            reported = softmax(scale * np.log(np.maximum(reported, 1e-9)), axis=1)
            why += (
                "; damped, because neighbours of a node are linked more often than the model says "
                "and no labels could be held out to judge it"
            )
    if most < 1.0 and getattr(solver, "temperature", None) != 0.0:
        reported = most * reported
        why += f"; at most {most:.3f}, because all labels name one class"
    choices["probabilities"] = {"value": value, "why": why}
    return reported, scale
