"""Names that a spreadsheet would evaluate: written as they are, or on request made safe."""

from __future__ import annotations

import csv
import zipfile
from pathlib import Path

import pytest

from cli_helpers import run, write
from nodeproof import NodeClassifier

NODES = ["=1+1", "+a", "-b", "@c", "\tx", "plain"]
CLASSES = ["=cmd|' /C calc'!A0", "-safe"]


@pytest.fixture
def fitted(capsys, tmp_path, monkeypatch) -> Path:
    """A folder with links, features and labels whose names look like formulas."""
    monkeypatch.chdir(tmp_path)
    names = [f"{name} {k}" for k in range(4) for name in NODES]
    half = len(names) // 2
    pairs = [(u, v) for part in (names[:half], names[half:]) for u in part for v in part if u < v]
    # Quoted, or the tab would be trimmed as white space around a field.
    write(tmp_path / "edges.csv", [["source", "target"], *pairs, [names[0], names[-1]]])
    labels = [[name, CLASSES[k >= half]] for k, name in enumerate(names)]
    write(tmp_path / "labels.csv", [["node", "label"], *labels[::2]])
    write(
        tmp_path / "features.csv",
        [["node", "x"], *([name, 5 * (k >= half) + k % 3] for k, name in enumerate(names))],
    )
    write(tmp_path / "new.csv", [["node", "x"], ["=new", 0.5], ["@new", 6.5]])
    return tmp_path


def cells(path: str) -> list[str]:
    """Return all cells of a CSV file below the header."""
    with Path(path).open(newline="") as file:
        return [cell for row in list(csv.reader(file))[1:] for cell in row]


COMMANDS = [
    (["fit", "edges.csv", "--features", "features.csv", "--labels", "labels.csv", "--query", "2",
      "--out", "o"], ["o/predictions.csv", "o/query.csv"]),
    (["certify", "o", "--time-budget", "0"], ["o/certificate.csv"]),
    (["predict", "o", "--features", "new.csv", "--out", "p.csv"], ["p.csv"]),
]  # fmt: skip


def test_no_cell_begins_a_formula_if_that_is_asked_for(capsys, fitted):
    for arguments, files in COMMANDS:
        code, _, err = run(capsys, *arguments, "--safe-csv")
        assert code == 0, err
        for file in files:
            found = cells(file)
            assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in found)
            assert any(cell.startswith(("'=", "'@")) for cell in found)
    # The model has the names as they are.
    clf = NodeClassifier.load("o/model.npz")
    assert sorted(clf.classes_) == sorted(CLASSES)
    assert "=1+1 0" in clf.node_ids_.tolist()


def test_names_are_written_as_they_are_by_default(capsys, fitted):
    for arguments, files in COMMANDS:
        code, _, err = run(capsys, *arguments)
        assert code == 0, err
        for file in files:
            assert any(cell.startswith(("=", "@")) for cell in cells(file))


def test_numbers_stay_numbers(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "e.csv", [["source", "target"], [-1, -2], [-2, -3], [-3, -1]])
    code, _, err = run(capsys, "fit", "e.csv", "--classes", 1, "--safe-csv", "--out", "o")
    assert code == 0, err
    assert cells("o/predictions.csv")[0] == "-3"


def test_a_model_holds_no_paths_of_the_machine(capsys, fitted):
    (fitted / "private").mkdir()
    labels = fitted / "private" / "labels.csv"
    (fitted / "labels.csv").rename(labels)
    code, _, err = run(
        capsys, "fit", fitted / "edges.csv", "--labels", labels, "--out", fitted / "o", "--jobs", 1,
        "--checkpoint", fitted / "private" / "state", "--seed", 3,
    )  # fmt: skip
    assert code == 0, err
    clf = NodeClassifier.load("o/model.npz")
    assert (
        clf.fitted_.findings.command
        == "nodeproof fit edges.csv --labels labels.csv --seed 3 --out o"
    )
    with zipfile.ZipFile("o/model.npz") as parts:
        assert not any(b"private" in parts.read(name) for name in parts.namelist())
    assert "private" not in Path("o/summary.json").read_text()
