"""The search by spectral duals: closed forms, better ones, and groups of nodes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nodeproof.certificate import audit
from nodeproof.certificate.labelling.dual import Dual
from nodeproof.certificate.labelling.families import FAMILIES
from nodeproof.certificate.labelling.improve import Ascent, LiftedBlocks, margins
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.certificate.labelling.proof import Part
from nodeproof.certificate.status import NO_PROOF

if TYPE_CHECKING:
    from nodeproof.certificate.labelling.search import Search

__all__ = ["SpectralSearch"]

Labels = NDArray[np.int64]
Flags = NDArray[np.bool_]

# Up to this many nodes, dual variables are improved by blocks; an iteration takes n³ per class.
_BLOCKS_MOST = 1600
# One block stands for all classes while their costs differ by less than this share of the gap,
# and is the end of it where they differ by less than that.
_ALIKE = 0.05
_ALIKE_ENOUGH = 1e-3
# Blocks begin as if the labelling were all but proven, and go on so if after this many steps the
# gap is below this share of the objective.
_FIRST_STEPS = 10
_CLOSE = 5e-3
# A second dual of a look is judged unless the last one was so many times further from a proof.
_FURTHER = 10.0
# About how long a class of 1,000 nodes takes to judge, and how long that may always take. The
# last look, with questions about single nodes, takes as long as so many others.
_SECONDS = 0.25
_PATIENCE = 1.0
_LAST_LOOK = 5.0
_QUESTION = 3.0
# A method ends when this many checks in a row have closed less than this share of the gap.
_STALLED = 6
_STALLED_SHARE = 0.01
# Costs of groups are raised by at least this, relative to what a link gains, and by so many times
# the gap; a search for a group has so many looks, each after so many steps.
_RAISED = 2e-3
_ABOVE_GAP = 1.5
_FIRST_GROUP = 4
_LOOKS = 12
_STEPS = 20


class SpectralSearch:
    """What a search tries with spectral duals.

    Parameters
    ----------
    search : Search
        The search: it judges what is found.
    """

    def __init__(self, search: Search) -> None:
        self.search = search
        self.best: tuple[Dual, Part] | None = None
        self._judging = 0.0  # seconds of the last judgement
        self._gap = math.inf  # by the last dual of blocks
        self._tried: set[tuple[str, bytes, int]] = set()  # closed forms

    def _judge(
        self,
        method: str,
        dual: Dual,
        raised: Flags | None = None,
        kappa: float = 0.0,
        plain: bool = False,
    ) -> None:
        """Let the search judge a dual, and keep the best one."""
        part, began = self.search.proof.part(), time.perf_counter()
        taken = self.search.consider(method, dual, raised, kappa, plain)
        if plain:
            self._judging = time.perf_counter() - began
        if raised is None and (taken or self.best is None):
            self.best = dual, part

    def closed_forms(self) -> None:
        """Judge the closed forms, the likelier one first."""
        part = self.search.proof.part()
        if not self._affordable(part, 1.0):
            return
        for name in ("F", "G") if _informed(part.instance) else ("G", "F"):
            key = name, self.search.proof.z.tobytes() + part.loose.tobytes(), id(self.search.proof)
            if key in self._tried:
                continue
            self._tried.add(key)
            self._judge(name, FAMILIES[name](part.instance, part.z), plain=True)
            if self.search.certified:
                self.ask_nodes()
                self.prove_groups(search=False)
                return

    def _affordable(self, part: Part, judgements: float) -> bool:
        """Return whether there is time for so many judgements of spectral duals of a part."""
        n, K = len(part.loose), self.search.instance.n_classes
        if not 0 < n <= audit.DENSE or not part.instance.linked:
            return False
        seconds = K * _SECONDS * (n / 1000.0) ** 3 * judgements
        return seconds <= max(_PATIENCE, 0.4 * (self.search.deadline - time.perf_counter()))

    def ask_nodes(self) -> None:
        """See which nodes the best spectral dual proves to keep their class."""
        part = self.search.proof.part()
        dual = self._dual_of(part)
        left = self.search.deadline - time.perf_counter()
        if dual is not None and self.search.proof.slack <= NO_PROOF * abs(
            self.search.proof.objective
        ):
            if _QUESTION * self._judging > max(_PATIENCE, left):
                return
            self._judge("nodes", dual)

    def _named_classes(self, part: Part) -> Flags:
        """Return the classes that nodes can be proven to have: where names are free, several."""
        K, state = self.search.instance.n_classes, self.search.proof.state
        if state.named == len(state.anchors):
            return np.eye(K, dtype=bool)[part.z]
        used = np.isin(np.arange(K), state.z[state.anchors[: state.named]])
        return np.where(used[part.z][:, None], np.eye(K, dtype=bool)[part.z], ~used)

    def improve(self) -> None:
        """Search for better spectral duals, where there are few enough nodes."""
        part = self.search.proof.part()
        n = len(part.loose)
        if self.search.max_iter == 0 or self.search.late or not self._affordable(part, 3.0):
            return
        if n > _BLOCKS_MOST:
            self._follow("ascent", self._ascent(part))
            return
        if self.alike(part):
            self._follow("blocks", self._blocks(part, alike=True))
            self.ask_nodes()
            if len(self.search.proof.part().loose) < n:  # what is left is easier
                return
        if not self.search.certified and not self.alike(part, _ALIKE_ENOUGH):
            self._follow("blocks", self._blocks(part, alike=False))

    def alike(self, part: Part, share: float = _ALIKE) -> bool:
        """Return whether all classes cost nodes about the same, compared with the gap."""
        spread = float(np.ptp(part.instance.costs, axis=1).sum())
        return spread <= share * self.search.proof.slack < math.inf

    def _follow(self, method: str, looks: Iterator[tuple[list[Dual], Labels | None]]) -> None:
        """Judge what a method finds for as long as it gains."""
        gained: list[float] = []
        slacks, asked = [0.0], math.inf
        sure = int(self.search.proof.sure.sum())
        while not self.search.certified:
            found = next(looks, None)
            if found is None:
                return
            before = self.search.proof.slack
            likely = slacks[-1] <= _FURTHER * slacks[0]
            slacks = []
            for dual in found[0] if likely else found[0][:1]:
                self._judge(method, dual, plain=True)
                slacks.append(self.search.proof.last_slack)
            self._gap = slacks[0]
            if self._gap <= min(_CLOSE * abs(self.search.proof.objective), 0.5 * asked):
                asked = self._gap
                self.ask_nodes()
            if found[1] is not None and self.search.relabel(found[1]):
                return
            ends = time.perf_counter() + _LAST_LOOK * self._judging
            if int(self.search.proof.sure.sum()) != sure or ends >= self.search.deadline:
                return
            gained.append((before - self.search.proof.slack) / max(self.search.proof.slack, 1e-300))
            if len(gained) > 2 * _STALLED and sum(gained[-_STALLED:]) < _STALLED_SHARE:
                return

    def _blocks(self, part: Part, alike: bool) -> Iterator[tuple[list[Dual], Labels | None]]:
        start = FAMILIES["F" if _informed(part.instance) else "G"](part.instance, part.z)
        state = LiftedBlocks(part.instance, part.z, start, alike, close=not alike)
        look = 5
        for iteration in range(1, (self.search.max_iter or 10**9) + 1):
            far = self._gap > _CLOSE * abs(self.search.proof.objective)
            if iteration == _FIRST_STEPS + 1 and far and not alike:
                state = LiftedBlocks(part.instance, part.z, start)
            began = time.perf_counter()
            state.step()
            # The last look, and questions about single nodes after it, take time, too.
            ends = time.perf_counter() + _LAST_LOOK * self._judging + time.perf_counter() - began
            if iteration in (look, self.search.max_iter) or ends >= self.search.deadline:
                look += min(iteration, 20)
                z = self.search.proof.z.copy()
                z[part.loose] = part.instance.settle(state.shares.argmax(axis=1))
                yield state.duals(part.z), z
                if ends >= self.search.deadline:
                    return

    def _ascent(self, part: Part) -> Iterator[tuple[list[Dual], Labels | None]]:
        name = "F" if _informed(part.instance) else "G"
        dual = FAMILIES[name](part.instance, part.z)
        best, found = -math.inf, dual
        for iteration, (value, other) in enumerate(Ascent(part.instance, dual, self.search.seed)):
            if value > best:
                best, found = value, other
            ends = time.perf_counter() + _LAST_LOOK * self._judging
            if iteration == self.search.max_iter or ends >= self.search.deadline:
                break
        yield [found], None

    # Groups of nodes. ---------------------------------------------------------------------

    def prove_groups(self, search: bool = True) -> None:
        """Raise the costs of nodes that seem certain by more than the gap, and prove them at once.

        Where the dual at hand does not prove any group of them, better ones are searched for: for
        a few nodes at first, and for more as soon as these help.

        Parameters
        ----------
        search : bool
            Whether better duals may be searched for.
        """
        size = _FIRST_GROUP
        while not self.search.late and not self.search.proof.sure.all():
            part = self.search.proof.part(anchored=True)
            dual = self._dual_of(part)
            if dual is None or not self.search.proof.slack <= NO_PROOF * abs(
                self.search.proof.objective
            ):
                return
            kappa = max(_RAISED * 2.0 * abs(part.instance.w), _ABOVE_GAP * self.search.proof.slack)
            if self._prove_largest(part, dual, kappa):
                continue
            small = len(part.loose) <= _BLOCKS_MOST and self.search.max_iter != 0
            if not (search and small and size):
                return
            nodes = _surest(part, self.search.proof.anchors)[:size]
            size = 4 * size if self._search_group(part, dual, nodes, kappa) else size // 4

    def _prove_largest(self, part: Part, dual: Dual, kappa: float) -> bool:
        """Return whether a dual proves a group of nodes as it is, the largest one first."""
        sure = margins(part.instance, dual, part.z)
        sure[np.isin(part.loose, self.search.proof.anchors)] = np.inf
        nodes = np.argsort(-sure, kind="stable")[: int((sure > kappa).sum())]
        while len(nodes) and not self.search.late:
            if self._prove_group(part, dual.raised(nodes, kappa), nodes, kappa):
                return True
            nodes = nodes[: len(nodes) // 3]
        return False

    def _dual_of(self, part: Part) -> Dual | None:
        """Return the best spectral dual of an earlier part, for this part of it."""
        if self.best is None or not part.instance.linked:
            return None
        dual, before = self.best
        kept = np.isin(before.loose, part.loose)
        if kept.sum() != len(part.loose):
            return None
        return dual if kept.all() else dual.restricted(before.instance, before.z, ~kept)

    def _prove_group(self, part: Part, dual: Dual, nodes: NDArray[np.int64], kappa: float) -> bool:
        """Return whether a dual of the problem with raised costs proves these nodes."""
        raised = np.zeros_like(part.open)
        raised[nodes] = self._named_classes(part)[nodes]
        before = int(self.search.proof.possible.sum())
        self._judge("groups", dual, part.spread(raised), kappa)
        return int(self.search.proof.possible.sum()) < before

    def _search_group(self, part: Part, dual: Dual, nodes: NDArray[np.int64], kappa: float) -> bool:
        """Search for a dual that proves some nodes at once; return whether there is one."""
        raised = np.zeros_like(part.open)
        raised[nodes] = self._named_classes(part)[nodes]
        state = LiftedBlocks(part.with_raised(raised, kappa), part.z, dual.raised(nodes, kappa))
        slack = math.inf
        for look in range(_LOOKS):
            for _ in range(_STEPS):
                state.step()
                if self.search.late:
                    return False
            found = []
            for better in state.duals(part.z):
                if self._prove_group(part, better, nodes, kappa):
                    return True
                found.append(self.search.proof.last_slack)
            # At this pace it would not come below κ in the looks that are left.
            gained, slack = slack - min(found), min(slack, *found)
            if gained * (_LOOKS - look) < slack - kappa:
                return False
        return False


def _surest(part: Part, anchors: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the nodes of a part, anchors first, then those that gain most by their class."""
    every = np.arange(len(part.z))
    price = part.instance.costs - 2.0 * part.instance.gains(part.z)
    own = price[every, part.z]
    price[every, part.z] = np.inf
    ahead = price.min(axis=1) - own
    ahead[np.isin(part.loose, anchors)] = np.inf
    return np.argsort(-ahead, kind="stable")


def _informed(instance: Instance) -> bool:
    """Return whether most nodes have evidence of their own about their class."""
    link = 0.5 * max(abs(instance.w), abs(instance.wt))
    return bool((np.ptp(instance.costs, axis=1) > link).mean() > 0.5)
