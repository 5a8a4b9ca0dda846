"""How lines look: known apart in colour, in grey, and by their markers alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nodeproof.experiments.methods import METHODS

__all__ = ["STYLES", "Style", "bound_style", "style_in_turn", "style_of"]


@dataclass(frozen=True)
class Style:
    """How a line is drawn: colour, marker and dashes each tell it from the others."""

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
    # Drawn first: where others lie on it, both are seen.
    "GFL": Style("#1d4390", "o", "-", width=1.8, size=4.2),
}

# The genie with all it may look at, and with less.
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
    """Return the style of a method, or the one so many places before it."""
    order = [name for name in METHODS if name not in ("genie", "trace")]
    return _OTHERS[(order.index(method) - before) % len(_OTHERS)]


def style_in_turn(place: int) -> Style:
    """Return a style for the curve at some place among curves that have none of their own."""
    return _OTHERS[(place + 1) % len(_OTHERS)]


def bound_style(sources: str, full: str) -> Style:
    """Return the style of the genie with some sources, where it may have as many as full."""
    return _BOUND if sources == full else _LESS.get(sources, _LEAST)
