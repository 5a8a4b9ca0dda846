"""How long a user waits before anything happens, beside scikit-learn's import.

Every command has a process of its own; the commands take turns, and the best of several runs
counts, so that a busy machine disturbs all of them alike. Ends with exit code 1 where a ratio is
over its bar.

    python benchmarks/startup.py [--repeats 10]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import sysconfig
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


def seconds(command: list[str]) -> float:
    """Return the duration of a command; raise an error if it fails."""
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeats", type=int, default=10, help="runs of each; the best counts")
    repeats = parser.parse_args().repeats
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
    return int(late)


if __name__ == "__main__":
    sys.exit(main())
