"""Files and folders for one process at a time; the system drops a lock when the process ends."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import IO

from nodeproof.callers import warn_caller
from nodeproof.errors import InputError

__all__ = ["lock_file", "lock_folder"]

_HELD = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)

if sys.platform == "win32":
    import msvcrt

    # Beyond what is written, so that others can read who holds it.
    _FAR = 1 << 30

    def _lock(file: IO[bytes]) -> None:
        file.seek(_FAR)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        file.seek(0)

else:
    import fcntl

    def _lock(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def lock_file(file: IO[bytes]) -> bool:
    """Lock an open file; return False where another process or thread has locked it.

    The lock ends when the file is closed, or with the process. On a file system without locks,
    warn and go on.
    """
    try:
        _lock(file)
    except OSError as error:
        if error.errno in _HELD:
            return False
        warn_caller(
            f"{file.name} cannot be locked ({error.strerror}): make sure that no other process "
            "uses it"
        )
    return True


def lock_folder(folder: Path, advice: str) -> IO[bytes]:
    """Return an open file that locks a folder for as long as it is open.

    The lock goes with the process, however it ends; the file, ``lock``, stays.

    Parameters
    ----------
    folder : pathlib.Path
        One that exists.
    advice : str
        What to do where another process has the lock.

    Raises
    ------
    InputError
        If another process has the lock, or another thread of this one.
    """
    file = (folder / "lock").open("a+b", buffering=0)
    if not lock_file(file):
        file.seek(0)
        holder = file.read(20).decode("ascii", "replace").strip()
        file.close()
        named = f", process {holder}" if holder else ""
        raise InputError(f"another run is working in {folder}{named}: {advice}")
    try:
        file.truncate(0)
        file.write(str(os.getpid()).encode())
    except OSError:
        pass  # a full disk: the lock holds all the same
    return file
