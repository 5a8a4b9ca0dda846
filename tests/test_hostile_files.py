"""Hostile and broken files: one clear line, exit code 2, and nothing written."""

from __future__ import annotations

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
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in (
            "edges: a line of ten megabytes",
            "edges: random bytes",
            "archive: Python objects",
            "archive: an index beyond",
            "mtx: a million million nodes",
            "graphml: entities",
            "model: a bomb",
            "certificate: links that decrease",
            "graph folder: a link to nowhere",
        )
    ),
]


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


@pytest.mark.parametrize("name", ALONE)
def test_a_process_of_its_own_refuses_it_in_little_memory(
    name: str, seeds: Seeds, tmp_path: Path
) -> None:
    case = next(case for case in CASES if case.name == name)
    command = [str(part) for part in case.make(tmp_path, seeds)]
    before = listing(tmp_path)
    ended = subprocess.run(
        [sys.executable, "-m", "nodeproof", *command],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
        preexec_fn=limit_memory,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    check_refused(ended.returncode, ended.stdout, ended.stderr)
    assert listing(tmp_path) == before
