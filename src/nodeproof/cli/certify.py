"""`nodeproof certify`: a saved model in, a proof or a bound out."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.table import Table

from nodeproof import __version__
from nodeproof.certificate import Certificate, Stage
from nodeproof.cli.console import LiveLine, note, screen
from nodeproof.cli.results import progress_of, write_csv
from nodeproof.cli.terminal import as_text, check_places, find_model, import_parts, print_document
from nodeproof.errors import InputError, MissingExtraError
from nodeproof.fitted import Fitted
from nodeproof.report.wording import gap
from nodeproof.saving.model import load_model
from nodeproof.storage.atomic import atomic_folder, atomic_path, check_writable

__all__ = ["draw_certificate", "run_certify"]

_NAMES = ("certificate.npz", "certificate.json", "certificate.csv", "certificate.png")


def run_certify(
    model: Path,
    *,
    time_budget: float,
    tolerance: float | None,
    verify: bool,
    about: Path | None,
    terms: tuple[str, ...],
    own_experts: tuple[str, ...],
    safe_csv: bool,
    as_json: bool,
) -> None:
    """Certify the model in a folder, or verify the certificate in it."""
    import_parts(terms, own_experts)
    folder = model if model.is_dir() else model.parent
    if verify:
        file = folder / "certificate.npz" if model.is_dir() else model
        beside = folder / "model.npz"
        _verify(file, beside if about is None else find_model(about), tolerance, as_json)
        return
    if about is not None:
        raise InputError("--model is only used with --verify; the model to certify is DIR")
    fitted = load_model(find_model(model))
    check_writable(folder)
    check_places(folder, _NAMES)
    with LiveLine(enabled=not as_json) as line:

        def tell(stage: Stage) -> None:
            spent = f"{stage.seconds:.0f} s; Ctrl-C stops and saves"
            line.show(f"{stage.method}: {progress_of(stage)} ({spent})")

        proof = fitted.certify(time_budget=time_budget, tolerance=tolerance, callback=tell)
    excluded = int(fitted.excluded_by(proof).sum())
    summary = {"nodeproof": __version__, **proof.summary(), "excluded": excluded}
    written = _write(fitted, proof, summary, folder, safe_csv)
    if as_json:
        print_document({**summary, "written": [str(path) for path in written]})
    else:
        _show(proof, excluded, written)
    if proof.interrupted:
        sys.exit(130)


def _write(
    fitted: Fitted, proof: Certificate, summary: dict[str, Any], folder: Path, safe: bool
) -> list[Path]:
    """Write the certificate, its summary and the table of nodes; return the files."""
    *names, picture = _NAMES
    with atomic_folder(folder) as temporary:
        proof.save(temporary / names[0])
        (temporary / names[1]).write_text(as_text(summary), encoding="utf-8")
        table = {
            "node": pa.array(fitted.names),
            "label": pa.array(fitted.labels),
            "best_label": pa.array(fitted.classes[proof.labels]),
            "certified": pa.array(proof.certified_nodes),
            "excluded": pa.array(fitted.excluded_by(proof)),
        }
        write_csv(table, temporary / names[2], safe)
        try:
            names.append(draw_certificate(proof, temporary / picture).name)
        except MissingExtraError as missing:
            note(f"no picture: {missing}")
    return [folder / name for name in names]


def draw_certificate(proof: Certificate, path: Path) -> Path:
    """Draw it to a file."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise MissingExtraError("matplotlib", "plot") from None
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 2.8), layout="constrained")
    proof.plot(axes)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=150)
    plt.close(figure)
    return path


def _verify(file: Path, model: Path, tolerance: float | None, as_json: bool) -> None:
    """Report whether a certificate holds and belongs to a model."""
    began = time.perf_counter()
    proof = Certificate.load(file)
    if model.is_file():
        found = proof.verify(load_model(model), tolerance=tolerance)
        reason = "" if found else f"{file} against {model}: {found.reason}"
    else:
        found = proof.verify(tolerance=tolerance)
        reason = (
            f"nothing to check {file} against: there is no {model}; give the certified model with "
            "--model"
        )
    summary = {
        "nodeproof": __version__,
        "status": proof.status if found else "refused",
        "confirmed": found.holds,
        "reason": reason,
        "objective": found.objective,
        "lower_bound": found.lower_bound,
        "tolerance": found.tolerance,
        "seconds": round(time.perf_counter() - began, 3),
    }
    if as_json:
        print_document(summary)
    elif found:
        screen.print(f"confirmed: {proof.explain()}", soft_wrap=True)
    else:
        screen.print(f"refused: {reason}", soft_wrap=True)
    if not found:
        sys.exit(1)


def _show(proof: Certificate, excluded: int, written: list[Path]) -> None:
    table = Table(title=proof.status, show_header=False, min_width=60)
    table.add_row("meaning", proof.explain())
    if proof.status != "not applicable":
        table.add_row("objective", f"{proof.objective:,.6f}")
        table.add_row("lower bound", f"{proof.lower_bound:,.6f}")
        if not proof.certified:
            table.add_row("gap", gap(proof.gap_nats, proof.gap))
        sure, n = int(proof.certified_nodes.sum()), len(proof.labels)
        names = ", up to the names of the classes" if proof.renaming else ""
        table.add_row("certified nodes", f"{sure:,} of {n:,}{names}")
        if excluded:
            words = "no optimal labelling keeps this label: for the fitted models, which does not"
            table.add_row("excluded labels", f"{excluded:,} ({words} prove it wrong)")
        if len(proof.moved):
            table.add_row("labels differ from the fit", f"{len(proof.moved):,} nodes")
        table.add_row("search", f"{proof.method}, {proof.seconds:.1f} s")
    table.add_row("written", ", ".join(str(path) for path in written))
    screen.print(table)
