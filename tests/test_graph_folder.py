"""Graphs on disk: what is written is what is read, and nothing else is taken for it."""

from __future__ import annotations

import json
import shutil
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeproof.errors import InputError
from nodeproof.storage.graph_files import NPY_HEADER, IdFile
from nodeproof.storage.graph_folder import GraphFolder, is_graph_folder, write_graph_folder


@pytest.fixture
def folder(tmp_path: Path, random_graph) -> Path:
    """A weighted graph of 30 named nodes."""
    graph = random_graph(30, weighted=True).astype(np.float32)
    write_graph_folder(tmp_path / "graph", graph, ids=[f"node {v:02d}" for v in range(30)])
    return tmp_path / "graph"


def edit_header(folder: Path, **fields: Any) -> None:
    header = json.loads((folder / "graph.json").read_text())
    (folder / "graph.json").write_text(json.dumps(header | fields))


def as_matrix(graph: GraphFolder) -> sp.csr_array:
    data = graph.weights if len(graph.weights) else np.ones(graph.n_entries, dtype=np.float32)
    return sp.csr_array((data, graph.indices, graph.indptr), shape=(graph.n_nodes,) * 2)


# writing and reading


@pytest.mark.parametrize("weighted", [False, True])
def test_what_is_written_is_read(tmp_path, random_graph, weighted):
    matrix = random_graph(50, density=0.1, weighted=weighted).astype(np.float32)
    write_graph_folder(tmp_path / "graph", matrix)
    graph = GraphFolder.open(tmp_path / "graph")
    assert (graph.n_nodes, graph.n_entries) == (50, matrix.nnz)
    assert (as_matrix(graph) != matrix).nnz == 0
    assert len(graph.weights) == (matrix.nnz if weighted else 0)
    assert (tmp_path / "graph" / "weights.npy").exists() == weighted
    np.testing.assert_allclose(graph.degrees, matrix.sum(axis=1), rtol=1e-6)
    assert graph.indptr.dtype == np.int64
    assert graph.indices.dtype == np.int32
    assert graph.degrees.dtype == np.float64
    assert graph.ids is None
    graph.verify()


def test_arrays_are_plain_and_cannot_be_written_to(folder):
    graph = GraphFolder.open(folder)
    for name in ("indptr", "indices", "weights", "degrees"):
        mapped = getattr(graph, name)
        assert isinstance(mapped, np.memmap)
        with pytest.raises(ValueError, match="read-only"):
            mapped[0] = 1
        np.testing.assert_array_equal(np.load(folder / f"{name}.npy"), mapped)


def test_nodes_without_links_are_kept(tmp_path):
    write_graph_folder(tmp_path / "graph", sp.csr_array((4, 4)))
    graph = GraphFolder.open(tmp_path / "graph")
    assert (graph.n_nodes, graph.n_entries) == (4, 0)
    assert graph.degrees.tolist() == [0, 0, 0, 0]
    graph.verify()


def test_ids_that_are_positions_need_no_file(tmp_path, random_graph):
    for ids in (np.arange(5), ["0", "1", "2", "3", "4"]):
        shutil.rmtree(tmp_path / "graph", ignore_errors=True)
        write_graph_folder(tmp_path / "graph", random_graph(5), ids=ids)
        graph = GraphFolder.open(tmp_path / "graph")
        assert graph.ids is None
        assert not (tmp_path / "graph" / "ids.parquet").exists()
        assert graph.positions([4, 0, 5, -1]).tolist() == [4, 0, -1, -1]
        assert graph.positions(["4", "04", "x", ""]).tolist() == [4, -1, -1, -1]


@pytest.mark.parametrize("ids", [[7, -3, 2**62], ["ann", "bob", "007"], ["1", "2", "x"]])
def test_ids_keep_their_order_and_kind(tmp_path, random_graph, ids):
    write_graph_folder(tmp_path / "graph", random_graph(3), ids=ids)
    graph = GraphFolder.open(tmp_path / "graph")
    assert graph.ids is not None
    assert graph.ids.tolist() == ids
    assert graph.ids.dtype.kind == ("i" if isinstance(ids[0], int) else "U")
    assert graph.positions(ids[::-1]).tolist() == [2, 1, 0]
    assert pq.read_table(tmp_path / "graph" / "ids.parquet").column_names == ["node"]


@pytest.mark.parametrize(
    "names",
    [
        [30, 10, 99],
        ["30", "10", "0010"],
        np.array([30, 10, 99], dtype=np.uint64),
        np.array([30.0, 10.0, 10.5]),
        np.array(["30", "10", "ten"]),
        np.array([30, "10", None], dtype=object),
        pd.Series([30, 10, 7]),
        pd.Series(["30", "10", None]),
        pa.chunked_array([[30], [10, None]]),
        pa.array(["30", "10", "x"]).dictionary_encode(),
    ],
    ids=str,
)
def test_integers_are_found_however_they_are_written(tmp_path, random_graph, names):
    write_graph_folder(tmp_path / "graph", random_graph(3), ids=[10, 20, 30])
    assert GraphFolder.open(tmp_path / "graph").positions(names).tolist() == [2, 0, -1]


def test_names_are_found_among_texts(folder):
    graph = GraphFolder.open(folder)
    names = ["node 07", "node 7", None, "node 07", "node 29"]
    assert graph.positions(names).tolist() == [7, -1, -1, 7, 29]
    assert graph.positions([7, 8]).tolist() == [-1, -1]
    found = graph.positions([])
    assert found.shape == (0,)
    assert found.dtype == np.int64


@settings(max_examples=25, deadline=None)
@given(
    ids=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=30, unique=True),
    others=st.lists(st.integers(-(2**63), 2**64 - 1), max_size=10),
)
def test_positions_are_those_in_the_list(tmp_path_factory, ids, others):
    path = tmp_path_factory.mktemp("ids") / "graph"
    write_graph_folder(path, sp.csr_array((len(ids), len(ids))), ids=ids)
    asked = ids[::2] + others
    expected = [ids.index(name) if name in ids else -1 for name in asked]
    graph = GraphFolder.open(path)
    assert graph.positions(asked).tolist() == expected
    assert graph.positions([str(name) for name in asked]).tolist() == expected


def test_ids_of_many_row_groups(tmp_path, monkeypatch, random_graph):
    monkeypatch.setattr("nodeproof.storage.graph_files._GROUP", 7)
    ids = [f"x{v}" for v in range(30)]
    write_graph_folder(tmp_path / "graph", random_graph(30), ids=ids)
    assert pq.ParquetFile(tmp_path / "graph" / "ids.parquet").num_row_groups == 5
    graph = GraphFolder.open(tmp_path / "graph")
    assert graph.ids is not None
    assert graph.ids.tolist() == ids
    assert graph.positions(["x29", "x0", "x13"]).tolist() == [29, 0, 13]


def test_the_file_of_ids_does_not_depend_on_how_they_came(tmp_path, monkeypatch):
    monkeypatch.setattr("nodeproof.storage.graph_files._GROUP", 7)
    written = []
    for sizes in ([30], [1] * 30, [7, 7, 7, 9], [10, 20]):
        column = IdFile(tmp_path / "ids.parquet", pa.int64())
        start = 0
        for size in sizes:
            column.append(pa.array(np.arange(start, start + size)))
            start += size
        entry = column.finish()
        written.append((tmp_path / "ids.parquet").read_bytes())
        assert entry["crc32"] == f"{zlib.crc32(written[-1]):08x}"
        assert entry["size"] == len(written[-1])
    assert len(set(written)) == 1


def test_directed_graphs_are_made_symmetric(tmp_path):
    with pytest.warns(UserWarning, match="directed"):
        write_graph_folder(tmp_path / "graph", sp.csr_array(np.triu(np.ones((4, 4)), 1)))
    assert GraphFolder.open(tmp_path / "graph").n_entries == 12


# refusals while writing


def test_nothing_is_overwritten(folder, random_graph):
    before = (folder / "graph.json").read_bytes()
    with pytest.raises(InputError, match="exists already"):
        write_graph_folder(folder, random_graph(5))
    assert (folder / "graph.json").read_bytes() == before


def test_an_empty_folder_may_be_filled(tmp_path, random_graph):
    (tmp_path / "graph").mkdir()
    write_graph_folder(tmp_path / "graph", random_graph(5))
    GraphFolder.open(tmp_path / "graph").verify()


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["a", "b", "a"], "two nodes have the id 'a'"),
        ([1, 2, 1], "two nodes have the id 1"),
        (["a", "b"], "2 ids for 3 nodes"),
        (["a", None, "b"], "needs an id"),
    ],
)
def test_bad_ids_are_refused_and_nothing_is_left(tmp_path, random_graph, ids, message):
    with pytest.raises(InputError, match=message):
        write_graph_folder(tmp_path / "graph", random_graph(3), ids=ids)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("weight", [1e300, 1e-300])
def test_weights_must_fit_single_precision(tmp_path, weight):
    with pytest.raises(InputError, match="give weights from 1e-30 to"):
        write_graph_folder(tmp_path / "graph", sp.csr_array([[0, weight], [weight, 0]]))


def test_the_parent_must_exist(tmp_path, random_graph):
    with pytest.raises(InputError, match="does not exist"):
        write_graph_folder(tmp_path / "no" / "graph", random_graph(3))


# damage


FILES = ("indptr.npy", "indices.npy", "weights.npy", "degrees.npy", "ids.parquet")


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(InputError, match=f"{name} does not exist"):
        GraphFolder.open(folder)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("change", [-1, 1])
def test_a_file_of_another_size_is_named(folder, name, change):
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data[:-1] if change < 0 else data + b"x")
    with pytest.raises(InputError, match=f"{name} has .* bytes; expected"):
        GraphFolder.open(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_changed_byte_is_found_by_its_checksum(folder, name):
    GraphFolder.open(folder).verify()
    data = bytearray((folder / name).read_bytes())
    data[len(data) // 2 + 1] ^= 1
    (folder / name).write_bytes(data)
    with pytest.raises(InputError, match=name):
        GraphFolder.open(folder).verify()


def test_the_header_of_an_array_is_checked(folder):
    data = (folder / "indices.npy").read_bytes()
    (folder / "indices.npy").write_bytes(data.replace(b"'<i4'", b"'<u4'"))
    with pytest.raises(InputError, match=r"indices\.npy does not begin as"):
        GraphFolder.open(folder)


@pytest.mark.parametrize(
    ("name", "position", "value", "message"),
    [
        ("indices.npy", 3, 30, "names a node that is not in 0…29"),
        ("indices.npy", 3, -1, "names a node that is not in 0…29"),
        ("weights.npy", 3, np.nan, "holds a weight that is not from 1e-30 to"),
        ("weights.npy", 3, 0, "holds a weight that is not from 1e-30 to"),
        ("indptr.npy", 3, 10**9, "decreases"),
    ],
)
def test_values_that_no_graph_has_are_refused_even_with_their_checksum(
    folder, name, position, value, message
):
    array = np.load(folder / name)
    array[position] = value
    np.save(folder / name, array)
    files = json.loads((folder / "graph.json").read_text())["files"]
    files[name]["crc32"] = f"{zlib.crc32(array.data):08x}"
    edit_header(folder, files=files)
    with pytest.raises(InputError, match=f"{name} {message}"):
        GraphFolder.open(folder).verify()


@pytest.mark.parametrize("end", [0, -1])
def test_pointers_must_cover_the_links(folder, end):
    array = np.load(folder / "indptr.npy")
    array[end] += 1
    np.save(folder / "indptr.npy", array)
    with pytest.raises(InputError, match=r"indptr\.npy does not run from 0 to"):
        GraphFolder.open(folder)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"format": "something else"}, "is not the header of a graph folder"),
        ({"version": 2}, "format version 2.*pip install --upgrade nodeproof"),
        ({"version": "x"}, "format version 'x'"),
        ({"version": None}, "format version None"),
        ({"n_nodes": -1}, "n_nodes is missing or wrong"),
        ({"n_nodes": 0}, "n_nodes is missing or wrong"),
        ({"n_nodes": True}, "n_nodes is missing or wrong"),
        ({"n_nodes": 1e300}, "n_nodes is missing or wrong"),
        ({"n_nodes": 2**80}, "n_nodes is missing or wrong"),
        ({"n_nodes": 29}, "lists indptr.npy as 31 numbers of <i8; expected 30"),
        ({"n_nodes": 2**40}, "lists indptr.npy as"),
        ({"n_entries": "many"}, "n_entries is missing or wrong"),
        ({"n_entries": 2}, "lists indices.npy as"),
        ({"weighted": 1}, "weighted is missing or wrong"),
        ({"ids": "names"}, "ids is missing or wrong"),
        ({"ids": ["text"]}, "ids is missing or wrong"),
        ({"files": []}, "files is missing or wrong"),
        ({"files": {}}, "does not list indptr.npy"),
        ({"files": {"indptr.npy": 3}}, "does not list indptr.npy"),
        ({"files": {"indptr.npy": {"size": -3, "crc32": ""}}}, "does not list indptr.npy"),
        ({"read": None}, "read is missing or wrong"),
    ],
)
def test_a_header_that_cannot_be_is_refused(folder, fields, message):
    edit_header(folder, **fields)
    with pytest.raises(InputError, match=message) as refused:
        GraphFolder.open(folder)
    assert "graph.json" in str(refused.value)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "[]", "3", "null", '{"a": 1}', "\x00"])
def test_what_is_no_header_is_refused(folder, text):
    (folder / "graph.json").write_text(text)
    with pytest.raises(InputError, match=r"graph.json is not"):
        GraphFolder.open(folder)
    assert not is_graph_folder(folder)


@pytest.mark.parametrize("checksum", ["", "12ab", "12AB34CD", "12ab34cd0", 0, None])
def test_a_record_that_is_no_checksum_is_refused(folder, checksum):
    files = json.loads((folder / "graph.json").read_text())["files"]
    files["indices.npy"]["crc32"] = checksum
    edit_header(folder, files=files)
    with pytest.raises(InputError, match=r"graph.json does not list indices.npy with .* checksum"):
        GraphFolder.open(folder)


def test_ids_of_another_kind_or_number_are_refused(folder):
    files = json.loads((folder / "graph.json").read_text())["files"]
    for table in (pa.table({"node": ["a"]}), pa.table({"id": [f"{v}" for v in range(30)]})):
        pq.write_table(table, folder / "ids.parquet")
        files["ids.parquet"]["size"] = (folder / "ids.parquet").stat().st_size
        edit_header(folder, files=files)
        graph = GraphFolder.open(folder)
        with pytest.raises(InputError, match=r"ids.parquet has no column of 30 nodes"):
            graph.positions(["a"])
    (folder / "ids.parquet").write_bytes(b"PAR1" * 10)
    files["ids.parquet"]["size"] = 40
    edit_header(folder, files=files)
    with pytest.raises(InputError, match=r"cannot read .*ids.parquet"):
        _ = GraphFolder.open(folder).ids


def test_what_is_a_graph_folder(folder, tmp_path):
    assert is_graph_folder(folder)
    assert is_graph_folder(str(folder))
    assert not is_graph_folder(tmp_path)
    assert not is_graph_folder(tmp_path / "nothing")
    assert not is_graph_folder(folder / "graph.json")
    text = (folder / "graph.json").read_text()
    (folder / "graph.json").write_text(text[:100])
    assert is_graph_folder(folder)  # damaged, which opening it tells


def test_no_folder_at_all(tmp_path):
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(InputError, match=r"is no graph folder: it has no graph.json"):
            GraphFolder.open(path)


def test_verifying_tells_how_far_it_is(folder):
    seen: list[tuple[str, int, int]] = []
    GraphFolder.open(folder).verify(lambda *step: seen.append(step))
    sizes = [(folder / name).stat().st_size for name in FILES]
    assert {name for name, _, _ in seen} == set(FILES)
    assert {total for _, _, total in seen} == {sum(sizes)}
    assert seen[-1][1] == sum(sizes) - 4 * NPY_HEADER
