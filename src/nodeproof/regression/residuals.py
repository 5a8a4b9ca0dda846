"""Ridge regression on own features, and what it leaves over, passed on along links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nodeproof.regression.experts import LearntNumbers, NumberExpert
from nodeproof.regression.held_out import HeldTargets
from nodeproof.regression.propagation import LearntPassedOn, PassedOn
from nodeproof.regression.ridge import LearntRidge, OwnFeatures
from nodeproof.storage.schema import Check, Expected
from nodeproof.terms import NewNodes, NodeData

__all__ = ["PassedOnResiduals"]

Array = NDArray[np.float64]

# Names of what is kept of the regression begin so.
_RIDGE = "ridge_"


@dataclass(frozen=True)
class LearntResiduals(LearntNumbers):
    """A regression, and what its residuals make of the nodes."""

    predictions: Array
    ridge: LearntRidge
    rest: LearntPassedOn

    @property
    def needs_features(self) -> bool:
        """Whether `judge` looks at the features of new nodes."""
        return True

    def judge(self, new: NewNodes) -> Array:
        """Return predictions for new nodes, shape (n_new,)."""
        return self.ridge.judge(new) + self.rest.judge(new)

    def reordered(self, position: NDArray[np.int64]) -> LearntResiduals:
        """Return the same for reordered nodes."""
        ridge, rest = self.ridge.reordered(position), self.rest.reordered(position)
        return LearntResiduals(self.predictions[position], ridge, rest)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the settings and arrays that `judge` needs."""
        settings, arrays = self.rest.to_parts()
        for own, parts in zip((settings, arrays), self.ridge.to_parts(), strict=True):
            own |= {_RIDGE + name: part for name, part in parts.items()}
        return settings, arrays


class PassedOnResiduals(NumberExpert):
    """What features leave over is passed on: for targets that are a sum of both."""

    name: ClassVar[str] = "residuals"
    about: ClassVar[str] = "own features, and what they leave over, passed on along links"
    kept_settings: ClassVar[Mapping[str, Check]] = {
        **PassedOn.kept_settings,
        **{_RIDGE + name: check for name, check in OwnFeatures.kept_settings.items()},
    }

    def why_not(self, nodes: NodeData, n_targets: int) -> str | None:
        """Return why it does not apply."""
        return PassedOn().why_not(nodes, n_targets) or OwnFeatures().why_not(nodes, n_targets)

    def held_out(self, nodes: NodeData, held: HeldTargets) -> dict[Any, Array]:
        """Return predictions by penalty, restart and trust."""
        found: dict[Any, Array] = {}
        ridge, passed = OwnFeatures(), PassedOn()
        for penalty, by_fold in ridge.folds(nodes, held).items():
            # Row f: what fold f's regression says of all held-out nodes.
            rest = held.targets - by_fold
            own = by_fold[held.folds, np.arange(len(held.nodes))]
            said = passed.spread_folds(nodes, held, rest)
            found |= {(penalty, setting): own + more for setting, more in said.items()}
        return found

    def learn(self, nodes: NodeData, held: HeldTargets, setting: Any) -> LearntResiduals:
        """Return regression and what it leaves over, of all targets."""
        penalty, passed = setting
        ridge = OwnFeatures().learn(nodes, held, (0, penalty))
        left = held.with_targets(held.targets - ridge.predictions[held.nodes])
        rest = PassedOn().learn(nodes, left, passed)
        return LearntResiduals(ridge.predictions + rest.predictions, ridge, rest)

    def describe(self, setting: Any) -> str:
        """Return a setting in words."""
        penalty, passed = setting
        return f"{OwnFeatures().describe((0, penalty))}; {PassedOn().describe(passed)}"

    @classmethod
    def kept_layout(cls, settings: Mapping[str, Any]) -> Mapping[str, Expected]:
        """Return which arrays are saved."""
        own = OwnFeatures.kept_layout(_of_ridge(settings))
        return {
            **PassedOn.kept_layout(settings),
            **{_RIDGE + name: part for name, part in own.items()},
        }

    @classmethod
    def restored(
        cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> LearntResiduals:
        """Return both from their saved parts."""
        ridge = OwnFeatures.restored(_of_ridge(settings), _of_ridge(arrays))
        return LearntResiduals(np.empty(0), ridge, PassedOn.restored(settings, arrays))


def _of_ridge(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is kept of the regression."""
    return {
        name.removeprefix(_RIDGE): part for name, part in parts.items() if name.startswith(_RIDGE)
    }
