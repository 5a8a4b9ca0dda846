"""A page of axes, titles and legends, laid out in inches from top to bottom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from nodeproof.paper.experiments.figures.axes import Style
from nodeproof.paper.experiments.panels import Panel
from nodeproof.paper.experiments.results import Results

__all__ = ["WIDTH", "Page", "column_width", "columns_for", "lines_for", "seeds_of"]

#: the width of a page, in inches
WIDTH = 7.0
_LEFT, _RIGHT, _GAP = 0.63, 0.1, 0.16


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
