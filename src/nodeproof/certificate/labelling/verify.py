"""What arrays the file of a certificate holds, and which shapes agree with each other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from nodeproof.certificate.labelling.audit import Check, check_dual
from nodeproof.certificate.labelling.bound import FAILURE, judge
from nodeproof.certificate.labelling.dual import Dual
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.certificate.labelling.nodes import NodeCertificates, Step, certify_nodes, reduce
from nodeproof.certificate.labelling.ties import resolve_ties
from nodeproof.errors import InputError
from nodeproof.runtime import threads
from nodeproof.solvers.base import check_at_least
from nodeproof.storage.npz import Header
from nodeproof.storage.schema import Expected, check_layout

if TYPE_CHECKING:
    from nodeproof.certificate.labelling.result import Certificate
    from nodeproof.estimator import NodeClassifier
    from nodeproof.fitted import Fitted

__all__ = [
    "check_certificate",
    "gap_of",
    "percent",
    "special_tolerance",
    "status_of",
    "sure_nodes",
    "verify_certificate",
    "why_not_about",
]

_SAID = {
    "meta": Expected("u", "*", required=True),
    "labels": Expected("i", "n", required=True),
    "certified_nodes": Expected("b", "n", required=True),
    "moved": Expected("i", "*", required=True),
    "eigenvalues": Expected("f", "*", required=True),
    "history": Expected("f", "* 3", required=True),
}
_PROBLEM = {
    "costs": Expected("f", "n K"),
    "eta": Expected("f", "n"),
    "scales": Expected("f", "2"),
    "indptr": Expected("i", "n+1"),
    "indices": Expected("i", "E"),
    "weights": Expected("biuf", "E | 0"),
}
_DUAL = {"nu": "n", "r": "K n", "sigma": "K", "gamma": "n n | K n n", "a": "n K", "g": "K K"}
# Of the nodes that were not sure at a step, there are as many as it says.
_STEP = {name: shapes.replace("n", "n{0}") for name, shapes in _DUAL.items()}
_LAYOUT = (
    _SAID
    | _PROBLEM
    | {f"(?:node_)?{name}": Expected("f", shapes) for name, shapes in _DUAL.items()}
    | {"(?:node_)?factor_labels": Expected("i", "n")}
    | {r"step\d+_sure": Expected("b", "n"), r"step\d+_bound": Expected("f", "")}
    | {rf"step(\d+)_{name}": Expected("f", shapes) for name, shapes in _STEP.items()}
    | {r"step(\d+)_factor_labels": Expected("i", "n{0}")}
)


def check_certificate(headers: Mapping[str, Header]) -> None:
    """Refuse arrays that do not fit together, by their headers alone."""
    check_layout(headers, _LAYOUT)
    groups = ["", "node_"] + [
        name.removesuffix("sure")
        for name in headers
        if name.startswith("step") and name.endswith("_sure")
    ]
    for prefix in groups:
        dual = {prefix + name for name in ("nu", "r", "sigma")} & set(headers)
        if len(dual) not in (0, 3):
            raise ValueError("some dual variables are missing")
        factors = {prefix + name for name in ("factor_labels", "a", "g")} & set(headers)
        if len(factors) not in (0, 3):
            raise ValueError("some factors of dual variables are missing")
    given = set(_PROBLEM) & set(headers)
    if given and not (given == set(_PROBLEM) and "nu" in headers):
        raise ValueError("a part of the labelling problem, or of its dual variables, is missing")
    steps = [name.removesuffix("sure") for name in headers if name.endswith("_sure")]
    for k in range(len(steps)):
        if not {f"step{k}_sure", f"step{k}_bound", f"step{k}_nu"} <= set(headers):
            raise ValueError("the steps of the proof are not all there")


# ------------------------------------------------------------------------------
# Whether all that a certificate says follows from the numbers that it holds.
#
# Nothing that it says of itself decides: neither its tolerance nor its probability, and where it
# comes from a file, not what links and costs it is about.

Labels = NDArray[np.int64]

# Two proofs by the same dual variables differ by less than this, relative to all numbers.
_AUDITED = 1e-12
# Two machines add up a default tolerance, or a probability, alike but for this share.
_ALIKE = 1e-9
_METHODS = ("F", "G", "blocks", "ascent")
_OTHER_FIT = "it is about another fit than the model ({}); certify the model again"


def status_of(certified: bool, failure: float, gap: float, tolerance: float | None = None) -> str:
    """Return the status of a certificate; a tolerance is named where it is not the default."""
    if certified:
        said = [] if tolerance is None else [f"tolerance {tolerance:.3g}"]
        said += [f"probability ≥ 1 − {failure:.0e}"] if failure else []
        return f"certified ({', '.join(said)})" if said else "certified"
    return f"gap ≤ {percent(gap)}" if gap < 1.0 else "not certified"


def gap_of(objective: float, lower_bound: float, tolerance: float) -> float:
    """Return what is missing, relative to the size of the objective."""
    missing = objective - lower_bound
    if missing <= 0 or (missing <= tolerance and abs(objective) <= tolerance):
        return 0.0
    return missing / abs(objective) if objective else math.inf


def special_tolerance(tolerance: float, instance: Instance, z: Labels) -> float | None:
    """Return a tolerance where it is not the default."""
    alike = math.isclose(tolerance, instance.tolerance(z), rel_tol=_ALIKE)
    return None if alike else tolerance


def percent(share: float) -> str:
    """Return a share as a percentage, rounded up."""
    value = 100.0 * share
    if value <= 0:
        return "0 %"
    digits = max(0, 1 - math.floor(math.log10(value)))
    shown = math.ceil(value * 10**digits) / 10**digits
    return f"{shown:.{min(digits, 12)}f} %"


def verify_certificate(
    certificate: Certificate,
    model: NodeClassifier | Fitted | Instance | None,
    tolerance: float | None,
    failure: float,
    random_state: int | None,
) -> Check:
    """Return whether its claims are confirmed, about this model."""
    c = certificate
    if tolerance is not None:
        check_at_least("tolerance", tolerance, 0.0)
    if not 0 < failure < 1:
        raise InputError(f"failure must be a probability between 0 and 1; got {failure}")
    try:
        seed = np.random.SeedSequence(random_state)  # without a number, the system's entropy
    except (TypeError, ValueError):
        message = f"random_state must be None or an integer from 0; got {random_state!r}"
        raise InputError(message) from None
    wrong = why_not_about(c, model)
    if wrong or c.instance is None or c.dual is None:
        wrong = wrong or "it holds no dual variables to check"
        return Check(False, math.nan, -math.inf, wrong)
    with threads.using(1):
        return _Verification(c, c.instance, c.dual, failure, seed).run(tolerance)


def why_not_about(
    certificate: Certificate, model: NodeClassifier | Fitted | Instance | None
) -> str:
    """Return why a certificate is not known to be about a model, or nothing where it is.

    Without a model, one that was made here is about what it was made for; a file says nothing
    of where its links and costs are from.
    """
    c = certificate
    if model is None:
        if not c.loaded:
            return ""
        return (
            "nothing to check it against: a file may be about any links and costs; give the "
            "fitted or loaded model that it is to be about"
        )
    problem: Instance | str
    if isinstance(model, Instance):
        problem = model
    else:
        if hasattr(model, "fit") and hasattr(model, "certify"):
            check_is_fitted(model)
        fitted = getattr(model, "fitted_", model)
        if not hasattr(fitted, "labelling_problem"):
            kind = type(model).__name__
            raise InputError(f"model must be a NodeClassifier or a labelling problem; got {kind}")
        try:
            problem = fitted.labelling_problem()
        except InputError as error:
            if fitted.data is not None:  # the data were changed
                return f"nothing to check it against: {error}"
            return (
                "nothing to check it against: the model was saved without links and costs; give "
                "one that was fitted or saved with them"
            )
        found = fitted.codes
        if c.labels.shape != found.shape:
            return _OTHER_FIT.format("other nodes")
        if not np.array_equal(np.flatnonzero(c.labels != found), c.moved):
            return _OTHER_FIT.format("other labels")
    if isinstance(problem, str) or c.instance is None:
        same = isinstance(problem, str) and c.instance is None
    else:
        same = problem.same_as(c.instance)
    return "" if same else _OTHER_FIT.format("other links or costs")


class _Verification:
    """A certificate on its way through the checks; chances of failure add up."""

    def __init__(
        self,
        certificate: Certificate,
        instance: Instance,
        dual: Dual,
        failure: float,
        seed: np.random.SeedSequence,
    ) -> None:
        self.c, self.instance, self.dual, self.seed = certificate, instance, dual, seed
        # A bound and single nodes, for all nodes and for what each step leaves.
        self.share = failure / (2 + 2 * len(certificate.steps))
        self.failure = 0.0

    def run(self, tolerance: float | None) -> Check:
        """Check everything that it says."""
        c = self.c
        (seed,) = self.seed.spawn(1)
        audit = check_dual(self.instance, c.labels, self.dual, c.dual_bound, self.share, seed)
        self.failure = audit.failure
        objective, bound, wrong = audit.objective, audit.bound, audit.wrong
        accepted = math.nan
        if math.isfinite(objective):
            accepted = self.instance.tolerance(c.labels) if tolerance is None else tolerance
        wrong = wrong or _contradicts_itself(c) or _too_loose(c, accepted)
        wrong = wrong or self._wrong_objective(audit.at_least, objective)
        if not wrong:
            bound, wrong = self._check_steps(objective, bound)
        wrong = wrong or self._wrong_bound(objective, bound)
        return Check(not wrong, objective, bound, wrong, accepted, self.failure)

    def _wrong_objective(self, at_least: float, at_most: float) -> str:
        low, high = self.instance.value_between(self.c.labels)
        if at_least <= self.c.objective <= at_most + (high - low):
            return ""
        return f"the objective is {at_most:.12g}, not {self.c.objective:.12g}"

    def _check_steps(self, objective: float, bound: float) -> tuple[float, str]:
        """Return the best bound of all steps, and what is not confirmed of nodes and ties."""
        c, instance = self.c, self.instance
        claimed = c.dual_bound
        if c.certified_nodes.any() or c.exact or c.unique or c.steps:
            (seed,) = self.seed.spawn(1)
            found, failure = sure_nodes(
                instance, c.labels, c.node_dual or self.dual, objective, c.steps, self.share, seed
            )
            self.failure += failure
            if isinstance(found, str):
                return bound, found
            sure, names = found.certified, found.renaming
            if names > c.renaming and (c.certified_nodes.any() or c.unique):
                return bound, "nodes are proven up to the names of their classes only"
            for step in c.steps:
                left = reduce(instance, c.labels, step.sure)
                (seed,) = self.seed.spawn(1)
                audit = check_dual(
                    left.instance, c.labels[left.loose], step.dual, step.bound, self.share, seed
                )
                self.failure += audit.failure
                if audit.wrong:
                    return bound, audit.wrong
                bound = max(bound, left.lift(instance, c.labels, audit.bound))
                claimed = max(claimed, left.most(instance, c.labels, step.bound))
            if (c.certified_nodes & ~sure).any():
                return bound, "some nodes are not proven to keep their class"
            if c.unique and not sure.all():
                return bound, "it is not proven to be the only one"
            if c.exact:
                best = resolve_ties(instance, c.labels, sure, names and not c.steps)
                if self.failure or best is None or not np.array_equal(best, c.labels):
                    return bound, "it is not proven to be the best without a tolerance"
                low, high = instance.value_between(c.labels)
                bound, claimed = max(bound, low), max(claimed, high)
        if not c.lower_bound <= claimed:
            return bound, f"the dual variables prove {bound:.12g}, not {c.lower_bound:.12g}"
        return bound, ""

    def _wrong_bound(self, objective: float, bound: float) -> str:
        """Return what is not confirmed of the claim as a whole, or nothing."""
        c = self.c
        # What is claimed agrees with the dual variables by now; rounding can leave a little more.
        enough = c.tolerance + max(c.tolerance, _AUDITED * self.instance.span)
        if c.certified and not objective - bound <= enough:
            return f"the dual variables leave {objective - bound:.3g}, above the tolerance"
        if c.failure < (1.0 - _ALIKE) * self.failure:
            return (
                f"it claims to be wrong with a probability of at most {c.failure:.3g}; this check "
                f"is right but for {self.failure:.3g}"
            )
        return ""


def _too_loose(c: Certificate, accepted: float) -> str:
    """Return that it counts too much as nothing, or nothing."""
    if not c.certified or c.tolerance <= (1.0 + _ALIKE) * accepted:
        return ""
    return (
        f"its tolerance is {c.tolerance:.3g}, more than the {accepted:.3g} that is accepted here; "
        f"to accept it, verify with a tolerance of {c.tolerance:.3g}"
    )


def sure_nodes(
    instance: Instance,
    z: Labels,
    dual: Dual,
    objective: float,
    steps: Sequence[Step],
    failure: float,
    seed: np.random.SeedSequence,
) -> tuple[NodeCertificates | str, float]:
    """Return which nodes all steps of a proof make sure, or where a step goes too far.

    The second number is the probability that this is wrong; `failure` is what each step may have.
    """
    seeds = seed.spawn(1 + len(steps))
    if not dual.valid(instance):
        return "the dual variables for single nodes are not valid", 0.0
    judgement = judge(instance, dual, z, seeds[0], failure=failure)
    failed = judgement.failure
    found = certify_nodes(instance, dual, z, judgement, objective)
    if steps and found.renaming and not instance.symmetric:
        return "names of classes are not proven, and not free to choose", failed
    sure = found.certified.copy()
    for step, own in zip(steps, seeds[1:], strict=True):
        if step.sure.shape != sure.shape or (step.sure & ~sure).any():
            return "a step takes nodes for sure that are not", failed
        left = reduce(instance, z, step.sure)
        if not len(left.loose) or not step.dual.valid(left.instance):
            return "the dual variables of a step are not valid", failed
        labels = z[left.loose]
        judgement = judge(left.instance, step.dual, labels, own, failure=failure)
        failed += judgement.failure
        more = certify_nodes(left.instance, step.dual, labels, judgement, left.objective(z))
        if not more.renaming:
            sure[left.loose] |= more.certified
    return NodeCertificates(sure, found.renaming), failed


def _contradicts_itself(certificate: Certificate) -> str:
    """Return where what it says does not fit together, or nothing."""
    c = certificate
    n = len(c.labels)
    numbers = (c.objective, c.tolerance, c.seconds)
    if not (all(map(math.isfinite, numbers)) and c.tolerance >= 0 and c.lower_bound < math.inf):
        return "some of its numbers are not finite"
    if not (c.gap >= 0 and 0 <= c.failure < 1):
        return "its gap or its probability is none"
    if 0 < c.failure < (1.0 - _ALIKE) * FAILURE:
        return (
            f"it claims to be wrong with a probability of at most {c.failure:.3g}, less than any "
            "certificate is made with"
        )
    missing = c.objective - c.lower_bound
    if c.certified and not missing <= c.tolerance:
        return f"it leaves {missing:.3g}, above its tolerance"
    if c.gap != gap_of(c.objective, c.lower_bound, c.tolerance):
        return "its gap is not that of its numbers"
    certified = bool(missing <= c.tolerance)
    if c.status != status_of(certified, c.failure, c.gap, c.special_tolerance):
        return "its status is not that of its numbers"
    nodes, moved = c.certified_nodes, c.moved
    if nodes.shape != (n,) or nodes.dtype != bool or moved.ndim != 1 or moved.dtype.kind != "i":
        return "shapes do not fit together"
    if len(moved) and (moved[0] < 0 or moved[-1] >= n or (np.diff(moved) <= 0).any()):
        return "its list of moved nodes is not valid"
    if (c.exact or c.unique) and not c.certified:
        return "it says more than that it is not certified"
    if c.method not in _METHODS or c.reason:
        return "it names an unknown method, or a reason why there is no proof"
    return ""
