"""What the measurements say: rows, ratios, exponents; as JSON, CSV and a picture."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from nodeproof import __version__
from nodeproof.bench.cells import Cell, machine, preparations
from nodeproof.bench.data import DEGREE, INSIDE, LABELLED, K
from nodeproof.bench.peers import PEERS
from nodeproof.errors import MissingExtraError
from nodeproof.io import atomic_path

__all__ = ["OWN", "Growth", "Report", "Row", "exponent", "in_units", "power_of_ten"]

# Bytes of data below which their share in the peak says nothing.
_MEASURABLE = 16_000_000

#: the name of nodeproof among the methods
OWN = "nodeproof"


@dataclass(frozen=True)
class Row:
    """The figures of one method at one size; seconds unless said.

    Attributes
    ----------
    method, sources : str
        What was fitted to which sources.
    links, nodes : int
        Size of the graph.
    on_disk : bool
        Whether the graph stayed on disk.
    seconds : float or None
        The whole fit; None where it failed or was not run.
    product, index_pass : float or None
        One ``A @ M`` (float32, n×10) and one pass over the indices, in the same process.
    sweep : float or None
        The median sweep.
    fit_per_product, fit_per_pass, sweep_per_product, sweep_per_pass : float or None
        Ratios.
    sweep_per_link : float or None
        Nanoseconds.
    sweeps, starts : int or None
        How many sweeps the best start took, and how many starts there were.
    chosen : str
        What the fit chose on the way: at some sizes it does more than at others.
    accuracy, hidden, genie : float or None
        At all nodes, at those without a label, and the best possible at these.
    peak_mb, memory : float or None
        Peak anonymous memory above that before, and as a ratio to graph, features and W (where
        these have 16 MB or more: below, what the process does beside counts as much).
    compiled : float or None
        A first fit on a small graph, which is not counted.
    note : str
        What a reader has to know.
    """

    method: str
    sources: str
    links: int | None
    nodes: int | None = None
    on_disk: bool = False
    seconds: float | None = None
    product: float | None = None
    index_pass: float | None = None
    sweep: float | None = None
    fit_per_product: float | None = None
    fit_per_pass: float | None = None
    sweep_per_product: float | None = None
    sweep_per_pass: float | None = None
    sweep_per_link: float | None = None
    sweeps: int | None = None
    starts: int | None = None
    chosen: str = ""
    accuracy: float | None = None
    hidden: float | None = None
    genie: float | None = None
    peak_mb: float | None = None
    memory: float | None = None
    compiled: float | None = None
    note: str = ""

    @property
    def title(self) -> str:
        """The method, and that its time is extrapolated where it is."""
        return f"{self.method} (extrapolated)" if "extrapolated" in self.note else self.method


@dataclass(frozen=True)
class Growth:
    """How a time grows with the links: time ~ links^exponent.

    Attributes
    ----------
    exponent : float
        By least squares of log(time) on log(links).
    sizes : list of int
        The links it was measured at.
    same_work : bool
        Whether the same was done at all of them; a fit of few nodes tries more starts and
        holds labels back, so that it may take longer than one of many.
    """

    exponent: float
    sizes: list[int]
    same_work: bool


@dataclass(frozen=True)
class Report:
    """What was found.

    Attributes
    ----------
    rows : list of Row
        One a method and size; one without size for each peer that is not installed.
    exponents : dict of Growth
        How the times grow, where they were measured at two sizes at least.
    disk : list of dict
        Of each size that stayed on disk: how fast the disk reads, what making the graph took,
        and a sweep beside that of the largest graph in memory.
    failed : bool
        Whether a fit of nodeproof itself has failed.
    settings : dict
        What the graphs were drawn with, the seed, repeats and threads.
    """

    rows: list[Row]
    exponents: dict[str, Growth]
    disk: list[dict[str, Any]]
    failed: bool
    settings: dict[str, Any]

    @classmethod
    def of(
        cls,
        cells: list[Cell],
        records: Mapping[str, Mapping[str, Any]],
        failures: Mapping[Cell, str],
        *,
        peers: bool,
    ) -> Report:
        """Return the report on these cells, from the records by their keys."""
        rows = []
        for cell in cells:
            if cell.key in records:
                rows.append(_row(cell, records[cell.key]))
            else:
                rows.append(_failed(cell, failures.get(cell, "not measured")))
        if peers:
            lacking = [peer for peer in PEERS.values() if peer.missing]
            rows += [Row(peer.name, peer.sources, None, note=peer.missing) for peer in lacking]
        first = cells[0]
        settings = {
            "classes": K, "degree": DEGREE, "inside": INSIDE, "labels": LABELLED, "features": 16,
            "seed": first.seed, "repeats": first.repeats, "threads": first.threads,
        }  # fmt: skip
        own = [row for row in rows if row.method == OWN]
        return cls(
            rows,
            _exponents(rows),
            _disk(cells, records, own),
            any(row.seconds is None for row in own),
            settings,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        return {
            "nodeproof": __version__,
            "machine": machine(),
            "settings": self.settings,
            "rows": [asdict(row) for row in self.rows],
            "exponents": {name: asdict(growth) for name, growth in self.exponents.items()},
            "disk": self.disk,
        }

    def write(self, out: Path) -> tuple[list[Path], list[str]]:
        """Write bench.json, bench.csv and bench.png; return the files and what is missing."""
        written = [out / "bench.json", out / "bench.csv"]
        notes = []
        with atomic_path(written[0]) as temporary:
            text = json.dumps(self.as_dict(), indent=2, ensure_ascii=False)
            temporary.write_text(text + "\n", encoding="utf-8")
        with (
            atomic_path(written[1]) as temporary,
            temporary.open("w", encoding="utf-8", newline="") as file,
        ):
            table = csv.DictWriter(file, [field.name for field in fields(Row)])
            table.writeheader()
            table.writerows(asdict(row) for row in self.rows)
        try:
            from nodeproof.bench.picture import draw_bench

            draw_bench(self, out / "bench.png")
            written.append(out / "bench.png")
        except MissingExtraError as missing:
            notes.append(f"no picture: {missing}")
        return written, notes


def exponent(links: list[int], seconds: list[float]) -> float:
    """Return how times grow with the links: least squares of log(time) on log(links).

    Examples
    --------
    >>> from nodeproof.bench.report import exponent
    >>> round(exponent([100, 1_000, 10_000], [1.0, 20.0, 400.0]), 3)
    1.301
    """
    return float(np.polyfit(np.log(links), np.log(seconds), 1)[0])


def in_units(seconds: float) -> str:
    """Write a time with two or three digits and its unit.

    Examples
    --------
    >>> from nodeproof.bench.report import in_units
    >>> in_units(0.0000125), in_units(0.5), in_units(0.04), in_units(312.4)
    ('12 µs', '0.50 s', '40 ms', '312 s')
    """
    value, unit = seconds, "s"
    if seconds < 0.1:
        value, unit = (1e3 * seconds, "ms") if seconds >= 1e-4 else (1e6 * seconds, "µs")
    digits = 0 if value >= 10 else 1 if value >= 1 else 2
    return f"{value:.{digits}f} {unit}"


def power_of_ten(number: float) -> str:
    """Write a large number as a power of ten.

    Examples
    --------
    >>> from nodeproof.bench.report import power_of_ten
    >>> power_of_ten(1e6), power_of_ten(2e8), power_of_ten(12_500)
    ('10⁶', '2·10⁸', '1.25·10⁴')
    """
    mantissa, power = f"{number:e}".split("e")
    digits = str(int(power)).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    factor = f"{float(mantissa):g}"
    return f"10{digits}" if factor == "1" else f"{factor}·10{digits}"


def _row(cell: Cell, record: Mapping[str, Any]) -> Row:
    peer = PEERS[cell.name] if cell.kind == "peer" else None
    seconds, sweep = record["seconds"], record.get("sweep")
    product, index_pass, peak = record["product"], record.get("pass"), record["peak"]
    return Row(
        method=OWN if peer is None else peer.name,
        sources=cell.name if peer is None else peer.sources,
        links=cell.links,
        nodes=record["nodes"],
        on_disk=cell.kind == "stream",
        seconds=seconds,
        product=product,
        index_pass=index_pass,
        sweep=sweep,
        fit_per_product=_ratio(seconds, product),
        fit_per_pass=_ratio(seconds, index_pass),
        sweep_per_product=_ratio(sweep, product),
        sweep_per_pass=_ratio(sweep, index_pass),
        sweep_per_link=_ratio(sweep, cell.links * 1e-9),
        sweeps=record.get("sweeps"),
        starts=record.get("starts"),
        chosen=" ".join(record.get("chosen", ())),
        accuracy=record.get("accuracy"),
        hidden=record.get("hidden"),
        genie=record.get("genie"),
        peak_mb=_ratio(peak, 1e6),
        memory=_ratio(peak, record["input"]) if record["input"] >= _MEASURABLE else None,
        compiled=record["compiled"],
        note="" if peer is None else peer.note,
    )


def _failed(cell: Cell, reason: str) -> Row:
    own = cell.kind != "peer"
    return Row(
        method=OWN if own else cell.name,
        sources=cell.name if own else PEERS[cell.name].sources,
        links=cell.links,
        on_disk=cell.kind == "stream",
        note=f"failed: {reason}",
    )


def _ratio(value: float | None, unit: float | None) -> float | None:
    return None if value is None or not unit else value / unit


def _exponents(rows: list[Row]) -> dict[str, Growth]:
    """Return how every time grows that was measured at two sizes at least."""
    series: dict[str, list[tuple[Row, float]]] = {}

    def add(name: str, row: Row, seconds: float | None) -> None:
        if seconds is not None:
            series.setdefault(name, []).append((row, seconds))

    own = [row for row in rows if row.method == OWN]
    for row in own:
        if not row.on_disk:
            add(f"fit {row.sources}", row, row.seconds)
            add(f"sweep {row.sources}", row, row.sweep)
            if row.sources == "GL":
                add("A @ M", row, row.product)
                add("index pass", row, row.index_pass)
    if any(row.on_disk for row in own):
        for row in own:
            if row.sources == "GL":
                add("fit GL, disk included", row, row.seconds)
                add("sweep GL, disk included", row, row.sweep)
    for row in rows:
        if row.method != OWN:
            add(row.method, row, row.seconds)
    return {name: _growth(name, points) for name, points in series.items() if len(points) > 1}


def _growth(name: str, points: list[tuple[Row, float]]) -> Growth:
    """Return how a time grows; of whole fits, at sizes where as much is done as at the largest."""
    same = True
    if name.startswith("fit "):
        last = points[-1][0]
        alike = [p for p in points if (p[0].starts, p[0].chosen) == (last.starts, last.chosen)]
        same = len(alike) > 1
        points = alike if same else points
    sizes = [row.links or 0 for row, _ in points]
    return Growth(exponent(sizes, [seconds for _, seconds in points]), sizes, same)


def _disk(
    cells: list[Cell], records: Mapping[str, Mapping[str, Any]], own: list[Row]
) -> list[dict[str, Any]]:
    """Return what is to be said of graphs on disk, each beside the largest in memory."""
    inside = [row for row in own if not row.on_disk and row.sources == "GL" and row.sweep_per_link]
    largest = max(inside, key=lambda row: row.links or 0, default=None)
    found = []
    for cell in cells:
        if cell.kind != "stream" or cell.key not in records:
            continue
        record = records[cell.key]
        steps = {step.kind: records.get(step.key) for step in preparations(cell)}
        per_link = _ratio(record["sweep"], cell.links * 1e-9)
        entry: dict[str, Any] = {
            "links": cell.links,
            "disk_bytes_per_second": record["disk_bytes_per_second"],
            "index_pass_at_disk_speed": record["disk_pass"],
            "sweep": record["sweep"],
            "sweep_per_disk_pass": _ratio(record["sweep"], record["disk_pass"]),
            "sweep_per_link": per_link,
            "in_memory_links": None if largest is None else largest.links,
            "sweep_per_link_over_in_memory": _ratio(
                per_link, None if largest is None else largest.sweep_per_link
            ),
        }
        for kind, step in steps.items():
            if step is not None:
                entry[f"{kind}_seconds"] = step["seconds"]
                entry[f"{kind}_peak_mb"] = _ratio(step["peak"], 1e6)
                entry[f"{kind}_bytes"] = step["bytes"]
                entry[f"{kind}_resumed"] = step["resumed"]
        found.append(entry)
    return found
