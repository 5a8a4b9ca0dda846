"""Terms as they are given: by a user as objects, by a saved model or the command line by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from nodeproof.errors import InputError
from nodeproof.runtime.registry import Registry
from nodeproof.storage.schema import as_plain
from nodeproof.terms.base import NodeData, Term

__all__ = [
    "allow_missing",
    "arguments_of",
    "bind_term",
    "check_terms",
    "describe_term",
    "find_term",
    "import_term",
    "is_described",
    "make_term",
    "register",
    "restore_term",
]

T = TypeVar("T", bound=type[Term])

_terms: Registry[Term] = Registry("term", Term, "nodeproof.terms")  # type: ignore[type-abstract]


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
    _terms.register(term)
    return term


def find_term(name: str) -> type[Term] | None:
    """Return the class of terms of this name, registered or an entry point; None without one."""
    return _terms.find(name)


def import_term(place: str) -> type[Term]:
    """Import and register the class at ``package.module:Name``, as the command line is given it.

    The module may also lie in the current folder.
    """
    return _terms.import_from(place)


def make_term(place: str) -> Term:
    """Return a term of the class at ``package.module:Name``, made without arguments."""
    return _terms.make(place)


def is_described(value: Any) -> bool:
    """Tell whether a value of JSON names a term, with settings that it knows."""
    name = value.get("class") if type(value) is dict else None
    term = find_term(name) if type(name) is str else None
    if term is None:
        return False
    checks = term.settings()
    return all(
        name == "class" or (name in checks and checks[name](found)) for name, found in value.items()
    )


def describe_term(term: Term) -> dict[str, Any]:
    """Return a term as JSON can hold it: the name of its class, and its settings."""
    kind, settings = type(term), type(term).settings()
    if find_term(kind.__name__) is not kind:
        raise InputError(
            f"cannot save {term!r}: where it is loaded nobody would know the class "
            f"{kind.__name__}; put @nodeproof.terms.register before it"
        )
    try:
        named = {name: as_plain(found) for name, found in arguments_of(term, settings).items()}
    except TypeError as error:
        raise InputError(f"cannot save {term!r}: {error}") from None
    return {"class": kind.__name__, **named}


def arguments_of(part: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return the attributes that hold the arguments of the constructor, by name."""
    missing = [name for name in names if not hasattr(part, name)]
    if missing:
        raise InputError(
            f"cannot save {part!r}: its constructor takes {missing[0]}, and it has no attribute of "
            "this name"
        )
    return {name: getattr(part, name) for name in names}


def restore_term(described: Mapping[str, Any]) -> Term:
    """Return the term that a value of JSON describes, as :func:`is_described` has checked it."""
    term = find_term(described["class"])
    assert term is not None
    return term(**{name: found for name, found in described.items() if name != "class"})


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


def allow_missing(terms: Any) -> bool:
    """Tell whether features may be missing: all terms that use them take them as given."""
    listed = terms if isinstance(terms, list | tuple) else ()
    using = [term for term in listed if isinstance(term, Term) and term.needs_features]
    return bool(using) and all(term.as_given for term in using)


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
