"""Estimates of the memory and time of a fit, before it starts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from rich.filesize import decimal

from nodeproof.problem import Problem
from nodeproof.runtime import threads
from nodeproof.runtime.memory import available_memory, check_free
from nodeproof.solvers.starts import choose_starts, points_of

__all__ = ["Needs", "check_rows", "needs_of"]

# Nanoseconds per link and sweep, where all memberships fit into the cache and where none do; and
# per entry of W.
_LINK_NEAR, _LINK_FAR, _ENTRY = 4.0, 12.0, 8.0
_CACHE = 2**25

# Sweeps until memberships have settled.
_SWEEPS = 10

# Bytes per second of a disk, where links must be read again in every sweep.
_DISK = 1e9


@dataclass(frozen=True)
class Needs:
    """What a fit needs beyond the data that it was given.

    Attributes
    ----------
    memory : int
        Bytes at most.
    available : int
        Bytes that are free.
    seconds : float
        Roughly how long it takes, compilation and the choice of settings aside.
    """

    memory: int
    available: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"needs about {decimal(self.memory)} of memory beside the data "
            f"({decimal(self.available)} are free) and roughly {_duration(self.seconds)}"
        )

    def check(self) -> None:
        """Refuse a fit that cannot fit into the memory."""
        remedy = "take fewer classes, a machine with more, or a cluster (engine='dask')"
        check_free(self.memory, "beside the data, this fit", remedy, free=self.available)


def check_rows(n_nodes: int, n_classes: int) -> None:
    """Refuse a fit whose memberships alone exceed the memory, before any setting is chosen."""
    Needs(_row_bytes(n_nodes, n_classes), available_memory(), 0.0).check()


def needs_of(
    problem: Problem,
    n_init: int | str = "auto",
    *,
    hard: bool = False,
    spread: bool = False,
    on_disk: bool = False,
) -> Needs:
    """Return what block CADO needs for a problem.

    Parameters
    ----------
    n_init : int or "auto"
        Number of starts.
    hard : bool
        Whether the temperature is 0.
    spread : bool
        Whether a cluster does the sweeps.
    on_disk : bool
        Whether it leaves the memberships in a file.
    """
    n, K = problem.n_nodes, problem.n_classes
    rows = 0 if on_disk else _row_bytes(n, K)
    starts = choose_starts(problem, n_init)
    # A copy of hard memberships for the result; of those on a cluster, the backup.
    copies = 1 + hard + spread
    waiting = sum(term.rounds is not None for term in problem.terms) if problem.calibrated else 0
    if waiting:
        copies += 4 + 2 * waiting
    made = [start for start in starts if not (on_disk and start == "labels")]
    memory = max([rows * copies, *(_start_bytes(problem, start) for start in made)])
    # Memberships of the best start so far; class numbers, degrees; costs.
    memory += rows * (len(starts) > 1) + 20 * n + 2**22
    sweep, available = _sweep_seconds(problem), available_memory()
    folder = None if problem.graph is None else problem.graph.folder
    if folder is not None:
        size = folder.indices.nbytes + folder.weights.nbytes
        if size + memory > available:
            sweep = max(sweep, size / _DISK)
    return Needs(int(memory), available, float(sweep * _SWEEPS * np.sqrt(len(starts))))


def _row_bytes(n_nodes: int, n_classes: int) -> int:
    return 4 * n_nodes * n_classes


def _start_bytes(problem: Problem, start: str) -> int:
    """Return the bytes that a start takes."""
    n, K = problem.n_nodes, problem.n_classes
    if start in ("spectral", "opposed"):
        return 20 * n * (K + 5)  # five blocks of vectors, some more than classes
    labels = problem.labels
    if start == "features" and (labels is None or not (labels >= 0).any()):
        X = points_of(problem)
        return 8 * (X.size if isinstance(X, np.ndarray) else 2 * X.nnz) + 2 * _row_bytes(n, K)
    return _row_bytes(n, K)


def _sweep_seconds(problem: Problem) -> float:
    n, K = problem.n_nodes, problem.n_classes
    entries = 0 if problem.graph is None else problem.graph.n_entries
    near = min(1.0, _CACHE / _row_bytes(n, K))
    link = near * _LINK_NEAR + (1.0 - near) * _LINK_FAR
    per_class = max(1.0, K / 10)
    return (entries * link * per_class + n * K * _ENTRY) * 1e-9 / threads.default_threads()


def _duration(seconds: float) -> str:
    if seconds < 1:
        return "a second"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
