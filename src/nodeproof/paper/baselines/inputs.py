"""Check what a baseline is given, and turn it into arrays that the rest can trust."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.errors import InputError
from nodeproof.inputs import check_features
from nodeproof.inputs.graph_objects import check_adjacency
from nodeproof.solvers.base import check_count

__all__ = ["check_classes", "check_given", "check_links", "check_points"]


def check_links(graph: Any, n_nodes: int | None = None) -> sp.csr_array:
    """Return the graph as a symmetric CSR array of float64 without self loops."""
    return check_adjacency(graph, n_nodes).astype(np.float64)


def check_points(X: Any) -> NDArray[np.float64]:
    """Return the features as a finite array of shape (n, m)."""
    if sp.issparse(X):
        raise InputError("X must be a dense array, got a sparse matrix: use X.toarray()")
    points = np.asarray(X)
    if points.ndim != 2 or 0 in points.shape or points.dtype.kind not in "biuf":
        raise InputError(
            f"X must hold numbers, one row a node, got {points.dtype} of shape {points.shape}"
        )
    check_features(points)
    return np.ascontiguousarray(points, dtype=np.float64)


def check_classes(n_classes: Any, n_nodes: int) -> int:
    """Return the number of classes, which must be positive and no more than the nodes."""
    check_count("n_classes", n_classes)
    if n_classes > n_nodes:
        raise InputError(f"n_classes={n_classes} is more than the {n_nodes} nodes")
    return int(n_classes)


def check_given(y: Any, n_nodes: int, n_classes: int) -> NDArray[np.int64]:
    """Return the labels: 0…K−1 or −1, one a node."""
    given = np.asarray(y)
    if given.shape != (n_nodes,):
        raise InputError(
            f"y needs one entry a node, -1 where unknown: got shape {given.shape} for {n_nodes} "
            "nodes"
        )
    odd = np.ones(n_nodes, dtype=bool)
    if given.dtype.kind in "iu":
        odd = (given < -1) | (given >= n_classes)
    if odd.any():
        v = int(odd.argmax())
        raise InputError(
            f"y must hold the integers 0…{n_classes - 1}, or -1 where unknown: got {given[v]!r} "
            f"at node {v}"
        )
    return given.astype(np.int64)
