"""Measure what is not measured yet, keep each record at once, and delete the data afterwards."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import partial
from itertools import groupby
from pathlib import Path

from nodeproof.errors import InputError, MissingExtraError
from nodeproof.runtime.threads import default_threads
from nodeproof.storage.atomic import atomic_path
from nodeproof.storage.journal import JOURNAL, Journal, Record
from processes import Tell, run_process
from scaling.cells import Cell, plan, preparations
from scaling.data import FEWEST
from scaling.report import Report

__all__ = ["bench", "run_cell"]

# Bytes per link that a graph on disk takes at least: as a table, as a graph, and while converting.
_LEAST_ON_DISK = 24


def bench(
    links: Iterable[float] = (10**4, 10**5, 10**6, 10**7),
    out: Path = Path("build/bench"),
    *,
    repeats: int = 3,
    peers: bool = True,
    peers_up_to: float = 1e6,
    disk_from: float = 2e8,
    threads: int | None = None,
    seed: int = 0,
    fresh: bool = False,
    keep_data: bool = False,
    begin: Callable[[list[Cell], int], None] = lambda missing, finished: None,
    tell: Callable[[Cell, str], None] = lambda cell, text: None,
    finished: Callable[[Cell, Record], None] = lambda cell, record: None,
) -> Report:
    """Measure fits on sparse planted graphs of these sizes, and peers beside them.

    Every measurement runs in a process of its own and is kept as soon as it is finished; what is
    finished, with the same code on the same machine, is not measured again.

    Parameters
    ----------
    links : iterable of numbers
        Sizes of the graphs.
    out : path
        Folder, created if it does not exist.
    repeats : int
        Number of fits, of which the fastest counts.
    peers : bool
        Whether to measure other methods, too,
    peers_up_to : float
        up to this many links.
    disk_from : float
        From this many links on, the graph stays on disk and only graph and labels are fitted.
    threads : int, optional
        Threads of a fit; every core by default.
    seed : int
        Seed of the data.
    fresh : bool
        Whether to discard what is finished in the folder.
    keep_data : bool
        Whether to leave the graphs in the folder.
    begin, tell, finished : callable
        Called before the work with the cells to be measured and the number of finished ones; with
        news of a cell; and with each cell and its record.
    """
    sizes = sorted({int(size) for size in links})
    if not sizes or sizes[0] < FEWEST:
        raise InputError(f"graphs of {sizes[:1]} links are too small: give at least {FEWEST}")
    cells = plan(
        sizes,
        disk_from=int(disk_from),
        peers=peers,
        peers_up_to=int(peers_up_to),
        seed=seed,
        repeats=repeats,
        threads=threads or default_threads(),
    )
    if any(cell.kind == "stream" for cell in cells) and not importlib.util.find_spec("duckdb"):
        raise MissingExtraError("duckdb", "big")
    out.mkdir(parents=True, exist_ok=True)
    with Journal(out / JOURNAL, fresh) as journal:
        if fresh:
            shutil.rmtree(out / "data", ignore_errors=True)
        missing = journal.missing(cells)
        _check_room(out, [cell.links for cell in missing if cell.kind == "stream"])
        begin(missing, len(cells) - len(missing))
        for size, asked in groupby(missing, key=lambda cell: cell.links):
            folder = out / "data" / f"{size}-{seed}"
            here = list(asked)
            work = partial(run_cell, folder=folder, tell=tell)
            journal.run(here, work, finished=finished)
            # The next run tries again what has failed, with the same data.
            if not keep_data and not journal.missing(here):
                shutil.rmtree(folder, ignore_errors=True)
        if not keep_data and (out / "data").is_dir() and not any((out / "data").iterdir()):
            (out / "data").rmdir()
        return Report.of(cells, journal.records, peers=peers)


def run_cell(cell: Cell, folder: Path, tell: Callable[[Cell, str], None]) -> Record:
    """Create the data of a cell where they are missing, then measure it in a new process.

    Returns
    -------
    dict
        The figures, and those of the preparations by their kind; or an "error".
    """
    steps = preparations(cell)
    if any(_prepared(step, folder) is False for step in steps):
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for step in steps:
        if not _prepared(step, folder):
            record = measure_apart(step, folder, lambda text: tell(cell, text))
            if "error" in record:
                return record
            with atomic_path(_marker(step, folder)) as temporary:
                temporary.write_text(json.dumps({"key": step.key, "record": record}))
    prepared = {step.kind: json.loads(_marker(step, folder).read_text()) for step in steps}
    record = measure_apart(cell, folder, lambda text: tell(cell, text))
    return {**{kind: found["record"] for kind, found in prepared.items()}, **record}


def measure_apart(cell: Cell, folder: Path, tell: Tell) -> Record:
    """Measure a cell in a new process."""
    tell(cell.title)
    order = {"cell": asdict(cell), "folder": str(folder.resolve())}
    return run_process("scaling.measure", order, threads=cell.threads, tell=tell)


def _marker(step: Cell, folder: Path) -> Path:
    return folder / f"{step.kind}.json"


def _prepared(step: Cell, folder: Path) -> bool | None:
    """Tell whether the data are there; false if other code created them, None if there are none."""
    try:
        return bool(json.loads(_marker(step, folder).read_text())["key"] == step.key)
    except FileNotFoundError:
        return None
    except (ValueError, LookupError, TypeError):
        return False


def _check_room(out: Path, sizes: list[int]) -> None:
    free = shutil.disk_usage(out).free
    for size in sizes:
        needed = _LEAST_ON_DISK * size
        if needed > free:
            raise InputError(
                f"{size:.0e} links need {needed / 1e9:.0f} GB of disk or more, and {out} has "
                f"{free / 1e9:.0f} GB; give another --out, or fewer links"
            )
