"""Building blocks of the small HTML cards that notebooks show.

Colours are those of the page, thinned out, so that a card suits light and dark pages. Whatever
comes from data is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

__all__ = ["bar", "card", "head", "line", "short", "table"]

# Letters of a name that there is room for.
_LETTERS = 40

_CARD = (
    "font:14px/1.45 system-ui,sans-serif;color:inherit;max-width:44em;padding:.8em 1.1em;"
    "border:1px solid rgba(128,128,128,.4);border-radius:8px;background:rgba(128,128,128,.06)"
)
_HEAD = "display:flex;justify-content:space-between;gap:1em;align-items:baseline;flex-wrap:wrap"
_PILL = "border-radius:1em;padding:0 .7em;font-size:.85em;white-space:nowrap;border:1px solid "
TABLE = "border-collapse:collapse;font:inherit;color:inherit;margin:"
TRACK = "background:rgba(128,128,128,.22);border-radius:3px;overflow:hidden;height:"
_COLUMNS = "grid-template-columns:minmax(4em,30%) 1fr minmax(3em,7em)"
_ROW = f"display:grid;{_COLUMNS};gap:.8em;align-items:center"
_CLIP = "overflow:hidden;text-overflow:ellipsis;white-space:nowrap"
QUIET = "opacity:.75;font-size:.9em"
_CELL = "text-align:left;vertical-align:top;padding:.15em .8em .15em 0;background:none"

# Mid-tones: seen on light and on dark.
BLUE, GREEN, AMBER, GREY = "#3d84b8", "#3f9a6b", "#c98a2b", "#8a8f98"


def card(what: str, parts: Iterable[str]) -> str:
    """Return a card with these parts; `what` names it for screen readers."""
    return f'<div role="group" aria-label="{what}" style="{_CARD}">{"".join(parts)}</div>'


def head(title: str, status: str, colour: str) -> str:
    """Return the first line of a card: a title, and a status with a coloured dot."""
    return (
        f'<div style="{_HEAD}"><strong style="font-size:1.1em">{escape(title)}</strong>'
        f'<span style="{_PILL}{colour}"><span aria-hidden="true" style="color:{colour}">●</span> '
        f"{escape(status)}</span></div>"
    )


def bar(name: str, share: float, number: str, colour: str) -> str:
    """Return a labelled horizontal bar that fills a share of its width."""
    width = f"width:{100 * share:.1f}%;height:100%;background:{colour}"
    return (
        f'<div style="{_ROW}"><span style="{_CLIP}" title="{short(name)}">{short(name)}</span>'
        f'<div aria-hidden="true" style="{TRACK}.7em"><div style="{width}"></div></div>'
        f'<span style="text-align:right">{escape(number)}</span></div>'
    )


def short(name: Any) -> str:
    """Return a name as text for HTML, cut where it is long."""
    text = str(name)
    return escape(text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…")


def line(name: str, said: str, why: str = "") -> str:
    """Return one row of a table: a name, what there is to say, and below it why."""
    below = f'<br><span style="{QUIET}">{escape(why)}</span>' if why else ""
    return (
        f'<tr style="background:none"><th scope="row" style="{_CELL};font-weight:600">'
        f'{escape(name)}</th><td style="{_CELL}">{escape(said)}{below}</td></tr>'
    )


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table with a line of headers; the first cell of a row is its name."""
    top = "".join(f'<th scope="col" style="{_CELL}">{escape(name)}</th>' for name in heads)
    body = ""
    for first, *others in rows:
        cells = "".join(f'<td style="{_CELL}">{escape(text)}</td>' for text in others)
        name = f'<th scope="row" style="{_CELL}">{escape(first)}</th>'
        body += f'<tr style="background:none">{name}{cells}</tr>'
    return (
        f'<table style="{TABLE}.4em 0;font-size:.9em"><thead><tr style="background:none">{top}</tr>'
        f"</thead><tbody>{body}</tbody></table>"
    )
