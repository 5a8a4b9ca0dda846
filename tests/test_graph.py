"""The graph term against its dense formulas and exact likelihoods."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import gammaln, xlogy
from scipy.stats import bernoulli, poisson

from nodeproof.affinity import Affinity
from nodeproof.datasets import make_planted
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.runtime import threads

pytestmark = pytest.mark.numeric

NULL_MODELS = ["uniform", "degree"]

both_nulls = pytest.mark.parametrize("null_model", NULL_MODELS)
both_weights = pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])


def dense_eta(A: np.ndarray, null_model: str) -> np.ndarray:
    degrees = A.sum(axis=1)
    if null_model == "uniform" or degrees.sum() == 0:
        return (degrees > 0).astype(float)  # nothing is known of a node without links
    return degrees / np.sqrt(degrees.sum())


def dense_null(A: np.ndarray, null_model: str) -> np.ndarray:
    """Return N = ηηᵀ with a zero diagonal."""
    eta = dense_eta(A, null_model)
    return np.outer(eta, eta) - np.diag(eta**2)


def draw_rows(n: int, K: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(K), size=n)


@st.composite
def graphs(draw) -> np.ndarray:
    n = draw(st.integers(2, 9))
    weights = draw(st.sampled_from([[0.0, 1.0], [0.0, 0.25, 1.0, 3.5]]))
    count = n * (n - 1) // 2
    entries = draw(st.lists(st.sampled_from(weights), min_size=count, max_size=count))
    A = np.zeros((n, n))
    A[np.triu_indices(n, 1)] = entries
    return A + A.T


# The operator and φ. --------------------------------------------------------------------


@both_nulls
@settings(max_examples=60, deadline=None)
@given(A=graphs(), t=st.floats(-2, 2), seed=st.integers(0, 100))
def test_the_operator_is_the_dense_matrix(null_model, A, t, seed):
    B = A - t * dense_null(A, null_model)
    operator = Graph(A, null_model).operator(t)
    rng = np.random.default_rng(seed)
    x, M = rng.standard_normal(len(A)), rng.standard_normal((len(A), 3))
    assert operator.shape == A.shape
    for applied, expected in (
        (operator @ x, B @ x),
        (operator.matvec(x[:, None]), B @ x[:, None]),
        (operator @ M, B @ M),
        (operator.H @ x, B @ x),
        (operator.T @ M, B @ M),
        (operator.rmatvec(x), B @ x),
    ):
        np.testing.assert_allclose(applied, expected, atol=1e-10)


@both_nulls
@settings(max_examples=60, deadline=None)
@given(A=graphs(), t=st.floats(0, 1), seed=st.integers(0, 100))
def test_phi_is_the_sum_over_ordered_pairs(null_model, A, t, seed):
    W = draw_rows(len(A), seed=seed)
    B = A - t * dense_null(A, null_model)
    L = np.sqrt(W) @ np.sqrt(W).T
    expected = -1.7 * sum(B[u, v] * L[u, v] for u, v in itertools.permutations(range(len(A)), 2))
    assert Graph(A, null_model).phi(W, 1.7, t) == pytest.approx(expected, abs=1e-10)


@both_nulls
@both_weights
def test_the_gradient_of_phi_agrees_with_differences(random_graph, slope, null_model, weighted):
    graph = Graph(random_graph(12, weighted=weighted), null_model)
    W = draw_rows(12)
    gradient = graph.phi_gradient(W, 0.8, 0.4)
    for v, i in np.ndindex(*W.shape):
        direction = np.zeros_like(W)
        direction[v, i] = W[v, i]
        expected = slope(lambda at: graph.phi(at, 0.8, 0.4), W, direction)
        assert gradient[v, i] * W[v, i] == pytest.approx(expected, rel=1e-5, abs=1e-8)


def test_the_gradient_of_phi_is_infinite_where_a_row_is_zero_and_warns_of_nothing():
    graph = Graph(np.array([[0, 1], [1, 0]]), "uniform")
    gradient = graph.phi_gradient(np.array([[1.0, 0.0], [0.5, 0.5]]), 1.0, 0.1)
    assert gradient[0, 1] == -np.inf
    assert np.isfinite(gradient[[0, 1, 1], [0, 0, 1]]).all()


def test_the_polarised_adjacency_is_half_a_threshold():
    """⟨2A − J, L⟩ off the diagonal is twice ⟨A − N/2, L⟩."""
    A = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=float)
    W = draw_rows(3)
    L = np.sqrt(W) @ np.sqrt(W).T
    polarised = 2 * A - (1 - np.eye(3))
    assert Graph(A, "uniform").phi(W, 2.0, 0.5) == pytest.approx(-np.vdot(polarised, L))


# Masses. --------------------------------------------------------------------------------


@both_nulls
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@settings(max_examples=40, deadline=None)
@given(A=graphs(), seed=st.integers(0, 100))
def test_masses_are_the_dense_sums(null_model, dtype, A, seed):
    W = draw_rows(len(A), seed=seed).astype(dtype)
    wide = W.astype(np.float64)
    graph = Graph(A, null_model)
    links = np.einsum("uv,ui,vj->ij", A, wide, wide)
    pairs = np.einsum("uv,ui,vj->ij", dense_null(A, null_model), wide, wide)
    np.testing.assert_allclose(graph.link_mass(W, matrix=True), links, atol=1e-10)
    np.testing.assert_allclose(graph.pair_mass(W, matrix=True), pairs, atol=1e-10)
    np.testing.assert_allclose(graph.link_mass(W), [[np.trace(links)]], atol=1e-10)
    np.testing.assert_allclose(graph.pair_mass(W), [[np.trace(pairs)]], atol=1e-10)
    np.testing.assert_allclose(graph.null_totals(W), dense_eta(A, null_model) @ wide, atol=1e-10)
    assert graph.all_pairs == pytest.approx(dense_null(A, null_model).sum(), abs=1e-10)
    assert graph.total == pytest.approx(A.sum())


def test_masses_do_not_depend_on_the_number_of_threads(random_graph, monkeypatch):
    monkeypatch.setattr(threads, "ROWS", 16)
    graph = Graph(random_graph(200, 0.1, weighted=True), "degree")
    W = draw_rows(200).astype(np.float32)

    def everything():
        return [
            mass(W, matrix).tobytes()
            for mass in (graph.link_mass, graph.pair_mass)
            for matrix in (False, True)
        ]

    with threads.using(1):
        alone = everything()
    with threads.using(2):
        assert everything() == alone


def test_masses_do_not_depend_on_the_memory_order_of_rows(random_graph):
    graph, W = Graph(random_graph(12), "uniform"), draw_rows(12)
    np.testing.assert_allclose(graph.link_mass(np.asfortranarray(W)), graph.link_mass(W))


# Null models. ---------------------------------------------------------------------------


def test_hubs_call_for_the_degree_null_model_and_planted_classes_do_not():
    rng = np.random.default_rng(0)
    drawn = 1 / rng.random(400)
    weight = np.minimum(drawn, 30)
    probability = np.minimum(np.outer(weight, weight) / weight.sum(), 1)
    hubs = np.triu(rng.random((400, 400)) < probability, 1)
    assert Graph((hubs | hubs.T).astype(float)).null_model == "degree"
    star = np.zeros((50, 50))
    star[0, 1:] = star[1:, 0] = 1
    assert Graph(star).null_model == "degree"
    for seed in range(5):
        assert Graph(make_planted(random_state=seed).graph).null_model == "uniform"
        sparse = make_planted(4, [500, 200, 300, 400], p=0.02, q=0.005, random_state=seed)
        assert Graph(sparse.graph).null_model == "uniform"


def test_the_degree_null_model_expects_as_many_links_as_there_are(random_graph):
    graph = Graph(random_graph(30, weighted=True), "degree")
    np.testing.assert_allclose(graph.eta * graph.eta.sum(), graph.degrees)


def test_an_unknown_null_model_is_refused():
    with pytest.raises(InputError, match="'auto', 'uniform' or 'degree', got 'erdos'"):
        Graph(np.ones((2, 2)), "erdos")


@pytest.mark.parametrize("null_model", ["auto", *NULL_MODELS])
@pytest.mark.parametrize("n", [1, 4])
def test_a_graph_without_links_has_finite_affinities(null_model, n):
    graph, W = Graph(sp.csr_array((n, n)), null_model), draw_rows(n)
    assert graph.density == 0
    for matrix in (False, True):
        masses = graph.link_mass(W, matrix), graph.pair_mass(W, matrix)
        affinity = Affinity.estimate(graph, *masses)
        assert np.isfinite(affinity.ell).all()
        assert np.isfinite(affinity.energy(*masses))
    assert np.isfinite(Affinity.assumed(graph).ell).all()


# Affinities. ----------------------------------------------------------------------------


class DenseLikelihood:
    """The exact −log-likelihood of a graph in its rates, pair by pair, with the prior.

    Rates are (inside, across), or K×K symmetric. The prior is half an ordered pair's worth of
    evidence for the mean density, for each entry of the rates.
    """

    def __init__(self, A: np.ndarray, null_model: str, weighted: bool) -> None:
        self.A, self.N = A, dense_null(A, null_model)
        self.coin = null_model == "uniform" and not weighted
        self.density = A.sum() / self.N.sum()
        self.unit = A.sum() / np.count_nonzero(A) if weighted else 1.0
        self.one_pair = self.unit if null_model == "degree" else 1.0

    def _of(self, links, pairs, rates):
        """Return −log P for so many links among so many pairs, each at its rate."""
        if self.coin:
            return -(links * np.log(rates) + (pairs - links) * np.log1p(-rates))
        return (pairs * rates - links * np.log(rates)) / self.unit

    def prior(self, rates: np.ndarray) -> float:
        return 0.5 * float(self._of(self.one_pair * self.density, self.one_pair, rates).sum())

    def __call__(self, W: np.ndarray, rates: np.ndarray) -> float:
        total = 0.0
        for u, v in itertools.combinations(range(len(W)), 2):
            if rates.ndim == 1:
                same = W[u] @ W[v]
                total += same * self._of(self.A[u, v], self.N[u, v], rates[0])
                total += (1 - same) * self._of(self.A[u, v], self.N[u, v], rates[1])
            else:
                each = self._of(self.A[u, v], self.N[u, v], rates)
                total += W[u] @ each @ W[v]
        return float(total)

    def best_rates(self, W: np.ndarray, matrix: bool) -> np.ndarray:
        """Return the most probable rates by numerical search."""
        K = W.shape[1]
        upper = np.triu_indices(K)

        def rates_of(x):
            free = 1 / (1 + np.exp(-x)) if self.coin else np.exp(x)
            if not matrix:
                return free
            full = np.empty((K, K))
            full[upper] = full.T[upper] = free
            return full

        found = minimize(
            lambda x: self(W, rates_of(x)) + self.prior(rates_of(x)),
            np.zeros(len(upper[0]) if matrix else 2) - 0.5,
            method="BFGS",
            options={"gtol": 1e-7},
        )
        return rates_of(found.x)


def worth_and_price(likelihood: DenseLikelihood, rates: np.ndarray):
    if likelihood.coin:
        return np.log(rates / (1 - rates)), -np.log1p(-rates)
    return np.log(rates) / likelihood.unit, rates / likelihood.unit


@both_nulls
@both_weights
@pytest.mark.parametrize("soft", [False, True], ids=["one-hot", "soft"])
def test_one_affinity_is_the_most_probable(random_graph, null_model, weighted, soft):
    A = random_graph(14, weighted=weighted, seed=3).toarray()
    W = draw_rows(14) if soft else np.eye(3)[np.arange(14) % 3]
    graph = Graph(A, null_model)
    affinity = Affinity.estimate(graph, graph.link_mass(W), graph.pair_mass(W))
    likelihood = DenseLikelihood(A, null_model, weighted)
    worth, price = worth_and_price(likelihood, likelihood.best_rates(W, matrix=False))
    np.testing.assert_allclose(affinity.ell, [[worth[0] - worth[1]]], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(affinity.ell_t, [[price[0] - price[1]]], rtol=1e-4, atol=1e-5)


@both_nulls
@both_weights
def test_affinities_of_each_two_classes_are_the_most_probable(random_graph, null_model, weighted):
    """Up to a common offset of the worths, which changes no row."""
    A, W = random_graph(14, weighted=weighted, seed=4).toarray(), draw_rows(14)
    graph = Graph(A, null_model)
    affinity = Affinity.estimate(graph, graph.link_mass(W, True), graph.pair_mass(W, True))
    likelihood = DenseLikelihood(A, null_model, weighted)
    worth, price = worth_and_price(likelihood, likelihood.best_rates(W, matrix=True))
    np.testing.assert_allclose(affinity.ell, worth - worth.mean(), atol=1e-4)
    np.testing.assert_allclose(affinity.ell_t, price, atol=1e-4)
    np.testing.assert_array_equal(affinity.ell, affinity.ell.T)


@both_nulls
@both_weights
@pytest.mark.parametrize("matrix", [False, True], ids=["scalar", "matrix"])
@pytest.mark.parametrize("soft", [False, True], ids=["one-hot", "soft"])
def test_the_energy_is_the_minus_log_likelihood_with_the_prior(
    random_graph, null_model, weighted, matrix, soft
):
    """Also at rows that the affinities were not estimated from."""
    A = random_graph(12, weighted=weighted, seed=5).toarray()
    graph = Graph(A, null_model)
    fitted = draw_rows(12, seed=1)
    affinity = Affinity.estimate(
        graph, graph.link_mass(fitted, matrix), graph.pair_mass(fitted, matrix)
    )
    likelihood = DenseLikelihood(A, null_model, weighted)
    rates = closed_form_rates(likelihood, fitted, matrix)
    W = draw_rows(12, seed=2) if soft else np.eye(3)[np.arange(12) % 3]
    energy = affinity.energy(graph.link_mass(W, matrix), graph.pair_mass(W, matrix))
    expected = likelihood(W, rates) + likelihood.prior(rates)
    assert energy == pytest.approx(expected, rel=1e-10)


def closed_form_rates(likelihood: DenseLikelihood, W: np.ndarray, matrix: bool) -> np.ndarray:
    links = np.einsum("uv,ui,vj->ij", likelihood.A, W, W)
    pairs = np.einsum("uv,ui,vj->ij", likelihood.N, W, W)
    if not matrix:
        links = np.array([np.trace(links), links.sum() - np.trace(links)])
        pairs = np.array([np.trace(pairs), pairs.sum() - np.trace(pairs)])
    one = likelihood.one_pair
    return (links + one * likelihood.density) / (pairs + one)


def test_the_dense_likelihood_of_these_tests_is_the_textbooks(random_graph):
    """What is left out depends on the data alone: nothing for coins, log A! and A log N else."""
    A, z = random_graph(8).toarray(), np.arange(8) % 2
    W, rates = np.eye(2)[z], np.array([0.4, 0.2])
    upper = np.triu_indices(8, 1)
    at = np.where(z[:, None] == z, 0.4, 0.2)[upper]
    coins = -bernoulli.logpmf(A[upper].astype(int), at).sum()
    assert DenseLikelihood(A, "uniform", False)(W, rates) == pytest.approx(coins)
    N = dense_null(A, "degree")[upper]
    counts = -poisson.logpmf(A[upper], at * N).sum()
    left_out = (gammaln(A[upper] + 1) - xlogy(A[upper], N)).sum()
    assert DenseLikelihood(A, "degree", False)(W, rates) == pytest.approx(counts - left_out)


def test_fixed_affinities_are_the_papers():
    affinity = Affinity.fixed(s=1.5, t=0.25)
    assert affinity.ell.tolist() == [[3.0]]
    assert affinity.ell_t.tolist() == [[0.75]]
    assert affinity.t == 0.25
    assert affinity.constant == 0
    assert np.isnan(Affinity.fixed(s=0.0, t=0.25).t)


def test_planted_densities_are_found_again():
    data = make_planted(p=0.1, q=0.05, random_state=0)
    graph, W = Graph(data.graph), np.eye(3)[data.y_true]
    affinity = Affinity.estimate(graph, graph.link_mass(W), graph.pair_mass(W))
    assert affinity.ell[0, 0] == pytest.approx(np.log(0.1 * 0.95 / (0.05 * 0.9)), rel=0.05)
    assert 0.05 < affinity.t < 0.1


def test_without_labels_links_are_taken_to_be_twice_as_dense_inside():
    graph = Graph(make_planted(random_state=0).graph, "degree")
    assert Affinity.assumed(graph).ell[0, 0] == pytest.approx(np.log(2))
    assert Affinity.assumed(graph, np.full(900, -1)).ell[0, 0] == pytest.approx(np.log(2))
    coins = Graph(make_planted(random_state=0).graph, "uniform")
    assert Affinity.assumed(coins).ell[0, 0] == pytest.approx(np.log(2), rel=0.1)


@both_nulls
def test_links_among_many_labelled_nodes_outweigh_the_guess(null_model):
    for p, q in ((0.2, 0.02), (0.02, 0.2)):
        data = make_planted(p=p, q=q, label_ratio=1, random_state=0)
        graph, W = Graph(data.graph, null_model), np.eye(3)[data.y_true]
        told = Affinity.estimate(graph, graph.link_mass(W), graph.pair_mass(W))
        begin = Affinity.assumed(graph, data.y)
        assert begin.ell[0, 0] == pytest.approx(told.ell[0, 0], rel=0.1)


@both_nulls
@pytest.mark.parametrize("factor", [100.0, 1e-3])
@pytest.mark.parametrize("matrix", [False, True], ids=["scalar", "matrix"])
def test_the_unit_of_the_weights_does_not_matter(random_graph, null_model, factor, matrix):
    A, W = random_graph(30, weighted=True), draw_rows(30)

    def scores(graph):
        """What links and pairs say, in the units of the rows' costs: ℓA and ℓt·N."""
        masses = graph.link_mass(W, matrix), graph.pair_mass(W, matrix)
        affinity = Affinity.estimate(graph, *masses)
        N = np.outer(graph.eta, graph.eta)
        links = np.multiply.outer(affinity.ell, graph.adjacency.toarray())
        return links, np.multiply.outer(affinity.ell_t, N)

    plain, scaled = scores(Graph(A, null_model)), scores(Graph(A * factor, null_model))
    for left, right in zip(plain, scaled, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-8)


@both_nulls
@pytest.mark.parametrize("factor", [100.0, 1e-3])
def test_the_unit_of_the_weights_does_not_matter_to_the_begin(random_graph, null_model, factor):
    A, labels = random_graph(30, weighted=True), np.arange(30) % 3
    plain = Affinity.assumed(Graph(A, null_model), labels)
    scaled = Affinity.assumed(Graph(A * factor, null_model), labels)
    np.testing.assert_allclose(scaled.ell * factor, plain.ell, rtol=1e-9)
