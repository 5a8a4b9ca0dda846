"""Terms as they are given: by a user as objects, by a saved model or the command line by name.

A file only ever names a class. It is looked up among those that were registered and those that
installed packages list under the entry points ``nodeproof.terms``; nothing is imported because a
file says so.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar

from nodeproof.errors import InputError
from nodeproof.terms.base import NodeData, Term

__all__ = ["bind_term", "check_terms", "find_term", "import_term", "register"]

#: where packages list their terms, each under the name of its class
ENTRY_POINTS = "nodeproof.terms"

T = TypeVar("T", bound=type[Term])

_registered: dict[str, type[Term]] = {}


def register(term: T) -> T:
    """Let saved models name a class of terms; to be used as a decorator.

    Parameters
    ----------
    term : type
        A subclass of :class:`Term`, known by its name from now on. A package can list it in its
        entry points instead, so that nobody has to import it::

            [project.entry-points."nodeproof.terms"]
            Visits = "my_package.visits:Visits"

    Returns
    -------
    type
        The same class.

    Raises
    ------
    InputError
        If it is no complete term, or if another class has this name.

    Examples
    --------
    >>> from nodeproof.terms import Labels, register
    >>> @register
    ... class SurerLabels(Labels):
    ...     def __init__(self, accuracy=0.99, strength=30.0):
    ...         super().__init__(accuracy, strength)
    """
    if not (isinstance(term, type) and issubclass(term, Term)):
        raise InputError(f"{term!r} is not a term: derive it from nodeproof.terms.Term")
    if inspect.isabstract(term):
        missing = ", ".join(sorted(term.__abstractmethods__))
        raise InputError(f"the term {term.__name__} is not complete: it lacks {missing}")
    known = _registered.get(term.__name__)
    # A cell of a notebook that is run again defines the same class again.
    if known is not None and _origin(known) != _origin(term):
        raise InputError(
            f"there is another term {term.__name__}, {_origin(known)}: rename {_origin(term)}"
        )
    _registered[term.__name__] = term
    return term


def find_term(name: str) -> type[Term] | None:
    """Return the class of terms of this name, registered or an entry point; None without one."""
    if name not in _registered:
        for entry in entry_points(group=ENTRY_POINTS, name=name):
            try:
                term = entry.load()
            except Exception as error:
                raise InputError(
                    f"the term {name} of an installed package ({entry.value}) cannot be imported: "
                    f"{_one_line(error)}"
                ) from error
            if register(term).__name__ != name:
                raise InputError(
                    f"the entry point {name} must have the name of its class, {term.__name__}"
                )
    return _registered.get(name)


def import_term(place: str) -> type[Term]:
    """Import and register the class at ``package.module:Name``, as the command line is given it.

    The module may also lie in the current folder.
    """
    module, _, name = place.partition(":")
    if not (name.isidentifier() and all(part.isidentifier() for part in module.split("."))):
        raise InputError(f"a term is given as package.module:Name, got {place!r}")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError as error:
        raise InputError(
            f"cannot import the term {place}: there is no module {error.name}, neither in the "
            "current folder nor installed"
        ) from None
    except (Exception, SystemExit) as error:
        raise InputError(f"cannot import the term {place}: {_one_line(error)}") from error
    if found is None:
        raise InputError(f"cannot import the term {place}: the module has no {name}")
    return register(found)


def check_terms(terms: Any) -> None:
    """Raise an error unless these are terms, in a list, that say what they draw on."""
    if not isinstance(terms, list | tuple):
        hint = f": write terms=[{terms!r}]" if isinstance(terms, Term) else ""
        raise InputError(f"terms must be 'auto' or a list of terms, got {terms!r}{hint}")
    for term in terms:
        if isinstance(term, type) and issubclass(term, Term):
            name = term.__name__
            raise InputError(f"terms must hold terms, got the class {name}: write {name}()")
        if not isinstance(term, Term):
            raise InputError(
                f"terms must hold terms, got {term!r}: derive its class from nodeproof.terms.Term"
            )
        if getattr(term, "source", None) not in ("graph", "features", "labels"):
            raise InputError(f"{term!r} must name its source: source = 'features' or 'labels'")


def bind_term(term: Term, nodes: NodeData) -> Term:
    """Return a user's term, bound; raise an error if its `bind` does not return a bound copy."""
    bound: Any = term.bind(nodes)
    name = type(term).__name__
    if not isinstance(bound, Term):
        raise InputError(f"{name}.bind must return a bound copy of the term, got {bound!r}")
    if bound is term:
        raise InputError(f"{name}.bind must return a copy, not the term: use self.copy_for(nodes)")
    for attribute in ("n_nodes", "n_classes"):
        if not hasattr(bound, attribute):
            raise InputError(
                f"{name}.bind returned a term without {attribute}: begin with "
                "bound = self.copy_for(nodes)"
            )
    return bound


def _origin(term: type) -> str:
    return f"{term.__module__}.{term.__qualname__}"


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
