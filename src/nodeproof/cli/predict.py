"""`nodeproof predict`: new nodes and a saved model in, predictions out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.table import Table

from nodeproof import __version__
from nodeproof.cli.console import note, notes_from_warnings, screen
from nodeproof.cli.results import MOST_NAMES, listed_classes, listed_features, write_csv
from nodeproof.cli.sets import set_column, shown_sets
from nodeproof.cli.targets import predict_targets
from nodeproof.cli.terminal import check_file, import_parts, print_document
from nodeproof.errors import InputError, count_of
from nodeproof.fitted import Fitted
from nodeproof.inputs import read_features
from nodeproof.prediction import check_parts, judge_new_nodes, needs_features
from nodeproof.prediction_sets import limits_of
from nodeproof.saving.model import load_model
from nodeproof.saving.targets import is_of_targets
from nodeproof.storage.atomic import atomic_path
from nodeproof.tables.files import unnamed
from nodeproof.tables.new_nodes import read_new_nodes
from nodeproof.terms.registry import allow_missing

__all__ = ["check_tables", "feature_names_of", "run_predict"]


def run_predict(
    file: Path,
    *,
    nodes: Path | None,
    features: Path | None,
    edges: Path | None,
    out: Path,
    header: bool | None,
    source: str | None,
    target: str | None,
    weight: str | None,
    repeated: str,
    node: str | None,
    terms: tuple[str, ...],
    own_experts: tuple[str, ...],
    coverage: float | None,
    safe_csv: bool,
    as_json: bool,
) -> None:
    """Load the model, read the files, and write the predictions to the file ``out``."""
    began = time.perf_counter()
    check_file(out, file, (nodes, features, edges))
    if is_of_targets(file):
        predict_targets(
            file, nodes=nodes, features=features, edges=edges, out=out, header=header,
            source=source, target=target, weight=weight, node=node, repeated=repeated,
            coverage=coverage, safe_csv=safe_csv, as_json=as_json,
        )  # fmt: skip
        return
    import_parts(terms, own_experts)
    fitted = load_model(file)
    kinds = fitted.new_nodes.kinds
    if kinds is not None and len(kinds.kinds) > 1:
        raise InputError(
            f"the model in {file} was fitted to several kinds of links, which this command does "
            "not read: use NodeClassifier.load and predict(graph={...}) in Python"
        )
    check_tables(fitted, file, nodes, features)
    if features is not None and fitted.n_features is None:
        raise InputError(f"the model in {file} was fitted without features: omit --features")
    if features is nodes is None and needs_features(fitted):
        option = "--features" if fitted.preparation is None else "--nodes"
        raise InputError(f"the model in {file} was fitted with features: give {option} FILE")
    known = fitted.new_nodes.graph
    feature_names = feature_names_of(fitted)
    new = read_new_nodes(
        fitted.names, features, edges, names=feature_names,
        unit=1.0 if known is None else known.unit, header=header, source=source,
        target=target, weight=weight, node=node, missing=allow_missing(fitted.terms),
        nodes=nodes, preparation=fitted.preparation, repeated=repeated,
    )  # fmt: skip
    notes = list(new.notes)
    with notes_from_warnings(notes):
        check_parts(fitted, new.X, new.links)
        X = None if new.X is None else read_features(new.X)
        limits = None if coverage is None else limits_of(fitted, coverage)
        proba = judge_new_nodes(fitted, X, new.links)
    labels = fitted.classes[proba.argmax(axis=1)]
    with atomic_path(out) as temporary:
        table = {
            "node": pa.array(new.ids),
            "label": pa.array(labels),
            "probability": proba.max(axis=1).round(6),
            **set_column(limits, proba, fitted.classes),
        }
        write_csv(table, temporary, safe_csv)
    names, sizes = np.unique(labels, return_counts=True)
    summary = {
        "nodeproof": __version__,
        "nodes": len(new.ids),
        "links": new.n_links,
        "features": 0 if new.X is None else new.X.shape[1],
        "feature_names": [] if new.X is None else (feature_names or [])[:MOST_NAMES],
        "classes": {str(name): int(size) for name, size in zip(names, sizes, strict=True)},
        "mean_probability": round(float(proba.max(axis=1).mean()), 6),
        "notes": notes,
        "seconds": round(time.perf_counter() - began, 3),
    }
    if limits is not None:
        summary["sets"] = limits.summary(proba)
    if as_json:
        print_document(summary)
        return
    for line in notes:
        note(line)
    _show(summary, out)


def check_tables(fitted: Fitted, file: Path, nodes: Path | None, features: Path | None) -> None:
    """Refuse a table of the other kind than the one that a model was fitted to."""
    if nodes is not None and fitted.preparation is None:
        how = "without features" if fitted.n_features is None else "with --features"
        raise InputError(f"the model in {file} was fitted {how}: leave out --nodes")
    if features is not None and fitted.preparation is not None:
        raise InputError(
            f"the model in {file} was fitted to a table with the columns "
            f"{', '.join(fitted.preparation.names[:8])}: give one with the same columns, --nodes"
        )


def feature_names_of(fitted: Fitted) -> list[str] | None:
    """Return the names of the features that the model was fitted to."""
    if fitted.n_features is None:
        return None
    if fitted.feature_names is not None:
        return list(fitted.feature_names.tolist())
    return [unnamed(column) for column in range(fitted.n_features)]


def _show(summary: dict[str, Any], out: Path) -> None:
    title = f"{count_of(summary['nodes'], 'new node')}, {count_of(summary['links'], 'link')}"
    table = Table(title=title, show_header=False)
    if summary["features"]:
        table.add_row("features", listed_features(summary["features"], summary["feature_names"]))
    table.add_row("classes", listed_classes(summary["classes"]))
    table.add_row("mean probability", f"{summary['mean_probability']:.3f}")
    if "sets" in summary:
        table.add_row("prediction sets", shown_sets(summary["sets"]))
    table.add_row("written", str(out))
    screen.print(table)
