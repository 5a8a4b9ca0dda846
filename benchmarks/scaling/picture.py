"""A picture of time against links, both on logarithmic scales."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodeproof.paper.experiments.figures import settings
from nodeproof.paper.experiments.figures.page import STYLES, Style
from nodeproof.storage.atomic import atomic_path
from scaling.rows import OWN, Row, power_of_ten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from scaling.report import Report

__all__ = ["draw_bench"]

_PRODUCT = Style("black", dashes=(0, (5, 2)), width=1.1)
_PASS = Style("0.5", dashes=(0, (1, 1.2)), width=1.1)
# Dark enough for their names to be read in the same colour.
_PEERS = (
    Style("#a97800", "s", (0, (1, 1.2)), open=True),
    Style("#2f86bd", "^", (0, (4, 1.2, 1, 1.2))),
    Style("#1c8058", "D", (0, (4, 1.5)), open=True),
    Style("#b3559a", "P", (0, (4, 1.5))),
    Style("#7a3e9d", "X", (0, (4, 1.2, 1, 1.2, 1, 1.2))),
)

# Room between two labels, as a share of the height.
_APART = 0.042


@dataclass(frozen=True)
class _Line:
    label: str
    style: Style
    points: list[tuple[int, float]]
    on_disk: list[tuple[int, float]]
    own: bool

    @property
    def all_points(self) -> list[tuple[int, float]]:
        return [*self.points, *self.on_disk]


def draw_bench(report: Report, path: Path) -> None:
    """Draw fits, peers, one product and one pass against the number of links.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    with settings():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.0, 4.4), layout="constrained")
        ax = figure.add_subplot()
        lines = _lines(report)
        for line in lines:
            _draw(ax, line)
        _set_axes(ax, lines)
        _label_ends(ax, lines)
        if any(line.on_disk for line in lines):
            ax.set_title("open circles: the graph stays on disk", loc="right", size=6.8)
        with atomic_path(path) as temporary:
            figure.savefig(temporary, format="png", dpi=200)


def _lines(report: Report) -> list[_Line]:
    own = [row for row in report.rows if row.method == OWN]
    names = {"GFL": "nodeproof, with 16 features", "GL": "nodeproof, graph and labels"}
    lines = []
    for sources, name in names.items():
        style = replace(STYLES[sources], dashes="-", width=1.8, size=4.2)
        rows = [row for row in own if row.sources == sources]
        lines.append(_line(name, style, rows, "seconds", own=True))
    # A pass over a graph on disk is not comparable: it depends on the cache.
    graph = [row for row in own if row.sources == "GL" and not row.on_disk]
    lines.append(_line("one A @ M (n × 10)", _PRODUCT, graph, "product", own=True))
    lines.append(_line("one pass over the indices", _PASS, graph, "index_pass", own=True))
    others = [row for row in report.rows if row.method != OWN]
    for place, name in enumerate(dict.fromkeys(row.method for row in others)):
        rows = [row for row in others if row.method == name]
        style = _PEERS[place % len(_PEERS)]
        lines.append(_line(rows[0].title, style, rows, "seconds", own=False))
    return [line for line in lines if line.all_points]


def _line(label: str, style: Style, rows: list[Row], figure: str, *, own: bool) -> _Line:
    found: dict[bool, list[tuple[int, float]]] = {False: [], True: []}
    for row in rows:
        seconds = getattr(row, figure)
        if seconds is not None and row.links is not None:
            found[row.on_disk].append((row.links, seconds))
    return _Line(label, style, found[False], found[True], own)


def _draw(ax: Axes, line: _Line) -> None:
    if line.points:
        ax.plot(*zip(*line.points, strict=True), **line.style.keywords)
    if line.on_disk:
        # From the largest graph in memory on.
        joined = [*line.points[-1:], *line.on_disk]
        bare = replace(line.style, marker="", width=0.8)
        ax.plot(*zip(*joined, strict=True), **bare.keywords)
        hollow = replace(line.style, marker="o", dashes="none", open=True)
        ax.plot(*zip(*line.on_disk, strict=True), **hollow.keywords)


def _set_axes(ax: Axes, lines: list[_Line]) -> None:
    from matplotlib.ticker import FuncFormatter, NullLocator

    ax.set(xscale="log", yscale="log", xlabel="links", ylabel="time")
    sizes, seconds = zip(*(point for line in lines for point in line.all_points), strict=True)
    # Names stand on both sides.
    span = max(sizes) / min(sizes) if max(sizes) > min(sizes) else 10.0
    peers = any(not line.own for line in lines)
    ax.set_xlim(min(sizes) / span ** (0.45 if peers else 0.04), max(sizes) * span**0.42)
    ax.set_ylim(min(seconds) / 2, max(seconds) * 3)
    ax.set_xticks(sorted(set(sizes)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: power_of_ten(value)))
    ax.yaxis.set_major_formatter(FuncFormatter(_tick))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_minor_locator(NullLocator())
    ax.spines[["top", "right"]].set_visible(False)


def _tick(seconds: float, _: object) -> str:
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if seconds * factor > 0.99:
            return f"{seconds * factor:g} {unit}"
    return f"{seconds * 1e6:g} µs"


def _label_ends(ax: Axes, lines: list[_Line]) -> None:
    """Write the names of peers where they start, the others where they end.

    Peers end where they become slow, in the middle; there, other lines pass by.
    """
    largest = max(size for line in lines for size, _ in line.all_points)
    places: dict[tuple[int, int], list[tuple[int, float, _Line]]] = {}
    for line in lines:
        if line.own:
            size, seconds = max(line.all_points)
            # The topmost line, where another one goes on beside it.
            side = 0 if size < largest and line is lines[0] else 1
        else:
            (size, seconds), side = min(line.all_points), -1
        places.setdefault((side, size), []).append((size, seconds, line))
    for (side, _), ends in places.items():
        _write(ax, side, ends)


def _write(ax: Axes, side: int, ends: list[tuple[int, float, _Line]]) -> None:
    """Write names left (−1) or right (1) of the ends, apart from each other, or above (0)."""
    to_axes: Any = ax.transData + ax.transAxes.inverted()
    ends = sorted(ends, key=lambda end: end[1])
    spots = [to_axes.transform(end[:2]) for end in ends]
    heights = _spread([y for _, y in spots]) if side else [y + 0.035 for _, y in spots]
    for (x, y), height, (_, _, line) in zip(spots, heights, ends, strict=True):
        if side:
            ax.plot(
                [x + 0.009 * side, x + 0.022 * side], [y, height], color="0.6", lw=0.5,
                transform=ax.transAxes,
            )  # fmt: skip
        ax.text(
            x + 0.025 * side, height, line.label, color=line.style.colour, size=6.8,
            va="center", ha="left" if side > 0 else "right", transform=ax.transAxes,
        )  # fmt: skip


def _spread(places: list[float]) -> list[float]:
    """Move increasing positions apart by the room that labels need, each as little as possible."""
    groups = [[place, 1.0] for place in places]
    merged: list[list[float]] = []
    for group in groups:
        merged.append(group)
        while len(merged) > 1:
            (low, below), (high, above) = merged[-2:]
            if high - low >= _APART * (below + above) / 2:
                break
            merged[-2:] = [[(low * below + high * above) / (below + above), below + above]]
    spread = []
    for middle, count in merged:
        spread += [middle + _APART * (k - (count - 1) / 2) for k in range(int(count))]
    return spread
