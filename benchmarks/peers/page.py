"""The short form of the results: ranks, claims, and one table per protocol; also in a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nodeproof.errors import InputError
from nodeproof.storage.atomic import atomic_path
from peers.cells import Cell
from peers.protocols import PROTOCOLS
from peers.summary import FIGURES, Line, Result, claims_of, mean, mean_ranks, summarise
from processes import machine

#: comments between which a page has the results
BEGIN = "<!-- results of benchmarks/real.py: begin -->"
END = "<!-- results of benchmarks/real.py: end -->"

_RANKS = (
    "Mean rank by accuracy over the sets on which a method was run (1: best; failed fits share the "
    "last rank):"
)
_CLAIMS = (
    "What nodeproof says about itself: in how many fits the accuracy on the test nodes lies in the "
    "95 % interval of `estimated_accuracy_`, and the share of the training labels in `suspects_` "
    "(largest: on the set where it is most):"
)
_TABLE = (
    "Accuracy in per cent (ECE in brackets), means over the splits; log-loss and seconds: means "
    "over the sets that a method was run on:"
)


def write_docs(results: Sequence[Result], page: Path) -> None:
    """Replace what a page has between the two comments by the short form of the results."""
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise InputError(f"{page} lacks the comments {BEGIN} and {END} between which results go")
    with atomic_path(page) as path:
        path.write_text(
            f"{before}{BEGIN}\n\n{measured_with()}\n\n{overview(results)}\n\n{END}{after}",
            encoding="utf-8",
        )


def measured_with() -> str:
    """Return the machine and the versions, in a sentence."""
    host = machine()
    about = ", ".join(f"{name} {version}" for name, version in host["versions"].items())
    return f"{host['cpu']}, {host['cores']} cores, Python {host['python']}; {about}."


def overview(results: Sequence[Result], level: int = 3) -> str:
    """Return ranks, claims, and one table per protocol, as Markdown."""
    lines = summarise(results)
    parts = [_RANKS, _rank_table(lines)]
    claims = _claims_table(results)
    if claims:
        parts += [_CLAIMS, claims]
    for name in dict.fromkeys(line.protocol for line in lines):
        chosen = [line for line in lines if line.protocol == name]
        first = next(cell for cell, _ in results if cell.protocol == name)
        about = PROTOCOLS[name].about
        parts += [f"{'#' * level} {name}", about[0].upper() + about[1:] + _changed(first) + "."]
        parts += [_TABLE, _protocol_table(chosen)]
        parts += _skewed_tables(chosen)
    if any(line.cut_short for line in lines):
        parts.append("\\* training was stopped at the time limit; the best epoch by then counts.")
    return "\n\n".join(parts)


def _changed(cell: Cell) -> str:
    """Return what options have changed in a protocol."""
    text = ""
    if PROTOCOLS[cell.protocol].validation and not cell.validation:
        text += "; validation labels hidden from all methods"
    if cell.flip:
        text += f"; {cell.flip:.0%} of the training labels flipped"
    return text


def _rank_table(lines: Sequence[Line]) -> str:
    protocols = list(dict.fromkeys(line.protocol for line in lines))
    columns = [mean_ranks([line for line in lines if line.protocol == name]) for name in protocols]
    overall = mean_ranks(lines)
    n_sets = {m: len([line for line in lines if line.method == m]) for m in overall}
    rows = [["method", *protocols, "overall", "comparisons"]]
    for method in sorted(overall, key=lambda name: overall[name]):
        found = [f"{ranks[method]:.1f}" if method in ranks else "–" for ranks in columns]
        rows.append([method, *found, f"{overall[method]:.2f}", str(n_sets[method])])
    return markdown_rows(rows)


def _claims_table(results: Sequence[Result]) -> str:
    rows = [["", "fits", "within the interval", "expected %", "accuracy %", "ECE, largest",
             "suspected %", "largest"]]  # fmt: skip
    groups: dict[tuple[str, str], list[Result]] = {}
    for cell, record in results:
        if "covered" in record:
            groups.setdefault((cell.protocol, cell.method), []).append((cell, record))
    for (protocol, method), group in groups.items():
        claims = claims_of([record for _, record in group])
        assert claims is not None
        lines = summarise(group)
        rows.append(
            [
                protocol if method == "nodeproof" else f"{protocol}, {method}",
                str(len(group)),
                covered(claims.covered, claims.n),
                number(100 * claims.estimate, ".1f"),
                number(100 * mean([record["accuracy"] for _, record in group]), ".1f"),
                number(max(line.figures["ece"][0] for line in lines), ".3f"),
                number(100 * claims.suspected, ".1f"),
                number(100 * max(_suspected(line) for line in lines), ".1f"),
            ]
        )
    return markdown_rows(rows) if len(rows) > 1 else ""


def _suspected(line: Line) -> float:
    return line.claims.suspected if line.claims else 0.0


def _protocol_table(lines: Sequence[Line]) -> str:
    names = list(dict.fromkeys(line.set_name for line in lines))
    ranks = mean_ranks(lines)
    rows = [["method", *names, "log-loss", "seconds", "mean rank"]]
    for method in dict.fromkeys(line.method for line in lines):
        own = {line.set_name: line for line in lines if line.method == method and line.n}
        figures = [_accuracy(own[name]) if name in own else "–" for name in names]
        losses = [line.figures["log_loss"][0] for line in own.values()]
        seconds = [line.seconds for line in own.values()]
        rows.append(
            [
                method + ("\\*" if any(line.cut_short for line in own.values()) else ""),
                *figures,
                number(mean(losses), ".3f"),
                number(mean(seconds), ".3g"),
                f"{ranks[method]:.1f}",
            ]
        )
    return markdown_rows(rows)


def _skewed_tables(lines: Sequence[Line]) -> list[str]:
    """Return a table of the sets with two classes: accuracy says little of skewed ones."""
    lines = [line for line in lines if line.n and not np.isnan(line.figures["roc_auc"][0])]
    names = list(dict.fromkeys(line.set_name for line in lines))
    if not names:
        return []
    rows = [["method", *names]]
    for method in dict.fromkeys(line.method for line in lines):
        own = {line.set_name: line for line in lines if line.method == method}
        rows.append([method, *(_skewed(own[name]) if name in own else "–" for name in names)])
    return [
        "Two classes: ROC AUC (balanced accuracy in per cent in brackets):",
        markdown_rows(rows),
    ]


def _accuracy(line: Line) -> str:
    return f"{written(line, 'accuracy')} ({written(line, 'ece')})"


def _skewed(line: Line) -> str:
    return f"{written(line, 'roc_auc')} ({written(line, 'balanced_accuracy')})"


def written(line: Line, name: str) -> str:
    """Return a mean as it stands in tables."""
    _, form, factor = FIGURES[name]
    return number(factor * line.figures[name][0], form)


def covered(n_covered: int, n: int) -> str:
    """Return how many intervals hold what they should."""
    return f"{n_covered} of {n} ({n_covered / n:.0%})" if n else "–"


def number(value: float, form: str) -> str:
    """Return a number as it is written; a dash if there is none."""
    return "–" if np.isnan(value) else f"{value:{form}}"


def markdown_rows(rows: Sequence[Sequence[str]]) -> str:
    """Return a table whose first row is its head."""
    head, *body = rows
    rule = ["---", *["--:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *body))
