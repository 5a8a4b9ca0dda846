"""Pages of figures, laid out in inches; styles of lines, distinct in grey too; axes of accuracy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator
from matplotlib.transforms import ScaledTranslation
from numpy.typing import NDArray

from nodeproof.paper.experiments.methods import METHODS
from nodeproof.paper.experiments.panels import Axis, Panel
from nodeproof.paper.experiments.results import Results, Series

__all__ = [
    "PLAIN",
    "STYLES",
    "WIDTH",
    "Page",
    "Style",
    "bound_style",
    "column_width",
    "columns_for",
    "lines_for",
    "plot_series",
    "seeds_of",
    "set_accuracy",
    "set_varied",
    "style_in_turn",
    "style_of",
]


@dataclass(frozen=True)
class Style:
    """The style of a line: colour, marker and dashes each distinguish it."""

    colour: str
    marker: str = ""
    dashes: Any = "-"
    open: bool = False
    width: float = 1.0
    size: float = 3.0

    @property
    def keywords(self) -> dict[str, Any]:
        """Arguments of `Axes.plot`."""
        return {
            "color": self.colour,
            "linestyle": self.dashes,
            "linewidth": self.width,
            "marker": self.marker or None,
            "markersize": self.size,
            "markeredgewidth": 0.8,
            "markerfacecolor": "white" if self.open else self.colour,
        }


_DOT, _DASH = (0, (1, 1.2)), (0, (4, 1.5))
_DASH_DOT, _DASH_DOT_DOT = (0, (4, 1.2, 1, 1.2)), (0, (4, 1.2, 1, 1.2, 1, 1.2))

#: the paper's six configurations, from light to dark so that they differ in grey, too
STYLES = {
    "G": Style("#dba520", "s", _DOT, open=True),
    "F": Style("#7cbde6", "^", _DASH_DOT),
    "GF": Style("#259a6c", "D", _DASH, open=True),
    "GL": Style("#bb4a17", "v", _DASH_DOT_DOT),
    "FL": Style("#cc83b3", "P", _DASH),
    # Drawn first: where others lie on it, both are visible.
    "GFL": Style("#1d4390", "o", "-", width=1.8, size=4.2),
}

# The genie with all sources, and with fewer.
_BOUND = Style("black", dashes=(0, (5, 2)), width=1.0)
_LESS = {"G": Style("0.55", dashes=(0, (5, 2)), width=0.8)}
_LEAST = Style("0.55", dashes=(0, (1, 1.5)), width=0.9)

# For the methods in the order of METHODS, without those that have a style already.
_OTHERS = (
    Style("0.5", "*", "-"),
    Style("#b2381b", "D", _DASH_DOT),
    Style("0.55", "X", "-"),
    Style("#dba520", "s", _DOT, open=True),
    Style("#7cbde6", "v", _DASH_DOT),
    Style("#cc83b3", "^", _DASH),
    Style("#259a6c", "<", _DASH_DOT_DOT, open=True),
    Style("#7a3e9d", ">", _DASH),
    Style("#9cbb3a", "P", _DOT),
    Style("#5b4a3a", "h", _DASH_DOT, open=True),
    Style("#2fa39b", "d", _DASH),
)


def style_of(method: str, before: int = 0) -> Style:
    """Return the style of a method, or of another one before it in the list."""
    order = [name for name in METHODS if name not in ("genie", "trace")]
    return _OTHERS[(order.index(method) - before) % len(_OTHERS)]


def style_in_turn(place: int) -> Style:
    """Return a style for a curve without one of its own, by its number."""
    return _OTHERS[(place + 1) % len(_OTHERS)]


def bound_style(sources: str, full: str) -> Style:
    """Return the style of the genie with some sources, where ``full`` is the most it has."""
    return _BOUND if sources == full else _LESS.get(sources, _LEAST)


#: numbers without trailing zeros
PLAIN = FuncFormatter(lambda value, _: f"{value:g}")
_TICKS = (0.0, 0.5, 0.8, 0.9, 0.96, 0.99, 0.997, 1.0)

# The scale of accuracy is the logarithm of the error plus this, so that it includes 1.
_LEAST_ERROR = 1e-3


def plot_series(
    ax: Axes, series: Series, style: Style, errors: float = 1.0, shift: float = 0.0, **how: Any
) -> None:
    """Draw the mean over the seeds, in a band of some standard errors to each side.

    It can be shifted sideways, by a few points, to be told from a curve with the same values.
    """
    margin = errors * series.error
    low, high = (np.clip(series.mean + side * margin, 0, 1) for side in (-1, 1))
    where = ax.transData + ScaledTranslation(shift / 72, 0, ax.figure.dpi_scale_trans)
    placed: dict[str, Any] = {"transform": where} if shift else {}
    ax.plot(series.x, series.mean, **{**style.keywords, **placed, **how})
    ax.fill_between(series.x, low, high, color=style.colour, alpha=0.2, lw=0, **placed)


def set_accuracy(ax: Axes, lowest: float) -> None:
    """Set the y axis to accuracy, on the scale of the logarithm of the error: wide close to 1."""
    ax.set_yscale("function", functions=(_rise, _fall))
    low, high = _rise(np.array([lowest, 1.0]))
    # Some room below the curves, for marks on the axis.
    bottom, top = _fall(np.array([low - 0.1 * (high - low), high + 0.03 * (high - low)]))
    ax.set_ylim(bottom, top)
    ax.set_yticks([tick for tick in _TICKS if tick >= bottom])
    ax.yaxis.set_major_formatter(PLAIN)


def set_varied(ax: Axes, axis: Axis, x: NDArray[np.float64], named: bool) -> None:
    """Set scale, range and ticks of the x axis for the grid points, and draw its mark.

    Parameters
    ----------
    ax : Axes
        The axes.
    axis : Axis
        The varied quantity.
    x : ndarray of shape (g,)
        Grid points, increasing.
    named : bool
        Whether to write the name of the mark.
    """
    forth, back = _SCALES[axis.scale]
    if axis.scale == "log":
        ax.set_xscale("log")
    elif axis.scale == "sqrt":
        ax.set_xscale("function", functions=(forth, back))
    places = forth(x)
    margin = 0.035 * (np.ptp(places) or 1.0)
    left, right = places[0] - margin, places[-1] + margin
    ax.set_xlim(*back(np.array([left, right])))
    ax.xaxis.set_minor_locator(NullLocator())
    if axis.scale == "linear":
        ax.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    else:
        ax.set_xticks(_spaced(x, places))
    ax.xaxis.set_major_formatter(PLAIN)
    if axis.mark:
        where = (forth(axis.mark[0]) - left) / (right - left)
        if 0 < where < 1:
            _mark(ax, *axis.mark, text_left=where > 0.6, named=named)


def _root(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.sign(x) * np.sqrt(np.abs(x))


def _square(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.sign(x) * x**2


def _rise(accuracy: NDArray[np.float64]) -> NDArray[np.float64]:
    return -np.log(np.maximum(1 + _LEAST_ERROR - accuracy, 1e-9))


def _fall(place: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 + _LEAST_ERROR - np.exp(-place)


# For each scale, there and back.
_SCALES: dict[str, Any] = {
    "linear": (np.positive, np.positive),
    "sqrt": (_root, _square),
    "log": (np.log, np.exp),
}


def _spaced(x: NDArray[np.float64], places: NDArray[np.float64]) -> list[float]:
    """Return those of x that leave room for their labels, including both ends."""
    room = 0.125 * np.ptp(places)
    kept = [0]
    for k in range(1, len(x) - 1):
        if places[k] - places[kept[-1]] >= room and places[-1] - places[k] >= room:
            kept.append(k)
    return [float(x[k]) for k in dict.fromkeys([*kept, len(x) - 1])]


def _mark(ax: Axes, place: float, text: str, *, text_left: bool, named: bool) -> None:
    ax.axvline(place, color="0.35", lw=0.7, ls=":", zorder=1)
    if named:
        ax.annotate(
            text, (place, 0.02), xycoords=ax.get_xaxis_transform(),
            xytext=(-2 if text_left else 2, 0), textcoords="offset points",
            ha="right" if text_left else "left", va="bottom", size=6.5, color="0.25",
        )  # fmt: skip


#: the width of a page, in inches
WIDTH = 7.0
_LEFT, _RIGHT, _GAP = 0.68, 0.1, 0.16


def lines_for(count: int) -> int:
    """Return the number of lines for some axes, at most three side by side."""
    return -(-count // 3)


def columns_for(count: int) -> int:
    """Return the number of columns that fills these lines most evenly."""
    return -(-count // lines_for(count))


def column_width(columns: int, gap: float = _GAP, right: float = _RIGHT) -> float:
    """Return the width of axes, in inches; a single column is as wide as one of two."""
    columns = max(columns, 2)
    return (WIDTH - _LEFT - right - (columns - 1) * gap) / columns


def seeds_of(results: Results, panels: list[Panel]) -> str:
    """Return the number of seeds of the panels, in words."""
    names = {panel.name for panel in panels}
    counts = Counter(
        (p.panel, p.curve.name, p.x, p.y) for p, _ in results.points if p.panel in names
    ).values()
    most, least = max(counts), min(counts)
    return f"{most} seed{'s' * (most > 1)}" + (f" (in some places {least})" if least < most else "")


class Page:
    """A figure of fixed width that grows downwards.

    Everything is placed in inches from the left and from the top. The height of the figure is
    known only when everything is placed, and positions are set then.

    Parameters
    ----------
    figure : Figure
        An empty figure.

    Attributes
    ----------
    top : float
        Position of the next item, in inches from the top.
    """

    def __init__(self, figure: Figure) -> None:
        self.figure = figure
        self.figure.set_size_inches(WIDTH, WIDTH)
        self.top = 0.05
        self._renderer = FigureCanvasAgg(figure).get_renderer()
        self._pending: list[Callable[[float], object]] = []

    def text(self, text: str, **how: Any) -> None:
        """Place a text below the last item."""
        placed = self.figure.text(0.5, 1, text, ha="center", va="top", **how)
        top = self.top
        self._pending.append(lambda height: placed.set_y(1 - top / height))
        self.top += self._size(placed)[1] + 0.05

    def note(self, text: str) -> None:
        """Place a remark on the figure below the last item."""
        self.text(text, color="0.3", size=6.5)

    def legend(self, styles: dict[str, Style]) -> None:
        """Place a legend below the last item, in as many columns as fit; none if it is empty."""
        if not styles:
            return
        handles = [Line2D([], [], label=name, **style.keywords) for name, style in styles.items()]
        for lines in range(1, len(handles) + 1):
            columns = -(-len(handles) // lines)
            legend = self.figure.legend(
                # Matplotlib fills column by column; one reads row by row.
                handles=[handle for first in range(columns) for handle in handles[first::columns]],
                ncols=columns,
                loc="upper center",
                frameon=False,
                borderaxespad=0,
                borderpad=0,
                handlelength=2.6,
                columnspacing=1.0,
                labelspacing=0.35,
            )
            width, height = self._size(legend)
            if width < WIDTH - 0.15 or columns == 1:
                break
            legend.remove()
        top = self.top
        self._pending.append(lambda page: legend.set_bbox_to_anchor((0.5, 1 - top / page)))
        self.top += height + 0.06

    def row(
        self,
        count: int,
        height: float,
        *,
        columns: int = 0,
        gap: float = _GAP,
        right: float = _RIGHT,
    ) -> list[Axes]:
        """Place axes side by side below the last item, from the left column on.

        A single column stands in the middle of the page.
        """
        columns = columns or count
        width = column_width(columns, gap, right)
        left = _LEFT if columns > 1 else (WIDTH - width) / 2
        return [self.place(left + k * (width + gap), self.top, width, height) for k in range(count)]

    def place(self, left: float, top: float, width: float, height: float) -> Axes:
        """Return new axes at a position of the page."""
        axes = self.figure.add_axes((left / WIDTH, 0, width / WIDTH, height / WIDTH))

        def put(page: float) -> None:
            axes.set_position(
                (left / WIDTH, 1 - (top + height) / page, width / WIDTH, height / page)
            )

        self._pending.append(put)
        return axes

    def fit(self, text: str, width: float, mark: str, **how: Any) -> str:
        """Return the text, broken at the first mark if it is wider than the width in inches."""
        tried = self.figure.text(0, 0, text, **how)
        wide = self._size(tried)[0] > width
        tried.remove()
        return text.replace(mark, mark.rstrip() + "\n", 1) if wide else text

    def label(self, axes: Axes, text: str) -> None:
        """Write below the x axis; where it is too wide, break it at its double space."""
        width = axes.get_position().width * WIDTH
        axes.set_xlabel(self.fit(text, width, "  "))

    def below(self, axes: Sequence[Axes]) -> None:
        """Go on below the axes and what is written under them."""
        under = 0.0
        for one in axes:
            whole = one.get_tightbbox(self._renderer)
            assert whole is not None
            under = max(under, one.get_window_extent(self._renderer).y0 - whole.y0)
        tall = axes[0].get_position().height * WIDTH
        self.top += tall + under / self.figure.dpi + 0.08

    def finish(self) -> Figure:
        """Set the height of the figure, and everything to its place."""
        height = self.top + 0.02
        self.figure.set_size_inches(WIDTH, height)
        for put in self._pending:
            put(height)
        return self.figure

    def _size(self, artist: Any) -> tuple[float, float]:
        extent = artist.get_window_extent(self._renderer)
        return extent.width / self.figure.dpi, extent.height / self.figure.dpi
