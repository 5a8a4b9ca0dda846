"""Measure what is not measured yet, keep each figure at once, and tidy up the data."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

from nodeproof.bench.cells import Cell, plan, preparations
from nodeproof.bench.data import FEWEST
from nodeproof.bench.report import Report
from nodeproof.errors import InputError, MissingExtraError
from nodeproof.paper.experiments.runner import Journal
from nodeproof.runtime.threads import default_threads
from nodeproof.solvers.base import check_count
from nodeproof.storage.atomic import atomic_path

__all__ = ["JOURNAL", "bench", "run_process"]

#: the file of finished measurements, in the folder of the results
JOURNAL = "cells.jsonl"

# Bytes a link that a graph on disk takes at least: as a table, as a graph, and on the way.
_LEAST_ON_DISK = 24

Record = dict[str, Any]


class _MeasuringError(RuntimeError):
    """A measurement ended without figures; the message says why in one line."""


def bench(
    links: Iterable[float] = (10**4, 10**5, 10**6, 10**7),
    out: Path | str = "bench",
    *,
    repeats: int = 3,
    peers: bool = True,
    peers_up_to: float = 1e6,
    disk_from: float = 2e8,
    jobs: int | None = None,
    seed: int = 0,
    fresh: bool = False,
    keep_data: bool = False,
    begin: Callable[[list[Cell], int], None] | None = None,
    tell: Callable[[Cell, str], None] | None = None,
    finished: Callable[[Cell, str], None] | None = None,
) -> Report:
    """Measure fits on sparse planted graphs of these sizes, and peers beside them.

    Every measurement has a process of its own and is kept as soon as it is finished; what is
    finished, by the same code on the same machine, is not measured again.

    Parameters
    ----------
    links : iterable of numbers
        Sizes of the graphs.
    out : path
        Folder, made if it is not there.
    repeats : int
        The best of so many fits counts.
    peers : bool
        Whether to measure other methods, too,
    peers_up_to : float
        up to this many links.
    disk_from : float
        From this many links on, the graph stays on disk and only graph and labels are fitted.
    jobs : int, optional
        Threads of a fit; every core by default.
    seed : int
        Of the data.
    fresh : bool
        Whether to forget what is finished in the folder.
    keep_data : bool
        Whether to leave the graphs in the folder.
    begin : callable, optional
        Told, before the work, which cells are to be measured and how many are finished.
    tell : callable, optional
        Told now and then how far a cell is.
    finished : callable, optional
        Told of each cell, with an empty text or why it failed.

    Returns
    -------
    Report
        What has been found; it is not written yet.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C; what is finished is kept.
    """
    sizes = check_sizes(links)
    check_count("repeats", repeats)
    out = Path(out)
    cells = plan(
        sizes,
        disk_from=int(disk_from),
        peers=peers,
        peers_up_to=int(peers_up_to),
        seed=seed,
        repeats=repeats,
        threads=jobs or default_threads(),
    )
    on_disk = [cell.links for cell in cells if cell.kind == "stream"]
    if on_disk and importlib.util.find_spec("duckdb") is None:
        raise MissingExtraError("duckdb", "big")
    out.mkdir(exist_ok=True)
    failures: dict[Cell, str] = {}
    with Journal(out / JOURNAL, fresh) as journal:
        if fresh:
            shutil.rmtree(out / "data", ignore_errors=True)
        missing = [cell for cell in cells if cell.key not in journal.records]
        _check_room(out, [cell.links for cell in missing if cell.kind == "stream"])
        if begin:
            begin(missing, len(cells) - len(missing))
        for size, asked in groupby(missing, key=lambda cell: cell.links):
            folder = out / "data" / f"{size}-{seed}"
            _measure_size(list(asked), folder, journal, failures, tell, finished)
            # What has failed is tried again by the next run, with the same data.
            if not keep_data and not any(cell.links == size for cell in failures):
                shutil.rmtree(folder, ignore_errors=True)
        if not keep_data and (out / "data").is_dir() and not any((out / "data").iterdir()):
            (out / "data").rmdir()
        return Report.of(cells, journal.records, failures, peers=peers)


def check_sizes(links: Iterable[float]) -> list[int]:
    """Return the sizes as integers, smallest first; raise an error where one is too small."""
    sizes = sorted({int(size) for size in links})
    if not sizes:
        raise InputError("give at least one number of links")
    if sizes[0] < FEWEST:
        raise InputError(f"graphs of {sizes[0]} links are too small: give at least {FEWEST}")
    return sizes


def run_process(cell: Cell, folder: Path, tell: Callable[[str], None]) -> Record:
    """Measure a cell in a new process and return its record.

    Raises
    ------
    RuntimeError
        Where it ended without one; the message is the last line that it has printed.
    """
    order = {"cell": asdict(cell), "folder": str(folder), "parent": os.getpid()}
    command = [sys.executable, "-m", "nodeproof.bench.measuring", json.dumps(order)]
    names = ("OMP", "MKL", "OPENBLAS", "NUMBA")
    settings = {f"{name}_NUM_THREADS": str(cell.threads) for name in names}
    record: Record | None = None
    with (
        tempfile.TemporaryFile() as printed,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=printed, env={**os.environ, **settings}
        ) as process,
    ):
        assert process.stdout is not None
        try:
            for line in process.stdout:
                news = json.loads(line)
                record = news.get("record", record)
                if "news" in news:
                    tell(news["news"])
        except BaseException:
            process.kill()
            raise
        code = process.wait()
        if code or record is None:
            printed.seek(0)
            raise _MeasuringError(_reason(code, printed.read().decode(errors="replace")))
    return record


def _measure_size(
    asked: list[Cell],
    folder: Path,
    journal: Journal,
    failures: dict[Cell, str],
    tell: Callable[[Cell, str], None] | None,
    finished: Callable[[Cell, str], None] | None,
) -> None:
    """Measure the cells of one size; what fails is noted, and the others go on."""

    def run(cell: Cell) -> Record:
        if tell:
            tell(cell, "")
        return run_process(cell, folder, lambda text: tell(cell, text) if tell else None)

    steps = preparations(asked[0])
    if any(_marked(step, folder) is False for step in steps):
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for step in steps:
            if not _marked(step, folder):
                journal.add(step.key, run(step))
                with atomic_path(_marker(step, folder)) as temporary:
                    temporary.write_text(step.key, encoding="utf-8")
    except _MeasuringError as error:
        for cell in asked:
            failures[cell] = str(error)
            if finished:
                finished(cell, failures[cell])
        return
    for cell in asked:
        try:
            journal.add(cell.key, run(cell))
        except _MeasuringError as error:
            failures[cell] = str(error)
        if finished:
            finished(cell, failures.get(cell, ""))


def _marker(step: Cell, folder: Path) -> Path:
    return folder / f"{step.kind}.json"


def _marked(step: Cell, folder: Path) -> bool | None:
    """Tell whether the data are there; false if other code has made them, None if nothing has."""
    marker = _marker(step, folder)
    return marker.read_text(encoding="utf-8") == step.key if marker.is_file() else None


def _check_room(out: Path, sizes: list[int]) -> None:
    free = shutil.disk_usage(out).free
    for size in sizes:
        needed = _LEAST_ON_DISK * size
        if needed > free:
            raise InputError(
                f"{size:.0e} links need {needed / 1e9:.0f} GB of disk or more, and {out} has "
                f"{free / 1e9:.0f} GB; give another --out, or fewer links"
            )


def _reason(code: int, printed: str) -> str:
    if code < 0:
        name = signal.Signals(-code).name
        return f"ended by {name}" + (" (out of memory?)" if -code == signal.SIGKILL else "")
    lines = printed.strip().splitlines()
    return lines[-1] if lines else f"ended with code {code} and without a word"
