"""Files that are only ever added to, with a checksum kept meanwhile, and resumable after a kill."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import DTypeLike, NDArray

from nodeproof.errors import InputError
from nodeproof.storage.npz import reading

__all__ = ["HEADER", "GrowingArray", "GrowingColumn", "GrowingFile", "check_kept", "npy_header"]

#: bytes that the header of a ``.npy`` file takes
HEADER = 128

# Rows in a row group, whatever the sizes of what is added: so the bytes are always the same.
_GROUP = 1 << 20
# Bytes that are looked at in one go.
_BLOCK = 1 << 24


def npy_header(dtype: DTypeLike, length: int) -> bytes:
    """Return the header of a ``.npy`` file with one axis, as `numpy.save` writes it.

    Examples
    --------
    >>> npy_header("<i4", 3).rstrip()[10:]
    b"{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }"
    """
    fields = f"{{'descr': {np.dtype(dtype).str!r}, 'fortran_order': False, 'shape': ({length},), }}"
    magic = b"\x93NUMPY\x01\x00" + (HEADER - 10).to_bytes(2, "little")
    return magic + fields.encode("ascii").ljust(HEADER - 11) + b"\n"


def check_kept(path: Path, size: int, crc: int, skip: int = 0) -> None:
    """Refuse a file that an earlier run has left, unless it begins as that run has kept it.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    size, crc : int
        How many bytes there must be, and their checksum.
    skip : int
        Bytes at the beginning that do not count.
    """
    found, left = 0, size
    with reading(path), path.open("rb") as file:
        file.seek(skip)
        while block := file.read(min(left, _BLOCK)):
            found = zlib.crc32(block, found)
            left -= len(block)
    if left or found != crc:
        raise InputError(f"{path} is not as it was left; add --fresh to convert from the beginning")


class GrowingFile:
    """A file to add to, and the checksum of what was added.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    size, crc : int
        What was there when the state was last kept; what a kill left behind it is cut off.
    skip : int
        Bytes at the beginning that do not count.
    """

    def __init__(self, path: Path, size: int = 0, crc: int = 0, skip: int = 0) -> None:
        self.path, self.size, self.crc = path, size, crc
        if size:
            check_kept(path, size, crc, skip)
        self.file = path.open("r+b" if size else "wb")
        self.file.truncate(skip + size)
        self.file.seek(skip + size)

    def write(self, data: Any) -> int:
        """Add bytes."""
        self.crc = zlib.crc32(data, self.crc)
        written = self.file.write(data)
        self.size += written
        return written

    def tell(self) -> int:
        """Return how many bytes there are."""
        return self.size

    def flush(self) -> None:
        """Hand everything over to the system: a kill then loses nothing."""
        self.file.flush()

    @property
    def closed(self) -> bool:
        """Whether nothing can be added any more."""
        return self.file.closed

    def close(self) -> None:
        """Close the file, once it is on the disk."""
        if not self.closed:
            self.file.flush()
            os.fsync(self.file.fileno())
            self.file.close()

    def entry(self) -> dict[str, Any]:
        """Return size and checksum, as the header of a graph folder lists them."""
        return {"size": self.size, "crc32": f"{self.crc:08x}"}


class GrowingArray:
    """A ``.npy`` file with one axis that grows; the checksum is that of its numbers.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    dtype : dtype
        Of the numbers.
    state : dict, optional
        What `state` returned earlier, to go on from there.
    """

    def __init__(self, path: Path, dtype: DTypeLike, state: dict[str, int] | None = None) -> None:
        self.dtype = np.dtype(dtype)
        self.file = GrowingFile(path, skip=HEADER, **(state or {}))

    @property
    def length(self) -> int:
        """How many numbers there are."""
        return self.file.size // self.dtype.itemsize

    def append(self, values: NDArray[Any]) -> None:
        """Add numbers."""
        self.file.write(np.ascontiguousarray(values, dtype=self.dtype).data)

    def state(self) -> dict[str, int]:
        """Hand everything over to the system, and return what is needed to go on after a kill."""
        self.file.flush()
        return {"size": self.file.size, "crc": self.file.crc}

    def finish(self) -> dict[str, Any]:
        """Write the header and close; return how the header of a graph folder lists the file."""
        self.file.file.seek(0)
        self.file.file.write(npy_header(self.dtype, self.length))
        self.file.close()
        entry = self.file.entry()
        return {
            "dtype": self.dtype.str,
            "length": self.length,
            **entry,
            "size": HEADER + entry["size"],
        }

    def close(self) -> None:
        """Close without a header, to go on later."""
        self.file.file.close()


class GrowingColumn:
    """A Parquet file with the one column ``node``, written batch by batch.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    kind : pyarrow.DataType
        Of the column.
    """

    def __init__(self, path: Path, kind: Any) -> None:
        self.file = GrowingFile(path)
        self.schema = pa.schema([pa.field("node", kind, nullable=False)])
        self.writer = pq.ParquetWriter(
            pa.PythonFile(self.file, mode="w"), self.schema, use_dictionary=False
        )
        self.length = 0
        self._waiting: list[Any] = []
        self._rows = 0

    def append(self, values: Any) -> None:
        """Add an Arrow array."""
        self.length += len(values)
        start = 0
        while self._rows + len(values) - start >= _GROUP:
            stop = start + _GROUP - self._rows
            self._waiting.append(values[start:stop])
            self._write_group()
            start = stop
        if start < len(values):
            self._waiting.append(values[start:])
            self._rows += len(values) - start

    def finish(self) -> dict[str, Any]:
        """Close; return how the header of a graph folder lists the file."""
        if self._waiting:
            self._write_group()
        self.writer.close()
        self.file.close()
        return {"length": self.length, **self.file.entry()}

    def _write_group(self) -> None:
        column = pa.chunked_array(self._waiting, self.schema.field(0).type)
        self.writer.write_table(pa.table([column], schema=self.schema), row_group_size=_GROUP)
        self._waiting, self._rows = [], 0
