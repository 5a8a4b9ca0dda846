"""Graphs from a folder, and how their nodes are split."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.errors import InputError
from peers.registry import Data, Split

#: nodes a class for training and for validation in random splits; a third of a small class
TRAIN, VALIDATION = 20, 30

_MASKS = ("train_mask", "val_mask", "test_mask")


@dataclass(frozen=True)
class GraphSet:
    """A set from a file: what methods see, the classes, and the public split if there is one.

    Parameters
    ----------
    data : Data
        What methods see.
    y : ndarray of shape (n,)
        True classes, −1 where the source gives none.
    public : tuple of ndarray or None
        Training, validation and test nodes.
    digest : str
        Of the file's bytes.
    """

    data: Data
    y: NDArray[np.int64]
    public: tuple[NDArray[np.int64], ...] | None
    digest: str


def find_sets(folder: Path) -> dict[str, Path]:
    """Return the `.npz` files of a folder by the names of their sets."""
    return {path.stem: path for path in sorted(folder.glob("*.npz"))}


def read_set(path: Path) -> GraphSet:
    """Read a graph, its features, classes and public split from an `.npz` file, without pickle.

    The fields are ``n``, ``adj_indptr``, ``adj_indices`` (links both ways, no values),
    ``x_data``, ``x_indices``, ``x_indptr``, ``x_shape`` or ``x`` (features), ``y`` (−1: not
    known), and, with a public split, ``train_mask``, ``val_mask``, ``test_mask``.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            fields: dict[str, Any] = {name: file[name] for name in file.files}
        n, indices = int(fields["n"]), fields["adj_indices"]
        links = np.ones(len(indices), dtype=np.float32)
        graph = sp.csr_array((links, indices, fields["adj_indptr"]), shape=(n, n))
        if "x" in fields:
            X = fields["x"] if fields["x"].shape[1] else None
        else:
            parts = (fields["x_data"], fields["x_indices"], fields["x_indptr"])
            X = sp.csr_array(parts, shape=tuple(fields["x_shape"]))
        y = fields["y"].astype(np.int64)
    except (KeyError, ValueError, OSError) as error:
        raise InputError(f"{path} is not a graph in the layout that is expected: {error}") from None
    public = tuple(np.flatnonzero(fields[mask]) for mask in _MASKS if mask in fields)
    return GraphSet(
        Data(path.stem, graph, X, int(y.max()) + 1),
        y,
        public if len(public) == len(_MASKS) else None,
        hashlib.sha256(path.read_bytes()).hexdigest()[:12],
    )


def random_split(y: NDArray[np.int64], seed: int) -> tuple[NDArray[np.int64], ...]:
    """Return training, validation and test nodes: 20 and 30 per class, and all others.

    Of a class with fewer than 60 or 90 nodes, a third. Nodes without a class are in none.

    Examples
    --------
    >>> import numpy as np
    >>> [len(nodes) for nodes in random_split(np.repeat([0, 1], 100), seed=0)]
    [40, 60, 100]
    """
    rng = np.random.default_rng(seed)
    train, validation, test = [], [], []
    for k in range(int(y.max()) + 1):
        nodes = rng.permutation(np.flatnonzero(y == k))
        a = min(TRAIN, len(nodes) // 3)
        b = a + min(VALIDATION, len(nodes) // 3)
        train.append(nodes[:a])
        validation.append(nodes[a:b])
        test.append(nodes[b:])
    return tuple(np.sort(np.concatenate(each)) for each in (train, validation, test))


def draw(
    graph_set: GraphSet, *, random: bool, number: int, flip: float = 0.0, validation: bool = True
) -> tuple[Split, NDArray[np.int64]]:
    """Return the labels that methods may use, and the test nodes.

    Parameters
    ----------
    graph_set : GraphSet
    random : bool
        Whether to draw a random split though there is a public one.
    number : int
        Seed of the random split and of the labels that are flipped.
    flip : float
        Share of the training labels that become another class at random; validation labels
        stay right.
    validation : bool
        Whether methods may look at the validation nodes.
    """
    y, public = graph_set.y, graph_set.public
    nodes = random_split(y, number) if random or public is None else public
    train, held, test = nodes
    labels = np.full(len(y), -1)
    labels[train] = y[train]
    if flip:
        flip_labels(labels, flip, graph_set.data.n_classes, number)
    held = held if validation else held[:0]
    return Split(labels, held, y[held]), test


def flip_labels(labels: NDArray[np.int64], share: float, n_classes: int, seed: int) -> None:
    """Turn this share of the labels, in place, into other classes, each equally often."""
    rng = np.random.default_rng([seed, 1])
    known = np.flatnonzero(labels >= 0)
    chosen = rng.choice(known, size=round(share * len(known)), replace=False)
    labels[chosen] = (labels[chosen] + rng.integers(1, n_classes, len(chosen))) % n_classes
