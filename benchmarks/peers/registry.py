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
    graph : csr_array of shape (n, n), or None
        Links both ways, float32, without self loops.
    X : csr_array or ndarray of shape (n, d), or None
        Features as published. At least one of the two is given.
    n_classes : int
        Number of classes K.
    """

    name: str
    graph: sp.csr_array | None
    X: Any
    n_classes: int

    @property
    def links(self) -> sp.csr_array:
        """The graph, for methods that need one."""
        if self.graph is None:
            raise ValueError("the set has no links")
        return self.graph

    @property
    def features(self) -> sp.csr_array:
        """Features in sparse rows; the identity where there are none."""
        if self.X is not None:
            return sp.csr_array(self.X)
        n = self.links.shape[0]
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


#: a fit returns probabilities of shape (n, K), or these and what the method says about itself:
#: "estimate", its accuracy with a 95 % interval or None, and "suspects", labels it holds wrong
Fit = Callable[[Data, Split, int], Any]


@dataclass(frozen=True)
class Peer:
    """A method.

    Parameters
    ----------
    name : str
    fit : callable
        From `Data`, `Split` and a seed to probabilities.
    needs : str or None
        Package that it needs.
    quick : bool
        Whether it takes seconds at most.
    sources : "links", "features" or "any"
        What it cannot do without; "any" takes whatever there is.
    validation : bool
        Whether it cannot do without validation nodes.
    """

    name: str
    fit: Fit
    needs: str | None = None
    quick: bool = False
    sources: str = "links"
    validation: bool = False

    def can_use(self, *, links: bool, features: bool, validation: bool) -> bool:
        """Tell whether it can run with what there is."""
        given = {"links": links, "features": features, "any": True}
        return given[self.sources] and (validation or not self.validation)


PEERS: dict[str, Peer] = {}


def peer(name: str, **about: Any) -> Callable[[Fit], Fit]:
    """Register a function as a peer; see `Peer` for the keywords."""

    def register(fit: Fit) -> Fit:
        PEERS[name] = Peer(name, fit, **about)
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


def standardised(X: Any) -> NDArray[np.float64]:
    """Return dense features with columns of mean zero and variance one; constant ones are zero."""
    X = np.asarray(X, dtype=np.float64)
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) * np.divide(
        1.0, spread, out=np.zeros_like(spread), where=spread > 0
    )


def better(candidate: tuple[float, float], best: tuple[float, float]) -> bool:
    """Tell whether (accuracy, log-loss) on validation nodes is better, accuracy first."""
    return (candidate[0], -candidate[1]) > (best[0], -best[1])
