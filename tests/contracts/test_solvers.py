"""What every solver keeps to. A solver added to SOLVERS is covered."""

import inspect
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from nodeproof import NodeClassifier, Problem, solvers
from nodeproof.datasets import make_planted
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.runtime import threads
from nodeproof.solvers import (
    CADO,
    CANO,
    BlockADMM,
    BlockCADO,
    ConvexResult,
    ExactSDP,
    Progress,
    Result,
    Solver,
    Status,
)
from nodeproof.terms import Covariance, Labels, NodeData
from own_terms import MeanField

pytestmark = [pytest.mark.numeric, pytest.mark.usefixtures("one_thread")]

K, N = 2, 10


@dataclass(frozen=True)
class Case:
    """A solver, and what it takes.

    Attributes
    ----------
    soft : bool
        Whether it minimises the free energy, also of calibrated weights, at its `temperature`;
        else the paper's objective.
    convex : bool
        Whether it solves the convex program, and proves bounds.
    features : bool
        Whether it takes losses that are not linear.
    interruptible : bool
        Whether an interrupt in its iterations ends it with what there is.
    lifted : bool
        Whether it keeps models fitted to a start, and minimises either objective.
    checks_start : bool
        Whether it looks at the shape of a start before it computes.
    quick : bool
        Whether its first iteration may be its last.
    """

    solver: Any
    soft: bool = False
    convex: bool = False
    features: bool = True
    interruptible: bool = True
    lifted: bool = False
    checks_start: bool = True
    quick: bool = False

    def solve(self, problem: Problem, callback=None) -> Result:
        start = np.eye(K)[np.arange(problem.n_nodes) % K] if self.lifted else None
        return self.solver.solve(problem, start, callback)


SOLVERS = [
    Case(BlockCADO(temperature=0.0, random_state=0), soft=True),
    Case(BlockCADO(random_state=0), soft=True),
    Case(MeanField(), soft=True),
    Case(CADO(max_iter=30, random_state=0), quick=True),
    Case(CADO(step="line-search", max_iter=10, random_state=0), quick=True),
    Case(BlockADMM(random_state=0), convex=True, features=False),
    Case(BlockADMM(lifted=True, max_iter=100, random_state=0), lifted=True, checks_start=False),
    Case(CANO(tol=5e-3, max_iter=40, random_state=0), convex=True),
    Case(ExactSDP(random_state=0), convex=True, features=False, interruptible=False, quick=True),
]


def build(sources="GL", weights=(1.0, 1.0, 2.0), seed=0) -> Problem:
    rng = np.random.default_rng(seed)
    z = np.arange(N) % K
    near = np.where(z[:, None] == z, 0.8, 0.2)
    upper = np.triu(rng.random((N, N)) < near, 1).astype(float)
    y = np.where(rng.random(N) < 0.5, z, -1)
    X = rng.normal(size=(N, 2)) * np.where(z[:, None] == 0, [1.5, 0.3], [0.3, 1.5])
    nodes = NodeData(K, X, y)
    known = [t.bind(nodes) for s, t in (("F", Covariance()), ("L", Labels())) if s in sources]
    graph = Graph(upper + upper.T, "uniform") if "G" in sources else None
    return Problem(graph, known, K, weights=weights)


@pytest.fixture(params=SOLVERS, ids=lambda case: repr(case.solver))
def case(request):
    if isinstance(request.param.solver, ExactSDP):
        pytest.importorskip("cvxpy")
    return request.param


def judged(case: Case, problem: Problem, result: Result) -> float:
    """Return the objective as the problem itself computes it."""
    if case.soft:
        return problem.free_energy(result.W, result.models, case.solver.temperature)
    return problem.value(result.W, result.models)


def sources_of(case: Case) -> list[str]:
    return ["GL", "G", "L"] + (["GFL"] if case.features else [])


def test_every_public_solver_is_listed():
    public = {getattr(solvers, name) for name in solvers.__all__} - {Solver}
    listed = {type(case.solver) for case in SOLVERS}
    assert {c for c in public if hasattr(c, "solve")} == listed - {MeanField}


def test_solvers_are_called_alike(case):
    names = list(inspect.signature(case.solver.solve).parameters)
    assert names == ["problem", "start", "callback"]


def test_rows_are_on_the_simplex_and_the_value_is_the_problems(case):
    for sources in sources_of(case):
        problem = build(sources)
        result = case.solve(problem)
        assert isinstance(result, Result)
        assert result.W.shape == (N, K)
        assert (result.W >= 0).all()
        np.testing.assert_allclose(result.W.sum(axis=1), 1.0, atol=1e-6)
        assert result.value == pytest.approx(judged(case, problem, result), rel=1e-9, abs=1e-9)
        assert isinstance(result.status, Status)
        assert result.n_iter >= 1
        assert all(np.isfinite(values).all() for values in result.history.values())


def test_the_problem_and_its_data_are_left_as_they_were(case):
    problem = build("GL")
    before = problem.graph.adjacency.toarray(), problem.labels.copy()
    case.solve(problem)
    np.testing.assert_array_equal(problem.graph.adjacency.toarray(), before[0])
    np.testing.assert_array_equal(problem.labels, before[1])


def test_the_same_seed_gives_the_same_bits_on_any_number_of_threads(case):
    problem = build("GL", seed=1)
    one, two = case.solve(problem), case.solve(problem)
    with threads.using(2):
        three = case.solve(problem)
    for other in (two, three):
        assert one.W.tobytes() == other.W.tobytes()
        assert (one.value, one.status, one.n_iter) == (other.value, other.status, other.n_iter)
        if case.convex:
            assert one.lower_bound == other.lower_bound


def test_a_callback_is_told_and_can_stop(case):
    told: list[Progress] = []

    def stop(progress):
        told.append(progress)
        return True

    result = case.solve(build("GL"), callback=stop)
    assert result.status is Status.STOPPED
    assert len(told) == 1
    assert told[0].iteration == result.n_iter
    assert (told[0].run, told[0].change >= 0) == (1, True)
    assert len(told[0].W) == N
    assert result.W.shape == (N, K)


def test_a_callback_that_does_not_answer_changes_nothing(case):
    problem, count = build("GL"), []
    result = case.solve(problem, callback=count.append)
    assert count
    assert result.W.tobytes() == case.solve(problem).W.tobytes()


def test_an_interrupt_is_survived(case):
    if not case.interruptible:
        pytest.skip("its iterations are another library's")

    def interrupt(progress):
        raise KeyboardInterrupt

    problem = build("GL")
    result = case.solve(problem, callback=interrupt)
    assert result.status is Status.INTERRUPTED
    np.testing.assert_allclose(result.W.sum(axis=1), 1.0, atol=1e-6)
    assert result.value == pytest.approx(judged(case, problem, result), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("at", [1, 2, 7])
def test_an_interrupt_in_a_step_of_a_convex_solver_is_survived(monkeypatch, at):
    from nodeproof.convex import admm, cano

    problem, whole = build("GL"), BlockADMM(tol=1e-7).solve(build("GL")).program_value
    for kind, solver in ((admm.Blocks, BlockADMM(check_every=1)), (cano.State, CANO())):
        count, step = [0], kind.step

        def broken(self, *args, count=count, step=step):
            count[0] += 1
            if count[0] == at:
                raise KeyboardInterrupt
            return step(self, *args)

        with monkeypatch.context() as patch:
            patch.setattr(kind, "step", broken)
            result = solver.solve(problem)
        assert result.status is Status.INTERRUPTED
        assert result.n_iter == at
        assert result.lower_bound <= whole + 1e-9 <= result.program_value + 1e-5
        assert result.violation <= 1e-9


def test_an_early_end_is_told(case):
    if case.quick:
        pytest.skip("the first iteration may be its last")
    short = replace(case, solver=replace(case.solver, max_iter=1, tol=0.0))
    result = short.solve(build("GL", seed=2))
    assert result.status is Status.MAX_ITER
    assert result.n_iter == 1


def test_bounds_and_points_of_convex_solvers_fit_together(case):
    if not case.convex:
        pytest.skip("it proves nothing")
    for sources in ("GL", "G", "L"):
        result = case.solve(build(sources, seed=3))
        assert isinstance(result, ConvexResult)
        assert result.status is Status.CONVERGED
        assert result.gap <= case.solver.tol + 1e-12
        assert result.lower_bound <= result.program_value
        assert result.lower_bound <= result.value
        assert result.violation <= 1e-9


def test_convex_solvers_agree():
    pytest.importorskip("cvxpy")
    for sources in ("GL", "G"):
        problem = build(sources, seed=4)
        found = [case.solve(problem) for case in SOLVERS if case.convex]
        lowest = min(result.program_value for result in found)
        assert all(result.lower_bound <= lowest for result in found)


@pytest.mark.parametrize("weights", ["calibrated", (1.0, 2.5, 13.0)], ids=["calibrated", "fixed"])
def test_a_solver_of_ones_own_labels_every_node_with_and_without_labels(weights):
    data = make_planted(cluster_size=40, p=0.4, random_state=0)
    clf = NodeClassifier(3, solver=MeanField(), weights=weights, threshold=0.2, random_state=0)
    if weights == "calibrated":
        clf.set_params(threshold="auto")
    for y in (data.y, None):
        clf.fit(data.X, y, graph=data.graph)
        assert adjusted_rand_score(clf.labels_, data.y_true) > 0.9
        assert clf.choices_["solver"]["value"] == "MeanField"


# What is refused. -----------------------------------------------------------------------


def refusal(call) -> str:
    with pytest.raises(InputError) as error:
        call()
    told = str(error.value)
    assert "\n" not in told
    assert len(told) < 300
    return told


def test_calibrated_weights_are_refused_by_those_that_minimise_the_papers_objective(case):
    if case.soft or case.lifted:
        assert case.solve(build("GL", weights="calibrated")).W.shape == (N, K)
    else:
        assert "fixed weights" in refusal(lambda: case.solve(build("GL", weights="calibrated")))


def test_features_are_refused_by_those_that_need_a_polytope(case):
    if case.features:
        pytest.skip("it takes them")
    assert "use CANO" in refusal(lambda: case.solve(build("GFL")))


def test_starts_of_another_shape_are_refused(case):
    if not case.checks_start:
        pytest.skip("it does not look at the shape before it computes")
    rows = np.full((N, K + 1), 1 / (K + 1))
    told = refusal(lambda: case.solver.solve(build("GL"), rows))
    assert "takes no start" in told or "shape" in told


@pytest.mark.parametrize("options", [{"max_iter": 0}, {"max_iter": 1.5}, {"tol": -1.0}])
def test_unfit_options_are_refused(case, options):
    (name,) = options
    assert refusal(lambda: replace(case.solver, **options)).startswith(name)
