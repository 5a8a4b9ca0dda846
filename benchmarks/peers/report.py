"""Tables and pictures of what has been measured."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from nodeproof.storage.atomic import atomic_path
from peers.page import covered, markdown_rows, measured_with, number, overview
from peers.picture import draw_scatter
from peers.protocols import PROTOCOLS
from peers.summary import FIGURES, Difference, Line, Result, mean_ranks, paired, summarise
from processes import machine

__all__ = ["Result", "markdown", "speed_table", "write_report"]

_MEASURED = (
    "Each fit in a fresh process. Seconds: wall clock of the whole fit with all preprocessing and "
    "search, median over splits; without imports, reading the file and a first fit on a small "
    "graph, which compiles. MB: most memory during the fit above what was held before it "
    "(interpreter, packages and data), median. All other figures are of the test nodes: mean ± "
    "standard deviation over splits."
)

_PAIRED = ("accuracy", "log_loss")


def write_report(results: Sequence[Result], out: Path) -> None:
    """Write results.json, results.csv, results.md and, with matplotlib, a picture per protocol."""
    lines = summarise(results)
    protocols = list(dict.fromkeys(line.protocol for line in lines))
    ranks = {p: mean_ranks([line for line in lines if line.protocol == p]) for p in protocols}
    content = {
        "machine": machine(),
        "mean_ranks": {**ranks, "overall": mean_ranks(lines)},
        "summary": [asdict(line) for line in lines],
        "paired": [vars(difference) for difference in paired(results, _PAIRED)],
        "cells": [{**vars(cell), "source": cell.set_name, **record} for cell, record in results],
    }
    with atomic_path(out / "results.json") as path:
        path.write_text(json.dumps(_without_nan(content), indent=1) + "\n", encoding="utf-8")
    with atomic_path(out / "results.csv") as path, path.open("w", newline="") as file:
        _write_csv(results, file)
    with atomic_path(out / "results.md") as path:
        path.write_text(markdown(results), encoding="utf-8")
    for name in protocols:
        chosen = [line for line in lines if line.protocol == name]
        draw_scatter(chosen, out / f"results-{PROTOCOLS[name].file_name}")


def speed_table(results: Sequence[Result], versus: str) -> str:
    """Return the seconds of nodeproof and of another method, and their ratios, as a table.

    Of several splits the fastest fit counts, of both.
    """
    fastest: dict[tuple[str, str], dict[str, float]] = {}
    for cell, record in results:
        if "error" not in record:
            own = fastest.setdefault((cell.set_name, cell.protocol), {})
            own[cell.method] = min(record["seconds"], own.get(cell.method, np.inf))
    both = {key: own for key, own in fastest.items() if {"nodeproof", versus} <= set(own)}
    lines = [
        f"| set | protocol | nodeproof s | {versus} s | times faster |",
        "|---|---|--:|--:|--:|",
    ]
    for (name, protocol), own in sorted(both.items()):
        ratio = own[versus] / own["nodeproof"]
        lines.append(
            f"| {name} | {protocol} | {own['nodeproof']:.2f} | {own[versus]:.2f} | {ratio:.1f} |"
        )
    ratios = [own[versus] / own["nodeproof"] for own in both.values()]
    if ratios:
        slower = sum(ratio < 1.0 for ratio in ratios)
        lines.append(
            f"\nMedian {np.median(ratios):.1f} × faster, least {min(ratios):.1f} ×; "
            f"slower in {slower} of {len(ratios)}."
        )
    return "\n".join(lines)


def _write_csv(results: Sequence[Result], file: Any) -> None:
    names = ["protocol", "set", "number", "flip", "validation", "method", *FIGURES,
             "seconds", "cpu_seconds", "peak_mb", "estimate", "low", "high", "covered",
             "suspected", "suspects_wrong", "error"]  # fmt: skip
    writer = csv.DictWriter(file, names, extrasaction="ignore")
    writer.writeheader()
    for cell, record in results:
        row = {**vars(cell), "set": cell.set_name, **record}
        row |= zip(("estimate", "low", "high"), record.get("estimate") or [None] * 3, strict=True)
        writer.writerow(row)


def markdown(results: Sequence[Result]) -> str:
    """Return the tables as a page of Markdown: in short, then every set by itself."""
    lines, differences = summarise(results), paired(results, _PAIRED)
    parts = ["# Node classification on real data", measured_with(), _MEASURED]
    parts.append(overview(results, level=2))
    for protocol, set_name in dict.fromkeys((line.protocol, line.set_name) for line in lines):
        where = (protocol, set_name)
        cells = [cell for cell, _ in results if (cell.protocol, cell.set_name) == where]
        n_splits = len({cell.number for cell in cells})
        parts += [
            f"## {set_name}, {protocol}",
            f"Splits or seeds: {n_splits}; threads: {cells[0].threads}.",
            _table([line for line in lines if (line.protocol, line.set_name) == where]),
        ]
        here = [d for d in differences if (d.protocol, d.set_name) == where]
        for method in dict.fromkeys(d.method for d in here):
            chosen = [d for d in here if d.method == method]
            parts += [f"{method} − peer, mean and 95 % t-interval:", _paired_table(chosen)]
    return "\n\n".join(parts) + "\n"


def _table(lines: Sequence[Line]) -> str:
    names = [name for name in FIGURES if any(not np.isnan(each.figures[name][0]) for each in lines)]
    claims = ["within", "suspected %"] if any(line.claims for line in lines) else []
    rows = [["method", *(FIGURES[name][0] for name in names), *claims, "seconds", "MB", "fits"]]
    failed = []
    for line in lines:
        if line.n == 0:
            rows.append([line.method, *["–"] * (len(rows[0]) - 1)])
        else:
            rows.append(
                [
                    line.method + ("\\*" if line.cut_short else ""),
                    *(_spread(line, name) for name in names),
                    *(_claims(line) if claims else []),
                    f"{line.seconds:.3g}",
                    f"{line.peak_mb:.0f}",
                    str(line.n),
                ]
            )
        failed += [f"{line.method} failed: {error}" for error in line.errors]
    return "\n\n".join([markdown_rows(rows), *failed])


def _claims(line: Line) -> list[str]:
    if line.claims is None:
        return ["–", "–"]
    return [covered(line.claims.covered, line.claims.n), number(100 * line.claims.suspected, ".1f")]


def _spread(line: Line, name: str) -> str:
    _, form, factor = FIGURES[name]
    mean, deviation = line.figures[name]
    around = f" ± {factor * deviation:{form}}" if line.n > 1 else ""
    return number(factor * mean, form) + around


def _paired_table(differences: Sequence[Difference]) -> str:
    by_peer: dict[str, dict[str, Difference]] = {}
    for difference in differences:
        by_peer.setdefault(difference.peer, {})[difference.figure] = difference
    rows = [["peer", "accuracy, points", "log-loss", "splits"]]
    for peer, found in by_peer.items():
        rows.append(
            [
                peer,
                _interval(found["accuracy"], 100.0, "+.2f"),
                _interval(found["log_loss"], 1.0, "+.3f"),
                str(found["accuracy"].n),
            ]
        )
    return markdown_rows(rows)


def _interval(difference: Difference, factor: float, form: str) -> str:
    mean = f"{factor * difference.mean:{form}}"
    if np.isnan(difference.low):
        return mean
    return f"{mean} [{factor * difference.low:{form}}, {factor * difference.high:{form}}]"


def _without_nan(value: Any) -> Any:
    """Return the value with null for not-a-number, which JSON does not know."""
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and np.isnan(value) else value
