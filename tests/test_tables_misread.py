"""Lines and columns of tables that are no data: headers, and the index that pandas writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nodeproof.errors import InputError
from nodeproof.tables.convert import convert
from nodeproof.tables.reading import read_tables
from table_helpers import Write, refusal, write

__all__ = ["write"]


def in_memory(path: Path, **options: Any) -> tuple[list[Any], int, list[str]]:
    """Return the ids, the number of links and the notes, as `fit` reads them."""
    tables = read_tables(path, **options)
    return tables.ids.tolist(), tables.graph.nnz // 2, tables.notes


def on_disk(path: Path, **options: Any) -> tuple[list[Any], int, list[str]]:
    """Return the same as `convert` reads it."""
    pytest.importorskip("duckdb")
    notes: list[str] = []
    graph = convert(path, path.with_name("graph"), note=notes.append, fresh=True, **options)
    ids = list(range(graph.n_nodes)) if graph.ids is None else graph.ids.tolist()
    return ids, graph.n_entries // 2, notes


READERS = pytest.mark.parametrize("read", [in_memory, on_disk])


# headers


@READERS
@pytest.mark.parametrize(
    ("header", "told"),
    [("caller,callee", False), ("citing,cited", False), ("Paket,Abhängigkeit", True)],
)
def test_a_first_line_unlike_all_others_is_a_header(write: Write, read: Any, header, told) -> None:
    ids, n_links, notes = read(write("e.csv", f"{header}\na,b\nb,c\nc,a\n"))
    assert (ids, n_links) == (["a", "b", "c"], 3)
    expected = (
        f"the first line of e.csv ({header.replace(',', ', ')}) is read as the "
        "column names: it has nothing in common with the others; if it is a link, use --no-header"
    )
    assert notes == ([expected] if told else [])


@READERS
def test_names_without_digits_above_ids_with_digits_are_a_header(write: Write, read: Any) -> None:
    lines = "".join(f"u{k},u{k + 1}\n" for k in range(0, 40, 2))
    ids, n_links, notes = read(write("e.csv", "Kunde,Freund\n" + lines))
    assert (len(ids), n_links, len(notes)) == (40, 20, 1)
    assert "(Kunde, Freund) is read as the column names" in notes[0]


@READERS
def test_a_first_line_like_others_stays_a_link_and_that_is_told(write: Write, read: Any) -> None:
    ids, n_links, notes = read(write("e.csv", "ann,bob\neve,joe\nmia,zoe\n"))
    assert (len(ids), n_links, len(notes)) == (6, 3, 1)
    assert "is read as a link between 'ann' and 'bob'" in notes[0]


@READERS
def test_a_first_line_whose_ends_come_again_is_a_link(write: Write, read: Any) -> None:
    late = "".join("a,b\nb,c\nc,a\n" for _ in range(500)) + "bob,a\n"
    ids, _, notes = read(write("e.csv", "ann,bob\n" + late))
    assert ids == ["a", "ann", "b", "bob", "c"]
    assert not any("first line" in note for note in notes)


@READERS
@pytest.mark.parametrize(
    "content",
    [
        "source,target\na,b\nb,c\nsource,target\nc,d\n",
        'source,target\na,b\nb,c\n"source" , target\nc,d\n',
        "Paket,Teil\na,b\nb,c\nPaket,Teil\nc,d\nd,a\n",
        "source,target,weight\na,b,1\nb,c,1\nsource,target,weight\nc,d,1\n",
    ],
)
def test_the_header_again_in_the_middle_is_skipped_and_told(
    write: Write, read: Any, content: str
) -> None:
    ids, _, notes = read(write("e.csv", content))
    assert ids == ["a", "b", "c", "d"]
    assert "1 line of e.csv repeats the column names and is skipped" in notes


def test_lines_below_a_header_in_the_middle_keep_their_numbers(write: Write) -> None:
    edges = write("e.csv", "source,target\na,b\nsource,target\nb,c\n,d\n")
    assert refusal(edges) == f"{edges}, line 5: the node id is empty"


def test_files_of_features_and_labels_may_be_joined(write: Write) -> None:
    tables = read_tables(
        write("e.csv", "a,b\nb,c\n"),
        write("f.csv", "node,x,y\na,1,2\nnode,x,y\nb,3,4\nc,5,6\n"),
        write("l.csv", "node,label\na,red\nnode,label\nb,blue\n"),
    )
    assert tables.ids.tolist() == ["a", "b", "c"]
    assert tables.X is not None
    assert tables.X.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert tables.y is not None
    assert tables.y.tolist() == ["red", "blue", ""]
    assert len(tables.notes) == 2


@READERS
@pytest.mark.parametrize(
    "content",
    ["1,2\n2,3\ncaller,callee\n3,4\n", "source,target\na,b\nb,c\nfrom,to\nc,d\n"],
)
def test_another_header_in_the_middle_is_refused(write: Write, read: Any, content: str) -> None:
    edges = write("e.csv", content)
    with pytest.raises(InputError, match="in the middle of the file") as caught:
        read(edges)
    assert "--no-header" in str(caught.value)
    ids, _, _ = read(edges, header=content.startswith("source"))
    assert len(ids) > 4


@READERS
def test_several_named_links_among_numbers_are_links(write: Write, read: Any) -> None:
    ids, n_links, _ = read(write("e.csv", "1,2\n2,3\nann,bob\neve,joe\n3,4\n"))
    assert (len(ids), n_links) == (8, 5)


WEIGHTED = "source,target,weight\na,b,1\nb,c,"


@READERS
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (f"{WEIGHTED}-2\n", "the weight is negative: -2"),
        (f"{WEIGHTED}1e31\n", r"the weight is 1e\+?31; give weights from 1e-30 to 1e\+30"),
        (f"{WEIGHTED}much\n", "column 'weight': expected a finite number, got 'much'"),
        (f'{WEIGHTED}"1,5"\n', "got '1,5'; if this is a decimal comma, write a point instead"),
        (f"{WEIGHTED}\n", "column 'weight': expected a finite number, got nothing"),
        ("a,b\nb,\n", "the node id is empty"),
        ("a\nb\n", "needs at least two columns, found one; columns may be separated by tab"),
        ("source,source\n1,2\n", "more than one column 'source'; .* choose by position"),
        ("a,b,c,d\n1,2,3,4\n", "say which hold the ends of a link, with --source and --target"),
    ],
)
def test_all_readers_refuse_the_same(write: Write, read: Any, content: str, problem: str) -> None:
    edges = write("e.csv", content)
    with pytest.raises(InputError, match=problem) as caught:
        read(edges)
    assert str(caught.value).startswith(str(edges))


def test_a_guessed_header_of_links_says_nothing_of_the_list_of_nodes(write: Write) -> None:
    edges, nodes = write("e.csv", "Paket,Teil\na,b\nb,c\nc,a\n"), write("n.csv", "d\ne\n")
    ids, n_links, _ = on_disk(edges, nodes=nodes)
    assert (ids, n_links) == (["a", "b", "c", "d", "e"], 3)


def test_a_header_of_labels_in_the_middle_is_refused(write: Write) -> None:
    labels = write("l.csv", "a,red\nb,blue\nnode,label\nc,red\n")
    message = refusal(write("e.csv", "a,b\nb,c\n"), labels=labels)
    assert message.startswith(f"{labels}, line 3: ")
    assert "in the middle of the file" in message


def test_only_some_files_of_a_folder_need_a_header(tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "a.csv").write_text("source,target\n1,2\n")
    (tmp_path / "links" / "b.csv").write_text("2,3\n3,4\n")
    assert on_disk(tmp_path / "links") == ([1, 2, 3, 4], 3, [])


# the index of pandas


@READERS
@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
@pytest.mark.parametrize("columns", ["source,target", "a,b"])
@pytest.mark.parametrize("rows", [("x,y", "y,z"), ("10,11", "11,12")])
def test_an_index_is_no_end_of_a_link(write: Write, read: Any, name, columns, rows) -> None:
    first, second = rows
    ids, n_links, notes = read(write("e.csv", f"{name},{columns}\n0,{first}\n1,{second}\n"))
    assert (len(ids), n_links) == (3, 2)
    assert notes == ["the first column of e.csv numbers its rows, as pandas and R do: not used"]


@READERS
def test_an_index_in_parquet_is_no_end_of_a_link(tmp_path: Path, read: Any) -> None:
    table = {"Unnamed: 0": [0, 1], "a": ["x", "y"], "b": ["y", "z"]}
    pq.write_table(pa.table(table), tmp_path / "e.parquet")
    ids, _, notes = read(tmp_path / "e.parquet")
    assert ids == ["x", "y", "z"]
    assert len(notes) == 1
    assert "numbers its rows" in notes[0]


@READERS
def test_an_index_that_is_asked_for_is_an_end(write: Write, read: Any) -> None:
    ids, _, _ = read(write("e.csv", ",a,b\n0,5,6\n1,6,7\n"), source=0, target="a")
    assert ids == [0, 1, 5, 6]


@READERS
def test_an_index_and_one_column_are_no_links(write: Write, read: Any) -> None:
    with pytest.raises(InputError, match="--source and --target"):
        read(write("e.csv", ",friend\n0,5\n1,6\n"))


EDGES = "source,target\n10,11\n11,12\n12,10\n"


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
@pytest.mark.parametrize("column", ["node", "paper"])
def test_an_index_is_neither_a_feature_nor_the_node(write: Write, name: str, column: str) -> None:
    features = write("f.csv", f"{name},{column},x\n0,10,1\n1,11,2\n2,12,3\n")
    labels = write("l.csv", f"{name},{column},label\n0,10,red\n1,11,blue\n2,12,red\n")
    tables = read_tables(write("e.csv", EDGES), features, labels)
    assert tables.ids.tolist() == [10, 11, 12]
    assert tables.feature_names == ["x"]
    assert tables.y is not None
    assert tables.y.tolist() == ["red", "blue", "red"]
    assert [note for note in tables.notes if "numbers its rows" in note] == [
        f"the first column of {file} numbers its rows, as pandas and R do: not used"
        for file in ("f.csv", "l.csv")
    ]


def test_an_index_that_names_the_nodes_is_read_so_and_told(write: Write) -> None:
    edges = write("e.csv", "source,target\n0,1\n1,2\n2,0\n")
    features = write("f.csv", ",x,y\n0,0.5,1\n1,2.5,2\n2,3.5,3\n")
    labels = write("l.csv", ",label\n0,red\n2,blue\n")
    tables = read_tables(edges, features, labels)
    assert tables.feature_names == ["x", "y"]
    assert tables.y is not None
    assert tables.y.tolist() == ["red", "", "blue"]
    assert tables.notes == [
        f"the first column of {file}, which has no name, is read as the node"
        for file in ("f.csv", "l.csv")
    ]


def test_where_index_and_next_column_may_both_be_the_node_it_is_asked(write: Write) -> None:
    edges = write("e.csv", "source,target\n0,1\n1,2\n2,0\n")
    features = write("f.csv", ",user,x\n0,2,5\n1,0,6\n2,1,7\n")
    message = refusal(edges, features)
    assert message.startswith(f"{features}: ")
    assert "--id" in message
    tables = read_tables(edges, features, node="user")
    assert tables.feature_names == ["x"]
    assert tables.X is not None
    assert tables.X.tolist() == [[6], [7], [5]]
    assert read_tables(edges, features, node=0).feature_names == ["user", "x"]


def test_an_index_that_pandas_keeps_in_parquet_names_the_nodes(write: Write, tmp_path) -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0], "y": [3.0, 4.0]}, index=["b", "a"])
    frame.to_parquet(tmp_path / "f.parquet")
    tables = read_tables(write("e.csv", "source,target\na,b\n"), tmp_path / "f.parquet")
    assert tables.feature_names == ["x", "y"]
    assert tables.X is not None
    assert tables.X.tolist() == [[2, 4], [1, 3]]


def test_an_index_is_no_further_node_of_a_conversion(write: Write) -> None:
    edges = write("e.csv", "source,target\n10,11\n11,12\n")
    named = write("n.csv", ",node\n0,13\n1,14\n")
    assert on_disk(edges, nodes=named) == ([10, 11, 12, 13, 14], 2, [])
    unnamed = write("n.csv", ",customer\n0,13\n1,14\n")
    with pytest.raises(InputError, match="which column has the nodes"):
        on_disk(edges, nodes=unnamed)
