"""The files of a graph folder: its header ``graph.json``, its arrays, and the ids of its nodes."""

from __future__ import annotations

import json
import os
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import DTypeLike, NDArray

from nodeproof.errors import InputError
from nodeproof.storage.npz import reading

__all__ = [
    "FORMAT",
    "NPY_HEADER",
    "ArrayFile",
    "IdFile",
    "as_integers",
    "as_texts",
    "file_crc32",
    "index_type",
    "is_checksum",
    "is_count",
    "is_id_kind",
    "npy_header",
    "read_header",
    "write_header",
]

# "007" and "7" are different names.
_INTEGER = r"^(0|-?[1-9][0-9]{0,18})$"


def as_integers(names: Any) -> Any:
    """Return names as an int64 Arrow array: null where a name is not an integer.

    Parameters
    ----------
    names : array-like of shape (m,)
        Integers, text, or floats, which stand for the integers that they equal.

    Examples
    --------
    >>> as_integers(["12", "012", "ann"]).to_pylist(), as_integers([3.0, 2.5]).to_pylist()
    ([12, None, None], [3, None])
    """
    array = _as_arrow(names)
    kind = array.type
    if kind == pa.uint64():
        array = pc.if_else(pc.less(array, pa.scalar(2**63, kind)), array, None)
    if pa.types.is_integer(kind):
        return array.cast(pa.int64())
    if pa.types.is_floating(kind):
        array = array.cast(pa.float64())
        whole = pc.and_(pc.equal(array, pc.trunc(array)), pc.less(pc.abs(array), 2.0**63))
        return pc.if_else(whole, array, None).cast(pa.int64())
    texts = as_texts(array)
    digits = pc.utf8_ltrim(texts, "-")
    # Nineteen digits need not fit 64 bits; texts of equal length compare as numbers do.
    fits = pc.or_(pc.less(pc.utf8_length(digits), 19), pc.less_equal(digits, str(2**63 - 1)))
    fits = pc.or_(fits, pc.equal(texts, str(-(2**63))))
    whole = pc.and_(pc.match_substring_regex(texts, _INTEGER), fits)
    return pc.if_else(whole, texts, None).cast(pa.int64())


def as_texts(names: Any) -> Any:
    """Return names as a large_string Arrow array.

    Parameters
    ----------
    names : array-like of shape (m,)
        Integers, text, or floats, which stand for the integers that they equal.

    Examples
    --------
    >>> as_texts(np.array([7, 8])).to_pylist()
    ['7', '8']
    """
    array = _as_arrow(names)
    if pa.types.is_floating(array.type):
        numbers = as_integers(array)
        return pc.coalesce(numbers.cast(pa.large_string()), array.cast(pa.large_string()))
    return array.cast(pa.large_string())


def _as_arrow(names: Any) -> Any:
    if isinstance(names, pa.ChunkedArray):
        array = names.combine_chunks()
    elif isinstance(names, pa.Array):
        array = names
    else:
        values = names if isinstance(names, list) else np.asarray(names)
        try:
            array = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # of several types
            array = pa.array([None if name is None else str(name) for name in values])
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        return array.cast(pa.int64())
    return array


FORMAT = "nodeproof graph"
_VERSION = 1
# A header has a few hundred bytes; a larger file is not one.
_LARGEST_HEADER = 1 << 20

#: bytes that the header of a ``.npy`` file takes
NPY_HEADER = 128

# Rows in a Parquet row group, however many arrive at a time: so the bytes are always the same.
_GROUP = 1 << 20
# Bytes read at a time.
_BLOCK = 1 << 24


def index_type(n_nodes: int) -> Any:
    """Return the type of positions: int32 while they fit."""
    return np.int32 if n_nodes < 2**31 else np.int64


# The header. Values are checked one by one: the file may have been edited or damaged.


def is_count(value: Any) -> bool:
    """Tell whether a value of JSON can be a number of things."""
    return type(value) is int and 0 <= value < 2**62


def is_checksum(value: Any) -> bool:
    """Tell whether a value of JSON can be the CRC-32 of a file."""
    return type(value) is str and re.fullmatch("[0-9a-f]{8}", value) is not None


def is_id_kind(value: Any) -> bool:
    """Tell whether a value of JSON says what the ids of nodes are."""
    return value in ("positions", "integer", "text")


_HEADER_CHECKS = {
    "n_nodes": lambda value: is_count(value) and value > 0,
    "n_entries": is_count,
    "weighted": lambda value: type(value) is bool,
    "ids": is_id_kind,
    "files": lambda value: type(value) is dict,
    "read": lambda value: type(value) is dict,
}


def read_header(folder: Path) -> dict[str, Any]:
    """Read ``graph.json``; refuse one that is damaged or of another version.

    Parameters
    ----------
    folder : pathlib.Path
        The graph folder.
    """
    path = folder / "graph.json"
    if not path.is_file():
        raise InputError(
            f"{folder} is no graph folder: it has no graph.json; see `nodeproof convert`"
        )
    with reading(path):
        data = path.read_bytes() if path.stat().st_size <= _LARGEST_HEADER else b""
    try:
        header = json.loads(data)
    except (ValueError, RecursionError):
        raise InputError(f"{path} is not JSON; the folder is damaged, convert again") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InputError(f"{path} is not the header of a graph folder; see `nodeproof convert`")
    version = header.get("version")
    if version != _VERSION:
        newer = isinstance(version, int) and version > _VERSION
        raise InputError(
            f"{path} has the format version {version!r}; this is nodeproof for version {_VERSION}"
            + ("; upgrade it with: pip install --upgrade nodeproof" if newer else "")
        )
    for field, holds in _HEADER_CHECKS.items():
        if not holds(header.get(field)):
            raise InputError(
                f"{path}: {field} is missing or wrong; the folder is damaged, convert again"
            )
    return header


def write_header(
    folder: Path,
    n_nodes: int,
    n_entries: int,
    ids: str,
    files: dict[str, dict[str, Any]],
    read: dict[str, int],
) -> None:
    """Write ``graph.json``.

    Parameters
    ----------
    folder : pathlib.Path
        The graph folder.
    n_nodes, n_entries : int
        See `GraphFolder`.
    ids : {"positions", "integer", "text"}
        What the ids of nodes are.
    files : dict
        What the ``finish`` of each file returned, by the file's name.
    read : dict
        See `GraphFolder`.
    """
    header = {
        "format": FORMAT,
        "version": _VERSION,
        "n_nodes": n_nodes,
        "n_entries": n_entries,
        "weighted": "weights.npy" in files,
        "ids": ids,
        "files": files,
        "read": read,
    }
    text = json.dumps(header, indent=2) + "\n"
    with (folder / "graph.json").open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


# Files that are written piece by piece, with a checksum of what was written.


def npy_header(dtype: DTypeLike, length: int) -> bytes:
    """Return the header of a ``.npy`` file with one axis, as `numpy.save` writes it.

    Examples
    --------
    >>> npy_header("<i4", 3).rstrip()[10:]
    b"{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }"
    """
    fields = f"{{'descr': {np.dtype(dtype).str!r}, 'fortran_order': False, 'shape': ({length},), }}"
    magic = b"\x93NUMPY\x01\x00" + (NPY_HEADER - 10).to_bytes(2, "little")
    return magic + fields.encode("ascii").ljust(NPY_HEADER - 11) + b"\n"


def file_crc32(path: Path, skip: int = 0) -> str:
    """Return the checksum of a file, as the header of a graph folder lists it.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    skip : int
        Bytes at the beginning that do not count.
    """
    crc = 0
    with reading(path), path.open("rb") as file:
        file.seek(skip)
        while block := file.read(_BLOCK):
            crc = zlib.crc32(block, crc)
    return f"{crc:08x}"


class ArrayFile:
    """A ``.npy`` file with one axis that is written piece by piece.

    Its checksum is that of the numbers, without the header.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    dtype : dtype
        Type of the numbers; they are stored with the least significant byte first.

    Attributes
    ----------
    length : int
        How many numbers there are so far.
    """

    def __init__(self, path: Path, dtype: DTypeLike) -> None:
        self.dtype = np.dtype(dtype).newbyteorder("<")
        self.length = 0
        self._crc = 0
        self._file = path.open("wb")
        self._file.write(bytes(NPY_HEADER))

    def append(self, values: NDArray[Any]) -> None:
        """Add numbers."""
        data = np.ascontiguousarray(values, dtype=self.dtype).data
        self._crc = zlib.crc32(data, self._crc)
        self._file.write(data)
        self.length += len(values)

    def finish(self) -> dict[str, Any]:
        """Write the header and close; return how the header of a graph folder lists the file."""
        self._file.seek(0)
        self._file.write(npy_header(self.dtype, self.length))
        _close(self._file)
        return {
            "dtype": self.dtype.str,
            "length": self.length,
            "size": NPY_HEADER + self.length * self.dtype.itemsize,
            "crc32": f"{self._crc:08x}",
        }

    def close(self) -> None:
        """Close the file, finished or not."""
        self._file.close()


class IdFile:
    """A Parquet file with the one column ``node``, written piece by piece.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    kind : pyarrow.DataType
        Type of the column.

    Attributes
    ----------
    length : int
        How many ids there are so far.
    """

    def __init__(self, path: Path, kind: Any) -> None:
        self.path, self.length = path, 0
        self.schema = pa.schema([pa.field("node", kind, nullable=False)])
        self._file = path.open("wb")
        self._writer = pq.ParquetWriter(self._file, self.schema, use_dictionary=False)
        self._waiting: list[Any] = []
        self._n_waiting = 0

    def append(self, values: Any) -> None:
        """Add an Arrow array."""
        self.length += len(values)
        start = 0
        while self._n_waiting + len(values) - start >= _GROUP:
            stop = start + _GROUP - self._n_waiting
            self._waiting.append(values[start:stop])
            self._write_group()
            start = stop
        if start < len(values):
            self._waiting.append(values[start:])
            self._n_waiting += len(values) - start

    def finish(self) -> dict[str, Any]:
        """Close; return how the header of a graph folder lists the file."""
        if self._waiting:
            self._write_group()
        self._writer.close()
        _close(self._file)
        size = self.path.stat().st_size
        return {"length": self.length, "size": size, "crc32": file_crc32(self.path)}

    def close(self) -> None:
        """Close the file, finished or not."""
        self._writer.close()
        self._file.close()

    def _write_group(self) -> None:
        column = pa.chunked_array(self._waiting, self.schema.field(0).type)
        self._writer.write_table(pa.table([column], schema=self.schema), row_group_size=_GROUP)
        self._waiting, self._n_waiting = [], 0


def _close(file: Any) -> None:
    """Close a file once it is on the disk."""
    file.flush()
    os.fsync(file.fileno())
    file.close()
