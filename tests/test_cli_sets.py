"""`--coverage` of `nodeproof fit` and `nodeproof predict`: the column `set`, summaries, report."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from cli_helpers import run, write
from nodeproof import NodeClassifier
from nodeproof.cli.sets import set_column
from nodeproof.datasets import make_planted
from nodeproof.prediction_sets import Limits

DATA = make_planted(3, 100, p=0.08, q=0.05, omega=0.7, label_ratio=0.4, random_state=0)
NAMES = np.array(["=a|b", "c\\d", "e f"])


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sets")
    u, v = DATA.graph.nonzero()
    links = [(f"n{a}", f"n{b}") for a, b in zip(u, v, strict=True) if a < b]
    write(folder / "edges.csv", [("source", "target"), *links])
    rows = [(f"n{i}", *x) for i, x in enumerate(DATA.X)]
    columns = ("node", *(f"x{j}" for j in range(DATA.X.shape[1])))
    write(folder / "features.csv", [columns, *rows])
    labels = [(f"n{i}", NAMES[k]) for i, k in enumerate(DATA.y) if k >= 0]
    write(folder / "labels.csv", [("node", "label"), *labels])
    return folder


@pytest.fixture(scope="module")
def fitted(files):
    from click.testing import CliRunner

    from nodeproof.cli import cli

    ended = CliRunner().invoke(cli, [
        "fit", str(files / "edges.csv"), "--features", str(files / "features.csv"),
        "--labels", str(files / "labels.csv"), "--out", str(files / "out"), "--coverage", "0.9",
        "--report", "--proof-budget", "0",
    ])  # fmt: skip
    assert ended.exit_code == 0, ended.output
    return files / "out", ended.output


def split(text):
    """Return the names in a set: parts between | that have no backslash before them."""
    names, escaped = [""], False
    for sign in text:
        if escaped or sign not in "|\\":
            names[-1] += sign
            escaped = False
        elif sign == "\\":
            escaped = True
        else:
            names.append("")
    return [name for name in names if name]


def test_predictions_have_the_sets_of_the_model(fitted):
    out, _ = fitted
    clf = NodeClassifier.load(out / "model.npz")
    sets = clf.predict_set(0.9)
    rows = read(out / "predictions.csv")
    assert list(rows[0])[-1] == "set"
    written = {row["node"]: split(row["set"]) for row in rows}
    for node, own in zip(clf.node_ids_, sets, strict=True):
        assert written[node] == clf.classes_[own].tolist()
    assert len({len(names) for names in written.values()}) > 1


def test_summary_and_report_say_how_large_sets_are(fitted):
    out, printed = fitted
    summary = json.loads((out / "summary.json").read_text())["sets"]
    clf = NodeClassifier.load(out / "model.npz")
    sizes = clf.predict_set(0.9)[clf.fitted_.given < 0].sum(axis=1)
    assert summary["coverage"] == 0.9
    assert summary["nodes"] == len(sizes)
    assert summary["mean_size"] == pytest.approx(sizes.mean(), abs=1e-4)
    assert summary["single"] == pytest.approx((sizes == 1).mean(), abs=1e-4)
    assert "prediction sets" in printed
    page = (out / "report.html").read_text()
    assert '<section id="sets">' in page
    assert "asked for" in page


def test_new_nodes_get_sets(fitted, files, tmp_path, capsys):
    out, _ = fitted
    write(tmp_path / "links.csv", [("new", "fitted"), ("m1", "n0"), ("m1", "n1"), ("m2", "n5")])
    columns = ("node", *(f"x{j}" for j in range(DATA.X.shape[1])))
    write(tmp_path / "new.csv", [columns, ("m1", *DATA.X[0]), ("m2", *DATA.X[5])])
    code, printed, _ = run(
        capsys, "predict", out, "--features", tmp_path / "new.csv", "--edges",
        tmp_path / "links.csv", "--out", tmp_path / "p.csv", "--coverage", 0.95, "--json",
    )  # fmt: skip
    assert code == 0
    assert json.loads(printed)["sets"]["nodes"] == 2
    rows = read(tmp_path / "p.csv")
    assert [row["node"] for row in rows] == ["m1", "m2"]
    assert all(set(split(row["set"])) <= set(NAMES) for row in rows)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--coverage", "1"], "--coverage"),
        (["--coverage", "0.9", "--temperature", "0"], "needs probabilities"),
        (["--coverage", "0.9", "--source-weights", "1,1,1"], "needs held-out labels"),
    ],
)
def test_what_cannot_have_sets_is_refused_before_the_fit(files, tmp_path, capsys, more, said):
    code, _, printed = run(
        capsys, "fit", files / "edges.csv", "--labels", files / "labels.csv", "--out",
        tmp_path / "out", *more,
    )  # fmt: skip
    assert code == 2
    assert said in printed
    assert not (tmp_path / "out").exists()


def test_without_labels_there_are_no_sets(files, tmp_path, capsys):
    code, _, printed = run(
        capsys, "fit", files / "edges.csv", "--out", tmp_path / "out", "--coverage", 0.9
    )
    assert code == 2
    assert "needs labels" in printed


def test_names_in_a_set_can_be_told_apart():
    limits = Limits(np.full(3, 0.3, np.float32), 0.9, False, 100, 0.0)
    proba = np.array([[0.4, 0.4, 0.2], [0.1, 0.1, 0.8], [0.34, 0.33, 0.33], [0.2, 0.2, 0.2]])
    found = set_column(limits, proba, NAMES)["set"].to_pylist()
    assert found == ["=a\\|b|c\\\\d", "e f", "=a\\|b|c\\\\d|e f", ""]
    assert [split(text) for text in found][:1] == [["=a|b", "c\\d"]]
