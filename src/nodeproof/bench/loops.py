"""The compiled loops of the benchmark."""

from __future__ import annotations

from typing import Any

from numba import njit

__all__ = ["count_by_class", "pass_over"]


@njit(cache=True, nogil=True)
def pass_over(indices: Any) -> int:
    """Return the sum of the indices: what it takes to read them all once, on one thread."""
    total = 0
    for e in range(len(indices)):
        total += indices[e]
    return total


@njit(cache=True, nogil=True)
def count_by_class(
    indptr: Any, indices: Any, classes: Any, start: int, stop: int, counts: Any
) -> None:
    """Add to each row v − start of the counts how many of v's neighbours are in every class."""
    for v in range(start, stop):
        for e in range(indptr[v], indptr[v + 1]):
            counts[v - start, classes[indices[e]]] += 1.0
