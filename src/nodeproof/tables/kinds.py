"""Links of several kinds: a table with a column of kinds, or a table for each kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.errors import InputError
from nodeproof.inputs.link_kinds import check_kind_name
from nodeproof.tables.columns import LABELS, NODES, NOT_APART, Column
from nodeproof.tables.edges import Links, build_graph, read_links
from nodeproof.tables.files import TableFile
from nodeproof.tables.keys import Keys, one_node_set
from nodeproof.tables.reading import open_table

__all__ = ["LinksOfKinds", "join_kinds", "kinds_by_column", "kinds_by_file", "name_kinds"]


@dataclass(frozen=True)
class LinksOfKinds:
    """Links of several kinds, not yet about certain nodes.

    Attributes
    ----------
    kinds : dict of str to Links
        The links of each kind.
    together : Links
        All of them, in this order.
    """

    kinds: dict[str, Links]
    together: Links

    def build(
        self, ids: NDArray[Any], repeated: str = "max"
    ) -> tuple[dict[str, sp.csr_array], list[str]]:
        """Return the graph of each kind, and notes on what was dropped or merged.

        Parameters
        ----------
        ids : ndarray of shape (n,)
            All nodes, sorted, as `read_tables` returns them.
        repeated : {"max", "sum"}
            Which weight a link has that is listed more than once.
        """
        own, (places, *_) = one_node_set([self.together.keys])
        own = own if own.dtype.kind == ids.dtype.kind else own.astype(ids.dtype)
        found, notes = {}, []
        for name, nodes in self.split(np.searchsorted(ids, own)[places]).items():
            found[name], more = build_graph(self.kinds[name], nodes, len(ids), repeated)
            notes += more
        return found, notes

    def split(self, nodes: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Return the nodes of all ends, first ends first, kind by kind.

        Parameters
        ----------
        nodes : ndarray of shape (2 E,)
            Of all links together.
        """
        lasts = np.cumsum([len(links.keys.codes) // 2 for links in self.kinds.values()])
        first, second = (np.split(end, lasts[:-1]) for end in np.split(nodes, 2))
        return {
            name: np.concatenate(ends)
            for name, *ends in zip(self.kinds, first, second, strict=True)
        }


def kinds_by_column(
    path: Path,
    column: str,
    header: bool | None = None,
    source: Column = None,
    target: Column = None,
    weight: Column = None,
) -> LinksOfKinds:
    """Read an edge table with a column that says of which kind each link is.

    Parameters
    ----------
    path : pathlib.Path
        The table.
    column : str
        Its column with the kind of each link, by name or by position from 0.
    header, source, target, weight
        See :func:`nodeproof.tables.reading.read_tables`.
    """
    table = open_table(path)
    links = read_links(table, header, source, target, weight, suggest_weight=False)
    links = replace(links, notes=[note for note in links.notes if NOT_APART not in note])
    types = _read_types(table, path, column)
    found = {}
    for name in np.unique(types):
        rows = np.flatnonzero(types == name)
        found[check_kind_name(str(name))] = _only(links, rows)
    return join_kinds(found, path, links.notes)


def kinds_by_file(
    paths: Sequence[Path],
    header: bool | None = None,
    source: Column = None,
    target: Column = None,
    weight: Column = None,
) -> LinksOfKinds:
    """Read edge tables that are one kind of links each, named after its file.

    Parameters
    ----------
    paths : sequence of pathlib.Path
        The tables.
    header, source, target, weight
        Of each table; see :func:`nodeproof.tables.reading.read_tables`.
    """
    found = {}
    for name, path in name_kinds(paths).items():
        table = open_table(path)
        _refuse_labels(table, path)
        found[name] = read_links(table, header, source, target, weight)
    notes = [note for links in found.values() for note in links.notes]
    return join_kinds(found, Path(" and ".join(path.name for path in paths)), notes)


def name_kinds(paths: Sequence[Path]) -> dict[str, Path]:
    """Return tables by the kinds of links they hold: the names of the files up to their ending.

    Examples
    --------
    >>> list(name_kinds([Path("cites.csv"), Path("2024/wrote.csv.gz")]))
    ['cites', 'wrote']
    """
    found: dict[str, Path] = {}
    for path in paths:
        try:
            name = check_kind_name(Path(path.name.removesuffix(".gz")).stem)
        except InputError as error:
            raise InputError(
                f"each of several tables of links is a kind, named after its file; {path}: {error}"
            ) from None
        if name in found:
            raise InputError(
                f"both {found[name]} and {path} would be the kind of links {name!r}: each of "
                "several tables of links is a kind, named after its file; rename one"
            )
        found[name] = path
    return found


def join_kinds(kinds: dict[str, Links], path: Path, notes: list[str]) -> LinksOfKinds:
    """Return links of several kinds with all of them together.

    Parameters
    ----------
    kinds : dict of str to Links
        The links of each kind.
    path : pathlib.Path
        Where they come from, for messages.
    notes : list of str
        What the user should know about all of them.
    """
    halves: tuple[list[Any], list[Any]] = [], []
    places = []
    for links in kinds.values():
        keys = links.keys
        texts = keys.texts().take(pa.array(keys.codes))
        n = len(texts) // 2
        halves[0].append(texts[:n])
        halves[1].append(texts[n:])
        places.append((n, keys.place))
    counts = np.cumsum([n for n, _ in places])

    def place(row: int) -> str:
        at = row % int(counts[-1])
        k = int(np.searchsorted(counts, at, side="right"))
        return places[k][1](at - int(counts[k]) + places[k][0])

    keys = Keys.of_texts(path, pa.concat_arrays([*halves[0], *halves[1]]), place)
    weight = None
    if any(links.weight is not None for links in kinds.values()):
        weight = np.concatenate([
            np.ones(n) if links.weight is None else links.weight
            for links, (n, _) in zip(kinds.values(), places, strict=True)
        ])  # fmt: skip
    return LinksOfKinds(kinds, Links(keys, weight, notes))


def _only(links: Links, rows: NDArray[np.int64]) -> Links:
    """Return some of the links of a table."""
    keys = links.keys
    n = len(keys.codes) // 2
    some = replace(
        keys,
        codes=keys.codes[np.concatenate([rows, n + rows])],
        place=lambda row: keys.place(int(rows[row % len(rows)])),
    )
    return Links(some, None if links.weight is None else links.weight[rows], [])


def _refuse_labels(table: TableFile, path: Path) -> None:
    first = table.head[0] if table.head else table.names  # before it is decided what it is
    names = [str(name).strip().lower() for name in first]
    if len(names) == 2 and names[0] in NODES and names[1] in LABELS:
        raise InputError(
            f"{path} has the columns {names[0]} and {names[1]}, and each of several EDGES is a "
            f"table of links: give it as --labels {path}"
        )


def _read_types(table: TableFile, path: Path, column: str) -> NDArray[Any]:
    names = [str(name) for name in table.names or []]
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
