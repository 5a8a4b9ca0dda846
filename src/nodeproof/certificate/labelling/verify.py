"""Verification of certificates: what a file may hold, and whether it is about a model.

What is proven is for :mod:`nodeproof.certificate.audit` to say, from the arrays alone; where a
certificate comes from a file, what links and costs it is about is not for the file to say.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from nodeproof.certificate.audit import Check, audit
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.errors import InputError
from nodeproof.runtime import threads
from nodeproof.solvers.base import check_at_least
from nodeproof.storage.npz import Header
from nodeproof.storage.schema import Expected, check_layout

if TYPE_CHECKING:
    from nodeproof.certificate.labelling.result import Certificate
    from nodeproof.estimator import NodeClassifier
    from nodeproof.fitted import Fitted

__all__ = ["check_certificate", "verify_certificate", "why_not_about"]

_PROBLEM = {
    "costs": Expected("f", "n K"),
    "eta": Expected("f", "n | n R"),
    "scales": Expected("f", "2"),
    "indptr": Expected("i", "n+1"),
    "indices": Expected("i", "E"),
    "weights": Expected("biuf", "E | 0"),
}
# The numbers of nodes and links that were not certain at a step.
_STEP = {
    "open": Expected("b", "n K"),
    "raised": Expected("b", "n K"),
    "kappa": Expected("f", ""),
    "free": Expected("b", ""),
    "plain": Expected("b", ""),
    "nu": Expected("f", "n{0}"),
    "r": Expected("f", "K n{0}"),
    "sigma": Expected("f", "K"),
    "gamma": Expected("f", "n{0} n{0} | K n{0} n{0}"),
    "groups": Expected("i", "n{0}"),
    "a": Expected("f", "K | n{0} K | R K"),
    "g": Expected("f", "K K"),
    "y": Expected("f", "E{0} K"),
}
_LAYOUT = (
    {"meta": Expected("u", "*", required=True), "labels": Expected("i", "n", required=True)}
    | _PROBLEM
    | {"possible": Expected("b", "n K", required=True), "anchors": Expected("i", "*")}
    | {rf"step(\d+)_{name}": expected for name, expected in _STEP.items()}
)
_OTHER_FIT = "it is about another fit than the model ({}); certify the model again"


def check_certificate(headers: Mapping[str, Header]) -> None:
    """Refuse arrays that do not fit together, by their headers alone."""
    check_layout(headers, _LAYOUT)
    given = set(_PROBLEM) & set(headers)
    if given and given != set(_PROBLEM):
        raise ValueError("a part of the labelling problem is missing")
    steps = {name.split("_")[0] for name in headers if name.startswith("step")}
    for k in range(len(steps)):
        parts = {name.removeprefix(f"step{k}_") for name in headers if name.startswith(f"step{k}_")}
        if "open" not in parts or not ({"a", "y"} <= parts or {"nu", "r", "sigma"} <= parts):
            raise ValueError("the steps of the proof are not all there, or lack dual variables")
        if ("raised" in parts) != ("kappa" in parts):
            raise ValueError("a step of the proof raises costs by nothing")
        factors = {"groups", "a", "g"} & parts
        if "nu" in parts and (len(factors) not in (0, 3) or (factors and "gamma" in parts)):
            raise ValueError("some factors of dual variables are missing, or there are too many")


def verify_certificate(
    certificate: Certificate,
    model: NodeClassifier | Fitted | Instance | None,
    tolerance: float | None,
) -> Check:
    """Return whether its claims are confirmed, about this model."""
    if tolerance is not None:
        check_at_least("tolerance", tolerance, 0.0)
    wrong = why_not_about(certificate, model)
    if not wrong and certificate.instance is None:
        wrong = "it proves nothing: there was no labelling problem to certify"
    if wrong:
        return Check(False, math.nan, -math.inf, wrong)
    with threads.using(1):
        return audit(certificate.claim(), certificate.to_arrays(), tolerance)


def why_not_about(
    certificate: Certificate, model: NodeClassifier | Fitted | Instance | None
) -> str:
    """Return why a certificate is not known to be about a model, or nothing where it is.

    Without a model, one that was made here is about what it was made for; a file says nothing
    of where its links and costs are from.
    """
    if model is None:
        if not certificate.loaded:
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
        if certificate.labels.shape != fitted.codes.shape:
            return _OTHER_FIT.format("other nodes")
    if isinstance(problem, str) or certificate.instance is None:
        if isinstance(problem, str) and certificate.instance is None:
            same = np.array_equal(certificate.labels, getattr(fitted, "codes", certificate.labels))
            return "" if same else _OTHER_FIT.format("other labels")
        return _OTHER_FIT.format("other links or costs")
    return (
        "" if problem.same_as(certificate.instance) else _OTHER_FIT.format("other links or costs")
    )
