"""Edge tables with a column that says of which kind each link is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.errors import InputError
from nodeproof.inputs.link_kinds import check_kind_name
from nodeproof.tables.columns import Column
from nodeproof.tables.edges import build_graph, read_links
from nodeproof.tables.keys import one_node_set
from nodeproof.tables.reading import open_table

__all__ = ["read_kinds"]


def read_kinds(
    path: Path,
    column: str,
    ids: NDArray[Any],
    header: bool | None = None,
    source: Column = None,
    target: Column = None,
    weight: Column = None,
    repeated: str = "max",
) -> dict[str, sp.csr_array]:
    """Return the links of each kind in an edge table, by the names of the kinds.

    Parameters
    ----------
    path : pathlib.Path
        The table.
    column : str
        Its column with the kind of each link, by name or by position from 0.
    ids : ndarray of shape (n,)
        All nodes, sorted, as `read_tables` returns them.
    header, source, target, weight, repeated
        See :func:`nodeproof.tables.reading.read_tables`.
    """
    table: Any = open_table(path)
    links = read_links(table, header, source, target, weight, suggest_weight=False)
    types = _read_types(table, path, column)
    own, (places, *_) = one_node_set([links.keys])
    own = own if own.dtype.kind == ids.dtype.kind else own.astype(ids.dtype)
    nodes = np.searchsorted(ids, own)[places]
    found = {}
    for name in np.unique(types):
        here = types == name
        some = replace(links, weight=None if links.weight is None else links.weight[here])
        rows = nodes[np.tile(here, 2)]
        found[check_kind_name(str(name))] = build_graph(some, rows, len(ids), repeated)[0]
    return found


def _read_types(table: Any, path: Path, column: str) -> NDArray[Any]:
    names = [str(name) for name in getattr(table, "names", None) or []]
    if column in names:
        place = names.index(column)
    elif column.isdecimal():
        place = int(column)
    else:
        raise InputError(
            f"{path} has no column {column!r}; it has {', '.join(names) or 'no names'}"
        )
    (texts,), _ = table.read([place], [])
    types = np.asarray(texts.to_pylist(), dtype=str)
    empty = np.flatnonzero(types == "")
    if len(empty):
        raise InputError(f"{table.place(int(empty[0]))}: the link has no {column}")
    return types
