"""The probabilities to report."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from nodeproof.choices.base import Choices
from nodeproof.io.files import count_of
from nodeproof.problem import Problem
from nodeproof.solvers import Result, Status
from nodeproof.solvers.marginals import affordable, reported_rows
from nodeproof.terms import Softmax
from nodeproof.tuning import Tuned

__all__ = ["choose_probabilities", "most_certain"]

# Entries of rows below this count as this.
_LEAST_ROW = 1e-9


def most_certain(n_classes: int | None, given: NDArray[np.int64] | None) -> float:
    """Return how probable a class can be at most, by the labels that were given.

    Where all of m labels name one class, nothing is known of other classes, not even that there
    are none. By Laplace's rule of succession one more node has this class with probability
    (m + 1)/(m + 2). With labels of several classes, or where the user says how many there are,
    the limit is 1.

    Parameters
    ----------
    n_classes : int or None
        Number of classes, where the user says.
    given : ndarray of shape (n,), or None
        Class numbers of labels, −1 where there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.choices.probabilities import most_certain
    >>> most_certain(None, np.array([0, 0, 0, -1])), most_certain(None, np.array([0, 1, -1]))
    (0.8, 1.0)
    """
    if n_classes is not None or given is None or given.max(initial=-1) != 0:
        return 1.0
    m = int((given >= 0).sum())
    return (m + 1) / (m + 2)


def choose_probabilities(
    problem: Problem,
    result: Result,
    solver: Any,
    tuned: Tuned | None,
    most: float,
    choices: Choices,
) -> NDArray[Any]:
    """Return the rows to report: scaled as held-out labels suggest, or without echo.

    Parameters
    ----------
    most : float
        How probable a class can be at most.
    """
    rows: NDArray[Any] | None = None
    value = "the solver's rows"
    if not problem.calibrated or getattr(solver, "temperature", None) != 1.0:
        why = "weights are not likelihoods, or the temperature is not 1"
    elif result.status is Status.INTERRUPTED:
        why = "the fit was interrupted"
    elif isinstance(problem.terms[0] if problem.terms else None, Softmax):
        why = "a classifier's, its sharpness by labels held back"
    else:
        rows, share = reported_rows(problem, result, solver)
        if problem.graph is None or problem.trust == 0:
            why = "without links they are exact given the class models"
        elif not affordable(problem):
            why = "belief propagation would need more memory than the graph"
        elif rows is None:
            why = "belief propagation did not settle"
        else:
            value, why = "belief propagation", "nodes do not hear their echo"
        if share < 1.0:
            rivals = count_of(len(result.rivals), "other start")
            why += f"; averaged with {rivals} that ended elsewhere, almost as good"
    reported = np.asarray(result.W if rows is None else rows)
    if tuned is not None and getattr(solver, "temperature", None) == 1.0:
        scale = tuned.scale
        reported = np.exp(log_softmax(scale * np.log(np.maximum(reported, _LEAST_ROW)), axis=1))
        why += f"; scores × {scale:.2f}, as {len(tuned.held.nodes)} labels held back bear out"
    if most < 1.0 and getattr(solver, "temperature", None) != 0.0:
        reported = most * reported
        why += f"; at most {most:.3f}, as all labels name one class"
    choices["probabilities"] = {"value": value, "why": why}
    return reported
