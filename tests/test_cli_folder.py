"""`nodeproof fit` on graphs in folders: the same answers as from the files, and long fits."""

from __future__ import annotations

import csv
import json
from importlib import import_module

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli_helpers import run
from nodeproof.datasets import make_planted
from nodeproof.tables.convert import convert


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Links in two Parquet files, labels, features; and the same links in a graph folder."""
    folder = tmp_path_factory.mktemp("planted")
    data = make_planted(3, 60, p=0.3, q=0.05, label_ratio=0.3, random_state=0)
    names = np.array([f"n{v:03d}" for v in range(180)])
    upper = data.graph.tocoo()
    keep = upper.row < upper.col
    source, target = names[upper.row[keep]], names[upper.col[keep]]
    (folder / "links").mkdir()
    for k in range(2):
        table = pa.table({"source": source[k::2], "target": target[k::2]})
        pq.write_table(table, folder / "links" / f"part-{k}.parquet")
    known = np.flatnonzero(data.y >= 0)
    colours = np.array(["red", "green", "-1"])  # a name that elsewhere means unknown
    pq.write_table(
        pa.table({"node": names[known], "label": colours[data.y[known]]}), folder / "labels.parquet"
    )
    pq.write_table(
        pa.table({"node": names, **{f"f{j}": data.X[:, j] for j in range(6)}}),
        folder / "features.parquet",
    )
    pq.write_table(pa.table({"source": source, "target": target}), folder / "all.parquet")
    convert(folder / "links", folder / "graph")
    np.save(folder / "X.npy", data.X)
    return folder


def fit(capsys, *arguments):
    status, out, err = run(capsys, "fit", *arguments)
    assert status == 0, err
    return out, err


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_folder_gives_the_same_predictions_as_its_links(capsys, files, tmp_path):
    common = ("--labels", files / "labels.parquet", "--unknown", "?")
    fit(capsys, files / "all.parquet", *common, "--out", tmp_path / "a")
    fit(capsys, files / "graph", *common, "--out", tmp_path / "b")
    assert read(tmp_path / "a" / "predictions.csv") == read(tmp_path / "b" / "predictions.csv")
    assert {row["label"] for row in read(tmp_path / "b" / "predictions.csv")} == {
        "red", "green", "-1",
    }  # fmt: skip


def test_features_come_from_a_table_or_from_an_array_on_disk(capsys, files, tmp_path):
    common = ("--labels", files / "labels.parquet", "--unknown", "?")
    fit(
        capsys,
        files / "graph",
        *common,
        "--features",
        files / "features.parquet",
        "--out",
        tmp_path / "a",
    )
    fit(capsys, files / "graph", *common, "--features", files / "X.npy", "--out", tmp_path / "b")
    assert read(tmp_path / "a" / "predictions.csv") == read(tmp_path / "b" / "predictions.csv")


def test_parquet_in_parts_is_converted_beside_the_results(capsys, files, tmp_path):
    out = tmp_path / "fitted"
    arguments = (files / "links", "--labels", files / "labels.parquet", "--out", out)
    _, err = fit(capsys, *arguments, "--unknown", "?")
    assert "fitted-graph" in err
    assert (tmp_path / "fitted-graph" / "graph.json").exists()
    status, _, err = run(capsys, "fit", *arguments)
    assert status == 2
    assert "give that folder instead" in err


def test_columns_of_parquet_in_parts_that_are_not_used_are_told(capsys, files, tmp_path):
    (tmp_path / "links").mkdir()
    table = pq.read_table(files / "all.parquet")
    amounts = pa.array(np.full(len(table), 2.5))
    pq.write_table(table.append_column("amount", amounts), tmp_path / "links" / "part.parquet")
    _, err = fit(
        capsys, tmp_path / "links", "--labels", files / "labels.parquet", "--out", tmp_path / "out"
    )
    assert "unused columns of links: amount; if it is the weight, use --weight-column amount" in err


def test_a_time_budget_ends_the_fit_and_says_so(capsys, files, tmp_path):
    out, _ = fit(
        capsys, files / "graph", "--labels", files / "labels.parquet", "--time-budget", 0,
        "--out", tmp_path / "out", "--json",
    )  # fmt: skip
    summary = json.loads(out)
    assert summary["sweeps"] == 1
    assert any("time budget of 0 s" in note for note in summary["notes"])
    assert (tmp_path / "out" / "predictions.csv").exists()


def test_a_checkpoint_folder_is_left_empty_by_a_fit_that_ends(capsys, files, tmp_path):
    fit(
        capsys, files / "graph", "--labels", files / "labels.parquet",
        "--checkpoint", tmp_path / "state", "--out", tmp_path / "out",
    )  # fmt: skip
    assert not (tmp_path / "state" / "state.npz").exists()


def test_strangers_among_labels_are_named(capsys, files, tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("node,label\nn001,red\nnobody,green\n")
    status, _, err = run(
        capsys, "fit", files / "graph", "--labels", path, "--out", tmp_path / "out"
    )
    assert status == 2
    assert "nobody" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--source", "u"), "no columns"),
        (("--features", "short.npy"), "180 nodes"),
        (("--scheduler", "tcp://127.0.0.1:1"), "no cluster responds"),
        (("--scheduler", "foo"), "missing port number"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(
    capsys, monkeypatch, files, tmp_path, options, what
):
    monkeypatch.setattr(import_module("nodeproof.cli.fit"), "_PATIENCE", 1)
    np.save(tmp_path / "short.npy", np.zeros((3, 2)))
    options = [tmp_path / word if word == "short.npy" else word for word in options]
    status, _, err = run(capsys, "fit", files / "graph", *options, "--out", tmp_path / "out")
    assert status == 2
    assert what in err
    assert len(err.strip().splitlines()) == 1
