"""What a limit of memory (``ulimit -v``) does to a command: one line, never a traceback."""

from __future__ import annotations

import os

from nodeproof.errors import InputError
from nodeproof.memory import address_space_limit

__all__ = ["check_limit", "lacks_memory"]

# Bytes of address space that the libraries take for themselves, and for each core: below,
# OpenBLAS ends the process itself, or waits for ever for threads that could not be started.
_LEAST, _LEAST_PER_CORE = 1_750_000_000, 125_000_000

# What libraries say that do not raise a MemoryError.
_SIGNS = (
    "cannot allocate memory",
    "failed to map segment",
    "can't start new thread",
    "failed to launch worker thread",
)


def check_limit() -> None:
    """Refuse a limit of address space below what is needed without any data.

    To be called before NumPy and Arrow are imported, which take much of it on import.
    """
    limit = address_space_limit()
    if limit is None:
        return
    least = _LEAST + _LEAST_PER_CORE * (os.cpu_count() or 1)
    if limit < least:
        raise InputError(
            f"not enough memory: this process may use {limit / 1e9:.2g} GB of address space "
            f"(ulimit -v), and without any data {least / 1e9:.2g} GB are needed on this machine"
        )
    # Arrow's own allocator would set a gigabyte of the address space aside, used or not.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def lacks_memory(error: BaseException | None) -> bool:
    """Tell whether an error, or what it came from, is due to a lack of memory."""
    while error is not None:
        said = str(error).lower()
        if isinstance(error, MemoryError) or any(sign in said for sign in _SIGNS):
            return True
        error = error.__cause__ or error.__context__
    return False
