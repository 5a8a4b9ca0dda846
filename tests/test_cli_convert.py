"""`nodeproof convert` on the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli_helpers import run, without_advice, write
from nodeproof.storage.graph_folder import GraphFolder

pytest.importorskip("duckdb")


@pytest.fixture
def links(tmp_path: Path) -> Path:
    """Three links between four nodes, one of them twice, and a loop."""
    rows = [["from", "to", "w"], ["ann", "bob", 1], ["bob", "eve", 2], ["eve", "bob", 3]]
    return write(tmp_path / "links.csv", [*rows, ["eve", "joe", 1], ["joe", "joe", 1]])


def test_links_become_a_folder(capsys, links, tmp_path):
    code, out, err = run(capsys, "convert", links, tmp_path / "graph")
    assert code == 0
    for part in ("nodes", "4", "links", "3", "weights", "yes", "checksums", "written"):
        assert part in out
    assert "1 self loop dropped" in err
    assert (
        "1 duplicate of a link, in the same or the other direction; each link counts once with"
        in err
    )
    graph = GraphFolder.open(tmp_path / "graph")
    assert graph.ids is not None
    assert graph.ids.tolist() == ["ann", "bob", "eve", "joe"]
    assert graph.weights.tolist() == [1, 1, 3, 3, 1, 1]


def test_the_summary_in_json(capsys, links, tmp_path):
    nodes = write(tmp_path / "nodes.csv", [["node"], ["zoe"]])
    code, out, err = run(
        capsys, "convert", links, tmp_path / "graph", "--json", "--nodes", nodes, "--memory", "1GB",
        "--jobs", 1, "--source", "from", "--target", 1, "--weight-column", "w", "--verify",
    )  # fmt: skip
    assert (code, err) == (0, "")
    summary = json.loads(out)
    assert (summary["nodes"], summary["links"], summary["weighted"]) == (5, 3, True)
    assert summary["read"] == {"links": 5, "loops": 1, "zeros": 0, "repeats": 1}
    assert summary["verified"] is True
    assert summary["folder"] == str(tmp_path / "graph")
    assert summary["bytes"] == sum(file.stat().st_size for file in (tmp_path / "graph").iterdir())
    assert "1 node without a link: isolated" in summary["notes"]


def test_a_folder_is_verified(capsys, links, tmp_path):
    run(capsys, "convert", links, tmp_path / "graph")
    code, out, _ = run(capsys, "convert", "--verify", tmp_path / "graph")
    assert code == 0
    assert "verified" in out
    file = tmp_path / "graph" / "degrees.npy"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    code, out, err = run(capsys, "convert", "--verify", tmp_path / "graph", "--json")
    assert (code, out) == (2, "")
    assert len(without_advice(err).splitlines()) == 1
    assert "degrees.npy is not as it was written: its checksum is wrong" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["links.csv"], "Missing argument 'OUT'"),
        ([], "Missing argument 'EDGES'"),
        (["none.csv", "out"], "none.csv does not exist"),
        (["*.parquet", "out"], "no file matches *.parquet"),
        (["links.csv", "no/such/out"], "does not exist; create it"),
        (["links.csv", "links.csv"], "links.csv exists already"),
        (["links.csv", "out", "--memory", "lots"], "a size is a number and a unit"),
        (["links.csv", "out", "--memory", "1MB"], "needs at least 128MiB"),
        (["links.csv", "out", "--source", "start"], "no column 'start'"),
        (["links.csv", "out", "--jobs", "0"], "--jobs"),
        (["links.csv", "out", "--nodes", "none.csv"], "none.csv does not exist"),
        (["broken.parquet", "out"], "cannot read broken.parquet"),
        (
            ["nulls.parquet", "out"],
            "nulls.parquet, 2 rows of column 'target': the node id",
        ),
        (["--verify", "."], "is no graph folder"),
        (["--verify", "links.csv"], "is no graph folder"),
    ],
)
def test_bad_input_gives_one_line_and_writes_nothing(
    capsys, links, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    nulls = pa.array([None, 2, None])
    pq.write_table(pa.table({"source": [1, 2, 3], "target": nulls}), tmp_path / "nulls.parquet")
    before = sorted(path.name for path in tmp_path.iterdir())
    if arguments[0:1] == ["*.parquet"]:
        (tmp_path / "broken.parquet").unlink()
        (tmp_path / "nulls.parquet").unlink()
        before = ["links.csv"]
    code, out, err = run(capsys, "convert", *arguments)
    assert (code, out) == (2, "")
    assert len(without_advice(err).splitlines()) == 1
    assert message in err
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_folder_that_is_there_is_replaced_only_when_asked(capsys, links, tmp_path):
    assert run(capsys, "convert", links, tmp_path / "graph")[0] == 0
    code, _, err = run(capsys, "convert", links, tmp_path / "graph")
    assert code == 2
    assert "add --fresh" in err
    assert run(capsys, "convert", links, tmp_path / "graph", "--fresh")[0] == 0


def test_without_duckdb_the_extra_is_named(capsys, links, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    code, _, err = run(capsys, "convert", links, tmp_path / "graph")
    assert code == 2
    assert err == "nodeproof: duckdb is not installed; run: pip install 'nodeproof[big]'\n"
    assert not (tmp_path / "graph").exists()


INTERRUPTED = """
import os, signal, sys, time
from importlib import import_module
from nodeproof.cli import main
command = import_module("nodeproof.cli.convert")
convert = command.convert
def slow(edges, out, progress, **options):
    def stop(stage, done, total):
        if stage == "rows":
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(30)
    return convert(edges, out, progress=stop, **options)
command.convert = slow
main(["convert", *sys.argv[1:]])
"""


@pytest.mark.skipif(os.name == "nt", reason="SIGINT cannot be sent to one process there")
def test_ctrl_c_keeps_the_work_and_the_same_command_resumes(capsys, tmp_path):
    rng = np.random.default_rng(0)
    table = pa.table({"source": rng.integers(0, 99, 500), "target": rng.integers(0, 99, 500)})
    pq.write_table(table, tmp_path / "links.parquet")
    arguments = [tmp_path / "links.parquet", tmp_path / "graph"]
    stopped = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, *arguments], capture_output=True, text=True, check=False
    )
    assert stopped.returncode == 130
    assert stopped.stdout == ""
    kept, interrupted = filter(None, stopped.stderr.splitlines())
    assert f"finished work is kept in {tmp_path / 'graph.partial'}" in kept
    assert interrupted == "nodeproof: interrupted"
    code, _, err = run(capsys, "convert", *arguments)
    assert code == 0
    assert "resuming an earlier run" in err
    GraphFolder.open(tmp_path / "graph").verify()
    assert not (tmp_path / "graph.partial").exists()


def test_it_has_help(capsys):
    code, out, _ = run(capsys, "convert", "--help")
    assert code == 0
    assert "Usage: nodeproof convert [OPTIONS] EDGES [OUT]" in out


def notes_of(capsys, *arguments) -> tuple[int, int, list[str]]:
    """Convert; return how many nodes and links there are, and the notes."""
    code, out, err = run(capsys, "convert", *arguments, "--json", "--fresh")
    assert (code, err) == (0, "")
    summary = json.loads(out)
    return summary["nodes"], summary["links"], summary["notes"]


def test_a_header_that_may_be_a_link_is_told_and_can_be_settled(capsys, tmp_path):
    links, graph = tmp_path / "links.csv", tmp_path / "graph"
    links.write_text("Von;Nach;Betrag\na;b;1,20\nc;d;2,79\n")
    unused = "unused columns of links.csv: "
    assert notes_of(capsys, links, graph) == (6, 3, [
        f"{unused}column 2",
        "the first line of links.csv is read as a link between 'Von' and 'Nach', which occur in "
        "no other link; if it names the columns, use --header",
    ])  # fmt: skip
    assert notes_of(capsys, links, graph, "--header") == (4, 2, [f"{unused}Betrag"])
    assert notes_of(capsys, links, graph, "--no-header") == (6, 3, [f"{unused}column 2"])
    links.write_text("source,target\na,b\nb,c\n")
    assert notes_of(capsys, links, graph) == (3, 2, [])
    assert notes_of(capsys, links, graph, "--no-header") == (5, 3, [])


def test_a_header_settles_the_list_of_nodes_too(capsys, tmp_path):
    links = write(tmp_path / "links.csv", [["Von", "Nach"], ["a", "b"]])
    nodes = write(tmp_path / "nodes.csv", [["Kunde"], ["zoe"]])
    given = [links, tmp_path / "graph", "--nodes", nodes]
    assert notes_of(capsys, *given, "--header")[0] == 3
    assert notes_of(capsys, *given, "--no-header")[0] == 6


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("ann,bob\nbob,eve\n", False),  # found at once
        ("ann,bob\n" + "x,y\n" * 1001 + "z,bob\n", False),  # beyond the first rows
        ("ann,bob\n" + "x,y\n" * 1001 + "z,joe\n", True),
        ("it's,so\nx,y\n", True),
        ("ann,bob\n", False),
        ("1,2\n3,4\n", False),
    ],
)
def test_only_a_first_line_of_names_that_never_come_again_is_told(capsys, tmp_path, content, told):
    (tmp_path / "links.csv").write_text(content)
    _, _, notes = notes_of(capsys, tmp_path / "links.csv", tmp_path / "graph")
    assert any("the first line of links.csv" in note for note in notes) == told


def test_every_file_of_a_folder_may_begin_with_a_header(capsys, tmp_path):
    (tmp_path / "links").mkdir()
    write(tmp_path / "links" / "a.csv", [["Von", "Nach"], ["a", "b"]])
    write(tmp_path / "links" / "b.csv", [["Von", "Nach"], ["b", "c"]])
    given = [tmp_path / "links", tmp_path / "graph"]
    _, _, (note, *_) = notes_of(capsys, *given)
    assert note.startswith("the first line of a.csv is read as a link between 'Von' and 'Nach'")
    assert notes_of(capsys, *given, "--header") == (3, 2, [])


def test_columns_that_are_not_used_are_told(capsys, tmp_path):
    rows = [["a", "b", 1.2], ["b", "c", 2.79]]
    links = write(tmp_path / "links.csv", [["from_customer", "to_customer", "amount"], *rows])
    graph = tmp_path / "graph"
    hint = "amount; if it is the weight, use --weight-column amount"
    assert notes_of(capsys, links, graph) == (3, 2, [f"unused columns of links.csv: {hint}"])
    assert notes_of(capsys, links, graph, "--weight-column", "amount") == (3, 2, [])
    columns = dict(zip(["from", "to", "amount"], zip(*rows, strict=True), strict=True))
    pq.write_table(pa.table(columns), tmp_path / "links.parquet")
    _, _, notes = notes_of(capsys, tmp_path / "links.parquet", graph)
    assert notes == [f"unused columns of links.parquet: {hint}"]
    write(links, rows)
    _, _, notes = notes_of(capsys, links, graph)
    assert notes == ["the third column of links.csv is read as the weight of the links"]


def test_lines_that_are_skipped_as_comments_are_told(capsys, tmp_path):
    (tmp_path / "links.csv").write_text("# made by hand\na,b\nb,c\n#c,a\n")
    code, _, err = run(capsys, "convert", tmp_path / "links.csv", tmp_path / "out")
    assert code == 0
    assert "2 comment lines of links.csv skipped" in err


def test_names_with_a_comment_sign_are_not_cut_where_there_are_comments(capsys, tmp_path):
    (tmp_path / "links.csv").write_text("# made by hand\nu,room#1\nu,room#2\n")
    code, _, err = run(capsys, "convert", tmp_path / "links.csv", tmp_path / "out")
    assert code == 2
    assert "names contain #" in err
    assert not (tmp_path / "out").exists()
