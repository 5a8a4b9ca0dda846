"""Prediction sets on the command line: the column ``set``, and what summaries say of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nodeproof.auto.held_out import hold_out
from nodeproof.errors import InputError
from nodeproof.fitted import Fitted
from nodeproof.inputs import EncodedLabels
from nodeproof.prediction_sets import Limits, limits_of

__all__ = ["check_sets", "set_column", "sets_if_any", "shown_sets"]


def check_sets(
    coverage: float | None, labels: EncodedLabels | None, temperature: float, automatic: bool
) -> None:
    """Raise an error if sets are asked for that the fit could not give.

    Parameters
    ----------
    coverage : float or None
        What was asked for.
    labels : EncodedLabels or None
        The labels to fit.
    temperature : float
        Of the fit.
    automatic : bool
        Whether terms and weights are chosen by held-out labels.
    """
    if coverage is None:
        return
    if temperature == 0:
        raise InputError("--coverage needs probabilities: omit --temperature 0")
    if not automatic:
        raise InputError(
            "--coverage needs held-out labels, which fits with given terms or weights do not have: "
            "omit --term, --counts, --regress, --categories and --source-weights"
        )
    if labels is None or labels.codes is None or hold_out(labels.codes) is None:
        raise InputError(
            "--coverage needs labels of at least two classes, two in one of them: give --labels"
        )


def sets_if_any(fitted: Fitted, coverage: float | None, notes: list[str]) -> Limits | None:
    """Return the limits of sets, or add a note on why there are none: the fit is not lost."""
    if coverage is None:
        return None
    try:
        return limits_of(fitted, coverage)
    except InputError as error:
        notes.append(f"predictions have no sets: {error}")
        return None


def set_column(
    limits: Limits | None, proba: NDArray[Any], classes: NDArray[Any]
) -> dict[str, pa.Array]:
    r"""Return the column ``set`` by its name; nothing without limits.

    Names of classes are joined by ``|``; in a name, ``|`` and ``\`` have a ``\`` before them.

    Parameters
    ----------
    proba : ndarray of shape (n, K)
        Class probabilities of nodes.
    classes : ndarray of shape (K,)
        Names of the classes.

    Examples
    --------
    >>> import numpy as np
    >>> limits = Limits(np.array([0.2, 0.2], np.float32), 0.9, False, 100, 0.0)
    >>> proba = np.array([[0.5, 0.5], [0.1, 0.9]])
    >>> print(*set_column(limits, proba, np.array(["a", "b|c"]))["set"])
    a|b\|c b\|c
    """
    if limits is None:
        return {}
    sets = limits.sets(proba)
    names = [str(name).replace("\\", "\\\\").replace("|", "\\|") for name in classes]
    packed = np.packbits(sets, axis=1)
    _, first, which = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    texts = ["|".join(names[k] for k in np.flatnonzero(sets[at])) for at in first]
    return {"set": pa.array(texts, pa.string()).take(pa.array(which.ravel()))}


def shown_sets(summary: dict[str, Any] | None) -> str:
    """Return what a summary says of sets, for display."""
    if summary is None:
        return ""
    return (
        f"{100 * summary['coverage']:g}% hold the true class; {summary['mean_size']:.2f} classes "
        f"on average, {summary['single']:.0%} one class, {summary['empty']:.0%} none"
    )
