"""How often the number of classes is found without a label, over seeds of planted data.

Prints, for each number of planted classes (100 nodes each, p = .3, q = .05, ω = .1), in how many
seeds `NodeClassifier(random_state=seed)` finds it, which other numbers it finds, how well the
classes agree with the planted ones (adjusted Rand index, mean and least), and the time of a fit.

    python benchmarks/counting.py [--seeds 20] [--sources GF] [--jobs 1]
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

import numpy as np
from joblib import Parallel, delayed
from rich.console import Console
from rich.table import Table
from sklearn.metrics import adjusted_rand_score

from nodeproof import NodeClassifier
from nodeproof.datasets import make_planted

CLASSES = (2, 3, 5, 8, 12)

#: of 20 seeds, so many must be right
RIGHT = 18


def count(n_clusters: int, seed: int, sources: str) -> tuple[int, float, float]:
    """Return the number of classes found, the adjusted Rand index and the seconds."""
    data = make_planted(
        n_clusters, cluster_size=100, p=0.3, q=0.05, omega=0.1, label_ratio=0, random_state=seed
    )
    began = time.perf_counter()
    clf = NodeClassifier(random_state=seed, n_jobs=1).fit(
        data.X if "F" in sources else None, graph=data.graph if "G" in sources else None
    )
    seconds = time.perf_counter() - began
    return len(clf.classes_), adjusted_rand_score(data.y_true, clf.labels_), seconds


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--sources", choices=["G", "F", "GF"], default="GF")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    count(2, 0, options.sources)  # what is compiled on first use does not count
    table = Table(title=f"classes found without labels, {options.seeds} seeds, {options.sources}")
    for column in ("planted", "right", "others", "mean ARI", "least ARI", "seconds"):
        table.add_column(column, justify="right")
    enough = True
    for n_clusters in CLASSES:
        found = Parallel(n_jobs=options.jobs)(
            delayed(count)(n_clusters, seed, options.sources) for seed in range(options.seeds)
        )
        numbers, agreement, seconds = zip(*found, strict=True)
        right = sum(number == n_clusters for number in numbers)
        enough &= right >= RIGHT / 20 * options.seeds
        others = Counter(number for number in numbers if number != n_clusters)
        listed = ", ".join(f"{number} ({times} ×)" for number, times in sorted(others.items()))
        table.add_row(
            str(n_clusters), f"{right}/{options.seeds}", listed or "–",
            f"{np.mean(agreement):.3f}", f"{min(agreement):.3f}", f"{np.median(seconds):.2f}",
        )  # fmt: skip
    Console().print(table)
    if not enough:
        raise SystemExit(f"fewer than {RIGHT} of 20 seeds right")


if __name__ == "__main__":
    main()
