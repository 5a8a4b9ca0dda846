"""The summary of a run: what was run, which claims hold, the figures, the tables."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nodeproof import __version__
from nodeproof.paper.experiments.cells import code_digest
from nodeproof.paper.experiments.claims import Verdict, as_published
from nodeproof.paper.experiments.claims.checks import (
    Look,
    NotRunError,
    gaps,
    percent,
    signed,
    symbol,
)
from nodeproof.paper.experiments.claims.theorem_and_targets import OWN, THEOREM
from nodeproof.paper.experiments.figures import PAPER
from nodeproof.paper.experiments.methods import METHODS, READINGS
from nodeproof.paper.experiments.panels import PANELS, Curve, Panel
from nodeproof.paper.experiments.results import Results
from nodeproof.paper.experiments.summary.rendering import render_page, tables
from nodeproof.storage.atomic import atomic_path

__all__ = ["write_summary"]

_TITLE = "The experiments of the paper, run again"
_PUBLISHED = "CADO as published"
_BLOCK = ("fixed", "calibrated")

_FEW_SEEDS = 5

# Whether a claim holds for the published algorithm, and for block CADO.
_CASES = {
    (True, True): "These hold for CADO as published, in one reading and start at least, and for "
    "block CADO:",
    (True, False): "These hold for CADO as published, in one reading and start at least, but not "
    "for block CADO:",
    (False, True): "These hold for CADO as published in no reading that was run, but for block "
    "CADO:",
    (False, False): "These hold for neither:",
    (None, False): "These could not be checked on CADO as published:",
}

_BADGES = {
    True: {"kind": "yes", "text": "holds"},
    False: {"kind": "no", "text": "does not hold"},
    None: {"kind": "open", "text": "not run"},
}

# The picture of a figure is the first of these that was drawn.
_PICTURES = (".svg", ".png")

_AS_PRINTED = (
    "As the paper prints it: its ranges, colours and curves. Solver: {}; the graph alone: spectral "
    "clustering. Triangles at the edge stand for values outside the paper's range."
)

# A cell of a table: a text, a link (text and target) or a verdict (text and kind).
Cell = str | dict[str, str]


def write_summary(
    results: Results,
    verdicts: Sequence[Verdict],
    figures: Sequence[Path],
    out: Path,
    solver: str = "cado",
) -> list[Path]:
    """Write ``summary.md``, ``summary.html`` and ``tables/<panel>.tex``.

    Parameters
    ----------
    results : Results
        What was found.
    verdicts : sequence of Verdict
        The verdicts of `claims.check` on it.
    figures : sequence of path
        The files of the figures; those of one figure share their name except for the suffix.
    out : path
        A folder that exists.
    solver : str
        The method whose curves are in the figures that look like the paper's.

    Returns
    -------
    list of path
        The files that were written: the same bytes for the same results.

    Raises
    ------
    MissingExtraError
        If jinja2 is not installed.
    """
    content = {
        **_content(results, verdicts),
        "figures": _pictures(results, figures, out, METHODS[solver].title),
    }
    written = {
        out / "summary.md": render_page("markdown", **content),
        out / "summary.html": render_page("html", **content),
    }
    (out / "tables").mkdir(exist_ok=True)
    for panel in results.panels.values():
        written[out / "tables" / f"{panel.name}.tex"] = tables(results, panel)
    for path, text in written.items():
        with atomic_path(path) as temporary:
            # Bytes, so that the lines end alike on every system.
            temporary.write_bytes(text.encode())
    return list(written)


def _content(results: Results, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return what the template of the page shows beside the figures."""
    theorem = [v for v in verdicts if v.where.startswith(THEOREM)]
    own = [v for v in verdicts if v.where == OWN]
    papers = [v for v in verdicts if v not in theorem and v not in own]
    return {
        "title": _TITLE,
        "methods": {name: method.title for name, method in METHODS.items()},
        "settings": _settings(results),
        "coarse": results.quick or results.seeds < _FEW_SEEDS,
        "counts": _counts(papers),
        "claims": _by_case(papers),
        "theorem": _overview(theorem) if any(v.holds is not None for v in theorem) else None,
        "own": _overview(own) if own else None,
        "baselines": _against_baselines(results),
        "checks": [_details(name, found) for name, found in _by_name(verdicts).items()],
        "tables": [_link(p.title, f"tables/{name}.tex") for name, p in results.panels.items()],
    }


def _settings(results: Results) -> list[tuple[str, str]]:
    fits = {point.cell.key for point, _ in results.points}
    repeats = Counter(
        (point.panel, point.x, point.y, point.curve.name) for point, _ in results.points
    )
    fewest = min(repeats.values(), default=results.seeds)
    return [
        ("Command", _command(results)),
        ("Version", f"nodeproof {__version__}, source {code_digest()}"),
        (
            "Seeds",
            f"{results.seeds}" if fewest == results.seeds else f"{fewest} to {results.seeds}",
        ),
        ("Grid", "quick" if results.quick else "full"),
        ("Panels", ", ".join(results.panels)),
        ("Fits", str(len(fits))),
    ]


def _command(results: Results) -> str:
    """Return the command that runs these panels, by figures where these are whole."""
    run = {panel.name: panel for panel in results.panels.values()}
    pairs = [(run[name], known) for name, known in PANELS.items() if name in run]
    extended = any(
        panel.seeds is not known.seeds or _has(panel, known.extended) for panel, known in pairs
    )
    peers = any(_has(panel, known.peers) for panel, known in pairs)
    there = {name: p for name, p in PANELS.items() if p.including(extended, peers).curves}
    names: list[str] = []
    for panel in run.values():
        whole = {name for name, known in there.items() if known.figure == panel.figure}
        names.append(panel.figure if whole <= set(run) else panel.name)
    what = ["all"] if set(there) <= set(run) else list(dict.fromkeys(names))
    flags = {"--quick": results.quick, "--extended": extended, "--peers": peers}
    given = [flag for flag, on in flags.items() if on]
    return " ".join(["nodeproof reproduce", *what, f"--seeds {results.seeds}", *given])


def _has(panel: Panel, curves: Iterable[Curve]) -> bool:
    return bool({curve.name for curve in curves} & {curve.name for curve in panel.curves})


def _counts(verdicts: Sequence[Verdict]) -> list[list[str]]:
    """Return, for CADO in its most charitable reading and for each solver, how much holds."""
    found = _by_name(verdicts).values()
    published = [holds for holds in (as_published(v)[0] for v in found) if holds is not None]
    counts = [(f"{_PUBLISHED}, in one of its readings and starts at least", published)]
    for method in (*READINGS, *_BLOCK):
        held = [v.holds for v in verdicts if v.method == method and v.holds is not None]
        counts.append((METHODS[method].title, held))
    return [[name, str(sum(held)), str(len(held))] for name, held in counts if held]


def _by_case(verdicts: Sequence[Verdict]) -> list[tuple[str, Any]]:
    """Return the claims by whether the published algorithm and block CADO deliver them."""
    cases: dict[tuple[bool | None, bool], list[Verdict]] = {}
    for found in _by_name(verdicts).values():
        block = any(v.holds for v in found if v.method in _BLOCK)
        published = as_published(found)[0]
        cases.setdefault((published, published is not None and block), []).extend(found)
    return [(lead, _overview(cases[case])) for case, lead in _CASES.items() if case in cases]


def _overview(verdicts: Sequence[Verdict]) -> tuple[list[str], list[list[Cell]]]:
    """Return the header and the rows of a table: one row per claim, one column per solver.

    Solvers that none of the claims was checked on are left out, unless none was checked on any.
    """
    run = {v.method for v in verdicts if v.holds is not None} or {v.method for v in verdicts}
    methods = [method for method in METHODS if method in run]
    rows: list[list[Cell]] = []
    for name, found in _by_name(verdicts).items():
        said = {v.method: _BADGES[v.holds] for v in found}
        rows.append([_link(name, f"#{name}"), found[0].claim, *(said.get(m, "–") for m in methods)])
    return ["Check", "Claim", *(METHODS[method].title for method in methods)], rows


def _details(name: str, found: Sequence[Verdict]) -> dict[str, Any]:
    """Return one check: what is claimed, and what became of it for each solver."""
    return {
        "name": name,
        "claim": found[0].claim,
        "where": found[0].where,
        "criterion": found[0].criterion,
        "rows": [(v.solver, _BADGES[v.holds], v.by) for v in found],
        "notes": [
            f"Not for {v.solver} at: {'; '.join(v.exceptions)}." for v in found if v.exceptions
        ],
    }


def _by_name(verdicts: Iterable[Verdict]) -> dict[str, list[Verdict]]:
    found: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        found.setdefault(verdict.name, []).append(verdict)
    return found


def _link(text: str, target: str) -> dict[str, str]:
    return {"text": text, "target": target}


def _pictures(
    results: Results, figures: Sequence[Path], out: Path, solver: str
) -> list[dict[str, Any]]:
    by_name: dict[str, dict[str, Path]] = {}
    for path in figures:
        by_name.setdefault(path.stem, {})[path.suffix] = path
    shown = []
    for name, files in by_name.items():
        picture = next((files[s] for s in _PICTURES if s in files), None)
        if picture is None:
            continue
        figure = name.removesuffix(PAPER)
        panels = [panel for panel in results.panels.values() if panel.figure == figure]
        about = "; ".join(
            f"{panel.title} ({symbol(panel)})" if panel.kind == "curves" else panel.title
            for panel in panels
        )
        said = [f"{figure}: {about}." if about else f"{figure}."]
        if figure != name:
            said.append(_AS_PRINTED.format(solver))
        said += [panel.note for panel in panels if panel.note]
        shown.append({
            "source": _relative(picture, out),
            "caption": " ".join(said),
            "files": [_link(s[1:].upper(), _relative(path, out)) for s, path in files.items()],
        })  # fmt: skip
    return shown


def _relative(path: Path, out: Path) -> str:
    return Path(os.path.relpath(path, out)).as_posix()


def _against_baselines(results: Results) -> list[tuple[str, ...]]:
    """Return per panel how the full model compares with the best baseline at each place."""
    look = Look(results, "calibrated")
    rows: list[tuple[str, ...]] = []
    for panel in results.panels.values():
        if panel.kind != "curves":
            continue
        try:
            ours = look.curve(panel.name, "GFL")
            found = gaps(look, panel.name, ours, look.baselines(panel.name))
            bound = look.bound(panel.name).mean.mean()
        except NotRunError:
            continue
        if found:
            mean = float(np.mean([gap.mean for gap in found]))
            least = min(found, key=lambda gap: gap.mean)
            rows.append((
                panel.title, percent(bound), percent(ours.mean.mean()), signed(mean),
                signed(least.mean), f"{least.place}, {least.other}",
            ))  # fmt: skip
    return rows
