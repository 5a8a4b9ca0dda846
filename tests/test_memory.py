"""What would need more memory than there is, is refused before any of it is taken."""

from __future__ import annotations

import tracemalloc
from contextlib import contextmanager

import numpy as np
import pytest
import scipy.sparse as sp

from nodeproof import NodeClassifier, Problem, memory
from nodeproof.adjacency import check_adjacency
from nodeproof.baselines import spectral_clustering
from nodeproof.clustering import cluster_graph
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.memory import check_free
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
    with refused("dense .* matrices|GiB"):
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


def test_a_model_a_node_of_many_features(monkeypatch):
    """One covariance of 500 features takes 2 MB: CADO and CANO hold one for every node."""
    monkeypatch.setattr(memory, "available_memory", lambda: 2**29)
    X = np.random.default_rng(0).standard_normal((300, 500))
    y = np.arange(300) % 2
    with refused("a model a node would take"):
        nodes = NodeData(2, X, y)
        terms = [Covariance().bind(nodes), Labels().bind(nodes)]
        CADO(random_state=0).solve(Problem(None, terms, 2, (1.0, 2.5, 13.0)))
    with refused("a model a node would take"):
        NodeClassifier(solver="cano").fit(X, y, graph=np.ones((300, 300)))


def test_a_node_number_out_of_all_proportion():
    for links in (
        np.array([[0, 10**15, 1], [1, 2, 2]]),
        {"source": np.array([0]), "target": np.array([2**62])},
    ):
        with refused("number them from 0"):
            NodeClassifier(n_classes=2).fit(graph=links)


def test_more_classes_than_memory():
    with refused("take a smaller n_classes"):
        NodeClassifier(n_classes=10**13).fit(np.eye(3))
    with refused("more than the 3 nodes"):
        NodeClassifier(n_classes=1000).fit(np.eye(3))


def test_more_rows_than_memory(ring):
    with refused("needs about"):
        NodeClassifier(n_classes=100_000).fit(graph=ring)


def test_dense_copies_of_new_nodes():
    X = sp.csr_array((10**6, 10**6))
    with refused("judge fewer nodes at once"):
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
    with refused("it would take about 1 GiB of memory, and 1 GiB are free: take less"):
        check_free(2**30 + 1, "it", "take less")


def test_nothing_of_a_graph_is_square(ring):
    tracemalloc.start()
    graph = Graph(ring)
    graph.operator(0.5) @ np.ones((N, 1))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100 * 2**20
