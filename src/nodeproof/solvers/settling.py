"""When rows have settled, and whether they have learnt anything."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.affinity import Affinity
from nodeproof.problem import Models

__all__ = ["says_nothing", "settled", "surpassed"]

# Rows this close to the class proportions, on average, have learnt nothing.
_NOTHING = 0.05
_SAMPLE = 20_000

# Where changes shrink to less than this share twice in a row, what is left can be predicted once
# they are within this many tolerances.
_FAST = 0.2
_NEAR = 3.0


def settled(changes: list[float], tol: float) -> bool:
    """Tell whether rows change by no more than this, or will not where they settle fast."""
    now = changes[-1]
    if now <= tol:
        return True
    if len(changes) < 3 or now > _NEAR * tol:
        return False
    before, last = changes[-3:-1]
    return last <= _FAST * before and now <= _FAST * last and now * now / (last - now) <= tol


def surpassed(begin: Affinity | None, estimated: Affinity | None) -> bool:
    """Tell whether the estimated contrast is as strong as the one held, of the same sign."""
    if begin is None or estimated is None:
        return begin is None
    if estimated.ell.shape != (1, 1):
        return False
    held, now = begin.ell[0, 0], estimated.ell[0, 0]
    return bool(held * now >= held * held)


def says_nothing(W: NDArray[Any], models: Models, labels: NDArray[np.int64] | None) -> bool:
    """Tell whether the rows without a label are no more than the class proportions.

    Of a large graph, an even sample of the rows is looked at.
    """
    prior = np.exp(models.log_prior - np.logaddexp.reduce(models.log_prior))
    if len(prior) == 1:
        return False

    step = -(-len(W) // _SAMPLE)
    rows = W[::step]
    if labels is not None:
        rows = rows[labels[::step] < 0]
    if len(rows) == 0:
        return False
    # Class by class: the maximum over a short axis is slow.
    off = np.zeros(len(rows))
    for i, share in enumerate(prior):
        np.maximum(off, np.abs(rows[:, i] - share), out=off)
    return bool(off.mean() < _NOTHING)
