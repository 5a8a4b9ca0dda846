"""Proofs in steps: sure nodes are fixed, and what is left is bounded."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from certificate_helpers import (
    KINDS,
    Tally,
    changed,
    check_never_wrong,
    draw_instance,
    enumerate_all,
    exact_value,
    planted_instance,
    refused,
)
from nodeproof.certificate import Certificate
from nodeproof.certificate.labelling import ties
from nodeproof.certificate.labelling.certify import certify_instance
from nodeproof.certificate.labelling.nodes import reduce

pytestmark = pytest.mark.usefixtures("one_thread")


def run(kind, seeds, max_iter):
    tally, steps = Tally(), 0
    for seed in seeds:
        rng = np.random.default_rng([67, KINDS.index(kind), seed])
        instance = draw_instance(rng, kind)
        start = rng.integers(instance.n_classes, size=instance.n_nodes)
        proof = certify_instance(instance, start, max_iter=max_iter)
        check_never_wrong(proof, tally, exactly=False)
        steps += len(proof.steps)
    assert tally.certified >= 0.2 * tally.optimal
    return steps


@pytest.mark.parametrize("kind", KINDS)
def test_proofs_in_steps_prove_nothing_false(monkeypatch, kind):
    monkeypatch.setattr(ties, "_MOST", 1)  # small instances would be gone through otherwise
    # Six or more steps, so that it hangs on no single one.
    assert run(kind, range(40), 0) + run(kind, range(400, 450), 40) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_proofs_in_steps_prove_nothing_false_of_hundreds(monkeypatch, kind):
    monkeypatch.setattr(ties, "_MOST", 1)
    # Ties leave few nodes sure, and then there is little to go on from: hence so many.
    assert run(kind, range(100, 400), 0) + run(kind, range(400, 600), 40) >= 10


def test_what_is_left_differs_by_a_constant():
    for seed in range(40):
        rng = np.random.default_rng([71, seed])
        instance = draw_instance(rng, KINDS[seed % 3])
        n, K = instance.n_nodes, instance.n_classes
        z, sure = rng.integers(K, size=n), rng.random(n) < 0.5
        if sure.all():
            continue
        left = reduce(instance, z, sure)
        np.testing.assert_array_equal(left.loose, np.flatnonzero(~sure))
        assert left.error <= 1e-12 * (1.0 + instance.span)
        differences = []
        for _ in range(8):
            other = np.where(sure, z, rng.integers(K, size=n))
            here = exact_value(left.instance, other[left.loose])
            differences.append(exact_value(instance, other) - here)
            assert Fraction(left.objective(other)) >= here
        assert max(differences) - min(differences) <= 2 * Fraction(left.error)


def test_a_bound_of_what_is_left_bounds_the_whole():
    for seed in range(40):
        rng = np.random.default_rng([73, seed])
        instance = draw_instance(rng, KINDS[seed % 3])
        truth = enumerate_all(instance)
        # Nodes that every optimal labelling puts alike may be fixed.
        sure = (truth.optimal == truth.optimal[0]).all(axis=0) & (
            rng.random(instance.n_nodes) < 0.7
        )
        z = np.where(sure, truth.optimal[0], rng.integers(instance.n_classes, size=len(sure)))
        if sure.all():
            continue
        left = reduce(instance, z, sure)
        inner = enumerate_all(left.instance).best
        bound = left.lift(instance, z, float(inner) - 1e-15 * abs(float(inner)))
        assert Fraction(bound) <= truth.best
        assert bound >= float(truth.best) - 1e-11 * (1.0 + instance.span)


@pytest.fixture(scope="module")
def stepped():
    """Return a certificate that took steps."""
    instance, z = planted_instance([60, 60], p=0.3, q=0.15, cost=8.0, known=0.6, t=0.2, seed=2)
    proof = certify_instance(instance, z, max_iter=30)
    assert proof.certified
    assert len(proof.steps) > 1
    assert proof.verify()
    return proof


def test_every_step_is_needed_and_checked(stepped):
    refused(replace(stepped, steps=()))
    refused(replace(stepped, steps=stepped.steps[1:]))
    refused(replace(stepped, steps=stepped.steps[::-1]))
    for k, step in enumerate(stepped.steps):
        loose = np.flatnonzero(~step.sure)
        bad = [
            replace(step, sure=changed(step.sure, loose[0], True)),
            replace(step, sure=np.ones_like(step.sure)),
            replace(step, sure=step.sure[1:]),
            replace(step, dual=replace(step.dual, nu=step.dual.nu[1:])),
            replace(step, dual=replace(step.dual, nu=step.dual.nu * np.nan)),
            replace(step, dual=replace(step.dual, gamma=-np.ones((len(loose), len(loose))))),
        ]
        for each in bad:
            refused(replace(stepped, steps=(*stepped.steps[:k], each, *stepped.steps[k + 1 :])))
    more = stepped.certified_nodes | True
    if not stepped.certified_nodes.all():
        refused(replace(stepped, certified_nodes=more))
        refused(replace(stepped, unique=True))


def test_steps_are_saved(stepped, tmp_path):
    stepped.save(tmp_path / "proof.npz")
    again = Certificate.load(tmp_path / "proof.npz")
    check = again.verify(stepped.instance)
    assert check, check.reason
    assert len(again.steps) == len(stepped.steps)
    refused(replace(again, steps=()), stepped.instance)


def test_steps_that_are_interrupted_leave_a_proof():
    instance, z = planted_instance([60, 60], p=0.3, q=0.15, cost=8.0, known=0.6, t=0.2, seed=2)
    count = 0

    def counting(stage):
        nonlocal count
        count += 1

    certify_instance(instance, z, max_iter=10, callback=counting)
    assert count > 6
    for after in range(1, count + 1, 2):
        seen = []

        def interrupt(stage, seen=seen, after=after):
            seen.append(stage)
            if len(seen) == after:
                raise KeyboardInterrupt

        proof = certify_instance(instance, z, max_iter=10, callback=interrupt)
        assert proof.interrupted
        check = proof.verify()
        assert check, (after, check.reason)

        def stop(stage, seen=seen, after=after):
            seen.append(stage)
            return len(seen) == 2 * after

        proof = certify_instance(instance, z, max_iter=10, callback=stop)
        assert not proof.interrupted
        check = proof.verify()
        assert check, (after, check.reason)
