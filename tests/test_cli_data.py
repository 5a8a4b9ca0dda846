"""`nodeproof data`, and `nodeproof fit` on graphs that are not edge tables."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from cli_helpers import without_advice
from nodeproof.cli import main
from nodeproof.datasets import make_planted, read_graph
from nodeproof.datasets.archives import write_archive
from nodeproof.datasets.dataset import Dataset
from planetoid_helpers import citations, write_planetoid


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    """Run the command line in this process; return exit code, output and errors."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


def predictions(folder: Path) -> list[dict[str, str]]:
    with (folder / "predictions.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that NODEPROOF_DATA names, with a Cora of seven nodes."""
    monkeypatch.setenv("NODEPROOF_DATA", str(tmp_path / "data"))
    return write_planetoid(tmp_path / "data", citations(), name="cora")


@pytest.fixture(scope="module")
def planted() -> Any:
    return make_planted(cluster_size=60, p=0.3, q=0.02, random_state=0)


# nodeproof data


def test_data_sets_are_listed(capsys):
    code, out, _ = run(capsys, "data", "list")
    assert code == 0
    for part in ("cora", "ogbn-products", "2,708", "known", "first use"):
        assert part in out


def test_the_list_in_json(capsys):
    code, out, _ = run(capsys, "data", "list", "--json")
    assert code == 0
    sets = {entry["name"]: entry for entry in json.loads(out)}
    assert sets["cora"]["nodes"] == 2708
    assert len(sets["cora"]["files"]["ind.cora.x"]) == 64
    assert sets["polblogs"]["files"] == {"polblogs.npz": None}


def test_a_data_set_is_written_as_one_file(capsys, data_folder, tmp_path):
    out_file = tmp_path / "out.npz"
    code, out, err = run(capsys, "data", "get", "Cora", "--out", out_file)
    assert code == 0
    for part in ("nodes", "7", "links", "4", "features", "3", "classes", "2", "Sen et al."):
        assert part in out
    assert "1 node without features and class" in err
    with np.load(out_file, allow_pickle=False) as fields:
        assert set(fields.files) == {
            "n", "adj_indptr", "adj_indices", "x_data", "x_indices", "x_indptr", "x_shape", "y",
            "train_mask", "val_mask", "test_mask",
        }  # fmt: skip
        assert fields["n"] == 7
    assert repr(read_graph(out_file)) == repr(read_graph(data_folder))


def test_a_data_set_in_json(capsys, data_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, "data", "get", "cora", "--json")
    assert code == 0
    assert err == ""
    summary = json.loads(out)
    assert (summary["nodes"], summary["links"]) == (7, 4)
    assert (summary["features"], summary["classes"]) == (3, 2)
    assert summary["masks"] == {"train": 2, "validation": 2, "test": 2}
    assert summary["file"] == "cora.npz"
    assert (tmp_path / "cora.npz").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data", "get", "nonsense"], "there is no data set 'nonsense'; there are cora"),
        (["data", "get", "cora", "--out", "."], "is a folder"),
        (["data", "get", "cora", "--out", "no/such/file.npz"], "does not exist"),
        (["data", "get"], "NAME"),
        (["data", "dance"], "dance"),
        (["fit", "data"], "several data sets (ind.cora, ind.other)"),
        (["fit", "data/ind.cora", "--source", "0"], "has no columns"),
        (["fit", "unknown.bin"], "is of no known format"),
    ],
)
def test_bad_input_gives_one_line_and_writes_nothing(
    capsys, data_folder, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    write_planetoid(data_folder, citations(), name="other")
    (tmp_path / "unknown.bin").write_bytes(b"\x00\x01")
    before = sorted(path.name for path in tmp_path.iterdir())
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert len(without_advice(err).splitlines()) == 1
    assert message in err
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("command", [["data"], ["data", "list"], ["data", "get"]])
def test_every_command_has_help(capsys, command):
    code, out, _ = run(capsys, *command, "--help")
    assert code == 0
    assert "Usage: nodeproof" in out


# nodeproof fit


def test_fit_takes_an_archive_with_its_split(capsys, planted, tmp_path):
    train = np.zeros(180, dtype=bool)
    train[::6] = True
    data = Dataset(planted.graph, planted.X, planted.y_true, masks={"train": train})
    write_archive(data, tmp_path / "a.npz")
    code, out, err = run(capsys, "fit", tmp_path / "a.npz", "--json", "--out", tmp_path / "out")
    assert code == 0, err
    summary = json.loads(out)
    assert summary["labels"] == 30
    assert summary["features"] == 6
    rows = predictions(tmp_path / "out")
    found = np.array([int(row["label"]) for row in rows])
    assert (found == planted.y_true).mean() > 0.97
    assert [row["node"] for row in rows] == [str(v) for v in range(180)]
    assert [bool(row["given_label"]) for row in rows] == train.tolist()


def test_files_come_before_what_is_in_the_archive(capsys, planted, tmp_path):
    write_archive(Dataset(planted.graph, None, planted.y_true), tmp_path / "a.npz")
    lines = [f"{v},{'abc'[planted.y_true[v]]}" for v in range(0, 180, 6)]
    (tmp_path / "labels.csv").write_text("\n".join(["node,label", *lines]))
    rows = [f"{v},{','.join(map(str, planted.X[v]))}" for v in range(180)][::-1]
    (tmp_path / "features.csv").write_text("\n".join(["node,a,b,c,d,e,f", *rows]))
    code, out, _ = run(
        capsys, "fit", tmp_path / "a.npz", "--labels", tmp_path / "labels.csv", "--features",
        tmp_path / "features.csv", "--json", "--out", tmp_path / "out",
    )  # fmt: skip
    assert code == 0
    summary = json.loads(out)
    assert summary["labels"] == 30
    assert summary["features"] == 6
    assert set(summary["classes"]) == set("abc")
    assert "labels.csv replaces the labels in a.npz" in summary["notes"]
    assert not any("train mask" in line for line in summary["notes"])


def test_all_labels_are_used_without_a_mask_and_that_is_told(capsys, planted, tmp_path):
    write_archive(Dataset(planted.graph, None, planted.y_true), tmp_path / "a.npz")
    code, out, _ = run(capsys, "fit", tmp_path / "a.npz", "--json", "--out", tmp_path / "out")
    assert code == 0
    assert json.loads(out)["labels"] == 180
    assert "a.npz has labels but no train mask; all of them are used" in json.loads(out)["notes"]


def test_fit_takes_graphml_with_names_and_labels(capsys, planted, tmp_path):
    graph = nx.relabel_nodes(nx.from_scipy_sparse_array(planted.graph), lambda v: f"user {v}")
    given = {f"user {v}": "xyz"[planted.y_true[v]] for v in range(0, 180, 6)}
    nx.set_node_attributes(graph, given, "class")
    nx.write_graphml(graph, tmp_path / "a.graphml")
    arguments = ["fit", tmp_path / "a.graphml", "--json", "--out", tmp_path / "out"]
    code, out, err = run(capsys, *arguments)
    assert code == 0, err
    assert json.loads(out)["labels"] == 30
    rows = {row["node"]: row for row in predictions(tmp_path / "out")}
    assert {name: row["given_label"] for name, row in rows.items() if row["given_label"]} == given
    right = [rows[f"user {v}"]["label"] == "xyz"[planted.y_true[v]] for v in range(180)]
    assert np.mean(right) > 0.97
    (tmp_path / "labels.csv").write_text("node,label\nuser 1,x\nstranger,y\n")
    code, _, err = run(capsys, *arguments, "--labels", tmp_path / "labels.csv")
    assert code == 2
    assert f"labels.csv, line 3: there is no node stranger in {tmp_path / 'a.graphml'}" in err


def test_fit_takes_matrix_market(capsys, planted, tmp_path):
    scipy.io.mmwrite(tmp_path / "a.mtx", sp.coo_array(planted.graph))
    code, out, _ = run(
        capsys, "fit", tmp_path / "a.mtx", "--classes", 3, "--json", "--out", tmp_path / "out"
    )
    assert code == 0
    assert json.loads(out)["nodes"] == 180


def test_nodes_keep_their_names_whatever_their_order(capsys, planted, tmp_path):
    names = np.array([f"user {(7 * v) % 180}" for v in range(180)])
    train = np.arange(180) % 6 == 0
    data = Dataset(planted.graph, planted.X, planted.y_true, names, {"train": train})
    write_archive(data, tmp_path / "a.npz")
    code, _, err = run(capsys, "fit", tmp_path / "a.npz", "--out", tmp_path / "out")
    assert code == 0, err
    rows = {row["node"]: row for row in predictions(tmp_path / "out")}
    right = [rows[name]["label"] == str(y) for name, y in zip(names, planted.y_true, strict=True)]
    assert np.mean(right) > 0.97
    assert [bool(rows[name]["given_label"]) for name in names] == train.tolist()
    names[3] = names[5]
    write_archive(Dataset(planted.graph, names=names), tmp_path / "a.npz")
    code, _, err = run(capsys, "fit", tmp_path / "a.npz", "--classes", 2)
    assert code == 2
    assert f"two nodes have the id {str(names[5])!r}" in err


def test_sparse_features_and_labels_of_a_folder_reach_the_tables(tmp_path):
    from nodeproof.datasets.reading import read_with_tables

    tables = read_with_tables(write_planetoid(tmp_path, citations()))
    assert sp.issparse(tables.X)
    assert tables.X.shape == (7, 3)
    assert tables.y is not None
    assert tables.y.tolist() == ["0", "1", "", "", "", "", ""]
    assert "1 node without a link: isolated" in tables.notes
