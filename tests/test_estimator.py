"""NodeClassifier, as its users meet it."""

from __future__ import annotations

import logging
import warnings
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from excluded_helpers import Excluding
from nodeproof import NodeClassifier
from nodeproof.datasets import make_planted
from nodeproof.errors import InputError
from nodeproof.metrics import expected_calibration_error, matched_accuracy
from nodeproof.solvers import BlockCADO
from nodeproof.terms import Covariance, Labels, covariance

pytestmark = pytest.mark.filterwarnings("ignore:the data do not tell")

EXPECTED_FAILURES = {
    "check_classifiers_classes": (
        "trains on the classes −1 and 1, but −1 means unknown here; scikit-learn exempts its own "
        "semi-supervised estimators by name"
    ),
    "check_supervised_y_no_nan": (
        "NaN means unknown here, and nodes of which no label is known are clustered"
    ),
}


@parametrize_with_checks(
    [NodeClassifier(random_state=0)], expected_failed_checks=lambda _: EXPECTED_FAILURES
)
def test_scikit_learn_conventions_hold(estimator, check):
    if getattr(check, "keywords", {}).get("readonly_memmap"):
        # What is given is copied, or not, before there are experts; these train for long.
        estimator = clone(estimator).set_params(weights="calibrated")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


@pytest.fixture(scope="module")
def data():
    return make_planted(random_state=0)


@pytest.fixture(scope="module")
def fitted(data):
    return NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)


@pytest.mark.parametrize("sources", ["G", "F", "GF", "GL", "FL", "GFL"])
def test_any_source_may_be_missing(data, sources):
    clf = NodeClassifier(n_classes=3, random_state=0).fit(
        data.X if "F" in sources else None,
        data.y if "L" in sources else None,
        graph=data.graph if "G" in sources else None,
    )
    hidden = data.y < 0
    if "L" in sources:
        accuracy = (clf.labels_ == data.y_true)[hidden].mean()
    else:
        accuracy = matched_accuracy(data.y_true[hidden], clf.labels_[hidden])
    assert accuracy > data.genie_accuracy(sources) - 0.03
    assert set(clf.sources_) == {
        name for name, letter in zip(("graph", "features", "labels"), "GFL", strict=True)
        if letter in sources
    }  # fmt: skip


def test_labels_alone_give_every_other_node_the_proportions():
    clf = NodeClassifier(random_state=0).fit(y=np.array([0, 0, 0, 1, -1, -1]))
    assert clf.labels_[:4].tolist() == [0, 0, 0, 1]
    assert clf.proba_[4, 0] > clf.proba_[4, 1] > 0


def test_every_node_gets_a_label_and_probabilities(data, fitted):
    assert fitted.labels_.shape == (900,)
    assert fitted.proba_.shape == (900, 3)
    np.testing.assert_allclose(fitted.proba_.sum(axis=1), 1.0)
    np.testing.assert_array_equal(fitted.predict(), fitted.labels_)
    np.testing.assert_array_equal(fitted.predict_proba(), fitted.proba_)
    assert sum(fitted.sources_.values()) == pytest.approx(1.0)
    assert fitted.status_ == "converged"


def test_choices_say_what_and_why(fitted):
    assert set(fitted.choices_) >= {"terms", "null_model", "weights", "solver", "probabilities"}
    assert set(fitted.choices_) >= {"experts", "log_loss", "held_out", "accuracy", "proportions"}
    assert all(set(choice) == {"value", "why"} for choice in fitted.choices_.values())
    assert fitted.choices_["null_model"]["value"] == "uniform"


def test_names_of_classes_may_be_strings(data, fitted):
    names = np.array(["red", "green", "<script>"])
    y = np.where(data.y >= 0, names[data.y], "")
    clf = NodeClassifier(random_state=0).fit(data.X, y, graph=data.graph)
    assert clf.classes_.tolist() == ["<script>", "green", "red"]
    # Only the names differ: the order of the classes is another one.
    agreement = (clf.labels_ == names[fitted.labels_]).mean()
    assert agreement > 0.99


def test_a_second_fit_forgets_what_was_found_by_the_first():
    data = make_planted(cluster_size=20, p=0.6, omega=0.1, random_state=0)
    clf = NodeClassifier(random_state=0)
    clf.fit(pd.DataFrame(data.X).add_prefix("x"), data.y, graph=data.graph)
    clf.certify(time_budget=1.0)
    assert {"map_labels_", "certified_nodes_", "feature_names_in_"} <= set(vars(clf))
    clf.fit(y=data.y[:50], graph=data.graph[:50, :50])
    left = {"map_labels_", "certified_nodes_", "feature_names_in_", "n_features_in_"}
    assert not left & set(vars(clf))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.ones((12, 2)), "graph": np.eye(11)}, "12 rows"),
        ({"X": np.full((12, 2), 1e200), "validation": ([2], ["?"])}, "validation"),
        ({"X": None, "y": [None] * 12, "graph": None}, "neither features nor a graph"),
    ],
)
def test_a_fit_that_is_refused_leaves_an_earlier_one_as_it_was(change, message):
    X = np.array([[-3.0]] * 6 + [[3.0]] * 6) + np.linspace(0, 1, 12)[:, None]
    y = ["a", "a"] + [None] * 8 + ["b", "b"]
    clf = NodeClassifier(random_state=0, n_jobs=1).fit(X, y)
    before, proba = dict(vars(clf)), clf.predict_proba(X)
    with pytest.raises(InputError, match=message):
        clf.fit(**{"X": X, "y": y} | change)
    assert vars(clf) == before
    np.testing.assert_array_equal(clf.predict_proba(X), proba)


@pytest.mark.filterwarnings("ignore:a 2×2 array of integers")
def test_integer_labels_keep_their_names_and_dtype():
    y = np.array([10, 20, -1, -1], dtype=np.int16)
    clf = NodeClassifier(random_state=0).fit(y=y, graph=np.array([[0, 1], [2, 3]]).T)
    assert clf.classes_.dtype == np.int16
    assert set(clf.labels_.tolist()) <= {10, 20}


def test_classes_without_a_label_get_names_of_their_own(data):
    y = np.where(data.y == 2, -1, data.y)
    clf = NodeClassifier(n_classes=3, random_state=0).fit(data.X, y, graph=data.graph)
    assert clf.classes_.tolist() == [0, 1, 2]
    assert (clf.labels_ == data.y_true).mean() > 0.99
    words = np.array(["x", "y", ""])[y]
    named = NodeClassifier(n_classes=3, random_state=0).fit(data.X, words, graph=data.graph)
    assert named.classes_.tolist() == ["x", "y", "unnamed 1"]


def test_wrong_labels_are_found():
    data = make_planted(label_accuracy=0.7, random_state=1)
    clf = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
    wrong = (data.y >= 0) & (data.y != data.y_true)
    suspects = clf.suspects_
    assert suspects.dtype.names == ("node", "given", "suggested", "p_wrong", "excluded")
    assert not suspects.excluded.any()  # until that is proven
    assert wrong[suspects.node].mean() >= 0.95
    assert wrong[suspects.node].sum() >= 0.95 * wrong.sum()
    assert (np.diff(suspects.p_wrong) <= 0).all()
    np.testing.assert_array_equal(suspects.given, data.y[suspects.node])
    assert (suspects.suggested == data.y_true[suspects.node]).mean() > 0.95


def test_suspects_that_no_optimal_labelling_keeps_are_marked_by_a_proof():
    data = make_planted(3, 60, p=0.4, label_ratio=0.4, label_accuracy=0.8, random_state=0)
    clf = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
    before = clf.suspects_
    proof = clf.certify(time_budget=5)
    assert proof.certified_nodes.mean() > 0.9
    found = clf.suspects_
    assert found.dtype == before.dtype
    np.testing.assert_array_equal(found.node, before.node)
    sure = clf.certified_nodes_[found.node]
    lost = clf.map_labels_[found.node] != found.given
    assert found.excluded[sure & lost].all()
    assert not found.excluded[~lost].any()
    assert found.excluded.any()
    assert not before.excluded.any()
    assert not clf.fitted_.suspects.excluded.any()
    clf.fit(data.X, data.y, graph=data.graph)
    assert not clf.suspects_.excluded.any()


def test_a_proof_up_to_names_of_classes_excludes_no_label(fitted):
    found = fitted.fitted_
    given, proof = found.given, found.certify(time_budget=0.5)
    some = np.flatnonzero(given >= 0)[:3]
    by_name = found.excluded_by(Excluding(proof, given, some))
    assert np.flatnonzero(by_name).tolist() == some.tolist()
    for silent in (None, Excluding(proof, given, some, renaming=True)):
        assert not found.excluded_by(silent).any()


def test_right_labels_are_not_suspected(fitted):
    assert len(fitted.suspects_) == 0


def test_probabilities_mean_something():
    errors = []
    for seed in range(3):
        data = make_planted(p=0.07, omega=0.3, label_ratio=0.05, random_state=seed)
        clf = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
        hidden = data.y < 0
        errors.append(expected_calibration_error(data.y_true[hidden], clf.proba_[hidden]))
    assert np.mean(errors) < 0.05


@pytest.mark.parametrize(
    ("settings", "allowed"),
    [
        ({}, 0.3),
        ({"p": 0.07, "omega": 0.3, "label_ratio": 0.05}, 2.5),
        ({"p": 0.08, "omega": 0.3, "label_ratio": 0.0}, 2.0),
        ({"label_accuracy": 0.7}, 0.3),
        ({"cluster_size": [600, 200, 100], "omega": 0.1, "label_ratio": 0.1}, 0.5),
    ],
)
def test_accuracy_is_close_to_the_genie(settings, allowed):
    """Three seeds here; benchmarks/planted.py prints all settings over twenty."""
    points = []
    for seed in range(3):
        data = make_planted(random_state=seed, **settings)
        clf = NodeClassifier(n_classes=3, random_state=seed).fit(data.X, data.y, graph=data.graph)
        hidden = data.y < 0
        found = clf.labels_[hidden]
        truth = data.y_true[hidden]
        accuracy = matched_accuracy(truth, found) if hidden.all() else (found == truth).mean()
        points.append(100 * (data.genie_accuracy() - accuracy))
    assert np.mean(points) <= allowed


@pytest.mark.parametrize("scale", [False, True])
def test_features_with_class_means_are_told_apart(scale):
    X, z = make_blobs(300, centers=3, n_features=4, random_state=0)
    X = StandardScaler().fit_transform(X) if scale else X
    y = np.full(300, -1)
    for i in range(3):
        y[np.flatnonzero(z == i)[:3]] = i
    assert (NodeClassifier(random_state=0).fit(X, y).labels_ == z).mean() > 0.97
    clf = NodeClassifier(weights="calibrated", random_state=0).fit(X, y)
    assert (clf.labels_ == z).mean() > 0.97
    assert "intercept=True" in clf.choices_["terms"]["value"][0]


def test_new_nodes_are_judged_by_their_features(data):
    clf = NodeClassifier(random_state=0).fit(data.X, data.y)
    fresh = data.X[:50]
    proba = clf.predict_proba(fresh)
    assert proba.shape == (50, 3)
    assert (clf.predict(fresh) == data.y_true[:50]).mean() > 0.95


def test_judging_by_features_alone_is_said(fitted, data):
    with pytest.warns(UserWarning, match="features alone"):
        fitted.predict(data.X)


def test_a_pyg_data_counts_only_its_training_labels(data):
    mask = data.y >= 0
    pyg = SimpleNamespace(
        edge_index=np.vstack(data.graph.nonzero()), num_nodes=900, x=data.X, y=data.y_true
    )
    with pytest.raises(InputError, match="train_mask"):
        NodeClassifier().fit(graph=pyg)
    pyg.train_mask = mask
    clf = NodeClassifier(random_state=0).fit(graph=pyg)
    assert (clf.fitted_.given >= 0).sum() == mask.sum()
    assert (clf.labels_ == data.y_true).mean() > 0.99


def test_the_published_algorithm_and_the_papers_weights_are_at_hand(data):
    block = NodeClassifier(weights=(1, 2.5, 13), temperature=0, random_state=0)
    block.fit(data.X, data.y, graph=data.graph)
    assert (block.labels_ == data.y_true).mean() > 0.97
    for solver, works in (("cado", True), ("cado-W", False)):
        published = NodeClassifier(solver=solver, random_state=0)
        published.fit(data.X, data.y, graph=data.graph)
        assert published.choices_["weights"]["value"] == (1.0, 2.5, 13.0)
        assert ((published.labels_ == data.y_true)[data.y < 0].mean() > 0.7) == works


def test_terms_and_solvers_may_be_objects(data):
    clf = NodeClassifier(
        terms=[Covariance(shrinkage=2.0), Labels(accuracy=0.8)],
        solver=BlockCADO(n_init=1, random_state=0),
    ).fit(data.X, data.y, graph=data.graph)
    assert (clf.labels_ == data.y_true).mean() > 0.99
    assert clone(clf).get_params()["terms"] is not None


def test_a_fit_that_does_not_settle_warns(data):
    hard = make_planted(p=0.07, omega=0.3, label_ratio=0.05, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        NodeClassifier(max_iter=2, random_state=0).fit(hard.X, hard.y, graph=hard.graph)


def test_a_class_without_nodes_is_reported(data):
    # Two identical cliques, no features: a fifth class has nothing to hold.
    block = np.kron(np.eye(2), np.ones((20, 20)))
    y = np.full(40, -1)
    y[[0, 20]] = 0, 1
    with pytest.warns(UserWarning, match="no node was assigned"):
        NodeClassifier(n_classes=5, random_state=0).fit(y=y, graph=block)


def test_the_same_seed_gives_the_same_bits(data):
    runs = [
        NodeClassifier(random_state=7, n_jobs=jobs).fit(data.X, data.y, graph=data.graph).proba_
        for jobs in (1, 2)
    ]
    np.testing.assert_array_equal(*runs)


def test_verbose_goes_to_the_error_stream(data, capsys, monkeypatch):
    monkeypatch.setattr(logging.getLogger("nodeproof"), "propagate", False)  # pytest listens
    clf = NodeClassifier(verbose=True, n_init=1, weights="calibrated", random_state=0)
    clf.fit(data.X, data.y)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "sweep" in printed.err


def test_predict_before_fit_is_refused():
    with pytest.raises(NotFittedError):
        NodeClassifier().predict()


@pytest.mark.parametrize("labels", [0, 1, 2])
@pytest.mark.parametrize("shift", [0.0, 10.0, 1e9])
def test_groups_with_means_are_found_wherever_they_lie(labels, shift):
    """Nearly centred blobs must not be mistaken for centred covariances."""
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=300)
    X = rng.standard_normal((300, 2)) + 3.0 * (2 * z[:, None] - 1)
    X += shift - 0.97 * X.mean(axis=0)
    y = np.full(300, -1)
    for i in range(2):
        y[np.flatnonzero(z == i)[:labels]] = i
    clf = NodeClassifier(n_classes=2, random_state=0).fit(X, y)
    assert matched_accuracy(z, clf.labels_) > 0.98
    if labels:
        assert (clf.labels_ == z).mean() > 0.98
    if shift:
        np.testing.assert_array_equal(clf.predict(X), clf.labels_)


def test_classes_bear_the_names_of_the_labels_whatever_the_terms_and_solver(data):
    for seed in range(4):
        clf = NodeClassifier(terms=[Covariance()], random_state=seed)
        clf.fit(data.X, data.y, graph=data.graph)
        assert (clf.labels_ == data.y_true).mean() > 0.98
        assert len(clf.suspects_) < 10


def test_a_label_that_nothing_speaks_against_is_no_suspect():
    only_labels = NodeClassifier(random_state=0).fit(y=np.repeat([0, 1, 2, -1], 30))
    assert len(only_labels.suspects_) == 0
    noisy = make_planted(5, 60, p=0.1, omega=0.6, label_accuracy=0.6, random_state=0)
    clf = NodeClassifier(random_state=0).fit(noisy.X, noisy.y, graph=noisy.graph)
    assert (clf.suspects_.given != clf.suspects_.suggested).all()


def test_nodes_without_links_are_not_pushed_into_the_smallest_class():
    data = make_planted(cluster_size=[600, 200, 100], omega=1.0, label_ratio=0.1, random_state=0)
    alone = np.random.default_rng(0).choice(900, 45, replace=False)
    graph = data.graph.tolil()
    graph[alone] = 0
    graph[:, alone] = 0
    clf = NodeClassifier(random_state=0).fit(y=data.y, graph=graph.tocsr())
    linked = np.setdiff1d(np.arange(900), alone)
    assert (clf.labels_ == data.y_true)[linked].mean() > 0.95
    hidden = alone[data.y[alone] < 0]
    np.testing.assert_allclose(clf.proba_[hidden].mean(axis=0), [0.67, 0.22, 0.11], atol=0.1)


def test_few_labels_in_a_large_graph_reach_everyone():
    """From the labels alone the rows would stay uniform; another start is then taken."""
    n0 = 10_000
    data = make_planted(
        10, n0, p=10 / n0, q=10 / (9 * n0), n_features=1, n_noise=0, label_ratio=0.0003,
        random_state=0,
    )  # fmt: skip
    clf = NodeClassifier(random_state=0).fit(y=data.y, graph=data.graph)
    assert (clf.labels_ == data.y_true).mean() > 0.98


def test_data_that_tell_nothing_are_reported():
    y = np.full(300, -1)
    y[:6] = 0, 1, 2, 0, 1, 2
    with pytest.warns(UserWarning, match="do not tell the classes apart"):
        NodeClassifier(random_state=0).fit(y=y)


@pytest.mark.filterwarnings("ignore:the fit reached max_iter")
def test_new_nodes_are_judged_by_the_weights_of_the_fit(data):
    for temperature in (1.0, 0.0):
        clf = NodeClassifier(weights=(0, 2.5, 0), temperature=temperature, tol=1e-7, random_state=0)
        clf.fit(data.X, data.y)
        np.testing.assert_array_equal(clf.predict(data.X), clf.labels_)
        np.testing.assert_allclose(clf.predict_proba(data.X), clf.proba_, atol=1e-4)


def test_ctrl_c_reaches_the_caller_and_loses_nothing(data):
    def press(progress):
        if progress.iteration == 2:
            raise KeyboardInterrupt

    clf = NodeClassifier(random_state=0, verbose=press)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(data.X, data.y, graph=data.graph)
    assert clf.status_ == "interrupted"
    assert clf.predict().shape == (900,)


def test_a_tolerance_of_zero_can_be_met(data):
    clf = NodeClassifier(temperature=0, tol=0, random_state=0).fit(data.X, data.y, graph=data.graph)
    assert clf.status_ == "converged"


def test_fits_in_several_threads_give_the_same_bits(data):
    def fit(seed):
        return NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph).proba_

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(fit, range(4)))
    assert all((proba == results[0]).all() for proba in results)


def test_inputs_are_not_changed(data):
    X, y, graph = data.X.copy(), data.y.copy(), data.graph.copy()
    NodeClassifier(random_state=0).fit(X, y, graph=graph)
    np.testing.assert_array_equal(X, data.X)
    np.testing.assert_array_equal(y, data.y)
    assert (graph != data.graph).nnz == 0


@pytest.mark.parametrize("K", [1, 2])
def test_tiny_inputs_work(K):
    clf = NodeClassifier(n_classes=K, random_state=0).fit(graph=np.array([[0, 1], [1, 0]]))
    assert len(clf.labels_) == 2


def test_isolated_nodes_and_constant_features_work(data):
    X = np.column_stack([data.X, np.ones(900), np.zeros(900), data.X[:, 0]])
    graph = data.graph.tolil()
    graph[:30] = 0
    graph[:, :30] = 0
    clf = NodeClassifier(random_state=0).fit(X, data.y, graph=graph.tocsr())
    assert np.isfinite(clf.proba_).all()
    assert (clf.labels_ == data.y_true).mean() > 0.98


@pytest.mark.parametrize("scale", [1e-30, 1e-6, 1e6, 1e30])
def test_the_unit_of_the_features_does_not_matter(data, fitted, scale):
    clf = NodeClassifier(random_state=0).fit(data.X * scale, data.y, graph=data.graph)
    assert (clf.labels_ == fitted.labels_).mean() > 0.995


def test_features_summed_in_stretches_give_the_same_answer(data, fitted, monkeypatch):
    monkeypatch.setattr(covariance, "_MOST_PRODUCTS", 1000)
    clf = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
    np.testing.assert_allclose(clf.proba_, fitted.proba_, atol=1e-5)


def test_wide_features_fit_into_memory():
    X = np.random.default_rng(0).standard_normal((100, 400)).astype(np.float32)
    clf = NodeClassifier(n_classes=2, n_init=1, max_iter=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf.fit(X)
    assert np.isfinite(clf.proba_).all()
