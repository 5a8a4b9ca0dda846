"""Held-out labels: experts are judged by labels that they have not seen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodeproof.terms.logistic import assign_folds

__all__ = ["CrossFitted", "HeldOut", "hold_out"]

Array = NDArray[np.float64]

_FOLDS = 5


class CrossFitted(NamedTuple):
    """Labelled nodes with cross-fitted probabilities: by fits that did not see their labels.

    Attributes
    ----------
    nodes, codes : ndarray of shape (h,)
        The nodes, and their labels as class numbers.
    proba : ndarray of shape (h, K)
        Their class probabilities.
    noise : float
        Estimated share of wrong labels.
    proportions : ndarray of shape (K,), or None
        Class proportions of the nodes to predict, as a pool of experts assumes; `proba` are at
        those of the labels.
    """

    nodes: NDArray[np.int64]
    codes: NDArray[np.int64]
    proba: NDArray[np.float32]
    noise: float
    proportions: Array | None = None

    def at(self, nodes: NDArray[np.int64]) -> CrossFitted:
        """Return the same with the nodes renumbered, in ascending order."""
        order = np.argsort(nodes)
        return self._replace(nodes=nodes[order], codes=self.codes[order], proba=self.proba[order])


@dataclass(frozen=True)
class HeldOut:
    """Labels that are held out of fits, to judge them by.

    Attributes
    ----------
    nodes : ndarray of shape (h,)
        Where they are, ascending.
    codes : ndarray of shape (h,)
        What they are, 0…K−1.
    folds : ndarray of shape (h,)
        The fit that each is held out of: 0…F−1.
    y : list of F ndarray of shape (n,)
        The labels that each fit sees; none for fits to all nodes, which hide all at once.
    own : bool
        Whether the final fit sees these labels; it does not see those of `validation`.
    places : ndarray of shape (h,), or None
        If `nodes` are those of a sample, where they are among all nodes.
    """

    nodes: NDArray[np.int64]
    codes: NDArray[np.int64]
    folds: NDArray[np.int64]
    y: list[NDArray[np.int64]]
    own: bool = True
    places: NDArray[np.int64] | None = None

    @property
    def sampled(self) -> bool:
        """Whether a sample of the nodes was judged."""
        return self.places is not None

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return int(self.folds.max(initial=0)) + 1

    @property
    def among_all(self) -> NDArray[np.int64]:
        """Where the held-out labels are among all nodes, ascending, shape (h,)."""
        return self.nodes if self.places is None else self.places

    def within(self, kept: NDArray[np.int64], y: NDArray[np.int64]) -> HeldOut:
        """Return the same in a sample of the nodes.

        Parameters
        ----------
        kept : ndarray of int
            Where its nodes are among all nodes, ascending.
        y : ndarray of int
            Their labels.
        """
        nodes = np.searchsorted(kept, self.nodes)
        seen = _hide(y, nodes, self.folds) if self.own else [y]
        return replace(self, nodes=nodes, y=seen, places=self.nodes)

    def parts(self) -> list[NDArray[np.int64]]:
        """Return positions of the labels, cut into parts, to judge what the others have chosen.

        These are the folds, or parts of the labels of `validation`, which no fit sees.
        """
        folds = self.folds
        if not self.own:
            folds = assign_folds(self.codes, min(_FOLDS, len(self.codes)))
        return [np.flatnonzero(folds == part) for part in np.unique(folds)]

    def others(self, part: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions of all labels but those of a part; of all if there is only one."""
        rest = np.setdiff1d(np.arange(len(self.codes)), part)
        return rest if len(rest) else part


def hold_out(
    y: NDArray[np.int64],
    validation: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
    n_folds: int = _FOLDS,
    only: NDArray[np.int64] | None = None,
) -> HeldOut | None:
    """Return the labels to judge by, or None if there are too few to hold any out.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Labels 0…K−1, −1 where there is none.
    validation : pair of ndarray, optional
        Nodes and their labels, to judge by instead of folds.
    only : ndarray of int, optional
        Labelled nodes that may be held out of fits to a sample of the nodes, ascending; by default
        all, of fits to all nodes.
    """
    if validation is not None:
        nodes, codes = validation
        order = np.argsort(nodes)
        folds = np.zeros(len(nodes), dtype=np.int64)
        return HeldOut(nodes[order], codes[order], folds, [y], own=False)
    labelled = np.flatnonzero(y >= 0)
    counts = np.bincount(y[labelled])
    nodes = labelled if only is None else only
    codes = y[nodes]
    if (counts[counts > 0] < 2).all() or (counts > 0).sum() < 2:
        return None
    folds = assign_folds(codes, min(n_folds, len(nodes)))
    # The only label of a class cannot be held out.
    kept = counts[codes] >= 2
    nodes, codes, folds = nodes[kept], codes[kept], folds[kept]
    if only is not None:
        return HeldOut(nodes, codes, folds, [], places=nodes)
    return HeldOut(nodes, codes, folds, _hide(y, nodes, folds))


def _hide(
    y: NDArray[np.int64], nodes: NDArray[np.int64], folds: NDArray[np.int64]
) -> list[NDArray[np.int64]]:
    """Return the labels without those of each fold."""
    seen = []
    for fold in range(int(folds.max(initial=0)) + 1):
        hidden = y.copy()
        hidden[nodes[folds == fold]] = -1
        seen.append(hidden)
    return seen
