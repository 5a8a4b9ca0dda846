"""The benchmark on real data: what it runs, what it keeps and what it tells."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import real
from benchmark_helpers import small_set, write_set
from nodeproof.errors import InputError
from peers import PEERS, cells, registry, report, sets
from peers.cells import Cell, measure
from peers.page import BEGIN, END, write_docs
from peers.protocols import PROTOCOLS
from peers.report import markdown, write_report
from peers.summary import mean_interval, mean_ranks, paired, summarise


@pytest.fixture
def folder(tmp_path):
    write_set(tmp_path / "small.npz", small_set())
    return tmp_path


def options(*arguments):
    return real.parse(list(arguments))


# What is run


def test_missing_graphs_and_unknown_names_are_told_in_one_line(folder, tmp_path, monkeypatch):
    monkeypatch.delenv("NODEPROOF_DATA", raising=False)
    with pytest.raises(InputError, match="set NODEPROOF_DATA"):
        real.plan(options())
    with pytest.raises(InputError, match=r"no \.npz file"):
        real.plan(options("--data", str(tmp_path / "nowhere")))
    with pytest.raises(InputError, match="no set 'cora'"):
        real.plan(options("--data", str(folder), "--sets", "cora"))
    with pytest.raises(InputError, match="no method 'magic'"):
        real.plan(options("--data", str(folder), "--methods", "magic"))


def test_protocols_are_all_that_a_set_allows_unless_some_are_asked_for(folder, monkeypatch):
    cells_of = lambda *more: real.plan(options("--data", str(folder), *more))  # noqa: E731
    assert {cell.protocol for cell in cells_of("--sets", "small")} == {
        "20-per-class", "60/20/20", "graph", "features",
    }  # fmt: skip
    asked = cells_of("--protocol", "graph", "features", "--sets", "small", "iris")
    assert {(c.protocol, c.set_name) for c in asked} == {
        ("graph", "small"), ("features", "small"), ("features", "iris"),
    }  # fmt: skip
    with pytest.raises(InputError, match="no method can run"):
        cells_of("--protocol", "published", "--sets", "small")
    monkeypatch.delenv("NODEPROOF_DATA", raising=False)
    assert {c.set_name for c in real.plan(options("--sets", "wine"))} == {"wine"}


def test_methods_are_run_only_where_they_have_what_they_need(folder):
    cells = real.plan(options("--data", str(folder), "--sets", "small"))
    methods = {name: {c.method for c in cells if c.protocol == name} for name in PROTOCOLS}
    assert "LR" not in methods["graph"]
    assert "label propagation" not in methods["features"]
    assert {"nodeproof", "LR", "boosted trees"} <= methods["features"]
    assert "nodeproof (validation)" in methods["60/20/20"]
    assert "nodeproof (validation)" not in methods["20-per-class"]
    hidden = real.plan(options("--data", str(folder), "--sets", "small", "--no-validation"))
    assert "nodeproof (validation)" not in {cell.method for cell in hidden}


def test_a_peer_is_raced_with_every_choice_of_sources_on_all_but_small_sets(folder, monkeypatch):
    monkeypatch.setattr(real, "SPEED_NODES", 10)
    raced = real.plan(options("--data", str(folder), "--versus", "label propagation"))
    found = {(c.set_name, c.protocol, c.method) for c in raced if c.set_name == "small"}
    assert found == {
        ("small", protocol, method)
        for protocol in real.SPEED_PROTOCOLS
        for method in ("nodeproof", "label propagation")
    }
    monkeypatch.setattr(real, "SPEED_NODES", 10**6)
    with pytest.raises(InputError, match="no method can run"):
        real.plan(options("--data", str(folder), "--versus", "label propagation"))


def test_the_fastest_fits_are_compared():
    def result(method, seconds, number=0, name="a"):
        return Cell(f"{name}.npz", "graph", method, number), {"seconds": seconds}

    failed = Cell("c.npz", "graph", "GCN", 0), {"error": "no"}
    results = [
        result("nodeproof", 2.0), result("GCN", 9.0), result("GCN", 6.0, 1),
        result("nodeproof", 2.0, name="b"), result("GCN", 1.0, name="b"),
        result("nodeproof", 2.0, name="c"), failed,
    ]  # fmt: skip
    table = report.speed_table(results, "GCN")
    assert "| a | graph | 2.00 | 6.00 | 3.0 |" in table
    assert "| c |" not in table
    assert table.endswith("Median 1.8 × faster, least 0.5 ×; slower in 1 of 2.")


def test_bad_input_ends_with_code_2(monkeypatch, capsys):
    monkeypatch.delenv("NODEPROOF_DATA", raising=False)
    monkeypatch.setattr(sys, "argv", ["real.py"])
    with pytest.raises(SystemExit) as ended:
        real.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("error: where are the graphs?")


def test_methods_may_be_typed_plainly(folder):
    asked = options("--data", str(folder), "--methods", "s2gc+lr", "correct&smooth", "S²GC + LR")
    chosen = dict.fromkeys(cell.method for cell in real.plan(asked))
    assert list(chosen) == ["S²GC + LR", "Correct & Smooth"]


def test_a_missing_package_is_named_and_its_methods_left_out(monkeypatch, capsys):
    monkeypatch.setattr(real, "find_spec", lambda name: None)
    assert "GCN" not in real.choose_methods(None, quick=False)
    told = capsys.readouterr().err
    assert "torch is not installed; run: pip install -r" in told
    assert "sknetwork is not installed" in told
    with pytest.raises(InputError, match=r"cannot run GCN: torch is not installed"):
        real.choose_methods(["GCN"], quick=False)


def test_a_cuda_build_of_torch_is_refused(monkeypatch):
    torch = types.ModuleType("torch")
    torch.__version__ = "2.13.0+cu130"
    torch.version = types.SimpleNamespace(cuda="13.0")
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(real, "find_spec", lambda name: object())
    with pytest.raises(InputError, match=r"built for CUDA 13\.0"):
        real.choose_methods(["GCN"], quick=False)
    torch.version.cuda = None
    assert real.choose_methods(["GCN"], quick=False) == ["GCN"]


# What is kept


@pytest.fixture
def no_picture(monkeypatch):
    monkeypatch.setattr(report, "draw_scatter", lambda lines, out: None)


def fake_run(calls, accuracy=0.8):
    def run_cell(cell):
        calls.append((cell.method, cell.number))
        return {
            "accuracy": accuracy,
            "balanced_accuracy": accuracy,
            "roc_auc": None,
            "log_loss": 0.5,
            "ece": 0.1,
            "mean_probability": 0.7,
            "seconds": 0.1,
            "cpu_seconds": 0.1,
            "peak_mb": 1.0,
            "n_test": 10,
            "notes": [],
            **(claims if cell.method == "nodeproof" else {}),
        }

    claims = {"estimate": [0.8, 0.75, 0.85], "suspected": 0.01, "suspects_wrong": None}
    claims["covered"] = 0.75 <= accuracy <= 0.85
    return run_cell


def planned(folder, *more):
    names = ("--sets", "small", "--protocol", "20-per-class", "--splits", "2")
    methods = ("--methods", "LR", "label propagation")
    return real.plan(options("--data", str(folder), *names, *methods, *more))


def test_finished_fits_are_not_run_again(folder, monkeypatch, no_picture):
    calls = []
    monkeypatch.setattr(real, "run_cell", fake_run(calls))
    real.run(planned(folder), folder, fresh=False)
    real.run(planned(folder), folder, fresh=False)
    assert len(calls) == 4
    real.run(planned(folder, "--flip", "0.3"), folder, fresh=False)
    assert len(calls) == 8
    real.run(planned(folder, "--protocol", "60/20/20"), folder, fresh=False)
    assert len(calls) == 12
    real.run(planned(folder), folder, fresh=True)
    assert len(calls) == 16


def test_other_bytes_of_a_set_are_another_fit(folder):
    before = planned(folder)[0].key
    write_set(folder / "small.npz", small_set(seed=1))
    sets.digest.cache_clear()
    assert planned(folder)[0].key != before


def test_what_failed_is_kept_told_and_tried_again(folder, monkeypatch, no_picture):
    monkeypatch.setattr(real, "run_cell", lambda cell: {"error": "ValueError: no"})
    real.run(planned(folder), folder, fresh=False)
    assert "LR failed: ValueError: no" in (folder / "results.md").read_text()
    calls = []
    monkeypatch.setattr(real, "run_cell", fake_run(calls))
    real.run(planned(folder), folder, fresh=False)
    assert len(calls) == 4
    assert "ValueError" not in (folder / "results.md").read_text()


def test_an_interrupt_keeps_what_is_done(folder, monkeypatch, no_picture):
    calls = []
    run_cell = fake_run(calls)

    def interrupted(cell):
        if len(calls) == 2:
            raise KeyboardInterrupt
        return run_cell(cell)

    monkeypatch.setattr(real, "run_cell", interrupted)
    with pytest.raises(SystemExit) as ended:
        real.run(planned(folder), folder, fresh=False)
    assert ended.value.code == 130
    assert len(json.loads((folder / "results.json").read_text())["cells"]) == 2
    monkeypatch.setattr(real, "run_cell", run_cell)
    real.run(planned(folder), folder, fresh=False)
    assert len(calls) == 4


def test_a_method_that_fails_gives_a_record_with_its_message(folder, monkeypatch):
    def fit(data, split, seed):
        raise RuntimeError("too hard\nfor me")

    monkeypatch.setitem(PEERS, "LR", registry.Peer("LR", fit))
    assert measure(planned(folder)[0]) == {"error": "RuntimeError: too hard"}


def test_a_fit_in_a_process_of_its_own_gives_every_figure(folder):
    source = str(folder / "small.npz")
    record = cells.run_cell(Cell(source, "20-per-class", "label propagation", 0, threads=1))
    assert record["accuracy"] > 0.8
    assert record["seconds"] > 0
    figures = {"balanced_accuracy", "roc_auc", "ece", "mean_probability", "log_loss"}
    assert record.keys() >= figures | {"cpu_seconds", "peak_mb"}


@pytest.mark.parametrize("protocol", ["20-per-class", "features"])
def test_nodeproof_says_what_it_expects_and_whom_it_suspects(folder, protocol):
    record = measure(Cell(str(folder / "small.npz"), protocol, "nodeproof", 0))
    assert record["accuracy"] > 0.4
    assert 0 <= record["suspected"] <= 1
    low, high = record["estimate"][1:]
    assert record["covered"] == (low <= record["accuracy"] <= high)


# What is told


def results_of(values, set_name="small", protocol="20-per-class"):
    """Return results by (method, number) with this accuracy; None failed."""
    run = [
        (Cell(f"/x/{set_name}.npz", protocol, method, number), value)
        for (method, number), value in values.items()
    ]
    return [
        (cell, {"error": "no"} if value is None else fake_run([], value)(cell))
        for cell, value in run
    ]


def test_differences_are_paired_by_split():
    results = results_of(
        {
            ("nodeproof", 0): 0.9, ("nodeproof", 1): 0.8, ("nodeproof", 2): 0.1,
            ("GCN", 0): 0.8, ("GCN", 1): 0.6, ("GCN", 2): None,
        }
    )  # fmt: skip
    (difference,) = paired(results, ["accuracy"])
    assert difference.n == 2
    assert difference.mean == pytest.approx(0.15)
    assert difference.low == pytest.approx(0.15 - 12.706 * 0.05, abs=1e-3)


def test_one_split_has_no_interval():
    assert np.isnan(mean_interval([0.5])[1])
    assert mean_interval([1.0, 2.0, 3.0])[2] == pytest.approx(4.484, abs=1e-3)


def test_ranks_are_means_over_sets_and_what_failed_comes_last():
    one = results_of({("nodeproof", 0): 0.9, ("GCN", 0): 0.8, ("LR", 0): None})
    two = results_of({("nodeproof", 0): 0.7, ("GCN", 0): 0.8}, "other")
    three = results_of({("nodeproof", 0): 0.7, ("GCN", 0): 0.7}, protocol="graph")
    ranks = mean_ranks(summarise([*one, *two]))
    assert ranks == {"nodeproof": 1.5, "GCN": 1.5, "LR": 3.0}
    assert mean_ranks(summarise([*two, *three])) == {"nodeproof": 1.75, "GCN": 1.25}


def test_coverage_counts_the_fits_whose_interval_holds_the_accuracy():
    results = results_of({("nodeproof", 0): 0.8, ("nodeproof", 1): 0.6, ("GCN", 0): 0.9})
    own, other = summarise(results)
    assert (own.claims.covered, own.claims.n) == (1, 2)
    assert other.claims is None
    assert "| 20-per-class | 2 | 1 of 2 (50%) | 80.0 | 70.0 |" in markdown(results)


def test_training_that_was_cut_short_is_marked():
    results = results_of({("GCN", 0): 0.9})
    results[0][1]["notes"].append("stopped after 3 of 200 epochs")
    page = markdown(results)
    assert "| GCN\\* | 90.0 |" in page
    assert "stopped at the time limit" in page


def test_tables_and_pictures_are_written(tmp_path):
    values = {("nodeproof", 0): 0.9, ("GCN", 0): 0.8, ("LR", 0): None}
    results = [*results_of(values), *results_of(values, protocol="60/20/20")]
    write_report(results, tmp_path)
    tables = {f"results.{suffix}" for suffix in ("json", "csv", "md")}
    names = ("results-20-per-class", "results-60-20-20")
    pictures = {f"{name}.{suffix}" for name in names for suffix in ("png", "svg")}
    assert {path.name for path in tmp_path.iterdir()} == tables | pictures
    page = (tmp_path / "results.md").read_text()
    assert "| GCN | +10.00 | +0.000 | 1 |" in page
    assert "| nodeproof | 1.0 | 1.0 | 1.00 | 2 |" in page
    json.loads((tmp_path / "results.json").read_text(), parse_constant=pytest.fail)


def test_a_page_gets_the_tables_between_its_comments(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n\n{BEGIN}\n\nold\n\n{END}\n\nafter\n")
    write_docs(results_of({("nodeproof", 0): 0.9, ("GCN", 0): 0.8}), page)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert "| GCN | 80.0 (0.100) |" in text
    write_docs(results_of({("nodeproof", 0): 0.9}), page)
    assert "GCN" not in page.read_text()
    (tmp_path / "other.md").write_text("no comments\n")
    with pytest.raises(InputError, match="lacks the comments"):
        write_docs(results_of({("GCN", 0): 0.8}), tmp_path / "other.md")


def test_the_page_of_the_documentation_has_the_comments():
    page = (Path(__file__).parents[1] / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert page.index(BEGIN) < page.index(END)
