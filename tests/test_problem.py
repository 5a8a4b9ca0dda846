"""The judge: φ and F against dense evaluations of their formulas."""

import itertools

import numpy as np
import pytest

from nodeproof import Problem
from nodeproof.datasets import make_planted
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.problem import PAPER_WEIGHTS, Models
from nodeproof.runtime import threads
from nodeproof.terms import Covariance, Labels, NodeData

pytestmark = pytest.mark.numeric

K = 3
NULL_MODELS = ["uniform", "degree"]


def bound_terms(data, n_classes: int = K) -> list:
    nodes = NodeData(n_classes, data.X, data.y)
    return [Covariance().bind(nodes), Labels().bind(nodes)]


def draw_rows(n: int, seed: int = 0, n_classes: int = K) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(n_classes), size=n)


@pytest.fixture(params=NULL_MODELS)
def graph(request, planted) -> Graph:
    return Graph(planted.graph, request.param)


@pytest.fixture
def paper(planted, graph) -> Problem:
    return Problem(graph, bound_terms(planted), K, PAPER_WEIGHTS, threshold=0.3)


@pytest.fixture
def calibrated(planted, graph) -> Problem:
    return Problem(graph, bound_terms(planted), K)


def inner_models(problem: Problem) -> Models:
    """Return models that differ between classes and are no one's optimum."""
    fitted = problem.fit_models(draw_rows(problem.n_nodes, seed=7))
    starts = [term.refit(np.full((problem.n_nodes, K), 1 / K)) for term in problem.terms]
    mixed = tuple(0.5 * (a + b) for a, b in zip(fitted.terms, starts, strict=True))
    return Models(fitted.affinity, mixed, fitted.log_prior)


# φ. -------------------------------------------------------------------------------------


def dense_phi(planted, graph, W, models, betas, t) -> float:
    A, eta = planted.graph.toarray(), graph.eta
    L = np.sqrt(W) @ np.sqrt(W).T
    total = 0.0
    for u, v in itertools.permutations(range(len(W)), 2):
        total -= 2 * betas[0] * (A[u, v] - t * eta[u] * eta[v]) * L[u, v]
    roots, shares = models.terms
    for v, row in enumerate(W):
        R = sum(row[i] * roots[i] for i in range(K))
        x = planted.X[v]
        total += betas[1] * (x @ np.linalg.inv(R) @ x + np.trace(R)) / len(x)
        if planted.y[v] >= 0:
            total -= betas[2] * sum(row[i] * shares[i, planted.y[v]] for i in range(K))
    return total


def test_phi_is_the_formula(planted, graph, paper):
    for seed in range(3):
        W, models = draw_rows(60, seed), inner_models(paper)
        expected = dense_phi(planted, graph, W, models, PAPER_WEIGHTS, 0.3)
        assert paper.value(W, models) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("betas", [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)])
def test_weights_of_zero_leave_their_part_out(planted, graph, betas):
    problem = Problem(graph, bound_terms(planted), K, betas)
    W, models = draw_rows(60), inner_models(problem)
    expected = dense_phi(planted, graph, W, models, betas, 0.5)
    assert problem.value(W, models) == pytest.approx(expected, rel=1e-10)


def test_the_gradient_in_W_agrees_with_differences(paper, slope):
    W, models = draw_rows(60), inner_models(paper)
    gradient = paper.gradient_W(W, models)
    rng = np.random.default_rng(0)
    for _ in range(40):
        v = rng.integers(60)
        direction = np.zeros_like(W)
        direction[v] = W[v] * rng.standard_normal(K)
        expected = slope(lambda at: paper.value(at, models), W, direction, step=1e-4)
        assert np.vdot(gradient, direction) == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_the_gradient_in_the_models_agrees_with_differences(paper, slope):
    W, models = draw_rows(60), inner_models(paper)
    gradients = paper.gradient_models(W, models)
    for k, term in enumerate(paper.terms):
        other = term.refit(draw_rows(60, seed=11))
        direction = other - models.terms[k]

        def along(theta, k=k):
            thetas = list(models.terms)
            thetas[k] = theta
            return paper.value(W, Models(models.affinity, tuple(thetas), models.log_prior))

        expected = slope(along, models.terms[k], direction)
        assert np.vdot(gradients[k], direction) == pytest.approx(expected, rel=1e-5)


def test_rows_in_float32_are_judged_in_float64(paper, calibrated):
    W = draw_rows(60).astype(np.float32)
    for problem, judge in ((paper, paper.value), (calibrated, calibrated.free_energy)):
        models = problem.fit_models(W)
        assert judge(W, models) == pytest.approx(judge(W.astype(np.float64), models), rel=1e-12)


# F. -------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, 0.5, 1.0])
def test_F_equals_phi_on_one_hot_rows_with_fixed_weights(paper, temperature):
    for seed in range(5):
        z = np.random.default_rng(seed).integers(0, K, size=60)
        W = np.eye(K)[z]
        models = paper.fit_models(W)
        free = paper.free_energy(W, models, temperature)
        assert free == pytest.approx(paper.value(W, models), rel=1e-10)


def dense_free_energy(problem, planted, W, models, temperature, ell, ell_t) -> float:
    """Sum over pairs and nodes of the calibrated F, priors apart."""
    A, eta = planted.graph.toarray(), problem.graph.eta
    total = 0.0
    for u, v in itertools.combinations(range(len(W)), 2):
        worth = A[u, v] * ell - eta[u] * eta[v] * ell_t
        total -= W[u] @ worth @ W[v]
    covariances, shares = models.terms
    for v, row in enumerate(W):
        for i in range(K):
            R, x = covariances[i], planted.X[v]
            cost = 0.5 * (x @ np.linalg.inv(R) @ x + np.linalg.slogdet(2 * np.pi * R)[1])
            if planted.y[v] >= 0:
                cost -= np.log(shares[i, planted.y[v]])
            total += row[i] * (cost - models.log_prior[i] + temperature * np.log(row[i]))
    return total


@pytest.mark.parametrize("matrix", [False, True], ids=["scalar", "matrix"])
@pytest.mark.parametrize("temperature", [0.3, 1.0])
def test_F_is_the_variational_free_energy(planted, calibrated, matrix, temperature):
    W = draw_rows(60)
    models = calibrated.fit_models(draw_rows(60, seed=5), matrix)
    affinity = models.affinity
    shape = affinity.ell if matrix else affinity.ell * np.eye(K)
    prices = affinity.ell_t if matrix else affinity.ell_t * np.eye(K)
    expected = dense_free_energy(calibrated, planted, W, models, temperature, shape, prices)
    # Normalisers and −log-priors: of the rates, of the class models, of the proportions.
    expected += affinity.constant
    expected += sum(
        term.penalty(theta) for term, theta in zip(calibrated.terms, models.terms, strict=True)
    )
    expected -= models.log_prior.sum()
    assert calibrated.free_energy(W, models, temperature) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("matrix", [False, True], ids=["scalar", "matrix"])
def test_F_is_the_mean_over_labellings_less_the_entropy_and_bounds_the_evidence(matrix):
    data = make_planted(2, 3, p=0.7, q=0.3, n_features=2, n_noise=1, random_state=0)
    problem = Problem(Graph(data.graph, "uniform"), bound_terms(data, 2), 2)
    W = draw_rows(6, n_classes=2)
    models = problem.fit_models(W, matrix)
    labellings = np.array(list(itertools.product(range(2), repeat=6)))
    energies = np.array([problem.free_energy(np.eye(2)[z], models) for z in labellings])
    chances = np.array([W[np.arange(6), z].prod() for z in labellings])
    free = problem.free_energy(W, models)
    assert free == pytest.approx(chances @ (energies + np.log(chances)), rel=1e-10)
    assert free >= -np.logaddexp.reduce(-energies)


def test_fitted_models_are_the_best_for_their_rows(calibrated):
    for matrix in (False, True):
        W = draw_rows(60)
        least = calibrated.free_energy(W, calibrated.fit_models(W, matrix))
        for seed in range(1, 15):
            other = calibrated.fit_models(0.7 * W + 0.3 * draw_rows(60, seed), matrix)
            assert calibrated.free_energy(W, other) > least


def test_fitted_models_of_the_paper_are_the_best_at_one_hot_rows(paper):
    W = np.eye(K)[np.arange(60) % K]
    least = paper.value(W, paper.fit_models(W))
    for seed in range(15):
        other = paper.fit_models(draw_rows(60, seed))
        assert paper.value(W, other) > least


@pytest.mark.parametrize("matrix", [False, True], ids=["scalar", "matrix"])
def test_fitting_and_judging_at_once_is_the_same(calibrated, matrix):
    W = draw_rows(60)
    models, value = calibrated.fit_and_judge(W, 0.7, matrix)
    again = calibrated.fit_models(W, matrix)
    np.testing.assert_array_equal(models.affinity.ell, again.affinity.ell)
    assert value == calibrated.free_energy(W, again, 0.7)


def test_without_labels_renamed_classes_have_the_same_free_energy(planted, graph):
    """Renaming makes W Fortran-ordered, as aligning a result with its labels does."""
    problem = Problem(graph, [t for t in bound_terms(planted) if t.source != "labels"], K)
    W, order = draw_rows(60), np.array([2, 0, 1])
    renamed = W[:, order]
    free = problem.free_energy(renamed, problem.fit_models(renamed))
    assert free == pytest.approx(problem.free_energy(W, problem.fit_models(W)))


def test_the_log_prior_counts_one_node_more_in_each_class(calibrated):
    W = draw_rows(60)
    sizes = W.sum(axis=0) + 1
    np.testing.assert_allclose(calibrated.fit_log_prior(W.sum(axis=0)), np.log(sizes / sizes.sum()))
    assert Problem(None, calibrated.terms, K, PAPER_WEIGHTS).fit_models(W).log_prior.sum() == 0


def test_costs_do_not_depend_on_the_range_they_are_asked_in(paper, calibrated):
    for problem in (paper, calibrated):
        models = problem.fit_models(draw_rows(60))
        whole = problem.costs(models, 0, 60)
        pieces = [problem.costs(models, lo, hi) for lo, hi in ((0, 13), (13, 14), (14, 60))]
        np.testing.assert_allclose(np.concatenate(pieces), whole, rtol=1e-12)


def test_the_judge_does_not_depend_on_the_number_of_threads(paper, calibrated, monkeypatch):
    monkeypatch.setattr(threads, "ROWS", 8)
    W = draw_rows(60)

    def everything():
        models, value = calibrated.fit_and_judge(W)
        return value, models.log_prior.tolist(), paper.value(W, paper.fit_models(W))

    with threads.using(1):
        alone = everything()
    with threads.using(2):
        assert everything() == alone


# What may be missing, and what may not. -------------------------------------------------


def test_a_graph_alone_or_terms_alone_make_a_problem(planted):
    W = draw_rows(60)
    for graph, terms in ((Graph(planted.graph), []), (None, bound_terms(planted))):
        for weights in (PAPER_WEIGHTS, "calibrated"):
            problem = Problem(graph, terms, K, weights)
            models = problem.fit_models(W)
            assert (models.affinity is None) == (graph is None)
            assert np.isfinite(problem.free_energy(W, models))


def test_given_labels_are_known_where_there_is_a_label_term(planted, calibrated):
    np.testing.assert_array_equal(calibrated.labels, planted.y)
    assert Problem(Graph(planted.graph), [], K).labels is None


def test_sizes_that_differ_are_refused_with_both(planted):
    other = make_planted(cluster_size=5, random_state=0)
    with pytest.raises(InputError, match=r"same nodes; got sizes \[15, 60\]"):
        Problem(Graph(planted.graph), bound_terms(other), K)
    mixed = [bound_terms(planted)[0], bound_terms(other)[1]]
    with pytest.raises(InputError, match=r"same nodes; got sizes \[15, 60\]"):
        Problem(None, mixed, K)


def test_nothing_at_all_is_refused():
    with pytest.raises(InputError, match="needs a graph or a term"):
        Problem(None, [], K)


def test_terms_of_another_number_of_classes_are_refused(planted):
    with pytest.raises(InputError):
        Problem(None, bound_terms(planted), K + 1)


def test_two_weights_are_refused(planted):
    with pytest.raises(InputError):
        Problem(None, bound_terms(planted), K, (1.0, 2.0)).fit_models(draw_rows(60))


def test_phi_without_fixed_weights_is_refused_with_what_to_do(calibrated):
    W = draw_rows(60)
    models = calibrated.fit_models(W)
    for asked in (calibrated.value, calibrated.gradient_W, calibrated.gradient_models):
        with pytest.raises(InputError, match=r"φ needs fixed weights.*weights=\(β_g, β_f, β_l\)"):
            asked(W, models)


def test_fixed_weights_use_the_papers_scale_and_the_given_threshold(planted):
    problem = Problem(Graph(planted.graph), [], K, (0.75, 0.0, 0.0), threshold=0.2)
    affinity = problem.fit_models(draw_rows(60)).affinity
    assert affinity.ell.tolist() == [[2 * 2 * 0.75]]
    assert affinity.constant == 0
    assert affinity.t == pytest.approx(0.2)
