"""`nodeproof fit`: files in, predictions, summary and model out."""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray
from rich.table import Table

from nodeproof import NodeClassifier, __version__
from nodeproof.cli.console import ProgressLine, note, notes_from_warnings, screen
from nodeproof.datasets.tables import read_with_tables
from nodeproof.errors import InputError
from nodeproof.io import Tables, atomic_folder
from nodeproof.solvers import Status

__all__ = ["run_fit"]


def run_fit(
    edges: Path,
    *,
    features: Path | None,
    labels: Path | None,
    out: Path,
    classes: int | None,
    header: bool | None,
    source: str | None,
    target: str | None,
    weight: str | None,
    node: str | None,
    label: str | None,
    unknown: tuple[str, ...],
    strict: bool,
    null_model: str,
    weights: str,
    threshold: float | None,
    temperature: float,
    n_init: int | None,
    max_iter: int,
    tol: float,
    query: int | None,
    jobs: int | None,
    seed: int,
    as_json: bool,
) -> None:
    """Read the files, fit, and write three files to the folder ``out``."""
    began = time.perf_counter()
    tables = read_with_tables(
        edges, features, labels, header=header, source=source, target=target, weight=weight,
        node=node, label=label, strict=strict, **({"unknown": unknown} if unknown else {}),
    )  # fmt: skip
    notes = list(tables.notes)
    with ProgressLine(enabled=not as_json) as progress, notes_from_warnings(notes):
        clf = NodeClassifier(
            n_classes=classes,
            null_model=null_model,
            weights=_parse_weights(weights),
            threshold="auto" if threshold is None else threshold,
            temperature=temperature,
            n_init=n_init or "auto",
            max_iter=max_iter,
            tol=tol,
            n_jobs=jobs,
            random_state=seed,
            verbose=progress,
        )
        # The reader has settled what is unknown: no name is taken for it again.
        y = None if tables.y is None else np.array([label or None for label in tables.y.tolist()])
        # Ctrl-C ends the fit, not the command: what was done by then is written.
        with suppress(KeyboardInterrupt):
            clf.fit(tables.X, y, graph=tables.graph)
    if not hasattr(clf, "labels_"):
        raise KeyboardInterrupt
    if len(clf.classes_) == 1:
        notes.append(f"there is only one class, {clf.classes_[0]}; give --classes K for more")
    clf.node_ids_ = tables.ids
    if tables.feature_names is not None:
        clf.feature_names_in_ = np.array(tables.feature_names, dtype=object)
    summary = _summarise(clf, tables, notes, seed, time.perf_counter() - began)
    asked = clf._query(query, "informative") if query else None
    if asked is not None:
        summary["query"] = [str(tables.ids[node]) for node in asked[0]]
    with atomic_folder(out) as temporary:
        if asked is not None:
            _write_query(clf, tables, *asked, temporary / "query.csv")
        _write_predictions(clf, tables, temporary / "predictions.csv")
        (temporary / "summary.json").write_text(
            json.dumps(summary, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        clf.save(temporary / "model.npz")
    if as_json:
        print(json.dumps(summary, indent=2))
    else:
        for line in notes:
            note(line)
        _show(summary, out)
    if clf.status_ == Status.INTERRUPTED:
        sys.exit(130)


def _parse_weights(text: str) -> str | float | tuple[float, ...]:
    if text in ("auto", "calibrated"):
        return text
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            "--weights takes auto, calibrated, a trust in the graph such as 0.3 or three numbers "
            f"such as 1,2.5,13; got {text!r}"
        ) from None
    return numbers[0] if len(numbers) == 1 else numbers


def _write_predictions(clf: NodeClassifier, tables: Tables, path: Path) -> None:
    n = len(clf.labels_)
    suspect = np.zeros(n, dtype=bool)
    suspect[clf.suspects_.node] = True
    given = np.full(n, "", dtype=object)
    if clf._given is not None:
        known = np.flatnonzero(clf._given >= 0)
        given[known] = clf.classes_[clf._given[known]].astype(str)
    table = pa.table(
        {
            "node": pa.array(tables.ids),
            "label": pa.array(clf.labels_),
            "probability": clf.proba_.max(axis=1).round(6),
            "given_label": pa.array(given, type=pa.string()),
            "suspect": pa.array(suspect),
        }
    )
    pyarrow.csv.write_csv(table, path)


def _write_query(
    clf: NodeClassifier,
    tables: Tables,
    nodes: NDArray[np.int64],
    gains: NDArray[np.float64],
    path: Path,
) -> None:
    """Write the nodes to label next, best first, and by how much each lowers what is uncertain."""
    table = pa.table(
        {
            "node": pa.array(tables.ids[nodes]),
            "label": pa.array(clf.labels_[nodes]),
            "probability": clf.proba_[nodes].max(axis=1).round(6),
            "gain": gains.round(6),
        }
    )
    pyarrow.csv.write_csv(table, path)


def _summarise(
    clf: NodeClassifier, tables: Tables, notes: list[str], seed: int, seconds: float
) -> dict[str, Any]:
    names, sizes = np.unique(clf.labels_, return_counts=True)
    return {
        "nodeproof": __version__,
        "nodes": len(clf.labels_),
        "links": tables.graph.nnz // 2,
        "features": 0 if tables.X is None else tables.X.shape[1],
        "labels": 0 if clf._given is None else int((clf._given >= 0).sum()),
        "classes": {str(name): int(size) for name, size in zip(names, sizes, strict=True)},
        "mean_probability": round(float(clf.proba_.max(axis=1).mean()), 6),
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


def _estimate(numbers: list[float] | None) -> str:
    if numbers is None:
        return ""
    return f"{numbers[0]:.3f} (95 % interval {numbers[1]:.3f} to {numbers[2]:.3f})"


def _rounded(numbers: tuple[float, float, float] | None) -> list[float] | None:
    return None if numbers is None else [round(number, 4) for number in numbers]


def _show(summary: dict[str, Any], out: Path) -> None:
    table = Table(title=f"{summary['nodes']} nodes, {summary['links']} links", show_header=False)
    sources = ", ".join(f"{name} {share:.0%}" for name, share in summary["sources"].items())
    sizes = list(summary["classes"].items())
    shown = ", ".join(f"{name}: {size}" for name, size in sizes[:8])
    counted = summary["choices"].get("n_classes")
    rows = {
        "classes found": f"{counted['value']}; {counted['why']}" if counted else "",
        "classes": shown + (f", … ({len(sizes)} in all)" if len(sizes) > 8 else ""),
        "given labels": f"{summary['labels']}, of which {summary['suspects']} look wrong",
        "decided by": sources or "–",
        "mean probability": f"{summary['mean_probability']:.3f}",
        "estimated accuracy": _estimate(summary["estimated_accuracy"]),
        "fit": f"{summary['status']} after {summary['sweeps']} sweeps, {summary['seconds']} s",
        "written": ", ".join(
            str(out / n) for n in ("predictions.csv", "summary.json", "model.npz")
        ),
    }
    for key, value in rows.items():
        if value:
            table.add_row(key, value)
    screen.print(table)
