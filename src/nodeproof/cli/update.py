"""`nodeproof update`: a saved model and what has changed in, results and model out."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from nodeproof.cli.console import note, notes_from_warnings, screen
from nodeproof.cli.fit_files import FitFiles
from nodeproof.cli.predict import (
    check_tables,
    feature_names_of,
    links_of_tables,
    units_of,
)
from nodeproof.cli.results import (
    listed_classes,
    outdated_files,
    summarise,
    write_predictions,
)
from nodeproof.cli.terminal import as_text, check_folder, import_parts, print_document
from nodeproof.errors import InputError, count_of
from nodeproof.fitted import Fitted
from nodeproof.inputs import read_features
from nodeproof.runtime import threads
from nodeproof.saving.model import load_model, save_model
from nodeproof.saving.targets import is_of_targets
from nodeproof.storage.atomic import atomic_folder
from nodeproof.tables.changes import Changes, read_changes
from nodeproof.terms.registry import allow_missing
from nodeproof.update import update_fitted

__all__ = ["run_update"]

_WRITTEN = ("predictions.csv", "summary.json", "model.npz")


def run_update(
    file: Path,
    *,
    nodes: Path | None,
    features: Path | None,
    edges: tuple[Path, ...],
    remove: tuple[Path, ...],
    labels: Path | None,
    out: Path | None,
    header: bool | None,
    source: str | None,
    target: str | None,
    weight: str | None,
    edge_type: str | None,
    node: str | None,
    label: str | None,
    unknown: tuple[str, ...],
    repeated: str,
    terms: tuple[str, ...],
    own_experts: tuple[str, ...],
    jobs: int | None,
    safe_csv: bool,
    as_json: bool,
    command: str,
) -> None:
    """Load the model, read the files, update, and write the results to the folder ``out``."""
    began = time.perf_counter()
    out = file.parent if out is None else out
    read = (nodes, features, labels, *edges, *remove)
    check_folder(out, _WRITTEN, read)
    if is_of_targets(file):
        raise InputError(f"the model in {file} predicts numbers: it cannot be updated, fit again")
    import_parts(terms, own_experts)
    fitted = load_model(file)
    check_tables(fitted, file, nodes, features)
    if (edges or remove) and not fitted.on_graph:
        raise InputError(f"the model in {file} was fitted without links: omit --edges and --remove")
    if edge_type is not None and not (edges or remove):
        raise InputError("--edge-type names a column of links: give --edges or --remove")
    added, removed = (
        links_of_tables(
            fitted, file, given, edge_type if given else None, header, source, target, weights,
            option=option, instead="update(add={...}, remove={...})",
        )
        for given, weights, option in ((edges, weight, "--edges"), (remove, None, "--remove"))
    )  # fmt: skip
    changes = read_changes(
        fitted.names, features, added, labels, removed, names=feature_names_of(fitted),
        unit=units_of(fitted), header=header, source=source, target=target,
        weight=weight, node=node, label=label, unknown=unknown,
        missing=allow_missing(fitted.terms), nodes=nodes, preparation=fitted.preparation,
        repeated=repeated,
    )  # fmt: skip
    notes = list(changes.notes)
    with notes_from_warnings(notes), threads.using(jobs):
        updated = _updated(fitted, changes)
    outdated = outdated_files(out, _WRITTEN, read)
    if outdated:
        notes.append(f"removed from {out}, about the model before: {', '.join(outdated)}")
    files = _files_of(updated)
    seed = updated.settings.seed()
    seconds = time.perf_counter() - began
    summary = summarise(updated, files, notes, 0 if seed is None else seed, seconds)
    updated = replace(updated, command=command, notes=tuple(notes))
    with atomic_folder(out, without=outdated) as temporary:
        write_predictions(updated, files, temporary / "predictions.csv", safe_csv)
        (temporary / "summary.json").write_text(as_text(summary), encoding="utf-8")
        save_model(updated, temporary / "model.npz")
    if as_json:
        print_document(summary)
        return
    for line in notes:
        note(line)
    _show(summary, changes, out)


def _updated(fitted: Fitted, changes: Changes) -> Fitted:
    """Return the model after the changes; nodes are called as the model calls them."""
    n_new = len(changes.ids)
    named = fitted.node_ids is not None
    names: Any = [*fitted.names.tolist(), *changes.ids.tolist()] if named else None

    def called(places: Any) -> list[Any]:
        return [int(k) if names is None else names[k] for k in places]

    add = {}
    for name, (first, second, weight) in changes.added.items():
        ends = called(first), called(second), weight.tolist()
        add[name] = [list(link) for link in zip(*ends, strict=True)]
    remove = {}
    for name, pairs in changes.removed.items():
        columns = (called(column) for column in pairs.T)
        remove[name] = [list(link) for link in zip(*columns, strict=True)]
    y = None
    if len(changes.labelled):
        values = [label or None for label in changes.labels.tolist()]
        y = dict(zip(called(changes.labelled), _as_classes(values, fitted), strict=True))
    X = None if changes.X is None else read_features(changes.X)
    return update_fitted(
        fitted,
        X,
        y,
        _by_kind(changes.links) if n_new and fitted.on_graph else None,
        _by_kind(add),
        _by_kind(remove),
        changes.ids if n_new else None,
    )


def _by_kind(parts: dict[str, Any]) -> Any:
    """Return links by kind; those of a model with one kind alone; None without any."""
    return parts.get("", parts) if parts else None


def _as_classes(labels: list[Any], fitted: Fitted) -> list[Any]:
    """Return labels as the names of the classes that are written alike."""
    classes = {str(name): name for name in fitted.classes.tolist()}
    return [label if label is None else classes.get(label, label) for label in labels]


def _files_of(fitted: Fitted) -> FitFiles:
    """Return what the results are written by."""
    data = fitted.data
    X = None if data is None else data.nodes.X
    names = feature_names_of(fitted)
    return FitFiles(None, fitted.n_nodes, 0, X, names, None, [], fitted.node_ids)


def _show(summary: dict[str, Any], changes: Changes, out: Path) -> None:
    title = f"{summary['nodes']:,} nodes, {summary['links']:,} links"
    table = Table(title=title, show_header=False)
    touched = int(np.count_nonzero(changes.labels != "")) if len(changes.labels) else 0
    table.add_row("new nodes", str(len(changes.ids)))
    added = sum(len(links.first) for links in changes.added.values())
    added += sum(links.nnz for links in changes.links.values())
    table.add_row("links added", f"{added:,}")
    table.add_row("links removed", f"{sum(map(len, changes.removed.values())):,}")
    table.add_row("labels", count_of(touched, "label"))
    table.add_row("classes", listed_classes(summary["classes"]))
    table.add_row("mean probability", f"{summary['mean_probability']:.3f}")
    table.add_row("update", summary["choices"]["update"]["why"])
    table.add_row("written", ", ".join(str(out / name) for name in _WRITTEN))
    screen.print(table)
