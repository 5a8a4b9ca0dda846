"""How far probabilities can be believed, by labels that they were found without."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["FEWEST", "Reliability", "reliability_of"]

_BINS = 10

# From so few labels on, a curve says more of chance than of the probabilities.
FEWEST = 20

# Labels that are right so little more often than wrong cannot be told apart from wrong ones.
_LEAST_CONTRAST = 0.2


@dataclass(frozen=True)
class Reliability:
    """Confidence and truth, bin by bin.

    Attributes
    ----------
    confidence, right, low, high : ndarray of shape (bins,)
        Mean confidence, share that is right, and its 95 % interval (Wilson's).
    counts : ndarray of shape (bins,)
        How many nodes each bin has; none is empty.
    error : float
        How far confidence and share lie apart, on average over the nodes.
    n_nodes : int
        How many nodes were judged.
    noise : float
        Share of their labels that was taken to be wrong.
    """

    confidence: NDArray[np.float64]
    right: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    counts: NDArray[np.int64]
    error: float
    n_nodes: int
    noise: float


def reliability_of(
    codes: NDArray[np.int64], proba: NDArray[np.floating], noise: float = 0.0
) -> Reliability | None:
    """Return the reliability of probabilities, or None where there are too few labels.

    Where a share of the labels is wrong, nodes agree with them less often than they are right:
    with labels that are right with probability a and else any other with e = (1 − a)/(K − 1), a
    share r of right nodes agrees with ``e + (a − e) r``, which is undone.

    Parameters
    ----------
    codes : ndarray of shape (h,)
        Labels that the probabilities were found without.
    proba : ndarray of shape (h, K)
        Class probabilities.
    noise : float
        Share of the labels that is wrong.

    Examples
    --------
    >>> import numpy as np
    >>> proba = np.tile([0.8, 0.2], (50, 1))
    >>> found = reliability_of(np.repeat([0, 1], [40, 10]), proba)
    >>> round(found.error, 3), found.counts.tolist()
    (0.0, [50])
    """
    n, K = proba.shape
    if n < FEWEST or K < 2:
        return None
    elsewhere = noise / (K - 1)
    contrast = 1.0 - noise - elsewhere
    if contrast < _LEAST_CONTRAST:
        return None
    confidence = proba.max(axis=1).astype(np.float64)
    agrees = (proba.argmax(axis=1) == codes).astype(np.float64)
    bins = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    counts = np.bincount(bins, minlength=_BINS)
    there = counts > 0
    counts = counts[there]
    mean = np.bincount(bins, weights=confidence, minlength=_BINS)[there] / counts
    agree = np.bincount(bins, weights=agrees, minlength=_BINS)[there] / counts
    centre, half = _wilson(agree, counts)

    def undone(shares: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.clip((shares - elsewhere) / contrast, 0.0, 1.0)

    right = undone(agree)
    return Reliability(
        mean, right, undone(centre - half), undone(centre + half), counts,
        float(counts @ np.abs(mean - right) / n), n, noise,
    )  # fmt: skip


def _wilson(
    shares: NDArray[np.float64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the centre and half the width of 95 % intervals of shares."""
    z2 = 1.96**2
    scale = 1.0 + z2 / counts
    centre = (shares + z2 / (2 * counts)) / scale
    half = 1.96 * np.sqrt(shares * (1 - shares) / counts + z2 / (4 * counts**2)) / scale
    return centre, half
