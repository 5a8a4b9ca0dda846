"""What many fits have in common: means over splits, ranks, claims, and paired differences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from nodeproof.storage.journal import Record
from peers.cells import Cell

Result = tuple[Cell, Record]

#: how a figure is written: its head, its format, its factor
FIGURES = {
    "accuracy": ("accuracy %", ".1f", 100.0),
    "balanced_accuracy": ("balanced %", ".1f", 100.0),
    "roc_auc": ("ROC AUC", ".3f", 1.0),
    "ece": ("ECE", ".3f", 1.0),
    "mean_probability": ("mean probability", ".3f", 1.0),
    "log_loss": ("log-loss", ".3f", 1.0),
}


@dataclass(frozen=True)
class Claims:
    """What a method said about itself, over n fits.

    Parameters
    ----------
    n : int
        Fits that gave an interval for their accuracy.
    covered : int
        Of these, those whose accuracy on the test nodes lies in it.
    estimate : float
        Mean of the accuracies that were expected.
    suspected : float
        Mean share of the training labels that were held wrong.
    suspects_wrong : float
        Share of the first suspects whose label is wrong indeed.
    """

    n: int
    covered: int
    estimate: float
    suspected: float
    suspects_wrong: float


@dataclass(frozen=True)
class Line:
    """The figures of one method on one set by one protocol; mean and deviation over splits."""

    protocol: str
    set_name: str
    method: str
    n: int
    figures: dict[str, tuple[float, float]]
    seconds: float
    cpu_seconds: float
    peak_mb: float
    claims: Claims | None
    cut_short: bool
    errors: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """Difference of two methods on the same splits: mean and 95 % t-interval."""

    protocol: str
    set_name: str
    method: str
    peer: str
    figure: str
    n: int
    mean: float
    low: float
    high: float


def summarise(results: Sequence[Result]) -> list[Line]:
    """Return one line per protocol, set and method, in the order in which they were asked for."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for cell, record in results:
        groups.setdefault((cell.protocol, cell.set_name, cell.method), []).append(record)
    return [_line(*names, records) for names, records in groups.items()]


def _line(protocol: str, set_name: str, method: str, records: list[Record]) -> Line:
    done = [record for record in records if "error" not in record]

    def median(name: str) -> float:
        return float(np.median([record[name] for record in done])) if done else np.nan

    figures = {}
    for name in FIGURES:
        values = [record[name] for record in done if record[name] is not None]
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        figures[name] = (mean(values), spread)
    return Line(
        protocol,
        set_name,
        method,
        len(done),
        figures,
        median("seconds"),
        median("cpu_seconds"),
        median("peak_mb"),
        claims_of(done),
        any("stopped" in note for record in done for note in record["notes"]),
        tuple(sorted({record["error"] for record in records if "error" in record})),
    )


def claims_of(records: Iterable[Record]) -> Claims | None:
    """Return what was said in these fits; None if their method says nothing about itself."""
    said = [record for record in records if "covered" in record]
    if not said:
        return None
    judged = [record for record in said if record["covered"] is not None]
    wrong = [r["suspects_wrong"] for r in said if r["suspects_wrong"] is not None]
    return Claims(
        len(judged),
        sum(record["covered"] for record in judged),
        mean([record["estimate"][0] for record in judged]),
        mean([record["suspected"] for record in said]),
        mean(wrong),
    )


def mean_ranks(lines: Sequence[Line]) -> dict[str, float]:
    """Return each method's rank by accuracy, its mean over the sets and protocols it was run on.

    Equal methods share a rank; failed ones share the last.
    """
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        groups.setdefault((line.protocol, line.set_name), []).append(line)
    ranks: dict[str, list[float]] = {}
    for group in groups.values():
        reached = [line.figures["accuracy"][0] if line.n else -1.0 for line in group]
        for line, rank in zip(group, stats.rankdata(-np.array(reached)), strict=True):
            ranks.setdefault(line.method, []).append(float(rank))
    return {method: mean(found) for method, found in ranks.items()}


def paired(results: Sequence[Result], figures: Iterable[str]) -> list[Difference]:
    """Return nodeproof − peer, for every pair of them, set and protocol, over common splits."""
    found: dict[tuple[str, str], dict[str, dict[int, Record]]] = {}
    for cell, record in results:
        if "error" not in record:
            methods = found.setdefault((cell.protocol, cell.set_name), {})
            methods.setdefault(cell.method, {})[cell.number] = record
    figures = tuple(figures)
    differences = []
    for where, methods in found.items():
        own = [method for method in methods if method.startswith("nodeproof")]
        for method, peer in ((m, p) for m in own for p in methods if p not in own):
            ours, theirs = methods[method], methods[peer]
            numbers = sorted(ours.keys() & theirs.keys())
            for figure in figures if numbers else ():
                values = [ours[k][figure] - theirs[k][figure] for k in numbers]
                interval = mean_interval(values)
                differences.append(
                    Difference(*where, method, peer, figure, len(numbers), *interval)
                )
    return differences


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean and its 95 % t-interval; without one for a single value.

    Examples
    --------
    >>> [round(x, 3) for x in mean_interval([1.0, 2.0, 3.0])]
    [2.0, -0.484, 4.484]
    """
    middle = mean(values)
    if len(values) < 2:
        return middle, np.nan, np.nan
    reach = stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return middle, middle - float(reach), middle + float(reach)


def mean(values: Sequence[float]) -> float:
    """Return the mean, or not-a-number of no values."""
    return float(np.mean(values)) if len(values) else np.nan
