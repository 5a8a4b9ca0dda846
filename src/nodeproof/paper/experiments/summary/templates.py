"""The templates of the summary and of the LaTeX tables, and how their texts are escaped."""

from __future__ import annotations

import re
import textwrap
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import quote

from nodeproof.errors import MissingExtraError

__all__ = ["anchor", "render_page", "render_tables", "tex", "writers"]

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{c: f"\\{c}" for c in "&%$#_{}"},
    **{c: f"${c}$" for c in "<>|"},
    **{"−": "$-$", "±": r"$\pm$", "·": r"$\cdot$", "×": r"$\times$", "≈": r"$\approx$"},
    **{"≤": r"$\leq$", "≥": r"$\geq$", "…": r"\dots{}", "ē": r"\={e}"},
    **{"β": r"$\beta$", "γ": r"$\gamma$", "θ": r"$\theta$", "μ": r"$\mu$", "π": r"$\pi$"},
    **{"σ": r"$\sigma$", "φ": r"$\phi$", "ρ": r"$\rho$", "ω": r"$\omega$"},
}


def render_page(markup: str, **content: Any) -> str:
    """Return the summary as "html" or as "markdown"."""
    page = _environment(markup).get_template("page.jinja")
    return str(page.render(markup=_WRITERS[markup], **content)).strip() + "\n"


def render_tables(tables: list[Any], label: str) -> str:
    """Return LaTeX tables, for the package booktabs."""
    return str(_environment("latex").get_template("table.tex").render(tables=tables, label=label))


def writers(markup: str) -> Any:
    """Return the macros that write the parts of a page as "html" or as "markdown"."""
    return _environment(markup).get_template(_WRITERS[markup]).module


_WRITERS = {"html": "as_html.html", "markdown": "as_markdown.md"}


@cache
def _environment(markup: str) -> Any:
    try:
        import jinja2
    except ImportError:
        raise MissingExtraError("jinja2", "report") from None
    environment = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        loader=jinja2.FunctionLoader(_file),
    )
    environment.filters |= {
        "md": markdown,
        "tex": tex,
        "stacked": _stacked,
        "address": lambda target: quote(target, safe="#/.-_~"),
        "anchor": anchor,
        "link_to_heading": lambda text: {"text": text, "target": f"#{anchor(text)}"},
    }
    if markup == "html":
        return environment
    # What HTML escapes would be wrong elsewhere: these templates escape by `md` and `tex`.
    if markup == "markdown":
        return environment.overlay(autoescape=False)
    return environment.overlay(
        autoescape=False, variable_start_string="<<", variable_end_string=">>",
        block_start_string="<%", block_end_string="%>", comment_start_string="<#",
        comment_end_string="#>",
    )  # fmt: skip


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def anchor(heading: str) -> str:
    """Return the name by which a heading is linked, the same in HTML and on code hosts.

    Examples
    --------
    >>> anchor("What was run")
    'what-was-run'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def markdown(text: str) -> str:
    r"""Escape what has a meaning in Markdown or HTML.

    Examples
    --------
    >>> print(markdown("p < q, β_g and _this_"))
    p &lt; q, β_g and \_this\_
    """
    text = re.sub(r"\s+", " ", text).replace("&", "&amp;").replace("<", "&lt;")
    text = re.sub(r"([\\`*\[\]|$~])", r"\\\1", text)
    # Between letters, as in β_g, an underscore means nothing to Markdown.
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", text)


def tex(text: str) -> str:
    r"""Escape what has a meaning in LaTeX; formulas between dollars stay as they are.

    Examples
    --------
    >>> print(tex(r"noise_level & 50 % of $\omega$"))
    noise\_level \& 50 \% of $\omega$
    """
    parts = re.split(r"(\$[^$]+\$)", text)
    return "".join(
        part if i % 2 else "".join(_SPECIAL.get(c, c) for c in part) for i, part in enumerate(parts)
    )


def _stacked(name: str) -> str:
    lines = r"\\".join(tex(line) for line in textwrap.wrap(name, 14, break_long_words=False))
    return rf"\shortstack{{{lines}}}" if lines else ""
