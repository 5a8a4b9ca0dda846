"""Text files of edges, features and labels become one node set, or one clear error."""

import csv
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeproof.tables.reading import read_tables
from table_helpers import Write, links_of, refusal, write

__all__ = ["write"]


# The nodes


def test_integer_ids_are_sorted_as_numbers(write: Write) -> None:
    tables = read_tables(write("e.csv", "10,9\n9,-2\n"))
    assert tables.ids.dtype == np.int64
    assert tables.ids.tolist() == [-2, 9, 10]
    assert links_of(tables) == {(9, 10): 1.0, (-2, 9): 1.0}
    assert tables.X is tables.y is tables.feature_names is None
    assert tables.notes == []


@pytest.mark.parametrize("odd", ["007", "+7", "-0", "1.0", "0x1F", "9999999999999999999", "x"])
def test_one_id_that_is_no_plain_integer_makes_all_of_them_text(write: Write, odd: str) -> None:
    tables = read_tables(write("e.csv", f"7,8\n8,{odd}\n8,1\n"), header=False)
    assert tables.ids.tolist() == sorted(["7", "8", "1", odd])


def test_an_id_in_another_file_can_make_all_of_them_text(write: Write) -> None:
    tables = read_tables(write("e.csv", "1,2\n"), labels=write("l.csv", "1,a\n2,b\n03,b\n"))
    assert tables.ids.tolist() == ["03", "1", "2"]


def test_nodes_are_the_union_of_all_files(write: Write) -> None:
    edges = write("e.csv", "b,c\n")
    features = write("f.csv", "id,x\nc,3\na,1\nb,2\nd,4\n")
    labels = write("l.csv", "node,label\nd,red\nb,blue\nc,?\n")
    tables = read_tables(edges, features, labels)
    assert tables.ids.tolist() == ["a", "b", "c", "d"]
    assert tables.X is not None
    assert tables.X.dtype == np.float64
    assert tables.X[:, 0].tolist() == [1, 2, 3, 4]
    assert tables.feature_names == ["x"]
    assert tables.y is not None
    assert tables.y.tolist() == ["", "blue", "", "red"]
    assert tables.notes == ["2 nodes in f.csv and l.csv but in no link: isolated"]
    assert repr(tables) == "Tables(n=4, edges=1, n_features=1, labels=2, notes=1)"


def test_strict_refuses_isolated_nodes(write: Write) -> None:
    edges, labels = write("e.csv", "1,2\n"), write("l.csv", "1,a\n3,a\n")
    message = refusal(edges, labels=labels, strict=True)
    assert "1 node in l.csv but in no link" in message
    assert str(edges) in message
    assert ": 3;" in message


def test_ids_and_labels_may_hold_anything(write: Write) -> None:
    odd = ["<script>alert(1)</script>", "żółw 🐢", "a, b", 'say "hi"', "#tag", "a\\b", "'; --"]
    quoted = ['"' + text.replace('"', '""') + '"' for text in odd]
    edges = write("e.csv", "source,target\n" + "\n".join(f"{q},hub" for q in quoted))
    labels = write("l.csv", "node,label\n" + "\n".join(f"{q},{q}" for q in quoted))
    tables = read_tables(edges, labels=labels)
    assert tables.y is not None
    assert dict(zip(tables.ids.tolist(), tables.y.tolist(), strict=True)) == {
        "hub": "",
        **{text: text for text in odd},
    }
    assert tables.graph.nnz == 2 * len(odd)


names = st.text(
    st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"]), min_size=1, max_size=6
).filter(lambda text: text == text.strip(" \t"))


@settings(max_examples=60, deadline=None)
@given(
    ids=st.lists(names, min_size=2, max_size=8, unique=True),
    data=st.data(),
    header=st.booleans(),
    suffix=st.sampled_from(["csv", "tsv", "txt", "csv.gz"]),
)
def test_a_random_graph_comes_back_exactly(
    tmp_path_factory: pytest.TempPathFactory,
    ids: list[str],
    data: st.DataObject,
    header: bool,
    suffix: str,
) -> None:
    folder = tmp_path_factory.mktemp("tables")
    pairs = [(u, v) for i, u in enumerate(ids) for v in ids[i + 1 :]]
    weights = st.floats(0.5, 1e6, allow_subnormal=False)
    links = data.draw(st.dictionaries(st.sampled_from(pairs), weights, min_size=1))
    features = {u: data.draw(st.floats(allow_nan=False, allow_infinity=False)) for u in ids}
    labels = {u: data.draw(st.sampled_from(["red", "blue", ""])) for u in ids}

    def write_rows(name: str, head: list[str], rows: list[list[Any]]) -> Path:
        path = folder / f"{name}.{suffix}"
        rows = data.draw(st.permutations(rows))
        opened = gzip.open if suffix.endswith("gz") else open
        with opened(path, "wt", encoding="utf-8", newline="") as file:  # type: ignore[operator]
            delimiter = {"tsv": "\t", "txt": " "}.get(suffix, ",")
            writer = csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL)
            writer.writerows([head, *rows] if header else rows)
        return path

    swapped = [(u, v) if data.draw(st.booleans()) else (v, u) for u, v in links]
    tables = read_tables(
        write_rows(
            "e",
            ["s", "t", "w"],
            [[*ends, repr(w)] for ends, w in zip(swapped, links.values(), strict=True)],
        ),
        write_rows("f", ["n", "x"], [[u, repr(x)] for u, x in features.items()]),
        write_rows("l", ["n", "c"], [[u, label] for u, label in labels.items()]),
        header=header,
    )
    found = [str(node) for node in tables.ids]
    assert sorted(found) == sorted(ids)
    assert tables.X is not None
    assert tables.y is not None
    assert tables.X[:, 0].tolist() == [features[node] for node in found]
    assert tables.y.tolist() == [labels[node] for node in found]
    assert {frozenset(map(str, ends)): w for ends, w in links_of(tables).items()} == {
        frozenset(ends): w for ends, w in links.items()
    }


def test_the_order_of_lines_does_not_matter(write: Write) -> None:
    lines = ["a,b,2", "c,a,1", "b,a,3", "d,c,0.5"]
    there = read_tables(write("1.csv", "\n".join(lines)))
    back = read_tables(write("2.csv", "\n".join(reversed(lines))))
    assert there.ids.tolist() == back.ids.tolist()
    assert links_of(there) == links_of(back)


# The links


def test_what_is_dropped_or_merged_is_told(write: Write) -> None:
    edges = write("e.csv", "s,t,weight\na,b,1\na,b,3\nb,a,2\nb,c,1\nc,c,9\nc,d,0\n")
    tables = read_tables(edges)
    assert links_of(tables) == {("a", "b"): 3.0, ("b", "c"): 1.0}
    assert tables.ids.tolist() == ["a", "b", "c", "d"]
    assert tables.notes == [
        "1 self loop in e.csv dropped",
        "1 link with weight 0 in e.csv dropped",
        "1 repeated link in e.csv; each counts once with its largest weight",
        "1 link in e.csv listed in both directions; each counts once with its largest weight",
    ]


def test_a_third_column_of_numbers_is_the_weight(write: Write) -> None:
    tables = read_tables(write("e.csv", "a,b,2.5,1999\nb,c,1,2000\n"))
    assert links_of(tables) == {("a", "b"): 2.5, ("b", "c"): 1.0}
    assert tables.notes == [
        "unused columns of e.csv: column 3",
        "the third column of e.csv is read as the weight of the links",
    ]


def test_a_third_column_of_words_is_no_weight(write: Write) -> None:
    tables = read_tables(write("e.csv", "a,b,likes\nb,c,knows\n"))
    assert set(links_of(tables).values()) == {1.0}
    (note,) = tables.notes
    assert note.startswith("the links of e.csv have kinds, in 'column 2'")


def test_well_known_names_are_found_wherever_they_stand(write: Write) -> None:
    edges = write("e.csv", "id,when,W,Target,Source\n1,x,2,b,a\n2,y,3,c,b\n")
    assert links_of(read_tables(edges)) == {("a", "b"): 2.0, ("b", "c"): 3.0}


@pytest.mark.parametrize(
    "asked",
    [
        {"source": "from who", "target": "to whom", "weight": "how much"},
        {"source": 1, "target": 2, "weight": 3},
        {"source": "1", "target": "2", "weight": "3", "header": True},
    ],
)
def test_columns_can_be_asked_for(write: Write, asked: dict[str, Any]) -> None:
    edges = write("e.csv", "x,from who,to whom,how much\n9,a,b,2\n9,b,c,3\n")
    assert links_of(read_tables(edges, **asked)) == {("a", "b"): 2.0, ("b", "c"): 3.0}


def test_a_column_asked_for_is_not_taken_by_a_default(write: Write) -> None:
    edges = write("e.csv", "a,b,c\n1,2,3\n")
    assert links_of(read_tables(edges, target="a")) == {(1, 2): 1.0}
    labels = write("l.csv", "red,1\nblue,2\n")
    tables = read_tables(edges, labels=labels, header=False, label=0, target=1)
    assert tables.ids.tolist() == ["1", "2", "a", "b"]
    assert tables.y is not None
    assert tables.y.tolist() == ["red", "blue", "", ""]


@pytest.mark.parametrize("asked", [{"source": "u"}, {"weight": 7}, {"target": "7"}, {"target": -1}])
def test_a_column_that_is_not_there_is_an_error_that_lists_those_there_are(
    write: Write, asked: dict[str, Any]
) -> None:
    edges = write("e.csv", "from,to\na,b\n")
    message = refusal(edges, **asked)
    assert str(edges) in message
    assert "no column" in message
    assert "'from', 'to'" in message


def test_one_column_cannot_hold_two_things(write: Write) -> None:
    assert "is given twice" in refusal(write("e.csv", "a,b,1\n"), source=1, weight=1)
    assert "more than one column 'a'" in refusal(write("e.csv", "a,a,b\nx,y,z\n"), source="a")


# Features and labels


def test_every_node_needs_features(write: Write) -> None:
    edges = write("e.csv", "".join(f"n{i},n{i + 1}\n" for i in range(9)))
    features = write("f.csv", "node,x\nn0,1\nn1,2\n")
    message = refusal(edges, features)
    assert f"8 nodes without a row in {features}: 'n2', 'n3', 'n4', 'n5', 'n6', …" in message


def test_a_second_row_of_features_is_named_with_both_lines(write: Write) -> None:
    features = write("f.csv", "# made by hand\nnode,x\n\na,1\nb,2\na,1\n")
    message = refusal(write("e.csv", "a,b\n"), features)
    assert message.startswith(f"{features}, line 6: the node 'a' already has a row, line 4")


@pytest.mark.parametrize("value", ["", "NA", "nan", "NaN", "inf", "-inf", "many", "1_0", "1 2"])
def test_a_feature_that_is_no_number_is_named(write: Write, value: str) -> None:
    features = write("f.csv", f"node,x,height\n# note\na,1,2\n\nb,3,{value}\nc,1,\n")
    message = refusal(write("e.csv", "a,b\nb,c\n"), features)
    assert message.startswith(f"{features}, line 5, column 'height': expected a finite number")
    assert (repr(value) if value else "nothing") in message


def test_numbers_may_have_spaces_around_them(write: Write) -> None:
    tables = read_tables(write("e.csv", "a, b\n"), write("f.csv", "a, 1.5 , 2\n b ,3,1e-3\n"))
    assert tables.ids.tolist() == ["a", "b"]
    assert tables.X is not None
    assert tables.X.tolist() == [[1.5, 2.0], [3.0, 0.001]]
    assert tables.feature_names == ["column 1", "column 2"]


def test_the_id_column_of_features_can_be_asked_for(write: Write) -> None:
    features = write("f.csv", "x,who,z\n1,a,2\n3,b,4\n")
    tables = read_tables(write("e.csv", "a,b\n"), features, node="who")
    assert tables.feature_names == ["x", "z"]
    assert tables.X is not None
    assert tables.X.tolist() == [[1, 2], [3, 4]]
    assert "no column 'whom'; its columns are 'x', 'who', 'z'" in refusal(
        write("e.csv", "a,b\n"), features, node="whom"
    )


def test_two_labels_of_one_node_are_named_with_both_lines(write: Write) -> None:
    labels = write("l.csv", "node,label\na,red\nb,red\n\nb,red\na,?\na,blue\n")
    message = refusal(write("e.csv", "a,b\n"), labels=labels)
    assert message.startswith(f"{labels}, line 7: the node 'a' has the label 'blue', but 'red'")
    assert "line 2" in message


def test_the_same_label_twice_is_fine_and_an_unknown_one_says_nothing(write: Write) -> None:
    labels = write("l.csv", "node,label\na,?\na,red\nb,red\nb,red\nb,NA\n")
    tables = read_tables(write("e.csv", "a,b\n"), labels=labels)
    assert tables.y is not None
    assert tables.y.tolist() == ["red", "red"]


def test_what_stands_for_unknown_can_be_said(write: Write) -> None:
    edges, labels = write("e.csv", "1,2\n2,3\n"), write("l.csv", "1,-1\n2,nobody\n3,\n")
    by_default = read_tables(edges, labels=labels)
    as_told = read_tables(edges, labels=labels, unknown="nobody")
    assert by_default.y is not None
    assert as_told.y is not None
    assert by_default.y.tolist() == ["", "nobody", ""]
    assert as_told.y.tolist() == ["-1", "", ""]
    assert (
        "no node has a known label"
        in read_tables(edges, labels=labels, unknown=("nobody", "-1")).notes
    )


def test_other_columns_of_labels_are_not_used(write: Write) -> None:
    labels = write("l.csv", "node,year,class\na,1999,red\nb,2000,blue\n")
    tables = read_tables(write("e.csv", "a,b\n"), labels=labels)
    assert tables.y is not None
    assert tables.y.tolist() == ["red", "blue"]
    assert tables.notes == ["unused columns of l.csv: year"]
    assert read_tables(write("e.csv", "a,b\n"), labels=labels, label="year").y is not None
