"""How the points of a path are solved, each from what its neighbours found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.counting import Fit, Search
from nodeproof.merging import Family
from nodeproof.path.result import Array, Path, Point
from nodeproof.solvers import BlockCADO, Status
from nodeproof.solvers.starts import STARTS, promising_starts

__all__ = ["Walk"]

# One-hot rows settle in few sweeps or swing for ever. With the next weight of the sum of norms
# they have little to go, and sweeps are dear.
_SWEEPS = 50
_PULLED_SWEEPS = 10


class Walk:
    """Solves the points of the grid one after the other, each from what its neighbours found."""

    def __init__(
        self,
        family: Family,
        thresholds: Array,
        sons: Array,
        n_atoms: int,
        seed: int | None,
        callback: Callable[[Point], bool | None] | None,
    ) -> None:
        self.family, self.thresholds, self.sons = family, thresholds, sons
        self.n_atoms, self.callback = n_atoms, callback
        self.solver = BlockCADO(temperature=0.0, n_init=2, max_iter=_SWEEPS, random_state=seed)
        self.once_more = replace(self.solver, max_iter=_PULLED_SWEEPS)
        self.found: dict[tuple[int, int], Fit] = {}

    def run(self, rows: NDArray[Any]) -> Status:
        """Visit every point: thresholds downwards, as classes merge, then upwards again.

        Weights of the sum of norms, if there are several, are visited upwards only: the larger,
        the fewer classes.
        """
        done = 0
        try:
            surplus = self._surplus()
            for i, k, step in self._visits():
                family = replace(self.family, threshold=self.thresholds[k], son=float(self.sons[i]))
                starts = list(self._neighbours(i, k, step))
                if step == 1:
                    starts += [rows] if i else [surplus, rows]
                status = self._solve((i, k), family, starts)
                done += 1
                if status is not None:
                    return status
                if self.callback is not None and self.callback(self._point(i, k, done)):
                    return Status.STOPPED
        except KeyboardInterrupt:
            return Status.INTERRUPTED
        return Status.CONVERGED

    def _visits(self) -> list[tuple[int, int, int]]:
        """Return the points in their order, and from which side each is reached."""
        upwards = range(len(self.thresholds))
        visits = [(i, k, 1) for i in range(len(self.sons)) for k in reversed(upwards)]
        first = [(0, k, -1) for k in upwards]
        return visits[: len(first)] + first + visits[len(first) :]

    def _surplus(self) -> NDArray[np.float32]:
        """Return rows of more classes than there are: the same to begin with at every point."""
        problem = replace(self.family, weights="calibrated").problem(self.n_atoms)
        name = [*promising_starts(problem), "random"][0]
        W = STARTS[name](problem, np.random.default_rng(self.solver.random_state))
        return np.eye(self.n_atoms, dtype=np.float32)[W.argmax(axis=1)]

    def _neighbours(self, i: int, k: int, step: int) -> Iterator[NDArray[Any]]:
        for at in ((i, k + step), (i - 1, k)):
            if at in self.found:
                yield self.found[at].result.W

    def _solve(
        self, at: tuple[int, int], family: Family, starts: Sequence[NDArray[Any]]
    ) -> Status | None:
        search = Search(family, self.solver if not at[0] else self.once_more)
        fits = [search.one]
        if at in self.found:
            fits.append(self.found[at])
        for start in starts:
            # A sum of norms only ever merges; without, nodes that do not fit in need room.
            begun = search.settle(start) if at[0] else search.fit(self.n_atoms, self._pad(start))
            fits.append(search.merge(begun))
            if search.ended:
                break
        # Where two are equally good, the one with fewer classes.
        self.found[at] = min(fits, key=lambda fit: (round(fit.length, 6), fit.problem.n_classes))
        return search.ended

    def _pad(self, W: NDArray[Any]) -> NDArray[np.float32]:
        """Return the rows with room for more classes, which nodes that do not fit in may take."""
        room = np.zeros((len(W), self.n_atoms), dtype=np.float32)
        room[:, : W.shape[1]] = W[:, : self.n_atoms]
        room[room.sum(axis=1) == 0, 0] = 1.0
        return room

    def _point(self, i: int, k: int, done: int) -> Point:
        total = len(self._visits())
        found = self.found[i, k].problem.n_classes
        return Point(done, total, float(self.thresholds[k]), float(self.sons[i]), found)

    def path(self, status: Status) -> Path:
        """Return what was found."""
        shape = len(self.sons), len(self.thresholds)
        counts, models = np.zeros((2, *shape), dtype=np.int64)
        objective = np.full(shape, np.nan)
        labels = np.full((*shape, self.family.n_nodes), -1, dtype=np.int32)
        for at, fit in self.found.items():
            counts[at], objective[at] = fit.problem.n_classes, fit.length
            models[at] = 1 + fit.result.models.groups.max()
            labels[at] = _by_size(fit.result.W.argmax(axis=1))
        return Path(
            self.thresholds, self.sons, counts, models, objective, labels, self.n_atoms, status
        )


def _by_size(labels: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the labels renamed, the largest class first."""
    order = np.argsort(-np.bincount(labels), kind="stable")
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order))
    return np.asarray(rank[labels])
