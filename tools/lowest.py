"""Print the oldest versions that pyproject.toml allows, as pins for pip.

    python tools/lowest.py [EXTRA ...]

Pins the dependencies of the package and of the extras named (by default `test`), with what these
name of the package's own extras. What has no lower bound is an error: nobody has tested it.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def lowest(project: dict, extras: Iterable[str]) -> list[str]:
    """Return the pins, sorted by name.

    Parameters
    ----------
    project : dict
        The table [project] of a pyproject.toml.
    extras : iterable of str
        Names of extras to pin, too.

    Returns
    -------
    pins : list of str
        Such as "numpy==1.26".

    Examples
    --------
    >>> lowest({"name": "a", "dependencies": ["b>=1.2,<3", "c[d]>=4"]}, [])
    ['b==1.2', 'c[d]==4']
    """
    pins = {}
    for requirement in requirements(project, extras):
        pin = _pin(requirement)
        name = canonicalize_name(requirement.name)
        if pins.setdefault(name, pin) != pin:
            raise SystemExit(f"{PROJECT.name}: {pins[name]} and {pin}: two bounds for one package")
    return sorted(pins.values())


def requirements(project: dict, extras: Iterable[str]) -> Iterator[Requirement]:
    """Yield what the package and its extras require of others, here and now."""
    waiting, done = list(extras), set()
    listed = list(project["dependencies"])
    while listed or waiting:
        if not listed:
            extra = waiting.pop()
            if extra in done:
                continue
            done.add(extra)
            if extra not in project.get("optional-dependencies", {}):
                raise SystemExit(f"{PROJECT.name} has no extra {extra!r}")
            listed = list(project["optional-dependencies"][extra])
            continue
        requirement = Requirement(listed.pop())
        if canonicalize_name(requirement.name) == canonicalize_name(project["name"]):
            waiting.extend(requirement.extras)
        elif requirement.marker is None or requirement.marker.evaluate():
            yield requirement


def _pin(requirement: Requirement) -> str:
    bounds = [part.version for part in requirement.specifier if part.operator in (">=", "==", "~=")]
    if len(bounds) != 1:
        raise SystemExit(f"{PROJECT.name}: {requirement} needs one lower bound, such as >=1.2")
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return f"{requirement.name}{extras}=={bounds[0]}"


if __name__ == "__main__":
    with PROJECT.open("rb") as file:
        print("\n".join(lowest(tomllib.load(file)["project"], sys.argv[1:] or ["test"])))
