"""Kinds of parts that users may add: each a class, known by a name to files and commands.

A file only ever names a class. It is looked up among those that were registered and those that
installed packages list as entry points; nothing is imported because a file says so.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar

from nodeproof.errors import InputError, one_line

__all__ = ["Registry", "origin"]

T = TypeVar("T")


class Registry(Generic[T]):
    """The known subclasses of a class, by name.

    Parameters
    ----------
    kind : str
        What one of them is called in messages, "term".
    base : type
        What they derive from.
    home : str
        Public module of `base`; also the group of entry points, where packages list theirs.
    name_of : callable, optional
        From a class to the name it is known by; by default that of the class.
    """

    def __init__(
        self,
        kind: str,
        base: type[T],
        home: str,
        name_of: Callable[[type[T]], str] = lambda found: found.__name__,
    ) -> None:
        self.kind, self.base, self.home, self.name_of = kind, base, home, name_of
        self._known: dict[str, type[T]] = {}

    @property
    def names(self) -> list[str]:
        """Names of all that are registered, and of the entry points of installed packages."""
        listed = (entry.name for entry in entry_points(group=self.home))
        return list(dict.fromkeys([*self._known, *listed]))

    def register(self, found: Any) -> None:
        """Add a class; raise an error if it is not complete, or another class has its name."""
        base = f"{self.home}.{self.base.__name__}"
        article = "an" if self.kind[0] in "aeiou" else "a"
        if not (isinstance(found, type) and issubclass(found, self.base)):
            raise InputError(f"{found!r} is not {article} {self.kind}: derive it from {base}")
        if inspect.isabstract(found):
            missing = ", ".join(sorted(getattr(found, "__abstractmethods__", ())))
            raise InputError(
                f"the {self.kind} {found.__name__} is not complete: it lacks {missing}"
            )
        name = self.name_of(found)
        known = self._known.get(name)
        # A cell of a notebook that is run again defines the same class again.
        if known is not None and origin(known) != origin(found):
            raise InputError(
                f"there is another {self.kind} {name}, {origin(known)}: rename {origin(found)}"
            )
        self._known[name] = found

    def find(self, name: str) -> type[T] | None:
        """Return the class of this name, registered or an entry point; None without one."""
        if name not in self._known:
            for entry in entry_points(group=self.home, name=name):
                try:
                    found = entry.load()
                except Exception as error:
                    raise InputError(
                        f"the {self.kind} {name} of an installed package ({entry.value}) cannot be "
                        f"imported: {one_line(error)}"
                    ) from error
                self.register(found)
                if self.name_of(found) != name:
                    raise InputError(
                        f"the entry point {name} must have the name of its class, "
                        f"{self.name_of(found)}"
                    )
        return self._known.get(name)

    def import_from(self, place: str) -> type[T]:
        """Import and register the class at ``package.module:Name``, as a command is given it.

        The module may also lie in the current folder.
        """
        article = "an" if self.kind[0] in "aeiou" else "a"
        module, _, name = place.partition(":")
        if not (name.isidentifier() and all(part.isidentifier() for part in module.split("."))):
            raise InputError(
                f"{article} {self.kind} is given as package.module:Name, got {place!r}"
            )
        if "" not in sys.path and str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        what = f"cannot import the {self.kind} {place}"
        try:
            found: Any = getattr(importlib.import_module(module), name, None)
        except ModuleNotFoundError as error:
            raise InputError(
                f"{what}: there is no module {error.name}, neither in the current folder nor "
                "installed"
            ) from None
        except (Exception, SystemExit) as error:
            raise InputError(f"{what}: {one_line(error)}") from error
        if found is None:
            raise InputError(f"{what}: the module has no {name}")
        self.register(found)
        return found

    def make(self, place: str) -> T:
        """Return an object of the class at ``package.module:Name``, made without arguments."""
        kind = self.import_from(place)
        try:
            return kind()
        except Exception as error:
            raise InputError(
                f"cannot create the {self.kind} {place} without arguments: {error}"
            ) from error


def origin(found: type) -> str:
    """Return where a class was defined."""
    return f"{found.__module__}.{found.__qualname__}"
