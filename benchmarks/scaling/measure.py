"""Measure one cell, in a process that does nothing else."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof import NodeClassifier
from nodeproof.solvers import Progress
from nodeproof.solvers.memberships import LocalMemberships
from nodeproof.storage.journal import Record
from processes import PeakMemory, Tell, answer
from scaling.cells import Cell
from scaling.data import Data, K, draw, load, load_truth, pass_over, planted, told_by_genie
from scaling.peers import PEERS

__all__ = ["SMALL", "Fit", "judge", "measure", "seconds_of"]

#: links of the graph that a first fit compiles for
SMALL = 10_000

#: folder of the data in memory, in the folder of their size
DATA = "data"

# A peer that has taken this many seconds is not repeated.
_PATIENCE = 30.0


def measure(cell: Cell, folder: Path, tell: Tell) -> Record:
    """Measure a cell in this process and return its record, ready for JSON.

    Parameters
    ----------
    cell : Cell
        The measurement.
    folder : path
        Existing folder for the data of its size.
    tell : callable
        Called now and then with a short text on the progress.
    """
    with warnings.catch_warnings():
        # How a fit ended is in the record.
        warnings.simplefilter("ignore")
        if cell.kind in ("write", "convert", "stream"):
            from scaling import on_disk

            return on_disk.MEASURES[cell.kind](cell, folder, tell)
        return {"draw": _draw, "fit": _fit, "peer": _peer}[cell.kind](cell, folder, tell)


def _draw(cell: Cell, folder: Path, tell: Tell) -> Record:
    began = time.perf_counter()
    record = draw(cell.links, cell.seed, folder / DATA)
    return {**record, "seconds": time.perf_counter() - began}


def _fit(cell: Cell, folder: Path, tell: Tell) -> Record:
    tell("compiling")
    compiled = _compile(cell.name)
    with PeakMemory() as memory:
        data = load(folder / DATA, cell.name)
        first = Fit(data.graph, data.X, data.y)
    M = np.random.default_rng(0).random((len(data.y), K), dtype=np.float32)
    fits, products, passes = [first], [], []
    for number in range(1, cell.repeats + 1):
        tell(f"round {number} of {cell.repeats}")
        if number > 1:
            fits.append(Fit(data.graph, data.X, data.y))
        products += [seconds_of(lambda: data.graph @ M) for _ in range(3)]
        passes += [seconds_of(lambda: pass_over(data.graph.indices)) for _ in range(3)]
    truth = load_truth(folder / DATA)
    return {
        "compiled": compiled,
        "nodes": len(data.y),
        "seconds": min(fit.seconds for fit in fits),
        "product": min(products),
        "pass": min(passes),
        "sweep": min(fit.sweep for fit in fits),
        "sweeps": first.n_iter,
        "starts": first.starts,
        "chosen": first.chosen,
        "status": first.status,
        **judge(first.labels, truth, data.y),
        "genie": told_by_genie(folder / DATA, cell.name),
        "peak": memory.peak,
        "input": data.nbytes,
    }


def _peer(cell: Cell, folder: Path, tell: Tell) -> Record:
    peer = PEERS[cell.name]
    tell("a first fit on a small graph")
    small = planted(SMALL, cell.seed)
    compiled = seconds_of(lambda: peer.fit(Data(small.graph, small.X.astype(np.float32), small.y)))
    with PeakMemory() as memory:
        data = load(folder / DATA, peer.sources)
        began = time.perf_counter()
        found = peer.fit(data)
        spent = time.perf_counter() - began
    M = np.random.default_rng(0).random((len(data.y), K), dtype=np.float32)
    fits, products = [spent if found.seconds is None else found.seconds], []
    for number in range(1, cell.repeats + 1):
        tell(f"round {number} of {cell.repeats}")
        if number > 1 and spent < _PATIENCE:
            began = time.perf_counter()
            again = peer.fit(data)
            took = time.perf_counter() - began
            fits.append(took if again.seconds is None else again.seconds)
            spent += took
        products += [seconds_of(lambda: data.graph @ M) for _ in range(3)]
    record = {
        "compiled": compiled,
        "nodes": len(data.y),
        "seconds": min(fits),
        "product": min(products),
        "peak": memory.peak,
        "input": data.nbytes,
    }
    if found.labels is not None:
        record |= judge(found.labels, load_truth(folder / DATA), data.y)
    return record


def _compile(sources: str) -> float:
    """Fit a small graph of the same kind, which compiles; return the seconds it takes."""
    small = planted(SMALL, 0)
    X = small.X.astype(np.float32) if "F" in sources else None
    pass_over(small.graph.indices)
    return Fit(small.graph, X, small.y).seconds


class Fit:
    """One fit with default settings, timed as a whole and per sweep.

    Attributes
    ----------
    seconds : float
        Duration of the whole fit.
    sweep : float
        The median time of a sweep over the whole graph.
    n_iter, status : int, str
        Number of sweeps over the whole graph, those that settings are chosen by included; how the
        final solve ended.
    starts : int
        Number of starts.
    chosen : list of str
        Names of the automatic choices, some of which need cross-fitted models.
    labels : ndarray of shape (n,)
        Predicted classes.
    """

    def __init__(self, graph: Any, X: Any, y: Any, callback: Any = None) -> None:
        self.starts = 0

        def mark(progress: Progress) -> None:
            self.starts = progress.n_runs

        clf = NodeClassifier(n_classes=K, random_state=0, verbose=mark)
        with SweepTimes(len(y), callback) as sweeps:
            began = time.perf_counter()
            clf.fit(X, y, graph=graph)
            self.seconds = time.perf_counter() - began
        self.sweep = float(np.median(sweeps.seconds))
        self.n_iter = len(sweeps.seconds)
        self.status = str(clf.status_)
        self.chosen = sorted(clf.choices_)
        self.labels: NDArray[Any] = clf.labels_


class SweepTimes:
    """The durations of sweeps over graphs of `n_nodes` nodes while it is entered."""

    def __init__(self, n_nodes: int, callback: Callable[[int], None] | None = None) -> None:
        self.n_nodes, self.callback = n_nodes, callback
        self.seconds: list[float] = []

    def __enter__(self) -> SweepTimes:
        self._sweep = sweep = LocalMemberships.sweep

        def timed(memberships: LocalMemberships, *args: Any, **options: Any) -> Any:
            began = time.perf_counter()
            found = sweep(memberships, *args, **options)
            if memberships.problem.n_nodes == self.n_nodes:
                self.seconds.append(time.perf_counter() - began)
                if self.callback is not None:
                    self.callback(len(self.seconds))
            return found

        LocalMemberships.sweep = timed  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        LocalMemberships.sweep = self._sweep  # type: ignore[method-assign]


def judge(labels: NDArray[Any], truth: NDArray[Any], y: NDArray[Any]) -> Record:
    """Return the accuracy at all nodes and at those without a label."""
    right = labels == truth
    return {"accuracy": float(right.mean()), "hidden": float(right[y < 0].mean())}


def seconds_of(work: Callable[[], object]) -> float:
    """Return the duration of some work."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _answer(order: dict[str, Any], tell: Tell) -> Record:
    return measure(Cell(**order["cell"]), Path(order["folder"]), tell)


if __name__ == "__main__":
    answer(_answer)
