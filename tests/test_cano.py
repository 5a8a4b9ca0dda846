"""CANO-ADMM: the program for any models, its counts, and the prox of its models step."""

import numpy as np
import pytest
from scipy.optimize import minimize

from convex_helpers import best_labelling, labelled, small_problem
from nodeproof.convex.cano import ModelsStep, State, nearest_models
from nodeproof.convex.program import Program
from nodeproof.errors import InputError
from nodeproof.solvers import CANO, BlockADMM, Status
from nodeproof.sum_of_norms import sum_of_norms

pytestmark = [pytest.mark.numeric, pytest.mark.usefixtures("one_thread")]

PROBLEMS = [
    (small_problem(), {}),
    (small_problem(n=7, K=3, seed=1), {"n_forward": 3}),
    (small_problem(son=0.02, seed=2), {}),
    (small_problem(son=0.3, seed=2), {}),
    (small_problem(son=3.0, seed=2), {}),
    (small_problem(n=9, sources="G", seed=4), {"relaxation": 1.0}),
    (small_problem(null_model="degree", seed=5, t=0.8), {"z_step": "gradient"}),
    (small_problem(seed=6), {"penalty": 5.0}),
    (labelled([0, 1, -1, 0], son=0.2), {}),
    (labelled([1]), {}),
    (labelled([0, 0], [[0, 1], [1, 0]]), {}),
]


@pytest.mark.parametrize(("problem", "options"), PROBLEMS)
def test_it_agrees_with_block_admm_on_polytopes(problem, options):
    exact = BlockADMM(tol=1e-7).solve(problem)
    result = CANO(tol=2e-3, max_iter=300, random_state=0, **options).solve(problem)
    assert result.status is Status.CONVERGED
    assert result.gap <= 2e-3 + 1e-12
    size = max(1.0, abs(exact.program_value))
    assert result.program_value == pytest.approx(exact.program_value, abs=2.1e-3 * size)
    assert result.lower_bound <= exact.program_value
    assert exact.lower_bound <= result.program_value
    assert result.lower_bound <= best_labelling(problem)
    assert result.violation <= 1e-9


@pytest.fixture(scope="module")
def covariances():
    problem = small_problem(n=9, sources="GFL", weights=(1.0, 1.0, 1.0), seed=3)
    return problem, CANO(tol=5e-3, max_iter=40, random_state=0).solve(problem)


def test_with_covariances_the_value_is_below_every_labelling(covariances):
    problem, result = covariances
    best = best_labelling(problem)
    assert result.lower_bound <= result.program_value
    assert result.lower_bound <= best <= result.value + 1e-9
    assert result.program_value <= best + 0.01 * abs(best)
    assert result.gap <= 0.5  # over a spectral box the bound is not tight
    assert result.violation <= 1e-9


def test_calls_are_counted_and_residuals_fall(covariances):
    _, result = covariances
    assert result.calls["projection"] == result.n_iter
    assert result.calls["prox"] == result.n_iter
    assert 0 < result.calls["lmo"] <= result.n_iter
    for name in ("feasibility", "stationarity"):
        seen = result.history[name]
        assert len(seen) == result.n_iter
        assert np.mean(seen[-5:]) < 0.2 * np.mean(seen[:5])
        assert result.residuals[name] == seen[-1]


def test_covariances_and_a_sum_of_norms_together():
    problem = small_problem(n=6, sources="GFL", weights=(1.0, 1.0, 1.0), son=0.1, seed=4)
    result = CANO(max_iter=5, random_state=0).solve(problem)
    assert result.lower_bound <= best_labelling(problem)
    assert result.lower_bound <= result.program_value
    assert result.violation <= 1e-9


def alone(program: Program):
    """Return the best model of every node, and their losses: the optimum without links."""
    n = program.n_nodes
    best = [
        np.eye(2)[np.maximum(term.y, 0)] if term.linear else term.refit(np.eye(n))
        for term, _ in program.terms
    ]
    theta = program.models_set.join(best)
    return theta, float(program.losses(theta).sum())


@pytest.mark.parametrize("sources", ["F", "FL"])
def test_bounds_hold_for_any_multipliers_and_tangents(sources):
    program = Program(small_problem(n=4, sources=sources, seed=2))
    optimum = alone(program)[1]
    rng = np.random.default_rng(0)
    for size in (0.0, 1e-2, 1.0, 100.0):
        for _ in range(3):
            state = State(program, CANO())
            L, theta = state.z
            state.z = L, program.models_set.project(rng.normal(size=theta.shape))
            state.u = size * rng.normal(size=(4, 4)), size * rng.normal(size=theta.shape)
            assert max(state.bounds(5)) <= optimum


def test_tangents_at_the_optimum_and_its_prices_prove_it():
    program = Program(small_problem(n=4, sources="F", seed=2))
    state = State(program, CANO())
    theta, optimum = alone(program)
    state.z = state.z[0], theta
    slope = program.loss_gradient(theta)
    prices = (slope * program.models_set.lmo(slope)).sum(axis=1)
    state.u = np.diag(-prices / state.rho), state.u[1]
    bound = max(state.bounds(200))
    assert optimum - 0.05 * abs(optimum) <= bound <= optimum


def test_a_gradient_step_goes_down_the_slope_by_its_size():
    program = Program(small_problem(n=4, sources="FL", seed=3))
    rng = np.random.default_rng(1)
    for size in (0.001, 0.01):
        state = State(program, CANO(z_step="gradient", z_step_size=size, penalty=4.0))
        z_L, z = state.z
        L, theta = rng.random((4, 4)), rng.normal(size=z.shape)
        found = state.z_step((L, theta))
        curved = program.loss_gradient(z)
        program.models_set.split(curved)[1][:] = 0.0  # labels are linear
        moved = program.project(
            z_L - size * 4.0 * (z_L - L), z - size * (curved + 4.0 * (z - theta))
        )
        np.testing.assert_allclose(found[0], moved[0], atol=1e-12)
        np.testing.assert_allclose(found[1], moved[1], atol=1e-12)


def test_gradient_steps_stay_within_the_curvature_of_the_losses():
    problem = small_problem(n=4, sources="F", seed=2)
    _, optimum = alone(Program(problem))
    result = CANO(z_step="gradient", max_iter=60, tol=0.0).solve(problem)
    assert optimum <= result.program_value <= optimum + 0.05 * abs(optimum)


def test_stopped_before_its_first_check_it_still_has_a_bound():
    result = CANO().solve(small_problem(), callback=lambda told: told.iteration == 2)
    assert result.status is Status.STOPPED
    assert np.isfinite(result.lower_bound)
    assert result.lower_bound <= result.program_value < np.inf


def test_forward_steps_are_counted():
    result = CANO(n_forward=3, max_iter=20, tol=0.0).solve(small_problem())
    assert result.status is Status.MAX_ITER
    assert result.n_iter == 20
    assert 40 < result.calls["lmo"] <= 60
    assert result.calls["projection"] == 20
    assert result.calls["prox"] == 0
    assert result.history["lmo"][-1] == result.calls["lmo"]


def test_bounds_rise_and_values_fall_from_check_to_check():
    problem = small_problem(n=9, seed=8, son=0.05)
    result = CANO(max_iter=60, tol=0.0, random_state=0).solve(problem)
    assert np.all(np.diff(result.history["bound"]) >= 0)
    assert np.all(np.diff(result.history["value"]) <= 0)
    assert result.history["iteration"] == [10, 20, 30, 40, 50, 60]
    assert max(result.history["bound"]) <= best_labelling(problem)


@pytest.mark.any_cpu
@pytest.mark.parametrize("sources", ["GL", "GFL"])
def test_the_same_seed_gives_the_same_bits(sources):
    problem = small_problem(n=6, sources=sources, weights=(1.0, 1.0, 1.0))
    one, two = (CANO(max_iter=8, random_state=3).solve(problem) for _ in range(2))
    assert one.point.E.tobytes() == two.point.E.tobytes()
    assert one.W.tobytes() == two.W.tobytes()
    assert one.lower_bound == two.lower_bound
    assert one.history == two.history


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"relaxation": 2.0}, "relaxation must be at least 1 and below 2"),
        ({"relaxation": 0.9}, "relaxation must be at least 1 and below 2"),
        ({"z_step": "newton"}, "z_step must be 'exact' or 'gradient'"),
        ({"penalty": 0.0}, "penalty must be a finite number"),
        ({"z_step_size": -1.0}, "z_step_size must be a finite number"),
        ({"n_forward": 0}, "n_forward must be a positive integer"),
        ({"max_iter": 2.5}, "max_iter must be a positive integer"),
        ({"tol": np.nan}, "tol must be a finite number"),
    ],
)
def test_unfit_options_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        CANO(**options)


def test_a_gradient_step_and_a_sum_of_norms_do_not_go_together():
    with pytest.raises(InputError, match="the sum of norms has no gradient"):
        CANO(z_step="gradient").solve(small_problem(son=0.1))


def test_calibrated_weights_are_refused():
    with pytest.raises(InputError, match="needs fixed weights"):
        CANO().solve(small_problem(weights="calibrated"))


# The models step. ------------------------------------------------------------------------


def proximal(program: Program, theta, V, beta, son=0.0):
    """Return ``h(θ) + β/2 ‖θ − V‖²``, labels left out: they are linear."""
    total = 0.5 * beta * np.sum((theta - V) ** 2) + son * sum_of_norms(theta)
    parts = program.models_set.split(theta)
    for (term, weight), part in zip(program.terms, parts, strict=True):
        if not term.linear:
            total += weight * term.loss(part, 0, program.n_nodes).sum()
    return total


@pytest.mark.parametrize("beta", [0.1, 1.0, 50.0])
@pytest.mark.parametrize("sources", ["L", "F", "FL"])
def test_the_prox_of_the_losses_agrees_with_cvxpy(sources, beta):
    cp = pytest.importorskip("cvxpy")
    program = Program(small_problem(n=5, sources=sources, weights=(1.0, 3.0, 2.0), seed=1))
    rng = np.random.default_rng(0)
    V = program.models_set.project(rng.normal(size=(5, program.models_set.dim)))
    V = V + rng.normal(size=V.shape)
    start = np.tile(program.models_set.center(), (5, 1))
    found = nearest_models(program, V, beta, start)
    assert program.models_set.contains(found, tol=1e-9).all()
    reached = proximal(program, found, V, beta)
    best = 0.0
    for v in range(5):
        for (term, weight), part in zip(program.terms, program.models_set.split(V), strict=True):
            if term.linear:
                p = cp.Variable(2)
                objective, within = 0.5 * beta * cp.sum_squares(p - part[v]), [p >= 0, sum(p) == 1]
            else:
                box, x = term.models_set, term.X[v]
                R = cp.Variable((2, 2), symmetric=True)
                fit = (cp.matrix_frac(x, R) + cp.trace(R)) / 2
                objective = weight * fit + 0.5 * beta * cp.sum_squares(R - part[v])
                within = [R >> box.lo * np.eye(2), box.hi * np.eye(2) - R >> 0]
            problem = cp.Problem(cp.Minimize(objective), within)
            best += problem.solve(solver=cp.CLARABEL)
    assert reached == pytest.approx(best, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("beta", [0.3, 5.0])
def test_no_small_move_improves_the_prox(beta):
    program = Program(small_problem(n=6, sources="FL", weights=(1.0, 2.0, 1.0), seed=2))
    rng = np.random.default_rng(1)
    V = 2.0 * rng.normal(size=(6, program.models_set.dim))
    start = program.models_set.project(rng.normal(size=V.shape))
    found = nearest_models(program, V, beta, start)
    reached = proximal(program, found, V, beta)
    for size in (1e-4, 1e-2, 1.0):
        for _ in range(50):
            near = program.models_set.project(found + size * rng.normal(size=V.shape))
            assert reached <= proximal(program, near, V, beta) + 1e-9


@pytest.mark.parametrize("son", [0.01, 0.3, 20.0])
def test_the_prox_with_a_sum_of_norms_agrees_with_cvxpy(son):
    cp = pytest.importorskip("cvxpy")
    program = Program(small_problem(n=6, K=3, sources="L", son=son))
    V = np.random.default_rng(2).normal(size=(6, 3))
    theta = cp.Variable((6, 3))
    pairs = [cp.norm(theta[u] - theta[v]) for u in range(6) for v in range(u)]
    objective = son * sum(pairs) + 0.5 * 2.0 * cp.sum_squares(theta - V)
    within = [theta >= 0, cp.sum(theta, axis=1) == 1]
    best = cp.Problem(cp.Minimize(objective), within).solve(solver=cp.CLARABEL)
    step = ModelsStep(program, np.tile(program.models_set.center(), (6, 1)))
    for _ in range(15):
        found = step.solve(V, 2.0)
    assert program.models_set.contains(found, tol=1e-9).all()
    assert proximal(program, found, V, 2.0, son) == pytest.approx(best, rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(found, theta.value, atol=1e-3)
    # Its flows show that this is the optimum.
    rest = step.forces() + 2.0 * (found - V)
    gap = np.vdot(rest, found - program.models_set.lmo(rest))
    gap += son * sum_of_norms(found) - np.vdot(step.forces(), found)
    assert gap == pytest.approx(0.0, abs=1e-4 * (1.0 + son))


def test_the_prox_with_covariances_and_norms_agrees_with_a_descent():
    program = Program(small_problem(n=4, sources="F", son=0.4, seed=5))
    V = program.models_set.project(np.random.default_rng(3).normal(size=(4, 4)))
    step = ModelsStep(program, np.tile(program.models_set.center(), (4, 1)))
    for _ in range(15):
        found = step.solve(V, 1.5)
    reached = proximal(program, found, V, 1.5, 0.4)

    def smoothed(flat):
        return proximal(program, program.models_set.project(flat.reshape(4, 4)), V, 1.5, 0.4)

    other = minimize(smoothed, found.ravel(), method="Nelder-Mead", options={"maxfev": 3000})
    assert reached <= other.fun + 1e-6


def test_another_penalty_starts_over_soundly():
    program = Program(small_problem(n=6, K=3, sources="L", son=0.3))
    V = np.random.default_rng(2).normal(size=(6, 3))
    start = np.tile(program.models_set.center(), (6, 1))
    warm, fresh = ModelsStep(program, start), ModelsStep(program, start)
    for _ in range(5):
        warm.solve(V, 0.1)
    for _ in range(20):
        one, two = warm.solve(V, 3.0), fresh.solve(V, 3.0)
    np.testing.assert_allclose(one, two, atol=1e-5)


def test_without_terms_there_is_nothing_to_do():
    program = Program(small_problem(sources="G"))
    assert nearest_models(program, np.zeros((8, 0)), 1.0, np.zeros((8, 0))).shape == (8, 0)
