"""Graphs of texts as citations make them: bags of words, hubs, links that mostly stay at home."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["Citations", "draw_citations"]


@dataclass(frozen=True)
class Citations:
    """A graph of texts and the class of each.

    Attributes
    ----------
    X : csr_array of shape (n, words)
        How often each word occurs.
    graph : csr_array of shape (n, n)
        Links, symmetric.
    z : ndarray of shape (n,)
        The classes.
    """

    X: sp.csr_array
    graph: sp.csr_array
    z: NDArray[np.int64]

    def labels(self, per_class: int, seed: int = 0) -> NDArray[np.int64]:
        """Return so many labels of each class, drawn at random, −1 elsewhere."""
        rng = np.random.default_rng(seed)
        y = np.full(len(self.z), -1)
        for k in np.unique(self.z):
            nodes = np.flatnonzero(self.z == k)
            chosen = rng.choice(nodes, min(per_class, len(nodes)), replace=False)
            y[chosen] = k
        return y


def draw_citations(
    shares: tuple[float, ...] = (0.25, 0.25, 0.25, 0.25),
    n: int = 400,
    n_words: int = 300,
    length: float = 15.0,
    topical: float = 0.3,
    degree: float = 4.0,
    inside: float = 0.8,
    seed: int = 0,
) -> Citations:
    """Draw texts of common words (by Zipf's law) and some of their class's own, and links.

    Parameters
    ----------
    shares : tuple of float
        Of the nodes, class by class.
    topical : float
        Share of words that come from the class's own list.
    degree : float
        Mean number of links of a node; a few have many.
    inside : float
        Share of links that stay in the class; the other ends are drawn from the other classes.
    """
    rng = np.random.default_rng(seed)
    K = len(shares)
    z = rng.permutation(np.repeat(np.arange(K), np.round(n * np.array(shares)).astype(int)))
    n = len(z)
    common = 1.0 / np.arange(1, n_words + 1)
    own = np.stack([rng.permutation(common) for _ in range(K)])
    words = (1 - topical) * common / common.sum() + topical * own / own.sum(axis=1, keepdims=True)
    X = rng.poisson(length * words[z]).astype(np.float64)

    pull = rng.pareto(2.5, size=n) + 0.3
    ends = rng.choice(n, size=int(n * degree / 2), p=pull / pull.sum())
    homes = z[ends]
    away = (homes + rng.integers(1, K, size=len(ends))) % K
    targets = np.where(rng.random(len(ends)) < inside, homes, away)
    others = np.empty_like(ends)
    for k in range(K):
        here, nodes = targets == k, np.flatnonzero(z == k)
        others[here] = rng.choice(nodes, size=here.sum(), p=pull[nodes] / pull[nodes].sum())
    keep = ends != others
    links = sp.coo_array((np.ones(keep.sum()), (ends[keep], others[keep])), shape=(n, n))
    graph = sp.csr_array(links + links.T)
    graph.data[:] = 1.0
    return Citations(sp.csr_array(X), graph, z)
