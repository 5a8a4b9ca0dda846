"""Time and memory on sparse planted graphs, beside one A @ M and other methods.

Writes bench.json, bench.csv and, with matplotlib, bench.png. Every measurement runs in a process of
its own and is kept at once; after Ctrl-C or a crash the same command continues.

    python benchmarks/scale.py --links 1e5,1e6,1e7 [--out build/bench] [--no-peers] [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from nodeproof.errors import InputError, MissingExtraError
from nodeproof.storage.journal import Record
from scaling import Report, Row, bench
from scaling.cells import Cell
from scaling.rows import OWN, Growth, in_units, power_of_ten

Column = Callable[[Row], str]

screen, errors = Console(highlight=False), Console(stderr=True, highlight=False)


def main(arguments: list[str] | None = None) -> None:
    options = vars(parse(arguments))
    out, as_json = options["out"], options.pop("json")
    try:
        with Progress(quiet=as_json) as progress:
            report = bench(
                begin=progress.begin, tell=progress.tell, finished=progress.finished, **options
            )
    except (InputError, MissingExtraError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        kept = f"{progress.done} of {progress.total} measurements"
        print(f"finished and kept: {kept}; the same command continues there", file=sys.stderr)
        sys.exit(130)
    written, notes = report.write(out)
    for text in notes:
        print(text, file=sys.stderr)
    if as_json:
        print(json.dumps(report.as_dict(), indent=2, ensure_ascii=False))
    else:
        show(report, written)
    sys.exit(report.failed)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = parser.add_argument
    add("--links", type=sizes, default="1e4,1e5,1e6,1e7", metavar="N,N,…", help="graph sizes")
    add(
        "--repeats", type=positive, default=3, metavar="N", help="fits, the fastest of which counts"
    )
    add("--peers", action=argparse.BooleanOptionalAction, default=True,
        help="measure other methods, too")  # fmt: skip
    add("--peers-up-to", type=float, default=1e6, metavar="N", help="most links for other methods")
    add("--out-of-core-from", dest="disk_from", type=float, default=2e8, metavar="N",
        help="from this many links on, fit graph and labels from disk")  # fmt: skip
    add("--out", type=Path, default=Path("build/bench"), metavar="DIR",
        help="folder; what is finished there is not measured again")  # fmt: skip
    add("--jobs", dest="threads", type=positive, metavar="N", help="threads of a fit; None: all")
    add("--seed", type=int, default=0, metavar="N", help="seed of the graphs")
    add("--fresh", action="store_true", help="discard what is finished in the folder")
    add("--keep-data", action="store_true", help="leave the graphs in the folder")
    add("--json", action="store_true", help="print JSON, nothing else")
    return parser.parse_args(arguments)


def sizes(text: str) -> list[float]:
    found = [float(part) for part in text.split(",") if part.strip()]
    if not found or not all(1 <= size < 1e13 for size in found):
        raise ValueError
    return found


def positive(text: str) -> int:
    if int(text) < 1:
        raise ValueError
    return int(text)


class Progress:
    """A live line with what is being measured; without a terminal, one line per measurement."""

    def __init__(self, quiet: bool) -> None:
        self.quiet, self.done, self.total = quiet, 0, 0
        self.line = errors.status("")

    def __enter__(self) -> Progress:
        if not self.quiet and errors.is_terminal:
            self.line.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.line.stop()

    def begin(self, missing: list[Cell], finished: int) -> None:
        """Say how much there is to do."""
        self.total = len(missing)
        if finished and not self.quiet:
            errors.print(f"finished already: {finished}; to measure: {self.total}")

    def tell(self, cell: Cell, text: str) -> None:
        """Show what is being measured."""
        place = f"{self.done + 1} of {self.total}: {power_of_ten(cell.links)} links, {cell.title}"
        self.line.update(f"{place}: {text}")

    def finished(self, cell: Cell, record: Record) -> None:
        """Count a cell, and say if it failed."""
        self.done += 1
        if not self.quiet and ("error" in record or not errors.is_terminal):
            end = f" failed: {record['error']}" if "error" in record else ""
            place = f"{power_of_ten(cell.links)} links, {cell.title}"
            errors.print(f"{self.done} of {self.total}: {place}{end}", soft_wrap=True)


def show(report: Report, written: list[Path]) -> None:
    """Print the tables, and what they do not show."""
    own = [row for row in report.rows if row.method == OWN]
    others = [row for row in report.rows if row.method != OWN]
    tables = [
        (
            "Time: one A @ M (n × 10), one pass over the indices, a fit, a sweep",
            own,
            [
                ("links", size_of), ("from", sources_of), ("A@M", time_of("product")),
                ("pass", time_of("index_pass")), ("fit", time_of("seconds")),
                ("/ A@M", number_of("fit_per_product")), ("/ pass", number_of("fit_per_pass")),
                ("sweep", time_of("sweep")), ("/ A@M", number_of("sweep_per_product")),
                ("/ pass", number_of("sweep_per_pass")),
            ],
        ),
        (
            "Accuracy at all nodes and at hidden ones; peak memory; a first fit, which compiles",
            own,
            [
                ("links", size_of), ("from", sources_of), ("starts", count_of("starts")),
                ("sweeps", count_of("sweeps")), ("all", share_of("accuracy")),
                ("hidden", share_of("hidden")), ("genie", share_of("genie")),
                ("MB", number_of("peak_mb")), ("× data", number_of("memory")),
                ("compile", time_of("compiled")),
            ],
        ),
        (
            "Peers",
            others,
            [
                ("links", size_of), ("method", lambda row: row.title), ("from", sources_of),
                ("time", time_of("seconds")), ("/ A@M", number_of("fit_per_product")),
                ("hidden", share_of("hidden")), ("MB", number_of("peak_mb")),
                ("× data", number_of("memory")),
            ],
        ),
    ]  # fmt: skip
    for title, rows, columns in tables:
        if rows:
            screen.print(table(title, rows, columns), "")
    remarks = [
        f"{name}: {text}" for name, text in {r.method: r.note for r in others}.items() if text
    ]
    remarks += [
        f"{size_of(row)} links, {row.sources} {row.note}" for row in own if row.seconds is None
    ]
    remarks += [*growth(report.exponents), *(on_disk(entry) for entry in report.disk)]
    if any(row.peak_mb is None and row.seconds is not None for row in report.rows):
        remarks.append("memory is not measured: this system does not report it")
    for text in (*remarks, f"written: {', '.join(map(str, written))}"):
        screen.print(text, soft_wrap=True)


def table(title: str, rows: list[Row], columns: list[tuple[str, Column]]) -> Table:
    """Return a table with one row per row, and what each column writes of it."""
    made = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False,
        padding=(0, 1, 0, 0),
    )  # fmt: skip
    for name, _ in columns:
        justify = "left" if name in ("method", "from") else "right"
        made.add_column(name, justify=justify, no_wrap=True)
    for row in rows:
        made.add_row(*(write(row) for _, write in columns))
    return made


def size_of(row: Row) -> str:
    return "" if row.links is None else power_of_ten(row.links)


def sources_of(row: Row) -> str:
    return row.sources + (" disk" if row.on_disk else "")


def time_of(name: str) -> Column:
    return lambda row: time(getattr(row, name))


def number_of(name: str) -> Column:
    return lambda row: number(getattr(row, name))


def count_of(name: str) -> Column:
    return lambda row: "–" if getattr(row, name) is None else str(getattr(row, name))


def share_of(name: str) -> Column:
    return lambda row: "–" if getattr(row, name) is None else f"{getattr(row, name):.4f}"


def growth(exponents: dict[str, Growth]) -> list[str]:
    """Say how times grow with the links."""
    if not exponents:
        return []
    parts = [
        f"{name} {found.exponent:.2f}{'' if found.same_work else '*'} "
        f"({power_of_ten(found.sizes[0])}–{power_of_ten(found.sizes[-1])})"
        for name, found in exponents.items()
    ]
    remarks = [f"time ~ links^x, x = {', '.join(parts)}"]
    if not all(found.same_work for found in exponents.values()):
        remarks.append(
            "* not the same work at all sizes (small graphs get more starts and cross-fitted "
            "settings): compare the sweeps instead"
        )
    return remarks


def on_disk(entry: dict[str, Any]) -> str:
    """Say how a graph on disk was made and what a sweep over it takes, in one line."""
    parts = [
        f"{name} {time(entry[f'{kind}_seconds'])}"
        + (" (the rest of an earlier run)" if entry[f"{kind}_resumed"] else "")
        for kind, name in (("write", "written in"), ("convert", "converted in"))
    ]
    parts.append(f"the disk reads {entry['disk_bytes_per_second'] / 1e9:.2f} GB/s")
    if entry["sweep"] is not None:
        parts.append(
            f"a sweep takes {time(entry['sweep'])}, {number(entry['sweep_per_disk_pass'])} × "
            "reading the indices"
        )
    if entry["sweep_per_link_over_in_memory"] is not None:
        parts.append(
            f"{number(entry['sweep_per_link_over_in_memory'])} × the time per link in memory at "
            f"{power_of_ten(entry['in_memory_links'])}"
        )
    if entry["fits_in_memory"]:
        parts.append("after the first sweep the system may have had the graph in its cache")
    return f"{power_of_ten(entry['links'])} links on disk: " + ", ".join(parts)


def number(value: float | None) -> str:
    """Write a figure with three digits, or two below a tenth."""
    if value is None:
        return "–"
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def time(seconds: float | None) -> str:
    return "–" if seconds is None else in_units(seconds)


if __name__ == "__main__":
    main()
