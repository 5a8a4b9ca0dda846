"""The sum of norms in the objective, its gradients, and block CADO."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import pdist

from nodeproof import NodeClassifier, Problem, datasets, solvers
from nodeproof.convex.characteristic import biased_centroids
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.problem import PAPER_WEIGHTS, Models
from nodeproof.runtime import threads
from nodeproof.solvers.sweep import Sweeper
from nodeproof.sum_of_norms import SumOfNorms, pairs
from nodeproof.terms import Covariance, Gaussian, Labels, NodeData

K = 3
SON = 0.002

pytestmark = [pytest.mark.numeric, pytest.mark.usefixtures("one_thread")]


def build(data, n_classes=K, son=SON, null_model="uniform", kinds=(Covariance, Labels), t=0.25):
    nodes = NodeData(n_classes, data.X, data.y)
    bound = [kind().bind(nodes) for kind in kinds]
    return Problem(Graph(data.graph, null_model), bound, n_classes, PAPER_WEIGHTS, t, son=son)


def draw_rows(n, n_classes=K, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(n_classes), size=n)


def mixtures(W, models):
    """θ_v, all terms side by side, shape (n, d)."""
    return W @ np.hstack([theta.reshape(len(theta), -1) for theta in models.terms])


@pytest.fixture(scope="module")
def problem(planted):
    return build(planted)


@pytest.fixture(scope="module")
def without(planted):
    return build(planted, son=0.0)


# The objective. -------------------------------------------------------------------------


def test_the_value_is_the_sum_over_all_pairs_of_nodes(problem, without):
    for W in (draw_rows(60), np.eye(K)[np.arange(60) % K]):
        models = without.fit_models(W)
        extra = problem.value(W, models) - without.value(W, models)
        assert extra == pytest.approx(SON * pdist(mixtures(W, models)).sum(), rel=1e-9)


def test_sums_in_chunks_are_the_same(problem, monkeypatch):
    W = draw_rows(60)
    models = problem.fit_models(W)
    whole = problem.value(W, models), problem.gradient_W(W, models)
    monkeypatch.setattr(pairs, "_MOST_PAIRS", 7 * 60)
    np.testing.assert_allclose(problem.value(W, models), whole[0], rtol=1e-12)
    np.testing.assert_allclose(problem.gradient_W(W, models), whole[1], rtol=1e-9)


def test_the_gradients_agree_with_differences(problem, without, slope):
    """Less those of the other parts, which have tests of their own."""
    W = draw_rows(60)
    models = without.fit_models(np.eye(K)[np.arange(60) % K])
    assert len(set(models.groups)) == K
    gradient = problem.gradient_W(W, models) - without.gradient_W(W, models)
    pairs = zip(problem.gradient_models(W, models), without.gradient_models(W, models), strict=True)
    by_terms = [one - two for one, two in pairs]

    def extra(at, theta):
        return problem.value(at, theta) - without.value(at, theta)

    rng = np.random.default_rng(2)
    for _ in range(5):
        way = rng.standard_normal(W.shape)
        expected = slope(lambda at: extra(at, models), W, way, step=1e-6)
        np.testing.assert_allclose(np.vdot(gradient, way), expected, rtol=1e-5)
        for k in range(len(problem.terms)):
            way = rng.standard_normal(models.terms[k].shape)
            way += np.swapaxes(way, -1, -2) if way.ndim == 3 else 0.0

            def at(theta, k=k):
                moved = (*models.terms[:k], theta, *models.terms[k + 1 :])
                return extra(W, Models(models.affinity, moved, models.log_prior))

            expected = slope(at, models.terms[k], way, step=1e-6)
            np.testing.assert_allclose(np.vdot(by_terms[k], way), expected, rtol=1e-5)


def test_nodes_that_coincide_pull_nothing(problem, without):
    W = draw_rows(60)
    same = tuple(np.repeat(theta[:1], K, axis=0) for theta in without.fit_models(W).terms)
    models = Models(without.fit_models(W).affinity, same, np.zeros(K))
    np.testing.assert_allclose(problem.value(W, models), without.value(W, models), rtol=1e-12)
    np.testing.assert_allclose(problem.gradient_W(W, models), without.gradient_W(W, models))
    for one, two in zip(
        problem.gradient_models(W, models), without.gradient_models(W, models), strict=True
    ):
        np.testing.assert_allclose(one, two)
    assert len(set(models.groups)) == 1


def test_the_free_energy_is_phi_on_one_hot_rows_and_no_less_between(problem, without):
    for seed in range(5):
        W = np.eye(K)[np.random.default_rng(seed).integers(0, K, size=60)]
        models = without.fit_models(W)
        energy = problem.free_energy(W, models, temperature=0.0)
        assert energy == pytest.approx(problem.value(W, models), rel=1e-9)
        sums, rows = SumOfNorms(models.terms, SON), draw_rows(60, seed=seed)
        assert sums.energy(W) == pytest.approx(sums.value(W), rel=1e-9)
        assert sums.energy(rows) > 1.1 * sums.value(rows) > 0


def test_one_hot_rows_of_many_nodes_cost_a_few_distances():
    rng = np.random.default_rng(0)
    sums = SumOfNorms([rng.standard_normal((4, 5))], SON)
    z = rng.integers(0, 4, size=200_000)
    counts = np.bincount(z).astype(np.float64)
    expected = 0.5 * SON * counts @ sums.distances @ counts
    assert sums.value(np.eye(4, dtype=np.float32)[z]) == pytest.approx(expected)


def test_models_for_given_rows_are_the_biased_centroids(problem):
    W = np.eye(K)[np.arange(60) % K]
    for mine, theirs in zip(
        problem.fit_models(W).terms, biased_centroids(problem, W).models, strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("son", [-1.0, np.inf, np.nan])
def test_a_weight_that_is_no_weight_is_refused(planted, son):
    with pytest.raises(InputError, match="son must be a finite number ≥ 0"):
        build(planted, son=son)


def test_calibrated_weights_know_no_sum_of_norms(problem):
    with pytest.raises(InputError, match=r"give weights=\(β_g, β_f, β_l\)"):
        Problem(problem.graph, problem.terms, K, son=0.1)


# Block CADO. ----------------------------------------------------------------------------


def plain_sweep(problem, W, models, temperature, size):
    """Every row by its stated cost, from the definition."""
    A, eta, W = problem.graph.adjacency.toarray(), problem.graph.eta, W.astype(np.float64)
    flat = np.hstack([theta.reshape(len(theta), -1) for theta in models.terms])
    distances = np.linalg.norm(flat[:, None] - flat[None], axis=2)
    costs = problem.costs(models, 0, len(W))
    ell, ell_t = models.affinity.ell[0, 0], models.affinity.ell_t[0, 0]
    for first in range(0, len(W), size):
        new = W.copy()
        for v in range(first, min(first + size, len(W))):
            links = ell * A[v] @ W - ell_t * eta[v] * (eta @ W - eta[v] * W[v])
            cost = costs[v] - links + problem.son * distances @ (W.sum(axis=0) - W[v])
            weights = np.exp(-(cost - cost.min()) / (temperature or 1.0))
            new[v] = weights / weights.sum() if temperature else np.eye(len(cost))[cost.argmin()]
        W = new
    return W


@pytest.mark.parametrize("null_model", ["uniform", "degree"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("n_batches", [None, 5])
def test_a_sweep_is_the_stated_update(planted, null_model, temperature, n_batches):
    problem = build(planted, son=0.05, null_model=null_model)
    W = draw_rows(60).astype(np.float32)
    # Not its own, which would have merged.
    models = build(planted, son=0.0, null_model=null_model).fit_models(np.eye(K)[planted.y_true])
    sweeper = Sweeper(problem, n_batches)
    expected = plain_sweep(problem, W, models, temperature, sweeper.batch)
    sweeper.charge(models)
    sweeper.sweep(W, models.affinity, models.log_prior, temperature)
    np.testing.assert_allclose(W, expected, atol=1e-4)


@pytest.mark.parametrize("seed", range(6))
def test_the_free_energy_never_rises(planted, seed):
    """Batches of one row: neither a sweep nor the model step makes it worse."""
    rng = np.random.default_rng(seed)
    kinds = ((Covariance, Labels), (Labels,), (Gaussian, Labels))[seed % 3]
    son = 10 ** rng.uniform(-4, -1.5)
    problem = build(planted, K + seed % 3, son, ("uniform", "degree")[seed % 2], kinds)
    for temperature in (0.0, 1.0):
        W = np.eye(problem.n_classes, dtype=np.float32)[rng.integers(0, K, size=60)]
        sweeper, models, energies = Sweeper(problem), problem.fit_models(W), []
        assert sweeper.batch == 1
        for _ in range(6):
            sweeper.charge(models)
            sweeper.sweep(W, models.affinity, models.log_prior, temperature)
            energies.append(problem.free_energy(W, models, temperature))
            terms = problem.fit_terms(W, models.terms, tol=1e-4)
            models = Models(models.affinity, terms, models.log_prior)
            energies.append(problem.free_energy(W, models, temperature))
        # Rows in float32 round more where they are soft.
        slack = (1e-7 if temperature else 1e-12) * np.abs(energies).max()
        assert (np.diff(energies) <= slack).all()


def count_classes(result):
    return len(np.unique(result.models.groups[result.W.argmax(axis=1)]))


def test_surplus_atoms_empty_out_or_merge():
    data = datasets.make_planted(
        cluster_size=60, p=0.5, q=0.1, n_features=2, n_noise=1, omega=0.2, random_state=0
    )
    start = np.eye(6)[2 * data.y_true + np.arange(180) % 2]  # every class cut in two
    kept = solvers.BlockCADO(temperature=0.0, max_iter=1).solve(
        build(data, 6, 0.0, kinds=(Covariance,), t=0.3), start
    )
    merged = solvers.BlockCADO(temperature=0.0).solve(
        build(data, 6, 1.0 / 180, kinds=(Covariance,), t=0.3), start
    )
    assert count_classes(kept) == 6
    assert count_classes(merged) == 3
    groups = merged.models.groups[merged.W.argmax(axis=1)]
    assert all(len(set(groups[data.y_true == i])) == 1 for i in range(3))


def test_a_large_weight_leaves_one_class(planted):
    result = solvers.BlockCADO(random_state=0).solve(build(planted, son=100.0))
    assert count_classes(result) == 1


def test_a_small_weight_changes_no_label(planted):
    found = [
        solvers.BlockCADO(random_state=0).solve(build(planted, son=son)) for son in (0.0, 1e-6)
    ]
    np.testing.assert_array_equal(found[0].W.argmax(axis=1), found[1].W.argmax(axis=1))


def test_the_result_is_judged_by_the_problem(planted):
    problem = build(planted)
    result = solvers.BlockCADO(temperature=0.0, random_state=0).solve(problem)
    assert result.status == solvers.Status.CONVERGED
    assert result.value == pytest.approx(problem.value(result.W, result.models), rel=1e-9)


def test_threads_do_not_change_a_bit():
    rng = np.random.default_rng(0)
    n = threads.ROWS + 500
    ends = rng.integers(0, n, size=(2, 4 * n))
    half = sp.csr_array((np.ones(4 * n), ends), shape=(n, n))
    graph = Graph(((half + half.T) > 0).astype(np.float64))
    nodes = NodeData(4, rng.standard_normal((n, 2)), rng.integers(-1, 4, size=n))
    bound = [Covariance().bind(nodes), Labels().bind(nodes)]
    problem = Problem(graph, bound, 4, PAPER_WEIGHTS, 0.001, son=1e-5)
    one, two = (
        solvers.BlockCADO(max_iter=3, n_jobs=n_jobs, random_state=0).solve(problem, "random")
        for n_jobs in (1, 2)
    )
    assert one.W.tobytes() == two.W.tobytes()
    for mine, theirs in zip(one.models.terms, two.models.terms, strict=True):
        assert mine.tobytes() == theirs.tobytes()


def test_cado_as_published_takes_the_norms_too(planted):
    problem = build(planted)
    result = solvers.CADO(max_iter=20, step="line-search", random_state=0).solve(problem)
    assert np.isfinite(result.value)
    assert result.history["value"][-1] <= result.history["value"][0]


def test_the_classifier_hands_the_weight_on(planted):
    few = NodeClassifier(
        weights=PAPER_WEIGHTS, threshold=0.25, son=100.0, null_model="uniform", random_state=0
    ).fit(planted.X, planted.y, graph=planted.graph)
    assert len(set(few.models_.groups)) == 1
    with pytest.raises(InputError, match=r"son=0\.5 needs fixed weights"):
        NodeClassifier(son=0.5).fit(planted.X, planted.y)
