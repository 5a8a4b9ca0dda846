"""Small sets for tests of the benchmark on real data."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from peers import sets
from peers.registry import Data


def small_set(n_classes=3, n=150, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    same = rng.random((n, n)) < np.where(y[:, None] == y, 0.2, 0.01)
    graph = sp.csr_array(np.triu(same, 1), dtype=np.float32)
    words = rng.poisson(np.where(np.arange(20) % n_classes == y[:, None], 1.0, 0.3))
    X = sp.csr_array(words.astype(np.float32))
    return sets.GraphSet(Data("small", sp.csr_array(graph + graph.T), X, n_classes), y)


def published(graph_set, *, several):
    """Return a set with its nodes in three published parts, once or as two splits."""
    n = len(graph_set.y)
    names = ("train_mask", "val_mask", "test_mask")
    masks = {name: np.arange(n) % 3 == k for k, name in enumerate(names)}
    if several:
        masks = {f"{name}s": np.stack([mask, np.roll(mask, 1)]) for name, mask in masks.items()}
    return masks


def write_set(path, graph_set, **extra):
    data = graph_set.data
    np.savez(
        path,
        n=len(graph_set.y),
        adj_indptr=data.graph.indptr,
        adj_indices=data.graph.indices,
        x_data=data.X.data,
        x_indices=data.X.indices,
        x_indptr=data.X.indptr,
        x_shape=np.array(data.X.shape),
        y=graph_set.y,
        **extra,
    )
