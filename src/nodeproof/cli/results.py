"""What `nodeproof fit` writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from nodeproof import NodeClassifier, __version__
from nodeproof.cli.csv_files import made_safe, write_csv
from nodeproof.cli.given import Given

__all__ = [
    "MOST_NAMES",
    "listed_classes",
    "listed_features",
    "summarise",
    "write_predictions",
    "write_query",
]

# Lines of a file that are written in one go.
_LINES = 500_000
#: names of features that a summary has
MOST_NAMES = 100
# Features and classes that are shown.
_SHOWN = 8


def write_predictions(clf: NodeClassifier, given: Given, path: Path, safe: bool) -> None:
    """Write one line per node, some hundred thousand at a time; `safe` as in `write_csv`."""
    n = given.n_nodes
    suspect = np.zeros(n, dtype=bool)
    suspect[clf.suspects_.node] = True
    # The last name is that of no label.
    names = np.append(clf.classes_.astype(str), "")
    writer = None
    for lo in range(0, n, _LINES):
        hi = min(lo + _LINES, n)
        codes = np.full(hi - lo, -1) if clf._given is None else clf._given[lo:hi]
        table = pa.table(
            {
                "node": pa.array(given.names(lo, hi)),
                "label": pa.array(clf.labels_[lo:hi]),
                "probability": clf.proba_[lo:hi].max(axis=1).astype(np.float64).round(6),
                "given_label": pa.array(names[codes], type=pa.string()),
                "suspect": pa.array(suspect[lo:hi]),
            }
        )
        table = made_safe(table) if safe else table
        writer = writer or pyarrow.csv.CSVWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def write_query(
    clf: NodeClassifier,
    given: Given,
    nodes: NDArray[np.int64],
    gains: NDArray[np.float64],
    path: Path,
    safe: bool,
) -> None:
    """Write the nodes to label next, best first, and by how much each lowers what is uncertain."""
    write_csv(
        {
            "node": pa.array(nodes if given.ids is None else given.ids[nodes]),
            "label": pa.array(clf.labels_[nodes]),
            "probability": clf.proba_[nodes].max(axis=1).astype(np.float64).round(6),
            "gain": gains.round(6),
        },
        path,
        safe,
    )


def summarise(
    clf: NodeClassifier, given: Given, notes: list[str], seed: int, seconds: float
) -> dict[str, Any]:
    """Return what summary.json says."""
    names, sizes = np.unique(clf.labels_, return_counts=True)
    return {
        "nodeproof": __version__,
        "nodes": len(clf.labels_),
        "links": given.n_links,
        "features": 0 if given.X is None else given.X.shape[1],
        "feature_names": (given.feature_names or [])[:MOST_NAMES],
        "labels": 0 if clf._given is None else int((clf._given >= 0).sum()),
        "given_labels": _given_labels(clf),
        "unlabelled": len(clf.labels_) if clf._given is None else int((clf._given < 0).sum()),
        "classes": {str(name): int(size) for name, size in zip(names, sizes, strict=True)},
        "mean_probability": round(float(clf.proba_.max(axis=1).mean(dtype=np.float64)), 6),
        "suspects": len(clf.suspects_),
        "estimated_accuracy": _rounded(clf.estimated_accuracy_),
        "sources": {key: round(share, 4) for key, share in clf.sources_.items()},
        "choices": clf.choices_,
        "status": clf.status_,
        "sweeps": clf.n_iter_,
        "objective": clf.objective_,
        "notes": notes,
        "seed": seed,
        "seconds": round(seconds, 3),
    }


def listed_features(count: int, names: list[str]) -> str:
    """Return the number of features and the names of the first, for a person."""
    if not count or not names:
        return f"{count:,}" if count else ""
    more = ", …" if count > _SHOWN else ""
    return f"{count:,}: {', '.join(names[:_SHOWN])}{more}"


def listed_classes(classes: dict[str, int]) -> str:
    """Return the sizes of classes, or of the first of many, for a person."""
    shown = ", ".join(f"{name}: {size}" for name, size in list(classes.items())[:_SHOWN])
    return shown + (f", … ({len(classes)} in all)" if len(classes) > _SHOWN else "")


def _given_labels(clf: NodeClassifier) -> dict[str, int]:
    """Return how many nodes were given as of each class, those of some."""
    if clf._given is None:
        return {}
    codes, counts = np.unique(clf._given[clf._given >= 0], return_counts=True)
    return {str(clf.classes_[k]): int(n) for k, n in zip(codes, counts, strict=True)}


def _rounded(numbers: tuple[float, float, float] | None) -> list[float] | None:
    return None if numbers is None else [round(number, 4) for number in numbers]
