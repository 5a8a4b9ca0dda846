"""Certificates at the edges of what is possible, and of more nodes than are factorised."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from certificate_helpers import (
    Tally,
    check_never_wrong,
    enumerate_all,
    planted_instance,
    refused,
)
from nodeproof import Problem, certify
from nodeproof.certificate.labelling import audit as checking
from nodeproof.certificate.labelling import bound as judging
from nodeproof.certificate.labelling import nodes
from nodeproof.certificate.labelling.bound import judge
from nodeproof.certificate.labelling.certify import certify_instance
from nodeproof.certificate.labelling.families import FAMILIES
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.datasets import make_planted
from nodeproof.graph import Graph
from nodeproof.terms import Covariance, Gaussian, Labels, NodeData

pytestmark = [pytest.mark.numeric, pytest.mark.usefixtures("one_thread")]


@pytest.fixture(scope="module")
def strong():
    """Three classes of 80 that links alone tell apart."""
    return make_planted(p=0.3, cluster_size=80, omega=0.1, random_state=0)


# Edges of what is possible. -------------------------------------------------------------


def instance_of(A, costs, w=1.0, t=0.5):
    A = np.asarray(A, dtype=np.float64)
    return Instance(sp.csr_array(A), np.ones(len(A)), w, w * t, np.asarray(costs, dtype=np.float64))


EDGES = {
    "one node": instance_of([[0]], [[1.0, 0.0]]),
    "one node, one class": instance_of([[0]], [[0.0]]),
    "one class": instance_of(1 - np.eye(5), np.zeros((5, 1))),
    "a class each": instance_of(np.zeros((4, 4)), np.zeros((4, 4))),
    "more classes than nodes": instance_of([[0, 1], [1, 0]], np.zeros((2, 3))),
    "no links": replace(instance_of(np.zeros((5, 5)), np.eye(5)[:, :2]), eta=np.zeros(5)),
    "no graph": instance_of(np.zeros((5, 5)), np.eye(5)[:, :2], w=0.0),
    "nothing at all": instance_of(np.zeros((4, 4)), np.zeros((4, 2)), w=0.0),
    "an empty class": instance_of(1 - np.eye(5), np.tile([0.0, 9.0], (5, 1))),
    "two empty classes": instance_of(1 - np.eye(5), np.tile([0.0, 9.0, 9.0], (5, 1))),
    "all labels given": instance_of(np.eye(6)[::-1], 9.0 * (1 - np.eye(3)[[0, 1, 2, 2, 1, 0]])),
}


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_edges_are_certified(name, scale):
    i = EDGES[name]
    instance = Instance(i.adjacency, i.eta, scale * i.w, scale * i.wt, scale * i.costs)
    tally = Tally()
    proof = certify_instance(instance, np.zeros(i.n_nodes, dtype=np.int64), max_iter=60)
    check_never_wrong(proof, tally)
    assert proof.certified
    assert proof.exact


@pytest.mark.parametrize("weights", [(1e-12, 1.0, 1.0), (1e12, 1.0, 1.0), (1.0, 1.0, 1e12)])
def test_weights_of_any_size_prove_nothing_false(weights):
    rng = np.random.default_rng(5)
    for seed in range(6):
        upper = np.triu(rng.random((7, 7)) < 0.5, 1) * 1.0
        y = rng.integers(-1, 2, size=7)
        data = NodeData(2, rng.normal(size=(7, 2)), y)
        terms = [Labels().bind(data), Covariance().bind(data)]
        problem = Problem(Graph(upper + upper.T, "uniform"), terms, 2, weights=weights)
        proof = certify(problem, rng.integers(2, size=7), max_iter=20, random_state=seed)
        check_never_wrong(proof, Tally())


@pytest.mark.parametrize("terms", [[Labels()], [Gaussian()], [Labels(), Gaussian()]])
def test_without_a_graph_costs_decide(strong, terms):
    nodes_known = NodeData(3, strong.X, strong.y_true)
    problem = Problem(None, [term.bind(nodes_known) for term in terms], 3)
    proof = certify(problem, strong.y_true)
    assert proof.status == "certified"
    assert proof.objective == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_array_equal(proof.labels, proof.instance.costs.argmin(axis=1))
    assert proof.verify()


def test_ties_are_told_and_settled_exactly():
    # Two labelled pairs, and a node between them that may go either way.
    pairs = np.zeros((5, 5))
    pairs[0, 1] = pairs[1, 0] = pairs[2, 3] = pairs[3, 2] = 1.0
    costs = np.array([[0.0, 9.0], [0.0, 9.0], [9.0, 0.0], [9.0, 0.0], [0.0, 0.0]])
    tied = replace(instance_of(pairs, costs), eta=np.array([1.0, 1.0, 1.0, 1.0, 0.0]))
    proof = certify_instance(tied, np.array([0, 0, 1, 1, 1]))
    assert proof.certified
    assert proof.exact
    assert not proof.unique
    np.testing.assert_array_equal(proof.certified_nodes, [True, True, True, True, False])
    np.testing.assert_array_equal(proof.labels, [0, 0, 1, 1, 1])  # of equals, what was given
    costs[4] = [0.0, 1e-15]
    nearly = certify_instance(replace(tied, costs=costs), np.array([0, 0, 1, 1, 1]))
    np.testing.assert_array_equal(nearly.labels, enumerate_all(nearly.instance).optimal[0])
    assert nearly.labels[4] == 0
    assert nearly.exact
    np.testing.assert_array_equal(nearly.moved, [4])


# More nodes than are factorised. --------------------------------------------------------


@pytest.fixture
def large(monkeypatch):
    """Let 100 nodes count as many."""
    for module in (judging, nodes):
        monkeypatch.setattr(module, "DENSE_MOST", 100)
    monkeypatch.setattr(checking, "_DENSE", 100)


@pytest.mark.parametrize("cost", [0.0, 6.0])
def test_many_nodes_are_certified_with_a_probability(large, cost):
    instance, z = planted_instance([70, 80, 90], p=0.5, q=0.05, t=0.25, cost=cost)
    proof = certify_instance(instance, z, time_budget=0)
    assert proof.status.startswith("certified (probability ≥ 1 − ")
    assert 0.0 < proof.failure < 1e-8
    assert f"{proof.failure:.0e}" in proof.status
    assert "probability of at most" in proof.explain()
    assert not proof.exact
    assert proof.certified_nodes.all()
    assert proof.unique
    assert proof.renaming == (cost == 0.0)
    assert proof.verify(), proof.verify().reason
    refused(replace(proof, failure=0.0, status="certified"))
    refused(replace(proof, renaming=False, labels=np.roll(z, 1)))
    if cost == 0.0:
        refused(replace(proof, renaming=False))


def test_many_nodes_that_are_not_the_best_are_not_certified(large):
    instance, z = planted_instance([70, 80, 90], p=0.5, q=0.05, t=0.25)
    best = instance.value(z)
    rng = np.random.default_rng(0)
    for _ in range(5):
        other = z.copy()
        other[rng.choice(240, size=3)] = 0
        if (other == z).all():
            continue
        for name in FAMILIES:
            judgement = judge(instance, FAMILIES[name](instance, other), other)
            assert judgement.lower_bound <= best + 1e-6
            found = nodes.certify_nodes(
                instance, FAMILIES[name](instance, other), other, judgement, instance.value(other)
            )
            assert not found.certified[other != z].any()


def test_thousands_of_nodes_are_certified():
    rng = np.random.default_rng(0)
    z = np.repeat(np.arange(3), 1500)
    n = len(z)
    rows = np.repeat(np.arange(n), 25)
    within = rng.random(len(rows)) < 0.8
    columns = np.where(within, 1500 * z[rows] + rng.integers(1500, size=len(rows)),
                       rng.integers(n, size=len(rows)))  # fmt: skip
    kept = rows != columns
    A = sp.csr_array((np.ones(kept.sum()), (rows[kept], columns[kept])), shape=(n, n))
    A = ((A + A.T) > 0).astype(np.float64)
    instance = Instance(sp.csr_array(A), np.ones(n), 1.0, 0.012, np.zeros((n, 3)))
    proof = certify_instance(instance, z, time_budget=0)
    assert proof.status.startswith("certified (probability")
    assert proof.certified_nodes.all()
    assert proof.renaming
    assert proof.verify(), proof.verify().reason
