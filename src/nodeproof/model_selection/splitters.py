"""Splitters: which labels to hide. Nodes without a label are in no part of any split."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from nodeproof.errors import InputError
from nodeproof.inputs import encode_labels
from nodeproof.model_selection.scores import Split
from nodeproof.solvers.base import check_at_least, check_count

__all__ = ["LabelKFold", "Masks", "PerClass", "RandomShare"]


@dataclass(frozen=True)
class PerClass:
    """Give the same number of labels a class, drawn at random; the other labels are the test.

    Parameters
    ----------
    n_train, n_validation : int
        Training and validation nodes a class.
    n_splits : int
        Number of splits, each drawn afresh.
    random_state : int, RandomState or None
        Seed: the same one gives the same splits.

    Examples
    --------
    >>> from nodeproof.model_selection import PerClass
    >>> y = ["a", "a", "a", "b", "b", "b", "b", ""]
    >>> list(PerClass(n_train=1, n_validation=1, n_splits=2, random_state=0).split(y))
    [Split(train=2, validation=2, test=3), Split(train=2, validation=2, test=3)]
    """

    n_train: int = 20
    n_validation: int = 0
    n_splits: int = 20
    random_state: Any = None

    def split(self, y: Any) -> Iterator[Split]:
        """Yield the splits of the labels y, shape (n,)."""
        check_count("n_train", self.n_train)
        if self.n_validation != 0:
            check_count("n_validation", self.n_validation)
        check_count("n_splits", self.n_splits)
        classes, members = _members(y)
        needed = self.n_train + self.n_validation
        short = [
            f"{name} has {len(nodes)}"
            for name, nodes in zip(classes, members, strict=True)
            if len(nodes) < needed
        ]
        if short:
            raise InputError(
                f"{needed} labels a class are needed (n_train={self.n_train}, "
                f"n_validation={self.n_validation}), but class {', class '.join(short[:5])}"
                + (", …" if len(short) > 5 else "")
            )
        rng = _generator(self.random_state)
        for _ in range(self.n_splits):
            yield _draw(members, [(self.n_train, self.n_validation)] * len(members), rng)

    def get_n_splits(self, y: Any = None) -> int:
        """Return the number of splits."""
        return self.n_splits


@dataclass(frozen=True)
class RandomShare:
    """Give a share of each class's labels, drawn at random; the other labels are the test.

    Shares are rounded class by class; every class has at least one training node.

    Parameters
    ----------
    train, validation : float
        Shares of the labelled nodes, together less than 1.
    n_splits : int
        Number of splits, each drawn afresh.
    random_state : int, RandomState or None
        Seed: the same one gives the same splits.

    Examples
    --------
    >>> from nodeproof.model_selection import RandomShare
    >>> y = [0] * 60 + [1] * 20 + [-1] * 20
    >>> next(RandomShare(train=0.1, random_state=0).split(y))
    Split(train=8, validation=0, test=72)
    """

    train: float = 0.1
    validation: float = 0.0
    n_splits: int = 20
    random_state: Any = None

    def split(self, y: Any) -> Iterator[Split]:
        """Yield the splits of the labels y, shape (n,)."""
        check_at_least("train", self.train, 0.0)
        check_at_least("validation", self.validation, 0.0)
        check_count("n_splits", self.n_splits)
        if self.train == 0 or self.train + self.validation >= 1:
            raise InputError(
                "train and validation are shares, above 0 and together below 1, got "
                f"{self.train} and {self.validation}; PerClass takes numbers of nodes"
            )
        _, members = _members(y)
        counts = []
        for nodes in members:
            n_train = max(1, round(self.train * len(nodes)))
            n_validation = round(self.validation * len(nodes))
            counts.append((n_train, min(n_validation, len(nodes) - n_train)))
        rng = _generator(self.random_state)
        for _ in range(self.n_splits):
            yield _draw(members, counts, rng)

    def get_n_splits(self, y: Any = None) -> int:
        """Return the number of splits."""
        return self.n_splits


@dataclass(frozen=True)
class LabelKFold:
    """Hide each labelled node once: the labels are cut into folds, each class evenly.

    The sizes of two folds differ by one at most, in total and class by class. So a class with two
    labels or more keeps one in every split; a class with a single label always keeps it and is
    never tested.

    Parameters
    ----------
    n_splits : int
        Number of folds, at least 2.
    random_state : int, RandomState or None
        Seed: the same one gives the same folds.

    Examples
    --------
    >>> from nodeproof.model_selection import LabelKFold
    >>> y = [0, 0, 0, 1, 1, -1, -1]
    >>> for split in LabelKFold(2, random_state=0).split(y):
    ...     print(split.train, split.test)
    [2 4] [0 1 3]
    [0 1 3] [2 4]
    """

    n_splits: int = 5
    random_state: Any = None

    def split(self, y: Any) -> Iterator[Split]:
        """Yield the splits of the labels y, shape (n,)."""
        check_count("n_splits", self.n_splits)
        if self.n_splits < 2:
            raise InputError("n_splits must be at least 2: one fold would leave no label to fit")
        _, members = _members(y)
        rng = _generator(self.random_state)
        lone = [nodes for nodes in members if len(nodes) == 1]
        dealt = _joined(rng.permutation(nodes) for nodes in members if len(nodes) > 1)
        if len(dealt) < self.n_splits:
            raise InputError(
                f"{self.n_splits} folds need as many labels (of classes with two or more), but "
                f"there are {len(dealt)}; lower n_splits"
            )
        # Each class is one run of `dealt`, so dealing that out in turn shares each evenly.
        fold = np.arange(len(dealt)) % self.n_splits
        for k in range(self.n_splits):
            train = _joined([dealt[fold != k], *lone])
            yield Split(np.sort(train), np.empty(0, np.intp), np.sort(dealt[fold == k]))

    def get_n_splits(self, y: Any = None) -> int:
        """Return the number of splits."""
        return self.n_splits


@dataclass(frozen=True, eq=False, repr=False)
class Masks:
    """Splits that are given: one, or one a column of the masks.

    Parameters
    ----------
    train : array of bool, shape (n,) or (n, n_splits)
        Training nodes.
    validation : array of bool, shape (n,) or (n, n_splits), optional
        Validation nodes; by default none.
    test : array of bool, shape (n,) or (n, n_splits), optional
        Test nodes; by default all labelled nodes that are in neither of the others.

    Examples
    --------
    >>> from nodeproof.model_selection import Masks
    >>> masks = Masks(train=[True, True, False, False, False])
    >>> [split.test for split in masks.split([0, 1, 0, 1, -1])]
    [array([2, 3])]
    """

    train: Any
    validation: Any = None
    test: Any = None

    @classmethod
    def of(cls, dataset: Any) -> Self:
        """Return the splits that a dataset brings: its ``masks`` by name."""
        masks = getattr(dataset, "masks", None) or {}
        if masks.get("train") is None:
            raise InputError(
                f"this {type(dataset).__name__} brings no split: it has no masks['train']; "
                "PerClass and RandomShare draw some"
            )
        return cls(masks["train"], masks.get("validation"), masks.get("test"))

    def split(self, y: Any) -> Iterator[Split]:
        """Yield the splits; nodes without a label in y, shape (n,), are left out of them."""
        known = (_codes(y)[1] >= 0)[:, None]
        masks = self._columns()
        for name, mask in masks.items():
            if len(mask) != len(known):
                raise InputError(
                    f"the mask {name} has {len(mask)} rows, but y has {len(known)} entries"
                )
        n_splits = self.get_n_splits()
        train = masks["train"] & known
        validation = masks.get("validation", np.zeros_like(known)) & known
        test = masks.get("test", ~(train | validation)) & known
        for parts in zip(
            *(
                np.broadcast_to(part, (len(known), n_splits)).T
                for part in (train, validation, test)
            ),
            strict=True,
        ):
            yield Split(*(np.flatnonzero(part) for part in parts))

    def get_n_splits(self, y: Any = None) -> int:
        """Return the number of splits."""
        columns = {name: mask.shape[1] for name, mask in self._columns().items()}
        several = set(columns.values()) - {1}
        if len(several) > 1:
            listed = ", ".join(f"{name} has {count}" for name, count in columns.items())
            raise InputError(f"masks need one column a split, or one for all, but {listed}")
        return several.pop() if several else 1

    def _columns(self) -> dict[str, NDArray[np.bool_]]:
        """Return the masks that are given, each of shape (n, 1) or (n, n_splits)."""
        given = {"train": self.train, "validation": self.validation, "test": self.test}
        columns = {name: np.asarray(mask) for name, mask in given.items() if mask is not None}
        for name, mask in columns.items():
            if mask.dtype != bool or mask.ndim not in (1, 2) or 0 in mask.shape:
                raise InputError(
                    f"the mask {name} must be booleans of shape (n,) or (n, n_splits), got "
                    f"{mask.dtype} of shape {mask.shape}"
                )
        return {name: mask.reshape(len(mask), -1) for name, mask in columns.items()}

    def __repr__(self) -> str:
        return f"Masks({', '.join(self._columns())}; n_splits={self.get_n_splits()})"


def _codes(y: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    labels = encode_labels(y, None)
    if labels.codes is None:
        raise InputError("y holds no label: there is nothing to split")
    return labels.classes, labels.codes


def _members(y: Any) -> tuple[NDArray[Any], list[NDArray[np.intp]]]:
    """Return the classes and the nodes that carry the label of each."""
    classes, codes = _codes(y)
    sizes = np.bincount(codes + 1, minlength=len(classes) + 1)  # first those without a label
    return classes, np.split(np.argsort(codes, kind="stable"), np.cumsum(sizes)[:-1])[1:]


def _draw(
    members: list[NDArray[np.intp]], counts: list[tuple[int, int]], rng: np.random.Generator
) -> Split:
    """Draw so many training and validation nodes from each class."""
    parts = [
        np.split(rng.permutation(nodes), (n_train, n_train + n_validation))
        for nodes, (n_train, n_validation) in zip(members, counts, strict=True)
    ]
    return Split(*(np.sort(_joined(part)) for part in zip(*parts, strict=True)))


def _joined(parts: Any) -> NDArray[np.intp]:
    return np.concatenate([np.empty(0, dtype=np.intp), *parts])


def _generator(random_state: Any) -> np.random.Generator:
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
