"""Arrays that belong to a caller: whether they are what they were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof import kernels
from nodeproof.errors import InputError
from nodeproof.runtime import threads

__all__ = ["Untouched", "checksum"]

#: type, shape, and a number for each chunk and for the bytes that fill no word
Checksum = tuple[str, tuple[int, ...], tuple[int, ...]]

# Bytes that one thread takes at a time.
_CHUNK = 1 << 22


def checksum(array: NDArray[Any]) -> Checksum:
    """Return the type and shape of an array, and checksums of its bytes.

    They show what was changed by mistake, at the speed of memory; a digest would show what was
    forged as well, and take ten times as long. The chunks, of 4 MiB, are shared out among the
    threads.

    Parameters
    ----------
    array : ndarray of any shape
        Not of Python objects.

    Examples
    --------
    >>> checksum(np.arange(4.0)) == checksum(np.arange(8.0)[:4])
    True
    >>> checksum(np.arange(4.0)) == checksum(np.arange(4.0).astype(np.float32))
    False
    """
    rows = np.atleast_1d(array)
    step = max(1, _CHUNK // max(1, rows[:1].nbytes))

    def part(k: int) -> tuple[int, ...]:
        chunk = np.ascontiguousarray(rows[k * step : (k + 1) * step]).reshape(-1).view(np.uint8)
        whole = len(chunk) - len(chunk) % 8
        found = kernels.checksum(chunk[:whole].view(np.uint64), np.uint64(k))
        return int(found), int.from_bytes(chunk[whole:].tobytes(), "little")

    parts = threads.map_each(part, -(-len(rows) // step) if array.size else 0)
    return array.dtype.str, array.shape, tuple(number for numbers in parts for number in numbers)


class Untouched:
    """Arrays that belong to a caller, with checksums of what they held.

    They are not copied: a large graph would take twice the memory.

    Parameters
    ----------
    held : mapping of str to ndarray, sparse matrix or None
        What to watch, by the name that the caller knows it by.

    Examples
    --------
    >>> X = np.ones(3)
    >>> held = Untouched({"X": X})
    >>> held.check()
    >>> X[0] = 2
    >>> held.check()
    Traceback (most recent call last):
    nodeproof.errors.InputError: X was changed in place after the fit: fit again, or give fit a
    copy of what will be changed
    """

    def __init__(self, held: Mapping[str, Any]) -> None:
        self._arrays = {name: _arrays_of(data) for name, data in held.items()}
        self._checksums = {name: self._find(name) for name in held}

    def check(self) -> None:
        """Raise an `InputError` if any array is no longer what it was."""
        for name, found in self._checksums.items():
            if self._find(name) != found:
                raise InputError(
                    f"{name} was changed in place after the fit: fit again, or give fit a copy of "
                    "what will be changed"
                )

    def only(self, *names: str) -> Untouched:
        """Return the same for some of the arrays; the others do not belong to a caller any more."""
        found = Untouched({})
        found._arrays = {name: held for name, held in self._arrays.items() if name in names}
        found._checksums = {name: held for name, held in self._checksums.items() if name in names}
        return found

    def _find(self, name: str) -> list[Checksum]:
        return [checksum(array) for array in self._arrays[name]]


def _arrays_of(data: Any) -> tuple[NDArray[Any], ...]:
    if data is None:
        return ()
    return (data.indptr, data.indices, data.data) if sp.issparse(data) else (data,)
