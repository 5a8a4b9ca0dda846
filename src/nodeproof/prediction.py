"""New nodes, judged by a fitted model without a re-fit: by their features and their links.

The fitted nodes stay as they are, and new ones do not see each other. A link to a fitted node
is worth to a new one what it is worth to a node in a sweep; pairs without a link cost what they
cost there. Features that the model averages over hops are averaged for a new node from what its
neighbours pass on. All of it takes time proportional to the links of the new nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax
from sklearn.metrics import accuracy_score

from nodeproof.affinity import Affinity
from nodeproof.auto.settings import choose_weights, most_certain
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.inputs import check_reach, encode_truth
from nodeproof.inputs.new_links import check_links
from nodeproof.inputs.node_names import Names, align_rows, names_of_rows
from nodeproof.outcome_warnings import warn_of_missing_links
from nodeproof.problem import Models, Problem
from nodeproof.smoothing import Reduction, dense_rows
from nodeproof.terms import NodeData, Softmax

if TYPE_CHECKING:
    from nodeproof.fitted import Fitted

__all__ = [
    "FittedGraph",
    "FittedSoftmax",
    "Kept",
    "accuracy_of",
    "check_parts",
    "judge_new_nodes",
    "needs_features",
]

Array = NDArray[np.float64]
Rows = NDArray[np.float32]

# Before they are scaled, entries of rows below this count as this: so do the fitted nodes'.
_LEAST_ROW = 1e-9


@dataclass(frozen=True)
class FittedGraph:
    """The fitted graph, as far as it bears on links of new nodes.

    Attributes
    ----------
    null_model : {"uniform", "degree"}
        How many links chance would give.
    total : float
        Sum of the degrees.
    unit : float
        Mean weight of a link.
    pairs : ndarray of shape (K,)
        ``Σ_u η_u W_ui`` over the fitted nodes.
    """

    null_model: str
    total: float
    unit: float
    pairs: Array

    @classmethod
    def of_graph(cls, graph: Graph, W: NDArray[Any]) -> FittedGraph:
        """Sum up a graph whose nodes have these rows."""
        return cls(graph.null_model, graph.total, graph.unit, graph.null_totals(W))

    def evidence(self, links: sp.csr_array, W: NDArray[Any], affinity: Affinity) -> Array:
        """Return what links and missing links add to the scores, in nats, shape (n_new, K).

        As in a sweep, ``ℓ Σ_u a_vu W_ui − ℓt η_v Σ_u η_u W_ui``; a node without a link gets
        nothing, because nothing is known of it, not even that it avoids others.
        """
        degrees = np.asarray(links.sum(axis=1))
        eta = (degrees > 0).astype(np.float64)
        if self.null_model == "degree" and self.total > 0:
            eta = degrees / np.sqrt(self.total)
        linked, pairs = links @ W, np.outer(eta, self.pairs)
        if affinity.ell.shape == (1, 1):
            return np.asarray(affinity.ell[0, 0] * linked - affinity.ell_t[0, 0] * pairs)
        return np.asarray(linked @ affinity.ell - pairs @ affinity.ell_t)


@dataclass(frozen=True)
class FittedSoftmax:
    """A fitted :class:`nodeproof.terms.Softmax`, as far as new nodes need it.

    Attributes
    ----------
    reduction : Reduction
        From features to few columns.
    coefficients : ndarray of shape (K, r + 1)
        Of the classifier.
    hops : int
        How far features are averaged; 0 without a graph.
    alpha : float
        Share of a node's own features.
    lagged : ndarray of shape (n, r), or None without hops
        ``T_u = Σ_{k=0…h−1} (Â^k B)_u``: what the fitted nodes pass on.
    normaliser : ndarray of shape (n,), or None without hops
        ``s_u = 1/√(d_u + 1)`` of the fitted nodes, degrees in the unit of a mean link.
    alone : ndarray of shape (K, r + 1), or None
        The same for nodes without links, where features are averaged.
    of : {"features", "links"}
        What is learnt from.
    """

    reduction: Reduction
    coefficients: Array
    hops: int
    alpha: float
    lagged: Rows | None = None
    normaliser: Rows | None = None
    alone: Array | None = None
    of: str = "features"

    @classmethod
    def of_term(cls, term: Softmax, theta: Array, calibrated: bool) -> FittedSoftmax:
        """Take what is needed from a term and its class models."""
        smoothing = term.smoothing
        width = term.Z.shape[1] + 1
        coefficients, alone = theta[:, :width].copy(), theta[:, width : 2 * width].copy()
        if not calibrated:
            coefficients = term.first_sharpness * term.first
            alone = term.damping * coefficients
        hops = int(term.hops) if smoothing.graph is not None else 0
        return cls(
            smoothing.reduction,
            coefficients,
            hops,
            smoothing.alpha,
            smoothing.lagged(hops) if hops else None,
            smoothing.normaliser if hops else None,
            alone if term.averages else None,
            term.of,
        )

    def costs(self, theta: Array, X: Any, links: sp.csr_array, calibrated: bool) -> Array:
        """Return what the term charges new nodes in each class, shape (n_new, K).

        Parameters
        ----------
        links : csr_array of shape (n_new, n)
            In the unit of a mean link.
        """
        Z = self.rows(X, links)
        slopes = self.coefficients[:, :-1].T.astype(np.float32)
        scores = (Z @ slopes).astype(np.float64) + self.coefficients[:, -1]
        if self.alone is not None:
            apart = np.asarray(links.sum(axis=1)) == 0
            scores[apart] = Z[apart] @ self.alone[:, :-1].T + self.alone[:, -1]
        if calibrated:
            return -np.asarray(log_softmax(scores, axis=1))
        return -np.asarray(softmax(scores, axis=1) @ theta.T)

    def rows(self, X: Any, links: sp.csr_array) -> Rows:
        """Return the reduced and averaged features of new nodes, shape (n_new, r)."""
        # Where links are the words, the new node itself is one that was never heard.
        base = self.reduction.apply(links if self.of == "links" else X)
        if self.hops == 0:
            return self.reduction.finish(base)
        share = np.float32((1.0 - self.alpha) / self.hops)
        return self.reduction.finish(np.float32(self.alpha) * base + share * self.sums(base, links))

    def sums(self, base: Rows, links: sp.csr_array) -> Rows:
        """Return ``S_v = Σ_{k=1…h} (Â^k B)_v`` as if v alone had joined the graph, (n_new, r).

        With ``s'_u`` counting the new link, v receives what its neighbours now pass on, and
        passes on its own features and what it has received, less the last hop:

            S_v = s_v² T_v + s_v Σ_u a_vu s'_u T'_u,    T_v = b_v + ρ S_v,    ρ = 1 − 1/h.

        A neighbour u has more neighbours than before and hears v; what *its* other neighbours
        tell it is left as it was:

            T'_u = T_u + g_u [(s'_u − s_u)(s'_u + 1/s_u) T_u + a_vu s'_u s_v T_v],
            g_u = ρ / (1 − ρ s'_u²).

        Sums that lack their first or last term are taken as ρ of the whole. That is exact for
        one hop and for a node without links.
        """
        assert self.lagged is not None
        assert self.normaliser is not None
        rho = 1.0 - 1.0 / self.hops
        own = 1.0 / np.sqrt(1.0 + np.asarray(links.sum(axis=1)))
        weight, before = links.data, self.normaliser[links.indices].astype(np.float64)
        after = 1.0 / np.sqrt(before**-2 + weight)
        heard = rho / (1.0 - rho * after**2)
        passed_on = weight * after * (1.0 + heard * (after - before) * (after + 1.0 / before))

        def with_weights(data: NDArray[Any]) -> sp.csr_array:
            return sp.csr_array((data, links.indices, links.indptr), shape=links.shape)

        # In float32, so that no copy of all that the fitted nodes pass on is made.
        received = with_weights(passed_on.astype(np.float32)) @ self.lagged
        echo = np.asarray(with_weights(heard * (weight * after) ** 2).sum(axis=1))
        kappa = own**2 * (1.0 + echo)
        over = 1.0 / (1.0 - rho * kappa)
        from_others = (over * own).astype(np.float32)[:, None]
        from_itself = (over * kappa).astype(np.float32)[:, None]
        return np.asarray(from_others * received + from_itself * base)


@dataclass(frozen=True)
class Kept:
    """What is kept of a fit for the sake of new nodes.

    Attributes
    ----------
    graph : FittedGraph or None
        The graph, summed up.
    softmax : dict of FittedSoftmax
        By position among the terms.
    scale : float
        What log-probabilities are multiplied by at the end.
    """

    graph: FittedGraph | None = None
    softmax: dict[int, FittedSoftmax] = field(default_factory=dict)
    scale: float = 1.0

    @classmethod
    def of_fit(cls, problem: Problem, models: Models, W: NDArray[Any], scale: float) -> Kept:
        """Take what is needed from a problem, its class models and the rows of its nodes."""
        graph = None if problem.graph is None else FittedGraph.of_graph(problem.graph, W)
        softmax = {
            k: FittedSoftmax.of_term(term, theta, problem.calibrated)
            for k, (term, theta) in enumerate(zip(problem.terms, models.terms, strict=True))
            if isinstance(term, Softmax)
        }
        return cls(graph, softmax, scale)


def judge_new_nodes(fitted: Fitted, X: Any, graph: Any, names: Names = None) -> Array:
    """Return the class probabilities of new nodes, shape (n_new, K).

    Parameters
    ----------
    fitted : Fitted
        The model.
    X : ndarray or csr_array of shape (n_new, m), or None
        Features, checked.
    graph : object or None
        Links to the fitted nodes, as :func:`nodeproof.inputs.new_links.check_links` takes them.
    names : ndarray of shape (n_new,), range or None
        What the new nodes are called.
    """
    if X is not None and graph is None and fitted.on_graph:
        warn_of_missing_links(fitted, X.shape[0])
    kept, n_fitted = fitted.new_nodes, fitted.n_nodes
    n_new = None if X is None else X.shape[0]
    unit = 1.0 if kept.graph is None else kept.graph.unit
    links = check_links(
        [] if graph is None else graph, n_new, n_fitted, unit, new=names, fitted=fitted.node_ids
    )
    scores = fitted.models.log_prior - _feature_costs(fitted, X, links / unit)
    if fitted.models.affinity is not None and links.nnz:
        assert kept.graph is not None
        scores += kept.graph.evidence(links, fitted.proba, fitted.models.affinity)
    temperature = fitted.settings.final_temperature
    rows = _probabilities(scores, temperature, kept.scale)
    return (
        rows if temperature == 0 else most_certain(fitted.settings.n_classes, fitted.given) * rows
    )


def check_parts(fitted: Fitted, X: Any, graph: Any) -> None:
    """Raise an error where a model cannot judge new nodes by what is given of them."""
    if graph is not None and not fitted.on_graph:
        raise InputError(
            "this model was fitted without a graph: it cannot judge new nodes by their links"
        )
    if graph is not None and fitted.new_nodes.graph is None:
        raise InputError(
            "this model was saved by an older version, without what links of new nodes need: fit "
            "and save it again"
        )
    if X is not None and fitted.n_features is None:
        raise InputError("this model was fitted without features: it cannot judge new nodes by X")
    if X is None and needs_features(fitted):
        raise InputError("this model was fitted with features: give X of the new nodes too")


def needs_features(fitted: Fitted) -> bool:
    """Tell whether any term of a model looks at features."""
    return any(
        term.source == "features" and not (isinstance(term, Softmax) and term.of == "links")
        for term in fitted.terms
    )


def _feature_costs(fitted: Fitted, X: Any, links: sp.csr_array) -> Array:
    """Return what the feature terms charge new nodes in each class, shape (n_new, K)."""
    n_new, K = links.shape[0], len(fitted.classes)
    total = np.zeros((n_new, K))
    terms = [
        (k, term, theta)
        for k, (term, theta) in enumerate(zip(fitted.terms, fitted.models.terms, strict=True))
        if term.source == "features"
    ]
    if not terms:
        return total
    if fitted.unit is not None and X is not None:
        X = fitted.unit.apply(dense_rows(X))
    if X is not None:
        check_reach(X)
    settings = fitted.settings
    weights, *_ = choose_weights(settings.weights, settings.threshold, settings.solver, None, {})
    calibrated = isinstance(weights, str)
    others = []
    for k, term, theta in terms:
        if k not in fitted.new_nodes.softmax:
            others.append((term.bind(NodeData(K, X)), theta))
        elif calibrated or weights[1]:
            costs = fitted.new_nodes.softmax[k].costs(theta, X, links, calibrated)
            total += costs if calibrated else weights[1] * costs
    if others:
        models = Models(None, tuple(theta for _, theta in others), fitted.models.log_prior)
        problem = Problem(None, [term for term, _ in others], K, weights)
        total += problem.costs(models, 0, n_new)
    return total


def _probabilities(scores: Array, temperature: float, scale: float) -> Array:
    if temperature == 0:
        return np.eye(scores.shape[1])[scores.argmax(axis=1)]
    with np.errstate(over="ignore"):  # to −∞, where a temperature is next to nothing
        behind = (scores - scores.max(axis=1, keepdims=True)) / temperature
    rows = np.asarray(softmax(behind, axis=1))
    if scale == 1.0:
        return rows
    return np.asarray(softmax(scale * np.log(np.maximum(rows, _LEAST_ROW)), axis=1))


def accuracy_of(
    fitted: Fitted,
    judge: Callable[[Any, Any], NDArray[Any]],
    X: Any,
    y: Any,
    sample_weight: Any,
    graph: Any,
) -> float:
    """Return the share of nodes of known class that are right: of fitted nodes, or of new ones.

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
    if X is not None and graph is None and fitted.on_graph:
        raise InputError(
            "this model was fitted with a graph, and score(X, y) does not say which nodes are "
            "meant: score(y=y) judges those that were fitted, score(X, y, graph=links) new ones by "
            "their links to these (graph=[] if they have none)"
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
        raise InputError("y holds no label to judge by")
    weight = None if sample_weight is None else np.asarray(sample_weight)[known]
    return float(accuracy_score(truth[known], codes[known], sample_weight=weight))
