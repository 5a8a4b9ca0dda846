"""FittedTargets: all that a fit to numeric targets has found, as one frozen object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.auto.settings import Choices
from nodeproof.conformal import largest_score
from nodeproof.errors import InputError, count_of
from nodeproof.inputs import Unit, check_reach
from nodeproof.inputs.knn import Neighbours
from nodeproof.inputs.new_links import check_links
from nodeproof.inputs.node_names import Names
from nodeproof.inputs.preparation import Preparation
from nodeproof.regression.settings import RegressionSettings
from nodeproof.regression.stack import Stack
from nodeproof.runtime.logs import warn_caller
from nodeproof.smoothing import dense_rows
from nodeproof.terms import NewNodes

__all__ = ["Difficulty", "ErrorEstimate", "FittedTargets", "error_of", "find_suspects"]

Array = NDArray[np.float64]

# How much more, or less, a node may count as difficult than others.
_MOST_SPREAD = 5.0

# Targets that are off by so many times the usual error are suspect; it takes so many to tell.
_FAR_OFF, _ENOUGH_TO_TELL = 6.0, 20


class ErrorEstimate(NamedTuple):
    """How far predictions are off, by targets that were held out of fits, choices and weights.

    Attributes
    ----------
    rmse, rmse_low, rmse_high : float
        Root mean squared error, and its 95 % interval.
    r2, r2_low, r2_high : float
        Share of the variance of the targets that is explained, and its 95 % interval.
    mae : float
        Mean absolute error.
    n_targets : int
        Number of targets.
    """

    rmse: float
    rmse_low: float
    rmse_high: float
    r2: float
    r2_low: float
    r2_high: float
    mae: float
    n_targets: int


def error_of(targets: Array, predictions: Array, means: Array) -> ErrorEstimate:
    """Return how far predictions of held-out targets are off.

    Parameters
    ----------
    targets, predictions : ndarray of shape (h,)
        What was held out, and what was said of it.
    means : ndarray of shape (h,)
        The mean of the targets that the fit had seen: to predict it explains nothing.
    """
    scale = max(float(np.abs(targets).max()), np.finfo(float).tiny)
    off, base = (targets - predictions) / scale, (targets - means) / scale
    squares, all_squares, h = off**2, base**2, len(targets)
    mse, variance = float(squares.mean()), float(all_squares.mean())
    error = 1.96 * float(squares.std() / np.sqrt(h))
    low, high = max(mse - error, 0.0), mse + error
    r2 = (0.0, 0.0, 0.0)
    if variance > 0:
        share = mse / variance
        # The ratio of two means, to first order.
        rest = squares - share * all_squares
        spread = 1.96 * float(rest.std() / np.sqrt(h)) / variance
        r2 = (1.0 - share, 1.0 - share - spread, min(1.0 - share + spread, 1.0))
    rmse, least, most = (scale * float(np.sqrt(value)) for value in (mse, low, high))
    return ErrorEstimate(rmse, least, most, *r2, scale * float(np.abs(off).mean()), h)


@dataclass(frozen=True)
class Difficulty:
    """How far predictions are usually off at a node, relative to others.

    Attributes
    ----------
    stack : Stack
        Of the logarithms of how far predictions of held-out nodes were off.
    """

    stack: Stack

    def spread(self, logs: Array) -> Array:
        """Return factors of the widths of intervals from predicted logarithms."""
        return np.clip(np.exp(logs - self.stack.mean), 1.0 / _MOST_SPREAD, _MOST_SPREAD)


@dataclass(frozen=True)
class FittedTargets:
    """What a fit to numeric targets has found.

    Attributes
    ----------
    settings : RegressionSettings
        How it was fitted.
    given : ndarray of shape (n,)
        The targets, NaN where unknown.
    predictions : ndarray of shape (n,)
        Of all nodes; where a target was given, by fits that have not seen it.
    spread : ndarray of shape (n,)
        Factors of the widths of intervals, around 1.
    scores : ndarray of shape (h,)
        How far predictions of held-out targets were off, divided by `spread`.
    centre, scale : float
        The experts' targets are ``(y − centre) / scale``.
    stack : Stack
        The pool of experts.
    difficulty : Difficulty or None
        What `spread` is predicted by; None: intervals have the same width everywhere.
    choices : dict
        Record of automatic choices.
    estimated_error : ErrorEstimate or None
        By held-out targets; None with fewer than two.
    suspects : record array with the fields node, given, predicted, times_off
        Targets that are far outside, the farthest first.
    """

    settings: RegressionSettings
    given: Array
    predictions: Array
    spread: Array
    scores: Array
    centre: float
    scale: float
    stack: Stack
    difficulty: Difficulty | None
    choices: Choices
    estimated_error: ErrorEstimate | None
    suspects: np.recarray[Any, Any]
    on_graph: bool = False
    n_links: int = 0
    link_unit: float = 1.0
    neighbours: Neighbours | None = None
    unit: Unit | None = None
    n_features: int | None = None
    feature_names: NDArray[Any] | None = None
    node_ids: NDArray[Any] | None = None
    preparation: Preparation | None = None
    notes: tuple[str, ...] = field(default=())
    command: str = ""

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.predictions)

    @property
    def known(self) -> NDArray[np.int64]:
        """Nodes whose target was given."""
        return np.flatnonzero(~np.isnan(self.given))

    @property
    def names(self) -> NDArray[Any]:
        """Names of the nodes; by default their positions."""
        return np.arange(self.n_nodes) if self.node_ids is None else self.node_ids

    def half_width(self, coverage: Any) -> float:
        """Return half the width of intervals where `spread` is 1; infinite with too few targets."""
        if not isinstance(coverage, Real) or not 0 < float(coverage) < 1:
            raise InputError(
                f"coverage must be a number between 0 and 1, such as 0.9; got {coverage!r}"
            )
        share = float(coverage)
        half = largest_score(self.scores, share) if len(self.scores) else np.inf
        if not np.isfinite(half):
            needed = int(np.ceil(share / (1.0 - share) - 1e-9))
            warn_caller(
                f"a coverage of {share:g} needs at least {needed} targets, and there are "
                f"{len(self.known)}: all intervals are infinite. Give more targets, or ask for less"
            )
        return half

    def intervals(self, coverage: Any) -> Array:
        """Return the interval of every node, shape (n, 2)."""
        half = self.half_width(coverage) * self.spread
        return np.column_stack([self.predictions - half, self.predictions + half])

    def summary_of_intervals(self, coverage: float) -> dict[str, Any]:
        """Return coverage, mean width and share of held-out targets inside."""
        half = self.half_width(coverage)
        inside = float(np.mean(self.scores <= half)) if len(self.scores) else 1.0
        return {
            "coverage": coverage,
            "held_out_targets": len(self.scores),
            "mean_width": float(2.0 * half * self.spread.mean()) if np.isfinite(half) else None,
            "covered": round(inside, 4),
        }

    def judge(self, X: Any, graph: Any, names: Names = None) -> tuple[Array, Array]:
        """Return predictions for new nodes, and factors of the widths of their intervals.

        Parameters
        ----------
        X : ndarray or csr_array of shape (n_new, m), or None
            Features, checked.
        graph : object or None
            Links to fitted nodes and among the new ones, as
            :func:`nodeproof.inputs.new_links.check_links` takes them.
        names : ndarray of shape (n_new,), range or None
            Names of the new nodes.
        """
        self.check_parts(X, graph)
        if "kinds" in self.choices and isinstance(graph, Mapping):
            raise InputError(
                "this model has taken all kinds of links together: give the links of new nodes as "
                "one matrix or list, too"
            )
        if X is not None and graph is None and self.neighbours is not None:
            graph = self.neighbours.links_of(X)
        elif X is not None and graph is None and self.on_graph and X.shape[0] == self.n_nodes:
            warn_caller(
                "predict(X) is for new nodes, by their features alone; for the fitted nodes, call "
                "predict() without X"
            )
        links = check_links(
            [] if graph is None else graph,
            None if X is None else X.shape[0],
            self.n_nodes,
            self.link_unit,
            new=names,
            fitted=self.node_ids,
        )
        if X is not None:
            if self.unit is not None:
                X = self.unit.apply(dense_rows(X))
            check_reach(X)
        to_fitted, among = (sp.csr_array(part / self.link_unit) for part in links)
        new = NewNodes(X, to_fitted, among, self.feature_names)
        predictions = self.centre + self.scale * self.stack.judge(new)
        if self.difficulty is None:
            return predictions, np.ones(len(predictions))
        return predictions, self.difficulty.spread(self.difficulty.stack.judge(new))

    def check_parts(self, X: Any, graph: Any) -> None:
        """Raise an error if the model cannot predict new nodes with the given data."""
        if graph is not None and not self.on_graph:
            raise InputError(
                "this model was fitted without a graph: it cannot use the links of new nodes"
            )
        if X is not None and self.n_features is None:
            raise InputError("this model was fitted without features: it cannot use X of new nodes")
        stacks = [self.stack] + ([] if self.difficulty is None else [self.difficulty.stack])
        if X is None and any(stack.needs_features for stack in stacks):
            raise InputError("this model was fitted with features: give X of the new nodes, too")

    def __repr__(self) -> str:
        known = count_of(len(self.known), "target")
        return f"FittedTargets({count_of(self.n_nodes, 'node')}, {known})"


def find_suspects(given: Array, predictions: Array, scores: Array) -> np.recarray[Any, Any]:
    """Return the targets that are far outside, the farthest first."""
    known = np.flatnonzero(~np.isnan(given))
    times = np.zeros(len(known))
    if len(scores) >= _ENOUGH_TO_TELL and np.median(scores) > 0:
        times = scores / (1.4826 * float(np.median(scores)))
    far = np.flatnonzero(times > _FAR_OFF)
    far = far[np.argsort(-times[far], kind="stable")]
    nodes = known[far]
    columns: dict[str, NDArray[Any]] = {
        "node": nodes,
        "given": given[nodes],
        "predicted": predictions[nodes],
        "times_off": times[far],
    }
    kinds = [(name, column.dtype) for name, column in columns.items()]
    found = np.empty(len(nodes), dtype=kinds)
    for name, column in columns.items():
        found[name] = column
    return found.view(np.recarray)
