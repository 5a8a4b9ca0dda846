"""Figures 1 to 3 as the paper prints them: its panels, axes, ranges, ticks, colours and curves.

Sizes are those of the paper's source (pgfplots, a text width of 5.5 inches), in points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from nodeproof.paper.experiments.methods import SOURCES
from nodeproof.paper.experiments.panels import Curve
from nodeproof.paper.experiments.results import Results

__all__ = ["PRINTED", "Frame", "compose_printed"]

# "color1", "color2", … of the source.
_RED, _GREEN, _BLUE = "#ff0000", "#00ff00", "#0000ff"
_MAGENTA, _CYAN, _BROWN, _OLIVE = "#ff00ff", "#00ffff", "#800000", "#808000"

_COLOURS = {
    "G": _RED, "F": _GREEN, "GF": _BLUE, "GL": _BROWN, "FL": _MAGENTA, "GFL": _CYAN,
}  # fmt: skip


@dataclass(frozen=True)
class Frame:
    """One panel of the paper.

    Attributes
    ----------
    label : str
        Label of the x axis.
    x, y : (float, float)
        Ranges of the axes.
    ticks : tuple of float
        Ticks of the x axis.
    y_ticks : tuple of float
        Ticks of the y axis.
    curves : mapping from str to str
        For the configurations that are drawn, in this order, their colours.
    """

    label: str
    x: tuple[float, float]
    y: tuple[float, float]
    ticks: tuple[float, ...]
    y_ticks: tuple[float, ...]
    curves: Mapping[str, str]


def _paint(*sources: str, **others: str) -> dict[str, str]:
    return {one: others.get(one, _COLOURS[one]) for one in sources}


_FIFTHS = (0.4, 0.6, 0.8, 1.0)

#: by figure and panel, what the paper draws
PRINTED: dict[str, dict[str, Frame]] = {
    "fig1": {
        "p": Frame(
            "intra-community connectivity: $p$",
            (0.0, 0.16), (0.3, 1.05), (0.0, 0.05, 0.1, 0.15), _FIFTHS,
            _paint("G", "GF", "GL", "GFL"),
        ),
        "omega": Frame(
            r"noise power: $\omega$",
            (0.0, 5.0), (0.3, 1.05), (0, 1, 2, 3, 4, 5), _FIFTHS,
            _paint("F", "FL", "GF", "GFL"),
        ),
        "labels": Frame(
            r"training label ratio: $n_{\mathrm{t}}/n_0$",
            (0.0, 0.57), (0.6, 0.95), (0.0, 0.1, 0.2, 0.3, 0.4, 0.5), (0.6, 0.7, 0.8, 0.9),
            _paint("GL", "FL", "GFL"),
        ),
    },
    # Its plot is missing in the source: curves and colours are those of the caption, ranges are
    # those of our grids.
    "fig2": {
        name: Frame(
            rf"$\beta_{name[-1]}$", (0.0, ticks[-1]), (0.3, 1.05), ticks, _FIFTHS,
            _paint("GF", "GL", "GFL", GF=_MAGENTA),
        )
        for name, ticks in (
            ("beta_g", (0, 2, 4, 6, 8, 10)),
            ("beta_f", (0, 5, 10, 15, 20, 25)),
            ("beta_l", (0, 10, 20, 30, 40, 50)),
        )
    },
    "fig3": {
        "n": Frame(
            "number of nodes: $n$",
            (30, 1500), (0.3, 1.0), (100, 300, 500, 700, 900, 1100, 1300, 1500), _FIFTHS,
            _paint("G", "GF", "GL", "GFL"),
        ),
        "m": Frame(
            "Feature Dimension: $m$",
            (3, 27), (0.75, 1.0), (3, 6, 9, 12, 15, 18, 21, 24, 27),
            (0.75, 0.8, 0.85, 0.9, 0.95, 1.0),
            _paint("GF", "GFL"),
        ),
        # The source draws Feature + Label in the colour that its legend gives to Graph.
        "clusters": Frame(
            "Number of Clusters: $c$",
            (2, 60), (0.0, 1.0), (2, 5, 10, 20, 30, 60), (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
            _paint("GL", "GF", "FL", "GFL", FL=_RED),
        ),
    },
}  # fmt: skip

# pgfplots takes 45 pt off both sides of 6.75 cm × 4.5 cm for labels; the picture is scaled by 3/4.
_WIDTH, _HEIGHT, _GAP = 110.3, 62.3, 18.5
_LEFT, _RIGHT, _BELOW, _ABOVE = 25.0, 10.0, 25.0, 18.0
_POINT = 1 / 72

# Times and Computer Modern, as in the paper; both come with matplotlib. Ticks are a point smaller
# than there, where those of Figure 3 run into each other.
_TEXT, _TICK, _SMALL = (
    FontProperties(family="STIXGeneral", size=size, math_fontfamily="cm") for size in (7, 6, 5.5)
)


def compose_printed(results: Results, name: str, solver: str = "cado") -> Figure | None:
    """Return a figure as the paper prints it; None if it has none of its panels and curves.

    Parameters
    ----------
    results : Results
        The results; panels that they do not have are left out.
    name : str
        Name of the figure.
    solver : str
        The method whose curves are drawn. The graph alone is spectral clustering, as in the paper.
    """
    frames = PRINTED.get(name, {})
    found = {panel: _lines(results, panel, frame, solver) for panel, frame in frames.items()}
    shown = [panel for panel in frames if found[panel]]
    if not shown:
        return None
    width = _LEFT + len(frames) * _WIDTH + (len(frames) - 1) * _GAP + _RIGHT
    height = _BELOW + _HEIGHT + _ABOVE
    figure = Figure((width * _POINT, height * _POINT))
    for place, panel in enumerate(frames):
        if panel not in shown:
            continue
        left = _LEFT + place * (_WIDTH + _GAP)
        box = (left / width, _BELOW / height, _WIDTH / width, _HEIGHT / height)
        axes = figure.add_axes(box)
        _set_axes(axes, frames[panel])
        for colour, (x, y) in found[panel]:
            _draw(axes, frames[panel], colour, x, y)
        if panel == "p":
            _mark_q(axes)
    measured = "top-1 accuracy" if name == "fig2" else "test accuracy"
    figure.axes[0].set_ylabel(measured, fontproperties=_TEXT, labelpad=1)
    _legend(figure, name)
    return figure


Points = tuple[list[float], list[float]]


def _lines(results: Results, panel: str, frame: Frame, solver: str) -> list[tuple[str, Points]]:
    """Return colour and points of the curves of a panel that were run."""
    lines = []
    for sources, colour in frame.curves.items():
        curve = Curve("spectral" if sources == "G" else solver, sources)
        try:
            series = results.series(panel, curve)
        except KeyError:
            continue
        lines.append((colour, (series.x.tolist(), series.mean.tolist())))
    return lines


def _set_axes(axes: Axes, frame: Frame) -> None:
    axes.set_xlim(*frame.x)
    axes.set_ylim(*frame.y)
    axes.set_xticks(frame.ticks, [_number(tick) for tick in frame.ticks])
    axes.set_yticks(frame.y_ticks, [_number(tick) for tick in frame.y_ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(visible=True, linestyle=(0, (1, 2)), linewidth=0.4, color="0.1", zorder=0)
    axes.set_axisbelow(True)
    # As pgfplots draws them: inside, on all four sides.
    axes.tick_params(
        direction="in", top=True, right=True, length=2.5, width=0.3, color="0.5", pad=3
    )
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set_fontproperties(_TICK)
    for side in axes.spines.values():
        side.set_linewidth(0.4)
    axes.set_xlabel(frame.label, fontproperties=_TEXT, labelpad=2)


def _number(tick: float) -> str:
    """Write a number as pgfplots does by default."""
    if 0 < tick < 0.1:
        mantissa, exponent = f"{tick:e}".split("e")
        return rf"${float(mantissa):g} \cdot 10^{{{int(exponent)}}}$"
    return f"${tick:,g}$".replace(",", "{,}")


def _draw(axes: Axes, frame: Frame, colour: str, x: list[float], y: list[float]) -> None:
    """Draw a line, cut at the frame, with white squares; triangles where it is outside."""
    axes.plot(x, y, color=colour, linewidth=1.0, zorder=2)
    low, high = frame.y
    for marker, size, here in (
        ("s", 2.0, [low <= value <= high for value in y]),
        ("^", 2.5, [value > high for value in y]),
        ("v", 2.5, [value < low for value in y]),
    ):
        places = [k for k, yes in enumerate(here) if yes]
        if not places:
            continue
        axes.plot(
            [x[k] for k in places], [min(max(y[k], low), high) for k in places],
            linestyle="none", marker=marker, markersize=size, markerfacecolor="white",
            markeredgecolor=colour, markeredgewidth=0.8, zorder=2.1, clip_on=False,
        )  # fmt: skip


def _mark_q(axes: Axes) -> None:
    """Draw the dashed line at p = q, and the arrow to it."""
    # Coordinates of the source are centimetres; the axes are 5.165 cm × 2.917 cm there.
    (tail, tip), text = [(a / 5.165, b / 2.917) for a, b in ((1.02, 0.73), (1.5, 0.9))], (0.9, 0.7)
    axes.plot([0.05, 0.05], [0.3, 1.05], color=_OLIVE, linestyle=(0, (3, 3)), linewidth=0.8)
    axes.annotate(
        "", tip, tail, xycoords="axes fraction", textcoords="axes fraction",
        arrowprops={"arrowstyle": "->", "color": _OLIVE, "linewidth": 0.6, "mutation_scale": 5,
                    "shrinkA": 0, "shrinkB": 0},
    )  # fmt: skip
    axes.text(
        text[0] / 5.165, text[1] / 2.917, "$q$", color=_OLIVE, fontproperties=_TEXT, ha="center",
        va="center", transform=axes.transAxes,
    )  # fmt: skip


def _legend(figure: Figure, name: str) -> None:
    """Draw the legend that the panels share, on top."""
    colours = _COLOURS
    if name == "fig2":
        colours = dict(PRINTED[name]["beta_g"].curves)
    figure.legend(
        handles=[
            Line2D([], [], color=colour, marker="s", markersize=4.0, linewidth=1.15,
                   label=SOURCES[sources])
            for sources, colour in colours.items()
        ],
        ncols=len(colours), loc="upper center", bbox_to_anchor=(0.5, 1.0), frameon=False,
        prop=_SMALL, handlelength=2.6, columnspacing=2.2, handletextpad=0.8, borderaxespad=0.3,
    )  # fmt: skip
