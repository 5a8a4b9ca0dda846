"""Which condition on the links fails, by how much, and what would have to change, in words.

Every method returns two parts of sentences: what was measured and what is allowed, and what would
have to change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from nodeproof.paper.theory.assumptions import LinkAssumptions
from nodeproof.paper.theory.verdicts import NORMS, number

__all__ = ["LinkAdvice"]


@dataclass(frozen=True)
class LinkAdvice:
    """Words about the conditions on links.

    Attributes
    ----------
    measured : LinkAssumptions
        What was measured.
    names : tuple of str
        Of the classes.
    at_threshold : callable
        Measures the same with another t.
    """

    measured: LinkAssumptions
    names: tuple[str, ...]
    at_threshold: Callable[[float], LinkAssumptions]

    def visible(self) -> tuple[str, str]:
        """Explain ``ρ⁺ < 1/2 − δ``."""
        a = self.measured
        i, j = _worst(a.rho_plus)
        short = f"1/2 − δ − ρ⁺ (Assumption 2) is {number(a.visibility)}, which is not above 0"
        if a.delta >= 0.5:
            return (
                f"{short}: single nodes stray by δ = {number(a.delta)} from their class's mean",
                "degrees would have to vary less, with δ below 1/2",
            )
        if i == j:
            p, where = 1.0 - a.rho_plus[i, i], f"within class {self.names[i]}"
            return (
                f"links {where} have density {number(p)}, and {short} (δ = {number(a.delta)})",
                f"the density {where} would have to rise from {number(p)} to above "
                f"{number(0.5 + a.delta)}, which is 1/2 + δ",
            )
        q, where = a.rho_plus[i, j], f"between classes {self.names[i]} and {self.names[j]}"
        return (
            f"links {where} have density {number(q)}, and {short} (δ = {number(a.delta)})",
            f"the density {where} would have to fall from {number(q)} to below "
            f"{number(0.5 - a.delta)}, which is 1/2 − δ",
        )

    def quiet(self) -> tuple[str, str]:
        """Explain the bounds of the norms."""
        of = ("within class {}", "that do not touch class {}", "between class {} and the others")
        k, i = _worst(np.stack(self.measured.ratios))
        ratio, unit = self.measured.ratios[k][i], "√n_i" if k == 0 else "√n"
        place = of[k].format(self.names[i])
        return (
            f"the centred links {place} have norm {number(ratio)}·{unit}; as O({unit}) in "
            f"Assumption 3 is read here, at most {number(NORMS)}·{unit} is allowed",
            f"the links {place} would have to be spread more evenly (hubs and groups within "
            "classes make the norm large)",
        )

    def inside(self) -> tuple[str, str]:
        """Explain the signs within classes."""
        a = self.measured
        short = a.needed + a.noise / a.sizes - a.lowest
        i = int(short.argmax())
        p, name = a.density[i, i], self.names[i]
        return (
            f"at the threshold t = {number(a.threshold)}, with noise and degrees as they are, the "
            f"density of links within class {name} falls short by {number(short[i])}",
            self.change(
                f"the density within class {name} would have to rise from {number(p)} to at least "
                f"{number(p + short[i])}"
            ),
        )

    def across(self) -> tuple[str, str]:
        """Explain the signs across classes."""
        a = self.measured
        short = a.highest - a.allowed
        i, j = _worst(short)
        pair, q = f"classes {self.names[i]} and {self.names[j]}", a.density[i, j]
        most = max(0.0, float(q - short[i, j]))
        return (
            f"at the threshold t = {number(a.threshold)}, with degrees as they are, the density of "
            f"links between {pair} is too large by {number(short[i, j])}",
            self.change(
                f"the density between {pair} would have to fall from {number(q)} to at most "
                f"{number(most)}"
            ),
        )

    def change(self, density: str) -> str:
        """Say which threshold would do; where none does, which density or size of classes."""
        if self._thresholds is not None:
            lo, hi = self._thresholds
            return f"{density}, or the threshold t be set to between {number(lo)} and {number(hi)}"
        size = self._size_needed
        return density if size is None else f"{density}; no threshold alone would do. {size}"

    @cached_property
    def _thresholds(self) -> tuple[float, float] | None:
        """The thresholds at which the signs hold, if there are any and they were tried."""
        a = self.measured
        if np.ptp(a.needed) > 0 or a.threshold <= 0 or len(a.sizes) == 1:
            return None  # degrees are in the null model: t does not act on all pairs alike
        scale = float(a.needed.max()) / a.threshold
        lo = max(0.0, float(a.highest.max()) / scale)
        # At the lowest threshold nothing is discounted across classes, and κ is largest.
        hi = float((a.lowest - self.at_threshold(lo).noise / a.sizes).min()) / scale
        if hi < lo:
            return None
        tried = (self.at_threshold(lo), self.at_threshold(hi))
        return (lo, hi) if min(min(t.inside, t.across) for t in tried) > -1e-9 else None

    @property
    def _size_needed(self) -> str | None:
        """How large classes of these densities would have to be, with the best threshold.

        Degrees stray from their mean, and κ/n_i, like 1/√n_i if links are independent.
        """
        a = self.measured
        apart = ~np.eye(len(a.sizes), dtype=bool)
        own = np.diag(a.density)
        room = float(own.min() - a.density[apart].max(initial=0.0))
        if room <= 0:
            return (
                "No size of the classes would do either: links within some class are no denser "
                "than between some two"
            )
        if not np.isfinite(a.lowest).all():
            return None
        stray = float((own - a.lowest + a.noise / a.sizes).max())
        if apart.any():
            stray += float((a.highest - a.density)[apart].max())
        least = int(a.sizes.min())
        needed = int(np.ceil(least * (stray / room) ** 2))
        if needed <= least:
            return None
        return (
            f"With these densities classes would need about {needed:,} nodes instead of "
            f"{least:,}, as far as degrees and noise even out like 1/√n_i"
        )


def _worst(values: NDArray[np.float64]) -> tuple[int, int]:
    """Return row and column of the largest entry."""
    i, j = np.unravel_index(int(np.argmax(values)), values.shape)
    return int(i), int(j)
