"""`nodeproof update`, as a person runs it."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from cli_helpers import run, write
from nodeproof import NodeClassifier
from nodeproof.cli import main
from nodeproof.datasets import make_planted

NAMES = np.array(["cat", "dog", "eel"])
IDS = np.array([f"user {v:03d}" for v in range(180)])
NEW = np.arange(0, 180, 20)


def read(path: Path) -> dict[str, dict[str, str]]:
    with path.open(newline="") as file:
        return {row["node"]: row for row in csv.DictReader(file)}


@pytest.fixture(scope="module")
def data():
    return make_planted(cluster_size=60, p=0.25, omega=0.3, random_state=0)


@pytest.fixture(scope="module")
def fitted(data, tmp_path_factory):
    """A model of all nodes but some, and files of these."""
    folder = tmp_path_factory.mktemp("fitted")
    is_new = np.isin(np.arange(180), NEW)
    links = data.graph.tocoo()
    ends = [(u, v) for u, v in zip(links.row, links.col, strict=True) if u < v]
    old = [[IDS[u], IDS[v]] for u, v in ends if not (is_new[u] or is_new[v])]
    new = [[IDS[u], IDS[v]] for u, v in ends if is_new[u] or is_new[v]]
    features = [[IDS[v], *data.X[v]] for v in range(180)]
    labels = [[IDS[v], NAMES[data.y[v]]] for v in range(180) if data.y[v] >= 0 and not is_new[v]]
    columns = ["node", *"abcdef"]
    write(folder / "edges.csv", [["source", "target"], *old])
    write(folder / "new_edges.csv", [["source", "target"], *new])
    write(folder / "features.csv", [columns, *(features[v] for v in range(180) if not is_new[v])])
    write(folder / "new_features.csv", [columns, *(features[v] for v in NEW)])
    write(folder / "labels.csv", [["node", "label"], *labels])
    with pytest.raises(SystemExit) as ended:
        main([
            "fit", str(folder / "edges.csv"), "--features", str(folder / "features.csv"),
            "--labels", str(folder / "labels.csv"), "--out", str(folder / "model"), "--json",
        ])  # fmt: skip
    assert not ended.value.code
    return folder


@pytest.fixture
def model(fitted, tmp_path):
    return Path(shutil.copytree(fitted / "model", tmp_path / "model"))


def test_new_nodes_links_and_labels_are_taken_up_in_place(data, fitted, model, capsys, tmp_path):
    old = read(model / "predictions.csv")
    named = next(node for node, row in old.items() if not row["given_label"])
    labels = write(tmp_path / "more.csv", [["node", "label"], [named, "dog"], [IDS[0], "cat"]])
    code, out, err = run(
        capsys, "update", model, "--edges", fitted / "new_edges.csv", "--features",
        fitted / "new_features.csv", "--labels", labels, "--json",
    )  # fmt: skip
    assert (code, err) == (0, "")
    summary = json.loads(out)
    found = read(model / "predictions.csv")
    assert summary["nodes"] == len(found) == 180
    assert list(found)[: len(old)] == list(old)
    assert found[named]["given_label"] == "dog"
    assert found[IDS[0]]["given_label"] == "cat"
    truth = {IDS[v]: NAMES[data.y_true[v]] for v in NEW}
    assert np.mean([found[node]["label"] == label for node, label in truth.items()]) >= 0.8
    assert summary["choices"]["update"]["value"]["nodes"] == len(NEW)
    assert json.loads((model / "summary.json").read_text()) == summary
    assert len(NodeClassifier.load(model / "model.npz").labels_) == 180


def test_links_are_added_and_removed_among_known_nodes(fitted, model, capsys, tmp_path):
    with (fitted / "edges.csv").open(newline="") as file:
        known = list(csv.reader(file))[1:]
    n_links = len({tuple(sorted(link)) for link in known})
    gone = write(tmp_path / "gone.csv", [["source", "target"], *known[:3]])
    code, out, _ = run(capsys, "update", model, "--remove", gone, "--json")
    assert code == 0
    assert json.loads(out)["links"] == n_links - 3
    code, out, _ = run(capsys, "update", model, "--edges", gone, "--json")
    assert code == 0
    assert json.loads(out)["links"] == n_links
    assert json.loads(out)["choices"]["update"]["value"]["updates"] == 2


def test_an_unknown_label_removes_the_one_that_was_there(model, capsys, tmp_path):
    node = next(v for v, row in read(model / "predictions.csv").items() if row["given_label"])
    labels = write(tmp_path / "less.csv", [["node", "label"], [node, "?"]])
    assert run(capsys, "update", model, "--labels", labels, "--json")[0] == 0
    assert read(model / "predictions.csv")[node]["given_label"] == ""


def test_results_go_elsewhere_if_asked_to(model, capsys, tmp_path):
    before = (model / "model.npz").read_bytes()
    labels = write(tmp_path / "more.csv", [["node", "label"], [IDS[1], "cat"]])
    code, out, _ = run(capsys, "update", model, "--labels", labels, "--out", tmp_path / "after")
    assert code == 0
    assert "near the change" in " ".join(out.split()) or "expected to give" in " ".join(out.split())
    assert (model / "model.npz").read_bytes() == before
    assert sorted(file.name for file in (tmp_path / "after").iterdir()) == [
        "model.npz", "predictions.csv", "summary.json",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("option", "rows", "said"),
    [
        (None, None, "nothing to update"),
        ("--labels", [["node", "label"], ["nobody", "cat"]], "there is no node 'nobody'"),
        ("--labels", [["node", "label"], ["user 001", "yak"]], "names the class 'yak'"),
        ("--remove", [["source", "target"], ["user 001", "nobody"]], "there is no node 'nobody'"),
        ("--edges", [["source", "target"], ["user 001", "newcomer"]], "no features of new nodes"),
    ],
)
def test_what_cannot_be_updated_leaves_all_as_it_was(model, capsys, tmp_path, option, rows, said):
    before = (model / "model.npz").read_bytes()
    given = [] if option is None else [option, write(tmp_path / "given.csv", rows)]
    code, _, err = run(capsys, "update", model, *given)
    assert code == 2
    assert said in " ".join(err.split())
    assert (model / "model.npz").read_bytes() == before
