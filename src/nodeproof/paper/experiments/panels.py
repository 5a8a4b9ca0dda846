"""Panels of figures: what is varied, what is run, how it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from nodeproof.errors import InputError
from nodeproof.paper.experiments.cells import Cell
from nodeproof.paper.experiments.methods import METHODS, READINGS, SOURCES

__all__ = ["PANELS", "Axis", "Curve", "Panel", "Point", "register", "select", "with_start"]


@dataclass(frozen=True)
class Axis:
    """A varied quantity.

    Attributes
    ----------
    label : str
        Label of the axis.
    grid : tuple of float
        Grid points; `quick` is a subset.
    quick : tuple of float
        Grid points of ``--quick``.
    scale : {"linear", "sqrt", "log"}
        Scale of the axis.
    mark : (float, str), optional
        A special value on the axis, and its name.
    """

    label: str
    grid: tuple[float, ...]
    quick: tuple[float, ...]
    scale: Literal["linear", "sqrt", "log"] = "linear"
    mark: tuple[float, str] | None = None


@dataclass(frozen=True)
class Curve:
    """A method on some of the sources: one line of a figure, or one map."""

    method: str
    sources: str
    options: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""

    @property
    def name(self) -> str:
        """Name in legends and tables."""
        return self.title or f"{METHODS[self.method].title}: {SOURCES[self.sources]}"


_NEEDED = {"spectral": "G", "labels": "L"}


def with_start(method: str, sources: str) -> str:
    """Return a reading of CADO, or the one with a random start where sources lack its start.

    Examples
    --------
    >>> from nodeproof.paper.experiments.panels import with_start
    >>> with_start("cado/labels", "GFL"), with_start("cado/labels", "GF")
    ('cado/labels', 'cado')
    """
    reading = READINGS.get(method)
    if reading is None or _NEEDED.get(reading.start, "") in sources:
        return method
    return next(
        name
        for name, other in READINGS.items()
        if (other.gradient, other.start) == (reading.gradient, "random")
    )


@dataclass(frozen=True)
class Point:
    """A cell and its grid point in a panel."""

    panel: str
    x: float
    y: float | None
    curve: Curve
    cell: Cell


def _all_seeds(x: float, curve: Curve, seeds: int) -> int:
    return seeds


def _no_options(x: float) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Panel:
    """One panel of a figure.

    Attributes
    ----------
    name, figure, title : str
        Its name, the figure it belongs to, and its title.
    x : Axis
        The varied quantity.
    data : callable
        Arguments of `make_planted` at x (at x and y if there are two axes); all others have the
        paper's defaults.
    curves : tuple of Curve
        The methods.
    y : Axis, optional
        The second axis of a map.
    options : callable
        Arguments at x of the methods that take weights.
    seeds : callable
        How many of the seeds asked for are run, by x and curve.
    kind : {"curves", "map", "trace", "answers"}
        How it is drawn.
    line : (callable, str), optional
        For maps of answers: a curve x ↦ y to draw on each, and its name.
    extended, peers : tuple of Curve
        Further curves, run with ``--extended`` and ``--peers`` only.
    extended_seeds : callable, optional
        In place of `seeds` with ``--extended``.
    note : str
        A remark for the figure and its caption.

    Examples
    --------
    >>> from nodeproof.paper.experiments import PANELS
    >>> panel = PANELS["p"]
    >>> panel.figure, panel.x.grid[:3]
    ('fig1', (0.0, 0.01, 0.02))
    >>> points = list(panel.points(seeds=1, quick=True))
    >>> points[0].cell.method, points[0].cell.data
    ('genie', {'p': 0.0})
    """

    name: str
    figure: str
    title: str
    x: Axis
    data: Callable[..., dict[str, Any]]
    curves: tuple[Curve, ...]
    y: Axis | None = None
    options: Callable[[float], dict[str, Any]] = _no_options
    seeds: Callable[[float, Curve, int], int] = _all_seeds
    kind: Literal["curves", "map", "trace", "answers"] = "curves"
    line: tuple[Callable[[float], float], str] | None = None
    extended: tuple[Curve, ...] = ()
    peers: tuple[Curve, ...] = ()
    extended_seeds: Callable[[float, Curve, int], int] | None = None
    note: str = ""

    def including(self, extended: bool = False, peers: bool = False) -> Panel:
        """Return the panel whose curves are all that is run with these options."""
        return replace(
            self,
            curves=(
                *self.curves,
                *(self.extended if extended else ()),
                *(self.peers if peers else ()),
            ),
            seeds=(extended and self.extended_seeds) or self.seeds,
            extended=(),
            peers=(),
            extended_seeds=None,
        )

    def points(self, seeds: int, quick: bool = False) -> Iterator[Point]:
        """Yield the points of the panel, in the order of its tables."""
        rows = (None,) if self.y is None else (self.y.quick if quick else self.y.grid)
        for curve in self.curves:
            for x in self.x.quick if quick else self.x.grid:
                for y in rows:
                    data = self.data(x) if y is None else self.data(x, y)
                    if METHODS[curve.method].needs_labels and data.get("label_ratio") == 0:
                        continue
                    # The graph alone has nothing to be weighted against.
                    weighted = METHODS[curve.method].weighted and curve.sources != "G"
                    varied = self.options(x) if weighted else {}
                    for seed in range(self.seeds(x, curve, seeds)):
                        cell = Cell(
                            curve.method, curve.sources, seed, data, {**varied, **curve.options}
                        )
                        yield Point(self.name, x, y, curve, cell)


#: every panel, by name
PANELS: dict[str, Panel] = {}


def register(panel: Panel) -> Panel:
    """Add a panel to the registry of `nodeproof reproduce`."""
    if panel.name in PANELS or panel.name in {known.figure for known in PANELS.values()}:
        raise InputError(f"there is a panel or figure called {panel.name!r} already")
    every = panel.including(extended=True, peers=True).curves
    unknown = {curve.method for curve in every} - set(METHODS)
    if unknown:
        raise InputError(f"panel {panel.name!r}: unknown methods {sorted(unknown)}")
    PANELS[panel.name] = panel
    return panel


def select(names: tuple[str, ...] | list[str]) -> list[Panel]:
    """Return the panels of the figures or panels named; "all" is every one."""
    figures = list(dict.fromkeys(panel.figure for panel in PANELS.values()))
    for name in names:
        if name not in ("all", *figures, *PANELS):
            raise InputError(
                f"there is no experiment {name!r}; figures: {', '.join(figures)}, all; "
                f"panels: {', '.join(PANELS)}"
            )
    return [panel for panel in PANELS.values() if {"all", panel.name, panel.figure} & set(names)]
