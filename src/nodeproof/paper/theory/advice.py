"""Which condition of Theorem 1 fails, by how much, and what would have to change, in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nodeproof.paper.theory import verdicts
from nodeproof.paper.theory.link_advice import LinkAdvice
from nodeproof.paper.theory.model_advice import ModelAdvice
from nodeproof.paper.theory.verdicts import FACTOR, Verdict, number

__all__ = ["Advice"]


@dataclass(frozen=True)
class Advice:
    """Words about the conditions of Theorem 1.

    Attributes
    ----------
    sizes : ndarray of shape (K,)
        n_i.
    names : tuple of str
        Of the classes.
    links : LinkAdvice or None
        About the links; None without a graph.
    models : ModelAdvice or None
        About the models; None without node data.
    """

    sizes: NDArray[np.int64]
    names: tuple[str, ...]
    links: LinkAdvice | None
    models: ModelAdvice | None

    def explain(self, condition: str, verdict: Verdict) -> tuple[str, str]:
        """Return what fails and what would have to change, as parts of sentences."""
        words: dict[str, Callable[[], tuple[str, str]]] = {
            verdicts.EVEN: self._even,
            verdicts.LARGE: self._large,
        }
        if self.links is not None:
            words |= {
                verdicts.VISIBLE: self.links.visible,
                verdicts.QUIET: self.links.quiet,
                verdicts.INSIDE: self.links.inside,
                verdicts.ACROSS: self.links.across,
            }
        if self.models is not None:
            words |= {
                verdicts.SEPARABLE: self.models.separable,
                verdicts.ALIKE: self.models.alike,
                verdicts.ALIKE_ALONE: self.models.alike_alone,
                verdicts.GRADIENTS: self.models.gradients,
                verdicts.STATIONARY: self.models.stationary,
            }
        if self.links is not None and self.models is not None:
            links, models = self.links, self.models
            words |= {
                verdicts.WEIGHED: lambda: self._weighed(links, models),
                verdicts.LIFTED: lambda: self._lifted(
                    links, models, verdict.corrected[verdicts.LIFTED]
                ),
            }
        return words[condition]()

    def _even(self) -> tuple[str, str]:
        sizes = self.sizes
        most, least = int(sizes.argmax()), int(sizes.argmin())
        return (
            f"class {self.names[most]} has {sizes[most]:,} nodes and class {self.names[least]} "
            f"{sizes[least]:,}; as n_i ~ n_j is read here, at most {number(FACTOR)} times as many "
            "are allowed",
            f"the smallest class would need at least {int(np.ceil(sizes[most] / FACTOR)):,} nodes",
        )

    def _large(self) -> tuple[str, str]:
        sizes = self.sizes
        i, root = int(sizes.argmin()), np.sqrt(sizes.sum())
        return (
            f"class {self.names[i]} has {sizes[i]:,} nodes; as n = O(n_i²) is read here, at least "
            f"√n = {number(root)} are needed",
            f"every class would need at least {int(np.ceil(root)):,} nodes at this n",
        )

    def _weighed(self, links: LinkAdvice, models: ModelAdvice) -> tuple[str, str]:
        # The paper's Ā has weight 1, which is s = 2 here.
        wanted = verdicts.wanted_weights(self.sizes) * 0.5 * links.measured.scale
        mu = models.measured.mu
        i = int(np.maximum(mu / wanted, wanted / mu).argmax())
        lo, hi = wanted.max() / FACTOR, wanted.min() * FACTOR
        order = "n/n_i" if verdicts.are_small(self.sizes)[i] else "n/√n_i"
        return (
            f"the weights of the node data sum to μ = {number(mu)}; as μ ~ {order} is read here, "
            f"that may be up to {number(FACTOR)} times more or less than {number(wanted[i])}",
            f"these weights would have to sum to between {number(lo)} and {number(hi)}"
            if lo <= hi
            else "classes would have to be closer in size: no μ is of the right order for all",
        )

    def _lifted(self, links: LinkAdvice, models: ModelAdvice, margin: float) -> tuple[str, str]:
        a, lifted = links.measured, models.measured.lifted
        alpha = a.room - a.noise_inside
        if alpha.min() <= 0 or lifted <= 0:
            return links.inside()
        made_up = models.measured.mu * lifted / a.scale
        sigma = a.norms_between * np.where(np.eye(len(a.sizes), dtype=bool), 0.0, a.discount).max(
            axis=1
        )
        enough = float((sigma**2 / alpha).max()) - min(0.0, a.room - a.noise)
        mu = number(enough * a.scale / lifted)
        return (
            f"the noise of the links, κ = {number(a.noise)}, exceeds what links within classes "
            f"({number(a.room)}) and node data ({number(made_up)}) make up for: the condition "
            f"misses by {number(-margin)}",
            f"the weights of the node data would have to rise from μ = "
            f"{number(models.measured.mu)} to at least {mu}",
        )
