"""The convex program: its objective, its feasible points, and bounds that never are too high."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nodeproof import Problem
from nodeproof.atoms import Decomposition
from nodeproof.convex.program import (
    Program,
    check_memory,
    dual_value,
    lift_negative,
    polytope_bound,
)
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.problem import Models
from nodeproof.solvers.semidefinite import least_eigenvalue, off_diagonal, with_diagonal
from nodeproof.sum_of_norms.pairs import forces, sum_of_norms
from nodeproof.terms import Covariance, Labels, NodeData

pytestmark = [pytest.mark.numeric, pytest.mark.usefixtures("one_thread")]

K = 3
SOURCES = ["G", "L", "F", "GL", "GF", "FL", "GFL"]


def build(
    sources="GFL", n=9, son=0.0, null_model="uniform", weights=(1.0, 2.5, 13.0), seed=0, t=0.3
):
    """Return a problem over a weighted graph with isolated nodes, features and labels."""
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n, n)) < 0.4, 1) * rng.uniform(0.2, 3.0, size=(n, n))
    upper[0] = 0.0
    nodes = NodeData(K, rng.normal(size=(n, 2)), rng.integers(-1, K, size=n))
    kinds = {"F": Covariance(), "L": Labels()}
    known = [term.bind(nodes) for source, term in kinds.items() if source in sources]
    graph = Graph(upper + upper.T, null_model) if "G" in sources else None
    return Problem(graph, known, K, weights=weights, threshold=t, son=son)


def draw_point(program: Program, count: int, seed: int, bare: bool = False) -> Decomposition:
    rng = np.random.default_rng(seed)
    E = rng.normal(size=(program.n_nodes, count)) * rng.choice([1e-6, 1.0, 50.0])
    if bare:
        E[rng.random(program.n_nodes) < 0.4] = 0.0
    theta = program.models_set.project(rng.normal(size=(count, program.models_set.dim)))
    return Decomposition(E, theta)


# The objective. -------------------------------------------------------------------------


@pytest.mark.parametrize("sources", SOURCES)
@pytest.mark.parametrize("null_model", ["uniform", "degree"])
@pytest.mark.parametrize("son", [0.0, 0.7])
def test_at_one_hot_rows_the_value_is_the_problems(sources, null_model, son):
    problem = build(sources, son=son, null_model=null_model)
    program = Program(problem)
    rng = np.random.default_rng(1)
    for _ in range(3):
        z = rng.integers(0, K, size=9)
        W = np.eye(K)[z]
        drawn = tuple(
            term.models_set.project(rng.normal(size=(K, *term.models_set.shape)))
            for term in problem.terms
        )
        models = Models(problem.fit_models(W).affinity, drawn, np.zeros(K))
        theta = program.models_set.join([part[z] for part in drawn]) if drawn else np.zeros((9, 0))
        expected = problem.value(W, models)
        assert program.value(W @ W.T, theta) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_a_source_of_weight_zero_does_not_count():
    problem = build(weights=(0.0, 0.0, 2.0))
    program = Program(problem)
    assert not program.B.any()
    assert [type(term) for term, _ in program.terms] == [Labels]
    assert program.polytope is not None


def test_the_gradient_of_the_losses_agrees_with_differences(slope):
    program = Program(build())
    rng = np.random.default_rng(2)
    d = program.models_set.dim
    theta = program.models_set.project(rng.normal(size=(9, d)))
    theta = 0.5 * (theta + program.models_set.center())
    gradient = program.loss_gradient(theta)
    for _ in range(10):
        direction = program.models_set.project(rng.normal(size=(9, d))) - theta
        expected = slope(lambda at: program.losses(at).sum(), theta, direction)
        assert np.vdot(gradient, direction) == pytest.approx(expected, rel=1e-5)


def test_without_terms_there_are_no_losses():
    program = Program(build("G", son=0.5))
    empty = np.zeros((9, 0))
    assert program.loss_gradient(empty).shape == (9, 0)
    assert program.value(np.eye(9), empty) == 0.0


def test_the_sum_of_norms_is_that_of_all_pairs():
    points = np.random.default_rng(0).integers(0, 3, size=(8, 2)).astype(float)
    pairs = itertools.combinations(range(8), 2)
    expected = sum(np.linalg.norm(points[u] - points[v]) for u, v in pairs)
    assert sum_of_norms(points) == pytest.approx(expected, rel=1e-12)
    assert sum_of_norms(points[:1]) == 0.0


@given(
    arrays(float, (4, 4, 2), elements=st.floats(-1e6, 1e6)),
    arrays(float, (4, 2), elements=st.floats(-1e3, 1e3)),
    st.floats(1e-3, 1e3),
    st.floats(1e-6, 1e6),
)
@settings(max_examples=60, deadline=None)
def test_flows_by_any_multipliers_bound_the_sum_of_norms(w, theta, rho, most):
    theta = np.round(theta, 6)  # squares of smaller ones may underflow in the norms
    bounded = most * sum_of_norms(theta)
    rounding = 1e-13 * most * np.abs(theta).sum()
    assert np.vdot(theta, forces(w, rho, most)) <= bounded + rounding


# Feasible points. ------------------------------------------------------------------------


def test_projection_is_on_similarities_and_models():
    program = Program(build())
    rng = np.random.default_rng(3)
    L, theta = rng.normal(size=(9, 9)), rng.normal(size=(9, program.models_set.dim))
    near = program.project(L, theta)
    assert program.similarities.contains(near[0])
    assert program.models_set.contains(near[1]).all()
    for _ in range(20):  # the variational inequality
        other = program.project(2 * rng.normal(size=L.shape), 2 * rng.normal(size=theta.shape))
        along = np.vdot(L - near[0], other[0] - near[0])
        along += np.vdot(theta - near[1], other[1] - near[1])
        assert along <= 1e-9


@pytest.mark.parametrize("sources", ["G", "GL", "GFL"])
@pytest.mark.parametrize("bare", [False, True])
def test_a_repaired_sum_of_atoms_is_feasible(sources, bare):
    program = Program(build(sources))
    for seed in range(10):
        point = program.repair(draw_point(program, 1 + seed, seed, bare))
        assert program.violation(point) <= 1e-9
        np.testing.assert_allclose(np.diag(point.L), 1.0, atol=1e-12)
        assert program.models_set.contains(point.models, tol=1e-9).all()


def test_of_no_atoms_every_node_becomes_one():
    program = Program(build())
    nothing = Decomposition(np.zeros((9, 0)), np.zeros((0, program.models_set.dim)))
    point = program.repair(nothing)
    np.testing.assert_array_equal(point.L, np.eye(9))
    np.testing.assert_allclose(point.models, np.tile(program.models_set.center(), (9, 1)))


def test_feasible_points_are_left_alone():
    program = Program(build(son=0.2))
    for seed in range(10):
        rng = np.random.default_rng(seed)
        E = rng.random((9, 4))
        E /= np.linalg.norm(E, axis=1, keepdims=True)
        theta = program.models_set.project(rng.normal(size=(4, program.models_set.dim)))
        point = Decomposition(E, theta)
        assert program.violation(point) <= 1e-12
        repaired = program.repair(point)
        np.testing.assert_allclose(repaired.L, point.L, atol=1e-12)
        np.testing.assert_allclose(repaired.models, point.models, atol=1e-12)
        value = program.value(point.L, point.models)
        assert program.value(repaired.L, repaired.models) == pytest.approx(value, rel=1e-12)


def test_a_violation_of_every_kind_is_told():
    program = Program(build("GL"))
    center = program.models_set.center()[None]
    good = Decomposition(np.ones((9, 1)), center)
    assert program.violation(good) <= 1e-15
    E = np.ones((9, 1))
    E[0] = 0.9
    assert program.violation(Decomposition(E, center)) == pytest.approx(0.19)
    E[0] = -1.0
    assert program.violation(Decomposition(E, center)) == pytest.approx(1.0)
    assert program.violation(Decomposition(np.ones((9, 1)), center + 0.1)) >= 0.1
    one_used = np.hstack([np.ones((9, 1)), np.zeros((9, 1))])
    spare = Decomposition(one_used, np.vstack([center, np.full((1, K), 7.0)]))
    assert program.violation(spare) <= 1e-15


@pytest.mark.parametrize("n", [1, 2, 6])
def test_negative_entries_are_lifted_in_both_ways(n):
    for seed in range(20):
        E = np.random.default_rng(seed).normal(size=(n, 3))
        E /= np.linalg.norm(E, axis=1, keepdims=True)
        L = E @ E.T
        ways = lift_negative(L)
        assert len(ways) == (2 if (L < 0).any() else 1)
        for scale, added in ways:
            lifted = scale[:, None] * L * scale + added
            np.testing.assert_allclose(np.diag(lifted), 1.0, atol=1e-12)
            assert lifted.min() >= -1e-12
            assert np.linalg.eigvalsh(added)[0] >= -1e-12
    ((scale, added),) = lift_negative(np.ones((n, n)))
    np.testing.assert_array_equal(scale, 1.0)
    np.testing.assert_array_equal(added, 0.0)


def test_the_cheaper_way_of_lifting_is_taken():
    """One negative pair among many: to lift that pair alone costs less, and the other way."""
    for threshold in (0.2, 1.8):
        A = np.ones((8, 8)) - np.eye(8)
        problem = Problem(Graph(A, "uniform"), [], 2, (1.0, 0.0, 0.0), threshold=threshold)
        program = Program(problem)
        E = np.hstack([np.eye(8), np.zeros((8, 0))])
        E[1] = [-0.6, 0.8, 0, 0, 0, 0, 0, 0]
        point = program.repair(Decomposition(E, np.zeros((8, 0))))
        values = [
            -np.vdot(program.B, scale[:, None] * (E @ E.T) * scale + added)
            for scale, added in lift_negative(E @ E.T)
        ]
        assert program.value(point.L, point.models) == pytest.approx(min(values), rel=1e-9)
        assert max(values) > min(values) + 0.1


# Bounds. --------------------------------------------------------------------------------


def partitions(n: int):
    """Yield every way to split n nodes, as labels that appear in order."""
    for z in itertools.product(range(n), repeat=n):
        if all(label <= max(z[:v], default=-1) + 1 for v, label in enumerate(z)):
            yield np.array(z)


ALL_PARTITIONS = {n: list(partitions(n)) for n in range(1, 6)}


def optimum(B, costs) -> float:
    """Return the best of all labellings with any number of classes, each at its best vertex."""
    n, best = len(B), np.inf
    for z in ALL_PARTITIONS[n]:
        rows = np.eye(n)[z]
        best = min(best, -np.vdot(B, rows @ rows.T) + (rows.T @ costs).min(axis=1).sum())
    return float(best)


def exact_sum(*numbers) -> Fraction:
    return sum(
        (Fraction(float(x)) for x in np.concatenate([np.ravel(a) for a in numbers])), Fraction()
    )


def semidefinite(M: np.ndarray, shift: float) -> bool:
    """Tell exactly, in rational arithmetic, whether M − shift·I is positive semidefinite."""
    n = len(M)
    rows = [
        [Fraction(float(M[i, j])) - (i == j) * Fraction(shift) for j in range(n)] for i in range(n)
    ]
    for i in range(n):
        if rows[i][i] < 0 or (rows[i][i] == 0 and any(rows[i])):
            return False
        if rows[i][i] == 0:
            continue
        for j in range(i + 1, n):
            ratio = rows[j][i] / rows[i][i]
            rows[j] = [a - ratio * b for a, b in zip(rows[j], rows[i], strict=True)]
    return True


# Below 1e-100 squares underflow; what then is left of the margins is tested by itself.
numbers = st.one_of(
    st.floats(-1e6, 1e6),
    st.floats(-1.0, 1.0),
    st.sampled_from([1e-12, -1e-12, 1e100]),
).map(lambda x: x if abs(x) > 1e-100 else 0.0)


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_no_labelling_undercuts_the_bound_whatever_the_prices(data):
    n, k = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 3))
    B = off_diagonal(data.draw(arrays(float, (n, n), elements=numbers)))
    costs = data.draw(arrays(float, (n, k), elements=numbers))
    nu = data.draw(arrays(float, n, elements=numbers))
    gamma = data.draw(arrays(float, (n, n), elements=numbers))
    assert polytope_bound(B, costs, nu, gamma) <= optimum(B, costs)


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1.0, 1e8, 1e150])
def test_prices_near_the_optimum_are_no_exception(scale):
    """Where blocks agree with their prices the bound is tight, and must not round upwards."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n, k = int(rng.integers(1, 6)), int(rng.integers(1, 4))
        costs = scale * rng.normal(size=(n, k))
        best = costs.min(axis=1)
        gamma = scale * np.abs(rng.normal(size=(n, n)))
        B = -off_diagonal(gamma)
        bound = polytope_bound(B, costs, best, gamma)
        assert Fraction(float(bound)) <= exact_sum(best)
        assert bound == pytest.approx(best.sum(), abs=1e-11 * scale * n * n)


@pytest.mark.parametrize("null_model", ["uniform", "degree"])
def test_bounds_are_below_the_program_by_a_cone_solver(null_model):
    pytest.importorskip("cvxpy")
    from nodeproof.solvers import ExactSDP

    problem = build("GL", n=8, null_model=null_model, weights=(1.0, 0.0, 2.0))
    program = Program(problem)
    exact = ExactSDP().solve(problem)
    rng = np.random.default_rng(0)
    costs = program.polytope.costs
    for size in (1e-3, 0.1, 1.0, 10.0, 1e4):
        for _ in range(10):
            nu, gamma = size * rng.normal(size=8), size * rng.normal(size=(8, 8))
            assert polytope_bound(program.B, costs, nu, gamma) <= exact.program_value
            assert polytope_bound(program.B, costs, nu, np.abs(gamma)) <= exact.program_value


def test_the_diagonal_and_the_skew_part_of_the_signs_do_not_count():
    rng = np.random.default_rng(0)
    B, costs = off_diagonal(rng.normal(size=(4, 4))), rng.normal(size=(4, 2))
    nu, gamma = rng.normal(size=4), rng.normal(size=(4, 4))
    skew = np.triu(np.full((4, 4), 5.0), 1)
    other = gamma + 7.0 * np.eye(4) + skew - skew.T
    before = polytope_bound(B, costs, nu, gamma)
    assert polytope_bound(B, costs, nu, other) == pytest.approx(before, rel=1e-12)
    assert polytope_bound(B, costs, nu, gamma, constant=3.0) == pytest.approx(before + 3.0)


def test_the_bound_is_the_formula():
    rng = np.random.default_rng(1)
    B, costs = off_diagonal(rng.normal(size=(5, 5))), rng.normal(size=(5, 2))
    nu, gamma = rng.normal(size=5), off_diagonal(rng.normal(size=(5, 5)))
    least = min(np.linalg.eigvalsh(np.diag(c - nu) - B - gamma)[0] for c in costs.T)
    expected = nu.sum() + np.minimum(gamma, 0.0).sum() + 5 * least
    assert polytope_bound(B, costs, nu, gamma) == pytest.approx(expected, rel=1e-12)
    assert dual_value(nu, gamma, least) == pytest.approx(expected, rel=1e-12)
    with_zeros = with_diagonal(B, nu)
    np.testing.assert_array_equal(np.diag(with_zeros), nu)
    assert not np.diag(B).any()


@given(arrays(float, st.integers(1, 12), elements=numbers))
@settings(max_examples=60, deadline=None)
def test_sums_of_prices_are_rounded_down(nu):
    n = len(nu)
    assert Fraction(dual_value(nu, np.zeros((n, n)), 0.0)) <= exact_sum(nu)


LEAST_SCALES = [
    1e-300,
    1e-200,
    1e-155,
    1e-100,
    1.0,
    1e100,
    1e150,
]


@pytest.mark.parametrize("scale", LEAST_SCALES)
def test_the_least_eigenvalue_is_proven_in_rational_arithmetic(scale):
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 6))
        M = rng.normal(size=(n, n))
        M = scale * (M @ M.T if seed % 2 else M + M.T)
        assert semidefinite(M, least_eigenvalue(M))


def test_the_least_eigenvalue_is_close():
    M = np.diag([3.0, 1.0, 2.0])
    assert 1.0 - 1e-12 <= least_eigenvalue(M) <= 1.0


def test_a_large_constant_is_rounded_down_too():
    for seed in range(200):
        rng = np.random.default_rng(seed)
        costs, constant = rng.normal(size=(2, 1)), 10.0 ** rng.integers(0, 18) * rng.normal()
        bound = polytope_bound(
            np.zeros((2, 2)), costs, costs[:, 0], np.zeros((2, 2)), constant=constant
        )
        assert Fraction(float(bound)) <= exact_sum(costs, [constant])


def test_costs_that_are_no_numbers_prove_nothing():
    costs = np.array([[1.0, np.nan], [1.0, 1.0]])
    zeros = np.zeros((2, 2))
    assert not polytope_bound(zeros, costs, np.zeros(2), zeros) > -np.inf


# What is refused. -----------------------------------------------------------------------


def test_calibrated_weights_are_refused():
    with pytest.raises(InputError, match="needs fixed weights: build the problem with") as error:
        Program(build(weights="calibrated"))
    assert "\n" not in str(error.value)


def test_terms_beyond_a_polytope_are_named():
    program = Program(build())
    assert program.polytope is None
    with pytest.raises(InputError, match=r"Solver needs .* Covariance, Labels: use CANO"):
        program.require_polytope("Solver")


def test_more_memory_than_is_free_is_refused(monkeypatch):
    monkeypatch.setattr("nodeproof.runtime.memory.available_memory", lambda: 2**30)
    check_memory("it", 8192, 2)  # exactly that
    with pytest.raises(InputError) as error:
        check_memory("it", 8192, 4)
    told = str(error.value)
    for part in ("4 dense 8192 × 8192", "2.1 GB", "only 1.1 GB is free", "solver='block'"):
        assert part in told
    assert "\n" not in told
