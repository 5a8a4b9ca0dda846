"""Proofs of small problems, drawn at random: steps of every kind, near good ones or not."""

from dataclasses import dataclass, replace

import numpy as np

from certificate_helpers import claim_of, draw_dual, draw_gamma, draw_instance, why_false
from nodeproof.certificate import audit
from nodeproof.certificate.labelling.dual import Dual
from nodeproof.certificate.labelling.families import FAMILIES
from nodeproof.certificate.labelling.flows import PottsDual, has_potts_bound
from nodeproof.certificate.labelling.improve import LiftedBlocks
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.certificate.labelling.potts import PottsAscent

FORMS = ("none", "factors", "one", "each")
NOISE = (0.0, 0.0, 1e-13, 1e-9, 1e-3, 0.3)


def scaled(instance: Instance, scale: float) -> Instance:
    """Return the instance with all that is paid or gained so many times larger."""
    return replace(
        instance, w=scale * instance.w, wt=scale * instance.wt, costs=scale * instance.costs
    )


def draw_scaled(rng: np.random.Generator, kind: str, attracts: bool) -> Instance:
    """Return a small problem of any scale, with a Potts bound if links are to attract."""
    drawn = draw_instance(rng, kind)
    if attracts:
        drawn = replace(drawn, w=abs(drawn.w), wt=abs(drawn.wt))
    return scaled(drawn, float(rng.choice([1.0, 1.0, 1e-6, 1e6])))


def draw_labelling(rng, instance, truth):
    """Return a labelling: one of the best, one that settled, or any."""
    drawn = rng.integers(instance.n_classes, size=instance.n_nodes)
    which = int(rng.integers(4))
    if which == 0:
        return drawn
    return instance.settle(drawn) if which == 1 else rng.choice(truth.optimal)


# Dual variables. ------------------------------------------------------------------------


def draw_potts(rng, instance, z, opened) -> dict:
    """Return a Potts dual: of nothing in particular, or near one that an ascent has found."""
    size = float(np.abs(instance.costs).max()) + abs(instance.w) + 1e-300
    ascent = PottsAscent(instance, opened)
    if rng.random() < 0.2:
        a, y = rng.normal(size=ascent.dual.a.shape), size * rng.normal(size=ascent.dual.y.shape)
        return PottsDual(a, y).to_arrays()
    ascent.sweep(int(rng.choice([0, 1, 5, 40])))
    noise = float(rng.choice(NOISE))
    a = ascent.dual.a * (1.0 + noise * rng.normal(size=ascent.dual.a.shape))
    y = ascent.dual.y + noise * size * rng.normal(size=ascent.dual.y.shape)
    if rng.random() < 0.3:  # the tangent at the labelling
        a = np.bincount(z, weights=instance.eta, minlength=instance.n_classes)
    return PottsDual(a, y).to_arrays()


def draw_spectral(rng, instance, z, opened) -> dict:
    """Return a spectral dual: of nothing in particular, or near one that is good."""
    n, K = instance.costs.shape
    size = float(np.abs(instance.costs).max()) + abs(instance.w) + 1e-300
    if rng.random() < 0.2:
        return draw_dual(rng, n, K, str(rng.choice(FORMS)), size).to_arrays()
    dual = FAMILIES[str(rng.choice(list(FAMILIES)))](instance, z)
    if rng.random() < 0.3:
        blocks = LiftedBlocks(instance, z, dual)
        for _ in range(int(rng.choice([3, 15]))):
            blocks.step()
        found = blocks.duals(z)
        dual = found[int(rng.integers(len(found)))] if found else dual
    noise = float(rng.choice(NOISE))
    other = draw_dual(rng, n, K, "none", noise * size)
    gamma = dual.gamma
    if noise and rng.random() < 0.5:
        gamma = draw_gamma(rng, n, K, str(rng.choice(FORMS)), noise * size)
    parts = (dual.nu + other.nu, dual.r + other.r, dual.sigma + other.sigma)
    return Dual(*parts, gamma).to_arrays()


DRAWN = {"potts": draw_potts, "spectral": draw_spectral}


# Steps. ---------------------------------------------------------------------------------


@dataclass
class Counts:
    """How much drawn proofs prove, so that those that prove nothing are noticed."""

    proofs: int = 0
    excluding: int = 0
    close: int = 0
    chained: int = 0
    named: int = 0


def draw_proof(rng, instance, z, kind, n_steps=1, free=False, groups=False):
    """Return a problem, a labelling and steps as named arrays."""
    p, (n, K) = instance.audited, instance.costs.shape
    of, offset = p.unnamed(z) if free else (p, 0.0)
    anchors = draw_anchors(rng, z) if free else np.empty(0, dtype=np.int64)
    state = audit.State(of, z, anchors)
    arrays = {**instance.to_arrays(), "labels": z, "possible": np.ones((n, K), dtype=bool)}
    if free:
        arrays["anchors"] = anchors
    for k in range(n_steps):
        state.name()
        opened = state.possible.copy()
        if rng.random() < 0.2:
            opened |= rng.random((n, K)) < 0.3
        fixed = opened.sum(axis=1) == 1
        if fixed.all():
            break
        part = draw_step(rng, of, z, opened, fixed, kind, groups)
        if free:
            part["free"] = np.array(True)
        arrays |= {f"step{k}_{name}": array for name, array in part.items()}
        own = {name: array for name, array in part.items() if name != "free"}
        audit.take_step(of, state, own, 0.0, offset)
    return arrays


def draw_step(rng, p, z, opened, fixed, kind, groups) -> dict:
    """Return a step about the nodes that are not fixed."""
    left, _ = p.reduced(z, fixed)
    instance, loose = Instance.of_audited(left), ~fixed
    name = kind if kind != "any" else str(rng.choice(list(DRAWN)))
    if not has_potts_bound(instance):
        name = "spectral"
    part: dict = {"open": opened}
    if groups:
        size = float(np.abs(instance.costs).max()) + abs(instance.w) + 1e-300
        kappa = size * 10.0 ** rng.uniform(-3.0, 1.0)
        raised = np.zeros_like(opened)
        some = np.flatnonzero(loose & (rng.random(len(z)) < rng.choice([0.3, 1.0])))
        raised[some, z[some]] = True
        if rng.random() < 0.3:
            raised[some] |= rng.random((len(some), opened.shape[1])) < 0.3
        part |= {"raised": raised, "kappa": np.array(kappa)}
        instance = replace(instance, costs=instance.costs + kappa * raised[loose])
    elif rng.random() < 0.1:
        part["plain"] = np.array(True)
    return part | DRAWN[name](rng, instance, z[loose], opened[loose])


def draw_anchors(rng, z):
    """Return a node of each class, in any order; sometimes of fewer, or twice."""
    classes = rng.permutation(np.unique(z))
    anchors = [int(rng.choice(np.flatnonzero(z == i))) for i in classes]
    if rng.random() < 0.1:
        anchors = anchors[:1] * 2 + anchors[1:]
    return np.array(anchors, dtype=np.int64)


def check_honest(arrays, truth, counts: Counts) -> None:
    """Assert that nothing that the auditor finds in a proof is false, and count what it finds."""
    p, z, found = audit.examine(arrays)
    for renaming in (False, True):
        known = found.unnamed if renaming else found.possible
        claimed = arrays | {"possible": known}
        claim = claim_of(found, p.tolerance(z), renaming)
        said = why_false(claim, claimed, truth)
        assert not said, said
        check = audit.audit(claim, claimed)
        assert check, check.reason
    counts.proofs += 1
    counts.excluding += not (found.possible.all() and found.unnamed.all())
    counts.close += found.objective - found.lower_bound <= 1e-6 * abs(found.objective)
    counts.chained += "step1_open" in arrays
    counts.named += found.unnamed.sum(axis=1).min() == 1
