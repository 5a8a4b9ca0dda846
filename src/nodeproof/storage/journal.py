"""Resumable runs of many independent cells, for experiments and benchmarks.

A *cell* is one piece of work that is known by its key: JSON text of its parameters and of the code
that computes it. Each record is written as soon as its cell is finished, so that a kill at any
moment loses no finished cell, and the next run continues from there.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

from joblib import Parallel, delayed

from nodeproof.errors import InputError
from nodeproof.runtime.threads import serve
from nodeproof.storage.locking import lock_file

__all__ = ["JOURNAL", "Journal", "Record", "source_digest"]

#: name of the journal in the folder of the results
JOURNAL = "cells.jsonl"

#: the result of one cell, ready for JSON; with an entry "error" if the cell failed
Record = dict[str, Any]

# A kill loses nothing that was written; a power cut may lose this many seconds of work.
_SYNC = 1.0


class _Keyed(Protocol):
    @property
    def key(self) -> str: ...


C = TypeVar("C", bound=_Keyed)


class Journal:
    """An append-only file with one line of JSON per finished cell.

    Parameters
    ----------
    path : path
        The file; created if it does not exist. A last line that a kill cut off is dropped.
    fresh : bool
        Whether to discard what is there.

    Attributes
    ----------
    records : dict
        Records by the key of their cell (JSON with sorted keys).

    Examples
    --------
    >>> import tempfile
    >>> from types import SimpleNamespace
    >>> from nodeproof.storage.journal import Journal
    >>> cells = [SimpleNamespace(key=f'{{"seed": {seed}}}') for seed in range(3)]
    >>> def work(cell):
    ...     print("working on", cell.key)
    ...     return {"accuracy": 1.0}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for wanted in (cells[:2], cells):
    ...         with Journal(Path(folder, "cells.jsonl")) as journal:
    ...             journal.run(journal.missing(wanted), work)
    working on {"seed": 0}
    working on {"seed": 1}
    working on {"seed": 2}
    >>> len(journal.records)
    3
    """

    def __init__(self, path: Path, fresh: bool = False) -> None:
        self.path = path
        self.records: dict[str, Record] = {}
        self._file = self._open()
        if fresh:
            self._file.truncate(0)
        self._load()
        self._synced = time.monotonic()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def missing(self, cells: Iterable[C]) -> list[C]:
        """Return the cells that have no record or failed, each once, in their order."""
        wanted = {cell.key: cell for cell in cells}
        return [c for key, c in wanted.items() if "error" in self.records.get(key, {"error": ""})]

    def run(
        self,
        cells: Iterable[C],
        work: Callable[[C], Record],
        *,
        jobs: int = 1,
        finished: Callable[[C, Record], None] | None = None,
    ) -> None:
        """Run the cells and keep each record as soon as it is there.

        Parameters
        ----------
        cells : iterable
            Usually `missing` ones; they are started in this order.
        work : callable
            From a cell to its record. An exception ends the run; a record with an entry "error"
            is kept, and `missing` returns its cell again.
        jobs : int
            Worker processes; 1 runs in this process, −1 uses every core.
        finished : callable, optional
            Called with every cell and its record, in this process.

        Raises
        ------
        KeyboardInterrupt
            On Ctrl-C; finished cells are kept.
        """
        by_key = {cell.key: cell for cell in cells}
        if not by_key:
            return
        calls = (delayed(_run_one)(work, cell, os.getpid()) for cell in by_key.values())
        with closing(Parallel(jobs, return_as="generator_unordered")(calls)) as answers:
            for key, record in answers:
                self.add(key, record)
                if finished:
                    finished(by_key[key], record)

    def add(self, key: str, record: Record) -> None:
        """Keep the record of one cell."""
        line = json.dumps({"cell": json.loads(key), **record})
        self._file.write(line.encode() + b"\n")
        self._file.flush()
        if time.monotonic() - self._synced > _SYNC:
            os.fsync(self._file.fileno())
            self._synced = time.monotonic()
        self.records[key] = record

    def close(self) -> None:
        """Close the file, so that another run may use it."""
        if not self._file.closed:
            os.fsync(self._file.fileno())
            self._file.close()

    def _open(self) -> IO[bytes]:
        file = self.path.open("a+b")
        if not lock_file(file):
            file.close()
            raise InputError(
                f"another run is writing to {self.path}; wait for it, or give another --out"
            )
        return file

    def _load(self) -> None:
        self._file.seek(0)
        whole = 0
        for number, line in enumerate(self._file, start=1):
            if not line.endswith(b"\n"):
                break  # cut off while it was written
            whole += len(line)
            try:
                record = json.loads(line)
                key = json.dumps(record.pop("cell"), sort_keys=True)
            except (ValueError, KeyError, AttributeError):
                raise InputError(
                    f"{self.path}, line {number} is not a finished cell; delete the line, or "
                    "start over with --fresh"
                ) from None
            self.records[key] = record
        self._file.truncate(whole)
        self._file.seek(whole)


def _run_one(work: Callable[[C], Record], cell: C, parent: int) -> tuple[str, Record]:
    if os.getpid() != parent:
        serve(parent)
    try:
        return cell.key, work(cell)
    except Exception as error:
        raise RuntimeError(f"{error}, in the cell {cell.key}") from error


def source_digest(paths: Iterable[Path], root: Path) -> str:
    """Return a short digest of source files: their names below the root and their bytes.

    As a part of a cell's key, it lets a journal tell apart records of different code.
    """
    digest = sha256()
    for path in sorted(paths):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]
