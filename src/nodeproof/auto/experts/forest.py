"""Boosted trees as plain arrays: read from scikit-learn's estimator, evaluated by a kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from nodeproof import kernels
from nodeproof.runtime import threads
from nodeproof.storage.schema import Expected

__all__ = ["Forest"]

Array = NDArray[np.float64]

# What the nodes of a fitted tree say, by the names that scikit-learn gives.
_FIELDS = (
    "is_categorical",
    "feature_idx",
    "num_threshold",
    "left",
    "right",
    "missing_go_to_left",
    "value",
    "is_leaf",
)


# Kinds of numbers of the arrays of a forest, and their shapes: s scores, d nodes.
_LAYOUT = {
    "baseline": ("f", "s{0}"),
    "roots": ("i", "* *"),
    "feature": ("i", "d{0}"),
    "threshold": ("f", "d{0}"),
    "children": ("i", "d{0} 2"),
    "missing_left": ("b", "d{0}"),
    "value": ("f", "d{0}"),
}


@dataclass(frozen=True)
class Forest:
    """Decision trees whose leaves add up to the scores of classes, or to a number.

    All trees are in one list of nodes, one tree after the other.

    Attributes
    ----------
    baseline : ndarray of shape (k,)
        Scores before any tree: one per class, or one in all where there are two classes.
    roots : ndarray of shape (rounds, members × k)
        The first node of each tree: in every round k of each member of a mean.
    feature : ndarray of shape (nodes,)
        The column that a node asks about; −1 is a leaf.
    threshold : ndarray of shape (nodes,)
        Rows go left if their entry is at most this.
    children : ndarray of shape (nodes, 2)
        The left and the right child, counted from the root of the tree.
    missing_left : ndarray of shape (nodes,)
        Whether rows go left if their entry is nan.
    value : ndarray of shape (nodes,)
        What a leaf adds to the score.
    """

    baseline: Array
    roots: NDArray[np.int64]
    feature: NDArray[np.int32]
    threshold: Array
    children: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    value: Array

    @classmethod
    def of_estimators(cls, estimators: Sequence[Any], row: NDArray[Any]) -> Forest:
        """Return the mean of boosted trees of scikit-learn: of their scores, or predictions.

        Parameters
        ----------
        estimators : sequence of HistGradientBoostingClassifier or HistGradientBoostingRegressor
            Fitted to numbers, without categories, to the same classes, in as many rounds.
        row : ndarray of shape (1, d)
            Any row, to tell the baseline from the trees.
        """
        tables = [_node_tables(estimator) for estimator in estimators]
        rounds = int(estimators[0].n_iter_)
        k = len(tables[0]) // rounds
        # Round by round, so that the first rounds of all come first.
        trees = [nodes for r in range(rounds) for of in tables for nodes in of[r * k : (r + 1) * k]]
        sizes = np.array([len(tree) for tree in trees], dtype=np.int64)
        nodes = np.concatenate(trees)
        leaf = nodes["is_leaf"].astype(bool)
        forest = cls(
            np.zeros(k),
            (np.cumsum(sizes) - sizes).reshape(rounds, -1),
            np.where(leaf, -1, nodes["feature_idx"].astype(np.int64)).astype(np.int32),
            nodes["num_threshold"].astype(np.float64),
            np.stack([nodes["left"], nodes["right"]], axis=1).astype(np.int32),
            nodes["missing_go_to_left"].astype(bool),
            nodes["value"].astype(np.float64) / len(estimators),
        )
        said = np.mean([_said(estimator, row) for estimator in estimators], axis=0)
        return replace(forest, baseline=(said.reshape(1, -1) - forest.scores(row))[0])

    @classmethod
    def of_parts(cls, arrays: Mapping[str, NDArray[Any]], n_columns: int) -> Forest:
        """Return what :meth:`to_parts` has taken apart; rows will have this many columns.

        Raises
        ------
        ValueError
            If the trees are no trees: the kernel would read elsewhere, or for ever.
        """
        kinds = {"roots": np.int64, "feature": np.int32, "children": np.int32, "missing_left": bool}
        forest = cls(
            **{
                field.name: np.ascontiguousarray(
                    arrays[field.name], dtype=kinds.get(field.name, np.float64)
                )
                for field in fields(cls)
            }
        )
        forest._check(n_columns)
        return forest

    def to_parts(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to save."""
        return dict(vars(self))

    @staticmethod
    def layout() -> dict[str, Expected]:
        """Return which arrays :meth:`to_parts` has taken apart.

        Thresholds are infinite where rows with nan are separated from all others.
        """
        return {
            name: Expected(kinds, shape, required=True, infinite=name == "threshold")
            for name, (kinds, shape) in _LAYOUT.items()
        }

    def first(self, rounds: int) -> Forest:
        """Return the trees of the first rounds."""
        if rounds >= len(self.roots):
            return self
        stop = self.roots[rounds, 0]
        nodes = ("feature", "threshold", "children", "missing_left", "value")
        kept = {name: getattr(self, name)[:stop] for name in nodes}
        return replace(self, roots=self.roots[:rounds], **kept)

    def scores(self, rows: NDArray[Any]) -> Array:
        """Return the scores of rows, shape (n, k)."""
        scores = np.tile(self.baseline, (len(rows), 1))
        rows, roots = np.ascontiguousarray(rows), self.roots.ravel()

        def part(lo: int, hi: int) -> None:
            kernels.tree_scores(
                lo, hi, rows, roots, self.feature, self.threshold, self.children,
                self.missing_left, self.value, scores,
            )  # fmt: skip

        threads.map_rows(part, len(rows))
        return scores

    def log_proba(self, rows: NDArray[Any]) -> Array:
        """Return log-probabilities of the classes that the trees know, shape (n, 2 or k)."""
        scores = self.scores(rows)
        if scores.shape[1] == 1:
            scores = np.hstack([np.zeros_like(scores), scores])
        return np.asarray(log_softmax(scores, axis=1))

    @property
    def n_classes(self) -> int:
        """How many classes the trees know."""
        return max(len(self.baseline), 2)

    def _check(self, n_columns: int) -> None:
        roots, count = self.roots.ravel(), len(self.feature)
        sizes = np.diff(np.append(roots, count))
        whole = (
            self.baseline.ndim == 1 and len(self.baseline) > 0 and self.roots.ndim == 2
            and self.roots.shape[1] % len(self.baseline) == 0
            and len(roots) > 0 and roots[0] == 0 and bool((sizes > 0).all())
            and self.feature.shape == self.threshold.shape == self.value.shape == (count,)
            and self.missing_left.shape == (count,) and self.children.shape == (count, 2)
        )  # fmt: skip
        if not whole:
            raise ValueError("the arrays of the trees do not fit together")
        asks = self.feature >= 0
        within = np.arange(count) - np.repeat(roots, sizes)
        # A child comes after its parent: no row goes round in circles.
        onwards = (self.children > within[:, None]) & (
            self.children < np.repeat(sizes, sizes)[:, None]
        )
        if bool((self.feature >= n_columns).any()) or not bool(onwards[asks].all()):
            raise ValueError("the trees lead to columns or nodes that do not exist")
        if not (np.isfinite(self.value).all() and np.isfinite(self.baseline).all()):
            raise ValueError("the leaves of the trees are not finite")


def _said(estimator: Any, row: NDArray[Any]) -> Array:
    """Return the scores of a row, before they become probabilities; or its prediction."""
    return np.asarray(getattr(estimator, "decision_function", estimator.predict)(row))


def _node_tables(boosted: Any) -> list[NDArray[Any]]:
    """Return the nodes of each tree, round by round: structured arrays.

    scikit-learn has no public way to them. This is the only place that knows where they are.

    Raises
    ------
    RuntimeError
        If they are not there.
    """
    rounds: Any = getattr(boosted, "_predictors", None) or ()
    tables: list[Any] = [getattr(tree, "nodes", None) for trees in rounds for tree in trees]
    known = all(
        isinstance(nodes, np.ndarray)
        and set(_FIELDS) <= set(nodes.dtype.names or ())
        and not nodes["is_categorical"].any()
        for nodes in tables
    )
    if known and tables and len(tables) % int(boosted.n_iter_) == 0:
        return tables
    import sklearn

    raise RuntimeError(
        f"the trees of scikit-learn {sklearn.__version__} are not where those of 1.6 to 1.9 are: "
        "leave the expert 'trees' out, or install another version"
    )
