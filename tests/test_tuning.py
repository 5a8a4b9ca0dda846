"""Settings chosen on held-out labels: what is hidden, what is compared, what is chosen."""

from dataclasses import replace

import numpy as np
import pytest
from nodeproof.auto.tuning import Setting, Tuned, tune_links, tune_softmax
from scipy.special import log_softmax, softmax
from sklearn.preprocessing import StandardScaler

from citation_helpers import draw_citations
from nodeproof import NodeClassifier, Problem
from nodeproof.auto import plans
from nodeproof.auto.held_out import HeldOut, hold_out
from nodeproof.datasets import make_planted
from nodeproof.graph import Graph
from nodeproof.metrics import expected_calibration_error
from nodeproof.smoothing import Smoothing
from nodeproof.solvers import BlockCADO
from nodeproof.terms import Labels, NodeData, Softmax

K = 3
EQUAL = np.full(K, 1 / K)

pytestmark = pytest.mark.usefixtures("one_thread")


# What is hidden. ------------------------------------------------------------------------


def labels_of(*counts, n=60, seed=0):
    """Return so many labels of each class, at random nodes."""
    codes = np.repeat(np.arange(len(counts)), counts)
    y = np.full(n, -1)
    y[np.random.default_rng(seed).choice(n, len(codes), replace=False)] = codes
    return y


@pytest.mark.parametrize("counts", [(5, 5, 5), (2, 9, 3), (2, 2), (20, 1, 4)])
def test_each_fit_misses_the_labels_of_its_fold_and_no_others(counts):
    y = labels_of(*counts)
    before = y.copy()
    held = hold_out(y)
    assert len(held.nodes) == len(held.codes) == len(held.folds) == len(held.weights)
    np.testing.assert_array_equal(held.codes, y[held.nodes])
    assert (np.diff(held.nodes) > 0).all()
    assert set(held.folds.tolist()) <= set(range(len(held.y)))
    for fold, seen in enumerate(held.y):
        hidden = held.nodes[held.folds == fold]
        expected = y.copy()
        expected[hidden] = -1
        np.testing.assert_array_equal(seen, expected)
        # Every class can still be learnt.
        assert set(seen[seen >= 0].tolist()) == set(range(len(counts)))
    np.testing.assert_array_equal(y, before)


def test_every_label_is_held_out_once_except_those_alone_in_their_class():
    y = labels_of(6, 1, 4, 1)
    held = hold_out(y)
    alone = np.flatnonzero((y == 1) | (y == 3))
    assert set(held.nodes) == set(np.flatnonzero(y >= 0)) - set(alone)
    for seen in held.y:
        np.testing.assert_array_equal(seen[alone], y[alone])


@pytest.mark.parametrize("counts", [(1, 1, 1), (7,), (0, 9), (1,)])
def test_too_few_labels_to_hold_any_back_give_nothing(counts):
    assert hold_out(labels_of(*counts)) is None


def test_validation_labels_are_held_out_instead():
    y = labels_of(4, 4)
    nodes, codes = np.flatnonzero(y < 0)[[7, 2, 5]], np.array([1, 0, 1])
    held = hold_out(y, (nodes, codes))
    np.testing.assert_array_equal(held.nodes, np.sort(nodes))
    np.testing.assert_array_equal(held.codes, codes[np.argsort(nodes)])
    assert len(held.y) == 1
    np.testing.assert_array_equal(held.y[0], y)
    assert (held.folds == 0).all()


# How fits are judged. -------------------------------------------------------------------


def held_of(codes, folds=None, weights=None):
    """Return held-out labels at nodes 0, 1, …; what fits may see does not matter here."""
    codes = np.asarray(codes)
    folds = np.zeros(len(codes), dtype=int) if folds is None else np.asarray(folds)
    weights = np.ones(len(codes)) if weights is None else np.asarray(weights)
    seen = [np.full(len(codes), -1)] * (int(folds.max()) + 1)
    return HeldOut(np.arange(len(codes)), codes, folds, seen, weights)


def test_memberships_are_taken_from_the_fit_that_did_not_see_the_label():
    held = held_of([0, 1, 2, 0, 1], folds=[0, 1, 1, 2, 0])
    rows = [np.full((5, K), fold + 1.0) / 10 for fold in range(3)]
    expected = np.log(np.array([0.1, 0.2, 0.2, 0.3, 0.1]))
    np.testing.assert_allclose(held.collect(rows), np.tile(expected[:, None], K))
    partly = held.collect(rows[:2])
    np.testing.assert_array_equal(np.isnan(partly[:, 0]), held.folds == 2)


def test_rows_of_zero_do_not_cost_everything():
    held = held_of([0, 1])
    assert np.isfinite(held.losses(held.collect([np.eye(K)[[1, 1]]]))).all()


def test_losses_are_minus_log_probabilities_of_the_labels():
    held = held_of([0, 2, 1, 1], weights=[1.0, 1.0, 2.0, 0.0])
    scores = np.random.default_rng(0).standard_normal((4, K))
    losses = held.losses(scores)
    np.testing.assert_allclose(losses, -np.log(softmax(scores, axis=1)[range(4), [0, 2, 1, 1]]))
    assert held.mean(losses) == pytest.approx((losses[0] + losses[1] + 2 * losses[2]) / 4)


def test_settings_are_compared_at_the_scale_that_suits_each():
    held, scores = drawn(200, sure=2.0)
    np.testing.assert_allclose(
        held.best_losses(7.0 * scores), held.best_losses(0.4 * scores), rtol=1e-3
    )
    assert held.log_loss(scores) == pytest.approx(held.mean(held.best_losses(scores)))


def test_labels_that_are_all_met_do_not_make_probabilities_extreme():
    codes = np.arange(9) % K
    held = held_of(codes)
    proba = softmax(held.scale(np.eye(K)[codes]) * np.eye(K)[codes], axis=1)
    assert 0.5 < proba.max() < 0.999


def test_labels_count_by_the_share_of_their_class():
    held = held_of(np.repeat([0, 1, 2], 20))
    weighed = held.reweighted(np.array([0.6, 0.3, 0.1]), EQUAL)
    sums = np.bincount(held.codes, weights=weighed.weights)
    np.testing.assert_allclose(sums / sums.sum(), [0.6, 0.3, 0.1], atol=0.02)
    assert weighed.weights.mean() == pytest.approx(1.0)
    assert (held.weights == 1).all()


def test_no_class_counts_for_everything_or_nothing():
    held = held_of(np.repeat([0, 1, 2], 20)).reweighted(np.array([1.0 - 2e-9, 1e-9, 1e-9]), EQUAL)
    assert held.weights.max() < 100 * held.weights.min()


def test_better_means_by_more_than_chance():
    rng = np.random.default_rng(0)
    held = held_of(np.zeros(100, dtype=int))
    losses = rng.gamma(2.0, 0.5, size=100)
    assert held.is_better(losses - 0.1, than=losses)
    assert not held.is_better(losses + 0.1, than=losses)
    assert not held.is_better(losses, than=losses)
    once = losses.copy()
    once[3] -= 10.0  # all of the gain is in one node
    assert not held.is_better(once, than=losses, errors=1.1)
    noise = rng.standard_normal(100)
    assert not held.is_better(losses + noise - noise.mean() - 0.05, than=losses)


def test_more_standard_errors_ask_for_more():
    rng = np.random.default_rng(1)
    held = held_of(np.zeros(400, dtype=int))
    noise = rng.standard_normal(400)
    tried = 1.0 + noise - noise.mean() - 0.1  # two standard errors
    for errors, better in ((0.0, True), (1.0, True), (4.0, False)):
        assert held.is_better(tried, than=np.ones(400), errors=errors) == better


def test_nodes_that_count_nothing_or_are_missing_do_not_decide():
    held = held_of(np.zeros(20, dtype=int), weights=np.repeat([1.0, 1e-12], 10))
    losses = np.ones(20)
    mixed = losses + np.repeat([-0.5, 50.0], 10)
    assert held.is_better(mixed, than=losses)
    missing = losses + np.where(np.arange(20) < 5, np.nan, -0.5)
    assert held.is_better(missing, than=losses)
    assert not held.is_better(np.full(20, np.nan), than=losses)


# The accuracy to be expected. -----------------------------------------------------------


def drawn(n, sure=1.0, seed=0):
    """Return held-out labels and scores; the labels follow the softmax of ``sure × scores``."""
    rng = np.random.default_rng(seed)
    scores = 2.0 * rng.standard_normal((n, K))
    chances = softmax(sure * scores, axis=1)
    return held_of((chances.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1)), scores


@pytest.mark.parametrize("sure", [0.3, 1.0, 3.0], ids=["too sure", "calibrated", "not sure enough"])
def test_the_interval_holds_the_accuracy_about_as_often_as_it_says(sure):
    covered, estimates, truths = [], [], []
    for seed in range(120):
        held, scores = drawn(50, sure, seed)
        tuned = Tuned(Setting(None, 1.0), held, log_softmax(scores, axis=1), [])
        others, more = drawn(1000, sure, seed + 1000)
        proba = softmax(tuned.scale * log_softmax(more, axis=1), axis=1)
        estimate, low, high = tuned.accuracy(proba)
        truth = (more.argmax(axis=1) == others.codes).mean()
        assert 0.0 <= low <= estimate <= high <= 1.0
        covered.append(low <= truth <= high)
        estimates.append(estimate)
        truths.append(truth)
    assert np.mean(covered) >= 0.9
    # Few labels correct the confidence only so far; more of them do.
    assert np.mean(estimates) == pytest.approx(np.mean(truths), abs=0.03 if sure == 1.0 else 0.15)


def test_many_labels_correct_the_confidence():
    held, scores = drawn(20_000, 0.3)
    tuned = Tuned(Setting(None, 1.0), held, log_softmax(scores, axis=1), [])
    proba = softmax(tuned.scale * log_softmax(scores, axis=1), axis=1)
    truth = (scores.argmax(axis=1) == held.codes).mean()
    assert tuned.accuracy(proba)[0] == pytest.approx(truth, abs=0.01)


def test_there_is_nothing_to_estimate_where_every_node_has_a_label():
    held, scores = drawn(20)
    assert Tuned(Setting(None, 1.0), held, scores, []).accuracy(np.empty((0, K))) is None


def test_more_labels_make_the_interval_narrower_and_none_certain():
    widths = []
    for n in (4, 40, 400):
        codes = np.arange(n) % K
        tuned = Tuned(
            Setting(None, 1.0), held_of(codes), np.log(0.97 * np.eye(K)[codes] + 0.01), []
        )
        _, low, high = tuned.accuracy(np.full((10, K), 1 / K))
        widths.append(high - low)
    assert widths[0] > widths[1] > widths[2] > 0.001


# What is chosen. ------------------------------------------------------------------------


def prepare(texts, per_class, seed=0):
    graph, y = Graph(texts.graph), texts.labels(per_class, seed)
    return NodeData(K, texts.X, y, graph, Smoothing(texts.X, graph))


def accuracy_with(nodes, texts, setting):
    """Return the accuracy of a fit with a setting, at the nodes without a label."""
    terms = [term.bind(nodes) for term in (setting.term, Labels())]
    graph = nodes.graph if setting.trust else None
    problem = Problem(graph, terms, K, trust=setting.trust)
    solver = BlockCADO(random_state=0, affinities=setting.affinities)
    right = solver.solve(problem).W.argmax(axis=1) == texts.z
    return right[nodes.y < 0].mean()


def test_features_are_not_averaged_over_links_that_say_nothing():
    texts = draw_citations((1 / 3,) * K, n=300, n_words=150, topical=0.5, inside=1 / 3)
    nodes = prepare(texts, 20)
    tuned = tune_softmax(nodes, hold_out(nodes.y), BlockCADO(random_state=0))
    chosen = accuracy_with(nodes, texts, tuned.setting)
    alone = accuracy_with(nodes, texts, Setting(Softmax(hops=0), 0.0))
    averaged = accuracy_with(nodes, texts, Setting(Softmax(hops=16), 0.0))
    assert chosen > alone - 0.03
    assert chosen > averaged + 0.05


def test_weak_features_are_averaged_over_links_that_stay_in_the_class():
    texts = draw_citations((1 / 3,) * K, n=300, n_words=150, topical=0.15, inside=0.9)
    nodes = prepare(texts, 15)
    tuned = tune_softmax(nodes, hold_out(nodes.y), BlockCADO(random_state=0))
    assert isinstance(tuned.setting.term, Softmax)
    assert tuned.setting.term.hops > 0
    chosen = accuracy_with(nodes, texts, tuned.setting)
    assert chosen > accuracy_with(nodes, texts, Setting(Softmax(hops=0), 0.0)) + 0.2


@pytest.mark.parametrize("right", [1.0, 0.9, 0.75])
def test_wrong_labels_do_not_make_links_look_uncertain(right):
    """Labels that gainsay what links make certain are wrong; links are not to be doubted for it."""
    data = make_planted(
        *(4, 250), p=0.03, q=0.005, label_ratio=0.12, label_accuracy=right, random_state=0
    )
    clf = NodeClassifier(random_state=0).fit(y=data.y, graph=data.graph)
    hidden = data.y < 0
    accuracy = (clf.predict() == data.y_true)[hidden].mean()
    estimate, low, high = clf.estimated_accuracy_
    assert abs(estimate - accuracy) < 0.03
    assert low < accuracy < high
    assert expected_calibration_error(data.y_true[hidden], clf.proba_[hidden]) < 0.04


@pytest.mark.parametrize("seed", [1, 2])
def test_standardised_features_are_still_told_by_their_covariances(seed):
    """One unlucky fold of eighteen labels, some of them wrong, does not end the race."""
    data = make_planted(
        *(3, 300), p=0.02, q=0.01, omega=0.3, label_ratio=0.1, label_accuracy=0.8, random_state=seed
    )
    X = StandardScaler().fit_transform(data.X)
    clf = NodeClassifier(random_state=0).fit(X, data.y, graph=data.graph)
    assert (clf.predict() == data.y_true).mean() > 0.85


def test_without_a_graph_there_are_no_links_to_trust():
    texts = draw_citations((1 / 3,) * K, n=150, n_words=80, topical=0.5)
    nodes = replace(prepare(texts, 10), graph=None, smoothing=Smoothing(texts.X))
    tuned = tune_softmax(nodes, hold_out(nodes.y), BlockCADO(random_state=0))
    assert tuned.setting.trust == 0.0
    assert tuned.setting.term.hops == 0


def test_what_was_tried_is_told_and_the_scale_is_moderate():
    texts = draw_citations((1 / 3,) * K, n=150, n_words=80, topical=0.5)
    nodes = prepare(texts, 10)
    tuned = tune_softmax(nodes, hold_out(nodes.y), BlockCADO(random_state=0))
    assert len(tuned.losses) >= 2
    assert all(0 < loss < 2 * np.log(K) for loss in tuned.losses.values())
    assert 0.3 < tuned.scale < 3.0
    assert tuned.logs.shape == (len(tuned.held.nodes), K)


@pytest.mark.parametrize("tune", [tune_softmax, tune_links])
def test_held_out_labels_are_not_learnt_from(monkeypatch, tune):
    """Every fit is given labels without those of its fold."""
    texts = draw_citations((1 / 3,) * K, n=150, n_words=80, topical=0.5)
    nodes = prepare(texts, 6)
    held = hold_out(nodes.y)
    given = []
    bind = Labels.bind
    monkeypatch.setattr(Labels, "bind", lambda self, to: given.append(to.y) or bind(self, to))
    tune(nodes, held, BlockCADO(random_state=0))
    assert len(given) >= len(held.y)
    assert {y.tobytes() for y in given} == {y.tobytes() for y in held.y}


def test_links_alone_keep_their_likelihood_unless_labels_say_otherwise(planted):
    nodes = NodeData(K, y=planted.y, graph=Graph(planted.graph))
    tuned = tune_links(nodes, hold_out(planted.y), BlockCADO(random_state=0))
    assert tuned.setting == Setting(None, 1.0)


def test_links_that_seek_another_class_in_a_pattern_are_learnt():
    """Two classes seek each other, the third itself: one contrast for all cannot say that."""
    rng = np.random.default_rng(0)
    z = np.arange(240) % K
    density = np.array([[0.01, 0.1, 0.01], [0.1, 0.01, 0.01], [0.01, 0.01, 0.1]])
    upper = np.triu(rng.random((240, 240)) < density[z][:, z], 1)
    y = np.where(rng.random(240) < 0.25, z, -1)
    nodes = NodeData(K, y=y, graph=Graph(upper | upper.T))
    setting = tune_links(nodes, hold_out(y), BlockCADO(random_state=0)).setting
    assert setting.affinities == "matrix" or setting.term is not None


def test_features_that_are_left_out_are_named(monkeypatch, planted):
    tune = plans.tune_softmax
    links = Setting(Softmax(hops=0, of="links"), 0.0)
    monkeypatch.setattr(plans, "tune_softmax", lambda *args: replace(tune(*args), setting=links))
    clf = NodeClassifier(random_state=0).fit(planted.X + 5.0, planted.y, graph=planted.graph)
    assert "features are left out" in clf.choices_["terms"]["why"]
