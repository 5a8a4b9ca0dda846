"""Belief propagation over several kinds of links, and along links with a direction."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof import kernels
from nodeproof.affinity import memberships_at
from nodeproof.csr import find_twins
from nodeproof.directed import DirectedGraph
from nodeproof.graph import Graph, Side
from nodeproof.kinds import turned
from nodeproof.problem import Models
from nodeproof.runtime import threads

__all__ = ["KindMessages"]

Rows = NDArray[np.float32]
Array = NDArray[np.float64]

# Exponents within what can be multiplied, and what keeps divisors away from zero.
_LARGE, _SMALL = 230.0, 1e-100


class _Flow:
    """Messages along the links of one kind as one of their ends sees them.

    Attributes
    ----------
    messages : ndarray of shape (entries, K)
        What the far end of each link believes without the node itself.
    twins : ndarray of shape (entries,)
        Where each link is as its far end sees it.
    """

    def __init__(self, side: Side, ell: Array, ell_t: Array, W: Rows) -> None:
        self.side, self.W = side, W
        self.ell = np.ascontiguousarray(turned(ell, side))
        self.ell_t = turned(ell_t, side)
        self.gain = np.exp(np.clip(self.ell.T, -_LARGE, _LARGE), order="C")
        strongest = float(np.abs(self.ell).max())
        self.room = 1 if len(side.weights) else max(1, int(400.0 / (strongest + 1.0)))
        self.messages = W[side.indices]
        self.totals = threads.sum_rows(lambda lo, hi: side.far[lo:hi] @ W[lo:hi], len(W))
        self.twins: NDArray[Any] = np.empty(0, dtype=np.int64)
        self.other = self

    def receive(self, lo: int, hi: int) -> tuple[Array, Array]:
        """Return what links and pairs add to the scores of nodes lo…hi, and factors per link."""
        side, K = self.side, self.W.shape[1]
        begin, end = int(side.indptr[lo]), int(side.indptr[hi])
        factors, scores = np.empty((end - begin, K)), np.empty((hi - lo, K))
        kernels.receive_rows(
            lo, hi, begin, side.indptr, side.weights, self.ell, self.gain.copy(), self.room,
            self.messages, factors, np.empty(K), scores,
        )  # fmt: skip
        rest = side.eta[lo:hi, None] * (self.totals - side.far[lo:hi, None] * self.W[lo:hi])
        scores -= rest * self.ell_t if self.ell_t.size == 1 else rest @ self.ell_t.T
        return scores, factors

    def send(self, lo: int, hi: int, new: Rows, factors: Array, step: Array) -> None:
        """Send the new beliefs of nodes lo…hi, each without what the receiver has told it."""
        side = self.side
        sent = np.repeat(new, np.diff(side.indptr[lo : hi + 1]), axis=0) / factors
        sent /= _SMALL + sent.sum(axis=1, keepdims=True)
        links = slice(int(side.indptr[lo]), int(side.indptr[hi]))
        self.other.messages[self.twins[links]] = sent
        self.totals = self.totals + side.far[lo:hi] @ step


class KindMessages:
    """The messages of all kinds.

    Parameters
    ----------
    kinds : sequence of Graph and DirectedGraph
        The kinds of links.
    models : Models
        With their affinities, stacked.
    W : ndarray of shape (n, K), float32
        Beliefs, updated in place.
    costs : ndarray of shape (n, K)
        What nodes cost beside their links.
    """

    def __init__(
        self, kinds: tuple[Graph | DirectedGraph, ...], models: Models, W: Rows, costs: Array
    ) -> None:
        assert models.affinity is not None
        self.W, self.scores = W, models.log_prior - costs
        self.flows: list[_Flow] = []
        for kind, ell, ell_t in zip(kinds, models.affinity.ell, models.affinity.ell_t, strict=True):
            own = [_Flow(side, ell, ell_t, W) for side in kind.sides]
            for flow, other in zip(own, own[::-1], strict=True):
                flow.other, flow.twins = other, _twins(flow.side, len(own))
            self.flows += own

    def round(self, batches: list[tuple[int, int]]) -> float:
        """Update every node once, batch by batch; return the mean change."""
        change = 0.0
        for lo, hi in batches:
            received = [flow.receive(lo, hi) for flow in self.flows]
            scores = self.scores[lo:hi] + sum(own for own, _ in received)
            new = memberships_at(scores, 1.0).astype(np.float32)
            step = new.astype(np.float64) - self.W[lo:hi]
            for flow, (_, factors) in zip(self.flows, received, strict=True):
                flow.send(lo, hi, new, factors, step)
            change += float(np.abs(step).max(axis=1).sum())
            self.W[lo:hi] = new
        return change / len(self.W)


def _twins(side: Side, n_sides: int) -> NDArray[Any]:
    """Return where each link is as its far end sees it."""
    if n_sides == 1:
        return find_twins(side.indptr, side.indices)
    # The far ends see the transpose: in the order of its entries, positions here.
    n, positions = len(side.indptr) - 1, np.arange(len(side.indices))
    order = sp.csr_array((positions, side.indices, side.indptr), (n, n)).tocsc().data
    twins = np.empty_like(order)
    twins[order] = positions
    return np.asarray(twins)
