"""What the command line makes of tables that can be misread, and that it says what it read."""

from __future__ import annotations

import csv
import json
from itertools import pairwise
from pathlib import Path

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli_helpers import run, write
from nodeproof.datasets import make_planted


@pytest.fixture(scope="module")
def planted():
    return make_planted(cluster_size=20, p=0.4, q=0.02, label_ratio=0.5, random_state=0)


@pytest.fixture
def edges(planted, tmp_path) -> Path:
    links = planted.graph.tocoo()
    pairs = [[u, v] for u, v in zip(links.row, links.col, strict=True) if u < v]
    return write(tmp_path / "edges.csv", [["source", "target"], *pairs])


def fit(capsys, tmp_path, *arguments) -> tuple[dict, list[str]]:
    """Fit, and return the summary and the predicted labels."""
    code, out, err = run(capsys, "fit", *arguments, "--json", "--out", tmp_path / "out")
    assert (code, err) == (0, "")
    with (tmp_path / "out" / "predictions.csv").open(newline="") as file:
        return json.loads(out), [row["label"] for row in csv.DictReader(file)]


def test_a_label_column_among_the_features_does_no_harm(capsys, planted, edges, tmp_path):
    rows = zip(range(60), planted.X, planted.y, strict=True)
    header = ["", "node", *"abcdef", "label"]
    table = write(tmp_path / "t.csv", [header, *([k, k, *x, float(y)] for k, x, y in rows)])
    summary, found = fit(capsys, tmp_path, edges, "--features", table, "--labels", table)
    assert summary["feature_names"] == list("abcdef")
    assert set(summary["given_labels"]) == {"0", "1", "2"}
    assert (np.array(found) == planted.y_true.astype(str)).mean() > 0.95
    told = " ".join(summary["notes"])
    assert "the column 'label' of t.csv is the label column of t.csv" in told
    assert "numbers its rows" in told


def test_what_was_read_is_listed(capsys, planted, edges, tmp_path):
    names = ["age", "income", "ends", "x1", "x2", "x3"]
    features = write(
        tmp_path / "f.csv", [["node", *names], *([k, *x] for k, x in enumerate(planted.X))]
    )
    words = np.array(["cat", "dog", "eel", "unknown"])
    labels = write(tmp_path / "l.csv", [["node", "label"], *enumerate(words[planted.y])])
    arguments = ["fit", edges, "--features", features, "--labels", labels, "--out", tmp_path / "o"]
    code, out, err = run(capsys, *arguments)
    assert code == 0, err
    counts = {name: int((words[planted.y] == name).sum()) for name in words}
    n_links = planted.graph.nnz // 2
    assert f"60 nodes, {n_links} links" in out
    out = " ".join(out.replace("│", " ").split())  # lines may be broken anywhere
    assert "6: age, income, ends, x1, x2, x3" in out
    known = ", ".join(f"{name}: {counts[name]}" for name in words[:3])
    assert f"30 (cat: {counts['cat']}" in out
    assert known in out
    assert "30 nodes without" in out
    assert f"{counts['unknown']} labels of l.csv are read as unknown: 'unknown'" in err
    summary = json.loads((tmp_path / "o" / "summary.json").read_text())
    assert summary["given_labels"] == {name: counts[name] for name in words[:3]}
    assert summary["unlabelled"] == 30


@pytest.mark.parametrize("suffix", ["graphml", "gml"])
def test_label_picks_the_attribute_of_a_network(capsys, planted, tmp_path, suffix):
    graph = nx.Graph()
    for v, y in enumerate(planted.y):
        graph.add_node(f"n{v}", club=float(y), value=v % 7)
    links = planted.graph.tocoo()
    graph.add_edges_from(
        (f"n{u}", f"n{v}", {"kind": "likes"}) for u, v in zip(links.row, links.col, strict=True)
    )
    path = tmp_path / f"g.{suffix}"
    getattr(nx, f"write_{suffix}")(graph, path)
    summary, _ = fit(capsys, tmp_path, path, "--label", "club")
    assert set(summary["given_labels"]) == {"0", "1", "2"}
    told = " ".join(summary["notes"])
    assert f"the node attribute 'club' of g.{suffix} is read as the label" in told
    assert f"the links of g.{suffix} have kinds, in 'kind', that are not distinguished" in told
    code, out, err = run(capsys, "fit", path, "--label", "clubs", "--out", tmp_path / "no")
    assert (code, out) == (2, "")
    assert "no node attribute 'clubs'; there are 'club', 'value'" in err


@pytest.mark.parametrize("option", ["--label", "--id"])
def test_a_column_of_a_file_that_is_not_given_is_refused(capsys, edges, tmp_path, option):
    code, out, err = run(capsys, "fit", edges, option, "group", "--out", tmp_path / "out")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert option.lstrip("-") in err
    assert "--labels" in err


@pytest.mark.parametrize("command", ["fit", "convert"])
@pytest.mark.parametrize(
    "header", [["source", "target", "type"], ["von", "nach", "Relation"], None]
)
def test_kinds_of_links_are_told(capsys, tmp_path, command, header):
    rows = [["a", "b", "likes"], ["b", "c", "hates"], ["c", "a", "likes"]]
    path = write(tmp_path / "e.csv", [header, *rows] if header else rows)
    options = (
        ["--classes", 1, "--out", tmp_path / "out"] if command == "fit" else [tmp_path / "out"]
    )
    code, out, err = run(capsys, command, path, *options, "--json")
    assert (code, err) == (0, "")
    name = header[2] if header else "column 2"
    expected = (
        f"the links of e.csv have kinds, in {name!r}, that are not distinguished: all count the "
        "same; --edge-type of `nodeproof fit` tells them apart"
    )
    assert expected in json.loads(out)["notes"]


def test_kinds_in_parquet_are_told(capsys, tmp_path):
    table = {"source": ["a", "b"], "target": ["b", "c"], "rel": ["likes", "hates"]}
    pq.write_table(pa.table(table), tmp_path / "e.parquet")
    summary, _ = fit(capsys, tmp_path, tmp_path / "e.parquet", "--classes", 1)
    assert any("have kinds, in 'rel'" in note for note in summary["notes"])


def test_predictions_list_what_was_read(capsys, planted, edges, tmp_path):
    rows = [["", "node", "x", "income"], *([k, k, x[0], x[1]] for k, x in enumerate(planted.X))]
    features = write(tmp_path / "f.csv", rows)
    fit(capsys, tmp_path, edges, "--features", features, "--classes", 3)
    new = write(
        tmp_path / "n.csv", [["", "node", "income", "town", "x"], [0, 77, 1.5, "Oslo", 2.5]]
    )
    given = ["predict", tmp_path / "out", "--features", new, "--out", tmp_path / "p.csv"]
    code, out, err = run(capsys, *given)
    assert code == 0, err
    assert "1 new node" in out
    assert "2: x, income" in out
    assert "unused columns of n.csv: town" in err
    assert "the first column of n.csv numbers its rows" in err


def test_names_of_columns_that_are_nodes_too_are_told(capsys, tmp_path):
    words = ["source", "of", "light", "node", "tree"]
    links = [["source", "target"], *map(list, pairwise(words))]
    labels = [["node", "label"], ["of", "a"], ["tree", "b"]]
    edges, given = write(tmp_path / "words.csv", links), write(tmp_path / "kinds.csv", labels)
    code, _, err = run(capsys, "fit", edges, "--labels", given, "--out", tmp_path / "out")
    assert code == 0
    for told in ("words.csv (source, target)", "kinds.csv (node, label)"):
        assert f"the first line of {told} is read as data" in " ".join(err.split())
    code, _, err = run(
        capsys, "fit", edges, "--labels", given, "--header", "--out", tmp_path / "out"
    )
    assert (code, "read as data" in err) == (0, False)
