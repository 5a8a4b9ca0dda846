"""The graphs of the benchmark: sparse, planted, of any size.

Mean degree 20, half of the links inside the class, 10 classes, 1 % labels and 16 features of
mean zero, so that only their covariances tell the classes apart.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from nodeproof.datasets import Planted, make_planted
from nodeproof.storage.atomic import atomic_folder

__all__ = [
    "DEGREE",
    "FEWEST",
    "INSIDE",
    "LABELLED",
    "Data",
    "K",
    "draw",
    "genie_accuracy",
    "load",
    "load_truth",
    "pass_over",
    "planted",
    "told_by_genie",
]

#: number of classes, mean degree, share of the links inside a class, share of labelled nodes
K, DEGREE, INSIDE, LABELLED = 10, 20, 0.5, 0.01

#: with fewer links the classes are too small for the degree
FEWEST = 2_000

# Nodes per block of the genie.
_BLOCK = 65_536


@dataclass(frozen=True)
class Data:
    """The input of a method.

    Attributes
    ----------
    graph : csr_array of shape (n, n)
        Links both ways, float32 ones.
    X : ndarray of shape (n, 16), or None
        Features, float32.
    y : ndarray of shape (n,)
        Labels, −1 where unknown.
    n_classes : int
        Number of classes.
    """

    graph: sp.csr_array
    X: NDArray[np.float32] | None
    y: NDArray[np.int64]
    n_classes: int = K

    @property
    def nbytes(self) -> int:
        """Bytes of graph, features and memberships in float32, which every fit needs."""
        arrays = [self.graph.data, self.graph.indices, self.graph.indptr]
        arrays += [] if self.X is None else [self.X]
        return sum(array.nbytes for array in arrays) + 4 * self.n_classes * len(self.y)


def planted(links: int, seed: int) -> Planted:
    """Draw a graph of about this many links; every class has at least one label."""
    size = 2 * links // DEGREE // K
    p, q = _densities(size)
    return make_planted(
        K, size, p=p, q=q, n_features=16, n_noise=10, omega=0.3,
        label_ratio=max(LABELLED, 1 / size), random_state=seed,
    )  # fmt: skip


def draw(links: int, seed: int, folder: Path) -> dict[str, Any]:
    """Draw a graph, write it to a new folder, and return its size and the genie's accuracy."""
    data = planted(links, seed)
    X = data.X.astype(np.float32)
    found = {
        "GL": genie_accuracy(data.graph.indptr, data.graph.indices, data.y_true, data.y),
        "GFL": genie_accuracy(
            data.graph.indptr, data.graph.indices, data.y_true, data.y, X,
            data.params["covariances"],
        ),
    }  # fmt: skip
    arrays = {
        "indices": data.graph.indices, "indptr": data.graph.indptr, "X": X, "y": data.y,
        "y_true": data.y_true,
    }  # fmt: skip
    with atomic_folder(folder) as temporary:
        for name, array in arrays.items():
            np.save(temporary / f"{name}.npy", array, allow_pickle=False)
        (temporary / "genie.json").write_text(json.dumps(found), encoding="utf-8")
    return {"nodes": len(data.y), "stored_links": data.graph.nnz // 2, "genie": found}


def load(folder: Path, sources: str) -> Data:
    """Read the data that `draw` wrote, features only if they are among the sources."""
    indices, indptr, y = (_read(folder, name) for name in ("indices", "indptr", "y"))
    ones = np.ones(len(indices), dtype=np.float32)
    graph = sp.csr_array((ones, indices, indptr), shape=(len(y), len(y)))
    return Data(graph, _read(folder, "X") if "F" in sources else None, y)


def load_truth(folder: Path) -> NDArray[np.int64]:
    """Read the planted classes, shape (n,)."""
    return _read(folder, "y_true")


def told_by_genie(folder: Path, sources: str) -> float:
    """Return the genie's accuracy with these sources, as `draw` computed it."""
    found: dict[str, float] = json.loads((folder / "genie.json").read_text(encoding="utf-8"))
    return found[sources]


def genie_accuracy(
    indptr: NDArray[Any],
    indices: NDArray[Any],
    truth: NDArray[Any],
    y: NDArray[Any],
    X: NDArray[Any] | None = None,
    covariances: NDArray[np.float64] | None = None,
) -> float:
    """Return the genie's accuracy at the unlabelled nodes, computed block by block.

    As `Planted.genie_accuracy`, in memory that does not grow with the graph: it knows the true
    parameters and the true classes of all other nodes.

    Parameters
    ----------
    indptr, indices : ndarray of shape (n + 1,) and (2m,)
        The links; may be memory-mapped.
    truth, y : ndarray of shape (n,)
        The planted classes, and the labels, −1 where unknown.
    X : ndarray of shape (n, d), optional
        Features, and
    covariances : ndarray of shape (K, d, d), optional
        their true covariances.
    """
    n = len(truth)
    sizes = np.bincount(truth, minlength=K).astype(np.float64)
    p, q = _densities(n // K)
    present, absent = np.log(p) - np.log(q), np.log1p(-p) - np.log1p(-q)
    right = asked = 0
    for start in range(0, n, _BLOCK):
        stop = min(start + _BLOCK, n)
        counts = np.zeros((stop - start, K))
        count_by_class(indptr, indices, truth, start, stop, counts)
        own = truth[start:stop, None] == np.arange(K)
        scores = counts * present + (sizes - own - counts) * absent + np.log(sizes / n)
        if X is not None and covariances is not None:
            scores += _log_densities(X[start:stop], covariances)
        hidden = y[start:stop] < 0
        asked += int(hidden.sum())
        right += int((scores.argmax(axis=1) == truth[start:stop])[hidden].sum())
    return right / asked


def _log_densities(X: NDArray[Any], covariances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log-densities of rows in every class up to a constant, shape (rows, K)."""
    columns = []
    for covariance in covariances:
        factor = np.linalg.cholesky(covariance)
        white = X @ np.linalg.inv(factor).T
        columns.append(-0.5 * (white**2).sum(axis=1) - np.log(np.diag(factor)).sum())
    return np.stack(columns, axis=1)


def _densities(size: int) -> tuple[float, float]:
    """Return the probabilities of a link inside and across classes of this size."""
    return INSIDE * DEGREE / (size - 1), (1 - INSIDE) * DEGREE / (size * (K - 1))


def _read(folder: Path, name: str) -> NDArray[Any]:
    read: NDArray[Any] = np.load(folder / f"{name}.npy", allow_pickle=False)
    return read


@njit(cache=True, nogil=True)
def pass_over(indices: Any) -> int:
    """Return the sum of the indices: what it takes to read them all once, on one thread."""
    total = 0
    for e in range(len(indices)):
        total += indices[e]
    return total


@njit(cache=True, nogil=True)
def count_by_class(
    indptr: Any, indices: Any, classes: Any, start: int, stop: int, counts: Any
) -> None:
    """Add to each row v − start of the counts how many of v's neighbours are in every class."""
    for v in range(start, stop):
        for e in range(indptr[v], indptr[v + 1]):
            counts[v - start, classes[indices[e]]] += 1.0
