"""The pool of experts for numbers: stacking with weights that are not negative."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from nodeproof.regression.experts import LearntNumbers, NumberExpert
from nodeproof.regression.held_out import HeldTargets
from nodeproof.terms import NewNodes, NodeData

__all__ = ["CrossFitted", "Stack", "fit_stack"]

Array = NDArray[np.float64]

# Prior standard deviation of the weights around those of the best single expert.
_SPREAD = 0.5

# Weights below this share of the largest are dropped.
_LEAST = 0.02


@dataclass(frozen=True)
class Stack:
    """Experts that are pooled: ``mean + Σ_e w_e (prediction_e − mean)``.

    Attributes
    ----------
    mean : float
        Of the targets.
    names : tuple of str
        The experts that have a weight.
    weights : tuple of float
        Their weights, positive.
    learnt : tuple of LearntNumbers
        What they have learnt from all targets.
    """

    mean: float
    names: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()
    learnt: tuple[LearntNumbers, ...] = ()

    @property
    def needs_features(self) -> bool:
        """Whether `judge` looks at the features of new nodes."""
        return any(part.needs_features for part in self.learnt)

    def pooled(self, parts: Sequence[Array], n: int) -> Array:
        """Return what predictions of the experts make together, shape (n,)."""
        total = np.full(n, self.mean)
        for weight, part in zip(self.weights, parts, strict=True):
            total += weight * (part - self.mean)
        return total

    def predictions(self, n: int) -> Array:
        """Return predictions for all n nodes, by all targets."""
        return self.pooled([part.predictions for part in self.learnt], n)

    def judge(self, new: NewNodes) -> Array:
        """Return predictions for new nodes, shape (n_new,)."""
        return self.pooled([part.judge(new) for part in self.learnt], new.links.shape[0])

    def reordered(self, position: NDArray[np.int64]) -> Stack:
        """Return the same for reordered nodes; `position` is where each was before."""
        return replace(self, learnt=tuple(part.reordered(position) for part in self.learnt))


@dataclass(frozen=True)
class CrossFitted:
    """How a stack was chosen, and what it says of held-out nodes.

    Attributes
    ----------
    predictions : ndarray of shape (h,)
        By experts, settings and weights that have not seen a node's target.
    experts : dict
        By name: weight, setting in words, and root mean squared error of held-out targets.
    left_out : dict
        By name: why an expert does not apply.
    base : float
        The same error of the mean of the other targets.
    """

    predictions: Array
    experts: Mapping[str, Mapping[str, Any]]
    left_out: Mapping[str, str]
    base: float


def fit_stack(
    nodes: NodeData, held: HeldTargets, experts: Sequence[NumberExpert]
) -> tuple[Stack, CrossFitted]:
    """Return the experts that foretell held-out targets best, pooled, and how they did.

    Parameters
    ----------
    nodes : NodeData
        Features, links, or both.
    held : HeldTargets
        The targets.
    experts : sequence of NumberExpert
        What to pool.
    """
    left_out, found = {}, {}
    for expert in experts:
        why = expert.why_not(nodes, len(held.nodes))
        if why is None:
            found[expert] = expert.held_out(nodes, held)
        else:
            left_out[expert.name] = why
    base = held.means[held.folds]
    judged = {expert: _Judged.of(said, base) for expert, said in found.items()}
    rest = held.targets - base
    nested = np.empty(len(rest))
    for fold in range(held.n_folds):
        # The fits of other nodes have seen these targets; neither choices nor weights have.
        here = held.folds == fold
        settings, weights = _choose(list(judged.values()), rest, ~here)
        said = _said(list(judged.values()), settings, here)
        nested[here] = base[here] + said @ weights
    everything = np.ones(len(rest), dtype=bool)
    settings, weights = _choose(list(judged.values()), rest, everything)
    said = _said(list(judged.values()), settings, everything)
    described, names, learnt = {}, [], []
    for k, (expert, options) in enumerate(judged.items()):
        setting = options.settings[settings[k]]
        described[expert.name] = {
            "about": expert.about,
            "weight": float(weights[k]),
            "setting": expert.describe(setting),
            "rmse": float(np.sqrt(np.mean((rest - said[:, k]) ** 2))),
        }
        if weights[k] > 0:
            names.append(expert.name)
            learnt.append(expert.learn(nodes, held, setting))
    stack = Stack(
        float(held.targets.mean()),
        tuple(names),
        tuple(float(weight) for weight in weights if weight > 0),
        tuple(learnt),
    )
    error = float(np.sqrt(np.mean(rest**2)))
    return stack, CrossFitted(nested, described, left_out, error)


@dataclass(frozen=True)
class _Judged:
    """What an expert says of held-out nodes by each of its settings, (h, s), less the mean."""

    settings: list[Any]
    said: Array

    @classmethod
    def of(cls, found: Mapping[Any, Array], base: Array) -> _Judged:
        return cls(list(found), np.stack(list(found.values()), axis=1) - base[:, None])


def _choose(
    judged: Sequence[_Judged], rest: Array, rows: NDArray[np.bool_]
) -> tuple[list[int], Array]:
    """Return the setting of each expert, and the weights, by some of the held-out targets."""
    settings = [
        int(np.square(rest[rows, None] - options.said[rows]).sum(axis=0).argmin())
        for options in judged
    ]
    return settings, _weigh(_said(judged, settings, rows), rest[rows])


def _said(judged: Sequence[_Judged], settings: Sequence[int], rows: NDArray[np.bool_]) -> Array:
    """Return what the experts say of some nodes by these settings, shape (rows, E)."""
    columns = [options.said[rows, k] for options, k in zip(judged, settings, strict=True)]
    return np.stack(columns, axis=1) if columns else np.zeros((int(rows.sum()), 0))


def _weigh(said: Array, rest: Array) -> Array:
    """Return weights of least squared error, with a ridge towards the best single expert.

    The mean of the targets is one of these: then all weights are near 0.

    Parameters
    ----------
    said : ndarray of shape (h, E)
        Predictions less the mean.
    rest : ndarray of shape (h,)
        Targets less the mean.
    """
    E = said.shape[1]
    best = np.zeros(E)
    errors = [np.mean(rest**2), *np.mean((rest[:, None] - said) ** 2, axis=0)]
    first = int(np.argmin(errors))
    if first:
        best[first - 1] = 1.0
    if not E or not errors[first] > 0:
        return best
    # One standard deviation of a weight costs as much as one of the noise.
    ridge = np.sqrt(errors[first]) / _SPREAD
    weights, _ = nnls(np.vstack([said, ridge * np.eye(E)]), np.append(rest, ridge * best))
    return np.where(weights < _LEAST * weights.max(initial=0.0), 0.0, weights)
