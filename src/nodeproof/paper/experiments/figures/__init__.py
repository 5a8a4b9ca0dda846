"""Draw the figures: whatever panels the results have, each figure as PNG, SVG and PDF.

There are two styles: "ours" shows every curve, "paper" what the paper's own figures show.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nodeproof.errors import InputError, MissingExtraError
from nodeproof.paper.experiments.methods import METHODS
from nodeproof.paper.experiments.results import Results
from nodeproof.storage.atomic import atomic_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PAPER", "Style", "check_style", "draw"]

Style = Literal["ours", "paper", "both"]

#: what the name of a figure ends with if it is drawn as the paper prints it
PAPER = "_paper"

# Any: matplotlib types the names of its settings, each version others.
_SETTINGS: Any = {
    "font.size": 7,
    "axes.labelsize": 7,
    "axes.titlesize": 8,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 0.4,
    "grid.color": "0.88",
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "legend.fontsize": 6.8,
    "pdf.fonttype": 42,
    # Without a salt, names inside the SVG would differ from run to run.
    "svg.hashsalt": "nodeproof",
}

# Dates would make two drawings of the same results differ.
_FORMATS: dict[str, dict[str, Any]] = {
    "png": {},
    "svg": {"metadata": {"Date": None}},
    "pdf": {"metadata": {"CreationDate": None}},
}


def draw(results: Results, out: Path, style: Style = "ours", solver: str = "cado") -> list[Path]:
    """Draw every figure that the panels of the results belong to.

    Parameters
    ----------
    results : Results
        The results.
    out : path
        A folder that exists; the files are named after the figure: ``fig1.png`` and so on, and
        ``fig1_paper.png`` for a figure as the paper prints it.
    style : {"ours", "paper", "both"}
        "paper" draws the three figures of the paper as it prints them, and no other.
    solver : str
        In the style of the paper: the method whose curves are drawn.

    Returns
    -------
    list of path
        The files: of each figure a PNG, an SVG and a PDF, the same bytes for the same results.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    check_style(style, solver)
    written = []
    with settings():
        from nodeproof.paper.experiments.figures.printed import compose_printed

        for name in dict.fromkeys(panel.figure for panel in results.panels.values()):
            if style != "paper":
                written += _save(compose(results, name), out / name)
            printed = compose_printed(results, name, solver) if style != "ours" else None
            if printed is not None:
                written += _save(printed, out / f"{name}{PAPER}", dpi=400)
    return written


def check_style(style: str, solver: str) -> None:
    """Refuse a style or a solver that does not exist."""
    if style not in ("ours", "paper", "both"):
        raise InputError(f"style must be 'ours', 'paper' or 'both', got {style!r}")
    if solver not in METHODS:
        raise InputError(f"there is no method {solver!r}; methods: {', '.join(METHODS)}")


def _save(figure: Figure, stem: Path, dpi: int = 200) -> list[Path]:
    paths = []
    for suffix, how in _FORMATS.items():
        path = stem.with_name(f"{stem.name}.{suffix}")
        with atomic_path(path) as temporary:
            figure.savefig(temporary, format=suffix, dpi=dpi, **how)
        paths.append(path)
    return paths


def compose(results: Results, name: str) -> Figure:
    """Return one figure: its panels of curves, then its maps and its traced runs.

    It looks as intended only within `settings`.
    """
    from matplotlib.figure import Figure

    from nodeproof.paper.experiments.figures.curves import draw_curves, draw_traces
    from nodeproof.paper.experiments.figures.maps import draw_answers, draw_map
    from nodeproof.paper.experiments.figures.page import Page

    panels = [panel for panel in results.panels.values() if panel.figure == name]
    page = Page(Figure())
    curves = [panel for panel in panels if panel.kind == "curves"]
    if curves:
        draw_curves(page, results, curves)
    for panel in panels:
        if panel.kind == "map":
            draw_map(page, results, panel)
        elif panel.kind == "trace":
            draw_traces(page, results, panel)
        elif panel.kind == "answers":
            draw_answers(page, results, panel)
    return page.finish()


@contextmanager
def settings() -> Iterator[None]:
    """Apply the settings of the figures, and restore the user's own afterwards."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise MissingExtraError("matplotlib", "plot") from None
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        yield
