"""Whatever the file of a certificate says, nothing that is false is confirmed."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from certificate_helpers import (
    Tally,
    check_never_wrong,
    draw_instance,
    make_proof,
    planted_instance,
    refused,
    restated,
    rewrite,
)
from forged_certificates import forgeries, genuine, relabelled, worse_labellings
from nodeproof import NodeClassifier
from nodeproof.certificate import Certificate
from nodeproof.certificate.labelling import audit as checking
from nodeproof.certificate.labelling import bound as judging
from nodeproof.certificate.labelling import nodes
from nodeproof.certificate.labelling.certify import certify_instance
from nodeproof.certificate.labelling.dual import Dual
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.errors import InputError

pytestmark = [pytest.mark.numeric, pytest.mark.usefixtures("one_thread")]

KINDS = ("costs", "graph", "partly")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_genuine_is_confirmed(kind, tmp_path):
    proof = genuine(kind)
    proof.save(tmp_path / "proof.npz")
    check = Certificate.load(tmp_path / "proof.npz").verify(proof.instance)
    assert check, check.reason


@pytest.mark.parametrize("kind", KINDS)
def test_a_hundred_forged_certificates_are_refused(kind):
    proof = genuine(kind)
    forged = dict(forgeries(proof))
    assert len(forged) >= 100
    confirmed = [name for name, other in forged.items() if other.verify(proof.instance)]
    assert not confirmed


def test_forged_certificates_are_refused_from_files(tmp_path):
    proof, path = genuine("graph"), tmp_path / "proof.npz"
    confirmed = []
    for name, other in list(forgeries(proof))[::5]:
        other.save(path)
        with suppress(InputError):
            if Certificate.load(path).verify(proof.instance):
                confirmed.append(name)
    assert not confirmed


# Tolerance. -----------------------------------------------------------------------------


def test_a_tolerance_is_the_verifiers_to_accept():
    proof = genuine("partly")
    missing = proof.objective - proof.lower_bound
    loose = certify_instance(
        proof.instance, proof.labels, time_budget=0, max_iter=0, tolerance=2.0 * missing
    )
    assert loose.certified
    assert f"tolerance {2.0 * missing:.3g}" in loose.status
    assert f"up to a tolerance of {2.0 * missing:.3g}" in loose.explain()
    said = refused(loose)
    accepted = proof.instance.tolerance(proof.labels)
    assert f"{2.0 * missing:.3g}" in said
    assert f"{accepted:.3g}" in said
    check = loose.verify(tolerance=2.0 * missing)
    assert check, check.reason
    assert check.tolerance == 2.0 * missing
    refused(loose, tolerance=1.9 * missing)


def test_accepting_a_tolerance_does_not_accept_what_is_above_it():
    proof = genuine("costs")
    for _, z in worse_labellings(proof):
        value = proof.instance.value(z)
        loose = relabelled(proof, z, tolerance=0.9 * (value - proof.dual_bound))
        forged = restated(loose, lower_bound=value, dual_bound=value)
        refused(forged, tolerance=1e9)


def test_the_default_tolerance_is_not_mentioned():
    for kind in ("costs", "graph"):
        proof = genuine(kind)
        assert proof.special_tolerance is None
        assert proof.status == "certified"
        assert "tolerance" not in proof.explain()


@pytest.mark.parametrize("tolerance", [-1.0, np.nan, np.inf, "1"])
def test_a_tolerance_that_is_none_is_named(tolerance):
    proof = genuine("costs")
    with pytest.raises(InputError, match="tolerance must be"):
        proof.verify(tolerance=tolerance)
    with pytest.raises(InputError, match="tolerance must be"):
        certify_instance(proof.instance, proof.labels, tolerance=tolerance)


# Types of numbers. ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_narrow_numbers_are_computed_with_as_wide_ones(dtype):
    tally = Tally()
    for seed in range(40):
        rng = np.random.default_rng([83, seed])
        drawn = draw_instance(rng, "random")
        narrow = replace(drawn, eta=drawn.eta.astype(dtype), costs=drawn.costs.astype(dtype))
        z = rng.integers(narrow.n_classes, size=narrow.n_nodes)
        check_never_wrong(certify_instance(narrow, z, time_budget=0), tally, exactly=False)
    assert tally.certified > 20


@pytest.mark.parametrize("dtype", [np.float16, np.float32, ">f8"])
def test_genuine_numbers_may_be_stored_in_any_type(dtype, tmp_path):
    # Whole numbers, so that no type changes them.
    pairs = np.zeros((4, 4))
    pairs[0, 1] = pairs[1, 0] = pairs[2, 3] = pairs[3, 2] = 1.0
    costs = np.array([[0.0, 8.0], [0.0, 8.0], [8.0, 0.0], [8.0, 0.0]])
    instance = Instance(sp.csr_array(pairs), np.ones(4), 1.0, 0.5, costs)
    proof = certify_instance(instance, np.array([0, 0, 1, 1]), time_budget=0)
    path = tmp_path / "proof.npz"
    proof.save(path)
    dual = {"nu": proof.dual.nu, "r": proof.dual.r, "sigma": proof.dual.sigma}
    wide = {"costs": costs, "eta": instance.eta, "scales": np.array([1.0, 0.5]), **dual}
    assert all((array.astype(dtype) == array).all() for array in wide.values())
    rewrite(path, **{name: array.astype(dtype) for name, array in wide.items()})
    rewrite(path, weights=np.ones(4, dtype=np.int8), labels=proof.labels.astype(np.int8))
    loaded = Certificate.load(path)
    for array in (loaded.dual.nu, loaded.dual.r, loaded.dual.sigma, loaded.instance.costs):
        assert array.dtype == np.float64
    assert loaded.labels.dtype == np.int64
    check = loaded.verify(instance)
    assert check, check.reason
    rewrite(path, labels=np.array([0, 0, 1, 0], dtype=np.int8))
    refused(Certificate.load(path), instance)


def test_narrow_numbers_that_were_rounded_prove_what_they_are(tmp_path):
    proof = genuine("costs")
    for dtype in (np.float16, np.float32):
        nu = proof.dual.nu.astype(dtype)
        assert (nu != proof.dual.nu).any()
        proof.save(tmp_path / "proof.npz")
        rewrite(tmp_path / "proof.npz", nu=nu + dtype(1))
        refused(Certificate.load(tmp_path / "proof.npz"), proof.instance)


def test_numbers_beyond_floats_are_refused_in_one_line(tmp_path):
    proof = genuine("costs")
    for name in ("objective", "tolerance", "failure", "dual_bound"):
        proof.save(tmp_path / "proof.npz")
        rewrite(tmp_path / "proof.npz", meta={name: 10**400})
        refused(Certificate.load(tmp_path / "proof.npz"), proof.instance)


# Another graph. -------------------------------------------------------------------------


def test_a_file_alone_is_checked_against_nothing(tmp_path):
    proof = genuine("costs")
    assert proof.verify()  # what was made here is about what it was made for
    proof.save(tmp_path / "proof.npz")
    loaded = Certificate.load(tmp_path / "proof.npz")
    assert "nothing to check it against" in refused(loaded)
    assert "nothing to check it against" in refused(replace(loaded, seconds=1.0))
    assert loaded.verify(loaded.instance)  # for whatever is in it, by whoever asks for that
    assert "another fit" in refused(loaded, genuine("graph").instance)


def test_what_is_no_model_is_named():
    proof = genuine("costs")
    with pytest.raises(InputError, match="model must be a NodeClassifier"):
        proof.verify(proof.instance.adjacency)
    with pytest.raises(NotFittedError):
        proof.verify(NodeClassifier())


# Rounding. ------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_no_bound_is_confirmed_beyond_rounding(scale):
    instance, z = planted_instance([8, 7], p=0.6, q=0.4, cost=1.0, known=0.5, t=0.4, seed=3)
    i = replace(instance, w=scale, wt=0.4 * scale, costs=scale * instance.costs)
    proof = certify_instance(i, z, time_budget=0, max_iter=0)
    assert not proof.certified
    proven = proof.verify().lower_bound
    for by in (1e-11, 1e-9, 1e-7):
        higher = proven + by * i.span
        refused(restated(proof, lower_bound=higher, dual_bound=higher))
        refused(restated(proof, objective=proof.objective - by * i.span))
        refused(restated(proof, objective=proof.objective + by * i.span))


def test_what_the_prover_proves_the_auditor_does_not_call_impossible():
    # Costs that dwarf the links: of the numbers, rounding leaves more than of the objective.
    for seed in range(12):
        rng = np.random.default_rng(seed)
        drawn, z = planted_instance(
            [12, 14], p=0.6, q=0.1, cost=10.0 ** rng.uniform(3, 7), known=0.3, seed=seed
        )
        check = certify_instance(drawn, z, time_budget=0, max_iter=0).verify()
        assert check, check.reason


# Many nodes: random numbers. ------------------------------------------------------------


@pytest.fixture
def large(monkeypatch):
    """Let 100 nodes count as many."""
    for module in (judging, nodes):
        monkeypatch.setattr(module, "DENSE_MOST", 100)
    monkeypatch.setattr(checking, "_DENSE", 100)


def test_a_probability_is_what_the_check_establishes(large):
    instance, z = planted_instance([70, 80], p=0.5, q=0.05, t=0.25, cost=6.0)
    proof = certify_instance(instance, z, time_budget=0)
    check = proof.verify()
    assert check, check.reason
    assert 0 < check.failure <= 1e-9
    for failure in (0.0, 1e-300, 1e-30, 1e-10):
        refused(restated(proof, failure=failure))
    assert restated(proof, failure=1e-6).verify().failure == check.failure
    # Whoever allows the check more cannot confirm as little.
    assert "1e-09" in refused(proof, failure=1e-6)
    assert proof.verify(failure=1e-12).failure <= 1e-12
    refused(proof, failure=1e-300)  # more than the check can establish


@pytest.mark.parametrize("failure", [0.0, 1.0, -1e-9, np.nan])
def test_a_probability_that_is_none_is_named(failure):
    with pytest.raises(InputError, match="failure must be a probability"):
        genuine("costs").verify(failure=failure)


def forged_for(start: np.ndarray) -> Certificate:
    """Return a certificate whose bound is too high, which one start of Lanczos does not notice.

    Two nodes have a matrix of their own, and that start sees but one of its eigenvectors. The
    other has the only eigenvalue below zero.
    """
    n = len(start) - 1
    q = start[1:]
    ends = [int(q.argmax()), int(q.argmin())]
    seen = q[ends] / np.linalg.norm(q[ends])
    hidden = np.array([-seen[1], seen[0]])
    block = 0.5 * np.outer(seen, seen) - 0.0005 * np.outer(hidden, hidden)
    # Others far below zero would show, by rounding alone.
    diagonal, gamma = np.linspace(0.016, 1.0, n), np.zeros((n, n))
    diagonal[ends] = np.diag(block)
    gamma[ends, ends[::-1]] = -block[0, 1]
    corner = 0.5 * n
    bound = -float(diagonal.sum()) - corner
    instance = Instance(sp.csr_array((n, n)), np.zeros(n), 0.0, 0.0, np.zeros((n, 1)))
    proof = certify_instance(instance, np.zeros(n, dtype=np.int64), time_budget=0)
    return restated(
        proof, dual=Dual(-diagonal, np.zeros((1, n)), np.array([corner]), gamma), lower_bound=bound,
        dual_bound=bound, failure=1e-9, exact=False, unique=False,
        certified_nodes=np.zeros(n, dtype=bool),
    )  # fmt: skip


def test_nobody_can_know_where_the_check_starts(large):
    (seed,) = np.random.SeedSequence(0).spawn(1)
    start = np.random.default_rng(seed.spawn(1)[0]).standard_normal(601)
    forged = forged_for(start)
    assert forged.verify(random_state=0)  # made for this start, so it is not noticed
    for _ in range(5):
        refused(forged)
    refused(forged, random_state=1)


def test_the_same_seed_gives_the_same_check(large):
    instance, z = planted_instance([70, 80], p=0.3, q=0.25, t=0.25, cost=0.5, known=0.3)
    proof = certify_instance(instance, z, time_budget=0, max_iter=0)
    once, again = proof.verify(random_state=3), proof.verify(random_state=3)
    assert once == again
    assert proof.verify().lower_bound != proof.verify().lower_bound
    for seed in (-1, 0.5, "x"):
        with pytest.raises(InputError, match="random_state must be"):
            proof.verify(random_state=seed)


def test_a_step_with_nothing_left_is_refused():
    proof = make_proof("small")
    from nodeproof.certificate.labelling.nodes import Step

    K = proof.instance.n_classes
    empty = Dual(np.empty(0), np.empty((K, 0)), np.zeros(K))
    step = Step(np.ones(len(proof.labels), dtype=bool), empty, 0.0)
    refused(replace(proof, steps=(step,)))
