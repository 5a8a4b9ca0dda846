"""Boosted trees on features, their means over neighbours, and the structure of the graph."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from peers.choosing import fit_best
from peers.registry import Data, Split, in_columns, peer
from peers.views import components, dense, neighbour_means, scaled, structure

Array = NDArray[Any]

#: features beyond which their components are taken, and how many of these
MOST = 200
RANK = 64

#: leading singular vectors of the graph
STRUCTURE = 16

#: trees of each class and leaves of a tree to choose from; large trees need enough labels a class
TREES = (50, 150)
SMALL, LARGE = 8, 31
ENOUGH = 50

#: several threads make trees of fewer rows slower
FEW_ROWS = 2000

RATE = 0.1
BINS = 63


@peer("boosted trees", sources="any")
def boosted_trees(data: Data, split: Split, seed: int) -> Array:
    """LightGBM or, where it is not installed, scikit-learn's histogram-based boosting."""
    X = _table(data, seed)
    sizes = (SMALL, LARGE) if len(split.train) >= ENOUGH * data.n_classes else (SMALL,)

    def fit(part: Split) -> list[Array]:
        with threadpool_limits(1 if len(part.train) < FEW_ROWS else None):
            return [
                in_columns(proba, classes, data.n_classes)
                for leaves in sizes
                for proba, classes in _boost(X, part, data.n_classes, seed, leaves)
            ]

    return fit_best(fit, data, split, seed)[0]


def _table(data: Data, seed: int) -> Array:
    parts = []
    if data.X is not None:
        X = scaled(data)
        own = components(X, seed, RANK) if X.shape[1] > MOST else dense(X)
        parts.append(own)
        if data.graph is not None:
            near = neighbour_means(data.graph, own)
            parts += [near, neighbour_means(data.graph, near)]
    if data.graph is not None:
        degrees = np.asarray(data.graph.sum(axis=1), dtype=np.float64)
        parts += [structure(data.graph, seed, STRUCTURE), np.log1p(degrees)[:, None]]
    return np.hstack(parts)


def _boost(
    X: Array, split: Split, n_classes: int, seed: int, leaves: int
) -> Iterator[tuple[Array, Array]]:
    """Yield the probabilities after each number of trees, and the classes of their columns."""
    rows, y = X[split.train], split.y[split.train]
    # The usual 20 rows in a leaf are a whole class of a small training set.
    fewest = int(np.clip(len(y) // (10 * n_classes), 2, 20))
    if len(np.unique(y)) == 1:
        yield from [(np.ones((len(X), 1)), y[:1])] * len(TREES)
    elif find_spec("lightgbm"):
        from lightgbm import LGBMClassifier

        model: Any = LGBMClassifier(
            n_estimators=TREES[-1], num_leaves=leaves, learning_rate=RATE, verbose=-1,
            min_child_samples=fewest, random_state=seed, deterministic=True, force_col_wise=True,
            max_bin=BINS, n_jobs=1 if len(y) < FEW_ROWS else 0,
        )  # fmt: skip
        model.fit(rows, y)
        for n_trees in TREES:
            yield model.predict_proba(X, num_iteration=n_trees), model.classes_
    else:
        model = HistGradientBoostingClassifier(
            max_leaf_nodes=leaves, learning_rate=RATE, min_samples_leaf=fewest, warm_start=True,
            early_stopping=False, random_state=seed, max_bins=BINS,
        )  # fmt: skip
        for n_trees in TREES:
            model.set_params(max_iter=n_trees).fit(rows, y)
            yield model.predict_proba(X), model.classes_
