"""Tables without links: a graph of nearest neighbours beside logistic regression and spreading.

    python benchmarks/knn.py [--seeds 10]

A tenth of the labels of three tables that scikit-learn brings along, drawn at random within each
class; features are scaled for all. The others choose their settings by cross-validation on the
same labels.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading

from nodeproof import NodeClassifier
from nodeproof.metrics import expected_calibration_error

SETS: dict[str, Callable[[], Any]] = {
    "digits": datasets.load_digits,
    "wine": datasets.load_wine,
    "breast cancer": datasets.load_breast_cancer,
}
FOLDS = 3

Array = NDArray[np.float64]


def logistic_regression(X: Array, y: NDArray[np.int64]) -> Array:
    known = y >= 0
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    clf = LogisticRegressionCV(Cs=10, cv=folds, max_iter=2000, scoring="neg_log_loss")
    return np.asarray(clf.fit(X[known], y[known]).predict_proba(X))


def label_spreading(X: Array, y: NDArray[np.int64]) -> Array:
    settings = [(k, alpha) for k in (5, 10, 20) for alpha in (0.2, 0.8)]
    known = np.flatnonzero(y >= 0)
    folds = list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(known, y[known]))

    def loss(setting: tuple[int, float]) -> float:
        total = 0.0
        for _, hidden in folds:
            seen = y.copy()
            seen[known[hidden]] = -1
            proba = _spread(X, seen, *setting)[known[hidden]]
            total += log_loss(y[known[hidden]], proba, labels=np.unique(y[known]))
        return total

    return _spread(X, y, *min(settings, key=loss))


def _spread(X: Array, y: NDArray[np.int64], k: int, alpha: float) -> Array:
    clf = LabelSpreading(kernel="knn", n_neighbors=k, alpha=alpha, max_iter=200).fit(X, y)
    proba = np.nan_to_num(clf.label_distributions_) + 1e-6
    return np.asarray(proba / proba.sum(axis=1, keepdims=True))


def without_links(X: Array, y: NDArray[np.int64]) -> Array:
    return np.asarray(NodeClassifier(random_state=0).fit(X, y).proba_)


def neighbours(X: Array, y: NDArray[np.int64]) -> Array:
    return np.asarray(NodeClassifier(random_state=0).fit(X, y, graph="knn").proba_)


METHODS = {
    "logistic regression": logistic_regression,
    "label spreading": label_spreading,
    "nodeproof, features alone": without_links,
    'nodeproof, graph="knn"': neighbours,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    seeds = parser.parse_args().seeds
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", RuntimeWarning)  # of nodes that spreading does not reach
    warnings.simplefilter("ignore", FutureWarning)
    print("| set | method | accuracy | mean probability | ECE |\n|---|---|--:|--:|--:|")
    for name, load in SETS.items():
        data = load()
        X, truth = StandardScaler().fit_transform(data.data), data.target
        found: dict[str, list[tuple[float, float, float]]] = {}
        for seed in range(seeds):
            nodes = np.arange(len(truth))
            seen, _ = train_test_split(nodes, train_size=0.1, stratify=truth, random_state=seed)
            y = np.full(len(truth), -1)
            y[seen] = truth[seen]
            rest = y < 0
            for method, run in METHODS.items():
                proba = run(X, y)[rest]
                right = float((proba.argmax(axis=1) == truth[rest]).mean())
                error = expected_calibration_error(truth[rest], proba)
                row = right, float(proba.max(axis=1).mean()), float(error)
                found.setdefault(method, []).append(row)
        for method, rows in found.items():
            accuracy, probability, error = np.mean(rows, axis=0)
            spread = np.std([row[0] for row in rows]) / np.sqrt(seeds)
            print(
                f"| {name} | {method} | {accuracy:.3f} ± {spread:.3f} | {probability:.3f} "
                f"| {error:.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
