"""Flows inside the classes, chosen so that every node is content with its class's model.

A node is content where ``⟨q_v, θ − θ̂_v⟩ ≥ 0`` for all θ ∈ Θ. Nodes that share their class and
their gradient are alike, so that few flows are to be found where labels are all there is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nodeproof.certificate.program_ideal import HAIR, Ideal
from nodeproof.characteristic import group_equal

__all__ = ["TypedFlows", "content_flows"]

Array = NDArray[np.float64]

# Steps at most, and how little a step changes at the end.
_STEPS, _STILL = 500, 1e-11

# So many numbers at most: flows between all types of nodes.
_MOST_NUMBERS = 4_000_000


@dataclass(frozen=True)
class TypedFlows:
    """Flows between types of nodes.

    Attributes
    ----------
    between : ndarray of shape (k, k, d)
        Flows between the classes, for those whose centroids differ.
    types : ndarray of shape (n,)
        The type of each node, 0…T−1.
    among : ndarray of shape (T, T, d)
        g_vu for v of one type and u of another.
    """

    between: Array
    types: NDArray[np.int64]
    among: Array

    def forces(self, ideal: Ideal) -> Array:
        """Return ``Σ_u g_vu``, shape (n, d)."""
        sizes = np.bincount(self.types, minlength=len(self.among)).astype(np.float64)
        return np.asarray(np.einsum("j,ijd->id", sizes, self.among)[self.types])

    def valid_forces(self, ideal: Ideal) -> Array:
        """Return ``Σ_u g_vu``, (n, d), of the antisymmetric parts, cut to the length one."""
        return TypedFlows(self.between, self.types, _cut(self.among)).forces(ideal)

    def longest(self, ideal: Ideal) -> float:
        """Return the length of the longest flow."""
        return float(np.linalg.norm(self.among, axis=2).max(initial=0.0))

    def asymmetry(self, ideal: Ideal) -> float:
        """Return the largest ``‖g_vu + g_uv‖``."""
        both = self.among + self.among.swapaxes(0, 1)
        return float(np.linalg.norm(both, axis=2).max(initial=0.0))


def content_flows(ideal: Ideal) -> TypedFlows | None:
    """Return flows that leave nodes as content as they can be; None where they are too many.

    Over flows no longer than one between nodes whose centroids coincide, this minimises
    ``Σ_v max_θ ⟨q_v, θ̂_v − θ⟩ − ‖θ − θ̂_v‖²/2η``, which is zero where all are content and has the
    gradient ``θ̂_v − P_Θ(θ̂_v − ηq_v)``, by accelerated projected gradients.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof import Problem
    >>> from nodeproof.certificate.program_flows import content_flows
    >>> from nodeproof.certificate.program_ideal import Ideal
    >>> from nodeproof.terms import Labels, NodeData
    >>> labels = Labels().bind(NodeData(n_classes=2, y=np.array([0, 0, -1, 1])))
    >>> problem = Problem(None, [labels], 2, weights=(0.0, 0.0, 1.0), son=0.1)
    >>> ideal = Ideal(problem, [0, 0, 0, 1])
    >>> flows = content_flows(ideal)
    >>> pulls = ideal.gradients + 0.1 * flows.valid_forces(ideal)
    >>> bool(pulls[2, 0] <= pulls[2, 1] + 1e-9)  # the node without a label prefers its class
    True
    """
    d = ideal.gradients.shape[1]
    keys = np.column_stack([ideal.z, ideal.gradients])
    _, first, types = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    types = types.reshape(-1)
    if not ideal.program.son or not d or len(first) ** 2 * d > _MOST_NUMBERS:
        return None
    z, m, theta = ideal.z[first], ideal.gradients[first], ideal.theta[ideal.z[first]]
    sizes, of = np.bincount(types).astype(np.float64), ideal.program.models_set
    group = group_equal([ideal.theta])[z]
    free = (group[:, None] == group)[:, :, None]
    weight = ideal.program.son * ((group[:, None] == group) @ sizes)[:, None, None]
    g = y = np.asarray(ideal.between[z][:, z])
    outer = np.where(free, 0.0, g)
    q = m + ideal.program.son * np.einsum("j,ijd->id", sizes, y)
    reach = float(np.linalg.norm(of.lmo(q) - theta, axis=1).max())
    eta = max(reach, 1e-12) / max(float(np.linalg.norm(q, axis=1).max()), 1e-12)
    ahead = 1.0
    for _ in range(_STEPS):
        q = m + ideal.program.son * np.einsum("j,ijd->id", sizes, y)
        x = theta - of.project(theta - eta * q)
        if float(np.abs(x).max()) <= 1e-14 * reach:
            g = y
            break
        moved = np.where(free, _cut(y - (x[:, None] - x[None]) / (eta * weight)), outer)
        further = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * ahead * ahead))
        y = moved + (ahead - 1.0) / further * (moved - g)
        still = float(np.abs(moved - g).max()) <= _STILL
        g, ahead = moved, further
        if still:
            break
    return TypedFlows(ideal.between, types, _cut(g))


def _cut(g: Array) -> Array:
    """Return the antisymmetric part of flows, cut to the length one."""
    g = 0.5 * (g - g.swapaxes(0, 1))
    lengths = np.linalg.norm(g, axis=2, keepdims=True)
    return np.asarray(g * np.where(lengths > HAIR, HAIR / np.maximum(lengths, HAIR), 1.0))
