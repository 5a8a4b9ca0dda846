"""What maps of the nodes show, for `node_map.js`: which nodes, where, and arrays in base64."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.report.graph_layout import place_nodes

if TYPE_CHECKING:
    from nodeproof.fitted import Fitted

__all__ = [
    "choose_links",
    "choose_mapped",
    "link_positions",
    "pack",
    "top_two",
]

# Of a larger graph the map shows a sample.
_MOST_NODES, _SAMPLE = 100_000, 40_000


def choose_mapped(fitted: Fitted) -> NDArray[np.int64]:
    """Return the nodes on the map, ascending: all, or suspects and an even sample."""
    n = fitted.n_nodes
    if n <= _MOST_NODES:
        return np.arange(n)
    suspects = fitted.suspects.node[: _SAMPLE // 4]
    even = np.linspace(0, n - 1, _SAMPLE - len(suspects)).astype(np.int64)
    return np.union1d(suspects, even)


def link_positions(fitted: Fitted, links: Any) -> NDArray[np.float32] | None:
    """Return the layout by links: that of the findings, or a new one; None without links."""
    findings = fitted.known_findings
    if findings is not None and findings.positions is not None:
        return np.asarray(findings.positions, dtype=np.float32)
    if links is None or links.shape[0] > _MOST_NODES or not len(links.indices):
        return None
    return place_nodes(links, fitted.proba)


def choose_links(A: Any, most: int) -> NDArray[np.int64]:
    """Return the links of a symmetric matrix, each once, or `most` of them at even distances."""
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    upper = np.flatnonzero(rows < A.indices)
    if len(upper) > most:
        upper = upper[np.linspace(0, len(upper) - 1, most).astype(np.int64)]
    return np.column_stack([rows[upper], A.indices[upper]]).astype(np.int64)


def top_two(proba: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the most likely class of each row, its probability, and the second class."""
    rows = np.arange(len(proba))
    best = proba.argmax(axis=1)
    rest = proba.copy()
    rest[rows, best] = -1.0
    return best, np.clip(proba[rows, best], 0.0, 1.0), rest.argmax(axis=1)


def pack(array: NDArray[Any]) -> str:
    """Return the little-endian bytes of an array in base64.

    Examples
    --------
    >>> pack(np.array([1, 256], dtype=np.uint16))
    'AQAAAQ=='
    """
    data = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes()
    return base64.b64encode(data).decode("ascii")
