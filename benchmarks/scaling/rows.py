"""The rows of the tables, how times grow from row to row, and how figures are written."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["OWN", "Growth", "Row", "exponent", "growth_of", "in_units", "power_of_ten"]

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


def exponent(links: list[int], seconds: list[float]) -> float:
    """Return how times grow with the links: least squares of log(time) on log(links).

    Examples
    --------
    >>> from scaling.rows import exponent
    >>> round(exponent([100, 1_000, 10_000], [1.0, 20.0, 400.0]), 3)
    1.301
    """
    return float(np.polyfit(np.log(links), np.log(seconds), 1)[0])


def growth_of(rows: list[Row]) -> dict[str, Growth]:
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


def in_units(seconds: float) -> str:
    """Write a time with two or three digits and its unit.

    Examples
    --------
    >>> from scaling.rows import in_units
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
    >>> from scaling.rows import power_of_ten
    >>> power_of_ten(1e6), power_of_ten(2e8), power_of_ten(12_500)
    ('10⁶', '2·10⁸', '1.25·10⁴')
    """
    mantissa, power = f"{number:e}".split("e")
    digits = str(int(power)).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    factor = f"{float(mantissa):g}"
    return f"10{digits}" if factor == "1" else f"{factor}·10{digits}"
