"""Splits and splitters: which labels to hide. Unlabelled nodes are in no part of any split."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import combinations
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import column_or_1d

from nodeproof.errors import InputError
from nodeproof.inputs import encode_labels
from nodeproof.solvers.base import check_at_least, check_count

__all__ = ["LabelKFold", "Masks", "PerClass", "RandomShare", "Split", "keep_labels"]


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Nodes for training, for choosing settings, and for testing.

    Attributes
    ----------
    train, validation, test : ndarray of int
        Positions of nodes; no node is in two parts, and some may be in none.

    Examples
    --------
    >>> from nodeproof.model_selection import Split
    >>> split = Split(train=[0, 3], validation=[], test=[1])
    >>> split
    Split(train=2, validation=0, test=1)
    >>> split.hide([5, 5, 7, 7])
    array([ 5, -1, -1,  7])
    """

    train: NDArray[np.intp]
    validation: NDArray[np.intp]
    test: NDArray[np.intp]

    def __post_init__(self) -> None:
        names = [field.name for field in fields(self)]
        for name in names:
            object.__setattr__(self, name, _as_positions(name, getattr(self, name)))
        for one, other in combinations(names, 2):
            shared = np.intersect1d(getattr(self, one), getattr(self, other))
            if len(shared):
                raise InputError(f"node {shared[0]} is both in {one} and in {other}")

    def __repr__(self) -> str:
        sizes = (f"{field.name}={len(getattr(self, field.name))}" for field in fields(self))
        return f"Split({', '.join(sizes)})"

    def hide(self, y: Any) -> NDArray[Any]:
        """Return a copy of the labels in which only those of the training nodes remain.

        Parameters
        ----------
        y : array of shape (n,)
            Labels.

        Returns
        -------
        ndarray of shape (n,)
            Hidden labels are −1, an empty string or, among objects, None.
        """
        if isinstance(y, list | tuple) and any(isinstance(label, str) for label in y):
            y = np.asarray(y, dtype=object)  # else numpy would take -1 and None for names
        labels = column_or_1d(y, warn=True)
        last = max(part.max(initial=-1) for part in (self.train, self.validation, self.test))
        if last >= len(labels):
            raise InputError(f"the split names node {last}, but y has {len(labels)} entries")
        kept = self.train
        if np.ma.isMaskedArray(y):  # a mask hides labels, too
            kept = kept[~np.ma.getmaskarray(y).reshape(-1)[kept]]
        return keep_labels(labels, kept)


class _Counted:
    """Base of splitters with a fixed number of splits."""

    n_splits: int

    def get_n_splits(self, y: Any = None) -> int:
        """Return the number of splits."""
        return self.n_splits


@dataclass(frozen=True)
class PerClass(_Counted):
    """Train on the same number of labels per class, drawn at random; test on the others.

    Parameters
    ----------
    n_train, n_validation : int
        Training and validation nodes per class.
    n_splits : int
        Number of splits, drawn independently.
    random_state : int, RandomState or None
        Seed; the same seed gives the same splits.

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
                f"{needed} labels per class are needed (n_train={self.n_train}, "
                f"n_validation={self.n_validation}), but class {', class '.join(short[:5])}"
                + (", …" if len(short) > 5 else "")
            )
        rng = _generator(self.random_state)
        for _ in range(self.n_splits):
            yield _draw(members, [(self.n_train, self.n_validation)] * len(members), rng)


@dataclass(frozen=True)
class RandomShare(_Counted):
    """Train on a share of each class's labels, drawn at random; test on the others.

    Shares are rounded class by class; every class has at least one training node.

    Parameters
    ----------
    train, validation : float
        Shares of the labelled nodes, together less than 1.
    n_splits : int
        Number of splits, drawn independently.
    random_state : int, RandomState or None
        Seed; the same seed gives the same splits.

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


@dataclass(frozen=True)
class LabelKFold(_Counted):
    """Hide each label once: the labelled nodes are divided into stratified folds.

    The sizes of two folds differ by at most one, in total and per class. So a class with two or
    more labels keeps one in every split; a class with a single label always keeps it and is never
    tested.

    Parameters
    ----------
    n_splits : int
        Number of folds, at least 2.
    random_state : int, RandomState or None
        Seed; the same seed gives the same folds.

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
        # Each class is a contiguous part of `dealt`, so taking turns divides each evenly.
        fold = np.arange(len(dealt)) % self.n_splits
        for k in range(self.n_splits):
            train = _joined([dealt[fold != k], *lone])
            yield Split(np.sort(train), np.empty(0, np.intp), np.sort(dealt[fold == k]))


@dataclass(frozen=True, eq=False, repr=False)
class Masks:
    """Predefined splits: one, or one per column of the masks.

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
        """Return the splits of a dataset: its ``masks`` by name."""
        masks = getattr(dataset, "masks", None) or {}
        if masks.get("train") is None:
            raise InputError(
                f"this {type(dataset).__name__} has no split: it has no masks['train']; "
                "PerClass and RandomShare draw random ones"
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
            raise InputError(f"masks need one column per split, or one for all, but {listed}")
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
    """Return the classes and the nodes labelled with each."""
    classes, codes = _codes(y)
    sizes = np.bincount(codes + 1, minlength=len(classes) + 1)  # first the unlabelled
    return classes, np.split(np.argsort(codes, kind="stable"), np.cumsum(sizes)[:-1])[1:]


def _draw(
    members: list[NDArray[np.intp]], counts: list[tuple[int, int]], rng: np.random.Generator
) -> Split:
    """Draw these numbers of training and validation nodes from each class."""
    parts = [
        np.split(rng.permutation(nodes), (n_train, n_train + n_validation))
        for nodes, (n_train, n_validation) in zip(members, counts, strict=True)
    ]
    return Split(*(np.sort(_joined(part)) for part in zip(*parts, strict=True)))


def _joined(parts: Any) -> NDArray[np.intp]:
    return np.concatenate([np.empty(0, dtype=np.intp), *parts])


def _generator(random_state: Any) -> np.random.Generator:
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))


def keep_labels(labels: NDArray[Any], nodes: NDArray[np.intp]) -> NDArray[Any]:
    """Return a copy of the labels, shape (n,), unknown except at the given nodes."""
    kind = labels.dtype.kind
    if kind == "u" and labels[nodes].max(initial=0) >= 2**63:
        raise InputError(
            f"y has the label {labels[nodes].max()}; numbers that name classes must be below 2**63 "
            "where labels are hidden: give them as text"
        )
    if kind == "O":
        kept = np.full(len(labels), None, dtype=object)
    elif kind in "US":
        kept = np.zeros_like(labels)  # empty strings
    else:
        # Booleans and unsigned integers have no -1.
        kept = np.full(len(labels), -1, dtype=np.int64 if kind in "bu" else labels.dtype)
    kept[nodes] = labels[nodes]
    return kept


def _as_positions(name: str, nodes: Any) -> NDArray[np.intp]:
    positions = np.asarray(nodes)
    if positions.size == 0:
        return np.empty(0, dtype=np.intp)
    if positions.ndim != 1 or positions.dtype.kind not in "iu":
        raise InputError(
            f"{name} must be a list of node positions, got {positions.dtype} of shape "
            f"{positions.shape}; Masks takes boolean masks"
        )
    if positions.min() < 0:
        raise InputError(f"{name} holds {positions.min()}: positions of nodes start at 0")
    return positions.astype(np.intp)
