"""What the report says of single nodes: what decided, which labels look wrong, and why."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.report.subject import Subject

__all__ = ["node_data", "sources", "suspects"]

# Rows of a table of suspects; the rest is counted.
_MOST_SUSPECTS = 2_000


def sources(subject: Subject) -> dict[str, Any] | None:
    """Return how much each source contributed, in all and class by class."""
    overall = subject.fitted.sources
    if not overall:
        return None
    findings = subject.findings
    even = findings.even
    codes = subject.codes[findings.nodes[even]]
    second, first = np.argsort(subject.fitted.proba[findings.nodes[even]], axis=1)[:, -2:].T
    rows = np.arange(len(codes))
    margins = np.array(
        [
            np.bincount(
                codes,
                weights=(scores[even][rows, first] - scores[even][rows, second]).astype(float),
                minlength=subject.K,
            )
            for scores in findings.evidence.values()
        ]
    )
    helpful = np.maximum(margins, 0.0)
    whole = helpful.sum(axis=0)
    names = list(findings.evidence)
    return {
        "overall": [{"source": s, "share": share} for s, share in overall.items()],
        "classes": [
            {
                "name": subject.names[k],
                "parts": [
                    {"source": s, "share": float(helpful[at, k] / whole[k])}
                    for at, s in enumerate(names)
                ],
            }
            for k in subject.shown_classes
            if whole[k] > 0
        ],
        "names": names,
    }


def suspects(subject: Subject) -> dict[str, Any]:
    """Return the given labels that look wrong, most suspect first."""
    found = subject.fitted.suspects
    kept: Any = found[:_MOST_SUSPECTS]
    place = {int(v): at for at, v in enumerate(subject.findings.nodes.tolist())}
    names = subject.node_names(kept.node)
    return {
        "rows": [
            {
                "at": place.get(int(record.node), -1),
                "name": name,
                "given": str(record.given),
                "suggested": str(record.suggested),
                "p_wrong": min(float(record.p_wrong), 1.0 - 1e-9),  # nothing is that sure
            }
            for record, name in zip(kept, names, strict=True)
        ],
        "count": len(found),
    }


def node_data(subject: Subject) -> dict[str, Any]:
    """Return what the script needs to show a node that is picked."""
    findings, fitted = subject.findings, subject.fitted
    nodes = findings.nodes
    given = np.full(len(nodes), -1) if fitted.given is None else fitted.given[nodes]
    sure = None
    if subject.certificate is not None and subject.certificate.status != "not applicable":
        sure = subject.certificate.certified_nodes[nodes].astype(int).tolist()
    evidence = {}
    for source, scores in findings.evidence.items():
        centred = scores - scores.mean(axis=1, keepdims=True)
        evidence[source] = _rounded(centred, 2)
    return {
        "classes": subject.names,
        "names": subject.node_names(nodes),
        "n": subject.n,
        "proba": _rounded(fitted.proba[nodes], 4),
        "evidence": evidence,
        "linked": None if findings.linked is None else _rounded(findings.linked, 2),
        "given": given.tolist(),
        "sure": sure,
        "suspect": np.flatnonzero(np.isin(nodes, fitted.suspects.node)).tolist(),
    }


def _rounded(matrix: NDArray[Any], digits: int) -> list[float]:
    """Return a matrix row by row in few characters: integers, in units of the last digit."""
    return np.round(matrix.astype(np.float64) * 10**digits).astype(np.int64).ravel().tolist()
