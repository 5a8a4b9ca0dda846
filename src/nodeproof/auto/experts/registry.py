"""Experts as they are given: by a user as names and objects, by files and commands by name."""

from __future__ import annotations

from typing import Any, TypeVar

from nodeproof.auto.experts.base import Expert
from nodeproof.auto.experts.block import BlockModel
from nodeproof.auto.experts.propagation import Propagation
from nodeproof.auto.experts.regression import Features, Links, OwnFeatures
from nodeproof.auto.experts.trees import Trees
from nodeproof.errors import InputError
from nodeproof.runtime.registry import Registry

__all__ = ["find_expert", "import_expert", "make_expert", "register"]

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
    name = getattr(expert, "name", None)
    if isinstance(expert, type) and issubclass(expert, Expert) and not _is_name(name):
        raise InputError(
            f"the expert {expert.__name__} must have a name that begins with a letter and has no "
            f"comma, such as name = 'neighbours'; got {name!r}"
        )
    _experts.register(expert)
    return expert


def find_expert(name: str) -> type[Expert] | None:
    """Return the class of experts of this name, registered or an entry point; None without one."""
    return _experts.find(name)


def import_expert(place: str) -> type[Expert]:
    """Import and register the class at ``package.module:Name``, as the command line is given it."""
    return _experts.import_from(place)


def make_expert(place: str) -> Expert:
    """Return an expert of the class at ``package.module:Name``, made without arguments."""
    return _experts.make(place)


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and name[:1].isalpha() and "," not in name and name == name.strip()


for built_in in BUILT_IN:
    register(built_in)
