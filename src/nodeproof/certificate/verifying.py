"""Whether all that a certificate says follows from the numbers that it holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nodeproof import threads
from nodeproof.certificate.checking import Check, check_dual
from nodeproof.certificate.dual import Dual
from nodeproof.certificate.instance import Instance
from nodeproof.certificate.judging import judge
from nodeproof.certificate.nodes import NodeCertificates, certify_nodes
from nodeproof.certificate.reducing import Step, reduce
from nodeproof.certificate.spectrum import DENSE_MOST
from nodeproof.certificate.ties import resolve_ties

if TYPE_CHECKING:
    from nodeproof.certificate.result import Certificate

__all__ = ["percent", "status_of", "sure_nodes", "verify_certificate"]

Labels = NDArray[np.int64]

# Two sums of the same numbers differ by less than this.
_ROUNDED = 1e-13
# Two proofs by the same dual variables differ by less than this, relative to all numbers.
_AUDITED = 1e-12


def status_of(certified: bool, failure: float, gap: float) -> str:
    """Return the status of a certificate."""
    if certified:
        return f"certified (probability ≥ 1 − {failure:.0e})" if failure else "certified"
    return f"gap ≤ {percent(gap)}" if gap < 1.0 else "not certified"


def percent(share: float) -> str:
    """Return a share as a percentage, rounded up."""
    value = 100.0 * share
    if value <= 0:
        return "0 %"
    digits = max(0, 1 - math.floor(math.log10(value)))
    shown = math.ceil(value * 10**digits) / 10**digits
    return f"{shown:.{min(digits, 12)}f} %"


def verify_certificate(certificate: Certificate) -> Check:
    """Return whether its claims are confirmed."""
    c = certificate
    if c.instance is None or c.dual is None:
        return Check(False, math.nan, -math.inf, "it holds no dual variables to check")
    with threads.using(1):
        objective, bound, wrong = check_dual(c.instance, c.labels, c.dual)
        wrong = wrong or _contradicts_itself(c) or _below(c, c.instance, bound, c.dual_bound)
        if not wrong:
            bound, wrong = _check_steps(c, c.instance, objective, bound)
        wrong = wrong or _wrong_bound(c, c.instance, objective, bound)
    return Check(not wrong, objective, bound, wrong)


def _check_steps(
    c: Certificate, instance: Instance, objective: float, bound: float
) -> tuple[float, str]:
    """Return the best bound of all steps, and what is not confirmed of nodes and ties, if any."""
    dual = c.node_dual or c.dual
    if dual is None or not (c.certified_nodes.any() or c.exact or c.unique or c.steps):
        return bound, ""
    found = sure_nodes(instance, c.labels, dual, objective, c.steps)
    if isinstance(found, str):
        return bound, found
    sure, names = found.certified, found.renaming
    if names > c.renaming and (c.certified_nodes.any() or c.unique):
        return bound, "nodes are proven up to the names of their classes only"
    for step in c.steps:
        left = reduce(instance, c.labels, step.sure)
        _, inner, wrong = check_dual(left.instance, c.labels[left.loose], step.dual)
        if wrong := wrong or _below(c, left.instance, inner, step.bound):
            return bound, wrong
        bound = max(bound, left.lift(instance, c.labels, inner))
    if (c.certified_nodes & ~sure).any():
        return bound, "some nodes are not proven to keep their class"
    if c.unique and not sure.all():
        return bound, "it is not proven to be the only one"
    if c.exact:
        best = resolve_ties(instance, c.labels, sure, names and not c.steps)
        if c.failure or best is None or not np.array_equal(best, c.labels):
            return bound, "it is not proven to be the best without a tolerance"
        bound = max(bound, instance.value_between(c.labels)[0])
    return bound, ""


def _below(c: Certificate, instance: Instance, bound: float, claimed: float) -> str:
    """Return that dual variables prove less than is claimed of them, or nothing."""
    if bound >= claimed - max(c.tolerance + _AUDITED * instance.span, 1e-6 * abs(claimed)):
        return ""
    return f"the dual variables prove {bound:.12g}, not {claimed:.12g}"


def sure_nodes(
    instance: Instance, z: Labels, dual: Dual, objective: float, steps: Sequence[Step]
) -> NodeCertificates | str:
    """Return which nodes all steps of a proof make sure, or where a step goes too far."""
    judgement = judge(instance, dual, z, seed=1)
    found = certify_nodes(instance, dual, z, judgement, objective)
    if steps and found.renaming and not instance.symmetric:
        return "names of classes are not proven, and not free to choose"
    sure = found.certified.copy()
    for step in steps:
        if step.sure.shape != sure.shape or (step.sure & ~sure).any():
            return "a step takes nodes for sure that are not"
        left = reduce(instance, z, step.sure)
        if not step.dual.valid(left.instance):
            return "the dual variables of a step are none"
        judgement = judge(left.instance, step.dual, z[left.loose], seed=2)
        more = certify_nodes(left.instance, step.dual, z[left.loose], judgement, left.objective(z))
        if not more.renaming:
            sure[left.loose] |= more.certified
    return NodeCertificates(sure, found.renaming)


def _contradicts_itself(certificate: Certificate) -> str:
    """Return where what it says does not fit together, or nothing."""
    c = certificate
    if not (
        math.isfinite(c.objective) and 0 <= c.tolerance < math.inf and c.lower_bound < math.inf
    ):
        return "some of its numbers are not finite"
    if not (c.gap >= 0 and 0 <= c.failure < 1):
        return "its gap or its probability is none"
    missing = c.objective - c.lower_bound
    if c.certified and not missing <= c.tolerance:
        return f"it leaves {missing:.3g}, above its tolerance"
    if c.gap < math.inf and not missing <= c.gap * abs(c.objective) * (1 + 1e-9) + c.tolerance:
        return "its gap is larger"
    if c.status != status_of(c.certified, c.failure, c.gap):
        return "its status is not that of its numbers"
    if c.certified_nodes.shape != c.labels.shape:
        return "shapes do not fit together"
    if (c.exact or c.unique) and not c.certified:
        return "it says more than that it is not certified"
    linked = c.instance is not None and c.instance.linked
    if len(c.labels) + 1 > DENSE_MOST and linked and not c.failure > 0:
        return "of so many nodes nothing is proven without a probability"
    return ""


def _wrong_bound(c: Certificate, instance: Instance, objective: float, bound: float) -> str:
    """Return which of objective and bound is not confirmed, or nothing."""
    if objective > c.objective + 0.1 * c.tolerance + _ROUNDED * abs(objective):
        return f"the objective is {objective:.12g}, not {c.objective:.12g}"
    tolerance = c.tolerance + _AUDITED * instance.span
    if c.certified and not objective - bound <= tolerance:
        return f"the dual variables leave {objective - bound:.3g}, above the tolerance"
    return _below(c, instance, bound, c.lower_bound)
