"""A table of customers as people have them: text, gaps and labels in words, in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cli_helpers import write
from nodeproof.datasets import make_planted

SEGMENTS = np.array(["gold", "silver", "bronze"])
TOWNS = np.array(["Oslo", "Rome", "Paris", "Lima"])


def customers(cluster_size: int, seed: int = 0) -> dict[str, Any]:
    """Return links and columns of three planted segments of customers."""
    rng = np.random.default_rng(seed)
    data = make_planted(
        cluster_size=cluster_size, p=20 / cluster_size, q=6 / cluster_size, label_accuracy=0.95,
        random_state=seed,
    )  # fmt: skip
    truth, n = data.y_true, len(data.y_true)
    ids = np.array([f"customer {v}" for v in range(n)])
    links = data.graph.tocoo()
    town = np.where(rng.random(n) < 0.4, rng.choice(TOWNS, n), TOWNS[truth])
    columns = {
        "customer": ids,
        "email": np.array([f"user{v}@example.org" for v in range(n)]),
        "age": gaps(rng, (40 + 10 * data.X[:, 0]).round(), 0.1),
        "income": gaps(rng, (3000 + 800 * data.X[:, 1]).round(2), 0.2),
        "town": gaps(rng, town, 0.05),
        "plan": np.where(rng.random(n) < np.where(truth == 0, 0.7, 0.4), "basic", "plus"),
        "segment": np.where(data.y >= 0, SEGMENTS[data.y], ""),
    }
    edges = [(ids[u], ids[v]) for u, v in zip(links.row, links.col, strict=True) if u < v]
    return {"columns": columns, "edges": edges, "truth": SEGMENTS[truth], "rng": rng}


def gaps(rng: np.random.Generator, values: np.ndarray, share: float) -> np.ndarray:
    """Return values with None in place of some."""
    found = values.astype(object)
    found[rng.random(len(values)) < share] = None
    return found


def write_customers(folder: Path, made: dict[str, Any]) -> None:
    """Write edges.csv, nodes.csv (its rows in random order) and truth.csv."""
    columns = made["columns"]
    write(folder / "edges.csv", [["from", "to"], *map(list, made["edges"])])
    rows = list(zip(*columns.values(), strict=True))
    order = made["rng"].permutation(len(rows))
    text = [["" if cell is None else cell for cell in rows[v]] for v in order]
    write(folder / "nodes.csv", [list(columns), *text])
    truth = zip(columns["customer"], made["truth"], strict=True)
    write(folder / "truth.csv", [["customer", "segment"], *map(list, truth)])
