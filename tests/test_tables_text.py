"""Delimited text in all its forms: headers, delimiters, line ends, and lines at fault."""

import gzip
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from nodeproof.errors import InputError
from nodeproof.tables.reading import read_tables
from nodeproof.tables.text import TextFile
from table_helpers import Write, links_of, refusal, write

__all__ = ["write"]


# Is there a header?


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("source,target\na,b\n", ["a", "b"]),
        ("SRC,Dst\na,b\n", ["a", "b"]),
        ("paper,cites\n1,2\n", [1, 2]),
        ("paper,cites,strength\na,b,2\n", ["a", "b"]),
        ("u,v\nv,w\n", ["u", "v", "w"]),  # ids, as the second line shows
        ("ann,bob\nbob,eve\n", ["ann", "bob", "eve"]),
        ("ann,bob\n", ["ann", "bob"]),
        ("ann,1\n2,3\n", ["1", "2", "3", "ann"]),
        ("1,2\n2,3\n", [1, 2, 3]),
    ],
)
def test_a_header_of_edges_is_recognised(write: Write, content: str, found: list[str]) -> None:
    assert read_tables(write("e.csv", content)).ids.tolist() == found


def test_a_header_can_be_forced_either_way(write: Write) -> None:
    edges = write("e.csv", "paper,cites\na,b\n")
    assert read_tables(edges, header=True).ids.tolist() == ["a", "b"]
    edges = write("e.csv", "source,target\na,b\n")
    assert read_tables(edges, header=False).ids.tolist() == ["a", "b", "source", "target"]


def test_a_first_line_that_may_be_a_header_is_told(write: Write) -> None:
    edges = write("e.csv", "paper,cites\na,b\nc,d\n")
    (note,) = read_tables(edges).notes
    assert "the first line of e.csv is read as a link between 'paper' and 'cites'" in note
    assert "--header" in note
    assert read_tables(edges, header=True).notes == []
    assert read_tables(edges, header=False).notes == []


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("paper,x,y\na,1,2\nb,3,4\n", ["x", "y"]),
        (",0,1\na,1,2\nb,3,4\n", ["0", "1"]),  # as pandas writes a matrix
        ("id,0,1\na,1,2\nb,3,4\n", ["0", "1"]),
        ("a,1,2\nb,3,4\n", ["column 1", "column 2"]),
    ],
)
def test_a_header_of_features_is_recognised(write: Write, content: str, names: list[str]) -> None:
    tables = read_tables(write("e.csv", "a,b\n"), write("f.csv", content))
    assert tables.feature_names == names
    assert tables.X is not None
    assert tables.X.tolist() == [[1, 2], [3, 4]]


def test_a_node_may_be_called_id(write: Write) -> None:
    tables = read_tables(
        write("e.csv", "id,b\n"), write("f.csv", "id,1\nb,2\n"), write("l.csv", "id,y\nb,y\n")
    )
    assert tables.ids.tolist() == ["b", "id"]
    assert tables.X is not None
    assert tables.X.tolist() == [[2], [1]]
    assert tables.y is not None
    assert tables.y.tolist() == ["y", "y"]


def test_a_first_row_of_features_with_a_hole_is_no_header(write: Write) -> None:
    features = write("f.csv", "a,1,\nb,3,4\n")
    message = refusal(write("e.csv", "a,b\n"), features)
    assert message.startswith(f"{features}, line 1, column 'column 2'")
    assert "--header" in message


@pytest.mark.parametrize(
    ("content", "found", "n_notes"),
    [
        ("node,label\na,red\nb,blue\n", ["red", "blue"], 0),
        ("ID,topic\na,red\nb,blue\n", ["red", "blue"], 0),
        ("paper,topic\na,red\nb,blue\n", ["red", "blue"], 1),  # a guess, and told
        ("a,red\nb,blue\n", ["red", "blue"], 0),
        ("c,red\na,red\nb,blue\n", ["red", "blue", "red"], 1),  # an isolated node
        ("c,7\na,red\nb,blue\n", ["red", "blue", "7"], 1),
        ("c,?\na,red\nb,blue\n", ["red", "blue", ""], 1),
    ],
)
def test_a_header_of_labels_is_recognised(
    write: Write, content: str, found: list[str], n_notes: int
) -> None:
    tables = read_tables(write("e.csv", "a,b\n"), labels=write("l.csv", content))
    assert tables.y is not None
    assert tables.y.tolist() == found
    assert len(tables.notes) == n_notes


def test_a_guessed_header_of_labels_is_told(write: Write) -> None:
    labels = write("l.csv", "paper,topic\na,red\nb,blue\n")
    (note,) = read_tables(write("e.csv", "a,b\n"), labels=labels).notes
    assert "the first line of l.csv (paper, topic) is read as the names" in note
    assert "--no-header" in note


# Forms of text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("e.csv", "a,b,2\nb,c,3\n"),
        ("e.csv", "a;b;2\nb;c;3\n"),
        ("e.tsv", "a\tb\t2\nb\tc\t3\n"),
        ("e.txt", "a b 2\nb c 3"),
        ("e.edges", "  a   b 2  \n\tb\tc 3\n \t \n"),
        ("e.txt", '"a"   "b"  2\nb c 3\n'),
        ("E.CSV", '"a","b",2\nb,"c",3\n'),
        ("e.csv", "a,b,2\r\nb,c,3\r\n"),
        ("e.csv", "a,b,2\rb,c,3\r"),
        ("e.csv", "\ufeffa,b,2\nb,c,3\n"),
        ("e.csv", "\ufeff# comment\r\n\r\n  \r\na,b,2\r\n#x\r\nb,c,3"),
        ("e.csv", "a,b,2,\nb,c,3,\n"),
    ],
)
def test_text_is_read_in_any_common_form(write: Write, name: str, content: str) -> None:
    assert links_of(read_tables(write(name, content))) == {("a", "b"): 2.0, ("b", "c"): 3.0}


@pytest.mark.parametrize("name", ["e.csv.gz", "e.TSV.GZ"])
def test_packed_text_is_read(write: Write, name: str) -> None:
    tables = read_tables(write(name, gzip.compress(b"a\tb\nb\tc\n")))
    assert tables.ids.tolist() == ["a", "b", "c"]


def test_numbers_between_tabs_and_spaces_are_fields(write: Write) -> None:
    assert links_of(read_tables(write("e.txt", "1  2\t0.5\n2 3\t1\n"))) == {
        (1, 2): 0.5,
        (2, 3): 1.0,
    }


def test_names_between_tabs_may_hold_spaces_and_commas(write: Write) -> None:
    tables = read_tables(write("e.txt", "Ann Lee\tRay, Bob\nRay, Bob\tEve\n"))
    assert tables.ids.tolist() == ["Ann Lee", "Eve", "Ray, Bob"]


def test_skipped_comments_are_told(write: Write) -> None:
    (note,) = read_tables(write("e.csv", "a,b\n#python,b\nb,c\n")).notes
    assert note.startswith("1 comment line of e.csv skipped")


def test_a_line_may_be_longer_than_a_block(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodeproof.tables.text._LEAST_BLOCK", 64)
    row = ",".join(["0.125"] * 1000)
    tables = read_tables(write("e.csv", "a,b\n"), write("f.csv", f"a,{row}\nb,{row}\n"))
    assert tables.X is not None
    assert tables.X.shape == (2, 1000)


# What is wrong, and where


def test_a_bad_line_is_named(write: Write) -> None:
    edges = write("e.csv", "# c\nsource,target\r\n\r\na,b\n   \nb,c,d\nc,d\n")
    assert refusal(edges) == (
        f"{edges}, line 6: expected 2 fields as in the first row, found 3: 'b,c,d'"
    )


def test_a_bad_line_far_down_is_named(write: Write) -> None:
    good = [f"{i},{i + 1}" for i in range(300_000)]
    edges = write("e.csv", "\n".join(["s,t", *good[:200_000], "#", "", "7", *good[200_000:]]))
    assert refusal(edges).startswith(f"{edges}, line 200004: expected 2 fields")


def test_a_header_of_another_width_is_named(write: Write) -> None:
    features = write("f.csv", "node,x\na,1,2\nb,3,4\n")
    message = refusal(write("e.csv", "a,b\n"), features)
    assert message.startswith(f"{features}, line 2: expected 2 fields")


def test_a_long_bad_line_is_cut_short(write: Write) -> None:
    assert len(refusal(write("e.csv", "a,b\n" + "x," * 10_000))) < 400


@pytest.mark.parametrize(
    ("weight", "problem"),
    [
        ("-1", "the weight is negative: -1"),
        ("nan", "got 'nan'"),
        ("inf", "got 'inf'"),
        ("", "got nothing"),
        ("much", "got 'much'"),
    ],
)
def test_a_bad_weight_is_named(write: Write, weight: str, problem: str) -> None:
    edges = write("e.csv", f"source,target,weight\n\na,b,1\nb,c,{weight}\n")
    message = refusal(edges)
    assert message.startswith(f"{edges}, line 4")
    assert problem in message


@pytest.mark.parametrize("line", [",b", "b,", '"",b', "b,  "])
def test_an_empty_id_is_named(write: Write, line: str) -> None:
    edges = write("e.csv", f"#\na,b\nb,c\n{line}\nc,d\n")
    assert refusal(edges) == f"{edges}, line 4: the node id is empty"


def test_an_empty_id_of_a_label_is_named(write: Write) -> None:
    labels = write("l.csv", "node,label\na,red\n,blue\n")
    message = refusal(write("e.csv", "a,b\n"), labels=labels)
    assert message == f"{labels}, line 3: the node id is empty"


@pytest.mark.parametrize(
    "content", ["", "\n\n", "# only\n# comments\n", "source,target\n", "u,v\n\n#\n"]
)
def test_an_empty_file_is_an_error(write: Write, content: str) -> None:
    edges = write("e.csv", content)
    assert refusal(edges).startswith(f"{edges} is empty")


def test_a_missing_file_is_named(write: Write, tmp_path: Path) -> None:
    for name in ("no.csv", "no.csv.gz", "no.parquet", "no.npz"):
        assert refusal(tmp_path / name) == f"{tmp_path / name} does not exist; check the path"
    edges = write("e.csv", "a,b\n")
    assert str(tmp_path / "no.csv") in refusal(edges, labels=tmp_path / "no.csv")


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    (tmp_path / "e.csv").mkdir()
    assert refusal(tmp_path / "e.csv") == f"{tmp_path / 'e.csv'} is a folder; give a file"


def test_an_unknown_suffix_is_an_error_that_lists_the_known_ones(write: Write) -> None:
    message = refusal(write("e.xlsx", "a,b\n"))
    assert "e.xlsx" in message
    assert ".parquet" in message


def test_one_column_is_not_enough(write: Write) -> None:
    edges = write("e.csv", "a\nb\n")
    assert refusal(edges).startswith(f"{edges} needs at least two columns")


@pytest.mark.parametrize("lines_before", [2, 5000])
def test_text_that_is_not_utf8_is_named(write: Write, lines_before: int) -> None:
    edges = write("e.csv", b"a,b\n" * lines_before + "é,b\n".encode("latin-1"))
    assert refusal(edges).startswith(f"{edges}, line {lines_before + 1}: not valid UTF-8")


def test_utf16_is_not_utf8(write: Write) -> None:
    edges = write("e.csv", "a,b\n".encode("utf-16"))
    assert refusal(edges).startswith(f"{edges} is not UTF-8 text")


@pytest.mark.parametrize("lines_before", [2, 5000])
def test_a_quoted_line_end_is_named(write: Write, lines_before: int) -> None:
    edges = write("e.csv", "a,b\n" * lines_before + '"c\nd",b\ne,f\n')
    assert refusal(edges) == (
        f"{edges}, line {lines_before + 1}: a quoted field must end on the line where it begins"
    )


def test_a_packed_file_that_memory_cannot_hold_is_refused(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    edges = write("e.csv.gz", gzip.compress(b"a,b\n" * 1000))
    monkeypatch.setattr("nodeproof.tables.text.available_memory", lambda: 7999)
    assert refusal(edges).startswith(f"{edges}, unpacked, would take about 8.0 kB of memory")
    monkeypatch.setattr("nodeproof.tables.text.available_memory", lambda: 8000)
    assert links_of(read_tables(edges))


@pytest.mark.parametrize("broken", [lambda data: data[:-12], lambda data: b"text" + data])
def test_a_broken_gz_is_an_error(write: Write, broken: Callable[[bytes], bytes]) -> None:
    edges = write("e.csv.gz", broken(gzip.compress(b"a,b\nb,c\n" * 100)))
    assert refusal(edges).startswith(f"cannot read {edges}")


def test_names_and_labels_without_end_are_refused(write: Write) -> None:
    long = "c" * 10_001
    edges = write("e.csv", f"a,b\nb,{long}\n")
    expected = "of 10,001 characters is too long (10,000 at most); shorten it"
    assert refusal(edges) == f"{edges}, line 2: a node id {expected}"
    edges, labels = write("e.csv", f"a,b\nb,{long[1:]}\n"), write("l.csv", f"a,x\nb,{long}\n")
    with pytest.raises(InputError) as caught:
        read_tables(edges, labels=labels)
    assert str(caught.value) == f"{labels}, line 2: a label {expected}"
    assert len(read_tables(edges).ids) == 3


def test_names_that_memory_cannot_hold_are_refused(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    edges = write("e.csv", f"a,b\nb,{'c' * 100}\n")
    monkeypatch.setattr("nodeproof.runtime.memory.available_memory", lambda: 1199)
    assert refusal(edges).startswith(f"{edges}: 3 names of up to 100 characters would take about")
    monkeypatch.setattr("nodeproof.runtime.memory.available_memory", lambda: 1200)
    assert len(read_tables(edges).ids) == 3


@pytest.mark.parametrize("found", ["1,20", "-1.234,50", ",5"])
def test_a_decimal_comma_is_recognised(write: Write, found: str) -> None:
    edges = write("e.csv", f"source;target;amount\na;b;1\nb;c;{found}\n")
    message = refusal(edges, weight="amount")
    assert message.endswith(f"got {found!r}; if this is a decimal comma, write a point instead")
    assert f"{edges}, line 3, column 'amount'" in message
    features = write("f.csv", f"node;x\na;1\nb;{found}\nc;2\n")
    message = refusal(write("e2.csv", "a,b\nb,c\n"), features)
    assert message.endswith("; if this is a decimal comma, write a point instead")


def test_a_weight_that_is_a_word_is_no_name_of_a_node(write: Write) -> None:
    message = refusal(write("e.csv", "source,target,weight\na,b,1\nb,c,much\n"))
    assert message.endswith("got 'much'")
    features = write("f.csv", "node,x\na,1\nb,much\nc,2\n")
    message = refusal(write("e2.csv", "a,b\nb,c\n"), features)
    assert message.endswith("got 'much'; if this column names the nodes, say so with --id, "
                            "otherwise remove it")  # fmt: skip


def test_a_header_that_was_taken_for_a_link_explains_missing_features(write: Write) -> None:
    edges = write("e.csv", "Von;Nach;Betrag\na;b;1,2\nc;d;2,1\n")
    message = refusal(edges, write("f.csv", "Kunde;x\na;1\nb;2\nc;3\nd;4\n"))
    assert message.startswith("2 nodes without a row in")
    assert message.endswith("; if the first line of e.csv names the columns, use --header")
    # Not where other nodes are missing, nor where the user has said that it is a link.
    assert "--header" not in refusal(edges, write("f.csv", "node;x\nVon;1\nNach;2\na;3\n"))
    assert "--header" not in refusal(edges, write("f.csv", "a;1\nb;2\nc;3\nd;4\n"), header=False)
    edges = write("e.csv", "a,b\nb,c\n")
    assert "--header" not in refusal(edges, write("f.csv", "node,x\nc,3\n"))


def test_a_third_column_of_numbers_under_a_name_may_be_the_weight(write: Write) -> None:
    edges = write("e.csv", "from_customer,to_customer,net amount\na,b,1.5\nb,c,2\n")
    (note,) = read_tables(edges).notes
    assert note.startswith("unused columns of e.csv: net amount; if it is the weight, use --weight")
    assert note.endswith("--weight-column 'net amount'")
    assert read_tables(edges, weight="net amount").notes == []
    for content in (
        "from,to,remark\na,b,old friends\nb,c,knows\n",
        "from,to,amount,year\na,b,1.5,1999\nb,c,2,2000\n",
        "from,to,amount,weight\na,b,1.5,1\nb,c,2,3\n",
    ):
        (note,) = read_tables(write("e.csv", content)).notes
        assert note.startswith("unused columns of e.csv: ")
        assert "--weight-column" not in note


@pytest.mark.parametrize("broken", [False, True])
def test_no_thread_holds_the_bytes_after_reading(tmp_path: Path, broken: bool) -> None:
    """One that let go of them only at the end of the process would abort it."""
    path = tmp_path / "links.csv"
    path.write_text("a,b,1\n" * 3000 + "a\n" * broken)
    for _ in range(20):
        file = TextFile(path)
        before = sys.getrefcount(file._data)
        with pytest.raises(InputError) if broken else nullcontext():
            file.read([0, 1], [2])
        after = sys.getrefcount(file._data)  # not in the assertion, which holds them, too
        assert after == before
