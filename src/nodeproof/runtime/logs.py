"""Progress, by the logger ``nodeproof``; and warnings that name the line of the caller."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nodeproof.solvers import Progress
    from nodeproof.solvers.base import Callback

__all__ = [
    "announce",
    "announced_by",
    "is_called_by",
    "level_of",
    "logger",
    "reporter",
    "shown",
    "warn_caller",
]


#: silent until somebody listens
logger = logging.getLogger("nodeproof")
logger.addHandler(logging.NullHandler())


@contextmanager
def shown(verbose: Any) -> Iterator[None]:
    """Print what is logged inside to the standard error stream, if that was asked for.

    Where logging is configured, nothing is printed: the messages go where they were told to.

    Parameters
    ----------
    verbose : bool or callable
        Whether it was; a callable is told by others.
    """
    if not verbose or callable(verbose) or _configured():
        yield
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


#: who prints announcements: a function, or None for nobody
_announcer: ContextVar[Callable[[str], None] | None] = ContextVar("nodeproof_announcer")


@contextmanager
def announced_by(function: Callable[[str], None] | None) -> Iterator[None]:
    """Let a function print what is announced inside; None: nobody."""
    token = _announcer.set(function)
    try:
        yield
    finally:
        _announcer.reset(token)


def announce(text: str) -> None:
    """Log one line about a wait; print it to the standard error stream if nobody listens.

    A level of the logger above INFO silences it.
    """
    if _configured() or logger.level > logging.INFO:
        logger.info(text)
        return
    tell = _announcer.get(_print_line)
    if tell is not None:
        tell(text)


def _print_line(text: str) -> None:
    if sys.stderr is not None:
        print(f"nodeproof: {text}", file=sys.stderr, flush=True)


def reporter(verbose: Any) -> Callback | None:
    """Return what a solver shall call after every sweep: what was given, or one that logs."""
    if callable(verbose):
        given: Callback = verbose
        return given
    level = level_of(verbose)
    # Whether anybody listens is asked once: telling takes time.
    return partial(_log_progress, level) if logger.isEnabledFor(level) else None


def level_of(verbose: Any) -> int:
    """Return the level at which progress is logged."""
    return logging.INFO if verbose and not callable(verbose) else logging.DEBUG


def _log_progress(level: int, progress: Progress) -> None:
    logger.log(
        level,
        "start %d/%d  sweep %3d  change %.2e",
        progress.run,
        progress.n_runs,
        progress.iteration,
        progress.change,
    )


def _configured() -> bool:
    """Tell whether anybody listens."""
    found: logging.Logger | None = logger
    while found is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in found.handlers):
            return True
        found = found.parent if found.propagate else None
    return False


_PACKAGE = __name__.partition(".")[0]


def warn_caller(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn, and point to the nearest line outside the package."""
    level = 2
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_inside(frame.f_globals.get("__name__")):
        frame = frame.f_back
        level += 1
    warnings.warn(text, category, stacklevel=level)


def is_called_by(package: str) -> bool:
    """Tell whether a module of this package is among the callers."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if f"{frame.f_globals.get('__name__')}.".startswith(f"{package}."):
            return True
    return False


def _is_inside(module: str | None) -> bool:
    return (module or "").partition(".")[0] == _PACKAGE
