"""Updates of a fitted model: new nodes, other links and other labels, without starting over."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from nodeproof import NodeClassifier
from nodeproof.datasets import make_planted
from nodeproof.errors import InputError
from nodeproof.inputs.knn import KnnGraph
from nodeproof.terms import Covariance, Labels, Multinomial


@pytest.fixture(scope="module")
def planted():
    return make_planted(cluster_size=100, p=0.15, q=0.03, label_ratio=0.2, random_state=0)


@pytest.fixture(scope="module")
def fitted(planted):
    return NodeClassifier(random_state=0).fit(planted.X, planted.y, graph=planted.graph).fitted_


def classifier(fitted):
    clf = NodeClassifier(random_state=0)
    clf._show(fitted)
    return clf


def test_corrected_and_new_labels_agree_with_a_full_fit(planted, fitted):
    y = planted.y.copy()
    rest = np.flatnonzero(y < 0)[:20]
    y[rest] = planted.y_true[rest]
    clf = classifier(fitted).update(y={int(v): int(y[v]) for v in rest})
    again = NodeClassifier(random_state=0).fit(planted.X, y, graph=planted.graph)
    assert (clf.fitted_.given == y).all()
    assert (clf.labels_ == again.labels_).mean() >= 0.99
    assert clf.objective_ == pytest.approx(again.objective_, rel=1e-3)
    assert clf.choices_["update"]["value"]["labels"] == 20


def test_the_model_before_the_update_stays_as_it_was(planted, fitted):
    proba, given = fitted.proba.copy(), fitted.given.copy()
    classifier(fitted).update(y={0: 1}, add=[(0, 150)])
    assert (fitted.proba == proba).all()
    assert (fitted.given == given).all()
    assert "update" not in fitted.choices


def test_an_array_of_labels_replaces_all_of_them(planted, fitted):
    y = planted.y.copy()
    y[np.flatnonzero(y >= 0)[:5]] = -1
    clf = classifier(fitted).update(y=y)
    assert (clf.fitted_.given == y).all()


def test_none_removes_a_label(planted, fitted):
    node = int(np.flatnonzero(planted.y >= 0)[0])
    clf = classifier(fitted).update(y={node: None})
    assert clf.fitted_.given[node] == -1


def test_a_new_class_is_refused(fitted):
    with pytest.raises(InputError, match="fit again"):
        classifier(fitted).update(y={0: 17})


def test_nothing_to_update_is_refused(fitted):
    with pytest.raises(InputError, match="all of them are None"):
        classifier(fitted).update()


def test_links_are_added_and_removed(planted, fitted):
    before = fitted.data.nodes.graph.adjacency
    assert len(fitted.data.nodes.graph.twins) == before.nnz  # kept, and not to be passed on
    u, v = (int(end[0]) for end in sp.triu(before).nonzero())
    clf = classifier(fitted).update(remove=[(u, v)])
    graph = clf.fitted_.data.nodes.graph
    assert graph.adjacency[u, v] == graph.adjacency[v, u] == 0
    assert (graph.indices[graph.twins] == np.repeat(np.arange(300), np.diff(graph.indptr))).all()
    clf.update(add=[(u, v)])
    again = clf.fitted_.data.nodes.graph
    assert (again.adjacency != before).nnz == 0
    assert (again.degrees == fitted.data.nodes.graph.degrees).all()


def test_new_nodes_agree_with_a_full_fit():
    data = make_planted(cluster_size=110, p=0.15, q=0.03, label_ratio=0.2, random_state=1)
    n = data.graph.shape[0]
    order = np.random.default_rng(0).permutation(n)
    A, X, y = sp.csr_array(data.graph)[order][:, order], data.X[order], data.y[order]
    old = n - 20
    clf = NodeClassifier(random_state=0).fit(X[:old], y[:old], graph=A[:old][:, :old])
    labels = clf.labels_
    clf.update(X[old:], y[old:], graph=A[old:])
    again = NodeClassifier(random_state=0).fit(X, y, graph=A)
    assert clf.proba_.shape == (n, 3)
    assert (clf.labels_[:old] == labels).mean() > 0.98
    assert (clf.labels_ == again.labels_).mean() >= 0.99
    assert clf.objective_ == pytest.approx(again.objective_, rel=1e-3)
    assert (clf.fitted_.data.nodes.graph.adjacency != A).nnz == 0


@pytest.mark.parametrize("change", [{"y": {0: 1, 5: 0}}, {"add": [(0, 150), (4, 200)]}])
def test_a_loaded_model_is_updated_to_the_same_bits(fitted, tmp_path, change):
    classifier(fitted).save(tmp_path / "model.npz")
    loaded = NodeClassifier.load(tmp_path / "model.npz").update(**change)
    clf = classifier(fitted).update(**change)
    assert (loaded.proba_ == clf.proba_).all()
    assert (loaded.labels_ == clf.labels_).all()
    assert loaded.objective_ == clf.objective_


def test_a_model_saved_without_its_data_says_so(fitted, tmp_path):
    classifier(fitted).save(tmp_path / "model.npz", data=False)
    with pytest.raises(InputError, match="without the data that an update needs"):
        NodeClassifier.load(tmp_path / "model.npz").update(y={0: 1})


def test_a_pair_that_is_listed_twice_counts_once_with_its_largest_weight(fitted):
    before = fitted.data.nodes.graph.adjacency
    free = np.argwhere(before.toarray() + np.eye(300) == 0)[0].tolist()
    clf = classifier(fitted).update(add=[[*free, 3.0], [*free[::-1], 2.0]])
    graph = clf.fitted_.data.nodes.graph
    assert (graph.adjacency != graph.adjacency.T).nnz == 0
    assert graph.adjacency[*free] == 3.0
    assert clf.choices_["update"]["value"]["links"] == 1


@pytest.mark.filterwarnings("ignore:.*fit again")
def test_links_of_any_weight_may_follow_where_all_were_removed(fitted):
    clf = classifier(fitted)
    pairs = np.argwhere(sp.triu(fitted.data.nodes.graph.adjacency).toarray())
    clf.update(remove=pairs)
    assert clf.fitted_.n_links == 0
    clf.update(add=[(0, 1, 4.0)])
    assert clf.fitted_.data.nodes.graph.adjacency[1, 0] == 4.0
    clf.update(add=[(0, 1, 1.0)])
    assert not clf.fitted_.data.nodes.graph.weighted


def test_probabilities_add_up_where_labels_of_one_class_are_left(planted, fitted, tmp_path):
    first = np.where(planted.y == 0, planted.y, -1)
    with pytest.warns(UserWarning, match="fit again"):
        clf = classifier(fitted).update(y=first)
    np.testing.assert_allclose(clf.proba_.sum(axis=1), 1.0, atol=1e-5)
    clf.save(tmp_path / "model.npz")
    assert (NodeClassifier.load(tmp_path / "model.npz").proba_ == clf.proba_).all()


def test_new_nodes_of_a_graph_of_neighbours_are_linked_to_theirs(planted):
    clf = NodeClassifier(terms=[Covariance(), Labels()], weights="calibrated", random_state=0)
    clf.fit(planted.X[:290], planted.y[:290], graph=KnnGraph(k=5))
    clf.update(planted.X[290:])
    degrees = np.diff(clf.fitted_.data.nodes.graph.indptr)
    assert (degrees[290:] >= 5).all()
    neighbours = clf.fitted_.new_nodes.neighbours
    assert neighbours.X.shape == planted.X.shape
    links = neighbours.links_of(planted.X[295:296])
    assert links.shape == (1, 300)
    assert links[0, 295] > 0


def test_new_nodes_may_come_with_features_of_the_other_container(planted):
    counts = np.random.default_rng(0).poisson(2.0, (300, 9)).astype(float)
    found = []
    for container in (np.asarray, sp.csr_array):
        clf = NodeClassifier(terms=[Multinomial(), Labels()], weights="calibrated", random_state=0)
        clf.fit(counts[:298], planted.y[:298], graph=planted.graph[:298][:, :298])
        found.append(clf.update(container(counts[298:]), graph=planted.graph[298:]).proba_)
    assert (found[0] == found[1]).all()


def test_features_are_still_watched_after_an_update_of_links(planted):
    X = planted.X.copy()
    clf = NodeClassifier(terms=[Covariance(), Labels()], weights="calibrated", random_state=0)
    clf.fit(X, planted.y, graph=planted.graph).update(add=[(0, 150)])
    X[0] += 1.0
    with pytest.raises(InputError, match="X was changed in place"):
        clf.update(y={1: 0})


def test_labels_of_one_class_against_all_others_are_not_updated(planted):
    y = np.where(planted.y == 0, 0, -1)
    clf = NodeClassifier(positive_only=True, experts=["propagation"], random_state=0)
    clf.fit(None, y, graph=planted.graph)
    with pytest.raises(InputError, match="positive_only=True cannot be updated"):
        clf.update(y={1: 0})


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ([(1, 1)], "to itself"),
        ([(1, 2, 0.0)], "a weight in add is 0"),
        ([(1, 2, np.inf)], "a weight in add is inf"),
        ([(1, 2, "x")], "not all numbers"),
        ([([1], 2)], "names the node"),
        ([(0.5, 2)], "names the node 0.5"),
        ([1, 2], "must be pairs"),
        (5, "must be pairs"),
        (sp.eye_array(3), "must be pairs"),
    ],
)
def test_pairs_that_are_none_are_refused(fitted, pairs, said):
    with pytest.raises(InputError, match=said):
        classifier(fitted).update(add=pairs)
