"""Graphs in every format that `read_graph` takes, and what is said of faulty ones."""

from __future__ import annotations

import gzip
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
from nodeproof.errors import InputError
from reader_helpers import (
    ADJACENCY,
    FEATURES,
    OURS,
    links_of,
    npz,
    refusal,
)

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
    assert "is not a table: leave out source, weight" in refusal(path, source=0, weight=2)


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
        ("%%MatrixMarket matrix coordinate real general\n3 3 2\n1 2 1.0\n", "found 1 of 3"),
        ("%%MatrixMarket matrix coordinate real general\n3 3 1\n1 4 1.0\n", "outside"),
        ("%%MatrixMarket matrix coordinate real general\n2 3 1\n1 2 1.0\n", "square"),
        ("%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2 -1.0\n", "negative: -1.0"),
        ("%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2 nan\n", "not finite"),
        ("%%MatrixMarket matrix coordinate complex general\n3 3 1\n1 2 1 1\n", "'complex'"),
        ("%%MatrixMarket nonsense\n", "line 1"),
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


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("a.mtx.gz", b"%%MatrixMarket matrix coordinate pattern symmetric\n2 2 1\n2 1", b""),
        ("a.edgelist.gz", b"ann bob", b""),
        ("a.gml.gz", b"graph [ node [ id 0 ] node [ id 1 ]", b" edge [ source 0 target 1 ] ]"),
    ],
)
def test_a_packed_file_that_swells_is_refused(
    tmp_path: Path, name: str, before: bytes, after: bytes
) -> None:
    for blanks in (10, 2**26 + 2**20):  # files up to 2²⁶ bytes may swell
        with gzip.open(tmp_path / name, "wb") as file:
            file.write(before + b" " * blanks + after + b"\n")
        if blanks == 10:
            assert read_graph(tmp_path / name).graph.nnz == 2
    with pytest.raises(InputError, match="unpacks to more than 200 times its size"):
        read_graph(tmp_path / name)


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
def test_the_largest_node_number_is_counted_right(tmp_path: Path, kind: Any) -> None:
    last = np.iinfo(kind).max
    np.savez(tmp_path / "a.npz", edge_index=np.array([[0, last], [1, 0]], dtype=kind))
    with pytest.raises(InputError, match=f"a graph of {int(last) + 1:,} nodes would take about"):
        read_graph(tmp_path / "a.npz")


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
        f"unused node attributes of a.{suffix}: 'age'",
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
