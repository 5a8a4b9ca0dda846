"""Rows spread over several holders give the same bits as rows in one place."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from cluster_helpers import FakeClient, same_bits, wait_for_fakes

from nodeproof import Problem, threads
from nodeproof.datasets import make_planted
from nodeproof.engines import dask as dask_engine
from nodeproof.engines.dask import DaskEngine
from nodeproof.engines.parts import (
    Layout,
    Part,
    Piece,
    boundary_of,
    cut_block,
    halo_of,
    place,
)
from nodeproof.errors import InputError
from nodeproof.graph import Graph
from nodeproof.problem import PAPER_WEIGHTS
from nodeproof.solvers import BlockCADO, sweep
from nodeproof.solvers.rows import LocalEngine
from nodeproof.terms import Covariance, Gaussian, Labels, Multinomial, NodeData, Softmax

K = 3
PARTS = [1, 2, 3, 5]


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch):
    """Let graphs of some hundred nodes have many ranges and cells, and fakes be waited for."""
    monkeypatch.setattr(threads, "ROWS", 64)
    monkeypatch.setattr(sweep, "_CELL", 16)
    monkeypatch.setattr(DaskEngine, "wait", wait_for_fakes)


@pytest.fixture(scope="module")
def data():
    return make_planted(
        K, 130, p=0.06, q=0.02, omega=0.5, label_ratio=0.1, label_accuracy=0.9, random_state=0
    )


@pytest.fixture(scope="module")
def words(data):
    rng = np.random.default_rng(1)
    shares = rng.dirichlet(np.ones(20), size=K)
    return sp.csr_array(np.stack([rng.multinomial(15, shares[c]) for c in data.y_true]))


def weighted(data) -> sp.csr_array:
    upper = sp.triu(data.graph, 1).tocsr()
    upper.data = np.random.default_rng(2).uniform(0.3, 3.0, size=upper.nnz)
    return sp.csr_array(upper + upper.T)


def with_isolated(data) -> sp.csr_array:
    keep = np.ones(data.graph.shape[0])
    keep[np.r_[0, 5:9, 60:70, 200:290, -1]] = 0.0
    kept = sp.diags_array(keep) @ data.graph @ sp.diags_array(keep)
    kept.eliminate_zeros()
    return sp.csr_array(kept)


def make_problem(name: str, data, words) -> Problem:
    nodes = NodeData(K, data.X, data.y, Graph(data.graph))
    labels = Labels().bind(nodes)
    graph = Graph(data.graph, "uniform")
    counts = Multinomial(trust=0.3).bind(NodeData(K, words, data.y))
    return {
        "graph": lambda: Problem(graph, [], K),
        "graph, labels": lambda: Problem(graph, [labels], K),
        "covariance": lambda: Problem(graph, [Covariance().bind(nodes), labels], K),
        "intercept": lambda: Problem(graph, [Covariance(intercept=True).bind(nodes), labels], K),
        "diagonal": lambda: Problem(graph, [Gaussian("diagonal").bind(nodes), labels], K),
        "full": lambda: Problem(graph, [Gaussian("full").bind(nodes), labels], K),
        "shared": lambda: Problem(graph, [Gaussian("shared").bind(nodes), labels], K),
        "sparse": lambda: Problem(graph, [Gaussian().bind(NodeData(K, words)), labels], K),
        "words": lambda: Problem(graph, [counts, labels], K),
        "softmax": lambda: Problem(graph, [Softmax(hops=2).bind(nodes), labels], K),
        "several": lambda: Problem(
            graph, [Softmax(hops=1, rounds=1).bind(nodes), counts, labels], K, trust=0.5
        ),
        "weighted": lambda: Problem(Graph(weighted(data), "uniform"), [labels], K),
        "degree": lambda: Problem(Graph(weighted(data), "degree"), [labels], K),
        "isolated": lambda: Problem(Graph(with_isolated(data)), [labels], K),
        "no graph": lambda: Problem(None, [Covariance().bind(nodes), labels], K),
        "fixed weights": lambda: Problem(
            graph, [Covariance().bind(nodes), labels], K, weights=PAPER_WEIGHTS, threshold=0.05
        ),
    }[name]()


PROBLEMS = [
    "graph", "graph, labels", "covariance", "intercept", "diagonal", "full", "shared", "sparse",
    "words", "softmax", "several", "weighted", "degree", "isolated", "no graph", "fixed weights",
]  # fmt: skip


def draw_rows(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(K), size=n).astype(np.float32)


def everything(rows, problem: Problem, matrix: bool, temperature: float) -> list:
    """Do with rows all that a solver does; return all answers, in order."""
    terms = rows.fit_terms(None, 1e-4)
    sums = rows.sums(matrix)
    answers = [terms, sums.totals, sums.sizes, sums.squares, sums.pairs]
    if problem.graph is not None:
        answers += [rows.link_mass(), rows.link_mass(True)]
        for look in (False, True):
            affinity = rows.assumed(problem.labels, look)
            answers += [affinity.ell, affinity.ell_t]
    models = problem.fit_models(np.asarray(rows.W), matrix)
    answers.append(rows.energy(models, temperature))
    for totals in (None, sums.totals):
        change, links = rows.sweep(models, temperature, totals)
        answers += [change, links, np.asarray(rows.W).copy()]
    answers.append(rows.fit_terms(terms, 1e-4))
    if problem.labels is not None:
        answers.append(rows.agreement(problem.labels))
    rows.reorder(np.array([2, 0, 1]))
    answers += [rows.fetch().copy(), *rows.sweep(models, temperature)]
    answers += [rows.sums(True).pairs, rows.energy(models, temperature), rows.fetch()]
    return answers


def same_in_parts(problem: Problem, n_parts: int, matrix: bool = False, temperature: float = 1.0):
    start = draw_rows(problem.n_nodes)
    with threads.using(1):
        here = everything(LocalEngine(problem).place(start.copy()), problem, matrix, temperature)
        spread = DaskEngine(problem, FakeClient(n_parts)).place(start)
        there = everything(spread, problem, matrix, temperature)
    differ = [k for k, (a, b) in enumerate(zip(here, there, strict=True)) if not same_bits(a, b)]
    assert differ == []


@pytest.mark.parametrize("n_parts", PARTS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_parts_do_all_that_one_machine_does(name, n_parts, data, words):
    same_in_parts(make_problem(name, data, words), n_parts)
