"""`benchmarks/scale.py`: what is measured is kept, distinguished and never made up."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import processes
import scale
from processes import PeakMemory, run_process
from scaling import Report, Row, bench, cells, measure, peers, report, run
from scaling.cells import Cell, plan, preparations
from scaling.data import Data, draw, load, planted, told_by_genie
from scaling.peers import PEERS, Found, Peer
from scaling.picture import draw_bench
from scaling.rows import OWN, exponent, growth_of, in_units, power_of_ten

JOURNAL = "cells.jsonl"
SIZES = (2_000, 4_000)

QUICK = {
    peer.name: peer
    for peer in (
        Peer("always zero", "GL", lambda data: Found(np.zeros(len(data.y)))),
        Peer("cut short", "GFL", lambda data: Found(None, 7.0), note="extrapolated from 2"),
        Peer("absent", "GL", lambda data: Found(None), ("no_such_module",), "no-such-package"),
    )
}


def take(patch: pytest.MonkeyPatch) -> None:
    for module in (cells, measure, report):
        patch.setattr(module, "PEERS", QUICK)


@pytest.fixture
def quick_peers(monkeypatch):
    """Peers of the test's own, one of which is not installed."""
    take(monkeypatch)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A run in this process: its report, and the folder it is written to."""
    out = tmp_path_factory.mktemp("bench")
    with pytest.MonkeyPatch.context() as patch:
        take(patch)
        patch.setattr(run, "measure_apart", measure.measure)
        found = bench(SIZES, out, repeats=1, peers_up_to=SIZES[0])
        found.write(out)
    return found, out


@pytest.fixture
def canned(monkeypatch, quick_peers):
    """Made-up figures in the place of measurements; returns the list of cells."""
    made = []

    def made_up(cell, folder, tell):
        made.append(cell)
        return figures(cell)

    monkeypatch.setattr(run, "measure_apart", made_up)
    return made


def figures(cell: Cell) -> dict:
    if cell.kind in cells.PREPARING:
        return {"seconds": 3.0, "peak": 2_000_000, "bytes": 16 * cell.links, "resumed": False}
    product = None if cell.kind == "stream" else 1e-8 * cell.links
    record = {
        "compiled": 1.0, "nodes": cell.links // 10, "seconds": 3e-8 * cell.links,
        "product": product, "pass": 1e-9 * cell.links, "sweep": 5e-9 * cell.links, "sweeps": 4,
        "starts": 1, "chosen": ["terms"], "status": "converged", "accuracy": 0.99,
        "hidden": 0.98, "genie": 0.995, "peak": 30_000_000, "input": 20_000_000,
    }  # fmt: skip
    if cell.kind == "stream":
        record |= {"sweep": 6e-9 * cell.links, "disk_bytes_per_second": 1e9}
        record |= {"disk_pass": 8e-9 * cell.links, "graph_bytes": 16 * cell.links}
    return record


def test_figures_are_measured_and_written(measured):
    _, out = measured
    assert (out / "bench.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "bench.png").stat().st_size > 10_000
    told = json.loads((out / "bench.json").read_text())
    assert told["machine"]["cores"] >= 1
    assert told["machine"]["versions"]["numpy"] == np.__version__
    own = [row for row in told["rows"] if row["method"] == OWN]
    assert [(row["links"], row["sources"]) for row in own] == [
        (size, sources) for size in SIZES for sources in ("GL", "GFL")
    ]
    for row in own:
        assert row["fit_per_product"] == pytest.approx(row["seconds"] / row["product"])
        assert row["sweep_per_pass"] == pytest.approx(row["sweep"] / row["index_pass"])
        assert 0 < row["sweep"] < row["seconds"]
        assert row["sweeps"] >= 1
        assert row["nodes"] == row["links"] / 10
    assert min(row["hidden"] for row in own) > 0.8
    assert set(told["exponents"]) >= {"fit GL", "fit GFL", "sweep GL", "A @ M", "index pass"}
    with (out / "bench.csv").open() as file:
        table = list(csv.DictReader(file))
    assert len(table) == len(told["rows"])
    assert float(table[0]["seconds"]) == own[0]["seconds"]
    # The graphs are gone, and no half-written file is left.
    assert sorted(path.name for path in out.iterdir()) == [
        "bench.csv", "bench.json", "bench.png", JOURNAL,
    ]  # fmt: skip


def test_peers_are_measured_or_said_to_be_missing(measured):
    found, _ = measured
    rows = {row.method: row for row in found.rows if row.method != OWN}
    zero = rows["always zero"]
    assert zero.links == SIZES[0]
    assert zero.hidden == pytest.approx(0.1)
    cut = rows["cut short"]
    assert cut.seconds == 7.0
    assert cut.accuracy is None
    assert cut.title == "cut short (extrapolated)"
    assert rows["absent"].note == "not installed: pip install no-such-package"
    assert rows["absent"].seconds is None
    assert not found.failed
    assert sum(row.method == "always zero" for row in found.rows) == 1


def test_without_peers_none_is_told_of(canned, tmp_path):
    found = bench(SIZES[:1], tmp_path, peers=False)
    assert {row.method for row in found.rows} == {OWN}


def test_what_is_finished_is_not_measured_again(canned, tmp_path):
    bench(SIZES, tmp_path)
    first = len(canned)
    bench(SIZES, tmp_path)
    assert len(canned) == first
    bench((*SIZES, 8_000), tmp_path)
    assert {cell.links for cell in canned[first:]} == {8_000}
    again = len(canned)
    bench(SIZES, tmp_path, repeats=5)
    assert {cell.repeats for cell in canned[again:]} == {5}
    again = len(canned)
    bench(SIZES, tmp_path, fresh=True)
    assert len(canned) - again == first


def test_ctrl_c_keeps_what_is_finished(canned, tmp_path, monkeypatch, capsys):
    def interrupted(cell, folder, tell):
        if cell.kind == "fit" and cell.name == "GFL":
            raise KeyboardInterrupt
        return figures(cell)

    arguments = ["--links", "2e3", "--out", str(tmp_path), "--no-peers"]
    with monkeypatch.context() as patched:
        patched.setattr(run, "measure_apart", interrupted)
        with pytest.raises(SystemExit) as ended:
            scale.main(arguments)
    assert ended.value.code == 130
    assert "finished and kept: 1 of 2 measurements" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        scale.main(arguments)
    assert ended.value.code == 0
    # The graph is still there: only the fit that was interrupted is made.
    assert [(cell.kind, cell.name) for cell in canned] == [("fit", "GFL")]


def test_a_failure_is_told_and_tried_again(canned, tmp_path, monkeypatch):
    def failing(cell, folder, tell):
        if cell.name in ("GFL", "always zero"):
            return {"error": "ended by SIGKILL (out of memory?)"}
        return figures(cell)

    with monkeypatch.context() as patched:
        patched.setattr(run, "measure_apart", failing)
        found = bench(SIZES[:1], tmp_path)
    rows = {(row.method, row.sources): row for row in found.rows}
    assert rows[OWN, "GFL"].note == "failed: ended by SIGKILL (out of memory?)"
    assert rows[OWN, "GFL"].seconds is None
    assert rows[OWN, "GL"].seconds is not None
    assert rows["cut short", "GFL"].seconds is not None
    assert found.failed
    assert "exponents" in found.as_dict()
    assert not bench(SIZES[:1], tmp_path).failed
    assert sorted(cell.name for cell in canned) == ["GFL", "always zero"]


def test_data_that_other_code_has_made_are_made_again(canned, tmp_path, monkeypatch):
    bench(SIZES[:1], tmp_path, keep_data=True, peers=False)
    marker = tmp_path / "data" / f"{SIZES[0]}-0" / "draw.json"
    stale = marker.with_name("stale.npy")
    stale.touch()
    bench(SIZES[:1], tmp_path, keep_data=True, peers=False, repeats=2)
    assert [cell.kind for cell in canned] == ["draw", "fit", "fit", "fit", "fit"]
    assert stale.exists()
    marker.write_text("of another version")
    bench(SIZES[:1], tmp_path, keep_data=True, peers=False, repeats=4)
    assert [cell.kind for cell in canned[5:]] == ["draw", "fit", "fit"]
    assert not stale.exists()


def test_large_graphs_stay_on_disk(canned, tmp_path):
    found = bench(SIZES, tmp_path, disk_from=SIZES[1], peers_up_to=1e9)
    kinds = [cell.kind for cell in canned if cell.links == SIZES[1]]
    assert kinds == ["write", "convert", "stream"]
    (row,) = [row for row in found.rows if row.on_disk]
    assert (row.sources, row.product, row.fit_per_product) == ("GL", None, None)
    (entry,) = found.disk
    assert entry["in_memory_links"] == SIZES[0]
    assert entry["sweep_per_link_over_in_memory"] == pytest.approx(6 / 5)
    assert entry["sweep_per_disk_pass"] == pytest.approx(6 / 8)
    # So small a graph is read from the cache, and this is said.
    assert entry["fits_in_memory"]
    assert entry["write_seconds"] == entry["convert_seconds"] == 3.0
    assert "fit GL" not in found.exponents
    assert found.exponents["fit GL, disk included"].sizes == list(SIZES)
    found.write(tmp_path)
    assert (tmp_path / "bench.png").exists()


def test_a_graph_on_disk_is_written_converted_and_fitted(tmp_path, monkeypatch, quick_peers):
    pytest.importorskip("duckdb")
    monkeypatch.setattr(run, "measure_apart", measure.measure)
    found = bench([10_000], tmp_path, disk_from=10_000)
    (row,) = [row for row in found.rows if row.method == OWN]
    assert row.on_disk
    assert row.nodes == 1_000
    assert row.hidden > 0.9
    assert row.genie > 0.97
    (entry,) = found.disk
    assert entry["disk_bytes_per_second"] > 0
    assert entry["convert_bytes"] > 4 * 2 * 9_900
    assert not entry["write_resumed"]
    assert not entry["convert_resumed"]
    assert not (tmp_path / "data").exists()


def test_a_disk_that_is_too_small_is_told_before_the_work(canned, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        scale.main(["--links", "2e3,1e12", "--out", str(tmp_path)])
    assert ended.value.code == 2
    assert "of disk or more" in capsys.readouterr().err
    assert not canned


def test_figures_are_written_with_their_units():
    seconds = (0.0000125, 0.5, 0.04, 312.4)
    assert [in_units(s) for s in seconds] == ["12 µs", "0.50 s", "40 ms", "312 s"]
    sizes = (1e6, 2e8, 12_500)
    assert [power_of_ten(n) for n in sizes] == ["10⁶", "2·10⁸", "1.25·10⁴"]


def test_exponents_are_those_of_the_data():
    sizes = [10**4, 10**5, 10**6]
    assert exponent(sizes, [2e-6 * size**1.25 for size in sizes]) == pytest.approx(1.25)


def test_fits_that_do_other_work_do_not_count_for_the_growth():
    base = Row(OWN, "GL", 0, starts=1, chosen="terms", sweep=1.0)
    rows = [replace(base, links=10**k, seconds=10.0 ** (1.1 * k)) for k in (5, 6, 7)]
    few = replace(base, links=10**4, seconds=1e9, starts=4)
    growth = growth_of([few, *rows])["fit GL"]
    assert growth.exponent == pytest.approx(1.1)
    assert growth.sizes == [10**5, 10**6, 10**7]
    assert growth.same_work
    mixed = growth_of([few, rows[0]])["fit GL"]
    assert not mixed.same_work
    assert mixed.sizes == [10**4, 10**5]
    assert "fit GL" not in growth_of(rows[:1])


def test_the_genie_is_the_one_of_planted_data(tmp_path):
    drawn = draw(20_000, 3, tmp_path / "data")
    data = planted(20_000, 3)
    assert drawn["genie"]["GL"] == pytest.approx(data.genie_accuracy("G"), abs=1e-12)
    assert drawn["genie"]["GFL"] == pytest.approx(data.genie_accuracy("GF"), abs=1e-3)
    assert told_by_genie(tmp_path / "data", "GL") == drawn["genie"]["GL"]
    read = load(tmp_path / "data", "GFL")
    assert (read.graph != data.graph).nnz == 0
    assert read.X.dtype == read.graph.dtype == np.float32
    np.testing.assert_array_equal(read.y, data.y)
    n, links = len(data.y), data.graph.nnz
    assert read.nbytes == 8 * links + 4 * (n + 1) + 4 * 16 * n + 4 * 10 * n
    assert load(tmp_path / "data", "GL").X is None


def test_graphs_have_the_degree_and_the_labels_that_are_said():
    data = planted(100_000, 0)
    assert data.graph.nnz / len(data.y) == pytest.approx(20, rel=0.02)
    rows, columns = data.graph.nonzero()
    assert (data.y_true[rows] == data.y_true[columns]).mean() == pytest.approx(0.5, abs=0.01)
    assert (data.y >= 0).mean() == pytest.approx(0.01)
    # In small graphs, too, every class has a label.
    assert set(planted(2_000, 0).y) == {-1, *range(10)}


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("label propagation", 0.3),
        ("scikit-network Diffusion", 0.3),
        ("SGC + logistic regression", 0.8),
    ],
)
def test_peers_find_classes(name, least):
    peer = PEERS[name]
    if peer.missing:
        pytest.skip(peer.missing)
    data = planted(10_000, 0)
    found = peer.fit(Data(data.graph, data.X.astype(np.float32), data.y))
    hidden = data.y < 0
    assert (found.labels == data.y_true)[hidden].mean() > least


def test_every_peer_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(peers, "find_spec", lambda module: None)
    assert PEERS["scikit-network Diffusion"].missing == "not installed: pip install scikit-network"
    assert PEERS["GCN"].missing == "not installed: pip install torch torch_geometric"
    assert PEERS["label propagation"].missing == ""
    assert "extrapolated" in PEERS["GCN"].note


def test_a_process_of_its_own_gives_the_record(tmp_path):
    cell = Cell("draw", "", 2_000, seed=0, repeats=1, threads=1)
    record = run.measure_apart(cell, tmp_path, print)
    assert record["nodes"] == 200
    assert (tmp_path / "data" / "indices.npy").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")
@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        ("echo Traceback >&2; echo 'MemoryError: no room' >&2; exit 1", "MemoryError: no room"),
        ("kill -9 $$", "ended by SIGKILL (out of memory?)"),
        ("exit 0", "ended with code 0 and without a message"),
        ("exec sleep 60", "took more than 1 s"),
    ],
)
def test_a_process_that_fails_gives_one_line(ending, reason, tmp_path, monkeypatch):
    script = tmp_path / "python"
    script.write_text(f"""#!/bin/sh
echo '{{"news": "so far"}}'
{ending}
""")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    news = []
    timeout = 1.0 if "sleep" in ending else None
    record = run_process("module", {}, threads=1, tell=news.append, timeout=timeout)
    assert record == {"error": reason}
    assert news == ["so far"]


def test_the_peak_is_seen_though_it_is_gone_at_the_end():
    if processes.anonymous_bytes() is None:
        pytest.skip("the system does not tell")
    with PeakMemory() as peak:
        held = np.ones(6_000_000)
        # Long enough for a look.
        peak._done.wait(0.1)
        del held
    assert 40e6 < peak.peak < 80e6


def test_without_proc_memory_is_left_open(canned, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(processes, "_STATUS", tmp_path / "no such file")
    with PeakMemory() as peak:
        pass
    assert peak.peak is None
    monkeypatch.setattr(run, "measure_apart", lambda cell, *_: {**figures(cell), "peak": peak.peak})
    out = tmp_path / "out"
    with pytest.raises(SystemExit):
        scale.main(["--links", "2e3", "--out", str(out)])
    assert "memory is not measured" in capsys.readouterr().out
    row = json.loads((out / "bench.json").read_text())["rows"][0]
    assert row["seconds"] is not None
    assert row["peak_mb"] is row["memory"] is None


def test_keys_tell_measurements_apart():
    cell = Cell("fit", "GL", 2_000, seed=0, repeats=3, threads=2)
    others = [replace(cell, **{name: 1}) for name in ("links", "seed", "repeats", "threads")]
    assert len({cell.key, *(other.key for other in others)}) == 5
    (step,) = preparations(cell)
    (same,) = preparations(others[2])
    assert step.key == same.key


def test_sizes_are_planned_once_each_from_small_to_large(quick_peers):
    planned = plan(
        [4_000, 2_000, 4_000], disk_from=10**9, peers=True, peers_up_to=2_000, seed=0, repeats=1,
        threads=1,
    )  # fmt: skip
    assert [(cell.links, cell.name) for cell in planned] == [
        (2_000, "GL"), (2_000, "GFL"), (2_000, "always zero"), (2_000, "cut short"),
        (4_000, "GL"), (4_000, "GFL"),
    ]  # fmt: skip


def test_a_picture_of_one_size_is_drawn(tmp_path):
    rows = [Row(OWN, "GL", 10**6, seconds=1.0, product=0.3, index_pass=0.01)]
    draw_bench(Report(rows, {}, [], False, {}), tmp_path / "one.png")
    assert (tmp_path / "one.png").stat().st_size > 5_000


def test_the_command_prints_tables_or_json(canned, tmp_path, capsys):
    arguments = ["--links", "2e3,4e3,8e3", "--out-of-core-from", "8e3", "--out", str(tmp_path)]
    with pytest.raises(SystemExit) as ended:
        scale.main(arguments)
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    for text in ("4·10³", "absent: not installed: pip install no-such-package", "fit GL 1.00",
                 "cut short (extrapolated)", "bench.png", "0.9800", "GL disk",
                 "8·10³ links on disk: written in 3.0 s"):  # fmt: skip
        assert text in shown
    # Nothing is cut off where the terminal is narrow.
    assert "…" not in shown
    with pytest.raises(SystemExit):
        scale.main([*arguments, "--json"])
    told = capsys.readouterr()
    assert json.loads(told.out) == json.loads((tmp_path / "bench.json").read_text())
    assert told.err == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--links", "many"], "--links"),
        (["--links", "1e4,-5"], "--links"),
        (["--links", "100"], "too small: give at least 2000"),
        (["--repeats", "0"], "--repeats"),
    ],
)
def test_bad_input_is_told_and_exit_code_2(arguments, message, capsys, tmp_path):
    with pytest.raises(SystemExit) as ended:
        scale.main([*arguments, "--out", str(tmp_path)])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
    assert not list(tmp_path.iterdir())
