"""New nodes: judged by features and links, without a re-fit."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import softmax

from citation_helpers import draw_citations
from inductive_helpers import make_texts
from nodeproof import NodeClassifier, Problem
from nodeproof.affinity import Affinity, FittedGraph
from nodeproof.auto.evaluation import evaluate
from nodeproof.auto.experts import (
    BlockModel,
    Features,
    Learnt,
    Links,
    OwnFeatures,
    Propagation,
)
from nodeproof.auto.held_out import hold_out
from nodeproof.auto.pooled import Pooled
from nodeproof.datasets import load, make_planted
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.inputs.new_links import check_links
from nodeproof.smoothing import Smoothing
from nodeproof.solvers import BlockCADO
from nodeproof.solvers.sweep import Sweeper
from nodeproof.terms import Covariance, Gaussian, Labels, Multinomial, NewNodes, NodeData, Softmax
from nodeproof.terms.new_nodes import FittedSoftmax


@pytest.fixture(scope="module")
def data():
    return make_planted(cluster_size=60, p=0.2, omega=0.3, random_state=0)


@pytest.fixture(scope="module")
def fitted(data):
    """A model of all nodes but the first ten."""
    return NodeClassifier(random_state=0).fit(data.X[10:], data.y[10:], graph=data.graph[10:, 10:])


@pytest.fixture(scope="module")
def texts():
    return make_texts()


def fit_texts(texts, **settings):
    settings = {"terms": [Softmax(), Labels()], "random_state": 0} | settings
    return NodeClassifier(**settings).fit(texts.X, texts.y, graph=texts.graph)


# Links. ---------------------------------------------------------------------------------

W = np.array([[1.0, 0.0], [0.75, 0.25], [0.0, 1.0]])
NONE = sp.csr_array((2, 2))


def test_links_and_missing_links_count_as_in_the_formula():
    links = sp.csr_array([[2.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    one = Affinity(np.array([[3.0]]), np.array([[0.5]]))
    uniform = FittedGraph("uniform", total=8.0, unit=1.0, pairs=np.array([1.75, 1.25]))
    np.testing.assert_allclose(
        uniform.evidence(links, W, one),
        [[3.0 * 2.0 - 0.5 * 1.75, 3.0 * 1.0 - 0.5 * 1.25], [0.0, 0.0]],
    )
    degree = FittedGraph("degree", total=9.0, unit=1.0, pairs=np.array([1.75, 1.25]))
    # η_v = d_v/√Σd = 3/3
    np.testing.assert_allclose(
        degree.evidence(links, W, one),
        [[3.0 * 2.0 - 0.5 * 1.75, 3.0 * 1.0 - 0.5 * 1.25], [0.0, 0.0]],
    )
    np.testing.assert_allclose(degree.evidence(2.0 * links, W, one)[0], [12.0 - 1.75, 6.0 - 1.25])
    each = Affinity(np.array([[1.0, -2.0], [-2.0, 3.0]]), np.array([[0.5, 0.1], [0.1, 0.2]]))
    np.testing.assert_allclose(
        uniform.evidence(links, W, each)[0],
        [
            1.0 * 2.0 - 2.0 * 1.0 - (0.5 * 1.75 + 0.1 * 1.25),
            -2.0 * 2.0 + 3.0 * 1.0 - (0.1 * 1.75 + 0.2 * 1.25),
        ],
    )


def test_the_graph_is_summed_up_with_its_null_model():
    path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    np.testing.assert_allclose(FittedGraph.of_graph(Graph(path, "uniform"), W).pairs, [1.75, 1.25])
    by_degree = FittedGraph.of_graph(Graph(path, "degree"), W)
    np.testing.assert_allclose(by_degree.pairs, np.array([1 + 1.5, 0.5 + 1]) / 2.0)
    assert (by_degree.null_model, by_degree.total) == ("degree", 4.0)


@pytest.mark.parametrize(
    "settings",
    [
        {"weights": "calibrated"},
        {"weights": "calibrated", "solver": BlockCADO(affinities="matrix", random_state=0)},
        {"weights": (1.0, 2.5, 13.0)},
        {"weights": (1.0, 2.5, 13.0), "threshold": 0.1, "temperature": 3.0},
        {"weights": 0.4},
    ],
    ids=["calibrated", "matrix", "paper", "warm", "trust"],
)
def test_a_new_node_gets_the_row_that_a_sweep_would_give_it(data, settings):
    """A sweep over the graph that the node has joined; it comes first, so the others wait."""
    clf = NodeClassifier(null_model="uniform", random_state=0, **settings)
    clf.fit(data.X[1:], data.y[1:], graph=data.graph[1:, 1:])
    joined = NodeData(3, data.X, np.concatenate([[-1], data.y[1:]]))
    weights = settings["weights"] if isinstance(settings["weights"], tuple) else "calibrated"
    problem = Problem(
        Graph(data.graph, "uniform"), [Covariance().bind(joined), Labels().bind(joined)], 3, weights
    )
    rows = np.concatenate([[[1, 0, 0]], clf.proba_]).astype(np.float32)
    sweeper = Sweeper(problem, n_batches=len(rows))
    sweeper.charge(clf.models_)
    before = rows.copy()
    sweeper.sweep(rows, clf.models_.affinity, clf.models_.log_prior, clf.temperature)
    assert (rows[0] != before[0]).any()
    found = clf.predict_proba(data.X[:1], graph=data.graph[:1, 1:])
    np.testing.assert_allclose(found[0], rows[0], atol=1e-4)


def test_nodes_left_out_get_nearly_the_probabilities_of_a_whole_fit():
    data = make_planted(p=0.07, omega=0.3, label_ratio=0.1, random_state=1)
    out = np.flatnonzero(data.y < 0)[::100]
    keep = np.setdiff1d(np.arange(900), out)
    whole = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
    clf = NodeClassifier(random_state=0).fit(
        data.X[keep], data.y[keep], graph=data.graph[keep][:, keep]
    )
    links = data.graph[out][:, keep]
    found = clf.predict_proba(data.X[out], graph=links)
    without_links = clf.predict_proba(data.X[out])
    assert np.abs(found - whole.proba_[out]).max(axis=1).mean() < 0.02
    assert np.abs(without_links - whole.proba_[out]).max(axis=1).mean() > 0.1
    assert (found.argmax(axis=1) == whole.proba_[out].argmax(axis=1)).all()


@pytest.mark.parametrize("null_model", ["uniform", "degree"])
def test_links_alone_are_enough_where_there_were_no_features(data, null_model):
    clf = NodeClassifier(null_model=null_model, weights="calibrated", random_state=0)
    clf.fit(y=data.y[10:], graph=data.graph[10:, 10:])
    links = data.graph[:10, 10:]
    assert (clf.predict(graph=links) == data.y_true[:10]).mean() >= 0.9
    np.testing.assert_allclose(clf.predict_proba(graph=links).sum(axis=1), 1.0)
    alone = clf.predict_proba(graph=sp.csr_array((2, 170)))
    np.testing.assert_allclose(alone, softmax(clf.models_.log_prior)[None].repeat(2, 0))


def test_new_nodes_without_links_among_them_do_not_see_each_other(data, fitted):
    links = data.graph[:10, 10:]
    together = fitted.predict_proba(data.X[:10], graph=links)
    one_by_one = [
        fitted.predict_proba(data.X[[v]], graph=links[[v]])[0] for v in range(10)
    ]  # fmt: skip
    np.testing.assert_allclose(together, one_by_one, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:.* entries repeat others")
def test_links_may_be_given_in_many_ways(data, fitted):
    X, links = data.X[:10], data.graph[:10, 10:]
    new, old = links.nonzero()
    expected = fitted.predict_proba(X, graph=links)
    order = np.random.default_rng(0).permutation(len(new))
    pairs = np.column_stack([new, old])[order]
    for form in (
        links.toarray(),
        links.toarray().astype(bool),
        sp.coo_matrix(links),
        links.tocsc(),
        pairs,
        pairs.tolist(),
        np.concatenate([pairs, pairs]),
        np.column_stack([pairs, np.ones(len(pairs))]),
        pd.DataFrame(pairs, columns=["new", "fitted"]),
        {"source": new, "target": old, "weight": np.ones(len(new))},
    ):
        np.testing.assert_array_equal(fitted.predict_proba(X, graph=form), expected)
    assert (fitted.predict(X, graph=pairs) == fitted.classes_[expected.argmax(axis=1)]).all()


def test_links_are_left_as_they_were(data, fitted):
    links = sp.csr_array(data.graph[:10, 10:])
    links.data[:3] = 0.0
    before = links.copy()
    fitted.predict_proba(data.X[:10], graph=links)
    np.testing.assert_array_equal(links.indptr, before.indptr)
    np.testing.assert_array_equal(links.data, before.data)


def test_of_a_pair_listed_twice_the_largest_weight_counts():
    listed = [[0, 1, 2.0], [0, 1, 5.0], [0, 1, 3.0], [1, 0, 0.0]]
    ends = np.array(listed)[:, :2].astype(int).T
    matrix = sp.coo_array((np.array(listed)[:, 2], tuple(ends)), shape=(2, 4))
    for links in (listed, matrix):
        with pytest.warns(UserWarning, match="2 entries repeat others in the links of new nodes"):
            found = check_links(links, 2, 4)
        np.testing.assert_array_equal(found.to_fitted.toarray(), [[0, 5, 0, 0], [0, 0, 0, 0]])
        assert (found.to_fitted.nnz, found.among.nnz) == (1, 0)
    assert check_links([], 3, 4).to_fitted.shape == (3, 4)
    assert check_links([[2, 0]], None, 4).to_fitted.shape == (3, 4)


def test_pairs_without_a_weight_count_as_mean_links(data):
    heavy = 50.0 * data.graph
    clf = NodeClassifier(random_state=0).fit(data.X[10:], data.y[10:], graph=heavy[10:, 10:])
    links = data.graph[:10, 10:]
    pairs = np.column_stack(links.nonzero())
    np.testing.assert_allclose(
        clf.predict_proba(data.X[:10], graph=pairs),
        clf.predict_proba(data.X[:10], graph=50.0 * links),
    )


BAD_LINKS = {
    "shape": (np.zeros((10, 7)), r"expected shape \(10, 170\) or \(10, 180\), got \(10, 7\)"),
    "rows": (sp.csr_array((9, 170)), r"expected shape \(10, 170\) .*, got \(9, 170\)"),
    "square": (sp.csr_array((180, 180)), r"expected shape \(10, 170\)"),
    "flat": (np.zeros(170), "cannot read links"),
    "ragged": ([[0, 1], [2]], "rows of the links of new nodes differ in length"),
    "sparse vector": (sp.coo_array(np.ones(170)), r"got \(170,\)"),
    "text": ([["a", "b"]], "name the new nodes by position"),
    "an object": (object(), "cannot read links of new nodes from object"),
    "negative": (-np.eye(10, 170), "new node 0 to fitted node 0 is negative: -1"),
    "negative pair": ([[3, 4, -2.0]], "new node 3 to fitted node 4 is negative: -2"),
    "not finite": (np.where(np.eye(10, 170), np.inf, 0.0), "not finite"),
    "complex": (sp.csr_array(1j * np.eye(10, 170)), "real numbers"),
    "half a node": ([[0.5, 1.0, 1.0]], "new nodes by position"),
    "half a fitted node": ([[0.0, 1.5, 1.0]], "fitted nodes by position"),
    "unknown": ([[0, 180]], "node 180 .* from 0 to 169 and new ones from 170 to 179"),
    "new unknown": ([[10, 0]], "new node 10, but these run from 0 to 9"),
    "below zero": ([[0, -1]], "node -1 in the second place"),
    "other columns": ({"a": [0], "b": [0]}, "columns new and fitted"),
    "many columns": ({f"c{k}": [0] for k in range(99)}, r"got c0, .*, c7, …: rename"),
    "uneven": ({"new": [0, 1], "fitted": [0]}, "differ in length"),
    "weights in words": (
        {"new": [0], "fitted": [0], "weight": ["strong"]},
        "the weight column must hold numbers",
    ),
}


@pytest.mark.parametrize("kind", BAD_LINKS)
def test_bad_links_are_refused_in_a_clear_word(data, fitted, kind):
    links, message = BAD_LINKS[kind]
    with pytest.raises(InputError, match=message):
        fitted.predict(data.X[:10], graph=links)


@pytest.mark.parametrize("number", [10**12, 3 * 10**11, 2**63 - 1])
def test_more_new_nodes_than_memory_holds_are_refused(number):
    with pytest.raises(InputError, match=r"new nodes would take about .* number them from 0"):
        check_links([[number, 0]], None, 5)


def test_what_the_model_never_saw_is_refused(data, fitted):
    links = data.graph[:10, 10:]
    with pytest.raises(InputError, match="fitted with features: give X"):
        fitted.predict(graph=links)
    with pytest.raises(ValueError, match="5 features"):
        fitted.predict(data.X[:10, :5], graph=links)
    by_features = NodeClassifier(random_state=0).fit(data.X[10:], data.y[10:])
    with pytest.raises(InputError, match="fitted without a graph"):
        by_features.predict(data.X[:10], graph=links)
    by_links = NodeClassifier(n_classes=3, random_state=0).fit(graph=data.graph[10:, 10:])
    with pytest.raises(InputError, match="fitted without features"):
        by_links.predict(data.X[:10], graph=links)


def test_no_warning_where_links_are_given(data, fitted):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.predict(data.X[10:], graph=data.graph[10:, 10:])
        fitted.predict(data.X[:10])


def test_hard_assignments_stay_hard(data):
    clf = NodeClassifier(weights=(1, 2.5, 13), temperature=0, random_state=0)
    clf.fit(data.X[10:], data.y[10:], graph=data.graph[10:, 10:])
    found = clf.predict_proba(data.X[:10], graph=data.graph[:10, 10:])
    assert set(found.ravel().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize(
    "term",
    [Covariance(intercept=True), Gaussian(), Gaussian("shared"), Multinomial(), Softmax(hops=0)],
    ids=str,
)
def test_every_feature_term_judges_new_nodes(data, term):
    X = np.floor(3.0 * np.abs(data.X)) if isinstance(term, Multinomial) else np.abs(data.X)
    clf = NodeClassifier(terms=[term, Labels()], weights="calibrated", random_state=0)
    clf.fit(X[10:], data.y[10:], graph=data.graph[10:, 10:])
    found = clf.predict_proba(X[:10], graph=data.graph[:10, 10:])
    assert (found.argmax(axis=1) == data.y_true[:10]).mean() >= 0.9
    # One whose links and features are a fitted node's gets nearly that node's row.
    again = clf.predict_proba(X[20:21], graph=data.graph[20:21, 10:])
    np.testing.assert_allclose(again[0], clf.proba_[10], atol=0.05)


def test_extreme_features_are_judged_in_the_unit_of_the_fit(data):
    plain = NodeClassifier(terms=[Gaussian(), Labels()], weights="calibrated", random_state=0)
    links = data.graph[:10, 10:]
    found = []
    for shift in (0.0, 1e9):
        plain.fit(data.X[10:] + shift, data.y[10:], graph=data.graph[10:, 10:])
        found.append(plain.predict_proba(data.X[:10] + shift, graph=links))
    assert plain.unit_ is not None
    np.testing.assert_allclose(*found, atol=1e-3)


# Features averaged over hops. -----------------------------------------------------------


def smoothed(graph, X, hops, alpha=0.25):
    """Return the fitted smoothing of all nodes but the last, and the exact rows of the last."""
    n = graph.shape[0] - 1
    smoothing = Smoothing(X[:n], Graph(graph[:n, :n]), alpha=alpha)
    kept = FittedSoftmax(
        smoothing.reduction, np.zeros((2, 2)), hops, alpha, smoothing.lagged(hops),
        smoothing.normaliser,
    )  # fmt: skip
    exact = Smoothing(X, Graph(graph), alpha=alpha)
    exact.reduction = smoothing.reduction
    return kept, exact.over(hops)[n:]


def one_new(X, links):
    """Return the last of the nodes as a new one."""
    return NewNodes(X[-1:], sp.csr_array(links), sp.csr_array((1, 1)))


def draw(n=12, weighted=False, seed=0):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n, n)) < 0.3, 1) * (rng.uniform(0.5, 2, (n, n)) if weighted else 1)
    return upper + upper.T, rng.standard_normal((n, 4))


@pytest.mark.parametrize("seed", range(5))
def test_one_hop_is_exact(seed):
    graph, X = draw(seed=seed)
    kept, exact = smoothed(graph, X, hops=1)
    np.testing.assert_allclose(kept.rows(one_new(X, graph[-1:, :-1])), exact, atol=1e-5)


@pytest.mark.parametrize("hops", [1, 4, 16])
def test_a_node_without_links_keeps_its_own_features(hops):
    graph, X = draw()
    graph[-1] = graph[:, -1] = 0.0
    kept, exact = smoothed(graph, X, hops)
    found = kept.rows(one_new(X, np.zeros((1, 11))))
    np.testing.assert_allclose(found, exact, atol=1e-5)
    np.testing.assert_allclose(found, kept.reduction.apply(X[-1:]), atol=1e-5)


def test_two_nodes_that_find_each_other_average_as_by_hand():
    """A fitted node without links, b₀ = 1, and a new one, b = 0, linked to it; two hops.

    h = 2, ρ = 1/2, T₀ = 2, s₀ = 1, s' = s = 1/√2, so g = 1/2 / (1 − 1/4) = 2/3 and
    c = s' (1 + g (s' − 1)(s' + 1)) = s' (1 − g/2) = 2/3 s'; κ = 1/2 (1 + g/2) = 2/3;
    S = s c T₀ / (1 − κ/2) = (1/2 · 2/3 · 2)/(2/3) = 1. Exactly it is 1/2 + 1/2.
    """
    smoothing = Smoothing(np.array([[1.0], [-1.0]]), Graph(np.zeros((2, 2))))
    kept = FittedSoftmax(
        smoothing.reduction, np.zeros((2, 2)), 2, 0.0, smoothing.lagged(2), smoothing.normaliser
    )
    np.testing.assert_allclose(kept.lagged.ravel(), [2.0, -2.0])
    new = NewNodes(None, sp.csr_array([[1.0, 0.0], [0.0, 1.0]]), NONE)
    found = kept.sums(np.zeros((2, 1), np.float32), new)
    np.testing.assert_allclose(found.ravel(), [1.0, -1.0], rtol=1e-6)


@pytest.mark.parametrize("hops", [2, 4, 16])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_averages_are_close_to_those_of_a_node_that_has_joined(hops, weighted):
    errors = []
    for seed in range(10):
        graph, X = draw(30, weighted, seed)
        kept, exact = smoothed(graph, X, hops)
        # The unit of weights changes a little when a node joins; here it is held.
        unit = Graph(graph[:-1, :-1]).unit
        found = kept.rows(one_new(X, graph[-1:, :-1] / unit))
        errors.append(np.linalg.norm(found - exact) / np.linalg.norm(exact))
    assert np.mean(errors) < 0.12


def test_a_new_node_without_links_is_judged_as_a_fitted_one_without():
    texts = make_texts(n_alone=20)
    assert (texts.X[-20:-10] != texts.X[-10:]).nnz == 0
    for settings in ({}, {"terms": "auto"}, {"weights": 0.5}, {"weights": (1, 2.5, 13)}):
        clf = fit_texts(texts, tol=1e-6, **settings)
        for found in (
            clf.predict_proba(texts.X[-10:]),
            clf.predict_proba(texts.X[-10:], graph=sp.csr_array((10, 400))),
        ):
            # The block model knows that a fitted node without links avoids all others.
            close = 0.01 if settings == {"terms": "auto"} else 2e-4
            np.testing.assert_allclose(found, clf.proba_[-20:-10], atol=close)


def test_the_scale_of_the_fit_is_applied():
    texts = make_texts(n_alone=4)
    clf = fit_texts(texts)
    plain = clf.predict_proba(texts.X[-4:])
    clf.fitted_ = replace(clf.fitted_, new_nodes=replace(clf.fitted_.new_nodes, scale=2.0))
    twice = clf.predict_proba(texts.X[-4:])
    np.testing.assert_allclose(twice, plain**2 / (plain**2).sum(axis=1, keepdims=True), rtol=1e-6)


def test_the_paper_s_weights_with_a_classifier_judge_new_nodes_as_the_fit_did(texts):
    clf = NodeClassifier(terms=[Softmax(), Labels()], weights=(0, 2.5, 0), tol=1e-7, random_state=0)
    clf.fit(texts.X, texts.y)
    np.testing.assert_allclose(clf.predict_proba(texts.X), clf.proba_, atol=1e-4)


def test_texts_left_out_are_judged_nearly_as_well_as_in_a_whole_fit():
    """Links among them are not known to the model; so the whole fit does without them too."""
    scores = []
    for seed in range(4):
        texts = make_texts(seed=seed)
        out = np.sort(np.random.default_rng(seed).choice(np.flatnonzero(texts.y < 0), 80, False))
        apart = texts.graph.toarray()
        apart[np.ix_(out, out)] = 0.0
        whole = fit_texts(replace(texts, graph=sp.csr_array(apart)))
        clf = fit_texts(texts.without(out))
        by_both = clf.predict(texts.X[out], graph=texts.links(out))
        found = np.stack([whole.labels_[out], by_both, clf.predict(texts.X[out])])
        scores.append((found == texts.y_true[out]).mean(axis=1))
    whole, by_both, by_features = np.mean(scores, axis=0)
    assert by_both > whole - 0.03
    assert by_both > by_features + 0.05


def test_dense_and_sparse_features_of_new_texts_are_the_same(texts):
    out = np.arange(5)
    clf = fit_texts(texts.without(out))
    found = clf.predict_proba(texts.X[out], graph=texts.links(out))
    dense = clf.predict_proba(texts.X[out].toarray(), graph=texts.links(out))
    np.testing.assert_allclose(dense, found, rtol=1e-5)


def test_the_unit_of_the_weights_does_not_matter(texts):
    out = np.arange(5)
    rest = texts.without(out)
    found = []
    for unit in (1.0, 1000.0):
        clf = fit_texts(replace(rest, graph=unit * rest.graph))
        found.append(clf.predict_proba(texts.X[out], graph=unit * texts.links(out)))
    np.testing.assert_allclose(*found, atol=1e-4)


def test_a_classifier_of_links_needs_no_features():
    """Classes that seek each other: links tell them apart by whom they lead to."""
    data = make_planted(2, 150, p=0.02, q=0.15, label_ratio=0.2, random_state=0)
    out, keep = np.arange(0, 300, 10), np.setdiff1d(np.arange(300), np.arange(0, 300, 10))
    clf = NodeClassifier(terms=[Softmax(hops=0, of="links"), Labels()], random_state=0)
    clf.fit(y=data.y[keep], graph=data.graph[keep][:, keep])
    links = data.graph[out][:, keep]
    assert (clf.predict(graph=links) == data.y_true[out]).mean() > 0.9
    with pytest.raises(InputError, match="without features"):
        clf.predict(data.X[out], graph=links)


@pytest.mark.slow
@pytest.mark.skipif("NODEPROOF_DATA" not in os.environ, reason="NODEPROOF_DATA is not set")
def test_papers_of_cora_that_were_left_out_are_judged_as_well_as_fitted_ones():
    data = load("cora", folder=os.environ["NODEPROOF_DATA"])
    n, scores = len(data.y), []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        out = np.sort(rng.choice(n, n // 5, replace=False))
        keep = np.setdiff1d(np.arange(n), out)
        y = np.full(n, -1)
        for i in range(7):
            y[rng.choice(keep[data.y[keep] == i], 20, replace=False)] = i
        clf = NodeClassifier(random_state=0)
        clf.fit(data.X[keep], y[keep], graph=data.graph[keep][:, keep])
        found = clf.predict(data.X[out], graph=joined(data.graph, out, keep))
        hidden = y[keep] < 0
        fitted = (clf.labels_ == data.y[keep])[hidden].mean()
        whole = NodeClassifier(random_state=0).fit(data.X, y, graph=data.graph)
        truth = data.y[out]
        scores.append([(found == truth).mean(), fitted, (whole.labels_[out] == truth).mean()])
    new, fitted, whole = np.mean(scores, axis=0)
    assert new > fitted - 0.02
    assert new > whole - 0.03


def test_links_of_new_nodes_that_a_mask_hides_are_no_links():
    matrix = np.ma.masked_array(np.ones((2, 5)), mask=np.arange(10).reshape(2, 5) % 3 > 0)
    assert check_links(matrix, 2, 5).to_fitted.toarray().tolist() == matrix.filled(0).tolist()
    pairs = np.ma.masked_array([[0, 4], [1, 0], [1, 2]], mask=[[0, 0], [0, 1], [0, 0]])
    found = check_links(pairs, 2, 5).to_fitted
    assert found.toarray().tolist() == [[0, 0, 0, 0, 1], [0, 0, 1, 0, 0]]


# Links among new nodes. -----------------------------------------------------------------


def joined(graph, out, keep):
    """Return the links of some nodes to those that are kept, then among themselves."""
    return sp.csr_array(graph[out][:, np.concatenate([keep, out])])


@pytest.fixture(scope="module")
def half():
    """Half of the nodes of a planted graph, a model of the other half, and their links."""
    data = make_planted(p=0.1, omega=1.0, label_ratio=0.1, random_state=0)
    unlabelled = np.flatnonzero(data.y < 0)
    out = np.sort(np.random.default_rng(0).choice(unlabelled, 450, replace=False))
    keep = np.setdiff1d(np.arange(900), out)
    clf = NodeClassifier(terms=[Labels()], weights="calibrated", random_state=0)
    clf.fit(y=data.y[keep], graph=data.graph[keep][:, keep])
    return data.y_true[out], clf, joined(data.graph, out, keep)


def test_links_among_new_nodes_help_and_do_not_make_them_too_sure(half):
    truth, clf, links = half
    apart, together = clf.predict_proba(graph=links[:, :450]), clf.predict_proba(graph=links)
    accuracy = (together.argmax(axis=1) == truth).mean()
    assert accuracy > (apart.argmax(axis=1) == truth).mean() + 0.03
    assert abs(together.max(axis=1).mean() - accuracy) < 0.04


def test_beliefs_of_new_nodes_on_a_tree_are_exact():
    """Missing links count for nothing here (ℓt = 0): the marginals of all labellings."""
    rng = np.random.default_rng(0)
    scores, weights = rng.standard_normal((4, 2)), rng.uniform(0.5, 2.0, 3)
    among = np.zeros((4, 4))
    for (u, v), weight in zip([(0, 1), (1, 2), (1, 3)], weights, strict=True):
        among[u, v] = among[v, u] = weight
    fitted = FittedGraph("uniform", total=8.0, unit=1.0, pairs=np.array([1.75, 1.25]))
    for ell in (np.array([[0.9]]), np.array([[0.5, -1.0], [-1.0, 0.8]])):
        exact, full = np.zeros((4, 2)), ell * np.eye(2) if ell.shape == (1, 1) else ell
        for z in np.ndindex(2, 2, 2, 2):
            score = scores[np.arange(4), z].sum() + 0.5 * (among * full[np.ix_(z, z)]).sum()
            exact[np.arange(4), z] += np.exp(score)
        found = fitted.settle(
            scores, sp.csr_array((4, 3)), sp.csr_array(among), W,
            Affinity(ell, np.zeros(ell.shape)),
        )  # fmt: skip
        exact /= exact.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(softmax(found, axis=1), exact, atol=1e-4)


def test_new_nodes_that_are_all_linked_do_not_pull_each_other_into_one_class():
    """Links as many as by chance say nothing: those that are there balance those expected."""
    density, n_new = 0.2, 60
    fitted = FittedGraph("uniform", total=density * 90**2, unit=1.0, pairs=np.array([45.0, 45.0]))
    among = sp.csr_array(np.ones((n_new, n_new)) - np.eye(n_new))
    scores = np.tile([0.2, 0.0], (n_new, 1))
    # Links are 1.5 times as dense inside classes as across.
    one = Affinity(np.array([[np.log(1.5)]]), np.array([[(1.2 - 0.8) * density]]))
    found = fitted.settle(scores, sp.csr_array((n_new, 3)), among, W, one)
    np.testing.assert_allclose(softmax(found, axis=1), softmax(scores, axis=1), atol=0.1)


def test_links_among_new_nodes_may_be_given_in_many_ways(half):
    _, clf, links = half
    expected = clf.predict_proba(graph=links)
    new, other = links.nonzero()
    once = (other < 450) | (other - 450 > new)
    pairs = np.column_stack([new, other])
    loops = np.column_stack([np.arange(450), 450 + np.arange(450)])
    for form in (
        links.toarray(),
        links.tocoo(),
        pairs,
        pairs[once],
        np.concatenate([pairs, loops]),
        np.column_stack([pairs, np.ones(len(pairs))]),
        {"new": new[once], "fitted": other[once]},
    ):
        np.testing.assert_array_equal(clf.predict_proba(graph=form), expected)
    upper = sp.hstack([links[:, :450], sp.triu(links[:, 450:])])
    with pytest.warns(UserWarning, match="made symmetric"):
        found = clf.predict_proba(graph=upper)
    np.testing.assert_array_equal(found, expected)


def test_of_links_among_new_nodes_in_both_directions_the_larger_counts():
    matrix = sp.csr_array([[1.0, 7.0, 2.0], [0.0, 5.0, 9.0]])  # one fitted node, then two new ones
    pairs = [[0, 0, 1.0], [0, 1, 7.0], [0, 2, 2.0], [1, 1, 5.0], [1, 2, 9.0]]
    with pytest.warns(UserWarning, match="made symmetric"):
        found = [check_links(matrix, 2, 1), check_links(pairs, 2, 1)]
    for links in found:
        assert links.to_fitted.toarray().tolist() == [[1], [0]]
        assert links.among.toarray().tolist() == [[0, 5], [5, 0]]
    assert check_links([[0, 6]], None, 4).among.shape == (3, 3)


def test_new_nodes_may_be_linked_by_name():
    names = np.array(["a", "b", "c"])
    for second, expected in ((["a", "y"], [[1, 0, 0], [0, 0, 0]]), (["y", "x"], np.zeros((2, 3)))):
        table = {"new": np.array(["x", "x"]), "fitted": np.array(second)}
        found = check_links(table, 2, 3, new=np.array(["x", "y"]), fitted=names)
        np.testing.assert_array_equal(found.to_fitted.toarray(), expected)
        assert found.among.toarray().tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("b", "row 0 of the fitted column names 'b', which is both a fitted and a new node"),
        ("z", "names 'z', which is neither a fitted nor a new node"),
    ],
)
def test_names_that_are_ambiguous_or_unknown_are_refused(second, message):
    table = {"new": np.array(["x"]), "fitted": np.array([second])}
    with pytest.raises(InputError, match=message):
        check_links(table, 2, 2, new=np.array(["x", "b"]), fitted=np.array(["a", "b"]))


def test_a_bad_weight_among_new_nodes_names_both():
    with pytest.raises(InputError, match="new node 0 to new node 1 is negative: -2"):
        check_links([[0, 6, -2.0]], 2, 5)


def test_one_hop_over_links_among_new_nodes_is_exact():
    """Fitted nodes keep their degrees, so new nodes here have links only among each other."""
    graph, X = draw(16, weighted=True)
    graph[:10, 10:] = graph[10:, :10] = 0.0
    smoothing = Smoothing(X[:10], Graph(graph[:10, :10]))
    exact = Smoothing(X, Graph(graph))
    exact.reduction = smoothing.reduction
    unit = exact.graph.unit
    new = NewNodes(X[10:], sp.csr_array((6, 10)), sp.csr_array(graph[10:, 10:] / unit))
    for hops, close in ((1, 1e-5), (16, 0.1)):
        kept = FittedSoftmax(
            smoothing.reduction, np.zeros((2, 2)), hops, 0.1, smoothing.lagged(hops),
            smoothing.normaliser,
        )  # fmt: skip
        rows = exact.over(hops)[10:]
        assert np.linalg.norm(kept.rows(new) - rows) <= close * np.linalg.norm(rows)


POOLED = ("pool", "links alone")


@pytest.fixture(scope="module", params=POOLED)
def pooled(request):
    """A pooled model of texts without some, these texts, and their links."""
    texts = make_texts(seed=1)
    out = np.sort(np.random.default_rng(1).choice(np.flatnonzero(texts.y < 0), 120, replace=False))
    keep = np.setdiff1d(np.arange(400), out)
    rest = texts.without(out)
    by_features = request.param == "pool"
    nodes = NodeData(3, rest.X if by_features else None, rest.y, graph=Graph(rest.graph))
    experts = [Propagation(), BlockModel((None,)), Links()]
    if by_features:
        experts += [Features(), OwnFeatures()]
    evaluation = evaluate(experts, nodes, hold_out(rest.y))
    costs = Pooled(evaluation.finish(nodes).verdict).for_new_nodes(np.eye(3), True)
    links = joined(texts.graph, out, keep)
    return costs, texts.X[out] if by_features else None, links[:, :280], links[:, 280:]


def judge_some(pooled, some, among=True):
    """Return what some of the new nodes cost."""
    costs, X, links, between = pooled
    between = between[some][:, some]
    if not among:
        between = sp.csr_array(between.shape)
    return costs.costs(NewNodes(None if X is None else X[some], links[some], between))


def test_new_nodes_get_the_same_pool(pooled):
    """One by one or together, in any order."""
    everyone = np.arange(120)
    apart = judge_some(pooled, everyone, among=False)
    one_by_one = np.concatenate([judge_some(pooled, everyone[v : v + 1]) for v in range(20)])
    np.testing.assert_allclose(apart[:20], one_by_one, rtol=1e-4, atol=1e-5)
    together = judge_some(pooled, everyone)
    assert np.abs(np.exp(-together) - np.exp(-apart)).max() > 0.05
    order = np.random.default_rng(0).permutation(120)
    np.testing.assert_allclose(judge_some(pooled, order), together[order], rtol=1e-4, atol=1e-5)
    linked = np.diff(sp.csr_array(pooled[3]).indptr) > 0
    np.testing.assert_allclose(together[~linked], apart[~linked], rtol=1e-4, atol=1e-5)


@dataclass(frozen=True)
class Silent(Learnt):
    """An expert that cannot judge new nodes."""

    log_proba: np.ndarray

    def reordered(self, position):
        return self


def test_experts_that_cannot_judge_new_nodes_leave_the_others_calibrated(pooled):
    costs, X, links, among = pooled
    new = NewNodes(X, links, among)
    verdict = costs.verdict
    best = int(verdict.pool.weights.argmax())
    silent = Silent(np.zeros((280, 3), np.float32))
    pool = replace(verdict.pool, bias=np.zeros(3), scale=1.0, proportions=verdict.pool.learnt)
    alone = tuple(own if k == best else silent for k, own in enumerate(verdict.learnt))
    equal = replace(pool, weights=0.25 + 0 * pool.weights)
    found = replace(costs, verdict=replace(verdict, pool=equal, learnt=alone))
    # Calibrated on its own, an expert has weight one; fewer than all must not seem unsure.
    total = min(1.0, 0.25 * len(alone))
    expected = softmax(total * pool.part(best, verdict.learnt[best].judge(new)), axis=1)
    np.testing.assert_allclose(np.exp(-found.costs(new)), expected, rtol=1e-6)
    nobody = replace(costs, verdict=replace(verdict, learnt=tuple(silent for _ in alone)))
    proportions = np.tile(verdict.pool.proportions, (120, 1))
    np.testing.assert_allclose(np.exp(-nobody.costs(new)), proportions, rtol=1e-6)
    everyone = verdict.pool.only(np.ones(len(alone), bool))
    assert everyone.weights.tolist() == verdict.pool.weights.tolist()


def test_texts_with_links_among_them_are_judged_nearly_as_well_as_in_a_whole_fit():
    scores = []
    for seed in range(4):
        texts = draw_citations(n=800, topical=0.15, seed=seed)
        y = texts.labels(15, seed)
        out = np.random.default_rng(seed).choice(np.flatnonzero(y < 0), 160, replace=False)
        keep = np.setdiff1d(np.arange(800), out)
        clf = NodeClassifier(random_state=0)
        whole = clf.fit(texts.X, y, graph=texts.graph).labels_[out]
        clf.fit(texts.X[keep], y[keep], graph=texts.graph[keep][:, keep])
        links = joined(texts.graph, out, keep)
        apart = clf.predict(texts.X[out], graph=links[:, :640])
        proba = clf.predict_proba(texts.X[out], graph=links)
        found = np.stack([whole, apart, clf.classes_[proba.argmax(axis=1)]])
        right = (found == texts.z[out]).mean(axis=1)
        scores.append([*right, proba.max(axis=1).mean()])
    whole, apart, together, sure = np.mean(scores, axis=0)
    assert together > whole - 0.04
    assert together > apart
    assert abs(sure - together) < 0.08
