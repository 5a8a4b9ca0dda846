"""Where the time of default fits goes: seconds of each expert, and how good the fit is.

    python benchmarks/profiles.py --data FOLDER [--sets cora pubmed] [--splits 1] [--repeats 3]

Of each fit, the fastest repeat on two threads counts, with the seconds that each expert takes to
learn from held-out labels; `rest` is the choice of the pool, the final fit and all else. Labels are
20 per class, or 60 % of the nodes. The last graph is planted: 35,000 nodes, 350,000 links, degrees
of a power law, no features. For another version of the package, set PYTHONPATH to its sources.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodeproof import NodeClassifier
from nodeproof.auto.experts import Expert
from nodeproof.metrics import expected_calibration_error
from peers.protocols import per_class
from peers.sets import read_set
from sweeps import independent

SETS = ("cora", "pubmed", "amazon_photo", "amazon_computers")
DRAWS = {"20 per class": lambda size: min(20, size // 2), "60 %": lambda size: round(0.6 * size)}
PLANTED_LINKS = 350_000
THREADS = 2
EXPERTS = {
    "propagation": "propagation",
    "block model": "block model",
    "links": "links",
    "smoothed features": "smoothed",
    "own features": "own",
    "trees": "trees",
}


class Task(NamedTuple):
    """A fit: what is given, and the classes."""

    title: str
    X: Any
    graph: Any
    y: NDArray[np.int64]
    given: NDArray[np.int64]


class Fit(NamedTuple):
    """What a fit took, and how good it is at the nodes without a label."""

    seconds: float
    of_experts: dict[str, float]
    accuracy: float
    confidence: float
    error: float


def tasks(folder: Path, names: list[str], seed: int) -> Iterator[Task]:
    """Yield the fits of one split."""
    for name in names:
        found = read_set(str(folder / f"{name}.npz"))
        for draw in DRAWS:
            given = drawn(found.y, seed, draw)
            for sources, X in (("links", None), ("links, features", found.data.X)):
                if sources == "links" or X is not None:
                    yield Task(f"{name}, {sources}, {draw}", X, found.data.graph, found.y, given)
    planted = independent(PLANTED_LINKS, seed, power_law=True)
    for draw in DRAWS:
        given = drawn(planted.y_true, seed, draw)
        yield Task(f"planted, links, {draw}", None, planted.graph, planted.y_true, given)


def drawn(y: NDArray[np.int64], seed: int, draw: str) -> NDArray[np.int64]:
    """Return the labels that are given, −1 for the others."""
    nodes, _, _ = per_class(y, seed, DRAWS[draw])
    given = np.full(len(y), -1)
    given[nodes] = y[nodes]
    return given


def time_experts(seconds: dict[str, float]) -> None:
    """Let every kind of expert add up the seconds that its candidates take."""
    kinds = [Expert]
    for kind in kinds:
        kinds += kind.__subclasses__()
        if "candidates" in vars(kind):
            kind.candidates = timed(kind.candidates, seconds)


def timed(candidates: Any, seconds: dict[str, float]) -> Any:
    """Return the same method, whose seconds are added up."""

    def found(expert: Expert, *args: Any) -> Any:
        before, began = seconds[expert.name], time.perf_counter()
        result = candidates(expert, *args)
        seconds[expert.name] = before + time.perf_counter() - began  # of a base class, too
        return result

    return found


def fit(task: Task, seconds: dict[str, float]) -> Fit:
    """Return what one fit takes."""
    seconds.clear()
    began = time.perf_counter()
    clf = NodeClassifier(n_jobs=THREADS, random_state=0).fit(task.X, task.given, graph=task.graph)
    whole = time.perf_counter() - began
    hidden = (task.given < 0) & (task.y >= 0)
    proba, right = clf.proba_[hidden], (clf.labels_ == task.y)[hidden]
    error = expected_calibration_error(task.y[hidden], proba)
    return Fit(whole, dict(seconds), right.mean(), proba.max(axis=1).mean(), error)


def row(title: str, fits: list[Fit]) -> str:
    """Return a line of the table: means over the splits."""
    spent = [[one.of_experts.get(name, 0.0) for name in EXPERTS] for one in fits]
    whole = np.mean([one.seconds for one in fits])
    parts = np.mean(spent, axis=0)
    times = [f"**{whole:.2f}**", *(f"{part:.2f}" if part else "" for part in parts)]
    times.append(f"{whole - parts.sum():.2f}")
    worth = np.mean([one[2:] for one in fits], axis=0)
    return f"| {title} | {' | '.join(times)} | {' | '.join(f'{x:.3f}' for x in worth)} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, default=os.environ.get("NODEPROOF_DATA"), metavar="FOLDER")
    add("--sets", nargs="*", default=list(SETS), metavar="NAME")
    add("--splits", type=int, default=1, help="over which means are taken (default: 1)")
    add("--repeats", type=int, default=3, help="fits, of which the fastest counts (default: 3)")
    options = parser.parse_args()
    if options.data is None or not Path(options.data).is_dir():
        sys.exit("give the folder of the graphs: --data FOLDER, or NODEPROOF_DATA")
    warnings.simplefilter("ignore")
    seconds: dict[str, float] = defaultdict(float)
    time_experts(seconds)
    heads = ["fit", "seconds", *EXPERTS.values(), "rest", "accuracy", "mean p", "ECE"]
    print("| " + " | ".join(heads) + " |\n|---|" + "--:|" * (len(heads) - 1))
    splits = [tasks(options.data, options.sets, seed) for seed in range(options.splits)]
    for same in zip(*splits, strict=True):
        found = []
        for task in same:
            repeats = [fit(task, seconds) for _ in range(1 + options.repeats)]
            found.append(min(repeats, key=lambda one: one.seconds))
        print(row(same[0].title, found), flush=True)


if __name__ == "__main__":
    main()
