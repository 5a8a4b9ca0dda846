"""Which experts are believed, and how much: all of it by labels that they have not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from nodeproof.auto.accuracy import estimate_accuracy
from nodeproof.auto.block_alone import WORTH_TELLING, block_is_enough, with_wrong_labels
from nodeproof.auto.experts.base import Candidate, Expert, Learnt
from nodeproof.auto.experts.block import BlockModel, LearntBlocks
from nodeproof.auto.held_out import CrossFitted, HeldOut, hold_out
from nodeproof.auto.joint import Joint, Said
from nodeproof.auto.pooled import Verdict
from nodeproof.auto.pooling import SHARPER, Judge, Pool, fit_pool
from nodeproof.runtime import threads
from nodeproof.terms import NodeData
from nodeproof.terms.logistic import fit_noise

__all__ = ["ENOUGH_TO_TELL", "NOTHING_TO_ADD", "Evaluation", "Member", "evaluate"]

Array = NDArray[np.float64]

# More held-out labels than this would not change a dozen numbers.
_MOST_JUDGED = 3000

# Unlabelled nodes whose mean probabilities tell the class proportions: an even sample of so many.
_MOST_UNLABELLED = 20_000

# Nats by which a block model must be ahead of other experts if there are no links.
_CLEARLY_BEST = 4.0

#: why experts are left out where a block model is certain
NOTHING_TO_ADD = "the block model leaves nothing to add"

#: with fewer labels, a pool cannot tell wrong ones from its own mistakes.
ENOUGH_TO_TELL = 100


@dataclass(frozen=True)
class Member:
    """An expert in the pool.

    Attributes
    ----------
    expert : Expert
        Bound to the data.
    candidates : list of Candidate
        What was tried.
    best : Candidate
        The one that is taken.
    """

    expert: Expert
    candidates: list[Candidate]
    best: Candidate


@dataclass(frozen=True)
class Evaluation:
    """What held-out labels say of the experts.

    Attributes
    ----------
    held : HeldOut
        The held-out labels.
    members : list of Member
        The experts that were evaluated in full.
    left_out : dict of str
        Why other experts were not.
    pool : Pool
        Weights and calibration, at the class proportions of the labels.
    nested : ndarray of shape (h, K)
        Log-probabilities of the held-out nodes by pools that were chosen without their fold.
    block_alone : bool
        Whether the block model, taken at its word, does as well as the pool.
    verdict : Verdict or None
        What the experts say of all nodes, after :meth:`finish`.
    """

    held: HeldOut
    members: list[Member]
    left_out: dict[str, str]
    pool: Pool
    nested: Array
    block_alone: bool
    verdict: Verdict | None = None

    @property
    def noise(self) -> float:
        """Estimated share of wrong labels."""
        return self.pool.noise

    @property
    def block(self) -> Member | None:
        """The block model, if it was evaluated."""
        found = (m for m in self.members if isinstance(m.expert, BlockModel))
        return next(found, None)

    def finish(self, nodes: NodeData) -> Evaluation:
        """Return the same with the experts fitted to all labels, for the mix of all nodes."""
        y, K = nodes.y, nodes.n_classes
        assert y is not None
        learnt = tuple(
            self._on(nodes, member.expert).learn(y, member.best.setting) if weight else None
            for member, weight in zip(self.members, self.pool.weights, strict=True)
        )
        logs = [None if own is None else own.log_proba for own in learnt]
        said = Said(logs, y, *self._unseen(nodes))
        rest = np.flatnonzero(y < 0)
        pool = self.pool
        if len(rest):
            rest = rest[:: -(-len(rest) // _MOST_UNLABELLED)]
            judge = replace(Judge.of(self.held.codes, K), noise=self.noise)
            held = [member.best.logs for member in self.members]
            seen = [None if own is None else own[rest] for own in logs]
            mean = np.exp(np.broadcast_to(self.pool.log_proba(seen), (len(rest), K))).mean(axis=0)
            pool = pool.with_proportions(held, self.nested, judge, mean)

        def part(lo: int, hi: int) -> NDArray[np.float32]:
            costs = said.costs(pool, self.pool, lo, hi)
            if self.held.own:
                here = said.held_within(lo, hi)
                costs[said.held[here] - lo] = -self.nested[here]
            return costs.astype(np.float32)

        verdict = Verdict(
            pool,
            tuple(member.expert.name for member in self.members),
            tuple(member.expert.source for member in self.members),
            learnt,
            np.concatenate(threads.map_rows(part, len(y))),
            self._joint(nodes, said, pool, learnt),
        )
        return replace(self, pool=pool, verdict=verdict)

    def _joint(
        self, nodes: NodeData, said: Said, pool: Pool, learnt: Sequence[Learnt | None]
    ) -> Joint | None:
        """Return the pool as a problem of all nodes together; None without a weight of links."""
        for k, (member, own) in enumerate(zip(self.members, learnt, strict=True)):
            if not isinstance(own, LearntBlocks) or own.models.affinity is None:
                continue
            expert, affinity = self._on(nodes, member.expert), own.models.affinity
            if isinstance(expert, BlockModel) and expert.linked:
                costs = expert.node_costs(own, member.best.setting)
                return Joint.of_pool(said, pool, self.pool, k, costs, affinity)
        return None

    def _on(self, nodes: NodeData, expert: Expert) -> Expert:
        """Return an expert that was judged on a sample bound to all nodes."""
        return expert.bind(nodes) if self.held.sampled else expert

    def _unseen(self, nodes: NodeData) -> tuple[NDArray[np.int64], list[Array | None]]:
        """Return labelled nodes, and what experts say of them that have not seen their labels."""
        if self.held.own:
            return self.held.among_all, [member.best.logs for member in self.members]
        assert nodes.y is not None
        held = None if self.held.sampled else hold_out(nodes.y)
        if held is None:
            none = np.empty((0, nodes.n_classes))
            return np.empty(0, np.int64), [none for _ in self.members]
        logs = [
            member.expert.held_out(held, member.best.setting) if weight else None
            for member, weight in zip(self.members, self.pool.weights, strict=True)
        ]
        return held.nodes, logs

    def cross_fitted(self) -> CrossFitted:
        """Return the held-out nodes with their cross-fitted probabilities."""
        proba = np.exp(self._judged()).astype(np.float32)
        mix = None if self.block_alone else self.pool.proportions
        return CrossFitted(self.held.among_all, self.held.codes, proba, self.noise, mix)

    def _judged(self) -> Array:
        """Return log-probabilities of the held-out nodes, at the class mix of their labels."""
        if self.block_alone:
            assert self.block is not None
            return np.asarray(log_softmax(self.block.best.logs, axis=1))
        return self.nested

    def is_contradicted(self, W: NDArray[Any], y: NDArray[np.int64]) -> bool:
        """Tell whether memberships contradict more labels than the block model missed unseen.

        Several starts may end in a likelier labelling than those that were judged: one that
        explains the links by other groups than the labels name.

        Parameters
        ----------
        W : ndarray of shape (n, K)
            Of all nodes, with all labels seen.
        y : ndarray of shape (n,)
            Labels 0…K−1, −1 where there is none.
        """
        known = np.flatnonzero(y >= 0)
        missed = np.append(self._judged().argmax(axis=1) != self.held.codes, True)
        against = float((np.asarray(W)[known].argmax(axis=1) != y[known]).mean())
        return against > missed.mean() + 2.0 * missed.std() / np.sqrt(len(missed))

    def accuracy(
        self, proba: NDArray[Any], which: NDArray[np.bool_] | None = None
    ) -> tuple[float, float, float] | None:
        """Return an estimate of the accuracy at unlabelled nodes, and its 95 % interval.

        It is their mean confidence, corrected by the difference between confidence and accuracy
        on held-out labels, by pools that were chosen without them. Labels count by how frequent
        their class is among unlabelled nodes.

        Parameters
        ----------
        proba : ndarray of shape (n, K)
            Probabilities of nodes.
        which : ndarray of bool, shape (n,), optional
            Which of them are unlabelled; by default all. None is returned if there are none.
        """
        mix = None if self.block_alone else self.pool.proportions
        return estimate_accuracy(self._judged(), self.held.codes, self.noise, mix, proba, which)


def evaluate(experts: Sequence[Expert], nodes: NodeData, held: HeldOut) -> Evaluation | None:
    """Return what held-out labels say of the experts; None if none applies."""
    members: list[Member] = []
    left_out: dict[str, str] = {}
    than: Array | None = None
    judge = Judge.of(held.codes, nodes.n_classes)
    # Links that were made of the features tell nothing that these do not.
    alike = nodes.graph is not None and nodes.graph.of_features
    for expert in experts:
        reason = expert.why_not(nodes)
        if reason is not None:
            left_out[expert.name] = reason
            continue
        if expert.costly and members:
            so_far = _weigh(members, left_out, held, nodes.n_classes, alike)
            if so_far.block_alone:
                left_out[expert.name] = NOTHING_TO_ADD
                continue
        bound = expert.bind(nodes)
        candidates = bound.candidates(held, than)
        if not candidates:
            left_out[expert.name] = "clearly worse than another after some of the folds"
            continue
        losses = [candidate.loss for candidate in candidates]
        best = Candidate.best_of(candidates, losses, len(held.codes))
        members.append(Member(bound, candidates, best))
        if than is None or best.loss < than.mean():
            offset = np.log(judge.shares) if bound.balanced else 0.0
            than = judge.losses(judge.temperature(best.logs, offset) * best.logs + offset)
        if isinstance(bound, BlockModel) and bound.is_certain(best.logs, held):
            rest = experts[experts.index(expert) + 1 :]
            left_out |= {other.name: NOTHING_TO_ADD for other in rest}
            break
    if not members:
        return None
    least = min((m.best.loss for m in members if not _is_unlinked_block(m)), default=np.inf)
    for member in filter(_is_unlinked_block, list(members)):
        if len(held.codes) * (least - member.best.loss) < _CLEARLY_BEST:
            members.remove(member)
            left_out[member.expert.name] = "without links it is taken only if it is clearly best"
    return _weigh(members, left_out, held, nodes.n_classes, alike)


def _is_unlinked_block(member: Member) -> bool:
    """Tell whether it is a block model without links: its groups need not be classes."""
    return isinstance(member.expert, BlockModel) and not member.expert.linked


def _weigh(
    members: list[Member],
    left_out: dict[str, str],
    held: HeldOut,
    n_classes: int,
    alike: bool = False,
) -> Evaluation:
    judge = Judge.of(held.codes, n_classes)
    kept = np.arange(len(held.codes))[:: -(-len(held.codes) // _MOST_JUDGED)]
    nested = _nested(members, judge, held, kept, alike)
    targets = np.eye(n_classes)[held.codes]
    pool = _fit(members, judge.only(kept), kept, alike)
    noise = 0.0
    # Of one source alone, labels that contradict it may be right as well as wrong.
    sources = {m.expert.source for m, w in zip(members, pool.weights, strict=True) if w}
    if len(sources) > 1 and len(held.codes) >= ENOUGH_TO_TELL:
        noise = fit_noise(nested, targets, None, SHARPER, *WORTH_TELLING)
    block = next((m for m in members if isinstance(m.expert, BlockModel)), None)
    alone = False
    if block is not None:
        assert isinstance(block.expert, BlockModel)
        alone = not noise and block_is_enough(block.expert, block.best, judge, nested, held)
        if not alone:
            alone, noise = with_wrong_labels(block.expert, block.best, judge, nested, noise, held)
    if noise and not alone:
        sharper = replace(judge, noise=noise).temperature(nested)
        nested = np.asarray(log_softmax(sharper * nested, axis=1))
        pool = replace(pool, scale=sharper * pool.scale)
    pool = replace(pool, noise=noise)
    return Evaluation(held, members, left_out, pool, nested, alone)


def _fit(members: list[Member], judge: Judge, kept: NDArray[np.int64], alike: bool) -> Pool:
    balanced = [member.expert.balanced for member in members]
    return fit_pool([member.best.logs[kept] for member in members], balanced, judge, alike)


def _nested(
    members: list[Member], judge: Judge, held: HeldOut, kept: NDArray[np.int64], alike: bool
) -> Array:
    """Return log-probabilities of the held-out nodes by pools chosen without their part, (h, K).

    Parameters
    ----------
    kept : ndarray of int
        Positions of the labels that pools are chosen by.
    """
    nested = np.empty((len(held.codes), judge.n_classes))
    parts = held.parts()

    def judge_part(part: int) -> None:
        here = parts[part]
        others = np.intersect1d(held.others(here), kept)
        others = others if len(others) else kept
        own = judge.only(others)
        chosen = []
        for member in members:
            losses = [
                own.best_loss(candidate.logs[others], member.expert.balanced)
                for candidate in member.candidates
            ]
            best = Candidate.best_of(member.candidates, losses, len(others))
            chosen.append(replace(member, best=best))
        pool = _fit(chosen, own, others, alike)
        nested[here] = pool.log_proba([member.best.logs[here] for member in chosen])

    threads.map_each(judge_part, len(parts))
    return nested
