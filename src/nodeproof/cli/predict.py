"""`nodeproof predict`: new nodes and a saved model in, predictions out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NoReturn

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
from nodeproof.tables.kinds import LinksOfKinds, kinds_by_column, kinds_by_file, name_kinds
from nodeproof.tables.new_nodes import read_new_nodes
from nodeproof.terms.registry import allow_missing

__all__ = ["check_tables", "feature_names_of", "links_of_tables", "run_predict", "units_of"]


def run_predict(
    file: Path,
    *,
    nodes: Path | None,
    features: Path | None,
    edges: tuple[Path, ...],
    edge_type: str | None,
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
    check_file(out, file, (nodes, features, *edges))
    if is_of_targets(file):
        if len(edges) > 1 or edge_type is not None:
            _refuse_kinds(file, "--edges")
        predict_targets(
            file, nodes=nodes, features=features, edges=edges[0] if edges else None, out=out,
            header=header, source=source, target=target, weight=weight, node=node,
            repeated=repeated, coverage=coverage, safe_csv=safe_csv, as_json=as_json,
        )  # fmt: skip
        return
    import_parts(terms, own_experts)
    fitted = load_model(file)
    check_tables(fitted, file, nodes, features)
    if features is not None and fitted.n_features is None:
        raise InputError(f"the model in {file} was fitted without features: omit --features")
    if features is nodes is None and needs_features(fitted):
        option = "--features" if fitted.preparation is None else "--nodes"
        raise InputError(f"the model in {file} was fitted with features: give {option} FILE")
    links = links_of_tables(fitted, file, edges, edge_type, header, source, target, weight)
    feature_names = feature_names_of(fitted)
    new = read_new_nodes(
        fitted.names, features, links, names=feature_names, unit=units_of(fitted), header=header,
        source=source, target=target, weight=weight, node=node, missing=allow_missing(fitted.terms),
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


def links_of_tables(
    fitted: Fitted,
    file: Path,
    edges: tuple[Path, ...],
    column: str | None,
    *columns: Any,
    option: str = "--edges",
    instead: str = "predict(graph={...})",
) -> Path | LinksOfKinds | None:
    """Return the links of tables: those of several kinds are read, one table is left as it is.

    Parameters
    ----------
    fitted : Fitted
        The model.
    file : pathlib.Path
        Where it is.
    edges : tuple of pathlib.Path
        The tables.
    column : str or None
        The column of a table with the kind of each link.
    columns
        Header, source, target and weight of the tables.
    option, instead : str
        What the tables are given by, and what takes links with a direction in Python.
    """
    kinds = fitted.new_nodes.kinds
    if kinds is None or len(kinds.kinds) == 1:
        if len(edges) > 1 or column is not None:
            _refuse_kinds(file, option)
        return edges[0] if edges else None
    if not edges:
        return None
    known = [kind.name for kind in kinds.kinds]
    about = f"the model in {file} was fitted to the kinds of links {', '.join(map(repr, known))}"
    if any(kind.directed for kind in kinds.kinds):
        raise InputError(
            f"{about}, some with a direction, which tables do not have: use NodeClassifier.load "
            f"and {instead} in Python"
        )
    if column is not None and len(edges) != 1:
        raise InputError(f"--edge-type names a column of one table of links: give {option} once")
    if column is not None:
        found = kinds_by_column(edges[0], column, *columns)
    else:
        unknown = [path for name, path in name_kinds(edges).items() if name not in known]
        if unknown:
            raise InputError(
                f"{about}, and {unknown[0]} is not named after one of them: name the column with "
                f"the kinds, --edge-type COLUMN, or give a table for each kind, such as {option} "
                f"{known[0]}.csv"
            )
        found = kinds_by_file(edges, *columns)
    strange = next((name for name in found.kinds if name not in known), None)
    if strange is not None:
        raise InputError(f"{about}; {edges[0]} has links of the kind {strange!r}")
    return found


def _refuse_kinds(file: Path, option: str) -> NoReturn:
    raise InputError(
        f"the model in {file} was fitted to links of one kind: give {option} once, without "
        "--edge-type"
    )


def units_of(fitted: Fitted) -> float | dict[str, float]:
    """Return what links without a weight count, by kind if there are several."""
    kinds, graph = fitted.new_nodes.kinds, fitted.new_nodes.graph
    if kinds is not None and len(kinds.kinds) > 1:
        return {kind.name: kind.unit for kind in kinds.kinds}
    return 1.0 if graph is None else graph.unit


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
