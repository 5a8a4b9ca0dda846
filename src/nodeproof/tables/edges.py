"""Edges files: the links, and what their reader should know about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.csr import merge_edges
from nodeproof.errors import InputError, count_of
from nodeproof.tables.columns import Column
from nodeproof.tables.edge_columns import (
    SOURCES,
    TARGETS,
    choose_link_columns,
    note_on_comments,
    note_on_first_link,
    note_on_header,
    note_on_repeats,
    refuse_header_below,
    stands_out,
)
from nodeproof.tables.files import TableFile
from nodeproof.tables.keys import Keys
from nodeproof.tables.text import TextFile

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
    columns = choose_link_columns(
        file, header, source, target, weight, suggest_weight=suggest_weight
    )
    texts, numbers = file.read(columns.ends, [] if columns.weight is None else [columns.weight])
    n_links = len(texts[0])
    keys = Keys.of_texts(file.path, pa.concat_arrays(texts), lambda row: file.place(row % n_links))
    header_like = columns.guessed and _is_alone(keys, n_links)
    if header_like and file.head is not None and stands_out(file.head, *columns.ends):
        links = read_links(file, True, source, target, weight, suggest_weight=suggest_weight)
        links.notes.insert(0, note_on_header(file.path.name, file.names))
        return links
    if file.head is not None and header is None:
        _refuse_header_below(file, keys, n_links)
    notes = columns.notes + notes_on_text(file)
    weights = numbers[:, 0] if columns.weight is not None else None
    if weights is not None and (weights < 0).any():
        row = int(np.argmax(weights < 0))
        raise InputError(f"{file.place(row)}: the weight is negative: {weights[row]:g}")
    if header_like:
        notes.append(note_on_first_link(file.path.name, [keys.id_of(0), keys.id_of(n_links)]))
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
    graph, repeats = merge_edges(source, target, weight, n_nodes)
    largest = "" if weight is None else " with its largest weight"
    if repeats:
        notes.append(f"{count_of(repeats, 'repeated link')} in {name}; each counts once{largest}")
    if both := len(source) - repeats - graph.nnz // 2:
        notes.append(
            f"{count_of(both, 'link')} in {name} listed in both directions; "
            f"each counts once{largest}"
        )
    return graph, notes


def notes_on_text(file: TableFile) -> list[str]:
    """Return notes on the lines of a file that were skipped."""
    if not isinstance(file, TextFile):
        return []
    name = file.path.name
    return note_on_repeats(name, file.repeats) + note_on_comments(name, file.comments)


def _is_alone(keys: Keys, n_links: int) -> bool:
    """Tell whether the ends of the first link occur in no other, and are names."""
    if n_links < 2 or keys.integers() is not None:
        return False
    return _touch_no_other(keys, n_links, 0)


def _touch_no_other(keys: Keys, n_links: int, row: int) -> bool:
    """Tell whether the ends of a link occur in no line but those that are the same."""
    ends = keys.codes.reshape(2, n_links)
    same = (ends == ends[:, [row]]).all(axis=0)
    return bool((np.isin(ends, ends[:, row]).any(axis=0) == same).all())


def _refuse_header_below(file: TableFile, keys: Keys, n_links: int) -> None:
    """Refuse a line of names in the middle of a file that was joined from several.

    They are names if they are well known as such, or if all other ids are whole numbers; and if
    no other link has them.
    """
    ends = keys.codes.reshape(2, n_links)
    lower = pc.utf8_lower(keys.distinct)
    known = [pc.is_in(lower, pa.array(names, lower.type)) for names in (SOURCES, TARGETS)]
    found = known[0].to_numpy(False)[ends[0]] & known[1].to_numpy(False)[ends[1]]
    if not found.any():
        word = ~pc.match_substring_regex(keys.distinct, "^-?[0-9]+$").to_numpy(False)
        found = word[ends].all(axis=0)
        if not np.array_equal(found, word[ends].any(axis=0)):
            return
    row = int(np.argmax(found))
    if found[row] and not found.all() and _touch_no_other(keys, n_links, row):
        names = [keys.id_of(row), keys.id_of(n_links + row)]
        raise refuse_header_below(file.place(row), names)
