"""The best lower bound that given multipliers of the program over a polytope can prove."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nodeproof.program import off_diagonal, polytope_bound, with_diagonal
from nodeproof.splitting import positive_part

__all__ = ["best_bound", "tighten"]

Array = NDArray[np.float64]


def best_bound(B: Array, nu: Array, gamma: Array, costs: Array, constant: float = 0.0) -> float:
    """Return the better of what the multipliers prove as they are, and tightened."""
    return max(
        polytope_bound(B, c, prices, signs, constant)
        for prices, signs, c in ((nu, gamma, costs), tighten(B, nu, gamma, costs))
    )


def tighten(B: Array, nu: Array, gamma: Array, costs: Array) -> tuple[Array, Array, Array]:
    """Return dual variables whose blocks are semidefinite, up to rounding, at little cost.

    With N the sum of the blocks' negative parts, every block plus N is semidefinite; ν and Γ
    can take it up. Where Γ is positive that costs nothing.
    """
    M = np.stack([with_diagonal(-B - off_diagonal(gamma), c - nu) for c in costs.T])
    N = (positive_part(M) - M).sum(axis=0)
    return nu - np.diag(N), off_diagonal(gamma - N), costs
