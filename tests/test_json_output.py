"""With ``--json``, the standard output is one JSON document and nothing else, for every command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest

from cli_helpers import run
from hostile import Seeds, make_seeds
from nodeproof.certificate import Certificate
from nodeproof.cli import cli


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Seeds:
    return make_seeds(tmp_path_factory.mktemp("seeds"))


def strictly(text: str) -> Any:
    """Read JSON as the standard has it: without NaN and Infinity."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def fit_command(seeds: Seeds, out: Path) -> list[Any]:
    given = seeds.folder
    tables = ["--features", given / "features.csv", "--labels", given / "labels.csv"]
    return ["fit", given / "edges.csv", *tables, "--out", out, "--query", "3", "--max-iter", "1"]


COMMANDS = {
    "fit": fit_command,
    "predict": lambda seeds, out: [
        "predict", seeds.folder, "--edges", new_links(seeds), "--features",
        seeds.folder / "new.csv", "--out", out,
    ],
    "update": lambda seeds, out: [
        "update", seeds.folder, "--labels", truth(seeds), "--out", out,
    ],
    "certify": lambda seeds, out: ["certify", seeds.folder, "--time-budget", "0"],
    "certify --verify": lambda seeds, out: ["certify", seeds.folder, "--verify"],
    "convert": lambda seeds, out: ["convert", seeds.folder / "edges.csv", out],
    "convert --verify": lambda seeds, out: ["convert", seeds.folder / "graph", "--verify"],
    "report": lambda seeds, out: ["report", seeds.folder, "--out", out],
    "data list": lambda seeds, out: ["data", "list"],
    "data get": lambda seeds, out: ["data", "get", "karate", "--out", out],
    "demo": lambda seeds, out: ["demo", "--out", out],
    "example": lambda seeds, out: ["example", out],
    "evaluate": lambda seeds, out: ["evaluate", seeds.folder, truth(seeds), "--all"],
    "compare": lambda seeds, out: ["compare", seeds.folder, seeds.folder, "--out", out],
}  # fmt: skip

# Tested where they are: they take long, or answer requests until they are stopped.
ELSEWHERE = {"label", "reproduce", "warmup"}


def new_links(seeds: Seeds) -> Path:
    (seeds.folder / "new.csv").write_text("node,x0,x1,x2\nnew,1,1,1\n")
    (seeds.folder / "links.csv").write_text("source,target\nnew,v00\nnew,newer\nv01,v02\n")
    (seeds.folder / "new.csv").write_text("node,x0,x1,x2\nnew,1,1,1\nnewer,1,1,1\n")
    return seeds.folder / "links.csv"


def truth(seeds: Seeds) -> Path:
    """Write the labels by the names that the model has for its classes."""
    labels = (seeds.folder / "labels.csv").read_text(encoding="utf-8")
    (seeds.folder / "truth.csv").write_text(labels.replace("class ", ""), encoding="utf-8")
    return seeds.folder / "truth.csv"


def commands_with_json(group: click.Group, prefix: str = "") -> set[str]:
    found = set()
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            found |= commands_with_json(command, f"{name} ")
        elif any("--json" in parameter.opts for parameter in command.params):
            found.add(prefix + name)
    return found


def test_every_command_is_tested() -> None:
    assert commands_with_json(cli) == {
        name.removesuffix(" --verify") for name in COMMANDS
    } | ELSEWHERE  # fmt: skip


@pytest.mark.filterwarnings("ignore:the data do not tell")
@pytest.mark.parametrize("name", COMMANDS)
def test_the_output_is_one_document(
    name: str, seeds: Seeds, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("duckdb", "networkx", "matplotlib"):
        pytest.importorskip(package)
    # Even where there is a terminal, and long before a progress line would be due.
    monkeypatch.setattr(import_module("nodeproof.cli.console"), "_PATIENCE", 0.0)
    demo = import_module("nodeproof.cli.demo")
    monkeypatch.setattr(demo, "_TIME_BUDGET", 0.0)
    monkeypatch.setattr(demo, "DATA", {"the paper's default": {"cluster_size": 20}})
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        code, out, err = run(capsys, *COMMANDS[name](seeds, tmp_path / "out"), "--json")
    assert code == 0, err
    assert strictly(out)
    assert out.startswith(("{", "["))


def test_a_refused_certificate_is_a_document_too(seeds: Seeds, tmp_path: Path, capsys) -> None:
    proof = Certificate.load(seeds.folder / "certificate.npz")
    replace(proof, lower_bound=proof.objective + 1.0).save(tmp_path / "certificate.npz")
    code, out, err = run(capsys, "certify", tmp_path, "--verify", "--json")
    assert (code, err) == (1, "")
    assert strictly(out)["lower_bound"] is None


@pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals")
def test_a_terminal_gets_one_document_too(seeds: Seeds, tmp_path: Path) -> None:
    import pty

    ours, theirs = pty.openpty()
    command = [*map(str, fit_command(seeds, tmp_path / "out")), "--json"]
    process = subprocess.Popen(
        [sys.executable, "-W", "always", "-m", "nodeproof", *command],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        env={**os.environ, "FORCE_COLOR": "1", "TERM": "xterm-256color"},
    )
    os.close(theirs)
    printed = b""
    while True:
        try:
            block = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not block:
            break
        printed += block
    process.communicate(timeout=60)
    os.close(ours)
    assert process.returncode == 0
    assert b"\x1b" not in printed
    assert strictly(printed.decode())["nodes"] == 60
