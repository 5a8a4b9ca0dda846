"""Warnings that name the line which called the package, however deep inside they arise."""

from __future__ import annotations

import sys
import warnings

__all__ = ["is_called_by", "warn_caller"]

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
