"""Prediction sets in the report: their sizes at several coverages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nodeproof.prediction_sets import can_have_sets, find_limits

if TYPE_CHECKING:
    from nodeproof.fitted import Fitted

__all__ = ["set_rows"]

# Coverages that are shown, if there are enough held-out labels for them.
_USUAL = (0.8, 0.9, 0.95, 0.99)


def set_rows(fitted: Fitted, asked: float | None = None) -> list[dict[str, Any]]:
    """Return the sizes of sets at usual coverages, and at the one that was asked for.

    Nothing if there are too few held-out labels for any.
    """
    if not can_have_sets(fitted):
        return []
    rows = []
    for coverage in sorted({*_USUAL} if asked is None else {*_USUAL, asked}):
        limits = find_limits(fitted, coverage)
        if not limits.least.any():
            continue
        found = limits.summary(fitted.proba, fitted.given)
        rows.append(
            {
                "coverage": coverage,
                "asked": coverage == asked,
                "labels": limits.n_labels,
                "wrong": limits.noise,
                "size": found["mean_size"],
                "single": found["single"],
                "several": max(1.0 - found["single"] - found["empty"], 0.0),
                "empty": found["empty"],
            }
        )
    return rows
