"""Maps over two axes: of accuracy, and of answers about exact recovery."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray
from scipy.ndimage import binary_erosion

from nodeproof.paper.experiments.figures.page import WIDTH, Page, Style, seeds_of
from nodeproof.paper.experiments.methods import METHODS, SOURCES
from nodeproof.paper.experiments.panels import Curve, Panel
from nodeproof.paper.experiments.recovery import QUESTIONS
from nodeproof.paper.experiments.results import Results

__all__ = ["draw_answers", "draw_map"]

_HEIGHT = 1.45

# Accuracy of the contour lines.
_LEVEL = 0.9

# Maps of answers side by side.
_COLUMNS = 3

# Outlines of what one source tells alone, each a little further inside, so that both are visible.
_ALONE = {
    "G": ("graph alone", Style("#d55e00", dashes="-", width=1.9), 1),
    "L": ("nodes alone", Style("black", dashes=(0, (2.2, 1.1)), width=1.2), 3),
}
_LINE = Style("#7a1fa2", dashes=(0, (1, 1)), width=1.6)

# Light enough for lines to be visible on it.
_BLUES = LinearSegmentedColormap.from_list("light blues", ["white", "#c9dff0", "#7db4dc"])

# Pixels per field, for the outlines.
_FINE = 24


def draw_map(page: Page, results: Results, panel: Panel) -> None:
    """Draw maps of accuracy: one row per method, the genie last; one column per set of sources."""
    curves = sorted(panel.curves, key=lambda curve: curve.method == "genie")
    sources = list(dict.fromkeys(curve.sources for curve in curves))
    methods = list(dict.fromkeys(curve.method for curve in curves))
    maps = {(c.method, c.sources): results.grid(panel.name, c)[0] for c in curves}
    lowest = min(float(found.min()) for found in maps.values())
    page.text(panel.title, size=8)
    rows: list[float] = []
    for method in methods:
        page.text(METHODS[method].title, weight="bold", size=7.5)
        page.top += 0.0 if rows else 0.14
        axes = page.row(len(sources), _HEIGHT, right=0.62)
        rows.append(page.top)
        for source, ax in zip(sources, axes, strict=True):
            if (method, source) in maps:
                image = _heat(ax, panel, results.quick, maps[method, source], lowest)
            else:
                ax.set_axis_off()
            if method != "genie" and ("genie", source) in maps:
                # Light on dark: where the lines meet, both are seen.
                _contour(ax, maps["genie", source], "white", (0, (2.5, 1.5)), 0.9)
            if method == methods[0]:
                ax.set_title(SOURCES[source], pad=4)
            _label_axes(page, ax, panel, left=ax is axes[0], bottom=method == methods[-1])
        page.below(axes)
    _add_colour_bar(page, image, rows, "accuracy on nodes without a label")
    page.note(
        f"Mean over {seeds_of(results, [panel])}.  Lines: accuracy {_LEVEL:g}, "
        "solid of the map itself, dashed of the genie."
    )


def _heat(
    ax: Axes, panel: Panel, quick: bool, values: NDArray[np.float64], lowest: float
) -> QuadMesh:
    """Draw one map: fields of equal size, one for each pair of grid points."""
    image = ax.pcolormesh(
        values, vmin=lowest, vmax=1, cmap="viridis", edgecolors="face", linewidth=0.2
    )
    _contour(ax, values, "black", "-", 1.4)
    _set_ticks(ax, panel, quick)
    return image


def _contour(ax: Axes, values: NDArray[np.float64], colour: str, dashes: Any, width: float) -> None:
    if min(values.shape) < 2 or not values.min() < _LEVEL < values.max():
        return
    y, x = (np.arange(size) + 0.5 for size in values.shape)
    lines = ax.contour(x, y, values, [_LEVEL], colors=colour, linewidths=width, linestyles=[dashes])
    edge = "black" if colour == "white" else "white"
    lines.set_path_effects([withStroke(linewidth=width + 1.2, foreground=edge)])


def draw_answers(page: Page, results: Results, panel: Panel) -> None:
    """Draw one map per question: shaded by both sources together, outlined by one alone."""
    page.text(panel.title, size=8)
    legend = {name: style for name, style, _ in _ALONE.values()}
    page.legend({**legend, panel.line[1]: _LINE} if panel.line else legend)
    page.top += 0.14
    asked = [question for question in QUESTIONS if _curve(panel, question.method, "GL")]
    rows: list[float] = []
    for first in range(0, len(asked), _COLUMNS):
        here = asked[first : first + _COLUMNS]
        axes = page.row(len(here), _HEIGHT, columns=_COLUMNS, right=0.62)
        rows.append(page.top)
        last = first + _COLUMNS >= len(asked)
        for question, ax in zip(here, axes, strict=True):
            shares = _shares(results, panel, question.method, question.answer)
            image = _shade(ax, panel, results.quick, shares["GL"])
            for sources, (_, style, inside) in _ALONE.items():
                if sources in shares:
                    _outline(ax, shares[sources], style, inside)
            if panel.line:
                _across(ax, panel, results.quick)
            ax.set_title(question.title, pad=4, size=7.5)
            _label_axes(page, ax, panel, left=ax is axes[0], bottom=last)
        page.below(axes)
        page.top += 0.0 if last else 0.16
    _add_colour_bar(page, image, rows, "share of the draws, graph and nodes together")
    page.note(
        f"{seeds_of(results, [panel]).capitalize()} at each place. Shaded: the answer is yes for "
        "graph and nodes together. Outlined: it is\nyes for one alone on most draws; nodes alone "
        "are not asked for proofs. Hatched: too large to ask."
    )
    page.top += 0.1


def _curve(panel: Panel, method: str, sources: str) -> Curve | None:
    asked = (method, sources)
    return next((c for c in panel.curves if (c.method, c.sources) == asked), None)


def _shares(
    results: Results, panel: Panel, method: str, answer: str
) -> dict[str, NDArray[np.float64]]:
    """Return by sources the share of yes, shape (places on y, places on x); NaN: not asked."""
    columns, rows = _places(panel, results.quick)
    found = {}
    for sources in ("GL", *_ALONE):
        if curve := _curve(panel, method, sources):
            found[sources] = np.full((len(rows), len(columns)), np.nan)
            for k, y in enumerate(rows):
                series = results.answers(panel.name, curve, answer, y)
                found[sources][k, np.searchsorted(columns, series.x)] = series.mean
    return found


def _places(panel: Panel, quick: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    assert panel.y is not None
    x, y = (np.array(a.quick if quick else a.grid, dtype=float) for a in (panel.x, panel.y))
    return x, y


def _shade(ax: Axes, panel: Panel, quick: bool, shares: NDArray[np.float64]) -> QuadMesh:
    ax.patch.set(hatch="//////", facecolor="0.93", edgecolor="0.72", linewidth=0)
    image = ax.pcolormesh(
        np.ma.masked_invalid(shares), vmin=0, vmax=1, cmap=_BLUES, edgecolors="0.82", linewidth=0.3
    )
    _set_ticks(ax, panel, quick)
    return image


def _outline(ax: Axes, shares: NDArray[np.float64], style: Style, inside: int) -> None:
    """Draw the border of where the share is above one half, some pixels inside of it."""
    fine = np.kron(shares > 0.5, np.ones((_FINE, _FINE), dtype=bool))
    region = binary_erosion(np.pad(fine, 1), iterations=inside)
    if not region.any():
        return
    y, x = ((np.arange(size) - 0.5) / _FINE for size in region.shape)
    ax.contour(
        x, y, region.astype(float), [0.5], colors=style.colour, linewidths=style.width,
        linestyles=[style.dashes],
    )  # fmt: skip
    ax.set_xlim(0, shares.shape[1])
    ax.set_ylim(0, shares.shape[0])


def _across(ax: Axes, panel: Panel, quick: bool) -> None:
    """Draw the line of the panel, interpolated between grid points by logarithms."""
    assert panel.line is not None
    columns, rows = _places(panel, quick)
    y = [panel.line[0](float(x)) for x in columns]
    at = np.interp(np.log(y), np.log(rows), np.arange(len(rows)) + 0.5)
    middles = np.arange(len(columns)) + 0.5
    ax.plot(middles, at, color=_LINE.colour, linestyle=_LINE.dashes, lw=_LINE.width)


def _set_ticks(ax: Axes, panel: Panel, quick: bool) -> None:
    ax.grid(visible=False)
    columns, rows = _places(panel, quick)
    for set_ticks, places, turned in ((ax.set_xticks, columns, 90), (ax.set_yticks, rows, 0)):
        labels = [f"{place:g}" for place in places]
        set_ticks(np.arange(len(places)) + 0.5, labels, rotation=turned)


def _label_axes(page: Page, ax: Axes, panel: Panel, *, left: bool, bottom: bool) -> None:
    """Label the axes at the left and at the bottom of the page only."""
    assert panel.y is not None
    if bottom:
        page.label(ax, panel.x.label)
    else:
        ax.tick_params(labelbottom=False)
    if left:
        ax.set_ylabel(panel.y.label)
    else:
        ax.tick_params(labelleft=False)


def _add_colour_bar(page: Page, image: QuadMesh, rows: list[float], label: str) -> None:
    """Place a colour bar beside rows of maps that begin at these heights."""
    bar = page.place(WIDTH - 0.52, rows[0], 0.11, rows[-1] + _HEIGHT - rows[0])
    page.figure.colorbar(image, cax=bar, label=label)
    bar.grid(visible=False)
