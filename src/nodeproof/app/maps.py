"""Data of the app's map, as `report/node_map.js` takes it: arrays in base64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.app.labels import LabelState
from nodeproof.app.nodes import Nodes
from nodeproof.fitted import Fitted
from nodeproof.report.layout import map_nodes
from nodeproof.report.map_data import choose_links, choose_mapped, link_positions, pack, top_two

__all__ = ["choose_mapped", "map_data", "map_update"]

# The most links that are sent: a few megabytes.
_MOST_LINKS = 400_000

_SUSPECT = 1


def map_data(nodes: Nodes, mapped: NDArray[np.int64]) -> dict[str, Any] | None:
    """Return what does not change while the app runs, or None if there is nothing to place.

    Parameters
    ----------
    mapped : ndarray of shape (m,)
        The nodes on the map.
    """
    fitted = nodes.fitted
    n, K = fitted.proba.shape
    layouts = {}
    links: NDArray[Any] = np.empty((0, 2))
    positions = link_positions(fitted, nodes.links) if len(mapped) == n else None
    if positions is not None:
        layouts["links"] = _layout(positions * [1.0, -1.0])
    if K > 1:
        layouts["classes"] = _layout(map_nodes(fitted.proba, mapped)[1] * [1.0, -1.0] / 1.5)
    if not layouts:
        return None
    if "links" in layouts and nodes.links is not None:
        links = choose_links(nodes.links, _MOST_LINKS)
    return {
        "size": len(mapped),
        "total": n,
        "rows": None if len(mapped) == n else pack(mapped.astype(np.uint32)),
        "layouts": layouts,
        "links": pack(links.astype(np.uint32)),
        "totalLinks": fitted.n_links or 0,
    }


def map_update(fitted: Fitted, labels: LabelState, mapped: NDArray[np.int64]) -> dict[str, str]:
    """Return what changes with labels and fits: classes, probabilities, labels and flags."""
    best, top, second = top_two(fitted.proba[mapped])
    flags = np.zeros(fitted.n_nodes, dtype=np.uint8)
    suspects = fitted.suspects.node
    flags[suspects[~labels.reviewed[suspects]]] = _SUSPECT
    return {
        "code": pack(best.astype(np.uint32)),
        "p": pack(top.astype(np.float32)),
        "second": pack(second.astype(np.uint32)),
        "given": pack(labels.codes[mapped].astype(np.int32)),
        "flags": pack(flags[mapped]),
    }


def _layout(positions: NDArray[Any]) -> dict[str, str]:
    x, y = np.asarray(positions, dtype=np.float32).T
    return {"x": pack(x), "y": pack(y)}
