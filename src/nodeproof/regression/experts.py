"""What an expert for numbers is: one kind of evidence, from targets seen to predictions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nodeproof.regression.held_out import HeldTargets
from nodeproof.storage.schema import Check, Expected
from nodeproof.terms import NewNodes, NodeData

__all__ = ["LearntNumbers", "NumberExpert"]

Array = NDArray[np.float64]


class LearntNumbers(ABC):
    """What an expert has learnt from targets.

    Attributes
    ----------
    predictions : ndarray of shape (n,)
        Of all nodes; empty if restored from a file.
    """

    predictions: Array

    @property
    def needs_features(self) -> bool:
        """Whether `judge` looks at the features of new nodes."""
        return False

    @abstractmethod
    def judge(self, new: NewNodes) -> Array:
        """Return predictions for new nodes, shape (n_new,)."""

    @abstractmethod
    def reordered(self, position: NDArray[np.int64]) -> Self:
        """Return the same for reordered nodes; `position` is where each was before."""

    @abstractmethod
    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the settings and arrays that `judge` needs, to save them."""


class NumberExpert(ABC):
    """One kind of evidence.

    Attributes
    ----------
    name, about : str
        What it is called, and what it draws on.
    """

    name: ClassVar[str]
    about: ClassVar[str]

    #: what the settings of `LearntNumbers.to_parts` must be
    kept_settings: ClassVar[Mapping[str, Check]]

    @abstractmethod
    def why_not(self, nodes: NodeData, n_targets: int) -> str | None:
        """Return why it does not apply to the data; None if it does."""

    @abstractmethod
    def held_out(self, nodes: NodeData, held: HeldTargets) -> dict[Any, Array]:
        """Return, by setting, predictions of held-out nodes, each without its target, (h,)."""

    @abstractmethod
    def learn(self, nodes: NodeData, held: HeldTargets, setting: Any) -> LearntNumbers:
        """Return what is learnt from all targets."""

    @abstractmethod
    def describe(self, setting: Any) -> str:
        """Return a setting in words."""

    @classmethod
    @abstractmethod
    def kept_layout(cls, settings: Mapping[str, Any]) -> Mapping[str, Expected]:
        """Return which arrays are saved with these settings: n nodes, m features; {0} is a tag."""

    @classmethod
    @abstractmethod
    def restored(
        cls, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> LearntNumbers:
        """Return what was learnt from its saved parts, without predictions.

        Raises
        ------
        ValueError, LookupError, TypeError
            If these are no such parts.
        """
