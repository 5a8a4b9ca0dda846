"""What an expert is: one kind of evidence, from the labels seen to class probabilities."""

from __future__ import annotations

import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nodeproof.auto.held_out import HeldOut
from nodeproof.auto.pooling import Judge
from nodeproof.graph import Graph
from nodeproof.runtime import threads
from nodeproof.storage.schema import Check, Expected, plain
from nodeproof.terms import NewNodes, NodeData

__all__ = ["Candidate", "Changed", "Expert", "Learnt", "NewNodes"]

Array = NDArray[np.float64]
Rows = NDArray[np.float32]

# An expert is dropped after some folds if it is worse by this many standard errors, and by this
# share of the log-loss of guessing: where all are almost perfect, differences mean little.
_HOPELESS, _MUCH_WORSE = 3.0, 0.05

# Folds that are learnt on several threads before the first look at how they did.
_TOGETHER = 2


def no_logs(n_classes: int) -> Rows:
    """Return the `log_proba` of what was restored from a file: those of no node, (0, K)."""
    return np.empty((0, n_classes), dtype=np.float32)


@dataclass(frozen=True)
class Changed:
    """What an update of a fitted model has changed.

    Attributes
    ----------
    nodes : NodeData
        All nodes after the change, new ones last.
    before : Graph or None
        The links before the change.
    new : NewNodes
        The new nodes, with their links to those that were there before.
    touched : ndarray of int
        Nodes that were there before and have other links now, ascending.
    relabelled : bool
        Whether labels have changed, or new nodes have some.
    """

    nodes: NodeData
    before: Graph | None
    new: NewNodes
    touched: NDArray[np.int64]
    relabelled: bool

    @property
    def n_new(self) -> int:
        """Number of new nodes."""
        return int(self.new.links.shape[0])

    @property
    def rewired(self) -> bool:
        """Whether there are new nodes, or other links."""
        return self.n_new > 0 or len(self.touched) > 0


class Learnt:
    """What an expert has learnt from labels.

    Attributes
    ----------
    log_proba : ndarray of shape (n, K)
        Logarithms of class probabilities of all nodes, float32.
    """

    log_proba: Rows

    @property
    def needs_features(self) -> bool:
        """Whether `judge` looks at the features of new nodes."""
        return False

    def attribute(self, scores: Array, lo: int, hi: int) -> dict[str, Array]:
        """Return the scores of the nodes lo…hi by what they come from; {} for the expert's own."""
        return {}

    def reordered(self, position: NDArray[np.int64]) -> Self:
        """Return the same for reordered nodes; `position` is where each was before.

        To be overridden where more than `log_proba` has one entry per node.
        """
        moved = copy.copy(self)
        moved.log_proba = self.log_proba[position]
        return moved

    def with_logs(self, log_proba: Rows) -> Self:
        """Return the same with other `log_proba`."""
        found = copy.copy(self)
        vars(found)["log_proba"] = log_proba
        return found

    def judge(self, new: NewNodes) -> Array | None:
        """Return log-probabilities of new nodes, shape (n_new, K); None if it cannot."""
        return None

    def updated(self, changed: Changed, log_proba: Rows) -> Learnt:
        """Return what is known after a change, without choosing any setting again.

        By default fitted nodes keep their log-probabilities.

        Parameters
        ----------
        log_proba : ndarray of shape (n, K)
            Of all nodes: as they were, and of the new nodes as `judge` says.
        """
        return self.with_logs(log_proba)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the settings and arrays that `judge` needs, to save them.

        They are those that `Expert.kept_settings` and `Expert.kept_layout` list.
        """
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
    head_start : float
        Prior knowledge in favour of the setting: nats of log-likelihood by which it is preferred.
    """

    setting: Any
    logs: Array
    loss: float
    head_start: float = 0.0

    @classmethod
    def judged(
        cls, setting: Any, logs: Array, held: HeldOut, expert: Expert, head_start: float = 0.0
    ) -> Candidate:
        """Return a candidate with its loss."""
        judge = Judge.of(held.codes, expert.nodes.n_classes)
        return cls(setting, logs, judge.best_loss(logs, expert.balanced), head_start)

    @staticmethod
    def best_of(
        candidates: Sequence[Candidate], losses: Sequence[float], n_labels: int
    ) -> Candidate:
        """Return the candidate of least loss, head starts counted.

        Parameters
        ----------
        losses : sequence of float
            Mean losses of the candidates on this many labels.
        """
        scores = [
            loss - candidate.head_start / n_labels
            for candidate, loss in zip(candidates, losses, strict=True)
        ]
        return candidates[int(np.argmin(scores))]


class Expert(ABC):
    """One kind of evidence on the classes of nodes.

    An expert is bound to the data once, and keeps there what all folds and settings share. It then
    learns from labels, as often as it is asked to, in time linear in the links.
    """

    #: what it is called in `choices_` and in ``experts=[...]``
    name: ClassVar[str]

    #: what it looks at, in a few words, for tables of the experts
    about: ClassVar[str] = ""

    #: what it draws on, "graph" or "features"
    source: ClassVar[str] = "graph"

    #: whether it takes seconds rather than tenths: tried only where others leave something to add
    costly: ClassVar[bool] = False

    #: whether it takes all classes for equally frequent, whatever the labels
    balanced: ClassVar[bool] = False

    #: whether several threads may call `learn` at the same time
    concurrent: ClassVar[bool] = False

    #: settings and arrays that `Learnt.judge` wants to be saved, with what they must be: n nodes, K
    #: classes, m features; a side such as ``r{0}`` is the expert's own
    kept_settings: ClassVar[Mapping[str, Check]] = {}
    kept_arrays: ClassVar[Mapping[str, Expected]] = {}

    #: settings among these that files of earlier versions do not have
    kept_since: ClassVar[frozenset[str]] = frozenset()

    nodes: NodeData

    def __repr__(self) -> str:
        given = (name for name in self.arguments() if getattr(self, name, None) is not None)
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in given)
        return f"{type(self).__name__}({shown})"

    def why_not(self, nodes: NodeData) -> str | None:
        """Return why the expert does not apply to the data; None if it does."""
        return None

    def for_large_graphs(self) -> Expert | None:
        """Return an expert that takes few products with the whole graph; None if there is none."""
        return self

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
        logs = np.empty((len(held.nodes), self.nodes.n_classes))

        # First some to look at; then as many as there are threads, which share one that is left.
        first, most = 1, 1
        if self.concurrent:
            first, most = _TOGETHER, max(_TOGETHER, threads.available())
        folds = range(len(held.y))
        for start, end in pairwise([0, *folds[first::most], len(folds)]):
            some = folds[start:end]

            def learn(k: int, some: range = some) -> None:
                here = held.folds == some[k]
                logs[here] = self.learn(held.y[some[k]], setting).log_proba[held.nodes[here]]

            threads.map_each(learn, len(some))
            for fold in some:
                if than is not None and self._is_hopeless(logs, held, fold, than):
                    return None
        return logs

    def _is_hopeless(self, logs: Array, held: HeldOut, fold: int, than: Array) -> bool:
        """Tell whether the folds up to this one, but not all, are clearly worse predicted."""
        done = held.folds <= fold
        if done.all() or not done.any():
            return False
        own = Judge.of(held.codes, self.nodes.n_classes).only(done)
        worse = own.losses(own.temperature(logs[done], 0.0) * logs[done]) - than[done]
        error = worse.std() / np.sqrt(len(worse))
        much = _MUCH_WORSE * np.log(self.nodes.n_classes)
        return bool(worse.mean() > max(_HOPELESS * error, much))

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

    # Saved models. ----------------------------------------------------------------------

    @classmethod
    def arguments(cls) -> Mapping[str, Check]:
        """Return the arguments that make up an expert, with what a saved file may say of each.

        By default those of the constructor, any plain values, each stored in an attribute of its
        name.
        """
        return dict.fromkeys(inspect.signature(cls).parameters, plain)

    @classmethod
    def kept_layout(cls, settings: Mapping[str, Any]) -> Mapping[str, Expected]:
        """Return which arrays are saved along with these settings; by default `kept_arrays`."""
        return cls.kept_arrays

    @classmethod
    def restored(
        cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> Learnt | None:
        """Return what was learnt from its saved parts; its `log_proba` need not be there.

        None, the default, cannot judge new nodes.

        Parameters
        ----------
        settings, arrays : mapping
            As `Learnt.to_parts` returned them, checked against `kept_settings` and `kept_layout`.

        Raises
        ------
        ValueError
            If the numbers cannot be what was saved.
        """
        return None
