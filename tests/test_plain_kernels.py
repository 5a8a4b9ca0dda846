"""Without compilation (NUMBA_DISABLE_JIT=1) all works as it does with it, if slowly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nodeproof import NodeClassifier
from nodeproof.cli import main
from nodeproof.datasets import make_planted
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


def run_commands() -> None:
    """Run the commands, all in this process."""
    for command in COMMANDS:
        with pytest.raises(SystemExit) as ended:
            main(command)
        assert not ended.value.code, command


def run_plainly(code: str, folder: Path) -> str:
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(paths)}
    code = f"import json, test_plain_kernels as test; {code}"
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", code]
    run = subprocess.run(
        command, env=os.environ | environment, cwd=folder, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_fits_find_the_same(tmp_path):
    assert json.loads(run_plainly("print(json.dumps(test.fit_all()))", tmp_path)) == fit_all()


@pytest.fixture
def links(tmp_path):
    """Two groups of six that are all linked, with one link between them."""
    pairs = [(f"{g}{u}", f"{g}{v}") for g in "ab" for u in range(6) for v in range(u)]
    lines = [f"{u},{v}\n" for u, v in [*pairs, ("a0", "b0")]]
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(lines))
    (tmp_path / "labels.csv").write_text("node,label\na1,left\nb1,right\n")
    (tmp_path / "new.csv").write_text("source,target\nnew,a1\nnew,a2\n")
    return tmp_path


def test_commands_run(links):
    run_plainly("test.run_commands()", links)
    assert (links / "new-predictions.csv").read_text().splitlines()[1].startswith('"new","left",')
    assert (links / "graph" / "graph.json").exists()
