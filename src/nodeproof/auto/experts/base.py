"""What an expert is: one kind of evidence, from the labels seen to class probabilities."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nodeproof.auto.held_out import HeldOut
from nodeproof.auto.pooling import Judge
from nodeproof.terms import NewNodes, NodeData

__all__ = ["Candidate", "Expert", "Learnt", "NewNodes"]

Array = NDArray[np.float64]
Rows = NDArray[np.float32]

# An expert is dropped after some folds if it is worse by this many standard errors.
_HOPELESS = 3.0


class Learnt(ABC):
    """What an expert has learnt from labels.

    Attributes
    ----------
    log_proba : ndarray of shape (n, K)
        Logarithms of class probabilities of all nodes, float32.
    """

    log_proba: Rows

    def attribute(self, scores: Array, lo: int, hi: int) -> dict[str, Array]:
        """Return the scores of the nodes lo…hi by what they come from; {} for the expert's own."""
        return {}

    @abstractmethod
    def reordered(self, position: NDArray[np.int64]) -> Self:
        """Return the same for reordered nodes; `position` is where each was before."""

    def judge(self, new: NewNodes) -> Array | None:
        """Return log-probabilities of new nodes, shape (n_new, K); None if it cannot."""
        return None

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the settings and arrays that `judge` needs, to save them."""
        return {}, {}


@dataclass(frozen=True)
class Candidate:
    """A setting of an expert, and how it did on held-out labels.

    Attributes
    ----------
    setting : object
        As `Expert.learn` takes it.
    logs : ndarray of shape (h, K)
        Log-probabilities of the held-out nodes, each without its label seen.
    loss : float
        Mean log-loss at the best temperature.
    """

    setting: Any
    logs: Array
    loss: float

    @classmethod
    def judged(cls, setting: Any, logs: Array, held: HeldOut, expert: Expert) -> Candidate:
        """Return a candidate with its loss."""
        judge = Judge.of(held.codes, expert.nodes.n_classes)
        offset = np.log(judge.shares) if expert.balanced else 0.0
        scale = judge.temperature(logs, offset)
        return cls(setting, logs, judge.loss(scale * logs + offset))


class Expert(ABC):
    """One kind of evidence on the classes of nodes.

    An expert is bound to the data once, and keeps there what all folds and settings share. It then
    learns from labels, as often as it is asked to, in time linear in the links.
    """

    #: what it is called in `choices_` and in ``experts=[...]``
    name: ClassVar[str]

    #: what it draws on, "graph" or "features"
    source: ClassVar[str] = "graph"

    #: whether it takes seconds rather than tenths: tried only where others leave something to add
    costly: ClassVar[bool] = False

    #: whether it takes all classes for equally frequent, whatever the labels
    balanced: ClassVar[bool] = False

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

    def describe(self, setting: Any) -> str:
        """Return a setting in words."""
        return "" if setting is None else str(setting)

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

    def held_out(self, held: HeldOut, setting: Any, than: Array | None = None) -> Array | None:
        """Return log-probabilities of held-out nodes, each without its label seen, (h, K).

        Parameters
        ----------
        than : ndarray of shape (h,), optional
            Losses of another expert. Once the folds so far are clearly worse, None is returned.
        """
        judge = Judge.of(held.codes, self.nodes.n_classes)
        logs = np.full((len(held.nodes), self.nodes.n_classes), np.nan)
        for fold, y in enumerate(held.y):
            here = held.folds == fold
            logs[here] = self.learn(y, setting).log_proba[held.nodes[here]]
            done = np.isfinite(logs[:, 0])
            if than is not None and not done.all() and done.any():
                own = judge.only(done)
                worse = own.losses(own.temperature(logs[done], 0.0) * logs[done]) - than[done]
                if worse.mean() > _HOPELESS * worse.std() / np.sqrt(len(worse)):
                    return None
        return logs

    def candidates(self, held: HeldOut, than: Array | None = None) -> list[Candidate]:
        """Return what was tried on held-out labels, without what was clearly worse.

        Parameters
        ----------
        than : ndarray of shape (h,), optional
            Losses of the best expert so far.
        """
        found = []
        for setting in self.settings():
            logs = self.held_out(held, setting, than)
            if logs is not None:
                found.append(Candidate.judged(setting, logs, held, self))
        return found

    @classmethod
    def restored(cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Learnt:
        """Return what was learnt from its saved parts; `log_proba` is not among them."""
        raise NotImplementedError(f"{cls.__name__} cannot be restored")
