"""The results as tidy tables, and as the curves that figures and claims are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from nodeproof import __version__
from nodeproof.errors import InputError
from nodeproof.paper.experiments.cells import code_digest
from nodeproof.paper.experiments.panels import Curve, Panel, Point
from nodeproof.runtime.caching import cached_property
from nodeproof.storage.atomic import atomic_path
from nodeproof.storage.journal import Record

__all__ = ["Results", "Series"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """One curve of a panel.

    Attributes
    ----------
    x : ndarray of shape (g,)
        Where it was measured.
    values : list of g ndarrays
        For each x the values of seeds 0, 1, … (some grid points have fewer).
    """

    x: NDArray[np.float64]
    values: list[NDArray[np.float64]]

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean over the seeds, of shape (g,)."""
        return np.array([v.mean() for v in self.values])

    @property
    def error(self) -> NDArray[np.float64]:
        """Standard error of the mean, of shape (g,); zero for one seed."""
        return np.array(
            [v.std(ddof=1) / np.sqrt(len(v)) if len(v) > 1 else 0.0 for v in self.values]
        )

    def at(self, x: float) -> NDArray[np.float64]:
        """Return the values of all seeds at one grid point."""
        return self.values[int(np.flatnonzero(self.x == x)[0])]

    def minus(self, other: Series) -> Series:
        """Return the difference, paired by seed, where both were measured."""
        shared = [x for x in self.x if x in other.x]
        pairs = [(self.at(x), other.at(x)) for x in shared]
        return Series(
            np.array(shared),
            [a[: min(len(a), len(b))] - b[: min(len(a), len(b))] for a, b in pairs],
        )


class Results:
    """The results, by panel and curve.

    Parameters
    ----------
    panels : iterable of Panel
        Panels whose cells are all finished.
    records : mapping
        The records, by the key of the cell.
    seeds : int
        How many seeds were asked for.
    quick : bool
        Whether the panels are measured on their quick grids.
    """

    def __init__(
        self,
        panels: Iterable[Panel],
        records: Mapping[str, Record],
        seeds: int,
        quick: bool = False,
    ) -> None:
        self.panels = {panel.name: panel for panel in panels}
        self.seeds, self.quick = seeds, quick
        self.points: list[tuple[Point, Record]] = [
            (point, records[point.cell.key])
            for panel in self.panels.values()
            for point in panel.points(seeds, quick)
        ]

    def series(self, panel: str, curve: Curve, y: float | None = None) -> Series:
        """Return the accuracy along one curve of a panel; of a map, the curve at y."""
        return self._series(panel, curve, y, lambda record: record["accuracy"])

    def grid(self, panel: str, curve: Curve) -> tuple[Array, Array, Array]:
        """Return the mean accuracy over a map, shape (len(y), len(x)), and its x and y."""
        y = self.panels[panel].y
        if y is None:
            raise InputError(f"panel {panel!r} is not a map: it has one axis")
        rows = y.quick if self.quick else y.grid
        series = [self.series(panel, curve, y=at) for at in rows]
        return np.array([one.mean for one in series]), series[0].x, np.array(rows, dtype=float)

    def traces(self, panel: str, curve: Curve) -> list[dict[str, Any]]:
        """Return the records of all seeds of one traced run, with "trace" and "times"."""
        return [record for _, record in self._by_curve[panel, curve.name, None]]

    def answers(self, panel: str, curve: Curve, name: str, y: float) -> Series:
        """Return the answers along one curve of a panel at y: 1 for yes, 0 for no."""
        return self._series(panel, curve, y, lambda record: record["answers"][name])

    def write(self, out: Path) -> None:
        """Write the tables, each as Parquet and CSV.

        ``results``, ``traces`` and ``answers`` are the same, bit for bit, however often a run was
        interrupted; what depends on the clock is in ``timings`` and ``trace_timings``.
        """
        followed = [(p, r) for p, r in self.points if "trace" in r]
        tables = {
            "results": [{**_place(p), **_found(r), **_settings(p)} for p, r in self.points],
            "timings": [{**_place(p), "seconds": r["seconds"]} for p, r in self.points],
            "traces": [
                {**_place(p), "iteration": k + 1, **{n: v[k] for n, v in r["trace"].items()}}
                for p, r in followed
                for k in range(len(r["times"]))
            ],
            "trace_timings": [
                {**_place(p), "iteration": k + 1, "seconds": seconds}
                for p, r in followed
                for k, seconds in enumerate(r["times"])
            ],
            "answers": [
                {**_place(p), "answer": name, "value": value}
                for p, r in self.points
                for name, value in r.get("answers", {}).items()
            ],
        }
        for name, rows in tables.items():
            if rows:
                _write(pa.Table.from_pylist(rows), out / name)

    def _series(
        self, panel: str, curve: Curve, y: float | None, value: Callable[[Record], Any]
    ) -> Series:
        found = self._by_curve[panel, curve.name, y]
        xs = list(dict.fromkeys(point.x for point, _ in found))
        return Series(
            np.array(xs, dtype=float),
            [np.array([float(value(r)) for p, r in found if p.x == x]) for x in xs],
        )

    @cached_property
    def _by_curve(self) -> dict[tuple[str, str, float | None], list[tuple[Point, Record]]]:
        sorted_by: dict[Any, list[tuple[Point, Record]]] = {}
        for point, record in self.points:
            place = (point.panel, point.curve.name, point.y)
            sorted_by.setdefault(place, []).append((point, record))
        return sorted_by


def _place(point: Point) -> dict[str, Any]:
    return {
        "panel": point.panel,
        "x": float(point.x),
        "y": None if point.y is None else float(point.y),
        "curve": point.curve.name,
        "method": point.cell.method,
        "sources": point.cell.sources,
        "seed": point.cell.seed,
    }


def _found(record: Record) -> dict[str, Any]:
    names = ("accuracy", "matched", "n_iter", "status", "objective")
    return {name: record[name] for name in names}


def _settings(point: Point) -> dict[str, Any]:
    settings = dict(point.cell.settings)
    sizes = np.broadcast_to(settings.pop("cluster_size"), settings["n_clusters"])
    settings["sizes"] = "/".join(map(str, sizes)) if len(set(sizes)) > 1 else str(sizes[0])
    options = " ".join(f"{name}={value}" for name, value in sorted(point.cell.options.items()))
    return {**settings, "options": options, "nodeproof": __version__, "code": code_digest()}


def _write(table: pa.Table, stem: Path) -> None:
    with atomic_path(stem.with_suffix(".parquet")) as temporary:
        pa.parquet.write_table(table, temporary)
    with atomic_path(stem.with_suffix(".csv")) as temporary:
        pa.csv.write_csv(table, temporary)
