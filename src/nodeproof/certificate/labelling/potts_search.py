"""The search by Potts duals: messages along links, for any number of nodes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nodeproof.certificate.labelling.exclusion import exclude_labels
from nodeproof.certificate.labelling.flows import PottsDual
from nodeproof.certificate.labelling.potts import PottsAscent
from nodeproof.certificate.labelling.proof import Part

if TYPE_CHECKING:
    from nodeproof.certificate.labelling.search import Search

__all__ = ["PottsSearch"]

# Sweeps between two looks at the messages; fewer where a sweep takes seconds.
_SWEEPS = 20
_SWEEPS_LARGE = 4
_LARGE = 1_000_000
# What comes after the sweeps, a labelling and the judgement, takes as long as so many of them, as
# long as nothing is known of it.
_AFTERWARDS = 18.0
# Slack is pushed from node to node until so many bytes of messages would be kept.
_MOST_BYTES = 1 << 24
# Up to this many nodes, single classes of them are probed: others are raised by twice the gap, and
# by at least this, relative to what a link gains.
_PROBED = 400
_RAISED = 1e-3


class PottsSearch:
    """What a search tries with Potts duals.

    Parameters
    ----------
    search : Search
        The search: it judges what is found.
    """

    def __init__(self, search: Search) -> None:
        self.search = search
        self._room = _MOST_BYTES
        self._ascent: PottsAscent | None = None
        self._about: list[bytes] = []  # what it is an ascent of
        self._tangents: NDArray[np.float64] | None = None  # of further null models
        self._pace = self._afterwards = 0.0  # seconds of a sweep, and of what comes after them

    def follow(self, most: int | None, close: bool = True) -> None:
        """Improve a Potts dual until it stalls, and see what it proves.

        Parameters
        ----------
        most : int or None
            Most sweeps.
        close : bool
            Whether to exclude single classes by further duals.
        """
        part = self.search.proof.part()
        if time.perf_counter() + self._last_look(1) > self.search.deadline and self._pace:
            return
        ascent = self._ascent_of(part)
        count = _SWEEPS_LARGE if ascent.dual.y.size > _LARGE else _SWEEPS
        # The part's objectives differ from those of the whole by what certain nodes pay.
        rest = self.search.proof.objective - part.instance.value(part.z)
        done, began = 0, time.perf_counter()
        while not ascent.stalled and (most is None or done < most):
            ascent.sweep(count)
            done += count
            self.search.show("potts", min(ascent.value + rest, self.search.proof.objective))
            self._pace = (time.perf_counter() - began) / done
            if time.perf_counter() + self._last_look(count) >= self.search.deadline:
                break
        began = time.perf_counter()
        found = self.search.proof.z.copy()
        found[part.loose] = ascent.decode()
        a = ascent.dual.a if self._tangents is None else np.vstack([ascent.dual.a, self._tangents])
        dual = PottsDual(a, ascent.dual.y.copy())
        if self.search.relabel(self.search.instance.settle(found)):
            now = self.search.proof.part()
            gone = ~np.isin(part.loose, now.loose)
            if (~gone).sum() != len(now.loose):
                return  # other nodes are uncertain now
            part, dual = now, dual.restrict(part.instance, part.z, gone) if gone.any() else dual
        if len(part.loose):
            self.search.consider("potts", dual)
            self._afterwards = time.perf_counter() - began
            if close and not part.instance.several:
                self._close_classes(self.search.proof.part(), part, dual)

    def _ascent_of(self, part: Part) -> PottsAscent:
        """Return the ascent of a part, to go on with where there is one.

        Of several null models, all but the first are tangents at the labelling.
        """
        several = part.instance.several
        fixed = np.delete(self.search.proof.z, part.loose)
        about = [part.loose.tobytes(), part.open.tobytes(), fixed.tobytes()]
        about += [part.z.tobytes()] if several else []
        if self._ascent is None or self._about != about:
            self._ascent = None  # leaves its memory to the next one
            instance, self._tangents = part.instance, None
            if several:
                instance, self._tangents = instance.linearised(part.z)
            self._ascent, self._about = PottsAscent(instance, part.open), about
        return self._ascent

    def _last_look(self, count: int) -> float:
        """Return about how long so many sweeps and what comes after them take."""
        return count * self._pace + (1.5 * self._afterwards or _AFTERWARDS * self._pace)

    def _close_classes(self, now: Part, part: Part, dual: PottsDual) -> None:
        """Push slack from node to node, and close the classes that this excludes.

        When many nodes are certain, it goes on with what is left of the problem.

        Parameters
        ----------
        now, part : Part
            What is left of the problem, and what the dual is for.
        """
        if not len(now.loose):
            return
        dual = dual.restrict(part.instance, part.z, ~np.isin(part.loose, now.loose))
        part = now
        while not self.search.proof.sure.all():
            objective = part.instance.value(part.z)
            steps = exclude_labels(
                part.instance, dual, objective, seed=self.search.seed, open_labels=part.open
            )
            grown = False
            for step in steps:
                now = self.search.proof.part()
                gone = ~np.isin(part.loose, now.loose)
                own = step.dual.restrict(part.instance, part.z, gone) if gone.any() else step.dual
                if self.search.late or self._room < own.y.nbytes:
                    return
                if len(now.loose) and self.search.consider("potts", own):
                    self._room -= own.y.nbytes
                grown = 1.2 * int((~self.search.proof.sure).sum()) < len(part.loose)
                if grown:
                    break
            if not grown:
                return
            now = self.search.proof.part()
            dual = dual.restrict(part.instance, part.z, ~np.isin(part.loose, now.loose))
            part = now

    def probe_classes(self) -> None:
        """Force single nodes into other classes, and close those where the bound is too high."""
        part = self.search.proof.part(anchored=True)
        if part.instance.several:
            return
        while (
            0 < len(part.loose) <= _PROBED and not self.search.late and not self.search.enumerable()
        ):
            ascent = PottsAscent(part.instance, part.open)
            ascent.run(self.search.deadline)
            order = np.argsort(-ascent.reduced, axis=None, kind="stable")
            pairs = np.stack(np.unravel_index(order, part.open.shape), axis=1)
            every = (pairs[:, 1] != part.z[pairs[:, 0]]) & part.open[pairs[:, 0], pairs[:, 1]]
            start = PottsDual(ascent.dual.a, ascent.dual.y.copy())
            if not any(self._probe(part, start, int(v), int(i)) for v, i in pairs[every]):
                return
            part = self.search.proof.part(anchored=True)

    def _probe(self, part: Part, start: PottsDual, v: int, i: int) -> bool:
        """Return whether node v of a part is proven not to have class i."""
        if self.search.late:
            return False
        kappa = max(2.0 * self.search.proof.slack, _RAISED * 2.0 * part.instance.w)
        raised = np.zeros_like(part.open)
        raised[v] = np.arange(part.open.shape[1]) != i
        higher = part.with_raised(raised, kappa)
        ascent = PottsAscent(higher, part.open, start)
        target = higher.value(part.z) - kappa
        while not ascent.stalled and ascent.value <= target and not self.search.late:
            ascent.sweep(_SWEEPS)
            # No bound of this kind is higher than the relaxation's value.
            if ascent.relaxed < target:
                return False
        before = int(self.search.proof.possible.sum())
        self.search.consider("potts", ascent.dual, part.spread(raised), kappa)
        return int(self.search.proof.possible.sum()) < before
