"""Features that tell the class through a linear classifier: for real graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax

from nodeproof.errors import InputError
from nodeproof.runtime.caching import cached_property
from nodeproof.sets import Simplex
from nodeproof.smoothing import Smoothing
from nodeproof.storage.schema import Check, Expected, number, one_of, or_none, whole
from nodeproof.terms.base import Array, NodeData, Term
from nodeproof.terms.class_loss import LinearLoss
from nodeproof.terms.logistic import (
    assign_folds,
    balance,
    crossfit,
    estimate_proportions,
    fit_logistic,
    fit_noise,
    fit_scale,
    held_out_scores,
    match_confidence,
    shares,
)
from nodeproof.terms.new_nodes import FittedSoftmax
from nodeproof.terms.registry import register

__all__ = ["Softmax"]

# Nodes without a label that a re-fit looks at, in all or per class, whichever is more: others would
# not change a few hundred coefficients. And nodes whose scores tell proportions and confidence.
_LEAST_ROWS, _ROWS_PER_CLASS, _MOST_SCORED = 1024, 64, 2048

# Of L-BFGS, from the first fit: a re-fit is one step of an alternation.
_REFIT_STEPS = 10


@register
class Softmax(Term):
    """A regularised multinomial logistic regression on features smoothed over the graph.

    Fitted to the labelled nodes, then again to nodes that are confidently assigned, each time
    the memberships have settled. Calibrated, a node costs ``−log p(class | features)``: the
    classifier knows the proportions of the classes already, so that no prior is added.

    A labelled node is judged by a classifier that has not seen its label (cross-fitting);
    otherwise every label would confirm itself. Those scores also tell how sharp the classifier
    may be: a penalty shrinks scores, and they are scaled back by what the labels that were not
    seen bear out, or, in a re-fit, the nodes it was fitted to.

    A node without links has nothing to average over: its features are as noisy as they were
    given. Its scores are damped, by how much less sure the classifier is right about the
    labelled nodes where it is shown their own features alone.

    The paper's loss is ``−⟨p_v, θ⟩`` over the simplex, p_v the probabilities of the classifier
    fitted to the labels: that of :class:`Labels` with a soft label at every node.

    Parameters
    ----------
    hops : int
        How far features are averaged.
    l2 : float
        Penalty on the coefficients; features have length one.
    rounds : int
        How often to re-fit to confidently assigned nodes.
    confidence : float
        A node is confidently assigned where its largest membership is at least this.
    sharpness : float, optional
        Scale of the scores; by default estimated.
    folds : int
        Into how many parts labelled nodes are cut for cross-fitting; 0 for none.
    of : {"features", "links"}
        What to learn from: the features of nodes, or which nodes they are linked to, as if
        those were words. Classes that seek other classes are told apart as well as those that
        seek themselves.
    """

    source: ClassVar[str] = "features"
    takes_sparse: ClassVar[bool] = True
    discriminative: ClassVar[bool] = True
    models_shape: ClassVar[str] = "K *"
    kept_as: ClassVar[str] = "softmax"
    kept_settings: ClassVar[Mapping[str, Check]] = {
        "hops": whole,
        "alpha": number,
        "of": or_none(one_of("features", "links")),
    }
    #: r columns, out of c, of the classifier at position {0}; n nodes
    kept_arrays: ClassVar[Mapping[str, Expected]] = {
        "coefficients": Expected("f", "K r{0}+1", required=True),
        "directions": Expected("f", "c{0} r{0}"),
        "shift": Expected("f", "c{0}"),
        "scale": Expected("f", "c{0}"),
        "lagged": Expected("f", "n r{0}"),
        "normaliser": Expected("f", "n"),
        "alone": Expected("f", "K r{0}+1"),
    }

    def __init__(
        self,
        hops: int = 16,
        l2: float = 0.3,
        rounds: int = 2,
        confidence: float = 0.7,
        sharpness: float | None = None,
        folds: int = 5,
        of: Literal["features", "links"] = "features",
    ) -> None:
        self.of = of
        self.hops, self.l2, self.rounds = hops, l2, rounds
        self.confidence, self.sharpness, self.folds = confidence, sharpness, folds

    def __repr__(self) -> str:
        of = "" if self.of == "features" else f", of={self.of!r}"
        return f"Softmax(hops={self.hops}, l2={self.l2:g}, rounds={self.rounds}{of})"

    @classmethod
    def settings(cls) -> Mapping[str, Check]:
        """Return what makes it up, with what a saved file may say of it."""
        wholes = dict.fromkeys(("hops", "rounds", "folds"), whole)
        numbers = {"l2": number, "confidence": number, "sharpness": or_none(number)}
        kinds = {**wholes, **numbers, "of": one_of("features", "links")}
        return {name: kinds[name] for name in super().settings()}

    @property
    def needs_features(self) -> bool:
        """Whether it learns from features; links will do otherwise."""
        return self.of == "features"

    @property
    def averages_links(self) -> bool:
        """Whether it averages over links, which then are not to be counted once more."""
        return bool(self.hops)

    @property
    def short_name(self) -> str:
        """What it is called beside others."""
        return "Softmax" if self.of == "features" else "Softmax of links"

    Z: NDArray[Any]
    y: NDArray[np.int64]
    labelled: NDArray[np.int64]
    alone: NDArray[np.int64]
    #: which of the unseen scores in the models belong to each labelled node, shape (labelled,)
    unseen_columns: NDArray[np.int64]

    def bind(self, nodes: NodeData) -> Self:
        """Return a copy that holds the smoothed features and the labelled nodes."""
        if nodes.y is None or not (nodes.y >= 0).any():
            raise InputError("Softmax needs labels to learn from: y is missing")
        smoothing = self._smoothing(nodes)
        bound = self.copy_for(nodes)
        bound.smoothing = smoothing
        bound.Z = smoothing.over(self.hops)
        bound.y = nodes.y
        bound.labelled = np.flatnonzero(nodes.y >= 0)
        bound.unseen_columns = np.arange(len(bound.labelled))
        bound.alone = np.empty(0, dtype=np.int64)
        if bound.averages:
            assert smoothing.graph is not None
            bound.alone = np.flatnonzero(smoothing.graph.degrees == 0)
        bound.models_set = Simplex(nodes.n_classes)
        return bound

    def reordered(self, nodes: NodeData, position: NDArray[np.int64]) -> Self:
        """Return this bound term for the same nodes in another order, with what it has learnt."""
        if self.of == "links" and nodes.links is None:
            links = self.smoothing.reordered(position, None, nodes.graph)
            nodes = replace(nodes, links=links)
        bound = self.bind(nodes)
        bound.unseen_columns = self.unseen_columns[
            np.searchsorted(self.labelled, position[bound.labelled])
        ]
        for name in ("first", "first_sharpness", "damping", "proportions"):
            if name in vars(self):
                setattr(bound, name, getattr(self, name))
        if "probabilities" in vars(self):
            bound.probabilities = self.probabilities[position]
        return bound

    smoothing: Smoothing

    @property
    def averages(self) -> bool:
        """Whether features are averaged over links."""
        return self.of == "features" and self.hops > 0 and self.smoothing.graph is not None

    def _smoothing(self, nodes: NodeData) -> Smoothing:
        if self.of not in ("features", "links"):
            raise InputError(f"Softmax learns of 'features' or 'links', got of={self.of!r}")
        if self.of == "links":
            if nodes.graph is None:
                raise InputError("Softmax of links needs a graph: it is missing")
            return nodes.links or Smoothing.of_links(nodes.graph)
        if nodes.X is None:
            raise InputError("Softmax needs features: X is missing")
        return nodes.smoothing or Smoothing(nodes.X, nodes.graph)

    # What the labels alone teach. -------------------------------------------------------

    @cached_property
    def first(self) -> Array:
        """The coefficients fitted to the labels, shape (K, d + 1), not scaled."""
        weights = balance(self.y[self.labelled])
        return fit_logistic(self.Z[self.labelled], self._targets(), self.l2, weights)

    @cached_property
    def unseen(self) -> Array:
        """Scores of the labelled nodes by a fit that has not seen them, not scaled.

        The only label of a class must be seen: without it there would be no such class.
        """
        Z = self.Z[self.labelled]
        seen = np.asarray(Z @ self.first[:, :-1].T + self.first[:, -1], dtype=np.float64)
        if not self._judged.any():
            return seen
        return np.where(self._judged[:, None], held_out_scores(Z, *self._blind), seen)

    @cached_property
    def _blind(self) -> tuple[Array, NDArray[np.int64]]:
        """Coefficients that have not seen a fold, shape (F, K, d + 1), and the folds."""
        codes = self.y[self.labelled]
        folds = assign_folds(codes, min(self.folds, len(codes)))
        Z = self.Z[self.labelled]
        return crossfit(Z, self._targets(), self.l2, folds, balance(codes)), folds

    @property
    def _judged(self) -> NDArray[np.bool_]:
        """Whether each labelled node can be judged blind: its class has other labels."""
        codes = self.y[self.labelled]
        several = np.bincount(codes)[codes] > 1
        return np.asarray(several & (min(self.folds, len(codes)) > 1))

    @cached_property
    def first_sharpness(self) -> float:
        """The scale at which unseen labels are most probable; 1 where none are."""
        if self.sharpness is not None:
            return self.sharpness
        return self._sharpness_of(self.unseen) if self._judged.any() else 1.0

    @cached_property
    def damping(self) -> float:
        """What scores of nodes without links are multiplied by, at most 1."""
        if not self.averages or self.sharpness is not None or not self._judged.any():
            return 1.0
        own = held_out_scores(self.smoothing.over(0)[self.labelled], *self._blind)
        return min(1.0, self._sharpness_of(own) / self.first_sharpness)

    def _sharpness_of(self, scores: Array) -> float:
        targets, judged = self._targets(), self._judged
        linked = judged & ~np.isin(self.labelled, self.alone)
        typical = linked if linked.any() else judged
        noise = fit_noise(self.unseen[typical], targets[typical])
        return fit_scale(scores[typical], targets[typical], noise=noise)

    @cached_property
    def proportions(self) -> Array:
        """Of the classes among all nodes, shape (K,): labels may be balanced, or not."""
        scores = self._scores(self.first_sharpness * self.first)
        return estimate_proportions(scores, self._equal(), shares(self._targets()))

    def _equal(self) -> Array:
        """Return the shares of the classes in the balanced labels: equal where there are any."""
        named = np.bincount(self.y[self.labelled], minlength=self.n_classes) > 0
        return shares(named[None] * len(self.labelled) / named.sum())

    def _scores(self, theta: Array) -> Array:
        """Return the scores of all nodes, or an even sample of many."""
        return self._linear(theta, self.Z[:: -(-len(self.Z) // _MOST_SCORED)])

    def _targets(self) -> Array:
        return np.eye(self.n_classes)[self.y[self.labelled]]

    # The paper's loss. ------------------------------------------------------------------

    @cached_property
    def probabilities(self) -> Array:
        """By the classifier fitted to the labels, shape (n, K)."""
        theta = self.first_sharpness * self.first
        scores = self.Z @ theta[:, :-1].T + theta[:, -1]
        if len(self.alone):
            scores[self.alone] *= self.damping
        return np.asarray(softmax(scores, axis=1))

    def loss(self, theta: Array, lo: int, hi: int) -> Array:
        """Return ``−⟨p_v, θ⟩``."""
        return -np.asarray((self.probabilities[lo:hi] * theta).sum(axis=1))

    def loss_gradient(self, theta: Array, lo: int, hi: int) -> Array:
        """Return ``−p_v``."""
        return -self.probabilities[lo:hi]

    def refit(self, W: NDArray[Any]) -> Array:
        """Put each class on the one that the classifier sees most of in it."""
        return self.models_set.lmo(self.class_loss(W).slopes)

    def class_loss(self, W: NDArray[Any]) -> LinearLoss:
        """Return ``−⟨Σ_v W_vi p_v, θ_i⟩``."""
        return LinearLoss(self.models_set, -(W.T.astype(np.float64) @ self.probabilities))

    # The likelihood. --------------------------------------------------------------------

    def estimate(self, W: NDArray[Any]) -> Array:
        """Return what nodes are judged by, shape (K, 2(d + 1) + labelled).

        These are the coefficients, those for nodes without links, and the unseen scores of
        labelled nodes. Nodes without a label count where they are confidently assigned, together
        as much as the labels do.
        """
        theta = self.first_sharpness * self.first
        confident = (W.max(axis=1) >= self.confidence) & (self.y < 0)
        confident[self.alone] = False
        others = np.flatnonzero(confident)
        if len(others):
            most = max(_LEAST_ROWS, _ROWS_PER_CLASS * self.n_classes)
            theta = self._fit_again(W, others[:: -(-len(others) // most)], theta)
        alone = self.damping * theta
        unseen = self.first_sharpness * self.unseen
        unseen[np.isin(self.labelled, self.alone)] *= self.damping
        prior = np.log(self.proportions / self._equal())
        for scores in (theta[:, -1], alone[:, -1], unseen):
            scores += prior
        return np.hstack([theta, alone, unseen.T])

    def _fit_again(self, W: NDArray[Any], others: NDArray[np.int64], first: Array) -> Array:
        """Return coefficients fitted to labels and other nodes, as if classes were equal."""
        rows = np.concatenate([self.labelled, others])
        weights = np.full(len(rows), len(self.labelled) / len(others))
        weights[: len(self.labelled)] = balance(self.y[self.labelled])
        targets = W[rows].astype(np.float64)
        theta = fit_logistic(
            self.Z[rows], targets, self.l2, weights, self.first, tol=1e-3, max_iter=_REFIT_STEPS
        )
        # Confident nodes may be of few classes. Their shares go before scores are scaled.
        theta[:, -1] += np.log(self._equal() / shares(weights[:, None] * targets))
        # Its own targets would make it surer with every round, borne out or not.
        theta *= match_confidence(self._scores(theta), self._scores(first))
        return np.asarray(theta)

    def cost(self, models: Array, lo: int, hi: int) -> Array:
        """Return ``−log p(class | features)``, labelled nodes by their unseen scores."""
        d = self.Z.shape[1]
        theta, alone, unseen = np.split(models, (d + 1, 2 * (d + 1)), axis=1)
        scores = self._linear(theta, self.Z[lo:hi])
        first, last = np.searchsorted(self.alone, (lo, hi))
        if first < last:
            here = self.alone[first:last]
            scores[here - lo] = self._linear(alone, self.Z[here])
        first, last = np.searchsorted(self.labelled, (lo, hi))
        scores[self.labelled[first:last] - lo] = unseen[:, self.unseen_columns[first:last]].T
        return -np.asarray(log_softmax(scores, axis=1))

    @staticmethod
    def _linear(theta: Array, Z: NDArray[Any]) -> Array:
        return (Z @ theta[:, :-1].T.astype(Z.dtype)).astype(np.float64) + theta[:, -1]

    def attribute(self, models: Array, scores: Array, lo: int, hi: int) -> dict[str, Array]:
        """Return what a node's own features add to its scores, and what those it is linked to do.

        All is the graph's where links were learnt from.
        """
        if self.of == "links":
            return {"graph": scores}
        if models.shape[1] <= self.Z.shape[1]:  # of the paper's loss, which has no coefficients
            return {self.source: scores}
        own = self.smoothing.own_part(self.hops, lo, hi) @ models[:, : self.Z.shape[1]].T
        others = self.Z[lo:hi] @ models[:, : self.Z.shape[1]].T - own
        return {"features": scores - others, "graph": others}

    def for_new_nodes(self, models: Array, calibrated: bool) -> FittedSoftmax:
        """Return the classifier, with what fitted nodes pass on to new neighbours."""
        return FittedSoftmax.of_term(self, models, calibrated)

    def restored(
        self,
        models: Array,
        calibrated: bool,
        settings: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
    ) -> FittedSoftmax:
        """Return the same from what was saved of it."""
        return FittedSoftmax.of_parts(settings, arrays, None if calibrated else models)

    def penalty(self, models: Array) -> float:
        """Return ``l2/2 ‖θ‖²``."""
        d = self.Z.shape[1]
        return 0.5 * self.l2 * float(np.vdot(models[:, :d], models[:, :d]))
