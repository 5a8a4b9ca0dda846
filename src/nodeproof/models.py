"""Everything that is estimated besides the memberships."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nodeproof.affinity import Affinity
from nodeproof.sum_of_norms.centroids import group_equal

__all__ = ["Models"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Models:
    """Everything that is estimated besides W.

    Attributes
    ----------
    affinity : Affinity or None
        The graph's parameters; None without a graph.
    terms : tuple of ndarray, each of shape (K, ...)
        The class models, in the order of the problem's terms.
    log_prior : ndarray of shape (K,)
        Log proportions of the classes; zeros for fixed weights, which have none.
    """

    affinity: Affinity | None
    terms: tuple[Array, ...]
    log_prior: Array

    @property
    def groups(self) -> NDArray[np.int64]:
        """Classes whose models are all equal share a number, 0, 1, …; shape (K,).

        A sum of norms merges classes: the number of groups is that of the classes left.
        """
        if not self.terms:
            return np.arange(len(self.log_prior))
        return group_equal(self.terms)
