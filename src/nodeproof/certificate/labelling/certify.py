"""The search for a proof that a labelling is optimal, for the given models."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.certificate.labelling.bound import FAILURE
from nodeproof.certificate.labelling.dual import Dual
from nodeproof.certificate.labelling.instance import Instance, not_applicable
from nodeproof.certificate.labelling.nodes import NodeCertificates, Step, reduce
from nodeproof.certificate.labelling.result import Certificate
from nodeproof.certificate.labelling.search import Search, Stage
from nodeproof.certificate.labelling.ties import resolve_ties
from nodeproof.certificate.labelling.verify import gap_of, special_tolerance, status_of, sure_nodes
from nodeproof.errors import InputError
from nodeproof.problem import Models, Problem
from nodeproof.runtime import threads
from nodeproof.solvers.base import check_at_least

__all__ = ["Stage", "certify", "certify_instance"]

Labels = NDArray[np.int64]


def certify(
    problem: Problem,
    labels: Any,
    *,
    models: Models | None = None,
    tolerance: float | None = None,
    time_budget: float = 45.0,
    max_iter: int | None = None,
    callback: Callable[[Stage], bool | None] | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> Certificate:
    """Prove that a labelling is optimal, or bound its gap.

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
        Largest difference between objective and bound that counts as certified; by default
        1e-9 of the size of the numbers that the objective is made of, or if that is more, 1e-13
        of all that it could be made of. The certificate states it if it is another, and is
        confirmed only by those who accept that (see `Certificate.verify`).
    time_budget : float
        Seconds that the search for better dual variables may take; 0 for closed forms alone.
        Where it is up before some thousand nodes in many classes are judged rigorously, the
        rest is judged but for a stated probability, and single nodes are not asked about.
    max_iter : int, optional
        Most iterations of that search.
    callback : callable, optional
        Called with every :class:`Stage`; a true answer ends the search at once, and single nodes
        are not asked about.
    random_state : int
        Seed; above some thousand nodes the proof holds up to a probability over it.
    n_jobs : int, optional
        Threads; by default every core, or as many as OMP_NUM_THREADS says.

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
        max_iter=max_iter, callback=callback, random_state=random_state, n_jobs=n_jobs,
    )  # fmt: skip


def labelling_problem(problem: Problem, models: Models) -> Instance | str:
    """Return the labelling problem for fixed models, or why there is none."""
    return not_applicable(problem, models) or Instance.of(problem, models)


def certify_instance(
    instance: Instance | str,
    labels: Labels,
    *,
    tolerance: float | None = None,
    time_budget: float = 45.0,
    max_iter: int | None = None,
    callback: Callable[[Stage], bool | None] | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> Certificate:
    """Do what `certify` does, for a labelling problem; the parameters are the same."""
    if tolerance is not None:
        check_at_least("tolerance", tolerance, 0.0)
    if isinstance(instance, str):
        return _nothing(labels, instance)
    with threads.using(n_jobs):
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
    deadline = began + time_budget
    search = Search(instance, instance.settle(labels), tolerance, callback, random_state)
    interrupted = False
    try:
        search.run(deadline, max_iter)
    except KeyboardInterrupt:
        if search.dual is None:
            raise
        interrupted = True
    proof = _Proof.of(search)
    try:
        if not (search.stopped or search.judgement.late):  # it takes longer than the bound
            proof.ask_nodes()
        while not (interrupted or search.stopped) and proof.go_on(deadline, max_iter):
            pass
        proof.settle_ties()
    except KeyboardInterrupt:
        interrupted = True
    return _report(proof, labels, interrupted, time.perf_counter() - began)


@dataclass
class _Proof:
    """What is proven so far: a bound for all nodes, certain nodes, and bounds for the rest."""

    search: Search
    z: Labels
    nodes: NodeCertificates
    lower_bound: float
    failure: float
    node_dual: Dual | None = None
    exact: bool = False
    steps: list[Step] = field(default_factory=list)

    @classmethod
    def of(cls, search: Search) -> _Proof:
        """Return what a search has proven; nothing is known about single nodes yet."""
        none = NodeCertificates(np.zeros(len(search.z), dtype=bool), renaming=False)
        return cls(search, search.z, none, search.judgement.lower_bound, search.failure)

    def ask_nodes(self) -> None:
        """Find which nodes keep their class in every optimal labelling."""
        self.nodes, self.node_dual = self.search.certify_nodes()

    @property
    def certified(self) -> bool:
        """Whether the bound is within the tolerance."""
        objective = self.search.instance.value_between(self.z)[1]
        return bool(objective - self.lower_bound <= self.tolerance)

    @property
    def tolerance(self) -> float:
        """The largest gap that counts as certified."""
        return self.search.tolerance_at(self.z)

    @property
    def fixed(self) -> bool:
        """Whether certain nodes may be fixed: class names are known, or free to choose."""
        return not self.nodes.renaming or self.search.instance.symmetric

    def go_on(self, deadline: float, max_iter: int | None) -> bool:
        """Fix the certain nodes and bound the rest; return whether that may lead further."""
        instance, sure = self.search.instance, self.nodes.certified
        if self.certified or not self.fixed or not sure.any() or sure.all():
            return False
        if resolve_ties(instance, self.z, sure, renaming=False) is not None:
            return False  # few enough to compare them all
        left = reduce(instance, self.z, sure)
        inner = Search(
            left.instance, self.z[left.loose], self.tolerance, self.search.callback,
            self.search.seed, offset=self.search.objective - left.objective(self.z),
        )  # fmt: skip
        try:
            inner.run(deadline, max_iter)
        finally:
            if inner.dual is not None:  # what is known when interrupted counts, with its proof
                self.steps.append(Step(sure, inner.dual, inner.judgement.lower_bound))
                self.z = self.z.copy()
                self.z[left.loose] = inner.z
                self.failure += inner.failure
                bound = left.lift(instance, self.z, inner.judgement.lower_bound)
                self.lower_bound = max(self.lower_bound, bound)
        assert inner.dual is not None
        found, _ = inner.certify_nodes(left.objective(self.z), alternatives=False)
        more = np.zeros_like(sure)
        more[left.loose] = found.certified & (not found.renaming)
        self.nodes = NodeCertificates(sure | more, self.nodes.renaming)
        return bool(more.any()) and not inner.stopped and time.perf_counter() < deadline

    def settle_ties(self) -> None:
        """Compare the remaining labellings in exact arithmetic, where that is possible."""
        instance, nodes = self.search.instance, self.nodes
        if not (self.certified or nodes.certified.any()) or self.failure:
            return
        names = nodes.renaming and not (self.fixed and self.steps)
        best = resolve_ties(instance, self.z, nodes.certified, names)
        if best is None:
            return
        if not np.array_equal(best, self.search.z) and not nodes.certified.all():
            # Nodes were certified by another labelling: verifiers must be able to do it by this.
            dual = self.node_dual or self.search.dual
            assert dual is not None
            objective = instance.value_between(best)[1]
            seed = np.random.SeedSequence(self.search.seed)
            found, _ = sure_nodes(instance, best, dual, objective, self.steps, FAILURE, seed)
            if isinstance(found, str):
                return
            nodes = NodeCertificates(nodes.certified & found.certified, found.renaming)
            if resolve_ties(instance, best, nodes.certified, names) is None:
                return
        self.z, self.nodes, self.exact = best, nodes, True
        self.lower_bound = max(self.lower_bound, instance.value_between(best)[0])


def _report(proof: _Proof, given: Labels, interrupted: bool, seconds: float) -> Certificate:
    search, nodes, z = proof.search, proof.nodes, proof.z
    instance = search.instance
    objective = instance.value_between(z)[1]
    tolerance, certified = proof.tolerance, proof.certified
    gap = gap_of(objective, proof.lower_bound, tolerance)
    special = special_tolerance(tolerance, instance, z)
    spectra = search.judgement.spectra
    worst = min(spectra, key=lambda spectrum: spectrum.beyond) if spectra else None
    return Certificate(
        status=status_of(certified, proof.failure, gap, special),
        objective=objective,
        lower_bound=proof.lower_bound,
        gap=gap,
        tolerance=tolerance,
        exact=proof.exact and certified,
        unique=bool(certified and nodes.certified.all()),
        nullity=max((_nullity(spectrum) for spectrum in spectra), default=0),
        method=search.method,
        seconds=seconds,
        failure=proof.failure,
        labels=z,
        moved=np.flatnonzero(z != given),
        certified_nodes=nodes.certified,
        renaming=nodes.renaming,
        eigenvalues=np.empty(0) if worst is None else worst.lowest,
        interrupted=interrupted,
        history=search.history,
        # The links may belong to the caller, who is free to change them later.
        instance=replace(instance, adjacency=instance.adjacency.copy()),
        dual=search.dual,
        node_dual=proof.node_dual,
        dual_bound=search.judgement.lower_bound,
        steps=tuple(proof.steps),
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
        raise InputError(f"labels must be one class number per node, shape ({n},); got {z.shape}")
    if z.dtype.kind not in "iu" or not ((z >= 0) & (z < K)).all():
        raise InputError(f"labels must be class numbers 0…{K - 1}; got {z.dtype} {z[:5]}")
    return z.astype(np.int64)
