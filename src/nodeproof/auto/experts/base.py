"""What an expert is: one kind of evidence, from the labels seen to class probabilities."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.auto.held_out import HeldOut
from nodeproof.terms import NodeData

__all__ = ["Expert", "Learnt", "NewNodes"]

Array = NDArray[np.float64]
Rows = NDArray[np.float32]


@dataclass(frozen=True)
class NewNodes:
    """Nodes that were not fitted.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n_new, m), or None
        Their features.
    links : csr_array of shape (n_new, n)
        Their links to fitted nodes, in the unit of a mean link.
    among : csr_array of shape (n_new, n_new)
        Their links among each other, symmetric, in the same unit.
    """

    X: Any
    links: sp.csr_array
    among: sp.csr_array


class Learnt(ABC):
    """What an expert has learnt from labels.

    Attributes
    ----------
    log_proba : ndarray of shape (n, K)
        Logarithms of class probabilities of all nodes, float32.
    """

    log_proba: Rows

    def judge(self, new: NewNodes) -> Array | None:
        """Return log-probabilities of new nodes, shape (n_new, K); None if it cannot."""
        return None

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the settings and arrays that `judge` needs, to save them."""
        return {}, {}


class Expert(ABC):
    """One kind of evidence on the classes of nodes.

    An expert is bound to the data once, and keeps there what all folds and settings share. It then
    learns from labels, as often as it is asked to, in time linear in the links.
    """

    #: what it is called in `choices_` and in ``experts=[...]``
    name: ClassVar[str]

    #: what it draws on, "graph" or "features"
    source: ClassVar[str] = "graph"

    nodes: NodeData

    def why_not(self, nodes: NodeData) -> str | None:
        """Return why the expert does not apply to the data; None if it does."""
        return None

    def bind(self, nodes: NodeData) -> Self:
        """Return a copy that holds the data."""
        bound = copy.copy(self)
        bound.nodes = nodes
        return bound

    def settings(self) -> Sequence[Any]:
        """Return candidate settings, the likeliest first; the best on held-out labels is taken."""
        return (None,)

    @abstractmethod
    def learn(self, y: NDArray[np.int64], setting: Any) -> Learnt:
        """Return what is learnt from the labels seen.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Labels 0…K−1, −1 where there is none or it is hidden.
        setting : object
            One of `settings`.
        """

    def held_out(self, held: HeldOut, setting: Any) -> Array:
        """Return log-probabilities of held-out nodes, each without its label seen, (h, K)."""
        logs = np.empty((len(held.nodes), self.nodes.n_classes))
        for fold, y in enumerate(held.y):
            here = held.folds == fold
            logs[here] = self.learn(y, setting).log_proba[held.nodes[here]]
        return logs

    @classmethod
    def restored(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Learnt:
        """Return what was learnt from its saved parts; `log_proba` is not among them."""
        raise NotImplementedError(f"{cls.__name__} cannot be restored")
