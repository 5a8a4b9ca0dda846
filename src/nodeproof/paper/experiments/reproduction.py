"""From the names of figures to everything that is written about them."""

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
    """What `reproduce` has found and written.

    Attributes
    ----------
    results : Results
        Every panel that is finished in the folder, also by earlier runs.
    verdicts : list of Verdict
        Each claim of the paper: does it hold.
    figures : list of Path
        The pictures.
    notes : list of str
        What could not be done, and why.
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
        Folder, made if it is not there. Cells that are finished there are not run again; the
        tables, the pictures and the summary tell of every panel that is finished there at these
        seeds.
    seeds : int
        Seeds 0, 1, … of the data and of the methods.
    quick : bool
        Whether to measure at a few places only.
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
    write_summary(results, verdicts, figures, out)
    return Reproduction(results, verdicts, figures, notes)
