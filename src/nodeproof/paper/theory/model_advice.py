"""Which condition on the models fails, by how much, and what would have to change, in words.

Every method returns two parts of sentences: what was measured and what is allowed, and what would
have to change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nodeproof.paper.theory import verdicts
from nodeproof.paper.theory.models import ModelAssumptions
from nodeproof.paper.theory.verdicts import number

__all__ = ["ModelAdvice"]

# How often a weight that should do is doubled until it does.
_DOUBLINGS = 4


@dataclass(frozen=True)
class ModelAdvice:
    """Words about the conditions on models.

    Attributes
    ----------
    measured : ModelAssumptions
        What was measured.
    names : tuple of str
        Of the classes.
    at_gamma : callable
        Measures the same with another γ.
    has_labels : bool
        Whether labels are among the node data.
    """

    measured: ModelAssumptions
    names: tuple[str, ...]
    at_gamma: Callable[[float], ModelAssumptions]
    has_labels: bool

    def separable(self) -> tuple[str, str]:
        """Explain ``R > 0``."""
        a = self.measured
        without = self.at_gamma(0.0)
        smaller = "a smaller weight γ of the sum of norms, or "
        if not a.distinct:
            i, j = _closest(a.centroids)
            pair = f"classes {self.names[i]} and {self.names[j]}"
            return (
                f"{pair} have the same biased centroid, and Assumption 4 needs distinct ones",
                f"{smaller if without.distinct else ''}node data that tell {pair} apart would be "
                "needed",
            )
        more = "more labels" if self.has_labels else "labels of some nodes (labels=)"
        return (
            "R is 0, and Assumption 4 needs R > 0: some model is to first order as good for two "
            "classes as their own centroids, as it is where these lie in the interior of Θ",
            f"{smaller if without.R > 0 else ''}{more}, which pull centroids to vertices of Θ, "
            "would be needed",
        )

    def alike(self) -> tuple[str, str]:
        """Explain the largest ρ of Theorem 1(1) as printed."""
        a = self.measured
        limits = verdicts.variability_limits(a)
        i, least = int(a.rho_classes.argmax()), int(limits.argmin())
        if not verdicts.are_small(a.sizes)[least]:
            factor = limits[least] / (a.gamma * a.sizes[least] / a.sizes.sum()) if a.gamma else 1.0
            return self._differ(i, limits[least], "c·γ n_i/n"), self._larger_gamma(factor)
        # With K classes of one size, n_i²/n is n_i/K.
        needed = int(np.ceil(a.rho * len(a.sizes)))
        return self._differ(i, limits[least], "n_i²/n"), (
            f"classes would need about {needed:,} nodes each instead of {a.sizes[least]:,}, or "
            f"gradients within classes would have to differ by at most {number(limits[least])}"
        )

    def alike_alone(self) -> tuple[str, str]:
        """Explain ``ρ ≤ γ n_i/n``."""
        a = self.measured
        allowed = a.gamma * float(a.sizes.min()) / float(a.sizes.sum())
        i = int(a.rho_classes.argmax())
        return self._differ(i, allowed, "γ n_i/n"), self._larger_gamma()

    def _differ(self, i: int, allowed: float, formula: str) -> str:
        exact = "" if self.measured.rho_lower == self.measured.rho else " (an upper bound)"
        return (
            f"gradients within class {self.names[i]} differ by up to "
            f"{number(self.measured.rho_classes[i])}{exact}; at most {number(allowed)} ({formula}) "
            "is allowed (Assumption 5)"
        )

    def _larger_gamma(self, factor: float = 1.0) -> str:
        """Say which weight of the sum of norms allows for the gradients; c is the factor."""
        n, found, gamma = float(self.measured.sizes.sum()), self.measured, 0.0
        for _ in range(_DOUBLINGS):
            enough = float((found.rho_classes * n / (factor * found.sizes)).max())
            gamma = enough if gamma == 0.0 else max(enough, 2.0 * gamma)
            found = self.at_gamma(gamma)
            if (found.rho_classes <= factor * gamma * found.sizes / n).all():
                break
        else:
            return "gradients within classes would have to be more alike: no γ was found to do"
        weight = f"γ ≥ {number(gamma)} instead of {number(self.measured.gamma)}"
        if found.distinct and found.R > 0:
            return f"a larger weight of the sum of norms, {weight}, would do"
        merged = (
            "leaves Assumption 4 without an R > 0"
            if found.distinct
            else "makes the centroids of some classes equal"
        )
        return (
            "gradients within classes would have to be more alike: as they are, they need "
            f"{weight} as weight of the sum of norms, and that {merged}"
        )

    def gradients(self) -> tuple[str, str]:
        """Explain the corrected condition on gradients."""
        a = self.measured
        if a.slopes is None:
            i = int((a.gamma * a.sizes / a.sizes.sum() - a.rho_classes).argmin())
            allowed = float(a.gamma * a.sizes[i] / a.sizes.sum())
            return self._differ(i, allowed, "γ n_i/n"), self._larger_gamma()
        worst = (a.slopes + a.gaps[:, None]).min(axis=1)
        i = int(worst.argmin())
        allowed = float(a.gamma * a.sizes[i] / a.sizes.sum())
        return (
            f"{self._differ(i, allowed, 'γ n_i/n')}, and some node of the class gains "
            f"{number(-worst[i])} by another model",
            self._larger_gamma(),
        )

    def stationary(self) -> tuple[str, str]:
        """Explain that the centroids are not exact enough."""
        return (
            "the biased centroids are not computed exactly enough to say more",
            "features of about the same scale would help their computation",
        )


def _closest(points: NDArray[np.float64]) -> tuple[int, int]:
    """Return two different rows that are closest to each other."""
    apart = np.linalg.norm(points[:, None] - points, axis=2)
    np.fill_diagonal(apart, np.inf)
    i, j = np.unravel_index(int(np.argmin(apart)), apart.shape)
    return int(min(i, j)), int(max(i, j))
