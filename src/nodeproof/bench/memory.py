"""Peak memory of a piece of work: what the process itself holds, without pages of files."""

from __future__ import annotations

import ctypes
import gc
import threading
from pathlib import Path
from typing import Self

__all__ = ["PeakMemory", "anonymous_bytes"]

_STATUS = Path("/proc/self/status")

# Seconds between two looks.
_EVERY = 0.003


class PeakMemory:
    """Looks at the anonymous memory of this process every few milliseconds.

    The peak that the system keeps (VmHWM) will not do: it counts the pages of files that are read
    or mapped, which can be dropped at any time.

    Attributes
    ----------
    peak : int or None
        Bytes at the highest above those at the start; None where the system does not tell
        (it has no /proc).

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof.bench.memory import PeakMemory
    >>> with PeakMemory() as memory:
    ...     held = np.ones(10**6)
    >>> memory.peak is None or memory.peak > 7 * 10**6
    True
    """

    def __init__(self) -> None:
        self.peak: int | None = None
        self._highest = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        _give_back()
        self._start = anonymous_bytes()
        if self._start is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._start is None:
            return
        self._done.set()
        self._thread.join()
        self._look()
        self.peak = max(self._highest - self._start, 0)

    def _watch(self) -> None:
        while not self._done.wait(_EVERY):
            self._look()

    def _look(self) -> None:
        self._highest = max(self._highest, anonymous_bytes() or 0)


def anonymous_bytes() -> int | None:
    """Return the anonymous memory that this process holds now, or None where nothing tells."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("RssAnon:"):
            return 1024 * int(line.split()[1])
    return None


def _give_back() -> None:
    """Return freed memory to the system: used again, it would not show.

    A compiler leaves tens of megabytes of it.
    """
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        return  # not the GNU C library
