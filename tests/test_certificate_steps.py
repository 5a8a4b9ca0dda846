"""Proofs in steps: sure nodes are fixed, and what is left is bounded."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from certificate_helpers import (
    KINDS,
    changed,
    draw_instance,
    exact_value,
    planted_instance,
    refused,
)
from nodeproof.certificate import Certificate, audit
from nodeproof.certificate.labelling.certify import certify_instance
from nodeproof.certificate.labelling.dual import Dual
from nodeproof.certificate.labelling.families import FAMILIES
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.certificate.labelling.potts import PottsAscent

pytestmark = pytest.mark.usefixtures("one_thread")


def test_what_is_left_differs_by_a_constant():
    for seed in range(40):
        rng = np.random.default_rng([71, seed])
        instance = draw_instance(rng, KINDS[seed % 3])
        n, K = instance.n_nodes, instance.n_classes
        z, sure = rng.integers(K, size=n), rng.random(n) < 0.5
        if sure.all():
            continue
        left, error = instance.audited.reduced(z, sure)
        loose = np.flatnonzero(~sure)
        assert error <= 1e-12 * (1.0 + instance.span)
        differences = []
        for _ in range(8):
            other = np.where(sure, z, rng.integers(K, size=n))
            here = exact_value(Instance.of_audited(left), other[loose])
            differences.append(exact_value(instance, other) - here)
            low, high = left.value(other[loose])
            assert Fraction(low) <= here <= Fraction(high)
        assert max(differences) - min(differences) <= 2 * Fraction(error)


def test_dual_variables_of_what_is_left_bound_as_well():
    # With nodes fixed, there is less to lose.
    for seed in range(20):
        rng = np.random.default_rng([73, seed])
        instance = replace(draw_instance(rng, "random"), w=1.0, wt=0.3)
        n, K = instance.n_nodes, instance.n_classes
        z, sure = rng.integers(K, size=n), rng.random(n) < 0.5
        if sure.all() or K == 1:
            continue
        left = Instance.of_audited(instance.audited.reduced(z, sure)[0])
        gap = Fraction(instance.value(z)) - Fraction(left.value(z[~sure]))
        size = 1e-9 * (1.0 + instance.span)
        ascent = PottsAscent(instance)
        ascent.sweep(20)
        every = np.ones((n, K), dtype=bool)
        whole = audit.Potts(instance.audited, every, ascent.dual.to_arrays()).bound
        own = ascent.dual.restrict(instance, z, sure).to_arrays()
        part = audit.Potts(left.audited, every[~sure], own).bound
        assert part + float(gap) >= whole - size
        dual = FAMILIES["F"](instance, z)
        own = dual.restricted(instance, z, sure)
        made = own.nu.sum() - own.sigma.sum()
        assert made + float(gap) == pytest.approx(instance.value(z), abs=size)


@pytest.fixture(scope="module")
def stepped():
    """Return a certificate that took steps."""
    instance, z = planted_instance([60, 60], p=0.3, q=0.15, cost=8.0, known=0.6, t=0.2, seed=2)
    proof = certify_instance(instance, z, max_iter=30)
    assert len(proof.steps) > 1
    assert proof.verify()
    return proof


def test_steps_are_checked(stepped):
    assert not stepped.possible.all()
    refused(replace(stepped, steps=()))
    for k, step in enumerate(stepped.steps):
        loose = np.flatnonzero(step.open.sum(axis=1) > 1)
        one = np.arange(step.open.shape[1]) == stepped.labels[loose[0]]
        m = len(loose)
        negative = Dual(np.zeros(m), np.zeros((2, m)), np.zeros(2), -np.ones((m, m)))
        bad = [
            replace(step, open=changed(step.open, (loose[0], stepped.labels[loose[0]]), False)),
            replace(step, open=np.eye(2, dtype=bool)[stepped.labels]),
            replace(step, open=np.zeros_like(step.open)),
            replace(step, open=step.open[1:]),
            replace(step, dual=negative),
            replace(step, dual=replace(negative, gamma=None, nu=np.full(m, np.nan))),
            replace(step, raised=np.ones_like(step.open), kappa=np.inf),
            replace(step, raised=np.ones_like(step.open), kappa=0.0),
        ]
        if k == 0:
            bad.append(replace(step, open=changed(step.open, loose[0], one)))
        for each in bad:
            refused(replace(stepped, steps=(*stepped.steps[:k], each, *stepped.steps[k + 1 :])))


def test_a_class_that_is_not_excluded_is_not_called_impossible(stepped):
    for v in np.flatnonzero(stepped.possible.sum(axis=1) > 1):
        one = np.arange(2) == stepped.labels[v]
        refused(replace(stepped, possible=changed(stepped.possible, v, one)))
    if not stepped.unique:
        refused(replace(stepped, unique=True))


def test_steps_are_saved(stepped, tmp_path):
    stepped.save(tmp_path / "proof.npz")
    again = Certificate.load(tmp_path / "proof.npz")
    check = again.verify(stepped.instance)
    assert check, check.reason
    assert len(again.steps) == len(stepped.steps)
    for mine, theirs in zip(stepped.steps, again.steps, strict=True):
        one, other = mine.to_arrays(), theirs.to_arrays()
        assert one.keys() == other.keys()
        assert all(np.array_equal(one[name], other[name]) for name in one)
    refused(replace(again, steps=()), stepped.instance)


def test_steps_that_are_interrupted_leave_a_proof():
    instance, z = planted_instance([30, 30], p=0.3, q=0.15, cost=8.0, known=0.6, t=0.2, seed=2)
    count = 0

    def counting(stage):
        nonlocal count
        count += 1

    certify_instance(instance, z, max_iter=10, callback=counting)
    assert count > 6
    for after in np.linspace(1, count - 1, 4).astype(int).tolist():
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
