"""Data sets: a graph with the features, labels, names and splits of its nodes.

Readers of all formats check links, masks and names here, and features and labels in
`tables.arrays`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.errors import InputError, count_of
from nodeproof.inputs.graph_objects import check_adjacency
from nodeproof.runtime.memory import check_free
from nodeproof.tables.keys import Keys, one_node_set

__all__ = [
    "MASKS",
    "Dataset",
    "as_mask",
    "assemble",
    "check_matrix",
    "check_node_count",
    "graph_of_edges",
    "mask_of",
    "sorted_names",
    "unless_positions",
]

#: the parts of a split
MASKS = ("train", "validation", "test")

# Bytes that a node without links takes at least before a fit.
_NODE_BYTES = 32.0


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
        Classes: integers, −1 where unknown, or text, empty where unknown. They are *all* known
        classes, including those of the test nodes; see `training_labels`.
    names : ndarray of shape (n,), or None
        Ids of the nodes; None if they are 0…n−1.
    masks : dict of str to ndarray of bool of shape (n,)
        The split, if there is one: some of "train", "validation" and "test".
    notes : list of str
        Remarks for the user, one line each.

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
        """Number of classes with a known node."""
        return 0 if self.y is None else len(np.unique(self.y[self.known]))

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which nodes have a known class, shape (n,)."""
        if self.y is None:
            return np.zeros(self.graph.shape[0], dtype=bool)
        return np.asarray(self.y != _unknown(self.y))

    def training_labels(self) -> NDArray[Any]:
        """Return the labels with all outside the train mask hidden.

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
    """Return the data set; parts of different lengths are an error that names the file."""
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


def check_matrix(path: Path, matrix: Any) -> tuple[sp.csr_array, list[str]]:
    """Return a matrix as a symmetric graph without self loops, and notes on changes."""
    notes = []
    if matrix.shape[0] == matrix.shape[1] and (loops := int(np.count_nonzero(matrix.diagonal()))):
        notes.append(f"{count_of(loops, 'self loop')} in {path.name} dropped")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            graph = check_adjacency(matrix)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return graph, notes + [f"{path.name}: {warning.message}" for warning in caught]


def check_node_count(path: Path, n_nodes: int) -> None:
    """Refuse more nodes than free memory can hold, before allocating any."""
    remedy = "are all of them meant? Else use a larger machine"
    check_free(_NODE_BYTES * n_nodes, f"{path}: a graph of {n_nodes:,} nodes", remedy)


def graph_of_edges(
    path: Path, source: NDArray[Any], target: NDArray[Any], n_nodes: int
) -> tuple[sp.csr_array, list[str]]:
    """Return the graph of an unweighted edge list, and notes; repeated links count once.

    Parameters
    ----------
    path : pathlib.Path
        The file, for messages.
    source, target : ndarray of shape (E,)
        Row positions, each edge in one direction or in both.
    n_nodes : int
        Number of nodes n.

    Returns
    -------
    graph : scipy.sparse.csr_array of shape (n, n)
        0/1, in float32.
    notes : list of str
    """
    if source.dtype.kind not in "iu" or target.dtype.kind not in "iu":
        raise InputError(f"{path}: links must be pairs of node numbers, got {source.dtype}")
    if n_nodes == 0:
        raise InputError(f"{path}: the graph is empty: it has no nodes")
    for ends in (source, target) if len(source) else ():
        for end in (int(ends.min()), int(ends.max())):
            if not 0 <= end < n_nodes:
                raise InputError(
                    f"{path}: a link names node {end}, but nodes run from 0 to {n_nodes - 1}"
                )
    check_node_count(path, n_nodes)
    loops = int(np.count_nonzero(source == target))
    index = np.int32 if n_nodes < 2**31 else np.int64
    rows = np.concatenate([source, target], dtype=index, casting="unsafe")
    columns = np.concatenate([target, source], dtype=index, casting="unsafe")
    ones = np.ones(len(rows), dtype=np.float32)
    graph = sp.csr_array(sp.coo_array((ones, (rows, columns)), shape=(n_nodes, n_nodes)))
    graph.data[:] = 1.0
    if loops:
        graph.setdiag(0)
        graph.eliminate_zeros()
    return graph, [f"{count_of(loops, 'self loop')} in {path.name} dropped"] if loops else []


def as_mask(
    path: Path, key: str, mask: NDArray[Any], n_nodes: int, split: int
) -> tuple[NDArray[np.bool_], int]:
    """Return the mask of one split, shape (n,), and the number of splits that there are.

    Parameters
    ----------
    path, key : pathlib.Path, str
        The file and the field, for messages.
    mask : ndarray of shape (n,), (splits, n) or (n, splits)
        True or false for each node.
    n_nodes, split : int
        Number of nodes n; which split to take.
    """
    if mask.ndim == 2 and mask.shape[1] != n_nodes:
        mask = mask.T
    if mask.ndim not in (1, 2) or mask.shape[-1] != n_nodes or mask.dtype.kind not in "biu":
        raise InputError(
            f"{path}: {key} must be true or false for each of {n_nodes} nodes, got {mask.dtype} of "
            f"shape {mask.shape}"
        )
    if mask.ndim == 1:
        return mask.astype(bool), 1
    if not 0 <= split < len(mask):
        raise InputError(f"{path}: there is no split {split}; {key} has 0…{len(mask) - 1}")
    return mask[split].astype(bool), len(mask)


def mask_of(path: Path, rows: NDArray[Any], n_nodes: int) -> NDArray[np.bool_]:
    """Return the mask of these row positions, shape (n,)."""
    outside = (rows < 0) | (rows >= n_nodes)
    if outside.any():
        raise InputError(
            f"{path}: there is no node {rows[outside][0]}; nodes run from 0 to {n_nodes - 1}"
        )
    mask = np.zeros(n_nodes, dtype=bool)
    mask[rows] = True
    return mask


def sorted_names(path: Path, ids: Sequence[Any]) -> tuple[NDArray[Any] | None, NDArray[np.int64]]:
    """Return the ids in the order that tables give them, and their original positions.

    Parameters
    ----------
    path : pathlib.Path
        The file, for messages.
    ids : sequence of n distinct ids
        Text or numbers.

    Returns
    -------
    names : ndarray of shape (n,) or None
        Sorted: as integers if all are, otherwise as text; None if they are 0…n−1.
    order : ndarray of shape (n,)
        Position in ``ids`` of each name.
    """
    texts = pa.array([str(name) for name in ids], pa.large_string())
    keys = Keys.of_texts(path, texts, lambda row: f"{path}, node {row} (from 0)")
    names, (nodes,) = one_node_set([keys])
    if len(names) < len(ids):
        v = int(np.bincount(nodes).argmax())
        raise InputError(f"{path}: two nodes have the id {str(names[v])!r}")
    return unless_positions(names), np.argsort(nodes)


def unless_positions(names: NDArray[Any]) -> NDArray[Any] | None:
    """Return the names, or None if they are 0…n−1."""
    plain = names.dtype.kind == "i" and np.array_equal(names, np.arange(len(names)))
    return None if plain else names
