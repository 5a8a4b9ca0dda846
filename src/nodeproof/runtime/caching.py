"""Attributes that are computed when they are first read."""

from __future__ import annotations

import functools
from typing import Any, Self, TypeVar, overload

__all__ = ["cached_property"]

T = TypeVar("T")


class cached_property(functools.cached_property[T]):  # noqa: N801 - as the one it replaces
    """`functools.cached_property` as it is from Python 3.12 on: without a lock.

    In Python 3.11 one lock serves all objects of a class and is held while an attribute is worked
    out. A process forked meanwhile by another thread inherits the lock, held by nobody, and waits
    for ever. Without it, two threads may work the same value out, and the first one's is kept.
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        if instance is None:
            return self
        name = self.attrname
        assert name is not None, "a cached property is made in the body of a class"
        kept = vars(instance)
        return kept[name] if name in kept else kept.setdefault(name, self.func(instance))
