"""`nodeproof fit --target`: numbers of a table of nodes; `predict` and `report` of its models."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from cli_helpers import run, write
from nodeproof import NodeRegressor, knn_graph

N, OLD = 90, 80
RNG = np.random.default_rng(0)
PLACE, AGE = RNG.random((N, 2)), RNG.normal(size=N)
TOWN = np.where(RNG.random(N) < 0.5, "Oslo", "Rome")
INCOME = 100 + 20 * np.sin(4 * PLACE[:, 0]) + 10 * AGE + 5 * (TOWN == "Rome")
KNOWN = RNG.random(N) < 0.5
QUICK = ("--experts", "features,residuals")


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("targets")
    pairs = np.argwhere(np.triu(knn_graph(PLACE, 5).toarray()))
    old = pairs.max(axis=1) < OLD
    for name, rows in (("edges.csv", pairs[old]), ("new_edges.csv", pairs[~old])):
        write(folder / name, [("source", "target"), *((f"n{a}", f"n{b}") for a, b in rows)])
    rows = [(f"n{k}", AGE[k], TOWN[k], f"{INCOME[k]:.3f}" if KNOWN[k] else "NA") for k in range(N)]
    write(folder / "nodes.csv", [("node", "age", "town", "income"), *rows[:OLD]])
    write(folder / "new.csv", [("node", "age", "town"), *(row[:3] for row in rows[OLD:])])
    return folder


@pytest.fixture(scope="module")
def fitted(files):
    from click.testing import CliRunner

    from nodeproof.cli import cli

    ended = CliRunner().invoke(cli, [
        "fit", str(files / "edges.csv"), "--nodes", str(files / "nodes.csv"), "--target", "income",
        "--out", str(files / "out"), "--coverage", "0.8", "--report", *QUICK,
    ])  # fmt: skip
    assert ended.exit_code == 0, ended.output
    return files / "out", ended.output


def test_every_node_gets_a_number_and_an_interval(fitted):
    out, printed = fitted
    rows = {row["node"]: row for row in read(out / "predictions.csv")}
    assert len(rows) == OLD
    assert list(rows["n0"]) == ["node", "prediction", "lower", "upper", "given", "suspect"]
    off = []
    for k in range(OLD):
        row = rows[f"n{k}"]
        assert float(row["lower"]) < float(row["prediction"]) < float(row["upper"])
        assert row["given"] == ("" if not KNOWN[k] else row["given"])
        off.append(abs(float(row["prediction"]) - INCOME[k]))
        if KNOWN[k]:
            assert float(row["given"]) == pytest.approx(INCOME[k], abs=1e-3)
    assert np.mean(off) < 8
    assert "estimated R²" in printed
    assert "80% hold the true number" in printed


def test_the_summary_says_what_the_fit_rests_on(fitted):
    summary = json.loads((fitted[0] / "summary.json").read_text())
    assert summary["target"] == "income"
    assert summary["targets"] == KNOWN[:OLD].sum()
    assert summary["intervals"]["coverage"] == 0.8
    assert summary["estimated_error"]["r2"] > 0.5
    assert set(summary["choices"]["experts"]["value"]) == {"features", "residuals"}
    assert (fitted[0] / "report.html").read_text().count("<svg") == 2


def test_new_nodes_are_predicted_by_the_model(fitted, files, capsys, tmp_path):
    code, printed, _ = run(
        capsys, "predict", fitted[0], "--nodes", files / "new.csv", "--edges",
        files / "new_edges.csv", "--out", tmp_path / "p.csv",
    )  # fmt: skip
    assert code == 0
    assert "10 new nodes" in printed
    rows = {row["node"]: row for row in read(tmp_path / "p.csv")}
    found = [float(rows[f"n{k}"]["prediction"]) for k in range(OLD, N)]
    assert np.corrcoef(found, INCOME[OLD:])[0, 1] > 0.7
    model = NodeRegressor.load(fitted[0] / "model.npz")
    low, high = model.predict_interval(0.9)[0]
    assert float(rows["n80"]["upper"]) - float(rows["n80"]["lower"]) == pytest.approx(high - low)


def test_a_report_can_be_made_again(fitted, capsys, tmp_path):
    assert run(capsys, "report", fitted[0], "--out", tmp_path / "r.html")[0] == 0
    assert "--target income" in (tmp_path / "r.html").read_text()


def test_commands_for_classes_say_that_these_are_numbers(fitted, files, capsys):
    for command in (["certify", fitted[0]], ["evaluate", fitted[0], files / "nodes.csv"]):
        code, _, errors = run(capsys, *command)
        assert code == 2
        assert "is a model of numeric targets" in errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target", "town"], "the target 'town' holds text, not numbers"),
        (["--target", "wealth"], "has no column 'wealth'"),
        (["--target", "income", "--drop", "income"], "is also dropped"),
        (["--target", "income", "--classes", "3"], "--classes is for classes"),
        (["--target", "income", "--experts", "magic"], "there is no expert 'magic'"),
        (["--target-column", "town", "--label", "town"], "--label-column is for classes"),
    ],
)
def test_what_does_not_go_together_is_refused(files, options, message, capsys, tmp_path):
    code, _, errors = run(
        capsys, "fit", files / "edges.csv", "--nodes", files / "nodes.csv", "--out",
        tmp_path / "out", *options,
    )  # fmt: skip
    assert code == 2
    assert message in errors
    assert errors.count("\n") <= 3
    assert not (tmp_path / "out").exists()


def test_a_target_needs_a_table_of_nodes(files, capsys, tmp_path):
    code, _, errors = run(
        capsys, "fit", files / "edges.csv", "--target-column", "income", "--out", tmp_path / "out"
    )
    assert code == 2
    assert "give --nodes FILE" in errors


def test_both_columns_of_the_links_can_be_named_beside_a_target(files, capsys, tmp_path):
    code, _, errors = run(
        capsys, "fit", files / "edges.csv", "--source", "source", "--target", "target", "--nodes",
        files / "nodes.csv", "--target-column", "income", "--out", tmp_path / "out",
        "--experts", "features", "--json",
    )  # fmt: skip
    assert code == 0, errors


def test_columns_of_numbers_given_as_labels_are_told_to_be_targets(files, capsys, tmp_path):
    code, _, errors = run(
        capsys, "fit", files / "edges.csv", "--nodes", files / "nodes.csv", "--label", "income",
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert code == 2
    assert "--target COLUMN" in errors
