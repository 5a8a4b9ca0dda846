"""Labels of one class alone: `positive_only=True` beside "all unlabelled nodes are negative".

    python benchmarks/positive.py [--data FOLDER] [--seeds 3]

A fifth of the nodes of the largest and of the second largest class is labelled, at random. Graphs
are planted ones and those in the folder, or in NODEPROOF_DATA. The other method is logistic
regression on features, or on rows of the adjacency matrix where there are none.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

from nodeproof import NodeClassifier
from nodeproof.datasets import make_planted
from nodeproof.datasets.reading import read_graph
from nodeproof.metrics import expected_calibration_error

NAMES = ("cora", "citeseer", "acm", "polblogs", "chameleon_filtered")
LABELLED = 0.2


def graphs(folder: Path | None) -> Iterator[tuple[str, Any, Any, NDArray[np.int64]]]:
    for omega in (0.5, 0.8):
        data = make_planted(omega=omega, random_state=0)
        yield f"planted, omega {omega}", data.graph, data.X, data.y_true
    for name in NAMES:
        if folder is None or not (folder / f"{name}.npz").is_file():
            print(f"(no {name}.npz: give --data FOLDER)")
            continue
        data = read_graph(folder / f"{name}.npz")
        X = None if data.X is None or not data.X.shape[1] else data.X
        yield name, data.graph, X, np.asarray(data.y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("NODEPROOF_DATA"))
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| graph | method | share: true | estimated | accuracy | F1 | mean p | ECE |")
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    for name, graph, X, truth in graphs(None if given.data is None else Path(given.data)):
        found: dict[str, list[list[float]]] = {}
        for rank in (0, 1):
            positive = truth == np.argsort(-np.bincount(truth[truth >= 0]))[rank]
            for seed in range(given.seeds):
                seen = positive & (np.random.default_rng(seed).random(len(truth)) < LABELLED)
                rest, y = ~seen, np.where(seen, 1, -1)
                rows = X if X is not None else sp.csr_array(graph)
                naive = LogisticRegression(max_iter=1000).fit(rows, seen).predict_proba(rows)[:, 1]
                clf = NodeClassifier(positive_only=True, random_state=0).fit(X, y, graph=graph)
                for method, p in (("nodeproof", clf.proba_[:, 0]), ("naive", naive)):
                    own, right = p[rest].astype(float), positive[rest]
                    both = np.column_stack([1 - own, own])
                    row = [right.mean(), own.mean(), ((own > 0.5) == right).mean()]
                    row += [f1_score(right, own > 0.5, zero_division=0.0), own.mean()]
                    row += [expected_calibration_error(right.astype(int), both)]
                    found.setdefault(method, []).append(row)
        for method, table in found.items():
            shown = " | ".join(f"{number:.3f}" for number in np.mean(table, axis=0))
            print(f"| {name} | {method} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
