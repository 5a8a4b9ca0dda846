"""Whether there is a file to read at a path, and where a file to write would be."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from nodeproof.errors import InputError

__all__ = ["check_regular", "check_writable", "resolved"]


def check_regular(path: str | os.PathLike[str]) -> None:
    """Refuse a path without a file: what is missing, a folder, a pipe that would be waited for.

    Examples
    --------
    >>> check_regular("/")
    Traceback (most recent call last):
    nodeproof.errors.InputError: / is a folder; give a file
    """
    try:
        mode = Path(path).stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path} does not exist; check the path") from None
    except (OSError, ValueError) as error:  # a loop of links; a name that cannot be one
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {path}: {reason}") from None
    if stat.S_ISDIR(mode):
        raise InputError(f"{path} is a folder; give a file")
    if not stat.S_ISREG(mode):
        raise InputError(f"{path} is a pipe or a device; save what comes from it to a file first")


def resolved(path: str | os.PathLike[str]) -> Path:
    """Return where something is, or would be written, without links."""
    try:
        return Path(path).resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links; a name that cannot be one
        raise InputError(f"cannot write {path}: there can be no such file or folder") from None


def check_writable(folder: Path) -> None:
    """Refuse a folder that is not to be written to, before any work is done."""
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"cannot write into the folder {folder}: it is read-only")
