"""Logistic regression on features, or on links taken for features, averaged over hops."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import log_softmax

from nodeproof.auto.experts.base import (
    Array,
    Candidate,
    Changed,
    Expert,
    Learnt,
    NewNodes,
    Rows,
    no_logs,
)
from nodeproof.auto.experts.penalty import Best, PenaltySearch, Setting
from nodeproof.auto.held_out import HeldOut
from nodeproof.runtime import threads
from nodeproof.smoothing import Smoothing
from nodeproof.storage.schema import Check, Expected, boolean, count, number, one_of
from nodeproof.terms import NodeData, Softmax
from nodeproof.terms.new_nodes import FittedSoftmax

__all__ = ["Features", "Links", "OwnFeatures", "Regression"]

# Prior of the penalty, see `PenaltySearch`: few columns that were not averaged need less of it.
_AVERAGED_PRIOR, _OWN_PRIOR = (0.2, 0.5), (0.03, 1.0)

# With more entries of the adjacency matrix, in all or per node, links are averaged over no more
# than _NEAR hops: far ones help sparse graphs.
_FAR_LINKS, _MANY_OF_A_NODE, _NEAR = 400_000, 16, 16

# How often to refit to confidently classified nodes.
_ROUNDS = 2

# Refits, and links whose probabilities are spread over links, have been more accurate on most
# graphs, by less than a few dozen held-out labels can tell: nats by which they are preferred.
_HEAD_START = 5.0

# What is kept of a setting beside hops, to learn again with it.
_LEARNT_BY = ("l2", "sharpness", "rounds")

# How far probabilities are spread over links: steps, and the share that a node keeps of its own.
_SPREAD_STEPS, _RESTART = 10, 0.3


@dataclass(frozen=True)
class LearntRegression(Learnt):
    """A fitted regression.

    Attributes
    ----------
    fitted : FittedSoftmax
        The regression, for new nodes.
    shift : ndarray of shape (K,)
        Subtracted from its log-probabilities.
    spread : bool
        Whether probabilities were spread over links.
    setting : Setting or None
        As it was learnt; None if it was saved by an earlier version.
    """

    log_proba: NDArray[np.float32]
    fitted: FittedSoftmax
    shift: Array
    spread: bool
    setting: Setting | None = None

    def reordered(self, position: NDArray[np.int64]) -> Self:
        """Return the same for reordered nodes."""
        moved = self.fitted.reordered(position)
        return replace(self, log_proba=self.log_proba[position], fitted=moved)

    @property
    def needs_features(self) -> bool:
        """Whether it was learnt from features."""
        return self.fitted.of == "features"

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the settings and arrays that `judge` needs, to save them."""
        settings, arrays = self.fitted.to_parts()
        reduction = self.fitted.reduction
        settings |= {
            "counts": reduction.counts,
            "reduced": reduction.directions is not None,
            "spread": self.spread,
        }
        if self.setting is not None:
            settings |= {name: getattr(self.setting, name) for name in _LEARNT_BY}
        arrays["offset"] = self.shift
        return settings, arrays | ({"log_proba": self.log_proba} if self.spread else {})

    def updated(self, changed: Changed, log_proba: Rows) -> LearntRegression:
        """Return the same after a change: refitted if labels have changed, else applied again."""
        from nodeproof.auto.experts.regression_updates import update_regression

        return update_regression(self, changed, log_proba)

    def judge(self, new: NewNodes) -> Array:
        """Return log-probabilities of new nodes, shape (n_new, K)."""
        own = log_softmax(-self.fitted.costs(new) - self.shift, axis=1)
        if not self.spread:
            return np.asarray(own)
        start = np.exp(own)
        received = new.links @ np.exp(self.log_proba)
        found = start
        for _ in range(_SPREAD_STEPS):
            mean = (received + new.among @ found + found) / (new.degrees + 1.0)[:, None]
            found = _RESTART * start + (1.0 - _RESTART) * mean
        return np.asarray(np.log(np.maximum(found, 1e-9)))


class Regression(Expert):
    """Regularised multinomial logistic regression, with refits to confidently classified nodes."""

    balanced: ClassVar[bool] = True
    of: ClassVar[Literal["features", "links"]] = "features"
    hops: tuple[int, ...] = (16, 4)
    #: whether probabilities may be spread over links
    spreads: ClassVar[bool] = False
    kept_settings: ClassVar[Mapping[str, Check]] = {
        "hops": count,
        "alpha": number,
        "of": one_of("features", "links"),
        "counts": boolean,
        "reduced": boolean,
        "spread": boolean,
        "l2": number,
        "sharpness": number,
        "rounds": count,
    }
    kept_since: ClassVar[frozenset[str]] = frozenset(_LEARNT_BY)
    smoothing: Smoothing

    def bind(self, nodes: NodeData) -> Self:
        """Return a copy that holds the smoothed features."""
        bound = super().bind(nodes)
        bound.smoothing = self._smoothing(nodes)
        return bound

    def _smoothing(self, nodes: NodeData) -> Smoothing:
        assert nodes.X is not None
        return nodes.smoothing or Smoothing(nodes.X, nodes.graph)

    def candidates(self, held: HeldOut, than: Array | None = None) -> list[Candidate]:
        """Return hops with the best penalty of each, and the best of them with refits.

        What is said of a part of the held-out labels is by a penalty, and refits by hops, that the
        other parts have chosen.
        """
        for hops in sorted(hops for hops in self.hops if hops <= self.hops[0]):
            self.smoothing.over(hops)  # each on the way to the next
        searches: list[PenaltySearch] = []
        for hops in self.hops:
            losses = [search.best().loss for search in searches]
            if losses and hops > self.hops[0] and min(losses) < losses[0]:
                continue  # where nearer nodes tell more, farther ones tell less
            Z = self.smoothing.over(hops)
            search = PenaltySearch(hops, Z, self.nodes.n_classes, held, self._penalty_prior())
            search.descend(searches[-1] if searches else None)
            searches.append(search)
            if than is not None and len(self.hops) > 1 and search.is_hopeless(than):
                return []
        parts = [(here, [s.best(held.others(here)) for s in searches]) for here in held.parts()]
        chosen = [search.best() for search in searches]
        found = []
        for k, best in enumerate(chosen):
            logs = np.empty((len(held.codes), self.nodes.n_classes))
            for here, bests in parts:
                logs[here] = bests[k].setting.sharpness * bests[k].scores[here]
            found.append(Candidate.judged(best.setting, logs, held, self))
        at_best = min(chosen, key=lambda best: best.loss)
        of_parts = [(here, min(bests, key=lambda best: best.loss)) for here, bests in parts]
        return found + self._refitted(at_best.setting, of_parts, held)

    def _refitted(
        self, final: Setting, parts: list[tuple[NDArray[np.int64], Best]], held: HeldOut
    ) -> list[Candidate]:
        """Return candidates that are refitted, spread over links, or both.

        Parameters
        ----------
        final : Setting
            Chosen by all held-out labels.
        parts : list of pairs
            Held-out labels to judge by, and the setting that the others have chosen.
        """
        tried = (0, _ROUNDS) if self.spreads else (_ROUNDS,)
        shape = len(held.codes), self.nodes.n_classes
        said = {(rounds, spread): np.empty(shape) for rounds in tried for spread in (False, True)}

        def judge(task: int) -> None:
            part, which = divmod(task, len(tried))
            (here, best), rounds = parts[part], tried[which]
            fold, nodes = int(held.folds[here[0]]), held.nodes[here]
            setting = best.setting._replace(rounds=rounds)
            learnt = self._learn(held.y[fold], setting, best.theta[fold]).log_proba
            said[rounds, False][here] = learnt[nodes]
            if self.spreads:
                said[rounds, True][here] = self.spread(learnt, held.y[fold])[nodes]

        threads.map_each(judge, len(parts) * len(tried))
        found = []
        favoured = _HEAD_START if self.linked else 0.0
        for rounds in tried:
            setting, refitted = final._replace(rounds=rounds), favoured if rounds else 0.0
            if rounds:
                logs = said[rounds, False]
                found.append(Candidate.judged(setting, logs, held, self, refitted))
            if self.spreads:
                spread, logs = setting._replace(spread=True), said[rounds, True]
                found.append(Candidate.judged(spread, logs, held, self, refitted + favoured))
        return found

    def for_large_graphs(self) -> Expert | None:
        """Return an expert that averages features over few hops; None if over links themselves."""
        if self.of == "links":
            return None
        found = copy.copy(self)
        found.hops = (min(self.hops),)
        return found

    def _penalty_prior(self) -> tuple[float, float]:
        own = not self.linked and not sp.issparse(self.nodes.X)
        return _OWN_PRIOR if own else _AVERAGED_PRIOR

    def learn(self, y: NDArray[np.int64], setting: Any) -> LearntRegression:
        """Return the regression fitted to the labels seen, and again to confident nodes."""
        return self._learn(y, setting)

    def _learn(
        self, y: NDArray[np.int64], setting: Setting, first: Array | None = None
    ) -> LearntRegression:
        if self.of == "features":
            nodes = replace(self.nodes, y=y, smoothing=self.smoothing)
        else:
            nodes = replace(self.nodes, y=y, links=self.smoothing)
        term = Softmax(
            setting.hops, setting.l2, sharpness=setting.sharpness, folds=0, of=self.of
        ).bind(nodes)
        if first is not None:
            term.first = first
        K = nodes.n_classes
        W = np.full((len(y), K), 1.0 / K, dtype=np.float32)
        models = term.estimate(W)
        for _ in range(setting.rounds):
            W = np.exp(-term.cost(models, 0, len(y))).astype(np.float32)
            models = term.estimate(W)
        shift = np.log(term.proportions)
        logs = log_softmax(-term.cost(models, 0, len(y)) - shift, axis=1)
        if setting.spread:
            logs = self.spread(logs, y)
        fitted = FittedSoftmax.of_term(term, models, True)
        logs = logs.astype(np.float32)
        return LearntRegression(logs, fitted, shift, setting.spread, setting)

    @classmethod
    def kept_layout(cls, settings: Mapping[str, Any]) -> Mapping[str, Expected]:
        """Return which arrays are saved: c columns, of them or of their mixtures r are left."""
        c = "m" if settings["of"] == "features" else "n"
        r = "r{0}" if settings["reduced"] else c
        shapes = {"coefficients": f"K {r}+1", "offset": "K"}
        if settings["reduced"]:
            shapes["directions"] = f"{c} {r}"
        if not settings["counts"]:
            shapes |= {"shift": c, "scale": c}
        if settings["hops"]:
            shapes |= {"lagged": f"n {r}", "normaliser": "n"}
        if settings["spread"]:
            shapes["log_proba"] = "n K"
        found = {name: Expected("f", shape, required=True) for name, shape in shapes.items()}
        return found | {"alone": Expected("f", f"K {r}+1")}

    @classmethod
    def restored(
        cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> LearntRegression:
        """Return what was learnt from its saved parts, without `log_proba` unless it was spread."""
        if settings["of"] != cls.of:
            raise ValueError(f"the expert {cls.name} has learnt from {settings['of']}")
        if not 0 <= settings["alpha"] <= 1:
            raise ValueError("the share of a node's own features is not between 0 and 1")
        parts = dict(arrays)
        shift, logs = parts.pop("offset"), parts.pop("log_proba", no_logs(len(arrays["offset"])))
        if "normaliser" in parts and not (parts["normaliser"] > 0).all():
            raise ValueError("a degree is not positive")
        fitted = FittedSoftmax.of_parts(settings, parts, None)
        setting = None
        if kept_by := {name: settings[name] for name in _LEARNT_BY if name in settings}:
            setting = Setting(settings["hops"], spread=settings["spread"], **kept_by)
        return LearntRegression(logs, fitted, shift, settings["spread"], setting)

    def describe(self, setting: Setting) -> str:
        """Return a setting in words."""
        parts = [f"up to {setting.hops} hops away"] if self.linked else []
        parts.append(f"penalty {setting.l2:g}")
        parts += ["refitted to confident predictions"] if setting.rounds else []
        parts += ["spread over links"] if setting.spread else []
        return ", ".join(parts)

    @property
    def linked(self) -> bool:
        """Whether features are averaged over links."""
        return max(self.hops) > 0

    def spread(self, logs: NDArray[Any], y: NDArray[np.int64]) -> Array:
        """Return log-probabilities spread over links, those of labels certain, shape (n, K)."""
        graph = self.nodes.graph
        assert graph is not None
        own = np.exp(logs).astype(np.float32)
        labelled = np.flatnonzero(y >= 0)
        own[labelled] = np.eye(own.shape[1], dtype=np.float32)[y[labelled]]
        share = (1.0 / (graph.degrees / graph.unit + 1.0)).astype(np.float32)[:, None]
        found = own
        for _ in range(_SPREAD_STEPS):
            mean = share * (graph.times(found) / np.float32(graph.unit) + found)
            found = np.float32(_RESTART) * own + np.float32(1.0 - _RESTART) * mean
        return np.log(np.maximum(found, 1e-9))


class Links(Regression):
    """A regression on the rows of the adjacency matrix, averaged over hops."""

    name: ClassVar[str] = "links"
    about: ClassVar[str] = "which nodes a node is linked to, directly or indirectly"
    of: ClassVar[Literal["features", "links"]] = "links"
    hops: tuple[int, ...] = (16, 4, 64)
    spreads: ClassVar[bool] = True

    def why_not(self, nodes: NodeData) -> str | None:
        """Return why it does not apply: there are no links."""
        return None if nodes.graph is not None and nodes.graph.n_entries else "there are no links"

    def bind(self, nodes: NodeData) -> Self:
        """Return a copy that holds the smoothed links; far hops only where there are few."""
        bound = super().bind(nodes)
        assert nodes.graph is not None
        if nodes.graph.n_entries > min(_FAR_LINKS, _MANY_OF_A_NODE * nodes.n_nodes):
            bound.hops = tuple(hops for hops in self.hops if hops <= _NEAR)
        return bound

    def _smoothing(self, nodes: NodeData) -> Smoothing:
        assert nodes.graph is not None
        return nodes.links or Smoothing.of_links(nodes.graph)


class Features(Regression):
    """A regression on features averaged over links."""

    name: ClassVar[str] = "smoothed features"
    about: ClassVar[str] = "features, averaged over linked nodes"
    source: ClassVar[str] = "features"

    def why_not(self, nodes: NodeData) -> str | None:
        """Return why it does not apply: there are no features, or no links."""
        if nodes.X is None:
            return "there are no features"
        return None if nodes.graph is not None and nodes.graph.n_entries else "there are no links"


class OwnFeatures(Regression):
    """A regression on each node's own features."""

    name: ClassVar[str] = "own features"
    about: ClassVar[str] = "the node's own features"
    source: ClassVar[str] = "features"
    hops: tuple[int, ...] = (0,)

    def why_not(self, nodes: NodeData) -> str | None:
        """Return why it does not apply: there are no features."""
        return "there are no features" if nodes.X is None else None
