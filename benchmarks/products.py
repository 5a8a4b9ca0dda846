"""A planted graph of the shape of ogbn-products: time, memory and accuracy beside other methods.

    python benchmarks/products.py [--share 1.0] [--methods nodeproof,label-propagation,s2gc,gcn]

2.4 million nodes, 62 million links with degrees of a power law, one in eight drawn inside a class
and the others anywhere, 47 classes of unequal sizes, 100 features, 8 % labels. `--share` draws a
smaller one. Each method runs in a process of its own and reads the same data. The time is that of
the fit with predictions for all nodes, on every core; GCN, of 200 epochs, is extrapolated from
five. The peak is that of anonymous memory, data included, also relative to data and memberships.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from nodeproof import NodeClassifier
from nodeproof.metrics import expected_calibration_error
from processes import PeakMemory
from scaling.data import Data
from scaling.peers import Found, gcn, label_propagation, normalised

NODES, LINKS, CLASSES, FEATURES = 2_400_000, 62_000_000, 47, 100
INSIDE, LABELLED, HOPS = 0.12, 0.08, 16
ARRAYS = ("indices", "indptr", "X", "y", "truth")


def draw(folder: Path, share: float, seed: int) -> None:
    """Draw the graph, and write its arrays to a folder."""
    rng = np.random.default_rng(seed)
    n, links = int(share * NODES), int(share * LINKS)
    sizes = rng.dirichlet(np.full(CLASSES, 2.0))
    truth = rng.choice(CLASSES, n, p=sizes)
    weight = np.minimum(rng.pareto(1.8, n) + 1.0, np.sqrt(links))
    order = np.argsort(truth, kind="stable")
    ahead = np.concatenate([[0.0], np.cumsum(weight[order])])
    first = np.searchsorted(truth[order], np.arange(CLASSES + 1))
    u = order[np.searchsorted(ahead[1:], rng.random(links) * ahead[-1], side="right")]
    inside = rng.random(links) < INSIDE
    low = np.where(inside, ahead[first[truth[u]]], 0.0)
    high = np.where(inside, ahead[first[truth[u] + 1]], ahead[-1])
    v = order[np.searchsorted(ahead[1:], low + rng.random(links) * (high - low), side="right")]
    kept = u != v
    ends = np.minimum(u, v)[kept].astype(np.int32), np.maximum(u, v)[kept].astype(np.int32)
    del low, high, inside, u, v, order, ahead
    ones = np.ones(int(kept.sum()), dtype=np.float32)
    upper = sp.coo_array((ones, ends), shape=(n, n)).tocsr()
    graph = sp.csr_array(upper + upper.T)
    means = 0.15 * rng.standard_normal((CLASSES, FEATURES), dtype=np.float32)
    X = rng.standard_normal((n, FEATURES), dtype=np.float32)
    X += means[truth]
    y = np.where(rng.random(n) < LABELLED, truth, -1)
    for name, array in zip(ARRAYS, (graph.indices, graph.indptr, X, y, truth), strict=True):
        np.save(folder / f"{name}.npy", array)


def read(folder: Path) -> tuple[Data, NDArray[np.int64]]:
    """Return the data and the true classes."""
    indices, indptr, X, y, truth = (np.load(folder / f"{name}.npy") for name in ARRAYS)
    ones = np.ones(len(indices), dtype=np.float32)
    graph = sp.csr_array((ones, indices, indptr), shape=(len(y), len(y)))
    return Data(graph, X, y, CLASSES), truth


def s2gc(data: Data) -> Found:
    """Fit logistic regression to features averaged over 16 hops (S²GC; Zhu and Koniusz, 2021)."""
    assert data.X is not None
    loops = sp.eye_array(len(data.y), dtype=np.float32, format="csr")
    adjacency = normalised(sp.csr_array(data.graph + loops))
    walk, total = data.X, np.zeros_like(data.X)
    for _ in range(HOPS):
        walk = adjacency @ walk
        total += walk
    smoothed = np.float32(0.95 / HOPS) * total + np.float32(0.05) * data.X
    known = np.flatnonzero(data.y >= 0)
    scale = StandardScaler().fit(smoothed[known])
    regression = LogisticRegression(max_iter=100)
    regression.fit(scale.transform(smoothed[known]), data.y[known])
    return Found(regression.predict(scale.transform(smoothed, copy=False)))


METHODS: dict[str, Callable[[Data], Found]] = {
    "label-propagation": label_propagation,
    "s2gc": s2gc,
    "gcn": gcn,
}


def measure(method: str, folder: Path) -> str:
    """Return a row of the table."""
    warnings.simplefilter("ignore")
    with PeakMemory() as memory:
        data, truth = read(folder)
        hidden = data.y < 0
        more = ""
        began = time.perf_counter()
        if method == "nodeproof":
            clf = NodeClassifier(n_classes=CLASSES, random_state=0)
            found = Found(clf.fit(data.X, data.y, graph=data.graph).labels_)
        else:
            found = METHODS[method](data)
        seconds = time.perf_counter() - began if found.seconds is None else found.seconds
    accuracy = ""
    if found.labels is not None:
        accuracy = f"{(found.labels == truth)[hidden].mean():.4f}"
    if method == "nodeproof":
        p = clf.proba_[hidden]
        error = expected_calibration_error(truth[hidden], p)
        more = f"p {p.max(axis=1).mean():.4f}, ECE {error:.4f}"
    peak = memory.peak or 0
    needed = data.nbytes
    name = f"{method} (extrapolated)" if found.seconds is not None else method
    return (
        f"| {name} | {seconds:.0f} s | {peak / 2**30:.1f} GiB | {peak / needed:.2f} | {accuracy} | "
        f"{more} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = ["nodeproof", *METHODS]
    parser.add_argument("--share", type=float, default=1.0, help="of the nodes and links")
    parser.add_argument("--methods", default=",".join(known), help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--measure", nargs=2, metavar=("METHOD", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(measure(options.measure[0], Path(options.measure[1])))
        return
    methods = options.methods.split(",")
    if unknown := sorted(set(methods) - set(known)):
        parser.error(f"unknown: {', '.join(unknown)}; known are {', '.join(known)}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        draw(folder, options.share, options.seed)
        print("| method | fit | peak memory | / data | accuracy | |\n|---|--:|--:|--:|--:|---|")
        for method in methods:
            command = [sys.executable, __file__, "--measure", method, str(folder)]
            done = subprocess.run(command, capture_output=True, text=True)
            row = done.stdout.strip() or f"| {method} | failed: {done.stderr.strip()[-200:]} |"
            print(row, flush=True)


if __name__ == "__main__":
    main()
