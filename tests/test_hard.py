"""Temperature 0: one integer per node, and the same result as with memberships."""

from __future__ import annotations

import numpy as np
import pytest

from nodeproof import NodeClassifier, Problem, solvers, terms
from nodeproof.datasets import make_planted
from nodeproof.graph import Graph, RowSums
from nodeproof.solvers.memberships import LocalMemberships, LocalWorkspace, OneHot

K = 4


@pytest.fixture(scope="module")
def data():
    return make_planted(K, 150, p=0.1, q=0.02, label_ratio=0.1, random_state=0)


def build(data, weights="calibrated", null_model="uniform", graph=None):
    nodes = terms.NodeData(n_classes=K, X=data.X, y=data.y)
    bound = [terms.Covariance().bind(nodes), terms.Labels().bind(nodes)]
    return Problem(Graph(data.graph if graph is None else graph, null_model), bound, K, weights)


@pytest.mark.parametrize(
    ("weights", "affinities", "start", "null_model"),
    [
        ("calibrated", "scalar", "labels", "uniform"),
        ("calibrated", "matrix", "random", "degree"),
        ("calibrated", "matrix", "spectral", "uniform"),
        ("calibrated", "scalar", "random", "degree"),
        ((1.0, 2.5, 13.0), "scalar", "random", "uniform"),
        ((1.0, 2.5, 13.0), "scalar", "spectral", "degree"),
        ((1.0, 2.5, 13.0), "matrix", "labels", "degree"),
        ((1.0, 2.5, 13.0), "matrix", "random", "uniform"),
    ],
)
def test_labels_end_where_memberships_would(
    data, monkeypatch, weights, affinities, start, null_model
):
    problem = build(data, weights, null_model)
    solver = solvers.BlockCADO(temperature=0, affinities=affinities, random_state=0, max_iter=40)
    hard = solver.solve(problem, start)
    monkeypatch.setattr(
        LocalWorkspace,
        "place",
        lambda self, W, hard: LocalMemberships(self, np.asarray(OneHot.of(W))),
    )
    rows = solver.solve(problem, start)
    np.testing.assert_array_equal(hard.W, rows.W)
    assert hard.value == pytest.approx(rows.value, rel=1e-12)
    assert hard.history["change"] == pytest.approx(rows.history["change"], rel=1e-6)


def test_weights_of_links_count(data):
    plain = build(data).graph
    double = build(data, graph=2.0 * data.graph).graph
    W = OneHot(data.y_true.astype(np.int16), K)
    for matrix in (False, True):
        np.testing.assert_allclose(W.link_mass(double, matrix), 2 * W.link_mass(plain, matrix))
        np.testing.assert_allclose(W.link_mass(plain, matrix), plain.link_mass(W[:], matrix))


def test_sums_are_those_of_the_memberships_uniform_ones_included():
    labels = np.array([0, 2, -1, 1, 2, -1], dtype=np.int16)
    eta = np.array([0.5, 1.0, 2.0, 0.0, 1.5, 1.0])
    W = OneHot(labels, 3)
    for matrix in (False, True):
        found, expected = W.sums(eta, matrix), RowSums.of(W[:], eta, matrix)
        for name in ("totals", "sizes", "squares", "pairs"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-6)


def test_uniform_memberships_have_no_label():
    rows = np.array([[0.2, 0.2, 0.2], [0.1, 0.6, 0.3], [0.0, 0.0, 1.0]])
    assert OneHot.of(rows).labels.tolist() == [-1, 1, 2]
    assert OneHot.of(np.ones((2, 1))).labels.tolist() == [0, 0]


def test_reordering_renames_the_classes():
    W = OneHot(np.array([0, 1, 2, -1], dtype=np.int16), 3)
    order = np.array([2, 0, 1])
    expected = W[:][:, order]
    W.reorder(order)
    np.testing.assert_array_equal(W[:], expected)


def test_a_classifier_at_temperature_zero_is_sure_of_everything(data):
    clf = NodeClassifier(temperature=0, random_state=0).fit(data.X, data.y, graph=data.graph)
    assert set(np.unique(clf.proba_)) == {0.0, 1.0}
    assert (clf.labels_ == data.y_true).mean() > 0.95
