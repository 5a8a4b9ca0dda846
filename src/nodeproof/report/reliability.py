"""Whether labels can tell how far probabilities can be believed, and what they tell."""

from __future__ import annotations

from nodeproof.metrics import FEWEST_JUDGED, ReliabilityCurve, reliability_curve
from nodeproof.tuning.held import Blind

__all__ = ["reliability_of"]

# Labels that are right so little more often than wrong cannot be told apart from wrong ones.
_LEAST_CONTRAST = 0.2


def reliability_of(judged: Blind) -> ReliabilityCurve | None:
    """Return the reliability of probabilities, or None where labels are too few or too wrong.

    Examples
    --------
    >>> import numpy as np
    >>> proba = np.tile([0.8, 0.2], (50, 1))
    >>> found = reliability_of(Blind(np.arange(50), np.repeat([0, 1], [40, 10]), proba, 0.0))
    >>> round(found.error, 3), found.counts.tolist()
    (0.0, [50])
    """
    n, K = judged.proba.shape
    if n < FEWEST_JUDGED or K < 2 or 1.0 - judged.noise * K / (K - 1) < _LEAST_CONTRAST:
        return None
    return reliability_curve(judged.codes, judged.proba, noise=judged.noise)
