"""What maps of the nodes show, for `node_map.js`: which nodes, where, and arrays in base64."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.certificate.labelling.instance import Instance
from nodeproof.report.graph_layout import place_nodes
from nodeproof.report.layout import map_nodes

if TYPE_CHECKING:
    from nodeproof.fitted import Fitted
    from nodeproof.report.data import ReportData

__all__ = [
    "choose_links",
    "choose_mapped",
    "link_positions",
    "links_of",
    "pack",
    "page_map",
    "top_two",
]

# Of a larger graph the map shows a sample.
_MOST_NODES, _SAMPLE = 100_000, 40_000

# A page stays below 5 MB: links on its map at four characters each, and characters of names.
_PAGE_LINKS, _PAGE_NAMES = 300_000, 900_000

# What is told of a node by one bit each: `node_map.js` and `explore.js` have the same.
_SUSPECT, _PROVEN = 1, 2

# Places in a page are whole numbers of this size, from −1 to 1.
_FINE = 65_535


def page_map(report: ReportData) -> dict[str, Any] | None:
    """Return the map of a report, or None if there is nothing to place.

    Numbers are unsigned and packed; `explore.js` reads them.
    """
    fitted = report.fitted
    n, K = fitted.proba.shape
    mapped = choose_mapped(fitted)
    adjacency = links_of(fitted) if len(mapped) == n else None
    layouts = {}
    positions = link_positions(fitted, adjacency) if len(mapped) == n else None
    if positions is not None:
        layouts["links"] = _fine(positions * [1.0, -1.0])
    if K > 1:
        layouts["classes"] = _fine(map_nodes(fitted.proba, mapped)[1] * [1.0, -1.0] / 1.5)
    if not layouts:
        return None
    links = np.empty((0, 2), dtype=np.int64)
    if positions is not None and adjacency is not None:
        links = choose_links(adjacency, _PAGE_LINKS)
    best, top, _ = top_two(fitted.proba[mapped])
    flags = np.zeros(n, dtype=np.uint8)
    flags[fitted.suspects.node] |= _SUSPECT
    proof = report.certificate
    proven = proof is not None and proof.status != "not applicable"
    if proof is not None and proven:
        flags[proof.certified_nodes] |= _PROVEN
    given = np.zeros(n) if fitted.given is None else fitted.given + 1
    names = None if fitted.node_ids is None else report.node_names(mapped)
    if names is not None and len(json.dumps(names)) > _PAGE_NAMES:
        names = None
    return {
        "size": len(mapped),
        "total": n,
        "rows": None if len(mapped) == n else pack(mapped.astype(np.uint32)),
        "names": names,
        "named": names is not None or fitted.node_ids is None,
        "layouts": layouts,
        "code": pack(best.astype(np.uint16)),
        "p": pack(np.round(top * _FINE).astype(np.uint16)),
        "given": pack(given[mapped].astype(np.uint16)),
        "flags": pack(flags[mapped]),
        "links": _pack_links(links, len(mapped)),
        "allLinks": positions is None or len(links) == report.findings.n_links,
        "proof": proven,
    }


def _fine(positions: NDArray[Any]) -> dict[str, str]:
    """Return places between −1 and 1 as 16-bit numbers."""
    x, y = np.round((np.clip(positions, -1.0, 1.0) + 1.0) / 2.0 * _FINE).astype(np.uint16).T
    return {"x": pack(x), "y": pack(y)}


def _pack_links(links: NDArray[np.int64], n: int) -> dict[str, str]:
    """Return links in the order of their first ends: how many each node has, and second ends.

    Second ends are split into 16 and 8 bits, which is enough for the nodes on a map.
    """
    links = links[np.argsort(links[:, 0], kind="stable")]
    counts = np.bincount(links[:, 0], minlength=n)
    return {
        "counts": pack(counts.astype(np.uint32 if counts.max(initial=0) > _FINE else np.uint16)),
        "wide": "1" if counts.max(initial=0) > _FINE else "",
        "low": pack((links[:, 1] & _FINE).astype(np.uint16)),
        "high": pack((links[:, 1] >> 16).astype(np.uint8)),
    }


def links_of(fitted: Fitted) -> Any:
    """Return the links of a fit as a sparse matrix; None if there are none, or not in memory."""
    if fitted.data is not None:
        graph = fitted.data.nodes.graph
        return None if graph is None or graph.folder is not None else graph.adjacency
    problem = fitted.saved_problem
    return problem.adjacency if isinstance(problem, Instance) else None


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
        # In landscape, as the window of a map is.
        drawn = findings.positions.astype(np.float64)
        _, _, axes = np.linalg.svd(drawn, full_matrices=False)
        axes *= np.where(axes[[0, 1], np.abs(axes).argmax(axis=1)] < 0, -1.0, 1.0)[:, None]
        return np.asarray(drawn @ axes.T, dtype=np.float32)
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
