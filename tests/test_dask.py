"""Fits on a Dask cluster of real worker processes, some of which are killed."""

from __future__ import annotations

import gc
import logging
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import compile_once
from cluster_helpers import links_held, rows_held, same_bits
from nodeproof import NodeClassifier, Problem
from nodeproof.datasets import make_planted
from nodeproof.distributed import DaskEngine
from nodeproof.distributed import engine as dask_engine
from nodeproof.distributed import layout as dask_layout
from nodeproof.distributed import memberships as dask_memberships
from nodeproof.errors import InputError, MissingExtraError
from nodeproof.graph import Graph
from nodeproof.solvers import BlockCADO, sweep
from nodeproof.storage.graph_folder import write_graph_folder
from nodeproof.storage.row_files import FileRows, mapped_file
from nodeproof.terms import Covariance, Labels, NodeData

distributed = pytest.importorskip("distributed", reason="distributed is not installed")

pytestmark = pytest.mark.filterwarnings("ignore:the fit reached max_iter")

K = 4
SETTINGS = {
    "n_classes": K,
    "terms": [Covariance(), Labels()],
    "weights": "calibrated",
    "n_init": 1,
    "max_iter": 3,
    "random_state": 0,
}


@pytest.fixture(autouse=True)
def few_batches(monkeypatch):
    """Of the batches, 64 as a rule, each takes as long as a message to and fro."""
    monkeypatch.setattr(sweep, "_BATCHES", 10)
    monkeypatch.setattr(sweep, "_BATCHES_PER_CLASS", 1)


def test_without_a_cluster_one_line_says_so():
    with pytest.raises(InputError, match=r"found no cluster: make a distributed\.Client first"):
        NodeClassifier(engine="dask").fit(None, [0, 1], graph=[[0, 1], [1, 0]])


def test_without_the_package_one_line_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'nodeproof\[dask\]'"):
        NodeClassifier(engine="dask").fit(None, [0, 1], graph=[[0, 1], [1, 0]])


@pytest.mark.parametrize("engine", ["spark", 4, object()])
def test_other_engines_are_refused(engine):
    with pytest.raises(InputError, match="engine must be None"):
        NodeClassifier(engine=engine).fit(None, [0, 1], graph=[[0, 1], [1, 0]])


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=4,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        silence_logs=logging.CRITICAL,
        preload=[compile_once.__file__],
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster):
    with distributed.Client(cluster) as client:
        client.wait_for_workers(4, timeout=120)
        yield client


@pytest.fixture(scope="module")
def data():
    """Of seven ranges of rows, so that no worker needs to hold more than two."""
    n = 28_000
    return make_planted(K, n // K, p=40 / n, q=5 / n, omega=0.5, label_ratio=0.02, random_state=0)


@pytest.fixture
def here(data):
    return NodeClassifier(**SETTINGS).fit(data.X, data.y, graph=data.graph)


def assert_same(there: NodeClassifier, here: NodeClassifier) -> None:
    assert there.n_iter_ == here.n_iter_ > 2
    assert same_bits(there.labels_, here.labels_)
    assert same_bits(there.proba_, here.proba_)
    assert there.objective_ == here.objective_
    assert there.history_ == here.history_


def test_a_cluster_finds_the_same_and_no_worker_holds_a_third(client, data, here):
    held, rows = [], []

    def look(progress):
        if progress.iteration == 1:
            held.extend(client.run(links_held).values())
            rows.extend(client.run(rows_held).values())

    there = NodeClassifier(engine=client, verbose=look, **SETTINGS)
    assert_same(there.fit(data.X, data.y, graph=data.graph), here)
    assert (here.labels_ == data.y_true).mean() > 0.95
    assert "on this machine: the judging of experts" in there.choices_["engine"]["why"]
    assert sum(held) == data.graph.nnz
    assert max(held) < data.graph.nnz / 3
    assert len(data.y) < sum(rows)  # their own, and copies of others for one step
    assert max(rows) < len(data.y) / 3
    wait_until(lambda: sum(client.run(links_held).values()) == 0)  # nothing is left behind


def test_slow_steps_leave_nothing_behind(client, data, monkeypatch):
    """Waits that time out, as they do where steps take long, must not keep what workers hold."""
    monkeypatch.setattr(dask_engine, "_WATCH", 0.001)
    collects = gc.isenabled()
    gc.disable()
    try:
        NodeClassifier(engine=client, **SETTINGS).fit(data.X, data.y, graph=data.graph)
        wait_until(lambda: sum(client.run(links_held).values()) == 0)
    finally:
        if collects:
            gc.enable()


def test_the_client_made_last_is_found_and_holds_no_row(client, data, tmp_path, monkeypatch):
    """Workers read links and features from files, and write their memberships to one."""
    write_graph_folder(tmp_path / "graph", data.graph)
    np.save(tmp_path / "X.npy", data.X)
    nodes = NodeData(K, np.load(tmp_path / "X.npy", mmap_mode="r"), data.y)
    terms = [Covariance().bind(nodes), Labels().bind(nodes)]
    problem = Problem(Graph(tmp_path / "graph"), terms, K)
    here = BlockCADO(n_init=1, max_iter=4).solve(problem)

    def fail(*arguments):
        raise AssertionError("the client reads, sends or gets what it should not")

    # Here, not there.
    monkeypatch.setattr(dask_layout, "cut_links", fail)
    monkeypatch.setattr(FileRows, "read", fail)
    monkeypatch.setattr(dask_memberships.DaskMemberships, "_gather", fail)
    (tmp_path / "scratch").mkdir()
    engine = DaskEngine(scratch=tmp_path / "scratch")
    there = BlockCADO(n_init=1, max_iter=4, engine=engine).solve(problem)
    assert mapped_file(there.W) is not None
    assert same_bits(there.W, here.W)
    assert there.value == here.value
    assert not list((tmp_path / "scratch").iterdir())  # what is mapped needs no name


def wait_until(holds) -> None:
    """Wait for what takes the scheduler a moment."""
    deadline = time.monotonic() + 240
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def kill_two(client, cluster):
    """Return a callback that kills workers, and a list of their addresses.

    One is killed after the first sweep, and another comes for it; one after the second, and none.
    """
    killed: list[str] = []

    def callback(progress):
        if progress.iteration not in (1, 2):
            return
        pids = client.run(os.getpid)
        held = client.run(links_held)
        address = max(held, key=held.get)
        assert held[address] > 0
        if progress.iteration == 2:
            nanny = next(w for w in cluster.workers.values() if w.worker_address == address)
            nanny.close_gracefully()
        os.kill(pids[address], signal.SIGKILL)
        killed.append(address)

    return callback, killed


def test_workers_killed_in_the_middle_of_a_fit_change_nothing(client, cluster, data, here):
    callback, killed = kill_two(client, cluster)
    there = NodeClassifier(engine=client, verbose=callback, **SETTINGS)
    assert_same(there.fit(data.X, data.y, graph=data.graph), here)
    assert len(killed) == 2
    wait_until(lambda: not {*killed} & {*client.scheduler_info(n_workers=-1)["workers"]})
    client.wait_for_workers(3, timeout=240)


@pytest.mark.slow
def test_a_cluster_finds_the_same_with_all_choices_left_open(client, monkeypatch):
    monkeypatch.undo()
    data = make_planted(5, 4000, p=0.004, q=0.0005, label_ratio=0.02, random_state=1)
    settings = {"random_state": 0, "max_iter": 20}
    here = NodeClassifier(**settings).fit(data.X, data.y, graph=data.graph)
    there = NodeClassifier(engine=client, **settings).fit(data.X, data.y, graph=data.graph)
    assert_same(there, here)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_workers_killed_at_any_moment_change_nothing(client, data, here, seed):
    rng = np.random.default_rng(seed)
    over = threading.Event()
    killed = []

    def kill_now_and_then():
        while len(killed) < 3 and not over.wait(rng.uniform(1.0, 6.0)):
            pids = client.run(os.getpid, on_error="ignore")
            if pids:
                killed.append(pids[rng.choice(sorted(pids))])
                os.kill(killed[-1], signal.SIGKILL)

    killer = threading.Thread(target=kill_now_and_then)
    killer.start()
    try:
        while len(killed) < 3:
            there = NodeClassifier(engine=client, **SETTINGS)
            assert_same(there.fit(data.X, data.y, graph=data.graph), here)
    finally:
        over.set()
        killer.join()


@pytest.mark.slow
def test_a_scheduler_that_is_killed_ends_the_fit_with_one_line(data, monkeypatch, tmp_path):
    monkeypatch.setattr(dask_engine, "_PATIENCE", 2.0)
    told = tmp_path / "scheduler.json"
    started = []

    def start(program, *arguments):
        command = [sys.executable, "-m", f"distributed.cli.dask_{program}", "--no-dashboard"]
        command += ["--scheduler-file", str(told), *arguments]
        started.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))

    def kill_the_scheduler(progress):
        if progress.iteration == 2:
            started[0].kill()

    try:
        start("scheduler", "--port", "0", "--host", "127.0.0.1")
        wait_until(told.exists)
        start("worker", "--no-nanny", "--nthreads", "1")
        with distributed.Client(scheduler_file=str(told), set_as_default=False) as client:
            client.wait_for_workers(1, timeout=120)
            fit = NodeClassifier(engine=client, verbose=kill_the_scheduler, **SETTINGS)
            with pytest.raises(InputError, match="scheduler of the Dask cluster is gone"):
                fit.fit(data.X, data.y, graph=data.graph)
    finally:
        for process in started:
            process.kill()
            process.wait()
