"""Parquet files and NumPy archives."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from nodeproof.datasets.reading import read_with_tables
from nodeproof.tables.reading import read_tables
from table_helpers import Write, links_of, refusal, write

__all__ = ["write"]


def parquet(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def refusal_of_graph(*args: Any, **options: Any) -> str:
    return refusal(*args, read=read_with_tables, **options)


def npz(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


# A path 0 – 1 – 2 and an isolated node 3, as CSR arrays.
PATH = {"adj_indptr": np.array([0, 1, 3, 4, 4]), "adj_indices": np.array([1, 0, 2, 1])}


# Parquet


def test_parquet_and_csv_say_the_same(write: Write, tmp_path: Path) -> None:
    from_csv = read_tables(
        write("e.csv", "source,target,weight\nb,c,2\na,b,1.5\n"),
        write("f.csv", "node,x,z\nc,1,2\na,3,4\nb,5,6\n"),
        write("l.csv", "node,label\na,red\nb,\n"),
    )
    from_parquet = read_tables(
        parquet(tmp_path / "e.parquet", source=["b", "a"], target=["c", "b"], weight=[2.0, 1.5]),
        parquet(tmp_path / "f.parquet", node=["c", "a", "b"], x=[1, 3, 5], z=[2.0, 4.0, 6.0]),
        parquet(tmp_path / "l.parquet", node=["a", "b"], label=["red", None]),
    )
    assert from_csv.ids.tolist() == from_parquet.ids.tolist()
    assert links_of(from_csv) == links_of(from_parquet)
    assert np.array_equal(from_csv.X, from_parquet.X)
    assert from_csv.feature_names == from_parquet.feature_names == ["x", "z"]
    assert np.array_equal(from_csv.y, from_parquet.y)


def test_integers_categories_and_booleans_of_parquet_are_read(tmp_path: Path) -> None:
    nodes = pa.array(["1", "2", "3"]).dictionary_encode()
    tables = read_tables(
        parquet(tmp_path / "e.parquet", u=[1, 2], v=[2, 3]),
        parquet(tmp_path / "f.parquet", node=nodes, x=[True, False, True]),
        parquet(tmp_path / "l.parquet", node=[1, 2, 3], label=[7.0, None, 8.0]),
    )
    assert tables.ids.dtype == np.int64
    assert tables.ids.tolist() == [1, 2, 3]
    assert tables.X is not None
    assert tables.X.tolist() == [[1], [0], [1]]
    assert tables.y is not None
    assert tables.y.tolist() == ["7", "", "8"]


def test_faults_of_parquet_are_named_by_row(tmp_path: Path) -> None:
    edges = parquet(tmp_path / "e.parquet", u=["a", None], v=["b", "c"])
    assert refusal(edges) == f"{edges}, row 2: the node id is empty"
    edges = parquet(tmp_path / "e.parquet", u=["a", "b"], v=["b", "c"], w=[1.0, -2.0])
    assert refusal(edges) == f"{edges}, row 2: the weight is negative: -2"
    edges = parquet(tmp_path / "e.parquet", u=["a"], v=["b"])
    features = parquet(tmp_path / "f.parquet", node=["a", "b"], x=[1.0, None])
    assert refusal(edges, features).startswith(f"{features}, row 2, column 'x': expected a finite")
    features = parquet(tmp_path / "f.parquet", node=["a", "b"], x=["1", "2"])
    assert f"{features}, column 'x': expected numbers, got string" in refusal(edges, features)
    assert "its columns are 'u', 'v'" in refusal(edges, source="from")


def test_broken_and_empty_parquet_are_errors(write: Write, tmp_path: Path) -> None:
    whole = parquet(tmp_path / "whole.parquet", u=["a"], v=["b"]).read_bytes()
    for content in (b"", b"no parquet", whole[:-20]):
        edges = write("e.parquet", content)
        assert refusal(edges).startswith(f"cannot read {edges}")
    edges = parquet(
        tmp_path / "e.parquet", u=pa.array([], pa.string()), v=pa.array([], pa.string())
    )
    assert refusal(edges) == f"{edges} is empty: it has no rows"


# Archives with a graph


def test_a_scipy_matrix_comes_back(tmp_path: Path) -> None:
    cells = np.random.default_rng(0).random((30, 30))
    matrix = sp.coo_array(np.where(cells < 0.2, cells, 0.0))
    matrix = sp.csr_array(sp.triu(matrix, 1) + sp.triu(matrix, 1).T)
    for form in ("csr", "coo"):
        sp.save_npz(tmp_path / "e.npz", matrix.asformat(form))
        tables = read_with_tables(tmp_path / "e.npz")
        assert tables.ids.tolist() == list(range(30))
        assert abs(tables.graph - matrix).max() == 0
        assert tables.notes == []


def test_loops_and_directions_of_a_matrix_are_told(tmp_path: Path) -> None:
    sp.save_npz(tmp_path / "e.npz", sp.csr_array(np.array([[1.0, 2.0], [0.0, 0.0]])))
    tables = read_with_tables(tmp_path / "e.npz")
    assert links_of(tables) == {(0, 1): 2.0}
    assert tables.notes[0] == "1 self loop in e.npz dropped"
    assert "e.npz: the graph is directed" in tables.notes[1]


def test_a_plain_archive_holds_links_features_and_labels(tmp_path: Path) -> None:
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    y = np.array([2, -1, 0, 1])
    train = np.array([True, True, True, False])
    data = np.array([1.0, 1.0, 2.0, 2.0])
    edges = npz(tmp_path / "e.npz", **PATH, adj_data=data, n=4, x=x, y=y, train_mask=train)
    tables = read_with_tables(edges)
    assert tables.ids.dtype == np.int64
    assert links_of(tables) == {(0, 1): 1.0, (1, 2): 2.0}
    assert tables.X is not None
    assert tables.X.dtype == np.float32
    assert np.array_equal(tables.X, x)
    assert tables.feature_names == ["column 0", "column 1"]
    assert tables.y is not None
    assert tables.y.tolist() == ["2", "", "0", ""]
    assert tables.notes == ["1 node without a link: isolated"]


def test_labels_without_a_mask_are_all_used_and_that_is_told(tmp_path: Path) -> None:
    tables = read_with_tables(npz(tmp_path / "e.npz", **PATH, y=np.array([2, -1, 0, 1])))
    assert tables.y is not None
    assert tables.y.tolist() == ["2", "", "0", "1"]
    assert "e.npz has labels but no train mask; all of them are used" in tables.notes


def test_sparse_features_stay_sparse_and_must_not_be_too_many(tmp_path: Path) -> None:
    x = sp.csr_array(np.array([[0, 1.5], [0, 0], [2, 0], [0, 3]]))
    parts = {"x_data": x.data, "x_indices": x.indices, "x_indptr": x.indptr}
    tables = read_with_tables(npz(tmp_path / "e.npz", **PATH, **parts, x_shape=np.array(x.shape)))
    assert np.array_equal(tables.X.toarray(), x.toarray())
    edges = npz(tmp_path / "e.npz", **PATH, **parts, x_shape=np.array([4, 20_000_000]))
    message = refusal_of_graph(edges)
    assert str(edges) in message
    assert "reduce the columns" in message


def test_text_beside_an_archive_speaks_of_its_rows(write: Write, tmp_path: Path) -> None:
    edges = npz(tmp_path / "e.npz", **PATH, y=np.array([0, 0, 0, 0]))
    tables = read_with_tables(
        edges, write("f.csv", "node,x\n3,3\n0,0\n2,2\n1,1\n"), write("l.csv", "node,label\n2,a\n")
    )
    assert tables.X is not None
    assert tables.X[:, 0].tolist() == [0, 1, 2, 3]
    assert tables.y is not None
    assert tables.y.tolist() == ["", "", "a", ""]
    assert "l.csv replaces the labels in e.npz" in tables.notes


@pytest.mark.parametrize(
    ("odd", "problem"),
    [
        ("4", "there is no node 4; the nodes of"),
        ("-1", "there is no node -1; the nodes of"),
        ("bob", "the id 'bob' is not a row number"),
        ("01", "the id '01' is not a row number"),
    ],
)
def test_ids_that_are_no_rows_of_the_archive_are_named(
    write: Write, tmp_path: Path, odd: str, problem: str
) -> None:
    labels = write("l.csv", f"node,label\n0,a\n\n{odd},b\n")
    message = refusal_of_graph(npz(tmp_path / "e.npz", **PATH), labels=labels)
    assert message.startswith(f"{labels}, line 4: {problem}")
    assert "0…3" in message


# Archives of features and of labels


@pytest.mark.parametrize("key", ["x", "X", "anything"])
def test_features_come_from_an_archive(write: Write, tmp_path: Path, key: str) -> None:
    features = npz(tmp_path / "f.npz", **{key: np.array([[1, 2], [3, 4], [5, 6]])})
    tables = read_tables(write("e.csv", "2,0\n0,1\n"), features)
    assert tables.X is not None
    assert tables.X.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert "3 nodes" not in str(tables.notes)
    assert "1 node without a row" in refusal(write("e.csv", "3,0\n0,1\n"), features)


@pytest.mark.parametrize(
    "labels", [np.array([4, -1, 5]), np.array(["4", "?", "5"]), np.array([4.0, np.nan, 5.0])]
)
def test_labels_come_from_an_archive(write: Write, tmp_path: Path, labels: Any) -> None:
    for key in ("y", "anything"):
        path = npz(tmp_path / "l.npz", **{key: labels})
        tables = read_tables(write("e.csv", "0,1\n1,2\n"), labels=path)
        assert tables.y is not None
        assert tables.y.tolist() == ["4", "", "5"]


def test_an_archive_without_ids_cannot_go_with_names(write: Write, tmp_path: Path) -> None:
    edges, labels = write("e.csv", "0,1\nann,2\n"), npz(tmp_path / "l.npz", y=np.arange(3))
    message = refusal(edges, labels=labels, header=False)
    assert message.startswith(f"{edges}, line 2: the id 'ann' is not a row number")
    assert str(labels) in message


# What is wrong


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        ({"a": np.arange(3)}, "holds no graph"),
        ({}, "found nothing"),
        ({**PATH, "n": 5}, "n is 5, but adj_indptr has 4 rows"),
        ({**PATH, "adj_indices": np.array([1, 0, 9, 1])}, "cannot read"),
        ({**PATH, "adj_indptr": np.array([0, 3, 1, 4, 4])}, "cannot read"),
        ({**PATH, "adj_data": np.array([1.0, -1.0, 1.0, 1.0])}, "is negative: -1.0"),
        ({**PATH, "x": np.ones((3, 2))}, "the features have 3 rows for 4 nodes"),
        ({**PATH, "x": np.full((4, 2), np.nan)}, "row 0, column 0 (from 0): expected a finite"),
        ({**PATH, "x": np.ones(4)}, "features must be numbers of shape (n, m)"),
        ({**PATH, "y": np.arange(3)}, "the labels have 3 rows for 4 nodes"),
        ({**PATH, "y": np.ones((4, 2))}, "labels must be integers or text"),
        ({**PATH, "y": np.arange(4) + 0.5}, "labels must be integers or text"),
        ({**PATH, "y": np.arange(4), "train_mask": np.ones((3, 2), bool)}, "train_mask must be"),
        ({**PATH, "y": np.array([{}, 1, 2, 3])}, "Python objects"),
    ],
)
def test_faults_of_an_archive_are_named(
    tmp_path: Path, arrays: dict[str, Any], problem: str
) -> None:
    edges = npz(tmp_path / "e.npz", **arrays)
    message = refusal_of_graph(edges)
    assert str(edges) in message
    assert problem in message


def test_archives_that_are_not_clear_are_refused(write: Write, tmp_path: Path) -> None:
    edges, square = write("e.csv", "0,1\n"), np.eye(2)
    two = npz(tmp_path / "f.npz", a=square, b=square)
    assert "exactly one 2-D array, found a (2, 2), b (2, 2)" in refusal(edges, two)
    assert "exactly one 1-D array" in refusal(edges, labels=two)
    assert "has no columns" in refusal_of_graph(npz(tmp_path / "e.npz", **PATH), source=0)
    sp.save_npz(tmp_path / "flat.npz", sp.csr_array(np.ones((2, 3))))
    assert "square" in refusal_of_graph(tmp_path / "flat.npz")


def test_broken_archives_are_errors(write: Write, tmp_path: Path) -> None:
    whole = npz(tmp_path / "whole.npz", **PATH).read_bytes()
    for content in (b"", b"no archive", whole[:-30], whole[:200]):
        edges = write("e.npz", content)
        assert "e.npz" in refusal_of_graph(edges)
    np.save(tmp_path / "one.npy", np.eye(3))
    edges = (tmp_path / "one.npy").rename(tmp_path / "one.npz")
    assert refusal_of_graph(edges).startswith(f"cannot read {edges}")
    assert refusal(edges) == f"{edges} is a NumPy archive, not a table"


def test_a_third_column_of_numbers_in_parquet_may_be_the_weight(tmp_path: Path) -> None:
    columns = {"from": ["a", "b"], "to": ["b", "c"]}
    pq.write_table(pa.table(columns | {"amount": [1.5, 2.0]}), tmp_path / "e.parquet")
    (note,) = read_tables(tmp_path / "e.parquet").notes
    assert note.startswith("unused columns of e.parquet: amount; if it is the weight, use --weight")
    pq.write_table(pa.table(columns | {"kind": ["x", "y"]}), tmp_path / "e.parquet")
    (note,) = read_tables(tmp_path / "e.parquet").notes
    assert note.startswith("the links of e.parquet have kinds, in 'kind'")
