"""A graph with whatever else its files say of the nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.errors import InputError

__all__ = ["MASKS", "Dataset", "assemble"]

#: the parts of a split
MASKS = ("train", "validation", "test")


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A graph, and perhaps features, labels, names and a split of its n nodes.

    Attributes
    ----------
    graph : scipy.sparse.csr_array of shape (n, n)
        Symmetric, without self loops.
    X : ndarray or scipy.sparse.csr_array of shape (n, m), or None
        Features.
    y : ndarray of shape (n,), or None
        Classes: integers, −1 where unknown, or text, empty where unknown. They are *all* the
        classes that the files tell, also those of the test nodes; see `training_labels`.
    names : ndarray of shape (n,), or None
        Ids of the nodes; None if they are 0…n−1.
    masks : dict of str to ndarray of bool of shape (n,)
        The split, if there is one: some of "train", "validation" and "test".
    notes : list of str
        What the user should know, one line each.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from nodeproof.datasets import Dataset
    >>> triangle = sp.csr_array(np.ones((3, 3)) - np.eye(3))
    >>> train = np.array([True, False, True])
    >>> data = Dataset(triangle, y=np.array([1, 0, -1]), masks={"train": train})
    >>> data
    Dataset(n=3, edges=3, n_features=None, n_classes=2, masks=['train'])
    >>> data.training_labels().tolist()
    [1, -1, -1]
    """

    graph: sp.csr_array
    X: NDArray[Any] | sp.csr_array | None = None
    y: NDArray[Any] | None = None
    names: NDArray[Any] | None = None
    masks: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        return (
            f"Dataset(n={self.graph.shape[0]}, edges={self.graph.nnz // 2}, "
            f"n_features={None if self.X is None else self.X.shape[1]}, "
            f"n_classes={None if self.y is None else self.n_classes}, masks={list(self.masks)})"
        )

    @property
    def n_classes(self) -> int:
        """Number of classes that some node is known to be in."""
        return 0 if self.y is None else len(np.unique(self.y[self.known]))

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which nodes have a known class, shape (n,)."""
        if self.y is None:
            return np.zeros(self.graph.shape[0], dtype=bool)
        return np.asarray(self.y != _unknown(self.y))

    def training_labels(self) -> NDArray[Any]:
        """Return the labels with everything outside the train mask hidden.

        Returns
        -------
        ndarray of shape (n,)
            A copy of y, −1 (or empty text) outside ``masks["train"]``.

        Raises
        ------
        InputError
            If there are no labels, or no train mask.
        """
        if self.y is None:
            raise InputError("this data set has no labels")
        if "train" not in self.masks:
            raise InputError(
                "this data set has no train mask: choose the labels to train on yourself, and hide "
                "the others with -1 (text: an empty string)"
            )
        return np.where(self.masks["train"], self.y, _unknown(self.y)).astype(self.y.dtype)


def assemble(
    path: Path,
    graph: sp.csr_array,
    X: NDArray[Any] | sp.csr_array | None = None,
    y: NDArray[Any] | None = None,
    names: NDArray[Any] | None = None,
    masks: Mapping[str, NDArray[np.bool_]] | None = None,
    notes: Sequence[str] = (),
) -> Dataset:
    """Return the data set; parts that differ in length are an error that names the file."""
    n = graph.shape[0]
    parts = {"features": X, "labels": y, "names": names}
    parts |= {f"{part} mask": mask for part, mask in (masks or {}).items()}
    for name, part in parts.items():
        if part is not None and part.shape[0] != n:
            raise InputError(
                f"{path}: the {name} {'has' if name.endswith('mask') else 'have'} "
                f"{part.shape[0]} rows for {n} nodes"
            )
    return Dataset(graph, X, y, names, dict(masks or {}), list(notes))


def _unknown(y: NDArray[Any]) -> Any:
    return "" if y.dtype.kind == "U" else -1
