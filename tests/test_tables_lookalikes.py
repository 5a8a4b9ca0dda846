"""Names of nodes that look alike: never two nodes in silence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nodeproof.tables.convert import convert
from nodeproof.tables.new_nodes import read_new_nodes
from nodeproof.tables.reading import read_tables
from table_helpers import Write, refusal, write

__all__ = ["write"]

PAIRS = [
    ("002", "2", "leading zeros"),
    ("2.0", "2", "a decimal point and zeros"),
    ("e\u0301ve", "\u00e9ve", "Unicode normal form"),
    ("ann  lee", "ann lee", "white space"),
    ("ann\u00a0lee", "ann lee", "white space"),
    ("ann\u200b", "ann", "white space"),
    ("Ann", "ann", "case"),
]


@pytest.mark.parametrize(("one", "other", "reason"), PAIRS)
def test_tables_that_write_a_node_in_two_ways_are_refused(
    write: Write, one: str, other: str, reason: str
) -> None:
    edges = write("e.csv", f"source,target\n{one},x\n{one},y\ny,x\n")
    labels = write("l.csv", f"node,label\nx,red\n{other},blue\ny,red\n")
    features = write("f.csv", f"node,f\nx,1\n{other},2\ny,3\n")
    for message in (refusal(edges, labels=labels), refusal(edges, features)):
        assert f"differ only by {reason}" in message
        assert f"{edges}, line 2" in message
        assert message.count("line 3") == 1
        assert ascii(one) in message
        assert ascii(other) in message


@pytest.mark.parametrize(("one", "other", "reason"), PAIRS)
def test_one_table_may_have_both_and_that_is_told(
    write: Write, one: str, other: str, reason: str
) -> None:
    edges = write("e.csv", f"source,target\nx,{one}\n{one},y\n{other},x\n{other},y\n")
    labels = write("l.csv", f"node,label\nx,red\n{other},blue\n")
    tables = read_tables(edges, labels=labels)
    assert len(tables.ids) == 4
    told = f"nodes of e.csv whose names differ only by {reason}: "
    # Names in which the case counts are common: those of genes, or of videos.
    assert any(told in note for note in tables.notes) == (reason != "case")


@pytest.mark.parametrize(("one", "other", "reason"), PAIRS)
def test_a_conversion_tells_the_same(write: Write, one: str, other: str, reason: str) -> None:
    pytest.importorskip("duckdb")
    edges = write("e.csv", f"source,target\nx,{one}\n{one},y\n{other},x\n{other},y\n")
    notes: list[str] = []
    convert(edges, edges.with_name("graph"), note=notes.append)
    expected = [note for note in read_tables(edges).notes if "differ only by" in note]
    assert notes == expected
    assert len(notes) == (reason != "case")


def test_numbers_in_one_table_and_padded_ones_in_another_are_refused(write: Write) -> None:
    edges = write("e.csv", "source,target\n1,2\n2,3\n")
    message = refusal(edges, labels=write("l.csv", "node,label\n001,red\n002,blue\n003,red\n"))
    assert "leading zeros" in message


def test_names_that_differ_otherwise_are_nobodys_concern(write: Write) -> None:
    edges = write("e.csv", "source,target\n007,008\n008,ann lee\nann lee,annlee\nß,ss\n")
    assert read_tables(edges).notes == []


@pytest.mark.parametrize("fitted", [np.array(["001", "002"]), np.array(["Ann", "Bob"])])
def test_a_new_node_that_looks_like_a_fitted_one_is_refused(write: Write, fitted) -> None:
    features = write("f.csv", "node,x\n2,5\nann,6\n")
    with pytest.raises(ValueError, match="differ only by") as caught:
        read_new_nodes(fitted, features, names=["x"])
    assert "the model" in str(caught.value)


def test_the_line_is_named_in_whichever_file(tmp_path: Path, write: Write) -> None:
    edges = write("e.csv", "source,target\na,b\nb,c\n")
    features = write("f.csv", "node,x\na,1\nb,2\nc,3\n")
    labels = write("l.csv", "node,label\nb,red\nC,blue\n")
    message = refusal(edges, features, labels)
    assert message == (
        f"{edges}, line 3 has the node 'c', {labels}, line 3 has 'C', which differ only by case; "
        "write both the same way"
    )
