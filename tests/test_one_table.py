"""One table of nodes is enough: from the command line."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from cli_helpers import run, write
from nodeproof import NodeClassifier
from nodeproof.cli import main
from one_table_helpers import customers, write_customers


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A new user's table of 3,000 customers, and what one command makes of it."""
    folder = tmp_path_factory.mktemp("customers")
    data = customers(1000)
    write_customers(folder, data)
    files = ["fit", folder / "edges.csv", "--nodes", folder / "nodes.csv"]
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in [*files, "--label", "segment", "--report", "-o", folder / "out",
                                     "-q"]])  # fmt: skip
    assert ended.value.code == 0
    return folder, data


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A table of 120 customers in the working directory."""
    monkeypatch.chdir(tmp_path)
    data = customers(40)
    write_customers(tmp_path, data)
    return data


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_new_users_table_gives_a_report_at_the_first_try(made):
    folder, data = made
    truth = dict(zip(data["columns"]["customer"], data["truth"], strict=True))
    found = rows_of(folder / "out" / "predictions.csv")
    assert len(found) == 3000
    assert np.mean([truth[row["node"]] == row["label"] for row in found]) > 0.95
    page = (folder / "out" / "report.html").read_text()
    assert "features of nodes.csv: age, income" in page


def test_one_line_says_what_is_used_and_how(made):
    folder, _ = made
    summary = json.loads((folder / "out" / "summary.json").read_text())
    (line,) = [note for note in summary["notes"] if note.startswith("features of nodes.csv")]
    assert "age, income (numbers, scaled, " in line
    assert "missing values replaced by the median" in line
    assert "town, plan (text, one-hot: 7 columns)" in line
    assert "not used: email (3,000 different texts)" in line
    assert summary["feature_names"][:3] == ["age", "income", "town=(missing)"]


def test_what_was_learned_of_the_table_is_saved_as_plain_numbers(made):
    folder, data = made
    meta = json.loads(bytes(np.load(folder / "out" / "model.npz")["meta"]))
    age, _, town, plan = meta["preparation"]["columns"]
    known = [value for value in data["columns"]["age"] if value is not None]
    assert age["fill"] == np.median(known)
    assert town["texts"] == ["", "Lima", "Oslo", "Paris", "Rome"]
    assert plan["texts"] == ["basic", "plus"]


def test_new_nodes_come_in_a_table_of_the_same_columns(capsys, made, tmp_path, monkeypatch):
    folder, data = made
    monkeypatch.chdir(tmp_path)
    ids = data["columns"]["customer"]
    write(tmp_path / "new.csv", [["plan", "town", "income", "customer", "age"],
                                 ["basic", "Oslo", "", "new 1", 35],
                                 ["plus", "Berlin", 4000, "new 2", ""]])  # fmt: skip
    gold = np.flatnonzero(data["truth"] == "gold")
    bronze = np.flatnonzero(data["truth"] == "bronze")
    links = [["new 1", ids[v]] for v in gold[:20]] + [["new 3", ids[v]] for v in bronze[:20]]
    write(tmp_path / "links.csv", [["from", "to"], *links])
    code, _, err = run(capsys, "predict", folder / "out", "--nodes", "new.csv")
    assert code == 0, err
    assert "texts of new.csv that the fit did not know, counted as none: town (1)" in err
    assert [row["node"] for row in rows_of(tmp_path / "predictions.csv")] == ["new 1", "new 2"]
    code, _, err = run(
        capsys, "predict", folder / "out", "--nodes", "new.csv", "--edges", "links.csv"
    )
    assert code == 0, err
    found = {row["node"]: row["label"] for row in rows_of(tmp_path / "predictions.csv")}
    assert found["new 1"] == "gold"
    assert found["new 3"] == "bronze"  # of which nothing but links is known


def test_a_loaded_model_takes_the_same_tables_in_python(made):
    pd = pytest.importorskip("pandas")
    folder, _ = made
    clf = NodeClassifier.load(folder / "out" / "model.npz")
    new = pd.DataFrame({"age": [35, None], "income": [None, 4000.0], "town": ["Oslo", "Berlin"],
                        "plan": ["basic", "plus"], "shoes": [41, 42]})  # fmt: skip
    assert clf.predict_proba(new, graph=[]).shape == (2, 3)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ([], ["age", "income", "town=(missing)", "town=Lima"]),
        (["--drop", "town", "--drop", "plan"], ["age", "income"]),
        (["--no-one-hot"], ["age", "income"]),
    ],
)
def test_columns_can_be_left_out_and_steps_switched_off(capsys, small, options, names):
    code, out, err = run(capsys, "fit", "edges.csv", "--nodes", "nodes.csv", "--label", "segment",
                         *options, "--json")  # fmt: skip
    assert code == 0, err
    assert json.loads(out)["feature_names"][: len(names)] == names


def test_numbers_can_stay_as_they_are(capsys, small, tmp_path):
    code, _, err = run(capsys, "fit", "edges.csv", "--nodes", "nodes.csv", "--label", "segment",
                       "--no-scale")  # fmt: skip
    assert code == 0, err
    assert "age, income (numbers, not scaled, " in err
    meta = json.loads(bytes(np.load("nodeproof-out/model.npz")["meta"]))
    assert {column["scale"] for column in meta["preparation"]["columns"]} == {1.0}


def test_labels_may_be_in_a_file_of_their_own(capsys, small):
    labels = zip(small["columns"]["customer"], small["columns"]["segment"], strict=True)
    write(Path("labels.csv"), [["node", "kind"], *map(list, labels)])
    code, out, err = run(capsys, "fit", "edges.csv", "--nodes", "nodes.csv", "--labels",
                         "labels.csv", "--drop", "segment", "--json")  # fmt: skip
    assert code == 0, err
    assert set(json.loads(out)["classes"]) == {"gold", "silver", "bronze"}


def test_the_order_of_the_rows_does_not_matter(capsys, small):
    head, *rows = Path("nodes.csv").read_text().splitlines()
    Path("again.csv").write_text("\n".join([head, *reversed(rows)]))
    found = []
    for name in ("nodes.csv", "again.csv"):
        run(capsys, "fit", "edges.csv", "--nodes", name, "--label", "segment", "-q")
        found.append(Path("nodeproof-out/predictions.csv").read_bytes())
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--label", "sement"], "has no column 'sement'"),
        (["--label", "segment", "--drop", "colour"], "has no column 'colour'"),
        (["--label", "segment", "--drop", "segment"], "is also dropped"),
        (["--label", "segment", "--no-impute"], "has no value for"),
        (["--label", "segment", "--features", "nodes.csv"], "--nodes and --features"),
        (["--label", "segment", "--id", "email"], "do both files name nodes the same way?"),
        (["--label", "customer"], "the column 'customer' names the nodes"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(capsys, small, arguments, message):
    code, out, err = run(capsys, "fit", "edges.csv", "--nodes", "nodes.csv", *arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err
    assert not Path("nodeproof-out").exists()


def test_a_word_among_numbers_is_named(capsys, small):
    text = Path("nodes.csv").read_text().replace("plus", "7").replace("basic", "8")
    Path("nodes.csv").write_text(text.replace(",8,", ",eight,", 1))
    code, _, err = run(capsys, "fit", "edges.csv", "--nodes", "nodes.csv", "--label", "segment")
    assert code == 2
    assert "the column 'plan' holds numbers, but also 'eight'" in err
    assert "--drop plan" in err


def test_a_column_made_of_the_labels_is_not_a_feature(capsys, small):
    head, *rows = Path("nodes.csv").read_text().splitlines()
    short = [f"{row},{row.rpartition(',')[2][:1]}" for row in rows]
    Path("nodes.csv").write_text("\n".join([f"{head},code", *short]))
    code, _, err = run(capsys, "fit", "edges.csv", "--nodes", "nodes.csv", "--label", "segment")
    assert code == 0
    # Two labels begin with another letter than all others, and none is wrong here.
    assert "the column 'code' of nodes.csv repeats the labels: not used" in err


def test_texts_are_pointed_to_what_reads_them(capsys, small):
    head, *rows = Path("nodes.csv").read_text().splitlines()
    told = [f"{row},wrote {k} letters to us about this and that since May" for k, row in
            enumerate(rows)]  # fmt: skip
    Path("nodes.csv").write_text("\n".join([f"{head},history", *told]))
    code, _, err = run(capsys, "fit", "edges.csv", "--nodes", "nodes.csv", "--label", "segment")
    assert code == 0
    assert "history (texts; TfidfVectorizer of scikit-learn turns them into features)" in err


@pytest.mark.parametrize(("repeated", "weight"), [("max", 3.0), ("sum", 6.0)])
def test_repeated_links_count_by_their_largest_weight_or_their_sum(
    capsys, tmp_path, monkeypatch, repeated, weight
):
    monkeypatch.chdir(tmp_path)
    lines = [["source", "target", "weight"], ["a", "b", 1], ["b", "a", 2], ["a", "b", 3],
             ["b", "c", 1], ["c", "d", 1]]  # fmt: skip
    write(tmp_path / "e.csv", lines)
    code, _, err = run(capsys, "fit", "e.csv", "--repeated", repeated, "--classes", 1)
    assert code == 0, err
    assert ("weights are added" in err) == (repeated == "sum")
    arrays = np.load("nodeproof-out/model.npz")
    assert arrays["problem_weights"].max() / arrays["problem_weights"].min() == weight


def test_repeated_links_without_weights_are_counted(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "e.csv", [["source", "target"], *[["a", "b"]] * 4, ["b", "c"], ["c", "d"]])
    code, _, err = run(capsys, "fit", "e.csv", "--repeated", "sum", "--classes", 1)
    assert code == 0, err
    arrays = np.load("nodeproof-out/model.npz")
    assert arrays["problem_weights"].max() / arrays["problem_weights"].min() == 4


def test_without_labels_the_column_that_may_hold_some_is_named(capsys, small):
    code, _, err = run(capsys, "fit", "edges.csv", "--nodes", "nodes.csv", "--classes", 3)
    assert code == 0
    assert "note: no labels: if a column of nodes.csv, such as 'segment', holds them" in err


def test_numbers_that_are_not_written_as_such_are_told(capsys, small):
    rows = [line.split(",") for line in Path("nodes.csv").read_text().splitlines()]
    at = rows[0].index("income")
    text = "\n".join(
        ";".join([*row[:at], row[at].replace(".", ","), *row[at + 1 :]]) for row in rows
    )
    Path("comma.csv").write_text(text)
    code, _, err = run(capsys, "fit", "edges.csv", "--nodes", "comma.csv", "--label", "segment")
    assert code == 0
    assert "income (texts that look like numbers: write '" in err


def test_a_labels_file_with_another_text_in_every_row_is_not_one(capsys, small):
    code, out, err = run(capsys, "fit", "edges.csv", "--labels", "nodes.csv")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "say which column does, with --label" in err
