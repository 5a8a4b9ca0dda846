"""What to label next: informative queries beside uncertain ones and chance.

Two labels a class to begin with, then four rounds of 2K queries, each followed by a fit; the
accuracy at the end, on the nodes without a label. Real graphs are read from the folder that
NODEPROOF_DATA names, and left out without it.
"""

from __future__ import annotations

import argparse
import os
import warnings

import numpy as np

from nodeproof import NodeClassifier
from nodeproof.datasets import load, make_planted
from nodeproof.terms import Labels, Softmax

ROUNDS = 4


def read(name: str, seed: int):
    if name == "planted":
        data = make_planted(5, 100, p=0.08, q=0.03, omega=0.5, random_state=seed)
        return data.graph, data.X, data.y_true, {}
    data = load(name)
    return data.graph, data.X, np.asarray(data.y), {"terms": [Softmax(), Labels()]}


def final_accuracy(name: str, strategy: str, seed: int) -> float:
    graph, X, truth, settings = read(name, seed)
    rng = np.random.default_rng(seed)
    classes = np.unique(truth[truth >= 0])
    y = np.full(len(truth), -1)
    for c in classes:
        first = rng.choice(np.flatnonzero(truth == c), 2, replace=False)
        y[first] = c
    for _ in range(ROUNDS):
        clf = NodeClassifier(random_state=0, **settings).fit(X, y, graph=graph)
        may = np.flatnonzero((y < 0) & (truth >= 0))
        if strategy == "random":
            asked = rng.choice(may, 2 * len(classes), replace=False)
        else:
            asked = clf.query(2 * len(classes), strategy=strategy, candidates=may)
        y[asked] = truth[asked]
    clf = NodeClassifier(random_state=0, **settings).fit(X, y, graph=graph)
    hidden = (y < 0) & (truth >= 0)
    return float((clf.labels_ == truth)[hidden].mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--sets", default="planted,cora,citeseer,pubmed")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| data | random | uncertainty | informative | gain over uncertainty |")
    print("|---|--:|--:|--:|--:|")
    for name in chosen.sets.split(","):
        if name != "planted" and "NODEPROOF_DATA" not in os.environ:
            print(f"| {name} | left out: set NODEPROOF_DATA to the folder of the real graphs |")
            continue
        found = {
            strategy: np.array([final_accuracy(name, strategy, s) for s in range(chosen.seeds)])
            for strategy in ("random", "uncertainty", "informative")
        }
        gain = found["informative"] - found["uncertainty"]
        error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else float("nan")
        means = " | ".join(f"{values.mean():.3f}" for values in found.values())
        print(f"| {name} | {means} | {gain.mean():+.3f} ± {error:.3f} |", flush=True)


if __name__ == "__main__":
    main()
