"""`nodeproof fit --target`, and `predict` and `report` of the models that it writes."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
from click.core import ParameterSource
from numpy.typing import NDArray
from rich.table import Table

from nodeproof import __version__
from nodeproof.cli.console import note, notes_from_warnings, screen
from nodeproof.cli.fit_files import FitFiles, read_files
from nodeproof.cli.results import MOST_NAMES, listed_features, outdated_files, write_csv
from nodeproof.cli.terminal import as_text, check_folder, print_document
from nodeproof.errors import InputError, count_of
from nodeproof.inputs import read_features
from nodeproof.inputs.targets import read_targets
from nodeproof.regression import FittedTargets, RegressionSettings, fit_targets
from nodeproof.regression.data import TargetData
from nodeproof.report.page import check_jinja
from nodeproof.report.targets import write_target_report
from nodeproof.runtime import threads
from nodeproof.saving.targets import load_targets, save_targets
from nodeproof.storage.atomic import atomic_folder, atomic_path
from nodeproof.storage.graph_folder import GraphFolder
from nodeproof.tables.new_nodes import read_new_nodes
from nodeproof.tables.nodes import NodeColumns

__all__ = ["predict_targets", "run_fit_targets"]

Array = NDArray[np.float64]

# Options of `nodeproof fit` that are for numeric targets, too.
_USED = {
    *("edges", "nodes", "knn", "strict", "repeated", "header", "source", "target", "weight"),
    *("node", "drop", "one_hot", "impute", "scale", "experts", "out", "coverage", "report"),
    *("safe_csv", "as_json", "seed", "jobs", "target_column", "quiet", "verbose"),
}

#: of intervals, unless another coverage is asked for
_COVERAGE = 0.9


def run_fit_targets(edges: tuple[Path, ...], column: str, options: dict[str, Any]) -> None:
    """Read the files, fit numbers, and write the results.

    Parameters
    ----------
    edges : tuple of path
        The links, of one kind.
    column : str
        The column of the table of nodes with the numbers.
    options : dict
        As `nodeproof fit` gets them.
    """
    _refuse_others(click.get_current_context())
    began = time.perf_counter()
    nodes, out, report = options["nodes"], options["out"], options["report"]
    if nodes is None:
        raise InputError("--target names a column of a table of nodes: give --nodes FILE")
    if len(edges) > 1:
        raise InputError("numbers are predicted by one kind of links: give one table of them")
    written = ["predictions.csv", "summary.json", "model.npz"] + ["report.html"] * report
    check_folder(out, written, (*edges, nodes))
    if report:
        check_jinja()
    settings = RegressionSettings(
        experts=_parse_experts(options["experts"]),
        n_jobs=options["jobs"],
        random_state=options["seed"],
    )
    settings.check()
    steps = {"one-hot": options["one_hot"], "impute": options["impute"], "scale": options["scale"]}
    wanted = [step for step, asked in steps.items() if asked]
    files = read_files(
        edges, None, None, None, out, knn=options["knn"], source=options["source"],
        target=options["target"], weight=options["weight"], strict=options["strict"], unknown=(),
        jobs=options["jobs"], show=not options["as_json"], missing=False, nodes=nodes,
        columns=NodeColumns(None, options["drop"], wanted, target=column),
        repeated=options["repeated"], header=options["header"], node=options["node"], label=None,
    )  # fmt: skip
    assert files.targets is not None
    assert not isinstance(files.graph, GraphFolder)
    notes = files.notes
    coverage = options["coverage"] or _COVERAGE
    with notes_from_warnings(notes), threads.using(options["jobs"]):
        names = files.feature_names
        data = TargetData.build(
            None if files.X is None else read_features(files.X),
            read_targets(files.targets),
            files.graph,
            files.ids,
            None if names is None else np.array(names, dtype=object),
            files.preparation,
        )
        fitted = fit_targets(data, settings)
        intervals = fitted.intervals(coverage)
    notes += [fitted.choices["targets"]["why"]] if "targets" in fitted.choices else []
    outdated = outdated_files(out, written, (*edges, nodes))
    if outdated:
        notes.append(f"removed from {out}, left by an earlier fit: {', '.join(outdated)}")
    fitted = replace(fitted, notes=tuple(notes), command=options["command"])
    summary = _summarise(fitted, files, column, coverage, options["seed"])
    summary["seconds"] = round(time.perf_counter() - began, 3)
    with atomic_folder(out, without=outdated) as temporary:
        if report:
            write_target_report(fitted, temporary / "report.html", coverage=coverage)
        suspect = np.isin(np.arange(fitted.n_nodes), fitted.suspects.node)
        given = pa.array(fitted.given, mask=np.isnan(fitted.given))
        columns = _columns(files.names(0, files.n_nodes), fitted.predictions, intervals)
        write_csv(
            columns | {"given": given, "suspect": pa.array(suspect)},
            temporary / "predictions.csv",
            options["safe_csv"],
        )
        (temporary / "summary.json").write_text(as_text(summary), encoding="utf-8")
        save_targets(fitted, temporary / "model.npz")
    if options["as_json"]:
        print_document(summary)
        return
    for line in notes:
        note(line)
    _show(summary, fitted, [out / name for name in written])


def _refuse_others(context: click.Context) -> None:
    """Refuse options that are for classes."""
    for parameter in context.command.params:
        name = parameter.name or ""
        typed = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if typed and name not in _USED:
            raise InputError(f"{parameter.opts[0]} is for classes: omit it, or omit --target")


def _parse_experts(names: str | None) -> str | list[str]:
    return "auto" if names is None else [name.strip() for name in names.split(",")]


def _columns(names: NDArray[Any], predictions: Array, intervals: Array) -> dict[str, Any]:
    """Return the columns of all tables of predictions."""
    low, high = intervals.T
    return {
        "node": pa.array(names),
        "prediction": predictions,
        "lower": pa.array(low, mask=~np.isfinite(low)),
        "upper": pa.array(high, mask=~np.isfinite(high)),
    }


def _summarise(
    fitted: FittedTargets, files: FitFiles, column: str, coverage: float, seed: int
) -> dict[str, Any]:
    """Return the contents of summary.json; `seconds` are added at the end."""
    error = fitted.estimated_error
    return {
        "nodeproof": __version__,
        "nodes": fitted.n_nodes,
        "links": fitted.n_links,
        "features": 0 if files.X is None else files.X.shape[1],
        "feature_names": (files.feature_names or [])[:MOST_NAMES],
        "target": column,
        "targets": len(fitted.known),
        "without_target": fitted.n_nodes - len(fitted.known),
        "suspects": len(fitted.suspects),
        "estimated_error": None if error is None else error._asdict(),
        "intervals": fitted.summary_of_intervals(coverage),
        "choices": fitted.choices,
        "notes": list(fitted.notes),
        "seed": seed,
    }


def _show(summary: dict[str, Any], fitted: FittedTargets, written: list[Path]) -> None:
    title = f"{summary['nodes']} nodes, {summary['links']} links"
    table = Table(title=title, show_header=False)
    error, widths = fitted.estimated_error, summary["intervals"]
    rows = {
        "features": listed_features(summary["features"], summary["feature_names"]),
        "targets": f"{summary['target']}: {summary['targets']} given, of which "
        f"{summary['suspects']} look wrong; {count_of(summary['without_target'], 'node')} without",
    }
    if error is not None:
        rows |= {
            "estimated error": f"{error.rmse:.4g} (root mean square; 95 % interval "
            f"{error.rmse_low:.4g} to {error.rmse_high:.4g})",
            "estimated R²": f"{error.r2:.3f} (95 % interval {error.r2_low:.3f} to "
            f"{error.r2_high:.3f})",
        }
    if widths["mean_width"] is not None:
        rows["intervals"] = (
            f"{100 * widths['coverage']:g}% hold the true number; {widths['mean_width']:.4g} wide "
            "on average"
        )
    rows |= {"fit": f"{summary['seconds']} s", "written": ", ".join(map(str, written))}
    for key, value in rows.items():
        if value:
            table.add_row(key, value)
    screen.print(table)
    experts = fitted.choices.get("experts", {}).get("value", {})
    if experts:
        table = Table(title="What predictions rest on")
        for heading in ("expert", "draws on"):
            table.add_column(heading)
        for heading in ("error alone", "weight"):
            table.add_column(heading, justify="right")
        for name, row in experts.items():
            about = f"{row['about']} ({row['setting']})"
            table.add_row(name, about, f"{row['rmse']:.4g}", f"{row['weight']:.2f}")
        screen.print(table)
    for name, why in fitted.choices.get("left_out", {}).get("value", {}).items():
        screen.print(f"Left out: {name} ({why}).")


def predict_targets(
    file: Path,
    *,
    nodes: Path | None,
    features: Path | None,
    edges: Path | None,
    out: Path,
    coverage: float | None,
    safe_csv: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Load the model, read the files, and write predictions for new nodes to ``out``."""
    began = time.perf_counter()
    fitted = load_targets(file)
    if features is not None:
        raise InputError(f"the model in {file} was fitted with --nodes: give that, not --features")
    if nodes is not None and fitted.preparation is None:
        raise InputError(f"the model in {file} was fitted without features: leave out --nodes")
    feature_names = None if fitted.feature_names is None else list(fitted.feature_names.tolist())
    new = read_new_nodes(
        fitted.names, None, edges, names=feature_names, unit=fitted.link_unit, nodes=nodes,
        preparation=fitted.preparation, **options,
    )  # fmt: skip
    notes = list(new.notes)
    coverage = coverage or _COVERAGE
    with notes_from_warnings(notes):
        X = None if new.X is None else read_features(new.X)
        predictions, spread = fitted.judge(X, new.links)
        half = fitted.half_width(coverage) * spread
    intervals = np.column_stack([predictions - half, predictions + half])
    with atomic_path(out) as temporary:
        write_csv(_columns(new.ids, predictions, intervals), temporary, safe_csv)
    summary = {
        "nodeproof": __version__,
        "nodes": len(new.ids),
        "links": new.n_links,
        "features": 0 if new.X is None else new.X.shape[1],
        "coverage": coverage,
        "mean": float(predictions.mean()),
        "mean_width": float(2.0 * half.mean()),
        "notes": notes,
        "seconds": round(time.perf_counter() - began, 3),
    }
    if as_json:
        print_document(summary)
        return
    for line in notes:
        note(line)
    counted = f"{count_of(len(new.ids), 'new node')}, {count_of(new.n_links, 'link')}"
    table = Table(title=counted, show_header=False)
    table.add_row("mean prediction", f"{summary['mean']:.4g}")
    table.add_row("intervals", f"{100 * coverage:g}%; {summary['mean_width']:.4g} wide on average")
    table.add_row("written", str(out))
    screen.print(table)
