"""Planted graphs in files: the shares asked for, the same bytes, and parts that can be redone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nodeproof.datasets import planted_files, write_planted
from nodeproof.errors import InputError


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(planted_files, "_PART", 3000)
    monkeypatch.setattr(planted_files, "_BLOCK", 700)


def contents(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def ends(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    table = pq.read_table(folder / "edges")
    return table["source"].to_numpy(), table["target"].to_numpy()


def test_it_is_what_was_asked_for(tmp_path, small_parts):
    folder = write_planted(tmp_path / "planted", 10_000, n_clusters=7, degree=10, inside=0.3)
    truth = np.load(folder / "truth.npy")
    source, target = ends(folder)
    assert len(source) == 10_000
    assert source.dtype == np.int32
    assert truth.shape == (2000,)
    assert truth.dtype == np.uint8
    sizes = np.bincount(truth)
    assert sizes.max() - sizes.min() <= 1
    assert (truth[source] == truth[target]).sum() == 3000
    assert (source != target).all()
    names = sorted(file.name for file in (folder / "edges").iterdir())
    assert names == [f"part-{part:05d}.parquet" for part in range(4)]


def test_ends_and_classes_are_spread_evenly(tmp_path):
    folder = write_planted(tmp_path / "planted", 200_000, n_clusters=5, degree=20)
    truth = np.load(folder / "truth.npy")
    source, target = ends(folder)
    # Degrees are as chance makes them: the variance of counts is their mean.
    degrees = np.bincount(np.concatenate([source, target]), minlength=len(truth))
    assert degrees.mean() == 20
    assert degrees.var() == pytest.approx(20, rel=0.05)
    pairs = np.zeros((5, 5))
    np.add.at(pairs, (truth[source], truth[target]), 1)
    assert np.diag(pairs) == pytest.approx(np.full(5, 20_000), rel=0.05)
    across = pairs[~np.eye(5, dtype=bool)]
    assert across == pytest.approx(np.full(20, 5_000), rel=0.08)
    # Nodes are not sorted by class, nor links by their ends.
    assert np.abs(np.corrcoef(np.arange(len(truth)), truth)[0, 1]) < 0.03
    assert np.abs(np.corrcoef(source, target)[0, 1]) < 0.01
    assert len(np.unique(np.sort(np.stack([source, target]), axis=0), axis=1).T) > 199_000


def test_labels_are_true_and_of_every_class(tmp_path):
    folder = write_planted(tmp_path / "planted", 20_000, n_clusters=4, label_ratio=0.1)
    truth = np.load(folder / "truth.npy")
    labels = pq.read_table(folder / "labels.parquet")
    nodes = labels["node"].to_numpy()
    assert labels.column_names == ["node", "label"]
    np.testing.assert_array_equal(truth[nodes], labels["label"].to_numpy())
    assert np.bincount(truth[nodes]).tolist() == [50, 50, 50, 50]
    assert (np.diff(nodes) > 0).all()


def test_bytes_depend_on_the_seed_alone(tmp_path, small_parts):
    write_planted(tmp_path / "a", 7000, random_state=3)
    write_planted(tmp_path / "b", 7000, random_state=3)
    write_planted(tmp_path / "c", 7000, random_state=4)
    a, b, c = (contents(tmp_path / name) for name in "abc")
    assert a == b
    assert all(a[name] != c[name] for name in a)


def test_what_is_missing_is_written_again(tmp_path, small_parts):
    folder = write_planted(tmp_path / "planted", 10_000)
    before = contents(folder)
    kept = folder / "edges" / "part-00000.parquet"
    when = kept.stat().st_mtime_ns
    for name in ("truth.npy", "labels.parquet", "edges/part-00002.parquet"):
        (folder / name).unlink()
    seen = []
    write_planted(folder, 10_000, progress=lambda *step: seen.append(step))
    assert contents(folder) == before
    assert kept.stat().st_mtime_ns == when
    assert seen == [("links", done, 10_000) for done in (3000, 6000, 9000, 10_000)]


def test_a_kill_leaves_no_half_of_a_part(tmp_path, small_parts, monkeypatch):
    write = planted_files._write_links
    calls = iter(range(10))

    def fail(path: Path, *rest: object) -> None:
        write(path, *rest)
        if next(calls) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(planted_files, "_write_links", fail)
    with pytest.raises(KeyboardInterrupt):
        write_planted(tmp_path / "planted", 10_000)
    assert len(list((tmp_path / "planted" / "edges").iterdir())) == 1
    write_planted(tmp_path / "planted", 10_000)
    monkeypatch.undo()
    monkeypatch.setattr(planted_files, "_PART", 3000)
    monkeypatch.setattr(planted_files, "_BLOCK", 700)
    write_planted(tmp_path / "whole", 10_000)
    assert contents(tmp_path / "planted") == contents(tmp_path / "whole")


def test_other_parameters_need_another_folder(tmp_path):
    folder = write_planted(tmp_path / "planted", 1000)
    before = contents(folder)
    with pytest.raises(InputError, match="other parameters"):
        write_planted(folder, 1000, random_state=1)
    (folder / "planted.json").write_text("{")
    with pytest.raises(InputError, match="other parameters"):
        write_planted(folder, 1000)
    assert {name: data for name, data in contents(folder).items() if name != "planted.json"} == {
        name: data for name, data in before.items() if name != "planted.json"
    }
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    with pytest.raises(InputError, match="holds no planted graph"):
        write_planted(tmp_path / "mine", 1000)
    with pytest.raises(InputError, match="does not exist"):
        write_planted(tmp_path / "no" / "planted", 1000)


def test_one_class_or_many(tmp_path):
    folder = write_planted(tmp_path / "one", 1000, n_clusters=1, inside=1)
    assert not np.load(folder / "truth.npy").any()
    folder = write_planted(tmp_path / "many", 6000, n_clusters=300, degree=20, inside=1)
    truth = np.load(folder / "truth.npy")
    assert truth.dtype == np.uint16
    assert np.bincount(truth).tolist() == [2] * 300
    source, target = ends(folder)
    assert (source != target).all()
    assert (truth[source] == truth[target]).all()
    json.loads((folder / "planted.json").read_text())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_links": 0}, "n_links must be an integer from 1"),
        ({"n_links": 1e6}, "n_links must be an integer"),
        ({"n_links": 10}, "too few for 10 classes"),
        ({"n_clusters": 0}, "n_clusters must lie in"),
        ({"n_clusters": 10**6}, "n_clusters must lie in"),
        ({"degree": 0}, "degree must be positive"),
        ({"degree": float("nan")}, "degree must be positive"),
        ({"inside": 1.5}, "inside must lie in"),
        ({"label_ratio": -1}, "label_ratio must lie in"),
        ({"random_state": None}, "random_state must be an integer"),
        ({"n_clusters": 1}, "give inside=1"),
    ],
)
def test_bad_parameters_are_refused(tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        write_planted(tmp_path / "planted", **({"n_links": 1000} | options))
    assert list(tmp_path.iterdir()) == []


def test_it_can_be_converted(tmp_path, small_parts):
    pytest.importorskip("duckdb")
    from nodeproof.tables.convert import convert

    folder = write_planted(tmp_path / "planted", 10_000)
    graph = convert(folder / "edges", tmp_path / "graph", nodes=folder / "labels.parquet")
    source, target = ends(folder)
    pairs = np.unique(np.sort(np.stack([source, target]), axis=0), axis=1)
    assert graph.n_entries == 2 * pairs.shape[1]
    assert graph.read["links"] == 10_000
    assert pa.types.is_int32(pq.read_schema(folder / "edges" / "part-00000.parquet").types[0])
