"""From checked data to a fitted model: what `NodeRegressor.fit` and `nodeproof fit --target` do.

In order: nodes are put into a canonical order (`arrangement`), targets are brought to mean 0 and
variance 1, and held out in turn (`held_out`); experts learn from the others and are pooled by how
well they foretell what was held out (`stack`); what is left says how far predictions are off, and
where (`Difficulty`). The results are put back into the given order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.arrangement import Arrangement
from nodeproof.auto.settings import Choices
from nodeproof.errors import count_of
from nodeproof.inputs import Unit, check_reach
from nodeproof.regression.data import TargetData
from nodeproof.regression.fitted import Difficulty, FittedTargets, error_of, find_suspects
from nodeproof.regression.held_out import HeldTargets, hold_out_targets
from nodeproof.regression.propagation import PassedOn
from nodeproof.regression.ridge import OwnFeatures, SmoothedFeatures
from nodeproof.regression.settings import RegressionSettings
from nodeproof.regression.stack import CrossFitted, Stack, fit_stack
from nodeproof.runtime import threads
from nodeproof.runtime.logs import level_of, logger, shown, warn_caller
from nodeproof.smoothing import Smoothing
from nodeproof.terms import NodeData

__all__ = ["fit_targets"]

Array = NDArray[np.float64]

# Fewer targets cannot tell what foretells them: their mean is predicted.
_FEWEST = 4

# Targets so many times the distance of the quartiles outside of these are not learnt from, if they
# are no more than this share: typos, not a long tail.
_FENCE, _MOST_OUTSIDE = 12.0, 0.01

# Difficulty is predicted with so many targets, and if that is better by so many standard errors and
# so much of the log-likelihood per target.
_ENOUGH, _CLEARLY, _WORTH = 60, 1.0, 0.02

# Of the median error, added before logarithms.
_FLOOR = 0.2


def fit_targets(data: TargetData, settings: RegressionSettings) -> FittedTargets:
    """Predict the target of every node.

    Parameters
    ----------
    data : TargetData
        Features, targets and links.
    settings : RegressionSettings
        How to fit.
    """
    settings.check()
    with threads.using(settings.n_jobs), shown(settings.verbose):
        return _Fit(data, settings).run()


class _Fit:
    """The state that the steps of one fit share."""

    def __init__(self, data: TargetData, settings: RegressionSettings) -> None:
        self.data, self.settings = data, settings
        parts = data.parts
        self.choices: Choices = {} if parts.made is None else {"graph": parts.made.choice}
        links = parts.graph
        if links is not None and len(links.kinds) > 1:
            self.choices["kinds"] = {
                "value": [kind.name for kind in links.kinds],
                "why": "numeric targets take all kinds of links together, each with a mean of one",
            }
        if links is not None:
            links = links.view("together")
        X = parts.X
        self.unit = None if X is None or sp.issparse(X) else Unit.needed(X)
        if self.unit is not None:
            X = self.unit.apply(X)
        if X is not None:
            check_reach(X)
        # Two columns: how many targets a node has heard of, and their sum.
        given = NodeData(2, X, data.ranks, links, feature_names=parts.feature_names)
        self.arrangement = Arrangement.of(given)
        nodes = given if self.arrangement is None else self.arrangement.arrange(given)
        no_features = nodes.X is None or not nodes.X.shape[1]
        smoothing = None if no_features else Smoothing(nodes.X, nodes.graph)
        self.nodes = replace(nodes, X=None if no_features else nodes.X, smoothing=smoothing)
        order = slice(None) if self.arrangement is None else self.arrangement.order
        self.targets = data.targets[order]

    def run(self) -> FittedTargets:
        """Choose, fit, and return the results."""
        known = np.flatnonzero(~np.isnan(self.targets))
        centre, scale, fitted_to = self._in_unit(known)
        graph = self.nodes.graph
        rng = np.random.default_rng(self.settings.seed())
        held = hold_out_targets(fitted_to, rng, 0 if graph is None else graph.n_entries)
        if held is None:
            stack, judged = Stack(0.0), None
            self._warn_of_few(len(known))
        else:
            experts = self.settings.chosen() if len(known) >= _FEWEST and scale > 0 else []
            if len(known) < _FEWEST:
                self._warn_of_few(len(known))
            stack, judged = fit_stack(self.nodes, held, experts)
            self._record(stack, judged, held, scale)
        predictions = centre + scale * stack.predictions(len(self.targets))
        spread, scores = np.ones(len(self.targets)), np.empty(0)
        difficulty, error = None, None
        if held is not None and judged is not None:
            predictions[held.nodes] = centre + scale * judged.predictions
            off = np.abs(self.targets - predictions)
            difficulty, spread = self._difficulty(held, off[held.nodes])
            scores = (off / spread)[known]
            means = np.full(len(predictions), centre)
            means[held.nodes] += scale * held.means[held.folds]
            error = error_of(self.targets[known], predictions[known], means[known])
        return self._collect(centre, scale, stack, difficulty, predictions, spread, scores, error)

    def _in_unit(self, known: NDArray[np.int64]) -> tuple[float, float, Array]:
        """Return mean and deviation of the targets, and them in this unit, NaN for outliers."""
        values = self.targets[known]
        low, middle, high = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
        reach = _FENCE * (high - low)
        kept = (values >= low - reach) & (values <= high + reach)
        outside = int((~kept).sum())
        if reach > 0 and 0 < outside <= max(1, _MOST_OUTSIDE * len(values)):
            self.choices["targets"] = {
                "value": [low - reach, high + reach],
                "why": f"{count_of(outside, 'target')} far outside all others, beyond this: not "
                "learnt from, so that they do not decide everything",
            }
            known, values = known[kept], values[kept]
        # Sorted: sums do not depend on the order of the nodes. Less a middle value: no digits of
        # what varies are lost far from zero.
        rest = np.sort(values) - middle
        centre, scale = middle + float(rest.mean()), 0.0
        if np.ptp(rest) > 0:
            largest = float(np.abs(rest).max())
            scale = largest * float((rest / largest).std())
        found = np.full(len(self.targets), np.nan)
        found[known] = (values - centre) / scale if scale > 0 else 0.0
        return centre, scale, found

    def _warn_of_few(self, count: int) -> None:
        targets = "is 1 target" if count == 1 else f"are {count} targets"
        warn_caller(
            f"there {targets}, too few to learn from: the mean of the targets is predicted "
            f"everywhere; give at least {_FEWEST}"
        )

    def _record(self, stack: Stack, judged: CrossFitted, held: HeldTargets, scale: float) -> None:
        """Record which experts were pooled, by which settings and weights, and why not others."""
        told = {
            name: {**said, "rmse": scale * said["rmse"]} for name, said in judged.experts.items()
        }
        shown_weights = ", ".join(
            f"{name} {weight:.2f}" for name, weight in zip(stack.names, stack.weights, strict=True)
        )
        logger.log(level_of(self.settings.verbose), "experts: %s", shown_weights or "none")
        self.choices["experts"] = {
            "value": told,
            "why": f"squared errors of {len(held.nodes)} held-out targets, in {held.n_folds} folds",
        }
        if judged.left_out:
            self.choices["left_out"] = {"value": dict(judged.left_out), "why": "not applicable"}
        self.choices["mean"] = {
            "value": scale * judged.base, "why": "root mean squared error of the mean of targets",
        }  # fmt: skip

    def _difficulty(self, held: HeldTargets, off: Array) -> tuple[Difficulty | None, Array]:
        """Return what tells how far predictions are off, if anything does; and it, shape (n,)."""
        even = np.ones(held.n_nodes)
        floor = _FLOOR * float(np.median(off))
        if len(off) < _ENOUGH or not floor > 0:
            return None, even
        logs = held.with_targets(np.log(off + floor))
        experts = [OwnFeatures(), SmoothedFeatures(), PassedOn()]
        stack, judged = fit_stack(self.nodes, logs, experts)
        difficulty = Difficulty(stack)
        if not stack.names:
            return None, even
        spread = difficulty.spread(stack.predictions(held.n_nodes))
        spread[held.nodes] = difficulty.spread(judged.predictions)
        # The likelihood of Laplace's distribution, which the widest errors do not decide alone.
        own = spread[held.nodes]
        before, after = off / off.mean(), off / own / np.mean(off / own)
        gain = before + np.log(off.mean()) - after - np.log(own * np.mean(off / own))
        clear = gain.mean() - _CLEARLY * gain.std() / np.sqrt(len(gain))
        why = f"log-likelihood per held-out target: {gain.mean():+.3f}"
        if clear < _WORTH:
            why += "; the same width everywhere does as well"
            self.choices["widths"] = {"value": "even", "why": why}
            return None, even
        self.choices["widths"] = {
            "value": {
                name: round(w, 3) for name, w in zip(stack.names, stack.weights, strict=True)
            },
            "why": why,
        }
        return difficulty, spread

    def _collect(
        self,
        centre: float,
        scale: float,
        stack: Stack,
        difficulty: Difficulty | None,
        predictions: Array,
        spread: Array,
        scores: Array,
        error: Any,
    ) -> FittedTargets:
        """Return the results in the given order of the nodes."""
        parts, targets = self.data.parts, self.targets
        if self.arrangement is not None:
            position = self.arrangement.position
            predictions, spread, targets = (
                part[position] for part in (predictions, spread, targets)
            )
            order = np.argsort(self.arrangement.order[np.flatnonzero(~np.isnan(self.targets))])
            scores = scores[order] if len(scores) else scores
            stack = stack.reordered(position)
            if difficulty is not None:
                difficulty = Difficulty(difficulty.stack.reordered(position))
        graph = parts.graph
        return FittedTargets(
            settings=self.settings,
            given=targets,
            predictions=predictions,
            spread=spread,
            scores=scores,
            centre=centre,
            scale=scale,
            stack=stack,
            difficulty=difficulty,
            choices=self.choices,
            estimated_error=error,
            suspects=find_suspects(targets, predictions, scores),
            on_graph=graph is not None,
            n_links=0 if graph is None else graph.n_entries // 2,
            link_unit=1.0 if graph is None else float(graph.unit),
            neighbours=None if parts.made is None else parts.made.neighbours,
            unit=self.unit,
            n_features=None if parts.X is None else int(parts.X.shape[1]),
            feature_names=parts.feature_names,
            node_ids=parts.node_ids,
            preparation=self.data.preparation,
        )
