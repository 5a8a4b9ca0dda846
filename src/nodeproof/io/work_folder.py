"""A folder for work that goes on after a kill where it had stopped."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Self

from nodeproof.callers import warn_caller
from nodeproof.errors import InputError
from nodeproof.io.atomic import atomic_path
from nodeproof.io.locking import lock_folder

__all__ = ["WorkFolder"]

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
