"""CADO as published is tested for what it does, good or bad."""

from __future__ import annotations

import numpy as np
import pytest

from nodeproof import Problem, datasets
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.problem import PAPER_WEIGHTS
from nodeproof.sets import Simplex
from nodeproof.solvers import CADO, BlockCADO, Status
from nodeproof.terms import Covariance, Labels, NodeData

pytestmark = pytest.mark.numeric


@pytest.fixture(scope="module")
def data():
    return datasets.make_planted(random_state=0)


@pytest.fixture(scope="module")
def problem(data):
    nodes = NodeData(3, data.X, data.y)
    terms = [Covariance().bind(nodes), Labels().bind(nodes)]
    return Problem(Graph(data.graph), terms, 3, weights=PAPER_WEIGHTS)


@pytest.fixture(scope="module")
def dense_problem():
    """Inner density above 1/2: here the published gradient points the right way."""
    data = datasets.make_planted(p=0.9, q=0.1, cluster_size=30, random_state=0)
    nodes = NodeData(3, data.X, data.y)
    terms = [Covariance().bind(nodes), Labels().bind(nodes)]
    return Problem(Graph(data.graph), terms, 3, weights=PAPER_WEIGHTS)


@pytest.mark.parametrize("step", ["open-loop", "line-search"])
@pytest.mark.parametrize("model_step", ["lmo", "projection"])
def test_averaging_rows_is_feasible_at_every_iterate(dense_problem, step, model_step):
    simplex, seen = Simplex(3), []

    def check(progress):
        assert simplex.contains(progress.W).all()
        seen.append(progress.iteration)

    result = CADO(step=step, model_step=model_step, max_iter=12, tol=0, random_state=1).solve(
        dense_problem, callback=check
    )
    assert seen == list(range(1, result.n_iter + 1))
    for term, theta in zip(dense_problem.terms, result.models.terms, strict=True):
        assert term.models_set.contains(theta, tol=1e-8).all()


def test_averaging_roots_breaks_the_unit_diagonal(dense_problem):
    lowest = []

    def record(progress):
        lowest.append(progress.W.sum(axis=1).min())

    CADO(average="e", max_iter=10, tol=0, random_state=1).solve(
        dense_problem, start=np.full((90, 3), 1 / 3), callback=record
    )
    assert min(lowest) < 0.99


def test_the_first_open_loop_step_forgets_the_start(problem):
    rows = []
    CADO(max_iter=1, random_state=0).solve(problem, callback=lambda p: rows.append(p.W.copy()))
    assert set(np.unique(rows[0])) == {0.0, 1.0}


@pytest.mark.parametrize("average", ["W", "e"])
@pytest.mark.parametrize("step", ["open-loop", "line-search"])
@pytest.mark.parametrize("model_step", ["lmo", "projection"])
def test_on_the_papers_default_data_it_does_not_leave_its_start(
    data, problem, average, step, model_step
):
    """Every published variant stays at chance where block CADO, same objective, does not."""
    solver = CADO(step=step, average=average, model_step=model_step, random_state=0)
    result = solver.solve(problem)
    hidden = data.y < 0
    accuracy = (result.W.argmax(axis=1) == data.y_true)[hidden].mean()
    assert accuracy < 0.45
    block = BlockCADO(temperature=0, random_state=0).solve(problem)
    assert (block.W.argmax(axis=1) == data.y_true)[hidden].mean() > 0.97
    assert block.value < result.value


def test_a_line_search_never_raises_the_objective(dense_problem):
    result = CADO(step="line-search", max_iter=15, tol=0, random_state=2).solve(dense_problem)
    values = np.array(result.history["value"])
    assert (np.diff(values) <= 1e-6 * np.abs(values[:-1])).all()


def test_the_history_counts_oracle_calls_and_records_the_objective(dense_problem):
    result = CADO(max_iter=7, tol=0, random_state=0).solve(dense_problem)
    # One oracle for the rows, and one for each class model of each of the two terms.
    assert result.history["lmo_calls"] == [7 * (k + 1) for k in range(result.n_iter)]
    assert result.history["value"][-1] == result.value
    assert result.value == dense_problem.value(result.W, result.models)


def test_steps_follow_the_published_sequence(dense_problem):
    """From the first to the second iterate a row moves by 2/3 towards its target, or not."""
    rows = []
    CADO(max_iter=2, tol=0, random_state=3).solve(
        dense_problem, callback=lambda p: rows.append(p.W.copy())
    )
    moves = np.abs(rows[1] - rows[0]).max(axis=1)
    assert np.isclose(moves[:, None], [0.0, 2 / 3]).any(axis=1).all()


def test_projection_and_lmo_move_the_covariances_differently(data):
    """They agree only where the gradient is so large that both end at the box's corners."""
    nodes = NodeData(3, data.X, data.y)
    terms = [Covariance().bind(nodes), Labels().bind(nodes)]
    problem = Problem(Graph(data.graph), terms, 3, weights=(1.0, 1e-3, 13.0))
    by_lmo, by_projection = (
        CADO(model_step=kind, max_iter=1, random_state=0).solve(problem)
        for kind in ("lmo", "projection")
    )
    assert not np.allclose(by_lmo.models.terms[0], by_projection.models.terms[0])
    np.testing.assert_array_equal(by_lmo.models.terms[1], by_projection.models.terms[1])


def test_it_ends_honestly(problem):
    assert CADO(random_state=0).solve(problem).status is Status.CONVERGED
    assert CADO(max_iter=1, random_state=0).solve(problem).status is Status.MAX_ITER
    stopped = CADO(random_state=0).solve(problem, callback=lambda p: True)
    assert stopped.status is Status.STOPPED


def test_calibrated_weights_are_refused(data):
    problem = Problem(Graph(data.graph), [], 3)
    with pytest.raises(InputError, match="fixed weights"):
        CADO().solve(problem)
