"""Boosted trees on features, surroundings and neighbours' targets, which see none of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nodeproof.auto.experts.forest import Forest
from nodeproof.auto.experts.surroundings import Surroundings, divided
from nodeproof.auto.experts.tree_columns import Columns
from nodeproof.auto.experts.trees import Trees
from nodeproof.regression.experts import LearntNumbers, NumberExpert
from nodeproof.regression.held_out import HeldTargets
from nodeproof.runtime import threads
from nodeproof.storage.schema import Check, Expected
from nodeproof.terms import NewNodes, NodeData

__all__ = ["BoostedTrees"]

Array = NDArray[np.float64]
Rows = NDArray[np.float32]

# Trees need so many targets, and learn from no more than so many.
_FEWEST, _MOST_TARGETS = 50, 20_000

# Held-out targets are predicted by so many fits; how many trees there are.
_GROUPS, _ROUNDS = 5, (30, 60, 120)

# Fits that are averaged, if they are cheap; they differ in the columns that splits choose from.
_MEMBERS, _CHEAP = 3, 2_000

_PREFIX = "forest_"


class NumberColumns(Columns):
    """Columns of trees where nodes tell their neighbours numbers: pairs (1, target), or zeros."""

    @classmethod
    def of_targets(
        cls, around: Surroundings, targets: Array, train: NDArray[np.int64]
    ) -> NumberColumns:
        """Return the columns for the targets seen, cross-fitted for the nodes to learn from.

        Parameters
        ----------
        targets : ndarray of shape (n,)
            NaN where there is none.
        train : ndarray of shape (l,)
            Nodes that the trees will learn from.
        """
        given = {} if around.graph is None else {"targets": targets.astype(np.float32)}
        strata = np.zeros(len(train), dtype=np.int64)
        return cls.of_values(around, given, strata, targets[train][:, None], train)

    @staticmethod
    def values_of(arrays: Mapping[str, NDArray[Any]], n_classes: int) -> Rows:
        """Return what each node tells its neighbours, shape (n, 2)."""
        known = ~np.isnan(arrays["targets"])
        return np.column_stack([known, np.nan_to_num(arrays["targets"])]).astype(np.float32)

    @staticmethod
    def check_values(arrays: Mapping[str, NDArray[Any]], n_classes: int) -> None:
        """Raise a ValueError if what nodes have told cannot be."""
        counts = arrays["nearby"][:, 0], arrays["spread"][:, 0]
        if np.isinf(arrays["targets"]).any() or min(part.min(initial=0.0) for part in counts) < 0:
            raise ValueError("the targets that the trees were told cannot be")

    @staticmethod
    def shares_of(mass: NDArray[Any]) -> Rows:
        """Return the mean of the targets that were told, nan if there are none, shape (n, 1)."""
        return divided(mass[:, 1:], mass[:, 0])

    @staticmethod
    def told(mass: NDArray[Any]) -> NDArray[Any]:
        """Return how many neighbours have told something, shape (n,)."""
        return mass[:, 0]

    @staticmethod
    def layout(settings: Mapping[str, Any]) -> dict[str, Expected]:
        """Return which arrays are saved."""
        found = Columns.layout(settings)
        if found.pop("labels", None) is not None:
            found["targets"] = Expected("f", "n", required=True)
        return found


@dataclass(frozen=True)
class LearntTreesOfNumbers(LearntNumbers):
    """Trees, and what they are told of nodes."""

    predictions: Array
    forest: Forest
    columns: NumberColumns

    @property
    def needs_features(self) -> bool:
        """Whether `judge` looks at the features of new nodes."""
        return "coefficients" in self.columns.arrays

    def judge(self, new: NewNodes) -> Array:
        """Return predictions for new nodes, shape (n_new,)."""
        return np.asarray(self.forest.scores(self.columns.of_new(new))[:, 0])

    def reordered(self, position: NDArray[np.int64]) -> LearntTreesOfNumbers:
        """Return the same for reordered nodes."""
        columns = self.columns.reordered(position)
        return LearntTreesOfNumbers(self.predictions[position], self.forest, columns)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the settings and arrays that `judge` needs."""
        settings, arrays = self.columns.to_parts()
        forest = {_PREFIX + name: array for name, array in self.forest.to_parts().items()}
        return settings, arrays | forest


class BoostedTrees(NumberExpert):
    """Boosted trees: they find what no linear model does, if there are enough targets."""

    name: ClassVar[str] = "trees"
    about: ClassVar[str] = "all that is known of a node and its neighbours, by boosted trees"
    kept_settings: ClassVar[Mapping[str, Check]] = {
        name: check for name, check in Trees.kept_settings.items() if name != "n_labels"
    }

    def why_not(self, nodes: NodeData, n_targets: int) -> str | None:
        """Return why it does not apply."""
        if n_targets < _FEWEST:
            return f"there are fewer than {_FEWEST} targets"
        linked = nodes.graph is not None and nodes.graph.n_entries
        return None if nodes.X is not None or linked else "there are neither features nor links"

    def held_out(self, nodes: NodeData, held: HeldTargets) -> dict[Any, Array]:
        """Return predictions by the number of trees; folds are put together, to fit fewer times."""
        around = Surroundings(nodes)
        found = {rounds: np.empty(len(held.nodes)) for rounds in _ROUNDS}
        n_groups = min(_GROUPS, held.n_folds)

        def fit(group: int) -> None:
            here = held.folds % n_groups == group
            columns, forest = _learn(around, held, ~here)
            rows = columns.rows[held.nodes[here]]
            for rounds in _ROUNDS:
                found[rounds][here] = forest.first(rounds).scores(rows)[:, 0]

        threads.map_each(fit, n_groups)
        return found

    def learn(self, nodes: NodeData, held: HeldTargets, setting: Any) -> LearntTreesOfNumbers:
        """Return the trees for all targets."""
        everything = np.ones(len(held.nodes), dtype=bool)
        columns, forest = _learn(Surroundings(nodes), held, everything)
        forest = forest.first(setting)
        return LearntTreesOfNumbers(forest.scores(columns.rows)[:, 0], forest, columns)

    def describe(self, setting: Any) -> str:
        """Return a setting in words."""
        return f"{setting} trees"

    @classmethod
    def kept_layout(cls, settings: Mapping[str, Any]) -> Mapping[str, Expected]:
        """Return which arrays are saved."""
        forest = {_PREFIX + name: expected for name, expected in Forest.layout().items()}
        return NumberColumns.layout(settings) | forest

    @classmethod
    def restored(
        cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> LearntTreesOfNumbers:
        """Return the trees from their saved parts."""
        forest = {k.removeprefix(_PREFIX): v for k, v in arrays.items() if k.startswith(_PREFIX)}
        others = {k: v for k, v in arrays.items() if not k.startswith(_PREFIX)}
        columns = NumberColumns.of_parts(settings, others, 2)
        return LearntTreesOfNumbers(
            np.empty(0), Forest.of_parts(forest, columns.n_columns), columns
        )


def _learn(
    around: Surroundings, held: HeldTargets, seen: NDArray[np.bool_]
) -> tuple[NumberColumns, Forest]:
    """Return the columns and the trees of the targets that are seen."""
    from sklearn.ensemble import HistGradientBoostingRegressor  # takes long to import

    targets = np.full(held.n_nodes, np.nan)
    targets[held.nodes[seen]] = held.targets[seen]
    train = held.nodes[seen][:: -(-int(seen.sum()) // _MOST_TARGETS)]
    columns = NumberColumns.of_targets(around, targets, train)
    rows = columns.rows[train]
    rows[:, np.isnan(rows).all(axis=0)] = 0.0  # scikit-learn cannot cut a column of nothing
    with threads.using(1):
        members = [
            HistGradientBoostingRegressor(
                max_iter=max(_ROUNDS),
                max_features=0.3,
                max_bins=64,
                min_samples_leaf=int(np.clip(len(train) // 20, 5, 20)),
                l2_regularization=1.0,
                early_stopping=False,
                random_state=seed,
            ).fit(rows, targets[train])
            for seed in range(_MEMBERS if len(train) <= _CHEAP else 1)
        ]
    return columns, Forest.of_estimators(members, rows[:1])
