"""`nodeproof reproduce`: the paper's experiments, with progress and verdicts on its claims."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from nodeproof import __version__
from nodeproof.cli.console import errors, note, screen
from nodeproof.cli.terminal import print_document
from nodeproof.paper.experiments.cells import Cell
from nodeproof.paper.experiments.claims import Verdict, as_published
from nodeproof.paper.experiments.claims.theorem_and_targets import THEOREM
from nodeproof.paper.experiments.methods import READINGS
from nodeproof.paper.experiments.reproduction import reproduce

__all__ = ["run_reproduce"]

_WORDS = {True: "yes", False: "no", None: ""}


def run_reproduce(names: tuple[str, ...], out: Path, as_json: bool, **settings: Any) -> None:
    """Run the named experiments; print each claim of the paper and whether it holds."""
    with _Bar(enabled=not as_json) as bar:
        try:
            done = reproduce(names, out, begin=bar.begin, finished=bar.advance, **settings)
        except KeyboardInterrupt:
            bar.stop()
            note(f"{bar.ran} cells were finished and are kept; the same command resumes from there")
            raise
    for text in done.notes:
        note(text)
    if as_json:
        figures = {
            "nodeproof": __version__,
            "out": str(out),
            "seeds": done.results.seeds,
            "quick": done.results.quick,
            "panels": list(done.results.panels),
            "cells_run": bar.ran,
            "figures": [str(path) for path in done.figures],
            "claims": [asdict(verdict) for verdict in done.verdicts],
        }
        print_document(figures)
        return
    judged = [verdict for verdict in done.verdicts if verdict.holds is not None]
    about_theorem = [verdict for verdict in judged if verdict.where.startswith(THEOREM)]
    for verdicts in ([v for v in judged if v not in about_theorem], about_theorem):
        if verdicts:
            screen.print(_table(verdicts))
    summary = out / "summary.html"
    where = summary if summary.is_file() else out
    screen.print(f"figures, tables and the summary: {where}", soft_wrap=True)


def _table(verdicts: list[Verdict]) -> Table:
    """One row per claim, one column per solver; CADO as published in its best reading."""
    table = Table(title="Does it hold?", min_width=72)
    table.add_column("claim", no_wrap=True)
    found: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        found.setdefault(verdict.name, []).append(verdict)
    published = any(verdict.method in READINGS for verdict in verdicts)
    if published:
        table.add_column("CADO as published", justify="center", max_width=14)
    ours = list(dict.fromkeys(v.solver for v in verdicts if v.method not in READINGS))
    for solver in ours:
        table.add_column(solver, justify="center", max_width=14)
    for name, row in found.items():
        words = {verdict.solver: _WORDS[verdict.holds] for verdict in row}
        best = [_WORDS[as_published(row)[0]]] if published else []
        table.add_row(name, *best, *(words.get(solver, "") for solver in ours))
    return table


class _Bar:
    """A live bar with the time left; without a terminal, a line for every tenth."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self.ran = self.wanted = 0
        self.total = self.done = 0.0
        self.task: TaskID | None = None
        self.progress = Progress(
            TextColumn("{task.completed:.0%}"),
            BarColumn(),
            TextColumn("{task.fields[cells]}"),
            TimeElapsedColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(),
            console=errors,
            disable=not (enabled and errors.is_terminal),
            # The last minutes say more about the next ones than the heavy cells of the start.
            speed_estimate_period=120.0,
        )

    def __enter__(self) -> _Bar:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        if not self.progress.disable:  # older versions of rich would print a newline anyway
            self.progress.stop()

    def begin(self, missing: list[Cell], finished: int) -> None:
        self.total = sum(cell.work for cell in missing)
        self.wanted = len(missing)
        if self.enabled and finished:
            note(f"{finished} cells are finished; {len(missing)} to run (--fresh starts over)")
        self.task = self.progress.add_task("", total=1.0, cells=f"0/{self.wanted} cells")

    def advance(self, cell: Cell) -> None:
        tenth = int(10 * self.done / self.total)
        self.ran += 1
        self.done += cell.work
        assert self.task is not None
        cells = f"{self.ran}/{self.wanted} cells"
        self.progress.update(self.task, completed=self.done / self.total, cells=cells)
        if self.enabled and not errors.is_terminal and int(10 * self.done / self.total) > tenth:
            note(f"{self.done / self.total:.0%}, {cells}")
