"""Calls of kernels by Python: compiled or, where there is little to do, as they are written."""

from __future__ import annotations

import time
from types import FunctionType
from typing import Any

import numpy as np
from numba.core import event

from nodeproof.runtime import logs

__all__ = ["LITTLE", "Kernel", "as_python"]

#: numbers in the arrays of a call, up to which Python is done before compiled code is even loaded
LITTLE = 500

# Seconds that may be spent on compilation before a word is said.
_PATIENCE = 1.0


class Kernel:
    """A loop that is called compiled, or as plain Python if its arrays are tiny.

    Compilation takes seconds, once per machine, and loading what was compiled some tenths of a
    second in each process; a tiny graph waits for neither. The sizes of the arrays alone decide,
    never what is compiled already, so that the same data always takes the same way.

    Parameters
    ----------
    function : dispatcher of numba
        Or a function, where nothing is compiled (``NUMBA_DISABLE_JIT=1``).
    """

    def __init__(self, function: Any) -> None:
        self.compiled = function
        self.plain = as_python(function) if hasattr(function, "py_func") else function
        self.__name__, self.__doc__ = self.plain.__name__, self.plain.__doc__

    def __call__(self, *arguments: Any) -> Any:
        """Run it."""
        size = 0
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                size += argument.size
                if size > LITTLE:
                    return self.compiled(*arguments)
        with np.errstate(all="ignore"):  # as what is compiled does
            return self.plain(*arguments)


def as_python(function: Any) -> Any:
    """Return a compiled function as it is written, and everything that it calls likewise."""
    plain = function.py_func
    names = plain.__globals__
    called = {
        name: as_python(names[name])
        for name in plain.__code__.co_names
        if hasattr(names.get(name), "py_func")
    }
    if not called:
        return plain
    return FunctionType(plain.__code__, names | called, plain.__name__)


class _Notice(event.Listener):
    """Says once per process that it compiles, when that has taken a second."""

    def __init__(self) -> None:
        self.depth, self.began, self.spent, self.said = 0, 0.0, 0.0, False

    def on_start(self, event: Any) -> None:
        """Note the time; functions are compiled within others."""
        if _is_ours(event):
            if self.depth == 0:
                self.began = time.monotonic()
            self.depth += 1
            self._look()

    def on_end(self, event: Any) -> None:
        """Add the time that the outermost function has taken."""
        if _is_ours(event) and self.depth > 0:
            self._look()
            self.depth -= 1
            if self.depth == 0:
                self.spent += time.monotonic() - self.began

    def _look(self) -> None:
        if not self.said and self.spent + time.monotonic() - self.began > _PATIENCE:
            self.said = True
            logs.announce(
                "compiling for this machine, which is done once and takes some seconds "
                "(`nodeproof warmup` does it beforehand)"
            )


def _is_ours(event: Any) -> bool:
    return bool(event.data["dispatcher"].py_func.__module__.startswith("nodeproof."))


event.register("numba:compile", _Notice())
