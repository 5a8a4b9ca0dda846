"""The search for a proof: better labellings, bounds of two kinds, and nodes that are certain."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nodeproof.certificate import audit
from nodeproof.certificate.labelling.dual import Dual
from nodeproof.certificate.labelling.flows import PottsDual, has_potts_bound
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.certificate.labelling.labellings import improve_labelling
from nodeproof.certificate.labelling.potts_search import PottsSearch
from nodeproof.certificate.labelling.proof import Proof, Step
from nodeproof.certificate.labelling.spectral_search import SpectralSearch

__all__ = ["Search", "Stage"]

Labels = NDArray[np.int64]
Flags = NDArray[np.bool_]

# Sweeps of messages before anything else is tried.
_FIRST_SWEEPS = 60
# Where no more than this share of the nodes is uncertain still, what is left is a new problem.
_EASIER = 0.9
# Share of the time for better labellings.
_LABELLING_SHARE = 0.15


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
        The best so far; the bound may be an estimate that is not proven yet.
    """

    method: str
    seconds: float
    objective: float
    lower_bound: float


class Stop(Exception):  # noqa: N818 - it ends a search, and is no error
    """The caller has seen enough."""


class Search:
    """The best labelling and the best proof so far.

    Parameters
    ----------
    instance : Instance
        The labelling problem.
    z : ndarray of shape (n,)
        Where to begin.
    tolerance : float or None
        The gap that counts as none; None for the default.
    deadline : float
        By `time.perf_counter`.
    max_iter : int or None
        Most iterations of each method.
    callback : callable or None
        Called with every :class:`Stage`; a true answer ends the search.
    seed : int
        Of random numbers.
    """

    def __init__(
        self,
        instance: Instance,
        z: Labels,
        tolerance: float | None,
        deadline: float,
        max_iter: int | None,
        callback: Callable[[Stage], bool | None] | None,
        seed: int,
    ) -> None:
        self.instance, self.asked_tolerance, self.callback = instance, tolerance, callback
        self.deadline, self.max_iter, self.seed = deadline, max_iter, seed
        self.began = time.perf_counter()
        self.named = Proof(instance, z)
        self._free: Proof | None = None
        self.proof = self.free if instance.symmetric else self.named
        self.history: list[tuple[float, float, float]] = []
        self.methods: dict[int, str] = {}
        self._n_searched = 0
        self._default_tolerance: tuple[Labels | None, float] = (None, math.nan)
        self._spectral, self._potts = SpectralSearch(self), PottsSearch(self)

    @property
    def free(self) -> Proof:
        """The proof where names of classes are free."""
        if self._free is None:
            self._free = Proof(self.instance, self.named.z, free=True)
        return self._free

    # What is known. -----------------------------------------------------------------------

    @property
    def tolerance(self) -> float:
        """The gap that counts as a proof."""
        if self.asked_tolerance is not None:
            return self.asked_tolerance
        z = self.proof.z
        if self._default_tolerance[0] is not z:
            self._default_tolerance = z, self.instance.audited.tolerance(z)
        return self._default_tolerance[1]

    @property
    def certified(self) -> bool:
        """Whether the bound is within the tolerance, but for what names cost."""
        missing = self.proof.objective - self.proof.lower_bound
        return missing - self.proof.offset <= self.tolerance

    @property
    def lower_bound(self) -> float:
        """The best bound so far, with names of classes free or not."""
        slacks = [*self.named.slacks, *(self._free.slacks if self._free else [])]
        return max(self.proof.lower_bound, self.proof.low - min(slacks, default=math.inf))

    @property
    def late(self) -> bool:
        """Whether the time is up."""
        return time.perf_counter() >= self.deadline

    def _report(self, method: str) -> None:
        """Note how far the proof is, and tell the caller."""
        now = (self.proof.objective, self.lower_bound)
        self.history.append((time.perf_counter() - self.began, *now))
        self.show(method, now[1])

    def show(self, method: str, bound: float) -> None:
        """Tell the caller of a bound, which may not be proven yet."""
        seconds = time.perf_counter() - self.began
        bound = max(bound, self.lower_bound)
        stage = Stage(method, seconds, self.proof.objective, bound)
        if self.callback is not None and self.callback(stage):
            raise Stop

    def consider(
        self,
        method: str,
        dual: Dual | PottsDual,
        raised: Flags | None = None,
        kappa: float = 0.0,
        plain: bool = False,
    ) -> bool:
        """Take a step if it proves more; return whether it does."""
        taken = self.proof.consider(dual, raised, kappa, plain)
        if taken:
            self.methods[id(self.proof.steps[-1])] = method
        self._report(method)
        return taken

    def relabel(self, z: Labels) -> bool:
        """Take another labelling if it is better; return whether it is."""
        if not self.proof.relabel(z):
            return False
        for other in (self.named, self._free):
            if other is not None and other is not self.proof:
                other.relabel(z)
        self._spectral.best = None
        self._report("labelling")
        return True

    @property
    def method(self) -> str:
        """How the proof was found, in the order of its steps."""
        names = dict.fromkeys(self.methods[id(step)] for step in self.steps)
        return ", ".join(names) or "enumeration"

    @property
    def steps(self) -> list[Step]:
        """The steps of the proof."""
        return [*self.named.steps, *(self._free.steps if self._free else [])]

    @property
    def anchors(self) -> NDArray[np.int64]:
        """The nodes that give classes their names, where a step leaves these free."""
        return self.free.anchors if self._free else self.named.anchors

    def finish(self) -> audit.Found:
        """Return all that is proven, after a comparison of the labellings that are left."""
        self._enumerate()
        problem, named = self.instance.audited, self.named
        free = self._free or named
        unnamed = problem.unnamed(named.z)[0]
        state = free.state if self._free else audit.State(unnamed, named.z, named.anchors)
        slacks = [*named.slacks, *(free.slacks if self._free else [])]
        return audit.conclude(problem, named.state, state, slacks)

    # The search. --------------------------------------------------------------------------

    def run(self) -> None:
        """Try what is quick, then what takes time, until the deadline or until all is proven."""
        if self.instance.n_classes == 1 or self._enumerate():
            return
        attracts = has_potts_bound(self.instance)
        if attracts:
            # Classes are closed by comparison with the best labelling that there is time to find.
            self._potts.follow(_FIRST_SWEEPS, close=self.late)
        self._spectral.closed_forms()
        if not self.certified and self._spectral.alike(self.named.part()):
            self._free_names()
        while not (self.late or self.certified or self.enumerable()):
            before = self.proof.slack, int(self.proof.possible.sum())
            self._improve(attracts)
            slack, classes = self.proof.slack, int(self.proof.possible.sum())
            if slack > 0.99 * before[0] and classes == before[1]:
                break
        if self.certified and not self.enumerable():
            self._prove_nodes(attracts)

    def _improve(self, attracts: bool) -> None:
        """Look for a better labelling and for better bounds, of both kinds."""
        if self.instance.linked:
            self._better_labelling(_LABELLING_SHARE)
        if attracts:
            self._potts.follow(self.max_iter)
            self._potts.probe_classes()
        if not self.certified:
            self._spectral.closed_forms()
            loose = int((~self.proof.sure).sum())
            self._spectral.improve()
            self._spectral.ask_nodes()
            if (~self.proof.sure).sum() > _EASIER * loose:  # else first bound what is left
                self._spectral.prove_groups()

    def _prove_nodes(self, attracts: bool) -> None:
        """Prove that nodes keep their class in every optimal labelling, where one is known."""
        if attracts:
            self._potts.probe_classes()
        if not self.proof.sure.any() and self.instance.linked:
            self._free_names()
        self._spectral.prove_groups()

    def _free_names(self) -> None:
        """Go on where names of classes are free: links may decide all but the names."""
        if self.proof is self.named and len(self.named.z) <= audit.DENSE:
            self.proof, self._spectral.best = self.free, None
            self._spectral.closed_forms()

    def enumerable(self) -> bool:
        """Return whether few enough labellings are left to compare them all."""
        if self.proof.free and not self.instance.symmetric:
            return False  # these are compared by name
        left = self.proof.possible.sum(axis=1, dtype=np.int64)
        return bool(np.log(left[left > 1]).sum() <= math.log(audit.ENUMERATED))

    def _enumerate(self) -> bool:
        """Take the best labelling where all can be compared; return whether they can."""
        if not self.enumerable():
            return False
        best = audit.optimal_labellings(self.instance.audited, self.proof.possible)
        if best is not None and not (best == self.proof.z).all(axis=1).any():
            self.relabel(best[0])
        return best is not None

    def _better_labelling(self, share: float) -> None:
        """Look for a better labelling, for a share of the time that is left."""
        now = time.perf_counter()
        z = improve_labelling(
            self.instance, self.proof.z, seed=self.seed + self._n_searched,
            deadline=now + share * max(0.0, self.deadline - now),
        )  # fmt: skip
        self._n_searched += 1
        self.relabel(z)
