"""What would need more memory than there is, is refused before any of it is taken."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from contextlib import contextmanager
from importlib import import_module

import numpy as np
import pytest
import scipy.sparse as sp

from nodeproof import NodeClassifier, Problem
from nodeproof.cli import main
from nodeproof.convex.clustering import cluster_graph
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.inputs.graph_objects import check_adjacency
from nodeproof.paper.baselines import spectral_clustering
from nodeproof.runtime import memory
from nodeproof.runtime.memory import check_free
from nodeproof.smoothing import dense_rows
from nodeproof.solvers import CADO
from nodeproof.terms import Covariance, Gaussian, Labels, NodeData

N = 200_000


@contextmanager
def refused(message, most=200 * 2**20):
    """Expect one clear line, and little memory taken on the way to it."""
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=message) as error:
            yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "\n" not in str(error.value)
    assert peak < most


@pytest.fixture(scope="module")
def ring():
    ahead = sp.diags_array([np.ones(N - 1)], offsets=[1], shape=(N, N)).tocsr()
    return ahead + ahead.T


@pytest.fixture(scope="module")
def y():
    return np.where(np.arange(N) % 100 == 0, np.arange(N) // 100 % 2, -1)


@pytest.mark.parametrize("solver", ["sdp", "admm", "cano"])
def test_a_large_convex_program(ring, y, solver):
    with refused("dense .* matrices|GB"):
        NodeClassifier(solver=solver, random_state=0).fit(y=y, graph=ring)


def test_a_large_convex_clustering(ring):
    with refused("convex clustering"):
        cluster_graph(ring)


def test_an_embedding_in_very_many_dimensions(ring):
    with refused("embedding", most=2**30):
        spectral_clustering(ring, N // 3)


@pytest.mark.parametrize("term", [Covariance(), Gaussian("full"), Gaussian("shared")])
def test_covariances_of_very_many_features(term):
    X = np.zeros((4, 100_000), dtype=np.float32)
    X[0] = 1.0
    with refused("at most 512 features"):
        NodeClassifier(terms=[term, Labels()]).fit(X, [0, 1, -1, -1])


def test_covariances_of_very_many_features_are_not_chosen():
    X = np.random.default_rng(0).standard_normal((8, 100_000)).astype(np.float32)
    clf = NodeClassifier(n_classes=2, n_init=1, max_iter=2, random_state=0).fit(X)
    assert "Gaussian(covariance='diagonal'" in clf.choices_["terms"]["value"][0]


def test_one_model_per_node_of_many_features(monkeypatch):
    """One covariance of 250 features takes 0.5 MB: CADO and CANO hold one for every node."""
    monkeypatch.setattr(memory, "available_memory", lambda: 2**27)
    X = np.random.default_rng(0).standard_normal((300, 250))
    y = np.arange(300) % 2
    with refused("one model per node would take"):
        nodes = NodeData(2, X, y)
        terms = [Covariance().bind(nodes), Labels().bind(nodes)]
        CADO(random_state=0).solve(Problem(None, terms, 2, (1.0, 2.5, 13.0)))
    with refused("one model per node would take"):
        NodeClassifier(solver="cano").fit(X, y, graph=np.ones((300, 300)))


def test_a_node_number_out_of_all_proportion():
    for links in (
        np.array([[0, 10**15, 1], [1, 2, 2]]),
        {"source": np.array([0]), "target": np.array([2**62])},
    ):
        with refused("number them from 0"):
            NodeClassifier(n_classes=2).fit(graph=links)


def test_more_classes_than_memory():
    with refused("use a smaller n_classes"):
        NodeClassifier(n_classes=10**13).fit(np.eye(3))
    with refused("exceeds the number of nodes, 3"):
        NodeClassifier(n_classes=1000).fit(np.eye(3))


def test_more_rows_than_memory(ring):
    with refused("this fit would take about"):
        NodeClassifier(n_classes=100_000).fit(graph=ring)


def test_dense_copies_of_new_nodes():
    X = sp.csr_array((10**6, 10**6))
    with refused("classify fewer nodes at once"):
        dense_rows(X)
    assert isinstance(dense_rows(np.eye(2)), np.ndarray)


def test_sparse_copies_of_dense_links(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 1000)
    with refused("a sparse copy of 400 links"):
        check_adjacency(np.ones((20, 20)))
    check_adjacency(np.eye(20)[::-1])


def test_all_that_is_free_may_be_taken(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 2**30)
    check_free(2**30, "it", "no")
    with refused("it would take about 1.1 GB of memory, but only 1.1 GB is free: take less"):
        check_free(2**30 + 1, "it", "take less")


def test_nothing_of_a_graph_is_square(ring):
    tracemalloc.start()
    graph = Graph(ring)
    graph.operator(0.5) @ np.ones((N, 1))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100 * 2**20


# How much there is. ---------------------------------------------------------------------

MIB = 2**20


def make_group(root, files, group):
    """Write the files of a control group, or of what a container shows of it."""
    folder = root / "sys/fs/cgroup" / group
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(f"{content}\n")


def groups_of(root, lines):
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text("".join(f"{line}\n" for line in lines))


def test_cached_files_of_a_container_are_not_in_use(tmp_path):
    groups_of(tmp_path, ["0::/"])
    usage = {"memory.max": 1000 * MIB, "memory.current": 900 * MIB}
    stat = f"anon {100 * MIB}\nfile {800 * MIB}\ninactive_anon 0\ninactive_file {700 * MIB}"
    make_group(tmp_path, usage | {"memory.stat": stat}, "")
    assert list(memory._left_of_groups(tmp_path)) == [800 * MIB]


def test_cached_files_of_an_older_container_are_not_in_use(tmp_path):
    groups_of(tmp_path, ["5:cpu:/docker/1f", "4:memory:/docker/1f", "0::/"])
    usage = {"memory.limit_in_bytes": 1000 * MIB, "memory.usage_in_bytes": 900 * MIB}
    stat = f"inactive_file 0\ntotal_inactive_file {700 * MIB}"
    # The group's own folder lies outside of what the container is shown.
    make_group(tmp_path, usage | {"memory.stat": stat}, "memory")
    assert list(memory._left_of_groups(tmp_path)) == [800 * MIB]


def test_limits_of_all_groups_around_a_process_hold(tmp_path):
    groups_of(tmp_path, ["0::/user/batch:1/job"])
    make_group(tmp_path, {"memory.max": "max", "memory.current": 1}, "user/batch:1/job")
    make_group(tmp_path, {"memory.max": 70 * MIB, "memory.current": 60 * MIB}, "user/batch:1")
    make_group(tmp_path, {"memory.max": 90 * MIB, "memory.current": 85 * MIB}, "user")
    make_group(tmp_path, {"memory.max": 2 * MIB, "memory.current": 2 * MIB}, "user/other")
    assert list(memory._left_of_groups(tmp_path)) == [10 * MIB, 5 * MIB]


def test_without_control_groups_or_limits_the_system_alone_tells(tmp_path):
    assert list(memory._left_of_groups(tmp_path)) == []
    groups_of(tmp_path, ["4:memory:/", "0::/"])
    unlimited = {"memory.limit_in_bytes": 2**63 - 4096, "memory.usage_in_bytes": 5}
    make_group(tmp_path, unlimited, "memory")
    assert list(memory._left_of_groups(tmp_path)) == []


def test_the_tightest_limit_counts(monkeypatch):
    monkeypatch.setattr(memory, "_left_of_own", lambda: [5 * MIB])
    monkeypatch.setattr(memory, "_left_of_groups", lambda: [7 * MIB, 6 * MIB])
    assert memory.available_memory() == 5 * MIB
    monkeypatch.setattr(memory, "_left_of_groups", lambda: [7 * MIB, -MIB])
    assert memory.available_memory() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to its limit")
def test_a_limit_of_address_space_counts():
    code = """
import resource
from nodeproof.runtime.memory import available_memory
free = available_memory()
import psutil
limit = psutil.Process().memory_info().vms + 2**28
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
told = available_memory()
print(told, bytearray(told // 2) is not None)
try:
    bytearray(told + 2**27)
except MemoryError:
    print("no more")
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    told, taken, more = run.stdout.split(maxsplit=2)
    assert 0 < int(told) <= 2**28
    assert (taken, more.strip()) == ("True", "no more")


LIMITED = """
import resource, sys
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
from nodeproof.cli import main
main(sys.argv[2:])
"""


def run_limited(limit, *arguments):
    command = [sys.executable, "-c", LIMITED, str(limit), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to its limit")
@pytest.mark.parametrize("megabytes", [100, 300, 500, 1000])
def test_a_limit_too_low_for_any_command_is_one_line(tmp_path, megabytes):
    """Without a check libraries end the process, fail to be imported, or wait for ever."""
    out = tmp_path / "out"
    run = run_limited(megabytes * 10**6, "demo", "--out", str(out))
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr.startswith("nodeproof: not enough memory: this process may use ")
    assert run.stderr.count("\n") == 1
    assert not out.exists()
    assert run_limited(megabytes * 10**6, "demo", "--help").returncode == 0


def fail_with(error, monkeypatch, tmp_path):
    """Run a command in which something fails."""

    def fail(*arguments):
        raise error

    monkeypatch.setattr(import_module("nodeproof.cli.demo"), "run_demo", fail)
    main(["demo", "--out", str(tmp_path)])


def failed_import():
    error = ImportError("no support for Parquet")
    error.__cause__ = ImportError("_parquet.so: failed to map segment from shared object")
    return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "not enough memory"),
        (MemoryError("Unable to allocate 3 TiB"), "not enough memory: Unable to allocate 3 TiB"),
        (RuntimeError("can't start new thread"), "not enough memory: can't start new thread"),
        (failed_import(), "not enough memory: no support for Parquet"),
    ],
)
def test_a_command_that_runs_out_of_memory_ends_with_one_line(
    monkeypatch, tmp_path, capsys, error, said
):
    with pytest.raises(SystemExit) as ended:
        fail_with(error, monkeypatch, tmp_path)
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"nodeproof: {said}\n"


def test_other_errors_are_not_put_down_to_memory(monkeypatch, tmp_path):
    with pytest.raises(RuntimeError, match="a bug"):
        fail_with(RuntimeError("a bug"), monkeypatch, tmp_path)
