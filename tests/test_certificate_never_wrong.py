"""A certificate is never wrong: held against all labellings, in rational numbers."""

from dataclasses import replace
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp

from certificate_helpers import (
    KINDS,
    Tally,
    check_never_wrong,
    draw_dual,
    draw_instance,
    draw_problem,
    enumerate_all,
    exact_value,
)
from drawn_proofs import (
    FORMS,
    Counts,
    check_honest,
    draw_labelling,
    draw_potts,
    draw_proof,
    draw_scaled,
    scaled,
)
from nodeproof import certify
from nodeproof.certificate import audit
from nodeproof.certificate.labelling.certify import certify_instance
from nodeproof.certificate.labelling.dual import Dual
from nodeproof.certificate.labelling.families import FAMILIES
from nodeproof.certificate.labelling.improve import Ascent, LiftedBlocks
from nodeproof.certificate.labelling.instance import Instance

pytestmark = pytest.mark.usefixtures("one_thread")

#: what a proof is made of: the kind of dual variables, how many steps, free names, groups
PROOFS = {
    "potts": ("potts", 1, False, False),
    "spectral": ("spectral", 1, False, False),
    "names": ("any", 2, True, False),
    "groups": ("any", 2, False, True),
    "groups up to names": ("any", 3, True, True),
    "chains": ("any", 5, False, False),
}
FEW, MANY = range(25), range(1000, 1300)


@pytest.fixture(params=["compared", "not compared"])
def left(request, monkeypatch):
    """Let the labellings that are left be compared one by one, or not."""
    if request.param == "not compared":
        monkeypatch.setattr(audit, "ENUMERATED", 1)


# Steps. ---------------------------------------------------------------------------------


def run_proofs(name, kind, seeds) -> list[Counts]:
    """Count what drawn proofs prove with labellings that are left compared one by one, and not."""
    of, n_steps, free, groups = PROOFS[name]
    counts = {audit.ENUMERATED: Counts(), 1: Counts()}
    for seed in seeds:
        rng = np.random.default_rng([101, sorted(PROOFS).index(name), KINDS.index(kind), seed])
        instance = draw_scaled(rng, kind, attracts=of == "potts" or rng.random() < 0.7)
        truth = enumerate_all(instance)
        z = draw_labelling(rng, instance, truth)
        proof = draw_proof(rng, instance, z, of, n_steps, free, groups)
        for compared, counted in counts.items():
            with mock.patch.object(audit, "ENUMERATED", compared):
                check_honest(proof, truth, counted)
    return list(counts.values())


def prove_something(name, counted):
    for counts in counted:
        assert counts.excluding >= 0.1 * counts.proofs
        if name in ("potts", "spectral"):
            assert counts.close >= 0.1 * counts.proofs
        if name == "chains":
            assert counts.chained >= 0.2 * counts.proofs


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PROOFS)
def test_drawn_proofs_prove_nothing_false(name, kind):
    prove_something(name, run_proofs(name, kind, FEW))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PROOFS)
def test_drawn_proofs_prove_nothing_false_of_thousands(name, kind):
    prove_something(name, run_proofs(name, kind, MANY))


# Certificates. --------------------------------------------------------------------------


def run(kind, seeds, **options) -> Tally:
    tally = Tally()
    for seed in seeds:
        rng = np.random.default_rng([KINDS.index(kind), seed])
        instance = draw_instance(rng, kind)
        start = rng.integers(instance.n_classes, size=instance.n_nodes)
        proof = certify_instance(instance, start, **options)
        check_never_wrong(proof, tally, exactly=audit.ENUMERATED > 1)
    return tally


def not_idle(tally, share=0.2):
    assert tally.certified >= share * tally.optimal
    assert tally.nodes >= 0.2 * tally.all_nodes
    assert tally.unique >= 0.1 * tally.optimal


@pytest.mark.usefixtures("left")
@pytest.mark.parametrize("kind", KINDS)
def test_first_attempts_prove_nothing_false(kind):
    not_idle(run(kind, range(40), time_budget=0))


@pytest.mark.parametrize("kind", KINDS)
def test_a_search_proves_nothing_false(kind, monkeypatch):
    monkeypatch.setattr(audit, "ENUMERATED", 1)
    tally = run(kind, range(10_000, 10_012), max_iter=40)
    not_idle(tally)
    assert {"potts", "groups", "blocks", "nodes"} & tally.methods


@pytest.mark.slow
@pytest.mark.usefixtures("left")
@pytest.mark.parametrize("kind", KINDS)
def test_thousands_of_certificates_are_confirmed_and_prove_nothing_false(kind):
    not_idle(run(kind, range(60, 560), time_budget=0))


@pytest.mark.slow
def test_most_small_problems_are_certified_by_a_search(monkeypatch):
    monkeypatch.setattr(audit, "ENUMERATED", 1)
    not_idle(run("random", range(20_000, 20_080), time_budget=1.0), share=0.7)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_search_proves_nothing_false_of_hundreds(kind, monkeypatch):
    monkeypatch.setattr(audit, "ENUMERATED", 1)
    not_idle(run(kind, range(10_030, 10_060), time_budget=0.5))


def run_problems(seeds, **options):
    tally = Tally()
    for seed in seeds:
        rng = np.random.default_rng([7, seed])
        problem = draw_problem(rng)
        labels = rng.integers(problem.n_classes, size=problem.n_nodes)
        models = problem.fit_models(np.eye(problem.n_classes)[labels])
        proof = certify(problem, labels, models=models, **options)
        check_never_wrong(proof, tally, exactly=audit.ENUMERATED > 1)
        # The instance is the problem's: its values differ as the problem's do.
        others = rng.integers(problem.n_classes, size=(3, problem.n_nodes))
        values = [problem.free_energy(np.eye(problem.n_classes)[z], models) for z in others]
        exact = [float(exact_value(proof.instance, z)) for z in others]
        size = 1e-9 * (1.0 + np.abs(values).max() + np.abs(exact).max())
        assert np.ptp(np.subtract(values, exact)) <= size
    not_idle(tally)


@pytest.mark.usefixtures("left")
def test_certificates_of_problems_prove_nothing_false():
    run_problems(range(40), time_budget=0)


@pytest.mark.slow
@pytest.mark.usefixtures("left")
def test_certificates_of_problems_prove_nothing_false_of_hundreds():
    run_problems(range(1000, 1200), time_budget=0)
    run_problems(range(2000, 2020), max_iter=40, time_budget=0.5)


# Bounds. --------------------------------------------------------------------------------


def check_dual_is_honest(instance, dual, z, truth) -> float:
    """Assert that a bound is one, and all that follows from it is true; return it."""
    arrays = {
        **instance.to_arrays(),
        "labels": z,
        "step0_open": np.ones(instance.costs.shape, bool),
    }
    arrays |= {f"step0_{name}": array for name, array in dual.to_arrays().items()}
    bound = dual.bound(instance)
    assert np.isfinite(bound)
    assert Fraction(bound) <= truth.best
    if instance.n_classes > 1:  # else there is nothing that a step could be about
        check_honest(arrays, truth, Counts())
    return bound


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
        bound = check_dual_is_honest(instance, exact, truth.optimal[0], truth)
        assert bound == pytest.approx(float(truth.best), abs=1e-11)


def test_the_bound_is_wrong_by_nothing_but_rounding():
    # Where costs decide, the bound is the optimum; scaled, it scales.
    rng = np.random.default_rng(17)
    for scale in (1e-6, 1.0, 1e6):
        instance = scaled(
            Instance(sp.csr_array((6, 6)), np.zeros(6), 1.0, 0.5, rng.random((6, 3))), scale
        )
        truth = enumerate_all(instance)
        z = truth.optimal[0]
        bound = check_dual_is_honest(instance, FAMILIES["F"](instance, z), z, truth)
        assert bound == pytest.approx(float(truth.best), rel=1e-12)
        every = np.ones((6, 3), dtype=bool)
        potts = audit.Potts(instance.audited, every, {"a": np.zeros(3), "y": np.empty((0, 3))})
        assert Fraction(potts.bound) <= truth.best
        assert potts.bound == pytest.approx(float(truth.best), rel=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_what_ascent_and_blocks_find_bounds_from_below(kind):
    climbed = 0
    for seed in range(6):
        rng = np.random.default_rng([19, KINDS.index(kind), seed])
        instance = draw_instance(rng, kind)
        truth = enumerate_all(instance)
        z = instance.settle(rng.integers(instance.n_classes, size=instance.n_nodes))
        for name in FAMILIES:
            start = FAMILIES[name](instance, z)
            before = start.bound(instance)
            after = before
            for step, (_, dual) in zip(range(12), Ascent(instance, start, seed), strict=False):
                if step % 4 == 3:
                    after = max(after, check_dual_is_honest(instance, dual, z, truth))
            blocks = LiftedBlocks(instance, z, start, alike=instance.symmetric)
            for _ in range(5):
                blocks.step()
            for dual in blocks.duals(z):
                after = max(after, check_dual_is_honest(instance, dual, z, truth))
            climbed += after > before
    assert climbed >= 3


# What is no dual variable. --------------------------------------------------------------


def small_instance():
    instance = draw_instance(np.random.default_rng([0, 4]), "random")
    assert instance.n_nodes > instance.n_classes > 1
    return replace(instance, w=abs(instance.w), wt=abs(instance.wt))


@pytest.mark.parametrize("form", FORMS)
def test_what_are_no_dual_variables_prove_nothing(form):
    rng = np.random.default_rng(29)
    instance = small_instance()
    n, K = instance.n_nodes, instance.n_classes
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
        assert each.bound(instance) == -np.inf
        with pytest.raises((audit.Refused, IndexError)):
            audit.Spectral(instance.audited, each.to_arrays())


def test_what_are_no_flows_prove_nothing():
    rng = np.random.default_rng(31)
    instance = small_instance()
    every = np.ones(instance.costs.shape, dtype=bool)
    good = draw_potts(rng, instance, np.zeros(instance.n_nodes, dtype=np.int64), every)
    assert np.isfinite(audit.Potts(instance.audited, every, good).bound)
    a, y = good["a"], good["y"]
    broken = [
        {"a": a[1:], "y": y}, {"a": a, "y": y[1:]}, {"a": a, "y": y[:, 1:]}, {"a": a, "y": y.T},
        {"a": a * np.nan, "y": y}, {"a": a, "y": np.full_like(y, np.inf)},
        {"a": a, "y": np.full_like(y, 1e200)}, {"a": a.astype(complex), "y": y},
        {"a": a, "y": y.astype(str)}, {"a": a[:, None], "y": y},
    ]  # fmt: skip
    for dual in broken:
        with pytest.raises(audit.Refused):
            audit.Potts(instance.audited, every, dual)
    for signs in ({"w": -instance.w}, {"wt": -instance.wt}):
        with pytest.raises(audit.Refused):
            audit.Potts(replace(instance, **signs).audited, every, good)
