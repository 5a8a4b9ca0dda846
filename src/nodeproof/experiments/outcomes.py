"""What a method found on one draw of planted data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["Outcome"]


@dataclass(frozen=True)
class Outcome:
    """What a method found.

    Attributes
    ----------
    labels : ndarray of shape (n,), or None
        Classes 0…K−1; None of a method that labels no node.
    named : bool
        Whether the method was told labels, so that the names of its classes mean something.
    n_iter, status, objective
        As the solver reports them, where there is one.
    trace, times : dict of list
        By name, the course of a quantity over the iterations, and the seconds since the start
        (without what it took to measure).
    answers : dict of float
        By name, what the method says of the data: 1 for yes, 0 for no, or a number.
    """

    labels: NDArray[np.int64] | None
    named: bool
    n_iter: int | None = None
    status: str | None = None
    objective: float | None = None
    trace: Mapping[str, list[float]] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)
    answers: Mapping[str, float] = field(default_factory=dict)
