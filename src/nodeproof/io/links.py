"""Edges files: the links, and what their reader should know about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.adjacency import from_edges
from nodeproof.errors import InputError
from nodeproof.io.columns import (
    Column,
    edges_have_header,
    find_ends,
    find_weight,
    is_name,
    position,
)
from nodeproof.io.files import TableFile, count_of
from nodeproof.io.keys import Keys
from nodeproof.io.text import TextFile

__all__ = ["Links", "build_graph", "notes_on_text", "read_links"]


@dataclass(frozen=True)
class Links:
    """The links of an edges file.

    Attributes
    ----------
    keys : Keys
        The ids of all first ends, then of all second ends: 2 E rows.
    weight : ndarray of shape (E,) or None
        Weights.
    notes : list of str
        What the user should know.
    """

    keys: Keys
    weight: NDArray[np.float64] | None
    notes: list[str]


def read_links(
    file: TableFile, header: bool | None, source: Column, target: Column, weight: Column
) -> Links:
    """Read the links of an edges file.

    Parameters
    ----------
    file : TableFile
        The file.
    header : bool or None
        Whether the first line names the columns; None: find out.
    source, target, weight : str, int or None
        The columns, where the user says.
    """
    first = _settle_header(file, header, source, target, weight)
    ends = find_ends(file, source, target)
    weight_column = find_weight(file, weight, ends, first)
    used = [*ends] if weight_column is None else [*ends, weight_column]
    notes = notes_on_text(file, used)
    if weight_column is not None and weight is None and first is not None:
        notes.append(f"the third column of {file.path.name} is read as the weight of the links")
    texts, numbers = file.read(ends, used[2:])
    n_links = len(texts[0])
    keys = Keys.of_texts(file.path, pa.concat_arrays(texts), lambda row: file.place(row % n_links))
    weights = numbers[:, 0] if weight_column is not None else None
    if weights is not None and (weights < 0).any():
        row = int(np.argmax(weights < 0))
        raise InputError(f"{file.place(row)}: the weight is negative: {weights[row]:g}")
    if first is not None and header is None:
        notes += _suspect_first_line(file, keys, n_links)
    return Links(keys, weights, notes)


def build_graph(links: Links, nodes: NDArray[Any], n_nodes: int) -> tuple[sp.csr_array, list[str]]:
    """Return the graph of the links and notes on what was dropped or merged.

    Parameters
    ----------
    links : Links
        E links.
    nodes : ndarray of shape (2 E,)
        The node of each end, first ends first.
    n_nodes : int
        Number of nodes n.

    Returns
    -------
    graph : scipy.sparse.csr_array of shape (n, n)
    notes : list of str
    """
    weight = links.weight
    source, target = np.split(nodes, 2)
    name = links.keys.path.name
    notes = []
    loops = source == target
    zeros = np.zeros_like(loops) if weight is None else (weight == 0) & ~loops
    if loops.any():
        notes.append(f"{count_of(loops.sum(), 'self loop')} in {name} dropped")
    if zeros.any():
        notes.append(f"{count_of(zeros.sum(), 'link')} with weight 0 in {name} dropped")
    kept = ~(loops | zeros)
    if not kept.all():
        source, target = source[kept], target[kept]
        weight = None if weight is None else weight[kept]
    graph = from_edges(source, target, weight, n_nodes)
    pairs = np.sort(source.astype(np.int64) * n_nodes + target)
    directed = len(pairs) - int(np.count_nonzero(pairs[1:] == pairs[:-1]))
    largest = "" if weight is None else " with its largest weight"
    if repeats := len(source) - directed:
        notes.append(f"{count_of(repeats, 'repeated link')} in {name}; each counts once{largest}")
    if both := directed - graph.nnz // 2:
        notes.append(
            f"{count_of(both, 'link')} in {name} listed in both directions; "
            f"each counts once{largest}"
        )
    return graph, notes


def notes_on_text(file: TableFile, used: Sequence[int]) -> list[str]:
    """Return notes on the columns that are not used and the lines that were skipped."""
    notes = []
    others = [name for i, name in enumerate(file.names) if i not in used]
    if others:
        shown = ", ".join(others[:5]) + (", …" if len(others) > 5 else "")
        notes.append(f"not used of {file.path.name}: {shown}")
    if isinstance(file, TextFile) and file.comments:
        notes.append(
            f"{count_of(file.comments, 'line')} of {file.path.name} skipped as a comment; put an "
            "id that begins with # in quotes"
        )
    return notes


def _settle_header(
    file: TableFile, header: bool | None, source: Column, target: Column, weight: Column
) -> list[str] | None:
    """Name the columns where there is a header; return the first row where there is none."""
    if not isinstance(file, TextFile):
        return None
    if header is None:
        header = any(map(is_name, (source, target, weight))) or edges_have_header(
            file.head, position(file, source, 0), position(file, target, 1)
        )
    if header:
        file.use_header()
        return None
    return file.head[0]


def _suspect_first_line(file: TableFile, keys: Keys, n_links: int) -> list[str]:
    """Return a note if the first row looks like names nobody told us are names."""
    ends = keys.codes[[0, n_links]]
    if n_links < 2 or keys.integers() is not None or np.isin(keys.codes, ends).sum() > 2:
        return []
    shown = " and ".join(repr(keys.distinct[int(end)].as_py()) for end in ends)
    return [
        f"the first line of {file.path.name} is read as a link between {shown}, which occur in "
        "no other; if it names the columns, use --header"
    ]
