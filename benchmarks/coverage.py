"""Prediction sets on real graphs: how often they hold the true class, and how large they are.

For every graph and split, `predict_set` beside other conformal sets on the same probabilities:

- plain APS, DAPS (scores averaged over neighbours) and SNAPS (over neighbours and the 20 most
  similar nodes), all with the same cross-fitted held-out labels as `predict_set`;
- the same four scores calibrated on half of the unlabelled nodes, whose labels no fit has seen:
  that compares scores alone, at equal coverage.

Labels are drawn uniformly from the nodes (10 % of them, or as many as 20 per class would be), 20
per class (at most half of a class), or uniformly with 30 % of them flipped. Fits are kept in --out,
so that a second run only draws the tables. Graphs are read from the folder that --data or
NODEPROOF_DATA names.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.neighbors import NearestNeighbors

from nodeproof import NodeClassifier
from nodeproof.auto.held_out import CrossFitted
from nodeproof.conformal import least_probabilities
from nodeproof.prediction_sets import find_limits
from peers.sets import GraphSet, read_set

SETS = (
    "cora", "citeseer", "pubmed", "amazon_photo", "acm", "lastfm_asia", "chameleon_filtered",
    "polblogs",
)  # fmt: skip
DRAWS = ("ten", "few", "perclass", "ten+flip", "few+flip")
ABOUT = {
    "ten": "10 % of the nodes, drawn uniformly",
    "few": "as many as 20 per class, drawn uniformly",
    "perclass": "20 per class",
    "ten+flip": "10 % of the nodes, drawn uniformly, 30 % of the labels flipped",
    "few+flip": "as many as 20 per class, drawn uniformly, 30 % of the labels flipped",
}
COVERAGE = 0.9
SIMILAR = 20

Array = NDArray[np.float64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--data", type=Path, default=os.environ.get("NODEPROOF_DATA"), metavar="FOLDER")
    add("--sets", nargs="+", default=list(SETS), metavar="NAME")
    add("--draws", nargs="+", default=list(DRAWS), choices=DRAWS, metavar="NAME")
    add("--splits", type=int, default=20)
    add("--kept", action="store_true", help="only draw the tables of the fits that are kept")
    add("--out", type=Path, default=Path("build/coverage-sets"), metavar="DIR")
    options = parser.parse_args()
    if options.data is None or not Path(options.data).is_dir():
        sys.exit("give the folder of the graphs: --data FOLDER, or NODEPROOF_DATA")
    warnings.simplefilter("ignore")
    options.out.mkdir(parents=True, exist_ok=True)
    graphs = {name: read_set(str(Path(options.data) / f"{name}.npz")) for name in options.sets}
    averages = {name: averages_of(found) for name, found in graphs.items()}
    for draw in options.draws:
        rows = defaultdict(list)
        for name, found in graphs.items():
            for seed in range(options.splits):
                file = options.out / f"{name}-{draw}-{seed}.npz"
                if not file.exists() and not options.kept:
                    keep_fit(found, draw_labels(found.y, draw, seed), file)
                if file.exists():
                    rows[name].append(measure(found, averages[name], file, seed))
        show(draw, rows)


def draw_labels(y: NDArray[np.int64], draw: str, seed: int) -> NDArray[np.int64]:
    """Return the labels to fit, −1 where there is none."""
    rng = np.random.default_rng(seed)
    known, K = np.flatnonzero(y >= 0), int(y.max()) + 1
    kind, _, flip = draw.partition("+")
    of_each = [min(20, int((y == k).sum()) // 2) for k in range(K)]
    if kind == "perclass":
        drawn = [rng.permutation(np.flatnonzero(y == k))[: of_each[k]] for k in range(K)]
        nodes = np.concatenate(drawn)
    else:
        number = sum(of_each) if kind == "few" else len(known) // 10
        nodes = rng.choice(known, number, replace=False)
    given = np.full(len(y), -1)
    given[nodes] = y[nodes]
    if flip:
        wrong = rng.permutation(nodes)[: round(0.3 * len(nodes))]
        given[wrong] = (y[wrong] + rng.integers(1, K, len(wrong))) % K
    return given


def keep_fit(graph_set: GraphSet, given: NDArray[np.int64], file: Path) -> None:
    """Fit, and keep what sets rest on: probabilities and held-out labels."""
    data = graph_set.data
    clf = NodeClassifier(random_state=0, n_jobs=1).fit(data.X, given, graph=data.graph)
    held = clf.fitted_.held_out
    mix = {} if held.proportions is None else {"proportions": held.proportions}
    np.savez(
        file, proba=clf.proba_, classes=clf.classes_, given=clf.fitted_.given, nodes=held.nodes,
        codes=held.codes, held=held.proba, **mix,
    )  # fmt: skip


def read_fit(file: Path) -> SimpleNamespace:
    """Return what was kept of a fit, as `find_limits` takes it."""
    with np.load(file, allow_pickle=False) as kept:
        mix = kept.get("proportions")
        held = CrossFitted(kept["nodes"], kept["codes"], kept["held"], 0.0, mix)
        parts = {name: kept[name] for name in ("proba", "classes", "given")}
    return SimpleNamespace(**parts, held_out=held)


def averages_of(graph_set: GraphSet) -> tuple[sp.csr_array, sp.csr_array | None]:
    """Return matrices that average over neighbours, and over the most similar nodes."""
    graph, X = sp.csr_array(graph_set.data.graph), graph_set.data.X
    degrees = np.diff(graph.indptr)
    links = sp.csr_array(sp.diags_array(1.0 / np.maximum(degrees, 1)) @ graph)
    if X is None:
        return links, None
    search = NearestNeighbors(n_neighbors=SIMILAR + 1, metric="cosine", algorithm="brute")
    nearest = search.fit(X).kneighbors(X, return_distance=False)[:, 1:]
    n = len(nearest)
    rows = np.repeat(np.arange(n), SIMILAR)
    return links, sp.csr_array((np.full(len(rows), 1 / SIMILAR), (rows, nearest.ravel())), (n, n))


def adaptive(proba: Array, rng: np.random.Generator) -> Array:
    """Return the scores of APS: what is likelier than a class, and a random share of its own."""
    order = np.argsort(-proba, axis=1)
    sorted_proba = np.take_along_axis(proba, order, 1)
    found = sorted_proba.cumsum(axis=1) - rng.random((len(proba), 1)) * sorted_proba
    scores = np.empty_like(proba)
    np.put_along_axis(scores, order, found, 1)
    return scores


def scores_of(proba: Array, averages: tuple, rng: np.random.Generator) -> dict[str, Array]:
    """Return the scores of all kinds, small where a class is likely, shape (n, K) each."""
    links, similar = averages
    aps = adaptive(proba, rng)
    linked = (np.diff(links.indptr) > 0)[:, None]
    daps = np.where(linked, 0.5 * aps + 0.5 * (links @ aps), aps)
    found = {"own": 1.0 - proba, "APS": aps, "DAPS": daps}
    if similar is None:
        return found | {"SNAPS": daps}
    alike = similar @ aps
    return found | {"SNAPS": np.where(linked, (aps + links @ aps + alike) / 3, 0.5 * (aps + alike))}


def measure(graph_set: GraphSet, averages: tuple, file: Path, seed: int) -> dict[str, tuple]:
    """Return coverage and mean size of sets on unlabelled nodes, by kind."""
    fitted = read_fit(file)
    held, y, K = fitted.held_out, graph_set.y, len(fitted.classes)
    codes = np.full(int(y.max()) + 2, -1)
    codes[fitted.classes.astype(int)] = np.arange(K)
    truth = codes[y]  # −1 also for classes without any label: no set can hold them
    test = np.flatnonzero((fitted.given < 0) & (y >= 0))
    found = {}
    for kind, conditional in (("predict_set", False), ("in every class", True)):
        sets = find_limits(fitted, COVERAGE, conditional).sets(fitted.proba[test])
        found[kind] = coverage_of(sets, truth[test])
    rng = np.random.default_rng(seed)
    proba = fitted.proba.astype(np.float64)
    blind = proba.copy()
    learnt = (np.bincount(held.codes, minlength=K) + 2.0) / (len(held.codes) + 2.0 * K)
    mix = learnt if held.proportions is None else held.proportions
    blind[held.nodes] = softmax(np.log(np.maximum(held.proba, 1e-30)) + np.log(mix / learnt), 1)
    for kind, scores in scores_of(blind, averages, rng).items():
        if kind != "own":
            least = least_probabilities(-scores[held.nodes], held.codes, COVERAGE)
            found[kind] = coverage_of(within(scores[test], least), truth[test])
    shuffled = rng.permutation(test[truth[test] >= 0])
    half, rest = np.array_split(shuffled, 2)
    for kind, scores in scores_of(proba, averages, rng).items():
        least = least_probabilities(-scores[half], truth[half], COVERAGE)
        found[f"{kind}, equal"] = coverage_of(within(scores[rest], least), truth[rest])
    return found


def within(scores: Array, least: Array) -> NDArray[np.bool_]:
    """Return the sets of scores up to limits; 0, too few labels, is all classes."""
    return (-scores >= least) | (least == 0.0)


def coverage_of(sets: NDArray[np.bool_], truth: NDArray[np.int64]) -> tuple[float, float]:
    """Return how often sets hold the true class, and their mean size."""
    held = sets[np.arange(len(truth)), truth] & (truth >= 0)
    return float(held.mean()), float(sets.sum(axis=1).mean())


def show(draw: str, rows: dict[str, list[dict[str, tuple]]]) -> None:
    """Print coverage and mean size by kind, averaged over the splits."""
    if not rows:
        return
    kinds = list(next(iter(rows.values()))[0])
    print(f"\nLabels: {ABOUT[draw]}. Coverage and mean size; `equal`: calibrated on other nodes.\n")
    print(f"| graph | splits | {' | '.join(kinds)} |")
    print(f"|---|--:|{'--:|' * len(kinds)}")
    for name, found in rows.items():
        cells = []
        for kind in kinds:
            covered, size = np.mean([one[kind] for one in found], axis=0)
            cells.append(f"{covered:.3f} / {size:.2f}")
        print(f"| {name} | {len(found)} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
