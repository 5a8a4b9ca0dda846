"""Panels of curves: accuracy against a varied quantity, a column per panel, a row per method."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from nodeproof.paper.experiments.figures.axes import (
    STYLES,
    Style,
    bound_style,
    plot_series,
    set_accuracy,
    set_varied,
    style_of,
)
from nodeproof.paper.experiments.figures.page import (
    Page,
    column_width,
    columns_for,
    lines_for,
    seeds_of,
)
from nodeproof.paper.experiments.methods import METHODS, SOURCES
from nodeproof.paper.experiments.panels import Curve, Panel
from nodeproof.paper.experiments.results import Results

__all__ = ["draw_curves"]

# The curve that other methods are compared with.
_OURS = ("calibrated", "GFL")

# Axes where many curves meet are higher; in inches.
_HEIGHT, _COMPARED_HEIGHT = 1.3, 1.65

# Maximum total height of the axes of a page; beyond it they are made lower.
_MOST = 5.7


@dataclass(frozen=True)
class Line:
    """A curve, its name in the legend, and its style."""

    name: str
    curve: Curve
    style: Style


@dataclass(frozen=True)
class Row:
    """The curves of a panel that share axes."""

    title: str
    lines: tuple[Line, ...]
    height: float = _HEIGHT


def draw_curves(page: Page, results: Results, panels: list[Panel]) -> None:
    """Draw the panels of one figure; those with the same rows side by side."""
    drawing = _Drawing(page, results, panels)
    page.legend(drawing.new(line for panel in panels for line in drawing.bounds[panel.name]))
    drawing.all(panels)
    page.note(
        f"Mean over {seeds_of(results, panels)}; bands: ± one standard error of the mean.  "
        "The scale of accuracy widens towards 1.\n"
        "Genie bound: told the true parameters and every other node's class."
    )


def rows_of(curves: list[Curve]) -> list[Row]:
    """Return a row for each method with several curves, and one for all the others.

    If there is only one other curve, it is drawn in every row instead.
    """
    times = Counter(curve.method for curve in curves)
    alone = [curve for curve in curves if times[curve.method] == 1]
    rows = [
        Row(METHODS[method].title, _configurations([c for c in curves if c.method == method]))
        for method in times
        if times[method] > 1
    ]
    if rows and len(alone) == 1:
        other = Line(_name(alone[0]), alone[0], style_of(alone[0].method))
        rows = [Row(row.title, (*row.lines, other)) for row in rows]
    elif alone or not rows:
        ours = [c for c in curves if (c.method, c.sources) == _OURS and not c.options]
        others = [curve for curve in alone if curve not in ours]
        lines = (
            *(Line(_name(curve), curve, STYLES[curve.sources]) for curve in ours),
            *(Line(_name(curve), curve, style_of(curve.method)) for curve in others),
        )
        title = f"{METHODS[_OURS[0]].title}, beside other methods" if ours else "methods compared"
        rows.append(Row(title, lines, _COMPARED_HEIGHT))
    return rows


def _configurations(curves: list[Curve]) -> tuple[Line, ...]:
    """Name the curves of one method by their sources, or by their own title."""
    titled = [curve.title for curve in curves if curve.title]
    return tuple(
        Line(curve.title, curve, style_of(curve.method, titled.index(curve.title)))
        if curve.title
        else Line(SOURCES[curve.sources], curve, STYLES[curve.sources])
        for curve in curves
    )


def _name(curve: Curve) -> str:
    return curve.title or f"{METHODS[curve.method].title} ({'+'.join(curve.sources)})"


class _Drawing:
    """What the panels of one figure share: the range of y, and the names in legends so far."""

    def __init__(self, page: Page, results: Results, panels: list[Panel]) -> None:
        self.page, self.results = page, results
        measured = {(point.panel, point.curve.name) for point, _ in results.points}
        self.rows: dict[str, list[Row]] = {}
        self.bounds: dict[str, list[Line]] = {}
        for panel in panels:
            curves = [c for c in panel.curves if (panel.name, c.name) in measured]
            self.rows[panel.name] = rows_of([c for c in curves if c.method != "genie"])
            genies = sorted(
                (c for c in curves if c.method == "genie"), key=lambda c: -len(c.sources)
            )
            self.bounds[panel.name] = [
                Line(_name(curve), curve, bound_style(curve.sources, genies[0].sources))
                for curve in genies
            ]
        every = [
            results.series(panel.name, line.curve)
            for panel in panels
            for line in self._lines(panel)
        ]
        lowest = min(float((series.mean - series.error).min()) for series in every)
        # Some room below the curves, for marks on the axis.
        self.lowest = max(0.0, np.floor(10 * lowest - 0.7) / 10)
        self.named: set[str] = set()

    def all(self, panels: list[Panel]) -> None:
        """Draw the panels, grouped by their rows."""
        kinds: dict[tuple[str, ...], list[Panel]] = {}
        for panel in panels:
            titles = tuple(row.title for row in self.rows[panel.name])
            kinds.setdefault(titles, []).append(panel)
        high = 0.0
        for alike in kinds.values():
            rows = self.rows[alike[0].name]
            if len(alike) == 1:
                high += _COMPARED_HEIGHT * lines_for(len(rows))
            else:
                high += sum(row.height for row in rows) * lines_for(len(alike))
        self.shrink = min(1.0, max(_MOST / high, 0.7))
        for alike in kinds.values():
            if len(alike) == 1:
                self.one(alike[0])
                continue
            columns = columns_for(len(alike))
            for first in range(0, len(alike), columns):
                self.side_by_side(alike[first : first + columns], columns)

    def side_by_side(self, panels: list[Panel], columns: int) -> None:
        """Draw panels with the same rows, a column each."""
        for k, rows in enumerate(zip(*(self.rows[panel.name] for panel in panels), strict=True)):
            self.page.text(rows[0].title, weight="bold", size=7.5)
            self.page.legend(self.new(line for row in rows for line in row.lines))
            self.page.top += 0.0 if k else 0.16
            last = k == len(self.rows[panels[0].name]) - 1
            axes = self.page.row(len(panels), self.shrink * rows[0].height, columns=columns)
            for panel, row, ax in zip(panels, rows, axes, strict=True):
                self._draw(ax, panel, row, first=k == 0)
                if k == 0:
                    ax.set_title(panel.title, pad=4)
                if last:
                    self.page.label(ax, panel.x.label)
                else:
                    ax.tick_params(labelbottom=False)
            self._share(axes)
            self.page.below(axes)

    def one(self, panel: Panel) -> None:
        """Draw a panel that has rows of its own, these side by side."""
        rows = self.rows[panel.name]
        columns = columns_for(len(rows))
        how: dict[str, Any] = {"size": 7, "weight": "bold"}
        titles = [self.page.fit(row.title, column_width(columns), ", ", **how) for row in rows]
        self.page.text(panel.title, size=8)
        self.page.legend(self.new(line for row in rows for line in row.lines))
        for first in range(0, len(rows), columns):
            shown = slice(first, first + columns)
            self.page.top += 0.16 + 0.12 * any("\n" in title for title in titles[shown])
            axes = self.page.row(len(rows[shown]), self.shrink * _COMPARED_HEIGHT, columns=columns)
            for row, title, ax in zip(rows[shown], titles[shown], axes, strict=True):
                self._draw(ax, panel, row, first=row is rows[0])
                ax.set_title(title, pad=4, **how)
            self._share(axes)
            self.page.below(axes)
        self.page.text(panel.x.label)
        self.page.top += 0.04

    def new(self, lines: Iterable[Line]) -> dict[str, Style]:
        """Return what is in no legend yet."""
        new = {line.name: line.style for line in lines if line.name not in self.named}
        self.named |= set(new)
        return new

    def _lines(self, panel: Panel) -> list[Line]:
        return [
            *self.bounds[panel.name],
            *(line for row in self.rows[panel.name] for line in row.lines),
        ]

    def _draw(self, ax: Axes, panel: Panel, row: Row, first: bool) -> None:
        """Draw one row of a panel; the genie with fewer sources in the first row only."""
        bounds = self.bounds[panel.name]
        for line in bounds if first else bounds[:1]:
            series = self.results.series(panel.name, line.curve)
            # The bound stays visible where a curve reaches it.
            ax.plot(series.x, series.mean, zorder=4, **line.style.keywords)
        for line in sorted(row.lines, key=lambda line: -line.style.size):
            plot_series(ax, self.results.series(panel.name, line.curve), line.style)
        drawn = [self.results.series(panel.name, line.curve).x for line in self._lines(panel)]
        set_varied(ax, panel.x, np.unique(np.concatenate(drawn)), named=first)
        set_accuracy(ax, self.lowest)

    def _share(self, axes: list[Axes]) -> None:
        axes[0].set_ylabel("accuracy on nodes\nwithout a label")
        for ax in axes[1:]:
            ax.tick_params(labelleft=False)
