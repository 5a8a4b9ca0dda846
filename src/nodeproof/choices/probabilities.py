"""The probabilities to report."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from nodeproof.choices.base import Choices
from nodeproof.problem import Problem
from nodeproof.solvers import Result, Status
from nodeproof.solvers.marginals import affordable, without_echo
from nodeproof.terms import Softmax
from nodeproof.tuning import Tuned

__all__ = ["choose_probabilities"]

# Entries of rows below this count as this.
_LEAST_ROW = 1e-9


def choose_probabilities(
    problem: Problem, result: Result, solver: Any, tuned: Tuned | None, choices: Choices
) -> NDArray[Any]:
    """Return the rows to report: scaled as labels held back bear out, or without echo."""
    rows: NDArray[Any] | None = None
    if not problem.calibrated or getattr(solver, "temperature", None) != 1.0:
        why = "weights are not likelihoods, or the temperature is not 1"
    elif result.status is Status.INTERRUPTED:
        why = "the fit was interrupted"
    elif isinstance(problem.terms[0] if problem.terms else None, Softmax):
        why = "a classifier's, its sharpness by labels held back"
    elif problem.graph is None or problem.trust == 0:
        why = "without links they are exact given the class models"
    elif not affordable(problem):
        why = "belief propagation would need more memory than the graph"
    else:
        rows = without_echo(problem, result, solver)
        why = (
            "belief propagation did not settle" if rows is None else "nodes do not hear their echo"
        )
    value = "the solver's rows" if rows is None else "belief propagation"
    reported = np.asarray(result.W if rows is None else rows)
    if tuned is not None and getattr(solver, "temperature", None) == 1.0:
        scale = tuned.scale
        reported = np.exp(log_softmax(scale * np.log(np.maximum(reported, _LEAST_ROW)), axis=1))
        why += f"; scores × {scale:.2f}, as {len(tuned.held.nodes)} labels held back bear out"
    choices["probabilities"] = {"value": value, "why": why}
    return reported
