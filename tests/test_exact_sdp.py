"""The convex program by general cone solvers: values, rigorous bounds, honest ends."""

import itertools
import sys

import numpy as np
import pytest

from nodeproof import Problem, datasets, terms
from nodeproof.convex import sdp
from nodeproof.convex.program import Program
from nodeproof.errors import InputError, MissingExtraError
from nodeproof.graph import Graph
from nodeproof.solvers import BlockADMM, ExactSDP, Status

pytestmark = pytest.mark.numeric

cp = pytest.importorskip("cvxpy")

BACKENDS = ("clarabel", "scs")


def planted(K, size, p, q, threshold, label_ratio=0.0, son=0.0, seed=0) -> Problem:
    data = datasets.make_planted(
        n_clusters=K, cluster_size=size, p=p, q=q, label_ratio=label_ratio, random_state=seed
    )
    known = [terms.Labels().bind(terms.NodeData(K, y=data.y))] if label_ratio else []
    graph = Graph(data.graph, "uniform")
    return Problem(graph, known, K, weights=(1.0, 0.0, 2.0), threshold=threshold, son=son)


def two_cliques(labelled: bool = False, son: float = 0.0) -> Problem:
    A = np.kron(np.eye(2), np.ones((3, 3))) - np.eye(6)
    y = np.array([0, 0, -1, 1, -1, 1])
    known = [terms.Labels().bind(terms.NodeData(2, y=y))] if labelled else []
    return Problem(Graph(A, "uniform"), known, 2, weights=(1.0, 0.0, 2.0), son=son)


def best_labelling(problem: Problem) -> float:
    """Return the least objective of all labellings, each with its best models."""
    eye = np.eye(problem.n_classes)
    every = itertools.product(range(problem.n_classes), repeat=problem.n_nodes)
    partitions = {tuple(np.unique(z, return_inverse=True)[1]) for z in every if z[0] == 0}
    # The names of the classes do not matter: a class that is first seen later has a later name.
    partitions = {z for z in partitions if list(dict.fromkeys(z)) == sorted(set(z))}
    return min(problem.value(W, problem.fit_models(W)) for W in (eye[list(z)] for z in partitions))


@pytest.mark.parametrize(
    "problem",
    [
        planted(2, 4, 0.8, 0.2, 0.5),
        planted(2, 4, 0.8, 0.3, 0.5, label_ratio=0.5, seed=1),
        planted(2, 3, 0.5, 0.3, 0.4, label_ratio=0.5, son=0.1, seed=2),
        planted(3, 2, 0.5, 0.5, 0.5, label_ratio=0.7, seed=4),
    ],
)
def test_no_labelling_undercuts_the_relaxation(problem):
    best = best_labelling(problem)
    for backend in BACKENDS:
        result = ExactSDP(backend).solve(problem)
        assert result.status is Status.CONVERGED
        assert result.lower_bound <= result.program_value <= best + 1e-5 * max(1.0, abs(best))
        assert best <= result.value + 1e-9
        assert result.violation <= 1e-12
        assert result.gap <= 1e-5


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("problem", [two_cliques(), two_cliques(True), two_cliques(True, 0.05)])
def test_the_relaxation_is_tight_on_cliques(problem, backend):
    result = ExactSDP(backend, tol=1e-6).solve(problem)
    best = best_labelling(problem)
    assert result.program_value == pytest.approx(best, rel=1e-5)
    assert result.lower_bound == pytest.approx(best, rel=1e-5)
    assert result.value == pytest.approx(best, rel=1e-12)
    np.testing.assert_allclose(result.point.L, np.kron(np.eye(2), np.ones((3, 3))), atol=1e-3)


@pytest.mark.parametrize(
    "problem",
    [
        planted(2, 10, 0.8, 0.2, 0.5, seed=3),
        planted(3, 6, 0.3, 0.05, 0.15, seed=1),
        planted(3, 6, 0.8, 0.2, 0.5, label_ratio=0.2, seed=1),
        planted(3, 6, 0.3, 0.05, 0.15, label_ratio=0.2, seed=2),
        planted(2, 6, 0.8, 0.2, 0.5, label_ratio=0.3, son=0.05, seed=4),
        planted(3, 5, 0.3, 0.05, 0.15, label_ratio=0.3, son=0.02, seed=5),
    ],
)
def test_it_agrees_with_block_admm(problem):
    split = BlockADMM(tol=1e-6, max_iter=2000).solve(problem)
    for backend in BACKENDS:
        exact = ExactSDP(backend).solve(problem)
        assert exact.gap <= 1e-5
        assert exact.program_value == pytest.approx(split.program_value, rel=1e-4)
        assert exact.lower_bound == pytest.approx(split.lower_bound, rel=1e-4)
        assert split.lower_bound <= exact.program_value
        assert exact.lower_bound <= split.program_value


def test_a_large_sum_of_norms_makes_all_models_equal():
    result = ExactSDP().solve(planted(2, 6, 0.8, 0.2, 0.5, label_ratio=0.5, son=5.0))
    models = result.point.models
    np.testing.assert_allclose(models, np.tile(models[0], (12, 1)), atol=1e-4)
    assert result.status is Status.CONVERGED


@pytest.mark.parametrize(("backend", "most"), [("clarabel", 3), ("scs", 25)])
def test_an_early_end_is_told_and_its_bound_still_holds(backend, most):
    problem = planted(2, 8, 0.5, 0.2, 0.35, label_ratio=0.3, son=0.05)
    exact = ExactSDP().solve(problem)
    early = ExactSDP(backend, max_iter=most).solve(problem)
    assert early.status is Status.MAX_ITER
    assert early.n_iter <= most
    assert early.gap > 1e-5
    assert early.lower_bound <= exact.program_value
    assert exact.lower_bound <= early.program_value
    assert early.violation <= 1e-12


def test_the_bound_holds_whatever_the_multipliers_are():
    problem = planted(2, 5, 0.8, 0.2, 0.5, label_ratio=0.5, son=0.1)
    model = sdp._Model(cp, Program(problem))
    model.solve("clarabel")
    optimum = model.value()
    assert model.bound() == pytest.approx(optimum, rel=1e-6)
    model.cones.dual_variables[1].save_value(3.0 * model.cones.dual_value[1])
    assert np.linalg.norm(model.flows(), axis=1).max() <= problem.son
    rng = np.random.default_rng(0)
    for scale in (1e-4, 1e-2, 1.0):
        for constraint in (model.ones, *model.signs, model.cones):
            for dual in constraint.dual_variables:
                dual.save_value(dual.value + scale * rng.standard_normal(dual.shape))
        assert model.bound() < optimum


def test_scs_is_asked_again_until_the_gap_is_proven():
    problem = planted(2, 10, 0.8, 0.2, 0.5, label_ratio=0.2, son=0.02, seed=2)
    result = ExactSDP("scs", tol=1e-5).solve(problem)
    assert len(result.history["bound"]) > 1
    assert np.all(np.diff(result.history["bound"]) >= 0)
    assert result.history["iteration"][-1] == result.n_iter
    assert result.status is Status.CONVERGED


def test_a_callback_sees_the_shares_and_can_stop():
    seen = []

    def stop(progress):
        seen.append(progress)
        return True

    result = ExactSDP("scs").solve(two_cliques(labelled=True), callback=stop)
    assert result.status is Status.STOPPED
    assert len(seen) == 1
    np.testing.assert_allclose(seen[0].W.sum(axis=1), 1.0, atol=1e-3)


def test_one_node_is_solved():
    labels = terms.Labels().bind(terms.NodeData(2, y=np.array([1])))
    result = ExactSDP().solve(Problem(None, [labels], 2, weights=(1.0, 0.0, 2.0), son=0.3))
    assert result.program_value == pytest.approx(-2.0)
    assert result.status is Status.CONVERGED


def test_the_same_seed_gives_the_same_labelling():
    problem = planted(3, 5, 0.3, 0.05, 0.15, label_ratio=0.3)
    first, second = (ExactSDP(random_state=3).solve(problem) for _ in range(2))
    np.testing.assert_array_equal(first.W, second.W)
    assert first.lower_bound == second.lower_bound


# What is refused. -----------------------------------------------------------------------


def test_a_missing_cvxpy_names_the_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'nodeproof\[convex\]'"):
        ExactSDP().solve(two_cliques())


def test_a_missing_backend_names_the_install_command(monkeypatch):
    monkeypatch.setattr(cp, "installed_solvers", lambda: ["SCS"])
    with pytest.raises(MissingExtraError, match="clarabel is not installed"):
        ExactSDP().solve(two_cliques())


def test_too_many_nodes_are_refused_before_anything_is_built():
    with pytest.raises(
        InputError, match="300 nodes × 3 vertices are too many for Clarabel"
    ) as error:
        ExactSDP().solve(planted(3, 100, 0.3, 0.05, 0.15, label_ratio=0.2))
    assert "BlockADMM" in str(error.value)
    assert "\n" not in str(error.value)


def test_models_beyond_a_polytope_are_refused():
    data = datasets.make_planted(cluster_size=5, random_state=0)
    term = terms.Covariance().bind(terms.NodeData(3, X=data.X))
    problem = Problem(Graph(data.graph), [term], 3, weights=(1.0, 1.0, 1.0))
    with pytest.raises(InputError, match="ExactSDP needs models in a polytope"):
        ExactSDP().solve(problem)


def test_a_failure_of_the_backend_is_one_clear_line(monkeypatch):
    def fail(*_, **__):
        raise cp.error.SolverError("it broke\nin two lines")

    monkeypatch.setattr(cp.Problem, "solve", fail)
    with pytest.raises(RuntimeError, match="clarabel failed, it broke in two lines; use BlockADMM"):
        ExactSDP().solve(two_cliques())


def test_an_end_without_a_solution_is_one_clear_line(monkeypatch):
    monkeypatch.setattr(cp.Problem, "solve", lambda *_, **__: None)
    with pytest.raises(RuntimeError, match="scs failed, it ended as None"):
        ExactSDP("scs").solve(two_cliques())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "mosek"}, "backend must be 'clarabel' or 'scs', got 'mosek'"),
        ({"tol": -1.0}, "tol must be a finite number ≥ 0"),
        ({"max_iter": 0}, "max_iter must be a positive integer"),
    ],
)
def test_unfit_options_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        ExactSDP(**options)


def test_a_start_is_refused():
    with pytest.raises(InputError, match="takes no start"):
        ExactSDP().solve(two_cliques(), start=np.ones((6, 2)))


def test_an_interrupt_keeps_what_was_solved_before(monkeypatch):
    problem = planted(2, 6, 0.8, 0.2, 0.5)
    solve, asked = sdp._Model.solve, []

    def interrupted(model, backend, **options):
        asked.append(backend)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return solve(model, backend, **options)

    monkeypatch.setattr(sdp._Model, "solve", interrupted)
    result = ExactSDP("scs", tol=0.0).solve(problem)
    assert result.status is Status.INTERRUPTED
    assert result.lower_bound <= result.program_value < np.inf
    del asked[1:]
    with pytest.raises(KeyboardInterrupt):  # in its first run: there is nothing to keep
        ExactSDP("scs").solve(problem)
