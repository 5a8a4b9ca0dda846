"""From the ids of nodes to their positions in sorted order, without holding the links.

Integers in a moderate range are looked up in an array, which costs a few bytes for each number
of the range and far less time than a hash table. All other ids go through a join of DuckDB.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from nodeproof.errors import InputError
from nodeproof.storage.graph_files import (
    IdFile,
    file_crc32,
    index_type,
    is_checksum,
    is_count,
    is_id_kind,
)
from nodeproof.storage.schema import Check, entries, one_of, or_none
from nodeproof.tables.duck import batches, in_background, quoted_file, readable
from nodeproof.tables.duck_edges import LinkFiles

__all__ = ["IS_POSITIONS", "NodePositions", "find_positions"]

# Bytes for each number of a range: a mark whether it is an id, then its position.
_BYTES_PER_NUMBER = 8
# Numbers of a range whose marks are read at a time.
_BLOCK = 1 << 24
# A range with more gaps than this is not worth an array.
_SPARSEST = 64


@dataclass(frozen=True)
class NodePositions:
    """How ids become positions.

    Attributes
    ----------
    file : pathlib.Path
        The file of ids; there is none where ids are positions.
    way : {"offset", "ranks", "join"}
        The position is the id minus ``low``; or its rank among the ids in low…high; or its row
        in the file of ids.
    n_nodes : int
        Number of nodes.
    ids : {"positions", "integer", "text"}
        What the ids are.
    low, high : int
        The smallest and the largest id, where they are integers.
    entry : dict or None
        How the header of a graph folder lists the file of ids.
    """

    file: Path
    way: str
    n_nodes: int
    ids: str
    low: int = 0
    high: int = -1
    entry: dict[str, Any] | None = None

    @classmethod
    def resume(cls, file: Path, state: dict[str, Any]) -> NodePositions:
        """Return what an earlier run has found, if its file of ids is still as it was."""
        found = cls(file, **state)
        if found.entry is not None and file_crc32(file) != found.entry["crc32"]:
            raise InputError(
                f"{file} is not as it was left; add --fresh to convert from the beginning"
            )
        return found

    def state(self) -> dict[str, Any]:
        """Return what `resume` needs."""
        state = asdict(self)
        del state["file"]
        return state

    @property
    def width(self) -> int:
        """What the numbers that `links_sql` gives for nodes are below."""
        return self.n_nodes if self.way == "join" else self.high - self.low + 1

    def links_sql(self, links: LinkFiles) -> str:
        """Return a query for the links: numbers a and b in the order of the ids, perhaps w."""
        # Half as wide, they are sorted in half the memory.
        kind = "INTEGER" if self.width < 2**31 else "BIGINT"
        weight = "" if links.weight is None else ", CAST(w AS FLOAT) AS w"
        source = f"({links.links_sql()}) AS links"
        ends = [f"s - ({self.low})", f"t - ({self.low})"]
        if self.way == "join":
            ids = f"read_parquet({quoted_file(self.file)}, file_row_number=true)"
            source += f" JOIN {ids} AS x ON x.node = s JOIN {ids} AS y ON y.node = t"
            ends = ["x.file_row_number", "y.file_row_number"]
        a, b = (f"CAST({end} AS {kind})" for end in ends)
        return f"SELECT {a} AS a, {b} AS b{weight} FROM {source}"

    def lookup(self) -> Callable[[NDArray[Any]], NDArray[Any]]:
        """Return what turns the numbers of `links_sql` into positions."""
        if self.way != "ranks":
            return lambda numbers: numbers
        # Where there is no node, a rank does not matter.
        ranks = np.zeros(self.width, dtype=index_type(self.n_nodes))
        start = 0
        with pq.ParquetFile(self.file) as ids:
            for batch in ids.iter_batches(batch_size=1 << 20):
                stop = start + len(batch)
                ranks[batch.column(0).to_numpy() - self.low] = np.arange(start, stop)
                start = stop
        return lambda numbers: ranks[numbers]


def _is_int64(value: Any) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


#: whether a value of JSON can be what `NodePositions.state` returned
IS_POSITIONS: Check = entries(
    {
        "way": one_of("offset", "ranks", "join"),
        "n_nodes": lambda value: is_count(value) and value > 0,
        "ids": is_id_kind,
        "low": _is_int64,
        "high": _is_int64,
        "entry": or_none(entries({"length": is_count, "size": is_count, "crc32": is_checksum})),
    }
)


def find_positions(
    connection: Any,
    links: LinkFiles,
    file: Path,
    memory: int,
    batch: int,
    progress: Callable[[int], None],
) -> NodePositions:
    """Find all ids, and write them to a file unless they are 0…n−1.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        What reads the links.
    links : LinkFiles
        The links.
    file : pathlib.Path
        The Parquet file to write.
    memory : int
        Bytes that an array over the range of the ids may take.
    batch : int
        Links to read at a time.
    progress : callable
        Called with the number of links read.
    """
    if not links.integers:
        texts = _write_distinct(connection, links, file, batch, progress)
        return NodePositions(file, "join", texts["length"], "text", entry=texts)
    listed = [ids for ids in links.ids if ids.low <= ids.high]
    low, high = min(ids.low for ids in listed), max(ids.high for ids in listed)
    width = high - low + 1
    as_array = width * _BYTES_PER_NUMBER <= memory and width <= max(
        _SPARSEST * 2 * links.n_links, 1 << 20
    )
    entry: dict[str, Any] | None
    if as_array:
        entry = _write_marked(connection, links, file, low, high, batch, progress)
    else:
        entry = _write_distinct(connection, links, file, batch, progress)
    n = width if entry is None else entry["length"]
    if n == width and low == 0:
        file.unlink(missing_ok=True)
        return NodePositions(file, "offset", n, "positions", low, high)
    way = "offset" if n == width else "ranks" if as_array else "join"
    return NodePositions(file, way, n, "integer", low, high, entry)


def _write_marked(
    connection: Any,
    links: LinkFiles,
    file: Path,
    low: int,
    high: int,
    batch: int,
    progress: Callable[[int], None],
) -> dict[str, Any] | None:
    """Write the integers that occur, found by marks in an array; nothing where they are 0…n−1."""
    present = np.zeros(high - low + 1, dtype=bool)
    queries = [f"SELECT s, t FROM ({links.links_sql()})"]
    queries += [f"SELECT {ids.sql(True)} FROM {ids.table.sql()}" for ids in links.ids[2:]]
    read = 0
    for query in queries:
        results = in_background(connection, batches(connection, query, batch))
        with readable(links.table.path), closing(results) as arrived:
            for part in arrived:
                if part.num_rows == 0:
                    continue
                for column in part.columns:
                    ids = column.to_numpy()
                    # A file may lie about its smallest and largest number.
                    if ids.min() < low or ids.max() > high:
                        raise InputError(f"{links.table.path}: its statistics are wrong")
                    present[ids - low] = True
                if query == queries[0]:
                    read += part.num_rows
                    progress(read)
    if low == 0 and present.all():
        return None
    with closing(IdFile(file, pa.int64())) as column:
        for start in range(0, len(present), _BLOCK):
            column.append(pa.array(low + start + np.flatnonzero(present[start : start + _BLOCK])))
        return column.finish()


def _write_distinct(
    connection: Any,
    links: LinkFiles,
    file: Path,
    batch: int,
    progress: Callable[[int], None],
) -> dict[str, Any]:
    """Write the ids that occur, found by DuckDB."""
    kind = pa.int64() if links.integers else pa.large_string()
    results = in_background(
        connection,
        batches(connection, links.ids_sql(), batch),
        lambda share: progress(int(share * links.n_links)),
    )
    with (
        closing(IdFile(file, kind)) as column,
        readable(links.table.path),
        closing(results) as arrived,
    ):
        for part in arrived:
            column.append(part.column(0).cast(kind))
        return column.finish()
