"""Follow a regularisation path: each grid point is solved from the solutions of its neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_array

from nodeproof.auto.counting import FEWEST, Candidate, Search, count_classes
from nodeproof.auto.merging import Family
from nodeproof.auto.plans import choose_plan
from nodeproof.convex.characteristic import biased_centroids
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.inputs import check_features
from nodeproof.path.result import Array, Path, Point
from nodeproof.problem import PAPER_WEIGHTS
from nodeproof.runtime import threads
from nodeproof.solvers import BlockCADO, Status
from nodeproof.solvers.base import check_at_least, check_count
from nodeproof.solvers.starts import STARTS, promising_starts
from nodeproof.terms import NodeData

__all__ = ["Walk", "follow"]


# Hard memberships converge in few sweeps or oscillate for ever. From one weight of the sum of norms
# to the next they change little, and sweeps are expensive.
_SWEEPS = 50
_PULLED_SWEEPS = 10

# Factor by which thresholds go beyond the densities across and inside classes.
_BEYOND = 4.0

# Where "auto" begins, below the weight at which all classes have one model.
_DECADES = 1e3
_AUTO = "auto"


class Walk:
    """Solves the grid points one after another, each from the solutions of its neighbours."""

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
        self.found: dict[tuple[int, int], Candidate] = {}

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
        """Return the grid points in their order, and the side from which each is reached."""
        upwards = range(len(self.thresholds))
        visits = [(i, k, 1) for i in range(len(self.sons)) for k in reversed(upwards)]
        first = [(0, k, -1) for k in upwards]
        return visits[: len(first)] + first + visits[len(first) :]

    def _surplus(self) -> NDArray[np.float32]:
        """Return memberships in more classes than there are, a start for every grid point."""
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
            # A sum of norms only ever merges; without it, nodes that fit no class need spare ones.
            begun = search.settle(start) if at[0] else search.fit(self.n_atoms, self._pad(start))
            fits.append(search.merge(begun))
            if search.ended:
                break
        # Of two equally good solutions, the one with fewer classes.
        self.found[at] = min(fits, key=lambda fit: (round(fit.length, 6), fit.problem.n_classes))
        return search.ended

    def _pad(self, W: NDArray[Any]) -> NDArray[np.float32]:
        """Return the memberships with spare classes, for nodes that fit no other."""
        room = np.zeros((len(W), self.n_atoms), dtype=np.float32)
        room[:, : W.shape[1]] = W[:, : self.n_atoms]
        room[room.sum(axis=1) == 0, 0] = 1.0
        return room

    def _point(self, i: int, k: int, done: int) -> Point:
        total = len(self._visits())
        found = self.found[i, k].problem.n_classes
        return Point(done, total, float(self.thresholds[k]), float(self.sons[i]), found)

    def path(self, status: Status) -> Path:
        """Return the path."""
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


def follow(
    X: Any = None,
    *,
    graph: Any = None,
    thresholds: Any = "auto",
    sons: Any = 0.0,
    weights: tuple[float, float] = PAPER_WEIGHTS[:2],
    terms: Any = "auto",
    null_model: str = "auto",
    n_points: int = 25,
    n_atoms: int | None = None,
    n_jobs: int | None = None,
    random_state: int | None = None,
    callback: Callable[[Point], bool | None] | None = None,
) -> Path:
    """Follow the number of classes along thresholds, and along weights of the sum of norms.

    At every grid point φ is minimised at temperature 0, from more classes than there are, from the
    classes that calibrated weights find, and from the solutions at neighbouring thresholds;
    classes whose merger does not raise φ are merged.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, m), optional
        Features.
    graph : object, optional
        The links, as :meth:`NodeClassifier.fit` takes them. Without links, features and the sum of
        norms alone determine the classes.
    thresholds : "auto", float or array
        Grid of thresholds. "auto" is a log grid from well below the lowest density across classes
        to well above the highest inside one.
    sons : float, array or "auto"
        Weights μ1 of the sum of norms. "auto" is a log grid up to where all classes have the same
        model.
    weights : (β_g, β_f)
        Weights of links and features; by default the paper's.
    terms, null_model
        As :class:`NodeClassifier` takes them.
    n_points : int
        Number of values of "auto".
    n_atoms : int, optional
        Maximum number of classes; by default four times as many as calibrated weights find, and
        at least 16.
    n_jobs : int, optional
        Threads.
    random_state : int, optional
        Seed.
    callback : callable, optional
        Called with a :class:`Point` after every visit; a true return value ends the run with what
        there is. So does Ctrl-C.
    """
    with threads.using(n_jobs):
        family = _family(X, graph, weights, terms, null_model)
        if n_atoms is not None:
            check_count("n_atoms", n_atoms)
        check_count("n_points", n_points)
        counted = count_classes(replace(family, weights="calibrated"), random_state)
        rows = counted.result.W
        ts = _thresholds(thresholds, family.graph, rows, n_points)
        mus = _sons(sons, family, rows, n_points)
        most = n_atoms or max(16, 4 * counted.n_classes)
        most = max(1, min(most, family.n_nodes))
        walk = Walk(family, ts, mus, most, random_state, callback)
        if counted.result.status is Status.INTERRUPTED:
            return walk.path(Status.INTERRUPTED)
        return walk.path(walk.run(rows))


def _family(X: Any, graph: Any, weights: Any, terms: Any, null_model: str) -> Family:
    """Return the problem at any threshold and number of classes."""
    if graph is None and X is None:
        raise InputError("a path needs a graph or features: X and graph are both None")
    if len(weights) not in (2, 3):
        raise InputError(f"weights must be two numbers (graph, features), got {weights!r}")
    for weight in weights:
        check_at_least("weights", weight, 0.0)
    if X is not None:
        X = check_array(
            X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite=False
        )
        X = sp.csr_array(X) if sp.issparse(X) else X
        check_features(X)
    n = None if X is None else X.shape[0]
    network = None if graph is None else Graph(graph, null_model, n)
    fixed = (float(weights[0]), float(weights[1]), 0.0)
    nodes = NodeData(FEWEST, X, None, network)
    chosen = choose_plan(terms, nodes, fixed, 1.0, None, None, {}).terms if X is not None else []
    return Family(nodes, tuple(chosen), network, fixed)


def _grid(name: str, values: Any) -> Array:
    if isinstance(values, str):
        raise InputError(f"{name} must be 'auto' or numbers, got {values!r}")
    grid = np.unique(np.asarray(values, dtype=np.float64))
    if len(grid) == 0 or not np.isfinite(grid).all() or grid[0] < 0:
        raise InputError(f"{name} must be finite numbers ≥ 0, got {values!r}")
    return grid


def _thresholds(asked: Any, graph: Graph | None, W: NDArray[Any], count: int) -> Array:
    """Return a log grid that reaches beyond the densities across and inside the classes found."""
    if not (isinstance(asked, str) and asked == _AUTO):
        return _grid("thresholds", asked)
    if graph is None:
        return np.array([0.5])  # without effect
    if graph.total == 0:
        raise InputError("the graph has no link: give thresholds as numbers")
    links, pairs = graph.link_mass(W, True), graph.pair_mass(W, True)
    known = (links > 0) & (pairs > 0)
    dense = links[known] / pairs[known]
    lo, hi = dense.min() / _BEYOND, dense.max() * _BEYOND
    if graph.null_model == "uniform" and not graph.weighted:
        hi = min(hi, 1.0)  # no density is above
    return np.asarray(np.geomspace(min(lo, graph.density / _BEYOND), hi, count))


def _sons(asked: Any, family: Family, W: NDArray[Any], count: int) -> Array:
    """Return a log grid up to where the classes found have the same model."""
    if not (isinstance(asked, str) and asked == _AUTO):
        return _grid("sons", asked)
    if not family.terms or W.shape[1] == 1:
        raise InputError("sons='auto' needs features that separate classes: give numbers")
    hard = np.eye(W.shape[1])[W.argmax(axis=1)]
    most = 1.0 / family.n_nodes
    while biased_centroids(replace(family, son=most).problem(W.shape[1]), hard).groups.any():
        most *= 2.0
    return np.asarray(np.geomspace(most / _DECADES, 2.0 * most, count))
