"""Traced runs: how far the objective is above the best found, and the accuracy of the classes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from nodeproof.paper.experiments.figures.axes import PLAIN, Style, style_in_turn
from nodeproof.paper.experiments.figures.page import Page, seeds_of
from nodeproof.paper.experiments.panels import Curve, Panel
from nodeproof.paper.experiments.results import Results

__all__ = ["draw_traces"]

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
    runs = [results.traces(panel.name, curve) for curve in panel.curves]
    styles = [replace(style_in_turn(k), open=True) for k in range(len(runs))]
    longest = max(len(run["times"]) for seeds in runs for run in seeds)
    places: dict[str, list[Courses]] = {
        "iteration": [[np.arange(longest) + 1.0 for _ in seeds] for seeds in runs],
        "seconds": [[np.array(run["times"]) for run in seeds] for seeds in runs],
    }
    columns: dict[str, dict[int, Courses]] = {}
    for objective in (_PHI, _FREE_ENERGY):
        same = [k for k, curve in enumerate(panel.curves) if _objective(curve) == objective]
        if same:
            columns[objective] = dict(zip(same, _excess([runs[k] for k in same]), strict=True))
    columns[_ACCURACY] = {
        k: [np.array(run["trace"]["accuracy"]) for run in seeds] for k, seeds in enumerate(runs)
    }
    page.text(panel.title, size=8)
    page.legend({curve.name: style for curve, style in zip(panel.curves, styles, strict=True)})
    for against, x in places.items():
        axes = page.row(len(columns), _HEIGHT, gap=0.5)
        for ax, courses in zip(axes, columns.values(), strict=True):
            if against == "seconds":
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


def _draw(ax: Axes, x: Courses, values: Courses, style: Style, size: float) -> None:
    """Draw each run thin and their median thick, up to the median length of the runs."""
    for one, course in zip(x, values, strict=True):
        ax.plot(one[: len(course)], course, color=style.colour, lw=0.4, alpha=0.6)
    length = int(np.median([len(course) for course in values]))
    how = {**style.keywords, "markersize": size, "markerfacecolor": "none", "markeredgewidth": 1}
    ax.plot(_median(x, length), _median(values, length), **how)


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
        if against == "seconds":
            ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
            ax.xaxis.set_minor_locator(NullLocator())
            ax.xaxis.set_major_formatter(PLAIN)
        else:
            ax.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
        if title == _ACCURACY:
            ax.set_ylim(top=1.02)
            continue
        top = max(float(np.max(line.get_ydata())) for line in ax.lines)
        ax.set_yscale("symlog", linthresh=_LINEAR)
        ax.set_ylim(-0.2 * _LINEAR, 2 * max(top, _LINEAR))
        ax.yaxis.set_major_locator(FixedLocator([0.0, *(10.0**k for k in range(-2, 6))]))
        ax.yaxis.set_major_formatter(PLAIN)
