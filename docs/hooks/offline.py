"""Fail the build if a page would load anything from the network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

# Attributes that a browser loads automatically, by tag.
_LOADS = {
    "audio": ["src"],
    "embed": ["src"],
    "iframe": ["src"],
    "image": ["href", "xlink:href"],
    "img": ["src", "srcset"],
    "input": ["src"],
    "link": ["href"],
    "object": ["data"],
    "script": ["src"],
    "source": ["src", "srcset"],
    "track": ["src"],
    "use": ["href", "xlink:href"],
    "video": ["src", "poster"],
}
_HARMLESS_LINKS = {"canonical", "next", "prev", "edit", "license", "author"}
_ELSEWHERE = re.compile(r"^\s*(?:https?:)?//", re.IGNORECASE)
_STYLE = re.compile(r"""(?:url\(\s*|@import\s+)["']?((?:https?:)?//[^"')\s]+)""", re.IGNORECASE)


class _Loads(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        self.found += _STYLE.findall(given.get("style", ""))
        if tag == "link" and set(given.get("rel", "").split()) <= _HARMLESS_LINKS:
            return
        for name in _LOADS.get(tag, []):
            self.found += [
                part for part in given.get(name, "").split(",") if _ELSEWHERE.match(part)
            ]


def loads(text: str) -> list[str]:
    """Return the external addresses that a page or style sheet would load.

    Examples
    --------
    >>> loads('<a href="https://one.org">one</a> <img src="//two.org/a.png">')
    ['//two.org/a.png']
    """
    parser = _Loads()
    parser.feed(text)
    return parser.found + _STYLE.findall(re.sub(r'style="[^"]*"', "", text))


def loads_of_site(site: Path) -> Iterator[str]:
    """Yield the external addresses that the pages and style sheets of a site would load."""
    for path in sorted(site.rglob("*")):
        if path.suffix in {".html", ".css", ".svg"}:
            for address in loads(path.read_text(encoding="utf-8")):
                yield f"{path.relative_to(site)} loads {address}"


def on_post_build(config: Any, **_: Any) -> None:
    """Check the built site."""
    found = list(loads_of_site(Path(config["site_dir"])))
    if found:
        raise PluginError("pages must work offline, but " + "; ".join(found[:5]))
