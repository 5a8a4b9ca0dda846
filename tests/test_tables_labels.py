"""Labels in tables: what means unknown, what numbers name, and features that are labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nodeproof.storage.graph_folder import GraphFolder, write_graph_folder
from nodeproof.tables.folder_tables import read_folder_features, read_folder_labels
from nodeproof.tables.reading import read_tables
from table_helpers import Write, refusal, write

__all__ = ["write"]

LINKS = "source,target\na,b\nb,c\nc,d\nd,a\n"
# Words that other programs write where they know nothing, and that may yet be names of classes.
WORDS = ["unknown", "Unknown", "n/a", "N/A", "na", "NA", "none", "None", "null", "unlabeled"]
MARKS = ["", "?", "-1", "-1.0", "nan", "NaN", "#N/A", "<NA>"]


@pytest.mark.parametrize("token", [*WORDS, *MARKS])
def test_what_means_unknown_is_no_class(write: Write, token: str) -> None:
    labels = write("l.csv", f"node,label\na,x\nb,y\nc,{token}\nd,{token}\n")
    tables = read_tables(write("e.csv", LINKS), labels=labels)
    assert tables.y is not None
    assert tables.y.tolist() == ["x", "y", "", ""]
    told = (
        f"2 labels of l.csv are read as unknown: {token!r} (2); where that is a class, say what "
        "means unknown instead, by --unknown TOKEN (--unknown '' for nothing)"
    )
    assert tables.notes == ([told] if token in WORDS else [])


def test_a_word_that_means_unknown_can_be_kept_as_a_class(write: Write) -> None:
    labels = write("l.csv", "node,label\na,none\nb,mild\nc,?\n")
    tables = read_tables(write("e.csv", LINKS), labels=labels, unknown="?")
    assert tables.y is not None
    assert tables.y.tolist() == ["none", "mild", "", ""]
    assert tables.notes == []
    tables = read_tables(write("e.csv", LINKS), labels=labels, unknown=[""])
    assert tables.y is not None
    assert tables.y.tolist() == ["none", "mild", "?", ""]


def test_whole_numbers_name_the_same_class_however_they_are_written(write: Write) -> None:
    labels = write("l.csv", "node,label\na,1.0\nb,2.0\nc,1\nd,-1.0\n")
    tables = read_tables(write("e.csv", LINKS), labels=labels)
    assert tables.y is not None
    assert tables.y.tolist() == ["1", "2", "1", ""]


def test_one_class_in_two_ways_of_writing_is_no_contradiction(write: Write) -> None:
    labels = write("l.csv", "node,label\na,1.0\na,1\nb,2\n")
    tables = read_tables(write("e.csv", LINKS), labels=labels)
    assert tables.y is not None
    assert tables.y.tolist() == ["1", "2", "", ""]


def test_numbers_beside_words_stay_as_they_are_written(write: Write) -> None:
    labels = write("l.csv", "node,label\na,1.0\nb,beta\nc,1\n")
    tables = read_tables(write("e.csv", LINKS), labels=labels)
    assert tables.y is not None
    assert tables.y.tolist() == ["1.0", "beta", "1", ""]


def test_measurements_are_refused_as_labels(write: Write, tmp_path: Path) -> None:
    labels = write("l.csv", "node,label\na,0.37\nb,1.42\nc,2.2\n")
    message = refusal(write("e.csv", LINKS), labels=labels)
    assert message.startswith(f"{labels}: 3 different numbers in 3 labels (0.37, 1.42, 2.2)")
    pq.write_table(
        pa.table({"node": ["a", "b", "c"], "label": [0.37, 1.42, 2.2]}), tmp_path / "l.parquet"
    )
    assert "3 different numbers in 3 labels" in refusal(
        tmp_path / "e.csv", labels=tmp_path / "l.parquet"
    )


def test_a_few_fractions_may_be_names_and_that_is_told(write: Write) -> None:
    labels = write("l.csv", "node,label\na,0.5\nb,1.5\nc,0.5\nd,1.5\n")
    tables = read_tables(write("e.csv", LINKS), labels=labels)
    assert tables.y is not None
    assert tables.y.tolist() == ["0.5", "1.5", "0.5", "1.5"]
    assert tables.notes == [
        "the labels of l.csv are numbers with fractions, read as the names of 2 classes: 0.5, 1.5"
    ]


# columns of features that are labels


@pytest.mark.parametrize("cells", ["0 1 -1 -1", "0 1 1 0", "0.0 1.0 nan nan"])
def test_the_label_column_is_no_feature(write: Write, cells: str) -> None:
    rows = "".join(
        f"{v},{k},{c}\n" for k, (v, c) in enumerate(zip("abcd", cells.split(), strict=True))
    )
    features = write("f.csv", "node,x,Label\n" + rows)
    tables = read_tables(write("e.csv", LINKS), features, write("l.csv", "node,label\na,0\nb,1\n"))
    assert tables.feature_names == ["x"]
    assert tables.X is not None
    assert tables.X.tolist() == [[0], [1], [2], [3]]
    assert tables.notes == [
        "the column 'Label' of f.csv is the label column of l.csv: not used as a feature"
    ]


def test_one_table_may_hold_features_and_labels(write: Write) -> None:
    table = write("f.csv", "node,x,group\na,1,red\nb,2,blue\nc,3,\nd,4,\n")
    tables = read_tables(write("e.csv", LINKS), table, table, label="group")
    assert tables.feature_names == ["x"]
    assert tables.y is not None
    assert tables.y.tolist() == ["red", "blue", "", ""]


def test_a_feature_with_the_name_of_the_label_is_asked_about(write: Write) -> None:
    features = write("f.csv", "node,x,y\na,1,0.5\nb,2,2.5\nc,3,7.5\nd,4,8\n")
    labels = write("l.csv", "node,y\na,red\nb,blue\n")
    message = refusal(write("e.csv", LINKS), features, labels)
    assert message.startswith(f"{features}: the column 'y' has the name of the labels in ")
    assert "rename" in message


def ring(n: int) -> str:
    return "source,target\n" + "".join(f"{v},{(v + 1) % n}\n" for v in range(n))


def test_labels_under_another_name_are_no_feature(write: Write) -> None:
    classes = ["red", "blue"]
    codes = [v % 2 if v < 20 else -1 for v in range(40)]
    features = "node,x,code\n" + "".join(f"{v},{v * 0.5},{code}\n" for v, code in enumerate(codes))
    labels = "node,label\n" + "".join(f"{v},{classes[v % 2]}\n" for v in range(20))
    tables = read_tables(write("e.csv", ring(40)), write("f.csv", features), write("l.csv", labels))
    assert tables.feature_names == ["x"]
    assert tables.X is not None
    assert tables.X.shape == (40, 1)
    assert tables.notes == [
        "the column 'code' of f.csv repeats the labels of l.csv, and is constant elsewhere: "
        "not used as a feature"
    ]


def test_a_feature_that_tells_all_classes_apart_is_used_and_told(write: Write) -> None:
    features = "node,x,code\n" + "".join(f"{v},{v * 0.5},{v % 2}\n" for v in range(40))
    labels = "node,label\n" + "".join(f"{v},{v % 2}\n" for v in range(20))
    tables = read_tables(write("e.csv", ring(40)), write("f.csv", features), write("l.csv", labels))
    assert tables.feature_names == ["x", "code"]
    assert tables.notes == [
        "the feature 'code' of f.csv determines the label of each of the 20 labelled nodes; if it "
        "was made from the labels, remove it"
    ]


def test_labels_alone_are_no_features(write: Write) -> None:
    table = write("f.csv", "node,label\na,1\nb,2\nc,1\nd,2\n")
    assert "no feature" in refusal(write("e.csv", LINKS), table, table)


def test_a_folder_reads_features_and_labels_by_the_same_rules(write: Write, tmp_path) -> None:
    edges = read_tables(write("e.csv", ring(4)))
    write_graph_folder(tmp_path / "graph", edges.graph)
    folder = GraphFolder.open(tmp_path / "graph")
    table = write("t.csv", ",node,x,label\n0,0,1,red\n1,1,2,blue\n2,2,3,unknown\n3,3,4,unknown\n")
    labels = read_folder_labels(folder, table)
    assert labels.names.tolist() == ["blue", "red"]
    assert labels.codes.tolist() == [1, 0, -1, -1]
    features = read_folder_features(folder, table, labels=labels)
    assert features.names == ["x"]
    assert np.asarray(features.X).tolist() == [[1], [2], [3], [4]]
    assert [note.split(" of t.csv")[0] for note in labels.notes + features.notes] == [
        "the first column",
        "unused columns",
        "2 labels",
        "the first column",
        "the column 'label'",
    ]


@pytest.mark.parametrize("labels", [None, "node,group\na,red\nb,blue\n"])
def test_a_feature_that_is_called_like_labels_is_told(write: Write, labels: str | None) -> None:
    features = write("f.csv", "node,x,Class\na,1,0\nb,2,1\nc,3,0\nd,4,1\n")
    given = None if labels is None else write("l.csv", labels)
    tables = read_tables(write("e.csv", LINKS), features, given)
    assert tables.feature_names == ["x", "Class"]
    assert tables.notes == [
        "the feature 'Class' of f.csv has a name that labels often have; if it holds them, "
        "remove it, or give the file to --labels as well"
    ]


def test_labels_beside_words_are_found_among_the_features(write: Write) -> None:
    features = write("f.csv", "node,x,label\na,1,1.0\nb,2,2.0\nc,3,1.0\nd,4,2.0\n")
    labels = write("l.csv", "node,label\na,1.0\nb,2.0\nc,beta\n")
    tables = read_tables(write("e.csv", LINKS), features, labels)
    assert tables.feature_names == ["x"]
