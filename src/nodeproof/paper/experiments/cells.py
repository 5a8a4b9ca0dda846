"""Cells of the experiments: one method on one draw of planted data, and how they are run."""

from __future__ import annotations

import inspect
import json
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import nodeproof
from nodeproof import __version__
from nodeproof.datasets import Planted, make_planted
from nodeproof.metrics import matched_accuracy
from nodeproof.paper.experiments.methods import METHODS
from nodeproof.paper.experiments.recovery import Outcome
from nodeproof.runtime import threads
from nodeproof.storage.journal import JOURNAL, Journal, Record, source_digest

__all__ = ["Cell", "code_digest", "run", "run_cell"]

_DEFAULTS = {
    name: parameter.default
    for name, parameter in inspect.signature(make_planted).parameters.items()
    if name != "random_state"
}

# Changes to these packages cannot change a cell; of this one, only some modules compute cells.
_UNRELATED = ("app", "cli", "interop", "plot", "report", "saving", "tables")
_COMPUTING = ("cells.py", "methods.py", "recovery.py")


@dataclass(frozen=True)
class Cell:
    """One method on one draw of planted data.

    Cells are identified by what they compute, not by the panel that asks for them: two panels that
    share a grid point share its cells.

    Parameters
    ----------
    method : str
        Name in `METHODS`.
    sources : str
        What the method may use: letters of "G", "F" and "L".
    seed : int
        Seed of the data and of the method.
    data : mapping
        Arguments of `make_planted` that differ from the paper's defaults.
    options : mapping
        Arguments of the method.

    Examples
    --------
    >>> from nodeproof.paper.experiments import Cell, run_cell
    >>> cell = Cell("calibrated", "GFL", seed=0, data={"cluster_size": 50, "p": 0.3})
    >>> run_cell(cell)["accuracy"]
    1.0
    """

    method: str
    sources: str
    seed: int
    data: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """Every argument of `make_planted`, defaults included."""
        return {**_DEFAULTS, **self.data}

    @property
    def key(self) -> str:
        """What the cell computes, with which code, as one line of JSON."""
        described = {
            "version": __version__,
            "code": code_digest(),
            "method": self.method,
            "sources": self.sources,
            "seed": self.seed,
            "data": self.settings,
            "options": dict(self.options),
        }
        return json.dumps(described, sort_keys=True, default=list)

    @property
    def data_key(self) -> str:
        """The parameters of the data, as one line of JSON."""
        return json.dumps([self.settings, self.seed], sort_keys=True, default=list)

    @property
    def work(self) -> float:
        """A rough measure of the time it takes: 1 for the paper's default data."""
        asked = self.settings
        K = asked["n_clusters"]
        sizes = np.broadcast_to(asked["cluster_size"], K).astype(float)
        n = float(sizes.sum())
        inside = float((sizes**2).sum())
        links = asked["p"] * inside + asked["q"] * (n * n - inside)
        # The exponent is measured: small graphs get several starts, large ones a single one.
        return 0.1 + float((10 * n + links) * K / 195_000) ** 0.65


@cache
def code_digest(root: Path = Path(nodeproof.__file__).parent) -> str:
    """Return a digest of the source code, below this folder, that cells are computed with.

    It is part of a cell's key: a record of other code, released or not, is never reused.
    """

    def computes(place: Path) -> bool:
        if place.parts[:2] == ("paper", "experiments"):
            return place.name in _COMPUTING
        return place.parts[0] not in _UNRELATED

    return source_digest((p for p in root.rglob("*.py") if computes(p.relative_to(root))), root)


def run_cell(cell: Cell) -> Record:
    """Run one cell and return its record, ready for JSON.

    ``accuracy`` is that of the nodes without a label; by the names of the classes if the method was
    given labels, else up to renaming them. ``matched`` is always up to renaming. Both are None for
    a method that labels no node; ``answers`` are present if the method gives any.
    """
    data = _draw(cell.data_key)
    method = METHODS[cell.method]
    with warnings.catch_warnings(), threads.using(1):
        # How a fit ended is in the record.
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        outcome = method.run(data, cell.sources, cell.seed, **cell.options)
        seconds = time.perf_counter() - began
    accuracy, matched = _accuracies(data, outcome)
    record: Record = {
        "accuracy": accuracy,
        "matched": matched,
        "n_iter": outcome.n_iter,
        "status": outcome.status,
        "objective": outcome.objective,
        "seconds": round(seconds, 4),
    }
    if outcome.trace:
        record["trace"] = outcome.trace
        record["times"] = outcome.times
    if outcome.answers:
        record["answers"] = dict(outcome.answers)
    return record


def _accuracies(data: Planted, outcome: Outcome) -> tuple[float, float] | tuple[None, None]:
    if outcome.labels is None:
        return None, None
    hidden = data.y < 0
    if not hidden.any():
        hidden = ~hidden
    named = float(np.mean(outcome.labels[hidden] == data.y_true[hidden]))
    matched = float(matched_accuracy(data.y_true[hidden], outcome.labels[hidden]))
    return named if outcome.named else matched, matched


@lru_cache(maxsize=2)
def _draw(key: str) -> Planted:
    """Draw the data of a cell; neighbouring cells mostly share them."""
    settings, seed = json.loads(key)
    return make_planted(**settings, random_state=seed)


def run(
    cells: Iterable[Cell],
    out: Path,
    *,
    jobs: int = -1,
    fresh: bool = False,
    begin: Callable[[list[Cell], int], None] | None = None,
    finished: Callable[[Cell], None] | None = None,
) -> dict[str, Record]:
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
        Whether to discard what an earlier run has finished.
    begin : callable, optional
        Called before the work with the cells to be run and the number of finished ones.
    finished : callable, optional
        Called with each cell that was run.

    Returns
    -------
    dict
        Every record in the folder, by the key of its cell.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C; finished cells are kept.

    Examples
    --------
    >>> import tempfile
    >>> from nodeproof.paper.experiments import Cell, run
    >>> cells = [Cell("genie", "G", seed, {"cluster_size": 20}) for seed in range(3)]
    >>> ran = []
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for wanted in (cells[:2], cells):
    ...         records = run(wanted, Path(folder), jobs=1, finished=ran.append)
    >>> [cell.seed for cell in ran], len(records)
    ([0, 1, 2], 3)
    """
    wanted = {cell.key: cell for cell in cells}
    with Journal(out / JOURNAL, fresh) as journal:
        missing = journal.missing(wanted.values())
        if begin:
            begin(missing, len(wanted) - len(missing))
        # Heavy cells first, so that no core is left alone with one at the end; cells of the
        # same data together, so that these are drawn once.
        missing.sort(key=lambda cell: (-cell.work, cell.data_key))
        report = (lambda cell, _: finished(cell)) if finished else None
        journal.run(missing, run_cell, jobs=jobs, finished=report)
        return journal.records
