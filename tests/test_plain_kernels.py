"""Kernels that run as Python do what they do compiled, if slowly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nodeproof import NodeClassifier
from nodeproof.cli import main
from nodeproof.datasets import make_planted
from nodeproof.kernels import dispatch
from nodeproof.terms import Gaussian, Labels, Softmax

# Numbers of classes, weights of links and settings that lead to all kernels of a fit.
FITS = {
    "few classes": (2, 1.0, {"terms": [Gaussian(), Labels()]}),
    "four lanes": (5, 1.0, {"terms": [Gaussian(), Labels()]}),
    "eight lanes, weighted": (9, 1.5, {"terms": [Gaussian(), Labels()]}),
    "hard": (3, 1.5, {"terms": [Gaussian(), Labels()], "temperature": 0}),
    "softmax": (3, 1.0, {"terms": [Softmax(hops=1), Labels()]}),
}

COMMANDS = [
    ["fit", "edges.csv", "--labels", "labels.csv", "--out", "out", "--json"],
    ["predict", "out", "--edges", "new.csv", "--out", "new-predictions.csv", "--json"],
    ["certify", "out", "--time-budget", "1", "--json"],
    ["convert", "edges.csv", "graph", "--json"],
]


def fit_all() -> dict[str, list[int]]:
    """Return the labels of some small fits, with weights of links and without."""
    found = {}
    for name, (K, weight, settings) in FITS.items():
        data = make_planted(K, 8, p=0.9, q=0.02, label_ratio=0.3, random_state=0)
        fit = NodeClassifier(weights="calibrated", n_init=1, n_jobs=2, random_state=0)
        fit.set_params(**settings).fit(data.X, data.y, graph=weight * data.graph)
        found[name] = fit.labels_.tolist()
    return found


@pytest.mark.numeric
def test_every_call_of_a_kernel_gives_the_same_bits(monkeypatch):
    """So that it does not matter which of both runs near the size where the other takes over."""
    compared, different = set(), set()

    def call_both(kernel, *arguments):
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        compared.add(kernel.__name__)
        with np.errstate(all="ignore"):  # as where kernels are called
            told, found = kernel.plain(*copies), kernel.compiled(*arguments)
        pairs = [*zip(copies, arguments, strict=True), (told, found)]
        if not all(same_bits(plain, compiled) for plain, compiled in pairs):
            different.add(kernel.__name__)
        return found

    monkeypatch.setattr(dispatch.Kernel, "__call__", call_both)
    fit_all()
    data = make_planted(3, 12, p=0.8, q=0.2, omega=0.8, label_ratio=0.2, random_state=0)
    fit = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
    fit.certify(time_budget=1.0)
    kinds = {"one": data.graph, "other": make_planted(3, 12, p=0.6, q=0.2, random_state=1).graph}
    NodeClassifier(weights="calibrated", random_state=0).fit(data.X, data.y, graph=kinds)
    expected = {"sweep_batches", "product_rows", "believe_batches", "receive_rows", "settle"}
    assert expected <= compared
    assert different == set()


def same_bits(a: object, b: object) -> bool:
    if isinstance(a, tuple):
        return all(same_bits(x, y) for x, y in zip(a, b, strict=True))
    return a is b or np.asarray(a).tobytes() == np.asarray(b, np.asarray(a).dtype).tobytes()


def run_commands() -> None:
    """Run the commands, all in this process."""
    for command in COMMANDS:
        with pytest.raises(SystemExit) as ended:
            main(command)
        assert not ended.value.code, command


@pytest.fixture(scope="module")
def plainly(tmp_path_factory) -> tuple[Path, dict[str, list[int]]]:
    """Run everything in one process; return its folder and what its fits found.

    The commands get two groups of six that are all linked, with one link between them.
    """
    folder = tmp_path_factory.mktemp("plain")
    pairs = [(f"{g}{u}", f"{g}{v}") for g in "ab" for u in range(6) for v in range(u)]
    lines = [f"{u},{v}\n" for u, v in [*pairs, ("a0", "b0")]]
    (folder / "edges.csv").write_text("source,target\n" + "".join(lines))
    (folder / "labels.csv").write_text("node,label\na1,left\nb1,right\n")
    (folder / "new.csv").write_text("source,target\nnew,a1\nnew,a2\n")
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(paths)}
    code = (
        "import json, test_plain_kernels as test; test.run_commands();"
        "json.dump(test.fit_all(), open('found.json', 'w'))"
    )
    run = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", code],
        env=os.environ | environment,
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    return folder, json.loads((folder / "found.json").read_text())


def test_fits_find_the_same(plainly):
    assert plainly[1] == fit_all()


def test_commands_run(plainly):
    folder, _ = plainly
    assert (folder / "new-predictions.csv").read_text().splitlines()[1].startswith('"new","left",')
    assert (folder / "graph" / "graph.json").exists()
