"""Memberships at temperature 0: one integer per node."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof import kernels
from nodeproof.affinity import Affinity
from nodeproof.graph import RowSums
from nodeproof.runtime import threads
from nodeproof.solvers.sweep import Charges, Sweeper

__all__ = ["OneHot", "sweep_labels"]

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
    >>> from nodeproof.solvers.assignments import OneHot
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
