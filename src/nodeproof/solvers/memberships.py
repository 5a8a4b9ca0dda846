"""Memberships in the memory of this machine.

What a solver does with all memberships at once is a method here, so that another engine can do
the same with memberships that live elsewhere.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from nodeproof import kernels, kinds
from nodeproof.affinity import Affinity
from nodeproof.graph import RowSums
from nodeproof.problem import Models, Problem
from nodeproof.runtime import threads
from nodeproof.solvers.base import agreement
from nodeproof.solvers.starts import STARTS, Disposable, as_memberships
from nodeproof.solvers.sums import summable_terms
from nodeproof.solvers.sweep import Charges, Sweeper
from nodeproof.terms.summable import SummableTerm, is_summable

__all__ = [
    "Engine",
    "HardMemberships",
    "LocalMemberships",
    "LocalWorkspace",
    "OneHot",
    "Workspace",
    "sweep_labels",
]

Array = NDArray[np.float64]


class OneHot:
    """Labels that behave like memberships: slices are expanded on demand.

    Parameters
    ----------
    labels : ndarray of shape (n,)
        0…K−1, or −1 for uniform memberships.
    n_classes : int
        K.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.solvers.memberships import OneHot
    >>> OneHot(np.array([2, 0, -1], dtype=np.int16), 4)[1:]
    array([[1.  , 0.  , 0.  , 0.  ],
           [0.25, 0.25, 0.25, 0.25]], dtype=float32)
    """

    def __init__(self, labels: NDArray[Any], n_classes: int) -> None:
        self.labels, self.shape = labels, (len(labels), n_classes)

    @classmethod
    def of(cls, W: NDArray[Any]) -> OneHot:
        """Return memberships as labels: where they are largest, or −1 where they are uniform."""
        n, K = W.shape
        labels = np.empty(n, dtype=np.int16 if K < 2**15 else np.int32)

        def part(lo: int, hi: int) -> None:
            rows = W[lo:hi]
            known = rows.max(axis=1) > rows.min(axis=1)
            labels[lo:hi] = np.where(known | (K == 1), rows.argmax(axis=1), -1)

        threads.map_rows(part, n)
        return cls(labels, K)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: Any) -> NDArray[np.float32]:
        labels = np.atleast_1d(self.labels[rows])
        dense = np.zeros((len(labels), self.shape[1]), dtype=np.float32)
        known = np.flatnonzero(labels >= 0)
        dense[known, labels[known]] = 1.0
        dense[labels < 0] = 1.0 / self.shape[1]
        return dense

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype=dtype)

    def argmax(self, axis: int = 1) -> NDArray[np.int64]:
        """Return the class of each node; the first, of uniform ones."""
        return np.maximum(self.labels, 0).astype(np.int64)

    def reorder(self, order: NDArray[np.int64]) -> None:
        """Let class i be what was class order[i]."""
        rank = np.append(np.argsort(order), -1).astype(self.labels.dtype)
        self.labels[:] = rank[self.labels]

    def sums(self, eta: Array, matrix: bool) -> RowSums:
        """Return sums over the memberships."""
        K = self.shape[1]
        totals, sizes, squares = (
            np.bincount(self.labels + 1, weights=weights, minlength=K + 1)
            for weights in (eta, None, eta * eta)
        )
        own = np.diag(squares[1:]) + squares[0] / K**2
        return RowSums(
            totals[1:] + totals[0] / K,
            sizes[1:] + sizes[0] / K,
            own if matrix else np.full((1, 1), np.trace(own)),
        )

    def link_mass(self, graph: Any, matrix: bool) -> Array:
        """Return the link mass inside classes, or between each pair of them."""
        K = self.shape[1]
        if (self.labels < 0).any():
            return np.asarray(graph.link_mass(np.asarray(self), matrix))

        def part(lo: int, hi: int) -> Array:
            mass = np.zeros((K, K) if matrix else (1, 1))
            kernels.label_links(
                lo, hi, graph.indptr, graph.indices, graph.weights, self.labels, mass
            )
            return mass

        return threads.sum_rows(part, len(self))


def sweep_labels(
    sweeper: Sweeper, W: OneHot, affinity: Affinity | None, log_prior: Array, totals: Array
) -> tuple[float, Array]:
    """Update every node once, in place; see :meth:`Sweeper.sweep`.

    Parameters
    ----------
    sweeper : Sweeper
        With the batches, the links and, once class models are set, the costs.
    W : OneHot
        The labels.
    affinity, log_prior, totals
        As in :meth:`Sweeper.sweep`.
    """
    n, K = W.shape
    if affinity is None:
        affinity = Affinity(np.zeros((1, 1)), np.zeros((1, 1)))
    ell, ell_t = affinity.ell, affinity.ell_t
    cells = -(-sweeper.batch // sweeper.cell) + 1
    moved, mass = np.zeros((cells, K)), np.zeros((cells, *ell.shape))
    changes, links, totals = np.zeros(cells), np.zeros_like(ell), np.array(totals)
    new = np.empty(sweeper.batch, dtype=W.labels.dtype)
    change, charges = 0.0, Charges(sweeper, W)
    for first, last in sweeper.batches():
        charges.advance(first, last)

        def solve(lo: int, hi: int, first: int = first) -> None:
            kernels.sweep_labels(
                lo, hi, first, sweeper.cell, sweeper.indptr, sweeper.indices, sweeper.weights,
                sweeper.eta, W.labels, totals, charges.costs, charges.first, log_prior, ell,
                ell_t, new, moved, mass, changes,
            )  # fmt: skip

        threads.share(solve, first, last, sweeper.cell)
        W.labels[first:last] = new[: last - first]
        count = (last - 1) // sweeper.cell - first // sweeper.cell + 1
        change += kernels.take_cells(count, moved, mass, changes, totals, links)
    return change / n, links


class Workspace(Protocol):
    """A problem under way: what all its starts share."""

    def start(self, given: NDArray[Any] | str | Disposable, rng: np.random.Generator) -> Any:
        """Return memberships to start from, for `place`: of shape (n, K), or one-hot.

        Parameters
        ----------
        given : ndarray of shape (n, K), Disposable or str
            Memberships, or the name of a start.
        """

    def place(self, W: NDArray[Any], hard: bool = False) -> Any:
        """Return memberships to work on, with the methods of `LocalMemberships`.

        Parameters
        ----------
        W : ndarray of shape (n, K), or what `start` returned
            Memberships to start from.
        hard : bool
            Whether they are one-hot from now on.
        """

    def close(self) -> None:
        """Release what the workspace holds."""


@runtime_checkable
class Engine(Protocol):
    """Somewhere to work on memberships, such as :class:`nodeproof.distributed.DaskEngine`."""

    def open(self, problem: Problem) -> Workspace:
        """Return a workspace for a problem."""


class LocalWorkspace:
    """A problem in the memory of this machine.

    Parameters
    ----------
    problem : Problem
        What to solve.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.sweeper = Sweeper(problem)

    def start(
        self, given: NDArray[Any] | str | Disposable, rng: np.random.Generator
    ) -> NDArray[np.float32]:
        """Return memberships to start from, shape (n, K)."""
        if isinstance(given, str):
            return STARTS[given](self.problem, rng)
        return as_memberships(given, self.problem.n_nodes, self.problem.n_classes)

    def place(self, W: NDArray[Any], hard: bool = False) -> LocalMemberships:
        """Return memberships to work on in place; of hard ones, one integer per node is kept."""
        return HardMemberships(self, OneHot.of(W)) if hard else LocalMemberships(self, W)

    def close(self) -> None:
        """Release what the workspace holds: nothing."""


class LocalMemberships:
    """The memberships of one start, and what is done with all of them.

    Parameters
    ----------
    workspace : LocalWorkspace
        Their problem.
    W : ndarray of shape (n, K), float32
        The memberships.
    """

    def __init__(self, workspace: LocalWorkspace, W: Any) -> None:
        self.problem, self.sweeper, self.W = workspace.problem, workspace.sweeper, W

    def fit_terms(self, kept: tuple[Array, ...] | None, tol: float) -> tuple[Array, ...]:
        """Return the class models; see :meth:`nodeproof.Problem.fit_terms`."""
        return self.problem.fit_terms(self.W, kept, tol)

    def term_sums(self) -> tuple[Array, ...] | None:
        """Return the sums over all nodes that the terms need; None if some need more."""
        terms, W = summable_terms(self.problem), self.W
        if terms is None:
            return None
        return tuple(
            threads.sum_rows(partial(_sums_of, term, W), self.problem.n_nodes) for term in terms
        )

    def sums(self, matrix: bool = False) -> RowSums | kinds.KindSums:
        """Return sums over the memberships."""
        graph = self.problem.graph
        if graph is not None and graph.kinds:
            return kinds.KindSums.of(graph, self.W, matrix)
        return RowSums.of(self.W, self.sweeper.eta, matrix)

    def link_mass(self, matrix: bool = False) -> Array:
        """Return the link mass inside classes, or between each pair of them; kind by kind."""
        graph, K = self.problem.graph, self.problem.n_classes
        assert graph is not None
        if not self.problem.links_count:
            shape = (K, K) if matrix else (1, 1)
            return np.zeros((len(graph.kinds), *shape) if graph.kinds else shape)
        return kinds.link_mass(graph, self.W, matrix)

    def sweep(
        self, models: Models, temperature: float, totals: Array | None = None
    ) -> tuple[float, Array]:
        """Update every node once; see :meth:`nodeproof.solvers.sweep.Sweeper.sweep`."""
        self.sweeper.charge(models)
        return self.sweeper.sweep(self.W, models.affinity, models.log_prior, temperature, totals)

    def agreement(self, labels: NDArray[np.int64]) -> Array:
        """Return how much of each label each class holds, shape (K, K)."""
        return agreement(self.W, labels)

    def reorder(self, order: NDArray[np.int64]) -> None:
        """Reorder the columns: column i becomes what column order[i] was."""

        def part(lo: int, hi: int) -> None:
            self.W[lo:hi] = self.W[lo:hi][:, order]

        threads.map_rows(part, len(self.W))

    def energy(self, models: Models, temperature: float) -> float:
        """Return the free energy without the links."""
        return self.problem.row_energy(self.W, models, temperature)

    def fetch(self) -> NDArray[Any]:
        """Return the memberships, shape (n, K)."""
        return self.W

    def assumed(self, labels: NDArray[np.int64] | None, look: bool) -> Affinity:
        """Return the affinity to begin with; see :meth:`nodeproof.affinity.Affinity.assumed`."""
        graph = self.problem.graph
        assert graph is not None
        matrix = self.problem.directed
        masses = (self.link_mass(matrix), self.sums(matrix).pairs) if look else None
        return kinds.assumed(graph, self.problem.n_classes, labels, masses)


def _sums_of(term: SummableTerm, W: NDArray[Any], lo: int, hi: int) -> Array:
    return term.sums(W[lo:hi], lo, hi)


class HardMemberships(LocalMemberships):
    """The memberships of one start at temperature 0: one label per node."""

    W: OneHot

    def fit_terms(self, kept: tuple[Array, ...] | None, tol: float) -> tuple[Array, ...]:
        """Return the class models; terms that need more than sums are given an array."""
        problem = self.problem
        by_ranges = problem.calibrated and all(map(is_summable, problem.terms))
        W: Any = self.W if by_ranges else np.asarray(self.W)
        return problem.fit_terms(W, kept, tol)

    def sums(self, matrix: bool = False) -> RowSums:
        """Return sums over the memberships."""
        return self.W.sums(self.sweeper.eta, matrix)

    def link_mass(self, matrix: bool = False) -> Array:
        """Return the link mass inside classes, or between each pair of them."""
        return self.W.link_mass(self.problem.graph, matrix)

    def sweep(
        self, models: Models, temperature: float, totals: Array | None = None
    ) -> tuple[float, Array]:
        """Update every node once."""
        self.sweeper.charge(models)
        totals = self.sums().totals if totals is None else totals
        return sweep_labels(self.sweeper, self.W, models.affinity, models.log_prior, totals)

    def reorder(self, order: NDArray[np.int64]) -> None:
        """Reorder the classes: class i becomes what class order[i] was."""
        self.W.reorder(order)

    def fetch(self) -> NDArray[Any]:
        """Return the memberships as an array, shape (n, K)."""
        return np.asarray(self.W)
