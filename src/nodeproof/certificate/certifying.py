"""The search for a proof that a labelling is the best of all, for the models at hand."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof import threads
from nodeproof.certificate.ascent import Ascent
from nodeproof.certificate.blocks import Blocks
from nodeproof.certificate.dual import Dual
from nodeproof.certificate.families import FAMILIES
from nodeproof.certificate.instance import Instance, not_applicable
from nodeproof.certificate.judging import Judgement, judge
from nodeproof.certificate.nodes import NodeCertificates, certify_nodes
from nodeproof.certificate.result import Certificate
from nodeproof.certificate.ties import resolve_ties
from nodeproof.certificate.verifying import status_of
from nodeproof.errors import InputError
from nodeproof.problem import Models, Problem

__all__ = ["Stage", "certify", "certify_instance"]

Labels = NDArray[np.int64]

#: relative to the size of the numbers that the objective is made of
TOLERANCE = 1e-9
# Relative to all numbers of the problem, where the objective is made of few of them.
_OF_ALL = 1e-13
# Of numbers that are all zero; underflow does less.
_LEAST_TOLERANCE = 1e-290

# Up to so many nodes, dual variables are improved by blocks; an iteration takes n³ a class.
_BLOCKS_MOST = 1600
# One block stands for all classes while their costs differ by less than this share of the gap,
# and is the end of it where they differ by less than that.
_ALIKE = 0.05
_ALIKE_ENOUGH = 1e-3
# The search ends when so many looks in a row have closed less than this share of the gap.
_STALLED = 6
_STALLED_SHARE = 0.01


@dataclass(frozen=True)
class Stage:
    """How far a search for a proof has come.

    Attributes
    ----------
    method : str
        What is tried.
    seconds : float
        Since the beginning.
    objective, lower_bound : float
        The best so far.
    """

    method: str
    seconds: float
    objective: float
    lower_bound: float


def certify(
    problem: Problem,
    labels: Any,
    *,
    models: Models | None = None,
    tolerance: float | None = None,
    time_budget: float = 60.0,
    max_iter: int | None = None,
    callback: Callable[[Stage], bool | None] | None = None,
    random_state: int = 0,
) -> Certificate:
    """Prove a labelling the best of all, or bound how far from the best it can be.

    Models stay fixed, so what is left is a labelling problem: links and the costs of classes.
    Single nodes are first moved, and classes renamed, where that lowers the objective; the
    labelling that comes of it is certified. Dual variables in closed form are tried first, then
    better ones are searched for.

    Parameters
    ----------
    problem : Problem
        With one affinity for all classes; fixed weights or calibrated ones.
    labels : array of int, shape (n,)
        The labelling, as class numbers 0…K−1.
    models : Models, optional
        By default those that fit the labelling best.
    tolerance : float, optional
        Certified is what has at most this difference between objective and bound; by default
        1e-9 of the size of the numbers that the objective is made of, or if that is more, 1e-13
        of all that it could be made of.
    time_budget : float
        Seconds that the search for better dual variables may take; 0 for closed forms alone.
    max_iter : int, optional
        Most iterations of that search.
    callback : callable, optional
        Told of every :class:`Stage`; a true answer ends the search.
    random_state : int
        Seed; above some thousand nodes the proof holds but for a probability over it.

    Examples
    --------
    >>> from nodeproof import NodeClassifier, datasets
    >>> data = datasets.make_planted(p=0.3, cluster_size=60, random_state=0)
    >>> clf = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
    >>> proof = clf.certify()
    >>> proof.status, int(proof.certified_nodes.sum()), bool(proof.verify())
    ('certified', 180, True)
    """
    z = _check_labels(labels, problem)
    if models is None:
        models = problem.fit_models(np.eye(problem.n_classes)[z])
    return certify_instance(
        labelling_problem(problem, models), z, tolerance=tolerance, time_budget=time_budget,
        max_iter=max_iter, callback=callback, random_state=random_state,
    )  # fmt: skip


def labelling_problem(problem: Problem, models: Models) -> Instance | str:
    """Return the labelling problem that is left when models are fixed, or why there is none."""
    return not_applicable(problem, models) or Instance.of(problem, models)


def certify_instance(
    instance: Instance | str,
    labels: Labels,
    *,
    tolerance: float | None = None,
    time_budget: float = 60.0,
    max_iter: int | None = None,
    callback: Callable[[Stage], bool | None] | None = None,
    random_state: int = 0,
) -> Certificate:
    """Do what `certify` does, for a labelling problem; the parameters are the same."""
    if isinstance(instance, str):
        return _nothing(labels, instance)
    with threads.using(1):
        return _certify(instance, labels, tolerance, time_budget, max_iter, callback, random_state)


def _certify(
    instance: Instance,
    labels: Labels,
    tolerance: float | None,
    time_budget: float,
    max_iter: int | None,
    callback: Callable[[Stage], bool | None] | None,
    random_state: int,
) -> Certificate:
    began = time.perf_counter()
    search = _Search(instance, instance.settle(labels), tolerance, callback, random_state)
    interrupted = False
    try:
        search.try_families()
        if not search.done:
            search.improve(began + time_budget, max_iter)
    except KeyboardInterrupt:
        if search.dual is None:
            raise
        interrupted = True
    nodes, node_dual = search.certify_nodes()
    z, exact = _settle_ties(instance, search, nodes)
    seconds = time.perf_counter() - began
    return _report(search, z, labels, nodes, node_dual, exact, interrupted, seconds)


@dataclass
class _Search:
    """The best labelling, dual variables and bound so far."""

    instance: Instance
    z: Labels
    asked_tolerance: float | None
    callback: Callable[[Stage], bool | None] | None
    seed: int
    dual: Dual | None = None
    judgement: Judgement = field(default_factory=lambda: Judgement(-math.inf))
    method: str = ""
    history: list[tuple[float, float, float]] = field(default_factory=list)
    milestones: list[tuple[Dual, Judgement]] = field(default_factory=list)
    done: bool = False

    def __post_init__(self) -> None:
        self.began = time.perf_counter()
        self.n_looks = 0
        self.objective = self.instance.value_between(self.z)[1]
        self.tolerance = self.asked_tolerance or 0.0
        if self.asked_tolerance is None:
            # An objective may be made of zeros alone, but its proof is not.
            size = TOLERANCE * self.instance.scale(self.z)
            self.tolerance = float(max(size, _OF_ALL * self.instance.span, _LEAST_TOLERANCE))

    @property
    def missing(self) -> float:
        return self.objective - self.judgement.lower_bound

    def consider(self, dual: Dual, method: str) -> None:
        """Judge dual variables, and keep them if they are the best so far."""
        # Another seed each time: what is judged must not depend on it.
        self.n_looks += 1
        judgement = judge(self.instance, dual, self.z, seed=self.seed + 1000 * self.n_looks)
        if judgement.lower_bound > self.judgement.lower_bound or self.dual is None:
            self.dual, self.judgement, self.method = dual, judgement, method
        self.done = self.done or self.missing <= self.tolerance
        self._tell(method)

    def relabel(self, z: Labels) -> bool:
        """Take a labelling if it is better."""
        objective = self.instance.value_between(z)[1]
        if not objective < self.objective - 1e-12 * abs(self.objective):
            return False
        self.z, self.objective = z, objective
        self.done = self.missing <= self.tolerance
        return True

    def _tell(self, method: str) -> None:
        seconds = time.perf_counter() - self.began
        self.history.append((seconds, self.objective, self.judgement.lower_bound))
        stage = Stage(method, seconds, self.objective, self.judgement.lower_bound)
        if self.callback is not None and self.callback(stage):
            self.done = True

    def try_families(self) -> None:
        """Judge the closed forms, the likelier one first."""
        informed = (np.ptp(self.instance.costs, axis=1) > 0.5).mean() > 0.5
        for name in ("F", "G") if informed else ("G", "F"):
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
            gained.append((self.judgement.lower_bound - before) / max(self.missing, 1e-300))
            if len(gained) > 2 * _STALLED and sum(gained[-_STALLED:]) < _STALLED_SHARE:
                return

    def _blocks(
        self, max_iter: int | None, deadline: float, alike: bool
    ) -> Iterator[tuple[list[Dual], Any]]:
        assert self.dual is not None
        state = Blocks(self.instance, self.z, self.dual, alike)
        look = 5
        for iteration in range(1, (max_iter or 10**9) + 1):
            state.step()
            if iteration in (look, max_iter) or time.perf_counter() >= deadline:
                look += min(iteration, 20)
                yield state.duals(self.z), state.shares

    def _ascent(self, max_iter: int | None, deadline: float) -> Iterator[tuple[list[Dual], Any]]:
        assert self.dual is not None
        best, found, look = -math.inf, self.dual, 20
        for iteration, (value, dual) in enumerate(Ascent(self.instance, self.dual, self.seed)):
            if value > best:
                best, found = value, dual
            if iteration in (look, max_iter) or time.perf_counter() >= deadline:
                look += min(iteration, 100)
                yield [found], None
            if iteration == max_iter:
                return

    def certify_nodes(self) -> tuple[NodeCertificates, Dual | None]:
        """Return what is known of single nodes, and by which dual variables if not by the best."""
        assert self.dual is not None
        best = certify_nodes(self.instance, self.dual, self.z, self.judgement, self.objective)
        chosen = None
        # A better bound may leave less to spare elsewhere: others may know more of single nodes.
        for dual, judgement in self.milestones:
            if best.certified.all() or dual is self.dual or self.judgement.failure:
                break
            found = certify_nodes(self.instance, dual, self.z, judgement, self.objective)
            if found.certified.sum() > best.certified.sum():
                best, chosen = found, dual
        return best, chosen


def _settle_ties(
    instance: Instance, search: _Search, nodes: NodeCertificates
) -> tuple[Labels, bool]:
    """Settle what floating point cannot tell apart; return the labelling, and if that is exact."""
    if search.missing > search.tolerance or search.judgement.failure:
        return search.z, False
    best = resolve_ties(instance, search.z, nodes.certified, nodes.renaming)
    return (search.z, False) if best is None else (best, True)


def _report(
    search: _Search,
    z: Labels,
    given: Labels,
    nodes: NodeCertificates,
    node_dual: Dual | None,
    exact: bool,
    interrupted: bool,
    seconds: float,
) -> Certificate:
    instance, judgement = search.instance, search.judgement
    failure = judgement.failure * search.n_looks  # any of the looks may have been the wrong one
    objective = search.objective if z is search.z else instance.value_between(z)[1]
    missing = objective - judgement.lower_bound
    certified = bool(missing <= search.tolerance)
    gap = 0.0
    if missing > 0 and not (certified and abs(objective) <= search.tolerance):
        gap = missing / abs(objective) if objective else math.inf
    spectra = judgement.spectra
    worst = min(spectra, key=lambda spectrum: spectrum.beyond) if spectra else None
    return Certificate(
        status=status_of(certified, failure, gap),
        objective=objective,
        lower_bound=judgement.lower_bound,
        gap=gap,
        tolerance=search.tolerance,
        exact=exact and certified,
        unique=bool(certified and nodes.certified.all()),
        nullity=max((_nullity(spectrum) for spectrum in spectra), default=0),
        method=search.method,
        seconds=seconds,
        failure=failure,
        labels=z,
        moved=np.flatnonzero(z != given),
        certified_nodes=nodes.certified & (z == search.z),
        renaming=nodes.renaming,
        eigenvalues=np.empty(0) if worst is None else worst.lowest,
        interrupted=interrupted,
        history=search.history,
        instance=instance,
        dual=search.dual,
        node_dual=node_dual,
    )


def _nullity(spectrum: Any) -> int:
    size = float(np.abs(spectrum.lowest).max(initial=0.0))
    return spectrum.n_deflated + int((np.abs(spectrum.lowest) <= 1e-9 * size).sum())


def _nothing(z: Labels, reason: str) -> Certificate:
    none = np.zeros(len(z), dtype=bool)
    return Certificate(
        status="not applicable", objective=math.nan, lower_bound=-math.inf, gap=math.inf,
        tolerance=0.0, exact=False, unique=False, nullity=0, method="", seconds=0.0, failure=0.0,
        labels=z, moved=np.empty(0, dtype=np.int64), certified_nodes=none, renaming=False,
        eigenvalues=np.empty(0), reason=reason,
    )  # fmt: skip


def _check_labels(labels: Any, problem: Problem) -> Labels:
    z = np.asarray(labels)
    n, K = problem.n_nodes, problem.n_classes
    if z.shape != (n,):
        raise InputError(f"labels must be one class number a node, shape ({n},); got {z.shape}")
    if z.dtype.kind not in "iu" or not ((z >= 0) & (z < K)).all():
        raise InputError(f"labels must be class numbers 0…{K - 1}; got {z.dtype} {z[:5]}")
    return z.astype(np.int64)
