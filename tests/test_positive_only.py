"""Labels of one class alone, with `positive_only=True`: how likely others are of it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from cli_helpers import run, write
from nodeproof import NodeClassifier
from nodeproof.datasets import make_planted
from nodeproof.errors import InputError
from nodeproof.metrics import expected_calibration_error
from nodeproof.positive_only import estimate_share


@pytest.fixture(scope="module")
def data():
    return make_planted(omega=0.8, random_state=0)


@pytest.fixture(scope="module")
def given(data):
    seen = (data.y_true == 0) & (np.random.default_rng(0).random(len(data.y_true)) < 0.3)
    return np.where(seen, "fraud", "")


@pytest.fixture(scope="module")
def fitted(data, given):
    return NodeClassifier(positive_only=True, random_state=0).fit(data.X, given, graph=data.graph)


def test_other_nodes_of_the_class_are_found(data, given, fitted):
    rest = given == ""
    right = (data.y_true == 0)[rest]
    proba = fitted.proba_[rest].astype(float)
    assert fitted.classes_.tolist() == ["fraud", "not fraud"]
    assert ((proba[:, 0] > 0.5) == right).mean() > 0.85
    assert abs(proba[:, 0].mean() - right.mean()) < 0.05
    assert expected_calibration_error((~right).astype(int), proba) < 0.1
    assert (fitted.labels_[~rest] == "fraud").all()
    assert abs(fitted.choices_["positive_only"]["value"]["labelled"] - 0.3) < 0.06


def test_new_nodes_saved_models_and_reports_follow(data, fitted, tmp_path):
    new = np.arange(0, 900, 30)
    proba = fitted.predict_proba(data.X[new], graph=data.graph[new])
    assert ((proba[:, 0] > 0.5) == (data.y_true[new] == 0)).mean() > 0.8
    fitted.save(tmp_path / "model.npz")
    loaded = NodeClassifier.load(tmp_path / "model.npz")
    assert loaded.positive_only
    np.testing.assert_array_equal(loaded.predict_proba(data.X[new], graph=data.graph[new]), proba)
    fitted.report(tmp_path / "report.html")
    assert fitted.certify().status == "not applicable"


def test_numbers_as_labels_have_a_number_as_the_other_class(data):
    y = np.where((data.y_true == 0) & (np.arange(len(data.y_true)) % 3 == 0), 1, -1)
    clf = NodeClassifier(positive_only=True, experts=["propagation"], random_state=0)
    assert clf.fit(y=y, graph=data.graph).classes_.tolist() == [1, 0]


@pytest.mark.parametrize("share", [0.05, 0.3, 0.7])
def test_shares_are_estimated_from_scores(share):
    rng = np.random.default_rng(0)
    own = rng.random(4000) < share
    mixed = np.where(own, rng.normal(2, 1, 4000), rng.normal(-1, 1, 4000))
    assert abs(estimate_share(mixed, rng.normal(2, 1, 400)) - share) < 0.08


@pytest.mark.parametrize(
    ("y", "said"),
    [
        ([0, 1, -1, -1], "is for labels of one class, but 2 have labels: leave it out"),
        ([-1, -1, -1, -1], "is for labels of one class, but 0 have labels"),
        ([1, -1, -1, -1], "needs two labels or more, and nodes without a label; 1 of 4"),
        ([1, 1, 1, 1], "nodes without a label; 4 of 4 nodes have one"),
    ],
)
def test_other_labels_are_refused(y, said):
    with pytest.raises(InputError, match=said):
        NodeClassifier(positive_only=True).fit([[0.0], [1.0], [2.0], [3.0]], y)


def test_without_it_the_warning_names_it(data, given):
    with pytest.warns(UserWarning, match="positive_only=True tells this class from all others"):
        NodeClassifier(n_init=1).fit(data.X, given)


def test_the_command_line_takes_it(data, given, tmp_path, capsys):
    rows, columns = data.graph.nonzero()
    links = [[f"n{a}", f"n{b}"] for a, b in zip(rows, columns, strict=True) if a < b]
    edges = write(tmp_path / "edges.csv", [["source", "target"], *links])
    known = [[f"n{i}", "fraud"] for i in np.flatnonzero(given == "fraud")]
    labels = write(tmp_path / "labels.csv", [["node", "label"], *known])
    code, printed, _ = run(
        capsys, "fit", edges, "--labels", labels, "--positive-only", "--experts", "propagation",
        "--out", tmp_path / "out", "--json",
    )  # fmt: skip
    summary = json.loads(printed)
    assert code == 0
    assert set(summary["classes"]) == {"fraud", "not fraud"}
    assert 0 < summary["choices"]["positive_only"]["value"]["share"] < 1


def test_a_class_that_looks_like_all_others_is_warned_about(data):
    rng = np.random.default_rng(0)
    noise, y = rng.normal(size=(300, 2)), np.full(300, -1)
    y[rng.permutation(300)[:60]] = 1
    with pytest.warns(UserWarning, match="hardly told from others: it may be much rarer"):
        clf = NodeClassifier(positive_only=True, random_state=0).fit(noise, y)
    assert clf.choices_["positive_only"]["value"]["told_apart"] < 0.8


def test_a_class_that_is_told_from_others_is_not_warned_about(fitted):
    assert fitted.choices_["positive_only"]["value"]["told_apart"] > 0.8
