"""Run a function over fixed ranges of rows, on one thread or on several.

The ranges depend on the number of rows alone and partial results are summed in their order,
so the bits of a result do not depend on the number of threads. BLAS is kept to one thread
meanwhile: its own pools would split sums differently, and fight for the same cores.

A process may be forked at any moment, by any thread. Its child has the thread that forked it, and
no other: the crews of the others are forgotten, and no lock is held that nobody will release.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import cache, partial
from itertools import pairwise
from numbers import Integral
from queue import SimpleQueue
from threading import Lock, Thread, local
from typing import Any, TypeVar

import numpy as np
import psutil
import threadpoolctl
from joblib import effective_n_jobs
from numba.core.compiler_lock import global_compiler_lock
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from nodeproof.errors import InputError

__all__ = [
    "ROWS",
    "available",
    "check_jobs",
    "count_threads",
    "default_threads",
    "map_each",
    "map_rows",
    "serve",
    "share",
    "sum_rows",
    "together",
    "using",
]

T = TypeVar("T")

#: rows in one range: small enough to share out, large enough not to notice the sharing
ROWS = 4096

# More threads on a core only wait for each other.
_MOST_A_CORE = 4
_lock = Lock()
_limiters = 0
_own = local()  # how many of the limiters are this thread's
_limit: Any = None
_found: tuple[tuple[int, str], ThreadpoolController] | None = None


class _Crew:
    """Threads that wait for work beside the one that hands it out.

    An executor would take a lock and a future for every call; a sweep hands out work hundreds
    of times, a fraction of a millisecond each.
    """

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        self.process = os.getpid()
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._done: SimpleQueue[BaseException | None] = SimpleQueue()
        self._busy = Lock()
        self._context = copy_context()
        self._context.run(_crew.set, None)  # what a task calls is not shared out again
        self._threads: list[Thread] = []
        try:
            for _ in range(n_threads - 1):
                self._start()
        except RuntimeError as error:
            self.dismiss()  # else they would wait for ever, and keep others from being started
            raise InputError(f"cannot start {n_threads} threads, {error}: ask for fewer") from None

    def _start(self) -> None:
        thread = Thread(target=self._context.copy().run, args=(self._work,), daemon=True)
        thread.start()
        self._threads.append(thread)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except BaseException as error:
                self._done.put(error)
            else:
                self._done.put(None)
            del task  # and what it holds

    def run(self, tasks: list[Callable[[], None]]) -> None:
        """Run all tasks, the first on this thread, and wait for them."""
        if not self._busy.acquire(blocking=False):  # another thread has the crew: do it all here
            for task in tasks:
                task()
            return
        self._run(tasks)

    def run_together(self, function: Callable[[int, int], None]) -> bool:
        """Call ``function(thread, n_threads)`` on all threads; False if they are not to be had."""
        if not self._busy.acquire(blocking=False):
            return False
        n = self.n_threads
        self._run([partial(function, thread, n) for thread in range(n)])
        return True

    def _run(self, tasks: list[Callable[[], None]]) -> None:
        try:
            for task in tasks[1:]:
                self._tasks.put(task)
            failed: list[BaseException] = []
            try:
                _without_crew(tasks[0])
            except BaseException as error:
                failed.append(error)
            for _ in tasks[1:]:
                failed += self._wait()
        finally:
            self._busy.release()
        if failed:
            raise failed[0]

    def _wait(self) -> list[BaseException]:
        """Return what one task failed with, if it did; Ctrl-C counts, but after the task."""
        interrupted: list[BaseException] = []
        while True:
            try:
                error = self._done.get()
            except KeyboardInterrupt as stop:
                interrupted.append(stop)
                continue
            return interrupted + ([] if error is None else [error])

    def dismiss(self) -> None:
        """End the threads."""
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join()


def _without_crew(task: Callable[[], None]) -> None:
    token = _crew.set(None)
    try:
        task()
    finally:
        _crew.reset(token)


_crew: ContextVar[_Crew | None] = ContextVar("nodeproof_crew", default=None)


def _current_crew() -> _Crew | None:
    """Return the crew to share work with; that of a parent process has no threads in this one."""
    crew = _crew.get()
    return crew if crew is not None and crew.process == os.getpid() else None


@contextmanager
def using(n_jobs: int | None) -> Iterator[None]:
    """Let the functions below run on this many threads (``None``: see `default_threads`)."""
    n_threads = count_threads(n_jobs)
    with _blas_on_one_thread():
        crew = _current_crew()
        if (1 if crew is None else crew.n_threads) == n_threads:
            yield
            return
        crew = _Crew(n_threads) if n_threads > 1 else None
        token = _crew.set(crew)
        try:
            yield
        finally:
            _crew.reset(token)
            if crew is not None:
                crew.dismiss()


def count_threads(n_jobs: int | None) -> int:
    """Return how many threads to use: as many as are asked for, but not far more than cores."""
    check_jobs(n_jobs)
    if n_jobs is None:
        return default_threads()
    return int(min(effective_n_jobs(n_jobs), _MOST_A_CORE * effective_n_jobs(-1)))


def check_jobs(n_jobs: Any) -> None:
    """Raise an error unless this says how many threads there shall be."""
    if n_jobs is None:
        return
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral):
        raise InputError(f"n_jobs must be an integer or None, got {n_jobs!r}")
    if n_jobs == 0:
        raise InputError("n_jobs must not be 0: give a number of threads, or None")


def _controller() -> ThreadpoolController:
    """Return what controls the pools of libraries; looking for these takes milliseconds."""
    global _found
    loaded = len(sys.modules), next(reversed(sys.modules))  # a library comes with a module
    if _found is None or _found[0] != loaded:
        _found = loaded, ThreadpoolController()
    return _found[1]


@contextmanager
def _blas_on_one_thread() -> Iterator[None]:
    # OpenBLAS has one limit for the whole process: the first to come sets it, the last to go lifts
    # it. OpenMP has one for each thread.
    global _limit, _limiters
    with _lock:
        _limiters += 1
        _own.limiters = _own_limiters() + 1
        if _limiters == 1:
            _take_control()
            _limit = _controller().limit(limits=1, user_api="blas")
        if _own.limiters == 1:
            _own.limit = _controller().limit(limits=1, user_api="openmp")
    try:
        yield
    finally:
        with _lock:
            _limiters -= 1
            _own.limiters -= 1
            if _own.limiters == 0:
                _own.limit.restore_original_limits()
            _lift_unused_limit()


def _own_limiters() -> int:
    return getattr(_own, "limiters", 0)


def _lift_unused_limit() -> None:
    global _limit
    if _limiters == 0 and _limit is not None:
        _take_control()
        _limit.restore_original_limits()
        _limit = None


def _take_control() -> None:
    """Let this thread set the limit of OpenBLAS: newer threadpoolctl obeys one thread only."""
    controller = getattr(threadpoolctl, "OpenBLASController", None)
    if controller is not None and hasattr(controller, "clear_controlling_thread"):
        controller.clear_controlling_thread(force=True)


def _before_fork() -> None:
    # Other threads finish what they do under these locks: numba's is held while it compiles.
    global_compiler_lock.acquire()
    _lock.acquire()


def _after_fork() -> None:
    _lock.release()
    global_compiler_lock.release()


def _after_fork_in_child() -> None:
    global _limiters
    _limiters = _own_limiters()  # the other threads are gone
    _lift_unused_limit()
    _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child
    )


def default_threads() -> int:
    """Return the number of cores, or less where OMP_NUM_THREADS says so.

    joblib sets that variable in its worker processes, so that they do not fight for the cores.
    """
    cores = int(effective_n_jobs(-1))
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(asked)) if asked.isdecimal() and int(asked) > 0 else cores


def available() -> int:
    """Return how many threads work is shared with here: one inside of what is shared already."""
    crew = _current_crew()
    return 1 if crew is None else crew.n_threads


def map_rows(function: Callable[[int, int], T], stop: int, start: int = 0) -> list[T]:
    """Return ``function(lo, hi)`` for the ranges that cut start…stop, in their order."""
    if stop - start <= ROWS:  # most graphs: no threads to start
        return [function(start, stop)] if stop > start else []
    ranges = [(lo, min(lo + ROWS, stop)) for lo in range(start, stop, ROWS)]
    return map_each(lambda k: function(*ranges[k]), len(ranges))


def share(function: Callable[[int, int], None], start: int, stop: int, cell: int) -> None:
    """Call ``function(lo, hi)`` for ranges that cut start…stop, one per thread.

    They are cut at multiples of `cell`, so whatever the function adds up for each cell does
    not depend on the number of threads.
    """
    crew = _current_crew()
    first = start // cell
    cells = (stop - 1) // cell - first + 1
    n_threads = 1 if crew is None else min(crew.n_threads, cells)
    if crew is None or n_threads == 1:
        function(start, stop)
        return
    cuts = [(first + cells * k // n_threads) * cell for k in range(1, n_threads)]
    ends = [start, *cuts, stop]
    crew.run([partial(function, lo, hi) for lo, hi in pairwise(ends)])


def together(function: Callable[[int, int], None]) -> None:
    """Call ``function(thread, n_threads)`` on all threads at the same time.

    They may wait for each other. Where the threads are busy with something else, there is one.
    """
    crew = _current_crew()
    if crew is None or not crew.run_together(function):
        function(0, 1)


def map_each(function: Callable[[int], T], count: int) -> list[T]:
    """Return ``function(k)`` for k = 0, 1, …, in their order."""
    crew = _current_crew()
    if crew is None or count <= 1:
        return [function(k) for k in range(count)]
    found: list[Any] = [None] * count
    waiting = iter(range(count))

    def work() -> None:
        # The next of a range of numbers is taken by one thread at a time.
        for k in waiting:
            found[k] = function(k)

    crew.run([work] * min(crew.n_threads, count))
    return found


def sum_rows(
    function: Callable[[int, int], NDArray[np.float64]], stop: int, start: int = 0
) -> NDArray[np.float64]:
    """Return the sum of ``function(lo, hi)`` over the ranges that cut start…stop."""
    total, *rest = map_rows(function, stop, start)
    for part in rest:
        total += part
    return total


@cache
def serve(parent: int) -> None:
    """Make this process a worker: Ctrl-C is for its parent, and it ends when that has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        # On Windows a process keeps the number of its parent when that has ended.
        while os.getppid() == parent and (os.name != "nt" or psutil.pid_exists(parent)):
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
