"""`nodeproof fit`: files in, predictions, summary and model out."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.table import Table

from nodeproof.auto.experts import as_experts
from nodeproof.auto.experts.registry import make_expert
from nodeproof.certificate import Certificate, Stage
from nodeproof.cli.console import LiveLine, ProgressLine, note, notes_from_warnings, screen
from nodeproof.cli.fit_files import FitFiles, read_files
from nodeproof.cli.results import (
    listed_classes,
    listed_features,
    outdated_files,
    progress_of,
    summarise,
    write_predictions,
    write_query,
)
from nodeproof.cli.sets import check_sets, sets_if_any, shown_sets
from nodeproof.cli.terminal import as_text, check_folder, print_document
from nodeproof.cli.terms import terms_of_columns
from nodeproof.distributed import DaskEngine
from nodeproof.errors import InputError, MissingExtraError, count_of
from nodeproof.fitted import Fitted
from nodeproof.fitting import fit_nodes
from nodeproof.query import query_nodes
from nodeproof.report.experts import (
    caveats,
    class_mix,
    expert_table,
    meaning_of_accuracy,
    scores,
)
from nodeproof.report.page import check_jinja, write_report
from nodeproof.saving.model import save_model
from nodeproof.settings import Settings
from nodeproof.solvers import Status
from nodeproof.solvers.checkpoint import Checkpoint
from nodeproof.storage.atomic import atomic_folder, resolved
from nodeproof.storage.graph_folder import GraphFolder
from nodeproof.tables.nodes import NodeColumns
from nodeproof.terms import Labels, Term
from nodeproof.terms.registry import make_term

__all__ = ["run_fit"]

# A report comes with a proof that is found in so many seconds, of graphs with up to so many nodes:
# of larger ones it is rarely found in the time that a fit takes.
_PROOF_SECONDS, _PROVEN_NODES = 3.0, 1_000

# Seconds to wait for a cluster's answer.
_PATIENCE = 10


def run_fit(edges: tuple[Path, ...], *, checkpoint: Path | None, **options: Any) -> None:
    """Read the files, fit, and write the results; the checkpoint is kept until they are written."""
    if checkpoint is None:
        _fit_and_write(edges, saved=None, **options)
        return
    with closing(Checkpoint(checkpoint, until_written=True)) as saved:
        _fit_and_write(edges, saved=saved, **options)


def _fit_and_write(
    edges: tuple[Path, ...],
    *,
    knn: str | None,
    positive_only: bool,
    nodes: Path | None,
    features: Path | None,
    labels: Path | None,
    out: Path,
    classes: int | None,
    header: bool | None,
    source: str | None,
    target: str | None,
    weight: str | None,
    edge_type: str | None,
    node: str | None,
    label: str | None,
    drop: tuple[str, ...],
    one_hot: bool,
    impute: bool,
    scale: bool,
    repeated: str,
    unknown: tuple[str, ...],
    strict: bool,
    counts: str | None,
    regress: str | None,
    categories: str | None,
    terms: tuple[str, ...],
    experts: str | None,
    own_experts: tuple[str, ...],
    null_model: str,
    weights: str,
    threshold: float | None,
    temperature: float,
    n_init: int | None,
    max_iter: int,
    tol: float,
    query: int | None,
    coverage: float | None,
    report: bool,
    proof_budget: float | None,
    saved: Checkpoint | None,
    time_budget: float | None,
    scheduler: str | None,
    jobs: int | None,
    seed: int,
    safe_csv: bool,
    as_json: bool,
    command: str,
) -> None:
    """Read the files, fit, and write the results to the folder ``out``."""
    began = time.perf_counter()
    written = ["predictions.csv", "summary.json", "model.npz"]
    written += ["query.csv"] if query else []
    written += ["report.html"] if report else []
    perhaps = ["certificate.npz"] if report and proof_budget != 0 else []
    check_folder(out, written + perhaps, (*edges, nodes, features, labels))
    if report:
        check_jinja()
    own_terms = [make_term(place) for place in terms]
    pooled = _parse_experts(experts, own_experts)
    using = [term.as_given for term in own_terms if term.needs_features]
    missing = all(using) and (bool(using) or not counts is regress is categories is None)
    if nodes is None and (drop or not (one_hot and impute and scale)):
        raise InputError("--drop, --no-one-hot, --no-impute and --no-scale are only for --nodes")
    # Terms that are chosen by hand take numbers as they are.
    as_given = missing or bool(using) or not counts is regress is categories is None
    steps = {"one-hot": one_hot, "impute": impute and not as_given, "scale": scale and not as_given}
    columns = NodeColumns(label, drop, [step for step, wanted in steps.items() if wanted])
    files = read_files(
        edges, features, labels, classes, out, header=header, source=source, target=target,
        weight=weight, node=node, label=label, strict=strict, unknown=unknown, jobs=jobs,
        show=not as_json, missing=missing, nodes=nodes, columns=columns, repeated=repeated,
        edge_type=edge_type,
        knn=knn,
    )  # fmt: skip
    own_terms += terms_of_columns(counts, regress, categories, files.feature_names)
    automatic = not own_terms and _parse_weights(weights) == "auto"
    check_sets(coverage, files.labels, temperature, automatic)
    notes = files.notes
    with (
        ProgressLine(enabled=not as_json, budget=time_budget) as progress,
        notes_from_warnings(notes),
        _cluster(scheduler, out if isinstance(files.graph, GraphFolder) else None) as engine,
    ):
        settings = Settings(
            n_classes=classes,
            terms=_with_labels(own_terms, files) if own_terms else "auto",
            experts=pooled,
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
            positive_only=positive_only,
        )
        # Ctrl-C ends the solve, not the command: the results so far are written.
        fitted = fit_nodes(files.to_fit_data(settings), settings, checkpoint=saved)
    if len(fitted.classes) == 1 and fitted.given is None:
        notes.append(f"there is only one class, {fitted.classes[0]}; give --classes K for more")
    if progress.spent:
        how = "" if saved is None else "; the same command resumes from the last checkpoint"
        notes.append(f"the fit was stopped after its time budget of {time_budget:g} s{how}")
    on_disk = isinstance(files.graph, GraphFolder)
    if proof_budget is None:
        proof_budget = _PROOF_SECONDS if len(fitted.proba) <= _PROVEN_NODES else 0.0
    proven = report and proof_budget and not on_disk and fitted.status != Status.INTERRUPTED
    written += ["certificate.npz"] if proven else []
    if doubts := _doubts(fitted, weights):
        notes.append(doubts)
    notes += caveats(fitted)
    with notes_from_warnings(notes):
        limits = sets_if_any(fitted, coverage, notes)
    outdated = outdated_files(out, written, (*edges, nodes, features, labels))
    if outdated:
        notes.append(f"removed from {out}, left by an earlier fit: {', '.join(outdated)}")
    summary = summarise(fitted, files, notes, seed, time.perf_counter() - began)
    if limits is not None:
        summary["sets"] = limits.summary(fitted.proba, fitted.given)
    asked = query_nodes(fitted, query) if query else None
    if asked is not None:
        summary["query"] = [str(files.names(node, node + 1)[0]) for node in asked[0]]
    proof = _search_proof(fitted, proof_budget, show=not as_json) if proven else None
    fitted = replace(fitted, command=command, notes=tuple(notes), preparation=files.preparation)
    with _keeping(saved), atomic_folder(out, without=outdated) as temporary:
        if report:
            write_report(fitted, temporary / "report.html", certificate=proof, coverage=coverage)
        if proof is not None:
            proof.save(temporary / "certificate.npz")
        if asked is not None:
            write_query(fitted, files, *asked, temporary / "query.csv", safe_csv)
        write_predictions(fitted, files, temporary / "predictions.csv", safe_csv, proof, limits)
        (temporary / "summary.json").write_text(as_text(summary), encoding="utf-8")
        # Links that are already in a graph folder are not written again.
        save_model(fitted, temporary / "model.npz", certifiable=not on_disk)
    if saved is not None and fitted.status not in (Status.STOPPED, Status.INTERRUPTED):
        saved.remove()
    if as_json:
        print_document(summary)
    else:
        for line in notes:
            note(line)
        _show(summary, fitted, [out / name for name in written])
    if fitted.status == Status.INTERRUPTED:
        sys.exit(130)


def _parse_experts(names: str | None, places: tuple[str, ...]) -> str | list[Any]:
    """Return the experts to pool: those named, or all, and those at package.module:Name."""
    own = [make_expert(place) for place in places]
    if names is None:
        return ["auto", *own] if own else "auto"
    named = [name.strip() for name in names.split(",")]
    if not all(named):
        raise InputError(f"--experts must be names with commas between them, got {names!r}")
    if own and all(name.startswith("-") for name in named):
        named = ["auto", *named]
    found = [*named, *own]
    as_experts(found)
    return found


def _with_labels(terms: list[Term], files: FitFiles) -> list[Term]:
    """Return these terms, plus one for the labels if there are any and no term uses them."""
    codes = None if files.labels is None else files.labels.codes
    if codes is None or any(term.source == "labels" for term in terms):
        return terms
    return [*terms, Labels()]


def _parse_weights(text: str) -> str | float | tuple[float, ...]:
    if text in ("auto", "calibrated"):
        return text
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            "--source-weights must be auto, calibrated, the trust in the graph, such as 0.3, or "
            f"three numbers, such as 1,2.5,13; got {text!r}"
        ) from None
    return numbers[0] if len(numbers) == 1 else numbers


@contextmanager
def _cluster(scheduler: str | None, out: Path | None) -> Iterator[DaskEngine | None]:
    """Connect to a Dask cluster, if one is named; workers save memberships beside `out`."""
    if scheduler is None:
        yield None
        return
    try:
        from distributed import Client
        from distributed.comm.addressing import resolve_address
    except ImportError:
        raise MissingExtraError("distributed", "dask") from None
    # The command itself reports problems with a cluster, in one line.
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        resolve_address(scheduler)  # a client without a usable address takes long to give up
        client = Client(scheduler, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(f"--scheduler {scheduler}: no cluster responds ({error})") from None
    with client:
        yield DaskEngine(client, None if out is None else resolved(out).parent)


@contextmanager
def _keeping(saved: Checkpoint | None) -> Iterator[None]:
    """Where results cannot be written, add to the error that the fit is not lost."""
    try:
        yield
    except (InputError, OSError) as error:
        if saved is None or not saved.path.exists():
            raise
        raise InputError(
            f"{error}; the fit is kept in {saved.folder}: run the same command again"
        ) from None


def _search_proof(fitted: Fitted, budget: float, show: bool) -> Certificate:
    """Certify the labelling, for the report; Ctrl-C ends the search, not the command."""
    with LiveLine(enabled=show) as line:

        def tell(stage: Stage) -> None:
            spent = f"{stage.seconds:.0f} of {budget:.0f} s; Ctrl-C stops"
            line.show(f"searching a proof: {progress_of(stage)} ({spent})")

        return fitted.certify(time_budget=budget, callback=tell)


def _doubts(fitted: Fitted, weights: str) -> str | None:
    """Return a note if the fit contradicts most labels: then it is hardly they that are wrong."""
    given = len(fitted.labelled)
    suspects = len(fitted.suspects)
    if 2 * suspects <= given:
        return None
    advice = "check that labels and links use the same node names"
    if weights not in ("auto", "calibrated"):
        advice = f"try --source-weights auto, or {advice}"
    return f"more than half of the given labels look wrong, {suspects} of {given}: {advice}"


def _labels(given: dict[str, int], unlabelled: int, suspects: int) -> str:
    if not given:
        return "none"
    look = "looks" if suspects == 1 else "look"
    return (
        f"{sum(given.values())} ({listed_classes(given)}), of which {suspects} {look} wrong; "
        f"{count_of(unlabelled, 'node')} without a label"
    )


def _estimate(fitted: Fitted) -> str:
    if fitted.estimated_accuracy is None:
        return ""
    estimate, low, high = fitted.estimated_accuracy
    meaning = meaning_of_accuracy(fitted)
    return f"{estimate:.3f} (95% interval {low:.3f} to {high:.3f}): {meaning}"


def _show(summary: dict[str, Any], fitted: Fitted, written: list[Path]) -> None:
    table = Table(
        title=f"{summary['nodes']:,} nodes, {summary['links']:,} links", show_header=False
    )
    sources = ", ".join(f"{name} {share:.0%}" for name, share in summary["sources"].items())
    counted = summary["choices"].get("n_classes")
    sweeps = count_of(summary["sweeps"], "sweep")
    rows = {
        "features": listed_features(summary["features"], summary["feature_names"]),
        "given labels": _labels(
            summary["given_labels"], summary["unlabelled"], summary["suspects"]
        ),
        "classes found": f"{counted['value']}; {counted['why']}" if counted else "",
        "classes": listed_classes(summary["classes"]),
        "decided by": sources or "–",
        "mean probability": f"{summary['mean_probability']:.3f}",
        "estimated accuracy": _estimate(fitted),
        "their class mix": _unbroken(class_mix(fitted)),
        "prediction sets": shown_sets(summary.get("sets")),
        "skewed classes": _unbroken(", ".join(map(str, scores(fitted)))),
        "fit": f"{summary['status']} after {sweeps}, {summary['seconds']} s",
        "written": ", ".join(map(str, written)),
    }
    for key, value in rows.items():
        if value:
            table.add_row(key, value)
    screen.print(table)
    _show_experts(fitted)


def _unbroken(text: str) -> str:
    """Return a text in which no line breaks before a percent sign; rich breaks at any space."""
    return text.replace("\xa0%", "%")


def _show_experts(fitted: Fitted) -> None:
    """Print which experts decided, by what weights, and why others did not."""
    found = expert_table(fitted.choices)
    if found is None:
        return
    table = Table(title="What the decision rests on")
    table.add_column("expert")
    table.add_column("draws on")
    table.add_column("log-loss", justify="right")
    table.add_column("weight", justify="right")
    for row in found.rows:
        about = f"{row.about} ({row.setting})" if row.setting else row.about
        table.add_row(row.expert, about, row.log_loss, _unbroken(row.weight))
    table.add_section()
    for compared in found.compared:
        table.add_row(*compared)
    screen.print(table)
    screen.print(_unbroken(found.verdict), _unbroken(found.reading))
    for names, why in found.left_out:
        screen.print(f"Left out: {names} ({why}).")
