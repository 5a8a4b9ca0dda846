"""A certificate that was tampered with is refused."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from certificate_helpers import (
    changed,
    draw_instance,
    enumerate_all,
    make_proof,
    planted_instance,
    refused,
    why_false,
    with_instance,
    with_step,
)
from nodeproof.certificate import audit
from nodeproof.certificate.labelling.certify import certify_instance
from nodeproof.certificate.labelling.families import FAMILIES
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.certificate.labelling.proof import Step

pytestmark = pytest.mark.usefixtures("one_thread")


def judged(name, family, plain=True):
    """Return a certificate that one closed form proves, in one step; if plain, by its bound."""
    proof = make_proof(name)
    dual = FAMILIES[family](proof.instance, proof.labels)
    free = proof.instance.symmetric
    step = Step(np.ones(proof.instance.costs.shape, dtype=bool), dual, free=free, plain=plain)
    found = audit.examine(replace(proof, steps=(step,)).to_arrays())[2]
    possible = found.unnamed if free else found.possible
    return replace(
        proof, steps=(step,), lower_bound=found.lower_bound, exact=found.exact, renaming=free,
        possible=possible, unique=bool((possible.sum(axis=1) == 1).all()),
    )  # fmt: skip


@pytest.fixture(scope="module", params=["costs", "graph"])
def proof(request):
    return judged(request.param, "F" if request.param == "costs" else "G")


@pytest.fixture(scope="module")
def graph_proof():
    return judged("graph", "G")


@pytest.fixture(scope="module")
def costs_proof():
    return judged("costs", "F")


def test_what_is_not_touched_is_confirmed(proof):
    assert proof.certified
    check = proof.verify()
    assert check, check.reason
    assert check.reason == ""
    assert check.objective == pytest.approx(proof.objective)
    assert check.lower_bound <= check.objective


# Dual variables. ------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["nu", "r", "sigma"])
@pytest.mark.parametrize("by", [1e3, -1e3, np.nan, np.inf, -np.inf, 1e300])
def test_changed_dual_variables_prove_nothing(proof, part, by):
    array = getattr(proof.steps[0].dual, part)
    index = (0,) * array.ndim
    refused(with_step(proof, 0, **{part: changed(array, index, array[index] + by)}))


def test_dual_variables_that_claim_more_are_refused(proof):
    # What they claim to sum to is more; what their matrices lose is more still.
    n, dual = len(proof.labels), proof.steps[0].dual
    for by in (0.01, 1.0, 100.0):
        raised = with_step(proof, 0, nu=dual.nu + by)
        refused(replace(raised, lower_bound=proof.lower_bound + by * n))
        lowered = with_step(proof, 0, sigma=dual.sigma - by)
        refused(replace(lowered, lower_bound=proof.lower_bound + by))
        both = replace(raised, lower_bound=proof.lower_bound + by)
        refused(replace(both, objective=proof.objective + by))


def test_dual_variables_of_another_shape_are_refused(proof):
    dual = proof.steps[0].dual
    refused(with_step(proof, 0, nu=dual.nu[1:]))
    refused(with_step(proof, 0, nu=dual.nu[:, None]))
    refused(with_step(proof, 0, r=dual.r[1:]))
    refused(with_step(proof, 0, r=np.ascontiguousarray(dual.r.T)))
    refused(with_step(proof, 0, sigma=dual.sigma[1:]))
    refused(replace(proof, steps=()))
    refused(replace(proof, instance=None))


def test_changed_factors_are_refused(graph_proof):
    f = graph_proof.steps[0].dual.gamma
    other = int(f.labels[0] != 1)
    bad = [
        replace(f, a=changed(f.a, (0, other), -0.1)),
        replace(f, a=changed(f.a, (0, other), f.a[0, other] + 3.0)),
        replace(f, a=changed(f.a, (0, other), np.nan)),
        replace(f, a=changed(f.a, (0, other), np.inf)),
        replace(f, a=1e200 * f.a),
        replace(f, a=f.a[1:]),
        replace(f, a=3.0 * f.a),
        replace(f, g=changed(f.g, (0, 1), 0.0)),
        replace(f, g=-f.g),
        replace(f, g=2.0 * f.g),
        replace(f, g=1e300 * f.g),
        replace(f, g=np.full_like(f.g, np.nan)),
        replace(f, g=f.g[:2, :2]),
        replace(f, labels=changed(f.labels, 0, 7)),
        replace(f, labels=changed(f.labels, 0, -1)),
        replace(f, labels=changed(f.labels, 0, 2)),
        replace(f, labels=f.labels[1:]),
        None,
    ]
    for gamma in bad:
        refused(with_step(graph_proof, 0, gamma=gamma))


def test_changed_matrices_of_signs_are_refused():
    proof = judged("costs", "F")
    n = len(proof.labels)
    gamma = np.zeros((3, n, n))
    assert with_step(proof, 0, gamma=gamma).verify()
    own = gamma.copy()
    own[:, 3, 3] = 0.2
    larger = gamma.copy()
    larger[0, 0, 1:3] += 2.0
    larger[0, 1:3, 0] += 2.0
    negative = -np.abs(gamma) - 0.1 + 0.1 * np.eye(len(proof.labels))
    for bad in (
        changed(gamma, (0, 0, 1), 5.0),
        gamma + 40.0 * (1.0 - np.eye(n)),
        changed(gamma, (0, 0, 1), np.nan),
        negative,
        own,
        larger,
        gamma[:1],
        gamma[:, 1:],
        np.zeros((2, 2)),
        np.full_like(gamma, np.inf),
        np.full_like(gamma, 1e300),
    ):
        refused(with_step(proof, 0, gamma=bad))


# The problem. ---------------------------------------------------------------------------


def test_another_problem_is_refused(proof):
    i, z = proof.instance, proof.labels
    A = i.adjacency.toarray()
    u, v = 0, int(np.flatnonzero(z != z[0])[0])
    lopsided, heavy, looped, negative = A.copy(), A.copy(), A.copy(), A.copy()
    lopsided[u, v] += 1.0
    heavy[u, v] = heavy[v, u] = 40.0
    looped[u, u] = 1.0
    negative[u, v] = negative[v, u] = -1.0
    for B in (lopsided, heavy, looped, negative):
        refused(with_instance(proof, adjacency=sp.csr_array(B)))
    refused(with_instance(proof, adjacency=sp.csr_array(A[1:, 1:])))
    refused(with_instance(proof, adjacency=sp.csr_array(changed(A, (u, v), np.nan))))
    swapped = i.costs.copy()
    swapped[0] = 0.0
    swapped[0, z[0]] = 60.0
    for costs in (swapped, i.costs[1:], i.costs[:, :1], i.costs[0], i.costs * np.nan):
        refused(with_instance(proof, costs=costs))
    for w, wt in ((-i.w, i.wt), (np.nan, i.wt), (np.inf, i.wt), (i.w, np.nan), (i.w, 9.0 * i.w)):
        refused(with_instance(proof, w=w, wt=wt))
    for eta in (-i.eta, i.eta[1:], i.eta * np.nan, 9.0 * i.eta, changed(i.eta, 0, -9.0)):
        refused(with_instance(proof, eta=eta))


def test_links_that_are_stored_twice_are_refused(costs_proof):
    # Both halves of a doubled link count in the objective: the matrices must not forget one.
    i, z = costs_proof.instance, costs_proof.labels
    A = i.adjacency.tocoo()
    u, v = 0, int(np.flatnonzero(z != z[0])[0])
    rows, columns = np.r_[A.row, [u, v] * 80, [0, 1]], np.r_[A.col, [v, u] * 80, [1, 0]]
    order = np.lexsort((columns, rows))
    indptr = np.r_[0, np.cumsum(np.bincount(rows, minlength=len(z)))]
    doubled = sp.csr_array((np.ones(len(rows)), columns[order], indptr), shape=A.shape)
    assert not doubled.has_canonical_format
    refused(with_instance(costs_proof, adjacency=doubled))


# What it says. --------------------------------------------------------------------------


def test_other_labels_are_refused(proof):
    z = proof.labels
    K = proof.instance.n_classes
    refused(replace(proof, labels=changed(z, 0, (z[0] + 1) % K)))
    refused(replace(proof, labels=changed(z, 0, K)))
    refused(replace(proof, labels=changed(z, 0, -1)))
    refused(replace(proof, labels=z[1:]))
    refused(replace(proof, labels=z.astype(float) + 0.5))
    refused(replace(proof, labels=z[:, None]))


def test_numbers_that_flatter_are_refused(proof):
    refused(replace(proof, objective=proof.objective - 0.01))
    refused(replace(proof, objective=np.nan))
    refused(replace(proof, objective=np.inf))
    refused(replace(proof, objective=-np.inf))
    refused(replace(proof, lower_bound=proof.lower_bound + 1.0 + abs(proof.lower_bound)))
    refused(replace(proof, lower_bound=np.nan))
    refused(replace(proof, lower_bound=np.inf))
    refused(replace(proof, tolerance=np.nan))
    refused(replace(proof, tolerance=-1.0))
    refused(replace(proof, tolerance=np.inf))


@pytest.fixture(scope="module")
def partly():
    """Return a certificate that proves some nodes only, and nothing of the whole."""
    instance, z = planted_instance([25, 25], p=0.5, q=0.25, cost=3.0, known=0.5, t=0.4)
    proof = certify_instance(instance, z, time_budget=0)
    assert not proof.certified
    assert proof.verify()
    return proof


def test_nodes_that_are_not_proven_are_refused(partly):
    own = np.eye(2, dtype=bool)[partly.labels]
    for v in np.flatnonzero(~partly.certified_nodes):
        refused(replace(partly, possible=changed(partly.possible, v, own[v])))
    refused(replace(partly, possible=np.ones((49, 2), dtype=bool)))
    refused(replace(partly, possible=own))
    fewer = replace(partly, possible=np.ones((50, 2), dtype=bool))
    assert fewer.verify()


def test_a_gap_that_is_no_certificate_cannot_say_so(partly):
    refused(replace(partly, lower_bound=partly.objective))
    refused(replace(partly, exact=True))
    refused(replace(partly, unique=True))
    higher = partly.lower_bound + 0.1 * (partly.objective - partly.lower_bound)
    refused(replace(partly, lower_bound=higher))


def test_what_follows_from_a_claim_cannot_be_forged(partly):
    for name in ("status", "gap", "gap_nats", "certified", "certified_nodes"):
        with pytest.raises(TypeError):
            replace(partly, **{name: None})


def test_names_that_mean_nothing_are_not_proven():
    proof = judged("graph", "G", plain=False)
    assert proof.certified_nodes.any()
    assert proof.verify()
    assert refused(replace(proof, renaming=False))


def test_ties_are_not_called_unique_or_exact():
    tied = Instance(sp.csr_array((2, 2)), np.zeros(2), 0.0, 0.0, np.array([[0.0, 0.0], [0.0, 1.0]]))
    proof = certify_instance(tied, np.array([1, 0]), time_budget=0)
    assert proof.certified
    assert not proof.unique
    assert proof.exact
    assert proof.verify()
    refused(replace(proof, unique=True))
    refused(replace(proof, possible=np.eye(2, dtype=bool)[proof.labels]))


def test_what_is_best_but_for_rounding_is_not_called_exact():
    # Two labelled pairs, and a node beside them that all but costs the same in both classes.
    pairs = np.zeros((5, 5))
    pairs[0, 1] = pairs[1, 0] = pairs[2, 3] = pairs[3, 2] = 1.0
    costs = np.array([[0.0, 9.0], [0.0, 9.0], [9.0, 0.0], [9.0, 0.0], [0.0, 1e-14]])
    near = Instance(sp.csr_array(pairs), np.array([1.0, 1.0, 1.0, 1.0, 0.0]), 1.0, 0.5, costs)
    proof = certify_instance(near, np.array([0, 0, 1, 1, 1]), time_budget=0)
    assert proof.exact
    np.testing.assert_array_equal(proof.labels, [0, 0, 1, 1, 0])
    z = np.array([0, 0, 1, 1, 1])
    worse = replace(
        proof, labels=z, objective=near.audited.value(z)[1], unique=False,
        possible=np.ones((5, 2), dtype=bool),
    )  # fmt: skip
    refused(worse)
    refused(replace(worse, lower_bound=worse.objective, exact=False))
    assert replace(worse, lower_bound=-np.inf, exact=False).verify()


def test_no_false_claim_survives_tampering():
    false = confirmed = 0
    for seed in range(50):
        rng = np.random.default_rng([61, seed])
        instance = draw_instance(rng, "random")
        n, K = instance.n_nodes, instance.n_classes
        proof = certify_instance(instance, rng.integers(K, size=n), time_budget=0)
        if not proof.certified or K == 1:
            continue
        for _ in range(4):
            v, i, by = rng.integers(n), rng.integers(K), float(rng.choice([0.02, 0.5, 5.0]))
            costs = changed(instance.costs, (v, i), instance.costs[v, i] + by * rng.normal())
            A = instance.adjacency.toarray()
            u = rng.integers(n)
            A[u, v] = A[v, u] = 0.0 if u == v else abs(by * rng.normal())
            tampered = [
                with_instance(proof, costs=costs),
                with_instance(proof, adjacency=sp.csr_array(A)),
                replace(proof, labels=changed(proof.labels, v, i)),
                replace(proof, lower_bound=proof.lower_bound + by),
                with_instance(proof, w=proof.instance.w * (1 + by)),
            ]
            for other in tampered:
                # As one who tampers would: the objective is put right.
                low, value = other.instance.audited.value(other.labels)
                bound = low if other is not tampered[3] else other.lower_bound
                other = replace(
                    other, objective=value, lower_bound=bound,
                    tolerance=other.instance.audited.tolerance(other.labels),
                )  # fmt: skip
                truth = enumerate_all(other.instance)
                if why_false(other.claim(), other.to_arrays(), truth):
                    false += 1
                    refused(other)
                else:
                    confirmed += bool(other.verify())
    assert false > 40
    assert confirmed > 40
