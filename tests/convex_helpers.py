"""Small problems for the solvers of the convex program, and their brute force."""

import itertools

import numpy as np

from nodeproof import Problem
from nodeproof.graph import Graph
from nodeproof.terms import Covariance, Labels, NodeData


def small_problem(
    n=8, K=2, sources="GL", weights=(1.0, 1.0, 2.0), t=0.5, son=0.0, null_model="uniform", seed=0
) -> Problem:
    """Return two loose groups, weighted links, features of two shapes and some wrong labels."""
    rng = np.random.default_rng(seed)
    z = np.arange(n) % K
    together = z[:, None] == z
    upper = np.triu(rng.random((n, n)) < np.where(together, 0.8, 0.25), 1).astype(float)
    if null_model == "degree":
        upper *= rng.uniform(0.5, 2.0, size=(n, n))
    y = np.where(rng.random(n) < 0.85, z, (z + 1) % K)
    y[rng.random(n) < 0.4] = -1
    X = rng.normal(size=(n, 2)) * np.where(z[:, None] % 2 == 0, [1.5, 0.3], [0.3, 1.5])
    nodes = NodeData(K, X, y)
    kinds = {"F": Covariance(), "L": Labels()}
    known = [term.bind(nodes) for source, term in kinds.items() if source in sources]
    graph = Graph(upper + upper.T, null_model) if "G" in sources else None
    return Problem(graph, known, K, weights=weights, threshold=t, son=son)


def labelled(y, graph=None, K=2, weights=(1.0, 0.0, 2.0), son=0.0) -> Problem:
    """Return a problem of these labels, with a graph or without."""
    known = Labels().bind(NodeData(K, y=np.asarray(y)))
    links = None if graph is None else Graph(np.asarray(graph, dtype=float), "uniform")
    return Problem(links, [known], K, weights=weights, son=son)


def best_labelling(problem: Problem) -> float:
    """Return the least objective of all labellings, each with its best models."""
    K, n = problem.n_classes, problem.n_nodes
    best = np.inf
    for z in itertools.product(range(K), repeat=n):
        if all(label <= max(z[:v], default=-1) + 1 for v, label in enumerate(z)):
            W = np.eye(K)[list(z)]
            best = min(best, problem.value(W, problem.fit_models(W)))
    return best
