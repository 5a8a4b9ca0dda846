"""The journal of labels: an append-only file that several processes may write to.

A line of JSON per action, on the disk before the action is confirmed. A kill at any moment loses
no confirmed label; a last line that was cut off was never confirmed, and is dropped.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nodeproof.errors import InputError
from nodeproof.storage.locking import lock_file

__all__ = ["JOURNAL", "Action", "Journal"]

#: name of the journal in the folder of a fit
JOURNAL = "labels.jsonl"

# Seconds to wait for other processes, which hold the lock for milliseconds.
_PATIENCE, _PAUSE = 10.0, 0.005

Name = str | int


@dataclass(frozen=True)
class Action:
    """One action: labels for some nodes.

    Attributes
    ----------
    time : str
        When, in UTC.
    window : str
        Which window it came from; each undoes its own actions.
    kind : str
        "confirm", "label", "relabel" or "undo".
    nodes : tuple of str or int
        Names of the nodes, or positions if they have none.
    labels : tuple of str, int or None
        Their labels from now on; None removes a label.
    before : tuple of str, int or None
        Their labels before.
    undoes : int or None
        For "undo": the number of the action that no longer counts, from 0.
    """

    time: str
    window: str
    kind: str
    nodes: tuple[Name, ...]
    labels: tuple[Any, ...]
    before: tuple[Any, ...]
    undoes: int | None = None


class Journal:
    """The actions in a file, in their order.

    Parameters
    ----------
    path : pathlib.Path
        The file; made with the first action.

    Attributes
    ----------
    actions : list of Action
        Those read so far; `read` adds what other processes have written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     one, other = Journal(Path(folder, JOURNAL)), Journal(Path(folder, JOURNAL))
    ...     first = one.append(lambda: Action("now", "a", "label", ("ann",), ("red",), (None,)))
    ...     [action.nodes for action in other.read()]
    [('ann',)]
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.actions: list[Action] = []
        self._offset = 0

    def read(self) -> list[Action]:
        """Return what was appended since the last call, by this process or by others."""
        try:
            with self.path.open("rb") as file:
                return self._read(file)
        except FileNotFoundError:
            return []

    def append(self, make: Callable[[], Action | None]) -> Action | None:
        """Write one action; return it once it is on the disk.

        Parameters
        ----------
        make : callable
            Called when all earlier actions, also those of other processes, are in `actions`, and
            nobody else can write. None: nothing to do.
        """
        try:
            return self._append(make)
        except OSError as error:  # a full disk, say: what was written in part is not confirmed
            reason = error.strerror or error
            raise InputError(f"{self.path} cannot be written ({reason})") from None

    def _append(self, make: Callable[[], Action | None]) -> Action | None:
        new = not self.path.exists()
        with self.path.open("a+b") as file:
            self._lock(file)
            self._read(file)
            # A kill has cut off what is behind: it was never confirmed.
            file.truncate(self._offset)
            action = make()
            if action is None:
                return None
            line = json.dumps(asdict(action), ensure_ascii=True).encode() + b"\n"
            file.seek(0, os.SEEK_END)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
            self._offset += len(line)
        if new:
            _fix_name(self.path.parent)
        self.actions.append(action)
        return action

    def _lock(self, file: Any) -> None:
        began = time.monotonic()
        while not lock_file(file):
            if time.monotonic() - began > _PATIENCE:
                raise InputError(f"another process has locked {self.path} for a long time: end it")
            time.sleep(_PAUSE)

    def _read(self, file: Any) -> list[Action]:
        file.seek(0, os.SEEK_END)
        if file.tell() < self._offset:
            raise InputError(f"{self.path} has become shorter: start the app again")
        file.seek(self._offset)
        found: list[Action] = []
        for line in file:
            if not line.endswith(b"\n"):
                break
            found.append(_parse(line, self.path, len(self.actions) + len(found) + 1))
            self._offset += len(line)
        self.actions += found
        return found


def _parse(line: bytes, path: Path, number: int) -> Action:
    """Return the action on a line; raise an error that names a damaged one."""
    try:
        parts = json.loads(line)
        action = Action(**{**parts, **{k: tuple(parts[k]) for k in ("nodes", "labels", "before")}})
    except (ValueError, TypeError, LookupError):
        action = None
    if action is None or not _is_sound(action, number):
        raise InputError(
            f"{path}, line {number} is not a label of the app: delete the line, or move the file "
            "away"
        )
    return action


def _is_sound(action: Action, number: int) -> bool:
    texts = (action.time, action.window, action.kind)
    values = (
        *action.nodes,
        *(label for label in action.labels + action.before if label is not None),
    )
    undoes = action.undoes
    return (
        all(isinstance(text, str) for text in texts)
        and all(isinstance(value, str | int | float) for value in values)
        and len(action.nodes) == len(action.labels) == len(action.before)
        and (undoes is None or (isinstance(undoes, int) and 0 <= undoes < number - 1))
    )


def _fix_name(folder: Path) -> None:
    """Wait until the name of a new file is on the disk, where folders can be opened for that."""
    with suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
