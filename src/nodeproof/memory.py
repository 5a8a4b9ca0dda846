"""How much memory there is, whether it suffices, and sizes as people write them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from nodeproof.errors import InputError

__all__ = ["available_memory", "check_free", "parse_size", "size_text"]

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]*)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)
# Where the system does not say how much there is.
_GUESS = 4 * 2**30


def parse_size(size: int | str) -> int:
    """Return a size in bytes: a number, or a text such as "4GB" or "1.5 GiB".

    Examples
    --------
    >>> parse_size("4GB"), parse_size("1.5 GiB"), parse_size(1000)
    (4000000000, 1610612736, 1000)
    """
    if isinstance(size, str):
        found = _SIZE.fullmatch(size.strip())
        if found is None:
            raise InputError(f"a size is a number and a unit, such as 4GB or 512MiB; got {size!r}")
        power = " kmgt".index(found[2].lower() or " ")
        return int(float(found[1]) * (1024 if found[3] else 1000) ** power)
    return int(size)


def size_text(n_bytes: float) -> str:
    """Return a size as people read it.

    Examples
    --------
    >>> size_text(5 * 2**29), size_text(10)
    ('2.5 GiB', 'less than 1 MiB')
    """
    for unit, factor in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20)):
        if n_bytes >= factor:
            size = n_bytes / factor
            return f"{size:.0f} {unit}" if size >= 100 else f"{size:.3g} {unit}"
    return "less than 1 MiB"


def available_memory() -> int:
    """Return how many bytes a program can take now without others having to give way."""
    free = _free_of_system()
    limit, used = (
        _number(Path("/sys/fs/cgroup", name)) for name in ("memory.max", "memory.current")
    )
    if limit is not None and used is not None:
        free = min(free, max(limit - used, 0))
    return free


def check_free(n_bytes: float, what: str, advice: str) -> None:
    """Refuse what would take more memory than there is, before any of it is taken.

    Parameters
    ----------
    n_bytes : float
        How much it would take.
    what, advice : str
        What takes it, and what to do instead.
    """
    free = available_memory()
    if n_bytes > free:
        raise InputError(
            f"{what} would take about {size_text(n_bytes)} of memory, and {size_text(free)} are "
            f"free: {advice}"
        )


def _free_of_system() -> int:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(
            1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable")
        )
    except (OSError, StopIteration):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):
        return _GUESS


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):  # "max": no limit
        return None
