"""`nodeproof reproduce`: one entry gives a panel, a kill loses nothing, errors are one line."""

from __future__ import annotations

import contextlib
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet
import pytest
from click.testing import CliRunner

from nodeproof.cli import cli, main
from nodeproof.errors import InputError
from nodeproof.paper.experiments import PANELS, Axis, Curve, Panel, register, reproduce
from nodeproof.storage.journal import JOURNAL


@pytest.fixture
def registry(monkeypatch):
    """A registry of the test's own."""
    own: dict[str, Panel] = {}
    monkeypatch.setattr("nodeproof.paper.experiments.panels.PANELS", own)
    monkeypatch.setattr("nodeproof.paper.experiments.reproduction.PANELS", own)
    monkeypatch.setattr("nodeproof.paper.experiments.summary.PANELS", own)
    return own


@pytest.fixture
def no_pictures(monkeypatch):
    """Pictures take as long as cells; `test_one_entry_in_the_registry_gives_a_panel` has them."""
    monkeypatch.setattr("nodeproof.paper.experiments.reproduction.draw", lambda *_: [])


def entry(name: str) -> Panel:
    return Panel(
        name,
        f"{name}-figure",
        f"The panel {name}",
        Axis("$q$", (0.05, 0.1), (0.1,)),
        lambda q: {"cluster_size": 30 + len(name), "p": 0.4, "q": q},
        (Curve("genie", "GF"), Curve("calibrated", "GFL"), Curve("spectral", "G")),
    )


def test_one_entry_in_the_registry_gives_a_panel(registry, tmp_path):
    register(entry("mine"))
    done = reproduce(["mine"], tmp_path / "out", seeds=2, jobs=1)
    assert list(done.results.panels) == ["mine"]
    for suffix in ("png", "svg", "pdf"):
        assert (tmp_path / "out" / f"mine-figure.{suffix}").stat().st_size > 1000
    assert (tmp_path / "out" / "tables" / "mine.tex").exists()
    for page in ("summary.md", "summary.html"):
        assert "The panel mine" in (tmp_path / "out" / page).read_text()
    assert not list((tmp_path / "out").glob(".*"))


@pytest.mark.usefixtures("no_pictures")
def test_a_later_run_tells_of_what_an_earlier_one_has_finished(registry, tmp_path):
    register(entry("first"))
    register(entry("second"))
    for name in ("first", "second"):
        done = reproduce([name], tmp_path, seeds=1, quick=True, jobs=1)
    assert list(done.results.panels) == ["first", "second"]
    table = pyarrow.parquet.read_table(tmp_path / "results.parquet")
    assert set(table["panel"].to_pylist()) == {"first", "second"}
    # More seeds: the panel that was not asked for is not complete any more.
    done = reproduce(["second"], tmp_path, seeds=2, quick=True, jobs=1)
    assert list(done.results.panels) == ["second"]


def optional(name: str) -> Panel:
    return replace(
        entry(name),
        extended=(Curve("ir-ls", "GFL"),),
        peers=(Curve("bregman", "GFL"),),
        extended_seeds=lambda x, curve, seeds: 1 if curve.method == "ir-ls" else seeds,
    )


@pytest.mark.usefixtures("no_pictures")
def test_optional_curves_are_run_if_asked_for_and_shown_ever_after(registry, tmp_path):
    register(optional("mine"))
    methods = {"genie", "calibrated", "spectral"}
    for options, more in (({}, set()), ({"extended": True}, {"ir-ls"}), ({}, {"ir-ls"})):
        done = reproduce(["mine"], tmp_path, seeds=2, quick=True, jobs=1, **options)
        points = [point for point, _ in done.results.points]
        assert {point.cell.method for point in points} == methods | more
    assert [point.cell.seed for point in points if point.cell.method == "ir-ls"] == [0]
    table = pyarrow.parquet.read_table(tmp_path / "results.parquet")
    assert "ir-ls" in table["method"].to_pylist()
    assert "--seeds 2 --quick --extended" in (tmp_path / "summary.md").read_text()
    assert r"IR-LS" in (tmp_path / "tables" / "mine.tex").read_text()


@pytest.mark.usefixtures("no_pictures")
def test_a_panel_of_optional_curves_only_is_not_run_without_the_option(registry, tmp_path):
    register(replace(optional("long"), curves=()))
    register(entry("mine"))
    with pytest.raises(InputError, match=r"long: .*--extended"):
        reproduce(["long"], tmp_path / "out", seeds=1, quick=True, jobs=1)
    assert not (tmp_path / "out").exists()
    done = reproduce(["all"], tmp_path / "out", seeds=1, quick=True, jobs=1)
    assert list(done.results.panels) == ["mine"]
    assert "reproduce all --seeds 1" in (tmp_path / "out" / "summary.md").read_text()
    done = reproduce(["long"], tmp_path / "out", seeds=1, quick=True, extended=True, jobs=1)
    assert {point.cell.method for point, _ in done.results.points if point.panel == "long"} == {
        "ir-ls"
    }


def test_peers_without_torch_say_what_to_install(registry, tmp_path, monkeypatch, capsys):
    register(optional("mine"))
    monkeypatch.setattr("nodeproof.paper.baselines.networks.find_spec", lambda name: None)
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "mine", "--peers", "--out", str(tmp_path / "out")])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert "pip install torch torch_geometric" in told
    assert told.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_command_prints_claims_and_where_things_are(registry, tmp_path):
    register(entry("mine"))
    out = tmp_path / "out"
    arguments = ["reproduce", "mine", "--quick", "--seeds", "1", "--jobs", "1", "--out", str(out)]
    shown = CliRunner().invoke(cli, arguments)
    assert shown.exit_code == 0, shown.output
    assert "summary.html" in shown.output
    again = CliRunner().invoke(cli, [*arguments, "--json"])
    told = json.loads(again.stdout)
    assert told["cells_run"] == 0
    assert told["panels"] == ["mine"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fig9"], "there is no experiment 'fig9'"),
        ([], "Missing argument"),
        (["fig1", "--seeds", "0"], "--seeds"),
        (["fig1", "--style", "theirs"], "--style"),
        (["fig1", "--style", "paper", "--solver", "magic"], "there is no method 'magic'"),
        (["fig1", "--out", "no/such/folder"], "does not exist"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", *arguments])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert message in told
    first, *rest = told.splitlines()
    assert first.startswith("nodeproof: ")
    assert rest in ([], ["Try 'nodeproof reproduce --help'."])
    assert not list(tmp_path.iterdir())


def test_ctrl_c_says_what_is_kept(registry, tmp_path, monkeypatch, capsys):
    register(entry("mine"))
    done = 0

    def interrupted(cell):
        nonlocal done
        done += 1
        if done > 2:
            raise KeyboardInterrupt
        return {"accuracy": 1.0}

    monkeypatch.setattr("nodeproof.paper.experiments.cells.run_cell", interrupted)
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "mine", "--seeds", "2", "--jobs", "1", "--out", str(tmp_path)])
    assert ended.value.code == 130
    assert "2 cells were finished and are kept" in capsys.readouterr().err
    assert len((tmp_path / JOURNAL).read_text().splitlines()) == 2


@pytest.mark.slow
def test_killed_five_times_the_tables_are_the_same_and_no_cell_ran_twice(tmp_path):
    command = [sys.executable, "-m", "nodeproof", "reproduce", "dense", "convergence",
               "--quick", "--seeds", "3", "--jobs", "2", "--json", "--out"]  # fmt: skip
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    subprocess.run([*command, str(whole)], check=True, capture_output=True)
    total = len((whole / JOURNAL).read_text().splitlines())

    marked = {**os.environ, "MARK": secrets.token_hex(8)}
    chance = random.Random()
    for _ in range(5):
        finished = _count(cut)
        stop_at = finished + chance.randint(1, max(1, (total - finished) // 5))
        process = subprocess.Popen(
            [*command, str(cut)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=marked,
        )
        while _count(cut) < stop_at and process.poll() is None:
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.1))
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert _count(cut) < total, "the run was over before it could be killed"

    time.sleep(3)
    assert not _alive(marked["MARK"]), "workers outlive the run that was killed"
    last = subprocess.run([*command, str(cut)], check=True, capture_output=True, text=True)
    told = json.loads(last.stdout)
    assert 0 < told["cells_run"] < total
    keys = [json.dumps(json.loads(line)["cell"]) for line in (cut / JOURNAL).open()]
    assert len(keys) == len(set(keys)) == total
    compared = ["results.csv", "results.parquet", "traces.csv", "traces.parquet", "summary.md",
                "summary.html", "tables/dense.tex", "beyond.svg", "beyond.pdf"]  # fmt: skip
    for name in compared:
        assert (whole / name).read_bytes() == (cut / name).read_bytes(), name


@pytest.mark.slow
def test_ctrl_c_ends_the_run_and_its_workers_and_keeps_what_is_finished(tmp_path):
    command = [sys.executable, "-m", "nodeproof", "reproduce", "dense", "--seeds", "10",
               "--jobs", "2", "--out", str(tmp_path)]  # fmt: skip
    marked = {**os.environ, "MARK": secrets.token_hex(8)}
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=marked, start_new_session=True
    )
    while _count(tmp_path) < 5 and process.poll() is None:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the workers are told, too
    told = process.communicate(timeout=30)[1]
    assert process.returncode == 130
    assert f"{_count(tmp_path)} cells were finished and are kept" in told
    assert "Traceback" not in told
    time.sleep(3)
    assert not _alive(marked["MARK"])


def _alive(mark: str) -> list[str]:
    """Return the processes with this mark in their environment (where /proc tells)."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark.encode() in environ.read_bytes():
                found.append(environ.parent.name)
    return found


def _count(out: Path) -> int:
    path = out / JOURNAL
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_the_real_registry_is_not_touched_by_these_tests():
    assert "p" in PANELS
    assert "mine" not in PANELS
