"""Updates beside full fits: time, agreement, objective, and how good both are.

A share of the nodes, with their links, features and labels, is left out of a fit and taken up by
an update; a full fit to all of them is what it is compared with, both the best of five times.
``--steps`` does it in as many updates in a row, each once. Three generators: the library's planted
data; "independent", labels drawn for each node on its own and half of the links inside a class;
"power law", the same with hubs. Two more have "kinds" of links, one of which is random, and links
with a direction ("directed"): more lead from each class to the next than back. Real graphs are read
from ``--data FOLDER``.
"""

from __future__ import annotations

import argparse
import copy
import time
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from nodeproof import Directed, NodeClassifier
from nodeproof.datasets import load, make_planted
from nodeproof.metrics import expected_calibration_error

CLASSES, LABELLED = 5, 0.1

# Other programs disturb: the best of so many fits, and of as many updates, is taken.
_TRIES = 5


class Data(NamedTuple):
    """A graph in an order of its nodes that has nothing to do with their classes.

    Links are listed by kind; a matrix that is not symmetric has links with a direction.
    """

    graph: dict[str, sp.csr_array]
    X: Any
    truth: np.ndarray


def planted(n: int, links: int, seed: int) -> Data:
    """Return planted data of Section 5 of the paper, with two thirds of the links in a class."""
    size, pairs = n // CLASSES, n * (n // CLASSES) / 2
    p = 2 / 3 * links / pairs
    q = 1 / 3 * links / (pairs * (CLASSES - 1))
    data = make_planted(CLASSES, size, p=p, q=q, label_ratio=LABELLED, random_state=seed)
    return Data({"": sp.csr_array(data.graph)}, data.X, data.y_true)


def drawn(n: int, links: int, seed: int, hubs: bool) -> Data:
    """Return labels drawn independently, and half of the links inside a class."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, CLASSES, n)
    weights = (1.0 - rng.random(n)) ** (-1 / 1.5) if hubs else np.ones(n)
    weights = np.minimum(weights, np.sqrt(n))
    ends = rng.choice(n, size=(int(1.05 * links), 2), p=weights / weights.sum())
    inside = rng.random(len(ends)) < 0.5
    for k in range(CLASSES):
        own = np.flatnonzero(truth == k)
        here = np.flatnonzero(inside & (truth[ends[:, 0]] == k))
        ends[here, 1] = rng.choice(own, len(here), p=weights[own] / weights[own].sum())
    ends = ends[ends[:, 0] != ends[:, 1]]
    A = sp.coo_array((np.ones(len(ends)), ends.T), shape=(n, n)).tocsr()
    A = sp.csr_array(((A + A.T) > 0).astype(np.float64))
    X = rng.normal(size=(n, 8)) + 0.7 * np.eye(CLASSES, 8)[truth]
    return Data({"": A}, X, truth)


def arcs(n: int, links: int, seed: int) -> Data:
    """Return links of which two thirds lead from each class to the next, and labels."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, CLASSES, n)
    ends = rng.integers(0, n, (links, 2))
    ahead = rng.random(links) < 2 / 3
    for k in range(CLASSES):
        own = np.flatnonzero(truth == (k + 1) % CLASSES)
        here = np.flatnonzero(ahead & (truth[ends[:, 0]] == k))
        ends[here, 1] = rng.choice(own, len(here))
    ends = ends[ends[:, 0] != ends[:, 1]]
    A = sp.csr_array(sp.coo_array((np.ones(len(ends)), ends.T), shape=(n, n)).tocsr() > 0)
    X = rng.normal(size=(n, 8)) + 0.3 * np.eye(CLASSES, 8)[truth]
    return Data({"": A.astype(np.float64)}, X, truth)


def two_kinds(n: int, links: int, seed: int) -> Data:
    """Return links that tell classes apart, and as many that do not."""
    told, other = drawn(n, links // 2, seed, False), drawn(n, links // 2, seed + 1, False)
    return Data({"told": told.graph[""], "random": other.graph[""]}, told.X, told.truth)


def read(name: str, nodes: int, links: int, seed: int, folder: Path | None) -> Data:
    """Return data by name, its nodes shuffled."""
    if name == "planted":
        data = planted(nodes, links, seed)
    elif name in ("independent", "power-law"):
        data = drawn(nodes, links, seed, name == "power-law")
    elif name == "kinds":
        data = two_kinds(nodes, links, seed)
    elif name == "directed":
        data = arcs(nodes, links, seed)
    else:
        found = load(name, folder=folder)
        data = Data({"": sp.csr_array(found.graph)}, found.X, np.asarray(found.y))
    order = np.random.default_rng(seed).permutation(len(data.truth))
    X = None if data.X is None else data.X[order]
    graph = {kind: A[order][:, order] for kind, A in data.graph.items()}
    return Data(graph, X, data.truth[order])


def as_given(parts: dict[str, Any]) -> Any:
    """Return links of several kinds as a dict, and those of one kind alone."""
    return parts if len(parts) > 1 else next(iter(parts.values()))


def until(data: Data, stop: int) -> Any:
    """Return the links among the first nodes, as a fit takes them."""
    found = {}
    for kind, A in data.graph.items():
        own = A[:stop][:, :stop]
        found[kind] = Directed(own) if (A != A.T).nnz else own
    return as_given(found)


def added(data: Data, lo: int, hi: int) -> dict[str, Any]:
    """Return the links of the nodes lo…hi to those before, as an update takes them."""
    links: dict[str, Any] = {}
    among: dict[str, Any] = {}
    for kind, A in data.graph.items():
        if (A != A.T).nnz:
            links[kind] = {"out": A[lo:hi, :lo], "in": sp.csr_array(A[:lo, lo:hi].T)}
            among[kind] = np.stack(A[lo:hi, lo:hi].nonzero(), axis=1) + lo
        else:
            links[kind] = A[lo:hi][:, :hi]
    return {"graph": as_given(links)} | ({"add": as_given(among)} if among else {})


def some_labels(truth: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Return the labels of a share of the nodes, −1 for the others."""
    shown = (np.random.default_rng(seed).random(len(truth)) < share) & (truth >= 0)
    return np.where(shown, truth, -1)


def part(X: Any, lo: int, hi: int) -> Any:
    """Return some rows."""
    return None if X is None else X[lo:hi]


def judged(clf: NodeClassifier, data: Data, y: np.ndarray) -> tuple[float, float, float]:
    """Return accuracy, mean probability and calibration error at nodes without a label."""
    unseen = (y < 0) & (data.truth >= 0)
    codes = np.searchsorted(clf.classes_, data.truth[unseen])
    proba = clf.proba_[unseen]
    right = float((proba.argmax(axis=1) == codes).mean())
    error = float(expected_calibration_error(codes, proba))
    return right, float(proba.max(axis=1).mean()), error


def run(name: str, chosen: argparse.Namespace) -> str:
    """Return one line of the table."""
    data = read(name, chosen.nodes, chosen.links, chosen.seed, chosen.data)
    n = len(data.truth)
    y = some_labels(data.truth, LABELLED, chosen.seed)
    old = n - round(chosen.share * n)
    ends = np.linspace(old, n, chosen.steps + 1).astype(int)
    # What is compiled or cached once is not part of any of the times.
    before = until(data, old)
    experts = chosen.experts if chosen.experts == "auto" else chosen.experts.split(",")
    clf = NodeClassifier(experts=experts, random_state=0).fit(
        part(data.X, 0, old), y[:old], graph=before
    )
    clf.update(part(data.X, old, n), y[old:], **added(data, old, n))
    clf.fit(part(data.X, 0, old), y[:old], graph=before)
    spent = []
    for lo, hi in pairwise(ends):
        links, before_it = added(data, lo, hi), clf
        tries = []
        for _ in range(_TRIES if chosen.steps == 1 else 1):
            clf = copy.copy(before_it)
            began = time.perf_counter()
            clf.update(part(data.X, lo, hi), y[lo:hi], **links)
            tries.append(time.perf_counter() - began)
        spent.append(min(tries))
    whole, tries = until(data, n), []
    for _ in range(_TRIES if chosen.steps == 1 else 1):
        began = time.perf_counter()
        again = NodeClassifier(experts=experts, random_state=0).fit(data.X, y, graph=whole)
        tries.append(time.perf_counter() - began)
    full = min(tries)
    agreement = float((clf.labels_ == again.labels_).mean())
    apart = abs(clf.objective_ - again.objective_) / max(abs(again.objective_), 1e-300)
    said = clf.choices_["update"]["value"]["differs"]
    cells = [name, f"{n:,} / {again.fitted_.n_links:,}", str(chosen.steps), f"{full:.2f}",
             f"{np.median(spent):.3f}", f"{np.median(spent) / full:.1%}", f"{agreement:.2%}",
             f"{1 - said:.1%}", f"{apart:.1e}"]  # fmt: skip
    for by_update, by_fit in zip(judged(clf, data, y), judged(again, data, y), strict=True):
        cells.append(f"{by_update:.4f} / {by_fit:.4f}")
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default="planted,independent,power-law")
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--links", type=int, default=1_000_000)
    parser.add_argument("--share", type=float, default=0.01, help="nodes that updates take up")
    parser.add_argument("--steps", type=int, default=1, help="in how many updates")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", type=Path, help="folder of the real graphs")
    parser.add_argument(
        "--experts", default="auto", help="what to pool, or leave out: trees take no new nodes"
    )
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    print(
        "| data | nodes / links | updates | fit (s) | one update (s) | of a fit | same labels | "
        "said, at least | objective apart | accuracy: update / fit | mean probability | ECE |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for name in chosen.sets.split(","):
        print(run(name, chosen), flush=True)


if __name__ == "__main__":
    main()
