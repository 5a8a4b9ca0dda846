"""What is finished, kept so that a kill at any moment loses no finished cell."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import IO, Any

from joblib import Parallel, delayed

from nodeproof.errors import InputError
from nodeproof.paper.experiments.cells import Cell, run_cell
from nodeproof.runtime.threads import serve
from nodeproof.storage.locking import lock_file

__all__ = ["JOURNAL", "Journal", "run"]


# A kill loses nothing that was written; a power cut may lose so many seconds of work.
_SYNC = 1.0


class Journal:
    """A file with one line of JSON for each finished cell, only ever added to.

    Parameters
    ----------
    path : path
        The file; made if it is not there. A last line that a kill has cut off is dropped.
    fresh : bool
        Whether to forget what is there.

    Attributes
    ----------
    records : dict
        What is finished, by the key of the cell (JSON with sorted keys).

    Examples
    --------
    >>> import tempfile
    >>> from nodeproof.paper.experiments.runner import Journal
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Journal(Path(folder, "cells.jsonl")) as journal:
    ...         journal.add('{"seed": 0}', {"accuracy": 1.0})
    ...     with Journal(Path(folder, "cells.jsonl")) as journal:
    ...         journal.records
    {'{"seed": 0}': {'accuracy': 1.0}}
    """

    def __init__(self, path: Path, fresh: bool = False) -> None:
        self.path = path
        self.records: dict[str, dict[str, Any]] = {}
        self._file = self._open()
        if fresh:
            self._file.truncate(0)
        self._load()
        self._synced = time.monotonic()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, key: str, record: dict[str, Any]) -> None:
        """Keep one finished cell."""
        line = json.dumps({"cell": json.loads(key), **record})
        self._file.write(line.encode() + b"\n")
        self._file.flush()
        if time.monotonic() - self._synced > _SYNC:
            os.fsync(self._file.fileno())
            self._synced = time.monotonic()
        self.records[key] = record

    def close(self) -> None:
        """Close the file; another run may then use it."""
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


# ------------------------------------------------------------------------------
# Run cells on every core, keep each as soon as it is finished, take up what is there.


#: the file of finished cells, in the folder of the results
JOURNAL = "cells.jsonl"


def run(
    cells: Iterable[Cell],
    out: Path,
    *,
    jobs: int = -1,
    fresh: bool = False,
    begin: Callable[[list[Cell], int], None] | None = None,
    finished: Callable[[Cell], None] | None = None,
) -> dict[str, dict[str, Any]]:
    """Run the cells that are not finished yet and return the records of all that are.

    Parameters
    ----------
    cells : iterable of Cell
        What is wanted; a cell that is asked for twice is run once.
    out : path
        Folder of the results; finished cells are kept there, one line of JSON each.
    jobs : int
        Processes; −1 for every core.
    fresh : bool
        Whether to forget what an earlier run has finished.
    begin : callable, optional
        Told, before the work, which cells are to be run and how many were finished before.
    finished : callable, optional
        Told of each cell that is run.

    Returns
    -------
    dict
        Every record in the folder, by the key of the cell.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C; what is finished is kept.

    Examples
    --------
    >>> import tempfile
    >>> from nodeproof.paper.experiments import Cell, run
    >>> cells = [Cell("genie", "G", seed, {"cluster_size": 20}) for seed in range(3)]
    >>> ran = []
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for asked in (cells[:2], cells):
    ...         records = run(asked, Path(folder), jobs=1, finished=ran.append)
    >>> [cell.seed for cell in ran], len(records)
    ([0, 1, 2], 3)
    """
    wanted = {cell.key: cell for cell in cells}
    with Journal(out / JOURNAL, fresh) as journal:
        missing = [cell for key, cell in wanted.items() if key not in journal.records]
        if begin:
            begin(missing, len(wanted) - len(missing))
        # Heavy cells first, so that no core is left alone with one at the end; cells of the
        # same data together, so that these are drawn once.
        missing.sort(key=lambda cell: (-cell.work, cell.data_key))
        parallel = Parallel(jobs, return_as="generator_unordered")
        if missing:
            calls = (delayed(_keyed)(cell, os.getpid()) for cell in missing)
            with closing(parallel(calls)) as answers:
                for key, record in answers:
                    journal.add(key, record)
                    if finished:
                        finished(wanted[key])
        return journal.records


def _keyed(cell: Cell, parent: int) -> tuple[str, dict[str, Any]]:
    if os.getpid() != parent:
        serve(parent)
    try:
        return cell.key, run_cell(cell)
    except Exception as error:
        raise RuntimeError(f"{error}, in the cell {cell.key}") from error
