"""Beliefs after a small change: propagated near it, all others as they were.

Messages are not kept with a model: where belief propagation has settled, those of a link follow
from the beliefs of its ends.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof import kernels
from nodeproof.problem import Problem
from nodeproof.solvers.nearby import Nearby, bounded_mean, costs_at

__all__ = ["beliefs_nearby"]

Array = NDArray[np.float64]
Rows = NDArray[np.float32]
Nodes = NDArray[np.int64]

# Nodes whose class is this clear, by memberships and beliefs, keep their beliefs.
_CLEAR = 1e-4

_ROUNDS = 50

# A sample of the others, evenly spaced.
_SAMPLE = 2_000


def beliefs_nearby(
    problem: Problem, near: Nearby, before: Rows, tol: float
) -> tuple[Rows, Nodes, float] | None:
    """Return beliefs after a change; None if they must be propagated over the whole graph.

    Parameters
    ----------
    problem : Problem
        After the change.
    near : Nearby
        The memberships after it.
    before : ndarray of shape (n_before, K)
        Beliefs before it.
    tol : float
        Largest mean change of beliefs in a further round.

    Returns
    -------
    beliefs : ndarray of shape (n, K)
    nodes : ndarray of int
        The nodes whose beliefs were worked out, ascending.
    left_out : float
        By how much a round would change those of all others, on average.
    """
    affinity, graph = near.models.affinity, problem.graph
    if graph is None or affinity is None or affinity.ell.shape != (1, 1):
        return None
    work = _Beliefs(problem, near, before)
    n, nodes = len(near.W), _unsure(near, before)
    if not work.settle(nodes, tol * n):
        return None
    asked = np.unique(np.linspace(0, n - 1, min(n, _SAMPLE)).astype(np.int64))
    asked = asked[work.place[asked] < 0]
    # All beliefs have settled but for those that are new: messages follow from them.
    left_out = bounded_mean(work.look_at(asked))
    return None if left_out > tol else (work.B, nodes, left_out)


def _unsure(near: Nearby, before: Rows) -> Nodes:
    """Return the nodes that were solved, but for those whose class was clear, and is the same."""
    nodes, n_before = near.nodes, len(before)
    known = nodes[nodes < n_before]
    was, now = before[known], near.W[known]
    clear = np.minimum(was.max(axis=1), now.max(axis=1)) > 1.0 - _CLEAR
    clear &= was.argmax(axis=1) == now.argmax(axis=1)
    return np.concatenate([known[~clear], nodes[nodes >= n_before]])


class _Beliefs:
    """Beliefs, and messages between some of the nodes."""

    def __init__(self, problem: Problem, near: Nearby, before: Rows) -> None:
        graph, affinity = problem.graph, near.models.affinity
        assert graph is not None
        assert affinity is not None
        self.problem, self.models = problem, near.models
        self.links: tuple[Any, ...] = (graph.indptr, graph.indices, graph.weights)
        self.eta, self.known = graph.eta, len(before)
        self.B = np.concatenate([before, near.W[len(before) :]]).astype(np.float32, copy=False)
        self.totals = graph.null_totals(self.B)
        self.ell, self.ell_t = float(affinity.ell[0, 0]), float(affinity.ell_t[0, 0])
        weighted = len(graph.weights) > 0
        self.room = 1 if weighted else max(1, int(400.0 / (abs(self.ell) + 1.0)))
        self.place = np.full(len(self.B), -1)

    def settle(self, nodes: Nodes, most: float) -> bool:
        """Propagate beliefs among nodes until they change by no more than this, all together."""
        self.place[nodes] = np.arange(len(nodes))
        update = self._prepared(nodes, self.place, self.known)
        return any(update(True).sum() <= most * 0.1 for _ in range(_ROUNDS))

    def look_at(self, nodes: Nodes) -> Array:
        """Return by how much a round would change the beliefs of nodes."""
        nowhere = np.full(len(self.B), -1)
        return self._prepared(nodes, nowhere, len(self.B))(False)

    def _prepared(self, nodes: Nodes, place: Nodes, known: int) -> Any:
        indptr, K = self.links[0], self.B.shape[1]
        counts = (indptr[nodes + 1] - indptr[nodes]).astype(np.int64)
        first = np.cumsum(counts) - counts
        messages = np.empty((int(counts.sum()), K), dtype=np.float32)
        kernels.recall_messages(
            nodes, first, *self.links, self.ell, self.B, known, messages, np.empty(K), np.empty(K)
        )
        offsets = self.models.log_prior - costs_at(self.problem, self.models, nodes)
        factors = np.empty((int(counts.max(initial=0)), K))
        new, changes = np.empty((len(nodes), K), dtype=np.float32), np.zeros(len(nodes))

        def update(in_place: bool) -> Array:
            kernels.believe_nodes(
                nodes, first, place, *self.links, self.eta, self.B, self.totals, offsets, self.ell,
                self.ell_t, self.room, in_place, messages, factors, new, changes,
                *kernels.workspace(K),
            )  # fmt: skip
            return changes

        return update
