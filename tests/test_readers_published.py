"""Data sets in archives and folders as people publish them, and what is said of faulty ones."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from nodeproof.datasets import Dataset, read_graph
from nodeproof.datasets.archives import write_archive
from reader_helpers import (
    ADJACENCY,
    FEATURES,
    MASKS,
    OURS,
    PLATONOV,
    SHCHUR,
    SPARSE_X,
    dense,
    links_of,
    npz,
    refusal,
)

# Archives


@pytest.mark.parametrize("x", [SPARSE_X, {"x": FEATURES.toarray()}])
def test_our_archives_are_read(tmp_path: Path, x: dict[str, Any]) -> None:
    y = np.array([2, -1, 0, 1])
    data = read_graph(npz(tmp_path / "a.npz", **OURS, **x, y=y, **MASKS))
    assert links_of(data) == {(0, 1): 1.0, (1, 2): 1.0}
    assert sp.issparse(data.X) == (x is SPARSE_X)
    assert data.X is not None
    assert data.X.dtype == np.float32
    assert np.array_equal(dense(data), FEATURES.toarray())
    assert data.y is not None
    assert data.y.tolist() == y.tolist()
    assert data.training_labels().tolist() == [2, -1, -1, -1]
    assert data.y.tolist() == y.tolist()
    assert {part: np.flatnonzero(mask).tolist() for part, mask in data.masks.items()} == {
        "train": [0, 1], "validation": [2], "test": [3],
    }  # fmt: skip
    assert data.names is None


def test_a_set_without_features_may_have_a_matrix_without_columns(tmp_path: Path) -> None:
    data = read_graph(npz(tmp_path / "a.npz", **OURS, x=np.empty((4, 0), np.float32)))
    assert data.X is None


def test_the_layout_of_the_gnn_benchmark_is_read(tmp_path: Path) -> None:
    names = np.array(["a", None, {}, 3], dtype=object)
    data = read_graph(
        npz(tmp_path / "a.npz", **SHCHUR, node_names=names, attr_names=names, metadata=names[2])
    )
    assert links_of(data) == {(0, 1): 1.0, (1, 2): 1.0}
    assert np.array_equal(dense(data), FEATURES.toarray())
    assert data.y is not None
    assert data.y.tolist() == [0, 1, 1, 0]
    assert data.masks == {}
    assert "directed" in data.notes[0]
    graph = {key: value for key, value in SHCHUR.items() if key.startswith("adj")}
    data = read_graph(npz(tmp_path / "b.npz", **graph, attr_matrix=FEATURES.toarray()))
    assert np.array_equal(dense(data), FEATURES.toarray())
    assert data.y is None


def test_labels_of_several_classes_are_left_out_with_a_word(tmp_path: Path) -> None:
    path = npz(tmp_path / "a.npz", **OURS, labels_data=np.ones(3), labels_shape=[4, 2])
    data = read_graph(path)
    assert data.y is None
    assert "a node may have several" in data.notes[0]


@pytest.mark.parametrize("transposed", [False, True])
def test_the_layout_with_several_splits_is_read(tmp_path: Path, transposed: bool) -> None:
    arrays = {
        key: value.T if transposed and key.endswith("masks") else value
        for key, value in PLATONOV.items()
    }
    data = read_graph(npz(tmp_path / "a.npz", **arrays))
    assert links_of(data) == {(0, 1): 1.0, (1, 2): 1.0}
    assert data.notes == ["a.npz has 3 splits; number 0 is used (from 0)"]
    assert np.flatnonzero(data.masks["test"]).tolist() == [2, 3]
    data = read_graph(tmp_path / "a.npz", split=1)
    assert {part: np.flatnonzero(mask).tolist() for part, mask in data.masks.items()} == {
        "train": [1, 3], "validation": [0], "test": [2],
    }  # fmt: skip
    assert data.notes == ["a.npz has 3 splits; number 1 is used (from 0)"]
    for wrong in (3, -1):
        assert f"there is no split {wrong}" in refusal(tmp_path / "a.npz", split=wrong)
    assert "have numbers" in refusal(tmp_path / "a.npz", split="time")


@pytest.mark.parametrize(
    "links",
    [
        {"edge_index": np.array([[0, 1, 1, 2], [1, 0, 2, 2]])},
        {"edge_index": np.array([[0, 1], [1, 2]])},
        {"edges": np.array([[0, 1], [1, 2]])},
        {"edges": np.array([[0, 1], [1, 0], [2, 1], [2, 1]], dtype=np.uint16)},
    ],
)
def test_lists_of_links_are_read_either_way_round(tmp_path: Path, links: dict[str, Any]) -> None:
    path = npz(tmp_path / "a.npz", **links, features=FEATURES.toarray(), labels=np.arange(4))
    assert links_of(read_graph(path)) == {(0, 1): 1.0, (1, 2): 1.0}
    assert read_graph(path).graph.shape == (4, 4)
    assert read_graph(npz(path, **links)).graph.shape == (3, 3)
    assert read_graph(npz(path, **links, num_nodes=6)).graph.shape == (6, 6)


def test_text_labels_and_names_are_kept(tmp_path: Path) -> None:
    y, names = np.array(["b", "", "a", "b"]), np.array(list("wxyz"))
    data = read_graph(npz(tmp_path / "a.npz", **OURS, y=y, names=names, **MASKS))
    assert data.y is not None
    assert data.y.tolist() == ["b", "", "a", "b"]
    assert data.n_classes == 2
    assert data.training_labels().tolist() == ["b", "", "", ""]
    assert data.names is not None
    assert data.names.tolist() == list("wxyz")


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        ({}, "found nothing"),
        ({"a": np.arange(3)}, "holds no graph"),
        ({"feature": 1, "label": 2, "node_types": 3}, "give the folder that holds both"),
        ({**OURS, "n": 5}, "n is 5, but adj_indptr has 4 rows"),
        ({**OURS, "adj_indices": np.array([1, 0, 9, 1])}, "cannot read"),
        ({**OURS, "adj_indices": np.array([1, 0, -1, 1])}, "cannot read"),
        ({**OURS, "adj_indptr": np.array([0, 3, 1, 4, 4])}, "cannot read"),
        ({**OURS, "adj_data": np.array([1.0, -1.0, 1.0, 1.0])}, "is negative: -1.0"),
        ({**OURS, "adj_data": np.array([1.0, np.nan, 1.0, 1.0])}, "is not finite"),
        ({**SHCHUR, "adj_shape": [4, 5]}, "square"),
        ({**SHCHUR, "attr_shape": [9, 2]}, "cannot read"),
        ({**SHCHUR, "labels": np.arange(3)}, "the labels have 3 rows for 4 nodes"),
        ({**SHCHUR, "labels": np.ones((4, 3))}, "labels must be integers or text"),
        ({**SHCHUR, "labels": np.array([{}, 1, 2, 3])}, "Python objects"),
        ({**OURS, "x": np.ones((3, 2))}, "the features have 3 rows for 4 nodes"),
        ({**OURS, "x": np.full((4, 2), np.nan)}, "row 0, column 0 (from 0): expected a finite"),
        ({**OURS, **SPARSE_X, "x_data": np.array([1, np.inf, 1])}, "row 2, column 0 (from 0)"),
        ({**OURS, **SPARSE_X, "x_indices": np.array([0, 7, 1])}, "cannot read"),
        ({**OURS, "x": np.array([["a"]] * 4)}, "features must be numbers"),
        ({**OURS, "y": np.array([0, -2, 1, 1])}, "the label of node 1 is -2"),
        ({**OURS, "y": np.arange(4) + 0.5}, "labels must be integers or text"),
        ({**OURS, "names": np.array(["a"])}, "the names have 1 rows for 4 nodes"),
        ({**OURS, "train_mask": np.ones(3, bool)}, "train_mask must be true or false"),
        ({**OURS, "test_mask": np.ones(4)}, "test_mask must be true or false"),
        ({**PLATONOV, "edges": np.array([[0, 9]])}, "a link names node 9, but nodes run from 0"),
        ({**PLATONOV, "edges": np.array([[0, -1]])}, "a link names node -1"),
        ({**PLATONOV, "edges": np.array([[0.0, 1.0]])}, "links must be node numbers"),
        ({**PLATONOV, "edges": np.arange(4)}, "shape (2, E) or (E, 2)"),
        ({"edges": np.empty((0, 2), int)}, "it has no nodes"),
    ],
)
def test_faults_of_an_archive_are_named(
    tmp_path: Path, arrays: dict[str, Any], problem: str
) -> None:
    path = npz(tmp_path / "a.npz", **arrays)
    message = refusal(path)
    assert str(path) in message
    assert problem in message


def test_archives_that_were_cut_off_are_named(tmp_path: Path) -> None:
    whole = npz(tmp_path / "a.npz", **OURS, **SPARSE_X).read_bytes()
    path = tmp_path / "b.npz"
    for content in (b"", b"no archive", whole[:-30], whole[:200], whole[:100] + whole[140:]):
        path.write_bytes(content)
        assert refusal(path).startswith(f"cannot read {path}")


@pytest.mark.parametrize("x", [None, FEATURES, FEATURES.toarray()])
@pytest.mark.parametrize("weight", [1.0, 2.5])
def test_what_is_written_is_read_again(tmp_path: Path, x: Any, weight: float) -> None:
    masks = {"train": MASKS["train_mask"], "test": MASKS["test_mask"]}
    y, names = np.array(["b", "", "a", "b"]), np.array(list("wxyz"))
    given = Dataset(ADJACENCY * weight, x, y, names, masks)
    write_archive(given, tmp_path / "a.npz")
    data = read_graph(tmp_path / "a.npz")
    assert (data.graph != given.graph).nnz == 0
    assert data.y is not None
    assert data.y.tolist() == y.tolist()
    assert data.names is not None
    assert data.names.tolist() == names.tolist()
    assert list(data.masks) == ["train", "test"]
    assert all(np.array_equal(data.masks[part], masks[part]) for part in masks)
    assert type(data.X) is type(x)
    if x is not None:
        assert np.array_equal(dense(data), FEATURES.toarray())
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


# OGB and Reddit


def write_ogb(folder: Path, **changes: str | None) -> Path:
    """Write a data set as OGB does; changes replace files by their names, None leaves one out."""
    files: dict[str, str | None] = {
        "raw/edge": "0,1\n2,1\n2,1\n", "raw/num-node-list": "4\n", "raw/num-edge-list": "3\n",
        "raw/node-feat": "0.5,1\n0,-2e-1\n1,1\n0,3\n", "raw/node-label": "4\n0\nnan\n4\n",
        "split/time/train": "0\n2\n", "split/time/valid": "1\n", "split/time/test": "3\n",
    }  # fmt: skip
    for name, content in (files | changes).items():
        if content is not None:
            path = folder / f"{name}.csv.gz"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(gzip.compress(content.encode()))
    return folder


def zipped(folder: Path, top: str) -> Path:
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(found for found in folder.rglob("*") if found.is_file()):
            archive.write(file, f"{top}{file.relative_to(folder)}")
    return path


@pytest.mark.parametrize("place", ["folder", "above", "zip"])
def test_the_layout_of_ogb_is_read(tmp_path: Path, place: str) -> None:
    path = write_ogb(tmp_path / "above" / "arxiv")
    path = {"folder": path, "above": path.parent, "zip": path}[place]
    if place == "zip":
        path = zipped(path, "arxiv/")
    data = read_graph(path)
    assert links_of(data) == {(0, 1): 1.0, (1, 2): 1.0}
    assert data.graph.shape == (4, 4)
    assert data.X is not None
    assert data.X.dtype == np.float32
    assert np.allclose(data.X, [[0.5, 1], [0, -0.2], [1, 1], [0, 3]])
    assert data.y is not None
    assert data.y.tolist() == [4, 0, -1, 4]
    assert {part: np.flatnonzero(mask).tolist() for part, mask in data.masks.items()} == {
        "train": [0, 2], "validation": [1], "test": [3],
    }  # fmt: skip


def test_parts_of_ogb_may_be_missing_and_splits_several(tmp_path: Path) -> None:
    bare = {"raw/node-feat": None, "raw/node-label": None, "split/time/train": None}
    data = read_graph(write_ogb(tmp_path / "bare", **bare))
    assert data.X is data.y is None
    assert data.masks == {}
    other = {f"split/random/{part}": "3\n" for part in ("train", "valid", "test")}
    path = write_ogb(tmp_path / "two", **other)
    assert "choose one of random, time" in refusal(path)
    assert np.flatnonzero(read_graph(path, split="random").masks["train"]).tolist() == [3]
    assert np.flatnonzero(read_graph(path, split="time").masks["train"]).tolist() == [0, 2]
    assert "has no split 'space'" in refusal(path, split="space")


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("raw/edge", "0,1\n2,4\n", "a link names node 4, but nodes run from 0 to 3"),
        ("raw/edge", "0,1\n2,\n", "line 2: expected a whole number"),
        ("raw/edge", "0,1\n2,x\n", "cannot read"),
        ("raw/edge", "0,1\n2\n", "cannot read"),
        ("raw/edge", "0,1,2\n", "two columns"),
        ("raw/num-node-list", "4\n3\n", "holds 2 graphs"),
        ("raw/node-feat", "0,1\n0,nan\n1,1\n0,3\n", "row 1, column 1 (from 0): expected a finite"),
        ("raw/node-feat", "0,1\n0,2\n", "the features have 2 rows for 4 nodes"),
        ("raw/node-label", "0\n1\n", "the labels have 2 rows for 4 nodes"),
        ("raw/node-label", "0,1\n1,0\n0,0\n1,1\n", "labels must be integers or text"),
        ("split/time/test", "3\n4\n", "there is no node 4"),
        ("split/time/valid", None, "does not exist"),
        ("raw/num-node-list", None, "does not exist"),
    ],
)
def test_faults_of_ogb_files_are_named(
    tmp_path: Path, name: str, content: str | None, problem: str
) -> None:
    path = write_ogb(tmp_path / "set", **{name: content})
    message = refusal(path)
    assert str(path) in message
    assert problem in message


def test_ogb_files_that_were_cut_off_are_named(tmp_path: Path) -> None:
    path = write_ogb(tmp_path / "set")
    edges = path / "raw" / "edge.csv.gz"
    whole = edges.read_bytes()
    for content in (b"", b"no gzip", whole[:-9], whole[:12]):
        edges.write_bytes(content)
        assert str(edges) in refusal(path)
    edges.write_bytes(whole)
    broken = zipped(path, "set/")
    broken.write_bytes(broken.read_bytes()[:-40])
    assert str(broken) in refusal(broken)


@pytest.mark.parametrize("packed", [False, True])
def test_reddit_is_read_as_dgl_publishes_it(tmp_path: Path, packed: bool) -> None:
    folder = tmp_path / "reddit"
    folder.mkdir()
    sp.save_npz(folder / "reddit_graph.npz", sp.coo_array(ADJACENCY * 3))
    arrays = {"feature": FEATURES.toarray(), "label": np.array([5, 5, 0, 1]),
              "node_types": np.array([1, 2, 3, 1]), "node_ids": np.arange(4)}  # fmt: skip
    npz(folder / "reddit_data.npz", **arrays)
    path = zipped(folder, "") if packed else folder
    data = read_graph(path)
    assert links_of(data) == {(0, 1): 1.0, (1, 2): 1.0}
    assert np.array_equal(dense(data), FEATURES.toarray())
    assert data.y is not None
    assert data.y.tolist() == [5, 5, 0, 1]
    assert {part: np.flatnonzero(mask).tolist() for part, mask in data.masks.items()} == {
        "train": [0, 3], "validation": [1], "test": [2],
    }  # fmt: skip
    npz(folder / "reddit_data.npz", **{**arrays, "node_types": np.ones(3)})
    assert "the train mask has 3 rows for 4 nodes" in refusal(folder)
    npz(folder / "reddit_data.npz", label=arrays["label"])
    assert "reddit_data.npz" in refusal(folder)
    (folder / "reddit_graph.npz").unlink()
    assert "must hold both" in refusal(folder)
