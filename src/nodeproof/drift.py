"""How far an updated model may be from a full fit: what has changed, and what new labels say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.auto.accuracy import estimate_accuracy
from nodeproof.auto.held_out import CrossFitted
from nodeproof.errors import count_of
from nodeproof.runtime.logs import warn_caller

if TYPE_CHECKING:
    from nodeproof.fitted import Fitted
    from nodeproof.solvers.nearby import Nearby

__all__ = ["joined_labels", "record_accuracy", "record_update"]

Choices = dict[str, dict[str, Any]]

# If more of the nodes, links or labels has changed since the last fit, choices should be made
# again.
_MUCH = 0.25

# New labels are predicted worse than those of the fit if their mean log-loss is higher by so many
# standard errors; fewer labels do not tell.
_ERRORS, _FEWEST = 3.0, 20

# Share of the nodes whose label a full fit gives differently, at most, by real graphs: where
# choices are made again at all, and per share of the data that has changed.
_CHOSEN_AGAIN, _PER_SHARE = 0.03, 0.1

_LEAST_PROBA = 1e-30


def joined_labels(
    held: CrossFitted, y: NDArray[np.int64], named: NDArray[np.int64], proba: NDArray[Any]
) -> CrossFitted:
    """Return held-out labels after an update: those of the fit that are left, and new ones.

    Parameters
    ----------
    y : ndarray of shape (n,)
        All labels, −1 where there is none.
    named : ndarray of int
        Nodes with new labels.
    proba : ndarray of shape (named, K)
        What the model said of them before it knew their labels.
    """
    kept = y[held.nodes] >= 0
    nodes = np.concatenate([held.nodes[kept], named])
    rows = np.concatenate([held.proba[kept], proba])
    return held._replace(nodes=nodes, codes=y[nodes], proba=rows).at(nodes)


def record_accuracy(
    held: CrossFitted, proba: NDArray[Any], unlabelled: NDArray[np.bool_], choices: Choices
) -> tuple[float, float, float] | None:
    """Return the estimated accuracy and its 95 % interval, and record it; None without labels.

    Parameters
    ----------
    proba : ndarray of shape (n, K)
        Probabilities of all nodes.
    unlabelled : ndarray of bool, shape (n,)
        Which of them have no label.
    """
    choices.pop("accuracy", None)
    if not len(held.codes):
        return None
    judged = np.log(np.maximum(held.proba.astype(np.float64), _LEAST_PROBA))
    found = estimate_accuracy(judged, held.codes, held.noise, held.proportions, proba, unlabelled)
    if found is not None:
        estimate, low, high = found
        choices["accuracy"] = {
            "value": round(estimate, 4),
            "why": "share of the unlabelled nodes that are classified correctly, estimated on "
            f"{len(held.codes)} held-out labels; 95 % interval {low:.3f} to {high:.3f}",
        }
    return found


def record_update(
    before: Fitted,
    after: Fitted,
    nodes: int,
    links: int,
    labels: int,
    held: CrossFitted | None,
    near: Nearby | None,
) -> None:
    """Record what has changed since the last fit; warn if the model should be fitted again.

    Parameters
    ----------
    nodes, links, labels : int
        How many nodes are new, and how many links and labels have changed.
    held : CrossFitted or None
        Held-out labels after the update.
    near : Nearby or None
        How the update was solved near what has changed; None if by sweeps over all nodes.
    """
    past = before.choices.get("update", {}).get("value", {})
    value: dict[str, Any] = {
        "updates": past.get("updates", 0) + 1,
        "nodes": past.get("nodes", 0) + nodes,
        "links": past.get("links", 0) + links,
        "labels": past.get("labels", 0) + labels,
        "moved": round(_moved(before, after, near), 6),
        "solved": after.n_nodes if near is None else len(near.nodes),
        "left_out": 0.0 if near is None else round(near.left_out, 9),
    }
    share = _share(value, after)
    pooled = any(term.discriminative for term in after.terms)
    differs = min((_CHOSEN_AGAIN if pooled else 0.0) + _PER_SHARE * share, 1.0)
    value |= {"share": round(share, 6), "differs": round(differs, 6)}
    worse = _worse(before.held_out, held)
    if worse is not None:
        value |= {"log_loss": round(worse[0], 4), "of_new_labels": round(worse[1], 4)}
    why = (
        f"changed since the last fit, in {count_of(value['updates'], 'update')}: {share:.1%} of "
        "the data; what that fit has chosen was kept, and a full fit is expected to give at most "
        f"{differs:.1%} of the nodes another label"
    )
    if near is not None:
        why += (
            f"; {count_of(len(near.nodes), 'node')} near the change were solved again, and a sweep "
            f"would move the memberships of all others by at most {near.left_out:.1e} on average, "
            f"by a sample of {near.n_asked}"
        )
    after.choices["update"] = {"value": value, "why": why}
    if share > _MUCH:
        warn_caller(
            f"{share:.0%} of the nodes, links or labels have changed since the last fit: fit again"
        )
    elif worse is not None and worse[2]:
        warn_caller(
            f"new labels are predicted worse than those of the fit (log-loss {worse[1]:.2f}, not "
            f"{worse[0]:.2f}): fit again"
        )


def _moved(before: Fitted, after: Fitted, near: Nearby | None) -> float:
    """Return the share of the nodes that were there before and have another label now."""
    n = before.n_nodes
    if near is None:
        return float((after.codes[:n] != before.codes).mean())
    nodes = near.nodes[near.nodes < n]
    return (
        float((after.proba[nodes].argmax(axis=1) != before.proba[nodes].argmax(axis=1)).sum()) / n
    )


def _share(value: dict[str, Any], after: Fitted) -> float:
    """Return the share of nodes, links or labels that has changed, whichever is largest."""
    n_links = after.n_links or 0
    sizes = (
        (value["nodes"], after.n_nodes),
        (value["links"], n_links),
        (value["labels"], len(after.labelled)),
    )
    return max(min(changed / total, 1.0) if total else 0.0 for changed, total in sizes)


def _worse(
    before: CrossFitted | None, after: CrossFitted | None
) -> tuple[float, float, bool] | None:
    """Return the log-losses of the labels of the fit and of new ones, and if these are worse."""
    if before is None or after is None:
        return None
    new = ~np.isin(after.nodes, before.nodes)
    if new.sum() < _FEWEST or new.all():
        return None
    own = after.proba[np.arange(len(after.codes)), after.codes].astype(np.float64)
    losses = -np.log(np.maximum(own, _LEAST_PROBA))
    first, second = losses[~new], losses[new]
    error = np.sqrt(first.var() / len(first) + second.var() / len(second))
    excess = second.mean() - first.mean()
    return float(first.mean()), float(second.mean()), bool(excess > _ERRORS * error)
