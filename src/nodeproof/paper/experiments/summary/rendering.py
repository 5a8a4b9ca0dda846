"""The summary and the LaTeX tables (for booktabs), rendered by templates."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import quote

import numpy as np

from nodeproof.errors import MissingExtraError
from nodeproof.paper.experiments.methods import METHODS
from nodeproof.paper.experiments.panels import Axis, Curve, Panel
from nodeproof.paper.experiments.recovery import QUESTIONS, Question
from nodeproof.paper.experiments.results import Results, Series

__all__ = ["anchor", "render_page", "tables", "tex"]

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


def _render_tables(tables: list[Any], label: str) -> str:
    """Return LaTeX tables, for the package booktabs."""
    return str(_environment("latex").get_template("table.tex").render(tables=tables, label=label))


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


# As many columns of "98.7 ± 0.3" as fit on the width of a page.
_WIDE = 8

_NOTE = r"Test accuracy in percent, mean $\pm$ standard error over the seeds."
_YES = "Draws for which the answer is yes, in percent."


@dataclass(frozen=True)
class _Table:
    """The content of a table: above the rows, a line of names (if any) and one of sources."""

    about: str
    corner: str
    names: list[str]
    sources: list[str]
    rows: list[list[str]]
    note: str = _NOTE


def tables(results: Results, panel: Panel) -> str:
    """Return the tables of a panel.

    Rows are grid points; columns are the accuracies of a method from each of its sources, the best
    in bold. There is one table per method, and one for all methods with a single curve. A map has
    one table per curve, with rows and columns for its axes, or one per question if it shows
    answers; traced runs have one table of their last values.
    """
    run = {point.curve.name for point, _ in results.points if point.panel == panel.name}
    curves = [curve for curve in panel.curves if curve.name in run]
    if panel.kind == "trace":
        made = [_ends(results, panel, curves)]
    elif panel.kind == "answers":
        asked = [(q, c) for q in QUESTIONS for c in curves if c.method == q.method]
        made = [_asked(results, panel, curve, question) for question, curve in asked]
    elif panel.y is not None:
        ys = panel.y.quick if results.quick else panel.y.grid
        made = [_map(results, panel, curve, ys) for curve in curves]
    else:
        made = [_group(results, panel, *group) for group in _groups(curves)]
    label = f"tab:{re.sub('[^A-Za-z0-9]+', '-', panel.name)}"
    return _render_tables(made, label)


def _groups(curves: list[Curve]) -> list[tuple[str, list[Curve]]]:
    """Return the curves by method; those of methods with one curve together, without a name."""
    by_method: dict[str, list[Curve]] = {}
    for curve in curves:
        by_method.setdefault(curve.method, []).append(curve)
    groups = [(METHODS[m].title, found) for m, found in by_method.items() if len(found) > 1]
    groups.append(("", [found[0] for found in by_method.values() if len(found) == 1]))
    return [
        (title, found[k : k + _WIDE])
        for title, found in groups
        for k in range(0, len(found), _WIDE)
    ]


def _group(results: Results, panel: Panel, method: str, curves: list[Curve]) -> _Table:
    series = [results.series(panel.name, curve) for curve in curves]
    xs = sorted({float(x) for s in series for x in s.x})
    return _Table(
        f"{panel.title}: {method or 'other methods'}",
        _corner(panel),
        # The table of one method need not repeat its name in every column.
        [c.title or ("" if method else METHODS[c.method].title) for c in curves],
        ["" if c.title else "+".join(c.sources) for c in curves],
        [[f"{x:g}", *_row([_at(s, x) for s in series], bold=bool(method))] for x in xs],
    )


def _map(results: Results, panel: Panel, curve: Curve, ys: tuple[float, ...]) -> _Table:
    assert panel.y is not None
    series = [results.series(panel.name, curve, y=y) for y in ys]
    return _Table(
        f"{panel.title}: {curve.name}. Columns: {panel.y.label}",
        _corner(panel),
        [],
        [f"{y:g}" for y in ys],
        [[f"{x:g}", *_row([_at(s, x) for s in series], bold=False)] for x in series[0].x],
    )


def _asked(results: Results, panel: Panel, curve: Curve, question: Question) -> _Table:
    assert panel.y is not None
    ys = panel.y.quick if results.quick else panel.y.grid
    series = [results.answers(panel.name, curve, question.answer, y) for y in ys]
    xs = sorted({float(x) for s in series for x in s.x})
    shares = [[_at(s, x) for x in xs] for s in series]
    rows = [["--" if cell is None else f"${cell[0]:.0f}$" for cell in row] for row in shares]
    return _Table(
        f"{panel.title}: {question.title} ({curve.name}). Columns: {panel.x.label}",
        _formula(panel.y) or tex(panel.y.label),
        [],
        [f"{x:g}" for x in xs],
        [[f"{y:g}", *row] for y, row in zip(ys, rows, strict=True)],
        _YES,
    )


def _ends(results: Results, panel: Panel, curves: list[Curve]) -> _Table:
    rows = []
    for curve in curves:
        runs = results.traces(panel.name, curve)
        last = Series(np.zeros(1), [np.array([run["trace"]["value"][-1] for run in runs])])
        accuracy = results.series(panel.name, curve)
        length = np.mean([len(run["times"]) for run in runs])
        rows.append([
            tex(curve.name),
            f"{length:.1f}",
            _pair(last.mean[0], last.error[0]),
            _pair(100 * accuracy.mean[0], 100 * accuracy.error[0]),
        ])  # fmt: skip
    heads = ["iterations", "objective at the end", "accuracy"]
    return _Table(panel.title, "", [], heads, rows)


def _corner(panel: Panel) -> str:
    return _formula(panel.x) or tex(panel.name)


def _formula(axis: Axis) -> str:
    found = re.search(r"\$.+?\$", axis.label)
    return found[0] if found else ""


def _at(series: Series, x: float) -> tuple[float, float] | None:
    here = np.flatnonzero(series.x == x)
    if not len(here):
        return None
    return 100 * float(series.mean[here[0]]), 100 * float(series.error[here[0]])


def _row(cells: list[tuple[float, float] | None], bold: bool) -> list[str]:
    # What is shown as equal is equally bold.
    top = max((f"{cell[0]:.1f}" for cell in cells if cell), key=float, default="")
    return [_pair(*cell, bold=bold and f"{cell[0]:.1f}" == top) if cell else "--" for cell in cells]


def _pair(mean: float, error: float, bold: bool = False) -> str:
    shown = rf"\mathbf{{{mean:.1f}}}" if bold else f"{mean:.1f}"
    return rf"${shown} \pm {error:.1f}$"
