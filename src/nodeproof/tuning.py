"""The few numbers that matter on real graphs, chosen on labels that were held back.

Held back are, in turn, the folds of the labelled nodes, or nodes given for it (`validation`).
Everything is judged by the log-loss there, after the best scaling of the scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from nodeproof.graph import Graph
from nodeproof.problem import Problem
from nodeproof.regression import (
    assign_folds,
    blind_scores,
    estimate_proportions,
    fit_logistic,
    fit_scale,
    shares,
)
from nodeproof.solvers import BlockCADO, Result
from nodeproof.terms import Labels, NodeData, Softmax

__all__ = ["HeldBack", "Tuned", "hold_back", "tune_softmax", "tune_trust"]

Array = NDArray[np.float64]

# Half decades, strongest first; features have length one.
_PENALTIES = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
_FIRST_PENALTY = 0.3
_FOLDS = 5

# The first of each is what suits most graphs. Another is taken only where it does better by a
# standard error: with some dozens of labels, the best of several is often so by chance.
_HOPS = (16, 4, 0)
_TRUST = (0.0, 0.1, 0.3, 1.0)
_ROUNDS = (2, 0)

# What the probabilities are scaled by at the end is believed to be near one, within so much.
_LOG_SCALE_SPREAD = 0.2

# A class counts at most so many times more, or less, than its labels alone would make it.
_MOST_WEIGHT = 5.0
_SAMPLE = 8192

# Below this a probability of a label that was held back counts as this.
_LEAST = 1e-6


@dataclass(frozen=True)
class HeldBack:
    """Labels that are kept from fits, to judge them by.

    Attributes
    ----------
    nodes : ndarray of shape (h,)
        Where they are, ascending.
    codes : ndarray of shape (h,)
        What they are, 0…K−1.
    folds : ndarray of shape (h,)
        In which fit each is held back: 0…F−1.
    y : list of F ndarray of shape (n,)
        The labels that each fit may see.
    weights : ndarray of shape (h,)
        How much each counts: labels may be given evenly to classes of unequal size, and what
        matters is how all nodes fare.
    """

    nodes: NDArray[np.int64]
    codes: NDArray[np.int64]
    folds: NDArray[np.int64]
    y: list[NDArray[np.int64]]
    weights: Array

    def weighed(self, proportions: Array) -> HeldBack:
        """Return the same with weights by what share of all nodes each class has."""
        here = shares(self.targets(len(proportions)))
        ratio = np.clip(proportions / here, 1.0 / _MOST_WEIGHT, _MOST_WEIGHT)[self.codes]
        return replace(self, weights=ratio / ratio.mean())

    def collect(self, rows_of: Callable[[int], NDArray[Any]]) -> Array:
        """Return the rows of the nodes held back, shape (h, K), each by the fit blind to it."""
        found = None
        for fold in range(len(self.y)):
            here = self.folds == fold
            rows = rows_of(fold)[self.nodes[here]]
            if found is None:
                found = np.empty((len(self.nodes), rows.shape[1]))
            found[here] = rows
        assert found is not None
        return found

    def log_loss(self, log_proba: Array) -> float:
        """Return the mean log-loss after the best scaling."""
        return self.mean(self.best_losses(log_proba))

    def best_losses(self, log_proba: Array) -> Array:
        """Return the log-loss at each node after the best scaling, shape (h,)."""
        return self.losses(self.scale(log_proba) * log_proba)

    def scale(self, scores: Array, spread: float = np.inf) -> float:
        """Return the best factor of the scores."""
        return fit_scale(scores, self.targets(scores.shape[1]), self.weights, spread)

    def is_better(self, losses: Array, than: Array) -> bool:
        """Tell whether the losses are lower, by a standard error of the difference."""
        gain = than - losses
        return self.mean(gain) > np.sqrt(self.mean(gain**2) / len(gain))

    def mean(self, values: Array) -> float:
        """Return the weighted mean of one value a node."""
        return float(self.weights @ values / self.weights.sum())

    def losses(self, scores: Array) -> Array:
        """Return the log-loss at each node, shape (h,)."""
        rows = np.arange(len(self.codes))
        return -np.asarray(log_softmax(scores, axis=1)[rows, self.codes])

    def targets(self, n_classes: int) -> Array:
        """Return the labels as rows, shape (h, K)."""
        return np.eye(n_classes)[self.codes]


def hold_back(
    y: NDArray[np.int64],
    validation: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
    n_folds: int = _FOLDS,
) -> HeldBack | None:
    """Return what to judge by, or None where there are too few labels to hold any back.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Labels 0…K−1, −1 where there is none.
    validation : pair of ndarray, optional
        Nodes and their labels, to be judged by instead of folds.
    """
    if validation is not None:
        nodes, codes = validation
        order = np.argsort(nodes)
        folds = np.zeros(len(nodes), dtype=np.int64)
        return HeldBack(nodes[order], codes[order], folds, [y], np.ones(len(nodes)))
    nodes = np.flatnonzero(y >= 0)
    codes = y[nodes]
    counts = np.bincount(codes)
    if (counts[counts > 0] < 2).all() or (counts > 0).sum() < 2:
        return None
    folds = assign_folds(codes, min(n_folds, len(nodes)))
    # The only label of a class cannot be held back.
    alone = counts[codes] < 2
    seen = []
    for fold in range(int(folds.max()) + 1):
        hidden = y.copy()
        hidden[nodes[(folds == fold) & ~alone]] = -1
        seen.append(hidden)
    kept = ~alone
    return HeldBack(nodes[kept], codes[kept], folds[kept], seen, np.ones(int(kept.sum())))


@dataclass(frozen=True)
class Tuned:
    """Settings that were chosen, and how they did on the labels held back.

    Attributes
    ----------
    term : Softmax or None
        The feature term.
    trust : float
        In the graph.
    scale : float
        What log-probabilities are multiplied by at the end.
    held : HeldBack
        The labels that were held back.
    proba : ndarray of shape (h, K)
        The probabilities there, scaled.
    losses : dict
        Mean log-loss by setting, of the last steps.
    """

    term: Softmax | None
    trust: float
    scale: float
    held: HeldBack
    proba: Array
    losses: dict[str, float]

    def accuracy(self, proba: Array) -> tuple[float, float, float]:
        """Return an estimate of the accuracy at nodes without a label, and its 95 % interval.

        Their mean confidence, corrected by how far confidence and truth lie apart at the labels
        held back.

        Parameters
        ----------
        proba : ndarray of shape (u, K)
            Probabilities of the nodes without a label.
        """
        right = (self.proba.argmax(axis=1) == self.held.codes).astype(np.float64)
        excess = right - self.proba.max(axis=1)
        weights = self.held.weights / self.held.weights.sum()
        n = 1.0 / float(weights @ weights)
        shift = float(weights @ excess)
        confidence = float(proba.max(axis=1).mean()) if len(proba) else float("nan")
        estimate = min(max(confidence + shift, 0.0), 1.0)
        # One success and one failure more than were seen: few labels must not look certain.
        spread = float(weights @ (excess - shift) ** 2)
        error = 1.96 * np.sqrt((spread * n + 0.5) / (n + 2.0) / n)
        return estimate, max(estimate - error, 0.0), min(estimate + error, 1.0)


def tune_softmax(nodes: NodeData, held: HeldBack, solver: BlockCADO) -> Tuned:
    """Choose hops, penalty, trust in the graph and rounds of re-fit for :class:`Softmax`.

    Hops and penalty by the classifier alone, whose fits take milliseconds; then trust, then
    rounds, each with what was chosen before.
    """
    held, hops, l2, sharpness, first = _tune_classifier(nodes, held)
    blind = Softmax(hops, l2, rounds=0, sharpness=sharpness, folds=0)
    fits = [_Fit(nodes, blind, y, theta) for y, theta in zip(held.y, first, strict=True)]
    means: dict[str, float] = {}
    trust, results, lowest = 0.0, [], None
    for candidate in _TRUST if nodes.graph is not None else _TRUST[:1]:
        found = [fit.solve(candidate, solver) for fit in fits]
        losses = held.best_losses(_log_rows(held, found))
        means[f"trust {candidate:g}"] = held.mean(losses)
        if lowest is None or held.is_better(losses, than=lowest):
            trust, results, lowest = candidate, found, losses
        elif held.mean(losses) > 1.1 * held.mean(lowest):
            break
    again = results
    for _ in range(max(_ROUNDS)):
        again = [fit.solve(trust, solver, last) for fit, last in zip(fits, again, strict=True)]
    losses = held.best_losses(_log_rows(held, again))
    means[f"rounds {max(_ROUNDS)}"] = held.mean(losses)
    rounds = max(_ROUNDS)
    if lowest is not None and held.is_better(lowest, than=losses):
        rounds, again = 0, results
    term = Softmax(hops, l2, rounds=rounds)
    return _finish(term, trust, held, _log_rows(held, again), means)


def tune_trust(
    graph: Graph, nodes: NodeData, held: HeldBack, solver: BlockCADO, sure: float = 2.0
) -> Tuned:
    """Choose how far links are trusted where there are no features.

    Less than full trust is taken only where the labels held back ask for it, by `sure`
    standard errors of the difference.
    """
    losses, chosen = {}, 1.0
    scores: dict[float, Array] = {}
    for trust in (1.0, 0.3, 0.1):
        results = []
        for y in held.y:
            term = Labels().bind(replace(nodes, y=y))
            problem = Problem(graph, [term], nodes.n_classes, trust=trust)
            results.append(solver.solve(problem))
        logs = _log_rows(held, results)
        scores[trust] = held.scale(logs) * logs
        losses[f"trust {trust:g}"] = held.mean(held.losses(scores[trust]))
        gain = held.losses(scores[chosen]) - held.losses(scores[trust])
        if gain.mean() > sure * gain.std() / np.sqrt(len(gain)):
            chosen = trust
    return _finish(None, chosen, held, scores[chosen], losses)


def _finish(
    term: Softmax | None, trust: float, held: HeldBack, logs: Array, losses: dict[str, float]
) -> Tuned:
    scale = held.scale(logs, _LOG_SCALE_SPREAD)
    proba = np.exp(log_softmax(scale * logs, axis=1))
    return Tuned(term, trust, scale, held, proba, losses)


class _Fit:
    """The fits that may not see one part of the labels."""

    def __init__(self, nodes: NodeData, term: Softmax, y: NDArray[np.int64], first: Array) -> None:
        seen = replace(nodes, y=y)
        self.nodes = nodes
        self.softmax, self.labels = term.bind(seen), Labels().bind(seen)
        self.softmax.first = first

    def solve(self, trust: float, solver: BlockCADO, before: Result | None = None) -> Result:
        graph = self.nodes.graph if trust else None
        problem = Problem(graph, [self.softmax, self.labels], self.nodes.n_classes, trust=trust)
        return solver.solve(problem, start="labels" if before is None else before.W)


def _log_rows(held: HeldBack, results: list[Result]) -> Array:
    rows = held.collect(lambda fold: results[fold].W)
    return np.log(np.maximum(rows, _LEAST))


def _tune_classifier(
    nodes: NodeData, held: HeldBack
) -> tuple[HeldBack, int, float, float, list[Array]]:
    """Return the labels held back, weighed; hops, penalty, sharpness; coefficients of each fit."""
    assert nodes.smoothing is not None
    best: tuple[Array, int, int, Array, Array] | None = None
    at = _PENALTIES.index(_FIRST_PENALTY)
    for hops in _HOPS if nodes.graph is not None else (0,):
        judged = _Judged(nodes.smoothing.over(hops), nodes.n_classes, held)
        if best is None:
            held = judged.weigh(at)
        at = _descend_steps(judged.loss, at, len(_PENALTIES))
        losses = held.best_losses(judged.fits[at][0])
        if best is None or held.is_better(losses, than=best[0]):
            best = (losses, hops, at, *judged.fits[at])
    assert best is not None
    _, hops, at, scores, theta = best
    return held, hops, _PENALTIES[at], held.scale(scores), list(theta)


class _Judged:
    """Classifiers on one smoothing, penalty by penalty."""

    def __init__(self, all_nodes: NDArray[Any], n_classes: int, held: HeldBack) -> None:
        Z, self.all_nodes = all_nodes, all_nodes
        self.held, self.n_classes = held, n_classes
        self.fits: dict[int, tuple[Array, Array]] = {}
        self.y = np.max(held.y, axis=0)
        self.labelled = np.flatnonzero(self.y >= 0)
        self.Z, self.Z_held = Z[self.labelled], Z[held.nodes]
        self.targets = np.eye(n_classes)[self.y[self.labelled]]
        self.seen = np.stack([y[self.labelled] >= 0 for y in held.y], axis=1).astype(float)
        self.last: Array | None = None

    def weigh(self, at: int) -> HeldBack:
        """Return the labels held back, weighed by the proportions among all nodes."""
        self.loss(at)
        scores, theta = self.fits[at]
        mean = self.held.scale(scores) * theta.mean(axis=0)
        sample = self.all_nodes[:: -(-len(self.all_nodes) // _SAMPLE)]
        learnt = shares(self.targets)
        proportions = estimate_proportions(sample @ mean[:, :-1].T + mean[:, -1], learnt)
        self.held = self.held.weighed(proportions)
        return self.held

    def loss(self, at: int) -> float:
        """Return the log-loss of a penalty on the labels held back."""
        theta = fit_logistic(
            self.Z, self.targets, _PENALTIES[at], self.seen, start=self.last, tol=1e-4
        )
        self.last = theta
        scores = blind_scores(self.Z_held, theta, self.held.folds)
        self.fits[at] = scores, theta
        return self.held.log_loss(scores)


def _descend_steps(loss_at: Callable[[int], float], start: int, stop: int) -> int:
    """Return where the loss is lowest, going down from `start` either way."""
    losses = {start: loss_at(start)}
    at = start
    for step in (1, -1):
        while 0 <= at + step < stop and at + step not in losses:
            losses[at + step] = loss_at(at + step)
            if losses[at + step] >= losses[at]:
                break
            at += step
        if at != start:
            break
    return at
