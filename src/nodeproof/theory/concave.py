"""Many concave functions on an interval, maximised at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["maximise"]

Array = NDArray[np.float64]

_GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)
_STEPS = 60


def maximise(function: Callable[[Array], Array], shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Return where each of some concave functions on [0, 1] is largest, and how large.

    By golden sections, ends included. What comes back are values that the functions take, so none
    is too large.

    Parameters
    ----------
    function : callable
        Takes one point for each function, shape ``shape``, and returns their values there.

    Returns
    -------
    points, values : ndarray of the given shape

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.theory.concave import maximise
    >>> points, values = maximise(lambda s: -((s - np.array([0.25, 2.0])) ** 2), (2,))
    >>> points.round(6), 1 + values.round(6)
    (array([0.25, 1.  ]), array([1., 0.]))
    """
    lo, hi = np.zeros(shape), np.ones(shape)
    best, top = lo, function(lo)

    def keep(points: Array) -> Array:
        nonlocal best, top
        values = function(points)
        better = values > top
        best, top = np.where(better, points, best), np.where(better, values, top)
        return values

    keep(hi)
    left, right = hi - _GOLDEN * (hi - lo), lo + _GOLDEN * (hi - lo)
    at_left, at_right = keep(left), keep(right)
    for _ in range(_STEPS):
        falls = at_left >= at_right
        lo, hi = np.where(falls, lo, left), np.where(falls, right, hi)
        fresh = np.where(falls, hi - _GOLDEN * (hi - lo), lo + _GOLDEN * (hi - lo))
        at_fresh = keep(fresh)
        left, right = np.where(falls, fresh, right), np.where(falls, left, fresh)
        at_left, at_right = (
            np.where(falls, at_fresh, at_right),
            np.where(falls, at_left, at_fresh),
        )
    return best, top
