"""The lifted relaxation of a labelling problem with fixed models, as a solver.

It is far tighter than the program, whose models are free. It bounds labellings, not the
program: there, two classes may share a vertex of Θ, and the 1 in the corner is not theirs. See
:mod:`nodeproof.certificate.labelling.first_order`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nodeproof.certificate.labelling.bound import judge
from nodeproof.certificate.labelling.dual import Dual
from nodeproof.certificate.labelling.families import FAMILIES
from nodeproof.certificate.labelling.first_order import Blocks
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.convex.results import relative_gap
from nodeproof.solvers.base import Result

__all__ = ["Labelling", "LabellingResult"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LabellingResult(Result):
    """A labelling for fixed models, and what no labelling can undercut.

    Attributes
    ----------
    shares : ndarray of shape (n, K)
        The relaxation's ``x``.
    lower_bound : float
        Of the objective of every labelling, for these models: rigorous.
    dual : Dual
        The variables that prove it.
    """

    shares: Array
    lower_bound: float
    dual: Dual

    @property
    def gap(self) -> float:
        """How far the labelling can be from the best, relative to the size of the objective."""
        return relative_gap(self.value, self.lower_bound)


class Labelling(Blocks):
    """The lifted splitting with the best labelling and the best bound so far."""

    def __init__(self, instance: Instance, labels: NDArray[np.int64]) -> None:
        self.labelling = instance.settle(labels)
        self.value, self.bound = instance.value(self.labelling), -np.inf
        self.proof = Dual(
            instance.costs.min(axis=1),
            np.zeros(instance.costs.T.shape),
            np.zeros(instance.n_classes),
        )
        for family in FAMILIES.values():
            self._consider(instance, family(instance, self.labelling))
        super().__init__(instance, self.labelling, self.proof)

    def _consider(self, instance: Instance, dual: Dual) -> None:
        bound = judge(instance, dual, self.labelling).lower_bound
        if bound > self.bound:
            self.bound, self.proof = bound, dual

    def judge(self) -> None:
        """Round x, descend from there node by node, and update the best value and bound."""
        labelling = self.instance.settle(self.shares.argmax(axis=1))
        value = self.instance.value(labelling)
        if value < self.value:
            self.value, self.labelling = value, labelling
        for dual in self.duals(self.labelling):
            self._consider(self.instance, dual)
