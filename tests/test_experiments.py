"""The experiments: cells, the registry, the journal, the runner and the tables."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

import nodeproof
from nodeproof import __version__, datasets
from nodeproof.errors import InputError
from nodeproof.paper.experiments import (
    PANELS,
    Axis,
    Cell,
    Curve,
    Panel,
    Results,
    register,
    run,
    run_cell,
    select,
)
from nodeproof.paper.experiments.cells import code_digest
from nodeproof.paper.experiments.methods import METHODS
from nodeproof.storage.journal import JOURNAL, Journal

SMALL = {"cluster_size": 30, "p": 0.4, "q": 0.05}


def small_panel(name: str = "small", **settings) -> Panel:
    return Panel(
        name,
        name + "-figure",
        "A small one",
        Axis("p", (0.2, 0.4), (0.4,)),
        lambda p: {**SMALL, "p": p},
        (Curve("genie", "GF"), Curve("calibrated", "GFL"), Curve("gaussian", "FL")),
        **settings,
    )


def cells(n: int = 4) -> list[Cell]:
    return [Cell("calibrated", "GL", seed, SMALL) for seed in range(n)]


# Cells


# Methods that label no node have answers: see test_experiments_theorem.py.
UNLABELLING = {"trace", "theorem", "program", "proof"}


# They need torch.
NETWORKS = {"gcn", "graphsage", "gat"}


@pytest.mark.parametrize("method", sorted(NETWORKS))
def test_a_network_runs_on_what_it_is_given(method):
    pytest.importorskip("torch_geometric")
    cell = Cell(method, "GFL", 0, {**SMALL, "label_ratio": 0.5})
    first, second = run_cell(cell), run_cell(cell)
    assert 0.4 < first["accuracy"] <= 1
    assert {**first, "seconds": 0} == {**second, "seconds": 0}


@pytest.mark.parametrize("method", sorted(set(METHODS) - UNLABELLING - NETWORKS))
def test_every_method_runs_on_what_it_is_given(method):
    record = run_cell(Cell(method, "GFL", 0, SMALL))
    assert 0.3 < record["accuracy"] <= record["matched"] <= 1
    assert record["seconds"] > 0
    json.dumps(record)


def test_a_cell_is_known_by_what_it_computes():
    plain = Cell("calibrated", "GFL", 0)
    assert plain.key == Cell("calibrated", "GFL", 0, {"p": 0.1}).key  # the default, spelt out
    others = [
        Cell("calibrated", "GFL", 1),
        Cell("calibrated", "GL", 0),
        Cell("fixed", "GFL", 0),
        Cell("calibrated", "GFL", 0, {"p": 0.2}),
        Cell("fixed", "GFL", 0, options={"weights": (1.0, 2.5, 0.0)}),
    ]
    assert len({cell.key for cell in [plain, *others]}) == 6
    assert json.loads(plain.key)["version"] == __version__


def test_code_that_computes_cells_counts_and_other_code_does_not(tmp_path):
    package = Path(nodeproof.__file__).parent
    digests = []
    for number, touched in enumerate(
        (
            "",
            "solvers/block.py",
            "paper/experiments/methods.py",
            "cli/fit.py",
            "paper/experiments/panels.py",
        )
    ):
        root = tmp_path / str(number)
        shutil.copytree(package, root, ignore=shutil.ignore_patterns("__pycache__"))
        if touched:
            (root / touched).open("a").write("# changed")
        digests.append(code_digest(root))
    plain, solver, methods, cli, panels = digests
    assert plain == code_digest() == cli == panels
    assert len({plain, solver, methods}) == 3


def test_the_same_cell_gives_the_same_record_but_for_the_time():
    cell = Cell("ir-map", "GFL", 3, SMALL)
    first, second = run_cell(cell), run_cell(cell)
    assert {**first, "seconds": 0} == {**second, "seconds": 0}


def test_accuracy_is_that_of_the_unlabelled_nodes_by_name_or_up_to_renaming():
    data = datasets.make_planted(random_state=5, **SMALL)
    genie = run_cell(Cell("genie", "GF", 5, SMALL))
    assert genie["accuracy"] == data.genie_accuracy("GF")
    unlabelled = run_cell(Cell("calibrated", "G", 5, SMALL))
    assert unlabelled["accuracy"] == unlabelled["matched"] > 0.9


@pytest.mark.parametrize("method", ["fixed", "cado", "cado-W"])
def test_a_source_of_weight_zero_is_kept_and_scored_by_name(method):
    """A configuration with labels names its classes, also where these have no weight."""
    record = run_cell(Cell(method, "GL", 0, SMALL, {"weights": (1.0, 2.5, 0.0)}))
    without = run_cell(Cell(method, "G", 0, SMALL))
    assert without["accuracy"] == without["matched"]
    assert record["accuracy"] <= record["matched"]


def test_a_start_that_needs_what_a_configuration_does_not_have_is_random():
    plain, spectral, labels = (
        run_cell(Cell(method, "F", 0, SMALL)) for method in ("cado", "cado/spectral", "cado/labels")
    )
    assert plain["objective"] == spectral["objective"] == labels["objective"]


def test_all_weights_zero_leave_nothing_to_go_by():
    record = run_cell(Cell("fixed", "GL", 0, SMALL, {"weights": (0.0, 2.5, 0.0)}))
    assert record["accuracy"] == pytest.approx(1 / 3, abs=0.1)


def test_without_any_label_the_full_model_is_graph_and_features():
    unlabelled = {**SMALL, "label_ratio": 0.0}
    full, without = (run_cell(Cell("calibrated", s, 0, unlabelled)) for s in ("GFL", "GF"))
    assert {**full, "seconds": 0} == {**without, "seconds": 0}


@pytest.mark.parametrize("options", [{"solver": "cado"}, {"solver": "block"}])
def test_a_trace_follows_the_objective_from_the_judge(options):
    record = run_cell(Cell("trace", "GFL", 0, SMALL, options))
    values = record["trace"]["value"]
    assert len(values) == len(record["times"]) == record["n_iter"]
    assert record["times"] == sorted(record["times"])
    assert len(record["trace"]["accuracy"]) == len(values)


@pytest.mark.parametrize("solver", ["cado", "block"])
def test_a_trace_that_is_interrupted_is_not_a_finished_cell(solver, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("nodeproof.solvers.cado._Links.move", interrupt)
    monkeypatch.setattr("nodeproof.solvers.sweep.Sweeper.sweep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_cell(Cell("trace", "GFL", 0, SMALL, {"solver": solver}))


def test_a_calibrated_trace_ends_at_the_solvers_own_value():
    record = run_cell(Cell("trace", "GFL", 0, SMALL, {"solver": "block", "weights": "calibrated"}))
    assert record["trace"]["value"][-1] == pytest.approx(record["objective"], rel=1e-6)


# The registry


def test_the_registry_has_the_papers_panels():
    figures = {name: panel.figure for name, panel in PANELS.items()}
    assert [n for n, f in figures.items() if f == "fig1"] == ["p", "omega", "labels"]
    assert [n for n, f in figures.items() if f == "fig2"] == ["beta_g", "beta_f", "beta_l"]
    assert [n for n, f in figures.items() if f == "fig3"] == ["n", "m", "clusters"]
    assert (PANELS["p"].x.grid[0], PANELS["p"].x.grid[-1]) == (0.0, 0.15)
    assert (PANELS["omega"].x.grid[0], PANELS["omega"].x.grid[-1]) == (0.0, 5.0)


@pytest.mark.parametrize("panel", PANELS.values(), ids=lambda panel: panel.name)
def test_every_panel_has_the_bound_and_data_that_can_be_drawn(panel):
    assert set(panel.x.quick) <= set(panel.x.grid)
    panel = panel.including(extended=True, peers=True)
    points = list(panel.points(seeds=2))
    assert points
    names = [curve.name for curve in panel.curves]
    assert len(set(names)) == len(names)
    if panel.kind not in ("trace", "answers"):
        assert {"genie"} <= {curve.method for curve in panel.curves}
    for point in points:
        asked = point.cell.settings
        sizes = np.broadcast_to(asked["cluster_size"], asked["n_clusters"])
        assert asked["omega"] > 0
        assert sizes.min() >= 8
        assert asked["n_noise"] <= asked["n_features"]


def test_beyond_twenty_clusters_there_are_three_seeds_of_the_calibrated_solver():
    heavy = [point for point in PANELS["clusters"].points(seeds=10) if point.x > 20]
    assert {point.cell.method for point in heavy} == {"calibrated", "genie"}
    assert {point.cell.seed for point in heavy} == set(range(3))


def test_extended_the_papers_curves_go_up_to_sixty_clusters():
    points = list(PANELS["clusters"].including(extended=True).points(seeds=10))
    heavy = {(p.cell.method, p.cell.sources) for p in points if p.x == 60}
    assert {("cado", s) for s in ("GL", "GF", "FL", "GFL")} | {("spectral", "G")} <= heavy
    seeds = {
        x: {p.cell.seed for p in points if p.x == x and p.cell.method == "cado"} for x in (30, 60)
    }
    assert seeds == {30: {0, 1, 2}, 60: {0}}


def test_covariances_of_trace_one_have_it():
    points = PANELS["omega_trace"].including(extended=True).points(seeds=1)
    settings = {point.x: point.cell.settings for point in points}
    assert len(settings) == len(PANELS["omega_trace"].x.grid)
    for asked in settings.values():
        drawn = datasets.make_planted(**{**asked, "cluster_size": 20}, random_state=0)
        for covariance in drawn.params["covariances"]:
            assert np.trace(covariance) == pytest.approx(1.0)


def test_two_panels_share_the_cells_of_a_point_they_share():
    keys = [
        {point.cell.key for point in PANELS[name].points(1)}
        for name in ("p", "omega", "labels", "n", "m", "clusters")
    ]
    assert len(set.intersection(*keys)) == len(PANELS["p"].curves)


def test_methods_that_need_labels_are_not_asked_without():
    without = [point for point in PANELS["labels"].points(1) if point.x == 0]
    assert {"gaussian", "label propagation"}.isdisjoint(p.cell.method for p in without)


def test_unknown_names_and_repeated_ones_are_refused(registry):
    with pytest.raises(InputError, match=r"no experiment 'fig9'.*fig1"):
        select(["fig9"])
    with pytest.raises(InputError, match="already"):
        register(small_panel("p"))
    odd = Panel("odd", "odd", "", Axis("x", (1.0,), (1.0,)), dict, (Curve("magic", "G"),))
    with pytest.raises(InputError, match="magic"):
        register(odd)


# The journal


def test_a_line_that_was_cut_off_is_dropped_and_the_rest_kept(tmp_path):
    path = tmp_path / JOURNAL
    with Journal(path) as journal:
        for seed in range(3):
            journal.add(json.dumps({"seed": seed}), {"accuracy": seed / 10})
    whole = path.read_bytes()
    for cut in range(1, len(whole.splitlines()[-1]) + 1):
        path.write_bytes(whole[:-cut])
        with Journal(path) as journal:
            assert list(journal.records) == ['{"seed": 0}', '{"seed": 1}']
            journal.add('{"seed": 2}', {"accuracy": 0.2})
        assert path.read_bytes() == whole


def test_a_broken_line_in_the_middle_is_named(tmp_path):
    path = tmp_path / JOURNAL
    path.write_text('{"cell": {}, "accuracy": 1}\nnonsense\n{"cell": {}, "accuracy": 1}\n')
    with pytest.raises(InputError, match=r"line 2 is not a finished cell.*--fresh"):
        Journal(path)


def test_two_runs_into_one_folder_are_kept_apart(tmp_path):
    with (
        Journal(tmp_path / JOURNAL),
        pytest.raises(InputError, match="another run is writing"),
    ):
        Journal(tmp_path / JOURNAL)


# The runner


def test_finished_cells_are_not_run_again(tmp_path):
    ran: list[Cell] = []
    told: list[tuple[int, int]] = []
    for asked in (cells(2), cells(4), cells(4)):
        run(
            asked,
            tmp_path,
            jobs=1,
            finished=ran.append,
            begin=lambda missing, done: told.append((len(missing), done)),
        )
    assert sorted(cell.seed for cell in ran) == [0, 1, 2, 3]
    assert told == [(2, 0), (2, 2), (0, 4)]
    assert len((tmp_path / JOURNAL).read_text().splitlines()) == 4


def test_a_fresh_run_forgets(tmp_path):
    run(cells(2), tmp_path, jobs=1)
    ran: list[Cell] = []
    run(cells(2), tmp_path, jobs=1, fresh=True, finished=ran.append)
    assert len(ran) == 2
    assert len((tmp_path / JOURNAL).read_text().splitlines()) == 2


def test_one_process_and_two_give_the_same_records(tmp_path):
    def without_times(records):
        return {key: {**record, "seconds": 0} for key, record in records.items()}

    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    asked = [Cell(m, "GFL", 0, SMALL) for m in METHODS if m not in {"trace", *NETWORKS}]
    one = run(asked, tmp_path / "one", jobs=1)
    two = run(asked, tmp_path / "two", jobs=2)
    assert without_times(one) == without_times(two)


def test_an_error_names_the_cell_and_keeps_what_is_finished(tmp_path):
    bad = Cell("calibrated", "GL", 9, {**SMALL, "p": 7.0})
    with pytest.raises(RuntimeError, match=r'p must.*"seed": 9'):
        run([*cells(2), bad], tmp_path, jobs=1)


# Results


@pytest.fixture
def small_results(tmp_path) -> Results:
    panel = small_panel(seeds=lambda x, curve, seeds: seeds if x < 0.4 else 2)
    records = run([p.cell for p in panel.points(3)], tmp_path, jobs=1)
    return Results([panel], records, seeds=3)


def test_a_series_has_the_seeds_of_each_place(small_results):
    series = small_results.series("small", Curve("calibrated", "GFL"))
    assert series.x.tolist() == [0.2, 0.4]
    assert [len(values) for values in series.values] == [3, 2]
    bound = small_results.series("small", Curve("genie", "GF"))
    gap = series.minus(bound)
    np.testing.assert_allclose(gap.at(0.4), series.at(0.4) - bound.at(0.4))
    assert series.mean[0] == pytest.approx(series.at(0.2).mean())
    assert series.error[0] == pytest.approx(series.at(0.2).std(ddof=1) / np.sqrt(3))


def test_tables_are_tidy_and_times_are_apart(small_results, tmp_path):
    small_results.write(tmp_path)
    table = pyarrow.parquet.read_table(tmp_path / "results.parquet")
    assert table.num_rows == 3 * (3 + 2)
    wanted = {"panel", "x", "curve", "method", "sources", "seed", "accuracy", "p", "q", "omega",
              "sizes", "label_ratio", "nodeproof"}  # fmt: skip
    assert wanted <= set(table.column_names)
    assert "seconds" not in table.column_names
    assert pyarrow.csv.read_csv(tmp_path / "results.csv").num_rows == table.num_rows
    timings = pyarrow.parquet.read_table(tmp_path / "timings.parquet")
    assert timings.num_rows == table.num_rows
    assert "seconds" in timings.column_names
