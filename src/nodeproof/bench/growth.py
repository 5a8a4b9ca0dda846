"""How times grow with the graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nodeproof.bench.rows import OWN, Row

__all__ = ["Growth", "exponent", "growth_of"]


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
    >>> from nodeproof.bench.growth import exponent
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
