"""CADO as published, in each of its readings, is tested for what it does, good or bad."""

from __future__ import annotations

import numpy as np
import pytest

from nodeproof import NodeClassifier, Problem, datasets
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.problem import PAPER_WEIGHTS
from nodeproof.sets import Simplex
from nodeproof.solvers import CADO, BlockCADO, Status
from nodeproof.solvers.cado import _Links
from nodeproof.solvers.starts import STARTS
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


@pytest.mark.parametrize("gradient", ["e", "W"])
@pytest.mark.parametrize("step", ["open-loop", "line-search"])
@pytest.mark.parametrize("model_step", ["lmo", "projection"])
def test_averages_of_memberships_are_feasible_at_every_iterate(
    dense_problem, gradient, step, model_step
):
    simplex, seen = Simplex(3), []

    def check(progress):
        assert simplex.contains(progress.W).all()
        seen.append(progress.iteration)

    solver = CADO(
        gradient, "W", step=step, model_step=model_step, max_iter=12, tol=0, random_state=1
    )
    result = solver.solve(dense_problem, callback=check)
    assert seen == list(range(1, result.n_iter + 1))
    for term, theta in zip(dense_problem.terms, result.models.terms, strict=True):
        assert term.models_set.contains(theta, tol=1e-8).all()


@pytest.mark.parametrize("gradient", ["e", "W"])
def test_averages_of_embeddings_break_the_unit_diagonal_until_the_result_is_returned(
    dense_problem, gradient
):
    lowest = []

    def record(progress):
        lowest.append(progress.W.sum(axis=1).min())

    result = CADO(gradient, max_iter=10, tol=0, random_state=1).solve(
        dense_problem, start=np.full((90, 3), 1 / 3), callback=record
    )
    assert min(lowest) < 0.99
    assert Simplex(3).contains(result.W).all()


def objective(problem, E, models, diagonal):
    """φ at ē, written out with dense matrices; with the paper's Ā_vv = −1 or without."""
    A = problem.graph.adjacency.toarray()
    polarised = np.where(A > 0, 1.0, -1.0)
    np.fill_diagonal(polarised, -1.0 if diagonal else 0.0)
    without_links = Problem(None, problem.terms, 3, problem.weights, son=problem.son)
    return -np.vdot(polarised, E @ E.T) + without_links.value(E**2, models)


@pytest.mark.parametrize("gradient", ["e", "W"])
@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("son", [0.0, 0.3])
def test_both_gradients_agree_with_finite_differences(dense_problem, gradient, diagonal, son):
    rng = np.random.default_rng(0)
    problem = Problem(dense_problem.graph, dense_problem.terms, 3, weights=PAPER_WEIGHTS, son=son)
    E = np.sqrt(rng.dirichlet(np.ones(3), size=90)) * rng.uniform(0.7, 1.0, size=(90, 1))
    # Without the sum of norms, which makes models equal: there it has no gradient.
    models = dense_problem.fit_models(E**2)
    value, found = CADO(gradient, diagonal=diagonal)._value_and_gradient(
        problem, E**2, models, _Links(problem, E)
    )
    np.testing.assert_allclose(value, objective(problem, E, models, diagonal), rtol=1e-10)
    for _ in range(5):
        D = rng.normal(size=E.shape) * E
        h = 1e-5

        def at(t, D=D):
            moved = E + t * D if gradient == "e" else np.sqrt(E**2 + t * D)
            return objective(problem, moved, models, diagonal)

        slope = (at(h) - at(-h)) / (2 * h)
        np.testing.assert_allclose(np.vdot(found, D), slope, rtol=1e-5, atol=1e-4)


def test_products_with_links_are_kept_up_to_date(dense_problem):
    """Few or many one-hot rows may change from one step to the next."""
    rng = np.random.default_rng(0)
    E = np.sqrt(rng.dirichlet(np.ones(3), size=90))
    links = _Links(dense_problem, E)
    classes = rng.integers(3, size=90)
    for changed in (90, 0, 3, 50, 1, 0):
        rows = rng.choice(90, size=changed, replace=False)
        classes[rows] = rng.integers(3, size=changed)
        target, gamma = np.eye(3)[classes], rng.uniform()
        links.move(target, gamma)
        E = (1 - gamma) * E + gamma * target
        np.testing.assert_allclose(links.slopes, _Links(dense_problem, E).slopes, atol=1e-9)


def test_the_first_open_loop_step_forgets_the_start(problem):
    rows = []
    CADO(max_iter=1, random_state=0).solve(problem, callback=lambda p: rows.append(p.W.copy()))
    assert set(np.unique(rows[0])) == {0.0, 1.0}


def accuracy_of(data, result):
    return (result.W.argmax(axis=1) == data.y_true)[data.y < 0].mean()


@pytest.mark.parametrize(("seed", "diagonal"), [(0, False), (1, True), (2, False)])
def test_in_embeddings_it_solves_the_papers_default_data_from_a_random_start(seed, diagonal):
    """Algorithm 1, the paper's weights, t = 1/2."""
    data = datasets.make_planted(random_state=seed)
    nodes = NodeData(3, data.X, data.y)
    terms = [Covariance().bind(nodes), Labels().bind(nodes)]
    problem = Problem(Graph(data.graph), terms, 3, weights=PAPER_WEIGHTS)
    result = CADO(diagonal=diagonal, random_state=seed).solve(problem)
    assert accuracy_of(data, result) >= 0.94


def test_without_labels_it_does_not_leave_uniform_embeddings_and_with_them_it_does(data, problem):
    """What breaks the symmetry is the labels: by the objective, not by luck."""
    without = Problem(problem.graph, problem.terms[:1], 3, weights=PAPER_WEIGHTS)
    values = [CADO(random_state=0).solve(p).value for p in (without, problem)]
    known = Problem(problem.graph, problem.terms[:1], 3, weights=PAPER_WEIGHTS)
    planted = np.eye(3)[data.y_true]
    assert values[0] > known.value(planted, known.fit_models(planted))


@pytest.fixture(scope="module")
def block(problem):
    return BlockCADO(temperature=0, random_state=0).solve(problem)


@pytest.mark.parametrize("average", ["W", "e"])
@pytest.mark.parametrize("step", ["open-loop", "line-search"])
@pytest.mark.parametrize("model_step", ["lmo", "projection"])
def test_in_memberships_it_keeps_the_classes_of_its_start(
    problem, block, average, step, model_step
):
    """Algorithm 2, every variant: gradients are smallest where W is largest already."""
    start = np.array(STARTS["random"](problem, np.random.default_rng(0)), dtype=float)
    solver = CADO("W", average, step=step, model_step=model_step, random_state=0)
    result = solver.solve(problem, start)
    kept = result.W.argmax(axis=1) == start.argmax(axis=1)
    assert kept.mean() > 0.9
    assert block.value < result.value


@pytest.mark.parametrize("start", ["labels", "spectral", "features"])
def test_it_starts_where_it_is_told(problem, start):
    """In W it is as good as its start, and any of these is better than a random one."""
    named = CADO("W", start=start, random_state=0).solve(problem)
    given = CADO("W", random_state=0).solve(
        problem, STARTS[start](problem, np.random.default_rng(0))
    )
    np.testing.assert_array_equal(named.W, given.W)
    random = CADO("W", random_state=0).solve(problem)
    assert named.value < random.value


@pytest.mark.parametrize("gradient", ["e", "W"])
@pytest.mark.parametrize("average", ["e", "W"])
@pytest.mark.parametrize("diagonal", [False, True])
def test_a_line_search_never_raises_the_objective(dense_problem, gradient, average, diagonal):
    solver = CADO(
        gradient, average, diagonal, step="line-search", max_iter=15, tol=0, random_state=2
    )
    values = np.array(solver.solve(dense_problem).history["value"])
    assert (np.diff(values) <= 1e-6 * np.abs(values[:-1])).all()


def test_the_history_counts_oracle_calls_and_records_the_objective(dense_problem):
    solver = CADO("W", "W", diagonal=False, max_iter=7, tol=0, random_state=0)
    result = solver.solve(dense_problem)
    # One oracle for the rows, and one for each class model of each of the two terms.
    assert result.history["lmo_calls"] == [7 * (k + 1) for k in range(result.n_iter)]
    np.testing.assert_allclose(result.history["value"][-1], result.value)
    assert result.value == dense_problem.value(result.W, result.models)


@pytest.mark.parametrize("gradient", ["e", "W"])
def test_steps_follow_the_published_sequence(dense_problem, gradient):
    """From the first to the second iterate a row moves by 2/3 towards its target, or not."""
    rows = []
    CADO(gradient, "W", max_iter=2, tol=0, random_state=3).solve(
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


def test_it_ends_honestly(dense_problem):
    assert CADO(random_state=0).solve(dense_problem).status is Status.CONVERGED
    assert CADO(max_iter=1, random_state=0).solve(dense_problem).status is Status.MAX_ITER
    stopped = CADO(random_state=0).solve(dense_problem, callback=lambda p: True)
    assert stopped.status is Status.STOPPED


def test_it_goes_on_until_neither_objective_nor_classes_change(problem):
    classes, values = [], []
    result = CADO(random_state=0, max_iter=3000).solve(
        problem, callback=lambda p: classes.append(p.W.argmax(axis=1))
    )
    values = result.history["value"]
    half = len(values) // 2
    flat = np.ptp(values[half:]) <= 1e-6 * abs(values[-1])
    same = all((found == classes[-1]).all() for found in classes[half:])
    assert result.status is Status.CONVERGED
    assert flat or same


@pytest.mark.parametrize("solver", ["cado", "cado-W", CADO("e", start="spectral", random_state=0)])
def test_classifiers_run_it_by_name_and_as_an_object(solver, tmp_path):
    data = datasets.make_planted(p=0.9, q=0.1, cluster_size=20, random_state=0)
    clf = NodeClassifier(solver=solver, random_state=0).fit(data.X, data.y, graph=data.graph)
    clf.save(tmp_path / "model.npz")
    loaded = NodeClassifier.load(tmp_path / "model.npz")
    assert loaded.solver == solver
    np.testing.assert_array_equal(loaded.proba_, clf.proba_)
    if solver != "cado-W":
        assert (clf.labels_ == data.y_true).all()


@pytest.mark.parametrize(
    ("start", "needs"), [("spectral", "links"), ("labels", "labels"), ("features", "features")]
)
def test_a_start_without_its_data_is_refused(start, needs):
    data = datasets.make_planted(cluster_size=10, random_state=0)
    if start == "spectral":
        bound = Labels().bind(NodeData(3, y=data.y))
        problem = Problem(None, [bound], 3, weights=PAPER_WEIGHTS)
    else:
        problem = Problem(Graph(data.graph), [], 3, weights=PAPER_WEIGHTS)
    with pytest.raises(InputError, match=f"needs {needs}"):
        CADO(start=start).solve(problem)
    with pytest.raises(InputError, match="shape"):
        CADO().solve(problem, np.ones((3, 2)))


@pytest.mark.parametrize(
    "wrong", [{"gradient": "E"}, {"start": "here"}, {"diagonal": 2}, {"average": "L"}, {"tol": -1}]
)
def test_settings_it_does_not_know_are_refused(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        CADO(**wrong)


def test_calibrated_weights_are_refused(data):
    problem = Problem(Graph(data.graph), [], 3)
    with pytest.raises(InputError, match="fixed weights"):
        CADO().solve(problem)
