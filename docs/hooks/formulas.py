"""Formulas in LaTeX become MathML, which browsers draw themselves, without script or network."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

# What the Markdown extension arithmatex makes of formulas.
_FORMULA = re.compile(r'<(span|div) class="arithmatex">\s*\\[(\[](.*?)\\[)\]]\s*</\1>', re.DOTALL)

# Relations that the converter takes for letters, which have no room beside them.
_RELATIONS = re.compile(r"<mi>(&#x0(?:2AB0|2AAF|221D|227D|227C);)</mi>")


def on_page_content(content: str, **_: Any) -> str:
    """Replace the formulas of a page."""
    return _FORMULA.sub(_drawn, content)


def _drawn(formula: re.Match[str]) -> str:
    tag, latex = formula[1], html.unescape(formula[2]).strip()
    drawn = mathml(latex, display=tag == "div")
    return f'<{tag} class="formula">{drawn}</{tag}>'


def mathml(latex: str, display: bool) -> str:
    """Return a formula as MathML."""
    # The converter calls the environment that GitHub calls aligned by its older name.
    latex = latex.replace("{aligned}", "{align*}")
    drawn = convert(latex, display="block" if display else "inline")
    if "\\" in re.sub(r"<[^>]*>", "", drawn):
        raise ValueError(f"a formula has a command that is not known: {latex}")
    return _RELATIONS.sub(r"<mo>\1</mo>", drawn)
