"""Draw docs/img/layers.svg: the rooms of the package, layer upon layer, from the import graph.

    python tools/layers.py [--out FILE]

The layers are those that `lint-imports` holds (pyproject.toml). Each room has a row: its name, its
lines of code, how many rooms use it, and the first sentence of its docstring.
Imports that point upwards are drawn in red; `make lint` refuses them.
"""

from __future__ import annotations

import argparse
import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from sources import PACKAGE, ROOT, Module, imported, read_modules

OUT = ROOT / "docs" / "img" / "layers.svg"

WIDTH = 900
ROW, GAP, TOP = 19, 5, 58
NAME, BAR, COUNTS, TEXT = 16, 158, 334, 350  # where columns begin; counts end there
LONGEST_BAR = 95
MOST_LETTERS = 84

STYLE = """
  .page { fill: #ffffff } .band { fill: #eef2f7 } .bar { fill: #5b7fa6 }
  text { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1c2733 }
  .title { font-size: 15px; font-weight: 600 } .name { font-weight: 600 }
  .small { font-size: 11px; fill: #5a6675 } .number { text-anchor: end }
  .upward { fill: none; stroke: #d1242f; stroke-width: 1.5 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } .band { fill: #1a222d } .bar { fill: #6f9bcf }
    text { fill: #e4eaf1 } .small { fill: #9aa7b5 } .upward { stroke: #ff7b72 }
  }
"""


@dataclass
class Room:
    """A package or module that a layer names.

    Attributes
    ----------
    name : str
        Without that of the root package: "solvers", "certificate.labelling".
    layer : int
        Its layer, the uppermost being 0.
    summary : str
        The first sentence of its docstring.
    n_code_lines : int
        Without blank lines, comments and docstrings.
    imports, imported_by : set of str
        Names of other rooms.
    """

    name: str
    layer: int
    summary: str
    n_code_lines: int = 0
    imports: set[str] = field(default_factory=set)
    imported_by: set[str] = field(default_factory=set)


def read_layers(root: Path) -> list[list[str]]:
    """Return the names of the rooms of each layer, from the top, as `lint-imports` reads them."""
    with (root / "pyproject.toml").open("rb") as file:
        (contract,) = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    return [[name.strip(" ()") for name in re.split("[|:]", layer)] for layer in contract["layers"]]


def read_rooms(root: Path) -> dict[str, Room]:
    """Return the rooms of a tree by name, from the top."""
    modules = read_modules(root)
    rooms = {
        name: Room(name, layer, summary(modules[f"{PACKAGE}.{name}"]))
        for layer, names in enumerate(read_layers(root))
        for name in names
        if f"{PACKAGE}.{name}" in modules
    }
    for module in modules.values():
        if (own := room_of(module.name, rooms)) is None:
            continue
        rooms[own].n_code_lines += module.n_code_lines
        for other in (room_of(name, rooms) for name in imported(module, modules)):
            if other is not None and other != own:
                rooms[own].imports.add(other)
                rooms[other].imported_by.add(own)
    return rooms


def room_of(module: str, rooms: dict[str, Room]) -> str | None:
    """Return the room that a module is in; None for the root package and `certificate` itself.

    Examples
    --------
    >>> room_of("nodeproof.solvers.block", {"solvers": None, "sets": None})
    'solvers'
    """
    tail = module.removeprefix(f"{PACKAGE}.") + "."
    return next((name for name in rooms if tail.startswith(f"{name}.")), None)


def summary(module: Module) -> str:
    """Return the first sentence of a docstring as plain text, cut where it is long."""
    paragraph = (ast.get_docstring(module.tree) or "").partition("\n\n")[0]
    sentence = " ".join(paragraph.split()).replace("`", "").removesuffix(".")
    if len(sentence) <= MOST_LETTERS:
        return sentence
    return sentence[: MOST_LETTERS - 1].rpartition(" ")[0] + " …"


def draw(rooms: dict[str, Room]) -> str:
    """Return the picture as SVG."""
    y, middles, body = float(TOP), {}, []
    most = max(room.n_code_lines for room in rooms.values())
    layers: dict[int, list[Room]] = {}
    for room in rooms.values():
        layers.setdefault(room.layer, []).append(room)
    for members in layers.values():
        height = ROW * len(members) + 4
        body.append(
            f'<rect class="band" x="8" y="{y:g}" width="{WIDTH - 16}" height="{height}" rx="4"/>'
        )
        for room in members:
            middles[room.name] = y + 2 + ROW / 2
            body.extend(_row(room, middles[room.name], LONGEST_BAR / most))
            y += ROW
        y += 4 + GAP
    body += [
        _upward(middles[room.name], middles[other])
        for room in rooms.values()
        for other in sorted(room.imports)
        if rooms[other].layer < room.layer
    ]
    total = sum(room.n_code_lines for room in rooms.values())
    title = (
        f"{PACKAGE}, {total:,} lines of code: rooms import from layers below theirs, never above"
    )
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 6:g}" width="{WIDTH}" '
        f'height="{y + 6:g}" role="img" aria-label="The layers of {PACKAGE}">',
        f"<style>{STYLE}</style>",
        f'<rect class="page" width="{WIDTH}" height="{y + 6:g}"/>',
        _text(NAME, 20, title, "title"),
        _text(NAME, 46, "room", "small"),
        _text(BAR, 46, "lines of code", "small"),
        _text(COUNTS, 46, "used by rooms", "small number"),
        _text(TEXT, 46, "what it is for", "small"),
    ]
    return "\n".join([*head, *body, "</svg>"]) + "\n"


def _row(room: Room, middle: float, scale: float) -> Iterator[str]:
    base = middle + 4
    width = max(1.0, room.n_code_lines * scale)
    imports = ", ".join(sorted(room.imports)) or "nothing"
    yield f"<g><title>{escape(room.name)} imports {escape(imports)}</title>"
    yield _text(NAME, base, room.name, "name")
    yield f'<rect class="bar" x="{BAR}" y="{middle - 5:g}" width="{width:.1f}" height="10" rx="2"/>'
    yield _text(BAR + width + 5, base, f"{room.n_code_lines:,}", "small")
    yield _text(COUNTS, base, str(len(room.imported_by)), "small number")
    yield _text(TEXT, base, room.summary, "")
    yield "</g>"


def _upward(start: float, end: float) -> str:
    return f'<path class="upward" d="M8 {start:g} C-2 {start:g} -2 {end:g} 8 {end:g}"/>'


def _text(x: float, y: float, text: str, kind: str) -> str:
    mark = f' class="{kind}"' if kind else ""
    return f'<text{mark} x="{x:g}" y="{y:g}">{escape(text, quote=False)}</text>'


def main() -> None:
    """Write the picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=OUT, metavar="FILE")
    out = parser.parse_args().out
    out.write_text(draw(read_rooms(ROOT)), encoding="utf-8")
    print(out)


if __name__ == "__main__":
    main()
