"""What the report says in words."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from nodeproof.auto.settings import most_certain
from nodeproof.errors import count_of
from nodeproof.metrics import FEWEST_JUDGED, ReliabilityCurve
from nodeproof.settings import Settings

if TYPE_CHECKING:
    from nodeproof.auto.held_out import CrossFitted
    from nodeproof.report.subject import Subject

__all__ = ["accuracy", "classes", "percent", "python_call", "reliability", "summary"]

# Above this a confidence that is off by so much is worth a word.
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
    # Close to either end one digit more, twice.
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


def classes(count: int) -> str:
    """Return how many classes there are."""
    return "one class" if count == 1 else f"{count:,} classes"


def summary(subject: Subject) -> str:
    """Say in two or three sentences what was given and what was found."""
    fitted, findings = subject.fitted, subject.findings
    given = [
        count_of(count, what)
        for count, what in (
            (findings.n_links, "link"),
            (findings.n_features, "feature"),
            (subject.n_labels, "label"),
        )
        if count
    ]
    known = f"{', '.join(given[:-1])} and {given[-1]}" if len(given) > 1 else given[0]
    were = "was" if subject.n == 1 else "were"
    text = f"From {known}, {count_of(subject.n, 'node')} {were} sorted into {classes(subject.K)}."
    if fitted.estimated_accuracy is not None:
        estimate, interval = accuracy(*fitted.estimated_accuracy)
        text += (
            f" Of the nodes without a label, about {estimate} are estimated to be right "
            f"({interval})."
        )
    elif fitted.settings.temperature > 0 and subject.K > 1:
        mean = float(fitted.proba.max(axis=1).mean())
        text += f" The mean probability of the class chosen is {percent(mean)}."
    if subject.n_labels:
        count = len(fitted.suspects)
        wrong = "One given label looks" if count == 1 else f"{count:,} of the given labels look"
        text += f" {wrong if count else 'None of the given labels looks'} wrong."
    return text


def reliability(found: ReliabilityCurve | None, judged: CrossFitted, subject: Subject) -> str:
    """Say how far the probabilities can be believed, and how that is known."""
    text = _verdict(found, judged, subject)
    if strangers := int((judged.codes == subject.K).sum()):
        text += (
            f" The true class of {count_of(strangers, 'node')} of {len(judged.nodes):,} is none of "
            "the fitted ones: whatever was found there counts as wrong."
        )
    return text


def _verdict(found: ReliabilityCurve | None, judged: CrossFitted, subject: Subject) -> str:
    if subject.K == 1 and found is None:
        if most_certain(subject.fitted.settings.n_classes, subject.fitted.given) < 1:
            return (
                "All labels name one class: nothing here tells whether there are others, and the "
                "probabilities say no more than these labels do."
            )
        return "There is one class only: nothing to be uncertain about."
    if subject.fitted.settings.temperature == 0:
        return "The fit was asked for hard assignments (temperature 0), not for probabilities."
    if found is None:
        count = len(judged.nodes)
        if count == 0:
            return f"{_why_unjudged(subject)}, so nothing here can check the probabilities."
        if count < FEWEST_JUDGED:
            are = "is" if count == 1 else "are"
            return f"{count_of(count, 'label')} {are} too few to check the probabilities by."
        return "So many labels are wrong that the probabilities cannot be checked by them."
    off = found.confidence @ found.counts - found.right @ found.counts
    if found.error < _OFF:
        verdict = "The probabilities can be taken at their word"
    elif off > 0:
        verdict = "The probabilities are somewhat too sure of themselves"
    else:
        verdict = "The probabilities are more careful than they need be"
    how = {
        "truth": "by the true labels of nodes that had none",
        "held back": "by labels that were held back from the fit in turn",
        "left out": "by the given labels, each node's own left out",
    }[subject.judged_by]
    text = (
        f"{verdict}: confidence and share of right nodes lie {percent(found.error)} apart on "
        f"average, judged {how} ({count_of(int(found.counts.sum()), 'node')})."
    )
    if judged.noise > 0.005:
        text += (
            f" About {percent(judged.noise)} of these labels are taken to be wrong themselves, "
            "which is allowed for."
        )
    return text


def _why_unjudged(subject: Subject) -> str:
    if subject.judged_by == "truth":
        return "No true label was given for a node that had none"
    if subject.n_labels:
        return "The fit was asked to leave the given labels out"
    return "No labels were given"


def python_call(subject: Subject) -> str:
    """Return the call that makes such a fit, of what was given, settings of their own included."""
    fitted, findings = subject.fitted, subject.findings
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
