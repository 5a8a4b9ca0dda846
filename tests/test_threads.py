"""Threads: how many, and that their number changes nothing but the time."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from joblib import Parallel, cpu_count, delayed
from threadpoolctl import threadpool_info, threadpool_limits

from nodeproof import threads
from nodeproof.errors import InputError


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


def test_an_error_in_a_range_reaches_the_caller(monkeypatch):
    monkeypatch.setattr(threads, "ROWS", 1)

    def fail(lo, hi):
        raise ZeroDivisionError(lo)

    with threads.using(2), pytest.raises(ZeroDivisionError):
        threads.map_rows(fail, 5)
