"""DuckDB connections: a memory limit, queries that Ctrl-C interrupts, errors of one line."""

from __future__ import annotations

import glob
import queue
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from nodeproof.errors import InputError, MissingExtraError

__all__ = ["batches", "connect", "first_row", "in_background", "quoted", "quoted_file", "readable"]

T = TypeVar("T")

# How many results are prefetched.
_WAITING = 3
# Seconds between two progress reports of a query.
_TICK = 0.5


def connect(temporary: Path, memory: int, threads: int) -> Any:
    """Return a connection that spills to a folder rather than exceed a memory limit.

    Parameters
    ----------
    temporary : pathlib.Path
        The folder.
    memory : int
        Bytes.
    threads : int
        How many threads a query may use.
    """
    try:
        import duckdb
    except ImportError:
        raise MissingExtraError("duckdb", "big") from None
    connection = duckdb.connect(
        config={
            "threads": threads,
            "memory_limit": f"{max(memory >> 20, 64)}MiB",
            "temp_directory": str(temporary),
            "preserve_insertion_order": False,
            # Nothing is ever fetched from a network.
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
    )
    # So that the progress of a query can be asked for, without a bar of its own.
    connection.execute("SET enable_progress_bar = true")
    connection.execute("SET enable_progress_bar_print = false")
    # Joins stay as written, with the table of ids hashed: the links of a hub, which have one key
    # in common, could not be split up if memory is short.
    connection.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
    return connection


def quoted(name: str, mark: str = '"') -> str:
    """Return a name (or, with ``mark="'"``, a text) as SQL wants it.

    Examples
    --------
    >>> quoted('a "b" c'), quoted("it's so", "'")
    ('"a ""b"" c"', "'it''s so'")
    """
    return mark + name.replace(mark, 2 * mark) + mark


def quoted_file(path: Path) -> str:
    """Return the path of one file as SQL wants it; to DuckDB, every path is a pattern.

    Examples
    --------
    >>> quoted_file(Path("a[1].csv"))
    "'a[[]1].csv'"
    """
    return quoted(glob.escape(str(path)), "'")


def batches(connection: Any, query: str, size: int) -> Iterator[Any]:
    """Yield the result of a query in Arrow record batches of about this many rows."""
    relation = connection.sql(query)
    # The method's name changed between versions of DuckDB.
    read = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    yield from read(size)


def first_row(connection: Any, query: str, waiting: Callable[[float], None] | None = None) -> Any:
    """Return the first row of a result as a tuple, or None where there is none.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        What runs the query.
    query : str
        The query.
    waiting : callable, optional
        See `in_background`.
    """

    def run() -> Iterator[Any]:
        # All rows: a connection is busy until its result is read to the end.
        yield connection.execute(query).fetchall()

    with closing(in_background(connection, run(), waiting)) as results:
        return next(iter(next(results)), None)


@contextmanager
def readable(what: Any) -> Iterator[None]:
    """Turn errors of DuckDB into ours, which name what was read."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise MemoryError(f"{_first(error)}; give more, e.g. --memory 8GB") from None
    except duckdb.IOException as error:
        raise OSError(f"{what}: {_first(error)}") from None
    except duckdb.Error as error:
        raise InputError(f"cannot read {what}: {_first(error)}") from None


def in_background(
    connection: Any, items: Iterable[T], waiting: Callable[[float], None] | None = None
) -> Generator[T, None, None]:
    """Yield the results of queries while another thread computes the next ones.

    Ctrl-C interrupts the query: DuckDB alone would not notice before its next result.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        What the queries run on; nobody else may use it meanwhile.
    items : iterable
        Runs the queries.
    waiting : callable, optional
        Called now and then while there is nothing to yield, with the share of the query that
        is done (0 where that is not known).
    """
    ready: queue.Queue[tuple[str, Any]] = queue.Queue(_WAITING)
    stopped = threading.Event()

    def hand_over(kind: str, item: Any) -> None:
        while not stopped.is_set():
            with suppress(queue.Full):
                ready.put((kind, item), timeout=_TICK)
                return

    def produce() -> None:
        try:
            for item in items:
                hand_over("item", item)
                if stopped.is_set():
                    return
            hand_over("end", None)
        except BaseException as error:  # raised again where the items are consumed
            hand_over("error", error)

    producer = threading.Thread(target=produce, name="nodeproof-queries")
    producer.start()
    try:
        while True:
            try:
                kind, item = ready.get(timeout=_TICK)
            except queue.Empty:
                if waiting is not None:
                    waiting(max(connection.query_progress(), 0.0) / 100.0)
                continue
            if kind == "error":
                raise item
            if kind == "end":
                return
            yield item
    finally:
        stopped.set()
        while producer.is_alive():
            connection.interrupt()
            producer.join(_TICK)


def _first(error: Exception) -> str:
    """Return the message without DuckDB's advice on its own options."""
    text = str(error).split("Possible ")[0].split("\nLINE ")[0]
    return " ".join(text.split())
