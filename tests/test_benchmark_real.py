"""The benchmark on real graphs: its splits, its peers, what it keeps and what it tells."""

from __future__ import annotations

import json
import sys
import types
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import real
from nodeproof.errors import InputError
from peers import PEERS, cells, linear, nets, registry, report, sets
from peers.cells import Cell, judge, measure
from peers.registry import Data, Split
from peers.report import markdown, mean_interval, paired, summarise, write_report

pytestmark = pytest.mark.filterwarnings("ignore:stopped after")

PEER_NAMES = [
    name
    for name, peer in PEERS.items()
    if not name.startswith("nodeproof") and (peer.needs is None or find_spec(peer.needs))
]


def small_set(n_classes=3, n=150, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    same = rng.random((n, n)) < np.where(y[:, None] == y, 0.2, 0.01)
    graph = sp.csr_array(np.triu(same, 1), dtype=np.float32)
    words = rng.poisson(np.where(np.arange(20) % n_classes == y[:, None], 1.0, 0.3))
    X = sp.csr_array(words.astype(np.float32))
    return sets.GraphSet(Data("small", sp.csr_array(graph + graph.T), X, n_classes), y, None, "")


def write_set(path, graph_set, **extra):
    data = graph_set.data
    np.savez(
        path,
        n=len(graph_set.y),
        adj_indptr=data.graph.indptr,
        adj_indices=data.graph.indices,
        x_data=data.X.data,
        x_indices=data.X.indices,
        x_indptr=data.X.indptr,
        x_shape=np.array(data.X.shape),
        y=graph_set.y,
        **extra,
    )


@pytest.fixture
def folder(tmp_path):
    write_set(tmp_path / "small.npz", small_set())
    return tmp_path


@pytest.fixture(autouse=True)
def no_long_training(monkeypatch):
    monkeypatch.setattr(nets, "limit", 0.5)


def options(*arguments):
    return real.parse(list(arguments))


# Splits


def test_random_splits_share_no_node_and_leave_out_what_has_no_class():
    y = np.repeat([0, 1, 2, -1], 100)
    train, validation, test = sets.random_split(y, seed=3)
    assert np.bincount(y[train]).tolist() == [20, 20, 20]
    assert np.bincount(y[validation]).tolist() == [30, 30, 30]
    assert sorted([*train, *validation, *test]) == list(range(300))


def test_the_same_seed_gives_the_same_split_and_another_seed_another():
    y = np.repeat([0, 1], 100)
    first, again, other = (sets.random_split(y, seed)[0].tolist() for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_of_a_small_class_a_third_is_for_training_and_a_third_for_validation():
    parts = sets.random_split(np.repeat([0, 1], [100, 9]), seed=0)
    assert [int((part >= 100).sum()) for part in parts] == [3, 3, 3]


def test_methods_see_no_label_beyond_the_split():
    graph_set = small_set()
    split, test = sets.draw(graph_set, random=True, number=0)
    assert (split.y[test] == -1).all()
    assert (split.y[split.validation] == -1).all()
    assert not np.intersect1d(split.validation, test).size
    assert "y" not in vars(graph_set.data)


def test_a_share_of_the_training_labels_is_flipped_and_no_other():
    graph_set = small_set()
    right, _ = sets.draw(graph_set, random=True, number=0)
    flipped, _ = sets.draw(graph_set, random=True, number=0, flip=0.3)
    changed = right.y != flipped.y
    assert changed.sum() == round(0.3 * len(right.train))
    assert (right.train == flipped.train).all()
    assert (flipped.y[flipped.train] < 3).all()
    assert (flipped.validation_labels == graph_set.y[flipped.validation]).all()


def test_hidden_validation_nodes_are_not_given_as_test_nodes():
    graph_set = small_set()
    split, test = sets.draw(graph_set, random=True, number=0, validation=False)
    assert len(split.validation) == 0
    assert (test == sets.draw(graph_set, random=True, number=0)[1]).all()


def test_a_public_split_is_taken_unless_random_ones_are_asked_for(tmp_path):
    masks = {name: np.arange(150) % 3 == k for k, name in enumerate(sets._MASKS)}
    write_set(tmp_path / "small.npz", small_set(), **masks)
    graph_set = sets.read_set(tmp_path / "small.npz")
    assert (sets.draw(graph_set, random=False, number=5)[1] == np.arange(2, 150, 3)).all()
    assert len(sets.draw(graph_set, random=True, number=5)[1]) != 50


def test_a_file_of_another_layout_is_named(tmp_path):
    np.savez(tmp_path / "odd.npz", a=1)
    with pytest.raises(InputError, match=r"odd\.npz is not a graph"):
        sets.read_set(tmp_path / "odd.npz")


# Peers


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("validation", [True, False])
@pytest.mark.parametrize("name", PEER_NAMES)
def test_every_peer_returns_probabilities_better_than_chance(name, validation, n_classes):
    graph_set = small_set(n_classes)
    split, test = sets.draw(graph_set, random=True, number=0, validation=validation)
    found = judge(PEERS[name].fit(graph_set.data, split, 0), graph_set.y, test)
    # How much nets learn in the time that a test has depends on the machine.
    assert PEERS[name].needs == "torch" or found["accuracy"] > 1.3 / n_classes


@pytest.mark.parametrize("name", PEER_NAMES)
def test_a_class_without_a_label_and_a_node_without_a_link_do_no_harm(name):
    graph_set = small_set()
    alone = graph_set.data.graph.toarray()
    alone[:5] = alone[:, :5] = 0
    data = Data("small", sp.csr_array(alone), graph_set.data.X, 3)
    split, _ = sets.draw(graph_set, random=True, number=0)
    labels = np.where(split.y == 2, -1, split.y)
    proba = PEERS[name].fit(data, Split(labels, split.validation, split.validation_labels), 0)
    assert proba.shape == (150, 3)
    assert np.allclose(proba.sum(axis=1), 1)


def test_smoothed_features_are_what_the_formula_says():
    graph_set = small_set()
    split, _ = sets.draw(graph_set, random=True, number=0)
    found = linear.s2gc_fixed(graph_set.data, split, 0)

    A = registry.normalised(graph_set.data.graph).toarray().astype(float)
    X = graph_set.data.X.toarray().astype(float)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    powers = [np.linalg.matrix_power(A, k) @ X for k in range(1, 17)]
    smooth = np.mean([0.9 * power + 0.1 * X for power in powers], axis=0)
    smooth /= np.sqrt((smooth[split.train] ** 2).sum(axis=1).mean())
    reference = LogisticRegression(C=30.0, max_iter=5000, tol=1e-8)
    reference.fit(smooth[split.train], split.y[split.train])
    assert np.abs(found - reference.predict_proba(smooth)).max() < 5e-3


def test_peers_choose_on_the_validation_nodes():
    graph_set = small_set()
    split, _ = sets.draw(graph_set, random=True, number=0)
    good = np.eye(3)[graph_set.y] * 0.8 + 0.2 / 3
    bad = np.roll(good, 1, axis=1)
    assert linear._best([bad, good], graph_set.data, split) is good
    blind = Split(split.y, split.validation[:0], split.validation_labels[:0])
    assert linear._best([bad, good], graph_set.data, blind) is bad


def test_what_is_not_probabilities_is_refused():
    with pytest.raises(ValueError, match="not probabilities"):
        judge(np.full((4, 2), np.nan), np.array([0, 1, 0, 1]), np.arange(4))


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
            "log_loss": 0.5,
            "ece": 0.1,
            "seconds": 0.1,
            "cpu_seconds": 0.1,
            "peak_mb": 1.0,
            "n_test": 10,
            "notes": [],
        }

    return run_cell


def planned(folder, *more):
    names = ("--methods", "LR", "label propagation", "--splits", "2")
    return real.plan(options("--data", str(folder), *names, *more))


def test_finished_fits_are_not_run_again(folder, monkeypatch, no_picture):
    calls = []
    monkeypatch.setattr(real, "run_cell", fake_run(calls))
    real.run(planned(folder), folder, fresh=False)
    real.run(planned(folder), folder, fresh=False)
    assert len(calls) == 4
    real.run(planned(folder, "--flip", "0.3"), folder, fresh=False)
    assert len(calls) == 8
    real.run(planned(folder), folder, fresh=True)
    assert len(calls) == 12


def test_other_bytes_of_a_set_are_another_fit(folder):
    before = planned(folder)[0].key
    write_set(folder / "small.npz", small_set(seed=1))
    cells._file_digest.cache_clear()
    assert planned(folder)[0].key != before


def test_what_failed_is_kept_told_and_tried_again(folder, monkeypatch, no_picture):
    monkeypatch.setattr(real, "run_cell", lambda cell: {"error": "ValueError: no"})
    real.run(planned(folder), folder, fresh=False)
    assert "LR failed: ValueError: no" in (folder / "results.md").read_text()
    calls = []
    monkeypatch.setattr(real, "run_cell", fake_run(calls))
    real.run(planned(folder), folder, fresh=False)
    assert len(calls) == 4
    assert "failed" not in (folder / "results.md").read_text()


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

    monkeypatch.setitem(PEERS, "LR", registry.Peer("LR", fit, None, True))
    assert measure(planned(folder)[0]) == {"error": "RuntimeError: too hard"}


def test_a_fit_in_a_process_of_its_own_gives_every_figure(folder):
    cell = Cell(str(folder / "small.npz"), "label propagation", 0, random=True, threads=1)
    record = cells.run_cell(cell)
    assert record["accuracy"] > 0.8
    assert record["seconds"] > 0
    assert record.keys() >= {"log_loss", "ece", "cpu_seconds", "peak_mb"}


# What is told


def results_of(values):
    """Return results by (method, number) with this accuracy; None failed."""
    run = [
        (Cell("/x/small.npz", method, number, random=True), value)
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


def test_training_that_was_cut_short_is_marked():
    results = results_of({("GCN", 0): 0.9})
    results[0][1]["notes"].append("stopped after 3 of 200 epochs")
    page = markdown(results, summarise(results), [])
    assert "| GCN\\* | 90.0 |" in page
    assert "stopped at the time limit" in page


def test_tables_and_pictures_are_written(tmp_path):
    results = results_of({("nodeproof", 0): 0.9, ("GCN", 0): 0.8, ("LR", 0): None})
    write_report(results, tmp_path)
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {f"results.{suffix}" for suffix in ("json", "csv", "md", "png", "svg")}
    page = (tmp_path / "results.md").read_text()
    assert "| GCN | +10.00 | +0.000 | 1 |" in page
    json.loads((tmp_path / "results.json").read_text(), parse_constant=pytest.fail)
