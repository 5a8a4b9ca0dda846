"""Theorem 1 of the paper: which of its parts hold, as printed and as corrected.

The theorem speaks of sequences of problems, with ~ and O(), and leaves the constants open. What is
*printed* is judged here at one n, with these constants: quantities are of the same order if they
differ by a factor of at most 10 (`FACTOR`), norms are O(√n) if they are at most 2√n (`NORMS`; links
flipped at random have about √n at most), n is O(n_i²) if it is at most n_i², and c is that of the
appendix. That ρ⁺ converges to values other than 0 cannot be seen at one n, and is not judged.

What is *corrected* are the conditions that its proof needs at this n, none left open: where all of
them hold, the ideal solution (one atom per class, ``λ_i = n_i, θ = θ̂_i``) is optimal, and with room
left in the signs it is the only one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nodeproof.paper.theory.assumptions import Assumptions, LinkAssumptions
from nodeproof.paper.theory.models import ModelAssumptions

__all__ = ["FACTOR", "NORMS", "Theorem", "Verdict", "number", "theorem"]

#: largest factor between two quantities of the same order, for μ ~ … and n_i ~ n_j
FACTOR = 10.0

#: largest ``‖Ã_i‖/√n_i``, ``‖Ã^i‖/√n`` and ``‖B̃_i‖/√n`` that count as bounded (Assumption 3)
NORMS = 2.0

# Conditions, as they are called in `Verdict.printed` and `Verdict.corrected`.
VISIBLE = "1/2 − δ − ρ⁺ > 0"
QUIET = f"{NORMS:g} − norms (Assumption 3)"
SEPARABLE = "R > 0"
ALIKE = "n_i²/n − ρ or cγ n_i/n − ρ"
ALIKE_ALONE = "γ n_i/n − ρ"
EVEN = f"{FACTOR:g} − max n_i/n_j (n_i ~ n_j)"
WEIGHED = f"{FACTOR:g} − factor of μ (μ ~ n/n_i, n/√n_i)"
LARGE = "n_i²/n − 1 (n = O(n_i²))"
INSIDE = "x − tN − κ/n_i inside classes"
ACROSS = "tN − x across classes"
GRADIENTS = "gradients"
STATIONARY = "centroids are stationary"
LIFTED = "λ P⊥ and R against the noise"

#: what the conditions are called in words
NAMES = {
    VISIBLE: "visibility (Assumption 2)",
    QUIET: "bounded norms (Assumption 3)",
    SEPARABLE: "separability (Assumption 4)",
    ALIKE: "gradient variability (Assumption 5)",
    ALIKE_ALONE: "gradient variability (Assumption 5)",
    EVEN: "classes of similar size (n_i ~ n_j)",
    WEIGHED: "order of μ",
    LARGE: "size of the classes (n = O(n_i²))",
    INSIDE: "links within classes",
    ACROSS: "links across classes",
    GRADIENTS: "gradient variability",
    STATIONARY: "accuracy of the centroids",
    LIFTED: "noise of the links",
}

Array = NDArray[np.float64]
Version = Literal["printed", "corrected"]
_STRICT = frozenset({VISIBLE, SEPARABLE})


@dataclass(frozen=True)
class Verdict:
    """The verdict of one part of the theorem.

    Attributes
    ----------
    part : str
        Name of the part.
    printed, corrected : dict of str to float
        The conditions with their margins, in the order of the paper. A condition holds if its
        margin is at least 0, or above 0 where the paper asks for that: visibility and R.
    slack : float
        Where `promised`, the ideal solution's objective is this close to the optimum: 0 but for
        the tolerance to which the centroids were computed.
    words : str
        Remarks beyond the margins.
    """

    part: str
    printed: dict[str, float]
    corrected: dict[str, float]
    slack: float
    words: str

    @property
    def margin_printed(self) -> float:
        """The least margin of the conditions as printed."""
        return min(self.printed.values())

    @property
    def margin(self) -> float:
        """The least margin of the conditions as corrected."""
        return min(self.corrected.values())

    @property
    def claimed(self) -> bool:
        """Whether the theorem as printed, with the constants above, claims recovery."""
        return not self.failing("printed")

    @property
    def promised(self) -> bool:
        """Whether the corrected conditions prove recovery."""
        return not self.failing("corrected")

    def failing(self, version: Version) -> list[str]:
        """Return the names of the conditions that do not hold, in the order of the paper."""
        conditions = self.printed if version == "printed" else self.corrected
        return [
            name
            for name, margin in conditions.items()
            if not (margin > 0 if name in _STRICT else margin >= 0)
        ]

    def __str__(self) -> str:
        within = f" within {self.slack:.2g}" if self.slack else ""
        lines = [f"{self.part}: " + (f"optimal{within}" if self.promised else "not promised")]
        for how, conditions in (("printed", self.printed), ("corrected", self.corrected)):
            lines += [
                f"  {how:<10}{name:<38}{value + 0.0:>9.4g}" for name, value in conditions.items()
            ]
        return "\n".join([*lines, f"  {self.words}"])


@dataclass(frozen=True)
class Theorem:
    """The three parts of Theorem 1; None where a part does not apply.

    Attributes
    ----------
    combined, nodes, graph : Verdict or None
        (1) both, (2) without the graph, (3) without the node-specific terms.
    """

    combined: Verdict | None
    nodes: Verdict | None
    graph: Verdict | None

    def __iter__(self) -> Iterator[Verdict]:
        return (each for each in (self.combined, self.nodes, self.graph) if each is not None)

    def __str__(self) -> str:
        return "\n".join(map(str, self))


def theorem(assumptions: Assumptions) -> Theorem:
    """Judge each part of the recovery theorem on measured assumptions.

    Parameters
    ----------
    assumptions : Assumptions
        From :func:`nodeproof.paper.theory.measure`.

    Returns
    -------
    Theorem
        Every part is about the paper's convex program with only its own terms.

    Examples
    --------
    >>> from nodeproof.paper import theory
    >>> example = theory.counterexample()
    >>> found = theory.theorem(theory.measure(example.problem, example.labels))
    >>> found.combined.claimed, found.combined.promised
    (True, False)
    """
    links, models = assumptions.links, assumptions.models
    return Theorem(
        None if links is None or models is None else _combined(links, models),
        None if models is None else _nodes(models),
        None if links is None else _graph(links),
    )


def _graph(a: LinkAssumptions) -> Verdict:
    printed = {
        VISIBLE: a.visibility,
        QUIET: NORMS - max(float(each.max()) for each in a.ratios),
        EVEN: _evenness(a.sizes),
        LARGE: float((a.sizes**2).min()) / float(a.sizes.sum()) - 1.0,
    }
    corrected = {INSIDE: a.inside, ACROSS: a.across}
    words = "Constants of O() and ~ are those of nodeproof.paper.theory.verdicts."
    if not a.exact:
        words += " κ is from Lanczos iterations: not proven."
    return Verdict("(3) graph", printed, corrected, 0.0, words)


def _evenness(sizes: NDArray[np.int64]) -> float:
    return FACTOR - float(sizes.max()) / float(sizes.min())


def _nodes(a: ModelAssumptions) -> Verdict:
    n = float(a.sizes.sum())
    printed = {
        SEPARABLE: a.R if a.distinct else -np.inf,
        ALIKE_ALONE: a.gamma * float(a.sizes.min()) / n - a.rho,
        EVEN: _evenness(a.sizes),
    }
    words = "Each class by its own ρ_i"
    if a.slopes is not None and a.spread < 0:
        words += "; γ n_i/n is exceeded, so the slopes at the vertices of Θ decide"
    return Verdict("(2) nodes", printed, _about_models(a), a.slack, words + ".")


def _about_models(a: ModelAssumptions) -> dict[str, float]:
    return {GRADIENTS: a.gradients, STATIONARY: a.stationary}


def are_small(sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which classes have ``n_i ≤ √n``, shape (K,): the second regime of Theorem 1(1)."""
    return np.asarray(sizes <= np.sqrt(sizes.sum()))


def variability_limits(a: ModelAssumptions) -> Array:
    """Return the largest ρ that Theorem 1(1) as printed allows each class, shape (K,)."""
    sizes, n = a.sizes.astype(np.float64), float(a.sizes.sum())
    with np.errstate(divide="ignore"):
        c = 1.0 / (1.0 - np.sqrt(sizes / n))
    with np.errstate(invalid="ignore"):  # one class: c is infinite, γ may be 0
        large = np.nan_to_num(c * a.gamma * sizes / n, nan=0.0, posinf=np.inf)
    return np.where(are_small(a.sizes), sizes**2 / n, large)


def wanted_weights(sizes: NDArray[np.int64]) -> Array:
    """Return the μ of Theorem 1(1) by each class, shape (K,): ``n/n_i`` or ``n/√n_i``."""
    n = float(sizes.sum())
    return np.where(are_small(sizes), n / sizes, n / np.sqrt(sizes))


def _combined(links: LinkAssumptions, models: ModelAssumptions) -> Verdict:
    small = are_small(links.sizes)
    # The paper's Ā has weight 1, which is s = 2 here.
    ratio = 2.0 * models.mu / (links.scale * wanted_weights(links.sizes))
    printed = {
        VISIBLE: links.visibility,
        QUIET: NORMS - max(float(each.max()) for each in links.ratios),
        SEPARABLE: models.R if models.distinct else -np.inf,
        ALIKE: float(variability_limits(models).min()) - models.rho,
        EVEN: _evenness(links.sizes),
        WEIGHED: FACTOR - float(np.maximum(ratio, 1.0 / ratio).max()),
    }
    corrected = {
        **_about_models(models),
        ACROSS: links.across,
        LIFTED: _against_noise(links, models),
    }
    regime = "n_i ≤ √n" if small.all() else "n_i ≥ √n" if not small.any() else "both regimes"
    words = (
        f"{regime}; μ is {ratio.min():.3g} times what ~ asks for, at the class of the least; c = "
        "1/(1 − √(n_i/n)) as in the appendix. Where θ̂_i is inside a face of Θ no graph allows for "
        "more than γ n_i/n."
    )
    if not links.exact:
        words += " Norms are from Lanczos iterations: not proven."
    return Verdict(f"(1) combined, {regime}", printed, corrected, models.slack, words)


def _against_noise(links: LinkAssumptions, models: ModelAssumptions) -> float:
    """Return the margin of ``D(θ) − Z ⪰ 0``, in units of eigenvalues of A.

    λ/s is all that the signs inside classes allow for. Either it is above κ by itself; or, for each
    class that θ may belong to, Lemma 2 holds of its block, where the indicator of the class is
    in the kernel of P⊥ and of B, and of the rest, which R lifts.
    """
    alone = links.room - links.noise
    alpha = links.room - links.noise_inside
    beta = models.mu / links.scale * models.lifted + min(0.0, alone)
    sigma = links.norms_between * np.where(
        np.eye(len(links.sizes), dtype=bool), 0.0, links.discount
    ).max(axis=1)
    if min(float(alpha.min()), beta) < 0:
        return float(max(alone, min(alpha.min(), beta)))
    return max(alone, float((np.sqrt(alpha * beta) - sigma).min()))


def number(value: float) -> str:
    """Return a number as people write it: three digits, and never −0.

    Examples
    --------
    >>> from nodeproof.paper.theory.verdicts import number
    >>> number(0.12345), number(12345.6), number(-0.0), number(-0.5)
    ('0.123', '12,346', '0', '−0.5')
    """
    if not np.isfinite(value):
        return "−∞" if value < 0 else "∞"
    size = abs(float(value))
    text = f"{size:,.0f}" if size >= 1000 else f"{size:.3g}"
    return f"−{text}" if value < 0 and float(text.replace(",", "")) else text
