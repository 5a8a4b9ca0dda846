"""The pool's verdict after an update: its weights and calibration stay, what experts say moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from nodeproof.auto.experts.base import Changed, Learnt
from nodeproof.auto.experts.learnt_blocks import LearntBlocks
from nodeproof.auto.joint import Joint
from nodeproof.auto.pooled import Verdict
from nodeproof.auto.pooling import Pool
from nodeproof.errors import InputError

__all__ = ["unseen_log_proba", "update_verdict"]

Array = NDArray[np.float64]
Logs = Sequence[NDArray[Any] | None]


def update_verdict(verdict: Verdict, changed: Changed, given: NDArray[np.int64]) -> Verdict:
    """Return what the pool says after an update.

    Parameters
    ----------
    given : ndarray of shape (n,)
        Labels before the update, −1 where there was none; of new nodes, too.

    Notes
    -----
    Labelled nodes must not be judged by experts that have seen their labels. Those that get a
    label now are judged as they were before it was known. Of those that had one, what pools say
    that were chosen without it moves by as much as what experts say that have seen it.
    """
    learnt = verdict.learnt
    before = tuple(None if own is None else _joined(own, changed) for own in learnt)
    after = tuple(
        None if own is None or logs is None else own.updated(changed, logs)
        for own, logs in zip(learnt, before, strict=True)
    )
    logs = tuple(None if own is None else own.log_proba for own in after)
    y = changed.nodes.y
    assert y is not None
    moved = _Moved(given, y, before, logs)
    pool = verdict.pool
    costs = moved.costs(verdict.costs, pool)
    joint = _joint(verdict, changed, after, moved)
    return replace(verdict, learnt=after, costs=costs.astype(np.float32), joint=joint)


def unseen_log_proba(
    verdict: Verdict, changed: Changed, nodes: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return what the pool says of nodes before the update, at the class mix of the labels."""
    logs = [None if own is None else _joined(own, changed)[nodes] for own in verdict.learnt]
    return verdict.pool.for_labels().log_proba(logs)


def _joined(own: Learnt, changed: Changed) -> NDArray[np.float32]:
    """Return log-probabilities before the update, those of new nodes by what was learnt."""
    logs = own.log_proba
    if len(logs) == 0:
        raise InputError(
            "this model was saved by an older version and cannot be updated: fit and save it again"
        )
    if not changed.n_new:
        return logs
    found = own.judge(changed.new)
    if found is None:
        found = np.full((changed.n_new, logs.shape[1]), -np.log(logs.shape[1]))
    return np.vstack([logs, found.astype(np.float32)])


class _Moved:
    """Labels and experts before and after an update.

    Parameters
    ----------
    given, y : ndarray of shape (n,)
        Labels before and after, −1 where there is none.
    before, after : sequence of E ndarray of shape (n, K) or None
        Log-probabilities by the experts.
    """

    def __init__(
        self, given: NDArray[np.int64], y: NDArray[np.int64], before: Logs, after: Logs
    ) -> None:
        self.before, self.after = before, after
        self.named = np.flatnonzero((y >= 0) & (given < 0))
        self.kept = np.flatnonzero((y >= 0) & (given == y))
        self.corrected = np.flatnonzero((y >= 0) & (given >= 0) & (given != y))

    def costs(self, costs: NDArray[Any], pool: Pool, beside: Array | float = 0.0) -> Array:
        """Return −log p(class) of all nodes after the update, shape (n, K).

        Parameters
        ----------
        costs : ndarray of shape (n_before, K)
            The same before it.
        beside : ndarray of shape (n, K) or (K,)
            What nodes cost in addition.
        """
        found = -pool.log_proba(self.after) + beside
        at_labels, named, kept = pool.for_labels(), self.named, self.kept
        added = np.broadcast_to(beside, found.shape)
        found[named] = -at_labels.log_proba(_rows(self.before, named)) + added[named]
        moves = at_labels.log_proba(_rows(self.after, kept)) - at_labels.log_proba(
            _rows(self.before, kept)
        )
        found[kept] = costs[kept] - moves
        found[self.corrected] = costs[self.corrected]
        if np.ndim(beside) == 0:
            known = np.concatenate([kept, self.corrected])
            found[known] = -log_softmax(-found[known], axis=1)
        return found


def _rows(logs: Logs, rows: NDArray[np.int64]) -> list[NDArray[Any] | None]:
    return [None if own is None else own[rows] for own in logs]


def _joint(
    verdict: Verdict, changed: Changed, after: Sequence[Learnt | None], moved: _Moved
) -> Joint | None:
    """Return the pool as a problem of all nodes together, as `Joint.of_pool` made it."""
    for k, own in enumerate(after):
        if not isinstance(own, LearntBlocks) or own.models.affinity is None:
            continue
        pool = verdict.pool
        counts = float(pool.scale * pool.weights[k] * pool.scales[k])
        weights = pool.weights.copy()
        weights[k] = 0.0
        others = replace(pool, weights=weights)
        beside = counts * own.node_costs(changed.nodes)
        if verdict.joint is None:  # not saved
            costs = -others.log_proba(moved.after) + beside
        else:
            costs = moved.costs(verdict.joint.costs, others, beside)
        costs -= costs.min(axis=1, keepdims=True)
        return Joint(costs.astype(np.float32), own.models.affinity.times(counts))
    return None
