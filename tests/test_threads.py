"""Threads: how many, and that their number changes nothing but the time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from joblib import Parallel, cpu_count, delayed
from numba.core.compiler_lock import global_compiler_lock
from threadpoolctl import threadpool_info, threadpool_limits

from nodeproof import NodeClassifier
from nodeproof.datasets import make_planted
from nodeproof.errors import InputError
from nodeproof.runtime import threads
from nodeproof.terms import Gaussian, Labels


def test_ranges_cover_every_row_once_and_in_order(monkeypatch):
    monkeypatch.setattr(threads, "ROWS", 10)
    for jobs in (1, 2):
        with threads.using(jobs):
            assert threads.map_rows(lambda lo, hi: (lo, hi), 25, 3) == [(3, 13), (13, 23), (23, 25)]


def test_sums_are_taken_in_the_same_order_on_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(threads, "ROWS", 7)
    values = np.random.default_rng(0).standard_normal((1000, 3)) * 10.0 ** np.arange(3)
    sums = []
    for jobs in (1, 2, 4):
        with threads.using(jobs):
            sums.append(threads.sum_rows(lambda lo, hi: values[lo:hi].sum(axis=0), 1000))
    assert all((total == sums[0]).all() for total in sums)


def test_every_core_is_used_unless_the_environment_says_less(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert threads.default_threads() == cpu_count()
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert threads.default_threads() == 1
    for nonsense in ("", "many", "0"):
        monkeypatch.setenv("OMP_NUM_THREADS", nonsense)
        assert threads.default_threads() == cpu_count()


def test_no_more_threads_are_started_than_cores_can_serve():
    before = threading.active_count()
    assert threads.count_threads(10**6) == 4 * cpu_count()
    with threads.using(10**6):
        assert threading.active_count() - before < 4 * cpu_count()
    assert threading.active_count() == before


def test_threads_end_where_another_cannot_be_started(monkeypatch):
    before, start = threading.active_count(), threading.Thread.start

    def start_two(thread):
        if threading.active_count() >= before + 2:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_two)
    with pytest.raises(InputError, match="cannot start 4 threads"), threads.using(4):
        pass
    assert threading.active_count() == before


@pytest.mark.parametrize("n_jobs", [0, 1.5, "2", True])
def test_a_number_of_threads_is_an_integer(n_jobs):
    with pytest.raises(InputError, match="n_jobs must"), threads.using(n_jobs):
        pass


@pytest.mark.skipif(cpu_count() < 2, reason="needs two cores")
def test_worker_processes_share_the_cores(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    told = Parallel(cpu_count())(delayed(threads.default_threads)() for _ in range(2))
    assert set(told) == {1}


def test_overlapping_uses_keep_blas_on_one_thread_and_give_its_threads_back():
    """As when two threads fit at once: the first to begin is also the first to end."""

    def blas_threads():
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    with threadpool_limits(limits=2):
        before = blas_threads()  # a library may have been built for one thread
        assert 2 in before
        first, second = threads.using(1), threads.using(1)
        first.__enter__()
        second.__enter__()
        assert blas_threads() == {1}
        first.__exit__(None, None, None)
        assert blas_threads() == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == before


# Limits are those of a process: what other tests have left behind must not count.
LIMITS = """
import threading
import scipy.linalg, sklearn.cluster
from threadpoolctl import threadpool_info, threadpool_limits
from nodeproof.runtime import threads

def pools():
    return {pool["num_threads"] for pool in threadpool_info()}

found = []

def use():
    with threads.using(1):
        found.append(pools())

def in_another_thread():
    other = threading.Thread(target=use)
    other.start()
    other.join()

with threadpool_limits(limits=2):
    before = pools()
    with threads.using(1):
        assert pools() == {1}, pools()
        in_another_thread()
    assert pools() == before, pools()
    in_another_thread()  # where the main thread was the last to set limits
    assert pools() == before, pools()
assert found == [{1}, {1}], found
"""


def test_every_thread_that_fits_is_limited_whoever_limited_before():
    subprocess.run([sys.executable, "-c", LIMITS], check=True)


def test_an_error_in_a_range_reaches_the_caller(monkeypatch):
    monkeypatch.setattr(threads, "ROWS", 1)

    def fail(lo, hi):
        raise ZeroDivisionError(lo)

    with threads.using(2), pytest.raises(ZeroDivisionError):
        threads.map_rows(fail, 5)


# Processes that are forked meanwhile. ---------------------------------------------------


def fit():
    data = make_planted(2, 40, random_state=0)
    clf = NodeClassifier(
        terms=[Gaussian("full"), Labels()], weights="calibrated", n_init=1, max_iter=3, n_jobs=2
    )
    return clf.fit(data.X, data.y, graph=data.graph).labels_


def fork_and(work):
    """Do some work in a forked process; tell how that ended, None if it did not."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")


@needs_fork
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:the fit reached max_iter")
@pytest.mark.parametrize("where", ["a cached property", "the limit of BLAS", "a compilation"])
def test_a_process_forked_while_another_thread_fits_can_fit(monkeypatch, where):
    expected, work, inside = fit(), fit, threading.Event()

    def slowed_down(usual):
        def slowly(*arguments):
            if threading.current_thread() is other:
                inside.set()
                time.sleep(0.5)
            return usual(*arguments)

        return slowly

    if where == "a cached property":
        center = vars(Gaussian)["center"]
        monkeypatch.setattr(center, "func", slowed_down(center.func))
    elif where == "the limit of BLAS":
        monkeypatch.setattr(threads, "_controller", slowed_down(threads._controller))
    else:
        work = global_compiler_lock(slowed_down(bool))
    other = threading.Thread(target=work)
    other.start()
    assert inside.wait(60)

    def check():
        with global_compiler_lock:
            assert (fit() == expected).all()

    assert fork_and(check) == 0
    other.join()


@needs_fork
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_process_forked_within_a_fit_has_threads_of_its_own():
    def check():
        assert threads.map_each(lambda k: threading.get_ident(), 8) == [threading.get_ident()] * 8
        with threads.using(2):
            assert threading.active_count() == 2
            assert threads.map_each(lambda k: k, 8) == list(range(8))

    with threads.using(2):
        assert fork_and(check) == 0


@needs_fork
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_does_not_wait_for_fits_of_its_parent_to_give_blas_its_threads_back():
    def blas_threads():
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    with threadpool_limits(limits=2, user_api="blas"):
        before, begun, over = blas_threads(), threading.Event(), threading.Event()

        def use():
            with threads.using(1):
                begun.set()
                over.wait(60)

        other = threading.Thread(target=use)
        other.start()
        assert begun.wait(60)

        def check():
            with threads.using(1):
                assert blas_threads() == {1}
            assert blas_threads() == before

        try:
            assert fork_and(check) == 0
            assert blas_threads() == {1}
        finally:
            over.set()
            other.join()
