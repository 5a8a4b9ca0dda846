"""Packed text files (``.gz``), of which few bytes can stand for very many."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import IO, Any

from nodeproof.errors import InputError

__all__ = ["is_packed", "open_bytes", "open_text"]

# What swells to more than this, beyond that many bytes, is a trap: text does not.
_RATIO, _SWOLLEN = 200, 1 << 26
# Bytes that are unpacked at a time.
_PIECE = 1 << 20


def is_packed(path: Path) -> bool:
    """Tell whether a file is packed, by its name."""
    return path.suffix.lower() == ".gz"


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file to read its bytes, unpacked where it is packed; a trap is an `InputError`."""
    return io.BufferedReader(_Unpacked(path), _PIECE) if is_packed(path) else path.open("rb")


def open_text(path: Path, encoding: str) -> IO[str]:
    """Open a file to read its text, unpacked where it is packed; a trap is an `InputError`."""
    return io.TextIOWrapper(open_bytes(path), encoding=encoding)


class _Unpacked(io.RawIOBase):
    """What a packed file holds, until that is more than text can be."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = gzip.open(path)  # noqa: SIM115  # closed with this one
        self._room = max(_SWOLLEN, _RATIO * path.stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        count = self._file.readinto(buffer)
        self._room -= count
        if self._room < 0:
            raise InputError(
                f"{self.path} unpacks to more than {_RATIO} times its size, as no table does; if "
                "it is one, unpack it first"
            )
        return count

    def close(self) -> None:
        if hasattr(self, "_file"):  # not where there is no such file
            self._file.close()
        super().close()
