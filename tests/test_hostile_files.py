"""Hostile and broken files: one clear line, exit code 2, and nothing written."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_helpers import run
from hostile import CASES, Case, Seeds, make_seeds

pytest.importorskip("duckdb")
pytest.importorskip("networkx")

# Seconds after which a command is taken to hang.
PATIENCE = 60
# Bytes of address space: numba and Arrow reserve much more than they use.
MOST_MEMORY = 6 * 2**30


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Seeds:
    return make_seeds(tmp_path_factory.mktemp("seeds"))


class HangsError(BaseException):
    """Not an error that any reader would take for its own."""


@pytest.fixture(autouse=True)
def alarm() -> Iterator[None]:
    """End a command that hangs."""

    def ring(*_: object) -> None:
        raise HangsError

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(PATIENCE)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def listing(folder: Path) -> list[str]:
    return sorted(found.relative_to(folder).as_posix() for found in folder.rglob("*"))


def check_refused(code: int, out: str, err: str) -> None:
    assert code == 2, err
    assert err.startswith("nodeproof: "), err
    assert err.count("\n") == 1, err
    assert "Traceback" not in err
    assert "\x1b" not in err
    assert len(err) < 1000
    assert out == ""


def test_there_are_many_of_them_and_none_twice() -> None:
    assert len(CASES) >= 200
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_is_refused_in_one_line(
    case: Case, seeds: Seeds, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, temporary = tmp_path / "given", tmp_path / "tmp"
    folder.mkdir()
    temporary.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    command = case.make(folder, seeds)
    before, kept = listing(folder), listing(seeds.folder)
    check_refused(*run(capsys, *command))
    assert listing(folder) == before
    assert listing(temporary) == []
    assert listing(seeds.folder) == kept


ALONE = [
    "gzip: a bomb of text",
    "archive: a bomb of features",
    "model: a link to nowhere",
    "path: a pipe, .csv",
    "edges: a line of ten megabytes",
    "edges: random bytes",
    "archive: Python objects",
    "archive: an index beyond",
    "mtx: a million million nodes",
    "graphml: entities",
    "model: a bomb",
    "certificate: links that decrease",
    "graph folder: a link to nowhere",
]

# One process for all: what it imports takes longer than the commands.
REFUSALS = """
import contextlib, json, os, sys
from nodeproof.cli import main

for folder, command in json.load(sys.stdin):
    os.chdir(folder)
    with open(f"{folder}.out", "w") as out, open(f"{folder}.err", "w") as err:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main(command)
            except SystemExit as ended:
                print(ended.code, file=sys.__stdout__)
"""


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


def test_a_process_of_its_own_refuses_it_in_little_memory(seeds: Seeds, tmp_path: Path) -> None:
    known = {case.name: case for case in CASES}
    commands, before = [], []
    for number, name in enumerate(ALONE):
        folder = tmp_path / str(number)
        folder.mkdir()
        command = [str(part) for part in known[name].make(folder, seeds)]
        commands.append([str(folder), command])
        before.append(listing(folder))
    ended = subprocess.run(
        [sys.executable, "-c", REFUSALS],
        input=json.dumps(commands),
        env={**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
        preexec_fn=limit_memory,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    codes = [int(line) for line in ended.stdout.split()]
    for (folder, _), code, there in zip(commands, codes, before, strict=True):
        check_refused(code, Path(f"{folder}.out").read_text(), Path(f"{folder}.err").read_text())
        assert listing(Path(folder)) == there
