"""What `certify` proves on real and planted graphs, how long that takes, and how long the check.

    python benchmarks/proofs.py [SET ...] [--data FOLDER] [--seconds N]
    python benchmarks/proofs.py --often SEEDS        how often planted labellings are proven
    python benchmarks/proofs.py --scale 1e5,1e6      sparse graphs of so many nodes
    python benchmarks/proofs.py --picture FILE       objective and bound over time: Cora, Citeseer

Real graphs are read from FOLDER (default: $NODEPROOF_DATA) and left out where it lacks them; fits
are calibrated, with the labels of the public split, or 20 per class. Objectives are in nats: of
the labelling that the fit gives, and of the best found. `proven` counts the nodes that keep their
class in every optimal labelling, with a * where that holds up to the names of the classes. `check`
is the time of `verify`, by the auditor alone, for a certificate read from its file. Seconds are
wall-clock time; with another CPU or another load, searches that time ends find other bounds.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from nodeproof import NodeClassifier
from nodeproof.certificate import Certificate
from nodeproof.certificate.labelling.certify import certify_instance
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.datasets import Dataset, Planted, load, make_planted
from nodeproof.terms import Labels, Softmax

LABELS_PER_CLASS = 20


# The sets. --------------------------------------------------------------------------------


def real(name: str, words: bool) -> NodeClassifier:
    """Return a calibrated fit of a real set, with words and labels or labels alone."""
    data = load(name)
    terms = [Softmax(), Labels()] if words else [Labels()]
    K = int(data.y.max()) + 1
    clf = NodeClassifier(n_classes=K, terms=terms, weights="calibrated", random_state=0)
    return clf.fit(data.X if words else None, known_labels(data), graph=data.graph)


def known_labels(data: Dataset) -> np.ndarray:
    """Return the labels of the public split, or of 20 nodes per class; −1 elsewhere."""
    if data.masks:
        return np.asarray(data.training_labels())
    y = np.asarray(data.y)
    known = np.full(len(y), -1)
    rng = np.random.default_rng(0)
    for c in range(y.max() + 1):
        known[rng.choice(np.flatnonzero(y == c), LABELS_PER_CLASS, replace=False)] = c
    return known


def fit(data: Planted, sources: str = "GFL", seed: int = 0) -> NodeClassifier:
    """Return a calibrated fit of planted data: links (G), features (F), labels (L)."""
    X, y = data.X if "F" in sources else None, data.y if "L" in sources else None
    clf = NodeClassifier(
        n_classes=data.params["n_clusters"], weights="calibrated", random_state=seed
    )
    return clf.fit(X, y, graph=data.graph)


def harder() -> NodeClassifier:
    """Return a fit where links and features say little."""
    return fit(make_planted(p=0.07, omega=0.3, label_ratio=0.05, random_state=0))


def links_alone(strength: float) -> NodeClassifier:
    """Return a fit of 300 nodes in three classes; at strength 1, recovery becomes possible."""
    size, n, q = 100, 300, 0.05
    p = (math.sqrt(q) + strength * math.sqrt(math.log(n) / size)) ** 2
    return fit(make_planted(cluster_size=size, p=p, q=q, random_state=0), "G")


#: name: the file that is read, if any, and the fit
SETS: dict[str, tuple[str | None, Callable[[], NodeClassifier]]] = {
    "cora, words": ("cora", lambda: real("cora", words=True)),
    "citeseer, words": ("citeseer", lambda: real("citeseer", words=True)),
    "cora, labels": ("cora", lambda: real("cora", words=False)),
    "photo, words": ("amazon_photo", lambda: real("amazon_photo", words=True)),
    "polblogs, labels": ("polblogs", lambda: real("polblogs", words=False)),
    "planted": (None, lambda: fit(make_planted(random_state=0))),
    "planted, harder": (None, harder),
    "links alone, .6": (None, lambda: links_alone(0.6)),
    "links alone, .7": (None, lambda: links_alone(0.7)),
    "links alone, .85": (None, lambda: links_alone(0.85)),
}


# A line per set. --------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """What is printed of one certificate."""

    proof: Certificate
    given: float
    seconds_of_check: float
    megabytes: float

    def __str__(self) -> str:
        proof = self.proof
        assert proof.instance is not None
        n, K = proof.possible.shape
        links = proof.instance.adjacency.nnz // 2
        share = 100.0 * proof.gap
        names = "*" if proof.renaming else " "
        certified = "exact" if proof.exact else "yes" if proof.certified else "no"
        return (
            f"{n:7d} {links:8d} {K:2d} {self.given:12.2f} {proof.objective:12.2f} "
            f"{proof.lower_bound:12.2f} {proof.gap_nats:9.3g} {share:8.2g} % "
            f"{int(proof.certified_nodes.sum()):7d}{names} {certified:>9} {proof.seconds:7.1f} "
            f"{self.seconds_of_check:7.2f} {self.megabytes:7.2f}  {proof.method}"
        )


HEADER = (
    f"{'set':<17} {'nodes':>7} {'links':>8} {'K':>2} {'given':>12} {'best':>12} {'bound':>12} "
    f"{'gap, nats':>9} {'gap':>10} {'proven':>8} {'certified':>9} {'search s':>7} {'check s':>6} "
    f"{'MB':>7}  by"
)


def measure(instance: Instance, given: np.ndarray, seconds: float) -> Line:
    """Certify a labelling; save, read and verify the certificate."""
    proof = certify_instance(instance, given, time_budget=seconds)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "certificate.npz"
        proof.save(file)
        read = Certificate.load(file)
        began = time.perf_counter()
        check = read.verify(instance)
        taken = time.perf_counter() - began
        if not check:
            raise SystemExit(f"refused: {check.reason}")
        return Line(proof, instance.value(given), taken, file.stat().st_size / 1e6)


def measure_fit(clf: NodeClassifier, seconds: float) -> Line:
    """Certify the labelling of a fit."""
    problem = clf.fitted_.labelling_problem()
    if isinstance(problem, str):
        raise SystemExit(f"not applicable: {problem}")
    return measure(problem, clf.fitted_.codes, seconds)


def has_file(name: str, folder: Path | None) -> bool:
    """Return whether the graph of a set is there, if it needs one."""
    file, _ = SETS[name]
    return file is None or bool(folder and (folder / f"{file}.npz").exists())


def show_sets(names: Sequence[str], folder: Path | None, seconds: float) -> None:
    """Print a line per set."""
    print(HEADER)
    for name in names:
        file, make = SETS[name]
        if not has_file(name, folder):
            print(f"{name:<17} left out: no {file}.npz in --data or $NODEPROOF_DATA")
            continue
        print(f"{name:<17} {measure_fit(make(), seconds)}", flush=True)


# How often. -------------------------------------------------------------------------------

NAMES = {"G": "graph", "GL": "graph, labels", "GF": "graph, features"}


def show_often(seeds: int, seconds: float) -> None:
    """Print how many planted labellings are proven optimal, by links and sources."""
    print(f"900 nodes, K = 3, q = .05, ω = .1, labels of 20 %, {seeds} seeds")
    print(f"{'p':>5} {'sources':<16} {'certified':>9} {'unique':>7} {'worst gap':>10} {'s':>6}")
    for p in (0.3, 0.2, 0.15, 0.1):
        for sources, words in NAMES.items():
            fits = [fit(make_planted(p=p, omega=0.1, random_state=k), sources, k)
                    for k in range(seeds)]  # fmt: skip
            proofs = [clf.certify(time_budget=seconds) for clf in fits]
            counts = [sum(getattr(x, name) for x in proofs) for name in ("certified", "unique")]
            worst = max((x.gap for x in proofs if not x.certified), default=0.0)
            print(
                f"{p:5} {words:<16} {counts[0]:>6}/{seeds} {counts[1]:>5}/{seeds} "
                f"{100 * worst:8.2g} % {max(x.seconds for x in proofs):6.1f}",
                flush=True,
            )


# Large graphs. ----------------------------------------------------------------------------


def planted_instance(n: int) -> tuple[Instance, np.ndarray]:
    """Return a sparse planted problem, and its planted labels.

    Five classes, mean degree 10, of which 7 inside; costs are those of a normal score per class
    whose mean is 2 for the own one. Links count as their likelihood ratio says.
    """
    K, degree, inside = 5, 10, 7
    rng = np.random.default_rng(0)
    truth = rng.integers(0, K, n)
    order = np.argsort(truth, kind="stable")
    sizes = np.bincount(truth, minlength=K)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    m = n * degree // 2
    u, v = rng.integers(0, n, m), rng.integers(0, n, m)
    # A random node of the class of u, or any node.
    same = rng.random(m) < (inside - degree / K) / (degree - degree / K)
    own = truth[u]
    at = starts[own] + (rng.random(m) * sizes[own]).astype(np.int64)
    v = np.where(same, order[at], v)
    keep = u != v
    A = sp.coo_array((np.ones(int(keep.sum())), (u[keep], v[keep])), shape=(n, n)).tocsr()
    A = A.maximum(A.T).tocsr()
    A.data[:] = 1.0
    A.sort_indices()
    p, q = inside / (n / K), (degree - inside) / (n - n / K)
    link, no_link = math.log(p * (1 - q) / (q * (1 - p))), math.log((1 - q) / (1 - p))
    mean = 2.0
    score = rng.normal(size=(n, K)) + mean * (np.arange(K) == truth[:, None])
    costs = -mean * score
    costs -= costs.min(axis=1, keepdims=True)
    return Instance(A, np.ones(n), 0.5 * link, 0.5 * no_link, costs), truth


def measure_scale(n: int, seconds: float) -> str:
    """Certify a large problem in this process; return what to print."""
    warnings.simplefilter("ignore")
    small, given = planted_instance(2000)
    measure(small, given, 1.0)  # compiles
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    instance, _ = planted_instance(n)
    given = instance.costs.argmin(axis=1)
    began = time.perf_counter()
    proof = certify_instance(instance, given, time_budget=seconds)
    search = time.perf_counter() - began
    searched = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    check = proof.verify(instance)
    taken = time.perf_counter() - began
    if not check:
        raise SystemExit(f"refused: {check.reason}")
    audited = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    links = instance.adjacency.nnz // 2
    return (
        f"{n:9d} {links:9d} {instance.value(given):14.1f} {proof.objective:14.1f} "
        f"{proof.lower_bound:14.1f} {100 * proof.gap:8.2g} % "
        f"{100 * proof.certified_nodes.mean():7.2f} % {search:8.1f} {1e6 * search / links:8.1f} "
        f"{(searched - before) / 1e3:8.0f} {taken:7.1f} {(audited - before) / 1e3:8.0f}"
    )


def show_scale(sizes: Sequence[int], seconds: float) -> None:
    """Print a line per size, each from a process of its own: peaks are of the whole process."""
    print("sparse planted graphs, K = 5, mean degree 10, evidence at every node")
    print(
        f"{'nodes':>9} {'links':>9} {'given':>14} {'best':>14} {'bound':>14} {'gap':>10} "
        f"{'proven':>9} {'search s':>8} {'µs/link':>8} {'MB':>8} {'check s':>7} {'MB':>8}"
    )
    for n in sizes:
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            print(pool.submit(measure_scale, n, seconds).result(), flush=True)


# The picture. -----------------------------------------------------------------------------


def draw(path: Path, folder: Path | None, seconds: float) -> None:
    """Draw objective and bound over time: of a proof that is complete, and of one that is not."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
    for place, name in zip(axes, ("cora, words", "citeseer, words"), strict=True):
        if not has_file(name, folder):
            raise SystemExit(f"the picture needs {SETS[name][0]}.npz in --data or $NODEPROOF_DATA")
        proof = SETS[name][1]().certify(time_budget=seconds)
        proof.plot(place)
        place.set_title(f"{name.capitalize()}: {proof.status}")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> None:
    """Do what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"of: {'; '.join(SETS)}")
    folder = os.environ.get("NODEPROOF_DATA")
    parser.add_argument("--data", type=Path, default=folder, help="folder of the real graphs")
    parser.add_argument("--seconds", type=float, default=45.0, help="for each search")
    parser.add_argument("--often", type=int, metavar="SEEDS")
    parser.add_argument("--scale", metavar="NODES", help="such as 1e5,1e6")
    parser.add_argument("--picture", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    if unknown := set(chosen.sets) - set(SETS):
        parser.error(f"no such set: {', '.join(sorted(unknown))}")
    if chosen.data is not None:
        os.environ["NODEPROOF_DATA"] = str(chosen.data)
    warnings.simplefilter("ignore")
    measure_fit(harder(), 1.0)  # compiles
    if chosen.often:
        show_often(chosen.often, chosen.seconds)
    if chosen.scale:
        show_scale([round(float(n)) for n in chosen.scale.split(",")], chosen.seconds)
    if chosen.picture:
        draw(chosen.picture, chosen.data, chosen.seconds)
    if chosen.sets or not (chosen.often or chosen.scale or chosen.picture):
        show_sets(chosen.sets or list(SETS), chosen.data, chosen.seconds)


if __name__ == "__main__":
    main()
