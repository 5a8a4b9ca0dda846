"""Tables and a picture of what has been measured."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from nodeproof.storage.atomic import atomic_path
from nodeproof.storage.journal import Record
from peers.cells import Cell
from peers.picture import Line, draw_scatter
from processes import machine

Result = tuple[Cell, Record]

#: how a figure is written: its head, its format, its factor
_FIGURES = {
    "accuracy": ("accuracy %", ".1f", 100.0),
    "log_loss": ("log-loss", ".3f", 1.0),
    "ece": ("ECE", ".3f", 1.0),
}

_MEASURED = (
    "Each fit in a fresh process. Seconds: wall clock of the whole fit with all preprocessing and "
    "search, median over splits; without imports, reading the file and a first fit on a small "
    "graph, which compiles. MB: most memory during the fit above what was held before it "
    "(interpreter, packages and data), median. Accuracy, log-loss and expected calibration error "
    "on the test nodes: mean ± standard deviation over splits."
)


@dataclass(frozen=True)
class Difference:
    """Difference of two methods on the same splits: mean and 95 % t-interval."""

    set_name: str
    method: str
    peer: str
    figure: str
    n: int
    mean: float
    low: float
    high: float


def summarise(results: Sequence[Result]) -> list[Line]:
    """Return one line per set and method, in the order in which they were asked for."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for cell, record in results:
        groups.setdefault((cell.set_name, cell.method), []).append(record)
    return [_line(*names, records) for names, records in groups.items()]


def _line(set_name: str, method: str, records: list[Record]) -> Line:
    done = [record for record in records if "error" not in record]

    def median(name: str) -> float:
        return float(np.median([record[name] for record in done])) if done else np.nan

    figures = {}
    for name in _FIGURES:
        values = [record[name] for record in done]
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        figures[name] = (float(np.mean(values)) if done else np.nan, spread)
    return Line(
        set_name,
        method,
        len(done),
        figures,
        median("seconds"),
        median("cpu_seconds"),
        median("peak_mb"),
        any("stopped" in note for record in done for note in record["notes"]),
        tuple(sorted({record["error"] for record in records if "error" in record})),
    )


def paired(results: Sequence[Result], figures: Iterable[str]) -> list[Difference]:
    """Return nodeproof − peer, for every pair of them and every set, over common splits."""
    found: dict[tuple[str, str], dict[int, Record]] = {}
    for cell, record in results:
        if "error" not in record:
            found.setdefault((cell.set_name, cell.method), {})[cell.number] = record
    figures = tuple(figures)
    differences = []
    for (set_name, method), ours in found.items():
        if not method.startswith("nodeproof"):
            continue
        for (other_set, peer), theirs in found.items():
            numbers = sorted(ours.keys() & theirs.keys())
            if other_set != set_name or peer.startswith("nodeproof") or not numbers:
                continue
            for figure in figures:
                values = [ours[k][figure] - theirs[k][figure] for k in numbers]
                interval = mean_interval(values)
                differences.append(
                    Difference(set_name, method, peer, figure, len(numbers), *interval)
                )
    return differences


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean and its 95 % t-interval; without one for a single value.

    Examples
    --------
    >>> [round(x, 3) for x in mean_interval([1.0, 2.0, 3.0])]
    [2.0, -0.484, 4.484]
    """
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, np.nan, np.nan
    reach = stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return mean, mean - float(reach), mean + float(reach)


def write_report(results: Sequence[Result], out: Path) -> None:
    """Write results.json, results.csv, results.md and, with matplotlib, results.png and .svg."""
    lines, differences = summarise(results), paired(results, ("accuracy", "log_loss"))
    content = {
        "machine": machine(),
        "summary": [vars(line) for line in lines],
        "paired": [vars(difference) for difference in differences],
        "cells": [{**vars(cell), "path": cell.set_name, **record} for cell, record in results],
    }
    with atomic_path(out / "results.json") as path:
        path.write_text(json.dumps(_without_nan(content), indent=1) + "\n", encoding="utf-8")
    with atomic_path(out / "results.csv") as path, path.open("w", newline="") as file:
        _write_csv(results, file)
    with atomic_path(out / "results.md") as path:
        path.write_text(markdown(results, lines, differences), encoding="utf-8")
    draw_scatter(lines, out)


def _write_csv(results: Sequence[Result], file: Any) -> None:
    names = ["set", "split", "number", "flip", "validation", "method", *_FIGURES,
             "seconds", "cpu_seconds", "peak_mb", "error"]  # fmt: skip
    writer = csv.DictWriter(file, names, extrasaction="ignore")
    writer.writeheader()
    for cell, record in results:
        row = {
            **vars(cell),
            "set": cell.set_name,
            "split": "random" if cell.random else "public",
            **record,
        }
        writer.writerow(row)


def markdown(
    results: Sequence[Result], lines: Sequence[Line], differences: Sequence[Difference]
) -> str:
    """Return the tables as a page of Markdown."""
    host = machine()
    about = ", ".join(f"{name} {version}" for name, version in host["versions"].items())
    parts = [
        "# Node classification on real graphs",
        f"{host['cpu']}, {host['cores']} cores, Python {host['python']}; {about}.",
        _MEASURED,
    ]
    for set_name in dict.fromkeys(line.set_name for line in lines):
        cells = [cell for cell, _ in results if cell.set_name == set_name]
        parts += [f"## {set_name}", _describe(cells)]
        parts.append(_table([line for line in lines if line.set_name == set_name]))
        for method in dict.fromkeys(d.method for d in differences if d.set_name == set_name):
            chosen = [d for d in differences if (d.set_name, d.method) == (set_name, method)]
            parts += [f"{method} − peer, mean and 95 % t-interval:", _paired_table(chosen)]
    if any(line.cut_short for line in lines):
        parts.append("\\* training was stopped at the time limit; the best epoch by then counts.")
    return "\n\n".join(parts) + "\n"


def _describe(cells: Sequence[Cell]) -> str:
    first, n = cells[0], len({cell.number for cell in cells})
    if first.random:
        kind = (
            f"Random splits ({n}): 20 labels per class for training, 30 for validation, of small "
            "classes a third"
        )
    else:
        kind = f"Public split (seeds: {n})"
    if not first.validation:
        kind += "; validation labels hidden from all methods"
    if first.flip:
        kind += f"; {first.flip:.0%} of the training labels flipped"
    return f"{kind}; threads: {first.threads}."


def _table(lines: Sequence[Line]) -> str:
    heads = [head for head, _, _ in _FIGURES.values()]
    rows = [["method", *heads, "seconds", "MB", "fits"]]
    failed = []
    for line in lines:
        star = "\\*" if line.cut_short else ""
        if line.n == 0:
            rows.append([line.method, *["–"] * 6])
        else:
            figures = [
                _spread(*line.figures[name], line.n, form, factor)
                for name, (_, form, factor) in _FIGURES.items()
            ]
            rows.append(
                [
                    line.method + star,
                    *figures,
                    f"{line.seconds:.3g}",
                    f"{line.peak_mb:.0f}",
                    str(line.n),
                ]
            )
        failed += [f"{line.method} failed: {error}" for error in line.errors]
    return "\n\n".join([_markdown_rows(rows), *failed])


def _spread(mean: float, deviation: float, n: int, form: str, factor: float) -> str:
    around = f" ± {factor * deviation:{form}}" if n > 1 else ""
    return f"{factor * mean:{form}}{around}"


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
    return _markdown_rows(rows)


def _interval(difference: Difference, factor: float, form: str) -> str:
    mean = f"{factor * difference.mean:{form}}"
    if np.isnan(difference.low):
        return mean
    return f"{mean} [{factor * difference.low:{form}}, {factor * difference.high:{form}}]"


def _markdown_rows(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    rule = ["---", *["--:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *body))


def _without_nan(value: Any) -> Any:
    """Return the value with null for not-a-number, which JSON does not know."""
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and np.isnan(value) else value
