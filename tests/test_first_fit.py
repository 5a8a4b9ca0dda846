"""The first fit on a machine compiles, and the command says so."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from cli_helpers import run, write
from nodeproof.kernels.memberships import sweep_batches
from nodeproof.kernels.primitives import is_compiled


def test_a_folder_without_compiled_loops_is_told_apart(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert not is_compiled()
    kept = Path(sweep_batches._cache._cache_file._index_path)  # as numba names it
    (tmp_path / "kernels_0a1b").mkdir()
    (tmp_path / "kernels_0a1b" / kept.name).touch()
    assert is_compiled()


def test_it_is_said_but_not_beside_json(tmp_path: Path, capsys, monkeypatch):
    # By its name in the package, `fit` is the command.
    monkeypatch.setattr(import_module("nodeproof.cli.fit"), "is_compiled", lambda: False)
    links = write(tmp_path / "edges.csv", [["a", "b"], ["x", "y"], ["y", "z"], ["z", "x"]])
    arguments = ("fit", links, "--classes", 1, "--out", tmp_path / "out")
    assert "first fit compiles" in run(capsys, *arguments)[2]
    assert run(capsys, *arguments, "--json")[2] == ""
