"""The order of the rows does not decide what is found."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from nodeproof import NodeClassifier, Problem, terms
from nodeproof import arrangement as ordering
from nodeproof.arrangement import Arrangement, canonical_order
from nodeproof.datasets import make_planted
from nodeproof.graph import Graph
from nodeproof.problem import Models
from nodeproof.solvers import BlockCADO, Result, Status
from nodeproof.solvers.base import best_first
from nodeproof.solvers.beliefs import reported_probabilities
from nodeproof.terms import NodeData

pytestmark = pytest.mark.numeric

SOURCES = ("GL", "GFL", "G", "GF", "FL", "F")


@pytest.fixture(scope="module")
def weak():
    """Planted data below the limit of detection by links: every start ends elsewhere."""
    return make_planted(cluster_size=30, p=0.2, q=0.15, omega=0.4, label_ratio=0.2, random_state=3)


def arranged(nodes: NodeData) -> tuple:
    """Return all that is known of the nodes, in the order of the data."""
    moved = Arrangement.of(nodes).arrange(nodes)
    links = () if moved.graph is None else (moved.graph.adjacency.toarray(),)
    X = () if moved.X is None else (sp.csr_array(moved.X).toarray(),)
    return (*links, *X, *(() if moved.y is None else (moved.y,)))


def permuted(nodes: NodeData, order: np.ndarray) -> NodeData:
    graph = nodes.graph and Graph(nodes.graph.adjacency[order][:, order])
    X = None if nodes.X is None else nodes.X[order]
    return NodeData(nodes.n_classes, X, None if nodes.y is None else nodes.y[order], graph)


def fit(data, sources, order, **settings):
    y = data.y[order] if "L" in sources else None
    clf = NodeClassifier(None if "L" in sources else 3, random_state=0, **settings)
    graph = data.graph[order][:, order] if "G" in sources else None
    return clf.fit(data.X[order] if "F" in sources else None, y, graph=graph)


@pytest.mark.filterwarnings("ignore:the data do not tell")
@pytest.mark.parametrize("sources", SOURCES)
def test_permuted_rows_give_the_same_bits_permuted(weak, sources):
    n = len(weak.y)
    order = np.random.default_rng(0).permutation(n)
    one, other = fit(weak, sources, np.arange(n)), fit(weak, sources, order)
    np.testing.assert_array_equal(one.proba_[order], other.proba_)
    np.testing.assert_array_equal(one.labels_[order], other.labels_)
    assert set(order[other.suspects_.node]) == set(one.suspects_.node)


@pytest.mark.parametrize("sources", ["GL", "GFL"])
def test_what_is_kept_of_a_fit_is_in_the_order_of_the_rows(weak, sources):
    n = len(weak.y)
    order = np.random.default_rng(1).permutation(n)
    one, other = fit(weak, sources, np.arange(n)), fit(weak, sources, order)
    # Links of new nodes name fitted nodes by their rows.
    links = sp.csr_array((np.random.default_rng(0).random((5, n)) < 0.1).astype(float))
    X = weak.X[:5] if "F" in sources else None
    ahead = one.predict_proba(X, graph=links)
    behind = other.predict_proba(X, graph=links[:, order])
    np.testing.assert_allclose(ahead, behind, atol=1e-5)
    # So do reports and queries.
    seen, again = one.fitted_.findings, other.fitted_.findings
    for source, scores in seen.evidence.items():
        np.testing.assert_allclose(scores[order], again.evidence[source], atol=1e-4)
    assert set(order[again.judged_nodes]) == set(seen.judged_nodes)


@pytest.mark.filterwarnings("ignore:the data do not tell")
@pytest.mark.parametrize("sources", ["GL", "GFL"])
def test_what_is_certified_is_in_the_order_of_the_rows(weak, sources):
    n = len(weak.y)
    order = np.random.default_rng(1).permutation(n)
    first, second = (
        fit(weak, sources, rows, weights="calibrated").fitted_.labelling_problem()
        for rows in (np.arange(n), order)
    )
    np.testing.assert_allclose(first.costs[order], second.costs, atol=1e-6)
    assert (first.adjacency[order][:, order] != second.adjacency).nnz == 0


@pytest.mark.filterwarnings("ignore:the data do not tell")
@pytest.mark.parametrize("of", ["features", "links"])
@pytest.mark.parametrize("n", [60, 180])
def test_a_classifier_on_averages_keeps_its_scores(of, n):
    data = make_planted(cluster_size=n // 3, p=0.3, label_ratio=0.3, random_state=0)
    order = np.random.default_rng(2).permutation(n)
    settings = {"terms": [terms.Softmax(hops=2, of=of), terms.Labels()]}
    one, other = fit(data, "GFL", np.arange(n), **settings), fit(data, "GFL", order, **settings)
    np.testing.assert_array_equal(one.proba_[order], other.proba_)
    links = sp.csr_array((np.random.default_rng(0).random((4, n)) < 0.2).astype(float))
    ahead = one.predict_proba(data.X[:4], graph=links)
    np.testing.assert_allclose(
        ahead, other.predict_proba(data.X[:4], graph=links[:, order]), atol=1e-5
    )
    costs = one.fitted_.data.problem.costs(one.models_, 0, n)
    np.testing.assert_allclose(
        costs[order], other.fitted_.data.problem.costs(other.models_, 0, n), atol=1e-5
    )


@pytest.mark.filterwarnings("ignore:the data do not tell")
def test_labels_to_choose_by_may_come_in_any_order(weak):
    n = len(weak.y)
    order = np.random.default_rng(3).permutation(n)
    judges = np.flatnonzero(weak.y < 0)[:30]
    one = NodeClassifier(random_state=0).fit(
        y=weak.y, graph=weak.graph, validation=(judges, weak.y_true[judges])
    )
    where = np.argsort(order)[judges]
    other = NodeClassifier(random_state=0).fit(
        y=weak.y[order],
        graph=weak.graph[order][:, order],
        validation=(where, weak.y_true[judges]),
    )
    np.testing.assert_array_equal(one.proba_[order], other.proba_)
    np.testing.assert_array_equal(np.sort(order[other.fitted_.data.held_out.nodes]), judges)


GRAPHS = {
    "ring": sp.csr_array(np.roll(np.eye(12), 1, axis=1) + np.roll(np.eye(12), -1, axis=1)),
    "pairs": sp.csr_array(np.kron(np.eye(6), [[0.0, 1.0], [1.0, 0.0]])),
    "no links": sp.csr_array((12, 12)),
    "star": sp.csr_array(
        ([1.0] * 22, ([0] * 11 + list(range(1, 12)), list(range(1, 12)) + [0] * 11)), shape=(12, 12)
    ),
    "cliques": sp.csr_array(np.kron(np.eye(3), 1.0 - np.eye(4))),
    "two parts": sp.csr_array(np.kron([[0.0, 1.0], [1.0, 0.0]], np.ones((6, 6)))),
    # Two arms of two nodes each at one hub, twice: ends must follow their middles.
    "arms": sp.csr_array(
        sum(
            np.eye(12)[[a]].T @ np.eye(12)[[b]] + np.eye(12)[[b]].T @ np.eye(12)[[a]]
            for a, b in [(0, 1), (1, 2), (0, 3), (3, 4), (5, 6), (6, 7), (5, 8), (8, 9), (0, 5)]
        )
    ),
}


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_interchangeable_nodes_leave_the_same_arrays(graph):
    nodes = NodeData(2, None, None, Graph(graph))
    expected = arranged(nodes)
    rng = np.random.default_rng(0)
    for _ in range(20):
        for one, other in zip(
            expected, arranged(permuted(nodes, rng.permutation(12))), strict=True
        ):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("weighted", [False, True])
def test_random_graphs_are_arranged_alike(weighted, random_graph):
    nodes = NodeData(2, None, None, Graph(random_graph(40, 0.1, weighted)))
    expected = arranged(nodes)[0]
    for seed in range(5):
        found = arranged(permuted(nodes, np.random.default_rng(seed).permutation(40)))[0]
        np.testing.assert_array_equal(expected, found)


def test_the_rounding_of_sums_does_not_change_the_order():
    X = np.random.default_rng(0).normal(size=(200, 5))
    nudged = NodeData(2, np.nextafter(X, np.inf))
    np.testing.assert_array_equal(canonical_order(NodeData(2, X)), canonical_order(nudged))


@pytest.mark.parametrize("unit", [1e-30, 3.0, 1e30])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_unit_of_features_and_weights_does_not_change_the_order(unit, dtype, random_graph):
    X = np.random.default_rng(0).normal(size=(40, 5)).astype(dtype)
    A = random_graph(40, 0.1, weighted=True)
    expected = canonical_order(NodeData(2, X, None, Graph(A)))
    units = np.array([unit, 1.0, unit, 1.0, unit], dtype=dtype)
    found = canonical_order(NodeData(2, X * units, None, Graph(3.0 * A)))
    np.testing.assert_array_equal(expected, found)


def test_features_that_differ_by_little_are_told_apart():
    X = 1.0 + 1e-9 * np.random.default_rng(0).normal(size=(50, 2))
    order = np.random.default_rng(1).permutation(50)
    expected = X[canonical_order(NodeData(2, X))]
    np.testing.assert_array_equal(expected, X[order][canonical_order(NodeData(2, X[order]))])


def test_symmetric_graphs_take_bounded_work(monkeypatch):
    monkeypatch.setattr(ordering, "_MOST_ROUNDS", 3)
    n = 3000
    ring = sp.csr_array(sp.diags_array([1.0, 1.0], offsets=[1, n - 1], shape=(n, n)))
    order = canonical_order(NodeData(2, None, None, Graph(sp.csr_array(ring + ring.T))))
    assert sorted(order) == list(range(n))


def test_large_graphs_stay_as_they_are(monkeypatch, weak):
    monkeypatch.setattr(ordering, "_MOST_NODES", len(weak.y) - 1)
    assert Arrangement.of(NodeData(3, weak.X)) is None


def test_a_term_of_the_users_own_sees_the_nodes_in_their_order(weak):
    seen = []

    class Watching(terms.Covariance):
        def bind(self, nodes):
            seen.append(nodes.X)
            return super().bind(nodes)

    NodeClassifier(terms=[Watching(), terms.Labels()], random_state=0).fit(
        weak.X, weak.y, graph=weak.graph
    )
    np.testing.assert_array_equal(seen[0], weak.X)


def test_a_callback_sees_memberships_in_the_order_of_the_rows(easy):
    seen = []
    clf = NodeClassifier(random_state=0, verbose=lambda progress: seen.append(progress.W.copy()))
    clf.fit(easy.X, easy.y, graph=easy.graph)
    assert float((seen[-1].argmax(axis=1) == clf.proba_.argmax(axis=1)).mean()) > 0.9


def ended(W, value):
    """Return a start that ended with these memberships and this objective."""
    models = Models(None, (), np.zeros(2))
    return Result(np.asarray(W, dtype=np.float32), models, value, Status.CONVERGED, 1, {})


SURE = np.eye(2)[[0, 0, 1, 1]]
OTHER = np.eye(2)[[0, 1, 0, 1]]


@pytest.mark.parametrize("named", [False, True])
def test_starts_that_end_elsewhere_almost_as_good_are_kept(named):
    best, near, far = ended(SURE, 0.0), ended(OTHER, 0.01), ended(OTHER, 10.0)
    assert best_first([far, near, best], named) == [best, near]
    assert best_first([far, best], named) == [best]


def test_classes_of_other_names_are_the_same_where_no_label_names_them():
    renamed = ended(SURE[:, ::-1], 0.01)
    assert len(best_first([ended(SURE, 0.0), renamed], named=False)) == 1
    assert len(best_first([ended(SURE, 0.0), renamed], named=True)) == 2


def test_what_starts_disagree_about_is_not_certain():
    labels = terms.Labels().bind(NodeData(2, y=np.array([0, -1, -1, 1])))
    problem = Problem(None, [labels], n_classes=2)
    best = replace(ended(SURE, 0.0), alternatives=(ended(OTHER, 0.0),))
    rows, weight = reported_probabilities(problem, best, BlockCADO())
    assert weight == 0.5
    np.testing.assert_allclose(rows, [[1, 0], [0.5, 0.5], [0.5, 0.5], [0, 1]])
    less = replace(ended(SURE, 0.0), alternatives=(ended(OTHER, 0.1),))
    assert (
        reported_probabilities(problem, less, BlockCADO())[0][1, 0] > 0.6
    )  # less credible, less of a say


def test_starts_that_agree_leave_the_confidence_alone(easy):
    several = NodeClassifier(3, random_state=0, n_init=6).fit(graph=easy.graph)
    assert several.proba_.max(axis=1).mean() > 0.99
    assert "ended elsewhere" not in several.choices_["probabilities"]["why"]
