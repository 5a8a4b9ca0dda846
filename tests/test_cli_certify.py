"""`nodeproof certify`: from files to a proof that others can check."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from certificate_helpers import changed, with_instance
from cli_helpers import run, without_advice, write
from nodeproof import NodeClassifier
from nodeproof.certificate import Certificate, Stage
from nodeproof.cli import main
from nodeproof.cli.results import progress_of
from nodeproof.datasets import make_planted
from nodeproof.solvers import BlockCADO

NAMES = np.array(["cat", "dog", "<script>alert(1)</script>"])
IDS = [f"user {v:03d}" for v in range(180)]
WRITTEN = ["certificate.csv", "certificate.json", "certificate.npz", "certificate.png"]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def data():
    return make_planted(cluster_size=60, p=0.3, random_state=0)


@pytest.fixture(scope="module")
def fitted_folder(data, tmp_path_factory):
    """What `nodeproof fit` writes, from files with string ids."""
    folder = tmp_path_factory.mktemp("files")
    links = data.graph.tocoo()
    edges = [[IDS[u], IDS[v]] for u, v in zip(links.row, links.col, strict=True) if u < v]
    write(folder / "edges.csv", [["source", "target"], *edges])
    features = [[i, *x] for i, x in zip(IDS, data.X, strict=True)]
    write(folder / "features.csv", [["node", *"abcdef"], *features])
    labels = [[IDS[v], NAMES[y] if y >= 0 else "?"] for v, y in enumerate(data.y)]
    write(folder / "labels.csv", [["node", "label"], *labels])
    files = ["--features", folder / "features.csv", "--labels", folder / "labels.csv"]
    # Links by themselves: in a pool of experts there would be nothing left to prove of them.
    files += ["--source-weights", "calibrated", "--out", folder / "out"]
    with pytest.raises(SystemExit) as ended:
        main([str(x) for x in ("fit", folder / "edges.csv", *files)])
    assert not ended.value.code
    return folder / "out"


@pytest.fixture
def fitted(fitted_folder, tmp_path):
    """A copy of it, to write to."""
    return Path(shutil.copytree(fitted_folder, tmp_path / "out"))


@pytest.fixture(scope="module")
def certified_folder(fitted_folder, tmp_path_factory):
    """The same with its certificate."""
    folder = Path(shutil.copytree(fitted_folder, tmp_path_factory.mktemp("proof") / "out"))
    with pytest.raises(SystemExit) as ended:
        main(["certify", str(folder)])
    assert not ended.value.code
    return folder


@pytest.fixture
def certified(certified_folder, tmp_path):
    """A copy of that, to write to."""
    return Path(shutil.copytree(certified_folder, tmp_path / "certified"))


# From files to a proof. -----------------------------------------------------------------


def test_certify_writes_the_proof_and_what_it_says_of_every_node(capsys, fitted):
    before = names_in(fitted)
    code, out, err = run(capsys, "certify", fitted)
    assert code == 0, err
    assert names_in(fitted) == sorted([*before, *WRITTEN])
    assert (fitted / "certificate.png").read_bytes().startswith(b"\x89PNG")
    assert "proven to be optimal" in " ".join(out.replace("│", " ").split())
    assert "180 of 180" in out

    model = NodeClassifier.load(fitted / "model.npz")
    with (fitted / "certificate.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["node", "label", "best_label", "certified", "excluded"]
    assert [row["node"] for row in rows] == IDS
    assert [row["label"] for row in rows] == model.labels_.tolist()
    assert {row["certified"] for row in rows} == {"true"}
    proof = Certificate.load(fitted / "certificate.npz")
    assert [row["best_label"] for row in rows] == model.classes_[proof.labels].tolist()
    summary = json.loads((fitted / "certificate.json").read_text(encoding="utf-8"))
    stated = proof.summary()
    # A file does not say how the proof was found.
    for how in ("seconds", "method", "moved", "interrupted"):
        stated.pop(how)
    assert summary.items() >= stated.items()
    assert summary["status"] == "certified"


def test_json_is_all_that_is_printed(capsys, fitted):
    code, out, err = run(capsys, "certify", fitted, "--json")
    assert (code, err) == (0, "")
    printed = json.loads(out)
    assert [Path(path).name for path in printed.pop("written")] == [
        "certificate.npz", "certificate.json", "certificate.csv", "certificate.png",
    ]  # fmt: skip
    assert printed == json.loads((fitted / "certificate.json").read_text(encoding="utf-8"))


def test_the_model_may_be_named_by_its_file(capsys, fitted):
    code, _, _ = run(capsys, "certify", fitted / "model.npz")
    assert code == 0
    assert set(WRITTEN) < set(names_in(fitted))


def test_without_matplotlib_all_but_the_picture_is_written(capsys, fitted, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, out, err = run(capsys, "certify", fitted, "--json")
    assert code == 0
    assert "pip install 'nodeproof[plot]'" in err.replace("\n", " ")
    assert len(json.loads(out)["written"]) == 3
    assert not (fitted / "certificate.png").exists()


def test_names_of_classes_are_not_taken_for_markup(capsys, data, tmp_path):
    names = np.array(["[red]a", "[/b]", "c"])
    y = np.where(data.y >= 0, names[data.y], "")
    clf = NodeClassifier(random_state=0).fit(data.X, y, graph=data.graph)
    clf.save(tmp_path / "model.npz")
    code, _, err = run(capsys, "certify", tmp_path)
    assert code == 0, err
    with (tmp_path / "certificate.csv").open(newline="") as file:
        assert {row["label"] for row in csv.DictReader(file)} == set(names)


# What is not proven. --------------------------------------------------------------------


def hard_model(path: Path) -> NodeClassifier:
    data = make_planted(cluster_size=30, p=0.12, omega=0.3, random_state=0)
    clf = NodeClassifier(weights="calibrated", random_state=0)
    clf.fit(data.X, data.y, graph=data.graph).save(path)
    return clf


def test_without_time_nothing_is_searched_for(capsys, tmp_path):
    hard_model(tmp_path / "model.npz")
    code, out, _ = run(capsys, "certify", tmp_path, "--time-budget", 0, "--json")
    assert code == 0
    summary = json.loads(out)
    assert "blocks" not in summary["method"]
    assert summary["lower_bound"] <= summary["objective"]
    code, out, _ = run(capsys, "certify", tmp_path, "--verify")
    assert code == 0
    assert out.startswith("confirmed: ")


def test_a_larger_tolerance_is_taken_and_stated(capsys, tmp_path):
    hard_model(tmp_path / "model.npz")
    asked = ["certify", tmp_path, "--time-budget", 0, "--tolerance", 1e6]
    code, out, _ = run(capsys, *asked, "--json")
    assert code == 0
    summary = json.loads(out)
    assert (summary["status"], summary["tolerance"]) == ("certified (tolerance 1e+06)", 1e6)
    assert "up to a tolerance of 1e+06" in summary["explanation"]
    code, out, _ = run(capsys, *asked)
    assert code == 0
    assert "certified (tolerance 1e+06)" in out
    # It is confirmed to those who accept as much.
    line = not_confirmed(capsys, tmp_path)
    assert "its tolerance is 1e+06" in line
    code, out, _ = run(capsys, "certify", tmp_path, "--verify", "--tolerance", 1e6)
    assert code == 0
    assert out.startswith("confirmed: ")
    assert "up to a tolerance of 1e+06" in out
    assert "tolerance" in not_confirmed(capsys, tmp_path, "--tolerance", 1e5)
    code, out, err = run(capsys, "certify", tmp_path, "--verify", "--tolerance", "nan")
    assert (code, out) == (2, "")
    assert "tolerance" in err
    # A report shows it with the tolerance that it has.
    assert run(capsys, "report", tmp_path)[0] == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "optimal labelling, up to a tolerance of 1e+06" in page


def test_a_model_with_an_affinity_for_each_two_classes_has_no_certificate(capsys, data, tmp_path):
    solver = BlockCADO(affinities="matrix", random_state=0)
    clf = NodeClassifier(solver=solver, random_state=0).fit(data.X, data.y, graph=data.graph)
    clf.save(tmp_path / "model.npz")
    code, out, _ = run(capsys, "certify", tmp_path, "--json")
    assert code == 0
    summary = json.loads(out)
    assert summary["status"] == "not applicable"
    assert "one affinity for all classes" in summary["explanation"]
    assert (summary["objective"], summary["gap"], summary["certified_nodes"]) == (None, None, 0)
    code, out, _ = run(capsys, "certify", tmp_path)
    assert code == 0
    assert "not applicable" in out
    code, out, _ = run(capsys, "certify", tmp_path, "--verify")
    assert code == 1
    assert "no labelling problem to certify" in " ".join(out.split())


# What cannot be read. -------------------------------------------------------------------


def refused(capsys, folder: Path, *arguments: object) -> str:
    """Run the command and check that it ends as bad input should; return its one line."""
    before = names_in(folder)
    code, out, err = run(capsys, "certify", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("nodeproof: ")
    assert len(without_advice(err).splitlines()) == 1
    assert names_in(folder) == before
    return err


def test_a_missing_model_gives_one_line_and_exit_code_two(capsys, tmp_path):
    assert "nodeproof fit" in refused(capsys, tmp_path, tmp_path)
    assert "no model" in refused(capsys, tmp_path, tmp_path / "nowhere")
    assert "no certificate" in refused(capsys, tmp_path, tmp_path, "--verify")


def test_a_damaged_model_gives_one_line_and_exit_code_two(capsys, fitted):
    file = fitted / "model.npz"
    file.write_bytes(file.read_bytes()[:2000])
    assert "damaged" in refused(capsys, fitted, fitted)


def test_a_damaged_certificate_gives_one_line_and_exit_code_two(capsys, certified):
    file = certified / "certificate.npz"
    file.write_bytes(file.read_bytes()[:2000])
    assert "damaged" in refused(capsys, certified, certified, "--verify")


def test_a_model_saved_without_links_says_what_to_do(capsys, data, tmp_path):
    clf = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
    clf.save(tmp_path / "model.npz", certifiable=False)
    assert "fit and save it again" in refused(capsys, tmp_path, tmp_path)


@pytest.mark.parametrize("option", ["--time-budget", "--tolerance"])
def test_a_negative_number_is_refused(capsys, fitted, option):
    assert option in refused(capsys, fitted, fitted, option, -1)


def test_a_folder_in_the_place_of_a_file_is_named_before_the_search(capsys, fitted, monkeypatch):
    monkeypatch.setattr(NodeClassifier, "certify", None)
    (fitted / "certificate.csv").mkdir()
    code, _, err = run(capsys, "certify", fitted)
    assert code == 2
    assert f"cannot write the file {fitted / 'certificate.csv'}: a folder has that name" in err


def test_nothing_half_written_stays_where_writing_fails(capsys, fitted, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr("nodeproof.certificate.labelling.result.write_npz", fail)
    assert "No space left" in refused(capsys, fitted, fitted)


# Checked by others. ---------------------------------------------------------------------


def not_confirmed(capsys, *arguments: object) -> str:
    """Run the check and see that it ends as a refusal should; return its one line."""
    code, out, err = run(capsys, "certify", *arguments, "--verify")
    assert (code, err) == (1, "")
    assert out.startswith("refused: ")
    assert out.count("\n") == 1
    code, document, err = run(capsys, "certify", *arguments, "--verify", "--json")
    assert (code, err) == (1, "")
    found = json.loads(document)
    assert (found["confirmed"], found["status"]) == (False, "refused")
    assert found["reason"] in out
    return out


def test_a_certificate_is_confirmed_about_a_model(capsys, certified, tmp_path):
    elsewhere = tmp_path / "elsewhere.npz"
    shutil.copy(certified / "certificate.npz", elsewhere)
    before = names_in(certified)
    for asked in (
        [certified],
        [certified / "certificate.npz"],
        [elsewhere, "--model", certified],
        [elsewhere, "--model", certified / "model.npz"],
    ):
        code, out, err = run(capsys, "certify", *asked, "--verify")
        assert (code, err) == (0, "")
        assert out.startswith("confirmed: This labelling is proven")
        assert "tolerance" not in out
    assert names_in(certified) == before
    code, out, _ = run(capsys, "certify", certified, "--verify", "--json")
    assert code == 0
    found = json.loads(out)
    assert (found["confirmed"], found["reason"]) == (True, "")
    assert found["status"] == "certified"


def test_without_a_model_nothing_is_confirmed(capsys, certified, tmp_path):
    alone = tmp_path / "alone" / "certificate.npz"
    alone.parent.mkdir()
    shutil.copy(certified / "certificate.npz", alone)
    for place in (alone, alone.parent):
        line = not_confirmed(capsys, place)
        assert "nothing to check" in line
        assert "--model" in line
    assert "no model" in refused(capsys, tmp_path, alone, "--verify", "--model", tmp_path)


def test_about_a_model_without_links_nothing_is_confirmed(capsys, certified, data, tmp_path):
    """Though the certificate holds, and its labelling is that of the model."""
    clf = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
    clf.save(tmp_path / "model.npz", certifiable=False)
    clf.certify(time_budget=0).save(tmp_path / "certificate.npz")
    line = not_confirmed(capsys, tmp_path)
    assert "nothing to check it against" in line
    assert "saved without links" in line
    clf.save(tmp_path / "model.npz")
    assert run(capsys, "certify", tmp_path, "--verify")[0] == 0
    # Nor is it about another model with links, of as many nodes.
    assert "another fit" in not_confirmed(capsys, tmp_path, "--model", certified)


def test_a_model_to_verify_by_needs_a_certificate_to_verify(capsys, fitted):
    assert "--verify" in refused(capsys, fitted, fitted, "--model", fitted)


FORGED = {
    "another labelling": lambda c: replace(c, labels=changed(c.labels, 0, (c.labels[0] + 1) % 3)),
    "any labelling, with a tolerance": lambda c: replace(
        c,
        labels=np.arange(180) % 3,
        tolerance=1e9,
        lower_bound=-1e8,
        steps=(),
        unique=False,
        objective=c.instance.audited.value(np.arange(180) % 3)[1],
        exact=False,
        possible=np.ones_like(c.possible),
    ),
    "a tolerance": lambda c: replace(c, tolerance=1e6),
    "a higher bound": lambda c: replace(c, lower_bound=c.lower_bound + 1.0),
    "a lower objective": lambda c: replace(c, objective=c.objective - 1e-6 * abs(c.objective)),
    "other links": lambda c: with_instance(c, adjacency=2 * c.instance.adjacency),
    "other costs": lambda c: with_instance(c, costs=c.instance.costs + np.eye(3)[0]),
    "no steps": lambda c: replace(c, steps=()),
    "other classes": lambda c: replace(c, possible=~c.possible),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_certificate_is_refused_with_exit_code_one(capsys, certified, what):
    file = certified / "certificate.npz"
    genuine = Certificate.load(file)
    FORGED[what](genuine).save(file)
    not_confirmed(capsys, certified)


def test_a_forged_certificate_is_in_no_report(capsys, certified):
    file = certified / "certificate.npz"
    genuine = Certificate.load(file)
    code, _, err = run(capsys, "report", certified)
    assert (code, err) == (0, "")
    assert "optimal labelling" in (certified / "report.html").read_text(encoding="utf-8")
    replace(genuine, lower_bound=genuine.objective + 1.0).save(file)
    code, _, err = run(capsys, "report", certified)
    assert code == 0
    assert "is omitted from the report" in " ".join(err.split())
    assert "No proof was searched for" in (certified / "report.html").read_text(encoding="utf-8")


# Labels that no optimal labelling keeps. ------------------------------------------------


def write_wrong_labels(folder):
    """Write nodes of which some labels are wrong; return the options that read them."""
    data = make_planted(3, 40, p=0.5, label_ratio=0.5, label_accuracy=0.8, random_state=0)
    links = data.graph.tocoo()
    write(folder / "edges.csv", [["source", "target"], *zip(links.row, links.col, strict=True)])
    write(folder / "features.csv", [["node", *"abcdef"], *([v, *x] for v, x in enumerate(data.X))])
    labels = [[v, f"class {y}"] for v, y in enumerate(data.y) if y >= 0]
    write(folder / "labels.csv", [["node", "label"], *labels])
    return data, [folder / "edges.csv", "--features", folder / "features.csv",
                  "--labels", folder / "labels.csv", "--out", folder / "out"]  # fmt: skip


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


def test_labels_that_no_optimal_labelling_keeps_are_listed(capsys, tmp_path):
    data, options = write_wrong_labels(tmp_path)
    code, _, err = run(capsys, "fit", *options, "--report")
    assert code == 0, err
    found = {row["node"] for row in rows_of(tmp_path / "out/predictions.csv")
             if row["excluded"] == "true"}  # fmt: skip
    wrong = np.flatnonzero((data.y >= 0) & (data.y != data.y_true))
    assert found
    assert found <= {str(v) for v in wrong}
    code, out, err = run(capsys, "certify", tmp_path / "out")
    assert code == 0, err
    rows = rows_of(tmp_path / "out/certificate.csv")
    assert {row["node"] for row in rows if row["excluded"] == "true"} == found
    said = " ".join(out.replace("│", " ").split())
    assert "no optimal labelling keeps this label" in said
    summary = json.loads((tmp_path / "out/certificate.json").read_text(encoding="utf-8"))
    assert summary["excluded"] == len(found)


def test_without_a_proof_there_is_no_word_of_excluded_labels(capsys, tmp_path):
    _, options = write_wrong_labels(tmp_path)
    code, _, err = run(capsys, "fit", *options, "--report", "--proof-budget", 0)
    assert code == 0, err
    assert "excluded" not in rows_of(tmp_path / "out/predictions.csv")[0]


# Progress. ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bound", "said"),
    [
        (-14205.66, "bound −14,205.7, gap 5.2 nats (0.037 %)"),
        (-14200.5, "bound −14,200.5, gap none"),
        (-41108.0, "bound −41,108.0, no proof yet"),
        (-np.inf, "bound unknown, no proof yet"),
    ],
)
def test_progress_says_how_far_objective_and_bound_have_closed_in(bound, said):
    assert progress_of(Stage("messages", 3.0, -14200.5, bound)) == f"objective −14,200.5, {said}"


# Ctrl-C. --------------------------------------------------------------------------------

# Says when the search has begun, so that the interrupt surely comes in the middle of it.
_REPORTING = """
import time
from nodeproof.cli import console, main
def report(self, text):
    print(text, flush=True)
    time.sleep(0.05)
console.LiveLine.show = report
main(['certify', '.', '--time-budget', '600'])
"""


def test_ctrl_c_stops_the_search_and_writes_what_is_proven(tmp_path):
    """A real process, interrupted in the middle of its search."""
    data = make_planted(cluster_size=50, p=0.15, random_state=0)
    clf = NodeClassifier(n_classes=3, random_state=0).fit(graph=data.graph)
    clf.save(tmp_path / "model.npz")
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", _REPORTING], cwd=tmp_path, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    for line in process.stdout:
        if line.startswith("blocks"):
            process.send_signal(signal.SIGINT)
            break
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    summary = json.loads((tmp_path / "certificate.json").read_text(encoding="utf-8"))
    assert summary["interrupted"] is True
    assert Certificate.load(tmp_path / "certificate.npz").verify(clf)
