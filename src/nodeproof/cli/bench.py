"""`nodeproof bench`: time and memory on sparse graphs, with progress, a table and a picture."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from nodeproof.bench import Report, Row, bench
from nodeproof.bench.cells import Cell
from nodeproof.bench.growth import Growth
from nodeproof.bench.rows import OWN, in_units, power_of_ten
from nodeproof.cli.console import LiveLine, errors, note, screen
from nodeproof.cli.terminal import print_document
from nodeproof.errors import InputError

__all__ = ["read_sizes", "run_bench"]


def read_sizes(text: str) -> list[float]:
    """Read numbers of links with commas between them, such as 1e4,1e5."""
    try:
        sizes = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        sizes = []
    if not sizes or not all(1 <= size < 1e13 for size in sizes):
        raise InputError(
            f"--links {text!r}: give numbers with commas between them, such as 1e4,1e5"
        )
    return sizes


def run_bench(out: Path, as_json: bool, **settings: Any) -> None:
    """Measure, write the figures to the folder, and print them."""
    with _Line(enabled=not as_json) as line:
        try:
            report = bench(
                out=out, begin=line.begin, tell=line.tell, finished=line.finished, **settings
            )
        except KeyboardInterrupt:
            line.stop()
            kept = f"{line.done} of {line.total} measurements"
            note(f"finished and kept: {kept}; the same command goes on from there")
            raise
    written, notes = report.write(out)
    for text in notes:
        note(text)
    if as_json:
        print_document(report.as_dict())
    else:
        _show(report, written)
    if report.failed:
        sys.exit(1)


def _show(report: Report, written: list[Path]) -> None:
    own = [row for row in report.rows if row.method == OWN]
    others = [row for row in report.rows if row.method != OWN]
    for table in (_times(own), _qualities(own), *([_peers(others)] if others else [])):
        screen.print(table, "")
    for name, text in {row.method: row.note for row in others if row.note}.items():
        screen.print(f"{name}: {text}", soft_wrap=True)
    for row in own:
        if row.seconds is None:
            where = f"{power_of_ten(row.links or 0)} links, {row.sources}"
            screen.print(f"{where} {row.note}", soft_wrap=True)
    _show_growth(report.exponents)
    for entry in report.disk:
        screen.print(_on_disk(entry), soft_wrap=True)
    if any(row.peak_mb is None and row.seconds is not None for row in report.rows):
        screen.print("memory is not measured: this system does not tell it", soft_wrap=True)
    screen.print(f"written: {', '.join(map(str, written))}", soft_wrap=True)


def _times(rows: list[Row]) -> Table:
    table = _table("Time: one A @ M (n × 10), one pass over the indices, a fit, a sweep")
    for name in ("links", "from", "A@M", "pass", "fit", "/ A@M", "/ pass", "sweep", "/ A@M",
                 "/ pass"):  # fmt: skip
        _add_column(table, name)
    for row in rows:
        times = [row.product, row.index_pass, row.seconds]
        table.add_row(
            *_place(row),
            *map(_time, times),
            _number(row.fit_per_product),
            _number(row.fit_per_pass),
            _time(row.sweep),
            _number(row.sweep_per_product),
            _number(row.sweep_per_pass),
        )
    return table


def _qualities(rows: list[Row]) -> Table:
    table = _table(
        "Accuracy at all nodes and at hidden ones; peak memory; a first fit, which compiles"
    )
    for name in ("links", "from", "starts", "sweeps", "all", "hidden", "genie", "MB",
                 "× data", "compile"):  # fmt: skip
        _add_column(table, name)
    for row in rows:
        counts, shares = [row.starts, row.sweeps], [row.accuracy, row.hidden, row.genie]
        table.add_row(
            *_place(row),
            *("–" if count is None else str(count) for count in counts),
            *map(_share, shares),
            _number(row.peak_mb),
            _number(row.memory),
            _time(row.compiled),
        )
    return table


def _peers(rows: list[Row]) -> Table:
    table = _table("Peers")
    for name in ("links", "method", "from", "time", "/ A@M", "hidden", "MB", "× data"):
        _add_column(table, name)
    for row in rows:
        table.add_row(
            "" if row.links is None else power_of_ten(row.links),
            row.title,
            row.sources,
            _time(row.seconds),
            _number(row.fit_per_product),
            _share(row.hidden),
            _number(row.peak_mb),
            _number(row.memory),
        )
    return table


def _table(title: str) -> Table:
    return Table(
        title=title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )


def _add_column(table: Table, name: str) -> None:
    is_text = name in ("method", "from")
    table.add_column(name, justify="left" if is_text else "right", no_wrap=True)


def _place(row: Row) -> tuple[str, str]:
    return power_of_ten(row.links or 0), row.sources + (" disk" if row.on_disk else "")


def _show_growth(exponents: dict[str, Growth]) -> None:
    if not exponents:
        return
    said = []
    for name, growth in exponents.items():
        sizes = f"{power_of_ten(growth.sizes[0])}–{power_of_ten(growth.sizes[-1])}"
        said.append(f"{name} {growth.exponent:.2f}{'' if growth.same_work else '*'} ({sizes})")
    screen.print(f"time ~ links^x, x = {', '.join(said)}", soft_wrap=True)
    if not all(growth.same_work for growth in exponents.values()):
        screen.print(
            "* not the same work at all sizes (small graphs are given more starts, and labels are "
            "held back): see the sweeps instead",
            soft_wrap=True,
        )


def _on_disk(entry: dict[str, Any]) -> str:
    """Say how a graph on disk was made and what a sweep over it takes, in one line."""
    said = [
        f"{name} {_time(entry[f'{kind}_seconds'])}"
        + (" (of what was left)" if entry[f"{kind}_resumed"] else "")
        for kind, name in (("write", "written in"), ("convert", "converted in"))
        if f"{kind}_seconds" in entry
    ]
    said.append(f"the disk reads {entry['disk_bytes_per_second'] / 1e9:.2f} GB/s")
    if entry["sweep"] is not None:
        said.append(
            f"a sweep takes {_time(entry['sweep'])}, {_number(entry['sweep_per_disk_pass'])} × "
            "reading the indices"
        )
    if entry["sweep_per_link_over_in_memory"] is not None:
        said.append(
            f"a link {_number(entry['sweep_per_link_over_in_memory'])} × as long as in memory at "
            f"{power_of_ten(entry['in_memory_links'])}"
        )
    if entry["fits_in_memory"]:
        said.append("after the first sweep the system may have had the graph in its cache")
    return f"{power_of_ten(entry['links'])} links on disk: " + ", ".join(said)


def _number(value: float | None) -> str:
    """Write a figure with three digits, or two below a tenth."""
    if value is None:
        return "–"
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def _time(seconds: float | None) -> str:
    return "–" if seconds is None else in_units(seconds)


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


class _Line(LiveLine):
    """A live line with what is being measured; where there is no terminal, a line for each."""

    def __init__(self, enabled: bool) -> None:
        super().__init__(enabled)
        self.done = self.total = 0

    def begin(self, missing: list[Cell], finished: int) -> None:
        """Say how much there is to do."""
        self.total = len(missing)
        if self.enabled and finished:
            note(f"{finished} measurements are finished; {self.total} to go (--fresh forgets)")

    def tell(self, cell: Cell, text: str) -> None:
        """Show what is being measured."""
        doing = f"{power_of_ten(cell.links)} links, {cell.title}" + (f": {text}" if text else "")
        self.show(f"{self.done + 1} of {self.total}: {doing} ({self.seconds:.0f} s)")

    def finished(self, cell: Cell, error: str) -> None:
        """Count a cell, and say where it failed."""
        self.done += 1
        if self.enabled and error:
            note(f"{power_of_ten(cell.links)} links, {cell.title} failed: {error}")
        elif self.enabled and not errors.is_terminal:
            note(f"{self.done} of {self.total}: {power_of_ten(cell.links)} links, {cell.title}")

    def stop(self) -> None:
        """Take the line off the terminal."""
        if self.line is not None:
            self.line.stop()
