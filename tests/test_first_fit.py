"""The first fit on a machine: what it compiles, what it says, and what never waits."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from cli_helpers import run as run_command
from nodeproof import kernels
from nodeproof.kernels import dispatch
from nodeproof.kernels.dispatch import LITTLE, Kernel
from nodeproof.runtime import logs

# Lists the functions of ours that a process compiles.
LISTEN = """
import sys
from numba.core import event

class Listener(event.Listener):
    def on_start(self, event):
        function = event.data["dispatcher"].py_func
        if function.__module__.startswith("nodeproof."):
            print("compiled", function.__name__)

    def on_end(self, event):
        pass

event.register("numba:compile", Listener())
"""

SIX = """
import numpy as np
from nodeproof import NodeClassifier
edges = np.array([[0, 0, 1, 3, 3, 4, 2], [1, 2, 2, 4, 5, 5, 3]])
print(*NodeClassifier(random_state=0).fit(y=["a", "", "", "", "", "b"], graph=edges).labels_)
"""

README = """
from nodeproof import NodeClassifier
from nodeproof.datasets import make_planted
data = make_planted(p=0.08, omega=0.2, label_accuracy=0.8, random_state=0)
NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
"""


def run(code: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder), "NUMBA_DISABLE_JIT": "0"}
    command = [sys.executable, *(options or ("-c", code))]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment)


def test_six_nodes_are_labelled_without_compilation(tmp_path):
    done = run(LISTEN + SIX, tmp_path)
    assert (done.stdout, done.stderr) == ("a a a b b b\n", "")


@pytest.fixture(scope="module")
def warm(tmp_path_factory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """Return a folder with what a warm-up has compiled, and its output."""
    folder = tmp_path_factory.mktemp("warm")
    return folder, run("", folder, "-m", "nodeproof", "warmup", "--json")


@pytest.mark.slow
def test_after_a_warm_up_a_fit_compiles_nothing(warm):
    assert run(LISTEN + README, warm[0]).stdout == ""


@pytest.mark.slow
def test_a_warm_up_compiles_into_the_cache(warm):
    folder, done = warm
    found = json.loads(done.stdout)
    assert found["compiled"] >= 10
    assert Path(found["folder"]).is_relative_to(folder)
    assert done.stderr == ""


def test_a_warm_up_says_what_it_does(capsys, monkeypatch):
    steps = import_module("nodeproof.cli.warmup")
    for name in ("_fit", "_certify", "_predict"):
        monkeypatch.setattr(steps, name, lambda **settings: None)
    code, out, _ = run_command(capsys, "warmup")
    assert code == 0
    assert out.startswith("1 of ")
    assert ": fits\n" in out
    assert "compiled " in out


def sized(size: int) -> list[np.ndarray]:
    return [np.zeros(size - 1), np.ones(1)]


def test_size_alone_decides_whether_a_kernel_runs_as_python():
    called = []
    kernel = Kernel(lambda *arguments: called.append("compiled"))
    kernel.plain = lambda *arguments: called.append("plain")
    for size in (LITTLE, LITTLE + 1):
        kernel(7, *sized(size))
    assert called == ["plain", "compiled"]


class Clock:
    """A clock that goes on by two thirds of a second whenever somebody looks."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 2 / 3
        return self.now


class Compiled:
    """The event that a function of a module is compiled."""

    def __init__(self, module: str) -> None:
        function = type("function", (), {"__module__": module})
        self.data = {"dispatcher": type("dispatcher", (), {"py_func": function})}


@pytest.fixture
def notice(monkeypatch):
    monkeypatch.setattr(dispatch, "time", Clock())
    monkeypatch.setattr(logs, "_configured", lambda: False)  # pytest listens
    return dispatch._Notice()


def compile_twice(notice, module: str = "nodeproof.kernels.nodes") -> None:
    for _ in range(2):
        notice.on_start(Compiled(module))
        notice.on_end(Compiled(module))


def test_a_second_of_compilation_is_announced_once(notice, capsys):
    compile_twice(notice)
    compile_twice(notice)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("nodeproof: compiling for this machine")
    assert said.err.count("\n") == 1


def test_what_others_compile_is_not(notice, capsys):
    compile_twice(notice, "mine")
    assert capsys.readouterr().err == ""


def test_it_is_silent_where_nobody_shall_say_it(notice, capsys):
    with logs.announced_by(None):
        compile_twice(notice)
    assert capsys.readouterr().err == ""


def test_it_is_logged_where_logging_is_configured(notice, caplog, monkeypatch):
    monkeypatch.setattr(logs, "_configured", lambda: True)
    with caplog.at_level(logging.INFO, "nodeproof"):
        compile_twice(notice)
    assert [record.levelname for record in caplog.records] == ["INFO"]


def test_kernels_are_all_chosen_by_size():
    found = {name for name in kernels.__all__ if not isinstance(getattr(kernels, name), Kernel)}
    assert found == {"lanes", "workspace"}
