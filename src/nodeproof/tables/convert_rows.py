"""Both directions of each link, sorted by DuckDB and written as the arrays of a CSR matrix."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nodeproof.csr import LARGEST_WEIGHT
from nodeproof.errors import InputError
from nodeproof.storage.graph_files import ArrayFile, index_type
from nodeproof.tables.convert_ids import NodePositions
from nodeproof.tables.duck import batches, in_background, readable
from nodeproof.tables.duck_edges import LinkFiles

__all__ = ["Entries", "RowFiles", "sorted_entries"]

#: row, column and weight of entries; no weights where links have none
Entries = tuple[NDArray[Any], NDArray[Any], NDArray[np.float32] | None]

# Rows whose counts are held in memory.
_BLOCK = 1 << 20


def sorted_entries(
    connection: Any,
    links: LinkFiles,
    positions: NodePositions,
    batch: int,
    waiting: Callable[[float], None],
) -> Generator[Entries, None, None]:
    """Yield the two entries of every link, sorted by row, by column, then by falling weight.

    Loops, links of weight zero and repeated links are among them.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        What reads and sorts the links; what does not fit its memory goes to its temporary folder.
    links : LinkFiles
        The links.
    positions : NodePositions
        How ids become positions.
    batch : int
        Entries to yield at a time.
    waiting : callable
        See `in_background`.
    """
    path, width = links.table.path, positions.width
    weight, falling = ("", "") if links.weight is None else (", w", ", w DESC")
    # Both directions by a product with two rows, so that the links are read once.
    query = (
        f"SELECT if(back, b, a) AS r, if(back, a, b) AS c{weight} "
        f"FROM ({positions.links_sql(links)}), (VALUES (false), (true)) AS directions(back) "
        f"ORDER BY r, c{falling}"
    )
    place = positions.lookup()
    results = in_background(connection, batches(connection, query, batch), waiting)
    with readable(path), closing(results) as arrived:
        for part in arrived:
            if part.num_rows == 0:
                continue
            rows, columns, *rest = (column.to_numpy() for column in part.columns)
            # All of it was checked before, but by DuckDB, which may trust a file's statistics.
            if rows[0] < 0 or rows[-1] >= width or columns.min() < 0 or columns.max() >= width:
                raise InputError(f"{path}: its statistics are wrong")
            weights = rest[0] if rest else None
            if weights is not None and not (weights.min() >= 0 and weights.max() <= LARGEST_WEIGHT):
                raise InputError(f"{path}: a weight is negative or not finite")
            yield place(rows), place(columns), weights


class RowFiles:
    """The files ``indptr``, ``indices``, ``weights`` and ``degrees``, written entry by entry.

    Parameters
    ----------
    folder : pathlib.Path
        Where they are written.
    n_nodes : int
        Number of rows n.
    weighted : bool
        Whether entries have weights.

    Attributes
    ----------
    n_entries : int
        Entries written so far.
    loops, zeros, repeats : int
        Entries that were left out: on the diagonal, of weight zero, or there already.
    """

    def __init__(self, folder: Path, n_nodes: int, weighted: bool) -> None:
        self.n_nodes, self.weighted = n_nodes, weighted
        kinds = {"indptr": np.int64, "indices": index_type(n_nodes)}
        kinds |= {"weights": np.float32, "degrees": np.float64}
        if not weighted:
            del kinds["weights"]
        self._folder = folder
        self._files = {
            name: ArrayFile(folder / f"{name}.npy", kind) for name, kind in kinds.items()
        }
        self._files["indptr"].append(np.zeros(1))
        self.n_entries = self.loops = self.zeros = self.repeats = 0
        self._last = (-1, -1)
        self._all_one = True
        self._begin_block(0, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()

    def add(self, rows: NDArray[Any], columns: NDArray[Any], weights: Any = None) -> None:
        """Add entries that are sorted, also after those that were added before.

        Parameters
        ----------
        rows, columns : ndarrays of shape (m,), m > 0
            Positions. Of several entries at the same place the first counts.
        weights : ndarray of shape (m,), optional
            float32; omitted where entries have no weights.
        """
        repeat = np.empty(len(rows), dtype=bool)
        repeat[0] = (rows[0], columns[0]) == self._last
        repeat[1:] = (rows[1:] == rows[:-1]) & (columns[1:] == columns[:-1])
        self._last = (int(rows[-1]), int(columns[-1]))
        loop = rows == columns
        zero = np.zeros_like(loop) if weights is None else (weights == 0) & ~loop
        repeat &= ~(loop | zero)
        self.loops += int(loop.sum())
        self.zeros += int(zero.sum())
        self.repeats += int(repeat.sum())
        kept = ~(loop | zero | repeat)
        if not kept.all():
            rows, columns = rows[kept], columns[kept]
            weights = None if weights is None else weights[kept]
        self._files["indices"].append(columns)
        if weights is not None:
            self._files["weights"].append(weights)
            self._all_one = self._all_one and bool((weights == 1).all())
        self.n_entries += len(rows)
        self._count(rows, weights)

    def finish(self) -> dict[str, dict[str, Any]]:
        """Complete the files; return how the header of a graph folder lists them."""
        while self._first < self.n_nodes:
            self._end_block()
        listed = {f"{name}.npy": file.finish() for name, file in self._files.items()}
        if self.weighted and self._all_one:
            del listed["weights.npy"]
            (self._folder / "weights.npy").unlink()
        return listed

    def _count(self, rows: NDArray[Any], weights: Any) -> None:
        """Count the entries of each row, and add up their weights."""
        start = 0
        while start < len(rows):
            stop = int(np.searchsorted(rows, self._first + len(self._counts)))
            within = rows[start:stop] - self._first
            self._counts += np.bincount(within, minlength=len(self._counts))
            if weights is not None:
                # One after the other, so that sums do not depend on where a batch ends.
                np.add.at(self._sums, within, weights[start:stop].astype(np.float64))
            if stop < len(rows):
                self._end_block()
            start = stop

    def _begin_block(self, first: int, n_before: int) -> None:
        """Begin with a block of rows, by its first row and the entries before it."""
        size = min(_BLOCK, self.n_nodes - first)
        self._first, self._n_before = first, n_before
        self._counts = np.zeros(size, dtype=np.int64)
        self._sums = np.zeros(size if self.weighted else 0)

    def _end_block(self) -> None:
        ends = self._n_before + np.cumsum(self._counts)
        self._files["indptr"].append(ends)
        self._files["degrees"].append(self._sums if self.weighted else self._counts)
        self._begin_block(self._first + len(self._counts), int(ends[-1]))
