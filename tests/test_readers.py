"""Graphs in every format that `read_graph` takes, and what is said of faulty ones."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
import scipy.sparse as sp

from nodeproof.datasets import Dataset, read_graph
from nodeproof.datasets.archives import write_archive
from nodeproof.errors import InputError

# A path 0 - 1 - 2, and node 3 alone
ADJACENCY = sp.csr_array(np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0.0]]))
OURS = {"adj_indptr": ADJACENCY.indptr, "adj_indices": ADJACENCY.indices, "n": np.int64(4)}
FEATURES = sp.csr_array(np.array([[0, 1.5], [0, 0], [2, 0], [0, 3]], dtype=np.float32))
SPARSE_X = {"x_data": FEATURES.data, "x_indices": FEATURES.indices, "x_indptr": FEATURES.indptr,
            "x_shape": np.array([4, 2])}  # fmt: skip
MASKS = {"train_mask": np.array([1, 1, 0, 0], bool), "val_mask": np.array([0, 0, 1, 0], bool),
         "test_mask": np.array([0, 0, 0, 1], bool)}  # fmt: skip
SHCHUR = {
    "adj_data": np.ones(3), "adj_indices": np.array([1, 0, 2]), "adj_indptr": [0, 1, 3, 3, 3],
    "adj_shape": [4, 4], "attr_data": FEATURES.data, "attr_indices": FEATURES.indices,
    "attr_indptr": FEATURES.indptr, "attr_shape": [4, 2], "labels": np.array([0, 1, 1, 0]),
}  # fmt: skip
PLATONOV = {
    "node_features": FEATURES.toarray(), "node_labels": np.array([0, 1, 1, 0]),
    "edges": np.array([[0, 1], [1, 2]]),
    "train_masks": np.array([[1, 0, 0, 0], [0, 1, 0, 1], [0, 0, 1, 0]], bool),
    "val_masks": np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]], bool),
    "test_masks": np.array([[0, 0, 1, 1], [0, 0, 1, 0], [1, 0, 0, 1]], bool),
}  # fmt: skip


def npz(path: Path, **arrays: Any) -> Path:
    np.savez(path, allow_pickle=True, **arrays)
    return path


def links_of(data: Dataset) -> dict[tuple[int, int], float]:
    """Return the links, each once."""
    assert isinstance(data.graph, sp.csr_array)
    assert (data.graph != data.graph.T).nnz == 0
    assert not data.graph.diagonal().any()
    graph = data.graph.tocoo()
    triples = zip(graph.row.tolist(), graph.col.tolist(), graph.data.tolist(), strict=True)
    return {(u, v): w for u, v, w in triples if u < v}


def dense(data: Dataset) -> Any:
    assert data.X is not None
    return data.X.toarray() if sp.issparse(data.X) else data.X


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        read_graph(path, **options)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    return str(caught.value)


# Tables and matrices


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz", ".parquet"])
def test_edge_tables_keep_their_ids(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"links{suffix}"
    if suffix == ".parquet":
        pq.write_table(pa.table({"source": ["bob", "bob"], "target": ["ann", "eve"]}), path)
    else:
        text = "source,target\nbob,ann\nbob,eve\n".replace(",", "\t" if "tsv" in suffix else ",")
        path.write_bytes(gzip.compress(text.encode()) if "gz" in suffix else text.encode())
    data = read_graph(path)
    assert data.names is not None
    assert data.names.tolist() == ["ann", "bob", "eve"]
    assert links_of(data) == {(0, 1): 1.0, (1, 2): 1.0}
    assert data.X is data.y is None
    assert data.masks == {}


def test_columns_of_a_table_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("since,a,b\n2.5,x,y\n1,y,z\n")
    data = read_graph(tmp_path / "e.csv", source="a", target="b", weight="since")
    assert links_of(data) == {(0, 1): 2.5, (1, 2): 1.0}
    data = read_graph(tmp_path / "e.csv", source=1, target=2, header=True)
    assert links_of(data) == {(0, 1): 1.0, (1, 2): 1.0}
    path = npz(tmp_path / "e.npz", **OURS)
    assert "is no table: leave out source, weight" in refusal(path, source=0, weight=2)


def test_nodes_that_are_row_numbers_have_no_names(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("2,0\n0,1\n")
    assert read_graph(tmp_path / "e.csv").names is None
    (tmp_path / "e.csv").write_text("2,0\n0,3\n")
    names = read_graph(tmp_path / "e.csv").names
    assert names is not None
    assert names.tolist() == [0, 2, 3]


@pytest.mark.parametrize("kind", [sp.csr_array, sp.coo_array, sp.csc_matrix])
def test_scipy_archives_are_read(tmp_path: Path, kind: Any) -> None:
    sp.save_npz(tmp_path / "a.npz", kind(ADJACENCY))
    assert links_of(read_graph(tmp_path / "a.npz")) == {(0, 1): 1.0, (1, 2): 1.0}


@pytest.mark.parametrize("name", ["a.mtx", "a.mtx.gz", "a.txt", "anything"])
@pytest.mark.parametrize("symmetry", ["general", "symmetric"])
def test_matrix_market_is_recognised_by_its_first_line(
    tmp_path: Path, name: str, symmetry: str
) -> None:
    scipy.io.mmwrite(tmp_path / "plain.mtx", sp.coo_array(ADJACENCY), symmetry=symmetry)
    content = (tmp_path / "plain.mtx").read_bytes()
    (tmp_path / name).write_bytes(gzip.compress(content) if "gz" in name else content)
    data = read_graph(tmp_path / name)
    assert links_of(data) == {(0, 1): 1.0, (1, 2): 1.0}
    assert data.graph.shape == (4, 4)


def test_what_becomes_of_a_directed_matrix_is_told(tmp_path: Path) -> None:
    scipy.io.mmwrite(tmp_path / "a.mtx", sp.coo_array(np.array([[1.0, 2.0], [0.0, 0.0]])))
    data = read_graph(tmp_path / "a.mtx")
    assert links_of(data) == {(0, 1): 2.0}
    assert data.notes[0] == "1 self loop in a.mtx dropped"
    assert "a.mtx: the graph is directed" in data.notes[1]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("%%MatrixMarket matrix coordinate real general\n3 3 2\n1 2 1.0\n", "cannot read"),
        ("%%MatrixMarket matrix coordinate real general\n3 3 1\n1 4 1.0\n", "cannot read"),
        ("%%MatrixMarket matrix coordinate real general\n2 3 1\n1 2 1.0\n", "square"),
        ("%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2 -1.0\n", "negative: -1.0"),
        ("%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2 nan\n", "not finite"),
        ("%%MatrixMarket matrix coordinate complex general\n3 3 1\n1 2 1 1\n", "real numbers"),
        ("%%MatrixMarket nonsense\n", "cannot read"),
    ],
)
def test_faults_of_matrix_market_are_named(tmp_path: Path, content: str, problem: str) -> None:
    (tmp_path / "a.mtx").write_text(content)
    message = refusal(tmp_path / "a.mtx")
    assert str(tmp_path / "a.mtx") in message
    assert problem in message


# networkx


def network() -> nx.Graph:
    graph = nx.Graph()
    graph.add_edge("bob", "eve", weight=2.0)
    graph.add_edge("ann", "bob", weight=1.0)
    graph.add_node("zoe")
    return graph


@pytest.mark.parametrize("suffix", ["graphml", "gml", "edgelist", "graphml.gz", "edgelist.gz"])
def test_networkx_files_keep_names_and_weights(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    getattr(nx, f"write_{suffix.split('.')[0]}")(network(), path)
    data = read_graph(path)
    assert links_of(data) == {(0, 1): 1.0, (1, 2): 2.0}
    assert data.names is not None
    alone = [] if "edgelist" in suffix else ["zoe"]  # an edge list has no isolated nodes
    assert data.names.tolist() == ["ann", "bob", "eve", *alone]
    assert data.y is None
    assert data.notes == []


def test_weighted_edge_lists_are_read(tmp_path: Path) -> None:
    nx.write_weighted_edgelist(network(), tmp_path / "a.edgelist")
    assert links_of(read_graph(tmp_path / "a.edgelist")) == {(0, 1): 1.0, (1, 2): 2.0}


@pytest.mark.parametrize(
    ("suffix", "key"), [("graphml", "label"), ("graphml", "y"), ("gml", "class"), ("gml", "value")]
)
def test_node_attributes_become_labels(tmp_path: Path, suffix: str, key: str) -> None:
    graph = network()
    write = getattr(nx, f"write_{suffix}")
    nx.set_node_attributes(graph, {"bob": "red", "ann": "blue"}, key)
    nx.set_node_attributes(graph, 7, "age")
    write(graph, tmp_path / f"a.{suffix}")
    data = read_graph(tmp_path / f"a.{suffix}")
    assert data.y is not None
    assert data.y.tolist() == ["blue", "red", "", ""]
    assert data.notes == [
        f"the node attribute {key!r} of a.{suffix} is read as the label",
        f"not used of a.{suffix}: 'age'",
    ]
    nx.set_node_attributes(graph, {"bob": 3, "ann": 0, "eve": 3}, key)
    write(graph, tmp_path / f"a.{suffix}")
    data = read_graph(tmp_path / f"a.{suffix}")
    assert data.y is not None
    assert data.y.dtype == np.int64
    assert data.y.tolist() == [0, 3, 3, -1]
    assert data.n_classes == 2


def test_gml_labels_that_nodes_share_are_classes(tmp_path: Path) -> None:
    (tmp_path / "a.gml").write_text(
        'graph [ node [ id 5 label "red" ] node [ id 4 label "red" ] node [ id 9 label "blue" ]\n'
        "edge [ source 4 target 9 ] ]"
    )
    data = read_graph(tmp_path / "a.gml")
    assert data.names is not None
    assert data.names.tolist() == [4, 5, 9]
    assert data.y is not None
    assert data.y.tolist() == ["red", "red", "blue"]
    assert links_of(data) == {(0, 2): 1.0}


def test_nodes_of_a_network_that_are_row_numbers_come_in_order(tmp_path: Path) -> None:
    graph = nx.Graph([(10, 3), *((v, v + 1) for v in range(10))])
    nx.set_node_attributes(graph, {v: v for v in graph}, "y")
    nx.write_graphml(graph, tmp_path / "a.graphml")
    data = read_graph(tmp_path / "a.graphml")
    assert data.names is None
    assert data.y is not None
    assert data.y.tolist() == list(range(11))
    assert (3, 10) in links_of(data)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.graphml", "<graphml><graph>"),
        ("a.graphml", "no xml"),
        ("a.gml", "graph [ node [ id 1 "),
        ("a.gml", "nonsense"),
        ("a.edgelist", "a b {'weight': \n"),
        ("a.edgelist", "a b {'weight': 'x'}\n"),
        ("a.edgelist", "a b {'weight': -2}\n"),
        ("a.edgelist", ""),
        ("a.edgelist", "a b {'weight': __import__('os')}\n"),
    ],
)
def test_faults_of_networkx_files_are_named(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    assert str(tmp_path / name) in refusal(tmp_path / name)


def test_without_networkx_the_install_command_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nx.write_gml(network(), tmp_path / "a.gml")
    monkeypatch.setitem(__import__("sys").modules, "networkx", None)
    with pytest.raises(ImportError, match=r"pip install 'nodeproof\[io\]'"):
        read_graph(tmp_path / "a.gml")


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
        ({**SHCHUR, "labels": np.array([{}, 1, 2, 3])}, "allow_pickle=False"),
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
        ({**PLATONOV, "edges": np.array([[0.0, 1.0]])}, "pairs of node numbers"),
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


# Which format it is


def test_the_format_can_be_given(tmp_path: Path) -> None:
    path = npz(tmp_path / "a.npz", **OURS).rename(tmp_path / "data")
    assert read_graph(path).graph.shape == (4, 4)  # by its content
    assert read_graph(path, format="npz").graph.shape == (4, 4)
    nx.write_gml(network(), tmp_path / "network")
    assert "is of no known format; understood are" in refusal(tmp_path / "network")
    assert read_graph(tmp_path / "network", format="gml").graph.shape == (4, 4)
    message = refusal(path, format="xlsx")
    assert "format must be one of table, npz, mtx, graphml, gml" in message
    assert "'xlsx'" in message


def test_what_is_not_known_is_refused_with_what_is(tmp_path: Path) -> None:
    assert refusal(tmp_path / "a.npz") == f"{tmp_path / 'a.npz'} does not exist; check the path"
    message = refusal(tmp_path)
    assert message.startswith(f"{tmp_path} is a folder that holds no known data; understood are")
    (tmp_path / "a.pkl").write_bytes(b"\x80\x04N.")
    message = refusal(tmp_path / "a.pkl")
    for known in ("edge table", "npz", "MatrixMarket", "GraphML", "GML", "edge list", "ind.<name>"):
        assert known in message


def test_text_paths_are_paths(tmp_path: Path) -> None:
    assert read_graph(str(npz(tmp_path / "a.npz", **OURS))).graph.shape == (4, 4)


# The data set itself


def test_labels_to_train_on_need_labels_and_a_mask() -> None:
    with pytest.raises(InputError, match="has no train mask"):
        Dataset(ADJACENCY, y=np.arange(4), masks={"test": np.ones(4, bool)}).training_labels()
    with pytest.raises(InputError, match="has no labels"):
        Dataset(ADJACENCY, masks={"train": np.ones(4, bool)}).training_labels()


def test_a_data_set_tells_its_sizes() -> None:
    data = Dataset(ADJACENCY, FEATURES, np.array([0, -1, 5, 0]))
    assert repr(data) == "Dataset(n=4, edges=2, n_features=2, n_classes=2, masks=[])"
    assert data.known.tolist() == [True, False, True, True]
    assert Dataset(ADJACENCY).n_classes == 0
    assert not Dataset(ADJACENCY).known.any()
    with pytest.raises(AttributeError):
        data.graph = None  # type: ignore[misc]
