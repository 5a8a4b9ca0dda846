"""The number of classes along thresholds and weights of the sum of norms."""

from __future__ import annotations

import builtins
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from nodeproof import path
from nodeproof.auto.merging import CoupledMerges, Family
from nodeproof.datasets import make_planted
from nodeproof.errors import InputError, MissingExtraError
from nodeproof.graph import Graph
from nodeproof.path import Path, Stable
from nodeproof.problem import Problem
from nodeproof.solvers import BlockCADO, Status
from nodeproof.terms import Covariance, Gaussian, NodeData


@pytest.fixture(scope="module")
def data():
    return make_planted(3, cluster_size=40, p=0.5, q=0.05, omega=0.1, label_ratio=0, random_state=0)


@pytest.fixture(scope="module")
def found(data):
    return path.follow(graph=data.graph, n_points=13, random_state=0)


@pytest.fixture(scope="module")
def blobs():
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 8.0]])
    return 0.2 * rng.standard_normal((60, 2)) + centres[np.arange(60) % 3]


def test_one_class_below_the_densities_and_pieces_above(found):
    counts = found.n_classes[0]
    assert counts[0] == 1
    assert counts[-1] > found.n_atoms // 2
    assert (np.diff(counts) >= 0).all()


def test_the_planted_classes_are_stable_between_the_densities(data, found):
    stable = found.stable
    assert stable.value == 3
    assert 0.03 < stable.lo < 0.1 < 0.2 < stable.hi < 0.6
    middle = np.searchsorted(found.thresholds, 0.15)
    assert adjusted_rand_score(data.y_true, found.labels[0, middle]) == 1.0


def test_the_grid_reaches_beyond_all_densities(found):
    assert len(found.thresholds) == 13
    assert (np.diff(np.log(found.thresholds)) > 0).all()
    assert found.thresholds[0] < 0.03
    assert found.thresholds[-1] == pytest.approx(1.0)


def test_the_objective_is_that_of_the_labels(data, found):
    for k in (0, 6, 12):
        labels = found.labels[0, k]
        assert labels.max() + 1 == found.n_classes[0, k]
        assert (np.diff(np.bincount(labels)) <= 0).all()
        W = np.eye(labels.max() + 1)[labels]
        problem = Problem(
            Graph(data.graph), [], W.shape[1], (1.0, 2.5, 0.0), float(found.thresholds[k])
        )
        value = problem.value(W, problem.fit_models(W))
        assert found.objective[0, k] == pytest.approx(value, rel=1e-6)


def test_the_same_seed_gives_the_same_path(data, found):
    again = path.follow(graph=data.graph, n_points=13, random_state=0, n_jobs=2)
    assert (again.labels == found.labels).all()
    assert found.labels.dtype == np.int32


def test_thresholds_may_be_given(data):
    found = path.follow(data.X, graph=data.graph, thresholds=[0.2, 0.001], random_state=0)
    assert found.thresholds.tolist() == [0.001, 0.2]
    assert found.n_classes.tolist() == [[1, 3]]
    assert found.stable == Stable(3, 0.2, 0.2)


def test_a_sum_of_norms_makes_models_equal_where_links_still_tell_classes_apart(data):
    found = path.follow(
        data.X, graph=data.graph, thresholds=0.2, sons=[0.0, 1e-4, 1.0], random_state=0
    )
    assert found.n_classes[:, 0].tolist() == [3, 3, 3]
    assert found.n_models[:, 0].tolist() == [3, 3, 1]
    assert (np.diff(found.objective[:, 0]) > 0).all()


def test_without_links_a_sum_of_norms_merges_classes(blobs):
    found = path.follow(
        blobs, sons=[0.001, 0.02, 0.1], terms=[Gaussian()], n_atoms=8, random_state=0
    )
    counts = found.n_classes[:, 0]
    assert counts[-1] == 1
    assert (np.diff(counts) <= 0).all()
    assert (found.n_models == found.n_classes).all()


def test_automatic_weights_end_where_all_models_are_equal(blobs):
    found = path.follow(
        blobs, sons="auto", terms=[Gaussian()], n_points=3, n_atoms=6, random_state=0
    )
    assert len(found.sons) == 3
    assert found.n_models[-1, 0] == 1


def test_mergers_under_a_sum_of_norms_are_judged_by_what_they_add(data):
    nodes = NodeData(1, data.X)
    family = Family(nodes, (Covariance(),), Graph(data.graph), (1.0, 2.5, 0.0), 0.2, son=0.002)
    W = np.eye(4)[data.y_true + (np.arange(120) % 2) * (data.y_true == 2)]
    problem = family.problem(4)
    models = problem.fit_models(W)
    value = problem.free_energy(W, models, 0.0)
    merges = CoupledMerges(family, W)
    assert merges.total == pytest.approx(value, rel=1e-4)
    assert set(merges.best()[0][1:]) == {2, 3}
    sizes, (theta,) = W.sum(axis=0), models.terms
    for added, i, j in merges.best():
        between = theta.copy()
        between[j] = (sizes[i] * theta[i] + sizes[j] * theta[j]) / (sizes[i] + sizes[j])
        between[i] = between[j]
        rows = W.copy()
        rows[:, j] += rows[:, i]
        rows[:, i] = 0.0
        merged = replace(models, terms=(between,))
        assert added == pytest.approx(problem.free_energy(rows, merged, 0.0) - value, abs=0.02)


def test_an_interrupt_keeps_what_was_done(data, monkeypatch):
    solve, calls = BlockCADO.solve, []

    def interrupt(self, problem, start=None, callback=None):
        if not problem.calibrated:
            calls.append(problem)
            if len(calls) == 12:
                raise KeyboardInterrupt
        return solve(self, problem, start, callback)

    monkeypatch.setattr(BlockCADO, "solve", interrupt)
    found = path.follow(graph=data.graph, n_points=13, random_state=0)
    assert found.status is Status.INTERRUPTED
    assert found.n_classes[0, -1] > 1
    assert found.n_classes[0, 0] == 0
    assert np.isnan(found.objective[0, 0])
    assert (found.labels[0, 0] == -1).all()
    assert found.stable is None or found.stable.value > 1


def test_a_callback_is_told_of_every_point_and_may_end_it(data):
    told = []
    found = path.follow(
        graph=data.graph,
        thresholds=[0.01, 0.1, 0.2],
        random_state=0,
        callback=lambda point: told.append(point) or point.done == 4,
    )
    assert [point.done for point in told] == [1, 2, 3, 4]
    assert told[0].threshold == 0.2
    assert {point.total for point in told} == {6}
    assert found.status is Status.STOPPED


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "both None"),
        ({"graph": np.zeros((4, 4))}, "has no link"),
        ({"graph": np.ones((4, 4)), "thresholds": "best"}, "'best'"),
        ({"graph": np.ones((4, 4)), "thresholds": [-1.0]}, "thresholds must be"),
        ({"graph": np.ones((4, 4)), "sons": [np.nan]}, "sons must be"),
        ({"graph": np.ones((4, 4)), "sons": "auto"}, "needs features"),
        ({"graph": np.ones((4, 4)), "weights": (1.0,)}, "two numbers"),
        ({"graph": np.ones((4, 4)), "n_atoms": 0}, "n_atoms"),
        ({"graph": np.ones((4, 4)), "n_points": 2.5}, "n_points"),
        ({"X": [[np.nan], [1.0]]}, "NaN at row 0"),
    ],
)
def test_what_cannot_be_followed_is_refused(settings, message):
    with pytest.raises(InputError, match=message):
        path.follow(**settings)


def test_the_widest_range_counts_on_a_log_scale():
    counts = np.array([[1, 2, 2, 3, 3, 6, 6]])  # of 10: the last have fallen apart
    thresholds = np.array([0.001, 0.01, 0.1, 0.2, 0.3, 0.4, 90.0])
    labels = np.zeros((1, 7, 5), dtype=np.int32)
    found = Path(
        thresholds, np.zeros(1), counts, counts, counts * 1.0, labels, 10, Status.CONVERGED
    )
    assert found.stable == Stable(2, 0.01, 0.1)


def test_the_plot_shows_every_point_and_is_written(found, tmp_path):
    pytest.importorskip("matplotlib")
    axes = found.plot(tmp_path / "path.png")
    assert (tmp_path / "path.png").read_bytes().startswith(b"\x89PNG")
    drawn = axes.get_lines()[0].get_xydata()
    assert drawn[:, 1].tolist() == found.n_classes[0].tolist()
    assert axes.get_xlabel() == "threshold t"
    assert axes.get_xscale() == "log"
    assert [text.get_text() for text in axes.texts] == ["3 classes"]
    assert found.plot(axes) is axes


def test_a_plot_without_matplotlib_names_the_install_command(found, monkeypatch):
    real = builtins.__import__

    def refuse(name, *rest, **more):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtraError, match=r"nodeproof\[plot\]"):
        found.plot()
