"""How numbers and places are written wherever results are put into words."""

from __future__ import annotations

import re

from nodeproof.experiments.panels import Panel

__all__ = ["limit", "percent", "place", "plain", "points", "share", "signed", "symbol"]

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
    >>> from nodeproof.experiments.claims.wording import percent
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


def share(bar: float) -> str:
    """Write the bar that an accuracy is held to: 0.99 is "99 %"."""
    return f"{100 * bar:g} %"


def limit(difference: float) -> str:
    """Write the bar that a difference is held to: 0.01 is "1 point", 0.005 "0.5 points"."""
    value = f"{100 * difference:g}"
    return f"{value} point{'' if value == '1' else 's'}"


def plain(label: str) -> str:
    r"""Write the label of an axis without the marks of LaTeX.

    Examples
    --------
    >>> from nodeproof.experiments.claims.wording import plain
    >>> plain(r"noise of the features, $\omega$  ($\sigma = 1$)")
    'noise of the features, ω (σ = 1)'
    """
    for command, letter in _GREEK.items():
        label = label.replace(command, letter)
    return re.sub(r"\s+", " ", label.replace("$", "").replace("\\", ""))


def symbol(panel: Panel) -> str:
    """Return what a panel varies: the first formula of its axis, else the name of the panel."""
    found = re.search(r"\$(.+?)\$", panel.x.label)
    return plain(found[1]) if found else panel.name


def place(panel: Panel, x: float) -> str:
    """Write a place on the axis of a panel, such as "p = 0.05"."""
    return f"{symbol(panel)} = {x:g}"
