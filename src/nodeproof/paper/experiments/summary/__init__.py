"""The summary of a run: what was run, which claims hold, the figures, the tables."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from nodeproof import __version__
from nodeproof.paper.experiments.cells import code_digest
from nodeproof.paper.experiments.claims import Verdict
from nodeproof.paper.experiments.claims.checks import (
    Look,
    NotRunError,
    gaps,
    percent,
    signed,
    symbol,
)
from nodeproof.paper.experiments.claims.own import OWN
from nodeproof.paper.experiments.claims.theorem import THEOREM
from nodeproof.paper.experiments.methods import METHODS
from nodeproof.paper.experiments.panels import PANELS
from nodeproof.paper.experiments.results import Results
from nodeproof.paper.experiments.summary.document import (
    Badge,
    Block,
    Cell,
    Figure,
    Heading,
    Items,
    Link,
    Paragraph,
    Quote,
    Table,
    anchor,
    to_html,
    to_markdown,
)
from nodeproof.paper.experiments.summary.latex import tables
from nodeproof.storage.atomic import atomic_path

__all__ = ["write_summary"]

_TITLE = "The experiments of the paper, run again"
_PAPER = "Bounds on Perfect Node Classification: A Convex Graph Clustering Perspective"
_PUBLISHED = METHODS["cado"].title
_BLOCK = (METHODS["fixed"].title, METHODS["calibrated"].title)

_FEW_SEEDS = 5

# Whether a claim holds for the published algorithm, and for block CADO.
_CASES = {
    (False, True): "The published algorithm does not deliver what the text says; block CADO does "
    "(why: see nodeproof.solvers.CADO in the documentation):",
    (False, False): "Neither delivers what the text says:",
    (True, False): "The published algorithm delivers what the text says; block CADO does not:",
    (True, True): "Both deliver what the text says:",
    (None, False): "These could not be checked on the published algorithm:",
}

# The picture of a figure is the first of these that was drawn.
_PICTURES = (".svg", ".png")


def write_summary(
    results: Results, verdicts: Sequence[Verdict], figures: Sequence[Path], out: Path
) -> list[Path]:
    """Write ``summary.md``, ``summary.html`` and ``tables/<panel>.tex``.

    Parameters
    ----------
    results : Results
        What was found.
    verdicts : sequence of Verdict
        What `claims.check` says of it.
    figures : sequence of path
        The files of the figures; those of one figure share their name but for the suffix.
    out : path
        A folder that exists.

    Returns
    -------
    list of path
        The files that were written: the same bytes for the same results.
    """
    page = list(_page(results, verdicts, figures, out))
    written = {
        out / "summary.md": to_markdown(_TITLE, page),
        out / "summary.html": to_html(_TITLE, page),
    }
    (out / "tables").mkdir(exist_ok=True)
    for panel in results.panels.values():
        written[out / "tables" / f"{panel.name}.tex"] = tables(results, panel)
    for path, text in written.items():
        with atomic_path(path) as temporary:
            # Bytes, so that the lines end alike on every system.
            temporary.write_bytes(text.encode())
    return list(written)


def _page(
    results: Results, verdicts: Sequence[Verdict], figures: Sequence[Path], out: Path
) -> Iterator[Block]:
    body: list[Block] = [
        *_run(results),
        *_how_to_read(),
        *_claims([v for v in verdicts if v.where != OWN and not _about_theorem(v)]),
        *_theorem([v for v in verdicts if _about_theorem(v)]),
        *_own_bars([v for v in verdicts if v.where == OWN]),
        *_pictures(results, figures, out),
        *_against_baselines(results),
        *_details(verdicts),
        *_files(results),
    ]
    yield Paragraph(
        f"What nodeproof found when it ran the experiments of the paper “{_PAPER}”, and others "
        "beyond them, on planted data."
    )
    yield Items(
        tuple(
            Link(block.text, f"#{anchor(block.text)}")
            for block in body
            if isinstance(block, Heading) and block.level == 2
        )
    )
    yield from body


def _run(results: Results) -> Iterator[Block]:
    fits = {point.cell.key for point, _ in results.points}
    repeats = Counter(
        (point.panel, point.x, point.y, point.curve.name) for point, _ in results.points
    )
    fewest = min(repeats.values(), default=results.seeds)
    seeds = f"{results.seeds}" if fewest == results.seeds else f"{fewest} to {results.seeds}"
    yield Heading(2, "What was run")
    yield Table(
        ("Setting", "Value"),
        (
            ("Command", _command(results)),
            ("Version", f"nodeproof {__version__}, source {code_digest()}"),
            ("Seeds", seeds),
            ("Grid", "quick" if results.quick else "full"),
            ("Panels", ", ".join(results.panels)),
            ("Fits", str(len(fits))),
        ),
    )
    if results.quick or results.seeds < _FEW_SEEDS:
        yield Paragraph(
            "The grid is coarse or the seeds are few: a close verdict may change in a full run."
        )


def _how_to_read() -> Iterator[Block]:
    yield Heading(2, "How to read it")
    yield Items((
        "A node is classified from up to three sources: Graph, Feature and Label. The full model "
        "uses all three.",
        "Accuracy is taken over the nodes without a label and averaged over the seeds; where a "
        "method was given no labels, up to the names of the classes. ± is one standard error.",
        "The genie bound is the accuracy of a classifier that knows the true parameters and the "
        "true classes of all other nodes. No method beats it by more than chance.",
        f"{_PUBLISHED}: Algorithm 1 of the paper, with its weights and losses.",
        f"{METHODS['fixed'].title}: the same objective, solved node by node.",
        f"{METHODS['calibrated'].title}: solved node by node, with weights that are estimated "
        "from the data.",
    ))  # fmt: skip


def _command(results: Results) -> str:
    """Return the command that runs these panels, by figures where these are whole."""
    names: list[str] = []
    for panel in results.panels.values():
        whole = {name for name, known in PANELS.items() if known.figure == panel.figure}
        names.append(panel.figure if whole <= set(results.panels) else panel.name)
    what = ["all"] if set(PANELS) <= set(results.panels) else list(dict.fromkeys(names))
    quick = ["--quick"] if results.quick else []
    return " ".join(["nodeproof reproduce", *what, f"--seeds {results.seeds}", *quick])


def _claims(verdicts: Sequence[Verdict]) -> Iterator[Block]:
    """Say where the published algorithm does not deliver what the text says, and block does."""
    yield Heading(2, "The claims of the paper")
    checked = [v for v in verdicts if v.holds is not None]
    counts = []
    for solver in (_PUBLISHED, *_BLOCK):
        held = [v.holds for v in checked if v.solver == solver]
        counts.append(f"{solver}: {sum(map(bool, held))} of {len(held)}")
    yield Paragraph(f"Claims that hold, of those that could be checked. {'; '.join(counts)}.")
    cases: dict[tuple[bool | None, bool], list[Verdict]] = {}
    for found in _by_name(verdicts).values():
        holds = {v.solver: v.holds for v in found}
        block = any(holds.get(solver) for solver in _BLOCK)
        published = holds.get(_PUBLISHED)
        cases.setdefault((published, published is not None and block), []).extend(found)
    for case, lead in _CASES.items():
        if case in cases:
            yield Paragraph(lead)
            yield _overview(cases[case])


def _about_theorem(verdict: Verdict) -> bool:
    return verdict.where.startswith(THEOREM)


def _theorem(verdicts: Sequence[Verdict]) -> Iterator[Block]:
    """Say what became of Theorem 1, where anything of it was run."""
    if all(v.holds is None for v in verdicts):
        return
    yield Heading(2, "The recovery theorem")
    yield Paragraph(
        "Every node has a score for each class, its own class ahead by 1 but for noise. Of each "
        "draw it is asked whether Theorem 1 promises that the classes are recovered, whether that "
        "is proven, whether block CADO finds them, and whether any method could. The constants "
        "that the printed theorem leaves open are set to 1."
    )
    yield _overview(verdicts)


def _own_bars(verdicts: Sequence[Verdict]) -> Iterator[Block]:
    if verdicts:
        yield Heading(2, "Our own bars")
        yield _overview(verdicts)


def _overview(verdicts: Sequence[Verdict]) -> Table:
    run = {v.solver for v in verdicts}
    solvers = [method.title for method in METHODS.values() if method.title in run]
    rows: list[tuple[Cell, ...]] = []
    for name, found in _by_name(verdicts).items():
        said = {v.solver: _badge(v.holds) for v in found}
        rows.append((Link(name, f"#{name}"), found[0].claim, *(said.get(s, "–") for s in solvers)))
    return Table(("Check", "Claim", *solvers), tuple(rows))


def _by_name(verdicts: Iterable[Verdict]) -> dict[str, list[Verdict]]:
    found: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        found.setdefault(verdict.name, []).append(verdict)
    return found


def _badge(holds: bool | None) -> Badge:
    if holds is None:
        return Badge("open", "not run")
    return Badge("yes", "holds") if holds else Badge("no", "does not hold")


def _details(verdicts: Sequence[Verdict]) -> Iterator[Block]:
    yield Heading(2, "Each check in numbers")
    for name, found in _by_name(verdicts).items():
        yield Heading(3, name)
        yield Quote(found[0].claim, found[0].where)
        yield Paragraph(f"Criterion: {found[0].criterion}.")
        yield Table(
            ("Solver", "Verdict", "By how much"),
            tuple((v.solver, _badge(v.holds), v.by) for v in found),
        )
        for v in found:
            if v.exceptions:
                yield Paragraph(f"Not for {v.solver} at: {'; '.join(v.exceptions)}.", note=True)


def _pictures(results: Results, figures: Sequence[Path], out: Path) -> Iterator[Block]:
    by_name: dict[str, dict[str, Path]] = {}
    for path in figures:
        by_name.setdefault(path.stem, {})[path.suffix] = path
    if by_name:
        yield Heading(2, "Figures")
    for name, files in by_name.items():
        shown = next((files[s] for s in _PICTURES if s in files), None)
        if shown is None:
            continue
        panels = [panel for panel in results.panels.values() if panel.figure == name]
        about = "; ".join(
            f"{panel.title} ({symbol(panel)})" if panel.kind == "curves" else panel.title
            for panel in panels
        )
        links = tuple(Link(s[1:].upper(), _relative(path, out)) for s, path in files.items())
        yield Figure(_relative(shown, out), f"{name}: {about}." if about else f"{name}.", links)


def _relative(path: Path, out: Path) -> str:
    return Path(os.path.relpath(path, out)).as_posix()


def _against_baselines(results: Results) -> Iterator[Block]:
    look = Look(results, "calibrated")
    rows = []
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
    if not rows:
        return
    yield Heading(2, "Against the baselines")
    yield Paragraph(
        "The full model with block CADO, calibrated, against the best baseline at each grid "
        "point: the mean difference over the grid, in points, and the least, with its place."
    )
    header = ("Panel", "Genie bound", "Full model", "Difference", "Least", "Where, which")
    yield Table(header, tuple(rows), frozenset({1, 2, 3, 4}))


def _files(results: Results) -> Iterator[Block]:
    yield Heading(2, "LaTeX tables")
    yield Items(
        tuple(Link(panel.title, f"tables/{name}.tex") for name, panel in results.panels.items())
    )
