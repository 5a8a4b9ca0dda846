"""The gallery: every example is run when the docs are built, and shown with all that it makes.

Each file of ``examples/`` becomes a page: its docstring, its code, what it prints and draws. The
repository holds none of that but the examples.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import runpy
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any
from unittest.mock import patch

EXAMPLES = Path(__file__).parents[2] / "examples"

# What a newcomer wants to see, in this order; whatever is not named comes after.
_ORDER = (
    *("ten_lines", "wrong_labels", "probabilities", "label_next", "new_nodes", "certificate"),
    *("how_many_classes", "opposites", "phase_diagram"),
)
_MARK = "<!-- gallery -->"
_GRID = "display:grid;grid-template-columns:repeat(auto-fill,minmax(13rem,1fr));gap:1.2rem"
_PICTURE = "width:100%;height:9rem;object-fit:contain;background:#fff;border-radius:4px"


@dataclass
class Example:
    """One example, and what came of running it.

    Attributes
    ----------
    name, title, text, code : str
        Of the file: its stem, the first line and the rest of its docstring, and what is below.
    printed : str
        What it has printed.
    pictures : list of bytes
        What it has drawn, as PNG.
    """

    name: str
    title: str
    text: str
    code: str
    printed: str = ""
    pictures: list[bytes] = field(default_factory=list)

    @property
    def page(self) -> str:
        """The page in Markdown."""
        shown = "\n\n".join(
            f"![{self.title}, picture {k}]({self.name}_{k}.png)"
            for k in range(1, len(self.pictures) + 1)
        )
        return (
            f"# {self.title}\n\n{self.text}\n\n```python\n{self.code}```\n\n"
            f"It prints\n\n```text\n{self.printed}```\n\n{shown}\n\n"
            f"This is `examples/{self.name}.py` in the repository.\n"
        )


def read_example(path: Path) -> Example:
    """Return an example, not run yet."""
    source = path.read_text(encoding="utf-8")
    module = ast.parse(source)
    title, _, text = (ast.get_docstring(module) or "").partition("\n\n")
    if not text:
        raise ValueError(f"{path.name} needs a docstring: a title, and what one learns")
    code = "".join(source.splitlines(keepends=True)[module.body[0].end_lineno :])
    return Example(path.stem, title.rstrip("."), text, code.lstrip())


def run_example(path: Path) -> Example:
    """Run an example in an empty folder; what it draws is kept, not shown."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    example = read_example(path)
    plt.close("all")
    with (
        _elsewhere(),
        mpl.rc_context(),
        warnings.catch_warnings(),
        patch.object(plt, "show"),
        contextlib.redirect_stdout(io.StringIO()) as printed,
    ):
        runpy.run_path(str(path), run_name="__main__")
        for number in plt.get_fignums():
            picture = io.BytesIO()
            plt.figure(number).savefig(picture, dpi=130, metadata={"Software": None})
            example.pictures.append(picture.getvalue())
    plt.close("all")
    example.printed = printed.getvalue()
    return example


@contextlib.contextmanager
def _elsewhere() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder:
        before = Path.cwd()
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def paths() -> list[Path]:
    """Return the examples in the order of the gallery."""
    rank = {name: k for k, name in enumerate(_ORDER)}
    return sorted(EXAMPLES.glob("*.py"), key=lambda path: (rank.get(path.stem, 99), path.stem))


# While pages are served, only examples that have changed are run again.
_ran: dict[tuple[str, str], Example] = {}


def _examples() -> list[Example]:
    keys = [(path.name, path.read_text(encoding="utf-8")) for path in paths()]
    for key, path in zip(keys, paths(), strict=True):
        if key not in _ran:
            _ran[key] = run_example(path)
    return [_ran[key] for key in keys]


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Run the examples, and add their pages and pictures."""
    from mkdocs.structure.files import File

    for example in _examples():
        at = f"gallery/{example.name}"
        files.append(File.generated(config, f"{at}.md", content=example.page))
        for k, picture in enumerate(example.pictures, start=1):
            files.append(File.generated(config, f"{at}_{k}.png", content=picture))
    _enter(config["nav"])
    return files


def _enter(nav: Any) -> None:
    """Put the pages below the one of the gallery, wherever that is."""
    for entry in nav if isinstance(nav, list) else []:
        for title, target in list(entry.items()) if isinstance(entry, dict) else []:
            if target == "gallery.md":
                pages = [{one.title: f"gallery/{one.name}.md"} for one in _examples()]
                entry[title] = [{"All examples": "gallery.md"}, *pages]
            else:
                _enter(target)


def on_page_markdown(markdown: str, page: Any, files: Any, **_: Any) -> str:
    """List the examples on the page of the gallery."""
    return markdown.replace(_MARK, _grid(page, files)) if _MARK in markdown else markdown


def _grid(page: Any, files: Any) -> str:
    cards = []
    for example in _examples():
        link, picture = (
            files.get_file_from_path(f"gallery/{example.name}{end}").url_relative_to(page.file)
            for end in (".md", "_1.png")
        )
        cards.append(
            f'<a href="{link}"><img src="{picture}" alt="" loading="lazy" style="{_PICTURE}">'
            f"<br>{escape(example.title)}</a>"
        )
    return f'<div style="{_GRID}">{"".join(cards)}</div>'
