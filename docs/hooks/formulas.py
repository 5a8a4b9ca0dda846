"""Convert LaTeX formulas to MathML, which browsers render without scripts or network.

Not every system has a font for mathematics, so the glyphs that are used come with the pages.
"""

from __future__ import annotations

import html
import re
import unicodedata
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont
from latex2mathml.converter import convert

# Formulas as the Markdown extension arithmatex writes them.
_FORMULA = re.compile(r'<(span|div) class="arithmatex">\s*\\[(\[](.*?)\\[)\]]\s*</\1>', re.DOTALL)

_NAMES = "argmin|log|exp|softmax|mean|max|min|tr|diag|artanh|cosh"
_ROOM = '<mspace width="0.17em"></mspace>'

# Corrections to the converter's output, applied in this order.
_TOUCHES = [
    # Relations are operators, not letters, and need space around them.
    (r"<mi>(&#x0(?:2AB0|2AAF|221D|227D|227C);)</mi>", r"<mo>\1</mo>"),
    # Norm bars do not stretch.
    (r"<mo>&#x02016;</mo>", '<mo stretchy="false" form="prefix">&#x02016;</mo>'),
    # A unary minus has no space after it.
    (
        r"(<(?:mrow|mtd[^>]*)>(?:<mi />)?|<mo[^>]*>(?:&#x00028;|&#x0005B;|\[|&#x0003D;)</mo>)"
        r"<mo>&#x02212;</mo>",
        r'\1<mo form="prefix">&#x02212;</mo>',
    ),
    # Functions are identifiers, with a thin space unless an operator or parenthesis is beside them.
    (rf"<mo>({_NAMES})</mo>", r"<mi>\1</mi>"),
    (rf"(?<!<msub>)(?<!<munder>)<mi>({_NAMES})</mi>(?!<mo|</)", rf"<mi>\1</mi>{_ROOM}"),
    (rf"(</m(?:i|n|row|sub|sup|subsup|frac)>)(<m(?:sub|under)>)?<mi>({_NAMES})</mi>",
     rf"\1{_ROOM}\2<mi>\3</mi>"),
    (rf"(<(msub|munder)><mi>(?:{_NAMES})</mi>(?:(?!</?msub>|</?munder>).)*</\2>)(?!<mo|</)",
     rf"\1{_ROOM}"),
]  # fmt: skip

# Glyphs that are drawn without occurring in the text.
_DRAWN = "√‖⟨⟩()[]{}|−"

#: all characters in the formulas of the pages so far
_used: set[str] = set()


def on_page_content(content: str, **_: Any) -> str:
    """Replace the formulas of a page."""
    return _FORMULA.sub(_drawn, content)


def _drawn(formula: re.Match[str]) -> str:
    tag, latex = formula[1], html.unescape(formula[2]).strip()
    drawn = mathml(latex, display=tag == "div")
    _used.update(html.unescape(re.sub(r"<[^>]*>", "", drawn)))
    return f'<{tag} class="formula">{drawn}</{tag}>'


def mathml(latex: str, display: bool) -> str:
    """Return a formula as MathML."""
    # GitHub's name for the environment is aligned; the converter only knows align*.
    latex = latex.replace("{aligned}", "{align*}")
    drawn = convert(latex, display="block" if display else "inline")
    if "\\" in re.sub(r"<[^>]*>", "", drawn):
        raise ValueError(f"a command in this formula is not known: {latex}")
    for pattern, better in _TOUCHES:
        drawn = re.sub(pattern, better, drawn)
    return drawn


def on_post_build(config: Any, **_: Any) -> None:
    """Write the font with the glyphs of all formulas."""
    (Path(config["site_dir"]) / "math.woff").write_bytes(font_of(_used))


def font_of(used: set[str]) -> bytes:
    """Return a mathematical font with these characters, in all sizes and in italics."""
    # Browsers render a single letter with the italic mathematical alphabet.
    alphabets = {chr(code) for code in (*range(0x1D434, 0x1D468), *range(0x1D6E2, 0x1D71C), 0x210E)}
    italic = {letter for letter in alphabets if unicodedata.normalize("NFKC", letter) in used}
    font = TTFont(_home_of("ziamath") / "fonts/STIXTwoMath-Regular.ttf")
    options = Options(layout_features=["ssty"], name_IDs=["*"], notdef_outline=True)
    subset = Subsetter(options)
    subset.populate(text="".join({*used, *italic, *_DRAWN}))
    subset.subset(font)
    font.flavor = "woff"
    written = BytesIO()
    font.save(written)
    return written.getvalue()


def _home_of(package: str) -> Path:
    """Return the folder of a package without importing it."""
    found = find_spec(package)
    if found is None or found.origin is None:
        raise ImportError(f"{package} is not installed; run: pip install 'nodeproof[docs]'")
    return Path(found.origin).parent
