"""Arrays, archives and Parquet files, also with headers and directories that lie."""

from __future__ import annotations

import io
import os
import struct
import warnings
import zipfile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def npy(array: Any, **header: Any) -> bytes:
    """Return an array as a file, perhaps with another header than its own."""
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(array), allow_pickle=True)
    content = file.getvalue()
    if not header:
        return content
    own = {
        "descr": np.asarray(array).dtype.str,
        "fortran_order": False,
        "shape": np.asarray(array).shape,
    }
    return npy_text(repr(own | header)) + content[128:]


def npy_text(text: str) -> bytes:
    padded = text + " " * (-(10 + len(text) + 1) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded.encode()


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def letters(code: int, count: int = 3) -> Any:
    """Return different texts, the first with a letter of this number."""
    return np.array([code, *range(0x61, 0x60 + count)], dtype="<u4").view("<U1")


def bomb(declared: tuple[int, ...], packed: int) -> bytes:
    """Return an array of zeros that takes little room, of a declared shape."""
    header = npy_text(repr({"descr": "<f8", "fortran_order": False, "shape": declared}))
    return header + bytes(packed)


def patched(content: bytes, name: str, **fields: int) -> bytes:
    """Return a zip file whose directory says something else of a member."""
    data = bytearray(content)
    places = {"flags": (8, "<H"), "method": (10, "<H"), "packed": (20, "<I"), "size": (24, "<I"),
              "offset": (42, "<I"), "crc": (16, "<I")}  # fmt: skip
    at = data.find(b"PK\x01\x02")
    while at >= 0:
        length, extra, comment = struct.unpack_from("<HHH", data, at + 28)
        if bytes(data[at + 46 : at + 46 + length]) == name.encode():
            for field, value in fields.items():
                place, kind = places[field]
                struct.pack_into(kind, data, at + place, value)
        at = data.find(b"PK\x01\x02", at + 46 + length + extra + comment)
    return bytes(data)


def doubled(content: dict[str, bytes], name: str) -> bytes:
    file = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w") as archive:
        warnings.simplefilter("ignore")
        for key, value in content.items():
            archive.writestr(key, value)
        archive.writestr(name, content[name])
    return file.getvalue()


class Trap:
    """What unpickling would run."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, ("pickled",))


def parquet(columns: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()
