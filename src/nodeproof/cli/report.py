"""`nodeproof report`: a saved model in, an HTML page out."""

from __future__ import annotations

import math
from pathlib import Path

from nodeproof import __version__
from nodeproof.certificate import Certificate
from nodeproof.certificate.labelling.verify import why_not_about
from nodeproof.cli.console import note, screen
from nodeproof.cli.terminal import check_file, import_parts, print_document
from nodeproof.fitted import Fitted
from nodeproof.report import write_report
from nodeproof.report.targets import write_target_report
from nodeproof.saving.model import load_model
from nodeproof.saving.targets import is_of_targets, load_targets

__all__ = ["run_report"]


def run_report(
    file: Path,
    *,
    out: Path | None,
    title: str,
    terms: tuple[str, ...],
    own_experts: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write the report on the model in a folder."""
    out = file.with_name("report.html") if out is None else out
    check_file(out, file)
    if is_of_targets(file):
        write_target_report(load_targets(file), out, title=title)
        proof = None
    else:
        proof = _write_report(file, out, title, terms, own_experts)
    if as_json:
        written = {"nodeproof": __version__, "report": str(out), "certificate": proof is not None}
        print_document(written)
    else:
        screen.print(f"written: {out}", soft_wrap=True)


def _write_report(
    file: Path, out: Path, title: str, terms: tuple[str, ...], own_experts: tuple[str, ...]
) -> Certificate | None:
    """Write the report on a model of classes, and return the certificate that it shows."""
    import_parts(terms, own_experts)
    fitted = load_model(file)
    proof = _certificate_of(fitted, file.with_name("certificate.npz"))
    write_report(fitted, out, certificate=proof, title=title)
    return proof


def _certificate_of(fitted: Fitted, file: Path) -> Certificate | None:
    """Return the certificate in a model's folder, unless it is invalid or of another model."""
    if not file.is_file():
        return None
    proof = Certificate.load(file)
    if proof.status == "not applicable":
        wrong = why_not_about(proof, fitted)
    else:  # any finite tolerance will do: the page states it
        tolerance = proof.tolerance if 0 <= proof.tolerance < math.inf else None
        wrong = proof.verify(fitted, tolerance=tolerance).reason
    if wrong:
        note(f"{file} is omitted from the report: {wrong}")
        return None
    return proof
