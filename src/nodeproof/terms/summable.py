"""Terms whose class models need no more than sums over the nodes."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self, TypeGuard

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from nodeproof.runtime import threads
from nodeproof.storage.row_files import FileRows
from nodeproof.terms.base import Array, NodeData, Term

__all__ = ["SummableTerm", "cut_rows", "is_summable", "tells_all"]


class SummableTerm(Term):
    """A term whose class models need no more than sums over the nodes.

    Its nodes can be spread over machines: each sums over its own. Write `sums` and
    `estimate_from` instead of `estimate`.
    """

    #: cached properties that were worked out for all nodes, which `cut` keeps
    of_all: ClassVar[tuple[str, ...]] = ()

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
        """Return the sums over the nodes lo…hi, of these memberships, that estimates need.

        They are linear in the memberships.
        """

    @abstractmethod
    def estimate_from(self, sums: Array) -> Array:
        """Return the class models that are most probable given the sums over all nodes."""

    def charged(self, sums: Array, models: Array) -> float | None:
        """Return ``Σ_v Σ_i W_vi cost_i(v)`` by the sums over all nodes; None if they do not tell.

        Updates of a fitted model are local where they do.
        """
        return None

    def following(self, nodes: NodeData, sums: Array) -> Self:
        """Return this term for other nodes, given the sums over them."""
        return self.bind(nodes)

    def cut(self, ranges: Sequence[tuple[int, int]] | NDArray[np.int64]) -> Self:
        """Return a copy that holds the nodes of these ranges, or these nodes, numbered anew.

        What was worked out for all nodes (`of_all`) stays. By default all that a term holds of
        single nodes are the features that `bind` has stored as ``X``; write it for a term that
        holds more.
        """
        part = copy.copy(self)
        # Of features in a file, where they are: a worker reads them there.
        in_file = None if isinstance(ranges, np.ndarray) else FileRows.of(self.X, ranges)
        part.X = in_file or cut_rows(self.X, ranges)
        part.n_nodes = part.X.shape[0]
        vars(part).update({name: getattr(self, name) for name in self.of_all})
        return part

    X: Any


def is_summable(term: Term) -> TypeGuard[SummableTerm]:
    """Tell whether a term's class models need no more than sums over the nodes."""
    return isinstance(term, SummableTerm) and term.summable


def tells_all(term: Term) -> TypeGuard[SummableTerm]:
    """Tell whether sums over the nodes are enough for class models and what these cost in all."""
    return (
        is_summable(term)
        and term.rounds is None
        and not term.discriminative
        and type(term).charged is not SummableTerm.charged
    )


def cut_rows(array: Any, ranges: Sequence[tuple[int, int]] | NDArray[np.int64]) -> Any:
    """Return the rows of these ranges, one after the other, or those of these numbers."""
    if isinstance(ranges, np.ndarray):
        return array[ranges]
    parts = [array[lo:hi] for lo, hi in ranges]
    if isinstance(array, np.ndarray):
        return np.concatenate(parts) if parts else array[:0]
    return csr_array(vstack(parts)) if parts else array[:0]
