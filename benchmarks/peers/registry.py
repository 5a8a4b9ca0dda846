"""The input and output of peers, and the list of all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

#: of a graph without features, each node's own number serves as one up to this many nodes
MOST_IDENTITY = 20_000


@dataclass(frozen=True)
class Data:
    """A graph as methods see it: everything but the classes.

    Parameters
    ----------
    name : str
        The file's name, for settings that were published for one set.
    graph : csr_array of shape (n, n)
        Links both ways, float32, without self loops.
    X : csr_array or ndarray of shape (n, d), or None
        Features as published.
    n_classes : int
        Number of classes K.
    """

    name: str
    graph: sp.csr_array
    X: Any
    n_classes: int

    @property
    def features(self) -> sp.csr_array:
        """Features in sparse rows; the identity where there are none."""
        if self.X is not None:
            return sp.csr_array(self.X)
        n = self.graph.shape[0]
        if n > MOST_IDENTITY:
            raise ValueError(
                f"the set has no features, and its {n} nodes are too many for one each"
            )
        return sp.eye_array(n, dtype=np.float32, format="csr")


@dataclass(frozen=True)
class Split:
    """The labels that methods may use.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Training labels, −1 at all other nodes.
    validation : ndarray of shape (v,)
        Nodes to choose settings on; may be empty.
    validation_labels : ndarray of shape (v,)
        Their labels.
    """

    y: NDArray[np.int64]
    validation: NDArray[np.int64]
    validation_labels: NDArray[np.int64]

    @property
    def train(self) -> NDArray[np.int64]:
        """Nodes with a training label."""
        return np.flatnonzero(self.y >= 0)


Fit = Callable[[Data, Split, int], NDArray[Any]]


@dataclass(frozen=True)
class Peer:
    """A method: its name, its function, the package it needs, whether it takes seconds at most."""

    name: str
    fit: Fit
    needs: str | None
    quick: bool


PEERS: dict[str, Peer] = {}


def peer(name: str, *, needs: str | None = None, quick: bool = False) -> Callable[[Fit], Fit]:
    """Register a function as a peer."""

    def register(fit: Fit) -> Fit:
        PEERS[name] = Peer(name, fit, needs, quick)
        return fit

    return register


def normalised(graph: sp.csr_array, self_loops: bool = True) -> sp.csr_array:
    """Return D^(−1/2) A D^(−1/2) in float32; rows of nodes without a link are zero."""
    if self_loops:
        graph = graph + sp.eye_array(graph.shape[0], dtype=np.float32, format="csr")
    degrees = np.asarray(graph.sum(axis=1), dtype=np.float64)
    scale = np.divide(1.0, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0)
    scaled = sp.diags_array(scale) @ graph @ sp.diags_array(scale)
    return sp.csr_array(scaled, dtype=np.float32)


def as_proba(scores: Any, split: Split) -> NDArray[np.float64]:
    """Return rows that sum to one; the shares of the training labels where a row is all zero."""
    proba = np.maximum(np.asarray(scores, dtype=np.float64), 0.0)
    shares = np.bincount(split.y[split.train], minlength=proba.shape[1]) / len(split.train)
    proba[proba.sum(axis=1) <= 0] = shares
    return proba / proba.sum(axis=1, keepdims=True)


def in_columns(proba: Any, classes: Any, n_classes: int) -> NDArray[np.float64]:
    """Return probabilities of the given classes as columns among all K."""
    full = np.zeros((len(proba), n_classes))
    full[:, np.asarray(classes, dtype=int)] = proba
    return full


def better(candidate: tuple[float, float], best: tuple[float, float]) -> bool:
    """Tell whether (accuracy, log-loss) on validation nodes is better, accuracy first."""
    return (candidate[0], -candidate[1]) > (best[0], -best[1])
