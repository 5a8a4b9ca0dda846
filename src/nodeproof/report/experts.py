"""What held-out labels say of a fit, in plain words: experts, accuracy, class mix, skewed classes.

Everything is read from the record of automatic choices, which is saved with models. Reports,
notebook cards and the command line show it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nodeproof.errors import count_of
from nodeproof.metrics import ClassScores
from nodeproof.report.wording import percent

if TYPE_CHECKING:
    from nodeproof.fitted import Fitted

__all__ = [
    "ExpertRow",
    "ExpertTable",
    "Score",
    "caveats",
    "changed_proportions",
    "class_mix",
    "expert_table",
    "meaning_of_accuracy",
    "scores",
    "scores_of",
    "shown_choice",
]

# The most classes that are listed in a sentence, and the most whose shares are.
_LISTED, _SHARES = 6, 4

# Differences in class proportions below this are not worth showing.
_DIFFERENT = 0.05

# Shares of wrong labels above this are worth mentioning: they add to every log-loss.
_WRONG = 0.01

# With fewer held-out labels, neither weights nor accuracies are known well.
_FEW_LABELS = 30


class ExpertRow(NamedTuple):
    """One line of the table; `share` is the weight as a number, 0 to 1."""

    expert: str
    about: str
    setting: str
    log_loss: str
    weight: str
    share: float


@dataclass(frozen=True)
class ExpertTable:
    """The experts of a fit.

    Attributes
    ----------
    verdict : str
        How they were used, in a sentence.
    rows : list of ExpertRow
        Those that were evaluated, the most important first.
    compared : list of (str, str, str)
        What log-losses are to be compared with: a name, what it is, its log-loss.
    reading : str
        How to read the table, in a sentence or two.
    left_out : list of (str, str)
        Other experts, and why they were left out.
    """

    verdict: str
    rows: list[ExpertRow]
    compared: list[tuple[str, str, str]]
    reading: str
    left_out: list[tuple[str, str]]


def expert_table(choices: dict[str, dict[str, Any]]) -> ExpertTable | None:
    """Return the table of experts; None if none were evaluated."""
    if "experts" not in choices or "log_loss" not in choices:
        return None
    rows, losses = choices["experts"]["value"], choices["log_loss"]["value"]
    guessing, pool, alone = losses["guessing"], losses["pool"], losses.get("block model")
    evaluated = [row for row in rows if row["log_loss"] is not None]
    wrong = choices.get("held_out", {}).get("value", {}).get("wrong", 0.0)
    if alone is not None:
        verdict = (
            "The block model decides alone: on held-out labels it does as well as all experts "
            "together, so they are not pooled."
        )
    elif sum(row["weight"] > 0 for row in evaluated) > 1:
        verdict = (
            "Experts that each use the data in a different way decide together. Their weights "
            "are those that predict held-out labels best."
        )
    else:
        verdict = "One expert decides: on held-out labels, the others add nothing to it."
    return ExpertTable(
        verdict=verdict,
        rows=[_row(row, alone is not None) for row in evaluated],
        compared=[
            ("together", "all experts, pooled", f"{pool:.3f}"),
            ("guessing", "how frequent classes are among the labels", f"{guessing:.3f}"),
        ],
        reading=(
            "Log-loss is measured on labels that were held out. Lower is better: 0 is sure and "
            f"always right, guessing by class frequencies scores {guessing:.2f}. "
            + ("" if alone is not None else "The weight is an expert's share in the decision. ")
            + "“Together” is judged more strictly, by labels that chose neither settings nor "
            "weights."
            + (f" Some of the labels seem wrong ({percent(wrong)})." if wrong > _WRONG else "")
        ),
        left_out=_reasons(rows),
    )


def _reasons(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return experts that were not evaluated, those with the same reason together."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row["log_loss"] is None:
            found.setdefault(row["why"], []).append(row["expert"])
    return [(", ".join(names), why) for why, names in found.items()]


def _row(row: dict[str, Any], alone: bool) -> ExpertRow:
    share = float(row["weight"])
    weight = percent(share) if share else "–"
    if alone and share:
        weight = "alone"
    return ExpertRow(
        row["expert"], row["about"], row["setting"], f"{row['log_loss']:.3f}", weight, share
    )


def meaning_of_accuracy(fitted: Fitted) -> str:
    """Return what the estimated accuracy is, as the end of a sentence; "" if there is none."""
    if fitted.estimated_accuracy is None:
        return ""
    rest = count_of(fitted.n_nodes - len(fitted.labelled), "unlabelled node")
    text = f"the expected share of the {rest} whose predicted class is right"
    if changed_proportions(fitted) is None:
        return text
    return f"{text}, given that their class mix differs from that of the labels"


def changed_proportions(fitted: Fitted) -> list[tuple[str, float, float]] | None:
    """Return each class with its share of the labels and the estimated one of unlabelled nodes.

    None if they are about the same.
    """
    value = fitted.choices.get("proportions", {}).get("value")
    if value is None or len(value["labels"]) != len(fitted.classes):
        return None
    given, rest = np.array(value["labels"]), np.array(value["unlabelled"])
    if np.abs(given - rest).max() < _DIFFERENT:
        return None
    return [
        (str(name), float(a), float(b))
        for name, a, b in zip(fitted.classes.tolist(), given, rest, strict=True)
    ]


def class_mix(fitted: Fitted) -> str:
    """Return how the class proportions of unlabelled nodes differ from those of the labels."""
    found = changed_proportions(fitted)
    if found is None:
        return ""
    found.sort(key=lambda row: -abs(row[2] - row[1]))
    shown = [f"{name}: {percent(b)} (labels {percent(a)})" for name, a, b in found[:_SHARES]]
    return ", ".join(shown) + (", …" if len(found) > _SHARES else "")


class Score(NamedTuple):
    """One figure on skewed classes: its name, its value, and a remark, which may be empty."""

    name: str
    value: str
    remark: str

    def __str__(self) -> str:
        return f"{self.name} {self.value}" + (f" ({self.remark})" if self.remark else "")


def scores(fitted: Fitted) -> list[Score]:
    """Return what accuracy hides where classes are skewed, by held-out labels; else nothing."""
    value = fitted.choices.get("scores", {}).get("value")
    if value is None:
        return []
    found = ClassScores(
        value["balanced_accuracy"], value["roc_auc"], value["largest_class"], value["classes"]
    )
    return scores_of(found, len(fitted.classes))


def scores_of(found: ClassScores, n_classes: int) -> list[Score]:
    """Return scores of some of `n_classes` classes in words."""
    remark = ""
    if found.n_classes < 2:
        remark = "not enough labels"
    elif found.n_classes < n_classes:
        remark = f"over the {found.n_classes} of {n_classes} classes with enough labels"
    balanced, area = found.balanced_accuracy, found.roc_auc
    return [
        Score("balanced accuracy", "–" if balanced is None else percent(balanced), remark),
        Score("ROC AUC", "–" if area is None else f"{area:.3f}", remark),
        Score("accuracy of always naming the largest class", percent(found.largest_class), ""),
    ]


def caveats(fitted: Fitted) -> list[str]:
    """Return what the labels are too few to tell, in sentences."""
    held = fitted.choices.get("held_out")
    if held is None or len(fitted.classes) == 1:
        return []
    value = held["value"]
    if value["labels"] == 0:
        return [f"how accurate the fit is cannot be estimated: {held['why']}"]
    found = []
    if value["labels"] < _FEW_LABELS:
        found.append(
            f"only {count_of(value['labels'], 'label')} could be held out: the weights of the "
            "experts and the estimated accuracy are rough"
        )
    if value["few"]:
        few = list(value["few"].items())[:_LISTED]
        shown = [f"{name} ({count_of(count, 'label') if count else 'none'})" for name, count in few]
        more = f", … ({len(value['few'])} in total)" if len(value["few"]) > _LISTED else ""
        found.append(
            "how well some classes are recognised is uncertain, because few of their labels could "
            f"be held out: {', '.join(shown)}{more}"
        )
    return found


def shown_choice(name: str, value: Any) -> str:
    """Return the value of an automatic choice as text."""
    if name == "experts":
        used = [row for row in value if row["weight"] > 0]
        if len(used) == 1:
            return f"{used[0]['expert']} alone"
        return ", ".join(f"{row['expert']} {percent(row['weight'])}" for row in used)
    if name == "held_out":
        return count_of(value["labels"], "label")
    if name == "kinds":
        return ", ".join(
            f"{kind}: {count_of(own['links'], 'link')}{' with a direction' * own['directed']}, "
            f"null model {own['null_model']}"
            for kind, own in value.items()
        )
    if isinstance(value, dict):
        return ", ".join(f"{key.replace('_', ' ')}: {_text(part)}" for key, part in value.items())
    return _text(value)


def _text(value: Any) -> str:
    if value is None:
        return "–"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
