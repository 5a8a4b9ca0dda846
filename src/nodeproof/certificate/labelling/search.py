"""The search for dual variables that prove a labelling optimal, or nearly so."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.certificate.labelling.bound import FAILURE, Judgement, judge
from nodeproof.certificate.labelling.dual import Dual
from nodeproof.certificate.labelling.families import FAMILIES
from nodeproof.certificate.labelling.improve import Ascent, LiftedBlocks
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.certificate.labelling.nodes import NodeCertificates, certify_nodes
from nodeproof.certificate.labelling.ties import countable

__all__ = ["Search", "Stage"]

Labels = NDArray[np.int64]

# Up to this many nodes, dual variables are improved by blocks; an iteration takes n³ per class.
_BLOCKS_MOST = 1600
# One block stands for all classes while their costs differ by less than this share of the gap,
# and is the end of it where they differ by less than that.
_ALIKE = 0.05
_ALIKE_ENOUGH = 1e-3
# The search ends when this many checks in a row have closed less than this share of the gap.
_STALLED = 6
_STALLED_SHARE = 0.01
# Seconds for which closed forms are judged rigorously, whatever the time budget.
_PATIENCE = 10.0
# This close to the optimum, it is worth asking which nodes are certain.
_NEARLY = 0.01


@dataclass(frozen=True)
class Stage:
    """How far a search for a proof has come.

    Attributes
    ----------
    method : str
        What is being tried.
    seconds : float
        Since the start.
    objective, lower_bound : float
        The best so far.
    """

    method: str
    seconds: float
    objective: float
    lower_bound: float


@dataclass
class Search:
    """The best labelling, dual variables and bound so far."""

    instance: Instance
    z: Labels
    asked_tolerance: float | None
    callback: Callable[[Stage], bool | None] | None
    seed: int
    offset: float = 0.0
    dual: Dual | None = None
    judgement: Judgement = field(default_factory=lambda: Judgement(-math.inf))
    method: str = ""
    history: list[tuple[float, float, float]] = field(default_factory=list)
    milestones: list[tuple[Dual, Judgement]] = field(default_factory=list)
    done: bool = False
    stopped: bool = False

    def __post_init__(self) -> None:
        self.began = time.perf_counter()
        self.n_looks = 0
        self.judge_until = math.inf
        self._asked_at = math.inf
        self.judging = 0.0  # seconds
        self.objective = self.instance.value_between(self.z)[1]
        self.tolerance = self.tolerance_at(self.z)

    def tolerance_at(self, z: Labels) -> float:
        """Return the gap that counts as a proof of z: the requested tolerance, or the default."""
        return self.instance.tolerance(z) if self.asked_tolerance is None else self.asked_tolerance

    @property
    def missing(self) -> float:
        """The gap between objective and bound."""
        return self.objective - self.judgement.lower_bound

    @property
    def failure(self) -> float:
        """Probability that the bound is wrong: any of the checks may have been."""
        return FAILURE * self.n_looks if self.judgement.failure else 0.0

    def run(self, deadline: float, max_iter: int | None) -> None:
        """Try the closed forms, then search until the deadline."""
        self.judge_until = max(deadline, self.began + _PATIENCE)
        self.try_families()
        if not self.judgement.late:  # what is found in time is judged as they were
            self.judge_until = math.inf
        if not self.done:
            self.improve(deadline, max_iter)

    def consider(self, dual: Dual, method: str) -> None:
        """Judge dual variables, and keep them if they are the best so far."""
        # Another seed each time: what is judged must not depend on it.
        self.n_looks += 1
        began = time.perf_counter()
        seed = self.seed + 1000 * self.n_looks
        judgement = judge(self.instance, dual, self.z, seed, self.judge_until)
        self.judging = time.perf_counter() - began
        if judgement.lower_bound > self.judgement.lower_bound or self.dual is None:
            self.dual, self.judgement, self.method = dual, judgement, method
        self.done = self.done or self.missing <= self.tolerance
        self._report(method)

    def relabel(self, z: Labels) -> bool:
        """Take a labelling if it is better."""
        objective = self.instance.value_between(z)[1]
        if not objective < self.objective - 1e-12 * abs(self.objective):
            return False
        self.z, self.objective = z, objective
        self.tolerance = self.tolerance_at(z)
        self.done = self.missing <= self.tolerance
        return True

    def _report(self, method: str) -> None:
        seconds = time.perf_counter() - self.began
        objective = self.offset + self.objective
        bound = self.offset + self.judgement.lower_bound
        self.history.append((seconds, objective, bound))
        if self.callback is not None and self.callback(Stage(method, seconds, objective, bound)):
            self.done = self.stopped = True

    @property
    def informed(self) -> bool:
        """Whether most nodes have evidence of their own about their class."""
        link = 0.5 * max(abs(self.instance.w), abs(self.instance.wt))
        return bool((np.ptp(self.instance.costs, axis=1) > link).mean() > 0.5)

    def try_families(self) -> None:
        """Judge the closed forms, the likelier one first."""
        for name in ("F", "G") if self.informed else ("G", "F"):
            self.consider(FAMILIES[name](self.instance, self.z), name)
            if self.done:
                return

    def improve(self, deadline: float, max_iter: int | None) -> None:
        """Search for better dual variables until the deadline, or until nothing is gained."""
        if max_iter == 0:
            return
        if self.instance.n_nodes > _BLOCKS_MOST:
            self._follow("ascent", self._ascent(max_iter, deadline), deadline)
            return
        spread = float(np.ptp(self.instance.costs, axis=1).sum())
        if spread <= _ALIKE * self.missing:
            self._follow("blocks", self._blocks(max_iter, deadline, alike=True), deadline)
            assert self.dual is not None
            self.milestones.append((self.dual, self.judgement))
        if not self.done and spread > _ALIKE_ENOUGH * self.missing:
            self._follow("blocks", self._blocks(max_iter, deadline, alike=False), deadline)

    def _follow(
        self, method: str, looks: Iterator[tuple[list[Dual], Any]], deadline: float
    ) -> None:
        """Judge what a method finds for as long as it gains."""
        gained: list[float] = []
        while not self.done and time.perf_counter() < deadline:
            found = next(looks, None)
            if found is None:
                return
            before = self.judgement.lower_bound
            for dual in found[0]:
                self.consider(dual, method)
                if self.done:
                    return
            if found[1] is not None and self.relabel(self.instance.settle(found[1].argmax(axis=1))):
                self.try_families()
            if self._few_left():
                self.done = True
            gained.append((self.judgement.lower_bound - before) / max(self.missing, 1e-300))
            if len(gained) > 2 * _STALLED and sum(gained[-_STALLED:]) < _STALLED_SHARE:
                return

    def _few_left(self) -> bool:
        """Return whether enough nodes are certain to compare the others one by one."""
        assert self.dual is not None
        near = self.missing <= _NEARLY * abs(self.objective)
        if not near or self.missing > 0.5 * self._asked_at or self.judgement.failure:
            return False
        self._asked_at = self.missing
        found = certify_nodes(self.instance, self.dual, self.z, self.judgement, self.objective)
        return countable(self.instance, found.certified, found.renaming)

    def _blocks(
        self, max_iter: int | None, deadline: float, alike: bool
    ) -> Iterator[tuple[list[Dual], Any]]:
        assert self.dual is not None
        # Even where its bound is worse, G is the better start if links must decide.
        linked = not (self.informed or alike or self.method == "blocks")
        start = FAMILIES["G"](self.instance, self.z) if linked else self.dual
        state = LiftedBlocks(self.instance, self.z, start, alike)
        look = 5
        for iteration in range(1, (max_iter or 10**9) + 1):
            state.step()
            if iteration in (look, max_iter) or time.perf_counter() >= deadline:
                look += min(iteration, 20)
                yield state.duals(self.z), state.shares

    def _ascent(self, max_iter: int | None, deadline: float) -> Iterator[tuple[list[Dual], Any]]:
        assert self.dual is not None
        # Judging is slow: it is done once, and single nodes are certified after it.
        end = deadline - 3.0 * self.judging
        best, found = -math.inf, self.dual
        for iteration, (value, dual) in enumerate(Ascent(self.instance, self.dual, self.seed)):
            if value > best:
                best, found = value, dual
            if iteration == max_iter or time.perf_counter() >= end:
                break
        yield [found], None

    def certify_nodes(
        self, objective: float | None = None, alternatives: bool = True
    ) -> tuple[NodeCertificates, Dual | None]:
        """Return what is known about single nodes, and by which dual variables if not the best.

        Parameters
        ----------
        objective : float, optional
            What labellings must exceed to be excluded; by default the objective.
        alternatives : bool
            Whether others than the best dual variables may be asked.
        """
        assert self.dual is not None
        above = self.objective if objective is None else objective
        best = certify_nodes(self.instance, self.dual, self.z, self.judgement, above)
        chosen = None
        # A better bound may leave less slack elsewhere: others may certify more single nodes.
        for dual, judgement in self.milestones if alternatives else []:
            if best.certified.all() or dual is self.dual or self.judgement.failure:
                break
            found = certify_nodes(self.instance, dual, self.z, judgement, above)
            if found.certified.sum() > best.certified.sum():
                best, chosen = found, dual
        return best, chosen
