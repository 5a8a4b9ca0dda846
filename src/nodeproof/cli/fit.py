"""`nodeproof fit`: files in, predictions, summary and model out."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray
from rich.table import Table

from nodeproof import NodeClassifier, __version__
from nodeproof.certificate import Certificate, Stage
from nodeproof.cli.console import (
    LiveLine,
    ProgressLine,
    StageLine,
    note,
    notes_from_warnings,
    screen,
)
from nodeproof.datasets.tables import read_with_tables
from nodeproof.errors import InputError, MissingExtraError
from nodeproof.inputs import EncodedLabels, encode_names
from nodeproof.io import atomic_folder
from nodeproof.io.converting import convert
from nodeproof.io.files import count_of
from nodeproof.io.folder_tables import read_folder_features, read_folder_labels
from nodeproof.io.graph_folder import GraphFolder, is_graph_folder
from nodeproof.report.page import check_jinja
from nodeproof.solvers import Status

__all__ = ["run_fit"]

# Lines of a file that are written in one go.
_LINES = 500_000

# Seconds to wait for a cluster's answer.
_PATIENCE = 10


@dataclass(frozen=True)
class _Given:
    """What a fit is made from, read from files."""

    graph: Any
    n_nodes: int
    n_links: int
    X: Any
    feature_names: list[str] | None
    labels: EncodedLabels | None
    notes: list[str]
    # None where nodes are called by their positions.
    ids: NDArray[Any] | None

    def names(self, lo: int, hi: int) -> NDArray[Any]:
        """Return what the nodes lo…hi are called."""
        return np.arange(lo, hi) if self.ids is None else self.ids[lo:hi]


def _read(
    edges: Path,
    features: Path | None,
    labels: Path | None,
    classes: int | None,
    out: Path,
    *,
    source: str | None,
    target: str | None,
    weight: str | None,
    strict: bool,
    unknown: tuple[str, ...],
    jobs: int | None,
    show: bool,
    **options: Any,
) -> _Given:
    told: dict[str, Any] = {"unknown": unknown} if unknown else {}
    notes: list[str] = []
    if _is_partitioned(edges):
        edges = _converted(edges, out, source, target, weight, jobs, show, notes)
        source = target = weight = None
    if not is_graph_folder(edges):
        tables = read_with_tables(
            edges, features, labels, source=source, target=target, weight=weight, strict=strict,
            **options, **told,
        )  # fmt: skip
        encoded = None
        if tables.y is not None:
            names, codes = np.unique(tables.y, return_inverse=True)
            if len(names) and names[0] == "":  # unknown, and first in the order
                names, codes = names[1:], codes - 1
            encoded = encode_names(names, codes.astype(np.int64), classes)
        return _Given(
            tables.graph, len(tables.ids), tables.graph.nnz // 2, tables.X, tables.feature_names,
            encoded, list(tables.notes), tables.ids,
        )  # fmt: skip
    if not source is target is weight is None:
        raise InputError(f"{edges} has no columns: leave out source, target and weight")
    folder = GraphFolder.open(edges)
    encoded = None
    isolated = int((folder.degrees == 0).sum())
    if isolated and strict:
        raise InputError(f"{count_of(isolated, 'node')} in {edges} without a link")
    if isolated:
        notes.append(f"{count_of(isolated, 'node')} without a link: isolated")
    X, feature_names = None, None
    if features is not None:
        X, feature_names = read_folder_features(
            folder, features, header=options["header"], node=options["node"]
        )
    if labels is not None:
        found = read_folder_labels(folder, labels, **options, **told)
        encoded = encode_names(*found, classes)
        if not len(found[0]):
            notes.append("no node has a known label")
    return _Given(
        folder, folder.n_nodes, folder.n_entries // 2, X, feature_names, encoded, notes, folder.ids
    )


def _is_partitioned(edges: Path) -> bool:
    """Tell whether this is a folder of Parquet files with links."""
    return edges.is_dir() and not is_graph_folder(edges) and any(edges.glob("*.parquet"))


def _converted(
    edges: Path,
    out: Path,
    source: str | None,
    target: str | None,
    weight: str | None,
    jobs: int | None,
    show: bool,
    notes: list[str],
) -> Path:
    """Return a graph folder beside OUT with the links of these files."""
    folder = out.with_name(f"{out.name}-graph")
    if is_graph_folder(folder):
        raise InputError(
            f"{edges} would be converted to {folder}, which is there already: give that folder "
            "instead of the links, or remove it"
        )
    with StageLine(enabled=show) as line:
        convert(edges, folder, source=source, target=target, weight=weight, threads=jobs,
                progress=line)  # fmt: skip
    notes.append(f"the links are in {folder} now; another fit can begin with it")
    return folder


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
    report: bool,
    proof_budget: float,
    checkpoint: Path | None,
    time_budget: float | None,
    scheduler: str | None,
    jobs: int | None,
    seed: int,
    as_json: bool,
    command: str,
) -> None:
    """Read the files, fit, and write three files, or a page too, to the folder ``out``."""
    began = time.perf_counter()
    if report:
        check_jinja()
    given = _read(
        edges, features, labels, classes, out, header=header, source=source, target=target,
        weight=weight, node=node, label=label, strict=strict, unknown=unknown, jobs=jobs,
        show=not as_json,
    )  # fmt: skip
    notes = given.notes
    with (
        ProgressLine(enabled=not as_json, budget=time_budget) as progress,
        notes_from_warnings(notes),
        _cluster(scheduler) as engine,
    ):
        clf = NodeClassifier(
            n_classes=classes,
            null_model=null_model,
            weights=_parse_weights(weights),
            threshold="auto" if threshold is None else threshold,
            temperature=temperature,
            n_init=n_init or "auto",
            max_iter=max_iter,
            tol=tol,
            engine=engine,
            n_jobs=jobs,
            random_state=seed,
            verbose=progress,
        )
        # Ctrl-C ends the fit, not the command: what was done by then is written.
        with suppress(KeyboardInterrupt):
            clf.fit(given.X, given.labels, graph=given.graph, checkpoint=checkpoint)
    if not hasattr(clf, "labels_"):
        raise KeyboardInterrupt
    if len(clf.classes_) == 1:
        notes.append(f"there is only one class, {clf.classes_[0]}; give --classes K for more")
    if given.ids is not None:
        clf.node_ids_ = given.ids
    if given.feature_names is not None:
        clf.feature_names_in_ = np.array(given.feature_names, dtype=object)
    if progress.spent:
        notes.append(f"the time budget of {time_budget:g} s is spent: the fit was stopped early")
    summary = _summarise(clf, given, notes, seed, time.perf_counter() - began)
    asked = clf._query(query, "informative") if query else None
    if asked is not None:
        summary["query"] = [str(given.names(node, node + 1)[0]) for node in asked[0]]
    written = ["predictions.csv", "summary.json", "model.npz"]
    on_disk = isinstance(given.graph, GraphFolder)
    proof = None
    if report:
        written.append("report.html")
        if proof_budget and not on_disk and clf.status_ != Status.INTERRUPTED:
            proof = _look_for_proof(clf, proof_budget, show=not as_json)
            written.append("certificate.npz")
    if report or not on_disk:
        clf._findings = replace(clf._find(), command=command, notes=notes)
    with atomic_folder(out) as temporary:
        if report:
            clf.report(temporary / "report.html")
        if proof is not None:
            proof.save(temporary / "certificate.npz")
        if asked is not None:
            _write_query(clf, given, *asked, temporary / "query.csv")
        _write_predictions(clf, given, temporary / "predictions.csv")
        (temporary / "summary.json").write_text(
            json.dumps(summary, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        # Links that lie in a folder already are not written once more.
        clf.save(temporary / "model.npz", certifiable=not on_disk)
    if as_json:
        print(json.dumps(summary, indent=2))
    else:
        for line in notes:
            note(line)
        _show(summary, [out / name for name in written])
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


@contextmanager
def _cluster(scheduler: str | None) -> Iterator[Any]:
    """Connect to a Dask cluster, if one is named."""
    if scheduler is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError:
        raise MissingExtraError("distributed", "dask") from None
    try:
        client = Client(scheduler, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(f"--scheduler {scheduler}: no cluster answers there ({error})") from None
    with client:
        yield client


def _look_for_proof(clf: NodeClassifier, budget: float, show: bool) -> Certificate:
    """Certify the labelling, for the report; Ctrl-C ends the search, not the command."""
    with LiveLine(enabled=show) as line:

        def tell(stage: Stage) -> None:
            line.show(f"looking for a proof ({stage.seconds:.0f} of {budget:.0f} s; Ctrl-C stops)")

        return clf.certify(time_budget=budget, callback=tell)


def _write_predictions(clf: NodeClassifier, given: _Given, path: Path) -> None:
    """Write one line a node, some hundred thousand at a time."""
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
        writer = writer or pyarrow.csv.CSVWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def _write_query(
    clf: NodeClassifier,
    given: _Given,
    nodes: NDArray[np.int64],
    gains: NDArray[np.float64],
    path: Path,
) -> None:
    """Write the nodes to label next, best first, and by how much each lowers what is uncertain."""
    table = pa.table(
        {
            "node": pa.array(nodes if given.ids is None else given.ids[nodes]),
            "label": pa.array(clf.labels_[nodes]),
            "probability": clf.proba_[nodes].max(axis=1).astype(np.float64).round(6),
            "gain": gains.round(6),
        }
    )
    pyarrow.csv.write_csv(table, path)


def _summarise(
    clf: NodeClassifier, given: _Given, notes: list[str], seed: int, seconds: float
) -> dict[str, Any]:
    names, sizes = np.unique(clf.labels_, return_counts=True)
    return {
        "nodeproof": __version__,
        "nodes": len(clf.labels_),
        "links": given.n_links,
        "features": 0 if given.X is None else given.X.shape[1],
        "labels": 0 if clf._given is None else int((clf._given >= 0).sum()),
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


def _estimate(numbers: list[float] | None) -> str:
    if numbers is None:
        return ""
    return f"{numbers[0]:.3f} (95 % interval {numbers[1]:.3f} to {numbers[2]:.3f})"


def _rounded(numbers: tuple[float, float, float] | None) -> list[float] | None:
    return None if numbers is None else [round(number, 4) for number in numbers]


def _show(summary: dict[str, Any], written: list[Path]) -> None:
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
        "written": ", ".join(map(str, written)),
    }
    for key, value in rows.items():
        if value:
            table.add_row(key, value)
    screen.print(table)
