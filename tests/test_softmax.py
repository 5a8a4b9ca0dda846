"""The classifier term: what its estimate is made of, and what a labelled node is charged."""

import dataclasses
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import log_softmax, softmax

from citation_helpers import draw_citations
from nodeproof import NodeClassifier, Problem
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.smoothing import Smoothing
from nodeproof.solvers import BlockCADO, Status
from nodeproof.solvers.sweep import Sweeper
from nodeproof.terms import Labels, NodeData, Softmax
from nodeproof.terms.logistic import fit_logistic, shares

K = 3

pytestmark = [pytest.mark.numeric, pytest.mark.usefixtures("one_thread")]


@pytest.fixture(scope="module")
def texts():
    return draw_citations(shares=(1 / 3,) * K, n=210, n_words=80, topical=0.5)


@pytest.fixture(scope="module")
def nodes(texts):
    graph = Graph(texts.graph)
    return NodeData(K, texts.X, texts.labels(10), graph, Smoothing(texts.X, graph))


def scores_of(term, models):
    d = term.Z.shape[1]
    return term.Z @ models[:, :d].T + models[:, d]


def rows_like(z, share=0.8, seed=0):
    """Return rows that lean to the classes."""
    noise = np.random.default_rng(seed).dirichlet(np.ones(K), size=len(z))
    return share * np.eye(K)[z] + (1 - share) * noise


# What the labels teach. -----------------------------------------------------------------


def test_uniform_rows_leave_the_classifier_that_the_labels_teach(texts, nodes):
    """Up to the proportions: labels are given evenly to the classes."""
    term = Softmax(hops=2, sharpness=1.0).bind(nodes)
    models = term.estimate(np.full((210, K), 1 / K))
    theta = fit_logistic(
        nodes.smoothing.over(2)[term.labelled], np.eye(K)[texts.z[term.labelled]], 0.3
    )
    np.testing.assert_allclose(models[:, : theta.shape[1] - 1], theta[:, :-1], atol=1e-3)
    offset = models[:, theta.shape[1] - 1] - theta[:, -1]
    expected = np.log(term.proportions / shares(np.eye(K)[texts.z[term.labelled]]))
    np.testing.assert_allclose(offset, expected, atol=1e-3)


def test_costs_are_minus_log_probabilities(nodes):
    term = Softmax().bind(nodes)
    costs = term.cost(term.estimate(np.full((210, K), 1 / K)), 0, 210)
    np.testing.assert_allclose(np.exp(-costs).sum(axis=1), 1.0, rtol=1e-9)


def test_sharpness_multiplies_the_scores(nodes):
    W = np.full((210, K), 1 / K)
    plain, sharp = (Softmax(sharpness=s).bind(nodes) for s in (1.0, 3.0))
    one, three = plain.estimate(W), sharp.estimate(W)
    d = plain.Z.shape[1]
    np.testing.assert_allclose(three[:, :d], 3.0 * one[:, :d], rtol=1e-9)


def test_without_a_sharpness_the_scores_are_as_sharp_as_unseen_labels_bear_out(texts):
    """Flipped labels make it less sure, on all nodes."""
    y = texts.labels(20)
    wrong = y.copy()
    flipped = np.flatnonzero(y >= 0)[::2]
    wrong[flipped] = (y[flipped] + 1) % K
    confidence = []
    for labels in (y, wrong):
        term = Softmax().bind(NodeData(K, texts.X, labels, Graph(texts.graph)))
        costs = term.cost(term.estimate(np.full((210, K), 1 / K)), 0, 210)
        confidence.append(np.exp(-costs).max(axis=1).mean())
    assert confidence[1] < confidence[0] - 0.1


def test_a_heavier_penalty_does_not_make_it_less_sure(nodes):
    """Penalties shrink scores; they are scaled back."""
    confidence = []
    for l2 in (0.1, 10.0):
        term = Softmax(l2=l2).bind(nodes)
        costs = term.cost(term.estimate(np.full((210, K), 1 / K)), 0, 210)
        confidence.append(np.exp(-costs).max(axis=1).mean())
    assert abs(confidence[0] - confidence[1]) < 0.15
    assert min(confidence) > 0.6


def test_proportions_are_those_of_all_nodes_not_of_the_labels():
    texts = draw_citations(shares=(0.7, 0.2, 0.1), n=300, n_words=80, topical=0.6, inside=0.9)
    term = Softmax().bind(NodeData(K, texts.X, texts.labels(8), Graph(texts.graph)))
    np.testing.assert_allclose(term.proportions, (0.7, 0.2, 0.1), atol=0.1)


# A labelled node. -----------------------------------------------------------------------


def test_a_labelled_node_is_judged_by_a_fit_that_has_not_seen_its_label(texts, nodes):
    """Where a label is changed, the node's own costs hardly follow; other nodes' do."""
    node = int(np.flatnonzero(nodes.y >= 0)[0])
    other = nodes.y.copy()
    other[node] = (nodes.y[node] + 1) % K
    settings = Softmax(hops=0, sharpness=1.0)
    W = np.full((210, K), 1 / K)
    before, after = (
        term.cost(term.estimate(W), node, node + 1)[0]
        for term in (settings.bind(nodes), settings.bind(dataclasses.replace(nodes, y=other)))
    )
    seen = Softmax(hops=0, sharpness=1.0, folds=0)
    before_seen, after_seen = (
        term.cost(term.estimate(W), node, node + 1)[0]
        for term in (seen.bind(nodes), seen.bind(dataclasses.replace(nodes, y=other)))
    )
    followed = np.abs(after - before).max()
    assert followed < 0.35 * np.abs(after_seen - before_seen).max()


def test_without_folds_a_labelled_node_is_judged_as_any_other(nodes):
    term = Softmax(sharpness=1.0, folds=0).bind(nodes)
    models = term.estimate(np.full((210, K), 1 / K))
    expected = -log_softmax(scores_of(term, models), axis=1)
    np.testing.assert_allclose(term.cost(models, 0, 210), expected, atol=1e-4)


def test_labels_one_per_class_cannot_be_held_out_and_are_judged_as_seen(texts):
    term = Softmax(sharpness=1.0).bind(NodeData(K, texts.X, texts.labels(1), Graph(texts.graph)))
    models = term.estimate(np.full((210, K), 1 / K))
    expected = -log_softmax(scores_of(term, models), axis=1)
    np.testing.assert_allclose(term.cost(models, 0, 210), expected, atol=1e-4)


# A re-fit. ------------------------------------------------------------------------------


def test_a_refit_is_a_regression_on_the_rows_labels_and_others_counting_equally(texts, nodes):
    """Up to a scale that keeps its confidence, and to the proportions."""
    settings = Softmax(hops=2, rounds=1, confidence=0.0, sharpness=1.0, folds=0)
    term, W = settings.bind(nodes), rows_like(texts.z)
    d = term.Z.shape[1]
    labelled = nodes.y >= 0
    others = ~labelled & (nodes.graph.degrees > 0)  # the rest has nothing to average over
    weights = np.where(labelled, 1.0, others * labelled.sum() / others.sum())
    theta = fit_logistic(term.Z, W, 0.3, weights, tol=1e-8, max_iter=1000)
    slopes = term.estimate(W)[:, :d]
    likeness = np.vdot(slopes, theta[:, :d]) / np.linalg.norm(slopes) / np.linalg.norm(theta[:, :d])
    assert likeness > 0.99
    # Not what it would be if every row counted the same.
    plain = fit_logistic(term.Z, W, 0.3, tol=1e-8, max_iter=1000)[:, :d]
    assert np.vdot(slopes, plain) / np.linalg.norm(slopes) / np.linalg.norm(plain) < likeness


def test_a_refit_is_no_surer_than_the_first_fit(texts, nodes):
    term = Softmax(hops=2).bind(nodes)
    W = np.eye(K)[texts.z]
    models = [term.estimate(rows) for rows in (np.full((210, K), 1 / K), W)]
    sure = [softmax(scores_of(term, each), axis=1).max(axis=1).mean() for each in models]
    assert sure[1] == pytest.approx(sure[0], abs=0.05)
    assert np.abs(models[1] - models[0]).max() > 0.01


def test_confident_nodes_of_one_class_do_not_make_that_class_frequent():
    """Neither where the refitted scores are made larger: the shares in its targets go before."""
    rng = np.random.default_rng(0)
    z = np.repeat([0, 1], 1000)
    X = rng.normal(size=(2000, 5)) + 0.4 * np.where(z == 1, 1.0, -1.0)[:, None]
    y = np.where(np.arange(2000) % 50 == 0, z, -1)
    term = Softmax(hops=0, l2=30.0, folds=0, sharpness=3.0).bind(NodeData(2, X, y))
    W = np.full((2000, 2), 0.5)
    W[:500], W[1000:1020] = (1.0, 0.0), (0.0, 1.0)
    found = -term.cost(term.estimate(W), 0, 2000)[y < 0]
    shown = softmax(found - np.log(term.proportions), axis=1).mean(axis=0)
    np.testing.assert_allclose(shown, 0.5, atol=0.1)


def test_only_confident_rows_teach(texts, nodes):
    term = Softmax(hops=2, confidence=0.7).bind(nodes)
    first = term.estimate(np.full((210, K), 1 / K))
    hesitant = 0.5 * np.eye(K)[(texts.z + 1) % K] + 0.5 / K
    np.testing.assert_allclose(term.estimate(hesitant), first, rtol=1e-9, atol=1e-12)
    sure = rows_like(texts.z, 0.95)
    assert np.abs(term.estimate(sure) - first).max() > 0.01


def test_what_rows_teach_improves_the_classifier(texts, nodes):
    term = Softmax(hops=0).bind(nodes)
    hidden = nodes.y < 0
    right = [
        (scores_of(term, term.estimate(W)).argmax(axis=1) == texts.z)[hidden].mean()
        for W in (np.full((210, K), 1 / K), rows_like(texts.z, 0.9))
    ]
    assert right[1] > right[0] + 0.02


# In a fit. ------------------------------------------------------------------------------


def test_the_rows_are_fitted_again_as_often_as_rounds_say(nodes, monkeypatch):
    calls = []
    estimate = Softmax.estimate
    monkeypatch.setattr(Softmax, "estimate", lambda self, W: calls.append(0) or estimate(self, W))
    for rounds in (0, 1, 3):
        calls.clear()
        terms = [Softmax(rounds=rounds).bind(nodes), Labels().bind(nodes)]
        result = BlockCADO(random_state=0).solve(Problem(nodes.graph, terms, K, trust=0.1))
        assert len(calls) == 1 + rounds
        assert len(result.history["change"]) == result.n_iter
        assert len(result.history["ell"]) == result.n_iter


def test_the_models_are_those_that_the_rows_were_solved_with(texts, nodes):
    """Without a graph or labels that interfere, rows are the softmax of what is charged."""
    term = Softmax(rounds=2).bind(nodes)
    result = BlockCADO(random_state=0).solve(Problem(None, [term], K))
    charged = term.cost(result.models.terms[0], 0, 210)
    np.testing.assert_allclose(result.W, softmax(-charged, axis=1), atol=1e-4)


def test_a_callback_can_stop_any_round(nodes):
    for stop in range(1, 8):
        terms = [Softmax(rounds=2).bind(nodes), Labels().bind(nodes)]
        seen = []
        result = BlockCADO(random_state=0, tol=0.0, max_iter=3).solve(
            Problem(nodes.graph, terms, K, trust=0.1),
            callback=lambda progress, seen=seen, stop=stop: (
                seen.append(progress) or len(seen) == stop
            ),
        )
        assert len(seen) == stop
        assert result.status is Status.STOPPED
        assert result.n_iter == stop


def test_an_interrupt_in_any_sweep_leaves_a_result(nodes, monkeypatch):
    sweep = Sweeper.sweep
    for stop in range(1, 7):
        count = []

        def interrupted(self, *arguments, count=count, stop=stop):
            count.append(0)
            if len(count) == stop:
                raise KeyboardInterrupt
            return sweep(self, *arguments)

        monkeypatch.setattr(Sweeper, "sweep", interrupted)
        terms = [Softmax(rounds=2).bind(nodes), Labels().bind(nodes)]
        solver = BlockCADO(random_state=0, tol=0.0, max_iter=2)
        result = solver.solve(Problem(nodes.graph, terms, K, trust=0.1))
        assert result.status is Status.INTERRUPTED
        assert result.W.shape == (210, K)


def test_proportions_are_not_counted_twice(nodes):
    """The classifier knows them; the solver adds none."""
    terms = [Softmax().bind(nodes), Labels().bind(nodes)]
    problem = Problem(nodes.graph, terms, K, trust=0.1)
    assert BlockCADO(random_state=0).solve(problem).models.log_prior.tolist() == [0.0] * K
    assert problem.fit_models(np.eye(K)[np.zeros(210, int)]).log_prior.tolist() == [0.0] * K


def test_classes_that_seek_others_are_told_apart_by_their_links():
    texts = draw_citations(shares=(1 / 3,) * K, n=210, degree=12.0, inside=0.02)
    nodes = NodeData(K, y=texts.labels(30), graph=Graph(texts.graph))
    term = Softmax(hops=0, of="links").bind(nodes)
    right = scores_of(term, term.estimate(np.full((210, K), 1 / K))).argmax(axis=1) == texts.z
    assert right[nodes.y < 0].mean() > 0.6


# What is refused. -----------------------------------------------------------------------


def test_missing_parts_are_named(texts):
    y, graph = texts.labels(2), Graph(texts.graph)
    with pytest.raises(InputError, match="needs features: X is missing"):
        Softmax().bind(NodeData(K, y=y))
    for unlabelled in (None, np.full(210, -1)):
        with pytest.raises(InputError, match="needs labels to learn from"):
            Softmax().bind(NodeData(K, texts.X, unlabelled))
    with pytest.raises(InputError, match="needs a graph"):
        Softmax(of="links").bind(NodeData(K, texts.X, y))
    with pytest.raises(InputError, match="'features' or 'links', got of='words'"):
        Softmax(of="words").bind(NodeData(K, texts.X, y, graph))


def test_without_a_graph_features_are_taken_as_they_are(texts):
    y = texts.labels(10)
    alone = Softmax(hops=16).bind(NodeData(K, texts.X, y))
    np.testing.assert_array_equal(alone.Z, Smoothing(texts.X).over(0))


def test_sparse_and_dense_features_are_both_taken(texts):
    y, graph = texts.labels(10), Graph(texts.graph)
    for X in (texts.X, texts.X.toarray(), sp.csr_array(texts.X, dtype=np.float32)):
        term = Softmax(hops=4).bind(NodeData(K, X, y, graph))
        right = scores_of(term, term.estimate(np.full((210, K), 1 / K))).argmax(axis=1) == texts.z
        assert right[y < 0].mean() > 0.8


# Nodes without links. -------------------------------------------------------------------


@pytest.fixture(scope="module")
def loners():
    """Return features that tell little by themselves and much on average; 300 nodes lack links."""
    rng = np.random.default_rng(0)
    n, apart = 1500, 300
    z = rng.integers(K, size=n)
    ours = np.flatnonzero(np.arange(n) >= apart)
    members = [ours[z[ours] == k] for k in range(K)]
    u = rng.choice(ours, size=5000)
    near = np.array([rng.choice(members[k]) for k in z[u]])
    v = np.where(rng.random(5000) < 0.8, near, rng.choice(ours, size=5000))
    A = np.zeros((n, n))
    A[u, v] = A[v, u] = 1.0
    np.fill_diagonal(A, 0.0)
    X = rng.normal(size=(n, 8)) + 0.6 * rng.normal(size=(K, 8))[z]
    y = np.where(rng.random(n) < 0.1, z, -1)
    return X, y, A, z, np.arange(n) < apart


def test_nodes_without_links_are_as_sure_as_they_are_right(loners):
    X, y, A, z, apart = loners
    clf = NodeClassifier(terms=[Softmax(hops=4)], random_state=0).fit(X, y, graph=A)
    judged = apart & (y < 0)
    right = (clf.labels_ == z)[judged].mean()
    assert 0.5 < right < 0.9  # alone, features do not tell all
    assert abs(clf.proba_[judged].max(axis=1).mean() - right) < 0.1


def test_new_nodes_without_links_are_judged_as_fitted_ones_are(loners, tmp_path):
    X, y, A, _, apart = loners
    clf = NodeClassifier(terms=[Softmax(hops=4)], random_state=0).fit(X, y, graph=A)
    alike = np.flatnonzero(apart & (y < 0))[:40]
    np.testing.assert_allclose(clf.predict_proba(X[alike]), clf.proba_[alike], atol=1e-4)
    clf.save(tmp_path / "model.npz")
    again = NodeClassifier.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.predict_proba(X[alike]), clf.predict_proba(X[alike]))


def test_only_nodes_without_links_are_damped(loners):
    X, y, A, _, apart = loners
    nodes = NodeData(K, X, y, Graph(A))
    term = Softmax(hops=4).bind(nodes)
    assert 0.0 < term.damping < 0.8
    models = term.estimate(np.full((len(y), K), 1 / K))
    d = term.Z.shape[1]
    hard = log_softmax(term.Z @ models[:, :d].T + models[:, d], axis=1)
    costs, unlabelled = term.cost(models, 0, len(y)), y < 0
    linked = unlabelled & ~apart
    np.testing.assert_allclose(costs[linked], -hard[linked], atol=1e-3)
    surer = np.exp(hard).max(axis=1) - np.exp(-costs).max(axis=1)
    assert (surer[unlabelled & apart] > -1e-6).mean() > 0.95
    assert Softmax(hops=0).bind(nodes).damping == 1.0


def test_new_nodes_without_links_are_warned_of_only_where_links_are_all_that_tells(loners):
    X, y, A, _, _ = loners
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NodeClassifier(terms=[Softmax(hops=4)], random_state=0).fit(X, y, graph=A).predict(X[:3])
    by_links = NodeClassifier(terms=[Softmax(hops=1, of="links")], random_state=0)
    with pytest.warns(UserWarning, match="give their links to fitted nodes"):
        by_links.fit(X, y, graph=A).predict(X[:3])
