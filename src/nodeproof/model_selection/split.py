"""A split: the nodes whose labels are given, and those whose labels are hidden."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from nodeproof.errors import InputError

__all__ = ["Split", "keep_labels"]


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Which labels are given, which serve to choose settings, and which are asked for.

    Attributes
    ----------
    train, validation, test : ndarray of int
        Positions of nodes; no node is in two of them, and some may be in none.

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
            Hidden ones are −1, an empty string or, among objects, None.
        """
        if isinstance(y, list | tuple) and any(isinstance(label, str) for label in y):
            y = np.asarray(y, dtype=object)  # else numpy would take -1 and None for names
        labels = column_or_1d(y, warn=True)
        last = max(part.max(initial=-1) for part in (self.train, self.validation, self.test))
        if last >= len(labels):
            raise InputError(f"the split speaks of node {last}, but y has {len(labels)} entries")
        kept = self.train
        if np.ma.isMaskedArray(y):  # a mask hides labels, too
            kept = kept[~np.ma.getmaskarray(y).reshape(-1)[kept]]
        return keep_labels(labels, kept)


def keep_labels(labels: NDArray[Any], nodes: NDArray[np.intp]) -> NDArray[Any]:
    """Return a copy of the labels, shape (n,), that is unknown at all but the given nodes."""
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
