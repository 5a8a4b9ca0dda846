"""Theorem 1 of the paper: which of its parts hold, as printed and as corrected.

The theorem speaks of sequences of problems, with ~ and O(). What is *printed* is judged here with
all constants that the paper leaves open set to 1, and with the factor c of its appendix. What is
*corrected* are the conditions that its proof needs at this n, none left open: where all of them
hold, the ideal solution (one atom per class, ``λ_i = n_i, θ = θ̂_i``) is optimal, and with room
left in the signs it is the only one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nodeproof.paper.theory.assumptions import Assumptions, LinkAssumptions
from nodeproof.paper.theory.models import ModelAssumptions

__all__ = ["Theorem", "Verdict", "theorem"]


@dataclass(frozen=True)
class Verdict:
    """The verdict of one part of the theorem.

    Attributes
    ----------
    part : str
        Name of the part.
    printed, corrected : dict of str to float
        The conditions with their margins: a number ≥ 0 means that it holds.
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
        """Whether the theorem as printed, constants set to 1, claims recovery."""
        return bool(self.margin_printed >= 0)

    @property
    def promised(self) -> bool:
        """Whether the corrected conditions prove recovery."""
        return bool(self.margin >= 0)

    def __str__(self) -> str:
        within = f" within {self.slack:.2g}" if self.slack else ""
        lines = [f"{self.part}: " + (f"optimal{within}" if self.promised else "not promised")]
        for how, conditions in (("printed", self.printed), ("corrected", self.corrected)):
            lines += [f"  {how:<10}{name:<34}{value:>11.4g}" for name, value in conditions.items()]
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
    n = float(a.sizes.sum())
    printed = {
        "1/2 − δ − ρ⁺ > 0": a.visibility,
        "n_i²/n − 1 (n = O(n_i²))": float((a.sizes**2).min()) / n - 1.0,
    }
    corrected = {
        "x − tN − κ/n_i inside classes": a.inside,
        "tN − x across classes": a.across,
    }
    words = "O() is printed without a constant: 1 is taken."
    if not a.exact:
        words += " κ is from Lanczos iterations: not proven."
    return Verdict("(3) graph", printed, corrected, 0.0, words)


def _nodes(a: ModelAssumptions) -> Verdict:
    n = float(a.sizes.sum())
    printed = {"γ n_i/n − ρ": a.gamma * float(a.sizes.min()) / n - a.rho}
    words = "Each class by its own ρ_i"
    if a.slopes is not None and a.spread < 0:
        words += "; γ n_i/n is exceeded, so the slopes at the vertices of Θ decide"
    return Verdict("(2) nodes", printed, _about_models(a), a.slack, words + ".")


def _about_models(a: ModelAssumptions) -> dict[str, float]:
    return {"gradients": a.gradients, "centroids are stationary": a.stationary}


def _combined(links: LinkAssumptions, models: ModelAssumptions) -> Verdict:
    sizes, n = links.sizes.astype(np.float64), float(links.sizes.sum())
    small = sizes <= np.sqrt(n)
    with np.errstate(divide="ignore"):
        c = 1.0 / (1.0 - np.sqrt(sizes / n))
    with np.errstate(invalid="ignore"):  # one class: c is infinite, γ may be 0
        large = np.nan_to_num(c * models.gamma * sizes / n, nan=0.0, posinf=np.inf)
    limits = np.where(small, sizes**2 / n, large)
    printed = {
        "1/2 − δ − ρ⁺ > 0": links.visibility,
        "R > 0": models.R if models.distinct else -np.inf,
        "n_i²/n − ρ or cγ n_i/n − ρ": float(limits.min()) - models.rho,
    }
    corrected = {
        **_about_models(models),
        "tN − x across classes": links.across,
        "λ P⊥ and R against the noise": _against_noise(links, models),
    }
    regime = "n_i ≤ √n" if small.all() else "n_i ≥ √n" if not small.any() else "both regimes"
    # The paper's Ā has weight 1, which is s = 2 here.
    wanted = np.where(small, n / sizes, n / np.sqrt(sizes))
    ratio = 2.0 * models.mu / (links.scale * wanted)
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
