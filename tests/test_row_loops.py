"""Compiled loops over nodes against the plain formulas."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import softmax

from nodeproof import kernels
from nodeproof.auto.accuracy import row_means
from nodeproof.graph import Graph, RowSums
from nodeproof.metrics import most_probable
from nodeproof.problem import Problem
from nodeproof.runtime import threads
from nodeproof.solvers import sweep
from nodeproof.solvers.sweep import Sweeper
from nodeproof.terms import Covariance, Labels, NodeData

pytestmark = pytest.mark.numeric


def memberships(n: int, K: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(K), n).astype(np.float32)


# By numpy, in a compiled loop, and class by class.
SIZES = [(100, 7), (5000, 7), (3000, 30)]


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("n", "m"), SIZES)
def test_costs_of_covariances_are_gaussian_likelihoods(n, m, intercept):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, m)) @ (np.eye(m) + 0.3 * rng.standard_normal((m, m)))
    X += 3.0 * intercept
    term = Covariance(intercept=intercept).bind(NodeData(3, X))
    models = term.estimate(memberships(n, 3))
    x = np.column_stack([X, np.ones(n)]) if intercept else X
    forms = np.einsum("kvi,vi->vk", x @ np.linalg.inv(models), x) - intercept
    log_dets = np.linalg.slogdet(2.0 * np.pi * models)[1] - intercept * np.log(2.0 * np.pi)
    np.testing.assert_allclose(term.cost(models, 0, n), 0.5 * (forms + log_dets), rtol=1e-8)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("n", "m"), SIZES)
def test_moments_of_covariances_are_weighted_products(n, m, intercept):
    X, W = np.random.default_rng(1).standard_normal((n, m)), memberships(n, 4)
    W[::3] = np.eye(4, dtype=np.float32)[np.arange(len(W[::3])) % 3]  # and none in the last
    W[1::3, 0], W[2::3, 3] = 1e-20, 0.0
    W[3::5] *= -1.0  # differences of memberships, too
    sums = Covariance(intercept=intercept).bind(NodeData(4, X)).sums(W, 0, n)
    x, weights = np.column_stack([X, np.ones(n)]) if intercept else X, W.astype(np.float64)
    upper = np.triu_indices(x.shape[1])
    moments = np.stack([(own[:, None] * x).T @ x for own in weights.T])
    np.testing.assert_allclose(sums[:, 1:], moments[:, upper[0], upper[1]], atol=1e-9 * n)
    np.testing.assert_allclose(sums[:, 0], weights.sum(axis=0))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("width", [5, 40])  # in registers, and in memory
def test_averages_over_neighbours_are_those_of_the_product(width, weighted):
    rng = np.random.default_rng(2)
    links = sp.random(200, 200, 0.03, format="csr", dtype=np.float32, random_state=2)
    links = sp.csr_array(links + links.T)
    Y, share = rng.random((200, width), dtype=np.float32), rng.random(200, dtype=np.float32)
    total, out = rng.random((200, width), dtype=np.float32), np.empty_like(Y)
    weights = links.data if weighted else np.empty(0, dtype=np.float32)
    A = links if weighted else links.astype(bool).astype(np.float32)
    expected = share[:, None] * (Y + A @ Y)
    added = total + expected
    kernels.average_rows(
        0, 200, links.indptr, links.indices, weights, share, Y, out, total, np.empty(width)
    )
    np.testing.assert_allclose(out, expected, rtol=1e-5)
    np.testing.assert_allclose(total, added, rtol=1e-5)


@pytest.fixture(scope="module")
def linked() -> Problem:
    """A problem of 3,000 nodes: batches of 47 rows, side by side but for a few."""
    n, K = 3000, 5
    half = sp.triu(sp.random(n, n, 0.004, random_state=0, format="csr"), 1)
    half.data[:] = 1.0
    y = np.where(np.arange(n) % 7 == 0, np.arange(n) % K, -1)
    return Problem(Graph(half + half.T), [Labels().bind(NodeData(K, y=y))], K)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
@pytest.mark.parametrize("cell", [16, 512])  # cells end within batches, and batches within cells
def test_a_sweep_is_the_softmax_of_costs_and_links_batch_by_batch(
    linked, temperature, cell, monkeypatch
):
    monkeypatch.setattr(sweep, "_CELL", cell)
    n, K = linked.n_nodes, linked.n_classes
    A, eta = linked.graph.adjacency.astype(np.float64), linked.graph.eta
    W = memberships(n, K)
    models = linked.fit_models(W)
    sweeper, found = Sweeper(linked), W.copy()
    sweeper.charge(models)
    change, links = sweeper.sweep(found, models.affinity, models.log_prior, temperature)
    expected, costs = W.astype(np.float64), linked.costs(models, 0, n)
    ell, ell_t = models.affinity.ell[0, 0], models.affinity.ell_t[0, 0]
    mass = 0.0
    for lo in range(0, n, sweeper.batch):
        rows = slice(lo, lo + sweeper.batch)
        near, own = A[rows] @ expected, eta[rows, None]
        pairs = own * (eta @ expected - own * expected[rows])
        scores = ell * near - ell_t * pairs + models.log_prior - costs[rows]
        expected[rows] = softmax(scores / temperature, axis=1)
        mass += float((near * expected[rows]).sum())
    np.testing.assert_allclose(found, expected, atol=2e-5)
    np.testing.assert_allclose(change, np.abs(expected - W).max(axis=1).mean(), rtol=1e-4)
    np.testing.assert_allclose(links[0, 0], mass, rtol=1e-5)


def test_a_sweep_gives_the_same_bits_on_any_number_of_threads(linked, monkeypatch):
    monkeypatch.setattr(sweep, "_CELL", 16)  # several in a batch
    W = memberships(linked.n_nodes, linked.n_classes)
    models = linked.fit_models(W)
    found = []
    for n_jobs in (1, 2, 3):
        sweeper, rows = Sweeper(linked), W.copy()
        sweeper.charge(models)
        sweeper.shared = True
        with threads.using(n_jobs):
            told = sweeper.sweep(rows, models.affinity, models.log_prior)
        found.append((rows.tobytes(), told[0], told[1].tobytes()))
    assert found[0] == found[1] == found[2]


def test_links_that_are_not_trusted_count_for_nothing(linked):
    distrusted = Problem(linked.graph, linked.terms, linked.n_classes, trust=0.0)
    W = memberships(linked.n_nodes, linked.n_classes)
    models, found = distrusted.fit_models(W), W.copy()
    assert not models.affinity.ell.any()
    assert not models.affinity.ell_t.any()
    sweeper = Sweeper(distrusted)
    sweeper.charge(models)
    sweeper.sweep(found, models.affinity, models.log_prior)
    costs = distrusted.costs(models, 0, linked.n_nodes)
    np.testing.assert_allclose(found, softmax(models.log_prior - costs, axis=1), atol=2e-6)


def test_sums_over_memberships_are_those_of_the_formulas():
    n, K = 5000, 3
    W, eta = memberships(n, K), np.random.default_rng(0).random(n)
    sums = RowSums.of(W, eta)
    np.testing.assert_allclose(sums.totals, eta @ W.astype(np.float64))
    np.testing.assert_allclose(sums.sizes, W.sum(axis=0, dtype=np.float64))
    np.testing.assert_allclose(sums.squares, [[((eta[:, None] * W) ** 2).sum()]], rtol=1e-6)
    which = np.arange(n) % 3 == 0
    mean, largest = row_means(W, which)
    np.testing.assert_allclose(mean, W[which].mean(axis=0, dtype=np.float64))
    np.testing.assert_allclose(largest, W[which].max(axis=1).mean(dtype=np.float64))
    assert row_means(W, np.zeros(n, dtype=bool)) is None


def test_of_several_most_probable_classes_the_first_is_taken():
    proba = np.tile(memberships(300, 4).repeat(2, axis=1), (20, 1))
    np.testing.assert_array_equal(most_probable(proba), proba.argmax(axis=1))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_reordered_graph_has_the_same_links(weighted):
    n = 400
    half = sp.triu(sp.random(n, n, 0.05, random_state=0, format="csr"), 1)
    if not weighted:
        half.data[:] = 1.0
    A = sp.csr_array(half + half.T)
    order = np.random.default_rng(0).permutation(n)
    found, expected = Graph(A).reordered(order), Graph(A[order][:, order])
    np.testing.assert_array_equal(found.indptr, expected.indptr)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.weights, expected.weights)
    np.testing.assert_array_equal(found.degrees, expected.degrees)


def test_hashes_of_neighbours_add_up():
    n = 500
    half = sp.triu(sp.random(n, n, 0.02, random_state=0, format="csr"), 1)
    A = sp.csr_array(half + half.T)
    values = np.random.default_rng(0).integers(2**64, size=n, dtype=np.uint64)
    sums = np.empty_like(values)
    kernels.sum_neighbours(0, n, A.indptr, A.indices, values, sums)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(sums, (A != 0).astype(np.uint64) @ values)
