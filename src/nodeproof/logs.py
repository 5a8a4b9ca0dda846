"""Progress, told through the logger ``nodeproof`` of the standard library."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["logger", "shown"]

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


def _configured() -> bool:
    """Tell whether anybody listens."""
    found: logging.Logger | None = logger
    while found is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in found.handlers):
            return True
        found = found.parent if found.propagate else None
    return False
