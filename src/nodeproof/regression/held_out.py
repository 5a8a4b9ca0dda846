"""Targets that are held out of fits: every known one once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["HeldTargets", "hold_out_targets"]

Array = NDArray[np.float64]

# Folds; fewer where there are many targets, or links.
_FOLDS, _FEW_FOLDS, _MANY_TARGETS, _MANY_ENTRIES = 10, 5, 1_000, 1_500_000


@dataclass(frozen=True)
class HeldTargets:
    """Known targets, each held out of one fit.

    Attributes
    ----------
    nodes : ndarray of shape (h,)
        Where they are, ascending.
    targets : ndarray of shape (h,)
        What they are.
    folds : ndarray of shape (h,)
        The fit that each is held out of: 0…F−1.
    n_nodes : int
        Number of all nodes.
    """

    nodes: NDArray[np.int64]
    targets: Array
    folds: NDArray[np.int64]
    n_nodes: int

    @property
    def n_folds(self) -> int:
        """Number of folds F."""
        return int(self.folds.max()) + 1

    @property
    def means(self) -> Array:
        """The mean of the targets that each fit sees, shape (F,)."""
        counts, sums = np.bincount(self.folds), np.bincount(self.folds, self.targets)
        return np.asarray((sums.sum() - sums) / (counts.sum() - counts))

    def with_targets(self, targets: Array) -> HeldTargets:
        """Return the same nodes and folds with other targets."""
        return HeldTargets(self.nodes, targets, self.folds, self.n_nodes)


def hold_out_targets(
    targets: Array, rng: np.random.Generator, n_entries: int = 0
) -> HeldTargets | None:
    """Return how targets are held out; None if there are fewer than two.

    Parameters
    ----------
    targets : ndarray of shape (n,)
        NaN where unknown.
    rng : Generator
        Draws the folds.
    n_entries : int
        Of the adjacency matrix.
    """
    nodes = np.flatnonzero(~np.isnan(targets))
    if len(nodes) < 2:
        return None
    few = len(nodes) > _MANY_TARGETS or n_entries > _MANY_ENTRIES
    folds = np.empty(len(nodes), dtype=np.int64)
    folds[rng.permutation(len(nodes))] = np.arange(len(nodes)) % (_FEW_FOLDS if few else _FOLDS)
    return HeldTargets(nodes, targets[nodes], folds, len(targets))
