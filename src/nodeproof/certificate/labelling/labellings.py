"""Better labellings: simulated annealing of single nodes and of whole clusters."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof import kernels
from nodeproof.certificate.labelling.instance import Instance

__all__ = ["improve_labelling"]

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

# Temperatures in units of what a link is worth to one end. Runs begin at one of these, in turn:
# low ones refine the best labelling, high ones find others. Dense graphs freeze early: on Amazon
# Photo a start at 3 ends at −254,200 and one at 20 at −260,700; on Citeseer 2 is better than 20.
_HOT = (0.3, 2.0, 20.0, 0.3, 2.0, 10.0)
_COLD = 0.05
# Sweeps of a run, of which every second moves clusters; twice as many in each further round.
_SWEEPS = 300
_ROUNDS = 3


def improve_labelling(
    instance: Instance,
    labels: Labels,
    *,
    seed: int,
    deadline: float,
    starts: Iterable[Labels] = (),
) -> Labels:
    """Return the best labelling that is found, never worse than `labels`.

    Parameters
    ----------
    instance : Instance
        The labelling problem; any signs of w and wt.
    labels : array of int, shape (n,)
        A labelling.
    seed : int
        Of all that is drawn; the same seed gives the same labelling, unless time is up.
    deadline : float
        When to stop, in seconds of `time.perf_counter`.
    starts : iterable of arrays of int, shape (n,)
        Other labellings to begin with.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp, time
    >>> from nodeproof.certificate.labelling.instance import Instance
    >>> ring = sp.csr_array(np.roll(np.eye(6), 1, axis=1) + np.roll(np.eye(6), -1, axis=1))
    >>> instance = Instance(ring, np.ones(6), 1.0, 0.5, np.zeros((6, 2)))
    >>> z = np.array([0, 1, 0, 1, 0, 1])
    >>> found = improve_labelling(instance, z, seed=0, deadline=time.perf_counter() + 1)
    >>> instance.value(found) <= instance.value(z)
    True
    """
    best = np.asarray(labels, dtype=np.int64)
    value = instance.value(best)
    for found in _candidates(instance, best, list(starts)):
        if instance.value(found) < value:
            best, value = found, instance.value(found)
    if instance.n_classes == 1 or instance.n_nodes == 0 or instance.several:
        return best
    annealing = _Annealing(instance, np.random.default_rng(seed))
    for sweeps in (_SWEEPS * 2**k for k in range(_ROUNDS)):
        for hot in _HOT:
            annealed = annealing.run(best, hot, sweeps, deadline)
            if annealed is None:
                return best
            found = instance.settle(annealed)
            if instance.value(found) < value:
                best, value = found, instance.value(found)
    return best


def _candidates(instance: Instance, labels: Labels, starts: list[Labels]) -> Iterator[Labels]:
    yield instance.settle(labels)
    for z in starts:
        yield instance.settle(z)


class _Annealing:
    """Runs of simulated annealing on one instance.

    Parameters
    ----------
    instance : Instance
        The labelling problem.
    rng : numpy.random.Generator
        What decides all draws.
    """

    def __init__(self, instance: Instance, rng: np.random.Generator) -> None:
        self._instance = instance
        self._rng = rng
        n, K = instance.n_nodes, instance.n_classes
        # Bonds exist only where links attract.
        self._clusters = instance.w > 0 and instance.adjacency.nnz > 0
        self._root = np.empty(n, dtype=np.int64)
        self._mass, self._paid = np.empty(n), np.empty((n, K))
        self._unit = self._temperature_unit()

    def _temperature_unit(self) -> float:
        """Return what a link is worth at one end, or a label where no link is worth anything."""
        instance = self._instance
        of_links = abs(instance.w) * _mean(instance.adjacency.data)
        of_costs = _mean(np.ptp(instance.costs, axis=1))
        return of_links or of_costs or 1.0

    def run(self, labels: Labels, hot: float, sweeps: int, deadline: float) -> Labels | None:
        """Return a labelling after cooling from a temperature, or None when time is up."""
        instance = self._instance
        z = labels.copy()
        sums = np.bincount(z, weights=instance.eta, minlength=instance.n_classes)
        totals = sums.astype(np.float64)
        for k, temperature in enumerate(np.geomspace(hot, _COLD, sweeps) * self._unit):
            if time.perf_counter() > deadline:
                return None
            self._sweep(z, totals, temperature, clusters=self._clusters and k % 2 == 0)
        return z

    def _sweep(self, z: Labels, totals: Array, temperature: float, clusters: bool) -> None:
        """Draw all labels anew, in place."""
        instance, A = self._instance, self._instance.adjacency
        problem = (
            A.indptr, A.indices, instance.weights, instance.eta, instance.costs, 2.0 * instance.w,
            2.0 * instance.wt, temperature,
        )  # fmt: skip
        uniform = self._rng.random(instance.n_nodes)
        if not clusters:
            kernels.anneal_nodes(*problem, uniform, z, totals)
            return
        bonds = self._rng.random(A.nnz // 2)
        kernels.anneal_clusters(
            *problem, bonds, uniform, z, totals, self._root, self._mass, self._paid
        )


def _mean(numbers: NDArray[Any]) -> float:
    return float(numbers.mean(dtype=np.float64)) if len(numbers) else 0.0
