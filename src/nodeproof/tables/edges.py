"""Edge tables in memory: their links, by the rules of `edge_rules`, and the graph of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.csr import LARGEST_WEIGHT, LEAST_WEIGHT, merge_edges
from nodeproof.errors import count_of
from nodeproof.runtime.caching import cached_property
from nodeproof.tables.columns import SOURCES, TARGETS, Column, EdgeColumns
from nodeproof.tables.edge_rules import PlacedLink, open_edges
from nodeproof.tables.files import TableFile
from nodeproof.tables.keys import Keys

__all__ = ["Links", "build_graph", "read_links"]


@dataclass(frozen=True)
class Links:
    """The links of an edge table.

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
        """Return a hint for the message that another file lacks nodes, or nothing.

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
    """Read the links of an edge table.

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
    opened = open_edges(
        file,
        lambda columns: _ArrowRows.read(file, columns),
        header,
        source,
        target,
        weight,
        suggest_weight=suggest_weight,
    )
    rows = opened.rows
    return Links(rows.keys, rows.weight, opened.notes, opened.header_like)


@dataclass(frozen=True)
class _ArrowRows:
    """The links of a file in memory, as `EdgeRows`."""

    file: TableFile
    keys: Keys
    weight: NDArray[np.float64] | None

    @classmethod
    def read(cls, file: TableFile, columns: EdgeColumns) -> _ArrowRows:
        weights = [] if columns.weight is None else [columns.weight]
        texts, numbers = file.read(columns.ends, weights)
        n = len(texts[0])
        keys = Keys.of_texts(file.path, pa.concat_arrays(texts), lambda row: file.place(row % n))
        return cls(file, keys, numbers[:, 0] if weights else None)

    @property
    def n_links(self) -> int:
        return len(self.keys.codes) // 2

    @cached_property
    def integers(self) -> bool:
        return self.keys.integers() is not None

    def find_known_names(self) -> PlacedLink | None:
        lower = pc.utf8_lower(self.keys.distinct)
        known = [pc.is_in(lower, pa.array(names, lower.type)) for names in (SOURCES, TARGETS)]
        source, target = self._ends()
        found = known[0].to_numpy(False)[source] & known[1].to_numpy(False)[target]
        return self._link(int(np.argmax(found))) if found.any() else None

    def find_lone_words(self) -> PlacedLink | None:
        word = ~pc.match_substring_regex(self.keys.distinct, "^-?[0-9]+$").to_numpy(False)
        ends = self._ends()
        words = word[ends]
        row = int(np.argmax(words.all(axis=0)))
        same = (ends == ends[:, [row]]).all(axis=0)
        lone = words[:, row].all() and not same.all() and (words.any(axis=0) == same).all()
        return self._link(row) if lone else None

    def shares_end(self, ends: Sequence[str]) -> bool:
        codes = np.array([[self.keys.code(end)] for end in ends])
        links = self._ends()
        same = (links == codes).all(axis=0)
        return bool((np.isin(links, codes).any(axis=0) & ~same).any())

    def find_bad_weight(self) -> tuple[str, str] | None:
        if self.weight is None:
            return None
        bad = (self.weight < LEAST_WEIGHT) & (self.weight != 0) | (self.weight > LARGEST_WEIGHT)
        row = int(np.argmax(bad)) if len(bad) else 0
        return (self.file.place(row), f"{self.weight[row]:g}") if bad.any() else None

    def _ends(self) -> NDArray[Any]:
        """Return the codes of first and second ends, shape (2, E)."""
        return self.keys.codes.reshape(2, -1)

    def _link(self, row: int) -> PlacedLink:
        ends = [self.keys.id_of(row), self.keys.id_of(self.n_links + row)]
        return self.file.place(row), ends


def build_graph(
    links: Links, nodes: NDArray[Any], n_nodes: int, repeated: str = "max"
) -> tuple[sp.csr_array, list[str]]:
    """Return the graph of the links and notes on what was dropped or merged.

    Parameters
    ----------
    links : Links
        E links.
    nodes : ndarray of shape (2 E,)
        The node of each end, first ends first.
    n_nodes : int
        Number of nodes n.
    repeated : {"max", "sum"}
        Which weight a link has that is listed more than once.

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
    graph, repeats = merge_edges(source, target, weight, n_nodes, repeated)
    again = len(source) - graph.nnz // 2
    if repeated == "sum":
        if again:
            notes.append(
                f"{count_of(again, 'line')} of {name} on a link that another line lists: weights "
                "are added"
            )
        return graph, notes
    largest = "" if weight is None else " with its largest weight"
    if repeats:
        notes.append(f"{count_of(repeats, 'repeated link')} in {name}; each counts once{largest}")
    if both := again - repeats:
        notes.append(
            f"{count_of(both, 'link')} in {name} listed in both directions; "
            f"each counts once{largest}"
        )
    return graph, notes
