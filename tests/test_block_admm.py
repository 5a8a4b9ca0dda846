"""Block ADMM: what others solve exactly, bounds that hold, honest ends."""

import numpy as np
import pytest

from convex_helpers import best_labelling, labelled, small_problem
from nodeproof import Problem
from nodeproof.convex.admm import Blocks
from nodeproof.convex.program import Polytope, Program
from nodeproof.convex.results import tighten
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.solvers import BlockADMM, Status
from nodeproof.solvers.semidefinite import off_diagonal

pytestmark = [pytest.mark.numeric, pytest.mark.usefixtures("one_thread")]

PROBLEMS = [
    small_problem(),
    small_problem(n=7, K=3, seed=1),
    small_problem(son=0.1, seed=2),
    small_problem(n=7, K=3, son=0.3, seed=3, t=0.3),
    small_problem(n=9, sources="G", seed=4),
    small_problem(null_model="degree", seed=5, t=0.8),
    small_problem(weights=(0.1, 0.0, 5.0), seed=6, son=1.0),
    small_problem(n=6, sources="L", seed=7, son=0.2),
]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_it_agrees_with_a_cone_solver(problem):
    pytest.importorskip("cvxpy")
    from nodeproof.solvers import ExactSDP

    exact = ExactSDP(tol=1e-7).solve(problem)
    result = BlockADMM(tol=1e-6).solve(problem)
    assert result.status is Status.CONVERGED
    assert result.gap <= 1e-6 + 1e-12
    size = max(1.0, abs(exact.program_value))
    assert result.program_value == pytest.approx(exact.program_value, abs=2e-6 * size)
    assert result.lower_bound <= exact.program_value
    assert exact.lower_bound <= result.program_value
    assert result.violation <= 1e-9
    program = Program(problem)
    at_exact = program.value(exact.point.L, exact.point.models)
    middle = (
        0.5 * (exact.point.L + result.point.L),
        0.5 * (exact.point.models + result.point.models),
    )
    # Optima are convex: half way between two of them is another.
    assert program.value(*middle) == pytest.approx(at_exact, abs=1e-5 * size)


def test_where_the_optimum_is_one_point_the_similarities_agree_too():
    pytest.importorskip("cvxpy")
    from nodeproof.solvers import ExactSDP

    problem = small_problem(son=0.1, seed=2)
    exact, result = ExactSDP(tol=1e-8).solve(problem), BlockADMM(tol=1e-8).solve(problem)
    np.testing.assert_allclose(result.point.L, exact.point.L, atol=5e-3)
    np.testing.assert_allclose(result.point.models, exact.point.models, atol=5e-3)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_no_labelling_undercuts_the_bound_at_any_check(problem):
    best = best_labelling(problem)
    result = BlockADMM(tol=1e-5, check_every=3).solve(problem)
    assert max(result.history["bound"]) <= best
    assert result.lower_bound == result.history["bound"][-1]
    assert best <= result.value + 1e-9
    assert np.all(np.diff(result.history["bound"]) >= 0)
    assert np.all(np.diff(result.history["value"]) <= 0)
    assert all(low <= high for low, high in zip(
        result.history["bound"], result.history["value"], strict=True
    ))  # fmt: skip
    assert result.program_value == pytest.approx(result.history["value"][-1], rel=1e-9)
    assert result.history["iteration"][-1] == result.n_iter


@pytest.mark.parametrize("seed", range(15))
def test_bounds_of_random_blocks_are_never_above_what_they_bound(seed):
    """Costs of any sign and size, from the first iterations on."""
    rng = np.random.default_rng(seed)
    n, k = 5, int(rng.integers(1, 4))
    B = off_diagonal(rng.normal(size=(n, n))) * 10.0 ** rng.integers(-3, 4)
    costs = rng.normal(size=(n, k)) * 10.0 ** rng.integers(-3, 4)
    state = Blocks(B, Polytope(np.eye(k), costs), son=float(rng.choice([0.0, 0.1, 10.0])))
    for _ in range(60):
        state.step()
        state.judge()
        assert state.bound <= state.value + 1e-12 * abs(state.value)


@pytest.mark.parametrize("son", [0.0, 0.3])
def test_another_penalty_leaves_the_multipliers_what_they_are(son):
    program = Program(small_problem(son=son))
    state = Blocks(program.B, program.require_polytope("it"), son)
    for _ in range(7):
        state.step()
    before = state._dual()
    state.rescale(3.0)
    for one, two in zip(before, state._dual(), strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-10, atol=1e-12)


def test_tightened_prices_leave_no_block_negative():
    rng = np.random.default_rng(0)
    B, costs = off_diagonal(rng.normal(size=(5, 5))), rng.normal(size=(5, 3))
    nu, gamma, kept = tighten(B, rng.normal(size=5), off_diagonal(rng.normal(size=(5, 5))), costs)
    np.testing.assert_array_equal(kept, costs)
    for c in costs.T:
        assert np.linalg.eigvalsh(np.diag(c - nu) - B - gamma)[0] >= -1e-12


# Small and empty things. -----------------------------------------------------------------

PAIR = [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("problem", "value"),
    [
        (labelled([1]), -2.0),
        (labelled([1], son=0.4), -2.0),
        (labelled([-1]), 0.0),
        (labelled([0], [[0]], K=1, son=1.0), -2.0),
        (labelled([0, 1]), -4.0),
        (labelled([0, 0], PAIR), -6.0),
        (labelled([0, 1], PAIR, weights=(0.0, 0.0, 3.0)), -6.0),
        (labelled([0, 1, 2, 0], K=3), -8.0),
        (labelled([-1, -1, -1], son=0.1), 0.0),
        (labelled([0, 1, -1, 0], np.zeros((4, 4))), -6.0),
        (Problem(Graph(np.zeros((4, 4)), "uniform"), [], 2, weights=(1.0, 0.0, 0.0)), 0.0),
        (Problem(Graph(np.zeros((1, 1)), "uniform"), [], 1, weights=(1.0, 0.0, 0.0)), 0.0),
        (Problem(Graph(np.array(PAIR), "uniform"), [], 1, weights=(1.0, 0.0, 0.0), son=1.0), -2.0),
        (Problem(Graph(np.array(PAIR), "uniform"), [], 5, weights=(1.0, 0.0, 0.0)), -2.0),
        (labelled([0, 1, 1], weights=(0.0, 0.0, 0.0)), 0.0),
    ],
)
def test_small_problems_have_the_value_seen_by_eye(problem, value):
    result = BlockADMM(tol=1e-8).solve(problem)
    assert result.status is Status.CONVERGED
    assert result.program_value == pytest.approx(value, abs=1e-6)
    assert result.lower_bound <= value
    assert result.W.shape == (problem.n_nodes, problem.n_classes)
    assert set(np.unique(result.W)) <= {0.0, 1.0}


def test_a_large_sum_of_norms_gives_all_nodes_one_model():
    result = BlockADMM(tol=1e-7).solve(labelled([0, 0, 0, 1], son=10.0))
    np.testing.assert_allclose(result.point.models, np.tile([1.0, 0.0], (4, 1)), atol=1e-4)
    assert result.program_value == pytest.approx(-6.0, abs=1e-5)


@pytest.mark.parametrize("scale", [1e-30, 1e-6, 1e6, 1e30])
def test_any_unit_will_do(scale):
    problem = small_problem(weights=(scale, 0.0, 2.0 * scale))
    one = BlockADMM(tol=0.0, max_iter=100).solve(small_problem())
    result = BlockADMM(tol=0.0, max_iter=100).solve(problem)
    assert result.program_value / scale == pytest.approx(one.program_value, rel=1e-6)
    assert result.lower_bound / scale == pytest.approx(one.lower_bound, rel=1e-6)


@pytest.mark.parametrize("problem", [PROBLEMS[0], PROBLEMS[3]])
def test_where_it_begins_does_not_change_what_is_found(problem):
    n, K = problem.n_nodes, problem.n_classes
    found = BlockADMM(tol=1e-6).solve(problem)
    for z in (
        np.zeros(n, dtype=int),
        np.arange(n) % K,
        np.random.default_rng(0).integers(K, size=n),
    ):
        other = BlockADMM(tol=1e-6).solve(problem, start=np.eye(K)[z])
        assert other.status is Status.CONVERGED
        assert other.lower_bound <= found.program_value
        assert found.lower_bound <= other.program_value
        rows = np.eye(K)[z]
        first = problem.value(rows, problem.fit_models(rows))
        assert other.history["value"][0] <= first + 1e-9


def test_one_iteration_is_judged():
    problem = small_problem(seed=3)
    result = BlockADMM(max_iter=1).solve(problem)
    assert (result.status, result.n_iter) == (Status.MAX_ITER, 1)
    assert len(result.history["bound"]) == 1
    assert -np.inf < result.lower_bound <= best_labelling(problem)
    assert result.violation <= 1e-9


# What is refused. -----------------------------------------------------------------------


def test_calibrated_weights_are_refused_in_one_line():
    with pytest.raises(InputError, match="needs fixed weights") as error:
        BlockADMM().solve(small_problem(weights="calibrated"))
    assert "\n" not in str(error.value)


def test_features_are_sent_to_cano():
    with pytest.raises(
        InputError, match=r"BlockADMM needs models in a polytope.*use CANO"
    ) as error:
        BlockADMM().solve(small_problem(sources="GFL"))
    assert "\n" not in str(error.value)


def test_too_little_memory_is_told_before_anything_is_built(monkeypatch):
    n = 600
    problem = labelled(np.zeros(n, dtype=int))
    # Less than six of its matrices take.
    monkeypatch.setattr("nodeproof.runtime.memory.available_memory", lambda: 2**24)
    with pytest.raises(InputError) as error:
        BlockADMM().solve(problem)
    told = str(error.value)
    for part in ("BlockADMM", "600 × 600", "of memory", "solver='block'"):
        assert part in told
    assert "\n" not in told


def test_a_start_of_another_shape_is_refused():
    with pytest.raises(InputError, match=r"a start must have the shape \(8, 2\), got \(8, 3\)"):
        BlockADMM().solve(small_problem(), start=np.ones((8, 3)))
