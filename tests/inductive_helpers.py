"""A small graph of texts that cite each other, and nodes left out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp


@dataclass
class Texts:
    """Word counts, links, classes and some labels of n nodes."""

    X: sp.csr_array
    graph: sp.csr_array
    y_true: np.ndarray
    y: np.ndarray

    def without(self, out: Any) -> Texts:
        """Return the same without some nodes."""
        keep = np.setdiff1d(np.arange(len(self.y)), out)
        return Texts(self.X[keep], self.graph[keep][:, keep], self.y_true[keep], self.y[keep])

    def links(self, out: Any) -> sp.csr_array:
        """Return the links of some nodes to all others."""
        keep = np.setdiff1d(np.arange(len(self.y)), out)
        return self.graph[out][:, keep]


def make_texts(n: int = 400, n_alone: int = 0, seed: int = 0) -> Texts:
    """Draw three classes that use other words and mostly cite their own.

    The last `n_alone` nodes have no link; the last half of these repeat the words of the first.
    """
    rng = np.random.default_rng(seed)
    z = rng.integers(3, size=n)
    frequencies = rng.dirichlet(np.full(60, 0.3), size=3) * 0.4 + 0.6 / 60
    X = np.stack([rng.multinomial(12, frequencies[i]) for i in z]).astype(np.float64)
    together = z[:, None] == z
    upper = np.triu(rng.random((n, n)) < np.where(together, 9.0, 1.0) / n, 1)
    graph = (upper | upper.T).astype(np.float64)
    if n_alone:
        graph[-n_alone:] = graph[:, -n_alone:] = 0.0
        half = n_alone // 2
        X[-half:], z[-half:] = X[-n_alone:-half], z[-n_alone:-half]
    y = np.full(n, -1)
    for i in range(3):
        y[rng.choice(np.flatnonzero(z[: n - n_alone] == i), 15, replace=False)] = i
    return Texts(sp.csr_array(X), sp.csr_array(graph), z, y)
