"""Certificates at the edges of what is possible, and of more nodes than a spectral dual takes."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from certificate_helpers import (
    Tally,
    check_never_wrong,
    enumerate_all,
    planted_instance,
)
from nodeproof import Problem, certify
from nodeproof.certificate import audit
from nodeproof.certificate.labelling.certify import certify_instance
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


def test_what_is_proven_by_names_alone_is_confirmed(monkeypatch):
    # One node of two classes: nothing but its name is open, so there is no step.
    monkeypatch.setattr(audit, "ENUMERATED", 1)
    lone = instance_of([[0]], [[0.0, 0.0]])
    check_never_wrong(certify_instance(lone, np.array([0]), time_budget=0), Tally())


def test_many_optima_are_confirmed():
    # Ten pairs that may be in either class: more labellings than are compared exactly.
    pairs = np.kron(np.eye(10), np.array([[0.0, 1.0], [1.0, 0.0]]))
    tied = replace(instance_of(pairs, np.zeros((20, 2))), eta=np.zeros(20))
    proof = certify_instance(tied, np.zeros(20, dtype=np.int64), time_budget=0)
    assert proof.certified
    assert not proof.unique
    assert proof.verify(), proof.verify().reason


# More nodes than a spectral dual takes. ---------------------------------------------------


@pytest.fixture
def large(monkeypatch):
    """Let 100 nodes count as many."""
    monkeypatch.setattr(audit, "DENSE", 100)


def test_many_nodes_with_costs_are_certified(large):
    instance, z = planted_instance([70, 80, 90], p=0.1, q=0.01, t=0.03, cost=6.0)
    proof = certify_instance(instance, z, time_budget=0)
    assert proof.certified
    assert proof.certified_nodes.all()
    assert {step.open.shape for step in proof.steps} == {(240, 3)}
    assert "potts" in proof.method
    assert proof.verify(), proof.verify().reason


def test_many_nodes_without_costs_have_a_bound(large):
    instance, z = planted_instance([70, 80, 90], p=0.5, q=0.05, t=0.25)
    proof = certify_instance(instance, z, time_budget=0)
    assert np.isfinite(proof.lower_bound)
    assert proof.lower_bound <= proof.objective
    assert proof.verify(), proof.verify().reason


def test_many_nodes_are_no_spectral_dual(large):
    instance, z = planted_instance([70, 80], p=0.5)
    proof = certify_instance(instance, z, time_budget=0)
    n, K = instance.costs.shape
    arrays = {"nu": np.zeros(n), "r": np.zeros((K, n)), "sigma": np.zeros(K)}
    with pytest.raises(audit.Refused):
        audit.Spectral(instance.audited, arrays)
    assert proof.verify()


def test_many_nodes_that_are_not_the_best_are_not_certified(large):
    instance, z = planted_instance([70, 80, 90], p=0.1, q=0.01, t=0.03, cost=6.0)
    best = certify_instance(instance, z, time_budget=0)
    rng = np.random.default_rng(0)
    for _ in range(5):
        other = best.labels.copy()
        moved = rng.choice(240, size=3, replace=False)
        other[moved] = (other[moved] + 1) % 3
        value = instance.audited.value(other)[1]
        forged = replace(best, labels=other, objective=value)
        assert not replace(forged, lower_bound=value).verify()
        assert not replace(forged, exact=False, unique=False).verify()
        # Of that labelling, its bound is all that is true.
        steps = tuple(step for step in best.steps if step.open.all())[:1]
        honest = replace(forged, steps=steps, exact=False, unique=False, lower_bound=-1e9,
                         possible=np.ones((240, 3), dtype=bool),
                         tolerance=instance.audited.tolerance(other))  # fmt: skip
        assert honest.verify(), honest.verify().reason


def test_thousands_of_nodes_are_certified():
    rng = np.random.default_rng(0)
    z = np.repeat(np.arange(3), 1500)
    n = len(z)
    rows = np.repeat(np.arange(n), 4)
    within = rng.random(len(rows)) < 0.9
    columns = np.where(within, 1500 * z[rows] + rng.integers(1500, size=len(rows)),
                       rng.integers(n, size=len(rows)))  # fmt: skip
    kept = rows != columns
    A = sp.csr_array((np.ones(kept.sum()), (rows[kept], columns[kept])), shape=(n, n))
    A = ((A + A.T) > 0).astype(np.float64)
    costs = 8.0 * (1.0 - np.eye(3)[z])
    instance = Instance(sp.csr_array(A), np.ones(n), 1.0, 0.001, costs)
    proof = certify_instance(instance, z, time_budget=5)
    assert proof.certified
    assert proof.certified_nodes.mean() > 0.99
    assert proof.verify(), proof.verify().reason


def test_costs_too_small_to_check_are_none():
    instance = instance_of(1 - np.eye(3), [[0.0, 1e-150], [0.0, -1e-200], [1.0, 0.0]])
    assert set(np.unique(instance.costs)) == {0.0, 1.0}
    proof = certify_instance(instance, np.zeros(3, dtype=np.int64), time_budget=0)
    assert proof.verify(instance)
    check_never_wrong(proof, Tally())
