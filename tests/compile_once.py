"""Loops are compiled once per run of the tests, by whichever worker needs them first.

numba keeps what it compiles in files that all processes read, but workers that start together find
none there, and each would compile everything. Here the others wait, and load what the first saved.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

try:
    import fcntl
except ImportError:  # on Windows every worker compiles
    fcntl = None  # type: ignore[assignment]

_compile = Dispatcher.compile


def _compile_once(dispatcher: Dispatcher, signature: Any) -> Any:
    """Compile a function under a lock of its own; those that it calls have theirs."""
    folder = dispatcher._cache.cache_path
    if folder is None:  # nothing is kept of it
        return _compile(dispatcher, signature)
    name = f"{dispatcher.py_func.__module__}.{dispatcher.py_func.__qualname__}.lock"
    # numba's lock comes first, as it does where a compilation asks for another.
    with global_compiler_lock, Path(folder, name).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed
        return _compile(dispatcher, signature)


def install() -> None:
    """Let every compilation of this process wait for its turn."""
    if fcntl is not None:
        Dispatcher.compile = _compile_once


def dask_setup(_worker: object) -> None:
    """Install it in a worker of a cluster that is given this file to preload."""
    install()
