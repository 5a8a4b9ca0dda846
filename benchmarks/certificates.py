"""How often a labelling is proven best, how close the bound comes otherwise, and what it costs.

    python benchmarks/certificates.py [PART ...] [--quick] [--out DIR]

planted  900 nodes in three classes, q = .05: labellings of the default classifier
large    10⁵ nodes in five classes, links alone: time and memory beside those of the fit
wrong    labellings with 2 % of the labels moved by hand: refused, and what is found instead
real     karate club, political blogs and Cora; those but the first are read from the folder that
         NODEPROOF_DATA names, and left out without it
picture  the picture of the documentation: a proof that is complete, and one that is not

Seconds are wall-clock time of `certify` alone. With --quick, one seed, a tenth of the nodes of
`large`, and five seconds for each search.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from nodeproof import NodeClassifier, Problem, certify
from nodeproof.certificate import Certificate
from nodeproof.datasets import Dataset, Planted, load, make_planted
from nodeproof.graph import Graph

#: p, ω and the sources: links (G), features (F), labels of 20 % (L)
PLANTED = [
    *((p, 0.1, sources) for p in (0.15, 0.2, 0.3) for sources in ("G", "GL", "GF")),
    (0.1, 0.04, "GF"),
    (0.1, 0.1, "G"),
    (0.1, 0.1, "GL"),
    (0.1, 0.1, "GF"),
]

NAMES = {"G": "graph", "GL": "graph, labels", "GF": "graph, features"}


@dataclass(frozen=True)
class Options:
    """How much is run."""

    seeds: int
    nodes: int
    time_budget: float
    out: Path


def fit(data: Planted, sources: str, seed: int) -> NodeClassifier:
    """Return the default classifier, fitted to some of the sources."""
    X, y = data.X if "F" in sources else None, data.y if "L" in sources else None
    clf = NodeClassifier(n_classes=data.params["n_clusters"], random_state=seed)
    return clf.fit(X, y, graph=data.graph)


def percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 1 else f"{100 * share:.0f} %"


def planted(options: Options) -> None:
    print(f"\n900 nodes, K = 3, q = .05, {options.seeds} seeds, {options.time_budget:g} s a search")
    print(
        f"{'p':>5} {'ω':>5} {'sources':<16} {'certified':>9} {'exact':>6} {'unique':>7} "
        f"{'worst gap':>10} {'worst seconds':>14}  how"
    )
    for p, omega, sources in PLANTED:
        proofs = []
        for seed in range(options.seeds):
            data = make_planted(p=p, omega=omega, random_state=seed)
            clf = fit(data, sources, seed)
            proofs.append(clf.certify(time_budget=options.time_budget))
        counts = [
            f"{sum(getattr(proof, name) for proof in proofs)}/{len(proofs)}"
            for name in ("certified", "exact", "unique")
        ]
        open_gaps = [proof.gap for proof in proofs if not proof.certified]
        how = ", ".join(f"{n} {name}" for name, n in Counter(x.method for x in proofs).items())
        print(
            f"{p:5} {omega if 'F' in sources else '–':>5} {NAMES[sources]:<16} {counts[0]:>9} "
            f"{counts[1]:>6} {counts[2]:>7} {percent(max(open_gaps, default=0.0)):>10} "
            f"{max(proof.seconds for proof in proofs):14.2f}  {how}",
            flush=True,
        )


def large(options: Options) -> None:
    print(f"\n{options.nodes:,} nodes, K = 5, mean degree 60 inside and 32 across, graph alone")
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:  # memory is counted from nothing
        for line in pool.submit(measure_large, options.nodes, options.time_budget).result():
            print(line, flush=True)


def measure_large(n: int, time_budget: float) -> list[str]:
    """Fit and certify in this process; return what to print."""
    fit(make_planted(5, 30, p=0.5, random_state=0), "G", 0).certify()  # compiles
    held = memory("VmRSS")
    n0 = n // 5
    data = make_planted(5, n0, p=60 / (n0 - 1), q=32 / (n - n0), random_state=0)
    steps = []
    reset_peak()
    began = time.perf_counter()
    clf = fit(data, "G", 0)
    steps.append(("fit", time.perf_counter() - began, memory("VmHWM") - held))
    reset_peak()
    proof = clf.certify(time_budget=time_budget)
    steps.append(("certify", proof.seconds, memory("VmHWM") - held))
    reset_peak()
    began = time.perf_counter()
    found = proof.verify()
    steps.append(("verify", time.perf_counter() - began, memory("VmHWM") - held))
    return [
        *(f"{name:<8} {seconds:7.1f} s {peak / 1e6:7.0f} MB" for name, seconds, peak in steps),
        f"{data.graph.nnz // 2:,} links; {proof.status}; {summary(proof)}; "
        f"{'verified' if found else f'refused: {found.reason}'}",
    ]


def summary(proof: Certificate) -> str:
    """Return how many nodes are certain, and how."""
    share = proof.certified_nodes.mean()
    names = " up to names" if proof.renaming else ""
    return f"{share:.1%} of the nodes certain{names}, by {proof.method}"


def memory(field: str) -> int:
    """Return what the system says of this process, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return 1024 * int(line.split()[1])
    return 0


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def wrong(options: Options) -> None:
    print("\n2 % of the labels moved by hand: 900 nodes, p = .2, graph alone")
    print(f"{'seed':>4} {'as given':>12} {'found':>12} {'moved back':>11}  of the labelling given")
    for seed in range(options.seeds):
        data = make_planted(p=0.2, random_state=seed)
        clf = fit(data, "G", seed)
        rng = np.random.default_rng(seed)
        given = clf.proba_.argmax(axis=1)
        chosen = rng.choice(len(given), len(given) // 50, replace=False)
        given[chosen] = (given[chosen] + rng.integers(1, 3, len(chosen))) % 3
        problem = Problem(Graph(data.graph), [], 3)
        proof = certify(problem, given, models=clf.models_, time_budget=options.time_budget)
        assert proof.instance is not None
        value = proof.instance.value_between(given)[1]
        claimed = dataclasses.replace(
            proof, labels=given, objective=value, lower_bound=value, dual_bound=value, gap=0.0,
            status="certified", tolerance=proof.instance.tolerance(given), exact=False,
            unique=False, certified_nodes=np.zeros(len(given), dtype=bool),
        ).verify()  # fmt: skip
        print(
            f"{seed:4d} {proof.instance.value(given):12.2f} {proof.objective:12.2f} "
            f"{len(np.intersect1d(proof.moved, chosen)):4d} of {len(chosen)}  "
            f"{'CONFIRMED' if claimed else f'refused: {claimed.reason}'}; found: {proof.status}",
            flush=True,
        )


def real(options: Options) -> None:
    print("\nreal graphs; labels of the public split, or of every tenth node")
    print(
        f"{'set':<9} {'nodes':>6} {'fit':<26} {'status':<16} {'certain nodes':<20} "
        f"{'differ':>7} {'seconds':>8}"
    )
    for name in ("karate", "polblogs", "cora"):
        if name != "karate" and "NODEPROOF_DATA" not in os.environ:
            print(f"{name:<9} left out: set NODEPROOF_DATA to the folder of the real graphs")
            continue
        data = load(name)
        y = known_labels(data)
        K = int(data.y.max()) + 1
        fits = {"graph, labels, calibrated": (None, "calibrated"), "default": (data.X, "auto")}
        for how, (X, weights) in fits.items():
            clf = NodeClassifier(n_classes=K, weights=weights, random_state=0)
            proof = clf.fit(X, y, graph=data.graph).certify(time_budget=options.time_budget)
            names = ", up to names" if proof.renaming else ""
            certain = f"{proof.certified_nodes.mean():.1%}{names}"
            differ = int((clf.map_labels_ != clf.labels_).sum())
            print(
                f"{name:<9} {len(y):6d} {how:<26} {proof.status:<16} {certain:<20} "
                f"{differ:7d} {proof.seconds:8.2f}",
                flush=True,
            )


def known_labels(data: Dataset) -> np.ndarray:
    """Return the training labels, −1 elsewhere."""
    if data.masks:
        return np.asarray(data.training_labels())
    y = np.asarray(data.y)
    rng = np.random.default_rng(0)
    known = rng.random(len(y)) < 0.1
    for c in np.unique(y[y >= 0]):  # of every class one
        known[rng.choice(np.flatnonzero(y == c))] = True
    return np.where(known, y, -1)


def picture(options: Options) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 1, figsize=(7, 4.6), layout="constrained")
    for place, omega in zip(axes, (0.04, 0.1), strict=True):
        proof = fit(make_planted(omega=omega, random_state=0), "GFL", 0).certify(time_budget=0)
        proof.plot(place)
        place.set_title(f"ω = {omega:g}: {proof.status}")
    axes[0].set_xlabel("")
    options.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.out / "certificate.png", dpi=150)
    plt.close(figure)
    print(f"\npicture in {options.out / 'certificate.png'}")


PARTS = {part.__name__: part for part in (planted, large, wrong, real, picture)}


def main() -> None:
    """Run the parts that are asked for, or all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--quick", action="store_true", help="a first look")
    parser.add_argument("--out", type=Path, default=Path("certificates"), help="for the picture")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    size = (1, 10_000, 5.0) if chosen.quick else (5, 100_000, 60.0)
    options = Options(*size, chosen.out)
    for name in chosen.parts or PARTS:
        PARTS[name](options)


if __name__ == "__main__":
    main()
