"""Edges files: the links, and what their reader should know about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
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
from nodeproof.io.text import TextFile, is_number

__all__ = [
    "Links",
    "build_graph",
    "note_on_first_line",
    "note_on_third_column",
    "notes_on_text",
    "notes_on_unused",
    "read_links",
]


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
    header_like : bool
        Whether the first of them may be the names of the columns.
    """

    keys: Keys
    weight: NDArray[np.float64] | None
    notes: list[str]
    header_like: bool = False

    def why_missing(self, nodes: NDArray[Any], missing: NDArray[np.bool_]) -> str:
        """Return what a message that another file lacks these nodes should add, or nothing.

        Parameters
        ----------
        nodes : ndarray of shape (2 E,)
            The node of each end, first ends first.
        missing : ndarray of shape (n,)
            Whether the other file lacks a node.
        """
        if not self.header_like or not missing[nodes[[0, len(nodes) // 2]]].all():
            return ""
        return f"; if the first line of {self.keys.path.name} names the columns, use --header"


def read_links(
    file: TableFile,
    header: bool | None,
    source: Column,
    target: Column,
    weight: Column,
    *,
    suggest_weight: bool = True,
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
    suggest_weight : bool
        Whether to ask if a column that is not used is the weight.
    """
    first = _settle_header(file, header, source, target, weight)
    ends = find_ends(file, source, target)
    weight_column = find_weight(file, weight, ends, first)
    used = [*ends] if weight_column is None else [*ends, weight_column]
    spare = [i for i in range(len(file.names)) if i not in used]
    suggest = suggest_weight and len(used) == 2 and len(spare) == 1 and first is None
    notes = notes_on_text(file, used, suggest and _holds_numbers(file, spare[0]))
    if weight_column is not None and weight is None and first is not None:
        notes.append(note_on_third_column(file.path.name))
    texts, numbers = file.read(ends, used[2:])
    n_links = len(texts[0])
    keys = Keys.of_texts(file.path, pa.concat_arrays(texts), lambda row: file.place(row % n_links))
    weights = numbers[:, 0] if weight_column is not None else None
    if weights is not None and (weights < 0).any():
        row = int(np.argmax(weights < 0))
        raise InputError(f"{file.place(row)}: the weight is negative: {weights[row]:g}")
    header_like = first is not None and header is None and _is_alone(keys, n_links)
    if header_like:
        ends_of_first = [keys.id_of(0), keys.id_of(n_links)]
        notes.append(note_on_first_line(file.path.name, ends_of_first))
    return Links(keys, weights, notes, header_like)


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


def notes_on_text(file: TableFile, used: Sequence[int], suggest_weight: bool = False) -> list[str]:
    """Return notes on the columns that are not used and the lines that were skipped."""
    notes = notes_on_unused(file.path.name, file.names, used, suggest_weight)
    if isinstance(file, TextFile) and file.comments:
        notes.append(
            f"{count_of(file.comments, 'line')} of {file.path.name} skipped as a comment; put an "
            "id that begins with # in quotes"
        )
    return notes


def notes_on_unused(
    name: str, columns: Sequence[str], used: Sequence[int], suggest_weight: bool = False
) -> list[str]:
    """Return a note on the columns of a file that are not used, if there are any.

    Parameters
    ----------
    name : str
        What the file is called.
    columns : sequence of str
        Their names.
    used : sequence of int
        Positions of those that are used.
    suggest_weight : bool
        Whether the first of the others may be the weight.

    Examples
    --------
    >>> notes_on_unused("links.csv", ["from", "to", "amount"], [0, 1], suggest_weight=True)
    ['not used of links.csv: amount; if it is the weight, use --weight amount']
    """
    others = [column for i, column in enumerate(columns) if i not in used]
    if not others:
        return []
    shown = ", ".join(others[:5]) + (", …" if len(others) > 5 else "")
    hint = f"; if it is the weight, use --weight {quote(others[0])}" if suggest_weight else ""
    return [f"not used of {name}: {shown}{hint}"]


def note_on_third_column(name: str) -> str:
    """Return the note that a file without a header has weights."""
    return f"the third column of {name} is read as the weight of the links"


def note_on_first_line(name: str, ends: Sequence[str]) -> str:
    """Return the note that the first line of a file, read as a link, may be a header."""
    return (
        f"the first line of {name} is read as a link between {' and '.join(map(repr, ends))}, "
        "which occur in no other; if it names the columns, use --header"
    )


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


def _is_alone(keys: Keys, n_links: int) -> bool:
    """Tell whether the ends of the first link occur in no other, and are names."""
    if n_links < 2 or keys.integers() is not None:
        return False
    return int(np.isin(keys.codes, keys.codes[[0, n_links]]).sum()) <= 2


def _holds_numbers(file: TableFile, column: int) -> bool:
    """Tell whether a column with a name holds numbers, by its type or its first rows."""
    if isinstance(file, TextFile):
        return len(file.head) > 1 and all(is_number(row[column]) for row in file.head[1:])
    kind = pq.read_schema(file.path).field(column).type
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
