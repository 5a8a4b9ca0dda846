"""Report data on single nodes: sources of evidence and suspect labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.report.data import ReportData

__all__ = ["node_data", "sources", "suspects"]

# The most rows in the table of suspects; the rest is only counted.
_MOST_SUSPECTS = 2_000


def sources(report: ReportData) -> dict[str, Any] | None:
    """Return how much each source contributed, overall and per class."""
    overall = report.fitted.sources
    if not overall:
        return None
    findings = report.findings
    sampled = findings.sampled
    nodes = findings.nodes[sampled]
    codes = report.codes[nodes]
    second, first = np.argsort(report.fitted.proba[nodes], axis=1)[:, -2:].T
    rows = np.arange(len(codes))
    margins = np.array(
        [
            np.bincount(
                codes,
                weights=(scores[rows, first] - scores[rows, second]).astype(float),
                minlength=report.K,
            )
            for scores in (every[sampled] for every in findings.evidence.values())
        ]
    )
    helpful = np.maximum(margins, 0.0)
    whole = helpful.sum(axis=0)
    names = list(findings.evidence)
    return {
        "overall": [{"source": s, "share": share} for s, share in overall.items()],
        "classes": [
            {
                "name": report.names[k],
                "parts": [
                    {"source": s, "share": float(helpful[at, k] / whole[k])}
                    for at, s in enumerate(names)
                ],
            }
            for k in report.shown_classes
            if whole[k] > 0
        ],
        "names": names,
    }


def suspects(report: ReportData) -> dict[str, Any]:
    """Return the given labels that look wrong, most suspect first."""
    found = report.fitted.suspects_by(report.certificate)
    kept: Any = found[:_MOST_SUSPECTS]
    place = {int(v): at for at, v in enumerate(report.findings.nodes.tolist())}
    names = report.node_names(kept.node)
    return {
        "rows": [
            {
                "at": place.get(int(record.node), -1),
                "name": name,
                "given": str(record.given),
                "suggested": str(record.suggested),
                "p_wrong": min(float(record.p_wrong), 1.0 - 1e-9),  # never shown as 100 %
                "excluded": bool(record.excluded),
            }
            for record, name in zip(kept, names, strict=True)
        ],
        "count": len(found),
        "excluded": int(found.excluded.sum()),
    }


def node_data(report: ReportData) -> dict[str, Any]:
    """Return the data for the script that shows a picked node."""
    findings, fitted = report.findings, report.fitted
    nodes = findings.nodes
    given = np.full(len(nodes), -1) if fitted.given is None else fitted.given[nodes]
    proof, sure = report.certificate, None
    if proof is not None and proof.status != "not applicable":
        proven = report.codes if proof.renaming else proof.labels
        sure = np.where(proof.certified_nodes, proven, -1)[nodes].tolist()
    evidence = {}
    for source, scores in findings.evidence.items():
        centred = scores - scores.mean(axis=1, keepdims=True)
        evidence[source] = _rounded(centred, 2)
    return {
        "classes": report.names,
        "names": report.node_names(nodes),
        "n": report.n,
        "rows": None if len(nodes) == report.n else nodes.tolist(),
        "proba": _rounded(fitted.proba[nodes], 4),
        "evidence": evidence,
        "linked": None if findings.linked is None else _rounded(findings.linked, 2),
        "given": given.tolist(),
        "sure": sure,
        "suspect": np.flatnonzero(np.isin(nodes, fitted.suspects.node)).tolist(),
        "excluded": np.flatnonzero(fitted.excluded_by(proof)[nodes]).tolist(),
    }


def _rounded(matrix: NDArray[Any], digits: int) -> list[float]:
    """Return the entries of a matrix in few characters: integers, in units of the last digit."""
    return np.round(matrix.astype(np.float64) * 10**digits).astype(np.int64).ravel().tolist()
