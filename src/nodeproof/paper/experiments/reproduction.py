"""Run figures by name, and write their tables, pictures and the summary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nodeproof.errors import InputError, MissingExtraError
from nodeproof.paper.baselines.networks import check_torch
from nodeproof.paper.experiments.cells import Cell, run
from nodeproof.paper.experiments.claims import Verdict, check
from nodeproof.paper.experiments.figures import PAPER, Style, check_style, draw
from nodeproof.paper.experiments.panels import PANELS, Panel, select
from nodeproof.paper.experiments.results import Results
from nodeproof.paper.experiments.summary import write_summary
from nodeproof.storage.journal import Record

__all__ = ["Reproduction", "reproduce"]


@dataclass(frozen=True)
class Reproduction:
    """What `reproduce` found and wrote.

    Attributes
    ----------
    results : Results
        Every panel that is finished in the folder, including those of earlier runs.
    verdicts : list of Verdict
        For each claim of the paper, whether it holds.
    figures : list of Path
        The pictures.
    notes : list of str
        What could not be written, and why.
    """

    results: Results
    verdicts: list[Verdict]
    figures: list[Path]
    notes: list[str]


def reproduce(
    names: list[str] | tuple[str, ...] = ("all",),
    out: Path | str = "reproduction",
    *,
    seeds: int = 10,
    quick: bool = False,
    extended: bool = False,
    peers: bool = False,
    style: Style = "ours",
    solver: str = "cado",
    jobs: int = -1,
    fresh: bool = False,
    begin: Callable[[list[Cell], int], None] | None = None,
    finished: Callable[[Cell], None] | None = None,
) -> Reproduction:
    """Run figures or panels by name, and write tables, pictures and a summary.

    Parameters
    ----------
    names : list of str
        Figures or panels of the registry; "all" is every one.
    out : path
        Folder, created if it does not exist. Finished cells in it are not run again; tables,
        pictures and the summary cover every panel that is finished in it at these seeds.
    seeds : int
        Seeds 0, 1, … of the data and of the methods.
    quick : bool
        Whether to measure at a few grid points only.
    extended : bool
        Whether to run the curves that take long, too.
    peers : bool
        Whether to run graph neural networks, too; needs torch and torch_geometric.
    style : {"ours", "paper", "both"}
        How figures are drawn: with every curve, as the paper prints them (``fig1_paper.png`` and
        so on, for the three figures that it has), or both.
    solver : str
        Name in `METHODS`: whose curves are drawn in the style of the paper.
    jobs, fresh, begin, finished
        As in `run`.
    """
    out = Path(out)
    asked = [panel.including(extended, peers) for panel in select(names)]
    if not any(panel.curves for panel in asked):
        raise InputError(f"{', '.join(panel.name for panel in asked)}: run with --extended only")
    check_style(style, solver)
    if peers:
        check_torch()
    out.mkdir(exist_ok=True)
    cells = [point.cell for panel in asked for point in panel.points(seeds, quick)]
    records = run(cells, out, jobs=jobs, fresh=fresh, begin=begin, finished=finished)
    finished_panels = (_finished(panel, records, seeds, quick) for panel in PANELS.values())
    results = Results([p for p in finished_panels if p is not None], records, seeds, quick)
    results.write(out)
    verdicts = check(results)
    notes: list[str] = []
    figures: list[Path] = []
    try:
        figures = draw(results, out, style, solver)
        if style != "ours" and not any(path.stem.endswith(PAPER) for path in figures):
            notes.append(f"no figure of the paper has finished curves of {solver!r}")
    except MissingExtraError as missing:
        notes.append(f"no pictures: {missing}")
    try:
        write_summary(results, verdicts, figures, out, solver)
    except MissingExtraError as missing:
        notes.append(f"no summary: {missing}")
    return Reproduction(results, verdicts, figures, notes)


def _finished(panel: Panel, records: Mapping[str, Record], seeds: int, quick: bool) -> Panel | None:
    """Return the panel with as many of its optional curves as are finished; None if it is not."""
    for extended, peers in ((True, True), (True, False), (False, True), (False, False)):
        whole = panel.including(extended, peers)
        keys = [point.cell.key for point in whole.points(seeds, quick)]
        if keys and all(key in records for key in keys):
            return whole
    return None
