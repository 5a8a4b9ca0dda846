"""Axes of curves: accuracy upwards, what is varied to the right."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator
from numpy.typing import NDArray

from nodeproof.experiments.figures.style import Style
from nodeproof.experiments.panels import Axis
from nodeproof.experiments.results import Series

__all__ = ["PLAIN", "plot_series", "set_accuracy", "set_varied"]

#: numbers without trailing zeros
PLAIN = FuncFormatter(lambda value, _: f"{value:g}")

_TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.96, 0.99, 1.0)


def plot_series(ax: Axes, series: Series, style: Style, errors: float = 1.0, **how: Any) -> None:
    """Draw the mean over the seeds, in a band of so many standard errors to each side."""
    margin = errors * series.error
    low, high = (np.clip(series.mean + side * margin, 0, 1) for side in (-1, 1))
    ax.plot(series.x, series.mean, **{**style.keywords, **how})
    ax.fill_between(series.x, low, high, color=style.colour, alpha=0.2, lw=0)


def set_accuracy(ax: Axes, lowest: float) -> None:
    """Set the y axis to accuracy; most is told close to 1: the scale is the root of the error."""
    ax.set_yscale("function", functions=(_rise, _fall))
    ax.set_ylim(lowest, 1.0008)
    ax.set_yticks([tick for tick in _TICKS if tick >= lowest])
    ax.yaxis.set_major_formatter(PLAIN)


def set_varied(ax: Axes, axis: Axis, x: NDArray[np.float64], named: bool) -> None:
    """Set scale, range and ticks of the x axis for the places measured, and mark what is special.

    Parameters
    ----------
    ax : Axes
        The axes.
    axis : Axis
        What is varied.
    x : ndarray of shape (g,)
        Where it was measured, rising.
    named : bool
        Whether to say what is special about the place that is marked.
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
    return -_root(1 - accuracy)


def _fall(place: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 - _square(-place)


# For each scale, there and back.
_SCALES: dict[str, Any] = {
    "linear": (np.positive, np.positive),
    "sqrt": (_root, _square),
    "log": (np.log, np.exp),
}


def _spaced(x: NDArray[np.float64], places: NDArray[np.float64]) -> list[float]:
    """Return those of x that leave room for their labels, both ends among them."""
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
