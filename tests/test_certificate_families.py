"""Dual variables in closed form, and objectives between bounds."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from certificate_helpers import KINDS, draw_instance, exact_value, planted_instance
from nodeproof.certificate.labelling.dual import Matrix
from nodeproof.certificate.labelling.families import FAMILIES, _potentials, closed
from nodeproof.certificate.labelling.instance import Instance

pytestmark = [pytest.mark.numeric, pytest.mark.usefixtures("one_thread")]


# Closed forms. --------------------------------------------------------------------------


def test_every_family_annihilates_its_classes_and_makes_up_the_objective():
    for seed in range(30):
        rng = np.random.default_rng([41, seed])
        instance = draw_instance(rng, KINDS[seed % 3])
        n, K = instance.n_nodes, instance.n_classes
        z = rng.integers(K, size=n)
        gamma = np.triu(rng.exponential(size=(K, n, n)), 1)
        tau = rng.normal(size=n)
        duals = [FAMILIES[name](instance, z) for name in FAMILIES]
        duals.append(closed(instance, z, tau, gamma + gamma.transpose(0, 2, 1)))
        for dual in duals:
            assert np.isfinite(dual.bound(instance))
            made = dual.nu.sum() - dual.sigma.sum()
            size = 1.0 + np.abs(dual.nu).sum() + np.abs(dual.sigma).sum()
            assert made == pytest.approx(instance.value(z), abs=1e-13 * size)
            for i in range(K):
                matrix = Matrix(instance, dual, i)
                y = np.r_[1.0 / matrix.corner_scale, z == i]
                # The two directions of Γ meet halfway: a family may miss by that.
                if dual.gamma is None or dual is duals[-1] or instance.symmetric:
                    np.testing.assert_allclose(matrix.dense() @ y, 0.0, atol=1e-12 * size)


@pytest.mark.parametrize("name", ["F", "G"])
def test_the_bound_is_the_objective_where_matrices_are_semidefinite(name):
    cost = 8.0 if name == "F" else 0.0
    instance, z = planted_instance([30, 40, 50], p=0.6, cost=cost)
    bound = FAMILIES[name](instance, z).bound(instance)
    low, high = instance.audited.value(z)
    assert low - 1e-9 * instance.span <= bound <= high


def test_an_empty_class_costs_the_proof_nothing():
    instance, z = planted_instance([30, 40], p=0.6)
    costs = np.column_stack([np.zeros((70, 2)), np.full(70, 5.0)])
    three = Instance(instance.adjacency, instance.eta, instance.w, instance.wt, costs)
    for name in FAMILIES:
        dual = FAMILIES[name](three, z)
        assert np.isfinite(dual.bound(three))


def test_potentials_leave_no_name_cheaper():
    for seed in range(50):
        rng = np.random.default_rng([43, seed])
        k = int(rng.integers(2, 6))
        named = rng.normal(size=(k, k))
        np.fill_diagonal(named, 0.0)
        # No renaming is cheaper: potentials exist.
        shift = 3.0 * rng.normal(size=k)
        named = np.abs(named) + shift[:, None] - shift
        np.fill_diagonal(named, 0.0)
        sums = rng.normal(size=k)
        T = _potentials(sums, named, np.ones(k, dtype=bool))
        assert (sums - 1e-9 <= T).all()
        assert (named + T[:, None] - T >= -1e-9).all()


def test_potentials_are_equal_where_names_are_right():
    sums = np.array([1.0, -2.0, 0.5])
    T = _potentials(sums, 1.0 - np.eye(3), np.ones(3, dtype=bool))
    np.testing.assert_array_equal(T, [1.0, 1.0, 1.0])
    # The empty class must not be a better name for another.
    named = np.array([[0.0, 1.0, -4.0], [1.0, 0.0, -3.0], [0.0, 0.0, 0.0]])
    T = _potentials(sums, named, np.array([True, True, False]))
    assert T[:2] == pytest.approx([4.0, 4.0])


# Rounding. ------------------------------------------------------------------------------


def test_objectives_are_between_their_bounds():
    for seed in range(60):
        rng = np.random.default_rng([47, seed])
        instance = draw_instance(rng, KINDS[seed % 3])
        z = rng.integers(instance.n_classes, size=instance.n_nodes)
        low, high = instance.audited.value(z)
        exact = exact_value(instance, z)
        assert Fraction(low) <= exact <= Fraction(high)
        assert high - low <= 1e-13 * instance.span + 1e-289
        assert low <= instance.value(z) <= high
        assert abs(exact) <= Fraction(instance.span) * (1 + Fraction(1, 10**12))
        assert 0.0 < instance.audited.tolerance(z) <= 3e-9 * instance.span + 1e-288
        H = instance.gains(z)
        B = instance.dense()
        np.testing.assert_allclose(H, B @ np.eye(instance.n_classes)[z], atol=1e-12)


def test_settling_never_raises_the_objective_and_keeps_ties():
    for seed in range(40):
        rng = np.random.default_rng([53, seed])
        instance = draw_instance(rng, KINDS[seed % 3])
        z = rng.integers(instance.n_classes, size=instance.n_nodes)
        before = z.copy()
        settled = instance.settle(z)
        np.testing.assert_array_equal(z, before)
        assert instance.value(settled) <= instance.value(z) + 1e-11 * (1.0 + instance.span)
        np.testing.assert_array_equal(instance.settle(settled), settled)
        # No single move is better.
        for v in range(len(z)):
            for i in range(instance.n_classes):
                moved = settled.copy()
                moved[v] = i
                worth = 1e-10 * (1.0 + instance.span)
                assert instance.value(moved) >= instance.value(settled) - worth
    empty = Instance(sp.csr_array((2, 2)), np.zeros(2), 0.0, 0.0, np.array([[1.0, 0.0]] * 2))
    np.testing.assert_array_equal(empty.settle(np.array([0, 0])), [1, 1])
