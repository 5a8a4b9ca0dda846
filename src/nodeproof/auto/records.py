"""The record of what held-out labels say of experts, proportions and accuracy; and of engines.

Each function adds to the record of automatic choices (``clf.choices_``), in values that JSON holds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.auto.accuracy import row_means
from nodeproof.auto.evaluation import Evaluation
from nodeproof.auto.held_out import HeldOut
from nodeproof.auto.pooling import Judge
from nodeproof.auto.settings import Choices
from nodeproof.errors import count_of
from nodeproof.metrics import class_scores, is_skewed, most_probable
from nodeproof.problem import Problem
from nodeproof.solvers.starts import choose_starts
from nodeproof.terms.summable import is_summable

__all__ = ["record_engine", "record_experts", "record_held_out", "record_outcome"]

# With fewer held-out labels of a class, nobody knows how well it is recognised.
_FEWEST_OF_A_CLASS = 5


def record_engine(problem: Problem, n_init: int | str, choices: Choices) -> None:
    """Record what a cluster does of a fit, and what is left to this machine.

    Parameters
    ----------
    problem : Problem
        The problem of the final fit.
    n_init : int or "auto"
        Number of starts.
    """
    starts = [name for name in choose_starts(problem, n_init) if name != "labels"]
    terms = [type(t).__name__ for t in problem.terms if not (is_summable(t) and t.rounds is None)]
    here = ["the judging of experts but for the block model", "probabilities", "certificates"]
    if terms:
        here.insert(0, f"the models of {', '.join(terms)}")
    if starts:
        here.insert(0, f"the starts {', '.join(dict.fromkeys(starts))}")
    why = f"workers update the memberships and sum over them; on this machine: {', '.join(here)}"
    choices["engine"] = {"value": "Dask cluster", "why": why}


def record_held_out(
    held: HeldOut | None,
    evaluation: Evaluation | None,
    codes: NDArray[np.int64] | None,
    classes: NDArray[Any],
    choices: Choices,
) -> None:
    """Record how many labels were held out, which classes have too few, and how many seem wrong.

    Nothing is recorded if settings that were given left nothing to choose.

    Parameters
    ----------
    held : HeldOut or None
        The labels that could be held out.
    evaluation : Evaluation or None
        What was chosen by them; None if nothing was.
    codes : ndarray of shape (n,), or None
        The given labels as class numbers, −1 where there is none.
    classes : ndarray of shape (K,)
        Names of the classes.
    """
    if codes is None:
        return
    value: dict[str, Any] = {"labels": 0, "folds": 0, "few": {}, "wrong": 0.0}
    if held is None or evaluation is None:
        reason = _why_nothing(held, codes, len(classes))
        if reason is None:
            return
        why = f"nothing was held out: {reason}"
    else:
        counts = np.bincount(held.codes, minlength=len(classes))
        value["labels"] = len(held.nodes)
        value["folds"] = held.n_folds if held.own else 0
        value["wrong"] = round(evaluation.noise, 4)
        value["few"] = {
            str(name): int(count)
            for name, count in zip(classes, counts, strict=True)
            if count < _FEWEST_OF_A_CLASS
        }
        why = (
            f"in {held.n_folds} folds, each predicted by fits to the labels of the others"
            if held.own
            else "the labels of `validation`, which no fit has seen"
        )
        if held.sampled:
            why += "; in a large graph, on sampled neighbourhoods of some labelled nodes"
    choices["held_out"] = {"value": value, "why": why}


def _why_nothing(held: HeldOut | None, codes: NDArray[np.int64], n_classes: int) -> str | None:
    """Return what is wrong with the labels, if anything."""
    counts = np.bincount(codes[codes >= 0], minlength=n_classes)
    if (counts > 0).sum() < 2:
        return "all labels name one class"
    if held is None:
        return "no class has more than one label"
    if missing := int((counts == 0).sum()):
        return f"{missing} of {n_classes} classes have no labels"
    return None


def record_experts(evaluation: Evaluation, choices: Choices) -> None:
    """Record what each expert is worth, and why others were left out.

    Weights are shares, which sum to one. Where the block model alone is used, it has all of it.
    """
    alone, pool, losses = evaluation.block_alone, evaluation.pool, _log_losses(evaluation)
    rows: list[dict[str, Any]] = []
    for member, loss, weight in zip(evaluation.members, pool.losses, pool.weights, strict=True):
        share = float(weight / pool.weights.sum())
        if alone:
            share = float(member is evaluation.block)
            loss = losses["block model"] if share else loss
        expert = member.expert
        rows.append(
            {
                "expert": expert.name,
                "about": expert.about or expert.source,
                "setting": expert.describe(member.best.setting),
                "log_loss": round(float(loss), 4),
                "weight": round(share, 4),
                "why": "" if share else _UNUSED_BESIDE_BLOCK if alone else _UNUSED,
            }
        )
    rows.sort(key=lambda row: (-row["weight"], row["log_loss"]))
    unseen = {"about": "", "setting": "", "log_loss": None, "weight": 0.0}
    rows += [{"expert": name, **unseen, "why": why} for name, why in evaluation.left_out.items()]
    labels = count_of(len(evaluation.held.nodes), "held-out label")
    choices["experts"] = {
        "value": rows,
        "why": f"the block model alone predicts {labels} as well as all experts together"
        if alone
        else f"weights with which all experts together predict {labels} best",
    }
    choices["log_loss"] = {
        "value": losses,
        "why": "guessing: by class frequencies; pool: chosen without the labels it is judged by",
    }


_UNUSED = "adds nothing to the others"
_UNUSED_BESIDE_BLOCK = "the block model alone does as well"


def _log_losses(evaluation: Evaluation) -> dict[str, float]:
    """Return the log-loss of guessing, of the pool, and of the block model if it is used alone."""
    found = evaluation.cross_fitted()
    judge = replace(Judge.of(found.codes, found.proba.shape[1]), noise=found.noise)
    shares = np.tile(np.log(judge.shares), (len(found.codes), 1))
    losses = {
        "guessing": replace(judge, noise=0.0).loss(shares),
        "pool": judge.loss(evaluation.nested),
    }
    if evaluation.block_alone:
        losses["block model"] = judge.loss(np.log(np.maximum(found.proba, 1e-30)))
    return {name: round(loss, 4) for name, loss in losses.items()}


def record_outcome(
    evaluation: Evaluation, proba: NDArray[Any], codes: NDArray[np.int64], choices: Choices
) -> tuple[float, float, float] | None:
    """Record what is expected of the unlabelled nodes: class proportions, accuracy, scores.

    Parameters
    ----------
    proba : ndarray of shape (n, K)
        Probabilities of all nodes.
    codes : ndarray of shape (n,)
        The given labels as class numbers, −1 where there is none.

    Returns
    -------
    (float, float, float) or None
        The estimated accuracy and its 95 % interval; None without unlabelled nodes.
    """
    rest = codes < 0
    accuracy = evaluation.accuracy(proba, rest)
    means = row_means(proba, rest)
    if accuracy is None or means is None:
        return None
    estimate, low, high = accuracy
    choices["accuracy"] = {
        "value": round(estimate, 4),
        "why": f"share of the unlabelled nodes that are classified correctly, estimated on "
        f"{len(evaluation.held.nodes)} held-out labels; 95 % interval {low:.3f} to {high:.3f}",
    }
    mix = means[0] if evaluation.block_alone else evaluation.pool.proportions
    given = np.bincount(codes[codes >= 0], minlength=len(mix))
    choices["proportions"] = {
        "value": {
            "labels": (given / given.sum()).round(4).tolist(),
            "unlabelled": mix.round(4).tolist(),
        },
        "why": "shares of the classes among the labels, and estimated among unlabelled nodes",
    }
    predicted = np.bincount(most_probable(proba), minlength=len(mix))
    if is_skewed(given) or is_skewed(predicted):
        _record_scores(evaluation, mix, choices)
    return accuracy


def _record_scores(evaluation: Evaluation, mix: NDArray[np.float64], choices: Choices) -> None:
    """Record what accuracy hides where classes are skewed."""
    found = evaluation.cross_fitted()
    proba = found.proba.astype(np.float64)
    if not evaluation.block_alone:
        # Held-out nodes are predicted at the class proportions of the labels.
        proba *= mix / Judge.of(found.codes, len(mix)).shares
        proba /= proba.sum(axis=1, keepdims=True)
    scores = class_scores(found.codes, proba, fewest=_FEWEST_OF_A_CLASS)
    choices["scores"] = {
        "value": {
            "balanced_accuracy": _rounded(scores.balanced_accuracy),
            "roc_auc": _rounded(scores.roc_auc),
            "largest_class": round(float(mix.max()), 4),
            "classes": scores.n_classes,
        },
        "why": f"classes are skewed; estimated on {len(found.codes)} held-out labels",
    }


def _rounded(score: float | None) -> float | None:
    return None if score is None else round(score, 4)
