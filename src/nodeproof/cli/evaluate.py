"""`nodeproof evaluate` and `nodeproof compare`: results beside the truth and each other."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table
from sklearn.metrics import confusion_matrix, f1_score, log_loss

from nodeproof import __version__
from nodeproof.cli.console import note, screen
from nodeproof.cli.terminal import check_file, find_model, import_parts, print_document
from nodeproof.errors import InputError, count_of
from nodeproof.fitted import Fitted
from nodeproof.inputs.label_values import Unknown
from nodeproof.metrics import expected_calibration_error
from nodeproof.runtime.axes import axes_or_new, shorten
from nodeproof.saving.model import load_model
from nodeproof.storage.atomic import atomic_path
from nodeproof.tables.columns import list_names
from nodeproof.tables.keys import Keys
from nodeproof.tables.labels import LabelRows, read_labels
from nodeproof.tables.reading import open_table

__all__ = ["run_compare", "run_evaluate"]

# Below this, a probability is taken to be this: one sure mistake would make the mean infinite.
_LEAST = 1e-12
# A class in a prediction set, in which | and \ have a \ before them.
_MEMBER = re.compile(r"(?:[^\\|]|\\.)+")
# The most classes whose confusion is shown.
_SHOWN = 12


def run_evaluate(
    file: Path,
    truth: Path,
    *,
    header: bool | None,
    node: str | None,
    label: str | None,
    unknown: tuple[str, ...],
    every: bool,
    terms: tuple[str, ...],
    own_experts: tuple[str, ...],
    as_json: bool,
) -> None:
    """Compare a fit with the truth, and print scores."""
    import_parts(terms, own_experts)
    fitted = load_model(file)
    rows = _read_truth(fitted, truth, header, node, label, unknown)
    classes, codes = _true_codes(fitted, rows)
    judged = codes >= 0
    if not every and fitted.given is not None:
        judged &= fitted.given < 0
    if not judged.any():
        raise InputError(
            f"{truth} has no label of a node that was not labelled in the fit; --all counts the "
            "others, too"
        )
    found = {"nodeproof": __version__, **_scores(fitted, classes, codes, judged)}
    held = _coverage(file.with_name("predictions.csv"), fitted, classes, codes, judged)
    if held is not None:
        found["coverage"] = held
    skipped = int((codes >= 0).sum() - judged.sum())
    found["labelled_in_the_fit"] = skipped
    if as_json:
        print_document(found)
        return
    if skipped:
        note(f"{count_of(skipped, 'node')} labelled in the fit not counted; --all counts them")
    _show_scores(found)


def _read_truth(
    fitted: Fitted,
    truth: Path,
    header: bool | None,
    node: str | None,
    label: str | None,
    unknown: tuple[str, ...],
) -> tuple[LabelRows, NDArray[np.int64]]:
    """Return the true labels, and the fitted node of each row, −1 if there is none."""
    place = {str(name): v for v, name in enumerate(fitted.names.tolist())}
    rows = read_labels(
        open_table(truth), lambda ids: all(name in place for name in ids), header, node, label,
        Unknown.of(unknown or None),
    )  # fmt: skip
    nodes = np.array([place.get(name, -1) for name in rows.keys.texts().to_pylist()])
    if (nodes < 0).all():
        shown = ", ".join(repr(name) for name in list(place)[:3])
        raise InputError(
            f"no node of {truth} was fitted; the fit has names like {shown}: does the file name "
            "nodes the same way? --id says which column has the names"
        )
    return rows, nodes[rows.keys.codes]


def _true_codes(
    fitted: Fitted, read: tuple[LabelRows, NDArray[np.int64]]
) -> tuple[list[str], NDArray[np.int64]]:
    """Return all classes, those of the fit first, and the true class of every node, −1: unknown."""
    rows, nodes = read
    classes = [str(name) for name in fitted.classes.tolist()]
    if not set(rows.names) & set(classes):
        column = "" if rows.column is None else f" of the column {rows.column!r}"
        raise InputError(
            f"no label{column} in {rows.keys.path}, such as {rows.names[0]!r}, is a class of the "
            f"fit: {list_names(classes)}; --label COLUMN says which column has the labels"
            if rows.names
            else f"{rows.keys.path} has no labels; --label COLUMN says which column has them"
        )
    classes += [name for name in rows.names if name not in classes]
    numbers = np.array([*(classes.index(name) for name in rows.names), -1])
    there = nodes >= 0
    labelled = LabelRows(_keys_of(rows, there), rows.names, rows.codes[there], rows.unknown, [])
    placed = labelled.placed(nodes[there], fitted.n_nodes)
    return classes, numbers[placed]


def _keys_of(rows: LabelRows, there: NDArray[np.bool_]) -> Keys:
    """Return the keys of some of the rows."""
    kept = np.flatnonzero(there)
    keys = rows.keys
    return Keys(keys.path, keys.distinct, keys.codes[kept], lambda row: keys.place(int(kept[row])))


def _scores(
    fitted: Fitted, classes: list[str], codes: NDArray[np.int64], judged: NDArray[np.bool_]
) -> dict[str, Any]:
    """Return the scores of the nodes that are judged."""
    proba = np.zeros((int(judged.sum()), len(classes)))
    proba[:, : len(fitted.classes)] = fitted.proba[judged]
    truth, guess = codes[judged], fitted.codes[judged]
    clipped = np.clip(proba, _LEAST, 1.0)
    clipped /= clipped.sum(axis=1, keepdims=True)
    both = sorted({*truth.tolist(), *guess.tolist()})
    return {
        "nodes": len(truth),
        "accuracy": float((truth == guess).mean()),
        "macro_f1": float(f1_score(truth, guess, labels=both, average="macro", zero_division=0)),
        "log_loss": float(log_loss(truth, clipped, labels=np.arange(len(classes))))
        if len(classes) > 1
        else 0.0,
        "expected_calibration_error": float(expected_calibration_error(truth, proba)),
        "mean_probability": float(proba.max(axis=1).mean()),
        "classes": [classes[k] for k in both],
        "confusion": confusion_matrix(truth, guess, labels=both).tolist(),
    }


def _coverage(
    file: Path,
    fitted: Fitted,
    classes: list[str],
    codes: NDArray[np.int64],
    judged: NDArray[np.bool_],
) -> float | None:
    """Return the share of prediction sets that hold the true class; None without any sets."""
    if not file.is_file():
        return None
    with file.open(newline="", encoding="utf-8") as opened:
        rows = csv.DictReader(opened)
        if "set" not in (rows.fieldnames or ()):
            return None
        sets = [row["set"] or "" for row in rows]
    if len(sets) != fitted.n_nodes:
        return None  # of another fit
    names = [name.replace("\\", "\\\\").replace("|", "\\|") for name in classes]
    return float(np.mean([names[codes[v]] in _MEMBER.findall(sets[v])
                          for v in np.flatnonzero(judged)]))  # fmt: skip


def _show_scores(found: dict[str, Any]) -> None:
    table = Table(title=f"{count_of(found['nodes'], 'node')}", show_header=False)
    for name in ("accuracy", "macro_f1", "log_loss", "expected_calibration_error",
                 "mean_probability"):  # fmt: skip
        table.add_row(name.replace("_", " ").replace("macro f1", "macro-F1"), f"{found[name]:.4f}")
    if found.get("coverage") is not None:
        table.add_row("coverage of sets", f"{found['coverage']:.4f}")
    screen.print(table)
    if len(found["classes"]) > _SHOWN:
        return
    confusion = Table(title="true class in rows, predicted class in columns")
    confusion.add_column("")
    for name in found["classes"]:
        confusion.add_column(name, justify="right")
    for name, row in zip(found["classes"], found["confusion"], strict=True):
        confusion.add_row(name, *map(str, row))
    screen.print(confusion)


def run_compare(
    runs: tuple[Path, ...],
    *,
    truth: Path | None,
    header: bool | None,
    node: str | None,
    label: str | None,
    unknown: tuple[str, ...],
    terms: tuple[str, ...],
    own_experts: tuple[str, ...],
    out: Path | None,
    as_json: bool,
) -> None:
    """Compare the results of several fits, and draw them if a file is given for that."""
    if len(runs) < 2:
        raise InputError("give at least two folders written by `nodeproof fit`")
    if truth is None and not (header is node is label is None and not unknown):
        raise InputError("--header, --id, --label-column and --unknown are about --truth: give it")
    import_parts(terms, own_experts)
    models = [find_model(run) for run in runs]
    if out is not None:
        check_file(out, models[0])
    fits = [load_model(model) for model in models]
    first = dict(zip(map(str, fits[0].names.tolist()), fits[0].labels.tolist(), strict=True))
    found = []
    for run, model, fitted in zip(runs, models, fits, strict=True):
        row = _row(run, model, fitted)
        labels = zip(map(str, fitted.names.tolist()), fitted.labels.tolist(), strict=True)
        same = [str(first[name]) == str(label) for name, label in labels if name in first]
        row["agreement"] = float(np.mean(same)) if same else None
        if truth is not None:
            read = _read_truth(fitted, truth, header, node, label, unknown)
            classes, codes = _true_codes(fitted, read)
            judged = codes >= 0
            if fitted.given is not None:
                judged &= fitted.given < 0
            if judged.any():
                scores = _scores(fitted, classes, codes, judged)
                row |= {key: scores[key] for key in ("accuracy", "macro_f1", "log_loss")}
        found.append(row)
    if out is not None:
        with atomic_path(out) as temporary:
            _draw(found, temporary)
    if as_json:
        print_document({"nodeproof": __version__, "runs": found})
        return
    _show_runs(found, runs[0])
    if out is not None:
        screen.print(f"written: {out}", soft_wrap=True)


def _row(run: Path, model: Path, fitted: Fitted) -> dict[str, Any]:
    """Return what a run is compared by."""
    summary = model.with_name("summary.json")
    told: dict[str, Any] = {}
    if model.name == "model.npz" and summary.is_file():
        try:
            told = json.loads(summary.read_text(encoding="utf-8"))
        except ValueError:
            raise InputError(f"{summary} is not JSON; run the fit again") from None
    estimate = fitted.estimated_accuracy
    return {
        "run": str(run),
        "nodes": fitted.n_nodes,
        "labels": len(fitted.labelled),
        "features": fitted.n_features or 0,
        "classes": len(fitted.classes),
        "estimated_accuracy": None if estimate is None else list(map(float, estimate)),
        "mean_probability": float(fitted.proba.max(axis=1).mean(dtype=np.float64)),
        "suspects": len(fitted.suspects),
        "status": str(fitted.status),
        "seconds": told.get("seconds") if isinstance(told, dict) else None,
    }


_COLUMNS = {
    "nodes": "nodes", "labels": "labels", "features": "features", "classes": "classes",
    "estimated_accuracy": "estimated accuracy", "accuracy": "accuracy", "macro_f1": "macro-F1",
    "log_loss": "log loss", "mean_probability": "mean probability", "agreement": "same labels",
    "suspects": "suspects", "seconds": "seconds",
}  # fmt: skip


def _show_runs(found: list[dict[str, Any]], first: Path) -> None:
    """Print one column per run, which fits more lines than it has figures."""
    table = Table(title=f"same labels: share of the nodes that have the label of {first}")
    table.add_column("")
    for row in found:
        table.add_column(row["run"], justify="right", overflow="fold")
    for key, title in _COLUMNS.items():
        if any(row.get(key) is not None for row in found):
            table.add_row(title, *(_shown(row.get(key)) for row in found))
    screen.print(table)


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, list):
        return f"{value[0]:.3f} ({value[1]:.3f}–{value[2]:.3f})"
    return f"{value:.3f}" if isinstance(value, float) else f"{value:,}"


def _draw(found: list[dict[str, Any]], path: Path) -> None:
    """Draw accuracies and mean probabilities, one line per run."""
    axes = axes_or_new(None, (7.0, 1.5 + 0.5 * len(found)))
    places = np.arange(len(found))[::-1]
    for row, place in zip(found, places, strict=True):
        estimate = row["estimated_accuracy"]
        if estimate is not None:
            axes.plot(estimate[1:], [place, place], color="#2f6db3", lw=4, alpha=0.35)
            axes.plot(estimate[0], place, "o", color="#2f6db3",
                      label="estimated accuracy, 95 % interval")  # fmt: skip
        if row.get("accuracy") is not None:
            axes.plot(row["accuracy"], place, "D", color="#2e7d32", label="accuracy")
        axes.plot(row["mean_probability"], place, "|", ms=14, color="#b26a00",
                  label="mean probability")  # fmt: skip
    axes.set_yticks(places, [shorten(row["run"], 30) for row in found])
    axes.set_ylim(-0.6, len(found) - 0.4)
    handles, names = axes.get_legend_handles_labels()
    unique = dict(zip(names, handles, strict=True))
    axes.figure.legend(list(unique.values()), list(unique), loc="outside lower center", ncols=3,
                       frameon=False, fontsize=8)  # fmt: skip
    axes.figure.savefig(path, dpi=150, format="png")
