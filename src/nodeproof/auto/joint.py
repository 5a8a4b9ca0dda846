"""A pool with a block model in it as one problem of all nodes together, for certificates.

The pool adds up what its experts say of each node, the block model as one of them. What that one
says comes from a problem of all nodes: links and costs. With the problem in place of what it says,
weighed alike, the pool itself is a labelling problem: the cheapest labels of one node depend on
those of its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.affinity import Affinity
from nodeproof.auto.pooling import Pool
from nodeproof.runtime import threads

__all__ = ["NOTHING_JOINT", "Joint", "Said"]

Array = NDArray[np.float64]

#: why there is no certificate of a pool without a block model of links
NOTHING_JOINT = (
    "there is nothing joint to prove: in this fit every node is labelled by its own costs alone, "
    "whatever the labels of others"
)


@dataclass(frozen=True)
class Said:
    """What experts say of all nodes; of labelled ones also without their labels seen.

    Attributes
    ----------
    logs : sequence of E ndarray of shape (n, K) or None
        Log-probabilities by experts that have seen all labels.
    y : ndarray of shape (n,)
        Labels 0…K−1, −1 where there is none.
    held : ndarray of shape (h,)
        Labelled nodes.
    unseen : sequence of E ndarray of shape (h, K) or None
        Their log-probabilities by experts that have not seen their labels.
    """

    logs: Sequence[NDArray[Any] | None]
    y: NDArray[np.int64]
    held: NDArray[np.int64]
    unseen: Sequence[NDArray[Any] | None]

    def costs(self, pool: Pool, at_labels: Pool, lo: int, hi: int) -> Array:
        """Return −log p(class) of nodes lo…hi by a pool, shape (hi − lo, K).

        Parameters
        ----------
        at_labels : Pool
            For labelled nodes: the same at the class proportions of the labels.
        """
        costs = np.empty((hi - lo, len(pool.bias)))
        # The same for all nodes, without any expert.
        costs[:] = -pool.log_proba(_only(self.logs, slice(lo, hi)))
        known = lo + np.flatnonzero(self.y[lo:hi] >= 0)
        costs[known - lo] = -at_labels.log_proba(_only(self.logs, known))
        here = self.held_within(lo, hi)
        costs[self.held[here] - lo] = -at_labels.log_proba(_only(self.unseen, here))
        return costs

    def held_within(self, lo: int, hi: int) -> NDArray[np.int64]:
        """Return the positions in `held` of those among nodes lo…hi."""
        return np.flatnonzero((self.held >= lo) & (self.held < hi))


def _only(logs: Sequence[NDArray[Any] | None], rows: Any) -> list[NDArray[Any] | None]:
    return [None if own is None else own[rows] for own in logs]


@dataclass(frozen=True)
class Joint:
    """What a pool says of all nodes together.

    Attributes
    ----------
    costs : ndarray of shape (n, K), float32
        What each node costs beside its links and its own label.
    affinity : Affinity
        Of the links: the block model's, times its weight.
    """

    costs: NDArray[np.float32]
    affinity: Affinity

    @classmethod
    def of_pool(
        cls,
        said: Said,
        pool: Pool,
        at_labels: Pool,
        block: int,
        node_costs: Callable[[int, int], Array],
        affinity: Affinity,
    ) -> Joint:
        """Return a pool with the problem of its block model in place of what that says.

        Other experts cost what they cost in the pool, with its biases and class proportions:
        ``−scale (Σ_k w_k log p_k + bias)``. Where the pool counts ``scale · w · t`` times what the
        block model says of a node, links, null model, features and class proportions of that model
        count as often.

        A label counts once, by the term `Labels` of the fit. So experts judge labelled nodes as in
        the pool, by fits that have not seen their labels, and what the block model makes of the
        labels is left out. (Its class models have seen them, as one of many nodes each.)

        Parameters
        ----------
        pool, at_labels : Pool
            For all nodes, and for the labelled ones.
        block : int
            The position of the block model among the experts.
        node_costs : callable
            What nodes lo…hi cost by the block model beside their links and labels, (hi − lo, K).
        affinity : Affinity
            Of its links.
        """
        weights = pool.weights.copy()
        weights[block] = 0.0
        own, own_at_labels = replace(pool, weights=weights), replace(at_labels, weights=weights)
        counts = float(pool.scale * pool.weights[block] * pool.scales[block])

        def part(lo: int, hi: int) -> NDArray[np.float32]:
            costs = said.costs(own, own_at_labels, lo, hi) + counts * node_costs(lo, hi)
            costs -= costs.min(axis=1, keepdims=True)
            return costs.astype(np.float32)

        costs = np.concatenate(threads.map_rows(part, len(said.y)))
        return cls(costs, affinity.times(counts))

    def reordered(self, position: NDArray[np.int64]) -> Joint:
        """Return the same for reordered nodes; `position` is where each was before."""
        return replace(self, costs=self.costs[position])
