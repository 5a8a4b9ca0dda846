"""How close the default classifier comes to the genie on planted data, over seeds.

Prints, for each setting, accuracy on the unlabelled nodes paired with the genie bound, the
calibration error, the log-loss as a multiple of the genie's, and the time of a fit. Beside the
log-loss stands what belief propagation reaches when it is told the true parameters: a
reference for the best that can be had without knowing the other nodes' classes. The last two
columns pair the accuracy with the best of the iterative refinements IR-LS, IR-MAP (four starts)
and Bregman hard clustering.

    python benchmarks/planted.py [--seeds 20] [--jobs 2]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from rich.console import Console
from rich.table import Table
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import log_loss
from sklearn.metrics.cluster import contingency_matrix

from nodeproof import NodeClassifier, Problem, terms
from nodeproof.affinity import Affinity
from nodeproof.datasets import Planted, make_planted
from nodeproof.graph import Graph
from nodeproof.metrics import expected_calibration_error, matched_accuracy
from nodeproof.paper import baselines
from nodeproof.problem import Models
from nodeproof.solvers import Result, Status
from nodeproof.solvers.beliefs import marginals

#: name, arguments of make_planted, most points that the mean may lie below the genie
SETTINGS: list[tuple[str, dict[str, Any], float]] = [
    ("default", {}, 0.3),
    ("p=.07, ω=.3, 5 % labels", {"p": 0.07, "omega": 0.3, "label_ratio": 0.05}, 2.0),
    ("p=.08, ω=.3, no labels", {"p": 0.08, "omega": 0.3, "label_ratio": 0.0}, 2.0),
    ("p=q=.05, ω=.1, 5 % labels", {"p": 0.05, "omega": 0.1, "label_ratio": 0.05}, 2.0),
    ("30 % of the labels wrong", {"label_accuracy": 0.7}, 2.0),
    (
        "K=10, n0=50, p=.3, q=.1, ω=.3, 5 % labels",
        {
            "n_clusters": 10,
            "cluster_size": 50,
            "p": 0.3,
            "q": 0.1,
            "omega": 0.3,
            "label_ratio": 0.05,
        },
        2.0,
    ),
    (
        "600/200/100, ω=.1, 10 % labels",
        {"cluster_size": [600, 200, 100], "omega": 0.1, "label_ratio": 0.1},
        2.0,
    ),
    ("p=.08, ω=.5, 2 % labels", {"p": 0.08, "omega": 0.5, "label_ratio": 0.02}, 4.5),
]


def _rival(function: Callable[..., np.ndarray], **settings: Any) -> Callable[..., float]:
    def accuracy(data: Planted, seed: int) -> float:
        hidden = data.y < 0
        y = None if hidden.all() else data.y
        K = data.params["n_clusters"]
        found = function(data.graph, data.X, y, n_classes=K, random_state=seed, **settings)
        if y is None:
            return matched_accuracy(data.y_true, found)
        return float((found[hidden] == data.y_true[hidden]).mean())

    return accuracy


RIVALS = {
    "IR-LS": _rival(baselines.ir_ls),
    "IR-MAP": _rival(baselines.ir_map, n_starts=4),
    "Bregman": _rival(baselines.bregman_clustering),
}


def run(settings: dict[str, Any], seed: int) -> dict[str, float]:
    """Return the figures of one seed."""
    data = make_planted(random_state=seed, **settings)
    K = data.params["n_clusters"]
    began = time.perf_counter()
    clf = NodeClassifier(n_classes=K, n_jobs=1, random_state=seed)
    clf.fit(data.X, data.y, graph=data.graph)
    seconds = time.perf_counter() - began
    hidden = data.y < 0
    truth = data.y_true[hidden]
    proba = clf.proba_[hidden]
    if hidden.all():
        proba = proba[:, _match(truth, proba.argmax(axis=1), K)]
    genie = data.genie_proba()[hidden]
    told = told_parameters(data)[hidden]
    wrong = (data.y >= 0) & (data.y != data.y_true)
    suspects = clf.suspects_.node
    return {
        **{name: method(data, seed) for name, method in RIVALS.items()},
        "accuracy": float((proba.argmax(axis=1) == truth).mean()),
        "genie": data.genie_accuracy(),
        "ece": expected_calibration_error(truth, proba),
        "log_loss": log_loss(truth, proba, labels=range(K)),
        "told_log_loss": log_loss(truth, told, labels=range(K)),
        "genie_log_loss": log_loss(truth, genie, labels=range(K)),
        "seconds": seconds,
        "suspects": len(suspects),
        "suspects_wrong": int(wrong[suspects].sum()),
        "wrong": int(wrong.sum()),
    }


def told_parameters(data: Planted) -> np.ndarray:
    """Return marginals by belief propagation from the truth, with the true parameters."""
    p, q, K = data.params["p"], data.params["q"], data.params["n_clusters"]
    accuracy = min(data.params["label_accuracy"], 1 - 1e-9)
    nodes = terms.NodeData(K, data.X, data.y)
    bound = [terms.Covariance().bind(nodes), terms.Labels().bind(nodes)]
    problem = Problem(Graph(data.graph), bound, K)
    ell = np.log(p / q) + np.log((1 - q) / (1 - p))
    confusion = np.full((K, K), (1 - accuracy) / (K - 1))
    np.fill_diagonal(confusion, accuracy)
    sizes = np.asarray(data.params["sizes"], dtype=float)
    models = Models(
        Affinity(np.array([[ell]]), np.array([[np.log((1 - q) / (1 - p))]])),
        (data.params["covariances"], confusion),
        np.log(sizes / sizes.sum()),
    )
    rows = 0.8 * np.eye(K)[data.y_true] + 0.2 / K
    start = Result(rows, models, 0.0, Status.CONVERGED, 0, {})
    rows = marginals(problem, start, max_iter=200, n_jobs=1)
    rows = np.asarray(start.W if rows is None else rows, dtype=float)
    return rows / rows.sum(axis=1, keepdims=True)


def _match(truth: np.ndarray, found: np.ndarray, n_classes: int) -> np.ndarray:
    """Return which found class stands for each true one (Hungarian method)."""
    every = np.arange(n_classes)
    shared = contingency_matrix(np.append(truth, every), np.append(found, every))
    return linear_sum_assignment(-shared)[1]


def _error(values: list[float]) -> float:
    return float(np.std(values) / np.sqrt(max(len(values) - 1, 1)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=-1)
    options = parser.parse_args()
    table = Table(title=f"NodeClassifier against the genie, seeds 0–{options.seeds - 1}")
    for column in (
        "setting", "accuracy", "genie", "points (± s.e.)", "allowed",
        "ECE", "log-loss / genie's", "told / genie's", "ms", "best rival", "ahead by",
    ):  # fmt: skip
        table.add_column(column, justify="left" if column == "setting" else "right")
    notes = []
    for name, settings, allowed in SETTINGS:
        runs = Parallel(options.jobs)(delayed(run)(settings, s) for s in range(options.seeds))
        mean = {key: float(np.mean([r[key] for r in runs])) for key in runs[0]}
        points = [100 * (r["accuracy"] - r["genie"]) for r in runs]
        best = max(RIVALS, key=lambda name: mean[name])
        ahead = [r["accuracy"] - r[best] for r in runs]
        table.add_row(
            name,
            f"{mean['accuracy']:.4f}",
            f"{mean['genie']:.4f}",
            f"{np.mean(points):+.2f} ± {_error(points):.2f}",
            f"−{allowed}",
            f"{mean['ece']:.3f}",
            f"{mean['log_loss'] / mean['genie_log_loss']:.3f}",
            f"{mean['told_log_loss'] / mean['genie_log_loss']:.3f}",
            f"{1e3 * np.median([r['seconds'] for r in runs]):.0f}",
            best,
            f"{100 * np.mean(ahead):+.2f} ± {100 * _error(ahead):.2f}",
        )
        found = sum(r["suspects"] for r in runs)
        if sum(r["wrong"] for r in runs):
            hits, wrong = (sum(r[key] for r in runs) for key in ("suspects_wrong", "wrong"))
            notes.append(
                f"{name}: {hits} of {found} suspects are wrong labels ({hits / found:.1%}); "
                f"{hits} of {wrong} wrong labels are suspects ({hits / wrong:.1%})"
            )
        elif found:
            notes.append(f"{name}: {found} suspects, though no label is wrong")
    console = Console(width=170)
    console.print(table)
    for note in notes:
        console.print(note)


if __name__ == "__main__":
    main()
