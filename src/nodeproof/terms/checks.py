"""Checks of what the methods of terms return: a mistake is one error that names the method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.errors import InputError

if TYPE_CHECKING:
    from nodeproof.terms.base import Term

__all__ = ["checked_costs", "checked_models"]


def checked_models(term: Term, models: Any, method: str) -> NDArray[np.float64]:
    """Return class models as a term computed them; raise an error if they cannot be.

    Parameters
    ----------
    models : ndarray of shape (K, ...)
        What the method returned.
    method : str
        For the message.
    """
    name, K = f"{type(term).__name__}.{method}", term.n_classes
    if not isinstance(models, np.ndarray) or models.shape[:1] != (K,):
        raise InputError(
            f"{name} must return one model per class, shape ({K}, ...), got {_kind(models)}"
        )
    if not np.isfinite(models).all():
        raise InputError(f"{name} returned models that are not finite")
    return models


def checked_costs(term: Term, costs: Any, lo: int, hi: int, method: str) -> NDArray[np.float64]:
    """Return the costs of the nodes lo…hi as a term computed them; raise an error if unfit.

    Only the first nodes are checked for nan: a mistake in a formula shows everywhere.
    """
    name, expected = f"{type(term).__name__}.{method}", (hi - lo, term.n_classes)
    if not isinstance(costs, np.ndarray) or costs.shape != expected:
        raise InputError(
            f"{name} must return one cost per node and class, shape {expected}, got {_kind(costs)}"
        )
    if lo == 0 and np.isnan(costs[:100]).any():
        raise InputError(f"{name} returned costs that are not numbers (nan)")
    return costs


def _kind(value: Any) -> str:
    return f"shape {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
