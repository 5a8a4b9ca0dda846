"""Charts of the report: coordinates in the units of their SVG view boxes."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.metrics import ReliabilityCurve
from nodeproof.report.wording import percent

if TYPE_CHECKING:
    from nodeproof.report.data import ReportData

__all__ = ["colours", "confidence", "dots", "drawing", "history", "reliability"]

# Ten colours that differ in hue and lightness, for white and for near-black backgrounds.
_COLOURS = (
    ("#1f6fb2", "#6cb2f0"), ("#c4561b", "#f4965a"), ("#2a7f4f", "#63c98f"),
    ("#9b3a86", "#dd86cb"), ("#8a6d0b", "#d9b73c"), ("#5b54b8", "#a7a1f2"),
    ("#12808a", "#54c4cf"), ("#b03544", "#f08391"), ("#7b4a2d", "#c9a07f"),
    ("#5f7f16", "#a9cb55"),
)  # fmt: skip

_GOLDEN = 0.618033988749895

# Names in drawings and maps are truncated to this length.
_LONGEST = 20

# More nodes have no room for names.
_NAMED_NODES = 60

# The drawing of a graph: its minimum width, that of its nodes, and the most links drawn bold.
_DRAWN_WIDTH, _DRAWN_REACH, _BOLD_LINKS = 440.0, 360.0, 400


def colours(count: int) -> list[tuple[str, str]]:
    """Return a colour for each class, for a light page and for a dark one.

    Examples
    --------
    >>> colours(1), len(set(colours(40)))
    ([('#1f6fb2', '#6cb2f0')], 40)
    """
    more = []
    for k in range(len(_COLOURS), count):
        hue = (k * _GOLDEN) % 1.0
        more.append((_hex(hue, 0.36 + 0.1 * (k % 2)), _hex(hue, 0.62 + 0.1 * (k % 2))))
    return [*_COLOURS, *more][:count]


def _hex(hue: float, lightness: float) -> str:
    rgb = colorsys.hls_to_rgb(hue, lightness, 0.55)
    return "#" + "".join(f"{round(255 * part):02x}" for part in rgb)


def dots(points: NDArray[Any]) -> str:
    """Return a path that puts a dot at each point, with round line caps.

    Examples
    --------
    >>> dots(np.array([[0.0, 1.25], [2.0, 3.0]]))
    'M0 1.2h0M2 3h0'
    """
    return "".join(f"M{_short(x)} {_short(y)}h0" for x, y in points.tolist())


def _short(number: float) -> str:
    text = f"{number:.1f}"
    return text.removesuffix(".0")


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"


def drawing(report: ReportData) -> dict[str, Any] | None:
    """Return the drawing of a small graph."""
    positions, links = report.findings.positions, report.findings.links
    if positions is None or links is None or not len(links):
        return None
    # In landscape: pages are tall already, and names are wide.
    _, _, axes = np.linalg.svd(positions.astype(np.float64), full_matrices=False)
    at = positions.astype(np.float64) @ axes.T
    at *= _DRAWN_REACH / (np.ptp(at, axis=0).max() or 1.0)
    lines = "".join(
        f"M{_short(at[u, 0])} {_short(at[u, 1])}L{_short(at[v, 0])} {_short(at[v, 1])}"
        for u, v in links.tolist()
    )
    names = report.node_names(np.arange(report.n))
    suspects = set(report.fitted.suspects.node.tolist())
    given = report.fitted.given
    few = report.n <= _NAMED_NODES
    radius = 7.0 if few else 4.5
    degrees = np.bincount(links.ravel(), minlength=report.n)
    short = [_cut(name) for name in names]
    places = _name_places(short, at, radius, np.argsort(-degrees, kind="stable")) if few else {}
    boxes = np.array([*np.hstack([at - radius - 2, at + radius + 2]), *map(_box, places.values())])
    (left, top), (right, bottom) = boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)
    # Narrow drawings are not enlarged.
    room = max(0.0, _DRAWN_WIDTH - (right - left)) / 2
    return {
        "view": " ".join(map(_short, (left - room, top, right - left + 2 * room, bottom - top))),
        "links": lines,
        "stroke": 1.3 if len(links) <= _BOLD_LINKS else 0.8,
        "radius": radius,
        "nodes": [
            {
                "x": round(x, 1),
                "y": round(y, 1),
                "at": int(report.codes[v]),
                "name": names[v],
                "short": short[v],
                "place": places.get(v),
                "class": report.names[int(report.codes[v])],
                "labelled": given is not None and bool(given[v] >= 0),
                "suspect": v in suspects,
            }
            for v, (x, y) in enumerate(at.tolist())
        ],
    }


def _name_places(
    names: Sequence[str], at: NDArray[np.float64], radius: float, order: NDArray[np.int64]
) -> dict[int, dict[str, Any]]:
    """Return positions of names that cover neither nodes nor names earlier in `order`."""
    taken = np.hstack([at - radius, at + radius])
    found: dict[int, dict[str, Any]] = {}
    for v in order.tolist():
        x, y = at[v].tolist()
        # Characters of other scripts can be twice as wide.
        width = sum(7.0 if ord(letter) < 0x1100 else 12.0 for letter in names[v])
        for dx, dy, anchor in (
            (0.0, -radius - 4.0, "middle"),
            (0.0, radius + 11.0, "middle"),
            (radius + 4.0, 4.0, "start"),
            (-radius - 4.0, 4.0, "end"),
        ):
            place = {"x": round(x + dx, 1), "y": round(y + dy, 1), "anchor": anchor, "width": width}
            left, top, right, bottom = _box(place)
            apart = (
                (taken[:, 2] < left) | (taken[:, 0] > right)
                | (taken[:, 3] < top) | (taken[:, 1] > bottom)
            )  # fmt: skip
            if apart.all():
                found[v] = place
                taken = np.vstack([taken, _box(place)])
                break
    return found


def _box(place: dict[str, Any]) -> tuple[float, float, float, float]:
    """Return left, top, right and bottom of a name."""
    left = place["x"] - {"start": 0.0, "middle": 0.5, "end": 1.0}[place["anchor"]] * place["width"]
    return left, place["y"] - 9.5, left + place["width"], place["y"] + 2.5


def reliability(found: ReliabilityCurve) -> dict[str, Any]:
    """Return the reliability curve: accuracy against confidence."""
    left, top, side = 46.0, 12.0, 240.0

    def x(values: NDArray[np.float64]) -> list[float]:
        return (left + side * values).round(1).tolist()

    def y(values: NDArray[np.float64]) -> list[float]:
        return (top + side * (1.0 - values)).round(1).tolist()

    points = [
        {
            "x": px,
            "y": py,
            "low": low,
            "high": high,
            "size": round(2.0 + 2.5 * float(np.sqrt(count / found.counts.max())), 1),
            "text": f"{count:,} nodes: confidence {percent(confidence)}, "
            f"accuracy {percent(right)}",
        }
        for px, py, low, high, count, confidence, right in zip(
            x(found.confidence), y(found.right), y(found.low), y(found.high),
            found.counts.tolist(), found.confidence.tolist(), found.right.tolist(), strict=True,
        )
    ]  # fmt: skip
    return {
        "points": points,
        "line": "M" + "L".join(f"{p['x']} {p['y']}" for p in points),
        "left": left,
        "top": top,
        "side": side,
        "ticks": [0.0, 0.25, 0.5, 0.75, 1.0],
    }


def confidence(report: ReportData) -> dict[str, Any] | None:
    """Return the histogram of confidence."""
    if report.K == 1 or report.fitted.settings.temperature == 0:
        return None
    top = report.fitted.proba.max(axis=1)
    counts, edges = np.histogram(np.clip(top, 0.0, 1.0), bins=20, range=(0.0, 1.0))
    first = max(int(np.argmax(counts > 0)) - 1, 0)
    counts, edges = counts[first:], edges[first:]
    width = 280.0 / len(counts)
    bars = [
        {
            "x": round(46.0 + width * at, 1),
            "width": round(width - 2.0, 1),
            "height": round(110.0 * count / counts.max(), 1),
            "text": f"confidence {100 * edges[at]:.0f} to {100 * edges[at + 1]:.0f}\xa0%: "
            f"{count:,} nodes",
        }
        for at, count in enumerate(counts.tolist())
    ]
    return {"bars": bars, "first": float(edges[0]), "most": int(counts.max())}


def history(changes: Sequence[float], tol: float) -> dict[str, Any] | None:
    """Return the mean change of memberships in each sweep, on a logarithmic scale."""
    values = np.array([change for change in changes if change > 0.0], dtype=float)
    if len(values) < 2:
        return None
    logs = np.log10(values)
    low, high = (
        np.floor(min(logs.min(), np.log10(tol) if tol > 0 else logs.min())),
        np.ceil(logs.max()),
    )
    high = max(high, low + 1)
    left, top, width, height = 56.0, 12.0, 360.0, 160.0

    def y(log: float) -> float:
        return round(top + height * (high - log) / (high - low), 1)

    xs = (left + width * np.arange(len(values)) / (len(values) - 1)).round(1).tolist()
    step = max(int(-(-(high - low) // 5)), 1)
    return {
        "points": [
            {"x": px, "y": y(log), "text": f"sweep {at}: mean change {10**log:.2g}"}
            for at, (px, log) in enumerate(zip(xs, logs.tolist(), strict=True), start=1)
        ],
        "line": "M" + "L".join(f"{px} {y(log)}" for px, log in zip(xs, logs.tolist(), strict=True)),
        "ticks": [
            {"y": y(power), "text": f"1e{power}" if power else "1"}
            for power in range(int(low), int(high) + 1, step)
        ],
        "tol": y(float(np.log10(tol))) if tol > 0 else None,
        "sweeps": len(values),
        "left": left,
        "right": left + width,
        "bottom": top + height,
    }
