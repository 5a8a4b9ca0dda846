"""Several ways to fit the same nodes, raced on labels held back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from nodeproof.auto.held_out import Blind, Classifier, HeldBack, choose_classifier
from nodeproof.problem import Problem
from nodeproof.smoothing import Smoothing
from nodeproof.solvers import BlockCADO, Result, Status
from nodeproof.solvers.beliefs import reported_rows
from nodeproof.terms import Labels, NodeData, Softmax, Term
from nodeproof.terms.logistic import fit_noise

__all__ = ["Setting", "Tuned", "tune_links", "tune_softmax"]

Array = NDArray[np.float64]
Affinities = Literal["scalar", "matrix"]

_TRUST = (0.1, 0.3, 1.0)
_ROUNDS = 2

# How much settings may suit the labels that they were chosen by better than others.
_CHOSEN = 0.02

# How far mean confidence and accuracy are believed to lie apart, before labels are held back.
_MISCALIBRATION = 0.04

# How many labels a class an estimated share of wrong labels is worth.
_NOISE_STRENGTH = 10.0

# By how many standard errors a classifier of links must do better than their likelihood. On Cora,
# Citeseer and ACM, links and 20 labels per class, three splits each, 0, 0.5, 1 and 2 were tried on
# the same splits: mean calibration error .08 with 0.5 and .26 with 2. On planted graphs, 0 cost up
# to .6 points beside 2. So few splits cannot tell 0.5 from its neighbours.
_CLASSIFIER_ERRORS = 0.5

# Rows that are only compared need not settle as much as those that are kept.
_LOOSE = 1e-2

# What the probabilities are scaled by at the end is believed to be near one, within so much.
_LOG_SCALE_SPREAD = 0.2


@dataclass(frozen=True)
class Setting:
    """One way to fit.

    Attributes
    ----------
    term : Term or None
        What is made of the features; None leaves them out.
    trust : float
        In the graph.
    affinities : {"scalar", "matrix"}
        One contrast of links for all classes, or one for each two.
    """

    term: Term | None
    trust: float
    affinities: Affinities = "scalar"

    def applied_to(self, solver: BlockCADO) -> BlockCADO:
        """Return the solver with these affinities; one that is asked for them keeps them."""
        return replace(solver, affinities="matrix") if self.affinities == "matrix" else solver

    def __str__(self) -> str:
        features = "" if self.term is None else f"{self.term.short_name}, "
        kind = ", class by class" if self.affinities == "matrix" else ""
        return f"{features}trust {self.trust:g}{kind}"


@dataclass(frozen=True)
class Tuned:
    """The setting that was chosen, and how it did on the labels held back.

    Attributes
    ----------
    setting : Setting
        What to fit.
    held : HeldBack
        The labels that were held back.
    logs : ndarray of shape (h, K)
        Logarithms of their rows, each by the fit blind to it.
    rows : list of ndarray of shape (n, K)
        What the blind fits ended with.
    losses : dict
        Mean log-loss by setting that was tried.
    """

    setting: Setting
    held: HeldBack
    logs: Array
    rows: list[NDArray[np.float32]]
    losses: dict[str, float] = field(default_factory=dict)

    def labels(self) -> Labels:
        """Return the label term, as doubtful as the labels held back have turned out to be."""
        if self.held.noise == 0.0 or not self.held.own:
            return Labels()
        return Labels(accuracy=1.0 - self.held.noise, strength=_NOISE_STRENGTH)

    @property
    def scale(self) -> float:
        """What log-probabilities are multiplied by at the end.

        One where all is likelihood, unless the labels held back gainsay it plainly.
        """
        scale = self.held.scale(self.logs, _LOG_SCALE_SPREAD)
        if self.setting.term is not None and self.setting.term.discriminative:
            return scale
        scaled, plain = self.held.losses(scale * self.logs), self.held.losses(self.logs)
        return scale if self.held.is_better(scaled, plain, errors=2.0) else 1.0

    def blind(self) -> Blind:
        """Return what the fits blind to them think of the nodes held back."""
        proba = softmax(self.scale * self.logs, axis=1).astype(np.float32)
        return Blind(self.held.nodes, self.held.codes, proba, self.held.noise)

    def accuracy(self, proba: NDArray[Any]) -> tuple[float, float, float] | None:
        """Return an estimate of the accuracy at nodes without a label, and its 95 % interval.

        Their mean confidence, corrected by how far confidence and truth lie apart at the labels
        held back, as far as so few can tell.

        Parameters
        ----------
        proba : ndarray of shape (u, K)
            Probabilities of the nodes without a label; None is returned where there are none.
        """
        if len(proba) == 0:
            return None
        proba_held = self.blind().proba.astype(np.float64)
        right = (proba_held.argmax(axis=1) == self.held.codes).astype(np.float64)
        excess = right - proba_held.max(axis=1)
        weights = self.held.weights / self.held.weights.sum()
        if self.held.noise:  # agreement with labels that are partly wrong, undone
            elsewhere = self.held.noise / (proba.shape[1] - 1)
            right = (right - elsewhere) / (1.0 - self.held.noise - elsewhere)
            excess = right - proba_held.max(axis=1)
        n = 1.0 / float(weights @ weights)
        shift = float(weights @ excess)
        # One success and one failure more than were seen: few labels must not look certain.
        spread = float(weights @ (excess - shift) ** 2)
        variance = (spread * n + 0.5) / (n + 2.0) / n
        confidence = float(proba.max(axis=1).mean())
        believed = _MISCALIBRATION**2 / (_MISCALIBRATION**2 + variance)
        # Settings were chosen by these labels: they may lower the estimate, not raise it.
        estimate, corrected = confidence + believed * min(shift, 0.0), confidence + shift
        error = 1.96 * np.sqrt(variance + _CHOSEN**2)
        low, high = min(estimate, corrected) - error, max(estimate, corrected) + error
        low, estimate, high = np.clip([low, estimate, high], 0.0, 1.0).tolist()
        return estimate, low, high


def tune_softmax(
    nodes: NodeData, held: HeldBack, solver: BlockCADO, rivals: tuple[Term, ...] = ()
) -> Tuned:
    """Choose hops, penalty, trust in the graph and rounds of re-fit for :class:`Softmax`.

    Hops and penalty by the classifier alone, whose fits take milliseconds; then trust, then
    rounds, each with what was chosen before. At last other ways to fit are tried: a classifier
    of links, and what may be given.

    Parameters
    ----------
    rivals : tuple of Term
        What else might be made of the features.
    """
    assert nodes.smoothing is not None
    chosen = choose_classifier(nodes.smoothing, nodes.n_classes, held)
    assert chosen is not None
    classifier, held = chosen
    best = _tune_around(nodes, held, solver, _Way("features", classifier))
    best = _try_links(nodes, solver, best)
    for term in rivals:
        best = _race(nodes, replace(solver, n_init=1), best, Setting(term, 1.0))
    return best


def tune_links(nodes: NodeData, held: HeldBack, solver: BlockCADO) -> Tuned:
    """Choose what to make of links where there are no features.

    Their likelihood with one contrast for all classes, unless held-out labels ask for something
    else: a contrast for each two classes, by two standard errors, or a classifier, by half of one.
    """
    plain = Setting(None, 1.0)
    best = _believe(_judge(plain, held, list(_blind_rows(nodes, held, solver, plain))))
    matrix = Setting(None, 1.0, "matrix")
    best = _race(nodes, solver, best, matrix, starts=best.rows, errors=2.0)
    return _try_links(nodes, solver, best, errors=_CLASSIFIER_ERRORS)


def _try_links(nodes: NodeData, solver: BlockCADO, best: Tuned, errors: float = 1.0) -> Tuned:
    """Return the better of what is best so far and a classifier of links."""
    if nodes.graph is None or nodes.graph.n_entries == 0:
        return best
    nodes = replace(nodes, links=nodes.links or Smoothing.of_links(nodes.graph))
    assert nodes.links is not None
    lowest = best.held.best_losses(best.logs)
    chosen = choose_classifier(nodes.links, nodes.n_classes, best.held, than=lowest)
    if chosen is None:
        return best
    other = _tune_around(nodes, best.held, solver, _Way("links", chosen[0]))
    losses = best.losses | other.losses
    tried = best.held.best_losses(other.logs)
    chosen_one = other if best.held.is_better(tried, lowest, errors) else best
    return replace(chosen_one, losses=losses)


@dataclass(frozen=True)
class _Way:
    """A classifier, and what it learns from."""

    of: Literal["features", "links"]
    classifier: Classifier

    def term(self, rounds: int = 0, **settings: Any) -> Softmax:
        chosen = self.classifier
        return Softmax(chosen.hops, chosen.l2, rounds=rounds, of=self.of, **settings)


def _tune_around(nodes: NodeData, held: HeldBack, solver: BlockCADO, way: _Way) -> Tuned:
    """Return a classifier with the trust in the graph and the rounds that suit it."""
    return _try_rounds(nodes, solver, way, _try_trust(nodes, held, solver, way))


def _judge(setting: Setting, held: HeldBack, rows: list[NDArray[np.float32]]) -> Tuned:
    logs = held.collect(rows)
    return Tuned(setting, held, logs, rows, {str(setting): held.mean(held.best_losses(logs))})


def _believe(found: Tuned) -> Tuned:
    """Return the same, with labels that gainsay what is certain taken for wrong.

    Likelihoods are believed: it is not they that are too sure.
    """
    targets = found.held.targets(found.logs.shape[1])
    noise = fit_noise(found.logs, targets, found.held.weights, _LOG_SCALE_SPREAD)
    return _judge(found.setting, replace(found.held, noise=noise), found.rows)


def _race(
    nodes: NodeData,
    solver: BlockCADO,
    best: Tuned,
    setting: Setting,
    starts: list[NDArray[np.float32]] | None = None,
    errors: float = 1.0,
) -> Tuned:
    """Return the better of what is best so far and another setting.

    The other gives up where it is worse by two standard errors on the folds so far.
    """
    held = best.held
    lowest = held.best_losses(best.logs)
    rows: list[NDArray[np.float32]] = []
    for found in _blind_rows(nodes, held, solver, setting, starts):
        rows.append(found)
        losses = held.best_losses(held.collect(rows))
        there = np.isfinite(losses)
        if len(rows) == len(held.y) or not there.any():
            continue
        if held.is_better(lowest, losses, errors=2.0):
            best.losses[str(setting)] = float(losses[there].mean())
            return best
    other = _believe(_judge(setting, held, rows))
    losses = other.held.best_losses(other.logs)
    chosen = other if held.is_better(losses, lowest, errors) else best
    return replace(chosen, losses=best.losses | other.losses)


def _blind_rows(
    nodes: NodeData,
    held: HeldBack,
    solver: BlockCADO,
    setting: Setting,
    starts: list[NDArray[np.float32]] | None = None,
) -> Iterator[NDArray[np.float32]]:
    """Yield the rows of each fit that may not see one part of the labels."""
    solver = setting.applied_to(solver)
    for fold, y in enumerate(held.y):
        seen = replace(nodes, y=y)
        terms = [Labels()] if setting.term is None else [setting.term, Labels()]
        bound = [term.bind(seen) for term in terms]
        problem = Problem(nodes.graph, bound, nodes.n_classes, trust=setting.trust)
        result = _finished(solver.solve(problem, start=starts[fold] if starts else None))
        rows, _ = reported_rows(problem, result, solver)
        yield result.W if rows is None else rows


def _try_trust(nodes: NodeData, held: HeldBack, solver: BlockCADO, way: _Way) -> Tuned:
    """Return the best trust in the graph beside the classifier fitted to the labels."""
    best = _classify(nodes, held, solver, way, Setting(way.term(), 0.0))
    if nodes.graph is None:
        return best
    settings = [Setting(best.setting.term, trust) for trust in _TRUST]
    if way.classifier.hops == 0:
        settings += [Setting(best.setting.term, trust, "matrix") for trust in (0.3, 1.0)]
    hopeless = False
    for setting in settings:
        if hopeless and setting.affinities == "scalar":
            continue
        other = _classify(nodes, held, solver, way, setting)
        losses = best.losses | other.losses
        lowest, tried = held.best_losses(best.logs), held.best_losses(other.logs)
        best = replace(other if held.is_better(tried, lowest) else best, losses=losses)
        hopeless = hopeless or held.mean(tried) > 1.1 * held.mean(lowest)
    return best


def _try_rounds(nodes: NodeData, solver: BlockCADO, way: _Way, best: Tuned) -> Tuned:
    """Return the same with re-fits, unless they do worse."""
    held = best.held
    setting = replace(best.setting, term=way.term(_ROUNDS))
    again = best
    for _ in range(_ROUNDS):
        again = _classify(nodes, held, solver, way, setting, again.rows)
    without, with_rounds = held.best_losses(best.logs), held.best_losses(again.logs)
    losses = best.losses | {f"{setting}, {_ROUNDS} rounds": held.mean(with_rounds)}
    return replace(best if held.is_better(without, with_rounds) else again, losses=losses)


def _classify(
    nodes: NodeData,
    held: HeldBack,
    solver: BlockCADO,
    way: _Way,
    setting: Setting,
    before: list[NDArray[np.float32]] | None = None,
) -> Tuned:
    """Judge a setting with the classifier's own fits, or one more round of them."""
    blind = way.term(sharpness=way.classifier.sharpness, folds=0)
    solver = replace(setting.applied_to(solver), tol=max(solver.tol, _LOOSE))
    rows = []
    for fold, y in enumerate(held.y):
        seen = replace(nodes, y=y)
        softmax, labels = blind.bind(seen), Labels().bind(seen)
        softmax.first = way.classifier.first[fold]
        graph = nodes.graph if setting.trust else None
        problem = Problem(graph, [softmax, labels], nodes.n_classes, trust=setting.trust)
        start = "labels" if before is None else before[fold]
        rows.append(_finished(solver.solve(problem, start=start)).W)
    return _judge(setting, held, rows)


def _finished(result: Result) -> Result:
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt  # what is only compared is of no use half done
    return result
