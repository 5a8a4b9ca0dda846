"""Large graphs: experts are judged on sampled neighbourhoods; graphs count as large here soon."""

import numpy as np
import pytest
import scipy.sparse as sp

from nodeproof import NodeClassifier
from nodeproof.auto import likelihoods, sampling
from nodeproof.auto.likelihoods import choose_likelihood
from nodeproof.auto.sampling import sample_to_judge
from nodeproof.datasets import make_planted
from nodeproof.graph import Graph
from nodeproof.terms import Covariance, Gaussian, NodeData

K = 3


@pytest.fixture
def large(monkeypatch):
    """Take all graphs for large ones."""
    monkeypatch.setattr(sampling, "MANY_ENTRIES", 0)


@pytest.fixture(scope="module")
def planted():
    return make_planted(K, 200, p=0.1, q=0.02, label_ratio=0.2, random_state=0)


def nodes_of(data, X=None):
    return NodeData(K, X, data.y, Graph(data.graph))


def test_small_graphs_are_judged_whole(planted):
    nodes = nodes_of(planted)
    sample = sample_to_judge(nodes, None)
    assert sample.nodes is nodes
    assert not sample.held.sampled


def test_judged_nodes_keep_their_labels_features_and_links(large, planted):
    sample = sample_to_judge(nodes_of(planted, planted.X), None)
    held = sample.held
    assert held.sampled
    np.testing.assert_array_equal(planted.y[held.among_all], held.codes)
    np.testing.assert_array_equal(sample.nodes.X[held.nodes], planted.X[held.among_all])
    degrees = np.diff(sp.csr_array(planted.graph).indptr)[held.among_all]
    few = degrees <= 30
    assert few.any()
    np.testing.assert_array_equal(np.diff(sample.nodes.graph.indptr)[held.nodes][few], degrees[few])


def test_links_of_a_sample_are_links_of_the_graph(large, planted):
    links = sp.coo_array(sample_to_judge(nodes_of(planted), None).nodes.graph.adjacency)
    assert (links != links.T).nnz == 0
    assert links.nnz <= planted.graph.nnz


def test_every_fold_misses_its_own_labels_only(large, planted):
    sample = sample_to_judge(nodes_of(planted), None)
    held, y = sample.held, sample.nodes.y
    for fold, seen in enumerate(held.y):
        hidden = np.flatnonzero(seen != y)
        np.testing.assert_array_equal(hidden, held.nodes[held.folds == fold])


def test_few_labels_are_judged_of_many(large, monkeypatch, planted):
    monkeypatch.setattr(sampling, "_JUDGED", 30)
    held = sample_to_judge(nodes_of(planted), None).held
    assert 20 <= len(held.nodes) <= 30
    assert len(np.unique(held.codes)) == K


@pytest.mark.parametrize("label_ratio", [0.01, 0.02, 0.05, 0.2])
def test_half_of_the_labels_or_more_name_the_classes(large, label_ratio):
    data = make_planted(K, 200, p=0.1, q=0.02, label_ratio=label_ratio, random_state=1)
    held = sample_to_judge(nodes_of(data), None).held
    assert 2 * len(held.nodes) <= (data.y >= 0).sum() + 1
    named = np.setdiff1d(np.flatnonzero(data.y >= 0), held.among_all)
    assert set(data.y[named]) == set(range(K))


def test_the_block_model_is_judged_by_a_fit_that_knows_the_classes(large, planted):
    clf = NodeClassifier(random_state=0).fit(None, planted.y, graph=planted.graph)
    listed = {row["expert"]: row for row in clf.choices_["experts"]["value"]}
    assert listed["block model"]["log_loss"] < 0.5 * np.log(K)


def test_links_alone_are_tried_where_features_leave_doubt(large, planted):
    noise = np.random.default_rng(0).standard_normal((len(planted.y), 12))
    clf = NodeClassifier(random_state=0).fit(noise, planted.y, graph=planted.graph)
    listed = {row["expert"]: row for row in clf.choices_["experts"]["value"]}
    assert listed["block model"]["log_loss"] < 0.5 * np.log(K)
    assert (clf.labels_ == planted.y_true)[planted.y < 0].mean() > 0.95


def test_covariances_of_many_features_are_not_for_large_graphs(monkeypatch, planted):
    X = np.random.default_rng(0).standard_normal((len(planted.y), 100))
    kind = {}
    for entries in (10**9, 0):
        monkeypatch.setattr(likelihoods, "MANY_ENTRIES", entries)
        kind[entries], _ = choose_likelihood(nodes_of(planted, X))
    assert isinstance(kind[10**9], Covariance)
    assert isinstance(kind[0], Gaussian)
    few, _ = choose_likelihood(nodes_of(planted, X[:, :8]))
    assert isinstance(few, Covariance)


def test_validation_labels_are_judged_instead(large, planted):
    nodes = np.flatnonzero(planted.y < 0)[:50][::-1]
    held = sample_to_judge(nodes_of(planted), (nodes, planted.y_true[nodes])).held
    assert not held.own
    np.testing.assert_array_equal(held.among_all, np.sort(nodes))
    np.testing.assert_array_equal(held.codes, planted.y_true[np.sort(nodes)])


@pytest.mark.parametrize("features", [False, True])
def test_large_planted_graphs_are_labelled_as_well_as_small_ones(large, planted, features):
    X = planted.X if features else None
    clf = NodeClassifier(random_state=0).fit(X, planted.y, graph=planted.graph)
    hidden = planted.y < 0
    assert (clf.labels_ == planted.y_true)[hidden].mean() > 0.95
    assert "sampled neighbourhoods" in clf.choices_["held_out"]["why"]
    assert clf.estimated_accuracy_[0] > 0.9


def test_neighbourhoods_are_not_sampled_where_the_block_model_is_certain(
    large, planted, monkeypatch
):
    def sampled(*_):
        raise AssertionError

    monkeypatch.setattr(sampling, "_neighbourhoods", sampled)
    clf = NodeClassifier(random_state=0).fit(None, planted.y, graph=planted.graph)
    why = {row["expert"]: row["why"] for row in clf.choices_["experts"]["value"]}
    assert "leaves nothing to add" in why["propagation"]


def test_a_pool_of_a_large_graph_judges_all_nodes(large):
    # Rings of neighbours: no block model, and many triangles.
    n = 600
    rows = np.arange(n)
    steps = [sp.eye_array(n, k=k) for k in (1, 2, 3)]
    graph = sum(steps) + sum(steps).T
    truth = rows * K // n
    rng = np.random.default_rng(0)
    y = np.where(rng.random(n) < 0.2, truth, -1)
    clf = NodeClassifier(random_state=0).fit(None, y, graph=graph)
    assert (clf.labels_ == truth)[y < 0].mean() > 0.9
    listed = {row["expert"]: row for row in clf.choices_["experts"]["value"]}
    assert "too many links" in listed["links"]["why"]
