"""Block CADO: it finds what is planted, says honestly how it ended, and repeats itself."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from nodeproof import Problem, datasets
from nodeproof.affinity import Affinity
from nodeproof.graph import Graph
from nodeproof.metrics import matched_accuracy
from nodeproof.problem import PAPER_WEIGHTS, Models
from nodeproof.runtime import threads
from nodeproof.solvers import BlockCADO, Status
from nodeproof.solvers.base import align_with_labels
from nodeproof.solvers.beliefs import marginals
from nodeproof.solvers.starts import STARTS, choose_starts
from nodeproof.terms import Covariance, Labels, NodeData

pytestmark = pytest.mark.numeric


def make_problem(data: datasets.Planted, sources: str = "GFL", **settings) -> Problem:
    K = data.params["n_clusters"]
    nodes = NodeData(K, data.X, data.y)
    terms = []
    if "F" in sources:
        terms.append(Covariance().bind(nodes))
    if "L" in sources:
        terms.append(Labels().bind(nodes))
    return Problem(Graph(data.graph) if "G" in sources else None, terms, K, **settings)


@pytest.mark.parametrize("sources", ["GFL", "GF", "GL", "FL"])
def test_planted_classes_are_found_from_any_two_sources(sources):
    data = datasets.make_planted(p=0.2, cluster_size=100, random_state=0)
    result = BlockCADO(random_state=0).solve(make_problem(data, sources))
    assert result.status is Status.CONVERGED
    found = result.W.argmax(axis=1)
    if "L" in sources:
        assert (found == data.y_true).mean() > 0.97
    else:
        assert matched_accuracy(data.y_true, found) > 0.97


@pytest.mark.parametrize("start", sorted(STARTS))
def test_every_start_leads_to_the_planted_classes(start):
    settings = {"p": 0.01} if start == "opposed" else {}
    data = datasets.make_planted(random_state=1, **settings)
    result = BlockCADO(random_state=0).solve(make_problem(data), start=start)
    assert (result.W.argmax(axis=1) == data.y_true).mean() > 0.99


@pytest.mark.parametrize("temperature", [1.0, 0.0])
@pytest.mark.parametrize("threshold", [0.5, 0.075])
def test_the_papers_weights_work_when_rows_are_visited_in_blocks(temperature, threshold):
    data = datasets.make_planted(random_state=2)
    problem = make_problem(data, weights=PAPER_WEIGHTS, threshold=threshold)
    result = BlockCADO(temperature=temperature, random_state=0).solve(problem)
    assert (result.W.argmax(axis=1) == data.y_true)[data.y < 0].mean() > 0.97
    if temperature == 0:
        assert set(np.unique(result.W)) == {0.0, 1.0}
        assert result.value == pytest.approx(problem.value(result.W, result.models))


def test_the_papers_weights_settle_with_ten_classes():
    data = datasets.make_planted(n_clusters=10, cluster_size=100, p=0.3, random_state=0)
    problem = make_problem(data, weights=PAPER_WEIGHTS)
    result = BlockCADO(random_state=0, max_iter=50).solve(problem)
    assert result.status is Status.CONVERGED
    assert (result.W.argmax(axis=1) == data.y_true).mean() > 0.95


def test_the_value_is_what_the_problem_says_of_the_returned_state():
    data = datasets.make_planted(cluster_size=60, random_state=3)
    problem = make_problem(data)
    result = BlockCADO(random_state=0).solve(problem)
    assert result.value == problem.free_energy(result.W, result.models)
    np.testing.assert_allclose(result.W.sum(axis=1), 1.0, atol=1e-6)


def test_sweeps_lower_the_free_energy():
    data = datasets.make_planted(p=0.08, omega=0.3, cluster_size=80, random_state=4)
    problem = make_problem(data)
    values = []

    def record(progress):
        values.append(problem.fit_and_judge(progress.W)[1])

    BlockCADO(random_state=0, hold=0, tol=1e-6).solve(problem, start="labels", callback=record)
    assert np.diff(values).max() <= 1e-3 * abs(values[0] - values[-1])


def test_of_several_starts_the_one_of_least_free_energy_is_kept():
    data = datasets.make_planted(10, 30, p=0.3, q=0.1, omega=0.3, label_ratio=0.1, random_state=0)
    problem = make_problem(data)
    seen = {}

    def record(progress):
        seen[progress.run] = progress.W.copy()

    best = BlockCADO(n_init=4, random_state=0).solve(problem, callback=record)
    assert len(seen) == 4
    each = [problem.fit_and_judge(W)[1] for W in seen.values()]
    assert best.value == pytest.approx(min(each), rel=1e-9)


def test_classes_are_named_by_the_labels_at_the_end():
    data = datasets.make_planted(random_state=5)
    problem = make_problem(data)
    result = BlockCADO(random_state=0).solve(problem)
    renamed = np.roll(np.arange(3), 1)
    permuted = Models(
        result.models.affinity,
        tuple(theta[renamed] for theta in result.models.terms),
        result.models.log_prior[renamed],
    )
    from dataclasses import replace

    mixed = replace(result, W=result.W[:, renamed], models=permuted)
    aligned = align_with_labels(mixed, problem.labels)
    np.testing.assert_array_equal(aligned.W, result.W)
    for theta, expected in zip(aligned.models.terms, result.models.terms, strict=True):
        np.testing.assert_array_equal(theta, expected)
    # Labels are believed to be mostly right, so the names that agree with them are the better.
    assert problem.free_energy(mixed.W, mixed.models) > result.value


def test_a_random_start_ends_with_the_names_of_the_labels():
    data = datasets.make_planted(label_accuracy=0.7, random_state=6)
    result = BlockCADO(random_state=3).solve(make_problem(data), start="random")
    assert (result.W.argmax(axis=1) == data.y_true).mean() > 0.98


def test_links_that_say_nothing_do_no_harm():
    data = datasets.make_planted(p=0.05, q=0.05, omega=0.1, label_ratio=0.05, random_state=0)
    with_graph = BlockCADO(random_state=0).solve(make_problem(data))
    without = BlockCADO(random_state=0).solve(make_problem(data, "FL"))
    hidden = data.y < 0

    def accuracy(result):
        return (result.W.argmax(axis=1) == data.y_true)[hidden].mean()

    assert accuracy(with_graph) > accuracy(without) - 0.01
    assert abs(with_graph.models.affinity.ell[0, 0]) < 0.1


def test_links_across_classes_are_used_too():
    """Heterophily: the labelled pairs tell the sign before the first sweep."""
    data = datasets.make_planted(p=0.02, q=0.12, omega=0.5, label_ratio=0.1, random_state=0)
    result = BlockCADO(random_state=0).solve(make_problem(data))
    assert result.models.affinity.ell[0, 0] < 0
    hidden = data.y < 0
    accuracy = (result.W.argmax(axis=1) == data.y_true)[hidden].mean()
    assert accuracy > data.genie_accuracy("F")
    assert accuracy > data.genie_accuracy("GF") - 0.03


def test_a_few_misleading_links_among_labels_do_not_hide_the_classes():
    data = datasets.make_planted(label_ratio=0.03, random_state=9)
    problem = make_problem(data, "GL")
    assert Affinity.assumed(problem.graph, problem.labels).ell[0, 0] < 0.1
    result = BlockCADO(random_state=0).solve(problem)
    assert (result.W.argmax(axis=1) == data.y_true).mean() > 0.95


def test_without_labels_classes_that_avoid_links_inside_are_found_too():
    data = datasets.make_planted(p=0.01, q=0.05, random_state=0)
    result = BlockCADO(random_state=0).solve(make_problem(data, "G"))
    assert matched_accuracy(data.y_true, result.W.argmax(axis=1)) > 0.97
    assert result.models.affinity.ell[0, 0] < 0


def test_few_labels_do_not_hide_classes_that_avoid_links_inside():
    data = datasets.make_planted(p=0.05, q=0.1, label_ratio=0.05, random_state=7)
    result = BlockCADO(random_state=7).solve(make_problem(data, "GL"))
    assert (result.W.argmax(axis=1) == data.y_true).mean() > 0.95


def test_matrix_affinities_find_classes_that_differ_in_density():
    rng = np.random.default_rng(0)
    z = rng.integers(3, size=300)
    rates = np.array([[0.30, 0.02, 0.15], [0.02, 0.10, 0.02], [0.15, 0.02, 0.05]])
    upper = np.triu(rng.random((300, 300)) < rates[z][:, z], 1)
    y = np.where(rng.random(300) < 0.1, z, -1)
    problem = Problem(
        Graph((upper | upper.T).astype(float), "uniform"), [Labels().bind(NodeData(3, y=y))], 3
    )
    one = BlockCADO(random_state=0).solve(problem)
    each = BlockCADO(random_state=0, affinities="matrix").solve(problem)
    assert each.models.affinity.ell.shape == (3, 3)
    assert (each.W.argmax(axis=1) == z).mean() > max(0.97, (one.W.argmax(axis=1) == z).mean())


def test_weighted_links_count_by_their_weight():
    data = datasets.make_planted(p=0.1, q=0.1, label_ratio=0.1, random_state=0)
    graph = data.graph.copy()
    rows = np.repeat(np.arange(len(data.y)), np.diff(graph.indptr))
    same = data.y_true[rows] == data.y_true[graph.indices]
    graph.data[:] = np.where(same, 3.0, 1.0)  # only the weights tell the classes
    for scale in (1.0, 1e-6, 1e6):
        scaled = graph * scale
        problem = Problem(Graph(scaled), [Labels().bind(NodeData(3, y=data.y))], 3)
        result = BlockCADO(random_state=0).solve(problem)
        assert (result.W.argmax(axis=1) == data.y_true).mean() > 0.99


def test_max_iter_is_reported_as_such():
    data = datasets.make_planted(p=0.07, omega=0.3, random_state=0)
    result = BlockCADO(max_iter=3, n_init=1, random_state=0).solve(make_problem(data))
    assert result.status is Status.MAX_ITER
    assert result.n_iter == 3
    assert len(result.history["change"]) == 3


def test_a_callback_can_stop_the_solve():
    data = datasets.make_planted(random_state=0)
    result = BlockCADO(random_state=0).solve(
        make_problem(data), callback=lambda progress: progress.iteration == 2
    )
    assert result.status is Status.STOPPED
    assert result.n_iter == 2


def test_ctrl_c_keeps_what_was_done():
    data = datasets.make_planted(p=0.07, omega=0.3, random_state=0)

    def press(progress):
        if progress.iteration == 4:
            raise KeyboardInterrupt

    result = BlockCADO(random_state=0).solve(make_problem(data), callback=press)
    assert result.status is Status.INTERRUPTED
    assert result.n_iter == 4
    np.testing.assert_allclose(result.W.sum(axis=1), 1.0, atol=1e-6)


def test_starts_are_few_where_they_are_dear_and_fit_the_sources():
    small = datasets.make_planted(cluster_size=20, random_state=0)
    assert choose_starts(make_problem(small), "auto") == [
        "labels",
        "spectral",
        "features",
        "random",
    ]
    assert choose_starts(make_problem(small, "GF"), 2) == ["spectral", "features"]
    assert choose_starts(make_problem(small, "F"), 3) == ["features", "random", "random"]
    large = datasets.make_planted(
        10, 20_000, p=1e-3, q=1e-5, n_features=1, n_noise=0, label_ratio=0.01, random_state=0
    )
    assert choose_starts(make_problem(large, "GL"), "auto") == ["labels"]


@pytest.mark.any_cpu
def test_threads_do_not_change_the_bits(monkeypatch):
    monkeypatch.setattr(threads, "ROWS", 4)
    data = datasets.make_planted(p=0.07, omega=0.3, random_state=0)
    problem = make_problem(data)
    results = []
    for n_jobs in (1, 2, 3):
        result = BlockCADO(n_jobs=n_jobs, random_state=0).solve(problem)
        rows = marginals(problem, result, n_jobs=n_jobs)
        results.append((result.W, result.value, rows))
    for W, value, rows in results[1:]:
        np.testing.assert_array_equal(W, results[0][0])
        assert value == results[0][1]
        np.testing.assert_array_equal(rows, results[0][2])


_PRINT_BITS = """
import hashlib
from nodeproof import NodeClassifier
from nodeproof.datasets import make_planted
data = make_planted(p=0.07, omega=0.3, random_state=0)
clf = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
print(hashlib.sha256(clf.proba_.tobytes()).hexdigest())
"""


@pytest.mark.any_cpu
def test_two_processes_give_the_same_bits(capsys):
    """This one, in which BLAS has one thread, and one in which it has two."""
    with threadpool_limits(1, "blas"):
        exec(_PRINT_BITS, {})
    done = subprocess.run(
        [sys.executable, "-c", _PRINT_BITS],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"},
        check=True,
    )
    assert done.stdout == capsys.readouterr().out


def test_marginals_are_better_calibrated_than_the_rows():
    from nodeproof.metrics import expected_calibration_error

    data = datasets.make_planted(p=0.08, omega=0.5, label_ratio=0.02, random_state=0)
    problem = make_problem(data)
    result = BlockCADO(random_state=0).solve(problem)
    hidden = data.y < 0

    def log_loss(W):
        right = W[np.arange(len(W)), data.y_true][hidden]
        return -np.log(np.maximum(right, 1e-12)).mean()

    rows = marginals(problem, result)
    assert log_loss(rows) < log_loss(result.W)
    truth = data.y_true[hidden]
    assert expected_calibration_error(truth, rows[hidden]) < expected_calibration_error(
        truth, result.W[hidden]
    )


def test_marginals_that_do_not_settle_are_not_given():
    data = datasets.make_planted(p=0.08, omega=0.5, label_ratio=0.02, random_state=0)
    problem = make_problem(data)
    result = BlockCADO(random_state=0).solve(problem)
    assert marginals(problem, result, max_iter=1, tol=0) is None


def test_a_graph_without_links_is_no_obstacle():
    data = datasets.make_planted(p=0.0, q=0.0, cluster_size=60, random_state=0)
    result = BlockCADO(random_state=0).solve(make_problem(data))
    assert result.status is Status.CONVERGED
    assert (result.W.argmax(axis=1) == data.y_true).mean() > 0.9


def test_fixed_weights_have_one_affinity_whatever_is_asked_for():
    data = datasets.make_planted(cluster_size=60, random_state=0)
    problem = make_problem(data, weights=PAPER_WEIGHTS)
    result = BlockCADO(affinities="matrix", random_state=0).solve(problem)
    assert result.models.affinity.ell.shape == (1, 1)
