"""Run cells on every core, keep each as soon as it is finished, take up what is there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

from nodeproof.experiments.cells import Cell, run_cell
from nodeproof.experiments.journal import Journal
from nodeproof.workers import serve

__all__ = ["JOURNAL", "run"]

#: the file of finished cells, in the folder of the results
JOURNAL = "cells.jsonl"


def run(
    cells: Iterable[Cell],
    out: Path,
    *,
    jobs: int = -1,
    fresh: bool = False,
    begin: Callable[[list[Cell], int], None] | None = None,
    finished: Callable[[Cell], None] | None = None,
) -> dict[str, dict[str, Any]]:
    """Run the cells that are not finished yet and return the records of all that are.

    Parameters
    ----------
    cells : iterable of Cell
        What is wanted; a cell that is asked for twice is run once.
    out : path
        Folder of the results; finished cells are kept there, one line of JSON each.
    jobs : int
        Processes; −1 for every core.
    fresh : bool
        Whether to forget what an earlier run has finished.
    begin : callable, optional
        Told, before the work, which cells are to be run and how many were finished before.
    finished : callable, optional
        Told of each cell that is run.

    Returns
    -------
    dict
        Every record in the folder, by the key of the cell.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C; what is finished is kept.

    Examples
    --------
    >>> import tempfile
    >>> from nodeproof.experiments import Cell, run
    >>> cells = [Cell("genie", "G", seed, {"cluster_size": 20}) for seed in range(3)]
    >>> ran = []
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for asked in (cells[:2], cells):
    ...         records = run(asked, Path(folder), jobs=1, finished=ran.append)
    >>> [cell.seed for cell in ran], len(records)
    ([0, 1, 2], 3)
    """
    wanted = {cell.key: cell for cell in cells}
    with Journal(out / JOURNAL, fresh) as journal:
        missing = [cell for key, cell in wanted.items() if key not in journal.records]
        if begin:
            begin(missing, len(wanted) - len(missing))
        # Heavy cells first, so that no core is left alone with one at the end; cells of the
        # same data together, so that these are drawn once.
        missing.sort(key=lambda cell: (-cell.work, cell.data_key))
        parallel = Parallel(jobs, return_as="generator_unordered")
        if missing:
            calls = (delayed(_keyed)(cell, os.getpid()) for cell in missing)
            with closing(parallel(calls)) as answers:
                for key, record in answers:
                    journal.add(key, record)
                    if finished:
                        finished(wanted[key])
        return journal.records


def _keyed(cell: Cell, parent: int) -> tuple[str, dict[str, Any]]:
    if os.getpid() != parent:
        serve(parent)
    try:
        return cell.key, run_cell(cell)
    except Exception as error:
        raise RuntimeError(f"{error}, in the cell {cell.key}") from error
