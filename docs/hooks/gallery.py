"""Build the gallery: run every example when the docs are built, and show its output.

Each file of ``examples/`` becomes a page with its docstring, its code, its printed output and its
figures. Only the examples are in the repository, none of their output.
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

# The order for newcomers; examples not listed here come last.
_ORDER = (
    *("ten_lines", "karate_club", "digits", "les_miserables", "women_and_events"),
    *("wrong_labels", "probabilities", "label_next", "new_nodes", "certificate"),
    *("how_many_classes", "opposites", "phase_diagram"),
)
_MARK = "<!-- gallery -->"
_GRID = "display:grid;grid-template-columns:repeat(auto-fill,minmax(13rem,1fr));gap:1.2rem"
_PICTURE = "width:100%;height:9rem;object-fit:contain;background:#fff;border-radius:4px"


@dataclass
class Example:
    """One example and its output.

    Attributes
    ----------
    name, title, text, code : str
        Stem of the file, first line and rest of its docstring, and the code below.
    printed : str
        Printed output.
    pictures : list of bytes
        Figures as PNG.
    """

    name: str
    title: str
    text: str
    code: str
    printed: str = ""
    pictures: list[bytes] = field(default_factory=list)

    @property
    def page(self) -> str:
        """The page as Markdown."""
        shown = "\n\n".join(
            f"![{self.title}, figure {k}]({self.name}_{k}.png)"
            for k in range(1, len(self.pictures) + 1)
        )
        return (
            f"# {self.title}\n\n{self.text}\n\n```python\n{self.code}```\n\n"
            f"It prints\n\n```text\n{self.printed}```\n\n{shown}\n\n"
            f"This is `examples/{self.name}.py` in the repository.\n"
        )


def read_example(path: Path) -> Example:
    """Return an example without running it."""
    source = path.read_text(encoding="utf-8")
    module = ast.parse(source)
    title, _, text = (ast.get_docstring(module) or "").partition("\n\n")
    if not text:
        raise ValueError(f"{path.name} needs a docstring with a title and a description")
    code = "".join(source.splitlines(keepends=True)[module.body[0].end_lineno :])
    return Example(path.stem, title.rstrip("."), text, code.lstrip())


def run_example(path: Path) -> Example:
    """Run an example in an empty folder; its figures are stored, not shown."""
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


# While pages are served, only changed examples are run again.
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
    """Insert the pages below the gallery's page, wherever it is."""
    for entry in nav if isinstance(nav, list) else []:
        for title, target in list(entry.items()) if isinstance(entry, dict) else []:
            if target == "gallery.md":
                pages = [{one.title: f"gallery/{one.name}.md"} for one in _examples()]
                entry[title] = [{"All examples": "gallery.md"}, *pages]
            else:
                _enter(target)


def on_page_markdown(markdown: str, page: Any, files: Any, **_: Any) -> str:
    """List the examples on the gallery's page."""
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
