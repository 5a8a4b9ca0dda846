"""The expert for many labels: boosted trees on features, surroundings and neighbours' labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nodeproof.auto.experts.base import Changed, Expert, Learnt, NewNodes, Rows
from nodeproof.auto.experts.forest import Forest
from nodeproof.auto.experts.surroundings import Surroundings
from nodeproof.auto.experts.tree_columns import Columns
from nodeproof.auto.held_out import HeldOut
from nodeproof.errors import InputError
from nodeproof.runtime import threads
from nodeproof.runtime.caching import cached_property
from nodeproof.storage.schema import Check, Expected, boolean, count, number
from nodeproof.terms import NodeData
from nodeproof.terms.logistic import assign_folds

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingClassifier

__all__ = ["LearntTrees", "Trees"]

Array = NDArray[np.float64]

# Trees need so many labels per class on average, and so many in the second largest.
_LABELS_PER_CLASS, _LABELS_OF_A_CLASS = 50, 20

# No more labels are learnt from: time grows with them, and accuracy hardly.
_MOST_LABELS = 20_000

# Held-out labels are predicted by so many fits.
_GROUPS = 3

# How many trees there are of each class, the likeliest first. A fold is fitted once, to the most;
# the others are its first trees.
_ROUNDS = (40, 20, 60)

# Where that is cheap, the mean of several fits is taken; they differ in the columns that each split
# may choose from. The cost is (labels + 2,000) × scores: no tree is for nothing.
_CHEAP, _PER_TREE, _MOST_MEMBERS = 40_000, 2_000, 5

# Of the names of the trees' arrays where they are saved.
_PREFIX = "forest_"


class LearntTrees(Learnt):
    """Trees, and what they are told of nodes.

    Parameters
    ----------
    forest : Forest
        Trees of the classes that have labels.
    classes : ndarray of shape (k,)
        These classes, ascending.
    n_labels : int
        How many labels were learnt from.
    columns : Columns
        What the trees are told.
    """

    def __init__(
        self, forest: Forest, classes: NDArray[np.int64], n_labels: int, columns: Columns
    ) -> None:
        self.forest, self.classes = forest, classes
        self.n_labels, self.columns = n_labels, columns

    @cached_property
    def log_proba(self) -> NDArray[np.float32]:
        """Logarithms of class probabilities of all nodes, shape (n, K)."""
        return self.of_rows(self.columns.rows).astype(np.float32)

    @property
    def needs_features(self) -> bool:
        """Whether the trees are told features."""
        return "coefficients" in self.columns.arrays

    def first(self, rounds: int) -> LearntTrees:
        """Return the same with the trees of the first rounds."""
        return LearntTrees(self.forest.first(rounds), self.classes, self.n_labels, self.columns)

    def reordered(self, position: NDArray[np.int64]) -> LearntTrees:
        """Return the same for reordered nodes."""
        columns = self.columns.reordered(position)
        return LearntTrees(self.forest, self.classes, self.n_labels, columns)

    def judge(self, new: NewNodes) -> Array | None:
        """Return log-probabilities of new nodes, shape (n_new, K)."""
        if new.X is None and self.needs_features:
            return None
        return self.of_rows(self.columns.of_new(new))

    def updated(self, changed: Changed, log_proba: Rows) -> Learnt:
        """Return the same for the same nodes: what trees are told of others is not kept."""
        if changed.n_new:
            raise InputError("a model with boosted trees cannot take up new nodes: fit again")
        return super().updated(changed, log_proba)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the settings and arrays that `judge` needs, to save them."""
        settings, arrays = self.columns.to_parts()
        forest = {_PREFIX + name: array for name, array in self.forest.to_parts().items()}
        known = np.isin(np.arange(self.columns.n_classes), self.classes)
        return settings | {"n_labels": self.n_labels}, arrays | forest | {"known": known}

    def of_rows(self, rows: NDArray[np.float32]) -> Array:
        """Return log-probabilities of nodes by what the trees are told of them, (n, K).

        Classes without labels share what one label more would get.
        """
        logs, K = self.forest.log_proba(rows), self.columns.n_classes
        absent = K - len(self.classes)
        if absent == 0:
            return logs
        share = 1.0 / (self.n_labels + 1.0)
        full = np.full((len(logs), K), np.log(share / absent))
        full[:, self.classes] = logs + np.log1p(-share)
        return full


class Trees(Expert):
    """Boosted trees: they find what no linear model does, if there are enough labels.

    They are told a node's features, the means over its neighbours and theirs, its degree and its
    position in the graph, the labels of its neighbours, and what linear models make of its
    features, never with its own label.
    """

    name = "trees"
    about = "all that is known of a node and its neighbours, by boosted decision trees"
    source = "features"
    costly = True
    kept_settings: ClassVar[Mapping[str, Check]] = {
        "n_columns": count,
        "alpha": number,
        "n_labels": count,
        **dict.fromkeys(("features", "linked", "counts", "reduced", "leading"), boolean),
    }

    around: Surroundings

    def why_not(self, nodes: NodeData) -> str | None:
        """Return why the expert does not apply to the data; None if it does."""
        if nodes.y is None or (nodes.X is None and nodes.graph is None):
            return "there are no labels, or nothing to learn from"
        counts = np.sort(np.bincount(nodes.y[nodes.y >= 0]))[::-1]
        counts = counts[counts > 0]
        if len(counts) < 2:
            return "fewer than two classes have labels"
        if counts.mean() <= _LABELS_PER_CLASS:
            return f"there are no more than {_LABELS_PER_CLASS} labels per class"
        if counts[1] < _LABELS_OF_A_CLASS:
            return f"only one class has {_LABELS_OF_A_CLASS} labels"
        return None

    def for_large_graphs(self) -> None:
        """Return no expert: what trees are told takes too many products with the graph."""

    def bind(self, nodes: NodeData) -> Self:
        """Return a copy that holds the data, and all that does not depend on labels."""
        bound = super().bind(nodes)
        bound.around = Surroundings(nodes)
        if nodes.X is None:
            vars(bound)["source"] = "graph"
        bound._held, bound._final = {}, None
        return bound

    #: log-probabilities of held-out nodes, by the labels seen and the setting
    _held: dict[bytes, dict[int, Array]]

    #: the labels of the last final fit, and that fit with the most rounds
    _final: tuple[bytes, LearntTrees] | None

    def settings(self) -> Sequence[int]:
        """Return candidates for the number of trees per class."""
        return _ROUNDS

    def learn(self, y: NDArray[np.int64], setting: int) -> LearntTrees:
        """Return what is learnt from the labels seen; see the base class."""
        if self._final is not None and self._final[0] == y.tobytes():
            return self._final[1].first(setting)
        return _learn(self.around, y, setting)

    def describe(self, setting: int) -> str:
        """Return a setting in words."""
        return f"{setting} trees per class"

    def held_out(self, held: HeldOut, setting: int, than: Array | None = None) -> Array:
        """Return log-probabilities of held-out nodes, each without its label seen, (h, K).

        Folds are put together, to fit fewer times; each fit is asked for all settings at once.
        The fit to all labels, which will be asked for next, runs beside them.
        """
        key = b"".join(y.tobytes() for y in held.y)
        if key not in self._held:
            self._held = {key: self._predict(held)}
        return self._held[key][setting]

    def _predict(self, held: HeldOut) -> dict[int, Array]:
        logs = {rounds: np.empty((len(held.nodes), self.nodes.n_classes)) for rounds in _ROUNDS}
        n_groups = min(_GROUPS, len(held.y))

        def fit(group: int) -> None:
            folds = range(group, len(held.y), n_groups)
            # What is hidden in one of the folds is −1 there.
            y = np.min([held.y[fold] for fold in folds], axis=0)
            learnt = _learn(self.around, y, max(_ROUNDS))
            here = np.flatnonzero(np.isin(held.folds, folds))
            rows = learnt.columns.rows[held.nodes[here]]
            for rounds in _ROUNDS:
                logs[rounds][here] = learnt.first(rounds).of_rows(rows)
            if not held.own:
                self._final = y.tobytes(), learnt

        def fit_all(_: int) -> None:
            y = np.max(held.y, axis=0)
            self._final = y.tobytes(), _learn(self.around, y, max(_ROUNDS))

        tasks = ([fit_all] if held.own else []) + [fit] * n_groups
        threads.map_each(lambda k: tasks[k](k - len(tasks) + n_groups), len(tasks))
        return logs

    @classmethod
    def kept_layout(cls, settings: Mapping[str, Any]) -> Mapping[str, Expected]:
        """Return which arrays are saved."""
        forest = {_PREFIX + name: expected for name, expected in Forest.layout().items()}
        return Columns.layout(settings) | forest | {"known": Expected("b", "K", required=True)}

    @classmethod
    def restored(
        cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> LearntTrees:
        """Return what was learnt from its saved parts; `log_proba` is not among them."""
        trees, others = {}, {}
        for name, array in arrays.items():
            if name.startswith(_PREFIX):
                trees[name.removeprefix(_PREFIX)] = array
            else:
                others[name] = array
        known = others.pop("known")
        columns = Columns.of_parts(settings, others, len(known))
        forest = Forest.of_parts(trees, columns.n_columns)
        if known.sum() != forest.n_classes:
            raise ValueError("the classes of the trees are not those of the model")
        return LearntTrees(forest, np.flatnonzero(known), settings["n_labels"], columns)


def _learn(around: Surroundings, y: NDArray[np.int64], rounds: int) -> LearntTrees:
    train = np.flatnonzero(y >= 0)
    if len(train) > _MOST_LABELS:
        train = train[assign_folds(y[train], -(-len(train) // _MOST_LABELS)) == 0]
    columns = Columns.of_labels(around, y, train)
    rows = columns.rows[train]
    rows[:, np.isnan(rows).all(axis=0)] = 0.0  # scikit-learn cannot cut a column of nothing
    classes = np.unique(y[train])
    n_scores = len(classes) if len(classes) > 2 else 1
    cost = (len(train) + _PER_TREE) * n_scores
    n_members = int(np.clip(_CHEAP // cost, 1, _MOST_MEMBERS))
    # Its threads wait for each other after every node of a tree: on a busy machine that takes many
    # times as long as one thread does.
    with threads.using(1):
        members = [_boost(rows, y[train], rounds, seed) for seed in range(n_members)]
    return LearntTrees(Forest.of_estimators(members, rows[:1]), classes, len(train), columns)


def _boost(
    rows: NDArray[np.float32], codes: NDArray[np.int64], rounds: int, seed: int
) -> HistGradientBoostingClassifier:
    from sklearn.ensemble import HistGradientBoostingClassifier  # takes long to import

    return HistGradientBoostingClassifier(
        max_iter=rounds,
        max_features=0.3,
        max_bins=64,
        l2_regularization=1.0,
        early_stopping=False,
        random_state=seed,
    ).fit(rows, codes)
