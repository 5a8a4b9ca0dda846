"""Terms whose class models need no more than sums over the nodes."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self, TypeGuard

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from nodeproof.runtime import threads
from nodeproof.storage.row_files import FileRows
from nodeproof.terms.base import Array, Term

__all__ = ["SummableTerm", "cut_rows", "is_summable"]


class SummableTerm(Term):
    """A term whose class models need no more than sums over the nodes.

    Its nodes can be spread over machines: each sums over its own. Write `sums` and
    `estimate_from` instead of `estimate`.
    """

    def estimate(self, W: NDArray[Any]) -> Array:
        """Return the class models that are most probable given W, shape (K, ...)."""
        return self.estimate_from(
            threads.sum_rows(lambda lo, hi: self.sums(W[lo:hi], lo, hi), self.n_nodes)
        )

    @property
    def summable(self) -> bool:
        """Whether sums suffice with these settings."""
        return True

    @abstractmethod
    def sums(self, W: NDArray[Any], lo: int, hi: int) -> Array:
        """Return the sums over the nodes lo…hi, of these memberships, that estimates need."""

    @abstractmethod
    def estimate_from(self, sums: Array) -> Array:
        """Return the class models that are most probable given the sums over all nodes."""

    def cut(self, ranges: Sequence[tuple[int, int]]) -> Self:
        """Return a copy that holds the nodes of these ranges only, numbered anew.

        What was worked out for all nodes stays. By default all that a term holds of single nodes
        are the features that `bind` has stored as ``X``; write it for a term that holds more.
        """
        part = copy.copy(self)
        # Of features in a file, where they are: a worker reads them there.
        part.X = FileRows.of(self.X, ranges) or cut_rows(self.X, ranges)
        part.n_nodes = part.X.shape[0]
        return part

    X: Any


def is_summable(term: Term) -> TypeGuard[SummableTerm]:
    """Tell whether a term's class models need no more than sums over the nodes."""
    return isinstance(term, SummableTerm) and term.summable


def cut_rows(array: Any, ranges: Sequence[tuple[int, int]]) -> Any:
    """Return the rows of these ranges, one after the other."""
    parts = [array[lo:hi] for lo, hi in ranges]
    if isinstance(array, np.ndarray):
        return np.concatenate(parts) if parts else array[:0]
    return csr_array(vstack(parts)) if parts else array[:0]
