"""What the tests of readers share: a graph of four nodes in several layouts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from nodeproof.datasets import Dataset, read_graph
from nodeproof.errors import InputError

# A path 0 - 1 - 2, and node 3 alone
ADJACENCY = sp.csr_array(np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0.0]]))
OURS = {"adj_indptr": ADJACENCY.indptr, "adj_indices": ADJACENCY.indices, "n": np.int64(4)}
FEATURES = sp.csr_array(np.array([[0, 1.5], [0, 0], [2, 0], [0, 3]], dtype=np.float32))
SPARSE_X = {"x_data": FEATURES.data, "x_indices": FEATURES.indices, "x_indptr": FEATURES.indptr,
            "x_shape": np.array([4, 2])}  # fmt: skip
MASKS = {"train_mask": np.array([1, 1, 0, 0], bool), "val_mask": np.array([0, 0, 1, 0], bool),
         "test_mask": np.array([0, 0, 0, 1], bool)}  # fmt: skip
SHCHUR = {
    "adj_data": np.ones(3), "adj_indices": np.array([1, 0, 2]), "adj_indptr": [0, 1, 3, 3, 3],
    "adj_shape": [4, 4], "attr_data": FEATURES.data, "attr_indices": FEATURES.indices,
    "attr_indptr": FEATURES.indptr, "attr_shape": [4, 2], "labels": np.array([0, 1, 1, 0]),
}  # fmt: skip
PLATONOV = {
    "node_features": FEATURES.toarray(), "node_labels": np.array([0, 1, 1, 0]),
    "edges": np.array([[0, 1], [1, 2]]),
    "train_masks": np.array([[1, 0, 0, 0], [0, 1, 0, 1], [0, 0, 1, 0]], bool),
    "val_masks": np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]], bool),
    "test_masks": np.array([[0, 0, 1, 1], [0, 0, 1, 0], [1, 0, 0, 1]], bool),
}  # fmt: skip


def npz(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def links_of(data: Dataset) -> dict[tuple[int, int], float]:
    """Return the links, each once."""
    assert isinstance(data.graph, sp.csr_array)
    assert (data.graph != data.graph.T).nnz == 0
    assert not data.graph.diagonal().any()
    graph = data.graph.tocoo()
    triples = zip(graph.row.tolist(), graph.col.tolist(), graph.data.tolist(), strict=True)
    return {(u, v): w for u, v, w in triples if u < v}


def dense(data: Dataset) -> Any:
    assert data.X is not None
    return data.X.toarray() if sp.issparse(data.X) else data.X


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        read_graph(path, **options)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    return str(caught.value)
