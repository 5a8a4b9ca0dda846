"""Floating-point sums and products with what rounding can have done to them.

Bounds follow the standard model: a sum of m products, in any order, is off by at most
``m·u/(1 − m·u)`` times the sum of the absolute values, u = 2⁻⁵³. A few operations around it are
allowed for by a larger m.
"""

from __future__ import annotations

import math
from itertools import chain

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["UNIT", "dot_exact", "relative_error", "total_down", "total_up"]

Array = NDArray[np.float64]

#: relative error of one rounding
UNIT = 2.0**-53


def relative_error(m: float) -> float:
    """Return what m roundings in a row can do, relative to the sum of absolute values."""
    product = m * UNIT
    return product / (1.0 - product) if product < 0.5 else math.inf


def dot_exact(x: Array, Y: Array) -> Array:
    """Return ``x @ Y``, shape (m,): three roundings an entry, however many terms there are."""
    return np.array([math.fsum((x * column).tolist()) for column in Y.T])


def total_up(*parts: ArrayLike) -> float:
    """Return the sum of all entries of some arrays, no less than the true one."""
    return math.nextafter(_exact_sum(parts), math.inf)


def total_down(*parts: ArrayLike) -> float:
    """Return the sum of all entries of some arrays, no more than the true one."""
    return math.nextafter(_exact_sum(parts), -math.inf)


def _exact_sum(parts: tuple[ArrayLike, ...]) -> float:
    """Return the sum, rounded once."""
    return math.fsum(chain.from_iterable(np.ravel(part).tolist() for part in parts))
