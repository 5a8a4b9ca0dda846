"""Cross-validation hides labels and keeps the graph whole."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.model_selection import StratifiedKFold

from model_selection_helpers import NAMES, Spy, told
from nodeproof import NodeClassifier
from nodeproof.errors import InputError
from nodeproof.metrics import brier
from nodeproof.model_selection import PerClass, Split, cross_validate


def test_fits_see_the_whole_graph_and_only_training_labels():
    X, y, graph = told()
    cv = PerClass(n_train=2, n_validation=1, n_splits=3, random_state=0)
    splits = list(cv.split(y))
    found = cross_validate(Spy(), X, y, graph=graph, cv=cv, return_estimators=True)
    for spy, split in zip(found["estimators"], splits, strict=True):
        X_seen, y_seen, graph_seen, validation = spy.given
        assert X_seen is X
        assert graph_seen is graph
        assert validation is None
        assert np.flatnonzero(y_seen >= 0).tolist() == split.train.tolist()
        assert (y_seen[split.train] == y[split.train]).all()


def test_hidden_labels_change_the_score_but_not_the_fit(planted):
    clf = NodeClassifier(3, random_state=0)
    (split,) = PerClass(n_train=4, n_splits=1, random_state=0).split(planted.y_true)
    other = planted.y_true.copy()
    other[split.test] = (other[split.test] + 1) % 3
    found = [
        cross_validate(clf, planted.X, y, graph=planted.graph, cv=[split], return_proba=True)
        for y in (planted.y_true, other)
    ]
    assert np.array_equal(found[0]["proba"], found[1]["proba"])
    assert found[0]["test_accuracy"] > found[1]["test_accuracy"]
    alone = NodeClassifier(3, random_state=0)
    alone.fit(planted.X, split.hide(planted.y_true), graph=planted.graph)
    assert np.array_equal(found[0]["proba"][0], alone.proba_)
    right = alone.labels_[split.test] == planted.y_true[split.test]
    assert found[0]["test_accuracy"].tolist() == [right.mean()]


def test_validation_nodes_are_handed_over_where_asked():
    X, y, graph = told()
    cv = PerClass(n_train=2, n_validation=3, n_splits=2, random_state=0)
    found = cross_validate(
        Spy(), X, y, graph=graph, cv=cv, use_validation=True, return_estimators=True
    )
    for spy, split in zip(found["estimators"], cv.split(y), strict=True):
        nodes, kept = spy.given[3]
        assert nodes.tolist() == split.validation.tolist()
        assert kept.tolist() == y[split.validation].tolist()
        assert (spy.given[1][nodes] == -1).all()
    with pytest.raises(InputError, match="split 0 has no validation nodes"):
        cross_validate(Spy(), X, y, graph=graph, cv=3, use_validation=True)


def test_scores_are_what_their_names_say():
    X, y, _ = told()
    X = X.copy()
    wrong = [4, 5, 6]  # of the classes 1, 2 and 0
    X[wrong] += 1
    split = Split(np.arange(7, 13), [], [*wrong, *range(13, 22)])

    def truth_of_class_two(y_true, labels, proba, classes):
        assert proba.shape == (12, 3)
        assert classes.tolist() == [0, 1, 2]
        return (labels[y_true == 2] == 2).mean()

    names = ["accuracy", "balanced_accuracy", "macro_f1", "log_loss", "brier",
             "expected_calibration_error", truth_of_class_two]  # fmt: skip
    found = cross_validate(Spy(0.8), X, y, cv=[split], scoring=names)
    scores = {name: float(values[0]) for name, values in found.items()}
    assert scores.pop("fit_seconds") >= 0
    assert scores == pytest.approx(
        {
            "test_accuracy": 0.75,
            "test_balanced_accuracy": 0.75,
            "test_macro_f1": 0.75,
            "test_log_loss": -(9 * np.log(0.8) + 3 * np.log(0.1)) / 12,
            "test_brier": (9 * 0.06 + 3 * (0.64 + 0.81 + 0.01)) / 12,
            "test_expected_calibration_error": 0.05,
            "test_truth_of_class_two": 0.75,
        }
    )


def test_brier_of_certainty_is_zero_or_two():
    assert brier([1, 1], [[0.0, 1.0], [1.0, 0.0]]) == 1.0


def test_a_class_without_training_labels_has_probability_zero():
    X, y, _ = told()
    names = np.where(y < 0, "", NAMES[y])
    train = [*np.flatnonzero(y == 0)[:3], *np.flatnonzero(y == 2)[:3]]
    scoring = ["accuracy", "balanced_accuracy", "macro_f1", "log_loss"]
    cv = [Split(train, [], np.flatnonzero(y == 1))]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = cross_validate(Spy(), X, names, cv=cv, scoring=scoring, return_proba=True)
    assert found["classes"].tolist() == ["ant", "bee", "cow"]
    assert found["proba"].shape == (1, 30, 3)
    assert (found["proba"][..., 1] == 0).all()
    assert found["test_accuracy"] == 0
    assert 30 < found["test_log_loss"][0] < np.inf


def test_classes_that_no_label_names_come_last():
    X, y, _ = told()
    split = Split(np.arange(4, 20), [], np.arange(20, 30))
    clf = NodeClassifier(4, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = cross_validate(
            clf, X, NAMES[y % 3], cv=[split], scoring="log_loss", return_proba=True
        )
    assert found["classes"].tolist() == ["ant", "bee", "cow", "unnamed 1"]
    assert np.allclose(found["proba"].sum(axis=2), 1)


@pytest.mark.parametrize("form", [list, lambda y: y.astype(float), lambda y: y.astype(object)])
def test_the_form_of_the_labels_does_not_matter(form):
    X, y, _ = told()
    plain = cross_validate(Spy(), X, y, cv=3, scoring="log_loss")
    assert (cross_validate(Spy(), X, form(y), cv=3, scoring="log_loss")["test_log_loss"]
            == plain["test_log_loss"]).all()  # fmt: skip


def test_any_number_of_processes_gives_the_same_bits(planted):
    found = [
        cross_validate(
            NodeClassifier(random_state=0),
            planted.X,
            planted.y_true,
            graph=planted.graph,
            cv=PerClass(3, n_splits=3, random_state=1),
            scoring=["log_loss", lambda y_true, labels, proba, classes: proba[:, 0].sum()],
            n_jobs=n_jobs,
            return_proba=True,
        )
        for n_jobs in (None, 2)
    ]
    for name in ("test_log_loss", "test_<lambda>", "proba", "classes"):
        assert np.array_equal(found[0][name], found[1][name])


class Grumbler(Spy):
    def fit(self, X, y, *, graph=None):
        warnings.warn("the same old story", UserWarning, stacklevel=2)
        return super().fit(X, y, graph=graph)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_warning_of_many_fits_is_given_once(n_jobs):
    X, y, _ = told()
    with pytest.warns(UserWarning, match="same old story") as caught:
        cross_validate(Grumbler(), X, y, cv=3, n_jobs=n_jobs)
    assert len(caught) == 1
    assert caught[0].filename == __file__


class Mute(BaseEstimator):
    def fit(self, X, y, *, graph=None):
        return self


class Coder(Spy):
    """Forgets the names of the classes."""

    def fit(self, X, y, *, graph=None):
        super().fit(X, y, graph=graph)
        self.classes_ = np.arange(10, 13)
        return self


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cv": StratifiedKFold(3)}, "splits rows, and so the graph"),
        ({"cv": "five"}, "number of folds"),
        ({"cv": []}, "no split"),
        ({"cv": [([0], [1])]}, "type Split, got tuple"),
        ({"cv": [Split([5], [], [])]}, "split 0 leaves no labelled node"),
        ({"cv": [Split([5], [], [0])]}, "scored at node 0, which has no label"),
        ({"cv": [Split([], [], [5])]}, "split 0 has no training node with a label"),
        ({"cv": [Split([0], [], [5])]}, "split 0 has no training node with a label"),
        ({"cv": [Split([5], [], [99])]}, "node 99, but y has 30"),
        ({"y": [-1] * 30}, "y names 0 classes"),
        ({"y": [1] * 30}, "y names 1 classes"),
        ({"scoring": "auc"}, "scoring must be one of accuracy, .*got 'auc'"),
        ({"scoring": []}, "scoring is empty"),
        ({"scoring": ["accuracy", "accuracy"]}, "two scores are named 'accuracy'"),
        ({"scoring": lambda *_: "good"}, "must be a number, got str"),
        ({"n_jobs": 0}, "n_jobs must not be 0"),
        ({"clf": Mute()}, "Mute has no labels_"),
        ({"clf": Coder()}, "classes_ of Coder .* none of which is a label"),
    ],
)
def test_what_cannot_be_scored_is_said(change, message):
    X, y, _ = told()
    with pytest.raises(InputError, match=message):
        cross_validate(**{"clf": Spy(), "X": X, "y": y, "cv": 3} | change)


def test_an_error_in_a_fit_says_which_split():
    X, y, _ = told()
    with pytest.raises(InputError, match="max_iter") as caught:
        cross_validate(NodeClassifier(max_iter=0), X, y, cv=3)
    assert caught.value.__notes__ == ["(in the fit of split 0)"]


def test_labels_that_could_be_in_the_order_of_the_graph_or_of_features_are_refused():
    X, y, graph = told()
    ids = [f"v{v}" for v in range(30)]
    table = pd.DataFrame(graph, index=ids, columns=ids)
    with pytest.raises(InputError, match="list the same nodes in different orders: row 0"):
        cross_validate(Spy(), X, pd.Series(y, index=ids)[::-1], graph=table, cv=2)


def test_links_may_go_between_names_that_only_the_labels_know():
    ids = np.array([f"v{v}" for v in range(12)])
    links = np.array([(u, v) for u in range(12) for v in range(u) if u % 2 == v % 2])
    table = pd.DataFrame({"source": ids[links[:, 0]], "target": ids[links[:, 1]]})
    y = pd.Series(np.arange(12) % 2, index=ids)
    clf = NodeClassifier(random_state=0, n_jobs=1)
    by_name = cross_validate(clf, None, y, graph=table, cv=2)
    by_position = cross_validate(clf, None, y.to_numpy(), graph=links.T, cv=2)
    assert by_name["test_accuracy"].tolist() == by_position["test_accuracy"].tolist()
