"""Whether all that a certificate says follows from the numbers that it holds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from nodeproof import threads
from nodeproof.certificate.checking import Check, check_dual
from nodeproof.certificate.instance import Instance
from nodeproof.certificate.judging import judge
from nodeproof.certificate.nodes import certify_nodes
from nodeproof.certificate.spectrum import DENSE_MOST
from nodeproof.certificate.ties import resolve_ties

if TYPE_CHECKING:
    from nodeproof.certificate.result import Certificate

__all__ = ["percent", "status_of", "verify_certificate"]

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
    if certificate.instance is None or certificate.dual is None:
        return Check(False, math.nan, -math.inf, "it holds no dual variables to check")
    with threads.using(1):
        objective, bound, wrong = check_dual(
            certificate.instance, certificate.labels, certificate.dual
        )
        wrong = (
            wrong
            or _contradicts_itself(certificate)
            or _wrong_bound(certificate, certificate.instance, objective, bound)
            or _wrong_nodes(certificate, certificate.instance, objective)
        )
    return Check(not wrong, objective, bound, wrong)


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
    if not bound >= c.lower_bound - max(tolerance, 1e-6 * abs(c.lower_bound)):
        return f"they prove {bound:.12g}, not {c.lower_bound:.12g}"
    return ""


def _wrong_nodes(c: Certificate, instance: Instance, objective: float) -> str:
    """Return what is not confirmed of single nodes and of ties, or nothing."""
    dual = c.node_dual or c.dual
    if dual is None or not (c.certified_nodes.any() or c.exact or c.unique):
        return ""
    judgement = judge(instance, dual, c.labels, seed=1)
    found = certify_nodes(instance, dual, c.labels, judgement, objective)
    if (c.certified_nodes & ~found.certified).any() or (
        c.certified_nodes.any() and found.renaming > c.renaming
    ):
        return "some nodes are not proven to keep their class"
    if c.unique and not (found.certified.all() and found.renaming <= c.renaming):
        return "it is not proven to be the only one"
    if c.exact:
        best = resolve_ties(instance, c.labels, found.certified, found.renaming)
        if c.failure or best is None or not np.array_equal(best, c.labels):
            return "it is not proven to be the best without a tolerance"
    return ""
