"""What is left of a labelling problem when some nodes are sure.

Nodes that keep their class in every optimal labelling can be fixed there: their links become
costs of the others, and the smaller problem has a tighter bound, by which more nodes may become
sure. Where few are left, all of their labellings are compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nodeproof.certificate.dual import Dual
from nodeproof.certificate.instance import Instance
from nodeproof.certificate.rounding import dot_exact, relative_error, total_down, total_up

__all__ = ["Reduced", "Step", "reduce"]

Labels = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Step:
    """A step of a proof: nodes that are sure by then, and dual variables of what is left.

    Attributes
    ----------
    sure : ndarray of bool, shape (n,)
        Nodes that are fixed.
    dual : Dual
        For the labelling problem of the others.
    bound : float
        What they prove of it.
    """

    sure: Flags
    dual: Dual
    bound: float


@dataclass(frozen=True)
class Reduced:
    """The labelling problem of the nodes that are not sure.

    Attributes
    ----------
    instance : Instance
        Links to sure nodes have become costs.
    loose : ndarray of int
        Which nodes these are.
    error : float
        Objectives of the two problems differ by a constant, but for at most this much.
    """

    instance: Instance
    loose: NDArray[np.int64]
    error: float

    def objective(self, z: Labels) -> float:
        """Return no less than the objective of z here, nor than any that it may stand for."""
        return self.instance.value_between(z[self.loose])[1] + 2.0 * self.error

    def lift(self, whole: Instance, z: Labels, lower_bound: float) -> float:
        """Return what a bound here means for the whole problem, where z has the sure labels."""
        here = self.instance.value_between(z[self.loose])[1]
        return total_down([whole.value_between(z)[0], -here, lower_bound, -2.0 * self.error])

    def most(self, whole: Instance, z: Labels, lower_bound: float) -> float:
        """Return what `lift` may have made of a bound, with any labelling of the loose nodes."""
        low, high = self.instance.value_between(z[self.loose])
        at_least, at_most = whole.value_between(z)
        rounding = (high - low) + (at_most - at_least) + 8.0 * self.error
        return total_up([at_most, -low, lower_bound, 2.0 * rounding])


def reduce(instance: Instance, z: Labels, sure: Flags) -> Reduced:
    """Return what is left when the sure nodes stay where z has them."""
    loose = np.flatnonzero(~sure)
    K = instance.n_classes
    fixed = np.eye(K)[z] * sure[:, None]
    rows = instance.links[loose]
    eta = instance.eta[loose][:, None]
    linked = np.asarray(rows @ fixed)
    whole = dot_exact(instance.eta, fixed)
    costs = instance.costs[loose] - 2.0 * (instance.w * linked - instance.wt * (eta * whole))
    size = np.abs(instance.costs[loose])
    size = size + 2.0 * (abs(instance.w) * linked + abs(instance.wt) * (eta * whole))
    error = 4.0 * relative_error(instance.roundings + 8) * float(size.max(axis=1).sum())
    costs -= costs.min(axis=1, keepdims=True)
    left = Instance(rows[:, loose], instance.eta[loose], instance.w, instance.wt, costs)
    return Reduced(left, loose, error)
