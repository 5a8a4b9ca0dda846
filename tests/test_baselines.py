"""Baselines: each does what its paper says, as well as it can, and copes with odd data."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import nodeproof
from nodeproof.datasets import make_planted
from nodeproof.errors import InputError
from nodeproof.metrics import matched_accuracy
from nodeproof.paper import baselines
from nodeproof.paper.baselines import evidence
from nodeproof.terms import Covariance, NodeData

pytestmark = pytest.mark.numeric

# Spectral clustering. ------------------------------------------------------------------


@pytest.mark.parametrize("cluster_size", [20, 100], ids=["dense eigenvectors", "ARPACK"])
def test_spectral_clustering_finds_dense_parts(cluster_size):
    data = make_planted(cluster_size=cluster_size, p=0.5, q=0.05, random_state=0)
    found = baselines.spectral_clustering(data.graph, 3, random_state=0)
    assert found.dtype == np.int64
    assert matched_accuracy(data.y_true, found) > 0.98
    again = baselines.spectral_clustering(data.graph, 3, random_state=0)
    np.testing.assert_array_equal(found, again)


@pytest.mark.parametrize("size", [20, 120], ids=["dense eigenvectors", "ARPACK"])
def test_spectral_clustering_finds_the_parts_of_a_disconnected_graph(size, random_graph):
    parts = [random_graph(size, density=0.3, seed=seed) for seed in range(3)]
    found = baselines.spectral_clustering(sp.block_diag(parts), 3, random_state=0)
    assert matched_accuracy(np.repeat([0, 1, 2], size), found) == 1.0


def test_nodes_without_links_do_not_take_a_cluster():
    data = make_planted(n_clusters=2, cluster_size=60, p=0.5, q=0.05, random_state=0)
    graph = sp.block_diag([data.graph, sp.csr_array((40, 40))])
    found = baselines.spectral_clustering(graph, 2, random_state=0)
    assert matched_accuracy(data.y_true, found[:120]) == 1.0
    assert len(set(found[120:])) == 1


def test_spectral_clustering_of_a_graph_without_links_is_one_class():
    assert (baselines.spectral_clustering(sp.csr_array((30, 30)), 3) == 0).all()


@pytest.mark.parametrize("n_classes", [1, 2, 27, 29, 30])
def test_spectral_clustering_copes_with_any_number_of_classes(n_classes, random_graph):
    found = baselines.spectral_clustering(random_graph(30), n_classes, random_state=0)
    assert len(np.unique(found)) == n_classes
    assert found.max() == n_classes - 1


def test_fewer_linked_nodes_than_classes():
    graph = sp.csr_array((np.ones(2), ([0, 1], [1, 0])), shape=(30, 30))
    assert set(baselines.spectral_clustering(graph, 5, random_state=0)) <= set(range(5))


# A semidefinite program. ---------------------------------------------------------------


def test_the_semidefinite_program_finds_dense_parts():
    data = make_planted(cluster_size=40, p=0.5, q=0.05, random_state=0)
    found = baselines.sdp_clustering(data.graph, 3, random_state=0)
    assert found.dtype == np.int64
    assert matched_accuracy(data.y_true, found) > 0.98
    np.testing.assert_array_equal(found, baselines.sdp_clustering(data.graph, 3, random_state=0))


def test_the_semidefinite_program_of_a_graph_without_links_is_one_class():
    assert (baselines.sdp_clustering(sp.csr_array((30, 30)), 3) == 0).all()


# Graph neural networks. ----------------------------------------------------------------


@pytest.fixture
def shifted():
    """Data whose classes differ in their means, which networks can tell apart."""
    data = make_planted(cluster_size=40, p=0.3, q=0.02, label_ratio=0.2, random_state=0)
    means = np.eye(3, data.X.shape[1]) * 3
    return data, data.X + means[data.y_true]


@pytest.mark.any_cpu
@pytest.mark.parametrize("kind", ["gcn", "graphsage", "gat"])
def test_networks_learn_and_leave_torch_as_it_was(kind, shifted):
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    data, X = shifted
    torch.manual_seed(5)
    before, n_threads = torch.get_rng_state(), torch.get_num_threads()
    found = baselines.graph_network(data.graph, X, data.y, 3, kind, random_state=1)
    assert np.mean(found == data.y_true) > 0.9
    again = baselines.graph_network(data.graph, X, data.y, 3, kind, random_state=1)
    np.testing.assert_array_equal(found, again)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == n_threads


def test_what_networks_cannot_use_is_named(shifted):
    pytest.importorskip("torch_geometric")
    data, X = shifted
    with pytest.raises(InputError, match="kind must be one of gcn"):
        baselines.graph_network(data.graph, X, data.y, 3, "mlp")
    with pytest.raises(InputError, match="120 nodes but X has 119 rows"):
        baselines.graph_network(data.graph, X[1:], data.y[1:], 3)
    with pytest.raises(InputError, match="holds no label"):
        baselines.graph_network(data.graph, X, np.full(120, -1), 3)


# Label propagation. --------------------------------------------------------------------


def test_label_propagation_is_the_harmonic_function_at_the_shares_of_the_labels(hard):
    known = hard.y >= 0
    A = hard.graph.toarray().astype(float)
    walk = A / A.sum(axis=1, keepdims=True)
    free = ~known
    indicators = np.eye(3)[hard.y[known]]
    harmonic = np.linalg.solve(
        np.eye(free.sum()) - walk[np.ix_(free, free)], walk[np.ix_(free, known)] @ indicators
    )
    shares = indicators.mean(axis=0)
    masses = harmonic.sum(axis=0) + indicators.sum(axis=0)
    slow = (harmonic * shares / masses).argmax(axis=1)
    found = baselines.label_propagation(hard.graph, hard.y, 3)
    np.testing.assert_array_equal(found[known], hard.y[known])
    np.testing.assert_array_equal(found[free], slow)


def test_label_propagation_finds_planted_classes_and_weights_count(easy):
    found = baselines.label_propagation(easy.graph, easy.y, 3)
    assert found.dtype == np.int64
    assert (found == easy.y_true).mean() > 0.95
    star = np.array([[0, 1, 5], [1, 0, 0], [5, 0, 0]])
    np.testing.assert_array_equal(baselines.label_propagation(star, [-1, 0, 1], 2), [1, 0, 1])


def test_nodes_that_no_label_reaches_get_the_most_frequent_one():
    pair = np.array([[0, 1], [1, 0]])
    graph = sp.block_diag([pair, pair, pair, pair, np.zeros((1, 1))])
    y = np.array([1, -1, 1, -1, 0, -1, -1, -1, -1])
    found = baselines.label_propagation(graph, y, 4)
    np.testing.assert_array_equal(found, [1, 1, 1, 1, 0, 0, 1, 1, 1])


# The Gaussian classifier. --------------------------------------------------------------


def test_the_gaussian_classifier_is_close_to_the_genie(easy):
    found = baselines.gaussian_classifier(easy.X, easy.y, 3)
    assert found.dtype == np.int64
    assert (found == easy.y_true).mean() > easy.genie_accuracy("F") - 0.03


@pytest.mark.parametrize("labels", [1, 2])
def test_very_few_labels_a_class_are_enough_to_beat_chance(labels):
    data = make_planted(omega=0.04, label_ratio=labels / 300, random_state=0)
    found = baselines.gaussian_classifier(data.X, data.y, 3)
    assert (found == data.y_true).mean() > 0.45


def test_a_class_without_a_label_is_never_predicted(easy):
    y = np.where(easy.y == 1, -1, easy.y)
    assert set(baselines.gaussian_classifier(easy.X, y, 3)) == {0, 2}
    found = baselines.ir_map(easy.graph, easy.X, y, n_classes=3, random_state=0)
    assert (found == easy.y_true).mean() > 0.95


def test_a_label_left_out_is_as_a_fit_without_it(hard):
    known = np.flatnonzero(hard.y >= 0)
    W = np.zeros((180, 3))
    W[known, hard.y[known]] = 1.0
    term = Covariance(shrinkage=0.3).bind(NodeData(3, hard.X))
    models = term.estimate(W)
    for v in known:
        without = W.copy()
        without[v] = 0.0
        slow = term.cost(term.estimate(without), v, v + 1)[0, hard.y[v]]
        cost = term.cost(models, v, v + 1)[:, hard.y[v]]
        weight = W.sum(axis=0)[[hard.y[v]]] + 0.3
        added = evidence._left_out(cost, models[[hard.y[v]]], weight)
        assert cost + added == pytest.approx(slow, rel=1e-5)


# What is given. ------------------------------------------------------------------------


def test_baselines_are_found_on_first_use():
    assert nodeproof.paper.baselines is baselines
    assert set(baselines.__all__) <= set(dir(baselines))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: baselines.ir_map(None, n_classes=3), "neither features nor a graph"),
        (lambda d: baselines.ir_ls(d.graph, n_classes=0), "n_classes must be a positive integer"),
        (lambda d: baselines.ir_ls(d.graph, n_classes=301), "more than the 300 nodes"),
        (lambda d: baselines.ir_ls(d.graph, n_classes=3, n_starts=0), "n_starts must be"),
        (lambda d: baselines.ir_ls(d.graph, n_classes=3, max_iter=0), "max_iter must be"),
        (lambda d: baselines.ir_map(d.graph, d.X[:9], n_classes=3), "300 nodes but"),
        (lambda d: baselines.ir_map(None, d.X, d.y[:9], n_classes=3), "one entry per node"),
        (lambda d: baselines.ir_map(None, d.X, d.y + 0.5, n_classes=3), "integers 0…2"),
        (lambda d: baselines.ir_map(None, d.X, d.y + 1, n_classes=3), "integers 0…2"),
        (lambda d: baselines.ir_map(None, d.X[0], n_classes=3), "one row per node"),
        (lambda d: baselines.ir_map(None, d.graph, n_classes=3), "dense array"),
        (lambda d: baselines.ir_map(None, np.full((9, 2), np.nan), n_classes=3), "NaN at row 0"),
        (lambda d: baselines.spectral_clustering(d.graph, 301), "more than the 300 nodes"),
        (lambda d: baselines.label_propagation(d.graph, np.full(300, -1), 3), "no label"),
        (lambda d: baselines.label_propagation(d.graph, d.y, 2), "integers 0…1"),
        (lambda d: baselines.gaussian_classifier(d.X, np.full(300, -1), 3), "no label"),
        (lambda d: baselines.gaussian_classifier(d.X, ["a"] * 300, 3), "integers 0…2"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_named(call, message, easy):
    with pytest.raises(InputError, match=message):
        call(easy)
