"""The data of nodes that terms are bound to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nodeproof.graph import Graph
from nodeproof.smoothing import Smoothing

__all__ = ["NodeData"]


@dataclass(frozen=True)
class NodeData:
    """What is known of the nodes beside their links.

    Attributes
    ----------
    n_classes : int
        Number of classes K.
    X : ndarray or csr_array of shape (n, m), or None
        Features, finite; or NaN where missing, if every term that uses them takes them as given.
    y : ndarray of shape (n,), or None
        Labels 0…K−1, −1 where there is none.
    graph : Graph, or None
        The links, for terms that average over them.
    smoothing, links : Smoothing, or None
        Features, or links taken for features, that were averaged already.
    feature_names : ndarray of shape (m,), or None
        Names of the features.
    """

    n_classes: int
    X: NDArray[Any] | csr_array | None = None
    y: NDArray[np.int64] | None = None
    graph: Graph | None = None
    smoothing: Smoothing | None = None
    links: Smoothing | None = None
    feature_names: NDArray[Any] | None = None

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        if self.X is not None:
            return int(self.X.shape[0])
        if self.y is not None:
            return len(self.y)
        return 0 if self.graph is None else self.graph.n_nodes
