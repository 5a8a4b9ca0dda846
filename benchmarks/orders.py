"""Whether the order of the rows decides anything: the same data in ten orders.

Prints, for planted and real graphs, from links and labels (GL) and with features too (GFL): the
accuracy, the mean probability and the calibration error at nodes without a label, the largest
share of labels that differ from those of the first order, and the range of the accuracy.

    python benchmarks/orders.py [--orders 10] [--data FOLDER]

Real graphs are read from ``FOLDER/<name>.npz``; without it they are left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from rich.console import Console
from rich.table import Table

from nodeproof import NodeClassifier
from nodeproof.datasets import make_planted
from nodeproof.metrics import expected_calibration_error

PLANTED: list[tuple[str, dict[str, Any]]] = [
    ("default", {}),
    ("p=.07, ω=.3, 5 % labels", {"p": 0.07, "omega": 0.3, "label_ratio": 0.05}),
    ("p=.08, ω=.5, 2 % labels", {"p": 0.08, "omega": 0.5, "label_ratio": 0.02}),
    ("p=.08, ω=.3, 5 % labels", {"p": 0.08, "omega": 0.3, "label_ratio": 0.05}),
    (
        "K=10, n0=50, p=.3, q=.1, ω=.3",
        {
            "n_clusters": 10,
            "cluster_size": 50,
            "p": 0.3,
            "q": 0.1,
            "omega": 0.3,
            "label_ratio": 0.05,
        },
    ),
    ("600/200/100, ω=.1", {"cluster_size": [600, 200, 100], "omega": 0.1, "label_ratio": 0.1}),
]

REAL = ("cora", "citeseer", "acm", "chameleon_filtered")
LABELS_PER_CLASS = 20


def _real(path: Path) -> tuple[Any, Any, np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        n, indices = int(file["n"]), file["adj_indices"]
        ones = np.ones(len(indices), np.float32)
        graph = sp.csr_array((ones, indices, file["adj_indptr"]), shape=(n, n))
        parts = [file[f"x_{part}"] for part in ("data", "indices", "indptr")]
        return graph, sp.csr_array(tuple(parts), shape=tuple(file["x_shape"])), file["y"]


def _settings(folder: Path | None) -> Iterator[tuple[str, Any, Any, np.ndarray, np.ndarray]]:
    for name, arguments in PLANTED:
        data = make_planted(random_state=0, **arguments)
        yield name, data.graph, data.X, data.y, data.y_true
    for name in REAL if folder is not None else ():
        graph, X, truth = _real(Path(folder or ".") / f"{name}.npz")
        rng, y = np.random.default_rng(0), np.full(len(truth), -1)
        for code in range(truth.max() + 1):
            chosen = rng.permutation(np.flatnonzero(truth == code))[:LABELS_PER_CLASS]
            y[chosen] = code
        yield name, graph, X, y, truth


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--orders", type=int, default=10)
    parser.add_argument("--data", type=Path)
    given = parser.parse_args()
    table = Table("setting", "sources", "accuracy", "mean p", "ECE", "labels changed", "range")
    console = Console(width=110)
    for name, graph, X, y, truth in _settings(given.data):
        judged = (y < 0) & (truth >= 0)
        for sources in ("GL", "GFL"):
            rng = np.random.default_rng(1)
            first, changed, accuracies = None, 0.0, []
            for _ in range(given.orders):
                order = rng.permutation(len(y))
                features = X[order] if "F" in sources else None
                clf = NodeClassifier(random_state=0)
                clf.fit(features, y[order], graph=graph[order][:, order])
                back = np.argsort(order)
                labels, proba = clf.labels_[back], clf.proba_[back]
                first = labels if first is None else first
                changed = max(changed, float((labels != first).mean()))
                accuracies.append(float((labels == truth)[judged].mean()))
            error = expected_calibration_error(truth[judged], proba[judged])
            confidence = float(proba[judged].max(axis=1).mean())
            row = [np.mean(accuracies), confidence, error, changed, np.ptp(accuracies)]
            table.add_row(name, sources, *(f"{value:.3f}" for value in row))
            console.print(*(name, sources, *(f"{value:.3f}" for value in row)), highlight=False)
    console.print(table)


if __name__ == "__main__":
    main()
