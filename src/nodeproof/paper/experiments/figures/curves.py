"""Panels of curves: accuracy against a varied quantity, and traced runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator
from numpy.typing import NDArray

from nodeproof.paper.experiments.figures.page import (
    PLAIN,
    STYLES,
    Page,
    Style,
    bound_style,
    column_width,
    columns_for,
    lines_for,
    plot_series,
    seeds_of,
    set_accuracy,
    set_varied,
    style_in_turn,
    style_of,
)
from nodeproof.paper.experiments.methods import METHODS, READINGS, SOURCES
from nodeproof.paper.experiments.panels import Curve, Panel
from nodeproof.paper.experiments.results import Results

__all__ = ["draw_curves", "draw_traces"]

# The curve that other methods are compared with.
_OURS = ("calibrated", "GFL")

# Axes where many curves meet are higher; in inches.
_HEIGHT, _COMPARED_HEIGHT = 1.4, 1.75

# Sideways, in points, from one curve to the next: many have the same values close to 1.
_APART = 0.9

# Maximum total height of the axes of a page; beyond it they are made lower.
_MOST = 6.2


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
        "The scale of accuracy is logarithmic in the error.\n"
        "Genie bound: told the true parameters and every other node's class.  Curves are a little "
        "apart sideways, so that equal ones can be told apart."
        + "".join(f"\n{panel.title}: {panel.note}" for panel in panels if panel.note)
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


def _drawn(curves: Iterable[Curve]) -> list[Curve]:
    """Return the curves that are drawn: CADO from other starts than random is in the tables."""
    return [
        curve
        for curve in curves
        if (curve.method not in READINGS or READINGS[curve.method].start == "random")
        and curve.options.get("start", "random") == "random"
    ]


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
            curves = [c for c in _drawn(panel.curves) if (panel.name, c.name) in measured]
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
        self.lowest = min(max(0.0, lowest), 0.9)
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
        middle = (len(row.lines) - 1) / 2
        shifts = {line.name: _APART * (k - middle) for k, line in enumerate(row.lines)}
        for line in sorted(row.lines, key=lambda line: -line.style.size):
            series = self.results.series(panel.name, line.curve)
            plot_series(ax, series, line.style, shift=shifts[line.name])
        drawn = [self.results.series(panel.name, line.curve).x for line in self._lines(panel)]
        set_varied(ax, panel.x, np.unique(np.concatenate(drawn)), named=first)
        set_accuracy(ax, self.lowest)

    def _share(self, axes: list[Axes]) -> None:
        axes[0].set_ylabel("accuracy on nodes\nwithout a label")
        for ax in axes[1:]:
            ax.tick_params(labelleft=False)


_HEIGHT = 1.5

# Below this percentage the scale is linear, so that it includes zero.
_LINEAR = 0.01

_PHI = "$\\phi$ above the best found, %"
_FREE_ENERGY = "free energy above the best, %"
_ACCURACY = "accuracy on all nodes"

# For each seed, one value per iteration.
Courses = list[NDArray[np.floating]]


def draw_traces(page: Page, results: Results, panel: Panel) -> None:
    """Draw the runs against iteration and time: φ, free energy and accuracy, one column each."""
    curves = _drawn(panel.curves)
    runs = [results.traces(panel.name, curve) for curve in curves]
    styles = [replace(style_in_turn(k), open=True) for k in range(len(runs))]
    longest = max(len(run["times"]) for seeds in runs for run in seeds)
    places: dict[str, list[Courses]] = {
        "iteration": [[np.arange(longest) + 1.0 for _ in seeds] for seeds in runs],
        "seconds": [[np.array(run["times"]) for run in seeds] for seeds in runs],
    }
    columns: dict[str, dict[int, Courses]] = {}
    for objective in (_PHI, _FREE_ENERGY):
        same = [k for k, curve in enumerate(curves) if _objective(curve) == objective]
        if same:
            columns[objective] = dict(zip(same, _excess([runs[k] for k in same]), strict=True))
    columns[_ACCURACY] = {
        k: [np.array(run["trace"]["accuracy"]) for run in seeds] for k, seeds in enumerate(runs)
    }
    page.text(panel.title, size=8)
    page.legend({curve.name: style for curve, style in zip(curves, styles, strict=True)})
    for against, x in places.items():
        axes = page.row(len(columns), _HEIGHT, gap=0.5)
        for ax, courses in zip(axes, columns.values(), strict=True):
            ax.set_xscale("log")
            for k, values in courses.items():
                # Later markers are smaller, so that equal values are all visible.
                size = 8 - 5 * k / max(len(runs) - 1, 1)
                _draw(ax, x[k], values, styles[k], size)
        _scale(axes, columns, against)
        page.below(axes)
    page.note(
        f"Markers: median over {seeds_of(results, [panel])}, a run that has stopped keeping its "
        "last value; thin lines: each seed.\nBest found: by any of the runs of the same seed "
        f"with the same objective. Below {_LINEAR} % the scale is linear."
    )


def _objective(curve: Curve) -> str:
    """Return the objective of a run; only calibrated weights have a free energy."""
    return _FREE_ENERGY if curve.options.get("weights") == "calibrated" else _PHI


def _excess(runs: list[list[dict[str, Any]]]) -> list[Courses]:
    """Return for each curve how far it is above the best of any curve on the same seed, in %."""
    best = [min(min(run["trace"]["value"]) for run in same) for same in zip(*runs, strict=True)]
    return [
        [
            100 * (np.array(run["trace"]["value"]) - low) / (abs(low) or 1.0)
            for run, low in zip(seeds, best, strict=True)
        ]
        for seeds in runs
    ]


# Markers on the course of one run.
_MARKERS = 12


def _draw(ax: Axes, x: Courses, values: Courses, style: Style, size: float) -> None:
    """Draw each run thin and their median thick, up to the median length of the runs."""
    for one, course in zip(x, values, strict=True):
        ax.plot(one[: len(course)], course, color=style.colour, lw=0.4, alpha=0.6)
    length = int(np.median([len(course) for course in values]))
    how = {**style.keywords, "markersize": size, "markerfacecolor": "none", "markeredgewidth": 1}
    # As far apart as the logarithmic axes need, however long the run is.
    marked = np.unique(np.geomspace(1, length, _MARKERS).astype(int)) - 1
    ax.plot(_median(x, length), _median(values, length), markevery=list(marked), **how)


def _median(courses: Courses, length: int) -> NDArray[np.floating]:
    """Return the median over the seeds; a run that has stopped keeps its last value."""
    kept = [np.append(course, np.full(length, course[-1]))[:length] for course in courses]
    return np.asarray(np.median(kept, axis=0))


def _scale(axes: list[Axes], titles: Iterable[str], against: str) -> None:
    """Set scales, ticks and labels of axes side by side; they share the range of x."""
    low = min(ax.get_xlim()[0] for ax in axes)
    high = max(ax.get_xlim()[1] for ax in axes)
    for ax, title in zip(axes, titles, strict=True):
        ax.set_xlabel(against)
        ax.set_ylabel(title)
        ax.set_xlim(low, high)
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_major_formatter(PLAIN)
        if title == _ACCURACY:
            ax.set_ylim(top=1.02)
            continue
        top = max(float(np.max(line.get_ydata())) for line in ax.lines)
        ax.set_yscale("symlog", linthresh=_LINEAR)
        ax.set_ylim(-0.2 * _LINEAR, 2 * max(top, _LINEAR))
        ax.yaxis.set_major_locator(FixedLocator([0.0, *(10.0**k for k in range(-2, 6))]))
        ax.yaxis.set_major_formatter(PLAIN)
