"""Nothing but `datasets.load` and `nodeproof data get` ever asks for a network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nodeproof.datasets.fetching import REGISTRY

# Python runs a module of this name first, in every process. It refuses what has to do with sockets
# and takes note of it: a caught exception would not be seen.
GUARD = """
import os, sys

def refuse(event, arguments):
    if event.startswith(("socket.", "http.client.", "urllib.", "ftplib.", "smtplib.")):
        with open(os.environ["NETWORK_LOG"], "a") as log:
            print(event, arguments, file=log)
        raise ConnectionRefusedError("no network here")

sys.addaudithook(refuse)
"""

IMPORTS = """
import importlib, pkgutil
import nodeproof

names = [found.name for found in pkgutil.walk_packages(nodeproof.__path__, "nodeproof.")]
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
assert len(names) > 100
"""

WORK = """
import csv
from nodeproof import NodeClassifier
from nodeproof.cli import main
from nodeproof.datasets import make_planted

def run(*arguments):
    try:
        main(list(arguments))
    except SystemExit as ended:
        assert not ended.code, arguments

data = make_planted(cluster_size=20, p=0.4, omega=0.3, random_state=0)
clf = NodeClassifier(random_state=0, n_jobs=2).fit(data.X, data.y, graph=data.graph)
clf.save("model.npz")
clf = NodeClassifier.load("model.npz")
clf.certify(time_budget=1)
clf.report("report.html")

with open("edges.csv", "w", newline="") as file:
    csv.writer(file).writerows(zip(*data.graph.nonzero()))
with open("labels.csv", "w", newline="") as file:
    csv.writer(file).writerows((i, y) for i, y in enumerate(data.y) if y >= 0)
run("fit", "edges.csv", "--labels", "labels.csv", "--out", "fitted", "--report")
run("certify", "fitted", "--time-budget", "1", "--json")
run("report", "fitted")
run("convert", "edges.csv", "graph")
run("data", "list")
"""

# What fails here would else have been fetched.
FETCH = """
from nodeproof.datasets import load
from nodeproof.errors import InputError

try:
    load("cora")
except InputError as error:
    assert "cannot fetch https://" in str(error), error
else:
    raise AssertionError("it was fetched")
"""


# One process for all of it: most of its time it would import.
STEPS = {"imports": IMPORTS, "work": WORK, "fetch": FETCH}
RUN = """
import os
for step, code in {steps!r}.items():
    with open(os.environ["NETWORK_LOG"], "a") as log:
        print("step", step, file=log)
    exec(code, {{}})
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[str]]]:
    """Run each step where nothing can be reached; return what each tried, in any process."""
    folder = tmp_path_factory.mktemp("offline")
    guard = folder / "guard"
    guard.mkdir()
    (guard / "sitecustomize.py").write_text(GUARD)
    log = folder / "network.log"
    environment = {
        **{key: value for key, value in os.environ.items() if key != "NODEPROOF_DATA"},
        "PYTHONPATH": os.pathsep.join([str(guard), os.environ.get("PYTHONPATH", "")]).rstrip(":"),
        "NETWORK_LOG": str(log),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "MPLBACKEND": "agg",
    }
    command = [sys.executable, "-c", RUN.format(steps=STEPS)]
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    tried: dict[str, list[str]] = {}
    for line in log.read_text().splitlines():
        if line.startswith("step "):
            step = tried.setdefault(line.removeprefix("step "), [])
        else:
            step.append(line)
    return folder, tried


def test_no_module_asks_for_a_network_when_it_is_imported(done):
    assert done[1]["imports"] == []


def test_no_work_asks_for_a_network(done):
    folder, tried = done
    assert tried["work"] == []
    assert {"model.npz", "report.html"} <= {file.name for file in (folder / "fitted").iterdir()}


def test_a_fetch_does_and_says_so_where_there_is_none(done):
    assert done[1]["fetch"]


@pytest.mark.parametrize("source", REGISTRY.values(), ids=REGISTRY)
def test_data_sets_come_by_https(source):
    assert source.home.startswith("https://")
