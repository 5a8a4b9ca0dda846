"""The report on the measurements: rows, ratios, exponents; as JSON, CSV and a picture."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from nodeproof import __version__
from nodeproof.errors import MissingExtraError
from nodeproof.storage.atomic import atomic_path
from nodeproof.storage.journal import Record
from processes import machine
from scaling.cells import Cell, preparations
from scaling.data import DEGREE, INSIDE, LABELLED, K
from scaling.peers import PEERS
from scaling.rows import OWN, Growth, Row, growth_of

__all__ = ["Report"]

# Bytes of data below which their ratio to the peak is meaningless.
_MEASURABLE = 16_000_000


@dataclass(frozen=True)
class Report:
    """The figures of a run.

    Attributes
    ----------
    rows : list of Row
        One per method and size; one without size for each peer that is not installed.
    exponents : dict of Growth
        Growth of the times that were measured at two or more sizes.
    disk : list of dict
        For each size that stayed on disk: speed of the disk, cost of creating the graph, and a
        sweep compared with that of the largest graph in memory.
    failed : bool
        Whether a fit of nodeproof itself failed.
    settings : dict
        Parameters of the graphs, seed, repeats and threads.
    """

    rows: list[Row]
    exponents: dict[str, Growth]
    disk: list[dict[str, Any]]
    failed: bool
    settings: dict[str, Any]

    @classmethod
    def of(cls, cells: list[Cell], records: Mapping[str, Record], *, peers: bool) -> Report:
        """Return the report on these cells, from the records by their keys."""
        rows = [_row(cell, records[cell.key]) for cell in cells]
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
            growth_of(rows),
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
            from scaling.picture import draw_bench

            draw_bench(self, out / "bench.png")
            written.append(out / "bench.png")
        except MissingExtraError as missing:
            notes.append(f"no picture: {missing}")
        return written, notes


def _row(cell: Cell, record: Record) -> Row:
    if "error" in record:
        return _failed(cell, record["error"])
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


def _disk(cells: list[Cell], records: Mapping[str, Record], own: list[Row]) -> list[dict[str, Any]]:
    """Return the figures of graphs on disk, each compared with the largest in memory."""
    inside = [row for row in own if not row.on_disk and row.sources == "GL" and row.sweep_per_link]
    largest = max(inside, key=lambda row: row.links or 0, default=None)
    found = []
    for cell in cells:
        record = records[cell.key]
        if cell.kind != "stream" or "error" in record:
            continue
        steps = {step.kind: record[step.kind] for step in preparations(cell)}
        per_link = _ratio(record["sweep"], cell.links * 1e-9)
        entry: dict[str, Any] = {
            "links": cell.links,
            "graph_bytes": record["graph_bytes"],
            "fits_in_memory": _fits(record["graph_bytes"]),
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
            entry[f"{kind}_seconds"] = step["seconds"]
            entry[f"{kind}_peak_mb"] = _ratio(step["peak"], 1e6)
            entry[f"{kind}_bytes"] = step["bytes"]
            entry[f"{kind}_resumed"] = step["resumed"]
        found.append(entry)
    return found


def _fits(size: int) -> bool | None:
    """Tell whether a graph can stay in the system's cache from one sweep to the next."""
    held = machine()["memory_gb"]
    return None if held is None else size < 1e9 * held
