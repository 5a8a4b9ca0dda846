"""A page of headings, text, tables and pictures that is written as Markdown or as HTML.

Every text is plain; what has a meaning in Markdown or HTML is escaped by the writers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Literal
from urllib.parse import quote

__all__ = [
    "Badge",
    "Block",
    "Cell",
    "Figure",
    "Heading",
    "Items",
    "Link",
    "Paragraph",
    "Quote",
    "Table",
    "anchor",
    "to_html",
    "to_markdown",
]


@dataclass(frozen=True)
class Badge:
    """A word that stands out: a verdict."""

    kind: Literal["yes", "no", "open"]
    text: str


@dataclass(frozen=True)
class Link:
    """A link to a heading of the page, or to a file beside it."""

    text: str
    target: str


Cell = str | Badge | Link


@dataclass(frozen=True)
class Heading:
    """A heading of level 2 or 3; the title of the page is level 1."""

    level: int
    text: str


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; a note is set smaller."""

    text: str
    note: bool = False


@dataclass(frozen=True)
class Quote:
    """What somebody said, and where."""

    text: str
    where: str


@dataclass(frozen=True)
class Items:
    """A list."""

    items: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """A table; columns of numbers are set to the right."""

    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    numbers: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Figure:
    """A picture, by its path from the page, and the files in which it is found."""

    source: str
    caption: str
    files: tuple[Link, ...] = ()


Block = Heading | Paragraph | Quote | Items | Table | Figure


def anchor(heading: str) -> str:
    """Return the name by which a heading is linked to, as GitHub makes it.

    Examples
    --------
    >>> from nodeproof.paper.experiments.summary.document import anchor
    >>> anchor("What was run")
    'what-was-run'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _address(target: str) -> str:
    return quote(target, safe="#/.-_~")


def to_markdown(title: str, blocks: Iterable[Block]) -> str:
    """Write a page as Markdown.

    Examples
    --------
    >>> from nodeproof.paper.experiments.summary.document import Heading, Paragraph, to_markdown
    >>> print(to_markdown("Results", [Heading(2, "Claims"), Paragraph("p < q")]), end="")
    # Results
    <BLANKLINE>
    ## Claims
    <BLANKLINE>
    p &lt; q
    """
    parts = [f"# {_md(title)}", *(_markdown(block) for block in blocks)]
    return "\n\n".join(parts) + "\n"


def _md(text: str) -> str:
    text = re.sub(r"\s+", " ", text).replace("&", "&amp;").replace("<", "&lt;")
    text = re.sub(r"([\\`*\[\]|$~])", r"\\\1", text)
    # Between letters, as in β_g, an underscore means nothing to Markdown.
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", text)


def _md_cell(cell: Cell) -> str:
    if isinstance(cell, Badge):
        return f"**{_md(cell.text)}**" if cell.kind == "no" else _md(cell.text)
    if isinstance(cell, Link):
        return f"[{_md(cell.text)}]({_address(cell.target)})"
    return _md(cell)


def _markdown(block: Block) -> str:
    match block:
        case Heading(level, text):
            return f"{'#' * level} {_md(text)}"
        case Paragraph(text):
            return _md(text)
        case Quote(text, where):
            return f"> {_md(text)} ({_md(where)})"
        case Items(items):
            return "\n".join(f"- {_md_cell(item)}" for item in items)
        case Table(header, rows, numbers):
            rule = ["---:" if i in numbers else "---" for i in range(len(header))]
            lines = [[_md(h) for h in header], rule, *([_md_cell(c) for c in r] for r in rows)]
            return "\n".join(f"| {' | '.join(line)} |" for line in lines)
        case Figure(source, caption, files):
            links = " · ".join(_md_cell(file) for file in files)
            return f"![{_md(caption)}]({_address(source)})\n\n{_md(caption)}  {links}".rstrip()


def to_html(title: str, blocks: Iterable[Block]) -> str:
    """Write a page as HTML that needs nothing but the pictures beside it."""
    body = "\n".join(_html(block) for block in blocks)
    return _PAGE.format(title=escape(title), style=_STYLE, body=body)


def _html_cell(cell: Cell) -> str:
    if isinstance(cell, Badge):
        return f'<span class="{cell.kind}">{escape(cell.text)}</span>'
    if isinstance(cell, Link):
        return f'<a href="{escape(_address(cell.target))}">{escape(cell.text)}</a>'
    return escape(cell)


def _html(block: Block) -> str:
    match block:
        case Heading(level, text):
            return f'<h{level} id="{escape(anchor(text))}">{escape(text)}</h{level}>'
        case Paragraph(text, note):
            start = '<p class="note">' if note else "<p>"
            return f"{start}{escape(text)}</p>"
        case Quote(text, where):
            return f"<blockquote>{escape(text)} <cite>{escape(where)}</cite></blockquote>"
        case Items(items):
            return f"<ul>{''.join(f'<li>{_html_cell(item)}</li>' for item in items)}</ul>"
        case Table(header, rows, numbers):
            mark = [' class="number"' if i in numbers else "" for i in range(len(header))]
            head = "".join(
                f'<th scope="col"{m}>{escape(h)}</th>' for h, m in zip(header, mark, strict=True)
            )
            lines = [
                "".join(f"<td{m}>{_html_cell(c)}</td>" for c, m in zip(row, mark, strict=True))
                for row in rows
            ]
            filled = "\n".join(f"<tr>{line}</tr>" for line in lines)
            return (
                f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n'
                f"<tbody>\n{filled}\n</tbody>\n</table></div>"
            )
        case Figure(source, caption, files):
            links = " · ".join(_html_cell(file) for file in files)
            return (
                f'<figure><img src="{escape(_address(source))}" alt="{escape(caption)}">'
                f"<figcaption>{escape(caption)} {links}</figcaption></figure>"
            )


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<main>
<h1>{title}</h1>
{body}
</main>
</body>
</html>
"""

_STYLE = """\
:root { color-scheme: light dark; --text: #1c1e21; --page: #fff; --soft: #5b6168;
  --line: #d9dce0; --stripe: #f5f6f8; --link: #0b57a4; --yes: #0a6b36; --no: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e7e9; --page: #16181b; --soft: #a5abb3; --line: #3a3f45;
    --stripe: #1e2125; --link: #82b7ef; --yes: #6fcf97; --no: #ff8a80; }
}
body { margin: 0; background: var(--page); color: var(--text);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 64rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; }
h2 { margin-top: 3rem; padding-bottom: .3rem; border-bottom: 1px solid var(--line); }
h3 { margin: 2.2rem 0 .6rem; }
a { color: var(--link); }
blockquote { margin: .6rem 0; padding-left: 1rem; border-left: 3px solid var(--line); }
cite, .note, figcaption { color: var(--soft); font-size: .875rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { padding: .4rem .6rem; hyphens: none; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); }
tbody tr:nth-child(even) { background: var(--stripe); }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.yes, .no, .open { font-weight: 600; }
.yes { color: var(--yes); } .no { color: var(--no); } .open { color: var(--soft); }
figure { margin: 2rem 0; }
img { max-width: 100%; height: auto; background: #fff; }
@media print {
  :root { color-scheme: light; --text: #000; --page: #fff; --soft: #444; --line: #bbb;
    --stripe: #fff; --link: #000; --yes: #000; --no: #000; }
  main { max-width: none; padding: 0; }
  body { font-size: 10pt; }
  .wide { overflow: visible; }
  h2, h3 { break-after: avoid; }
  figure, tr, blockquote { break-inside: avoid; }
}
"""
