"""Sentences of the report."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from nodeproof.auto.settings import most_certain
from nodeproof.certificate.status import NO_PROOF, nats
from nodeproof.certificate.status import percent as upper
from nodeproof.errors import count_of
from nodeproof.metrics import FEWEST_JUDGED, ReliabilityCurve
from nodeproof.settings import Settings

if TYPE_CHECKING:
    from nodeproof.auto.held_out import CrossFitted
    from nodeproof.report.data import ReportData

__all__ = [
    "accuracy",
    "amount",
    "classes",
    "gap",
    "percent",
    "python_call",
    "reliability",
    "summary",
]

# A calibration error above this is worth mentioning.
_OFF = 0.05


def percent(share: float) -> str:
    r"""Return a share in percent, as precisely as makes sense.

    Examples
    --------
    >>> percent(0.5), percent(0.9993), percent(1.0), percent(0.99999)
    ('50\xa0%', '99.93\xa0%', '100\xa0%', '>\xa099.99\xa0%')
    """
    if share in (0.0, 1.0):
        return f"{100 * share:.0f}\xa0%"
    if share < 0.00005 or share > 0.99995:
        return "<\xa00.01\xa0%" if share < 0.5 else ">\xa099.99\xa0%"
    # One or two more digits close to either end.
    distance = min(share, 1.0 - share)
    digits = 0 if distance >= 0.02 else 1 if distance >= 0.005 else 2
    return f"{100 * share:.{digits}f}\xa0%"


def accuracy(estimate: float, low: float, high: float) -> tuple[str, str]:
    r"""Return an estimated share and its interval in percent, no finer than the interval allows.

    Examples
    --------
    >>> accuracy(0.99999, 0.76, 1.0)
    ('100\xa0%', '76\xa0% to 100\xa0%')
    >>> accuracy(0.9962, 0.9951, 0.9973)
    ('99.6\xa0%', '99.5\xa0% to 99.7\xa0%')
    """
    digits = 0 if high - low >= 0.01 else 1
    shown, least, most = (f"{100 * share:.{digits}f}\xa0%" for share in (estimate, low, high))
    return shown, f"{least} to {most}"


def amount(value: float) -> str:
    """Return an objective or a bound, to a tenth.

    Examples
    --------
    >>> amount(-14200.46), amount(float("-inf"))
    ('−14,200.5', 'unknown')
    """
    return f"{value:,.1f}".replace("-", "−") if math.isfinite(value) else "unknown"


def gap(missing: float, share: float) -> str:
    """Return a gap between objective and bound, rounded up; "no proof" where it says nothing.

    Parameters
    ----------
    missing : float
        Objective minus bound.
    share : float
        The same relative to the objective.

    Examples
    --------
    >>> gap(5.16, 0.000364), gap(0.0, 0.0), gap(20_000.0, 0.7)
    ('5.2 nats (0.037 %)', 'none', 'no proof')
    """
    if not share <= NO_PROOF:
        return "no proof"
    return f"{nats(missing)} ({upper(share)})" if missing > 0 else "none"


def classes(count: int) -> str:
    """Return a number of classes in words."""
    return "one class" if count == 1 else f"{count:,} classes"


def summary(report: ReportData) -> str:
    """Return the data and the results in two or three sentences."""
    fitted, findings = report.fitted, report.findings
    given = [
        count_of(count, what)
        for count, what in (
            (findings.n_links, "link"),
            (findings.n_features, "feature"),
            (report.n_labels, "label"),
        )
        if count
    ]
    known = f"{', '.join(given[:-1])} and {given[-1]}" if len(given) > 1 else given[0]
    were = "was" if report.n == 1 else "were"
    text = f"From {known}, {count_of(report.n, 'node')} {were} assigned to {classes(report.K)}."
    if fitted.estimated_accuracy is not None:
        estimate, interval = accuracy(*fitted.estimated_accuracy)
        text += (
            f" An estimated {estimate} of the unlabelled nodes are classified correctly "
            f"({interval})."
        )
    elif fitted.settings.temperature > 0 and report.K > 1:
        mean = float(fitted.proba.max(axis=1).mean())
        text += f" The mean probability of the predicted class is {percent(mean)}."
    if report.n_labels:
        count = len(fitted.suspects)
        wrong = "One given label looks" if count == 1 else f"{count:,} of the given labels look"
        text += f" {wrong if count else 'None of the given labels looks'} wrong."
    return text


def reliability(found: ReliabilityCurve | None, judged: CrossFitted, report: ReportData) -> str:
    """Return how far the probabilities can be trusted, and how that is known."""
    text = _verdict(found, judged, report)
    if unknown := int((judged.codes == report.K).sum()):
        text += (
            f" The true class of {count_of(unknown, 'node')} of {len(judged.nodes):,} is not among "
            "the fitted ones: any prediction there counts as wrong."
        )
    return text


def _verdict(found: ReliabilityCurve | None, judged: CrossFitted, report: ReportData) -> str:
    if report.K == 1 and found is None:
        if most_certain(report.fitted.settings.n_classes, report.fitted.given, report.K) < 1:
            return (
                "All labels name one class: whether there are others is unknown, and the "
                "probabilities say no more than these labels do."
            )
        return "There is only one class, so nothing is uncertain."
    if report.fitted.settings.temperature == 0:
        return "The fit has hard assignments (temperature 0), not probabilities."
    if found is None:
        count = len(judged.nodes)
        if count == 0:
            return f"{_why_unjudged(report)}, so the probabilities cannot be checked."
        if count < FEWEST_JUDGED:
            are = "is" if count == 1 else "are"
            return f"{count_of(count, 'label')} {are} too few to check the probabilities."
        return "Too many labels are wrong to check the probabilities with them."
    off = found.confidence @ found.counts - found.right @ found.counts
    if found.error < _OFF:
        verdict = "The probabilities are well calibrated"
    elif off > 0:
        verdict = "The probabilities are somewhat overconfident"
    else:
        verdict = "The probabilities are somewhat underconfident"
    how = {
        "truth": "the true labels of unlabelled nodes",
        "held out": "held-out labels",
        "own label removed": "the given labels, without each node's own",
    }[report.judged_by]
    text = (
        f"{verdict}: confidence and accuracy differ by {percent(found.error)} on average, "
        f"according to {how} ({count_of(int(found.counts.sum()), 'node')})."
    )
    if judged.noise > 0.005:
        text += (
            f" About {percent(judged.noise)} of these labels are estimated to be wrong, which is "
            "taken into account."
        )
    return text


def _why_unjudged(report: ReportData) -> str:
    if report.judged_by == "truth":
        return "No true label was given for an unlabelled node"
    if report.n_labels:
        return "The fit did not use the given labels"
    return "No labels were given"


def python_call(report: ReportData) -> str:
    """Return the Python call that makes this fit, with its non-default settings."""
    fitted, findings = report.fitted, report.findings
    asked, defaults = fitted.settings, Settings()
    own = {
        setting.name: getattr(asked, setting.name)
        for setting in fields(asked)
        if setting.name not in ("verbose", "n_jobs", "engine")
        and not _same(getattr(asked, setting.name), getattr(defaults, setting.name))
    }
    settings = ", ".join(f"{name}={value!r}" for name, value in own.items())
    X, y = findings.n_features > 0, fitted.given is not None
    given = {"X": X, "y" if X else "y=y": y, "graph=graph": findings.linked is not None}
    return f"NodeClassifier({settings}).fit({', '.join(name for name in given if given[name])})"


def _same(one: Any, two: Any) -> bool:
    return type(one) is type(two) and one == two
