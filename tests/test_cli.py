"""The command line, as a person runs it."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from cli_helpers import run, without_advice, write
from nodeproof import NodeClassifier
from nodeproof.cli import main
from nodeproof.datasets import make_planted

NAMES = np.array(["cat", "dog", "<script>alert(1)</script>"])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A planted graph as three files with string ids."""
    folder = tmp_path_factory.mktemp("files")
    data = make_planted(cluster_size=80, p=0.2, label_accuracy=0.9, random_state=0)
    ids = [f"user {v:03d}" for v in range(240)]
    links = data.graph.tocoo()
    edges = [[ids[u], ids[v]] for u, v in zip(links.row, links.col, strict=True) if u < v]
    write(folder / "edges.csv", [["source", "target"], *edges])
    write(
        folder / "features.csv",
        [["node", *"abcdef"], *([i, *x] for i, x in zip(ids, data.X, strict=True))],
    )
    labels = [[ids[v], NAMES[label] if label >= 0 else "?"] for v, label in enumerate(data.y)]
    write(folder / "labels.csv", [["node", "label"], *labels])
    return folder, data, ids


def read_predictions(folder: Path) -> list[dict[str, str]]:
    with (folder / "predictions.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_fit_writes_predictions_summary_and_model(capsys, files, tmp_path):
    folder, data, ids = files
    code, out, err = run(
        capsys, "fit", folder / "edges.csv", "--features", folder / "features.csv",
        "--labels", folder / "labels.csv", "--out", tmp_path / "out",
    )  # fmt: skip
    assert code == 0, err
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "model.npz", "predictions.csv", "summary.json",
    ]  # fmt: skip
    rows = read_predictions(tmp_path / "out")
    assert list(rows[0]) == ["node", "label", "probability", "given_label", "suspect"]
    assert [row["node"] for row in rows] == ids
    found = np.array([row["label"] for row in rows])
    assert (found == NAMES[data.y_true]).mean() > 0.97
    given = [NAMES[label] if label >= 0 else "" for label in data.y]
    assert [row["given_label"] for row in rows] == given
    suspects = {row["node"] for row in rows if row["suspect"] == "true"}
    wrong = (data.y >= 0) & (data.y != data.y_true)
    assert suspects == {ids[v] for v in np.flatnonzero(wrong)}
    assert all(0 < float(row["probability"]) <= 1 for row in rows)

    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["nodes"] == 240
    assert summary["links"] == data.graph.nnz // 2
    assert summary["suspects"] == len(suspects)
    assert sum(summary["classes"].values()) == 240
    model = NodeClassifier.load(tmp_path / "out" / "model.npz")
    assert model.labels_.tolist() == found.tolist()
    assert model.node_ids_.tolist() == ids
    assert "240 nodes" in out


def test_json_is_all_that_is_printed(capsys, files, tmp_path):
    folder, _, _ = files
    code, out, err = run(
        capsys, "fit", folder / "edges.csv", "--classes", 3, "--json", "--out", tmp_path / "out"
    )
    assert code == 0
    assert json.loads(out) == json.loads((tmp_path / "out" / "summary.json").read_text())
    assert err == ""


def test_without_labels_the_number_of_classes_is_found_and_said(capsys, files, tmp_path):
    folder, _, _ = files
    features = ["--features", folder / "features.csv"]
    code, out, _ = run(capsys, "fit", folder / "edges.csv", *features, "--out", tmp_path / "out")
    assert code == 0
    assert "classes found" in out
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["choices"]["n_classes"]["value"] == 3
    assert sorted(summary["classes"]) == ["0", "1", "2"]


def test_nodes_without_a_link_are_counted_or_refused(capsys, files, tmp_path):
    folder, _, _ = files
    text = (folder / "labels.csv").read_text()
    labels = tmp_path / "labels.csv"
    labels.write_text(text + "lonely,cat\n")
    arguments = ["fit", folder / "edges.csv", "--labels", labels, "--out", tmp_path / "out"]
    code, _, err = run(capsys, *arguments)
    assert code == 0
    assert "1 node" in err
    assert "lonely" in {row["node"] for row in read_predictions(tmp_path / "out")}
    code, _, err = run(capsys, *arguments[:-1], tmp_path / "strict", "--strict")
    assert code == 2
    assert err.count("\n") == 1
    assert not (tmp_path / "strict").exists()


def test_columns_and_tokens_can_be_named(capsys, files, tmp_path):
    _, data, ids = files
    links = data.graph.tocoo()
    rows = [[1.0, ids[u], ids[v]] for u, v in zip(links.row, links.col, strict=True) if u < v]
    write(tmp_path / "e.csv", [["strength", "a", "b"], *rows])
    labels = [[NAMES[y] if y >= 0 else "missing", i] for y, i in zip(data.y, ids, strict=True)]
    write(tmp_path / "l.csv", [["kind", "who"], *labels])
    code, _, err = run(
        capsys, "fit", tmp_path / "e.csv", "--source", "a", "--target", "b",
        "--weight-column", "strength", "--labels", tmp_path / "l.csv", "--id", "who", "--label",
        "kind", "--unknown", "missing", "--out", tmp_path / "out",
    )  # fmt: skip
    assert code == 0, err
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["labels"] == int((data.y >= 0).sum())
    assert set(summary["classes"]) == set(NAMES)


def test_a_class_may_bear_a_name_that_means_unknown_elsewhere(capsys, files, tmp_path):
    folder, data, ids = files
    names = np.array(["None", "nan", "x"])
    labels = [[i, names[y] if y >= 0 else "?"] for y, i in zip(data.y, ids, strict=True)]
    write(tmp_path / "l.csv", [["node", "label"], *labels])
    code, out, _ = run(
        capsys, "fit", folder / "edges.csv", "--labels", tmp_path / "l.csv", "--unknown", "?",
        "--json", "--out", tmp_path / "out",
    )  # fmt: skip
    assert code == 0
    assert set(json.loads(out)["classes"]) == {"None", "nan", "x"}


def test_fixed_weights_and_temperature_reach_the_fit(capsys, files, tmp_path):
    folder, _, _ = files
    code, out, _ = run(
        capsys, "fit", folder / "edges.csv", "--features", folder / "features.csv", "--labels",
        folder / "labels.csv", "--source-weights", "1,2.5,13", "--threshold", "0.1",
        "--temperature", 0,
        "--n-init", 2, "--null-model", "degree", "--json", "--out", tmp_path / "out",
    )  # fmt: skip
    assert code == 0
    choices = json.loads(out)["choices"]
    assert choices["weights"]["value"] == [1.0, 2.5, 13.0]
    assert choices["null_model"]["value"] == "degree"
    assert json.loads(out)["mean_probability"] == 1.0
    model = NodeClassifier.load(tmp_path / "out" / "model.npz")
    assert (model.threshold, model.n_init) == (0.1, 2)


def test_what_is_written_is_listed(capsys, files, tmp_path, monkeypatch):
    folder, _, _ = files
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(capsys, "fit", folder / "edges.csv", "--classes", 3, "--query", 2,
                       "--report", "--proof-budget", 0, "--out", "o")  # fmt: skip
    assert code == 0
    listed = "".join(out[out.index("written") :].replace("│", " ").split())
    for path in Path("o").iterdir():
        assert str(path) in listed


def test_the_table_counts_in_plain_words(capsys, files, tmp_path):
    folder, _, _ = files
    code, out, _ = run(capsys, "fit", folder / "edges.csv", "--classes", 3, "--max-iter", 1,
                       "--n-init", 1, "--out", tmp_path / "o")  # fmt: skip
    assert code == 0
    assert "look wrong" not in out
    assert "given labels" in out
    assert " after 1 sweep, " in out


def test_where_most_labels_look_wrong_a_note_says_what_to_do(capsys, tmp_path, monkeypatch):
    """Links and labels that do not speak of the same nodes, and weights that trust the links."""
    monkeypatch.chdir(tmp_path)
    data = make_planted(4, 30, p=0.6, q=0.02, random_state=0)
    links = sp.triu(data.graph).tocoo()
    write(Path("e.csv"), [["a", "b"], *zip(links.row, links.col, strict=True)])
    mixed = np.random.default_rng(0).permutation(data.y_true)
    for name, labels in (("right.csv", data.y_true), ("mixed.csv", mixed)):
        write(Path(name), [["node", "label"], *([v, f"c{y}"] for v, y in enumerate(labels))])

    def doubts(labels: str, weights: str) -> list[str]:
        code, out, _ = run(capsys, "fit", "e.csv", "--labels", labels, "--source-weights", weights,
                           "--json")  # fmt: skip
        assert code == 0
        summary = json.loads(out)
        found = [note for note in summary["notes"] if "more than half" in note]
        assert bool(found) == (2 * summary["suspects"] > summary["labels"])
        assert all(f"{summary['suspects']} of 120" in note for note in found)
        assert all("use the same node names" in note for note in found)
        return found

    assert not doubts("right.csv", "auto")
    # There is no better advice for these than to look at the files.
    assert not any("--source-weights" in note for note in doubts("mixed.csv", "auto"))
    (said,) = doubts("mixed.csv", "1,2.5,1")
    assert "try --source-weights auto" in said


def test_a_folder_that_takes_nothing_is_named_before_the_work(capsys, files, tmp_path, monkeypatch):
    """In /proc rights allow what the system does not."""

    def refuse(*_: object, **__: object) -> str:
        raise FileNotFoundError(2, "No such file or directory", "/proc/.1e12.x")

    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    monkeypatch.setattr("nodeproof.NodeClassifier.fit", None)
    out = tmp_path / "o"
    code, _, err = run(capsys, "fit", files[0] / "edges.csv", "--classes", 3, "--out", out)
    assert code == 2
    assert f"--out {out}: " in err
    assert ".1e12" not in err


@pytest.mark.parametrize(("name", "options"), [("summary.json", []), ("query.csv", ["--query", 2])])
def test_a_folder_in_the_place_of_a_file_is_named_before_the_work(
    capsys, files, tmp_path, monkeypatch, name, options
):
    monkeypatch.setattr("nodeproof.NodeClassifier.fit", None)
    (tmp_path / name).mkdir()
    code, _, err = run(capsys, "fit", files[0] / "edges.csv", "--out", tmp_path, *options)
    assert code == 2
    assert f"cannot write the file {tmp_path / name}: a folder has that name" in err


def test_the_same_seed_writes_the_same_predictions(capsys, files, tmp_path):
    folder, _, _ = files
    texts = []
    for jobs in (1, 2):
        out = tmp_path / str(jobs)
        run(capsys, "fit", folder / "edges.csv", "--labels", folder / "labels.csv", "--seed", 3,
            "--jobs", jobs, "--out", out)  # fmt: skip
        texts.append((out / "predictions.csv").read_bytes())
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "missing.csv"], "missing.csv does not exist"),
        (["fit", "edges.csv", "--classes", "0"], "--classes"),
        (["fit", "edges.csv", "--classes", "3", "--source-weights", "1,x,2"], "1,x,2"),
        (["fit", "edges.csv", "--classes", "3", "--source-weights", "1,2"], "three numbers"),
        (["fit", "edges.csv", "--classes", "3", "--out", "edges.csv"], "is a file"),
        (["fit", "edges.csv", "--classes", "3", "--out", "no/such/folder"], "does not exist"),
        (["fit", "edges.csv", "--labels", "labels.csv", "--label", "klass"], "no column 'klass'"),
        (["fit", "edges.csv", "--labels", "labels.csv", "--classes", "2"], "n_classes=2"),
        (["fit", "bad.csv", "--classes", "2"], "bad.csv, line 3"),
        (["fit", "edges.csv", "--features", "holes.csv", "--classes", "2"], "holes.csv, line 2"),
        (["fit", "weights.csv", "--classes", "2"], "weights.csv, line 3"),
        (["fit", "empty.csv", "--classes", "2"], "empty.csv"),
        (["fit", "edges.csv", "--labels", "strangers.csv"], "name nodes the same way?"),
        (["fit", "wide.csv", "--classes", "2"], "--source and --target"),
        (["fit", "edges.csv", "--classes", "2", "--jobs", "0"], "--jobs"),
        (["fit", "edges.csv", "--classes", "2", "--proof-budget", "5"], "add --report"),
        (["fit", "edges.csv", "--classes", "2", "--seed", "-1"], "--seed"),
        (["demo", "--seed", "-1"], "--seed"),
        (["demo", "--out", "edges.csv"], "is a file"),
        (["fit", "."], "is a folder"),
        (["fit", "edges.csv", "--features", "words.csv", "--classes", "2"], "with --id"),
        (["fit"], "EDGES"),
        (["dance"], "dance"),
    ],
)
def test_bad_input_gives_one_line_and_exit_code_two(
    capsys, files, tmp_path, monkeypatch, arguments, message
):
    folder, _, _ = files
    for name in ("edges.csv", "labels.csv"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "bad.csv").write_text("source,target\na,b\nb\nc,a\n")
    (tmp_path / "holes.csv").write_text("node,x,y\nuser 000,1,\n")
    (tmp_path / "weights.csv").write_text("source,target,weight\na,b,1\nb,c,-2\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "words.csv").write_text("node,x,town\nuser 000,1,Oslo\nuser 001,2,Bergen\n")
    (tmp_path / "strangers.csv").write_text("node,label\nann,cat\nbob,dog\n")
    (tmp_path / "wide.csv").write_text("when,payer,payee,amount\n1 May,a,b,2\n2 May,b,c,3\n")
    monkeypatch.chdir(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("nodeproof: ")
    assert len(without_advice(err).splitlines()) == 1
    assert message in err
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.fixture
def no_search(monkeypatch):
    """Proofs by closed forms alone: what they say is the same on a slow machine."""
    # `nodeproof.cli.demo` is the command; this is the module.
    monkeypatch.setattr(import_module("nodeproof.cli.demo"), "_TIME_BUDGET", 0.0)


@pytest.mark.usefixtures("no_search")
def test_demo_prints_the_table_and_draws_the_picture(capsys, tmp_path):
    code, out, err = run(capsys, "demo", "--out", tmp_path / "demo")
    assert code == 0, err
    assert "Graph + Feature + Label" in out
    assert "spectral clustering" in out
    assert "This labelling is proven to be optimal" in out.replace("\n", " ")
    assert out.count("certificate of Graph + Feature + Label: ") == 2
    assert (tmp_path / "demo" / "demo.png").read_bytes().startswith(b"\x89PNG")
    figures = json.loads((tmp_path / "demo" / "demo.json").read_text())
    for rows in figures["results"].values():
        assert len(rows) == 7
        assert rows[-1]["accuracy"] > rows[-1]["bound"] - 0.03


@pytest.fixture
def small_demo(monkeypatch, no_search):
    """The data of the demo with a tenth of the nodes."""
    data = {
        "the paper's default": {"cluster_size": 45, "p": 0.5, "omega": 0.1},
        "a harder setting": {"cluster_size": 45, "p": 0.15, "omega": 0.3, "label_ratio": 0.05},
    }
    monkeypatch.setattr(import_module("nodeproof.cli.demo"), "DATA", data)


@pytest.mark.filterwarnings("ignore:the data do not tell")
@pytest.mark.usefixtures("small_demo")
def test_demo_in_json_has_the_certificates(capsys, tmp_path):
    code, out, _ = run(capsys, "demo", "--json", "--seed", 1, "--out", tmp_path)
    assert code == 0
    printed = json.loads(out)
    assert printed["seed"] == 1
    assert set(printed["certificates"]) == set(printed["results"])
    easy, hard = printed["certificates"].values()
    assert (easy["status"], easy["certified_nodes"]) == ("certified", 135)
    assert easy["explanation"].startswith("This labelling is proven")
    assert hard["status"] != "not applicable"
    assert hard["lower_bound"] <= hard["objective"]
    written = json.loads((tmp_path / "demo.json").read_text())
    assert written["certificates"] == printed["certificates"]


@pytest.mark.filterwarnings("ignore:the data do not tell")
@pytest.mark.usefixtures("small_demo")
def test_demo_without_matplotlib_names_the_install_command(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, out, err = run(capsys, "demo", "--out", tmp_path)
    assert code == 0
    assert "pip install 'nodeproof[plot]'" in err.replace("\n", " ")
    assert "Graph + Feature + Label" in out
    assert not (tmp_path / "demo.png").exists()


def test_without_a_command_the_help_is_shown(capsys):
    code, out, _ = run(capsys)
    assert code == 2
    assert "Commands:" in out
    assert out.count("\n") > 5


@pytest.mark.parametrize("command", [[], ["demo"], ["fit"]])
def test_every_command_has_help(capsys, command):
    code, out, _ = run(capsys, *command, "--help")
    assert code == 0
    assert "Usage: nodeproof" in out


def test_help_and_documents_agree_on_how_long_the_experiments_take(capsys):
    root = Path(__file__).parents[1]
    told = (root / "docs" / "experiments.md").read_text(encoding="utf-8")
    _, shown, _ = run(capsys, "reproduce", "--help")
    shown = " ".join(shown.split())
    for duration in ("40 minutes", "a few minutes"):
        assert duration in told
        assert duration in shown


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
@pytest.mark.parametrize("arguments", ["--version", "data list --json"])
def test_a_closed_output_takes_nothing_and_that_is_no_error(arguments):
    command = ["sh", "-c", f'exec "$0" -m nodeproof {arguments} >&-', sys.executable]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("encoding", "shown"), [("ascii", "? ?: "), ("latin-1", "é ?: ")])
def test_what_an_output_cannot_show_is_replaced(files, tmp_path, monkeypatch, encoding, shown):
    folder, _, _ = files
    text = (folder / "labels.csv").read_text().replace(NAMES[0], "é ☃")
    labels = tmp_path / "labels.csv"
    labels.write_text(text, encoding="utf-8")
    printed = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(printed, encoding))
    with pytest.raises(SystemExit) as ended:
        main(["fit", str(folder / "edges.csv"), "--labels", str(labels), "--out", str(tmp_path)])
    assert not ended.value.code
    assert shown in printed.getvalue().decode(encoding)


@pytest.mark.parametrize("option", ["--labels", "--out"])
def test_a_name_that_is_not_utf_8_is_refused_at_once(capsys, files, option):
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    code, out, err = run(capsys, "fit", files[0] / "edges.csv", option, name)
    assert (code, out) == (2, "")
    assert err == "nodeproof: caf\N{REPLACEMENT CHARACTER} is not valid UTF-8; use a name that is\n"


def test_help_and_version_do_not_wait_for_the_mathematics():
    script = (
        "import sys; from nodeproof.cli import main\n"
        "try: main(['--version'])\n"
        "except SystemExit: print(*(m for m in ('numba', 'scipy', 'sklearn') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines()[1:] in ([], [""])


def test_ctrl_c_stops_the_fit_and_writes_what_there_is(tmp_path):
    """A real process, interrupted in the middle of its sweeps."""
    data = make_planted(4, 150, p=0.1, q=0.045, label_ratio=0.02, random_state=0)
    links = data.graph.tocoo()
    with (tmp_path / "edges.csv").open("w") as file:
        file.writelines(f"{u},{v}\n" for u, v in zip(links.row, links.col, strict=True) if u < v)
    write(tmp_path / "labels.csv", [[v, y] for v, y in enumerate(data.y) if y >= 0])
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", _REPORTING_FIT], cwd=tmp_path, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    for line in process.stdout:
        if line.startswith("sweep 3"):
            process.send_signal(signal.SIGINT)
            break
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    summary = json.loads((tmp_path / "nodeproof-out" / "summary.json").read_text())
    assert summary["status"] == "interrupted"
    assert (tmp_path / "nodeproof-out" / "predictions.csv").exists()
    assert "Traceback" not in err


# Says when a sweep has ended, so that the interrupt surely comes between the first and the last.
_REPORTING_FIT = """
import time
from nodeproof.cli import console, main
def report(self, progress):
    print('sweep', progress.iteration, flush=True)
    time.sleep(0.05 if progress.iteration < 3 else 1)
console.ProgressLine.__call__ = report
main(['fit', 'edges.csv', '--labels', 'labels.csv', '--max-iter', '2000'])
"""


def test_a_module_run_is_the_same_command():
    done = subprocess.run(
        [sys.executable, "-m", "nodeproof", "--version"], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert done.stdout.startswith("nodeproof, version ")
