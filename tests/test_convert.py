"""Conversion out of core gives what building the graph in memory gives, byte for byte again."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodeproof.csr import from_edges
from nodeproof.errors import InputError, MissingExtraError
from nodeproof.runtime.memory import available_memory, parse_size
from nodeproof.storage.graph_folder import GraphFolder, write_graph_folder
from nodeproof.tables import convert as converting
from nodeproof.tables import convert_rows
from nodeproof.tables.convert import convert, work_folder
from nodeproof.tables.convert_rows import RowFiles
from nodeproof.tables.duck import connect, in_background
from nodeproof.tables.duck_files import find_files
from nodeproof.tables.reading import read_tables

pytest.importorskip("duckdb")

QUICK = {"memory": "256MB", "threads": 1}


def write_links(
    path: Path, links: list[tuple[Any, ...]], kinds: tuple[Any, Any] | None = None
) -> Path:
    """Write links, with weights or without, to a Parquet file."""
    names = ("source", "target", "weight")[: len(links[0])]
    columns = list(zip(*links, strict=True))
    types = (*(kinds or (None, None)), None)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=False)]
    pq.write_table(pa.table(arrays, names=list(names)), path)
    return path


def expected(links: list[tuple[Any, ...]], more: list[Any] | None = None) -> tuple[list[Any], Any]:
    """Return the sorted names, and the graph as it is built in memory."""
    names = sorted({end for link in links for end in link[:2]} | set(more or []))
    place = {name: position for position, name in enumerate(names)}
    kept = [link for link in links if len(link) == 2 or link[2] > 0]
    ends = np.array([[place[u], place[v]] for u, v, *_ in kept], dtype=np.int64).reshape(-1, 2)
    weight = np.array([link[2] for link in kept]) if len(links[0]) == 3 else None
    return names, from_edges(ends[:, 0], ends[:, 1], weight, len(names))


def assert_same(graph: GraphFolder, names: list[Any], matrix: Any) -> None:
    """Assert that a folder holds a graph with these names."""
    ids = np.arange(graph.n_nodes) if graph.ids is None else graph.ids
    assert ids.tolist() == names
    np.testing.assert_array_equal(graph.indptr, matrix.indptr)
    np.testing.assert_array_equal(graph.indices, matrix.indices)
    if len(graph.weights):
        np.testing.assert_array_equal(graph.weights, matrix.data.astype(np.float32))
    else:
        assert (matrix.data == 1).all()
    np.testing.assert_allclose(graph.degrees, matrix.sum(axis=1), rtol=1e-6)
    graph.verify()


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture
def links(tmp_path: Path) -> Path:
    """400 weighted links between 60 names, some of them twice."""
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 60, size=(400, 2))
    # Of very different size, so that their sums depend on the order; some are zero.
    weights = rng.integers(0, 40, 400) / 7 * 10.0 ** rng.integers(-12, 12, 400)
    rows = [(f"n{u}", f"n{v}", w) for (u, v), w in zip(ends, weights.tolist(), strict=True)]
    return write_links(tmp_path / "links.parquet", rows)


@pytest.fixture
def many_links(tmp_path: Path) -> Path:
    """20,000 links with gaps between the ids, in several batches of DuckDB; many come twice."""
    rng = np.random.default_rng(1)
    ends = 7 + 3 * rng.integers(0, 150, size=(20_000, 2))
    weights = rng.integers(0, 40, 20_000) / 7 * 10.0 ** rng.integers(-12, 12, 20_000)
    table = {"source": ends[:, 0], "target": ends[:, 1], "weight": weights}
    pq.write_table(pa.table(table), tmp_path / "many.parquet")
    return tmp_path / "many.parquet"


# what comes out

NAMES = {
    "positions": (st.integers(0, 6), None),
    "gaps": (st.integers(-40, 40), None),
    "small": (st.integers(-5, 5), pa.int8()),
    "wide": (st.integers(-(2**63), 2**63 - 1), pa.int64()),
    "unsigned": (st.integers(0, 30), pa.uint64()),
    "text": (
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1),
        pa.string(),
    ),
    "words": (st.sampled_from(["a", "b", "B", "é", "a b", "'", '"', "007", "7", "-1"]), None),
}


@pytest.mark.filterwarnings("ignore:.* entries repeat others")
@pytest.mark.parametrize("kind", NAMES)
@settings(
    max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_it_is_the_graph_that_memory_gives(tmp_path, kind, data):
    names, arrow_type = NAMES[kind]
    pool = data.draw(st.lists(names, min_size=1, max_size=12, unique=True))
    end = st.sampled_from(pool)
    weight = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.25])
    link = data.draw(st.sampled_from([st.tuples(end, end), st.tuples(end, end, weight)]))
    links = data.draw(st.lists(link, min_size=1, max_size=40))
    write_links(tmp_path / "links.parquet", links, (arrow_type, arrow_type))
    graph = convert(tmp_path / "links.parquet", tmp_path / "out", fresh=True, **QUICK)
    if isinstance(pool[0], str) and all(_is_integer(name) for link in links for name in link[:2]):
        links = [(int(u), int(v), *rest) for u, v, *rest in links]
    assert_same(graph, *expected(links))
    assert graph.read["links"] == len(links)
    assert not work_folder(tmp_path / "out").exists()


def _is_integer(name: str) -> bool:
    try:
        return str(int(name)) == name and -(2**63) <= int(name) < 2**63
    except ValueError:
        return False


def test_it_is_the_graph_that_fit_reads(tmp_path, links):
    graph = convert(links, tmp_path / "out", **QUICK)
    tables = read_tables(links)
    assert graph.ids is not None
    assert graph.ids.tolist() == tables.ids.tolist()
    assert_same(graph, tables.ids.tolist(), tables.graph)


def test_what_was_dropped_and_merged_is_counted(tmp_path):
    rows = [(0, 1, 2.0), (1, 0, 5.0), (0, 1, 3.0), (2, 2, 1.0), (2, 1, 0.0), (2, 0, 1.0)]
    graph = convert(write_links(tmp_path / "links.parquet", rows), tmp_path / "out", **QUICK)
    assert graph.read == {"links": 6, "loops": 1, "zeros": 1, "repeats": 2}
    assert graph.indices.tolist() == [1, 2, 0, 0]
    assert graph.weights.tolist() == [5, 1, 5, 1]
    assert graph.degrees.tolist() == [6, 5, 1]


def test_weights_that_are_all_one_are_left_out(tmp_path):
    weighted = write_links(tmp_path / "a.parquet", [(0, 1, 1.0), (1, 2, 0.0), (1, 2, 1.0)])
    plain = write_links(tmp_path / "b.parquet", [(0, 1), (1, 2)])
    convert(weighted, tmp_path / "a", **QUICK)
    convert(plain, tmp_path / "b", **QUICK)
    assert set(contents(tmp_path / "a")) == {
        "graph.json",
        "indptr.npy",
        "indices.npy",
        "degrees.npy",
    }
    for name in ("indptr.npy", "indices.npy", "degrees.npy"):
        assert contents(tmp_path / "a")[name] == contents(tmp_path / "b")[name]


def test_a_folder_from_memory_is_the_same(tmp_path, random_graph):
    matrix = random_graph(40, density=0.2)
    rows = list(zip(*(end.tolist() for end in matrix.nonzero()), strict=True))
    rows = [(u, v) for u, v in rows if u < v]
    convert(write_links(tmp_path / "links.parquet", rows), tmp_path / "a", **QUICK)
    write_graph_folder(tmp_path / "b", matrix)
    a, b = contents(tmp_path / "a"), contents(tmp_path / "b")
    assert set(a) == set(b)
    assert all(a[name] == b[name] for name in a if name != "graph.json")


def test_bytes_do_not_depend_on_memory_threads_or_batches(tmp_path, many_links, monkeypatch):
    settings = [
        {"memory": "128MiB", "threads": 1},
        {"memory": "1GB", "threads": 2},
        {"memory": 10**9, "threads": 2},
    ]
    written = []
    for size, options in zip((2048, 5000, 1 << 20), settings, strict=True):
        monkeypatch.setattr(converting, "_BATCH", size)
        monkeypatch.setattr(convert_rows, "_BLOCK", size // 100)
        convert(many_links, tmp_path / "out", fresh=True, **options)
        written.append(contents(tmp_path / "out"))
    assert written[0] == written[1] == written[2]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("block", [1, 7, 1000])
def test_rows_do_not_depend_on_how_entries_arrive(tmp_path, monkeypatch, weighted, block):
    monkeypatch.setattr(convert_rows, "_BLOCK", block)
    rng = np.random.default_rng(block)
    n, m = 40, 300
    # Gaps among the rows; loops, links of weight zero and repeated ones.
    rows, columns = rng.choice([0, 1, 9, 10, 25, 38], m), rng.integers(0, n, m)
    weights = rng.integers(0, 5, m).astype(np.float32) if weighted else np.ones(m, np.float32)
    order = np.lexsort((-weights, columns, rows))
    rows, columns, weights = rows[order], columns[order], weights[order]
    written = []
    for step in (1, 11, m):
        folder = tmp_path / str(step)
        folder.mkdir()
        with RowFiles(folder, n, weighted) as files:
            for start in range(0, m, step):
                part = slice(start, start + step)
                files.add(rows[part], columns[part], weights[part] if weighted else None)
            listed = files.finish()
        written.append((contents(folder), listed, files.loops, files.zeros, files.repeats))
    assert written[0] == written[1] == written[2]
    dense = np.zeros((n, n), dtype=np.float32)
    np.maximum.at(dense, (rows, columns), weights)
    np.fill_diagonal(dense, 0)
    kept = dense > 0
    indptr = np.load(folder / "indptr.npy")
    assert indptr.tolist() == [0, *np.cumsum(kept.sum(axis=1))]
    assert np.load(folder / "indices.npy").tolist() == np.nonzero(kept)[1].tolist()
    np.testing.assert_allclose(np.load(folder / "degrees.npy"), dense.sum(axis=1))
    if weighted:
        assert np.load(folder / "weights.npy").tolist() == dense[kept].tolist()
    loop = rows == columns
    assert files.loops == loop.sum()
    assert files.zeros == (~loop & (weights == 0)).sum()
    assert files.loops + files.zeros + files.repeats + kept.sum() == m


@pytest.mark.parametrize(
    "rows", [[(5, 10**6), (10**6, 7), (5, -3)], [(0, 1), (2, 1)], [(1, 2), (3, 2)]]
)
def test_integers_in_a_range_too_wide_for_an_array(tmp_path, monkeypatch, rows):
    path = write_links(tmp_path / "links.parquet", rows)
    convert(path, tmp_path / "a", **QUICK)
    monkeypatch.setattr("nodeproof.tables.convert_ids._BYTES_PER_NUMBER", 10**9)
    convert(path, tmp_path / "b", **QUICK)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert_same(GraphFolder.open(tmp_path / "b"), *expected(rows))


def test_ids_from_one_on_are_kept(tmp_path):
    graph = convert(
        write_links(tmp_path / "l.parquet", [(1, 2), (2, 3)]), tmp_path / "out", **QUICK
    )
    assert graph.ids is not None
    assert graph.ids.tolist() == [1, 2, 3]
    assert graph.indices.tolist() == [1, 0, 2, 1]


@pytest.mark.parametrize(
    ("source", "target", "names"),
    [
        (pa.array([1, 2]), pa.array(["2", "x"]), ["1", "2", "x"]),
        (pa.array([1, 2]), pa.array(["2", "10"]), [1, 2, 10]),
        (pa.array(["1", "2"]).dictionary_encode(), pa.array(["2", "10"]), [1, 2, 10]),
        (pa.array([1.0, 2.0]), pa.array([2, 10]), [1, 2, 10]),
        (pa.array([1.0, 2.0]), pa.array(["2", "x"]), ["1", "2", "x"]),
        (pa.array([2**63, 1], pa.uint64()), pa.array([1, 2]), ["1", "2", str(2**63)]),
        (pa.array([b"1", b"2"]), pa.array([b"2", b"x"]), ["1", "2", "x"]),
        (pa.array(["01", "1"]), pa.array(["1", "2"]), ["01", "1", "2"]),
    ],
)
def test_columns_of_different_types(tmp_path, source, target, names):
    pq.write_table(pa.table({"source": source, "target": target}), tmp_path / "links.parquet")
    graph = convert(tmp_path / "links.parquet", tmp_path / "out", **QUICK)
    assert graph.ids is not None
    assert graph.ids.tolist() == names
    tables = read_tables(tmp_path / "links.parquet")
    assert tables.ids.tolist() == names
    np.testing.assert_array_equal(graph.indices, tables.graph.indices)


def test_further_nodes_are_isolated(tmp_path):
    path = write_links(tmp_path / "links.parquet", [(3, 4), (4, 5)])
    pq.write_table(pa.table({"label": ["x", "y"], "node": [4, 9]}), tmp_path / "nodes.parquet")
    graph = convert(path, tmp_path / "out", nodes=tmp_path / "nodes.parquet", **QUICK)
    assert_same(graph, *expected([(3, 4), (4, 5)], more=[9]))
    pq.write_table(pa.table({"node": ["four", "4"]}), tmp_path / "nodes.parquet")
    graph = convert(path, tmp_path / "b", nodes=tmp_path / "nodes.parquet", **QUICK)
    assert graph.ids is not None
    assert graph.ids.tolist() == ["3", "4", "5", "four"]
    assert graph.degrees.tolist() == [1, 2, 1, 0]
    (tmp_path / "nodes.csv").write_text("id,age\n8,44\n")
    graph = convert(path, tmp_path / "c", nodes=tmp_path / "nodes.csv", **QUICK)
    assert graph.ids is not None
    assert graph.ids.tolist() == [3, 4, 5, 8]


def test_an_empty_list_of_further_nodes(tmp_path):
    path = write_links(tmp_path / "links.parquet", [(0, 1)])
    pq.write_table(pa.table({"node": pa.array([], pa.string())}), tmp_path / "nodes.parquet")
    graph = convert(path, tmp_path / "out", nodes=tmp_path / "nodes.parquet", **QUICK)
    assert graph.ids is None
    assert graph.n_nodes == 2


def test_only_loops_make_a_graph_without_links(tmp_path):
    graph = convert(
        write_links(tmp_path / "l.parquet", [(0, 0), (1, 1)]), tmp_path / "out", **QUICK
    )
    assert (graph.n_nodes, graph.n_entries) == (2, 0)
    graph.verify()


# files and columns


def test_many_files_folders_and_patterns(tmp_path):
    (tmp_path / "parts" / "deep").mkdir(parents=True)
    write_links(tmp_path / "parts" / "a'[1].parquet", [(0, 1), (1, 2)])
    table = pa.table({"target": pa.array([3], pa.int32()), "source": pa.array([2], pa.int32())})
    pq.write_table(table, tmp_path / "parts" / "deep" / "b.parquet")
    (tmp_path / "parts" / "_SUCCESS").write_text("")
    for name, edges in [("a", "parts"), ("b", "parts/**/*.parquet"), ("c", "parts/*/*.parquet")]:
        graph = convert(tmp_path / edges, tmp_path / name, **QUICK)
        assert graph.n_entries == (2 if name == "c" else 6)


@pytest.mark.parametrize("name", ["a[1]", "a?", "a*", "[!b]", "a[", "**"])
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_file_whose_name_looks_like_a_pattern_is_itself(tmp_path, name, suffix):
    for file, ends in [("a1", ("no", "never")), ("aa", ("no", "never")), (name, ("ann", "bob"))]:
        path = tmp_path / f"{file}.{suffix}"
        if suffix == "csv":
            path.write_text("{},{}\n".format(*ends))
        else:
            write_links(path, [ends])
    graph = convert(tmp_path / f"{name}.{suffix}", tmp_path / "out [1]", **QUICK)
    assert graph.ids.tolist() == ["ann", "bob"]


@pytest.mark.parametrize(
    ("text", "names", "weights"),
    [
        ("source,target\na,b\nb,c\n", ["a", "b", "c"], []),
        ("a,b\nb,c\n", ["a", "b", "c"], []),
        ("# a comment\n10\t9\t0.5\n9\t8\t2\n", [8, 9, 10], [2.0, 2.0, 0.5, 0.5]),
        ("u,room#1\nu,room#2\n", ["room#1", "room#2", "u"], []),
        ('# a comment\n"#a",b\nb,"c#d"\n', ["#a", "b", "c#d"], []),
        ("paper cites\n1 2\n2 007\n", ["007", "1", "2"], []),
        ('source;target;weight\n a ;"b;c";1e1\n', ["a", "b;c"], [10.0, 10.0]),
        ("\ufeffu,v,w\r\n1,0,3\r\n\r\n", [0, 1], [3.0, 3.0]),
    ],
)
def test_text_files(tmp_path, text, names, weights):
    (tmp_path / "links.csv").write_text(text, encoding="utf-8", newline="")
    graph = convert(tmp_path / "links.csv", tmp_path / "out", **QUICK)
    assert (list(range(graph.n_nodes)) if graph.ids is None else graph.ids.tolist()) == names
    assert graph.weights.tolist() == weights
    tables = read_tables(tmp_path / "links.csv")
    assert tables.ids.tolist() == names
    np.testing.assert_array_equal(graph.indices, tables.graph.indices)


def test_columns_by_name_and_by_position(tmp_path):
    table = pa.table({"when": [1, 2], "a": ["x", "y"], "b": ["y", "z"], "strength": [2, 3]})
    pq.write_table(table, tmp_path / "links.parquet")
    named = {"source": "a", "target": "b", "weight": "strength"}
    placed = {"source": 1, "target": "2", "weight": 3}
    for name, columns in (("a", named), ("b", placed)):
        convert(tmp_path / "links.parquet", tmp_path / name, **columns, **QUICK)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert GraphFolder.open(tmp_path / "a").weights.tolist() == [2, 2, 3, 3]


def test_booleans_and_decimals_are_weights(tmp_path):
    table = pd.DataFrame({"source": [0, 1], "target": [1, 2], "weight": [True, False]})
    table.to_parquet(tmp_path / "links.parquet")
    graph = convert(tmp_path / "links.parquet", tmp_path / "out", **QUICK)
    assert (graph.n_nodes, graph.n_entries) == (3, 2)


# refusals

NAN = float("nan")
WEIGHTED = {"source": [1, 2, 3], "target": [2, 3, 4]}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"source": [1, None], "target": [2, 3]}, "links.parquet, 1 row of column 'source': the"),
        ({"source": [1, 2, 3], "target": ["a", None, ""]}, "2 rows of column 'target': the"),
        ({"source": [1.0, NAN], "target": [2, 3]}, "1 row of column 'source': the node id"),
        ({"source": [[1], [2]], "target": [2, 3]}, "column 'source' holds BIGINT.*; an id must"),
        ({"source": [{"a": 1}], "target": [2]}, "column 'source' holds STRUCT.*; an id must be a"),
        ({"source": [1]}, "needs at least two columns"),
        ({"a": [1], "b": [2], "c": [3], "d": [4]}, "say which hold the ends of a link"),
        (WEIGHTED | {"weight": [1.0, -2.5, 3.0]}, r"link \(2, 3\): the weight is negative: -2.5"),
        (WEIGHTED | {"weight": [1.0, NAN, 3.0]}, r"link \(2, 3\), column 'weight': .* got 'nan'"),
        (WEIGHTED | {"weight": [1.0, 2.0, np.inf]}, r"link \(3, 4\), .* got 'inf'"),
        (WEIGHTED | {"weight": [1e39, 2.0, 3.0]}, r"link \(1, 2\): .* 1e\+39; give"),
        (WEIGHTED | {"weight": [1.0, None, 3.0]}, r"link \(2, 3\), .* got nothing"),
        (WEIGHTED | {"weight": ["x", "y", "z"]}, "column 'weight': expected numbers, got VARCHAR"),
        ({"source": pa.array([], pa.int64()), "target": pa.array([], pa.int64())}, "is empty"),
    ],
)  # fmt: skip
def test_bad_tables_are_refused_before_anything_is_written(tmp_path, table, message):
    pq.write_table(pa.table(table), tmp_path / "links.parquet")
    with pytest.raises(InputError, match=message):
        convert(tmp_path / "links.parquet", tmp_path / "out", **QUICK)
    assert [file.name for file in tmp_path.iterdir()] == ["links.parquet"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("links.parquet", b"", "cannot read .*links.parquet"),
        ("links.parquet", b"PAR1 nonsense PAR1", "cannot read .*links.parquet"),
        ("links.npz", b"", "expected Parquet files, or files of delimited text"),
        ("links.xyz", b"", "cannot tell the format"),
        ("links.csv", b"", "is empty"),
        ("links.csv", b"# nothing\n\n", "is empty"),
        ("links.csv", b"source,target\n", "is empty: it has no rows"),
        ("links.csv", b"a,b\nc,d,e\n", "cannot read .*links.csv: .*Line: 2"),
        ("links.csv", b"a,b\nc,\n", "1 row of column 'column 1': the node id is empty"),
        ("links.csv", b"a,b,w\nc,d,x\n", "expected a finite number, got 'x'"),
        (
            "links.csv",
            b"u,v,w\n1,2,x\n",
            r"link \(1, 2\), column 'w': expected a finite number, got 'x'",
        ),
        ("links.csv", b"source,source\n1,2\n", "more than one column 'source'"),
        ("links.csv", b"\xff\xfe\n", "cannot read .*links.csv"),
        ("links.csv", b"1\n2\n", "needs at least two columns"),
        ("links.csv", b"a,b\n" + b"c" * 140_000 + b",d\n", "cannot read .*links.csv: field larger"),
        ("links.csv", b"#" * 2_000_001 + b"\na,b\n", "links.csv has a line of more than 2,000,000"),
        ("links.csv.gz", gzip.compress(b"\n" * 2**20, mtime=0), "is empty: it has only blank"),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else value,  # content may be megabytes
)
def test_bad_files_are_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises((InputError, OSError), match=message):
        convert(
            tmp_path / name, tmp_path / "out", weight="w" if b",w" in content else None, **QUICK
        )
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_missing_ids_are_counted_by_file(tmp_path):
    (tmp_path / "parts").mkdir()
    for number, ids in enumerate(([1, 2], [1, None], [None, None])):
        table = pa.table({"source": pa.array(ids, pa.int64()), "target": [5, 6]})
        pq.write_table(table, tmp_path / "parts" / f"{number}.parquet")
    with pytest.raises(InputError, match=r"1\.parquet, 1 row of column 'source': the node id"):
        convert(tmp_path / "parts", tmp_path / "out", **QUICK)


def test_paths_that_mean_no_file(tmp_path):
    for path, message in [
        ("none.parquet", "does not exist"),
        ("*.parquet", "no file matches"),
        (".", "holds no Parquet, CSV or TSV file"),
    ]:
        with pytest.raises(InputError, match=message):
            find_files(tmp_path / path)


def test_unknown_columns_are_refused(tmp_path, links):
    with pytest.raises(InputError, match="no column 'start'; its columns are 'source', 'target'"):
        convert(links, tmp_path / "out", source="start", **QUICK)


def test_what_is_there_is_not_overwritten(tmp_path, links):
    convert(links, tmp_path / "out", **QUICK)
    before = contents(tmp_path / "out")
    with pytest.raises(InputError, match="is a graph folder already; to replace it, add --fresh"):
        convert(links, tmp_path / "out", **QUICK)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    for fresh in (False, True):
        with pytest.raises(InputError, match="mine exists already"):
            convert(links, tmp_path / "mine", fresh=fresh, **QUICK)
    assert contents(tmp_path / "out") == before
    other = write_links(tmp_path / "other.parquet", [(0, 1)])
    assert convert(other, tmp_path / "out", fresh=True, **QUICK).n_nodes == 2
    (tmp_path / "empty").mkdir()
    assert convert(other, tmp_path / "empty", **QUICK).n_nodes == 2


def test_strangers_in_the_work_folder_are_left_alone(tmp_path, links):
    work = work_folder(tmp_path / "out")
    work.mkdir()
    (work / "thesis.tex").write_text("")
    for fresh in (False, True):
        with pytest.raises(InputError, match="holds other files"):
            convert(links, tmp_path / "out", fresh=fresh, **QUICK)
    assert [file.name for file in work.iterdir()] == ["thesis.tex"]


def test_duckdb_is_asked_for_by_its_extra(tmp_path, links, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'nodeproof\[big\]'"):
        convert(links, tmp_path / "out", **QUICK)


def test_a_disk_that_is_too_small_is_noticed_before(tmp_path, links, monkeypatch):
    full = shutil._ntuple_diskusage(10**9, 10**9, 100)  # type: ignore[attr-defined]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    with pytest.raises(InputError, match=r"has 0\.0 GB free, but the conversion needs"):
        convert(links, tmp_path / "out", **QUICK)


@pytest.mark.parametrize("memory", ["much", "4 apples", "1kB", 0, -1])
def test_a_size_must_be_one(tmp_path, links, memory):
    with pytest.raises(InputError, match=r"a size is|needs at least"):
        convert(links, tmp_path / "out", memory=memory)


def test_sizes_and_what_there_is():
    assert parse_size("0.5MiB") == 2**19
    assert parse_size(" 2 tb ") == 2 * 10**12
    assert parse_size("10b") == parse_size("10") == 10
    assert 2**20 < available_memory() < 2**50


# going on after a kill


class StopError(Exception):
    """Ends a run where a test wants it to end."""


def stop_at(call: int) -> Any:
    """Return a progress callback that ends the run at its so-manieth call."""
    calls = iter(range(1, 10**9))

    def progress(stage: str, done: int, total: int) -> None:
        assert 0 <= done <= total
        if stage != "columns" and next(calls) == call:
            raise StopError

    return progress


def test_a_run_that_ends_anywhere_goes_on(tmp_path, many_links, monkeypatch):
    monkeypatch.setattr(converting, "_BATCH", 4096)
    convert(many_links, tmp_path / "whole", **QUICK)
    for call in range(1, 100):
        try:
            convert(many_links, tmp_path / "out", progress=stop_at(call), **QUICK)
        except StopError:
            assert not (tmp_path / "out").exists()
            continue
        break
    assert 5 < call < 40
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert not work_folder(tmp_path / "out").exists()


def test_each_stop_alone_gives_the_same_bytes(tmp_path, many_links, monkeypatch):
    monkeypatch.setattr(converting, "_BATCH", 4096)
    convert(many_links, tmp_path / "whole", **QUICK)
    for call in range(1, 100, 3):
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        try:
            convert(many_links, tmp_path / "out", progress=stop_at(call), **QUICK)
        except StopError:
            assert convert(many_links, tmp_path / "out", **QUICK).n_nodes == 150
            assert contents(tmp_path / "out") == contents(tmp_path / "whole")
            continue
        break
    assert call > 10


KILLED = """
import os, signal, sys
from nodeproof.tables import convert as converting
edges, out, where = sys.argv[1:]
def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)
def progress(stage, done, total):
    if stage == where and (stage == "links" or done > 0.5 * total):
        kill()
converting._BATCH = 4096
if where == "header":
    converting.write_header = kill
converting.convert(edges, out, memory="256MB", threads=1, progress=progress)
"""


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")
def test_kills_cost_only_the_stage_under_way(tmp_path, many_links):
    convert(many_links, tmp_path / "whole", **QUICK)
    for killed_in, goes_on in [("ids", {"ids", "links", "rows"}), ("links", {"links", "rows"}),
                               ("rows", {"links", "rows"}), ("header", set())]:  # fmt: skip
        run = subprocess.run(
            [sys.executable, "-c", KILLED, many_links, tmp_path / killed_in, killed_in], check=False
        )
        assert run.returncode == -signal.SIGKILL
        assert not (tmp_path / killed_in).exists()
        stages = set()
        convert(
            many_links,
            tmp_path / killed_in,
            progress=lambda stage, *_, seen=stages: seen.add(stage),
            **QUICK,
        )
        assert stages - {"columns"} == goes_on
        assert contents(tmp_path / killed_in) == contents(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")
def test_a_kill_at_any_moment_changes_no_byte(tmp_path, many_links):
    table = pq.read_table(many_links)
    pq.write_table(pa.concat_tables([table] * 100), many_links)
    convert(many_links, tmp_path / "whole", **QUICK)
    command = [sys.executable, "-c", KILLED, many_links, tmp_path / "out", "nowhere"]
    began = time.monotonic()
    assert subprocess.run(command, check=False).returncode == 0
    lasted = time.monotonic() - began
    for k in range(12):
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        process = subprocess.Popen(command)
        time.sleep(lasted * (k + 1) / 12)
        process.kill()
        process.wait()
        if not (tmp_path / "out").exists():
            convert(many_links, tmp_path / "out", **QUICK)
        assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def stopped(links: Path, out: Path, stage: str) -> None:
    """Leave a conversion unfinished in a stage, or before the header is written."""

    def progress(now: str, done: int, total: int) -> None:
        if now == stage and done > total / 2:
            raise StopError

    def stop(*_: object) -> None:
        raise StopError

    with pytest.MonkeyPatch.context() as patch:
        if stage == "header":
            patch.setattr(converting, "write_header", stop)
        with pytest.raises(StopError):
            convert(links, out, progress=progress, **QUICK)


@pytest.mark.parametrize("change", ["input", "options", "state", "other nodes"])
def test_another_input_starts_afresh_and_says_so(tmp_path, links, change):
    stopped(links, tmp_path / "out", "rows")
    options: dict[str, Any] = {}
    if change == "input":
        table = pq.read_table(links)
        pq.write_table(table.slice(0, 300), links)
    elif change == "options":
        options = {"source": "target", "target": "source"}
    elif change == "other nodes":
        pq.write_table(pa.table({"node": ["n99"]}), tmp_path / "nodes.parquet")
        options = {"nodes": tmp_path / "nodes.parquet"}
    else:
        (work_folder(tmp_path / "out") / "state.json").write_text("{")
    with pytest.warns(UserWarning, match="starting afresh"):
        convert(links, tmp_path / "out", **options, **QUICK)
    convert(links, tmp_path / "whole", **options, **QUICK)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_fresh_forgets_what_was_begun(tmp_path, links):
    stopped(links, tmp_path / "out", "rows")
    stages = []
    convert(
        links,
        tmp_path / "out",
        fresh=True,
        progress=lambda stage, *_: stages.append(stage),
        **QUICK,
    )
    assert "ids" in stages


def test_what_an_unfinished_stage_has_written_is_written_again(tmp_path, links):
    stopped(links, tmp_path / "out", "rows")
    graph = work_folder(tmp_path / "out") / "graph"
    (graph / "indices.npy").write_bytes(b"something else")
    (graph / "degrees.npy").unlink()
    convert(links, tmp_path / "out", **QUICK)
    convert(links, tmp_path / "whole", **QUICK)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.parametrize(
    "name", ["indptr.npy", "indices.npy", "weights.npy", "degrees.npy", "ids.parquet"]
)
@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
def test_what_was_damaged_meanwhile_is_refused(tmp_path, links, name, damage):
    stopped(links, tmp_path / "out", "rows" if name == "ids.parquet" else "header")
    file = work_folder(tmp_path / "out") / "graph" / name
    content = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(
            content[:150] if damage == "cut" else content.replace(content[140:150], b"x" * 10)
        )
    with pytest.raises(InputError, match=rf"{name} (is not as it was left; add --fresh|does not)"):
        convert(links, tmp_path / "out", **QUICK)
    assert not (tmp_path / "out").exists()
    convert(links, tmp_path / "out", fresh=True, **QUICK).verify()


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        [],
        {"placing": {}},
        {"ids": []},
        {"ids": {"x": 1}},
        {"ids": {"way": "offset", "n_nodes": 0, "ids": "positions", "low": 0, "high": 1,
                 "entry": None}},
        {"rows": 3},
        {"rows": {"files": {}, "n_entries": -1, "read": {}}},
    ],
)  # fmt: skip
def test_a_state_that_no_run_has_kept_is_refused(tmp_path, links, wrong):
    stopped(links, tmp_path / "out", "header")
    file = work_folder(tmp_path / "out") / "state.json"
    kept = json.loads(file.read_text())
    kept["finished"] = kept["finished"] | wrong if isinstance(wrong, dict) else wrong
    file.write_text(json.dumps(kept))
    with pytest.raises(InputError, match=r"state\.json is damaged; add --fresh"):
        convert(links, tmp_path / "out", **QUICK)


def test_rows_without_the_ids_they_are_from_are_refused(tmp_path, links):
    stopped(links, tmp_path / "out", "header")
    file = work_folder(tmp_path / "out") / "state.json"
    kept = json.loads(file.read_text())
    del kept["finished"]["ids"]
    file.write_text(json.dumps(kept))
    with pytest.raises(InputError, match=r"state\.json is damaged; add --fresh"):
        convert(links, tmp_path / "out", **QUICK)


def test_two_runs_do_not_get_in_each_others_way(tmp_path, links):
    pytest.importorskip("fcntl")

    def progress(*_: object) -> None:
        with pytest.raises(InputError, match="another run is working"):
            convert(links, tmp_path / "out", **QUICK)

    convert(links, tmp_path / "out", progress=progress, **QUICK)


def test_ctrl_c_ends_a_long_query(tmp_path):
    def waiting(_: float) -> None:
        raise StopError

    endless = "SELECT count(*) FROM range(1000000000000) AS a(i) WHERE hash(i) = 7"
    with connect(tmp_path / "spill", 2**28, 1) as connection:
        rows = (connection.execute(query).fetchall() for query in [endless])
        with pytest.raises(StopError):
            next(in_background(connection, rows, waiting))
    assert not [thread for thread in threading.enumerate() if thread.name == "nodeproof-queries"]
