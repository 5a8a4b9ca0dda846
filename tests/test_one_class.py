"""Labels of one class alone: every node gets it, with a warning and no more certainty than due."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from cli_helpers import run
from interop_helpers import planted
from nodeproof import NodeClassifier

N = 120
LIMIT = 6 / 7


def labels(m: int = 5) -> np.ndarray:
    y = np.full(N, -1)
    y[:m] = 7
    return y


def quiet_fit(clf=None, **given) -> NodeClassifier:
    clf = clf or NodeClassifier(n_init=1, random_state=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "all 5 labels name the class 7")
        return clf.fit(**given)


@pytest.mark.parametrize("sources", ["XG", "X", "G", ""], ids=["all", "features", "graph", "none"])
def test_no_node_is_surer_than_the_labels_allow(sources):
    given = {"X": planted().X} if "X" in sources else {}
    given |= {"graph": planted().graph} if "G" in sources else {}
    with pytest.warns(UserWarning, match="all 5 labels name the class 7, so every node gets it"):
        clf = NodeClassifier(n_init=1, random_state=0).fit(y=labels(), **given)
    assert clf.labels_.tolist() == [7] * N
    np.testing.assert_allclose(clf.proba_, LIMIT, rtol=1e-6)
    assert "at most 0.857" in clf.choices_["probabilities"]["why"]
    assert len(clf.suspects_) == 0
    assert clf.score(y=[7] * N) == 1.0


def test_more_labels_allow_more_certainty():
    for m in (1, 20, N):
        with pytest.warns(UserWarning, match=r"label.* the class 7, so every node gets it"):
            clf = NodeClassifier(n_init=1, random_state=0).fit(y=labels(m))
        np.testing.assert_allclose(clf.proba_, (m + 1) / (m + 2), rtol=1e-6)


def test_a_number_of_classes_that_is_given_is_believed():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone = NodeClassifier(1, random_state=0).fit(planted().X, labels(), graph=planted().graph)
        three = NodeClassifier(3, random_state=0).fit(planted().X, labels(), graph=planted().graph)
    assert (alone.proba_ == 1).all()
    assert three.proba_.shape == (N, 3)
    np.testing.assert_allclose(three.proba_.sum(axis=1), 1, rtol=1e-5)


def test_hard_assignments_stay_hard():
    clf = quiet_fit(
        NodeClassifier(temperature=0, random_state=0), y=labels(), graph=planted().graph
    )
    assert (clf.proba_ == 1).all()


def test_new_nodes_saved_models_proofs_and_reports_follow(tmp_path):
    clf = quiet_fit(X=planted().X, y=labels(), graph=planted().graph)
    links = planted().graph[:3]
    expected = clf.predict_proba(planted().X[:3], graph=links)
    np.testing.assert_allclose(expected, LIMIT)
    assert clf.predict(planted().X[:3], graph=links).tolist() == [7] * 3
    clf.certify(time_budget=1)
    assert clf.map_labels_.tolist() == [7] * N
    assert len(clf.query(3)) == 3
    clf.report(tmp_path / "report.html")
    assert "All labels name one class" in (tmp_path / "report.html").read_text()
    clf.save(tmp_path / "model.npz")
    loaded = NodeClassifier.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.proba_, clf.proba_)
    np.testing.assert_array_equal(loaded.predict_proba(planted().X[:3], graph=links), expected)


def test_the_command_line_says_so_in_one_line(tmp_path, capsys):
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\nc,d\nd,a\n")
    (tmp_path / "labels.csv").write_text("node,label\na,red\nb,red\n")
    arguments = ["fit", tmp_path / "edges.csv", "--labels", tmp_path / "labels.csv"]
    code, _, errors = run(capsys, *arguments, "--out", tmp_path / "out")
    assert code == 0
    assert [line for line in errors.splitlines() if "class" in line] == [
        "note: all 2 labels name the class red, so every node gets it; if there are other classes, "
        "label nodes of them, too, or give the number of classes; positive_only=True tells this "
        "class from all others"
    ]
    lines = (tmp_path / "out" / "predictions.csv").read_text().splitlines()
    assert all(float(line.split(",")[2]) == pytest.approx(0.75) for line in lines[1:])
