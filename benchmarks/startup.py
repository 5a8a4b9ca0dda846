"""How long a user waits before anything happens: imports, and the first fit on a machine.

Imports are compared with that of scikit-learn. A call is timed in a process that finds nothing
compiled, and again in one that finds what the first has compiled: the difference is what the first
user waits for. Every command has a process of its own; they take turns, and the best of several
runs counts, so that a busy machine disturbs all of them alike. Ends with exit code 1 where a bar is
missed.

    python benchmarks/startup.py [--repeats 10] [--first 3]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

NODEPROOF = str(Path(sysconfig.get_path("scripts"), "nodeproof"))

#: what the others are measured by
REFERENCE = "import sklearn"

#: name, command, and the largest ratio to the reference that is allowed
COMMANDS: list[tuple[str, list[str], float | None]] = [
    (REFERENCE, [sys.executable, "-c", "import sklearn"], None),
    ("nodeproof --help", [NODEPROOF, "--help"], 0.5),
    ("nodeproof fit --help", [NODEPROOF, "fit", "--help"], 0.5),
    ("import nodeproof", [sys.executable, "-c", "import nodeproof"], 1.3),
    ("from nodeproof import NodeClassifier",
     [sys.executable, "-c", "from nodeproof import NodeClassifier"], None),
    ("python -c pass", [sys.executable, "-c", "pass"], None),
]  # fmt: skip


PREPARE = """
import json, time, warnings
import numpy as np, scipy.sparse as sp
from nodeproof import NodeClassifier, path
from nodeproof.datasets import make_planted
warnings.simplefilter("ignore")
"""

PLANTED = "data = make_planted(random_state=0{}); clf = NodeClassifier(random_state=0)"
FIT = "clf.fit(data.X, data.y, graph=data.graph)"

FIVE = ", n_clusters=5, cluster_size=100, p=0.3, omega=0.1, label_ratio=0"

# Texts on three topics, as in the guide.
TEXTS = """
rng = np.random.default_rng(0)
truth = rng.integers(3, size=400)
topics = rng.dirichlet(np.full(100, 0.3), size=3)
X = sp.csr_array(rng.multinomial(10, 0.006 + 0.4 * topics[truth]))
chance = np.where(truth[:, None] == truth, 0.015, 0.002)
links = np.triu(rng.random((400, 400)) < chance, 1)
y = np.where(rng.random(400) < 0.15, truth, -1)
clf = NodeClassifier(random_state=0)
"""

#: name; what comes before the call; the call; seconds that the first may take more than the second
CALLS: list[tuple[str, str, str, float]] = [
    ("README's example", PLANTED.format(", p=0.08, omega=0.2, label_accuracy=0.8"), FIT, 4.0),
    ("six nodes", "edges = np.array([[0, 0, 1, 3, 3, 4, 2], [1, 2, 2, 4, 5, 5, 3]])",
     "NodeClassifier(random_state=0).fit(y=['a', '', '', '', '', 'b'], graph=edges)", 1.0),
    ("guide: fit", PLANTED.format(""), FIT, 6.0),
    ("guide: fit texts", TEXTS, "clf.fit(X, y, graph=links | links.T)", 6.0),
    ("guide: fit, no labels", PLANTED.format(FIVE), "clf.fit(data.X, graph=data.graph)", 6.0),
    ("guide: path.follow", PLANTED.format(FIVE),
     "path.follow(graph=data.graph, n_points=15, random_state=0)", 6.0),
    ("guide: query", PLANTED.format(", p=0.06, omega=0.5, label_ratio=0.02") + "; " + FIT,
     "clf.query(6)", 6.0),
    ("guide: predict", PLANTED.format("") + "; " + FIT,
     "clf.predict(data.X[:90], graph=sp.hstack([data.graph[:90], data.graph[:90, :90]]))", 6.0),
    ("certify", PLANTED.format("") + "; " + FIT, "clf.certify()", 6.0),
]  # fmt: skip


def call_seconds(before: str, call: str, folder: str) -> tuple[float, float]:
    """Return the duration of a call in a new process, by the clock and of the processor."""
    timed = (
        f"{PREPARE}\n{before}\nbegan, used = time.perf_counter(), time.process_time()\n{call}\n"
        "print(json.dumps([time.perf_counter() - began, time.process_time() - used]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", timed],
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"NUMBA_CACHE_DIR": folder},
    )
    first, second = json.loads(done.stdout)
    return first, second


def first_calls(repeats: int) -> bool:
    """Print how much longer calls take the first time on a machine; tell whether one is late."""
    table = Table("call", "first", "second", "difference", "bar", "", "processor: first", "second")
    late = False
    for name, before, call, bar in CALLS:
        best = [[float("inf")] * 2 for _ in range(2)]
        for _ in range(repeats):
            with tempfile.TemporaryDirectory() as folder:
                for turn in best:
                    found = call_seconds(before, call, folder)
                    turn[:] = [min(pair) for pair in zip(turn, found, strict=True)]
        (first, used), (second, used_again) = best
        held = first - second <= bar
        late |= not held
        table.add_row(
            name, *(f"{number:.2f}" for number in (first, second, first - second)), f"≤ {bar:g}",
            "holds" if held else "missed", f"{used:.2f}", f"{used_again:.2f}",
        )  # fmt: skip
    Console().print(table)
    return late


def seconds(command: list[str]) -> float:
    """Return the duration of a command; raise an error if it fails."""
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeats", type=int, default=10, help="runs of each; the best counts")
    parser.add_argument("--first", type=int, default=3, help="runs of first calls; 0: none")
    asked = parser.parse_args()
    repeats = asked.repeats
    for _, command, _ in COMMANDS:  # once unmeasured: files come into memory, .pyc are written
        seconds(command)
    best = dict.fromkeys((name for name, _, _ in COMMANDS), float("inf"))
    for _ in range(repeats):
        for name, command, _ in COMMANDS:
            best[name] = min(best[name], seconds(command))

    table = Table("command", "seconds", f"/ {REFERENCE}", "bar", "")
    late = False
    for name, _, bar in COMMANDS:
        ratio = best[name] / best[REFERENCE]
        verdict = "" if bar is None else "holds" if ratio <= bar else "missed"
        late |= verdict == "missed"
        bar_text = "" if bar is None else f"≤ {bar}"
        table.add_row(name, f"{best[name]:.3f}", f"{ratio:.2f}", bar_text, verdict)
    Console().print(table)
    if asked.first:
        late |= first_calls(asked.first)
    return int(late)


if __name__ == "__main__":
    sys.exit(main())
