"""A certificate is never wrong: held against all labellings, in rational numbers."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from certificate_helpers import (
    KINDS,
    Tally,
    audit,
    check_never_wrong,
    draw_dual,
    draw_gamma,
    draw_instance,
    draw_problem,
    enumerate_all,
    exact_value,
)
from nodeproof import certify
from nodeproof.certificate.labelling.bound import judge
from nodeproof.certificate.labelling.certify import certify_instance
from nodeproof.certificate.labelling.dual import Dual
from nodeproof.certificate.labelling.families import FAMILIES
from nodeproof.certificate.labelling.improve import Ascent, LiftedBlocks
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.certificate.labelling.nodes import certify_nodes

pytestmark = pytest.mark.usefixtures("one_thread")

FORMS = ["none", "factors", "one", "each"]


def run(kind, seeds, time_budget, max_iter=None):
    tally = Tally()
    for seed in seeds:
        rng = np.random.default_rng([KINDS.index(kind), seed])
        instance = draw_instance(rng, kind)
        start = rng.integers(instance.n_classes, size=instance.n_nodes)
        proof = certify_instance(instance, start, time_budget=time_budget, max_iter=max_iter)
        check_never_wrong(proof, tally)
    return tally


def not_idle(tally):
    assert tally.certified >= 0.2 * tally.optimal
    assert tally.nodes >= 0.2 * tally.all_nodes
    assert tally.unique >= 0.1 * tally.optimal


# Certificates. --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_closed_forms_prove_nothing_false(kind):
    not_idle(run(kind, range(60), time_budget=0))


@pytest.mark.parametrize("kind", KINDS)
def test_better_dual_variables_prove_nothing_false(kind):
    tally = run(kind, range(10_000, 10_030), time_budget=60, max_iter=40)
    not_idle(tally)
    assert "blocks" in tally.methods


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_closed_forms_prove_nothing_false_of_thousands(kind):
    not_idle(run(kind, range(60, 60 + (1000 if kind == "random" else 500)), time_budget=0))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_better_dual_variables_prove_nothing_false_of_hundreds(kind):
    not_idle(run(kind, range(10_030, 10_130), time_budget=60, max_iter=40))


def run_problems(seeds, **options):
    tally = Tally()
    for seed in seeds:
        rng = np.random.default_rng([7, seed])
        problem = draw_problem(rng)
        labels = rng.integers(problem.n_classes, size=problem.n_nodes)
        models = problem.fit_models(np.eye(problem.n_classes)[labels])
        proof = certify(problem, labels, models=models, **options)
        check_never_wrong(proof, tally)
        # The instance is the problem's: its values differ as the problem's do.
        others = rng.integers(problem.n_classes, size=(3, problem.n_nodes))
        values = [problem.free_energy(np.eye(problem.n_classes)[z], models) for z in others]
        exact = [float(exact_value(proof.instance, z)) for z in others]
        size = 1e-9 * (1.0 + np.abs(values).max() + np.abs(exact).max())
        assert np.ptp(np.subtract(values, exact)) <= size
    not_idle(tally)


def test_certificates_of_problems_prove_nothing_false():
    run_problems(range(60), time_budget=0)


@pytest.mark.slow
def test_certificates_of_problems_prove_nothing_false_of_hundreds():
    run_problems(range(1000, 1200), time_budget=0)
    run_problems(range(2000, 2050), max_iter=40)


# Judgements. ----------------------------------------------------------------------------


def scaled(instance, scale):
    """Return the instance with all that is paid or gained so many times larger."""
    return Instance(
        instance.adjacency,
        instance.eta,
        scale * instance.w,
        scale * instance.wt,
        scale * instance.costs,
    )


def check_dual_is_honest(instance, dual, z, truth):
    """Assert that judge, auditor and nodes say nothing false, whatever the labelling; return it."""
    judgement = judge(instance, dual, z)
    # What one proves, the other must not call impossible.
    audited = audit(instance, z, dual, claimed=judgement.lower_bound)
    assert not audited.wrong
    for bound in (judgement.lower_bound, audited.bound):
        assert np.isfinite(bound)
        assert Fraction(bound) <= truth.best
    objective = instance.value_between(z)[1]
    nodes = certify_nodes(instance, dual, z, judgement, objective)
    assert truth.agrees(z, nodes.certified, nodes.renaming)
    return judgement


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("form", FORMS)
def test_any_dual_variables_bound_from_below(form, scale):
    for seed in range(6):
        rng = np.random.default_rng([11, seed])
        instance = scaled(draw_instance(rng, KINDS[seed % 3]), scale)
        n, K = instance.n_nodes, instance.n_classes
        truth = enumerate_all(instance)
        z = rng.integers(K, size=n)
        check_dual_is_honest(instance, draw_dual(rng, n, K, form, scale), z, truth)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("noise", [0.0, 1e-13, 1e-9, 1e-3, 0.3])
def test_dual_variables_near_good_ones_bound_from_below(form, noise):
    # The families lie where the bound is tight: what is too high by little is seen there.
    for seed in range(4):
        rng = np.random.default_rng([13, seed])
        instance = draw_instance(rng, KINDS[seed % 3])
        n, K = instance.n_nodes, instance.n_classes
        truth = enumerate_all(instance)
        best = truth.optimal[0]
        for name in FAMILIES:
            dual = FAMILIES[name](instance, best)
            other = draw_dual(rng, n, K, "none", noise)
            gamma = draw_gamma(rng, n, K, form, noise) if form != "factors" else dual.gamma
            dual = Dual(dual.nu + other.nu, dual.r + other.r, dual.sigma + other.sigma, gamma)
            check_dual_is_honest(instance, dual, best, truth)
            check_dual_is_honest(instance, dual, rng.integers(K, size=n), truth)


def test_matrices_that_are_diagonal_bound_from_below():
    # Nothing but costs, and prices of the corners; classes may outnumber nodes.
    for seed in range(60):
        rng = np.random.default_rng([31, seed])
        n, K = int(rng.integers(1, 5)), int(rng.integers(1, 6))
        costs = rng.integers(-2, 3, size=(n, K)) * 1.0
        instance = Instance(sp.csr_array((n, n)), np.ones(n), 0.0, 0.0, costs)
        dual = Dual(
            costs.min(axis=1) + rng.choice([0.0, 0.5], size=n),
            np.zeros((K, n)),
            rng.choice([0.0, 1.0, -1.0], size=K),
        )
        truth = enumerate_all(instance)
        check_dual_is_honest(instance, dual, rng.integers(K, size=n), truth)
        exact = replace(dual, nu=costs.min(axis=1), sigma=np.zeros(K))
        judgement = check_dual_is_honest(instance, exact, truth.optimal[0], truth)
        assert judgement.lower_bound == pytest.approx(float(truth.best), abs=1e-14)


def test_the_bound_is_wrong_by_nothing_but_rounding():
    # Where costs decide, the bound is the optimum; scaled, it scales.
    rng = np.random.default_rng(17)
    for scale in (1e-6, 1.0, 1e6):
        instance = scaled(
            Instance(sp.csr_array((6, 6)), np.zeros(6), 1.0, 0.5, rng.random((6, 3))), scale
        )
        truth = enumerate_all(instance)
        judgement = check_dual_is_honest(
            instance, FAMILIES["F"](instance, truth.optimal[0]), truth.optimal[0], truth
        )
        assert judgement.lower_bound == pytest.approx(float(truth.best), rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_what_ascent_and_blocks_find_bounds_from_below(kind):
    for seed in range(6):
        rng = np.random.default_rng([19, KINDS.index(kind), seed])
        instance = draw_instance(rng, kind)
        truth = enumerate_all(instance)
        z = instance.settle(rng.integers(instance.n_classes, size=instance.n_nodes))
        for name in FAMILIES:
            start = FAMILIES[name](instance, z)
            for step, (_, dual) in zip(range(12), Ascent(instance, start, seed), strict=False):
                if step % 4 == 3:
                    check_dual_is_honest(instance, dual, z, truth)
            blocks = LiftedBlocks(instance, z, start, alike=instance.symmetric)
            for _ in range(5):
                blocks.step()
            for dual in blocks.duals(z):
                check_dual_is_honest(instance, dual, z, truth)


def test_ascent_climbs():
    climbed = 0
    for seed in range(10):
        rng = np.random.default_rng([23, seed])
        instance = draw_instance(rng, "random")
        z = instance.settle(rng.integers(instance.n_classes, size=instance.n_nodes))
        best = float(enumerate_all(instance).best)
        for family in FAMILIES.values():
            start = family(instance, z)
            before = judge(instance, start, z).lower_bound
            if best - before < 1e-6:
                continue
            looks = zip(range(60), Ascent(instance, start), strict=False)
            after = max(judge(instance, dual, z).lower_bound for _, (_, dual) in looks)
            assert before <= after <= best
            climbed += best - after < 0.5 * (best - before)
    assert climbed >= 3


# What is no dual variable. --------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_what_are_no_dual_variables_prove_nothing(form):
    rng = np.random.default_rng(29)
    instance = draw_instance(np.random.default_rng([0, 4]), "random")
    n, K = instance.n_nodes, instance.n_classes
    assert n > K > 1
    z = np.zeros(n, dtype=np.int64)
    dual = draw_dual(rng, n, K, form)
    broken = [
        replace(dual, nu=dual.nu[1:]),
        replace(dual, r=dual.r.T),
        replace(dual, sigma=np.append(dual.sigma, 0.0)),
        replace(dual, nu=np.where(np.arange(n) == 1, np.nan, dual.nu)),
        replace(dual, r=np.where(np.arange(n) == 1, -np.inf, dual.r)),
        replace(dual, sigma=np.full(K, np.inf)),
    ]
    if form == "factors":
        f = dual.gamma
        lopsided = f.g.copy()
        lopsided[0, 1] += 1e-6
        signed = f.a.copy()
        signed[1, 0] = -1e-9
        broken += [
            replace(dual, gamma=changed)
            for changed in (
                replace(f, a=signed),
                replace(f, g=lopsided),
                replace(f, g=-f.g),
                replace(f, g=f.g + np.eye(K)),
                replace(f, a=np.full((n, K), np.inf)),
                replace(f, g=np.full((K, K), np.nan)),
                replace(f, labels=np.full(n, K)),
                replace(f, labels=np.full(n, -1)),
                replace(f, labels=z[1:]),
                replace(f, a=f.a[1:]),
            )
        ]
    elif form != "none":
        lopsided, signed, own = dual.gamma.copy(), dual.gamma.copy(), dual.gamma.copy()
        lopsided[..., 0, 1] += 1e-6
        signed[..., 0, 1] = signed[..., 1, 0] = -1e-9
        own[..., 2, 2] = 1e-9
        broken += [
            replace(dual, gamma=changed)
            for changed in (lopsided, signed, own, dual.gamma[..., 1:], dual.gamma * np.nan)
        ]
    for each in broken:
        assert judge(instance, each, z).lower_bound == -np.inf
        nodes = certify_nodes(instance, each, z, judge(instance, each, z), 0.0)
        assert not nodes.certified.any()
        audited = audit(instance, z, each)
        assert audited.bound == -np.inf
        assert audited.wrong
