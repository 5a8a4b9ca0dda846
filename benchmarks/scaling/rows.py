"""The rows of the tables, how times grow from row to row, and how figures are written."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["OWN", "Growth", "Row", "exponent", "growth_of", "in_units", "power_of_ten"]

#: the name of nodeproof among the methods
OWN = "nodeproof"


@dataclass(frozen=True)
class Row:
    """The figures of one method at one size; times are in seconds.

    Attributes
    ----------
    method, sources : str
        The method and its sources.
    links, nodes : int
        Size of the graph.
    on_disk : bool
        Whether the graph stayed on disk.
    seconds : float or None
        The whole fit; None if it failed or was not run.
    product, index_pass : float or None
        One ``A @ M`` (float32, n×10) and one pass over the indices, in the same process.
    sweep : float or None
        The median sweep.
    fit_per_product, fit_per_pass, sweep_per_product, sweep_per_pass : float or None
        Ratios.
    sweep_per_link : float or None
        Nanoseconds.
    sweeps, starts : int or None
        Number of sweeps over the whole graph, and of starts of the final solve.
    chosen : str
        Names of the automatic choices: at some sizes a fit makes more than at others.
    accuracy, hidden, genie : float or None
        At all nodes, at unlabelled ones, and the best possible at these.
    peak_mb, memory : float or None
        Peak anonymous memory above that before the fit, and its ratio to graph, features and
        memberships (if these have 16 MB or more: below, other allocations count as much).
    compiled : float or None
        A first fit on a small graph, which is not counted.
    note : str
        Remark for the reader.
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
        """The method, marked if its time is extrapolated."""
        return f"{self.method} (extrapolated)" if "extrapolated" in self.note else self.method


@dataclass(frozen=True)
class Growth:
    """How a time grows with the links: time ~ links^exponent.

    Attributes
    ----------
    exponent : float
        By least squares of log(time) on log(links).
    sizes : list of int
        Numbers of links at which it was measured.
    same_work : bool
        Whether the work was the same at all of them; a fit of few nodes has more starts and
        cross-fitted models, and may take longer than one of many.
    """

    exponent: float
    sizes: list[int]
    same_work: bool


def exponent(links: list[int], seconds: list[float]) -> float:
    """Return the exponent of times by links: least squares of log(time) on log(links)."""
    return float(np.polyfit(np.log(links), np.log(seconds), 1)[0])


def growth_of(rows: list[Row]) -> dict[str, Growth]:
    """Return the growth of every time that was measured at two or more sizes."""
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
    """Return the growth of a time; for whole fits, at sizes with the same work as the largest."""
    same = True
    if name.startswith("fit "):
        last = points[-1][0]
        alike = [p for p in points if (p[0].starts, p[0].chosen) == (last.starts, last.chosen)]
        same = len(alike) > 1
        points = alike if same else points
    sizes = [row.links or 0 for row, _ in points]
    return Growth(exponent(sizes, [seconds for _, seconds in points]), sizes, same)


def in_units(seconds: float) -> str:
    """Write a time with two or three digits and its unit."""
    value, unit = seconds, "s"
    if seconds < 0.1:
        value, unit = (1e3 * seconds, "ms") if seconds >= 1e-4 else (1e6 * seconds, "µs")
    digits = 0 if value >= 10 else 1 if value >= 1 else 2
    return f"{value:.{digits}f} {unit}"


def power_of_ten(number: float) -> str:
    """Write a large number as a power of ten."""
    mantissa, power = f"{number:e}".split("e")
    digits = str(int(power)).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    factor = f"{float(mantissa):g}"
    return f"10{digits}" if factor == "1" else f"{factor}·10{digits}"
