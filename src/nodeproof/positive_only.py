"""Labels of one class alone: how likely the other nodes are of that class, too.

Labelled nodes are taken to be drawn at random from those of their class. A fit then tells labelled
from unlabelled nodes, each judged without its own label. The share of the class among unlabelled
nodes is estimated where scores are highest, and hardly any other node is (best bin estimation;
Garg, Wu, Smola, Balakrishnan and Lipton, 2021). By Bayes' rule the odds of being labelled are, up
to a factor, the probability of the class (Elkan and Noto, 2008); the factor is that at which the
mean probability is the share.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from nodeproof.errors import InputError
from nodeproof.fit_data import FitData
from nodeproof.fitted import Fitted
from nodeproof.inputs import EncodedLabels
from nodeproof.runtime.logs import warn_caller
from nodeproof.settings import Settings

__all__ = ["as_labelled_or_not", "estimate_share", "with_probabilities"]

Array = NDArray[np.float64]

# Shares of scores are trusted to within bounds that hold with this probability.
_DOUBT = 0.1

# Fewer labels say little about the share of the class.
_FEW = 10

# Where a node of the class scores higher than another one less often than this, scores overlap, and
# the share that is estimated is an upper bound only.
_APART = 0.8

_LEAST = 1e-9

# Boosted trees take long where every node counts, and add little.
_EXPERTS = ["-trees"]


def as_labelled_or_not(data: FitData, settings: Settings) -> tuple[FitData, Settings]:
    """Return the data with unlabelled nodes as a second class, and the settings to fit them with.

    The class of the labels is the first, the other one is named after it.
    """
    codes = data.labels.codes
    named = np.unique(codes[codes >= 0]) if codes is not None else np.empty(0, np.int64)
    if codes is None or len(named) != 1:
        raise InputError(
            f"positive_only=True is for labels of one class, but {len(named)} have labels"
            + ("" if len(named) < 2 else ": leave it out")
        )
    if settings.n_classes not in (None, 2):
        raise InputError("positive_only=True has two classes: leave n_classes out")
    known = codes >= 0
    if known.sum() < 2 or known.all():
        raise InputError(
            "positive_only=True needs two labels or more, and nodes without a label; "
            f"{int(known.sum())} of {len(codes)} nodes have one"
        )
    name = data.labels.classes[named[0]]
    labels = EncodedLabels(
        _two_classes(name), np.where(known, 0, 1).astype(np.int64), len(codes), True
    )
    plain = isinstance(settings.experts, str) and settings.experts == "auto"
    experts = _EXPERTS if plain else settings.experts
    return replace(data, labels=labels), replace(settings, n_classes=2, experts=experts)


def _two_classes(name: object) -> NDArray[np.generic]:
    if isinstance(name, int | np.integer):
        return np.array([int(name), 0 if name else 1])
    return np.array([str(name), f"not {name}"])


def with_probabilities(fitted: Fitted, settings: Settings) -> Fitted:
    """Return a fit of labelled and unlabelled nodes with the probabilities of the class instead.

    Parameters
    ----------
    fitted : Fitted
        The fit of :func:`as_labelled_or_not`.
    settings : Settings
        Those that were given.
    """
    assert fitted.given is not None
    assert fitted.data is not None
    held = fitted.data.held_out
    if held is None:
        raise InputError(
            "positive_only=True judges nodes by experts that have not seen their labels: leave out "
            "terms, weights and solver"
        )
    labelled = fitted.given == 0
    scores = fitted.proba[:, 0].astype(np.float64)
    scores[held.nodes] = held.proba[:, 0]
    m, rest = int(labelled.sum()), ~labelled
    if m < _FEW:
        warn_caller(
            f"only {m} nodes are labelled: the share of the class among the others is a rough guess"
        )
    share = estimate_share(scores[rest], scores[labelled])
    apart = _how_far_apart(scores[rest], scores[labelled], share)
    if apart < _APART:
        warn_caller(
            "nodes of the class are hardly told from others: it may be much rarer among unlabelled "
            f"nodes than the {share:.0%} that is estimated, and probabilities as much too high; "
            "labels of other classes help most"
        )
    odds = scores[rest] / np.maximum(1.0 - scores[rest], _LEAST)
    positive = np.empty(len(scores))
    most = (m + 1.0) / (m + 2.0)  # as of labels of one class in any other fit
    positive[labelled] = most
    positive[rest] = np.minimum(_factor(odds, share) * odds, most)
    # The same for new nodes, which need not be unlabelled by choice.
    seen = float(m / (m + share * rest.sum()))
    choices = {
        name: choice
        for name, choice in fitted.choices.items()
        if name not in ("held_out", "proportions", "scores")
    }
    choices["positive_only"] = {
        "value": {
            "share": round(share, 4),
            "labelled": round(seen, 4),
            "told_apart": round(apart, 4),
        },
        "why": (
            f"about {share:.1%} of the {int(rest.sum()):,} unlabelled nodes are "
            f"{fitted.classes[0]}, and {seen:.1%} of all such nodes are labelled, if these are "
            "drawn at random from them; log-losses are about who is labelled"
        ),
    }
    return replace(
        fitted,
        settings=settings,
        proba=np.column_stack([positive, 1.0 - positive]).astype(np.float32),
        given=np.where(labelled, 0, -1),
        choices=choices,
        estimated_accuracy=None,
        new_nodes=replace(fitted.new_nodes, labelled=seen),
        data=replace(fitted.data, held_out=None),
        saved_problem="labels are of one class only: there is no labelling problem of two classes",
    )


def estimate_share(unlabelled: Array, labelled: Array) -> float:
    """Return the share of a class among unlabelled nodes, by scores that nobody's label has raised.

    Parameters
    ----------
    unlabelled : ndarray of shape (u,)
        Scores of nodes of both classes.
    labelled : ndarray of shape (m,)
        Scores of nodes of the class.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.positive_only import estimate_share
    >>> rng = np.random.default_rng(0)
    >>> mixed = np.concatenate([rng.normal(2, 1, 600), rng.normal(-1, 1, 1400)])
    >>> round(estimate_share(mixed, rng.normal(2, 1, 300)), 1)
    0.3
    """
    cuts = np.unique(labelled)
    above, own = (
        1.0 - np.searchsorted(np.sort(part), cuts) / len(part) for part in (unlabelled, labelled)
    )
    slack = sum(
        np.sqrt(np.log(4.0 / _DOUBT) / (2.0 * len(part))) for part in (unlabelled, labelled)
    )
    best = int(np.argmin((above + slack) / own))
    return float(np.clip(above[best] / own[best], 1.0 / (len(unlabelled) + 2.0), 1.0))


def _how_far_apart(unlabelled: Array, labelled: Array, share: float) -> float:
    """Return how often a node of the class scores higher than one of others, if this is its share.

    Labelled nodes score higher than unlabelled ones in ``share / 2 + (1 − share) · this`` of all
    pairs.
    """
    if share >= 1.0:
        return 0.5
    ordered = np.sort(unlabelled)
    below, upto = (np.searchsorted(ordered, labelled, side) for side in ("left", "right"))
    ahead = float((below + upto).mean()) / (2.0 * len(unlabelled))
    return float(np.clip((ahead - 0.5 * share) / (1.0 - share), 0.0, 1.0))


def _factor(odds: Array, share: float) -> float:
    """Return the factor of the odds at which probabilities have this mean."""
    if not odds.any():
        return 0.0
    low, high = share / max(odds.max(), _LEAST), share / odds.mean()
    while np.minimum(high * odds, 1.0).mean() < share * (1.0 - 1e-6) and high < 1e12:
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        if np.minimum(middle * odds, 1.0).mean() < share:
            low = middle
        else:
            high = middle
    return high
