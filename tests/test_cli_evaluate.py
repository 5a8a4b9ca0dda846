"""`nodeproof example`, `evaluate` and `compare`; and .h5ad files as graphs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cli_helpers import run, write


@pytest.fixture
def example(capsys, tmp_path, monkeypatch):
    """The files of `nodeproof example`, in the working directory."""
    code, out, err = run(capsys, "example", tmp_path / "club")
    assert code == 0, err
    assert "nodeproof fit edges.csv --nodes nodes.csv --label club" in out
    monkeypatch.chdir(tmp_path / "club")


def test_the_example_is_zacharys_club(example):
    nx = pytest.importorskip("networkx")
    lines = Path("edges.csv").read_text().splitlines()[1:]
    expected = nx.karate_club_graph()
    assert len(lines) == expected.number_of_edges() == 78
    weights = sorted(data["weight"] for _, _, data in expected.edges(data=True))
    assert sorted(int(line.rpartition(",")[2]) for line in lines) == weights
    truth = [line.split(",")[1] for line in Path("truth.csv").read_text().splitlines()[1:]]
    assert truth.count("Mr. Hi") == 17


def test_the_commands_of_the_example_run(capsys, example):
    commands = [line.split()[1:] for line in Path("README.txt").read_text().splitlines()
                if line.startswith("  nodeproof ") and "certify" not in line]  # fmt: skip
    assert len(commands) == 4
    for command in commands:
        code, _, err = run(capsys, *command)
        assert code == 0, err
    code, out, _ = run(capsys, "evaluate", "results", "truth.csv", "--json")
    found = json.loads(out)
    assert (code, found["nodes"], found["labelled_in_the_fit"]) == (0, 30, 4)
    assert found["accuracy"] > 0.85
    assert np.trace(found["confusion"]) == round(30 * found["accuracy"])
    assert "coverage" not in found
    assert (
        json.loads(run(capsys, "evaluate", "results", "truth.csv", "--all", "--json")[1])["nodes"]
        == 34
    )
    code, out, _ = run(capsys, "compare", "results", "propagated", "--truth", "truth.csv", "--json",
                       "-o", "runs.png")  # fmt: skip
    first, second = json.loads(out)["runs"]
    assert code == 0
    assert first["agreement"] == 1.0
    assert second["accuracy"] > 0.8
    assert Path("runs.png").read_bytes().startswith(b"\x89PNG")


def test_the_truth_may_be_one_column_of_many(capsys, example):
    run(capsys, "fit", "edges.csv", "--nodes", "nodes.csv", "--label", "club", "-q")
    lines = [line.split(",") for line in Path("truth.csv").read_text().splitlines()]
    write(Path("all.csv"), [[a, 40 + k % 7 if k else "age", b] for k, (a, b) in enumerate(lines)])
    both = ["compare", "nodeproof-out", "nodeproof-out", "--json"]
    found = [
        json.loads(run(capsys, *both, "--truth", *truth)[1])["runs"][0]["accuracy"]
        for truth in (["truth.csv"], ["all.csv", "--label", "club"])
    ]
    assert found[0] == found[1]
    code, _, err = run(capsys, *both, "--label", "club")
    assert (code, err.count("\n")) == (2, 1)


def test_sets_in_the_predictions_are_counted(capsys, example):
    run(capsys, "fit", "edges.csv", "--nodes", "nodes.csv", "--label", "club", "--coverage", 0.9,
        "-q")  # fmt: skip
    found = json.loads(run(capsys, "evaluate", "nodeproof-out", "truth.csv", "--json")[1])
    assert 0.85 < found["coverage"] <= 1.0


def test_what_cannot_be_compared_is_said_in_one_line(capsys, example):
    run(capsys, "fit", "edges.csv", "--nodes", "nodes.csv", "--label", "club", "-q")
    write(Path("others.csv"), [["member", "club"], ["Ann", "Mr. Hi"]])
    write(Path("towns.csv"), [["member", "town"], ["member 2", "Rome"], ["member 3", "Oslo"]])
    for arguments, message in (
        (["evaluate", "nodeproof-out", "others.csv"], "no node of others.csv was fitted"),
        (["evaluate", "nodeproof-out", "nodes.csv"], "--all counts the others, too"),
        (["evaluate", "nowhere", "truth.csv"], "there is no model"),
        (["evaluate", "nodeproof-out", "towns.csv"], "such as 'Rome', is a class of the fit"),
        (["compare", "nodeproof-out"], "at least two folders"),
        (["example", "."], "exists already"),
    ):
        code, out, err = run(capsys, *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert message in err


def test_a_mistake_in_the_options_points_to_the_help(capsys):
    code, _, err = run(capsys, "evaluate", "--jsn")
    assert code == 2
    assert err.splitlines()[-1] == "Try 'nodeproof evaluate --help'."


def test_quiet_prints_nothing_and_verbose_the_sweeps(capsys, example):
    words = ["fit", "edges.csv", "--nodes", "nodes.csv", "--label", "club"]
    assert run(capsys, *words, "-q") == (0, "", "")
    assert "nodes: " in run(capsys, *words, "-v")[2]


def test_no_two_options_differ_by_one_letter():
    from nodeproof.cli import cli

    for command in cli.commands.values():
        names = {name for param in command.params for name in param.opts if name != "--label"}
        assert not {name for name in names if f"{name}s" in names}


def test_descriptions_are_not_cut(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = run(capsys, "--help")
    assert "..." not in out.partition("Commands:")[2]


def test_cells_of_an_h5ad_file_are_labelled(capsys, tmp_path, monkeypatch):
    anndata = pytest.importorskip("anndata")
    from scipy.sparse import csr_matrix  # older versions cannot write arrays

    from nodeproof.datasets import make_planted

    monkeypatch.chdir(tmp_path)
    data = make_planted(cluster_size=40, p=0.3, random_state=0)
    kinds = np.array(["B", "T", "NK"])
    cells = anndata.AnnData(
        np.zeros((120, 2), np.float32),
        obsm={"X_pca": data.X},
        obsp={"connectivities": csr_matrix(data.graph)},
    )
    cells.obs_names = [f"cell {v}" for v in range(120)]
    cells.obs["kind"] = np.where(data.y >= 0, kinds[data.y], "unassigned")
    cells.write_h5ad("cells.h5ad")
    code, out, err = run(capsys, "fit", "cells.h5ad", "--label", "kind", "--json")
    assert code == 0, err
    summary = json.loads(out)
    assert set(summary["classes"]) == set(kinds)
    assert summary["features"] == data.X.shape[1]
    lines = Path("nodeproof-out/predictions.csv").read_text().splitlines()
    truth = {f'"cell {v}"': f'"{kinds[k]}"' for v, k in enumerate(data.y_true)}
    assert np.mean([truth[line.split(",")[0]] == line.split(",")[1] for line in lines[1:]]) > 0.9
    code, _, err = run(capsys, "fit", "cells.h5ad", "--label", "type")
    assert code == 2
    assert "adata.obs has no column 'type', only 'kind'" in err
    Path("broken.h5ad").write_bytes(b"\x89HDF\r\n\x1a\n broken")
    code, _, err = run(capsys, "fit", "broken.h5ad")
    assert (code, err.count("\n")) == (2, 1)
