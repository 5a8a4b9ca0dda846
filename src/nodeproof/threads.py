"""Run a function over fixed ranges of rows, on one thread or on several.

The ranges depend on the number of rows alone and partial results are summed in their order,
so the bits of a result do not depend on the number of threads. BLAS is kept to one thread
meanwhile: its own pools would split sums differently, and fight for the same cores.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import TypeVar

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

__all__ = ["ROWS", "default_threads", "map_each", "map_rows", "sum_rows", "using"]

T = TypeVar("T")

#: rows in one range: small enough to share out, large enough not to notice the sharing
ROWS = 4096

_lock = Lock()
_limiters = 0
_limit: threadpool_limits | None = None

_pool: ContextVar[Executor | None] = ContextVar("nodeproof_pool", default=None)


@contextmanager
def using(n_jobs: int | None) -> Iterator[None]:
    """Let the functions below run on this many threads (``None``: see `default_threads`)."""
    n_threads = default_threads() if n_jobs is None else effective_n_jobs(n_jobs)
    with _blas_on_one_thread():
        if n_threads == 1:
            yield
            return
        with ThreadPoolExecutor(n_threads) as pool:
            token = _pool.set(pool)
            try:
                yield
            finally:
                _pool.reset(token)


@contextmanager
def _blas_on_one_thread() -> Iterator[None]:
    # The limit is one for the whole process: the first to come sets it, the last to go lifts it.
    global _limit, _limiters
    with _lock:
        _limiters += 1
        if _limiters == 1:
            _limit = threadpool_limits(limits=1)
    try:
        yield
    finally:
        with _lock:
            _limiters -= 1
            if _limiters == 0 and _limit is not None:
                _limit.restore_original_limits()
                _limit = None


def default_threads() -> int:
    """Return the number of cores, or less where OMP_NUM_THREADS says so.

    joblib sets that variable in its worker processes, so that they do not fight for the cores.
    """
    cores = int(effective_n_jobs(-1))
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(asked)) if asked.isdecimal() and int(asked) > 0 else cores


def map_rows(function: Callable[[int, int], T], stop: int, start: int = 0) -> list[T]:
    """Return ``function(lo, hi)`` for the ranges that cut start…stop, in their order."""
    ranges = [(lo, min(lo + ROWS, stop)) for lo in range(start, stop, ROWS)]
    pool = _pool.get()
    if pool is None or len(ranges) == 1:
        return [function(lo, hi) for lo, hi in ranges]
    return list(pool.map(lambda bounds: function(*bounds), ranges))


def map_each(function: Callable[[int], T], count: int) -> list[T]:
    """Return ``function(k)`` for k = 0, 1, …, in their order."""
    pool = _pool.get()
    if pool is None or count == 1:
        return [function(k) for k in range(count)]
    return list(pool.map(function, range(count)))


def sum_rows(
    function: Callable[[int, int], NDArray[np.float64]], stop: int, start: int = 0
) -> NDArray[np.float64]:
    """Return the sum of ``function(lo, hi)`` over the ranges that cut start…stop."""
    total, *rest = map_rows(function, stop, start)
    for part in rest:
        total += part
    return total
