"""Run figures by name, and write their tables, pictures and the summary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nodeproof.errors import MissingExtraError
from nodeproof.paper.experiments.cells import Cell, run
from nodeproof.paper.experiments.claims import Verdict, check
from nodeproof.paper.experiments.figures import draw
from nodeproof.paper.experiments.panels import PANELS, select
from nodeproof.paper.experiments.results import Results
from nodeproof.paper.experiments.summary import write_summary

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
    jobs, fresh, begin, finished
        As in `run`.
    """
    out = Path(out)
    asked = select(names)
    out.mkdir(exist_ok=True)
    cells = [point.cell for panel in asked for point in panel.points(seeds, quick)]
    records = run(cells, out, jobs=jobs, fresh=fresh, begin=begin, finished=finished)
    complete = [
        panel
        for panel in PANELS.values()
        if all(point.cell.key in records for point in panel.points(seeds, quick))
    ]
    results = Results(complete, records, seeds, quick)
    results.write(out)
    verdicts = check(results)
    notes: list[str] = []
    figures: list[Path] = []
    try:
        figures = draw(results, out)
    except MissingExtraError as missing:
        notes.append(f"no pictures: {missing}")
    try:
        write_summary(results, verdicts, figures, out)
    except MissingExtraError as missing:
        notes.append(f"no summary: {missing}")
    return Reproduction(results, verdicts, figures, notes)
