"""Maps: accuracy over two axes, a column for what is looked at, a row for each method."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from nodeproof.paper.experiments.figures.page import WIDTH, Page, seeds_of
from nodeproof.paper.experiments.methods import METHODS, SOURCES
from nodeproof.paper.experiments.panels import Panel
from nodeproof.paper.experiments.results import Results

__all__ = ["draw_map"]

_HEIGHT = 1.45

# Where the contour lines run.
_LEVEL = 0.9


def draw_map(page: Page, results: Results, panel: Panel) -> None:
    """Draw the maps of a panel: the methods, and below them what the genie makes of it."""
    assert panel.y is not None
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
            if method == methods[-1]:
                page.label(ax, panel.x.label)
            else:
                ax.tick_params(labelbottom=False)
            if ax is axes[0]:
                ax.set_ylabel(panel.y.label)
            else:
                ax.tick_params(labelleft=False)
        page.below(axes)
    bar = page.place(WIDTH - 0.52, rows[0], 0.11, rows[-1] + _HEIGHT - rows[0])
    page.figure.colorbar(image, cax=bar, label="accuracy on nodes without a label")
    bar.grid(visible=False)
    page.note(
        f"Mean over {seeds_of(results, [panel])}.  Lines: accuracy {_LEVEL:g}, "
        "solid of the map itself, dashed of the genie."
    )


def _heat(
    ax: Axes, panel: Panel, quick: bool, values: NDArray[np.float64], lowest: float
) -> QuadMesh:
    """Draw one map: a field for each pair of places, whatever lies between them."""
    assert panel.y is not None
    image = ax.pcolormesh(
        values, vmin=lowest, vmax=1, cmap="viridis", edgecolors="face", linewidth=0.2
    )
    _contour(ax, values, "black", "-", 1.4)
    ax.grid(visible=False)
    for set_ticks, axis, turned in ((ax.set_xticks, panel.x, 90), (ax.set_yticks, panel.y, 0)):
        places = axis.quick if quick else axis.grid
        labels = [f"{place:g}" for place in places]
        set_ticks(np.arange(len(places)) + 0.5, labels, rotation=turned)
    return image


def _contour(ax: Axes, values: NDArray[np.float64], colour: str, dashes: Any, width: float) -> None:
    if min(values.shape) < 2 or not values.min() < _LEVEL < values.max():
        return
    y, x = (np.arange(size) + 0.5 for size in values.shape)
    lines = ax.contour(x, y, values, [_LEVEL], colors=colour, linewidths=width, linestyles=[dashes])
    edge = "black" if colour == "white" else "white"
    lines.set_path_effects([withStroke(linewidth=width + 1.2, foreground=edge)])
