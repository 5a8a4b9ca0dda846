"""Claims, what their checks may use, and how numbers and grid points are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from nodeproof.errors import InputError
from nodeproof.paper.experiments.methods import METHODS, READINGS, SOURCES
from nodeproof.paper.experiments.panels import Curve, Panel, with_start
from nodeproof.paper.experiments.results import Results, Series

__all__ = [
    "BOUND",
    "CLAIMS",
    "SLACK",
    "SOLVERS",
    "Check",
    "Claim",
    "Finding",
    "Gap",
    "Look",
    "NotRunError",
    "claim",
    "gaps",
    "limit",
    "none_below",
    "percent",
    "place",
    "plain",
    "points",
    "share",
    "signed",
    "symbol",
]

_GREEK = {
    r"\beta": "β",
    r"\gamma": "γ",
    r"\mu": "μ",
    r"\omega": "ω",
    r"\pi": "π",
    r"\rho": "ρ",
    r"\sigma": "σ",
}


def percent(share: float) -> str:
    """Write a measured accuracy.

    Examples
    --------
    >>> from nodeproof.paper.experiments.claims.checks import percent
    >>> percent(0.98333)
    '98.3 %'
    """
    return f"{100 * share:.1f} %"


def points(difference: float) -> str:
    """Write a measured difference between two accuracies."""
    return f"{100 * difference:.1f} points"


def signed(difference: float) -> str:
    """Write a measured difference with its sign, in points."""
    shown = f"{100 * difference:+.1f}"
    return shown[1:] if float(shown) == 0 else shown.replace("-", "−")


def share(threshold: float) -> str:
    """Write a threshold for accuracies: 0.99 is "99 %"."""
    return f"{100 * threshold:g} %"


def limit(difference: float) -> str:
    """Write a threshold for differences: 0.01 is "1 point", 0.005 "0.5 points"."""
    value = f"{100 * difference:g}"
    return f"{value} point{'' if value == '1' else 's'}"


def plain(label: str) -> str:
    r"""Write the label of an axis without LaTeX markup.

    Examples
    --------
    >>> from nodeproof.paper.experiments.claims.checks import plain
    >>> plain(r"noise of the features, $\omega$  ($\sigma = 1$)")
    'noise of the features, ω (σ = 1)'
    """
    for command, letter in _GREEK.items():
        label = label.replace(command, letter)
    return re.sub(r"\s+", " ", label.replace("$", "").replace("\\", ""))


def symbol(panel: Panel) -> str:
    """Return the symbol of the varied quantity: the first formula of the axis, else the name."""
    found = re.search(r"\$(.+?)\$", panel.x.label)
    return plain(found[1]) if found else panel.name


def place(panel: Panel, x: float) -> str:
    """Write a grid point of a panel, such as "p = 0.05"."""
    return f"{symbol(panel)} = {x:g}"


#: the solvers that claims are checked on
SOLVERS = ("calibrated", "fixed", *READINGS)
_BASELINES = frozenset(METHODS) - {*SOLVERS, "genie", "trace"}

#: name of the bound in messages
BOUND = "the genie bound"

#: tolerance for rounding in comparisons with thresholds
SLACK = 1e-9


class NotRunError(LookupError):
    """What a check needs was not run; the message names it."""


@dataclass(frozen=True)
class Finding:
    """The finding of a check for one solver.

    Attributes
    ----------
    holds : bool
        Whether the claim holds.
    by : str
        The figures: by how much, at which grid point.
    exceptions : tuple of str
        Every grid point where it does not hold, for claims about all of them.
    """

    holds: bool
    by: str
    exceptions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Gap:
    """How far one curve is above the best of some others at one grid point, mean over seeds."""

    place: str
    other: str
    mean: float
    error: float

    def __str__(self) -> str:
        if abs(self.mean) < 0.0005:
            return f"{self.place}, level with {self.other}"
        side = "above" if self.mean > 0 else "below"
        error = f" ± {100 * self.error:.1f}" if self.error else ""
        return f"{self.place}, {100 * abs(self.mean):.1f}{error} points {side} {self.other}"


class Look:
    """The curves of one solver, as a check sees them.

    Asking for what was not run raises `NotRunError`.

    Parameters
    ----------
    results : Results
        The results.
    solver : str
        Name in `METHODS`.
    """

    def __init__(self, results: Results, solver: str) -> None:
        self.results, self.solver = results, solver

    def there(self, panels: Iterable[str]) -> list[str]:
        """Return the panels that were run."""
        return [panel for panel in panels if panel in self.results.panels]

    def curve(self, panel: str, sources: str, method: str = "") -> Series:
        """Return the accuracy of the solver, or of another method, from some sources."""
        return self._series(panel, Curve(with_start(method or self.solver, sources), sources))

    def at(self, panel: str, x: float, sources: str, method: str = "") -> float:
        """Return the mean accuracy at one grid point."""
        series = self.curve(panel, sources, method)
        if x not in series.x:
            raise NotRunError(self.place(panel, x))
        return float(series.at(x).mean())

    def bound(self, panel: str) -> Series:
        """Return the genie bound from graph and features."""
        return self.curve(panel, "GF", "genie")

    def others(self, panel: str) -> dict[str, Series]:
        """Return all configurations except the full model; Graph also by spectral clustering."""
        skipped = {"GFL", "G"} if self.published else {"GFL"}
        found = {name: self.curve(panel, s) for s, name in SOURCES.items() if s not in skipped}
        return {**found, "Graph (spectral clustering)": self.curve(panel, "G", "spectral")}

    @property
    def published(self) -> bool:
        """Whether it is CADO as published, which leaves the graph alone to spectral clustering."""
        return self.solver in READINGS

    def graph_alone(self, panel: str) -> Series:
        """Return the configuration that uses the graph alone."""
        return self.curve(panel, "G", "spectral" if self.published else "")

    def baselines(self, panel: str) -> dict[str, Series]:
        """Return the baselines of a panel."""
        return {
            c.title or METHODS[c.method].title: self._series(panel, c)
            for c in self.results.panels[panel].curves
            if c.method in _BASELINES
        }

    def place(self, panel: str, x: float) -> str:
        """Write a grid point of a panel."""
        return place(self.results.panels[panel], x)

    def _series(self, panel: str, curve: Curve) -> Series:
        try:
            return self.results.series(panel, curve)
        except KeyError:
            raise NotRunError(f"{curve.name}, in {panel!r}") from None


Check = Callable[[Look], Finding]


@dataclass(frozen=True)
class Claim:
    """A claim and its check.

    Attributes
    ----------
    name : str
        One word, or several joined by hyphens.
    text : str
        The claim, as quoted.
    where : str
        Where it is claimed.
    criterion : str
        When the claim counts as holding.
    panels : tuple of str
        Panels that the check uses. Without any of them the claim is not checked.
    check : callable
        ``check(look) -> Finding``, for one solver.
    solvers : tuple of str
        Solvers that it is checked on.
    """

    name: str
    text: str
    where: str
    criterion: str
    panels: tuple[str, ...]
    check: Check
    solvers: tuple[str, ...] = SOLVERS


#: every claim, by name
CLAIMS: dict[str, Claim] = {}


def claim(
    name: str,
    text: str,
    where: str,
    criterion: str,
    panels: tuple[str, ...],
    solvers: tuple[str, ...] = SOLVERS,
) -> Callable[[Check], Check]:
    """Register the decorated function as a claim; see `Claim` for the parameters."""
    if name in CLAIMS:
        raise InputError(f"there is a claim called {name!r} already")

    def add(check: Check) -> Check:
        CLAIMS[name] = Claim(name, text, where, criterion, panels, check, solvers)
        return check

    return add


def gaps(look: Look, panel: str, ours: Series, others: Mapping[str, Series]) -> list[Gap]:
    """Return, for each grid point where there are others, the gap to the best of them."""
    at: dict[float, list[Gap]] = {}
    for name, other in others.items():
        lead = ours.minus(other)
        for x, mean, error in zip(lead.x, lead.mean, lead.error, strict=True):
            gap = Gap(look.place(panel, x), name, float(mean), float(error))
            at.setdefault(float(x), []).append(gap)
    return [min(at[x], key=lambda gap: gap.mean) for x in sorted(at)]


def none_below(found: list[Gap], tolerance: float) -> Finding:
    """Judge whether no gap is below zero by more than the tolerance."""
    if not found:
        raise NotRunError("any grid point")
    short = [gap for gap in found if gap.mean < -tolerance - SLACK]
    worst = min(found, key=lambda gap: gap.mean)
    many = f"{len(found)} grid point{'' if len(found) == 1 else 's'}"
    if short:
        return Finding(
            False, f"Fails at {len(short)} of {many}, worst at {worst}.", tuple(map(str, short))
        )
    return Finding(True, f"Holds at {len(found)} of {many}; closest at {worst}.")
