"""Prediction for new nodes from their features and links, without refitting.

The fitted nodes stay as they are; new ones influence each other only over links among them. Links,
and pairs without a link, count as in a sweep. Features that the model averages over hops are
averaged for a new node over its neighbours. The time is proportional to the links of the new
nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.metrics import accuracy_score

from nodeproof.affinity import FittedGraph, memberships_at
from nodeproof.auto.settings import choose_weights, most_certain
from nodeproof.errors import InputError
from nodeproof.fitted_kinds import FittedKinds, fitted_graph
from nodeproof.graph import Graph
from nodeproof.inputs import check_reach, encode_truth
from nodeproof.inputs.knn import Neighbours
from nodeproof.inputs.new_links import check_links
from nodeproof.inputs.node_names import Names, align_rows, names_of_rows
from nodeproof.new_kinds import read_new_kinds
from nodeproof.outcome_warnings import warn_of_missing_links
from nodeproof.problem import Models, Problem
from nodeproof.settings import Settings
from nodeproof.smoothing import dense_rows
from nodeproof.terms import NewNodeCosts, NewNodes

if TYPE_CHECKING:
    from nodeproof.fitted import Fitted

__all__ = [
    "PredictionState",
    "accuracy_of",
    "check_parts",
    "is_calibrated",
    "judge_new_nodes",
    "judge_read",
    "needs_features",
]

Array = NDArray[np.float64]

# Probabilities are clipped from below before they are scaled, as those of fitted nodes are.
_LEAST_PROBA = 1e-9


@dataclass(frozen=True)
class PredictionState:
    """What predictions for new nodes need of a fit.

    Attributes
    ----------
    graph : FittedGraph, FittedKinds or None
        Summary of the graph.
    terms : tuple of NewNodeCosts or None
        The costs of new nodes by each term of the model; None if it does not apply to them.
    scale : float
        Final factor of the log-probabilities.
    neighbours : Neighbours or None
        What links new nodes to fitted ones, if the graph was made of the features.
    labelled : float or None
        Of labels of one class alone, the share of its nodes that have one.
    kinds : FittedKinds or None
        The kinds of links that new nodes come with, if there are several or they have a direction.
    """

    graph: FittedGraph | FittedKinds | None = None
    terms: tuple[NewNodeCosts | None, ...] = ()
    scale: float = 1.0
    neighbours: Neighbours | None = None
    labelled: float | None = None
    kinds: FittedKinds | None = None

    @classmethod
    def of_fit(
        cls,
        problem: Problem,
        models: Models,
        W: NDArray[Any],
        scale: float = 1.0,
        neighbours: Neighbours | None = None,
        given: Graph | None = None,
    ) -> PredictionState:
        """Build the state from a problem, its class models and the memberships of its nodes.

        Parameters
        ----------
        given : Graph, optional
            The links as they were given: those of the problem may be all kinds together.
        """
        graph = fitted_graph(problem.graph, W)
        terms = tuple(
            term.for_new_nodes(theta, problem.calibrated)
            for term, theta in zip(problem.terms, models.terms, strict=True)
        )
        kinds = FittedKinds.of_graph(given, W) if given is not None and given.kinds else None
        return cls(graph, terms, scale, neighbours, kinds=kinds)


def judge_new_nodes(fitted: Fitted, X: Any, graph: Any, names: Names = None) -> Array:
    """Return the class probabilities of new nodes, shape (n_new, K).

    Parameters
    ----------
    fitted : Fitted
        The model.
    X : ndarray or csr_array of shape (n_new, m), or None
        Features, checked.
    graph : object or None
        Links to fitted nodes and among the new ones, as
        :func:`nodeproof.inputs.new_links.check_links` takes them.
    names : ndarray of shape (n_new,), range or None
        Names of the new nodes.
    """
    state, n_fitted = fitted.new_nodes, fitted.n_nodes
    if X is not None and graph is None and state.neighbours is not None:
        graph = state.neighbours.links_of(X)
    elif X is not None and graph is None and fitted.on_graph:
        warn_of_missing_links(fitted, X.shape[0])
    n_new = None if X is None else X.shape[0]
    if state.kinds is not None:
        new = read_new_kinds(graph, state.kinds, n_new, n_fitted, names, fitted.node_ids)
    else:
        unit = 1.0 if state.graph is None else state.graph.unit
        to_fitted, among = check_links(
            [] if graph is None else graph, n_new, n_fitted, unit, new=names, fitted=fitted.node_ids
        )
        new = NewNodes(None, to_fitted / unit, among / unit)
    if X is not None and fitted.unit is not None:
        X = fitted.unit.apply(dense_rows(X))
    if X is not None:
        check_reach(X)
    known = fitted.feature_names
    kinds = {kind: replace(own, X=X, feature_names=known) for kind, own in new.kinds.items()}
    return judge_read(fitted, replace(new, X=X, feature_names=known, kinds=kinds))


def judge_read(fitted: Fitted, new: NewNodes) -> Array:
    """Return the class probabilities of new nodes whose features are in the unit of the fit.

    Parameters
    ----------
    fitted : Fitted
        The model.
    new : NewNodes
        The nodes, n_new of them.
    """
    state = fitted.new_nodes
    temperature, affinity = fitted.settings.final_temperature, fitted.models.affinity
    unit = 1.0 if state.graph is None else state.graph.unit
    scores = fitted.models.log_prior - _term_costs(fitted, new)
    links, W = state.graph, fitted.proba
    if affinity is not None and isinstance(links, FittedKinds):
        scores = links.settle(scores, new.kinds, W, affinity, temperature)
    elif affinity is not None and (new.links.nnz or new.among.nnz):
        assert isinstance(links, FittedGraph)
        scores = links.settle(scores, *new.links_of(unit), W, affinity, temperature)
    proba = _probabilities(scores, temperature, state.scale)
    if state.labelled is not None:
        # From how likely a node is labelled to how likely it is of the class.
        m = len(fitted.labelled)
        positive = np.minimum(proba[:, 0] / state.labelled, (m + 1.0) / (m + 2.0))
        return np.column_stack([positive, 1.0 - positive])
    if temperature == 0:
        return proba
    return most_certain(fitted.settings.n_classes, fitted.given, len(fitted.classes)) * proba


def check_parts(fitted: Fitted, X: Any, graph: Any) -> None:
    """Raise an error if a model cannot classify new nodes with the given data."""
    if graph is not None and not fitted.on_graph:
        raise InputError(
            "this model was fitted without a graph: it cannot use the links of new nodes"
        )
    if graph is not None and fitted.new_nodes.graph is None:
        raise InputError(
            "this model was saved by an older version and cannot use the links of new nodes: fit "
            "and save it again"
        )
    if X is not None and fitted.n_features is None:
        raise InputError("this model was fitted without features: it cannot use X of new nodes")
    if X is None and needs_features(fitted):
        raise InputError("this model was fitted with features: give X of the new nodes, too")


def needs_features(fitted: Fitted) -> bool:
    """Tell whether any term of a model uses features."""
    return any(term.needs_features for term in fitted.terms)


def _term_costs(fitted: Fitted, new: NewNodes) -> Array:
    """Return the terms' costs of new nodes in each class, shape (n_new, K)."""
    total = np.zeros((new.among.shape[0], len(fitted.classes)))
    charging = [
        (term, charge)
        for term, charge in zip(fitted.terms, fitted.new_nodes.terms, strict=True)
        if charge is not None
    ]
    betas = _term_weights(fitted.settings)
    for term, charge in charging:
        beta = 1.0 if betas is None else betas[term.source]
        if beta:
            costs = charge.costs(new)
            total += costs if betas is None else beta * costs
    return total


def is_calibrated(settings: Settings) -> bool:
    """Tell whether weights are calibrated with these settings."""
    return _term_weights(settings) is None


def _term_weights(settings: Settings) -> dict[str, float] | None:
    """Return β of each source; None if weights are calibrated."""
    weights, *_ = choose_weights(settings.weights, settings.threshold, settings.solver, None, {})
    if isinstance(weights, str):
        return None
    return dict(zip(("graph", "features", "labels"), weights, strict=True))


def _probabilities(scores: Array, temperature: float, scale: float) -> Array:
    proba = memberships_at(scores, temperature)
    if scale == 1.0 or temperature == 0:
        return proba
    return np.asarray(softmax(scale * np.log(np.maximum(proba, _LEAST_PROBA)), axis=1))


def accuracy_of(
    fitted: Fitted,
    judge: Callable[[Any, Any], NDArray[Any]],
    X: Any,
    y: Any,
    sample_weight: Any,
    graph: Any,
) -> float:
    """Return the accuracy on fitted or on new nodes whose class is known.

    Parameters
    ----------
    judge : callable
        From features and links of nodes to class probabilities, shape (nodes, K).
    X, y, sample_weight, graph
        As in :meth:`nodeproof.NodeClassifier.score`.
    """
    if y is None:
        raise InputError(
            "score needs the true labels: score(y=y) for the nodes that were fitted, score(X, y, "
            "graph=links) for new ones"
        )
    linked = fitted.on_graph and fitted.new_nodes.neighbours is None
    if X is not None and graph is None and linked:
        raise InputError(
            "this model was fitted with a graph, so score(X, y) is ambiguous: score(y=y) is for "
            "the fitted nodes, score(X, y, graph=links) for new ones with their links to these "
            "(graph=[] if they have none)"
        )
    new = X is not None or graph is not None
    names: Names = names_of_rows(X, "X") if new else fitted.node_ids
    if not new and names is None:
        names = range(fitted.n_nodes)
    codes = judge(X, graph).argmax(axis=1)
    truth = encode_truth(align_rows(y, names, "y", "X" if new else "the fit"), fitted.classes, "y")
    if len(truth) != len(codes):
        raise InputError(
            f"y has {len(truth)} entries for {len(codes)} {'new' if new else 'fitted'} nodes"
        )
    known = truth >= 0
    if not known.any():
        raise InputError("y has no known labels")
    weight = None if sample_weight is None else np.asarray(sample_weight)[known]
    return float(accuracy_score(truth[known], codes[known], sample_weight=weight))
