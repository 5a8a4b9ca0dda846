"""What a fit says it needs before it starts, and what it refuses."""

from __future__ import annotations

import logging
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from nodeproof import NodeClassifier, Problem
from nodeproof.datasets import make_planted
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.solvers import BlockCADO
from nodeproof.solvers import needs as resources
from nodeproof.solvers.needs import Needs, needs_of
from nodeproof.storage.graph_folder import write_graph_folder
from nodeproof.terms import Covariance, Gaussian, Labels, NodeData, Softmax

GIB = 2**30


def make_problem(n: int = 1000, K: int = 3, degree: int = 4) -> Problem:
    steps = list(range(1, degree // 2 + 1))
    ring = sp.diags_array([np.ones(n - k) for k in steps], offsets=steps, shape=(n, n)).tocsr()
    y = np.where(np.arange(n) % 10 == 0, np.arange(n) % K, -1)
    return Problem(Graph(ring + ring.T), [Labels().bind(NodeData(K, y=y))], K)


def test_larger_fits_need_more():
    small = needs_of(make_problem(200_000), 1)
    for other in (
        needs_of(make_problem(400_000), 1),
        needs_of(make_problem(200_000, K=6), 1),
        needs_of(make_problem(200_000), 2),
    ):
        assert other.memory > 1.2 * small.memory
        assert other.seconds > 1.2 * small.seconds
    more_links = needs_of(make_problem(200_000, degree=8), 1)
    assert more_links.memory == small.memory
    assert more_links.seconds > 1.2 * small.seconds


def test_copies_of_rows_count():
    problem = make_problem(100_000)
    rows = 4 * 100_000 * 3
    plain = needs_of(problem, 1).memory
    assert needs_of(problem, 1, hard=True).memory == plain + rows
    assert needs_of(problem, 1, spread=True).memory == plain + rows
    X = np.random.default_rng(0).standard_normal((100_000, 2)).astype(np.float32)
    nodes = NodeData(3, X, problem.labels, problem.graph)
    waiting = Problem(problem.graph, [Softmax(hops=0).bind(nodes), *problem.terms], 3)
    assert needs_of(waiting, 1).memory >= plain + 2 * rows


@pytest.fixture(scope="module")
def planted():
    return make_planted(
        10, 3000, p=10 / 3000, q=5 / 30_000, n_features=16, label_ratio=0.02, random_state=0
    )


@pytest.mark.parametrize(
    ("sources", "temperature", "n_init"),
    [
        ("G", 1, 1),
        ("GL", 1, 1),
        ("GL", 0, 1),
        ("GL", 1, 2),
        ("GFL", 1, 2),
        ("F", 1, 1),
        ("GSL", 1, 1),
    ],
)
def test_a_fit_takes_no_more_memory_than_it_said(planted, sources, temperature, n_init):
    nodes = NodeData(10, planted.X, planted.y, Graph(planted.graph))
    terms = {"L": Labels(), "F": Gaussian("full"), "S": Softmax(hops=1, rounds=1)}
    bound = [terms[letter].bind(nodes) for letter in sources if letter in terms]
    problem = Problem(nodes.graph if "G" in sources else None, bound, 10)
    solver = BlockCADO(temperature, n_init, max_iter=2, random_state=0, n_jobs=1)
    said = needs_of(problem, n_init, hard=temperature == 0).memory
    solver.solve(problem)  # what is compiled or imported on the way is not the fit's
    tracemalloc.start()
    solver.solve(problem)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert said / 4 < peak < said


def test_links_that_do_not_fit_into_memory_are_read_anew_for_every_sweep(tmp_path, monkeypatch):
    n = 2000
    problem = make_problem(n, degree=100)
    write_graph_folder(tmp_path / "graph", problem.graph.adjacency)
    on_disk = Problem(Graph(tmp_path / "graph"), problem.terms, 3)
    assert needs_of(on_disk, 1).seconds == needs_of(problem, 1).seconds
    monkeypatch.setattr(resources, "_DISK", 1e6)  # bytes a second
    assert needs_of(on_disk, 1).seconds == needs_of(problem, 1).seconds
    enough = needs_of(problem, 1).memory + 1000
    monkeypatch.setattr(resources, "available_memory", lambda: enough)
    size = on_disk.graph.indices.nbytes
    assert needs_of(on_disk, 1).seconds == pytest.approx(resources._SWEEPS * size / 1e6)
    needs_of(on_disk, 1).check()


# What is refused. -----------------------------------------------------------------------


def fail(*arguments, **settings):
    raise AssertionError("something was solved")


@pytest.mark.parametrize("sources", ["graph", "features", "all"])
def test_what_does_not_fit_is_refused_before_anything_is_solved(sources, easy, monkeypatch):
    """Settings, too, are chosen by solving."""
    monkeypatch.setattr(resources, "available_memory", lambda: 1000)
    monkeypatch.setattr(BlockCADO, "solve", fail)
    X = None if sources == "graph" else easy.X
    graph = None if sources == "features" else easy.graph
    with pytest.raises(InputError) as error:
        NodeClassifier().fit(X, easy.y, graph=graph)
    said = str(error.value)
    assert "this fit would take about" in said
    assert "is free" in said
    assert "\n" not in said


def test_starts_are_taken_into_account(easy, monkeypatch):
    problem = Problem(Graph(easy.graph), [], 3)
    one, three = needs_of(problem, 1), needs_of(problem, 3)
    monkeypatch.setattr(resources, "available_memory", lambda: (one.memory + three.memory) // 2)
    settings = {"n_classes": 3, "random_state": 0, "max_iter": 2}
    NodeClassifier(n_init=1, **settings).fit(graph=easy.graph)
    monkeypatch.setattr(BlockCADO, "solve", fail)
    with pytest.raises(InputError, match="this fit would take about"):
        NodeClassifier(n_init=3, **settings).fit(graph=easy.graph)


def test_only_block_cado_is_checked(easy, monkeypatch):
    monkeypatch.setattr(resources, "available_memory", lambda: 1000)
    clf = NodeClassifier(solver="cado", weights=(1.0, 2.5, 13.0), max_iter=3, random_state=0)
    clf.fit(easy.X, easy.y, graph=easy.graph)


# What is said. --------------------------------------------------------------------------


def test_it_is_said_once(easy, capsys, monkeypatch):
    # Where somebody listens, as pytest does, nothing is printed.
    monkeypatch.setattr(logging.getLogger("nodeproof"), "propagate", False)
    terms = [Covariance(), Labels()]
    clf = NodeClassifier(terms=terms, n_init=2, random_state=0)
    clf.set_params(verbose=True).fit(easy.X, easy.y, graph=easy.graph)
    lines = capsys.readouterr().err.splitlines()
    said = [line for line in lines if "of memory" in line]
    assert said == lines[:1]
    assert said[0].startswith("300 nodes: needs about ")
    clf.set_params(verbose=False).fit(easy.X, easy.y, graph=easy.graph)
    clf.set_params(verbose=lambda progress: None).fit(easy.X, easy.y, graph=easy.graph)
    assert capsys.readouterr().err == ""


def test_whoever_shows_the_progress_is_told(easy, capsys):
    class Screen:
        def __init__(self) -> None:
            self.told: list[Needs] = []
            self.sweeps = 0

        def announce(self, needs: Needs) -> None:
            assert self.sweeps == 0
            self.told.append(needs)

        def __call__(self, progress) -> None:
            self.sweeps += 1

    screen = Screen()
    NodeClassifier(random_state=0, verbose=screen).fit(easy.X, easy.y, graph=easy.graph)
    assert len(screen.told) == 1
    assert screen.sweeps > 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("memory", "seconds", "said"),
    [
        (1000, 0.001, "needs about 1.0 kB of memory beside the data (8.6 GB are free)"),
        (1000, 0.001, "roughly a second"),
        (3.5 * 2**20, 89.4, "3.7 MB"),
        (3.5 * 2**20, 89.4, "roughly 89 s"),
        (12.345 * GIB, 600, "13.3 GB"),
        (12.345 * GIB, 600, "roughly 10 min"),
        (1010 * GIB, 9000, "1.1 TB"),
        (GIB, 9000, "roughly 2.5 h"),
    ],
)
def test_needs_are_said_in_a_few_words(memory, seconds, said):
    assert said in str(Needs(int(memory), 8 * GIB, seconds))


def test_all_that_is_free_may_be_taken():
    Needs(GIB, GIB, 1.0).check()
    with pytest.raises(InputError, match=r"1\.1 GB .* is free: take fewer classes"):
        Needs(GIB + 1, GIB, 1.0).check()
