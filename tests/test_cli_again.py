"""A second fit into the folder of the first: nothing there may speak of the first any more."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from cli_helpers import run, write
from nodeproof import NodeClassifier
from nodeproof.certificate import Certificate
from nodeproof.certificate.labelling.verify import why_not_about
from nodeproof.cli import main
from nodeproof.datasets import make_planted
from nodeproof.storage.atomic import atomic_folder

ALWAYS = ["model.npz", "predictions.csv", "summary.json"]
SOMETIMES = [
    "certificate.csv", "certificate.json", "certificate.npz", "certificate.png", "query.csv",
    "report.html",
]  # fmt: skip


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """Links and labels, and all that a fit and a certificate of them write."""
    folder = tmp_path_factory.mktemp("first")
    data = make_planted(3, 30, p=0.4, random_state=0)
    A = sp.triu(data.graph).tocoo()
    links = [[f"n{u}", f"n{v}"] for u, v in zip(A.row, A.col, strict=True)]
    write(folder / "edges.csv", [["a", "b"], *links])
    labels = [[f"n{v}", f"c{data.y[v]}"] for v in np.flatnonzero(data.y >= 0)]
    write(folder / "labels.csv", [["node", "label"], *labels])
    out = folder / "out"
    options = ["--labels", folder / "labels.csv", "--query", 3, "--report", "--out", out]
    # Links by themselves: in a pool of experts there would be nothing left to prove of them.
    options += ["--source-weights", "calibrated"]
    for command in (["fit", folder / "edges.csv", *options], ["certify", out]):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in command])
        assert not ended.value.code
    assert names_in(out) == sorted([*ALWAYS, *SOMETIMES])
    return folder


@pytest.fixture
def results(first, tmp_path, monkeypatch):
    """A copy of it, to write to; what is there is named by relative paths."""
    shutil.copytree(first, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "out"


def test_a_fit_removes_what_spoke_of_the_one_before_and_says_so(capsys, results):
    (results / "mine.txt").write_text("mine")
    (results / "certificate").mkdir()
    code, _, err = run(capsys, "fit", "edges.csv", "--classes", 2, "--out", "out")
    assert code == 0
    assert names_in(results) == sorted([*ALWAYS, "certificate", "mine.txt"])
    said = " ".join(err.split())
    assert "removed from out" in said
    assert all(name in said for name in SOMETIMES)
    notes = json.loads((results / "summary.json").read_text(encoding="utf-8"))["notes"]
    assert any("certificate.npz" in note for note in notes)


def test_what_the_new_fit_writes_itself_is_not_called_removed(capsys, results):
    old = (results / "query.csv").read_text()
    arguments = ["fit", "edges.csv", "--labels", "labels.csv", "--seed", 3, "--query", 2,
                 "--report", "--proof-budget", 0, "--json", "--out", "out"]  # fmt: skip
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert names_in(results) == sorted([*ALWAYS, "query.csv", "report.html"])
    assert (results / "query.csv").read_text() != old
    (note,) = (note for note in json.loads(out)["notes"] if "removed" in note)
    assert "certificate.npz" in note
    assert "report.html" not in note
    # Another time nothing is left to remove.
    _, out, _ = run(capsys, *arguments)
    assert not any("removed" in note for note in json.loads(out)["notes"])


def test_files_of_the_user_stay_whatever_their_names(capsys, results):
    (results / "report.html").write_text("<title>My own report</title>")
    (results / "query.csv").write_text("node,question\nn1,why?\n")
    (results / "certificate.png").write_text("no picture")
    run(capsys, "fit", "edges.csv", "--classes", 2, "--out", "out")
    mine = ["certificate.png", "query.csv", "report.html"]
    assert names_in(results) == sorted([*ALWAYS, *mine])


def test_a_folder_without_a_fit_loses_nothing(capsys, results):
    (results / "model.npz").unlink()
    _, _, err = run(capsys, "fit", "edges.csv", "--classes", 2, "--out", "out")
    assert names_in(results) == sorted([*ALWAYS, *SOMETIMES])
    assert "removed" not in err


def test_what_a_fit_is_made_from_stays(capsys, results):
    """People fill in query.csv and give it back."""
    code, _, _ = run(capsys, "fit", "edges.csv", "--labels", "out/query.csv", "--classes", 3,
                     "--id", "node", "--label", "label", "--out", "out")  # fmt: skip
    assert code == 0
    assert names_in(results) == sorted([*ALWAYS, "query.csv"])


def test_a_fit_that_cannot_be_written_removes_nothing(capsys, results, monkeypatch):
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    before = {path.name: path.read_bytes() for path in results.iterdir()}
    code, _, _ = run(capsys, "fit", "edges.csv", "--classes", 2, "--out", "out")
    assert code == 2
    assert {path.name: path.read_bytes() for path in results.iterdir()} == before


def test_named_files_go_when_the_others_come(tmp_path):
    for name in "abc":
        (tmp_path / name).write_text("old")
    with atomic_folder(tmp_path, without=["b", "nowhere"]) as temporary:
        (temporary / "a").write_text("new")
        assert (tmp_path / "b").exists()
    assert names_in(tmp_path) == ["a", "c"]


# A certificate beside a model that it is not about. -------------------------------------


@pytest.fixture
def mixed(capsys, results):
    """The model of a second fit beside the certificate of the first."""
    kept = (results / "certificate.npz").read_bytes()
    run(capsys, "fit", "edges.csv", "--classes", 2, "--out", "out")
    (results / "certificate.npz").write_bytes(kept)
    return results


def test_the_certificate_of_another_fit_is_not_confirmed(capsys, mixed):
    code, out, _ = run(capsys, "certify", "out", "--verify")
    assert code == 1
    assert out.startswith("refused: ")
    assert "another fit" in out
    assert out.count("\n") == 1
    code, out, _ = run(capsys, "certify", "out", "--verify", "--json")
    assert code == 1
    said = json.loads(out)
    assert said["confirmed"] is False
    assert "another fit" in said["reason"]
    # Nor where it is asked for by its file.
    assert run(capsys, "certify", "out/certificate.npz", "--verify")[0] == 1
    # Another search mends it.
    run(capsys, "certify", "out", "--time-budget", 0)
    assert run(capsys, "certify", "out", "--verify")[0] == 0


def test_the_certificate_of_another_fit_is_in_no_report(capsys, mixed):
    code, _, err = run(capsys, "report", "out")
    assert code == 0
    assert "another fit" in err
    assert "No proof was searched for" in (mixed / "report.html").read_text(encoding="utf-8")


@pytest.fixture
def known(results):
    """A model and its certificate."""
    return NodeClassifier.load(results / "model.npz"), Certificate.load(results / "certificate.npz")


@pytest.mark.parametrize("part", ["adjacency", "eta", "w", "costs"])
def test_links_and_costs_tell_fits_apart(known, part):
    model, proof = known
    assert not why_not_about(proof, model)
    other = replace(proof.instance, **{part: 2 * getattr(proof.instance, part)})
    assert "other links or costs" in why_not_about(replace(proof, instance=other), model)


def test_nodes_tell_fits_apart(known):
    model, proof = known
    fitted = model.fitted_
    assert not why_not_about(proof, fitted)
    assert "other nodes" in why_not_about(proof, replace(fitted, proba=fitted.proba[:-1]))


def test_a_model_without_links_tells_nothing(known):
    model, proof = known
    without = replace(model.fitted_, saved_problem=None, data=None)
    assert "nothing to check it against" in why_not_about(proof, without)


def test_no_certificate_of_links_is_about_a_model_that_has_none(known):
    model, proof = known
    assert why_not_about(replace(proof, instance=None), model)
    none = replace(model.fitted_, saved_problem="a certificate needs one affinity for all classes")
    assert not why_not_about(replace(proof, instance=None), none)
    assert why_not_about(proof, none)


@pytest.mark.parametrize(
    "name", ["model.npz", "predictions.csv", "summary.json", "query.csv", "certificate.npz"]
)
def test_a_report_takes_the_place_of_no_other_result(capsys, results, name):
    before = (results / name).read_bytes()
    code, _, err = run(capsys, "report", "out", "--out", f"out/{name}")
    assert code == 2
    assert "would overwrite" in err
    assert (results / name).read_bytes() == before


def test_a_fit_takes_the_place_of_nothing_it_reads(capsys, results):
    """People fill in query.csv, give it back, and ask for more."""
    before = (results / "query.csv").read_bytes()
    code, _, err = run(capsys, "fit", "edges.csv", "--labels", "out/query.csv", "--query", 3,
                       "--out", "out")  # fmt: skip
    assert code == 2
    assert "would overwrite the input out/query.csv" in err.replace("\\", "/")
    assert (results / "query.csv").read_bytes() == before
