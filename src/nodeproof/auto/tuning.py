"""Candidate settings for the same nodes, raced on held-out labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from nodeproof.auto.held_out import Classifier, CrossFitted, HeldOut, choose_classifier
from nodeproof.problem import Problem
from nodeproof.smoothing import Smoothing
from nodeproof.solvers import BlockCADO, Result, Status
from nodeproof.solvers.beliefs import reported_probabilities
from nodeproof.terms import Labels, NodeData, Softmax, Term
from nodeproof.terms.logistic import fit_noise

__all__ = ["Setting", "Tuned", "tune_links", "tune_softmax"]

Array = NDArray[np.float64]
Affinities = Literal["scalar", "matrix"]

_TRUST = (0.1, 0.3, 1.0)
_ROUNDS = 2

# How much better settings may fit the labels that they were chosen on than others.
_CHOSEN = 0.02

# Prior standard deviation of the difference between mean confidence and accuracy.
_MISCALIBRATION = 0.04

# How many labels per class the estimated share of wrong labels is worth.
_NOISE_STRENGTH = 10.0

# By how many standard errors a classifier of links must beat their likelihood. On Cora,
# Citeseer and ACM, links and 20 labels per class, three splits each, 0, 0.5, 1 and 2 were tried on
# the same splits: mean calibration error .08 with 0.5 and .26 with 2. On planted graphs, 0 cost up
# to .6 points beside 2. So few splits cannot tell 0.5 from its neighbours.
_CLASSIFIER_ERRORS = 0.5

# Fits that are only compared need not converge as far as the final one.
_LOOSE = 1e-2

# Prior standard deviation of the log of the final scale of the scores.
_LOG_SCALE_SPREAD = 0.2


@dataclass(frozen=True)
class Setting:
    """Candidate settings of a fit.

    Attributes
    ----------
    term : Term or None
        The features' term; None leaves them out.
    trust : float
        In the graph.
    affinities : {"scalar", "matrix"}
        One contrast of links for all classes, or one per pair of classes.
    """

    term: Term | None
    trust: float
    affinities: Affinities = "scalar"

    def applied_to(self, solver: BlockCADO) -> BlockCADO:
        """Return the solver with these affinities; a solver set to a matrix keeps it."""
        return replace(solver, affinities="matrix") if self.affinities == "matrix" else solver

    def __str__(self) -> str:
        features = "" if self.term is None else f"{self.term.short_name}, "
        kind = ", one contrast per pair of classes" if self.affinities == "matrix" else ""
        return f"{features}trust {self.trust:g}{kind}"


@dataclass(frozen=True)
class Tuned:
    """The setting that was chosen, and how it did on held-out labels.

    Attributes
    ----------
    setting : Setting
        What to fit.
    held : HeldOut
        The held-out labels.
    logs : ndarray of shape (h, K)
        Log-memberships of the held-out nodes, each by the fit that did not see its label.
    memberships : list of ndarray of shape (n, K)
        The memberships of each of these fits.
    losses : dict
        Mean log-loss of every setting that was tried.
    """

    setting: Setting
    held: HeldOut
    logs: Array
    memberships: list[NDArray[np.float32]]
    losses: dict[str, float] = field(default_factory=dict)

    def labels(self) -> Labels:
        """Return the label term, with the accuracy estimated on the held-out labels."""
        if self.held.noise == 0.0 or not self.held.own:
            return Labels()
        return Labels(accuracy=1.0 - self.held.noise, strength=_NOISE_STRENGTH)

    @property
    def scale(self) -> float:
        """Final factor of the log-probabilities.

        One if all terms are likelihoods, unless the held-out labels clearly contradict it.
        """
        scale = self.held.scale(self.logs, _LOG_SCALE_SPREAD)
        if self.setting.term is not None and self.setting.term.discriminative:
            return scale
        scaled, plain = self.held.losses(scale * self.logs), self.held.losses(self.logs)
        return scale if self.held.is_better(scaled, plain, errors=2.0) else 1.0

    def cross_fitted(self) -> CrossFitted:
        """Return the held-out nodes with their cross-fitted probabilities."""
        proba = softmax(self.scale * self.logs, axis=1).astype(np.float32)
        return CrossFitted(self.held.nodes, self.held.codes, proba, self.held.noise)

    def accuracy(self, proba: NDArray[Any]) -> tuple[float, float, float] | None:
        """Return an estimate of the accuracy at unlabelled nodes, and its 95 % interval.

        It is their mean confidence, corrected by the difference between confidence and accuracy
        on the held-out labels, shrunk according to how few they are.

        Parameters
        ----------
        proba : ndarray of shape (u, K)
            Probabilities of the unlabelled nodes; None is returned if there are none.
        """
        if len(proba) == 0:
            return None
        proba_held = self.cross_fitted().proba.astype(np.float64)
        right = (proba_held.argmax(axis=1) == self.held.codes).astype(np.float64)
        excess = right - proba_held.max(axis=1)
        weights = self.held.weights / self.held.weights.sum()
        if self.held.noise:  # from agreement with noisy labels to accuracy
            elsewhere = self.held.noise / (proba.shape[1] - 1)
            right = (right - elsewhere) / (1.0 - self.held.noise - elsewhere)
            excess = right - proba_held.max(axis=1)
        n = 1.0 / float(weights @ weights)
        shift = float(weights @ excess)
        # One more success and one more failure than observed: few labels must not look certain.
        spread = float(weights @ (excess - shift) ** 2)
        variance = (spread * n + 0.5) / (n + 2.0) / n
        confidence = float(proba.max(axis=1).mean())
        believed = _MISCALIBRATION**2 / (_MISCALIBRATION**2 + variance)
        # Settings were chosen on these labels: they may lower the estimate, not raise it.
        estimate, corrected = confidence + believed * min(shift, 0.0), confidence + shift
        error = 1.96 * np.sqrt(variance + _CHOSEN**2)
        low, high = min(estimate, corrected) - error, max(estimate, corrected) + error
        low, estimate, high = np.clip([low, estimate, high], 0.0, 1.0).tolist()
        return estimate, low, high


def tune_softmax(
    nodes: NodeData, held: HeldOut, solver: BlockCADO, rivals: tuple[Term, ...] = ()
) -> Tuned:
    """Choose hops, penalty, trust in the graph and refitting rounds for :class:`Softmax`.

    Hops and penalty are chosen with the classifier alone, whose fits take milliseconds; then the
    trust, then the rounds, each with the previous choices fixed. Finally the alternatives are
    tried: a classifier of links, and the given rivals.

    Parameters
    ----------
    rivals : tuple of Term
        Other terms for the features.
    """
    assert nodes.smoothing is not None
    chosen = choose_classifier(nodes.smoothing, nodes.n_classes, held)
    assert chosen is not None
    classifier, held = chosen
    best = _tune_around(nodes, held, solver, _ClassifierOf("features", classifier))
    best = _try_links(nodes, solver, best)
    for term in rivals:
        best = _race(nodes, replace(solver, n_init=1), best, Setting(term, 1.0))
    return best


def tune_links(nodes: NodeData, held: HeldOut, solver: BlockCADO) -> Tuned:
    """Choose a model of the links if there are no features.

    It is their likelihood with one contrast for all classes, unless another does better on
    held-out labels: a contrast per pair of classes, by two standard errors, or a classifier, by
    half a standard error.
    """
    plain = Setting(None, 1.0)
    memberships = list(_held_out_memberships(nodes, held, solver, plain))
    best = _with_label_noise(_evaluate(plain, held, memberships))
    matrix = Setting(None, 1.0, "matrix")
    best = _race(nodes, solver, best, matrix, starts=best.memberships, errors=2.0)
    return _try_links(nodes, solver, best, errors=_CLASSIFIER_ERRORS)


def _try_links(nodes: NodeData, solver: BlockCADO, best: Tuned, errors: float = 1.0) -> Tuned:
    """Return the better of the best so far and a classifier of links."""
    if nodes.graph is None or nodes.graph.n_entries == 0:
        return best
    nodes = replace(nodes, links=nodes.links or Smoothing.of_links(nodes.graph))
    assert nodes.links is not None
    lowest = best.held.best_losses(best.logs)
    chosen = choose_classifier(nodes.links, nodes.n_classes, best.held, than=lowest)
    if chosen is None:
        return best
    other = _tune_around(nodes, best.held, solver, _ClassifierOf("links", chosen[0]))
    losses = best.losses | other.losses
    tried = best.held.best_losses(other.logs)
    chosen_one = other if best.held.is_better(tried, lowest, errors) else best
    return replace(chosen_one, losses=losses)


@dataclass(frozen=True)
class _ClassifierOf:
    """A classifier, and whether it learns from features or links."""

    of: Literal["features", "links"]
    classifier: Classifier

    def term(self, rounds: int = 0, **settings: Any) -> Softmax:
        chosen = self.classifier
        return Softmax(chosen.hops, chosen.l2, rounds=rounds, of=self.of, **settings)


def _tune_around(nodes: NodeData, held: HeldOut, solver: BlockCADO, source: _ClassifierOf) -> Tuned:
    """Return a classifier with the best trust in the graph and number of rounds."""
    return _try_rounds(nodes, solver, source, _try_trust(nodes, held, solver, source))


def _evaluate(setting: Setting, held: HeldOut, memberships: list[NDArray[np.float32]]) -> Tuned:
    logs = held.collect(memberships)
    losses = {str(setting): held.mean(held.best_losses(logs))}
    return Tuned(setting, held, logs, memberships, losses)


def _with_label_noise(tuned: Tuned) -> Tuned:
    """Return the same with an estimate of label noise.

    Labels that contradict confident predictions are taken to be wrong: likelihoods are trusted not
    to be overconfident.
    """
    targets = tuned.held.targets(tuned.logs.shape[1])
    noise = fit_noise(tuned.logs, targets, tuned.held.weights, _LOG_SCALE_SPREAD)
    return _evaluate(tuned.setting, replace(tuned.held, noise=noise), tuned.memberships)


def _race(
    nodes: NodeData,
    solver: BlockCADO,
    best: Tuned,
    setting: Setting,
    starts: list[NDArray[np.float32]] | None = None,
    errors: float = 1.0,
) -> Tuned:
    """Return the better of the best so far and another setting.

    The other is abandoned once it is worse by two standard errors on the folds so far.
    """
    held = best.held
    lowest = held.best_losses(best.logs)
    memberships: list[NDArray[np.float32]] = []
    for W in _held_out_memberships(nodes, held, solver, setting, starts):
        memberships.append(W)
        losses = held.best_losses(held.collect(memberships))
        there = np.isfinite(losses)
        if len(memberships) == len(held.y) or not there.any():
            continue
        if held.is_better(lowest, losses, errors=2.0):
            best.losses[str(setting)] = float(losses[there].mean())
            return best
    other = _with_label_noise(_evaluate(setting, held, memberships))
    losses = other.held.best_losses(other.logs)
    chosen = other if held.is_better(losses, lowest, errors) else best
    return replace(chosen, losses=best.losses | other.losses)


def _held_out_memberships(
    nodes: NodeData,
    held: HeldOut,
    solver: BlockCADO,
    setting: Setting,
    starts: list[NDArray[np.float32]] | None = None,
) -> Iterator[NDArray[np.float32]]:
    """Yield the memberships of each fit, which does not see one fold of the labels."""
    solver = setting.applied_to(solver)
    for fold, y in enumerate(held.y):
        seen = replace(nodes, y=y)
        terms = [Labels()] if setting.term is None else [setting.term, Labels()]
        bound = [term.bind(seen) for term in terms]
        problem = Problem(nodes.graph, bound, nodes.n_classes, trust=setting.trust)
        result = _finished(solver.solve(problem, start=starts[fold] if starts else None))
        beliefs, _ = reported_probabilities(problem, result, solver)
        yield result.W if beliefs is None else beliefs


def _try_trust(nodes: NodeData, held: HeldOut, solver: BlockCADO, source: _ClassifierOf) -> Tuned:
    """Return the best trust in the graph for the classifier fitted to the labels."""
    best = _classify(nodes, held, solver, source, Setting(source.term(), 0.0))
    if nodes.graph is None:
        return best
    settings = [Setting(best.setting.term, trust) for trust in _TRUST]
    if source.classifier.hops == 0:
        settings += [Setting(best.setting.term, trust, "matrix") for trust in (0.3, 1.0)]
    hopeless = False
    for setting in settings:
        if hopeless and setting.affinities == "scalar":
            continue
        other = _classify(nodes, held, solver, source, setting)
        losses = best.losses | other.losses
        lowest, tried = held.best_losses(best.logs), held.best_losses(other.logs)
        best = replace(other if held.is_better(tried, lowest) else best, losses=losses)
        hopeless = hopeless or held.mean(tried) > 1.1 * held.mean(lowest)
    return best


def _try_rounds(nodes: NodeData, solver: BlockCADO, source: _ClassifierOf, best: Tuned) -> Tuned:
    """Return the same with refits, unless they do worse."""
    held = best.held
    setting = replace(best.setting, term=source.term(_ROUNDS))
    again = best
    for _ in range(_ROUNDS):
        again = _classify(nodes, held, solver, source, setting, again.memberships)
    without, with_rounds = held.best_losses(best.logs), held.best_losses(again.logs)
    losses = best.losses | {f"{setting}, {_ROUNDS} rounds": held.mean(with_rounds)}
    return replace(best if held.is_better(without, with_rounds) else again, losses=losses)


def _classify(
    nodes: NodeData,
    held: HeldOut,
    solver: BlockCADO,
    source: _ClassifierOf,
    setting: Setting,
    before: list[NDArray[np.float32]] | None = None,
) -> Tuned:
    """Evaluate a setting with the classifier's own fits, or one more round of them."""
    term = source.term(sharpness=source.classifier.sharpness, folds=0)
    solver = replace(setting.applied_to(solver), tol=max(solver.tol, _LOOSE))
    memberships = []
    for fold, y in enumerate(held.y):
        seen = replace(nodes, y=y)
        softmax, labels = term.bind(seen), Labels().bind(seen)
        softmax.first = source.classifier.first[fold]
        graph = nodes.graph if setting.trust else None
        problem = Problem(graph, [softmax, labels], nodes.n_classes, trust=setting.trust)
        start = "labels" if before is None else before[fold]
        memberships.append(_finished(solver.solve(problem, start=start)).W)
    return _evaluate(setting, held, memberships)


def _finished(result: Result) -> Result:
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt  # half-finished candidates cannot be compared
    return result
