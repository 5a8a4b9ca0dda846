"""What an unfinished conversion has kept, of which anything may be wrong."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from nodeproof.csr import LARGEST_WEIGHT
from nodeproof.errors import InputError
from nodeproof.storage.graph_header import index_type, is_checksum, is_count
from nodeproof.storage.growing import GrowingColumn
from nodeproof.tables.duck import batches, in_background, quoted_file, readable
from nodeproof.tables.duck_edges import LinkFiles

__all__ = ["Links", "Placing", "check_state", "find_placing", "placed_links"]

_STAGES = ("placing", "buckets", "rows")


def check_state(path: Path, state: dict[str, Any]) -> None:
    """Refuse a state that no run can have kept.

    Parameters
    ----------
    path : pathlib.Path
        Where it was read from, for the message.
    state : dict
        What is finished: see `nodeproof.tables.convert`.
    """
    checks = {"placing": _is_placing, "buckets": _is_buckets, "rows": _is_rows}
    finished = [stage for stage in _STAGES if stage in state]
    # Each stage builds on those before it.
    right = finished == list(_STAGES[: len(finished)])
    if not (right and all(checks[stage](state[stage], state) for stage in finished)):
        raise InputError(f"{path} is damaged; add --fresh to convert from the beginning")


def _is_placing(found: Any, state: dict[str, Any]) -> bool:
    if not isinstance(found, dict) or set(found) != {
        "way", "n_nodes", "ids", "low", "high", "entry",
    }:  # fmt: skip
        return False
    entry = found["entry"]
    return (
        found["way"] in ("offset", "ranks", "names")
        and found["ids"] in ("positions", "integer", "text")
        and is_count(found["n_nodes"])
        and found["n_nodes"] > 0
        and all(_is_int(found[end]) and abs(found[end]) <= 2**63 for end in ("low", "high"))
        and (found["ids"] == "positions" if entry is None else _is_entry(entry))
    )


def _is_entry(found: Any) -> bool:
    return (
        isinstance(found, dict)
        and set(found) == {"length", "size", "crc32"}
        and is_count(found["length"])
        and is_count(found["size"])
        and is_checksum(found["crc32"])
    )


def _is_buckets(found: Any, state: dict[str, Any]) -> bool:
    if not isinstance(found, dict) or set(found) != {"shift", "sizes", "loops", "zeros"}:
        return False
    shift, sizes = found["shift"], found["sizes"]
    return (
        is_count(shift)
        and shift < 64
        and isinstance(sizes, list)
        and len(sizes) == ((state["placing"]["n_nodes"] - 1) >> shift) + 1
        and all(map(is_count, (*sizes, found["loops"], found["zeros"])))
    )


def _is_rows(found: Any, state: dict[str, Any]) -> bool:
    if not isinstance(found, dict) or set(found) != {"finished", "written"}:
        return False
    written = found["written"]
    return (
        is_count(found["finished"])
        and found["finished"] <= len(state["buckets"]["sizes"])
        and isinstance(written, dict)
        and set(written) == {"files", "repeats", "all_one"}
        and is_count(written["repeats"])
        and isinstance(written["all_one"], bool)
        and isinstance(written["files"], dict)
        and {"indptr", "indices", "degrees"} <= set(written["files"])
        and all(map(_is_file, written["files"].values()))
    )


def _is_file(found: Any) -> bool:
    return (
        isinstance(found, dict)
        and set(found) == {"size", "crc"}
        and all(map(is_count, found.values()))
    )


def _is_int(found: Any) -> bool:
    return isinstance(found, int) and not isinstance(found, bool)


# ------------------------------------------------------------------------------
# From the ids of nodes to their positions in sorted order, without holding the links.
#
# Integers in a moderate range are looked up in an array, which costs a few bytes for each number
# of the range and far less time than a hash table. All other ids go through a join of DuckDB.

Positions = NDArray[np.int64]
#: source, target (positions) and weights, none of them where links have none
Links = tuple[Positions, Positions, NDArray[np.float64]]

# Bytes for each number of a range: a mark whether it is an id, then its position.
_BYTES_A_NUMBER = 8
# Numbers of a range that are looked at in one go.
_BLOCK = 1 << 24
# A range with more gaps than this is not worth an array.
_SPARSEST = 64


@dataclass(frozen=True)
class Placing:
    """How ids become positions.

    Attributes
    ----------
    way : {"offset", "ranks", "names"}
        The position is the id minus ``low``; or its rank in the range low…high; or its row in
        the file of ids.
    n_nodes : int
        Number of nodes.
    ids : {"positions", "integer", "text"}
        What nodes are called by.
    low, high : int
        The smallest and the largest id, where they are integers.
    entry : dict or None
        Size and checksum of the file of ids.
    """

    way: str
    n_nodes: int
    ids: str
    low: int = 0
    high: int = -1
    entry: dict[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return all of it, for the state file."""
        return asdict(self)


def find_placing(
    connection: Any,
    links: LinkFiles,
    file: Path,
    memory: int,
    batch: int,
    progress: Callable[[int], None],
) -> Placing:
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
        names, n = _write_names(connection, links, file, batch, progress)
        return Placing("names", n, "text", entry=names)
    listed = [ids for ids in links.ids if ids.low <= ids.high]
    low, high = min(ids.low for ids in listed), max(ids.high for ids in listed)
    width = high - low + 1
    as_array = width * _BYTES_A_NUMBER <= memory and width <= max(
        _SPARSEST * 2 * links.n_links, 1 << 20
    )
    entry: dict[str, Any] | None
    if as_array:
        entry, n = _write_present(connection, links, file, low, high, batch, progress)
    else:
        entry, n = _write_names(connection, links, file, batch, progress)
    if n == width and low == 0:
        file.unlink(missing_ok=True)
        return Placing("offset", n, "positions", low, high)
    way = "offset" if n == width else "ranks" if as_array else "names"
    return Placing(way, n, "integer", low, high, entry)


def _write_present(
    connection: Any,
    links: LinkFiles,
    file: Path,
    low: int,
    high: int,
    batch: int,
    progress: Callable[[int], None],
) -> tuple[dict[str, Any] | None, int]:
    """Write the integers that occur, found by marks in an array; return also how many.

    Nothing is written where they are the positions.
    """
    present = np.zeros(high - low + 1, dtype=bool)
    queries = [f"SELECT s, t FROM ({links.links_sql()})"]
    queries += [f"SELECT {ids.sql(True)} FROM {ids.table.sql()}" for ids in links.ids[2:]]
    read = 0
    for query in queries:
        with readable(links.table.path), closing(_rows(connection, query, batch)) as arrived:
            for columns in arrived:
                for ids in columns:
                    # A file may lie about its smallest and largest number.
                    if ids.min() < low or ids.max() > high:
                        raise InputError(f"{links.table.path}: its statistics are wrong")
                    present[ids - low] = True
                if len(columns) == 2:
                    read += len(columns[0])
                    progress(read)
    if low == 0 and present.all():
        return None, len(present)
    column = GrowingColumn(file, pa.int64())
    for start in range(0, len(present), _BLOCK):
        column.append(pa.array(low + start + np.flatnonzero(present[start : start + _BLOCK])))
    return column.finish(), column.length


def _write_names(
    connection: Any,
    links: LinkFiles,
    file: Path,
    batch: int,
    progress: Callable[[int], None],
) -> tuple[dict[str, Any], int]:
    """Write the ids that occur, found by DuckDB; return also how many."""
    column = GrowingColumn(file, pa.int64() if links.integers else pa.large_string())

    def waiting(share: float) -> None:
        progress(int(share * links.n_links))

    results = batches(connection, links.ids_sql(), batch)
    with readable(links.table.path), closing(in_background(connection, results, waiting)) as found:
        for names in found:
            column.append(names.column(0).cast(column.schema.field(0).type))
    return column.finish(), column.length


def placed_links(
    connection: Any,
    links: LinkFiles,
    placing: Placing,
    file: Path,
    batch: int,
    waiting: Callable[[float], None],
) -> Generator[Links, None, None]:
    """Yield all links with positions for ids, in any order.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        What reads the links.
    links : LinkFiles
        The links.
    placing : Placing
        How ids become positions.
    file : pathlib.Path
        The file of ids.
    batch : int
        Links to read at a time.
    waiting : callable
        See `in_background`.
    """
    query = links.links_sql()
    if placing.way == "names":
        weight = "" if links.weight is None else ", w"
        ids = f"read_parquet({quoted_file(file)}, file_row_number=true)"
        query = (
            f"SELECT a.file_row_number, b.file_row_number{weight} FROM ({query}) "
            f"JOIN {ids} AS a ON a.node = s JOIN {ids} AS b ON b.node = t"
        )
    ranks = _ranks(placing, file) if placing.way == "ranks" else None
    unweighted = np.empty(0)
    with (
        readable(links.table.path),
        closing(_rows(connection, query, batch, waiting)) as arrived,
    ):
        for source, target, *weight_column in arrived:
            # They were checked before, but by DuckDB, which may trust a file's statistics.
            if weight_column and not (
                weight_column[0].min() >= 0 and weight_column[0].max() <= LARGEST_WEIGHT
            ):
                raise InputError(f"{links.table.path}: a weight is negative or not finite")
            ends = [source, target]
            if placing.way != "names" and placing.low != 0:
                ends = [end - placing.low for end in ends]
            if ranks is not None:
                ends = [ranks[end] for end in ends]
            yield ends[0], ends[1], weight_column[0] if weight_column else unweighted


def _ranks(placing: Placing, file: Path) -> NDArray[Any]:
    """Return the position of each number in the range, whatever it is where there is no node."""
    ranks = np.zeros(placing.high - placing.low + 1, dtype=index_type(placing.n_nodes))
    start = 0
    with pq.ParquetFile(file) as ids:
        for batch in ids.iter_batches(batch_size=1 << 20):
            ranks[batch.column(0).to_numpy() - placing.low] = np.arange(start, start + len(batch))
            start += len(batch)
    return ranks


def _rows(
    connection: Any, query: str, batch: int, waiting: Callable[[float], None] | None = None
) -> Generator[list[NDArray[Any]], None, None]:
    """Yield the columns of a query, batch by batch; no batch is empty."""
    results = in_background(connection, batches(connection, query, batch), waiting)
    with closing(results) as arrived:
        for part in arrived:
            if part.num_rows:
                yield [column.to_numpy(zero_copy_only=False) for column in part.columns]
