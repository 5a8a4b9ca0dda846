"""Pictures of experiments: accuracy along one axis, or over two."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nodeproof.errors import InputError
from nodeproof.paper.experiments.panels import Curve
from nodeproof.paper.experiments.results import Results, Series
from nodeproof.runtime.axes import axes_or_new

__all__ = ["accuracy_curves", "phase_diagram"]

# Points of a boundary line.
_FINE = 200


def accuracy_curves(
    curves: Results | Mapping[str, Any],
    panel: str | None = None,
    *,
    methods: Sequence[str] | None = None,
    bound: Any = None,
    errors: float = 2.0,
    xlabel: str = "",
    ax: Any = None,
) -> Any:
    """Draw accuracy against a varied quantity: one line per method, and the genie bound.

    Lines are means over the seeds, bands some standard errors of the mean to each side.

    Parameters
    ----------
    curves : Results, or mapping from names to (x, values) or Series
        Values are accuracies of shape (g,), or (g, seeds).
    panel : str, optional
        For Results: the panel; not needed if there is only one.
    methods : list of str, optional
        For Results: the methods, by their names in `nodeproof.paper.experiments.METHODS`.
    bound : (x, values) or Series, optional
        The genie bound. Results have their own.
    errors : float
        Half the width of the bands in standard errors; 2 is an interval of about 95 %.
    xlabel : str
        Name of the varied quantity. Results have their own.
    ax : matplotlib Axes, optional
        Axes to draw on; by default new ones.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from nodeproof.paper.experiments import accuracy_curves
    >>> found = {"ours": ([1, 2, 3], [[0.8, 0.82], [0.9, 0.91], [0.95, 0.97]])}
    >>> ax = accuracy_curves(found, bound=([1, 2, 3], [0.85, 0.93, 0.98]), xlabel="links per node")
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['ours', 'best possible (genie)']
    """
    ax = axes_or_new(ax, (6.0, 4.0))
    from nodeproof.paper.experiments.figures.page import (
        bound_style,
        plot_series,
        set_varied,
        style_in_turn,
    )

    if isinstance(curves, Results):
        name = _panel(curves, panel, "curves")
        chosen = _chosen(curves, name, methods)
        lines = {label: curves.series(name, curve) for label, curve, _ in chosen}
        styles = [style for _, _, style in chosen]
        genies = [c for c in curves.panels[name].curves if c.method == "genie"]
        if bound is None and genies:
            bound = curves.series(name, max(genies, key=lambda c: len(c.sources)))
        axis = curves.panels[name].x
        xlabel, title = xlabel or axis.label, curves.panels[name].title
    else:
        lines = {label: _series(label, given) for label, given in curves.items()}
        styles = [style_in_turn(k) for k in range(len(lines))]
        axis, title = None, ""
    for (label, series), style in zip(lines.items(), styles, strict=True):
        plot_series(ax, series, style, errors, label=label)
    if bound is not None:
        series = _series("bound", bound)
        # The bound stays visible where a curve reaches it, and on any background.
        how = {**bound_style("", "").keywords, "color": ax.yaxis.label.get_color()}
        ax.plot(series.x, series.mean, zorder=4, label="best possible (genie)", **how)
    if axis is not None and lines:
        places = np.unique(np.concatenate([series.x for series in lines.values()]))
        set_varied(ax, axis, places, named=True)
    ax.set(xlabel=xlabel, ylabel="accuracy", title=title)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize="small")
    return ax


def _series(name: str, given: Any) -> Series:
    if isinstance(given, Series):
        return given
    try:
        x, values = given
        places = np.asarray(x, dtype=np.float64)
        found = [np.atleast_1d(np.asarray(at, dtype=np.float64)) for at in values]
    except (TypeError, ValueError):
        raise InputError(f"{name!r} must be (x, values), got {type(given).__name__}") from None
    if len(places) != len(found):
        raise InputError(f"{name!r} has {len(places)} places but values at {len(found)}")
    return Series(places, found)


def _panel(results: Results, panel: str | None, kind: str) -> str:
    """Return the name of a panel of some kind: that one, or the only one."""
    names = [name for name, one in results.panels.items() if one.kind == kind]
    if panel is None and len(names) == 1:
        return names[0]
    if panel not in names:
        known = ", ".join(names) or "none"
        raise InputError(f"panel must be one of these results' panels of {kind}: {known}")
    return panel


def _chosen(
    results: Results, panel: str, methods: Sequence[str] | None
) -> list[tuple[str, Curve, Any]]:
    """Return the curves of a panel that were measured, with names and styles."""
    from nodeproof.paper.experiments.figures.curves import rows_of
    from nodeproof.paper.experiments.figures.page import style_in_turn

    measured = {point.curve.name for point, _ in results.points if point.panel == panel}
    there = [c for c in results.panels[panel].curves if c.name in measured and c.method != "genie"]
    known = list(dict.fromkeys(curve.method for curve in there))
    for method in methods or ():
        if method not in known:
            raise InputError(f"panel {panel!r} has no method {method!r}; it has {', '.join(known)}")
    there = [curve for curve in there if methods is None or curve.method in methods]
    if len({curve.method for curve in there}) == 1:
        return [(line.name, line.curve, line.style) for line in rows_of(there)[0].lines]
    return [(curve.name, curve, style_in_turn(k)) for k, curve in enumerate(there)]


def phase_diagram(
    values: Results | ArrayLike,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    panel: str | None = None,
    method: str | None = None,
    sources: str | None = None,
    boundary: Callable[[float], float] | tuple[ArrayLike, ArrayLike] | None = None,
    level: float | None = None,
    xlabel: str = "",
    ylabel: str = "",
    label: str = "accuracy",
    ax: Any = None,
) -> Any:
    """Draw accuracy, or the frequency of an event, over two axes.

    Parameters
    ----------
    values : Results, or array of shape (len(y), len(x))
        Measured values; NaN where there are none.
    x, y : array, increasing
        Grid points. The Axes are in these units, so that lines can be added.
    panel, method, sources : str, optional
        For Results: the map; by default the first.
    boundary : callable x ↦ y, or (x, y), optional
        A line to draw, such as a theoretical limit.
    level : float, optional
        Value of a contour line.
    xlabel, ylabel, label : str
        Labels of the axes and of the values.
    ax : matplotlib Axes, optional
        Axes to draw on; by default new ones.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from nodeproof.paper.experiments import phase_diagram
    >>> ax = phase_diagram([[1.0, 0.9], [0.6, 0.5]], [1, 2], [0.1, 0.2], boundary=lambda x: 0.1 * x)
    >>> len(ax.collections), len(ax.lines)
    (1, 1)
    """
    ax = axes_or_new(ax, (5.4, 4.2))
    scales = ["linear", "linear"]
    if isinstance(values, Results):
        name = _panel(values, panel, "map")
        curve = _map_of(values, name, method, sources)
        shown = values.panels[name]
        assert shown.y is not None
        xlabel, ylabel = xlabel or shown.x.label, ylabel or shown.y.label
        ax.set_title(curve.name)
        scales = [shown.x.scale, shown.y.scale]
        values, x, y = values.grid(name, curve)
    field = np.asarray(values, dtype=np.float64)
    columns, rows = (np.asarray(a if a is not None else [], dtype=np.float64) for a in (x, y))
    if field.shape != (len(rows), len(columns)) or not field.size:
        raise InputError(
            f"values must have one row for each y and one column for each x: got {field.shape} "
            f"for {len(rows)} and {len(columns)}"
        )
    image = ax.pcolormesh(
        _edges(columns, scales[0]), _edges(rows, scales[1]), np.ma.masked_invalid(field),
        cmap="viridis", vmin=min(float(np.nanmin(field, initial=1.0)), 1.0), vmax=1.0,
    )  # fmt: skip
    for set_scale, scale in ((ax.set_xscale, scales[0]), (ax.set_yscale, scales[1])):
        if scale == "log":
            set_scale("log")
    ax.figure.colorbar(image, ax=ax, label=label)
    if level is not None and min(field.shape) > 1:
        ax.contour(columns, rows, field, [level], colors="white", linewidths=1.2)
    if boundary is not None:
        _draw_boundary(ax, boundary, columns)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.grid(visible=False)
    return ax


def _map_of(results: Results, panel: str, method: str | None, sources: str | None) -> Curve:
    for curve in results.panels[panel].curves:
        if method in (None, curve.method) and sources in (None, curve.sources):
            return curve
    known = ", ".join(f"{c.method}/{c.sources}" for c in results.panels[panel].curves)
    raise InputError(f"panel {panel!r} has no map {method}/{sources}; it has {known}")


def _edges(places: NDArray[np.float64], scale: str) -> NDArray[np.float64]:
    """Return the edges of the fields: half-way between grid points, by ratios on a log scale."""
    if (np.diff(places) <= 0).any():
        raise InputError("x and y must be increasing")
    at = np.log(places) if scale == "log" else places
    half = np.diff(at) / 2 if len(at) > 1 else np.array([0.5])
    edges = np.concatenate([[at[0] - half[0]], at[:-1] + half[: len(at) - 1], [at[-1] + half[-1]]])
    return np.asarray(np.exp(edges) if scale == "log" else edges)


def _draw_boundary(
    ax: Any,
    boundary: Callable[[float], float] | tuple[ArrayLike, ArrayLike],
    columns: NDArray[np.float64],
) -> None:
    """Draw a line over the fields without changing the limits of the axes."""
    from matplotlib.patheffects import withStroke

    (left, right), height = ax.get_xlim(), ax.get_ylim()
    if callable(boundary):
        inner = np.union1d(np.linspace(left, right, _FINE), columns)
        x, y = inner, np.array([boundary(float(at)) for at in inner])
    else:
        x, y = (np.asarray(part, dtype=np.float64) for part in boundary)
    edge = [withStroke(linewidth=3.4, foreground="white")]
    ax.plot(x, y, color="#b04a3a", lw=1.8, path_effects=edge)
    ax.set(xlim=(left, right), ylim=height)
