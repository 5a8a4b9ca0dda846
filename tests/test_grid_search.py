"""GridSearch finds the best settings and keeps what it has done."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError

from model_selection_helpers import Spy, told
from nodeproof import NodeClassifier
from nodeproof.errors import InputError
from nodeproof.model_selection import GridSearch, LabelKFold, PerClass, Split, cross_validate


def searched(grid=None, **settings):
    X, y, graph = told()
    grid = grid or {"confidence": [0.4, 0.9, 0.7]}
    return GridSearch(Spy(), grid, **{"cv": 3, "random_state": 0} | settings).fit(X, y, graph=graph)


def test_the_best_settings_are_found_and_fitted_to_all_labels():
    X, y, graph = told()
    search = GridSearch(Spy(), {"confidence": [0.4, 0.9, 0.7]}, cv=3).fit(X, y, graph=graph)
    assert search.best_params_ == {"confidence": 0.9}
    assert search.best_index_ == 1
    assert search.best_score_ == pytest.approx(-np.log(0.9))
    best = search.best_estimator_
    assert best.given[0] is X
    assert best.given[1] is y
    assert best.given[2] is graph
    assert np.array_equal(search.labels_, best.labels_)
    assert np.array_equal(search.proba_, best.proba_)
    assert np.array_equal(search.classes_, [0, 1, 2])
    assert np.array_equal(search.predict(), best.labels_)
    assert np.array_equal(search.predict_proba(), best.proba_)


def test_results_list_every_combination():
    results = searched().cv_results_
    assert results["params"] == [{"confidence": c} for c in (0.4, 0.9, 0.7)]
    assert results["mean_test_score"] == pytest.approx(-np.log([0.4, 0.9, 0.7]))
    assert results["std_test_score"] == pytest.approx(np.zeros(3), abs=1e-12)
    assert results["rank_test_score"].tolist() == [3, 1, 2]
    assert results["mean_fit_seconds"].shape == (3,)
    assert results["split2_test_score"] == pytest.approx(results["mean_test_score"])


@pytest.mark.parametrize(
    ("scoring", "best"),
    [
        ("brier", 0.9),
        ("accuracy", 0.4),  # all are right: the first of equals
        (lambda y_true, labels, proba, classes: proba.max(), 0.9),
        (lambda y_true, labels, proba, classes: -proba.max(), 0.4),
        (lambda y_true, labels, proba, classes: np.nan if proba.max() > 0.8 else proba.max(), 0.7),
    ],
)
def test_losses_are_best_low_and_other_scores_high(scoring, best):
    assert searched(scoring=scoring).best_params_ == {"confidence": best}


def test_several_grids_may_be_listed():
    search = searched([{"confidence": [0.4]}, {"confidence": [0.5, 0.6]}])
    assert [params["confidence"] for params in search.cv_results_["params"]] == [0.4, 0.5, 0.6]


def test_test_nodes_are_not_for_choosing_where_there_are_validation_nodes():
    X, y, graph = told()
    X = X.copy()
    X[10:20] += 1  # wrong at the validation nodes: confidence does harm
    validate, test = np.arange(10, 20), np.arange(20, 30)
    grid = {"confidence": [0.4, 0.9]}
    for split, best in [
        (Split(np.arange(4, 10), validate, test), 0.4),
        (Split(np.arange(4, 10), [], test), 0.9),
    ]:
        search = GridSearch(Spy(), grid, cv=[split]).fit(X, y, graph=graph)
        assert search.best_params_ == {"confidence": best}


@pytest.mark.filterwarnings("ignore:the data do not tell")
def test_seeds_decide_the_folds(planted):
    def scores(**settings):
        clf = NodeClassifier(weights="calibrated", random_state=0)
        search = GridSearch(clf, {"n_init": [1]}, refit=False, **settings)
        search.fit(planted.X, planted.y, graph=planted.graph)
        return [search.cv_results_[f"split{k}_test_score"][0] for k in range(3)]

    once = scores(cv=3, random_state=1)
    assert once == scores(cv=3, random_state=1)
    assert once == scores(cv=LabelKFold(3, random_state=1))
    assert once != scores(cv=3, random_state=2)


def test_any_number_of_processes_gives_the_same_bits(planted):
    def results(n_jobs):
        search = GridSearch(
            NodeClassifier(random_state=0),
            {"weights": ["calibrated", (1, 2.5, 13)]},
            cv=PerClass(n_train=4, n_splits=2, random_state=0),
            n_jobs=n_jobs,
        )
        return search.fit(planted.X, planted.y_true, graph=planted.graph)

    alone, together = results(None), results(2)
    for name, values in alone.cv_results_.items():
        if "seconds" not in name:
            assert np.array_equal(values, together.cv_results_[name])
    assert np.array_equal(alone.proba_, together.proba_)


def test_it_is_an_estimator_like_any_other():
    search = GridSearch(Spy(), {"confidence": [0.5]}, cv=2)
    assert is_classifier(search)
    assert search.get_params()["clf__confidence"] == 0.8
    copy = clone(search.set_params(cv=3, clf__confidence=0.6))
    assert (copy.cv, copy.clf.confidence) == (3, 0.6)
    X, y, graph = told()
    found = cross_validate(copy, X, y, graph=graph, cv=2, return_estimators=True)
    assert [one.best_params_ for one in found["estimators"]] == [{"confidence": 0.5}] * 2
    assert found["test_accuracy"].tolist() == [1, 1]


def test_the_classifier_that_was_given_is_left_alone():
    clf = Spy()
    X, y, _ = told()
    GridSearch(clf, {"confidence": [0.5]}, cv=2).fit(X, y)
    assert clf.confidence == 0.8
    assert not hasattr(clf, "labels_")


def test_without_a_refit_there_is_nothing_to_predict():
    search = searched(refit=False)
    assert search.best_params_ == {"confidence": 0.9}
    assert not hasattr(search, "labels_")
    with pytest.raises(NotFittedError, match="refit=True"):
        search.predict()


def test_progress_is_printed_where_asked(capsys, monkeypatch):
    monkeypatch.setattr(logging.getLogger("nodeproof"), "propagate", False)  # pytest listens
    searched(verbose=True)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert lines[1].startswith("2 of 3  confidence=0.9  log_loss 0.1054 ± 0.0000  ")
    searched()
    assert capsys.readouterr().err == ""


class Stops(Spy):
    """Is interrupted, or fails, where it is confident."""

    error: type[BaseException] = KeyboardInterrupt

    def fit(self, X, y, *, graph=None):
        if self.confidence > 0.8:
            raise self.error
        return super().fit(X, y, graph=graph)


class Fails(Stops):
    error = ZeroDivisionError


@pytest.mark.parametrize("clf", [Stops(), Fails()], ids=lambda clf: clf.error.__name__)
def test_what_is_finished_is_kept_when_a_search_ends_early(clf):
    X, y, _ = told()
    search = GridSearch(clf, {"confidence": [0.4, 0.5]}, cv=2).fit(X, y)
    search.set_params(grid={"confidence": [0.6, 0.7, 0.9, 0.5]})
    with pytest.raises(clf.error) as caught:
        search.fit(X, y)
    assert search.cv_results_["params"] == [{"confidence": 0.6}, {"confidence": 0.7}]
    assert search.cv_results_["rank_test_score"].tolist() == [2, 1]
    assert search.best_params_ == {"confidence": 0.7}
    assert not hasattr(search, "best_estimator_")
    if clf.error is ZeroDivisionError:
        assert caught.value.__notes__ == ["(in the fit of confidence=0.9, split 0)"]


def test_an_interrupt_before_anything_is_finished_leaves_no_old_result():
    X, y, _ = told()
    search = GridSearch(Stops(), {"confidence": [0.5]}, cv=2).fit(X, y)
    with pytest.raises(KeyboardInterrupt):
        search.set_params(grid={"confidence": [0.9]}).fit(X, y)
    assert search.cv_results_["params"] == []
    assert not hasattr(search, "best_params_")


INTERRUPTED = """
import time
from model_selection_helpers import Spy, told
from nodeproof.model_selection import GridSearch

class Slow(Spy):
    def fit(self, X, y, *, graph=None):
        time.sleep(60.0 if self.confidence > 0.8 else 0.0)
        return super().fit(X, y, graph=graph)

X, y, _ = told()
search = GridSearch(Slow(), {"confidence": [0.4, 0.5, 0.9]}, cv=2, n_jobs=2, verbose=True)
try:
    search.fit(X, y)
except KeyboardInterrupt:
    print("kept", search.cv_results_["params"])
"""


@pytest.mark.slow
def test_ctrl_c_in_many_processes_keeps_what_is_finished():
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=os.path.dirname(__file__),  # noqa: PTH120
        start_new_session=True,
    )
    assert process.stderr is not None
    while not process.stderr.readline().startswith("2 of 3"):
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the workers are told, too
    printed, told_then = process.communicate(timeout=30)
    assert printed == "kept [{'confidence': 0.4}, {'confidence': 0.5}]\n"
    assert "Traceback" not in told_then


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"grid": {"trust": [1]}}, "Invalid parameter 'trust'"),
        ({"scoring": ["accuracy", "brier"]}, "one score only"),
        ({"cv": [Split([5, 6], [], [0])]}, "scored at node 0, which has no label"),
        ({"cv": 30}, "lower n_splits"),
    ],
)
def test_what_cannot_be_searched_is_said_before_any_fit(settings, message):
    with pytest.raises(ValueError, match=message):
        searched(**settings)


def test_labels_are_needed():
    with pytest.raises(InputError, match="y names 0 classes"):
        GridSearch(Spy(), {"confidence": [0.5]}).fit(np.ones((3, 1)))
