"""What is finished, kept so that a kill at any moment loses no finished cell."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import IO, Any

from nodeproof.errors import InputError
from nodeproof.io.locking import lock_file

__all__ = ["Journal"]

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
    >>> from nodeproof.experiments.journal import Journal
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
