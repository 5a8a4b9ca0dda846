"""Files and folders for one process at a time; the system drops a lock when the process ends."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from pathlib import Path
from typing import IO, Any, Self

from nodeproof.errors import InputError
from nodeproof.runtime.logs import warn_caller
from nodeproof.storage.atomic import atomic_path

__all__ = ["WorkFolder", "lock_file", "lock_folder"]

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


# ------------------------------------------------------------------------------
# A folder for work that goes on after a kill where it had stopped.

_OURS = {"lock", "state.json", "graph", "buckets", "spill", "replaced"}


class WorkFolder:
    """A folder with a small state, for one run at a time.

    Parameters
    ----------
    path : pathlib.Path
        The folder; its parent must exist.
    signature : dict
        What the work is about: another one makes it start afresh.
    fresh : bool
        Whether to forget what is there.

    Attributes
    ----------
    state : dict
        What is finished, as `save` kept it last.
    """

    def __init__(self, path: Path, signature: dict[str, Any], fresh: bool = False) -> None:
        self.path, self.signature = path, signature
        path.mkdir(exist_ok=True)
        strangers = {
            found.name for found in path.iterdir() if not found.name.endswith(".state.json")
        }
        if strangers - _OURS:
            raise InputError(
                f"{path} holds other files than those of an unfinished conversion; move it away, "
                "or give another name for the result"
            )
        self._lock = lock_folder(path, "wait for it, or give another name for the result")
        self.state = {} if fresh else self._load()
        shutil.rmtree(path / "spill", ignore_errors=True)
        if not self.state:
            self.restart()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    def restart(self) -> None:
        """Forget everything."""
        (self.path / "state.json").unlink(missing_ok=True)
        for name in ("graph", "buckets"):
            shutil.rmtree(self.path / name, ignore_errors=True)
        (self.path / "graph").mkdir()
        self.state = {}
        self.save()

    def save(self, **finished: Any) -> None:
        """Keep what is finished."""
        self.state |= {"signature": self.signature, **finished}
        with atomic_path(self.path / "state.json") as temporary:
            temporary.write_text(json.dumps(self.state), encoding="utf-8")

    def delete(self) -> None:
        """Delete the folder, once nothing in it is needed any more."""
        shutil.rmtree(self.path)

    def _load(self) -> dict[str, Any]:
        try:
            state = json.loads((self.path / "state.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError:
            state = None
        if isinstance(state, dict) and state.get("signature") == self.signature:
            return state
        warn_caller(f"{self.path} was begun with another input or other options: starting afresh")
        return {}
