"""Digests of data, every byte: whether settings and arrays are the same as they were."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from hashlib import sha256
from inspect import getattr_static
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from rich.filesize import decimal

from nodeproof.runtime import threads
from nodeproof.runtime.logs import logger

__all__ = ["digest", "digest_nested"]

# Bytes that one thread takes at a time.
_CHUNK = 1 << 22

# Hashing that takes longer is worth a line in the log.
_LONG = 1.0


def digest(array: NDArray[Any]) -> str:
    """Return the SHA-256 of an array's type and shape, and of the SHA-256 of its chunks.

    The chunks, of 4 MiB, are shared out among the threads; the digest does not depend on how.

    Parameters
    ----------
    array : ndarray of any shape
        Not of Python objects.

    Examples
    --------
    >>> digest(np.arange(4.0)) == digest(np.arange(8.0)[:4])
    True
    >>> digest(np.arange(4.0)) == digest(np.arange(4.0).astype(np.float32))
    False
    """
    rows = np.atleast_1d(array)
    step = max(1, _CHUNK // max(1, rows[:1].nbytes))

    def part(k: int) -> bytes:
        chunk = np.ascontiguousarray(rows[k * step : (k + 1) * step])
        return sha256(chunk.reshape(-1).view(np.uint8).data).digest()

    parts = threads.map_each(part, -(-len(rows) // step) if array.size else 0)
    return sha256(f"{array.dtype.str}{array.shape}".encode() + b"".join(parts)).hexdigest()


def _parts_of(matrix: Any) -> tuple[NDArray[Any], ...]:
    return matrix.indptr, matrix.indices, matrix.data


def digest_nested(value: Any) -> str:
    """Return a digest of settings and data, however they are nested.

    Parameters
    ----------
    value : object
        Lists, dictionaries, arrays, sparse matrices and objects with attributes. Private attributes
        and those that are worked out on demand are left out.

    Examples
    --------
    >>> digest_nested([1, {"a": np.arange(3)}]) == digest_nested([1, {"a": np.arange(3)}])
    True
    """
    began = time.perf_counter()
    walk = _Walk()
    found = walk.describe(value)
    seconds = time.perf_counter() - began
    if seconds > _LONG:
        logger.info("hashed %s of data in %.1f s", decimal(walk.n_bytes), seconds)
    return sha256(found.encode()).hexdigest()


class _Walk:
    """Describes settings and data, however they are nested; each array is hashed once."""

    def __init__(self) -> None:
        self.n_bytes = 0
        # Objects beside their descriptions: else another could be found at the same address.
        self._seen: dict[int, tuple[Any, str]] = {}

    def describe(self, value: Any) -> str:
        """Return a text that is the same for the same data alone."""
        if value is None or isinstance(value, bool | int | float | complex | str | bytes):
            return repr(value)
        if id(value) not in self._seen:
            self._seen[id(value)] = value, type(value).__name__  # where it holds itself
            self._seen[id(value)] = value, self._describe(value)
        return self._seen[id(value)][1]

    def _describe(self, value: Any) -> str:
        if isinstance(value, np.ndarray | np.generic):
            array = np.asarray(value)
            if array.dtype.hasobject:
                return self.describe(array.tolist())
            self.n_bytes += array.nbytes
            return digest(array)
        if isinstance(value, Mapping):
            pairs = sorted((self.describe(key), self.describe(item)) for key, item in value.items())
            return f"{{{pairs}}}"
        if isinstance(value, set | frozenset):
            return f"{{{sorted(map(self.describe, value))}}}"
        if isinstance(value, list | tuple):
            return f"[{', '.join(map(self.describe, value))}]"
        kind = type(value)
        if sp.issparse(value):
            return f"{kind.__name__}{value.shape} {self.describe(_parts_of(value.tocsr()))}"
        named = getattr(value, "__qualname__", kind.__qualname__)  # a function has one of its own
        if isinstance(value, type):
            return named
        settings: Any = {
            name: held
            for name, held in getattr(value, "__dict__", {}).items()
            if not name.startswith("_")
            and not isinstance(getattr_static(kind, name, None), cached_property)
        }
        if not settings:
            # Dates, paths, generators, partial functions, …: what pickle would keep of them.
            with suppress(TypeError):
                settings = value.__reduce_ex__(2)
        return f"{named}({self.describe(settings)})"
