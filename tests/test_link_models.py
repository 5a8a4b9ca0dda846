"""Whether links are as a block model has them: neighbours of a node no more often linked."""

import networkx as nx
import numpy as np
import pytest

from nodeproof.auto.likelihoods import describes_links
from nodeproof.datasets import make_planted
from nodeproof.graph import Graph

pytestmark = pytest.mark.numeric


@pytest.mark.parametrize(
    ("n_clusters", "size", "p", "q"),
    [
        (2, 60, 0.3, 0.1),
        (3, 60, 0.2, 0.05),
        (3, 200, 0.05, 0.01),
        (5, 100, 0.1, 0.02),
        (10, 40, 0.3, 0.01),
        (2, 300, 0.01, 0.05),  # links seek the other class
        (3, 300, 0.02, 0.02),  # no classes at all
    ],
)
def test_a_block_model_describes_planted_links(n_clusters, size, p, q):
    for seed in range(4):
        data = make_planted(n_clusters, size, p=p, q=q, random_state=seed)
        assert describes_links(Graph(data.graph), data.y_true, n_clusters)


@pytest.mark.parametrize("degree", [10.0, 30.0])
def test_a_block_model_describes_hubs(degree):
    """Degrees differ, but two neighbours of a node are linked no more often than by that."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        n, z = 400, np.arange(400) % 2
        popular = rng.pareto(2.5, n) + 0.5
        popular /= popular.mean()
        likely = degree / n * np.where(z[:, None] == z, 1.6, 0.4) * np.outer(popular, popular)
        upper = np.triu(rng.random((n, n)) < likely, 1)
        assert describes_links(Graph(upper | upper.T), z, 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: nx.powerlaw_cluster_graph(400, 5, 0.9, seed=seed),
        lambda seed: nx.relaxed_caveman_graph(40, 10, 0.2, seed=seed),
        lambda seed: nx.watts_strogatz_graph(400, 10, 0.1, seed=seed),
        lambda seed: nx.random_geometric_graph(400, 0.1, seed=seed),
    ],
    ids=["clustered power law", "cavemen", "small world", "geometric"],
)
def test_a_block_model_does_not_describe_links_that_close_triangles(make):
    for seed in range(3):
        graph = Graph(nx.to_scipy_sparse_array(make(seed)))
        for n_classes in (2, 4):
            # In the order of the nodes, classes are as coherent as they can be.
            codes = np.arange(graph.n_nodes) * n_classes // graph.n_nodes
            assert not describes_links(graph, codes, n_classes)


@pytest.mark.parametrize("seed", range(3))
def test_the_same_degree_with_and_without_triangles_is_told_apart(seed):
    clustered = nx.relaxed_caveman_graph(40, 10, 0.2, seed=seed)
    degrees = [degree for _, degree in clustered.degree()]
    shuffled = nx.expected_degree_graph(degrees, seed=seed, selfloops=False)
    codes = np.zeros(400, dtype=np.int64)
    found = [
        describes_links(Graph(nx.to_scipy_sparse_array(g)), codes, 1) for g in (clustered, shuffled)
    ]
    assert found == [False, True]


def test_a_few_links_do_not_tell():
    path = Graph(nx.to_scipy_sparse_array(nx.path_graph(20)))
    assert not describes_links(path, np.arange(20) % 2, 2)
    pairs = Graph(np.kron(np.eye(10), np.array([[0.0, 1.0], [1.0, 0.0]])))
    assert not describes_links(pairs, np.arange(20) % 2, 2)
