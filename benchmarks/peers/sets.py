"""Sets to classify: graphs from a folder, and tables that come with scikit-learn."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import sklearn
from numpy.typing import NDArray
from sklearn import datasets

from nodeproof.errors import InputError
from peers.registry import Data

#: fields of one published split, and of several, whose arrays have one more dimension
_MASKS = ("train_mask", "val_mask", "test_mask")

#: tables without links; their source is written "scikit-learn:wine"
BUILT_IN = {
    "wine": datasets.load_wine,
    "breast_cancer": datasets.load_breast_cancer,
    "iris": datasets.load_iris,
    "digits": datasets.load_digits,
}
_FROM = "scikit-learn:"


@dataclass(frozen=True)
class GraphSet:
    """A set: what methods may see, the classes, and the published splits.

    Parameters
    ----------
    data : Data
        What methods may see.
    y : ndarray of shape (n,)
        True classes, −1 where the source gives none.
    published : tuple of (train, validation, test)
        Nodes of each published split; none, one or several.
    """

    data: Data
    y: NDArray[np.int64]
    published: tuple[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]], ...] = ()


def find_sets(folder: Path | None) -> dict[str, str]:
    """Return the sources of all sets by name: the folder's `.npz` files, and the built-in ones."""
    files = sorted(folder.glob("*.npz")) if folder else []
    found = {path.stem: str(path.resolve()) for path in files}
    return found | {name: _FROM + name for name in BUILT_IN if name not in found}


def set_name(source: str) -> str:
    """Return the name of a set."""
    return source.removeprefix(_FROM) if source.startswith(_FROM) else Path(source).stem


@cache
def digest(source: str) -> str:
    """Return a digest of what a set is read from."""
    if source.startswith(_FROM):
        return f"scikit-learn {sklearn.__version__}"
    return hashlib.sha256(Path(source).read_bytes()).hexdigest()[:12]


def read_set(source: str) -> GraphSet:
    """Read a set; nothing is unpickled."""
    if source.startswith(_FROM):
        name = set_name(source)
        X, y = BUILT_IN[name](return_X_y=True)
        return GraphSet(
            Data(name, None, X.astype(np.float32), int(y.max()) + 1), y.astype(np.int64)
        )
    try:
        with np.load(source, allow_pickle=False) as file:
            fields: dict[str, Any] = dict(file)
        n, indices = int(fields["n"]), fields["adj_indices"]
        values = np.ones(len(indices), dtype=np.float32)
        graph = sp.csr_array((values, indices, fields["adj_indptr"]), shape=(n, n))
        if "x" in fields:
            X = fields["x"] if fields["x"].shape[1] else None
        else:
            parts = (fields["x_data"], fields["x_indices"], fields["x_indptr"])
            X = sp.csr_array(parts, shape=tuple(fields["x_shape"]))
        y = fields["y"].astype(np.int64)
    except (KeyError, ValueError, OSError) as error:
        raise InputError(
            f"{source} is not a graph in the layout that is expected: {error}"
        ) from None
    data = Data(Path(source).stem, graph, X, int(y.max()) + 1)
    return GraphSet(data, y, _published(fields, y))


def _published(fields: dict[str, Any], y: NDArray[np.int64]) -> tuple[Any, ...]:
    """Return the published splits, without nodes of unknown class."""
    for names in (_MASKS, tuple(f"{mask}s" for mask in _MASKS)):
        if all(name in fields for name in names):
            masks = [np.atleast_2d(fields[name]) & (y >= 0) for name in names]
            return tuple(
                tuple(np.flatnonzero(part) for part in split) for split in zip(*masks, strict=True)
            )
    return ()
