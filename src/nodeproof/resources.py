"""What a fit will need: memory and time, told before it starts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nodeproof import threads
from nodeproof.errors import InputError
from nodeproof.io.memory import available_memory
from nodeproof.problem import Problem
from nodeproof.solvers.starts import choose_starts

__all__ = ["Needs", "needs_of"]

# Nanoseconds a link, a sweep: where all rows fit into the cache and where none do; and for each
# entry of a row.
_LINK_NEAR, _LINK_FAR, _ENTRY = 4.0, 12.0, 8.0
_CACHE = 2**25

# Sweeps until rows have settled: some, or many where nothing is known at the start.
_SWEEPS = 10

# Bytes a second that a disk delivers, where links must be read anew for every sweep.
_DISK = 1e9


@dataclass(frozen=True)
class Needs:
    """What a fit needs beyond the data that it was given.

    Attributes
    ----------
    memory : int
        Bytes at most.
    available : int
        Bytes there are.
    seconds : float
        Roughly how long it takes, compilation and the choice of settings aside.
    """

    memory: int
    available: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"needs about {_size(self.memory)} of memory beside the data "
            f"({_size(self.available)} are free) and roughly {_duration(self.seconds)}"
        )

    def check(self) -> None:
        """Refuse a fit that cannot fit into the memory."""
        if self.memory > self.available:
            raise InputError(
                f"this fit needs about {_size(self.memory)} of memory beside the data, and "
                f"{_size(self.available)} are free: take fewer classes, a machine with more, or "
                "a cluster (engine='dask')"
            )


def needs_of(problem: Problem, n_init: int | str = "auto", spread: bool = False) -> Needs:
    """Return what block CADO needs for a problem.

    Parameters
    ----------
    n_init : int or "auto"
        Number of starts.
    spread : bool
        Whether a cluster does the sweeps.
    """
    n, K = problem.n_nodes, problem.n_classes
    rows = 4 * n * K
    starts = len(choose_starts(problem, n_init))
    # The rows, those of the best start so far, a batch of new ones; class numbers and degrees.
    memory = rows * (1 + (starts > 1) + 1 / 64) + 40 * n + 8 * 2**18
    waiting = sum(term.rounds is not None for term in problem.terms) if problem.calibrated else 0
    memory += rows * waiting
    entries = 0 if problem.graph is None else problem.graph.n_entries
    near = min(1.0, _CACHE / max(rows, 1))
    link = near * _LINK_NEAR + (1.0 - near) * _LINK_FAR
    per_class = max(1.0, K / 10)
    sweep = (entries * link * per_class + n * K * _ENTRY) * 1e-9 / threads.default_threads()
    available = available_memory()
    folder = None if problem.graph is None else problem.graph.folder
    if folder is not None:
        size = folder.indices.nbytes + folder.weights.nbytes
        if size + memory > available:
            sweep = max(sweep, size / _DISK)
    return Needs(int(memory), available, float(sweep * _SWEEPS * np.sqrt(starts)))


def _size(n_bytes: float) -> str:
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20)):
        if n_bytes >= factor:
            return f"{n_bytes / factor:.3g} {unit}"
    return "less than 1 MiB"


def _duration(seconds: float) -> str:
    if seconds < 1:
        return "a second"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
