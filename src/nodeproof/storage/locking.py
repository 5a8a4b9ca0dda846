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
from nodeproof.storage.schema import Check

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


# What may lie in the folder of an unfinished conversion.
_OURS = {"lock", "state.json", "graph", "spill", "replaced"}


class WorkFolder:
    """A folder with a small state, so that work goes on after a kill; for one run at a time.

    Parameters
    ----------
    path : pathlib.Path
        The folder; its parent must exist.
    signature : dict
        What the work is about: with another one it starts afresh.
    is_state : Check
        Tells whether a state that was read can have been saved.
    fresh : bool
        Whether to forget what is there.

    Attributes
    ----------
    state : dict
        The results of finished stages, as `save` was given them.
    """

    def __init__(
        self, path: Path, signature: dict[str, Any], is_state: Check, fresh: bool = False
    ) -> None:
        self.path, self.signature = path, signature
        path.mkdir(exist_ok=True)
        found = {found.name for found in path.iterdir()}
        # Beside the state there may be one that was being written.
        if any(name not in _OURS and not name.endswith(".state.json") for name in found):
            raise InputError(
                f"{path} holds other files than those of an unfinished conversion; move it away, "
                "or give another name for the result"
            )
        self._lock = lock_folder(path, "wait for it, or give another name for the result")
        try:
            self.state = {} if fresh else self._load(is_state)
            shutil.rmtree(path / "spill", ignore_errors=True)
            if not self.state:
                # The state first: after a kill here, it must not promise files that are gone.
                (path / "state.json").unlink(missing_ok=True)
                shutil.rmtree(path / "graph", ignore_errors=True)
                (path / "graph").mkdir()
                self.save()
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    def save(self, **finished: Any) -> None:
        """Keep the results of finished stages."""
        self.state |= finished
        with atomic_path(self.path / "state.json") as temporary:
            text = json.dumps({"signature": self.signature, "finished": self.state})
            temporary.write_text(text, encoding="utf-8")

    def delete(self) -> None:
        """Delete the folder, once nothing in it is needed any more."""
        if sys.platform == "win32":
            self._lock.close()  # an open file cannot be deleted there
        shutil.rmtree(self.path)

    def _load(self, is_state: Check) -> dict[str, Any]:
        file = self.path / "state.json"
        try:
            saved = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError:
            saved = None
        if not isinstance(saved, dict) or saved.get("signature") != self.signature:
            warn_caller(
                f"{self.path} was begun with another input or other options: starting afresh"
            )
            return {}
        state: Any = saved.get("finished")
        if not is_state(state):
            raise InputError(f"{file} is damaged; add --fresh to convert from the beginning")
        return dict(state)
