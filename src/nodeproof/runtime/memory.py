"""Free memory, the one check against it, and sizes as text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psutil

from nodeproof.errors import InputError

__all__ = ["address_space_limit", "available_memory", "check_free", "parse_size"]

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]*)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)

# Files of a control group, by the version of control groups: its limit, what it uses, and what its
# statistics call pages of files that nobody has used for a while. A group uses these, too, but
# they are dropped as soon as others are needed.
_GROUP_FILES = (
    ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    (
        "sys/fs/cgroup/memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "total_inactive_file",
    ),
)
# Groups of the first version that have no limit are listed with about 2⁶³ bytes.
_UNLIMITED = 2**60


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


def available_memory() -> int:
    """Return how many bytes this process can take now.

    That is the least of what the system has available, what is left of the limits of the control
    groups that the process is in (containers, batch systems), and of its own (``ulimit -v``).
    """
    of_system = psutil.virtual_memory().available
    return max(0, min([of_system, *_left_of_groups(), *_left_of_own()]))


def check_free(n_bytes: float, what: str, remedy: str, *, free: int | None = None) -> None:
    """Refuse what would take more memory than is free, before any of it is taken.

    Parameters
    ----------
    n_bytes : float
        How much it would take.
    what, remedy : str
        What would take it, and what to do instead.
    free : int, optional
        Free memory in bytes, where it was measured before.
    """
    free = available_memory() if free is None else free
    if n_bytes > free:
        from rich.filesize import decimal  # not at the start of every command

        raise InputError(
            f"{what} would take about {decimal(int(n_bytes))} of memory, but only {decimal(free)} "
            f"is free: {remedy}"
        )


def address_space_limit() -> int | None:
    """Return how many bytes of address space this process may use (``ulimit -v``), if limited."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    except (ImportError, AttributeError):  # Windows; systems without this limit
        return None
    return None if limit == resource.RLIM_INFINITY else limit


def _left_of_own() -> Iterator[int]:
    """Yield what is left of this process's limit of address space, if it has one."""
    limit = address_space_limit()
    if limit is not None:
        yield limit - psutil.Process().memory_info().vms


def _left_of_groups(root: Path = Path("/")) -> Iterator[int]:
    """Yield what is left of the limit of each control group that this process is in.

    Parameters
    ----------
    root : pathlib.Path
        Where ``proc`` and ``sys`` lie.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        place, most, used, idle = _GROUP_FILES[controllers == "memory"]
        # Limits of groups around it hold as well. Inside a container the group's own folder may be
        # missing, and the container's be shown as the outermost.
        for folder in (path := root / place / group.lstrip("/"), *path.parents):
            limit = _number(folder / most)
            if limit is not None and limit < _UNLIMITED:
                usage = _number(folder / used) or 0
                yield limit - usage + _statistic(folder / "memory.stat", idle)
            if folder == root / place:
                break


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):  # "max": no limit
        return None


def _statistic(path: Path, name: str) -> int:
    try:
        entries = dict(line.split() for line in path.read_text(encoding="ascii").splitlines())
        return int(entries.get(name, 0))
    except (OSError, ValueError):
        return 0
