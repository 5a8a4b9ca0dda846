"""Arrays whose rows are in a file that several processes see: each reads and writes its own.

A cluster's workers write their memberships into one file, and the client maps it; features that
are mapped from a file are not sent to the workers, but read by them.
"""

from __future__ import annotations

import mmap
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from nodeproof.errors import InputError

__all__ = [
    "FileRows",
    "FileState",
    "MembershipFiles",
    "create_rows",
    "mapped_file",
    "state_of",
    "write_rows",
]

Ranges = Sequence[tuple[int, int]]
FileState = tuple[int, int]


class FileRows:
    """Rows of an array in a file, to be sent instead of them: whoever receives it reads them.

    Parameters
    ----------
    path : str
        The file.
    dtype : str
        The type of its numbers.
    offset : int
        Where they begin, in bytes.
    shape : tuple of int
        Of the whole array, in C order.
    ranges : sequence of pairs of int
        The rows.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     array = create_rows(Path(place, "rows"), (4, 2))
    ...     write_rows(array.filename, (4, 2), [(1, 3)], np.array([[1, 2], [3, 4]], np.float32))
    ...     rows = FileRows.of(array, [(0, 1), (2, 3)])
    ...     rows.shape, rows.read().tolist()
    ((2, 2), [[0.0, 0.0], [3.0, 4.0]])
    """

    def __init__(
        self, path: str, dtype: str, offset: int, shape: tuple[int, ...], ranges: Ranges
    ) -> None:
        self.path, self.ranges = path, list(ranges)
        self._whole = dtype, offset, shape
        self.shape = (sum(hi - lo for lo, hi in ranges), *shape[1:])

    @classmethod
    def of(cls, array: Any, ranges: Ranges) -> FileRows | None:
        """Return rows of a memory-mapped array; None for any other, or a slice of one."""
        found = mapped_file(array)
        if found is None:
            return None
        return cls(str(found.filename), found.dtype.str, found.offset, found.shape, ranges)

    def read(self) -> NDArray[Any]:
        """Return the rows, shape (rows, ...)."""
        dtype, offset, shape = self._whole
        array = np.memmap(self.path, dtype=dtype, mode="r", offset=offset, shape=shape)
        return np.concatenate([np.zeros((0, *shape[1:]), dtype), *_cut(array, self.ranges)])


def _cut(array: NDArray[Any], ranges: Ranges) -> list[NDArray[Any]]:
    return [array[lo:hi] for lo, hi in ranges]


def mapped_file(array: Any) -> np.memmap[Any, Any] | None:
    """Return the map of a file that an array is all of, or None."""
    whole = array
    while isinstance(whole, np.ndarray) and isinstance(whole.base, np.ndarray):
        whole = whole.base
    if not (isinstance(whole, np.memmap) and isinstance(whole.base, mmap.mmap)):
        return None
    same = (whole.shape, whole.dtype, whole.strides) == (array.shape, array.dtype, array.strides)
    beginning = whole.ctypes.data == array.ctypes.data
    if not (same and beginning and whole.flags.c_contiguous and whole.filename):
        return None
    return whole


def state_of(path: str) -> FileState | None:
    """Return size and time of the last change of a file, or None where there is none."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def create_rows(path: Path, shape: tuple[int, int]) -> np.memmap[Any, Any]:
    """Create a file for memberships, shape (n, K) in float32, and map it."""
    with path.open("xb") as file:
        file.truncate(4 * shape[0] * shape[1])
    return np.memmap(path, dtype=np.float32, mode="r", shape=shape)


def write_rows(path: Any, shape: tuple[int, int], ranges: Ranges, rows: NDArray[Any]) -> None:
    """Write rows of some ranges, one after the other, to their places in such a file."""
    width, at = 4 * shape[1], 0
    with _writing(path), Path(path).open("r+b") as file:
        for lo, hi in ranges:
            file.seek(lo * width)
            file.write(np.ascontiguousarray(rows[at : at + hi - lo], dtype=np.float32).data)
            at += hi - lo
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _writing(path: Any) -> Iterator[None]:
    """Raise an error that names the file if it cannot be written."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None


class MembershipFiles:
    """Files of memberships in a folder of their own: the latest one is kept.

    Parameters
    ----------
    parent : pathlib.Path
        Where the folder is created, on first use.
    shape : pair of int
        Of the memberships, (n, K).
    """

    def __init__(self, parent: Path, shape: tuple[int, int]) -> None:
        self.folder, self._shape = parent / f".nodeproof-{uuid4().hex[:12]}", shape
        self._kept: Path | None = None

    def begin(self) -> Path:
        """Create the folder; return the path of a file in it, for others to look at."""
        mark = self.folder / "memberships"
        with _writing(mark):
            self.folder.mkdir(exist_ok=True)
            mark.touch()
        return mark

    def create(self) -> np.memmap[Any, Any]:
        """Return a new file, mapped; nothing is written yet."""
        path = self.begin().with_name(f"{uuid4().hex[:12]}.f32")
        with _writing(path):
            return create_rows(path, self._shape)

    def keep(self, array: np.memmap[Any, Any]) -> None:
        """Delete the file kept before this one."""
        if self._kept is not None:
            # On Windows what is mapped cannot be deleted; it goes with the folder.
            with suppress(PermissionError):
                self._kept.unlink(missing_ok=True)
        self._kept = Path(str(array.filename))

    def close(self) -> None:
        """Delete all; what is mapped stays readable until it is no longer used."""
        shutil.rmtree(self.folder, ignore_errors=True)
