"""Belief propagation: exact on trees, without double counting, and steady in extremes."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
from scipy.special import softmax

from nodeproof import Problem
from nodeproof.affinity import Affinity
from nodeproof.csr import find_twins
from nodeproof.graph import Graph
from nodeproof.problem import Models
from nodeproof.runtime import threads
from nodeproof.solvers import Result, Status
from nodeproof.solvers.beliefs import affordable, marginals
from nodeproof.terms import NodeData, Term
from nodeproof.terms.base import Array

pytestmark = pytest.mark.numeric


class GivenCosts(Term):
    """A term whose costs are given outright."""

    source = "features"

    def bind(self, nodes: NodeData) -> GivenCosts:
        bound = self.copy_for(nodes)
        bound.costs = nodes.X
        return bound

    def cost(self, models: Array, lo: int, hi: int) -> Array:
        return self.costs[lo:hi]

    def loss(self, theta, lo, hi):
        raise AssertionError

    loss_gradient = refit = estimate = loss


def propagate(A, ell, costs, n_jobs=1, max_iter=300, tol=1e-7):
    """Run to the fixed point; pairs without a link say nothing (ℓt = 0)."""
    n, K = costs.shape
    problem = Problem(Graph(A, "uniform"), [GivenCosts().bind(NodeData(K, costs))], K)
    models = Models(Affinity(ell, np.zeros_like(ell)), (np.zeros((K, 1)),), np.zeros(K))
    start = Result(np.full((n, K), 1.0 / K), models, 0.0, Status.CONVERGED, 0, {})
    return marginals(problem, start, max_iter=max_iter, tol=tol, n_jobs=n_jobs)


def exact_marginals(A: np.ndarray, ell: np.ndarray, costs: np.ndarray) -> np.ndarray:
    """Return each node's class probabilities by summing over all Kⁿ labellings."""
    n, K = costs.shape
    z = np.array(list(itertools.product(range(K), repeat=n)))
    scores = -costs[np.arange(n), z].sum(axis=1)
    for u, v in itertools.combinations(range(n), 2):
        scores += A[u, v] * ell[z[:, u], z[:, v]]
    chances = np.exp(scores - np.logaddexp.reduce(scores))
    return np.array([[chances[z[:, v] == i].sum() for i in range(K)] for v in range(n)])


def tree_case(seed: int, K: int, matrix: bool, weighted: bool, strength: float):
    """Return (A, ℓ for the kernels, ℓ as K×K, costs) of a random forest of up to 8 nodes."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9 if K == 2 else 8))
    tree = nx.random_labeled_tree(n, seed=seed)
    if n > 4:
        tree.remove_edge(*next(iter(tree.edges)))  # a forest
    A = nx.to_numpy_array(tree)
    if weighted:
        weights = np.triu(rng.uniform(0.3, 2.0, size=(n, n)), 1)
        A = A * (weights + weights.T)
    ell = np.array([[strength]])
    if matrix:
        ell = strength * rng.standard_normal((K, K))
        ell = 0.5 * (ell + ell.T)
    full = ell if matrix else ell * np.eye(K)
    return A, ell, full, rng.standard_normal((n, K))


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("matrix", [False, True], ids=["scalar", "matrix"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("strength", [-1.0, 0.3, 2.0])
def test_on_trees_they_are_exact(K, matrix, weighted, strength):
    for seed in range(5):
        A, ell, full, costs = tree_case(seed, K, matrix, weighted, strength)
        found = propagate(A, ell, costs)
        np.testing.assert_allclose(found, exact_marginals(A, full, costs), atol=2e-6)


def test_what_one_end_of_a_chain_says_arrives_at_the_other():
    """Nodes at rest wake up: they are skipped only while none of their neighbours changes."""
    n, ell = 60, 5.0
    costs = np.zeros((n, 2))
    costs[0, 1] = 4.0
    chain = np.diag(np.ones(n - 1), 1)
    found = propagate(chain + chain.T, np.array([[ell]]), costs)
    # The difference of both classes shrinks by tanh(ℓ/2) with every link.
    expected = 0.5 + 0.5 * np.tanh(2.0) * np.tanh(ell / 2) ** np.arange(n)
    np.testing.assert_allclose(found[:, 0], expected, atol=1e-5)


def test_two_linked_nodes_do_not_talk_each_other_up():
    """The free energy's rows settle at .83 or so here; the truth is .731 and .676."""
    found = propagate(np.array([[0, 1], [1, 0]]), np.array([[2.0]]), np.array([[0.0, 1], [0, 0]]))
    np.testing.assert_allclose(found[:, 0], [0.731059, 0.675973], atol=1e-5)


def test_a_weight_is_so_many_times_the_affinity():
    A, _, _, costs = tree_case(3, 3, matrix=False, weighted=False, strength=1.0)
    doubled = propagate(2 * A, np.array([[0.3]]), costs)
    np.testing.assert_allclose(doubled, propagate(A, np.array([[0.6]]), costs), atol=1e-6)


@pytest.mark.parametrize("strength", [40.0, 500.0, -500.0])
@pytest.mark.parametrize("matrix", [False, True], ids=["scalar", "matrix"])
def test_any_affinity_and_any_degree_is_borne(random_graph, strength, matrix):
    rng = np.random.default_rng(0)
    ell = strength * np.eye(3) if matrix else np.array([[strength]])
    found = propagate(random_graph(100, 0.9), ell, rng.standard_normal((100, 3)), tol=2.0)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-6)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_the_number_of_threads_does_not_change_the_bits(random_graph, monkeypatch, weighted):
    monkeypatch.setattr(threads, "ROWS", 16)
    costs = np.random.default_rng(0).standard_normal((1000, 3))
    A = random_graph(1000, 0.01, weighted)
    alone, together = (propagate(A, np.array([[0.4]]), costs, n_jobs=jobs) for jobs in (1, 2))
    np.testing.assert_array_equal(alone, together)


def test_isolated_nodes_follow_their_costs_alone():
    costs = np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 0.0]])
    found = propagate(np.zeros((3, 3)), np.array([[1.0]]), costs)
    np.testing.assert_allclose(found, softmax(-costs, axis=1), atol=1e-6)


def test_the_twin_of_a_link_is_its_way_back(random_graph):
    A = random_graph(60, 0.2)
    twins = find_twins(A.indptr, A.indices)
    rows = np.repeat(np.arange(60), np.diff(A.indptr))
    np.testing.assert_array_equal(A.indices[twins], rows)
    np.testing.assert_array_equal(rows[twins], A.indices)


def test_they_are_left_out_where_there_is_no_graph():
    term = GivenCosts().bind(NodeData(2, np.zeros((4, 2))))
    assert not affordable(Problem(None, [term], 2))
    assert affordable(Problem(Graph(np.ones((4, 4))), [term], 2))
