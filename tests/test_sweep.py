"""One sweep against a plain re-implementation of the stated update."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import softmax

from nodeproof import Problem
from nodeproof.affinity import Affinity
from nodeproof.graph import Graph
from nodeproof.problem import Models
from nodeproof.runtime import threads
from nodeproof.solvers import sweep
from nodeproof.solvers.sweep import Sweeper, count_batches, surpassed
from nodeproof.terms import Covariance, Labels, NodeData

pytestmark = pytest.mark.numeric

K = 3


def draw_rows(n: int, seed: int = 0, n_classes: int = K) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(n_classes), size=n).astype(np.float32)


def plain_sweep(A, eta, W, costs, log_prior, ell, ell_t, temperature):
    """Solve every row once: Jacobi inside a batch, Gauss–Seidel between the batches.

    Written for K×K affinities; one pair for all classes is a multiple of the identity.
    Returns the new rows, the mean change and the link mass seen on the way.
    """
    W = W.astype(np.float64)
    n = len(W)
    size = -(-n // count_batches(K))
    change, mass = 0.0, np.zeros_like(ell)
    for first in range(0, n, size):
        batch = range(first, min(first + size, n))
        new = {}
        for v in batch:
            links = A[v] @ W
            rest = eta[v] * (eta @ W - eta[v] * W[v])
            cost = -(ell @ links - ell_t @ rest) + costs[v] - log_prior
            if temperature == 0:
                new[v] = np.eye(len(cost))[cost.argmin()]
            else:
                new[v] = softmax(-cost / temperature)
            mass += np.outer(new[v], links)
        for v in batch:
            change += np.abs(new[v] - W[v]).max()
            W[v] = new[v]
    return W, change / n, mass


@pytest.mark.parametrize("null_model", ["uniform", "degree"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("matrix", [False, True], ids=["scalar", "matrix"])
@pytest.mark.parametrize("temperature", [1.0, 0.3, 0.0])
@pytest.mark.parametrize("n", [7, 150])
def test_a_sweep_is_the_stated_update(random_graph, null_model, weighted, matrix, temperature, n):
    rng = np.random.default_rng(1)
    A = random_graph(n, 0.3, weighted, seed=2)
    nodes = NodeData(K, rng.standard_normal((n, 2)), rng.integers(-1, K, size=n))
    terms = [Covariance().bind(nodes), Labels().bind(nodes)]
    problem = Problem(Graph(A, null_model), terms, K)
    models = problem.fit_models(draw_rows(n, seed=3), matrix)
    affinity, log_prior = models.affinity, models.log_prior
    W = draw_rows(n)
    full = np.ones((K, K)) if matrix else np.eye(K)
    expected, expected_change, expected_mass = plain_sweep(
        A.toarray(),
        problem.graph.eta,
        W,
        problem.costs(models, 0, n),
        log_prior,
        full * affinity.ell,
        full * affinity.ell_t,
        temperature,
    )
    sweeper = Sweeper(problem)
    sweeper.charge(models)
    change, mass = sweeper.sweep(W, affinity, log_prior, temperature)
    np.testing.assert_allclose(W, expected, atol=2e-6)
    assert change == pytest.approx(expected_change, abs=2e-6)
    wanted = expected_mass if matrix else [[np.trace(expected_mass)]]
    np.testing.assert_allclose(mass, wanted, rtol=1e-5, atol=1e-5)


def test_batches_see_those_before_them_and_not_themselves():
    """A path, two nodes a batch: what node 0 becomes is seen by 2, not by 1."""
    n = 2 * count_batches(2)
    path = sp.csr_array(nx.to_scipy_sparse_array(nx.path_graph(n)))
    problem = Problem(Graph(path, "uniform"), [], 2)
    sweeper = Sweeper(problem)
    costs = np.zeros((n, 2))
    costs[0] = [0, 5]
    sweeper.write_costs = lambda out, lo, hi, W=None: np.copyto(out, costs[lo:hi])
    W = np.full((n, 2), 0.5, dtype=np.float32)
    sweeper.sweep(W, Affinity(np.array([[2.0]]), np.zeros((1, 1))), np.zeros(2), 0.5)
    assert W[0, 0] > 0.9
    np.testing.assert_array_equal(W[1:], 0.5)
    sweeper.sweep(W, Affinity(np.array([[2.0]]), np.zeros((1, 1))), np.zeros(2), 0.5)
    # Node 1 now hears node 0, node 2 hears the new node 1; node 3 shares a batch with 2.
    assert W[1, 0] > 0.7
    assert W[2, 0] > 0.6
    np.testing.assert_array_equal(W[3:], 0.5)


def test_without_a_graph_a_sweep_is_the_softmax_of_the_costs():
    rng = np.random.default_rng(0)
    terms = [Covariance().bind(NodeData(K, rng.standard_normal((40, 2))))]
    problem = Problem(None, terms, K)
    models = problem.fit_models(draw_rows(40))
    sweeper = Sweeper(problem)
    sweeper.charge(models)
    W = draw_rows(40)
    sweeper.sweep(W, None, models.log_prior)
    expected = softmax(models.log_prior - problem.costs(models, 0, 40), axis=1)
    np.testing.assert_allclose(W, expected, atol=2e-6)


def test_huge_costs_keep_the_differences_that_matter():
    nodes = NodeData(K, y=np.zeros(5, dtype=np.int64))
    problem = Problem(None, [Labels().bind(nodes)], K)
    sweeper = Sweeper(problem)
    problem.charge = lambda out, *_, skip=(): np.copyto(out, [1e9 + np.arange(3.0)] * len(out))
    sweeper.charge(Models(None, (), np.zeros(K)))
    W = draw_rows(5)
    sweeper.sweep(W, None, np.zeros(K))
    np.testing.assert_allclose(W, np.tile(softmax([0.0, -1.0, -2.0]), (5, 1)), atol=1e-6)


@pytest.mark.parametrize("temperature", [1.0, 0.3])
@pytest.mark.parametrize("matrix", [False, True], ids=["scalar", "matrix"])
def test_a_sweep_row_by_row_never_raises_the_free_energy(random_graph, temperature, matrix):
    n = count_batches(K)
    problem = Problem(Graph(random_graph(n, 0.5, weighted=True), "degree"), [], K)
    models = problem.fit_models(draw_rows(n, seed=3), matrix)
    sweeper, W = Sweeper(problem), draw_rows(n)
    sweeper.charge(models)
    before = problem.free_energy(W, models, temperature)
    for _ in range(20):
        sweeper.sweep(W, models.affinity, models.log_prior, temperature)
        after = problem.free_energy(W, models, temperature)
        assert after <= before + 1e-7 * abs(before)  # rows are float32
        before = after


def test_where_nothing_moves_the_sweep_has_seen_the_link_mass(random_graph):
    problem = Problem(Graph(random_graph(40, 0.2), "uniform"), [], K)
    sweeper = Sweeper(problem)
    costs = np.random.default_rng(0).standard_normal((40, K))
    sweeper.write_costs = lambda out, lo, hi, W=None: np.copyto(out, costs[lo:hi])
    for matrix in (False, True):
        affinity = problem.fit_models(draw_rows(40), matrix).affinity
        W = draw_rows(40)
        for _ in range(200):
            change, mass = sweeper.sweep(W, affinity, np.zeros(K))
        assert change < 1e-6
        np.testing.assert_allclose(mass, problem.graph.link_mass(W, matrix), rtol=1e-5)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("matrix", [False, True], ids=["scalar", "matrix"])
def test_sweeps_do_not_depend_on_the_number_of_threads(random_graph, monkeypatch, weighted, matrix):
    n = 1000
    problem = Problem(Graph(random_graph(n, 0.01, weighted), "degree"), [], K)
    models = problem.fit_models(draw_rows(n, seed=3), matrix)

    def everything():
        sweeper, W = Sweeper(problem), draw_rows(n)
        sweeper.charge(models)
        for _ in range(5):
            change, mass = sweeper.sweep(W, models.affinity, models.log_prior)
        return W.tobytes(), change, mass.tobytes()

    monkeypatch.setattr(sweep, "_CELL", 4)  # several cells a batch
    in_one_call = everything()
    monkeypatch.setattr(sweep, "_WORTH_SHARING", 0)
    for n_threads in (1, 2, 3):
        with threads.using(n_threads):
            assert everything() == in_one_call


def test_a_held_contrast_is_released_once_the_estimate_is_as_strong():
    def contrast(ell):
        return Affinity(np.array([[ell]]), np.array([[0.1 * ell]]))

    for sign in (1.0, -1.0):
        begin = contrast(2.0 * sign)
        assert surpassed(begin, contrast(2.5 * sign), at_rest=False)
        assert not surpassed(begin, contrast(1.5 * sign), at_rest=False)
        # Nearly at rest, the estimate gets no stronger by further sweeps; weak ones would vanish.
        assert surpassed(begin, contrast(1.5 * sign), at_rest=True)
        assert not surpassed(begin, contrast(0.5 * sign), at_rest=True)
        assert not surpassed(begin, contrast(-1.5 * sign), at_rest=True)
