"""Experts as they are given: by a user as names and objects, by files and commands by name."""

from __future__ import annotations

from typing import Any, TypeVar

from nodeproof.auto.experts.base import Expert
from nodeproof.auto.experts.block import BlockModel
from nodeproof.auto.experts.directions import InLinks, OutLinks
from nodeproof.auto.experts.guarded import guard
from nodeproof.auto.experts.of_kind import find_of_kind
from nodeproof.auto.experts.propagation import Propagation
from nodeproof.auto.experts.regression import Features, Links, OwnFeatures
from nodeproof.auto.experts.trees import Trees
from nodeproof.errors import InputError, one_line
from nodeproof.runtime.registry import Registry, origin
from nodeproof.storage.schema import shown

__all__ = [
    "as_experts",
    "check_known",
    "check_registered",
    "find_expert",
    "import_expert",
    "make_expert",
    "register",
]

#: in the order in which they are tried
BUILT_IN: tuple[type[Expert], ...] = (
    Propagation, BlockModel, Links, Features, OwnFeatures, Trees,
)  # fmt: skip

T = TypeVar("T", bound=type[Expert])

_experts: Registry[Expert] = Registry(
    "expert",
    Expert,  # type: ignore[type-abstract]
    "nodeproof.experts",
    lambda expert: expert.name,
)


def register(expert: T) -> T:
    """Let fits, saved models and commands name a class of experts; to be used as a decorator.

    Parameters
    ----------
    expert : type
        A subclass of :class:`Expert`, known by its attribute `name` from now on. A package can
        list it in its entry points instead, so that nobody has to import it::

            [project.entry-points."nodeproof.experts"]
            neighbours = "my_package.neighbours:Neighbours"

    Returns
    -------
    type
        The same class.

    Raises
    ------
    InputError
        If it is no complete expert, has no name, or if another class has this name.
    """
    if isinstance(expert, type) and issubclass(expert, Expert):
        _check_name(expert)
    _experts.register(expert)
    return expert


def find_expert(name: str) -> type[Expert] | None:
    """Return the class of experts of this name, registered or an entry point; None without one.

    "propagation (cites)" is the one that sees the links of the kind "cites" alone.
    """
    return _experts.find(name) or find_of_kind(name)


def check_known(name: str) -> type[Expert]:
    """Return the class of experts that a file names; raise an error if there is none."""
    expert = find_expert(name)
    if expert is None:
        raise InputError(
            f"this model has an expert {shown(name)}, which is unknown here: import the module "
            "that defines it and register it with nodeproof.experts.register, or give --own-expert "
            "package.module:Name on the command line"
        )
    return expert


def check_registered(name: str) -> type[Expert]:
    """Return the class of the experts to save; raise an error if no file could name it."""
    expert = find_expert(name)
    if expert is None:
        raise InputError(
            f"cannot save the expert {name!r}: where it is loaded nobody would know it; put "
            "@nodeproof.experts.register before its class"
        )
    return expert


def import_expert(place: str) -> type[Expert]:
    """Import and register the class at ``package.module:Name``, as the command line is given it."""
    return _experts.import_from(place)


def make_expert(place: str) -> Expert:
    """Return an expert of the class at ``package.module:Name``, made without arguments."""
    return _experts.make(place)


def as_experts(given: Any) -> list[Expert]:
    """Return the experts that were given, in the order in which they are tried.

    Parameters
    ----------
    given : "auto", or list of str and Expert
        "auto" for the built-in ones, names, experts, and names with a minus to leave out. A list
        that only leaves out starts with the built-in ones.

    Raises
    ------
    InputError
        If there is no expert of a name, or two, or none is left.
    """
    if isinstance(given, str) and given == "auto":
        given = ["auto"]
    if not isinstance(given, list | tuple):
        hint = f": write experts=[{given!r}]" if isinstance(given, str | Expert) else ""
        raise InputError(
            f"experts must be 'auto' or a list of names and experts, got {given!r}{hint}"
        )
    removed = [item for item in given if isinstance(item, str) and item.startswith("-")]
    others = [item for item in given if not (isinstance(item, str) and item in (*removed, "auto"))]
    found: dict[str, Expert] = {}
    if "auto" in [item for item in given if isinstance(item, str)] or (removed and not others):
        found = {kind.name: kind() for kind in BUILT_IN}
    for item in removed:
        if found.pop(_known_name(item[1:]), None) is None:
            raise InputError(
                f"experts: {item!r} leaves out what is not among them; without other names, it is "
                "left out of the built-in ones"
            )
    for item in others:
        expert = _named(item) if isinstance(item, str) else _checked(item)
        if expert.name in found:
            raise InputError(f"experts: there are two of the name {expert.name!r}")
        found[expert.name] = expert
    if not found:
        raise InputError("experts: none is left; omit it for all built-in ones")
    order = [kind.name for kind in BUILT_IN]
    place = {name: order.index(name) if name in order else len(order) for name in found}
    ordered = sorted(found.values(), key=lambda expert: (expert.costly, place[expert.name]))
    return [guard(expert) for expert in ordered]


def _known_name(given: str) -> str:
    """Return the name of an expert; words may be joined by a hyphen or an underscore."""
    names = {_words(name): name for name in _experts.names}
    if _words(given) not in names:
        known = ", ".join(names.values())
        raise InputError(f"there is no expert {given!r}; there are: {known}")
    return names[_words(given)]


def _words(name: str) -> str:
    return " ".join(name.replace("-", " ").replace("_", " ").lower().split())


def _named(item: str) -> Expert:
    kind = find_expert(_known_name(item))
    assert kind is not None
    try:
        return kind()
    except Exception as error:
        raise InputError(
            f"cannot create the expert {item!r} without arguments: {one_line(error)}"
        ) from error


def _checked(item: Any) -> Expert:
    if isinstance(item, type) and issubclass(item, Expert):
        raise InputError(
            f"experts must hold names and experts, got the class {item.__name__}: write "
            f"{item.__name__}()"
        )
    if not isinstance(item, Expert):
        raise InputError(
            f"experts must hold names and experts, got {item!r}: derive its class from "
            "nodeproof.experts.Expert"
        )
    kind = type(item)
    _check_name(kind)
    if item.source not in ("graph", "features"):
        raise InputError(f"the expert {item.name!r} must name its source: 'graph' or 'features'")
    known = find_expert(item.name)
    if known is not None and origin(known) != origin(kind):
        raise InputError(
            f"there is another expert {item.name!r}, {origin(known)}: rename {origin(kind)}"
        )
    return item


def _check_name(kind: type[Expert]) -> None:
    name = getattr(kind, "name", None)
    if not _is_name(name):
        raise InputError(
            f"the expert {kind.__name__} must have a name that begins with a letter and has no "
            f"comma, such as name = 'neighbours'; got {name!r}"
        )


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and name[:1].isalpha() and "," not in name and name == name.strip()


for built_in in BUILT_IN:
    register(built_in)
# They are tried where links have a direction.
register(OutLinks)
register(InLinks)
